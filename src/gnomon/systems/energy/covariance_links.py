"""Links from real columns that depend on each other: hidden units that move their means, or hold them along filters."""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.contracts import Array
from gnomon.numeric.ops import concatenate
from gnomon.systems.energy.links import Link, Own

__all__ = ["FilterLink", "MeanLink"]


class _ColumnsLink(Link):
    """Base: the first end is a layer of `CorrelatedGaussianUnits`, of which x and -x x^T / 2 are seen.

    Parameters
    ----------
    a, b : str
        The real layer, and that of hidden units.
    d : int
        Columns.
    name : str, optional
        As in `Link`.
    """

    parameter = ""

    def __init__(self, a: str, b: str, d: int, *, name: str | None = None) -> None:
        self.d = d
        super().__init__(a, b, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """A column for each hidden unit."""
        return {self.parameter: (self.d, sizes[self.ends[1]])}


class MeanLink(_ColumnsLink):
    """x W h: hidden units pull the rows along the columns of W."""

    parameter = "weight"

    def field(self, block: str, x: Array, own: Own) -> Array:
        """x W, or [W h, 0]."""
        W = own["weight"]
        if block == self.ends[1]:
            return x[:, : self.d] @ W
        pull = x @ W.T
        return concatenate([pull, *[0 * pull] * self.d], axis=1)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """Weighted outer products of x and h."""
        return {"weight": (left[:, : self.d] * weight[:, None]).T @ right}


class FilterLink(_ColumnsLink):
    """-(x R)^2 h / 2: a hidden unit h_j adds h_j r_j r_j^T to the precision of the rows."""

    parameter = "filters"

    def field(self, block: str, x: Array, own: Own) -> Array:
        """-(x R)^2 / 2, or [0, R diag(h) R^T]."""
        R = own["filters"]
        if block == self.ends[1]:
            row, spread = self._parts(x)
            response = row @ R
            square = response * response
            return -0.5 * (square if spread is None else square + ((spread @ R) * R).sum(1))
        held = (x[:, None, :] * R) @ R.T
        return concatenate([0 * held[:, 0], held.reshape(len(x), self.d * self.d)], axis=1)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """Weighted products of -(x x^T) R and h."""
        R, h, (row, spread) = own["filters"], right * weight[:, None], self._parts(left)
        found = -(row.T @ ((row @ R) * h))
        return {"filters": found if spread is None else found - ((spread @ R) * h[:, None, :]).sum(0)}

    def _parts(self, x: Array) -> tuple[Array, Array | None]:
        """Rows and the covariances about them, None of rows that are known.

        A response that is small beside its row is lost in the row's square, to rounding; not so in the row itself.
        """
        row = x[:, : self.d]
        spread = -2 * x[:, self.d :].reshape(len(x), self.d, self.d) - row[:, :, None] * row[:, None, :]
        return row, spread if bool(spread.any()) else None
