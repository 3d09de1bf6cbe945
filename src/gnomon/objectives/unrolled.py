"""What the last state of unrolled inference is judged by: the bound, the inputs that it did not see, or labels."""

from __future__ import annotations

from typing import Any, Literal

import torch

from gnomon.contracts import Group, Noise
from gnomon.objectives.base import Loss, Objective, Term

__all__ = ["UnrolledLoss"]

NAMES = {"elbo": "negative_bound", "held-out": "held_out", "labels": "cross_entropy"}


class UnrolledLoss(Objective):
    """Minus a score of what the rounds of an inference network end at, the gradient going back through all of them.

    Parameters
    ----------
    loss : {"elbo", "held-out", "labels"}
        ``elbo``: the evidence lower bound at the last state. ``held-out``: log density of the inputs that the rounds
        were not shown, a coin for each cell and update, per hidden input. ``labels``: log p(y) of an output layer.

    Notes
    -----
    The model gives ``forward(x, shown=None)``, ``elbo(x, h)``, ``log_inputs(x, h)`` cell by cell and, for labels,
    ``class_log_proba(h)``.
    """

    def __init__(self, loss: Literal["elbo", "held-out", "labels"]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch with data ``X``, and ``y`` for labels."""
        x = torch.as_tensor(batch.data["X"], device=model.device)
        weight = torch.as_tensor(batch.weight, device=model.device)
        score = self._score(model, x, batch, noise)
        return Loss({NAMES[self.loss]: Term(-(score * weight).sum(), float(weight.sum()))})

    def _score(self, model: Any, x: torch.Tensor, batch: Any, noise: Noise) -> torch.Tensor:
        """Of each row, in nats."""
        if self.loss == "elbo":
            return model.elbo(x, model(x))
        if self.loss == "labels":
            codes = torch.as_tensor(batch.data["y"], device=model.device)
            return model.class_log_proba(model(x)).gather(1, codes[:, None])[:, 0]
        shown = noise.child("shown").rows(batch.positions).bernoulli(torch.full_like(x, 0.5))
        return ((1 - shown) * model.log_inputs(x, model(x, shown=shown))).sum(1)
