"""The perceptron loss of an energy model: rows against what a short chain from them has found below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.contracts import Array, Group, Noise
from gnomon.errors import UserTypeError
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.chains import ChainPlan, ContrastiveDivergence, fused
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.growth import Growth
from gnomon.objectives.negative import Conditional
from gnomon.objectives.positive import Clamped
from gnomon.objectives.transitions import Transition
from gnomon.recipes.recipe import Recipe

__all__ = ["CDPercLoss"]


@dataclass(frozen=True)
class CDPercLoss(EnergyObjective):
    r"""CD-PercLoss (Mnih, Larochelle and Hinton 2011): contrastive divergence of the rows that a chain has beaten.

    The perceptron loss of outputs y is :math:`F(y) - \min_{y'} F(y')`, with the free energy F: how far below y the
    likeliest outputs lie. In place of the minimum stands the lower one of y and :math:`\tilde y`, k steps of a chain
    from y,

    .. math:: \max(0, F(y) - F(\tilde y)),

    so that a row has the gradient of :math:`F(y) - F(\tilde y)` where the chain has found outputs of lower free energy,
    and none where it has not. What is learned is a prediction, the outputs of least free energy, and no distribution:
    rows that are right already no longer move the machine, and probabilities that it tells mean little.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Steps; a Gibbs sweep is hidden, then visible.
    growth : {"fixed", "rising", "table"} or recipe, default "fixed"
        What becomes of k in the course of the fit; the history then has it as ``k``.
    transition : {"gibbs", "hmc", "langevin"} or recipe, default "gibbs"
        What a step is: a sweep over the blocks, or a move of real rows along the slope of log p.

    Notes
    -----
    The history has ``perceptron_loss``, and ``violations``, the share of rows that moved the machine. F is taken in
    closed form, so that hidden units have to be independent given the row. Cost per update: that of `CD`, and two free
    energies of each row.

    References
    ----------
    Mnih, Larochelle and Hinton (2011), "Conditional restricted Boltzmann machines for structured output prediction";
    LeCun, Chopra, Hadsell, Ranzato and Huang (2006), "A tutorial on energy-based learning", section 2.2.2.

    Examples
    --------
    Which of two outputs is on, and that it is one of them, depends on x; the likeliest outputs are learned.

    >>> import numpy as np
    >>> import gnomon
    >>> X = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], 25, axis=0)
    >>> odd = X[:, 0] != X[:, 1]
    >>> Y = np.column_stack([odd, ~odd])
    >>> machine = gnomon.ConditionalRBM(n_hidden=8, outputs="bernoulli", objective=CDPercLoss(), epochs=60,
    ...                                 learning_rate=0.05, random_state=0).fit(X, Y)
    >>> bool((machine.most_probable(X) == Y).all())
    True
    """

    short: ClassVar[str] = "cd-percloss"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"growth": Growth, "transition": Transition}
    k: Annotated[int, "[1, inf)"] = 1
    growth: str | Recipe = "fixed"
    transition: str | Recipe = "gibbs"

    def build(self) -> Objective:
        """The objective."""
        growth: Growth = self.recipe("growth")
        growth.check(self.k)
        return _Beaten(ChainPlan(self.k, growth, Clamped(), Conditional(), self.recipe("transition")))


class _Beaten(ContrastiveDivergence):
    """Chains that start at the data, of which those count that end below it."""

    def contrast(
        self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group, k: int
    ) -> Loss:
        """Free energies of the data against lower ones k steps away."""
        data, kept, rest = self._split(model)
        if tuple(kept) != (data,):
            what = "cd-percloss compares free energies, which hidden units that depend on each other do not have"
            raise UserTypeError(what, "objective", "use cd or pcd")
        stream = noise.rows(positions)
        if self.moves is None:
            end = gibbs(model, {data: X}, stream, steps=k, order=(*rest, *kept))[data]
        else:
            end = self.moves.walk(model, X, stream, k)
        gain = model.marginal_energy({data: X}) - model.marginal_energy({data: end})
        beaten = weight * (gain > 0)
        total = float(weight.sum())
        terms = {
            "perceptron_loss": Term(float((beaten * gain).sum()), total),
            "violations": Term(float(beaten.sum()), total),
        }
        if self.moves is not None:
            terms |= self.moves.terms(total, group)
        if self._is_fused(model):
            loss = fused(model, X, beaten, total, end, beaten)[0]
        else:
            loss = self._contrast(model, self.positive(model, X, stream), beaten, {data: end}, beaten)[0]
        return Loss(terms, loss.gradients, "perceptron_loss")
