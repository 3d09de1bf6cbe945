"""Log Z of the machine during a fit by tempered chains, from chains that only watch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gnomon.contracts import Array, HasBridge, supports
from gnomon.evaluation.partition_tracking import PartitionTracker
from gnomon.inference.blocks import smallest_keep, summed_out, units_of
from gnomon.inference.mcmc.levels import machines_at, swap_neighbors, walked
from gnomon.numeric.noise import Noise

__all__ = ["CHAINS", "SWEEPS", "PartitionWatch"]

CHAINS = 100
"""Ladders of chains that watch."""
SWEEPS = 2
"""Of every chain, with swaps after each, from update to update."""
BURN_IN = 50
"""Before the first update."""


class PartitionWatch:
    """Walks chains of its own at the temperatures of an objective and follows log Z with them.

    They draw from numbers of their own and move nothing, so that the fit learns the same as without them. Cost per
    update: sweeps and energies of `CHAINS` chains at every temperature.

    Parameters
    ----------
    objective : nn.Module
        Followed where a part of it has a ``ladder``, betas and the means of the columns (`TemperedSML`).
    """

    def __init__(self, objective: torch.nn.Module) -> None:
        self.objective = objective
        self.tracker: PartitionTracker | None = None
        self.updates = 0

    @property
    def ladder(self) -> Any:
        """Betas and means of the objective; None where it has none."""
        found = (getattr(part, "ladder", None) for part in self.objective.modules())
        return next((one for one in found if one is not None), None)

    @torch.no_grad()
    def before(self, model: Any) -> Any:
        """What `after` needs to know of the machine before an update; None where there is nothing to follow."""
        if self.tracker is None and not self._begun(model):
            return None
        assert self.tracker is not None
        return self.tracker.log_densities(model, self.levels)

    @torch.no_grad()
    def after(self, model: Any, before: Any) -> None:
        """Follow log Z across an update, move the chains, and take over what they say."""
        assert self.tracker is not None
        self.tracker.predict(before, self.tracker.log_densities(model, self.levels))
        self.updates += 1
        self._walk(model, self.noise.at(self.updates), SWEEPS)
        self.tracker.observe(model, self.levels)

    def taken(self) -> dict[str, Any] | None:
        """Log Z now as a JSON object: value, standard error, restarts of the filter; None while it is not known."""
        if self.tracker is None or math.isnan(self.tracker.log_z_):
            return None
        score = self.tracker.score_
        return {"value": score.value, "error": score.error, "restarts": self.tracker.restarts_}

    def _begun(self, model: Any) -> bool:
        ladder = self.ladder
        if ladder is None or not supports(model, HasBridge):
            return False
        betas, self.mean = ladder
        self.betas = [*betas.tolist(), *([] if betas[-1] == 0 else [0.0])]
        self.tracker = PartitionTracker(self.betas, self.mean)
        self.noise = Noise(0, "monitor/log-z")
        kept = smallest_keep(model)
        self.order = (*summed_out(model, kept), *kept)
        like, start = model.place(np.zeros(0)), self.noise.child("start").rows(np.arange(CHAINS))
        units = units_of(model)

        def state(level: int) -> dict[str, Array]:
            stream = start.child(str(level))
            return {block: units[block].start(stream, CHAINS, like, draw) for draw, block in enumerate(kept)}

        self.levels = [state(level) for level in range(len(self.betas))]
        self._walk(model, self.noise.child("burn-in"), BURN_IN)
        self.tracker.observe(model, self.levels)
        return True

    def _walk(self, model: Any, noise: Any, sweeps: int) -> None:
        machines = machines_at(model, model.base(self.mean), self.betas)
        rows = noise.rows(np.arange(CHAINS))
        for sweep in range(sweeps):
            stream = rows.child(str(sweep))
            self.levels = [
                walked(machine, state, stream.child(f"level/{level}"), 1, self.order)
                for level, (machine, state) in enumerate(zip(machines, self.levels, strict=True))
            ]
            swap_neighbors(machines, self.levels, stream.child("swap"))
