"""How long a command has been at work, on a terminal, while it says nothing else."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Waiting", "undisturbed", "waiting"]

SILENT_SECONDS, BETWEEN_SECONDS = 1.0, 0.5

_now: Waiting | None = None


class Waiting:
    """A line on standard error that is rewritten twice a second by a thread of its own.

    Parameters
    ----------
    name : str
        What is at work.
    silent, between : float
        Seconds until the line is there, and until it is written again.
    """

    def __init__(self, name: str, silent: float = SILENT_SECONDS, between: float = BETWEEN_SECONDS) -> None:
        self.name, self.silent, self.between = name, silent, between
        self.begun, self.open = time.monotonic(), False
        self.lock, self.ended = threading.RLock(), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        pause = self.silent
        while not self.ended.wait(pause):
            pause = self.between
            with self.lock:
                if not self.ended.is_set():
                    self.open = True
                    sys.stderr.write(f"\r\x1b[K{self.name}: {time.monotonic() - self.begun:.0f} s so far")
                    sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self.open:
            self.open = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def end(self) -> None:
        """Write no more."""
        self.ended.set()
        with self.lock:
            self.clear()


@contextmanager
def waiting(name: str) -> Iterator[None]:
    """Within the block say on a terminal, after a second, for how long it has been at work."""
    global _now
    if not sys.stderr.isatty():
        yield
        return
    _now = Waiting(name)
    _now.thread.start()
    try:
        yield
    finally:
        _now.end()
        _now = None


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within the block something else is written: the line is taken away before, and not written in between."""
    line = _now
    if line is None:
        yield
        return
    with line.lock:
        line.clear()
        yield
