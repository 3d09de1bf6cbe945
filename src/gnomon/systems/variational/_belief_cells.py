"""Missing bits of rows under a belief net: all states of its hidden layers, or chains over them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Noise
from gnomon.inference.arrays import convert, to_numpy, where
from gnomon.inference.exact.cells import mixed_cells
from gnomon.system.gaps import Mask
from gnomon.system.latent_gaps import FillsByStates
from gnomon.systems.variational._belief_net import BeliefNetModel
from gnomon.systems.variational._belief_sums import LayerSums
from gnomon.systems.variational._completing import Completing, Latent
from gnomon.systems.variational._evidence import LatentEvidence

__all__ = ["FillsByBelief"]


class CompletingNet(Completing):
    """A `BeliefNetModel` whose missing cells are drawn given its hidden layers."""

    @torch.no_grad()
    def refill(self, x: torch.Tensor, z: Latent, missing: Any, noise: Noise) -> torch.Tensor:
        """The row with its missing cells drawn given h.

        Linked cells are proposed one by one, each given those before it; the known cells behind them then speak for or
        against the proposal (Metropolis and Hastings).
        """
        bits, gap = self.model.rows_given(z[0]), convert(missing, x) > 0
        drawn = bits.sample(noise.child("draw"), held=(x, ~gap))
        if bits.links is None:
            return drawn
        odds = ((bits.log_terms(drawn) - bits.log_terms(x)) * ~gap).sum(1)
        u = noise.child("keep").uniform((len(x), 1), like=x)[:, 0]
        moved: torch.Tensor = where((u.log() < odds)[:, None], drawn, x)
        return moved

    @torch.no_grad()
    def expected(self, x: torch.Tensor, z: Latent) -> torch.Tensor:
        """E[x | h]; linked cells as they are."""
        bits = self.model.rows_given(z[0])
        mean: torch.Tensor = bits.logits.sigmoid() if bits.links is None else x
        return mean


class SeeingNet:
    """The known cells of rows and what is latent: rows are [x, seen], with 1 where a cell is known.

    Latent are the hidden layers and the missing cells, which are drawn each given the cells before it. Any guess of
    them leaves every importance-weighted average a bound.

    Parameters
    ----------
    model : BeliefNetModel
    """

    def __init__(self, model: BeliefNetModel) -> None:
        self.model = model

    def infer(self, x: torch.Tensor, noise: Noise) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        """See `Encoder`: hidden layers given the guess, then the missing cells; less what both nets say of these."""
        rows, seen = x.chunk(2, 1)
        z, log_q = self.model.infer(rows, noise.child("latent"))
        return (z, self.model.rows_given(z).sample(noise.child("cells"), held=(rows, seen > 0))), log_q

    def log_joint(self, x: torch.Tensor, z: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """log p(known cells, h) if nothing is linked; less the log probability with which the missing ones came."""
        seen = x.chunk(2, 1)[1]
        return self.model.log_prior(z[0]) + (self.model.rows_given(z[0]).log_terms(z[1]) * seen).sum(1)

    def sample_prior(self, n: int, noise: Noise) -> tuple[torch.Tensor, torch.Tensor]:
        """See `HasLatents`."""
        rows, z = self.model.dream(n, noise)
        return z, rows


class FillsByBelief(FillsByStates, LatentEvidence):
    """Beside a belief net."""

    enumerated: ClassVar[str] = "all states of the hidden layers"

    @available_if(lambda self: not hasattr(self, "model_") or self._has_few_states)
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log probability of the known cells of each row in nats; of nets that have `log_prob`, unlinked rows."""
        rows, missing = self._gaps(X, mask)
        joint, mean = self._joint_of_states(rows, missing)
        return mixed_cells(rows, missing, joint, mean, mean).log_prob

    @property
    def _has_few_states(self) -> bool:
        return self.model_.is_exact and self.model_.links_down(0) is None

    def _joint_of_states(self, rows: Array, missing: Mask) -> tuple[Any, Any]:
        with torch.no_grad():
            sums = LayerSums(self.model_)
            below = self.model_.given(0, sums.states[0])
            field, prior = (to_numpy(one).astype(np.float64) for one in (below.logits, sums.marginals[0]))
        on, off, seen = -np.logaddexp(0, -field), -np.logaddexp(0, field), ~missing
        return (seen * rows) @ on.T + (seen * (1 - rows)) @ off.T + prior, np.exp(on)

    def latent_view(self) -> Completing:
        return CompletingNet(self.model_)

    def seeing_view(self) -> SeeingNet:
        return SeeingNet(self.model_)
