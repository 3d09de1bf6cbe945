"""A command that is at work for more than a second says so on a terminal, and leaves nothing behind."""

import io
import sys
import time

import pytest

from gnomon.cli import output, waiting
from gnomon.cli.main import VERBS, WAITED_FOR


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """What makes standard error a terminal; called in the test, since pytest sets it anew after its fixtures."""

    def begun(seconds=0.02):
        found = Terminal()
        monkeypatch.setattr(sys, "stderr", found)
        monkeypatch.setattr(waiting.Waiting.__init__, "__defaults__", (seconds, seconds))
        return found

    return begun


def test_it_says_for_how_long_and_takes_it_back(terminal):
    found = terminal()
    with waiting.waiting("gnomon evaluate"):
        time.sleep(0.3)
        output.note("notice: more")
    text = found.getvalue()
    assert "gnomon evaluate: 0 s so far" in text
    assert "so far\r\x1b[Kgnomon: notice: more\n" in text  # never on one line with something else
    assert text.endswith(("\r\x1b[K", "more\n"))


def test_what_is_quick_says_nothing(terminal):
    found = terminal(60.0)
    with waiting.waiting("gnomon evaluate"):
        output.note("notice: more")
    assert found.getvalue() == "gnomon: notice: more\n"


def test_a_pipe_is_no_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with waiting.waiting("gnomon evaluate"):
        assert waiting._now is None
    assert set(WAITED_FOR) <= set(VERBS)


def test_an_error_ends_it(terminal):
    found = terminal()
    with pytest.raises(KeyboardInterrupt), waiting.waiting("gnomon report"):
        time.sleep(0.1)
        raise KeyboardInterrupt
    length = len(found.getvalue())
    time.sleep(0.1)
    assert len(found.getvalue()) == length and waiting._now is None
