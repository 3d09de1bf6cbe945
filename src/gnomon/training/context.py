"""How a fit runs: threads, progress, checkpoints. Never what it learns."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from gnomon.errors import UserTypeError, UserValueError, nearest
from gnomon.numeric.threads import at_most, controller
from gnomon.training.progress import compilation_shown

__all__ = ["Context", "context", "current", "limited"]


Precision = Literal["float32", "bfloat16"]
Backend = Literal["auto", "torch"]


@dataclass(frozen=True)
class Context:
    """How fits are carried out; immutable.

    Parameters
    ----------
    threads : int in [1, inf) or None
        Threads of torch, matrix products and compiled loops; None leaves what the libraries chose. Sums of another
        number of threads may differ in the last bit.
    verbose : bool, default False
        Progress on standard error, once a fit has taken longer than a second.
    callbacks : tuple of callables
        Each is called with (step, record) whenever a record joins the history.
    checkpoint_every : int in [1, inf) or None
        Steps between checkpoints; None: about every ten seconds. The result does not depend on it.
    device : str or None, default None
        Where networks and what else learns by gradient compute, in torch's words: "cpu", "cuda", "cuda:1", "mps". None
        is the CPU.
    precision : {"float32", "bfloat16"}, default "float32"
        Of the products within a network while it trains: "bfloat16" is torch's autocast; parameters, losses and
        gradients keep their own precision, and so does what a fitted system answers.
    micro_batch : int in [1, inf) or None, default None
        Rows of a batch that fits by gradient compute at once: their gradients are summed before the update, in the
        memory of so many rows (gradient accumulation). Where no layer looks at several rows the fit is the same to
        rounding; batch normalization takes the statistics of each piece. None computes whole batches.
    backend : {"auto", "torch"}, default "auto"
        "auto" takes compiled code on the CPU and torch elsewhere; "torch" takes torch everywhere, so that the way of
        other devices is walked on the CPU, with the same numbers to rounding.
    monitor : bool, default False
        Fits by gradient count activations, gradients and sizes of updates (`gnomon.training.monitor`), once an epoch
        into ``monitor.jsonl`` of their run, and as ``monitor`` in the records that callbacks are given.

    Raises
    ------
    UserTypeError, UserValueError
        An option of another kind or size.
    """

    threads: int | None = None
    verbose: bool = False
    callbacks: tuple[Callable[[int, Mapping[str, Any]], None], ...] = ()
    checkpoint_every: int | None = None
    device: str | None = None
    precision: Precision = "float32"
    micro_batch: int | None = None
    backend: Backend = "auto"
    monitor: bool = False

    def __post_init__(self) -> None:
        for name in ("threads", "checkpoint_every", "micro_batch"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise UserTypeError(f"{name} must be a whole number or None, got {value!r}", "context")
            if value < 1:
                raise UserValueError(f"{name} must be at least 1, got {value}", "context")
        for name, flag in (("verbose", self.verbose), ("monitor", self.monitor)):
            if not isinstance(flag, bool):
                raise UserTypeError(f"{name} must be True or False, got {flag!r}", "context")
        if not isinstance(self.callbacks, tuple | list) or not all(map(callable, self.callbacks)):
            raise UserTypeError(f"callbacks must be a tuple of functions, got {self.callbacks!r}", "context")

        for name, choices in (("precision", get_args(Precision)), ("backend", get_args(Backend))):
            if getattr(self, name) not in choices:
                what = f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                raise UserValueError(what, "context", "choose one of them")
        if self.device is not None:
            _check_device(self.device)


def _check_device(device: str) -> None:
    """Refuse what is no device of torch, or is not there."""
    if device == "cpu":
        return
    import torch

    try:
        there = torch.empty(0, device=device).device.type != "meta"  # whose arrays hold nothing
    except (RuntimeError, AssertionError, TypeError, ValueError, NotImplementedError):
        there = False
    if not there:
        what = f"be {' or '.join(_devices())}"
        raise UserValueError.must("device", what, device, remedy="torch finds no other device here")


def _devices() -> list[str]:
    """Devices that torch can compute on here."""
    import torch

    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    others = [] if found is None else [f"{found.type}:{i}" for i in range(torch.accelerator.device_count())]
    return ["cpu", *others]


_DEFAULT = Context()
_current: ContextVar[Context | None] = ContextVar("gnomon_context", default=None)


def current() -> Context:
    """The context in force."""
    return _current.get() or _DEFAULT


@contextlib.contextmanager
def context(**changes: Any) -> Iterator[Context]:
    """Fit with other options: ``with gnomon.context(verbose=True): ...``.

    Raises
    ------
    UserTypeError
        A name that is no option.

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
            raise UserTypeError(f"unknown option {name!r}", "context", f"known: {', '.join(close)}")
    before = current().verbose
    token = _current.set(replace(current(), **changes))
    try:
        with compilation_shown(enabled=current().verbose and not before):
            yield current()
    finally:
        _current.reset(token)


@contextlib.contextmanager
def limited(threads: int | None, *, torch_alone: bool = False) -> Iterator[None]:
    """Give torch and the BLAS libraries this many threads for a while; None leaves what they chose.

    With `torch_alone` torch keeps to one thread whatever happens: two pools of threads that take turns in one loop spin
    against each other, and a product beside them takes ten times as long (docs/decisions/0003).
    """
    if threads is not None and threads < 1:
        raise UserValueError(f"threads must be at least 1, got {threads}", "context")
    torch = sys.modules.get("torch")  # a fit that has not loaded it has no use for it
    if threads is None and (torch is None or not torch_alone):
        yield
        return
    before = torch.get_num_threads() if torch else None
    try:
        with at_most(threads), controller().limit(limits=threads) if threads else contextlib.nullcontext():
            if torch:  # after the limits, which reach its pool too
                torch.set_num_threads(1 if torch_alone else threads or before)
            yield
    finally:
        if torch:
            torch.set_num_threads(before)
