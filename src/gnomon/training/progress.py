"""Progress on standard error: one line, rewritten in a terminal, now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import TracebackType
from typing import Any

__all__ = ["Progress", "announced_as", "compilation_shown", "count_ended", "still_at_work"]

SILENT_SECONDS = 1.0
BETWEEN_SECONDS = {True: 0.2, False: 10.0}

_name: ContextVar[str] = ContextVar("progress_name", default="")
_line: ContextVar[Progress | None] = ContextVar("progress_line", default=None)


class Progress:
    """Shows the last record of a fit that takes longer than a second, and how long it may still take.

    Parameters
    ----------
    enabled : bool
        Whether anything is shown at all.
    name : str, default ""
        What is fitted, where `announced_as` says nothing else.
    """

    def __init__(self, *, enabled: bool, name: str = "") -> None:
        self.enabled = enabled
        self.name = _name.get() or name
        self.terminal = enabled and sys.stderr.isatty()
        self.begun = self.paced = time.monotonic()
        self.next = self.begun + SILENT_SECONDS
        self.first: float | None = None
        self.total = 0
        self.open = False
        self.outer: Progress | None = None
        self.last: Mapping[str, float] = {}

    def __enter__(self) -> Progress:
        self.outer = None if self.enabled else _line.get()
        self.token = _line.set(self if self.outer is None else self.outer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _line.reset(self.token)
        if self.open and self.terminal:
            sys.stderr.write("\n")

    def expect(self, total: int | None) -> None:
        """The fit ends with step `total` at the latest, where that is known."""
        self.total, self.begun = total or 0, time.monotonic()

    def show(self, record: Mapping[str, float]) -> None:
        """Show a record if it is time to."""
        self.last = record
        self._time_from(record.get("step"))
        if self.outer is not None:
            self.outer.wait()  # a silent fit within one that is shown: of a member, say
        if not self._due():
            return
        self._write("  ".join(f"{name} {value:.6g}" for name, value in record.items()) + self._left(record))

    def step(self, number: int) -> None:
        """A step without a record has ended: show its number beside the last record if it is time to."""
        self._time_from(number)
        if self.outer is not None or self._due():
            self.show({**self.last, "step": number})

    def wait(self, done: int = 0, total: int = 0) -> None:
        """One long step is under way: show for how long, and how much of it is done where that is known."""
        if not self._due():
            return
        so_far = f"{time.monotonic() - self.begun:.0f} s so far"
        if 0 < done < total:
            seconds = (time.monotonic() - self.begun) / done * (total - done)
            self._write(f"{done} of {total}  {so_far}  at most {duration(seconds)} left")
            return
        self._write("  ".join(filter(None, [self._reached(), so_far])) + self._left(self.last))

    def _reached(self) -> str:
        """Steps that are done, of how many."""
        done = int(self.last.get("step", 0))
        return f"step {done} of {self.total}" if done and self.total else ""

    def _due(self) -> bool:
        return self.enabled and time.monotonic() >= self.next

    def _time_from(self, number: float | None) -> None:
        """The pace is taken from the end of the first step on: that one may have waited for kernels to compile."""
        if self.first is None and number is not None:
            self.first, self.paced = number, time.monotonic()

    def _left(self, record: Mapping[str, float]) -> str:
        """How long the steps that remain take at the pace so far: less, where a fit may end early."""
        number = record.get("step", 0)
        if self.first is None or number <= self.first or not self.total:
            return ""
        each = (time.monotonic() - self.paced) / (number - self.first)
        return f"  at most {duration(each * (self.total - number))} left"

    def _write(self, text: str) -> None:
        self.next = time.monotonic() + BETWEEN_SECONDS[self.terminal]
        self.open = True
        text = f"{self.name}: {text}" if self.name else text
        sys.stderr.write(f"\r\x1b[K{text}" if self.terminal else f"{text}\n")
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Examples
    --------
    >>> duration(0.4), duration(75), duration(7300)
    ('1 s', '1 min 15 s', '2 h 1 min')
    """
    whole = max(1, math.ceil(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def announced_as(name: str) -> Iterator[None]:
    """Lines of progress within the block begin with this name: that of a setting, or of one seed of several."""
    token = _name.set(name)
    try:
        yield
    finally:
        _name.reset(token)


def count_ended(text: str, done: int, total: int, seconds_left: float) -> None:
    """One of several pieces of work has ended: say which, how many are done, and how long the others may take.

    Parameters
    ----------
    text : str
        What has ended.
    done, total : int
    seconds_left : float
        0 where nothing is known of the others.
    """
    left = f"  about {duration(seconds_left)} left" if done < total and seconds_left else ""
    sys.stderr.write(f"{done} of {total}  {text}{left}\n")
    sys.stderr.flush()


def still_at_work(done: int = 0, total: int = 0) -> None:
    """Say that the step under way goes on, where progress is shown and it is time to.

    Parameters
    ----------
    done, total : int, default 0
        How much of it is done, of how much; 0 where that is not known.
    """
    line = _line.get()
    if line is not None:
        line.wait(done, total)


@contextmanager
def compilation_shown(*, enabled: bool) -> Iterator[None]:
    """Say once on standard error when numba compiles a kernel within the block.

    A kernel is compiled once per machine and read from numba's cache afterwards, so a first fit may take ten seconds
    longer than all others.

    Parameters
    ----------
    enabled : bool
        Whether anything is said at all.
    """
    if not enabled:
        yield
        return
    import numba.core.event as events

    class Notice(events.Listener):
        def on_start(self, event: Any) -> None:
            """A compilation begins."""
            _announce()

        def on_end(self, event: Any) -> None:
            """A compilation has ended."""

    with events.install_listener("numba:compile", Notice()):
        yield


@cache
def _announce() -> None:
    """Once in a process, however many fits it makes."""
    sys.stderr.write("compiling kernels (once on this machine) ...\n")
    sys.stderr.flush()
