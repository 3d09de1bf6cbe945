"""Progress on standard error: one line, rewritten in a terminal, now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

__all__ = ["Progress", "compilation_shown"]

SILENT_SECONDS = 1.0
BETWEEN_SECONDS = {True: 0.2, False: 10.0}


class Progress:
    """Shows the last record of a fit that takes longer than a second.

    Parameters
    ----------
    enabled : bool
        Whether anything is shown at all.
    """

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self.terminal = enabled and sys.stderr.isatty()
        self.next = time.monotonic() + SILENT_SECONDS
        self.open = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.open and self.terminal:
            sys.stderr.write("\n")

    def show(self, record: Mapping[str, float]) -> None:
        """Show a record if it is time to."""
        now = time.monotonic()
        if not self.enabled or now < self.next:
            return
        self.next = now + BETWEEN_SECONDS[self.terminal]
        self.open = True
        text = "  ".join(f"{name} {value:.6g}" for name, value in record.items())
        sys.stderr.write(f"\r\x1b[K{text}" if self.terminal else f"{text}\n")
        sys.stderr.flush()


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
        announced = False

        def on_start(self, event: Any) -> None:
            """A compilation begins."""
            if not self.announced:
                sys.stderr.write("compiling kernels (once on this machine) ...\n")
                sys.stderr.flush()
            self.announced = True

        def on_end(self, event: Any) -> None:
            """A compilation has ended."""

    with events.install_listener("numba:compile", Notice()):
        yield
