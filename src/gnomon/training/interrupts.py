"""Ctrl-C, answered once the step under way is complete, or at once where the step is a library's whole fit."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

import sklearn

from gnomon.numeric.threads import controller
from gnomon.training.progress import still_at_work

__all__ = ["answered", "interruptible"]

LOOK_SECONDS = 0.1
"""How often a library's work is looked after."""
INTERRUPTED = 130
"""Exit status after Ctrl-C."""
LEAVE_SECONDS = 1.0
"""How long an interrupted work is waited for; compiled code may not look up before its end."""

Result = TypeVar("Result")


def answered(work: Callable[[], Result], reached: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> Result:
    """What long work in a library gives; while it is under way, Ctrl-C is answered and progress shown.

    The work runs in a thread of its own, as it would here: context variables, numbers of threads and scikit-learn's
    settings are the caller's. After Ctrl-C it is told to end; where it is deep in compiled code it does so once that
    returns, or with the process.

    Parameters
    ----------
    work : callable
    reached : callable, optional
        How much of the work is done, of how much, asked while it is under way; (0, 0) where that is not known.

    Examples
    --------
    >>> answered(lambda: sum(range(4)))
    6
    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # signals never come here
    here, settings = copy_context(), sklearn.get_config()
    pools = [(pool, pool.num_threads) for pool in controller().lib_controllers if pool.user_api == "openmp"]
    results: list[Result] = []
    failures: list[BaseException] = []
    ended = threading.Event()  # Thread.join takes an interrupted wait for the end of the thread

    def carry_out() -> None:
        try:
            for pool, threads in pools:  # each thread has a number of its own
                pool.set_num_threads(threads)
            with sklearn.config_context(**settings):
                results.append(here.run(work))
        except BaseException as error:
            failures.append(error)
        ended.set()

    worker = threading.Thread(target=carry_out, name="gnomon library", daemon=True)
    try:
        worker.start()
        while not ended.wait(LOOK_SECONDS):
            still_at_work(*reached())
    except BaseException:
        if worker.ident is not None and not ended.is_set():
            _interrupt(worker.ident)
            if not ended.wait(LEAVE_SECONDS):
                _end_with_process(ended)
        raise
    if failures:
        raise failures[0]
    return results[0]


def _interrupt(thread: int) -> None:
    """Raise KeyboardInterrupt in a thread, as Ctrl-C would have."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))


def _end_with_process(ended: threading.Event) -> None:
    """End the process, when it comes to that, without what compiled code in another thread would crash on."""

    def at_exit() -> None:
        if ended.is_set():
            return
        atexit.unregister(at_exit)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(INTERRUPTED)

    atexit.register(at_exit)


@contextmanager
def interruptible(wanted: bool) -> Iterator[list[bool]]:
    """A list that turns true after Ctrl-C; a second Ctrl-C interrupts at once."""
    requested: list[bool] = []
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield requested
        return
    before = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: Any) -> None:
        if requested and callable(before):
            before(number, frame)
        requested.append(True)

    signal.signal(signal.SIGINT, ask)
    try:
        yield requested
    finally:
        signal.signal(signal.SIGINT, before)
