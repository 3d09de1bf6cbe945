"""Couplings between the layers of an energy machine: how parameters become a form that is linear in each layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.mcmc.site_updates import drawn_by_sites, means_by_sites
from gnomon.numeric.tensors import is_tensor

__all__ = ["DenseLink", "LateralLink", "Link", "MaskedLink", "ScaledLink"]

Own = Mapping[str, Array]
"""A link's own parameters by their short names."""


class Link:
    """The coupling ``x_a^T M x_b`` of two layers; a subclass says how the matrix M is made of parameters.

    Where both ends are one layer it is ``x^T M x / 2``, M symmetric and 0 on the diagonal: each pair counts once.

    Parameters
    ----------
    a, b : str
        The layers.
    name : str, optional
        What the names of the parameters begin with; ``<a>_<b>`` by default, nothing where it is empty.
    """

    ends: tuple[str, ...]
    bilinear: ClassVar[bool] = True
    """Whether it is a form of two layers with a matrix."""
    apart: ClassVar[bool] = False
    """Whether it couples some of its layers without the others too, so that `gain` takes those that are there."""
    within: frozenset[str]
    """The layer whose units it couples to each other, if it does."""
    shares: bool = False
    """Whether its parameters are those of another link, which has the same names for them."""

    def __init__(self, a: str, b: str, *, name: str | None = None) -> None:
        self.ends = (a, b)
        self.within = frozenset({a} & {b})
        prefix = f"{a}_{b}" if name is None else name
        self.names = {short: f"{prefix}_{short}" if prefix else short for short in self.shapes({a: 0, b: 0})}
        """Names of the parameters in the machine by their short names."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ends[0]!r}, {self.ends[1]!r})"

    def other(self, block: str) -> str:
        """The layer at the other end."""
        return self.ends[block == self.ends[0]]

    def push(self, block: str, features: Mapping[str, Array], own: Own) -> Array:
        """What the layers at the other ends add to the field of this one, of these features by layer: a fresh array."""
        return self.field(block, features[self.other(block)], own)

    def gain(self, features: Mapping[str, Array], own: Own) -> Array:
        """``x_a^T M x_b`` of each row: what the coupling takes off the energy, (rows,)."""
        a, b = self.ends
        pairs = (self.field(b, features[a], own) * features[b]).sum(-1)
        return 0.5 * pairs if a == b else pairs

    def sums(self, features: Mapping[str, Array], weight: Array, own: Own) -> dict[str, Array]:
        """Sums over rows of weight_i * d gain_i / d parameter, by short name."""
        a, b = self.ends
        return self.statistics(features[a], features[b], weight, own)

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """The parameters whose coupling is ``(1 - eta)`` times that of the first and eta times that of the second."""
        return {name: (1 - eta) * start[name] + eta * end[name] for name in self.names}

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters by their short names, for layers of these sizes."""
        raise NotImplementedError

    def field(self, block: str, x: Array, own: Own) -> Array:
        """What the rows of the other layer add to the field of this one: a fresh array (rows, size)."""
        raise NotImplementedError

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """Sums over rows of weight_i * d (x_a^T M x_b)_i / d parameter, by short name."""
        raise NotImplementedError

    def matrix(self, own: Own) -> Array:
        """M, of shape (size of a, size of b)."""
        raise NotImplementedError

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """Gradients by short name of what has this gradient, (size of a, size of b), by M: the chain rule."""
        each = convert(np.eye(len(slope)), slope)
        return self.statistics(each, slope, each[0] * 0 + 1, own)


class DenseLink(Link):
    """Every unit of a with every unit of b, each pair with a weight of its own.

    Examples
    --------
    >>> DenseLink("visible", "hidden").names
    {'weight': 'visible_hidden_weight'}
    """

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One matrix."""
        return {"weight": (sizes[self.ends[0]], sizes[self.ends[1]])}

    def field(self, block: str, x: Array, own: Own) -> Array:
        """x W, or x W^T."""
        return x @ (own["weight"] if block == self.ends[1] else own["weight"].T)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sum of outer products."""
        return {"weight": (left * weight[:, None]).T @ right}

    def matrix(self, own: Own) -> Array:
        """The weights themselves."""
        return own["weight"]

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """M is the parameter."""
        return {"weight": slope}


