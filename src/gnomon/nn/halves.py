"""Layers in two halves that may stand on two devices, and meet where a layer reads both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gnomon.errors import UserValueError

__all__ = ["Halves", "JoinedHalves", "places_of"]

Pair = tuple[torch.Tensor, torch.Tensor]


def places_of(text: str, *, strict: bool = True) -> tuple[torch.device, torch.device]:
    """The two devices that a text such as ``cuda:0+cuda:1`` names; both may be the same.

    Parameters
    ----------
    text : str
    strict : bool, default True
        Whether a device that is not there is refused; the processor takes its place otherwise, for networks that were
        made elsewhere.

    Raises
    ------
    UserValueError
        Not two names, or a device that is not there.

    Examples
    --------
    >>> places_of("cpu+cpu")
    (device(type='cpu'), device(type='cpu'))
    """
    names = text.split("+")
    if len(names) != 2:
        raise UserValueError.must("halves", "be two devices such as cuda:0+cuda:1", text)
    first, second = (_there(name.strip(), strict) for name in names)
    return first, second


def _there(name: str, strict: bool) -> torch.device:
    try:
        place = torch.device(name)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError, NotImplementedError):
        if not strict:
            return torch.device("cpu")
        raise _not_here(name) from None
    if place.type == "meta":  # it has shapes and no numbers
        raise _not_here(name)
    return place


def _not_here(name: str) -> UserValueError:
    return UserValueError(f"halves must be devices that are here, got {name!r}", "halves", "give cpu+cpu, or another")


class Halves(nn.Module):
    r"""Two layers side by side, each with its half of the channels, on a device of its own.

    With halves :math:`x_0, x_1` of the input, :math:`y_i=f_i(x_i)`, or :math:`y_i=f_i([x_0,x_1])` where both are read.
    What is handed on is the pair, so that a half crosses to the other device only where it is read there.

    Parameters
    ----------
    first, second : nn.Module
    places : (device, device)
        Where they stand; moving the network leaves them there.
    both : bool, default False
        Whether each reads all channels. A tensor in place of a pair is all channels.

    Notes
    -----
    A layer that reads its half alone computes a convolution in two groups. Reading both moves each half once, and its
    gradient once on the way back. A tensor of all channels is sent to both places.

    References
    ----------
    Krizhevsky, Sutskever and Hinton (2012), section 3.2.

    Examples
    --------
    >>> cpu = torch.device("cpu")
    >>> pair = Halves(nn.Identity(), nn.ReLU(), (cpu, cpu))(torch.tensor([[-1.0, -2.0]]))
    >>> JoinedHalves()(pair).tolist()
    [[-1.0, 0.0]]
    """

    def __init__(
        self, first: nn.Module, second: nn.Module, places: tuple[torch.device, torch.device], *, both: bool = False
    ) -> None:
        super().__init__()
        self.halves = nn.ModuleList([first, second])
        self.places, self.both = places, both
        self._stand()

    def forward(self, x: torch.Tensor | Pair) -> Pair:
        """The pair of outputs, of a pair or of a tensor (n, channels, ...)."""
        first, second = (
            half(one) for half, one in zip(self.halves, self._read(x), strict=True)
        )  # two devices work at the same time: nothing waits here
        return first, second

    def _read(self, x: torch.Tensor | Pair) -> Pair:
        if not self.both:
            low, high = x.chunk(2, 1) if isinstance(x, torch.Tensor) else x
            return self._sent(low, 0), self._sent(high, 1)
        if isinstance(x, torch.Tensor):
            return self._sent(x, 0), self._sent(x, 1)
        low, high = x
        return torch.cat([low, self._sent(high, 0)], 1), torch.cat([self._sent(low, 1), high], 1)

    def _sent(self, x: torch.Tensor, half: int) -> torch.Tensor:
        # shapes that are followed without numbers stay where they are
        return x if x.is_meta else x.to(self.places[half])

    def _stand(self) -> None:
        for half, place in zip(self.halves, self.places, strict=True):
            if not any(value.is_meta for value in half.parameters()):
                half.to(place)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._stand()
        return self

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{self.places[0]}+{self.places[1]}, both={self.both}"


class JoinedHalves(nn.Module):
    """The channels of a pair one behind the other, where the first half stands; a tensor as it is.

    Examples
    --------
    >>> JoinedHalves()((torch.ones(1, 1), torch.zeros(1, 1))).tolist()
    [[1.0, 0.0]]
    """

    def forward(self, x: torch.Tensor | Pair) -> torch.Tensor:
        """(n, channels, ...)."""
        if isinstance(x, torch.Tensor):
            return x
        low, high = x
        return torch.cat([low, high if high.is_meta else high.to(low.device)], 1)
