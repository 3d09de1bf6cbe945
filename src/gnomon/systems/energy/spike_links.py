"""The coupling of the spike-and-slab machines, of dense matrices or of kernels that move over an image."""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.contracts import Array
from gnomon.numeric.ops import concatenate
from gnomon.systems.energy.links import DenseLink, Link, Own

__all__ = ["SpikeAndSlabLink"]


class SpikeAndSlabLink(Link):
    """Weights between x and the products s h, and a precision Phi that each spike h adds to that of x.

    Parameters
    ----------
    a, b : str
        Layers of `PrecisionGaussianUnits` and of `SpikeAndSlabUnits`.
    slabs : int
        Amplitudes of each spike.
    parts : pair of links, optional
        How the matrices W and Phi are made of their parameters, each a ``weight``; `DenseLink` by default.
    name : str, optional
        As in `Link`.

    Examples
    --------
    >>> import numpy as np
    >>> own = {"weight": np.array([[2.0]]), "phi": np.array([[3.0]])}
    >>> SpikeAndSlabLink("visible", "hidden").field("hidden", np.array([[1.0, -0.5]]), own).tolist()
    [[2.0, -1.5]]
    """

    def __init__(
        self, a: str, b: str, slabs: int = 1, *, parts: tuple[Link, Link] | None = None, name: str | None = None
    ) -> None:
        self.slabs = slabs
        self.parts = dict(zip(("weight", "phi"), parts or (DenseLink(a, b), DenseLink(a, b)), strict=True))
        super().__init__(a, b, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Those of W (d, n slabs) and of Phi (d, n)."""
        a, b = self.ends
        d, n = sizes[a] // 2, sizes[b] // (self.slabs + 1)
        ends = {"weight": n * self.slabs, "phi": n}
        return {name: part.shapes({a: d, b: ends[name]})["weight"] for name, part in self.parts.items()}

    def field(self, block: str, x: Array, own: Own) -> Array:
        """[x W, -x^2 Phi / 2], or [W (s h), Phi h]."""
        halves = self._halves(self.other(block), x)
        return concatenate([part.field(block, halves[name], _of(own, name)) for name, part in self.parts.items()], 1)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """Two weighted sums of outer products."""
        one, other = (self._halves(end, x) for end, x in zip(self.ends, (left, right), strict=True))
        return {
            name: part.statistics(one[name], other[name], weight, _of(own, name))["weight"]
            for name, part in self.parts.items()
        }

    def matrices(self, own: Own) -> dict[str, Array]:
        """``weight`` W (d, n slabs) and ``phi`` Phi (d, n), as the parameters make them."""
        return {name: part.matrix(_of(own, name)) for name, part in self.parts.items()}

    def matrix(self, own: Own) -> Array:
        """W and Phi on the diagonal of blocks."""
        W, phi = self.matrices(own).values()
        return concatenate([concatenate([W, 0 * phi], axis=1), concatenate([0 * W, phi], axis=1)])

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """The blocks of the diagonal."""
        above, below = self._halves(self.ends[0], slope.T).values()
        blocks = {"weight": above.T, "phi": below.T}
        return {
            name: part.pull(self._halves(self.ends[1], blocks[name])[name], _of(own, name))["weight"]
            for name, part in self.parts.items()
        }

    def _halves(self, block: str, x: Array) -> dict[str, Array]:
        """Columns of a layer's features that W and that Phi couples."""
        width = x.shape[1]
        at = width // 2 if block == self.ends[0] else width // (self.slabs + 1) * self.slabs
        return {"weight": x[:, :at], "phi": x[:, at:]}


def _of(own: Own, name: str) -> dict[str, Array]:
    """The parameter of a part."""
    return {"weight": own[name]}
