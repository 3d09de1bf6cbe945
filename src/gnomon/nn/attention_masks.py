"""Which queries may look at which keys: masks as rules that are asked for any block of pairs, joined by & and |."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch

from gnomon.errors import UserValueError

__all__ = [
    "ByHead", "Causal", "GivenMask", "GlobalTokens", "Mask", "Padding", "Reach", "SameSegment", "SegmentStarts",
    "SlidingWindow", "as_mask", "causal_mask", "combine", "padding_mask", "receptive_field",
]  # fmt: skip

Reach = tuple[int | None, int | None]
"""How many places before and after its own a query sees; None is all."""


class Mask:
    """Base of the masks. True is "may look", as in ``torch.nn.functional.scaled_dot_product_attention``.

    A mask is a rule on places of queries and keys, so that an engine asks it for the pairs it needs alone: a window of
    a sequence of any length is never written out as a square.
    """

    @property
    def reach(self) -> Reach:
        """Pairs beyond it are allowed only where one of the two is among `anchors`."""
        return None, None

    @property
    def stride(self) -> int:
        """Pairs without one of the `anchors` are allowed only a multiple of it apart; 0 allows a token itself alone."""
        return 1

    @property
    def anchors(self) -> tuple[int, ...]:
        """Places of queries that look, and of keys that are looked at, beyond the reach."""
        return ()

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """Whether queries at places i (..., q) may look at keys at places j (k,): bool, broadcast to (n, h, q, k)."""
        raise NotImplementedError

    def by_head(self, heads: int) -> list[Mask]:
        """The mask of each of so many heads."""
        return [self] * heads

    def __and__(self, other: Mask) -> Mask:
        return _Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return _Either(self, other)


@dataclass(frozen=True)
class _Both(Mask):
    """What both masks allow."""

    one: Mask
    other: Mask

    @property
    def reach(self) -> Reach:
        return _joined(self.one.reach, self.other.reach, tighter=True)

    @property
    def stride(self) -> int:
        return math.lcm(self.one.stride, self.other.stride)

    @property
    def anchors(self) -> tuple[int, ...]:
        return tuple(sorted({*self.one.anchors, *self.other.anchors}))

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return self.one.allowed(i, j) & self.other.allowed(i, j)

    def by_head(self, heads: int) -> list[Mask]:
        return [a & b for a, b in zip(self.one.by_head(heads), self.other.by_head(heads), strict=True)]


@dataclass(frozen=True)
class _Either(Mask):
    """What one of the masks allows."""

    one: Mask
    other: Mask

    @property
    def reach(self) -> Reach:
        return _joined(self.one.reach, self.other.reach, tighter=False)

    @property
    def stride(self) -> int:
        return math.gcd(self.one.stride, self.other.stride)

    @property
    def anchors(self) -> tuple[int, ...]:
        return tuple(sorted({*self.one.anchors, *self.other.anchors}))

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return self.one.allowed(i, j) | self.other.allowed(i, j)

    def by_head(self, heads: int) -> list[Mask]:
        return [a | b for a, b in zip(self.one.by_head(heads), self.other.by_head(heads), strict=True)]


def _joined(one: Reach, other: Reach, *, tighter: bool) -> Reach:
    back, ahead = (_farther(a, b, tighter) for a, b in zip(one, other, strict=True))
    return back, ahead


def _farther(a: int | None, b: int | None, tighter: bool) -> int | None:
    known = [one for one in (a, b) if one is not None]
    if tighter:
        return min(known, default=None)
    return max(known) if len(known) == 2 else None


@dataclass(frozen=True)
class Causal(Mask):
    """No query looks at a key after its own place.

    Examples
    --------
    >>> i = torch.arange(3)
    >>> Causal().allowed(i, i).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """

    @property
    def reach(self) -> Reach:
        """Everything before, nothing after."""
        return None, 0

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """j <= i."""
        return j <= i[..., None]


@dataclass(frozen=True)
class SlidingWindow(Mask):
    """A sliding window: keys at most `back` places before and `ahead` places after the query's own.

    Parameters
    ----------
    back, ahead : int, at least 0
    dilation : int, at least 1, default 1
        Only every so many-th place of the window is seen, counted from the query's own.

    Examples
    --------
    >>> i = torch.arange(4)
    >>> SlidingWindow(1, 0).allowed(i, i).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """

    back: int
    ahead: int
    dilation: int = 1

    def __post_init__(self) -> None:
        for name, least in (("back", 0), ("ahead", 0), ("dilation", 1)):
            if getattr(self, name) < least:
                raise UserValueError.must(name, f"be at least {least}", getattr(self, name))

    @classmethod
    def around(cls, width: int, dilation: int = 1) -> SlidingWindow:
        """The window of the keys i + k * dilation with |k| <= width / 2 (Beltagy, Peters and Cohan 2020).

        Parameters
        ----------
        width : int, at least 0
            Keys beside the query's own, half of them on each side: an odd width is that of one key less.
        dilation : int, at least 1, default 1
            Distance of neighboring keys. Alone it never mixes tokens of different remainders; join it with a dense
            window (`ByHead`, or another layer).

        Examples
        --------
        >>> i = torch.arange(8)
        >>> SlidingWindow.around(2).allowed(i, i).sum().item(), SlidingWindow.around(2, 2).allowed(i, i).sum().item()
        (22, 20)
        """
        if width < 0:
            raise UserValueError.must("width", "be at least 0", width)
        half = width // 2 * dilation
        return cls(half, half, dilation)

    @property
    def reach(self) -> Reach:
        """The window."""
        return self.back, self.ahead

    @property
    def stride(self) -> int:
        """The dilation."""
        return self.dilation

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """-back <= j - i <= ahead, and a multiple of the dilation."""
        apart = j - i[..., None]
        near = (apart >= -self.back) & (apart <= self.ahead)
        return near if self.dilation == 1 else near & (apart % self.dilation == 0)


@dataclass(frozen=True)
class GlobalTokens(Mask):
    """A few places that look at all and are looked at by all (Beltagy, Peters and Cohan 2020).

    Parameters
    ----------
    places : tuple of int, at least 0
    """

    places: tuple[int, ...]

    def __post_init__(self) -> None:
        if min(self.places, default=0) < 0:
            raise UserValueError.must("places", "be at least 0", min(self.places))

    @property
    def reach(self) -> Reach:
        """Nothing but the places."""
        return 0, 0

    @property
    def stride(self) -> int:
        """Nothing but the places."""
        return 0

    @property
    def anchors(self) -> tuple[int, ...]:
        """The places."""
        return self.places

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """i or j is one of the places."""
        places = torch.tensor(self.places, dtype=torch.int64, device=j.device)
        return torch.isin(i, places)[..., None] | torch.isin(j, places)


@dataclass(frozen=True)
class ByHead(Mask):
    """A mask of its own for each head: some look near and densely, others far with gaps.

    Parameters
    ----------
    masks : tuple of Mask
        As many as heads.

    Examples
    --------
    >>> i = torch.arange(5)
    >>> ByHead.windows([2, 2], [1, 2]).allowed(i, i)[:, 2].int().tolist()
    [[0, 1, 1, 1, 0], [1, 0, 1, 0, 1]]
    """

    masks: tuple[Mask, ...]

    @classmethod
    def windows(cls, widths: Sequence[int], dilations: Sequence[int]) -> ByHead:
        """`SlidingWindow.around` for each head.

        Parameters
        ----------
        widths, dilations : sequences of as many int as heads

        Raises
        ------
        UserValueError
            More of one than of the other.
        """
        if len(widths) != len(dilations):
            raise UserValueError(
                f"dilations must be as many as the windows, {len(widths)}, got {len(dilations)}", "dilations"
            )
        return cls(tuple(map(SlidingWindow.around, widths, dilations)))

    @property
    def reach(self) -> Reach:
        """That of the head that looks farthest."""
        return reduce(lambda one, other: _joined(one, other, tighter=False), (one.reach for one in self.masks))

    @property
    def stride(self) -> int:
        """What divides the strides of all heads."""
        return math.gcd(*(one.stride for one in self.masks))

    @property
    def anchors(self) -> tuple[int, ...]:
        """Those of all heads."""
        return tuple(sorted({place for one in self.masks for place in one.anchors}))

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """What each head's mask allows, (h, q, k) or (n, h, q, k)."""
        each = [one.allowed(i, j) for one in self.masks]
        each = [one if one.ndim > 2 else one[None] for one in each]
        shape = torch.broadcast_shapes(*(one.shape for one in each))  # type: ignore[no-untyped-call]
        return torch.cat([one.expand(shape) for one in each], -3)

    def by_head(self, heads: int) -> list[Mask]:
        """The masks.

        Raises
        ------
        UserValueError
            Another number of heads.
        """
        if len(self.masks) != heads:
            raise UserValueError(f"masks must be as many as the heads, {heads}, got {len(self.masks)}", "mask")
        return list(self.masks)


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Keys within the lengths of their sequences.

    Parameters
    ----------
    lengths : int tensor of shape (n,)
    """

    lengths: torch.Tensor

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """j < length, (n, 1, 1, k)."""
        return (j < self.lengths[:, None])[:, None, None]


@dataclass(frozen=True, eq=False)
class SameSegment(Mask):
    """Tokens of several texts that stand in one row: each looks at its own text alone.

    Parameters
    ----------
    labels : int tensor of shape (n, T)
        Equal within a text.
    """

    labels: torch.Tensor

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """Equal labels, (n, 1, q, k)."""
        return (self.labels[:, i][:, :, None] == self.labels[:, j][:, None])[:, None]


@dataclass(frozen=True, eq=False)
class SegmentStarts(Mask):
    """The first tokens of each of several texts that stand in one row: global tokens for those who read from the left.

    Parameters
    ----------
    first : int tensor of shape (n, T)
        Place at which the text of each token begins.
    count : int, at least 1
        Tokens of each text that all may look at.
    """

    first: torch.Tensor
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserValueError.must("count", "be at least 1", self.count)

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """j is among the first `count` tokens of its text, (n, 1, 1, k)."""
        return (j - self.first[:, j] < self.count)[:, None, None]


@dataclass(frozen=True, eq=False)
class GivenMask(Mask):
    """A mask that is written out.

    Parameters
    ----------
    table : bool tensor of shape (q, k), (n, q, k) or (n, h, q, k)
        True where a query may look; q = 1 is all queries.
    """

    table: torch.Tensor

    def __post_init__(self) -> None:
        if self.table.ndim not in (2, 3, 4):
            shape = tuple(self.table.shape)
            raise UserValueError(f"a mask must have 2, 3 or 4 axes, got shape {shape}", "mask", "give (queries, keys)")

    def allowed(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """The entries of these places."""
        table = self.table[:, None] if self.table.ndim == 3 else self.table
        rows = table if table.shape[-2] == 1 else table[..., i, :]
        return rows[..., j]


def receptive_field(layers: int, width: int, dilation: int = 1, *, causal: bool = False) -> int:
    """Tokens from the first to the last that one output of stacked windows depends on: layers * width * dilation + 1.

    Near the ends of a text there are fewer. With a dilation in every layer only every so many-th of them counts.

    Parameters
    ----------
    layers : int, at least 0
    width : int, at least 0
        Keys beside the query's own, as in `SlidingWindow.around`; an odd width is that of one key less.
    dilation : int, at least 1, default 1
    causal : bool, default False
        Whether all keys stand before the query; any width then counts in full.

    Examples
    --------
    >>> receptive_field(3, 2), receptive_field(3, 2, dilation=4), receptive_field(12, 512)
    (7, 25, 6145)
    """
    for name, value, least in (("layers", layers, 0), ("width", width, 0), ("dilation", dilation, 1)):
        if value < least:
            raise UserValueError.must(name, f"be at least {least}", value)
    return layers * (width if causal else 2 * (width // 2)) * dilation + 1


def as_mask(mask: Any) -> Mask | None:
    """A mask from a mask, a bool tensor (`GivenMask`) or None.

    Raises
    ------
    UserValueError
        A tensor that is not of bool: True is "may look", and numbers would leave open what they mean.
    """
    if mask is None or isinstance(mask, Mask):
        return mask
    if getattr(mask, "dtype", None) != torch.bool:
        got = getattr(mask, "dtype", type(mask).__name__)
        raise UserValueError(f"mask must be a Mask or a bool tensor, got {got}", "mask", "True means: may look")
    return GivenMask(mask)


def padding_mask(lengths: Any, longest: int | None = None) -> torch.Tensor:
    """Keys that are no padding, bool of shape (n, 1, T), for queries of every place.

    Parameters
    ----------
    lengths : int array or tensor of shape (n,)
    longest : int, optional
        T; the greatest length where left out.

    Examples
    --------
    >>> padding_mask([2, 1]).int().tolist()
    [[[1, 1]], [[1, 0]]]
    """
    lengths = torch.as_tensor(lengths)
    T = int(lengths.max()) if longest is None and len(lengths) else longest or 0
    return (torch.arange(T, device=lengths.device) < lengths[:, None])[:, None]


def causal_mask(length: int) -> torch.Tensor:
    """Keys that do not stand after the query, bool of shape (T, T): the lower triangle.

    Parameters
    ----------
    length : int, at least 0
    """
    i = torch.arange(length)
    return Causal().allowed(i, i)


def combine(*masks: torch.Tensor) -> torch.Tensor:
    """What all of some bool masks allow, (n, T, T) of a padding and a causal mask.

    Parameters
    ----------
    *masks : bool tensors that broadcast to one shape

    Examples
    --------
    >>> combine(padding_mask([1, 2]), causal_mask(2)).int().tolist()
    [[[1, 0], [1, 0]], [[1, 0], [1, 1]]]
    """
    if not masks:
        raise UserValueError("combine takes at least one mask, got none", "masks")
    return reduce(torch.logical_and, masks)
