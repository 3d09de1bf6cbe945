"""Fast persistent contrastive divergence: weights of short memory that drive the chains away from where they sit."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.objectives.base import Loss, Objective
from gnomon.objectives.chains import ChainPlan, PersistentChains
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.growth import Growth
from gnomon.objectives.positive import Positive
from gnomon.recipes.recipe import Recipe

__all__ = ["FPCD"]


@dataclass(frozen=True)
class FPCD(EnergyObjective):
    r"""Persistent contrastive divergence with fast weights (Tieleman and Hinton 2009).

    Chains are drawn at :math:`\theta + \theta_f`. After each update with the mean gradient g of the loss,
    :math:`\theta_f \leftarrow \text{decay} \cdot \theta_f - \text{fast\_lr} \cdot g`: where the chains sit, energies
    rise for a while, and the chains leave. The fitted machine has theta alone; the chains are not draws from it.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Gibbs steps per update.
    growth : {"fixed", "rising", "table"} or recipe, default "fixed"
        What becomes of k in the course of the fit; the history then has it as ``k``.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows.
    fast_lr : float in [0, inf), default 0.05
        Learning rate of the fast weights, for the mean gradient of a batch; 0 is `PCD`.
    decay : float in [0, 1], default 0.95
        What is left of the fast weights at the next update; 0: they are the last gradient times `fast_lr`.
    applies : {"chains", "model"}, default "chains"
        ``chains``: as published, the data are seen by theta alone. ``model``: by the sum, too.
    positive : {"clamped", "mean_field"} or recipe, default "clamped"
        What the hidden blocks are given the data: exact where they are independent given it, as in an RBM.

    Notes
    -----
    Cost: that of `PCD`, with one more pass over the parameters. Learned parameters of every kind get fast ones.

    References
    ----------
    Tieleman and Hinton (2009), "Using fast weights to improve persistent contrastive divergence", section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> rbm = gnomon.RBM(n_hidden=4, objective=FPCD(), epochs=60, learning_rate=0.2, random_state=0).fit(X)
    >>> bool(rbm.score(X) > -2)
    True
    """

    short: ClassVar[str] = "fpcd"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"growth": Growth, "positive": Positive}
    k: Annotated[int, "[1, inf)"] = 1
    growth: str | Recipe = "fixed"
    n_chains: Annotated[int, "[1, inf)"] | None = None
    fast_lr: Annotated[float, "[0, inf)"] = 0.05
    decay: Annotated[float, "[0, 1]"] = 0.95
    applies: Literal["chains", "model"] = "chains"
    positive: str | Recipe = "clamped"

    @property
    def deep(self) -> bool:
        """Yes."""
        return True

    def build(self) -> Objective:
        """The objective."""
        return FastWeights(ChainPlan.of(self), self.n_chains, self.fast_lr, self.decay, self.applies == "model")


class FastWeights(PersistentChains):
    """Persistent chains of a machine whose parameters are the model's plus fast ones, which are buffers."""

    def __init__(self, plan: ChainPlan, n_chains: int | None, rate: float, decay: float, everywhere: bool) -> None:
        super().__init__(plan, n_chains)
        self.rate, self.decay, self.everywhere = rate, decay, everywhere

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Chains, and fast weights of 0."""
        super().begin(model, batches, noise, group)
        learned = [name for name, value in model.named_parameters() if value.requires_grad]
        self.fast = {name: _buffer(name) for name in learned if self.rate}
        for name, buffer in self.fast.items():
            self.register_buffer(buffer, torch.zeros_like(model.get_parameter(name)))
        # no part of the objective: its parameters are the model's and the buffers'
        self.__dict__["_twin"] = copy.deepcopy(model) if self.rate else None

    def samplers(self, model: Any) -> tuple[Any, Any]:
        """The model, and the one with the fast weights; the latter twice where these apply everywhere."""
        twin = self.__dict__["_twin"]
        if twin is None:
            return model, model
        with torch.no_grad():
            for name, value in model.named_parameters():
                fast = self._buffers.get(_buffer(name))
                twin.get_parameter(name).copy_(value if fast is None else value + fast)
        if hasattr(twin, "confine"):
            twin.confine()
        return (twin, twin) if self.everywhere else (model, twin)

    def contrast(
        self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group, k: int
    ) -> Loss:
        """As of persistent chains; then the fast weights fade and take their step."""
        loss = super().contrast(model, X, weight, positions, noise, group, k)
        if self.fast:
            found = cast(Mapping[str, Array], loss.gradients)
            total, *sums = group.sum((float(weight.sum()), *(found[name] for name in self.fast)))
            for buffer, value in zip(self.fast.values(), sums, strict=True):
                fast = cast(torch.Tensor, self._buffers[buffer])
                step = torch.as_tensor(value, dtype=fast.dtype, device=fast.device) * (
                    self.rate / total if total else 0
                )
                fast.mul_(self.decay).sub_(step)
        return loss


def _buffer(name: str) -> str:
    """What the fast weights of a parameter are called; torch keeps dots for modules."""
    return f"fast/{name.replace('.', '/')}"
