"""Self-contrastive estimation: noise-contrastive estimation whose noise is a copy of the model."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert
from gnomon.inference.blocks import smallest_keep
from gnomon.numeric.ops import concatenate, sigmoid, softplus
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.chains import ChainPlan, PersistentChains
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.growth import FixedSteps
from gnomon.objectives.negative import Conditional
from gnomon.objectives.positive import Clamped, observed_block

__all__ = ["SelfContrast"]


@dataclass(frozen=True)
class SelfContrast(EnergyObjective):
    r"""Self-contrastive estimation (Goodfellow 2014): rows are told from draws of a copy of the model itself.

    With F the energy of the model, F' that of the copy and :math:`G = F' - F - c` a row x of data has the loss
    :math:`\frac12 \text{softplus}(-G(x))`, a draw y of the copy :math:`\frac12 \text{softplus}(G(y))`. Where the copy
    is renewed before every update G is 0, the loss log 2, and its expected gradient a quarter of that of the negative
    log-likelihood (half, were the two classes not given weights of 1/2): persistent contrastive divergence at a quarter
    of the learning rate. A copy that is kept for some updates gives another estimator, noise-contrastive estimation
    with noise that is renewed at times: rows and draws that are told apart already count for less, and c, which is
    learned from 0 on, is by how much log Z has grown since.

    The copy is drawn from by Gibbs chains that go on from update to update. Units of any kind, of which the hidden ones
    are independent given the data. Cost: that of `PCD`, and with kept copies the energies of both.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Gibbs steps per update.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows.
    refresh_every : int in [1, inf), default 1
        Updates after which the copy is renewed.

    References
    ----------
    Goodfellow (2014), "On distinguishability criteria for estimating generative models".

    Examples
    --------
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> objective = SelfContrast(refresh_every=5)
    >>> rbm = gnomon.RBM(n_hidden=4, objective=objective, epochs=60, learning_rate=0.8, random_state=0).fit(X)
    >>> bool(rbm.score(X) > -2)
    True
    """

    short: ClassVar[str] = "self-contrastive"
    k: Annotated[int, "[1, inf)"] = 1
    n_chains: Annotated[int, "[1, inf)"] | None = None
    refresh_every: Annotated[int, "[1, inf)"] = 1

    def build(self) -> Objective:
        """The objective."""
        return _AgainstItself(self.k, self.n_chains, self.refresh_every)


class _AgainstItself(PersistentChains):
    """Chains of a copy, whose parameters are buffers where it is kept."""

    compares_means = False  # rows and draws are weighted by how well they are told apart
    age: torch.Tensor

    def __init__(self, k: int, n_chains: int | None, refresh_every: int) -> None:
        super().__init__(ChainPlan(k, FixedSteps(), Clamped(), Conditional()), n_chains)
        self.refresh_every = refresh_every
        if refresh_every > 1:
            self.log_ratio = torch.nn.Parameter(torch.zeros(1))
            self.register_buffer("age", torch.zeros(1, dtype=torch.int64))

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Chains, and the copy.

        Raises
        ------
        UserTypeError
            Hidden layers that depend on each other given the data: they cannot be summed out.
        """
        data = observed_block(model)
        if smallest_keep(model, (data,)) != (data,):
            what = "self-contrastive estimation needs hidden layers that are independent given the observed one"
            raise UserTypeError(what, "objective", "use the objective cd, pcd or exact")
        super().begin(model, batches, noise, group)
        if self.refresh_every == 1:
            return
        for name, value in model.named_parameters():
            self.register_buffer(f"copy/{name}", value.detach().clone())
        like = next(iter(model.parameters()))
        self.log_ratio.data = self.log_ratio.data.to(like)
        # no part of the objective: its parameters are the buffers'
        self.__dict__["_twin"] = copy.deepcopy(model)

    def samplers(self, model: Any) -> tuple[Any, Any]:
        """The model and its copy, which is renewed when it is time; the model twice where that is always."""
        if self.refresh_every == 1:
            return model, model
        twin = self.__dict__["_twin"]
        with torch.no_grad():
            if int(self.age) % self.refresh_every == 0:
                self.log_ratio.zero_()
                for name, value in model.named_parameters():
                    cast(torch.Tensor, self._buffers[f"copy/{name}"]).copy_(value)
            for name, value in twin.named_parameters():
                value.copy_(self._buffers[f"copy/{name}"])
        self.age += 1
        return model, twin

    def _is_fused(self, model: Any) -> bool:
        return False  # the weights of rows and draws depend on their energies

    def _contrast(
        self, model: Any, q: dict[str, Any], weight: Array, fantasy: dict[str, Any], counter: Array, sampler: Any = None
    ) -> tuple[Loss, dict[str, Any]]:
        """Rows against draws, and the other blocks given the draws."""
        data = observed_block(model)
        rows = concatenate([q[data], fantasy[data]])
        sign = convert(np.where(np.arange(len(rows)) < len(q[data]), -1.0, 1.0), rows)
        share = concatenate([weight, counter])
        against = sign * self._log_odds(model, sampler, rows)
        slope = -0.5 * sign * share * sigmoid(against)
        gradients = model.marginal_gradient({data: rows}, slope)
        if self.refresh_every > 1:
            gradients["objective/log_ratio"] = slope.sum().reshape(1)
        total = float(weight.sum())

        def gap() -> float:
            return -float((sign * share * model.marginal_energy({data: rows})).sum().item())

        terms = {
            "energy_gap": Term(gap, total),
            "self_contrast": Term(float((0.5 * share * softplus(against)).sum()), total),
        }
        rest = {block: sampler.conditional(block, fantasy) for block in model.blocks if block not in fantasy}
        return Loss(terms, gradients, "energy_gap"), rest

    def _log_odds(self, model: Any, sampler: Any, rows: Array) -> Array:
        """G of each row."""
        if sampler is model:
            return 0 * rows[:, 0]
        data = observed_block(model)
        grown = sampler.marginal_energy({data: rows}) - model.marginal_energy({data: rows})
        found: Array = grown - (self.log_ratio if is_tensor(rows) else self.views()["log_ratio"])
        return found
