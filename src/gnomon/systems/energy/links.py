"""Couplings between two layers of an energy machine: how parameters become a bilinear form."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gnomon.contracts import Array
from gnomon.inference.arrays import convert

__all__ = ["DenseLink", "Link"]

Own = Mapping[str, Array]
"""A link's own parameters by their short names."""


class Link:
    """The coupling ``x_a^T M x_b`` of two layers; a subclass says how the matrix M is made of parameters.

    Parameters
    ----------
    a, b : str
        The layers.
    name : str, optional
        What the names of the parameters begin with; ``<a>_<b>`` by default, nothing where it is empty.
    """

    def __init__(self, a: str, b: str, *, name: str | None = None) -> None:
        self.ends = (a, b)
        prefix = f"{a}_{b}" if name is None else name
        self.names = {short: f"{prefix}_{short}" if prefix else short for short in self.shapes({a: 0, b: 0})}
        """Names of the parameters in the machine by their short names."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ends[0]!r}, {self.ends[1]!r})"

    def other(self, block: str) -> str:
        """The layer at the other end."""
        return self.ends[block == self.ends[0]]

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