class ScaledLink(DenseLink):
    """A matrix that is a multiple of its parameters, M = scale W: the machine that shares W with another has it larger.

    Parameters
    ----------
    a, b, name
        See `Link`.
    scale : float

    Examples
    --------
    >>> ScaledLink("lower", "upper", scale=2.0).matrix({"weight": np.ones((1, 1))})
    array([[2.]])
    """

    def __init__(self, a: str, b: str, *, scale: float, name: str | None = None) -> None:
        super().__init__(a, b, name=name)
        self.scale = scale

    def field(self, block: str, x: Array, own: Own) -> Array:
        """scale x W, or scale x W^T."""
        return self.scale * super().field(block, x, own)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """scale times the weighted sum of outer products."""
        return super().statistics(left, right, self.scale * weight, own)

    def matrix(self, own: Own) -> Array:
        """scale W."""
        return self.scale * own["weight"]

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """scale times the gradient by M."""
        return {"weight": self.scale * slope}


class MaskedLink(Link):
    """Chosen pairs of units of two layers, each with a weight of its own: M is 0 at all others, and stays so.

    The parameter is a row of the chosen pairs' weights, (1, pairs): there is nothing outside the mask that an optimizer
    could move. M has the zeros, and products with it cost what those of a `DenseLink` do.

    Parameters
    ----------
    a, b, name
        See `Link`.
    mask : array of truth values of shape (size of a, size of b)

    Raises
    ------
    UserValueError
        No truth values (or 0 and 1) of two dimensions, none of them true.

    Examples
    --------
    >>> link = MaskedLink("visible", "hidden", [[True, False], [True, True]])
    >>> link.matrix({"weight": np.array([[1.0, 2.0, 3.0]])}).tolist()
    [[1.0, 0.0], [2.0, 3.0]]
    """

    def __init__(self, a: str, b: str, mask: ArrayLike, *, name: str | None = None) -> None:
        chosen = np.asarray(mask)
        if chosen.ndim != 2 or not np.isin(chosen, (0, 1)).all() or not chosen.any():
            what = f"mask must be a table of truth values, some of them true, got {chosen.dtype} of {chosen.shape}"
            raise UserValueError(what, "mask")
        self.mask = chosen.astype(np.bool_)
        self._at = np.flatnonzero(self._counted())
        super().__init__(a, b, name=name)

    def _counted(self) -> NDArray[np.bool_]:
        """The entries that have a weight of their own."""
        return self.mask

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One number for each chosen pair."""
        size = tuple(sizes[end] for end in self.ends)
        if any(size) and size != self.mask.shape:
            raise UserValueError(f"mask must be of shape {size}, got {self.mask.shape}", "mask")
        return {"weight": (1, len(self._at))}

    def field(self, block: str, x: Array, own: Own) -> Array:
        """x M, or x M^T."""
        matrix = self.matrix(own)
        return x @ (matrix if block == self.ends[1] else matrix.T)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sums of products of each chosen pair."""
        return {"weight": self.of_pairs((left * weight[:, None]).T @ right)}

    def matrix(self, own: Own) -> Array:
        """The weights in their places, 0 elsewhere."""
        return _placed(own["weight"], self._at, self.mask.shape)

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """The entries of the chosen pairs."""
        return {"weight": self.of_pairs(slope)}

    def of_pairs(self, matrix: Array) -> Array:
        """The entries that have a weight, in the order of the weights."""
        return matrix.reshape(1, -1)[:, self._at]


