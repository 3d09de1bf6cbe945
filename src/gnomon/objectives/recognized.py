"""Persistent chains of a deep machine whose hidden means are guessed by a network and refined by mean field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.contracts import Array, Group, Noise
from gnomon.distributions.units import mean_of
from gnomon.errors import UserTypeError
from gnomon.inference.variational.mean_field import factorized_posterior
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.chains import ChainPlan, PersistentChains
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.growth import Growth
from gnomon.objectives.negative import Negative
from gnomon.objectives.positive import Positive, observed_block
from gnomon.recipes.recipe import Recipe

__all__ = ["Recognized"]


@dataclass(frozen=True)
class Recognized(EnergyObjective):
    """`PCD` whose mean field begins at the guess of a network, which learns beside the machine to say what comes out.

    The guess is so near the solution after a while that a round or two are enough, where mean field from the middle
    takes tens. The network is the machine's ``recognition``, of one pass up: it begins as the machine's own couplings,
    doubled below the top, and is saved with it; `infer` of the system begins at its guess.

    Parameters
    ----------
    k : int in [1, inf), default 5
        Gibbs steps per update.
    growth : {"fixed", "rising", "table"} or recipe, default "fixed"
        What becomes of k in the course of the fit.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows.
    rounds : int in [1, inf), default 1
        Of mean field from the guess.
    negative : {"conditional", "mean_field"} or recipe, default "conditional"
        As of `PCD`.

    Notes
    -----
    The history has the network's loss as ``recognition_loss``, nats per row. The gradient of the network does not go
    through the refined means, nor does that of the machine go through the network.

    References
    ----------
    Salakhutdinov and Larochelle (2010), "Efficient learning of deep Boltzmann machines".

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> machine = gnomon.DBM(hidden=(4, 3), objective=Recognized(), epochs=30, learning_rate=0.1, random_state=0).fit(X)
    >>> machine.score(X) > -2, bool(machine.infer(X[:1], steps=1).residual < 0.2)
    (True, True)
    """

    short: ClassVar[str] = "recognized"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"growth": Growth, "negative": Negative}
    k: Annotated[int, "[1, inf)"] = 5
    growth: str | Recipe = "fixed"
    n_chains: Annotated[int, "[1, inf)"] | None = None
    rounds: Annotated[int, "[1, inf)"] = 1
    negative: str | Recipe = "conditional"

    @property
    def deep(self) -> bool:
        """Yes."""
        return True

    @property
    def recognizes(self) -> bool:
        """Yes."""
        return True

    def build(self) -> Objective:
        """The objective."""
        growth: Growth = self.recipe("growth")
        growth.check(self.k)
        return _Recognized(ChainPlan(self.k, growth, _Refined(self.rounds), self.recipe("negative")), self.n_chains)


@dataclass(frozen=True)
class _Refined(Positive):
    """Mean field that begins at the guess of the machine's network."""

    rounds: int

    def __call__(self, model: Any, X: Array, noise: Noise) -> dict[str, Any]:
        """See `Positive`; the round that makes the distributions is the last one."""
        return factorized_posterior(
            model, {observed_block(model): X}, steps=self.rounds - 1, tol=0.0, start=model.recognition(X)
        )


class _Recognized(PersistentChains):
    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Chains.

        Raises
        ------
        UserTypeError
            A machine that has no network.
        """
        if getattr(model, "recognition", None) is None:
            what = f"recognized needs a machine with a recognition network, {type(model).__name__} has none"
            raise UserTypeError(what, "objective", "use dbm, or the objective pcd")
        super().begin(model, batches, noise, group)

    def _contrast(
        self, model: Any, q: dict[str, Any], weight: Array, fantasy: dict[str, Any], counter: Array, sampler: Any = None
    ) -> tuple[Loss, dict[str, Any]]:
        """As of persistent chains, and the network's lesson."""
        loss, rest = super()._contrast(model, q, weight, fantasy, counter, sampler)
        data, network = observed_block(model), model.recognition
        means = {block: mean_of(one) for block, one in q.items() if block != data}
        missed, slopes = network.lesson(q[data], means, weight)
        gradients = {**(loss.gradients or {}), **{f"recognition.{name}": value for name, value in slopes.items()}}
        terms = loss.terms | {"recognition_loss": Term(missed, float(weight.sum()))}
        return Loss(terms, gradients, loss.per, loss.watch), rest
