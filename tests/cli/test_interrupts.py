"""Ctrl-C that falls into an import waits for its end; anywhere else it interrupts at once."""

import importlib
import signal
import sys
import time

import pytest

from gnomon.cli.interrupts import held_back_in_loading


@pytest.fixture(autouse=True)
def ordinary_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def wait():
    for _ in range(200):
        time.sleep(0.05)


def test_an_import_is_finished_first(tmp_path, monkeypatch):
    source = "import signal\nsignal.raise_signal(signal.SIGINT)\nfinished = True\n"
    (tmp_path / "loads_slowly.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with held_back_in_loading():
        module = importlib.import_module("loads_slowly")
        assert module.finished
        with pytest.raises(KeyboardInterrupt):
            wait()
    del sys.modules["loads_slowly"]


def test_elsewhere_it_interrupts_at_once_whatever_the_folder_is_called():
    with held_back_in_loading():
        code = compile("import signal\nsignal.raise_signal(signal.SIGINT)", "/home/numba/importlib/own.py", "exec")
        with pytest.raises(KeyboardInterrupt):
            exec(code, {"__name__": "own"})
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_compiler_is_not_interrupted():
    with held_back_in_loading():
        names = {"__name__": "llvmlite.binding"}
        exec(compile("import signal\nsignal.raise_signal(signal.SIGINT)\ndone = True", "ffi.py", "exec"), names)
        assert names["done"]
        with pytest.raises(KeyboardInterrupt):
            wait()
