"""Couplings within groups of units alone: a block-diagonal matrix that is multiplied block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.linalg import block_diag

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.numeric.tensors import is_tensor
from gnomon.systems.energy.links import Link, Own

__all__ = ["BlockDiagonalLink", "even_groups"]


class BlockDiagonalLink(Link):
    """Units in groups: those of a group of a with those of the group of b that has its number, and no others.

    M is 0 outside of the blocks, which have no parameter there. Products are taken block by block: with k groups of
    equal size at a k-th of the operations of a `DenseLink`.

    Parameters
    ----------
    a, b, name
        See `Link`.
    rows, columns : sequences of int, in [1, inf)
        Units of each group of a and of b, one after the other; as many groups of both.

    Raises
    ------
    UserValueError
        No groups, an empty one, another number of them on the two sides.

    Notes
    -----
    The parameter is a row, (1, entries): the first block row by row, then the second.

    Examples
    --------
    >>> link = BlockDiagonalLink("visible", "hidden", (1, 2), (1, 1))
    >>> link.matrix({"weight": np.array([[1.0, 2.0, 3.0]])}).tolist()
    [[1.0, 0.0], [0.0, 2.0], [0.0, 3.0]]
    """

    def __init__(self, a: str, b: str, rows: Sequence[int], columns: Sequence[int], *, name: str | None = None) -> None:
        if not rows or len(rows) != len(columns) or min(*rows, *columns) < 1:
            got = f"{list(rows)} and {list(columns)}"
            raise UserValueError(f"groups must be as many of both layers, each of 1 unit or more, got {got}", "groups")
        self._shapes = list(zip(rows, columns, strict=True))
        self._spans = {a: _spans(rows), b: _spans(columns)}
        self._entries = _spans([p * q for p, q in self._shapes])
        super().__init__(a, b, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One number for each pair within a group."""
        for end in self.ends:
            total = self._spans[end][-1].stop
            if sizes[end] and sizes[end] != total:
                raise UserValueError(
                    f"the groups of {end!r} must have {sizes[end]} units in all, got {total}", "groups"
                )
        return {"weight": (1, self._entries[-1].stop)}

    def parts(self, own: Own) -> list[Array]:
        """The blocks: views of the parameter."""
        flat = own["weight"][0]
        return [flat[span].reshape(shape) for span, shape in zip(self._entries, self._shapes, strict=True)]

    def field(self, block: str, x: Array, own: Own) -> Array:
        """x M, or x M^T, block by block."""
        forward, spans = block == self.ends[1], self._spans[self.other(block)]
        pairs = zip(spans, self.parts(own), strict=True)
        return _side_by_side([x[:, span] @ (part if forward else part.T) for span, part in pairs])

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sums of outer products within each group."""
        scaled = left * weight[:, None]
        return {"weight": _side_by_side([(scaled[:, i].T @ right[:, j]).reshape(1, -1) for i, j in self._pairs()])}

    def matrix(self, own: Own) -> Array:
        """The blocks in their places, 0 elsewhere."""
        parts: Any = self.parts(own)
        if is_tensor(parts[0]):
            return torch.block_diag(*parts)  # type: ignore[no-untyped-call]
        return block_diag(*parts)

    def pull(self, slope: Array, own: Own) -> dict[str, Array]:
        """The entries of the blocks."""
        return {"weight": _side_by_side([slope[i, j].reshape(1, -1) for i, j in self._pairs()])}

    def _pairs(self) -> zip[tuple[slice, slice]]:
        """Where the units of each group are in the two layers."""
        a, b = self.ends
        return zip(self._spans[a], self._spans[b], strict=True)


def even_groups(size: int, groups: int) -> list[int]:
    """Sizes of groups that differ by at most one unit, the larger ones first.

    Examples
    --------
    >>> even_groups(13, 3)
    [5, 4, 4]
    """
    return [size // groups + (k < size % groups) for k in range(groups)]


def _spans(sizes: Sequence[int]) -> list[slice]:
    """Runs of these lengths, one after the other."""
    ends = np.cumsum(sizes).tolist()
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _side_by_side(parts: list[Any]) -> Array:
    return torch.cat(parts, 1) if is_tensor(parts[0]) else np.concatenate(parts, 1)
