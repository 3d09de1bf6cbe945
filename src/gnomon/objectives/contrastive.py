"""Maximum likelihood of energy models: the exact gradient, contrastive divergence, persistent chains.

All three are the same loss, mean energy of the data minus mean energy under the model (minus log Z's gradient), and
differ in where the model's side comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array, Group, HasEnergyGradient, Noise
from gnomon.inference.exact.enumeration import log_partition, smallest_block, weighted_states
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.objectives.base import Loss, Objective, Term, shard
from gnomon.recipes.recipe import Recipe

__all__ = ["CD", "PCD", "Exact"]

VISIBLE, HIDDEN = "visible", "hidden"


@dataclass(frozen=True)
class Exact(Recipe):
    """The exact gradient of the log-likelihood, by enumeration of the smaller layer: small models only.

    Parameters
    ----------
    limit : int in [1, 30], default 20
        Units of the smaller layer at most; the cost per update is 2^units.
    """

    slot: ClassVar[str] = "objective"
    short: ClassVar[str] = "exact"
    limit: Annotated[int, "[1, 30]"] = 20

    def build(self) -> Objective:
        """The objective."""
        return _ExactLikelihood(self.limit)


@dataclass(frozen=True)
class CD(Recipe):
    """Contrastive divergence (Hinton 2002): chains start at the data and run k steps.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Gibbs steps, each hidden then visible.
    """

    slot: ClassVar[str] = "objective"
    short: ClassVar[str] = "cd"
    k: Annotated[int, "[1, inf)"] = 1

    def build(self) -> Objective:
        """The objective."""
        return _ContrastiveDivergence(self.k)


@dataclass(frozen=True)
class PCD(Recipe):
    """Persistent contrastive divergence (Tieleman 2008; Younes 1999): chains go on from update to update.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Gibbs steps per update.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows.
    """

    slot: ClassVar[str] = "objective"
    short: ClassVar[str] = "pcd"
    k: Annotated[int, "[1, inf)"] = 1
    n_chains: Annotated[int, "[1, inf)"] | None = None

    def build(self) -> Objective:
        """The objective."""
        return _PersistentChains(self.k, self.n_chains)


def _loss(model: HasEnergyGradient, X: Array, weight: Array, fantasy: Array, counter: Array) -> tuple[Loss, Array]:
    """Gradients of sum weight_i E(x_i) - sum counter_i E(fantasy_i) in one product; all hidden means."""
    gradients, hidden = model.energy_gradient(np.concatenate([X, fantasy]), np.concatenate([weight, -counter]))

    def gap() -> float:
        return float((weight * model.energy(X)).sum() - (counter * model.energy(fantasy)).sum())

    total = float(weight.sum())
    return Loss({"energy_gap": Term(gap, total)}, gradients, "energy_gap"), hidden


class _ContrastiveDivergence(Objective):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Energies of the data against those k Gibbs steps away, each pair with the row's weight."""
        X, weight = model.place(batch.data["X"]), model.place(batch.weight)
        chain = gibbs(model, {VISIBLE: X}, noise.rows(batch.positions), steps=self.k, order=(HIDDEN, VISIBLE))
        return _loss(model, X, weight, chain[VISIBLE], weight)[0]


class _PersistentChains(Objective):
    sharded = ("chains",)
    chains: torch.Tensor

    def __init__(self, k: int, n_chains: int | None) -> None:
        super().__init__()
        self.k, self.n_chains = k, n_chains

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Hidden states of all chains, fair coins; every process keeps its part."""
        self.n_chains = self.n_chains or batches.batch_size
        part = shard(self.n_chains, group)
        self.positions = np.arange(part.start, part.stop)
        shape = (len(self.positions), model.sizes[HIDDEN])
        half = model.place(np.full(shape, 0.5))
        self.register_buffer("chains", torch.as_tensor(noise.child("chains").rows(self.positions).bernoulli(half)))
        self.counter = model.place(np.ones(len(self.positions)))

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Energies of the data against those of the chains; the chains then move to new hidden states."""
        X, weight = model.place(batch.data["X"]), model.place(batch.weight)
        places = noise.rows(self.positions)
        chain = {HIDDEN: self.views()["chains"]}
        chain = {VISIBLE: model.conditional(VISIBLE, chain).sample(places, 0)}
        if self.k > 1:
            chain = gibbs(model, chain, places, steps=self.k - 1, order=(HIDDEN, VISIBLE), draw0=1)
        self.counter.fill(group.sum(float(weight.sum())) / (self.n_chains or 1))
        loss, hidden = _loss(model, X, weight, chain[VISIBLE], self.counter)
        np.copyto(self.views()["chains"], places.bernoulli(hidden[len(X) :], 2 * self.k))
        return loss


class _ExactLikelihood(Objective):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Energies of the data plus log Z, whose gradient enumerates the smaller layer."""
        X, weight = model.place(batch.data["X"]), model.place(batch.weight)
        total = float(weight.sum())
        gradients, _ = model.energy_gradient(X, weight)
        block = smallest_block(model)
        for states, log_p in weighted_states(model, block, limit=self.limit):
            expected = model.marginal_gradient(block, states, np.exp(log_p))
            gradients = {name: gradients[name] - total * expected[name] for name in gradients}

        def loss() -> float:
            return float((weight * model.energy(X)).sum()) + total * log_partition(model, limit=self.limit)

        gradients = {name: model.place(value) for name, value in gradients.items()}
        return Loss({"negative_log_likelihood": Term(loss, total)}, gradients, "negative_log_likelihood")
