"""Maximum likelihood of energy models: the exact gradient, contrastive divergence, persistent chains.

All three are the same loss, mean energy of the data minus mean energy under the model (minus log Z's gradient), and
differ in where the model's side comes from: all states (here), or chains (`gnomon.objectives.chains`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.arrays import convert
from gnomon.inference.blocks import bits, smallest_keep
from gnomon.inference.exact.enumeration import (
    log_evidence,
    log_partition,
    log_partition_gradient,
    weighted_posterior,
)  # fmt: skip
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.chains import ChainPlan, ContrastiveDivergence, PersistentChains
from gnomon.objectives.closed_form import InClosedForm
from gnomon.objectives.growth import Growth
from gnomon.objectives.negative import Negative
from gnomon.objectives.positive import Positive, observed_block
from gnomon.objectives.transitions import Transition
from gnomon.recipes.recipe import Recipe

__all__ = ["CD", "PCD", "EnergyObjective", "Exact", "InClosedForm"]

State = dict[str, Any]


class EnergyObjective(Recipe):
    """Base: the principle that an energy model is trained by."""

    @property
    def deep(self) -> bool:
        """Whether it trains machines whose hidden layers depend on each other given the data."""
        return False

    @property
    def recognizes(self) -> bool:
        """Whether it teaches a network beside the machine to guess its hidden means."""
        return False

    def build(self) -> Objective:
        """The objective."""
        raise NotImplementedError


@dataclass(frozen=True)
class Exact(EnergyObjective):
    """The exact gradient of the log-likelihood, by enumeration: small models only.

    Parameters
    ----------
    limit : int in [1, 30], default 20
        log2 of the states that are visited at most: units of the smaller layer, where these are binary. The cost per
        update is as many gradients, and of hidden blocks that depend on each other as many again for each row.
    """

    short: ClassVar[str] = "exact"
    limit: Annotated[int, "[1, 30]"] = 20

    @property
    def deep(self) -> bool:
        """Yes."""
        return True

    def build(self) -> Objective:
        """The objective."""
        return _ExactLikelihood(self.limit)


@dataclass(frozen=True)
class CD(EnergyObjective):
    """Contrastive divergence (Hinton 2002): chains start at the data and run k steps.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Steps; a Gibbs sweep is hidden, then visible.
    growth : {"fixed", "rising", "table"} or recipe, default "fixed"
        What becomes of k in the course of the fit; the history then has it as ``k``.
    positive : {"clamped", "mean_field"} or recipe, default "clamped"
        What the hidden blocks are given the data: exact where they are independent given it, as in an RBM.
    transition : {"gibbs", "hmc", "langevin"} or recipe, default "gibbs"
        What a step is: a sweep over the blocks, or a move of real rows along the slope of log p.
    """

    short: ClassVar[str] = "cd"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"growth": Growth, "positive": Positive, "transition": Transition}
    k: Annotated[int, "[1, inf)"] = 1
    growth: str | Recipe = "fixed"
    positive: str | Recipe = "clamped"
    transition: str | Recipe = "gibbs"

    def build(self) -> Objective:
        """The objective."""
        return ContrastiveDivergence(ChainPlan.of(self))


@dataclass(frozen=True)
class PCD(EnergyObjective):
    """Persistent contrastive divergence (Tieleman 2008; Younes 1999): chains go on from update to update.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Steps per update.
    growth : {"fixed", "rising", "table"} or recipe, default "fixed"
        What becomes of k in the course of the fit; the history then has it as ``k``.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows.
    positive : {"clamped", "mean_field"} or recipe, default "clamped"
        What the hidden blocks are given the data: exact where they are independent given it, as in an RBM.
    negative : {"conditional", "mean_field"} or recipe, default "conditional"
        What the blocks are where a chain stands: half of them as drawn and the others at their means, or all of them at
        the means of one round of mean field from there, with less noise and some bias.
    transition : {"gibbs", "hmc", "langevin"} or recipe, default "gibbs"
        What a step is: a sweep over the blocks, or a move of real rows along the slope of log p.
    """

    short: ClassVar[str] = "pcd"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "growth": Growth, "positive": Positive, "negative": Negative, "transition": Transition,
    }  # fmt: skip
    k: Annotated[int, "[1, inf)"] = 1
    growth: str | Recipe = "fixed"
    n_chains: Annotated[int, "[1, inf)"] | None = None
    positive: str | Recipe = "clamped"
    negative: str | Recipe = "conditional"
    transition: str | Recipe = "gibbs"

    @property
    def deep(self) -> bool:
        """Yes."""
        return True

    def build(self) -> Objective:
        """The objective."""
        return PersistentChains(ChainPlan.of(self), self.n_chains)


class _ExactLikelihood(InClosedForm):
    by_row = True
    compares_means = True

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Energies of the data plus log Z, whose gradient enumerates the kept blocks with the fewest states."""
        total = float(weight.sum())
        gradients = self._near(model, X, weight)
        for expected in self._far(model, X, weight):
            gradients = {name: gradients[name] - expected[name] for name in gradients}

        def loss() -> float:
            energy = model.energy(X) if hasattr(model, "energy") else -log_evidence(model, self._given(model, X))
            return _sum(weight * energy) + self._log_z(model, X, weight)

        gradients = {name: model.place(value) for name, value in gradients.items()}
        return Loss({"negative_log_likelihood": Term(loss, total)}, gradients, "negative_log_likelihood")

    @staticmethod
    def _given(model: Any, X: Array) -> State:
        return {observed_block(model): X}

    def _far(self, model: Any, X: Array, weight: Array) -> Iterator[dict[str, Array]]:
        """Gradients of the energies of all states, each with its probability times the weight of the rows, in parts."""
        if getattr(model, "held", None) is None:
            total, slopes = float(weight.sum()), log_partition_gradient(model, limit=self.limit, like=X)
            yield {name: -total * value for name, value in slopes.items()}
            return
        for states, log_p, rows in weighted_posterior(model.released, model.conditions, limit=self.limit):
            found = model.released.marginal_gradient(states, (weight[rows][:, None] * _exp(log_p, X)).reshape(-1))
            yield model.summed(found, rows, len(X))

    def _log_z(self, model: Any, X: Array, weight: Array) -> float:
        """Sum of the rows' weights times log Z, which is another for each condition."""
        if getattr(model, "held", None) is None:
            return float(weight.sum()) * log_partition(model, limit=self.limit, like=X)
        return _sum(weight * convert(model.log_partitions(model.held, limit=self.limit), weight))

    def _near(self, model: Any, X: Array, weight: Array) -> dict[str, Array]:
        """Expected gradients of the data's energies, over the hidden blocks given each row."""
        given = self._given(model, X)
        if not bits(model, (block for block in smallest_keep(model, given) if block not in given)):
            return cast(dict[str, Array], model.marginal_gradient(given, weight))
        found: dict[str, Array] = {}
        for states, log_p, rows in weighted_posterior(model, given, limit=self.limit):
            share = (weight[rows][:, None] * _exp(log_p, X)).reshape(-1)
            for name, value in model.marginal_gradient(states, share).items():
                found[name] = found[name] + value if name in found else value
        return found


def _sum(values: Array) -> float:
    return float(values.sum().item())


def _exp(log_p: Array, like: Array) -> Array:
    """exp, in float64 beside NumPy states and in the type of tensors."""
    return convert(log_p, like).exp() if is_tensor(like) else np.exp(log_p)
