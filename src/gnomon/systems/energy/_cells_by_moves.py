"""Missing cells under an energy of any form over real columns: by Hamiltonian chains that hold the known ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.cells import CellMoments, NormalCells, observed_by_quadrature
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.sampling import sample_chain
from gnomon.system.gaps import Cells, FillsGaps

__all__ = ["FillsByMoves"]

STEP = 0.3
"""First leapfrog step, in the model's units."""
MOVES = 100
"""Moves of a chain before its draws count."""
CHAINS, DRAWS = 50, 20
"""Chains of a row, and draws of each, of which the moments of missing cells are averages."""


class FillsByMoves(FillsGaps):
    """Beside a product of experts: closed forms of normal ones, else chains."""

    model_: Any
    _scaled: Any
    _log_volumes: Any
    from_visible: Any

    @available_if(lambda self: not hasattr(self, "model_") or self.model_.has_normalizer)
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log density of the known cells of each row in nats: of normal experts, or of one or two columns."""
        rows, missing = self._gaps(X, mask)
        if self.model_._is_normal:
            found = self._normal_cells().moments(self._scaled(rows), missing).log_prob - (~missing) @ self._log_volumes
        else:
            found = self._integrated(rows, missing, self.model_.log_partition())
        return np.asarray(found - self._log_units_seen(rows, missing))

    def observed_estimate(self, rows: Array, missing: Any) -> tuple[Array, dict[str, Any]]:
        log_z: Any = self.log_partition()  # type: ignore[attr-defined]
        values = self._integrated(rows, missing, log_z.value - self._log_volumes.sum())
        return values, {"kind": "estimate", "error": log_z.error, "note": log_z.note}

    def _integrated(self, rows: Array, missing: Any, log_z: float) -> Any:
        """Log density of the known cells, with log Z in the model's units: at most two of a row are integrated out."""
        some, found = ~missing.all(1), np.zeros(len(rows))
        integrals = observed_by_quadrature(self.model_.energy, self._scaled(rows)[some], missing[some])
        found[some] = integrals - log_z - (~missing[some]) @ self._log_volumes
        return found

    def cells_given(self, rows: Array, missing: Any, noise: contracts.Noise) -> Cells:
        scaled, gap = self._scaled(rows), missing.any(1)
        if self.model_._is_normal:
            return self._in_columns(self._normal_cells().moments(scaled, missing), True, "closed form")
        mean, variance = np.array(scaled, np.float64), np.zeros(scaled.shape)
        if gap.any():
            many, lacks = (np.repeat(one[gap], CHAINS, axis=0) for one in (scaled, missing))
            drawn = self._walked(many, lacks, noise, DRAWS).reshape(int(gap.sum()), CHAINS * DRAWS, -1)
            mean[gap], variance[gap] = drawn.mean(1), drawn.var(1)
        note = f"{CHAINS} Hamiltonian chains of {MOVES + DRAWS} moves"
        return self._in_columns(CellMoments(mean[:, 0], mean, variance), False, note)

    def cells_drawn(self, rows: Array, missing: Any, noise: contracts.Noise) -> Cells:
        scaled, gap = np.array(self._scaled(rows), np.float64), missing.any(1)
        if self.model_._is_normal:
            drawn = self._normal_cells().draw(scaled, missing, noise)
            return Cells(self.from_visible(drawn), None, True, "independent draws")
        if gap.any():
            scaled[gap] = self._walked(scaled[gap], missing[gap], noise, 1)[:, -1]
        return Cells(self.from_visible(scaled), None, False, f"ends of Hamiltonian chains of {MOVES} moves")

    def normal_density(self) -> NormalCells | None:
        return self._normals_in_units(self._normal_cells(), self.from_visible) if self.model_._is_normal else None

    def complete_log_density(self, rows: Array) -> Array | None:
        return np.asarray(-self.model_.energy(self._scaled(rows)))

    def _in_columns(self, found: CellMoments, exact: bool, note: str) -> Cells:
        spread = self.from_visible(np.sqrt(found.variance)) - self.from_visible(0 * found.variance)
        return Cells(self.from_visible(found.mean), spread, exact, note)

    def _normal_cells(self) -> NormalCells:
        mean, precision = self.model_.moments()
        return NormalCells([0.0], [mean], [np.linalg.inv(precision)])

    def _walked(self, rows: Array, missing: Any, noise: contracts.Noise, draws: int) -> Any:
        """Draws (rows, draws, d) of a chain for each row over its missing cells; known ones are beside it at rest."""
        held, free = self.model_.place(np.array(rows, np.float64)), self.model_.place(missing)

        def log_density(z: Any) -> Any:  # what is known has numbers of its own that lead nowhere
            kept = 1 - free.to(z)
            return -self.model_.energy(z * free.to(z) + held.to(z) * kept) - 0.5 * (z * z * kept).sum(1)

        seed = int(noise.child("walk").integers(2**31 - 1, (1,))[0])
        start = noise.child("start").rows(np.arange(len(rows))).normal(rows.shape, like=np.zeros(0))
        found = sample_chain(
            log_density, HMC(STEP, steps=10), chains=len(rows), draws=draws, burn_in=MOVES, start=start,
            random_state=seed,
        )  # fmt: skip
        return np.where(missing[:, None], to_numpy(found.draws), np.asarray(rows, np.float64)[:, None])
