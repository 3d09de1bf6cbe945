"""Learning of a deep belief network as a whole: wake and sleep, with contrastive divergence at the top."""

from __future__ import annotations

from typing import Any, ClassVar

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.objectives.base import Loss, Term
from gnomon.objectives.contrastive import InClosedForm

__all__ = ["UpDown"]


class UpDown(InClosedForm):
    """The up-down algorithm (Hinton, Osindero and Teh 2006).

    Wake: layers are drawn upwards from the rows, and each is taught to reproduce the layer below it. The machine at the
    top learns by contrastive divergence from the topmost of them. Sleep: from where its chain ends layers are drawn
    downwards, and the way up is taught to find their causes.

    Parameters
    ----------
    k : int in [1, inf)
        Gibbs steps of the machine at the top.
    """

    descends: ClassVar[bool] = False

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Costs of what was drawn upwards and downwards, and their gradients."""
        rows, total = noise.rows(positions), float(weight.sum())
        top, lower = model.pair(model.depth), f"hidden_{model.depth - 1}"
        wake = model.draw_up(X, rows.child("wake"))
        chain = gibbs(top, {lower: wake[-1]}, rows.child("top"), steps=self.k, order=(top.blocks[1], lower))
        dream = model.draw_down(chain[lower], rows.child("sleep"))
        near, far = (top.marginal_gradient({lower: x}, weight) for x in (wake[-1], chain[lower]))
        gradients = {model.owner(name): near[name] - far[name] for name in near}
        gradients |= model.generative_gradient(wake, weight) | model.recognition_gradient(dream, weight)

        def cost() -> float:
            return -float((weight * model.log_prob_down(wake)).sum())

        def surprise() -> float:
            return -float((weight * model.log_prob_up(dream)).sum())

        return Loss({"wake": Term(cost, total), "sleep": Term(surprise, total)}, gradients, "wake")
