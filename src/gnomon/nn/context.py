"""What training tells the layers of a network: noise, weights of the rows, the processes that train together.

A layer that does otherwise in training than in prediction is a `ContextLayer` and asks `current`; it passes nothing on,
so networks are written as torch's own, ``nn.Sequential`` among them. Outside of `training` every layer predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, Token
from types import TracebackType

import torch
from torch import nn

from gnomon.contracts import Group, Noise

__all__ = ["ContextLayer", "bind", "current", "predicting", "recomputed", "training"]

_current: ContextVar[training | None] = ContextVar("gnomon_training", default=None)


class training:
    """A forward pass that trains: ``with training(noise, weight, group): ...``.

    Parameters
    ----------
    noise : Noise
        By the rows' positions in the global batch. A layer draws from the child with its path in the network, and its
        calls within the pass are numbered, so that no two draws are the same.
    weight : tensor of shape (n,), optional
        Of the rows; 1 where left out.
    group : Group, optional
        The processes that train together; this one alone where left out.

    Examples
    --------
    >>> import torch
    >>> from gnomon.nn.dropout import Dropout
    >>> from gnomon.numeric.noise import Noise
    >>> net = torch.nn.Sequential(torch.nn.Identity(), Dropout(0.5))
    >>> x, _ = torch.ones(1, 8), bind(net)
    >>> with training(Noise(0, "fit")):
    ...     thinned = net(x)
    >>> bool((thinned == 0).any()), bool((net(x) == x).all())
    (True, True)
    """

    __slots__ = ("_calls", "_token", "again", "group", "noise", "weight")

    def __init__(self, noise: Noise, weight: torch.Tensor | None = None, group: Group | None = None) -> None:
        self.noise, self.weight, self.group = noise, weight, group
        self.again = False  # whether this is a pass that was made before: statistics are not to be kept twice
        self._calls: dict[str, int] = {}

    def __enter__(self) -> training:
        self._token: Token[training | None] = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._token)

    def repeated(self) -> training:
        """The same pass from here once more: the same draws, and nothing that is kept."""
        other = training(self.noise, self.weight, self.group)
        other.again, other._calls = True, dict(self._calls)
        return other

    def stream(self, path: str) -> tuple[Noise, int]:
        """The stream of the layer at this path, and the number of its draw."""
        draw = self._calls.get(path, 0)
        self._calls[path] = draw + 1
        return self.noise.child(path) if path else self.noise, draw


def current() -> training | None:
    """The forward pass under way if it trains; None in prediction."""
    return _current.get()


@contextmanager
def predicting() -> Iterator[None]:
    """A forward pass that predicts within one that trains."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


class ContextLayer(nn.Module):
    """Base of the layers that ask `current`."""

    path: str = ""
    """Place in the network, set by `bind`; the address of the layer's noise."""
    frozen: bool = False
    """Whether its parameters are not learned, so that what it counts of batches stays as it is too."""


def bind(network: nn.Module, prefix: str = "") -> int:
    """Tell every `ContextLayer` its path in the network, and how many there are.

    Parameters
    ----------
    network : nn.Module
    prefix : str, default ""
        Goes before the paths.
    """
    layers = [(path, layer) for path, layer in network.named_modules() if isinstance(layer, ContextLayer)]
    for path, layer in layers:
        layer.path = f"{prefix}{path}"
    return len(layers)


def recomputed(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    """What a function of tensors gives; in training it is computed again on the way back instead of kept.

    Gradients, draws and running statistics are those of the plain call. Kept are the inputs and the output alone, for
    the time of one more forward pass (gradient checkpointing; Chen, Xu, Zhang and Guestrin 2016).

    Parameters
    ----------
    function : callable
        Of layers and tensors; without effects but those of `ContextLayer`.
    *inputs : tensors

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> layer, x = nn.Sequential(nn.Tanh(), nn.Tanh()), torch.ones(2, requires_grad=True)
    >>> with training(Noise(0, "fit")):
    ...     recomputed(layer, x).sum().backward()
    >>> kept = x.grad
    >>> bool((kept == torch.autograd.grad(layer(x).sum(), x)[0]).all())
    True
    """
    now = current()
    if now is None or not torch.is_grad_enabled():
        return function(*inputs)
    from torch.utils.checkpoint import checkpoint

    later = now.repeated()
    given: torch.Tensor = checkpoint(
        function, *inputs, use_reentrant=False, preserve_rng_state=False, context_fn=lambda: (nullcontext(), later)
    )
    return given
