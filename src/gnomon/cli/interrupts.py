"""Ctrl-C while libraries are loaded or compile: held back until they are done."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["held_back_in_loading"]

PATIENT = {"importlib", "_frozen_importlib", "_frozen_importlib_external", "numba", "llvmlite"}
"""Packages whose code must not be interrupted."""

AGAIN = 0.05
"""Seconds until an interruption that was held back is tried again."""


@contextmanager
def held_back_in_loading() -> Iterator[None]:
    """Within the block an interruption waits for the import, or the compilation, that it falls into.

    The initialization of a compiled module that is interrupted half-way fails in ways of its own: as an ImportError, or
    by ending the process; a callback of the compiler swallows the interruption.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _loads(frame):
        raise KeyboardInterrupt
    timer = threading.Timer(AGAIN, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


def _loads(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in PATIENT:
            return True
        frame = frame.f_back
    return False
