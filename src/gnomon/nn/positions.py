"""How attention knows where a token stands: the slot ``positions``.

A layer of places may do three things: add a vector to the embedding (`add`), turn queries and keys (`turn`), add a
number to the scores (`bias`). Each kind does one of them and leaves the others as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = [
    "LearnedPlaces", "LearnedPositions", "NoPositions", "Places", "Positions", "RelativePlaces", "RelativePositions",
    "RotaryPlaces", "RotaryPositions", "SinusoidalPlaces", "SinusoidalPositions", "shift_matrix",
    "sinusoidal_table",
]  # fmt: skip


def sinusoidal_table(length: int, width: int, base: float = 10000.0) -> torch.Tensor:
    r"""Waves of geometrically falling frequencies, float64 of shape (length, width).

    :math:`P_{t, 2i} = \sin(t\, b^{-2i / D})`, :math:`P_{t, 2i+1} = \cos(t\, b^{-2i / D})`. Columns 2i and 2i + 1 share
    their frequency, so that :math:`P_{t + \delta}` is a rotation of :math:`P_t` by an angle that depends on
    :math:`\delta` alone (`shift_matrix`); an odd width ends with a sine. Other libraries put all sines before all
    cosines: ``table[:, ::2]`` and ``table[:, 1::2]`` side by side. Angles are computed in float64: in float32 those of
    far places are off by more than a column of the table changes from place to place.

    Parameters
    ----------
    length, width : int >= 1
    base : float > 1, default 10000

    Examples
    --------
    >>> [round(x, 6) for x in sinusoidal_table(2, 4)[1].tolist()]
    [0.841471, 0.540302, 0.01, 0.99995]
    """
    t = torch.arange(length, dtype=torch.float64)[:, None]
    angles = t * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :width]


def shift_matrix(k: int, width: int, base: float = 10000.0) -> torch.Tensor:
    r"""The matrix that moves rows of `sinusoidal_table` by k places, float64 of shape (width, width).

    :math:`P_{t + k} = A_k P_t` from every place t, with the blocks
    :math:`\begin{pmatrix} \cos \omega_i k & \sin \omega_i k \\ -\sin \omega_i k & \cos \omega_i k \end{pmatrix}`
    on the diagonal, :math:`\omega_i = b^{-2i / D}`: a rotation, whose inverse is that of -k.

    Parameters
    ----------
    k : int
        May be negative.
    width : int >= 2, even
        A sine without its cosine cannot be moved.
    base : float > 1, default 10000

    Raises
    ------
    UserValueError
        An odd width.

    Examples
    --------
    >>> table = sinusoidal_table(9, 4)
    >>> bool(torch.allclose(table[2:] @ shift_matrix(-2, 4).T, table[:-2]))
    True
    """
    if width < 2 or width % 2:
        raise UserValueError.must("width", "be even and at least 2: every sine needs its cosine", width)
    angles = k * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    cos, sin = angles.cos(), angles.sin()
    blocks = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
    moved: torch.Tensor = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
    return moved


class Places(nn.Module):
    """What is known of places: nothing. Base of the kinds."""

    longest: int | None = None
    """Places that there are; None is any number."""
    biased: ClassVar[bool] = False
    """Whether something is added to the scores."""

    def initialize(self, noise: Noise) -> None:
        """First values of what is learned."""

    def add(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Embeddings (n, T, D) of tokens at places (T,) or (n, T), with what is added."""
        return x

    def turn(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Queries or keys (n, h, T, d) of tokens at places (T,) or (n, T), as the scores take them."""
        return x

    def bias(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """What is added to the scores (h, q, k) of queries at i, (q,) or (n, 1, q), and keys at j (k,)."""
        return torch.zeros(1, 1, 1, device=j.device)

    def check(self, at: torch.Tensor) -> None:
        """Refuse places that there are not."""
        if self.longest is not None and at.numel() and int(at.max()) >= self.longest:
            raise UserValueError(
                f"a sequence may have at most {self.longest} tokens, got one at place {int(at.max())}", "positions",
                "make room for more places, or cut the sequence",
            )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`add` for places 0, 1, 2 ..."""
        return self.add(x, torch.arange(x.shape[-2], device=x.device))


class SinusoidalPlaces(Places):
    """Adds the rows of `sinusoidal_table`.

    Parameters
    ----------
    longest, width : int >= 1
    dtype : torch.dtype, optional
    """

    table: torch.Tensor

    def __init__(self, longest: int, width: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.longest = longest
        table = sinusoidal_table(longest, width).to(dtype or torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def add(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """x + P[at]; a place beyond the table raises."""
        self.check(at)
        return x + self.table[at]


class LearnedPlaces(Places):
    """Adds a learned vector for each place.

    Parameters
    ----------
    longest, width : int >= 1
    dtype : torch.dtype, optional
    """

    def __init__(self, longest: int, width: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.longest = longest
        self.weight = nn.Parameter(torch.zeros(longest, width, dtype=dtype))

    def initialize(self, noise: Noise) -> None:
        """Normal vectors with the standard deviation 0.02 (Radford and others 2018)."""
        with torch.no_grad():
            self.weight.copy_(0.02 * noise.child("weight").normal(tuple(self.weight.shape), like=self.weight.detach()))

    def add(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """x + W[at]; a place that was not learned raises."""
        self.check(at)
        return x + nn.functional.embedding(at, self.weight)


class RotaryPlaces(Places):
    r"""Turns pairs of numbers of queries and keys by angles that grow with the place.

    The pair (2i, 2i + 1) of a head of width d is turned by :math:`t\, 10000^{-2i / d}`, so that the product of a query
    and a key depends on how far apart they stand, not on where.

    Parameters
    ----------
    width : int >= 2, even
        Of a head.
    dtype : torch.dtype, optional
    """

    speed: torch.Tensor

    def __init__(self, width: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        if width % 2:
            raise UserValueError.must("the width of a head", "be even for rotary positions", width)
        speed = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        self.register_buffer("speed", speed, persistent=False)
        self.dtype = dtype or torch.get_default_dtype()
        self._last: tuple[torch.Tensor, int, torch.Tensor] | None = None

    def waves(self, at: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """exp(i angle) at places, (T, d / 2) or (n, 1, T, d / 2), made once for all layers of a pass."""
        if self._last is not None:
            known, version, made = self._last  # known is held, so that its memory is not another tensor's
            same = known.data_ptr() == at.data_ptr() and known.shape == at.shape and known.stride() == at.stride()
            if same and version == at._version and made.real.dtype == dtype and made.device == at.device:
                return made
        angles = at[..., None] * self.speed
        angles = angles if at.ndim == 1 else angles[:, None]
        made = torch.complex(angles.cos().to(dtype), angles.sin().to(dtype))
        self._last = at, at._version, made
        return made

    def turn(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Pairs of neighboring columns turned, as products of complex numbers."""
        kind = torch.promote_types(x.dtype, torch.float32)
        pairs = x.to(kind).reshape(*x.shape[:-1], -1, 2)
        if pairs.storage_offset() % 2 or any(one % 2 for one in pairs.stride()[:-1]):
            pairs = pairs.contiguous()
        turned = torch.view_as_complex(pairs) * self.waves(at, kind)
        return torch.view_as_real(turned).flatten(-2).to(x.dtype)


class RelativePlaces(Places):
    """Adds to each head's scores a learned number for every distance j - i, the same for all beyond the reach.

    Parameters
    ----------
    heads, reach : int >= 1
    dtype : torch.dtype, optional
    """

    biased: ClassVar[bool] = True

    def __init__(self, heads: int, reach: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.reach = reach
        self.weight = nn.Parameter(torch.zeros(heads, 2 * reach + 1, dtype=dtype))

    def bias(self, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        """(h, q, k), or (n, h, q, k) of places (n, 1, q)."""
        apart = (j - i[..., None]).clamp(-self.reach, self.reach) + self.reach
        if apart.ndim == 2:
            return self.weight[:, apart]
        return self.weight[:, apart[:, 0]].transpose(0, 1)


@dataclass(frozen=True)
class Positions(Recipe):
    """Base of the recipes of the slot ``positions``."""

    def build(self, longest: int, width: int, heads: int, dtype: torch.dtype | None = None) -> Places:
        """The layer for sequences of at most `longest` tokens, of embeddings of this width and so many heads."""
        raise NotImplementedError


@dataclass(frozen=True)
class NoPositions(Positions):
    """Nothing is known of places but what a mask tells."""

    short: ClassVar[str] = "none"

    def build(self, longest: int, width: int, heads: int, dtype: torch.dtype | None = None) -> Places:
        """`Places`."""
        return Places()


@dataclass(frozen=True)
class SinusoidalPositions(Positions):
    """Sines and cosines of fixed frequencies, added to the embedding (Vaswani and others 2017)."""

    short: ClassVar[str] = "sinusoidal"

    def build(self, longest: int, width: int, heads: int, dtype: torch.dtype | None = None) -> Places:
        """`SinusoidalPlaces`."""
        return SinusoidalPlaces(longest, width, dtype=dtype)


@dataclass(frozen=True)
class LearnedPositions(Positions):
    """A learned vector for each place, added to the embedding."""

    short: ClassVar[str] = "learned"

    def build(self, longest: int, width: int, heads: int, dtype: torch.dtype | None = None) -> Places:
        """`LearnedPlaces`."""
        return LearnedPlaces(longest, width, dtype=dtype)


@dataclass(frozen=True)
class RotaryPositions(Positions):
    """Queries and keys turned by their places, so that scores see distances (Su and others 2021)."""

    short: ClassVar[str] = "rotary"

    def build(self, longest: int, width: int, heads: int, dtype: torch.dtype | None = None) -> Places:
        """`RotaryPlaces`."""
        return RotaryPlaces(width // heads, dtype=dtype)


@dataclass(frozen=True)
class RelativePositions(Positions):
    """A learned number of each head for each distance, added to the scores (Raffel and others 2020).

    Parameters
    ----------
    reach : int in [1, inf), default 32
        Distance from which on all are alike.
    """

    short: ClassVar[str] = "relative"
    reach: Annotated[int, "[1, inf)"] = 32

    def build(self, longest: int, width: int, heads: int, dtype: torch.dtype | None = None) -> Places:
        """`RelativePlaces`."""
        return RelativePlaces(heads, self.reach, dtype=dtype)
