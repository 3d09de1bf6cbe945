"""Missing cells of rows under spike-and-slab sparse coding: all states of the spikes, or weighted draws of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from gnomon.contracts import Array
from gnomon.inference.exact.cells import CellMoments, chosen_components, patterns
from gnomon.inference.exact.enumeration import states
from gnomon.systems.factors._spike_and_slab import EXACT_SPIKES, SpikeAndSlabCodes, SpikeAndSlabSparseCodingModel

__all__ = ["SpikeCells"]

SWEEPS = 500
"""Of a chain over the components given the known cells, where the states of the spikes are too many to visit."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class SpikeCells:
    """What a model says of missing cells: of the columns that are known it is a model of the same kind.

    Parameters
    ----------
    model : SpikeAndSlabSparseCodingModel
    noise : Noise, optional
        Of draws; exact moments take none.

    Notes
    -----
    With up to 10 components exact, a determinant for each state. Beyond that by a chain that draws each spike with its
    slab given all others, begun at mean field, of which averages leave out the first fifth; the density of the known
    cells is then the bound of mean field.
    """

    def __init__(self, model: SpikeAndSlabSparseCodingModel, noise: Any = None) -> None:
        self.model, self.noise = model, noise

    @property
    def exact(self) -> bool:
        """Whether all states of the spikes are visited."""
        return len(self.model.bias) <= EXACT_SPIKES

    @property
    def note(self) -> str:
        """How answers are found."""
        return "all states of the spikes" if self.exact else f"a chain of {SWEEPS} sweeps"

    def moments(self, x: Array, missing: Mask) -> CellMoments:
        """Log density of the known cells (without all states: its bound), mean and variance of each missing one."""
        found = CellMoments(np.zeros(len(x)), np.array(x, np.float64), np.zeros(np.shape(x)))
        for gap, rows in patterns(missing):
            part, seen = self.model.seeing(~gap), x[rows][:, ~gap]
            log_p, mean, square = self._summed(part, seen, gap) if self.exact else self._walked(part, seen, gap, rows)
            variance = square - mean * mean + self.model.unit[gap] ** 2 / self.model.noise_precision[gap]
            found.log_prob[rows] = 0.0 if gap.all() else log_p
            found.mean[np.ix_(rows, gap)], found.variance[np.ix_(rows, gap)] = mean, variance
        return found

    def draw(self, x: Array, missing: Mask) -> Floats:
        """The rows with a joint draw of the missing cells of each."""
        found = np.array(x, np.float64)
        for gap, rows in patterns(missing):
            part, seen = self.model.seeing(~gap), x[rows][:, ~gap]
            codes = self._drawn(part, seen, gap, rows) if self.exact else self._ends(part, seen, rows)
            rest = self.noise.child("noise").rows(rows).normal(x[rows].shape, like=found)
            whole = self.model.decode(codes) + rest * self.model.unit / self.model.noise_precision**0.5
            found[np.ix_(rows, gap)] = whole[:, gap]
        return found

    # --- all states ---------------------------------------------------------------------------------------------------

    def _summed(self, part: SpikeAndSlabSparseCodingModel, x: Array, gap: Mask) -> tuple[Floats, Floats, Floats]:
        """Log density of the known cells, and first and second moments of what the components make of the others."""
        log_p, codes = part.log_by_spikes(x)
        total = logsumexp(log_p, axis=1)
        share, each = np.exp(log_p - total[:, None]), self.model.decode(codes)[..., gap]
        pull = (self.model.components * self.model.unit[:, None])[gap] @ self._slabs(~gap)
        square = np.einsum("nk,nkj->nj", share, each * each) + share @ (pull * pull).sum(2)
        return np.asarray(total), np.einsum("nk,nkj->nj", share, each), square

    def _drawn(self, part: SpikeAndSlabSparseCodingModel, x: Array, gap: Mask, places: Any) -> Floats:
        """A draw of h s of each row given the known cells."""
        log_p, codes = part.log_by_spikes(x)
        chosen = chosen_components(log_p, self.noise.child("state").rows(places))
        mean = codes[np.arange(len(x)), chosen]
        z = self.noise.child("slabs").rows(places).normal(mean.shape, like=mean)
        drawn: Floats = mean + (self._slabs(~gap)[chosen] @ z[:, :, None])[:, :, 0]
        return drawn

    def _slabs(self, seen: Mask) -> Floats:
        """A root of the covariance of h s given the known cells and each state of the spikes, (2^m, m, m)."""
        model, every = self.model, states(len(self.model.bias))
        root = model.slab_precision**-0.5
        scaled = model.components[seen] * root
        gram = scaled.T @ (model.noise_precision[seen][:, None] * scaled)
        inner = np.eye(len(root)) + every[:, :, None] * every[:, None, :] * gram
        lower = np.linalg.cholesky(inner)
        turned: Floats = np.linalg.inv(lower).swapaxes(1, 2)  # L^-T L^-1 is the inverse
        return (every * root)[:, :, None] * turned

    # --- chains -------------------------------------------------------------------------------------------------------

    def _walked(
        self, part: SpikeAndSlabSparseCodingModel, x: Array, gap: Mask, places: Any
    ) -> tuple[Floats, Floats, Floats]:
        """As `_summed`, by averages along chains; of the density the bound."""
        found = part.codes(x)
        sums, kept = np.zeros((2, len(x), int(gap.sum()))), 0
        for t, codes in enumerate(self._chain(part, x, found, places)):
            if t >= SWEEPS // 5:
                each = self.model.decode(codes)[:, gap]
                sums, kept = sums + (each, each * each), kept + 1
        return found.elbo, sums[0] / kept, sums[1] / kept

    def _ends(self, part: SpikeAndSlabSparseCodingModel, x: Array, places: Any) -> Floats:
        """The end of a chain of each row."""
        *_, last = self._chain(part, x, part.codes(x), places)
        return last

    def _chain(
        self, part: SpikeAndSlabSparseCodingModel, x: Array, found: SpikeAndSlabCodes, places: Any
    ) -> Iterator[Floats]:
        """h s after each sweep."""
        noise = self.noise.child("chain").rows(places)
        h, s = (np.array(one, np.float64) for one in part.drawn(found, noise.child("start"))[0])
        for t in range(SWEEPS):
            stream = noise.at(t)
            u = stream.child("spikes").uniform(h.shape, like=h)
            part.sweep(x, h, s, u, stream.child("slabs").normal(h.shape, like=h))
            yield h * s