class LateralLink(Link):
    """The units of one layer with each other, each pair with a weight of its own: ``sum over i < j of w_ij x_i x_j``.

    The parameter is a row of the pairs' weights, (1, pairs), in the order (0, 1), (0, 2), ..., (1, 2), ...: nothing is
    stored twice, no weight has to be kept at 0, and a weight's gradient is that of its pair. `matrix` is L, with
    ``L_ij = L_ji = w_ij`` and 0 on the diagonal: in the form ``-x^T U x`` U is the upper triangle of L, in
    ``-x^T L x / 2`` L itself.

    Parameters
    ----------
    layer : str
        Its units have two values.
    mask : symmetric array of truth values of shape (size, size), optional
        Which pairs have a weight, the others being 0; all where left out. Its diagonal is not looked at.
    name : str, optional
        As of `Link`.

    Raises
    ------
    UserValueError
        A mask that is not symmetric.

    Examples
    --------
    >>> link = LateralLink("visible")
    >>> link.matrix({"weight": np.array([[1.0, 2.0, 3.0]])}).tolist()
    [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 0.0]]
    """

    def __init__(self, layer: str, mask: ArrayLike | None = None, *, name: str | None = None) -> None:
        self.mask = None if mask is None else np.asarray(mask) != 0
        if self.mask is not None and not np.array_equal(self.mask, self.mask.T):
            raise UserValueError(f"mask must be symmetric, got {self.mask.shape}", "mask", "use mask | mask.T")
        self._chosen = None if self.mask is None else np.flatnonzero(np.triu(self.mask, 1))
        super().__init__(layer, layer, name=name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ends[0]!r})"

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One number for each pair."""
        d = sizes[self.ends[0]]
        if self.mask is None or self._chosen is None:
            return {"weight": (1, d * (d - 1) // 2)}
        if d and len(self.mask) != d:
            raise UserValueError(f"mask must be of shape {(d, d)}, got {self.mask.shape}", "mask")
        return {"weight": (1, len(self._chosen))}

    def field(self, block: str, x: Array, own: Own) -> Array:
        """x L."""
        return x @ self.matrix(own)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sums of products of each pair."""
        return {"weight": self.of_pairs((left * weight[:, None]).T @ right)}

    def matrix(self, own: Own) -> Array:
        """L."""
        weight = own["weight"]
        d = (1 + math.isqrt(1 + 8 * weight.shape[1])) // 2 if self.mask is None else len(self.mask)
        half = _placed(weight, self._at(d), (d, d))
        return half + half.T

    def sweep(
        self, block: str, features: Mapping[str, Array], field: Array, own: Own, values: tuple[float, float], u: Array,
        held: Array | None = None, *, backward: bool = False,
    ) -> Array:  # fmt: skip
        """Each unit drawn given all others, under this field of everything else; see `drawn_by_sites`."""
        x, coupling = features[block], self.matrix(own)  # made once: it costs more than the product
        return drawn_by_sites(x, field + x @ coupling, coupling, values, u, held, backward=backward)

    def relax(
        self, block: str, features: Mapping[str, Array], field: Array, own: Own, values: tuple[float, float],
        held: Array | None = None,
    ) -> Array:  # fmt: skip
        """The means, each set to what it is given the others; see `means_by_sites`."""
        mean, coupling = features[block], self.matrix(own)
        return means_by_sites(mean, field + mean @ coupling, coupling, values, held)

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """Of a pair both entries."""
        return {"weight": self.of_pairs(slope + slope.T)}

    def of_pairs(self, matrix: Array) -> Array:
        """The pairs' entries above the diagonal, in the order of the weights."""
        return matrix.reshape(1, -1)[:, self._at(len(matrix))]

    def _at(self, d: int) -> NDArray[np.int64]:
        return _pairs(d) if self._chosen is None else self._chosen


@lru_cache(maxsize=32)
def _pairs(d: int) -> NDArray[np.int64]:
    """Where the entries above the diagonal are in a matrix laid out row by row."""
    return np.flatnonzero(np.triu(np.ones((d, d), np.bool_), 1))


def _placed(weight: Array, at: NDArray[np.int64], shape: tuple[int, ...]) -> Array:
    """A matrix that has the weights at these places, laid out row by row, and 0 elsewhere."""
    size = math.prod(shape)
    flat = weight.new_zeros(size) if is_tensor(weight) else np.zeros(size, weight.dtype)
    flat[at] = weight[0]
    return flat.reshape(shape)
