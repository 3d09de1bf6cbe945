"""Processor time of this process, without the compilation of kernels."""

from __future__ import annotations

import time
from typing import Any, Self

import numba.core.event as events


class Computing:
    """A context whose `seconds`, once it has ended, are those that were not spent compiling."""

    seconds = 0.0

    def __enter__(self) -> Self:
        self._compilation, self._begun = CompilationTime(), time.process_time()
        events.register("numba:compile", self._compilation)
        return self

    def __exit__(self, *_: object) -> None:
        events.unregister("numba:compile", self._compilation)
        self.seconds = time.process_time() - self._begun - self._compilation.seconds


class CompilationTime(events.Listener):
    """Processor time that numba has spent compiling."""

    def __init__(self) -> None:
        self.seconds, self.depth, self.begun = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        """A compilation begins, maybe inside another one."""
        if not self.depth:
            self.begun = time.process_time()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        """A compilation has ended."""
        self.depth -= 1
        if not self.depth:
            self.seconds += time.process_time() - self.begun
