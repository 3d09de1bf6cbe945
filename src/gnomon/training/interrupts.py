"""Ctrl-C, answered once the step under way is complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["interruptible"]


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
