"""Where and how a fit runs: device, threads, progress, checkpoints. Never what it learns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

from gnomon.errors import UserTypeError, nearest

__all__ = ["Context", "context", "current"]


@dataclass(frozen=True)
class Context:
    """The circumstances of a fit; immutable.

    Parameters
    ----------
    device : str, default "cpu"
        Torch's name of the device that holds model and data.
    threads : int or None
        Threads of the matrix products; None leaves what the libraries chose.
    verbose : bool, default False
        Progress on standard error, once a fit has taken longer than a second.
    callbacks : tuple of callables
        Each is called with (step, record) whenever a record joins the history.
    checkpoint_every : int or None
        Steps between checkpoints; None: about every ten seconds. The result does not depend on it.
    """

    device: str = "cpu"
    threads: int | None = None
    verbose: bool = False
    callbacks: tuple[Callable[[int, Mapping[str, Any]], None], ...] = ()
    checkpoint_every: int | None = None


_current: ContextVar[Context | None] = ContextVar("gnomon_context", default=None)


def current() -> Context:
    """The context in force."""
    return _current.get() or Context()


@contextlib.contextmanager
def context(**changes: Any) -> Iterator[Context]:
    """Fit under other circumstances: ``with gnomon.context(verbose=True): ...``.

    Raises
    ------
    UserTypeError
        A name that is no circumstance.

    Examples
    --------
    >>> with context(checkpoint_every=10) as c:
    ...     current().checkpoint_every
    10
    """
    known = [field.name for field in fields(Context)]
    for name in changes:
        if name not in known:
            close = nearest(name, known) or known
            raise UserTypeError(f"unknown circumstance {name!r}", "context", f"known: {', '.join(close)}")
    token = _current.set(replace(current(), **changes))
    try:
        yield current()
    finally:
        _current.reset(token)
