"""Missing bits of sequences: all ways to complete a sequence, each with its probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.cells import CellMoments, chosen_components, patterns
from gnomon.inference.exact.enumeration import states
from gnomon.system.gaps import Cells, Mask
from gnomon.system.sequences import MaskedFrames

__all__ = ["FillsSequences"]

EXACT_GAPS = 12
"""Missing bits of a sequence of which all completions are visited."""
CHUNK = 1 << 14
"""Completed sequences at a time."""


class FillsSequences(MaskedFrames):
    """Beside a machine of sequences of bits with exact probabilities; NaN stands for no frame, so `mask` alone.

    A cell moves every frame after it, so that cells are found from whole sequences: up to 2^12 completions of each.
    """

    @available_if(lambda self: not hasattr(self, "model_") or hasattr(self, "log_prob"))
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log probability of the known cells of each sequence in nats, the masked ones summed out."""
        rows, missing = self._gaps(X, mask)
        found = np.zeros(len(rows))
        for gap, at in patterns(missing):
            found[at] = logsumexp(self._completed(rows[at], gap)[1], axis=1)
        return np.where((missing | np.isnan(rows)).all(1), 0.0, found)

    def cells_given(self, rows: Array, missing: Mask, noise: Noise) -> Cells:
        found = CellMoments(np.zeros(len(rows)), np.array(rows, np.float64), np.zeros(rows.shape))
        for gap, at in patterns(missing):
            bits, log_p = self._completed(rows[at], gap)
            mean = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True)) @ bits
            found.mean[np.ix_(at, gap)], found.variance[np.ix_(at, gap)] = mean, mean * (1 - mean)
        return self._in_own_units(found, True, "all completions")

    def cells_drawn(self, rows: Array, missing: Mask, noise: Noise) -> Cells:
        drawn = np.array(rows, np.float64)
        for gap, at in patterns(missing):
            bits, log_p = self._completed(rows[at], gap)
            drawn[np.ix_(at, gap)] = bits[chosen_components(log_p, noise.child("completion").rows(at))]
        return Cells(drawn, None, True, "independent draws")

    def column_states(self) -> int | None:
        return 2 if self.visible == "bernoulli" and hasattr(self, "log_prob") else None  # type: ignore[attr-defined]

    def complete_log_density(self, rows: Array) -> Array | None:
        found: Array = self._by_sequence(rows, True)[0]  # type: ignore[attr-defined]
        return found

    def _completed(self, rows: Array, gap: Mask) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All states of the missing bits (states, bits), and log p of each row with each of them, (rows, states)."""
        if self.visible != "bernoulli" or not hasattr(self, "log_prob"):  # type: ignore[attr-defined]
            what = f"cells of {self.name} are filled in for frames of zeros and ones with an exact log_prob alone"  # type: ignore[attr-defined]
            raise UserTypeError(what, "X", "generate goes on from the frames before")
        if gap.sum() > EXACT_GAPS:
            what = f"the masked cells of a sequence must be at most {EXACT_GAPS}, got {gap.sum()}"
            raise UserValueError(what, "mask", "mask fewer")
        bits = states(int(gap.sum()))
        many = np.repeat(rows, len(bits), axis=0)
        many[:, gap] = np.tile(bits, (len(rows), 1))
        parts = [self._by_sequence(part, True)[0] for part in np.array_split(many, -(-len(many) // CHUNK))]  # type: ignore[attr-defined]
        return bits, np.concatenate(parts).reshape(len(rows), len(bits))
