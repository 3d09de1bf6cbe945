r"""Neural variational inference: the evidence lower bound by the score function, layer by layer.

A model is asked for ``encode(x)`` and ``log_joint(x, z)`` as of `gnomon.objectives.variational`. Of one of layers,
``model.log_probs(x, z)``, log p of each layer given the one above it from the row up to the top, and
``codes.log_probs(z)``, log q of each hidden layer given the one below it, let every layer learn from what follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from torch import nn

from gnomon.contracts import Group, Noise
from gnomon.errors import UserValueError
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.baselines import Baseline, LatentDraws
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.variational import VariationalObjective
from gnomon.recipes.recipe import Recipe

__all__ = ["NVIL"]


@dataclass(frozen=True)
class NVIL(VariationalObjective):
    r"""Neural variational inference and learning: the bound's gradient through draws that no gradient passes.

    The generative net ascends :math:`\nabla_\theta \log p(x, h)` of draws, the recognition net
    :math:`(l - b_\psi(x) - c) \nabla_\phi \log q(h | x)` with the signal :math:`l = \log p(x, h) - \log q(h | x)`, less
    a network of the row and a running mean, over max(1, running deviation). Layer k has a signal of its own, without
    the terms that its draw cannot change: :math:`l_k = \log p(h_{k-1}, ..., h_L) - \log q(h_k, ..., h_L | h_{k-1})`.

    Parameters
    ----------
    n_samples : int in [1, inf), default 1
        Draws for each row.
    baseline : str or recipe, default "learned"
        Of each layer's signal; see `gnomon.objectives.baselines`. All see the row.
    normalize_signal : bool, default True
        Divide what is left of a layer's signal by its running standard deviation where that is above 1.

    Notes
    -----
    Unbiased but for that division, which is one number for all rows of a layer. Source: Mnih and Gregor (2014);
    Goodfellow, Bengio and Courville (2016), sections 20.9.1 and 20.10.1.
    """

    short: ClassVar[str] = "nvil"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"baseline": Baseline}
    n_samples: Annotated[int, "[1, inf)"] = 1
    baseline: str | Recipe = "learned"
    normalize_signal: bool = True

    def build(self) -> Objective:
        """The objective."""
        baseline = self.recipe("baseline")
        baseline.usable(self.n_samples)
        if baseline.build().by_parameter:
            raise UserValueError(
                f"{baseline.short!r} is a baseline of all parameters of q together, not of layers",
                "objective__baseline", "use learned, running, leave-one-out or none",
            )  # fmt: skip
        return _LayerByLayer(ScoreFunction(self.baseline, self.normalize_signal), self.n_samples)


class _Layer(NamedTuple):
    """q of a layer at the draws, as a baseline asks for it."""

    log_q: torch.Tensor

    def log_prob(self, z: torch.Tensor) -> torch.Tensor:
        """Of each draw."""
        return self.log_q


class _LayerByLayer(Objective):
    """The bound of draws, each layer credited with what follows it.

    Parameters
    ----------
    estimator : ScoreFunction
    draws : int
    """

    controls: nn.ModuleList

    def __init__(self, estimator: ScoreFunction, draws: int) -> None:
        super().__init__()
        self.estimator, self.draws, self.share = estimator, draws, 1 / draws

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin the baselines, one for each hidden layer."""
        controls = [self.estimator.build() for _ in range(getattr(model, "depth", 1))]
        self.controls = nn.ModuleList(controls)
        for k, control in enumerate(controls, 1):
            control.begin(model, batches, noise.child(f"layer_{k}"), group)

    def returns(self, signal: torch.Tensor) -> torch.Tensor:
        """What each draw is credited with."""
        return signal

    def others(self, signal: torch.Tensor) -> torch.Tensor:
        """Mean signal of the row's other draws."""
        return (signal.sum(1, keepdim=True) - signal) / (self.draws - 1)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Minus the bound, whose gradient is the estimate."""
        x, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        codes = model.encode(x)
        z = codes.sample(noise.child("latent").rows(batch.positions), draws=self.draws)
        log_p, log_q = self._by_layer(model, x, z, codes)
        shape, total = (len(x), self.draws), float(weight.sum())
        row = (torch.stack(log_p).sum(0) - torch.stack(log_q).sum(0).detach()).reshape(shape).mean(1)
        losses: list[torch.Tensor] = []
        signal: Any = log_p[-1].detach()
        for k in range(len(log_q) - 1, -1, -1):
            signal = signal + (log_p[k] - log_q[k]).detach()
            held = LatentDraws(x, weight, z, _Layer(log_q[k]), signal.reshape(shape), group)
            score, beside = self.controls[k].surrogate(self, held)  # type: ignore[operator]
            row = row + (score - score.detach())
            losses += beside.values()
        terms = {"negative_bound": Term(-(row * weight).sum(), total)}
        if losses:
            terms["baseline"] = Term((torch.stack(losses).sum(0) * weight).sum(), total)
        return Loss(terms)

    @staticmethod
    def _by_layer(
        model: Any, x: torch.Tensor, z: torch.Tensor, codes: Any
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Log p of the row and each hidden layer given what is above, log q of each given what is below, (n draws,)."""
        many = x.repeat_interleave(len(z) // len(x), 0)
        if hasattr(model, "log_probs"):
            return model.log_probs(many, z), codes.log_probs(z)
        return [model.log_likelihood(many, z), model.log_prior(z)], [codes.log_prob(z)]

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """Minus the bound."""
        x, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        with torch.no_grad():
            codes = model.encode(x)
            z = codes.sample(noise.child("latent").rows(batch.positions), draws=self.draws)
            log_p, log_q = self._by_layer(model, x, z, codes)
            value = (torch.stack(log_p).sum(0) - torch.stack(log_q).sum(0)).reshape(len(x), self.draws).mean(1)
        return Loss({"negative_bound": Term(-float((weight * value).sum()), float(weight.sum()))})
