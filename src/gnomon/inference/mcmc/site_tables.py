"""Sweeps over units of few neighbors: every conditional is looked up, not computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from gnomon.contracts import Noise
from gnomon.numeric import philox

__all__ = ["SiteTables"]

_MAX_NEIGHBORS = 12
_MAX_ENTRIES = 1 << 20

_KEPT = np.uint64(20)
_REST = np.uint64((1 << 20) - 1)

kernel = numba.njit(cache=True, error_model="numpy")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SiteTables:
    """Thresholds of units of 0 or 1 by the states of their neighbors; units that are alike share theirs.

    A uniform number of Noise is ``u = (w + 1/2) 2^-52`` with a whole w, so ``u < p`` is ``w < ceil(2^52 p - 1/2)``: a
    comparison of whole numbers, exact to the last bit of u. The upper 32 bits of w decide but for one case in 2^32.

    Parameters
    ----------
    near : uint32 array of shape (d, K)
        Neighbors of each unit; d, where a unit has fewer than K, stands for a unit that is always 0.
    start : uint64 array of shape (d,)
        Where the unit's 2^K thresholds begin.
    threshold : uint64 array
        At ``start + sum_q 2^q x[near[q]]``.
    """

    near: NDArray[np.uint32]
    start: NDArray[np.uint64]
    threshold: NDArray[np.uint64]

    @classmethod
    def of(cls, pairs: Any, bias: Floats) -> SiteTables | None:
        """The tables of units with these biases and this sparse symmetric coupling; None where they are too large.

        Cost: 8 bytes for each of the 2^K states of the neighborhoods of every kind of unit.
        """
        d, counts = len(bias), np.diff(pairs.indptr)
        width = int(counts.max(initial=0))
        if width > _MAX_NEIGHBORS:
            return None
        near, weight = np.full((d, width), d, np.uint32), np.zeros((d, width + 1))
        rows = np.repeat(np.arange(d), counts)
        positions = np.arange(len(rows)) - pairs.indptr[:-1][rows]
        near[rows, positions], weight[rows, positions], weight[:, width] = pairs.indices, pairs.data, bias
        kinds, kind = np.unique(weight, axis=0, return_inverse=True)
        if len(kinds) << width > _MAX_ENTRIES:
            return None
        states = (np.arange(1 << width)[:, None] >> np.arange(width + 1)) & 1
        states[:, width] = 1  # the bias
        share = expit(np.matmul(kinds, states.T.astype(np.float64)))
        threshold = np.ceil(np.ldexp(share, 52) - 0.5).astype(np.uint64)
        return cls(near, kind.ravel().astype(np.uint64) << np.uint64(width), threshold.ravel())

    def sweep(self, x: Floats, order: NDArray[np.uint64], noise: Noise) -> tuple[Floats, Floats]:
        """The units of `order` updated one after the other, update k of a chain by element k of draw 0.

        Parameters
        ----------
        x : array of shape (chains, d)
            0 or 1; left as it is.
        order : uint64 array
        noise : Noise

        Returns
        -------
        new : array of shape (chains, d)
        changed : array of shape (chains,)
            Fraction of the units that changed.
        """
        k0, k1, update, positions = noise.address(len(x))  # type: ignore[attr-defined]
        new, changed = np.empty_like(x), np.empty(len(x))
        _sweep(x, order, self.near, self.start, self.threshold, new, changed, positions, update, k0, k1)
        return new, changed


@kernel
def _sweep(x, order, near, start, threshold, new, changed, positions, update, k0, k1):  # type: ignore[no-untyped-def]
    n, d = x.shape
    words, now = np.empty((1, order.size), np.uint32), np.zeros(d + 1, np.uint8)
    for c in range(n):
        philox.words(words, positions[c : c + 1], 0, update, k0, k1)
        for i in range(d):
            now[i] = np.uint8(x[c, i] != 0.0)
        if near.shape[1] == 4:
            _update4(now, order, near, start, threshold, words[0], positions[c : c + 1], update, k0, k1)
        else:
            _update(now, order, near, start, threshold, words[0], positions[c : c + 1], update, k0, k1)
        moved = 0
        for i in range(d):
            value = np.float64(now[i])
            moved += 1 if value != x[c, i] else 0
            new[c, i] = value
        changed[c] = moved / d


@kernel
def _update(now, order, near, start, threshold, word, position, update, k0, k1):  # type: ignore[no-untyped-def]
    """Updates of one chain, in place."""
    for k in range(order.size):
        i = order[k]
        code = start[i]
        for q in range(near.shape[1]):
            code += np.uint64(now[near[i, q]]) << np.uint64(q)
        bound, least = threshold[code], np.uint64(word[k]) << _KEPT
        below = (least | _REST) < bound
        now[i] = np.uint8(below)
        if below != (least < bound):
            now[i] = _undecided(k, bound, position, update, k0, k1)


@kernel
def _update4(now, order, near, start, threshold, word, position, update, k0, k1):  # type: ignore[no-untyped-def]
    """The same for four neighbors: grids."""
    for k in range(order.size):
        i = order[k]
        low = np.uint64(now[near[i, 0]]) + (np.uint64(now[near[i, 1]]) << np.uint64(1))
        high = np.uint64(now[near[i, 2]]) + (np.uint64(now[near[i, 3]]) << np.uint64(1))
        bound, least = threshold[start[i] + low + (high << np.uint64(2))], np.uint64(word[k]) << _KEPT
        below = (least | _REST) < bound
        now[i] = np.uint8(below)
        if below != (least < bound):
            now[i] = _undecided(k, bound, position, update, k0, k1)


@kernel
def _undecided(k, bound, position, update, k0, k1):  # type: ignore[no-untyped-def]
    """Whether the 52-bit number of element k lies below the bound, where its upper 32 bits do not tell."""
    row = np.empty((1, k + 1), np.uint64)
    philox.words64(row, position, 0, update, k0, k1)
    return np.uint8((row[0, k] >> np.uint64(12)) < bound)
