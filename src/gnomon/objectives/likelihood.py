"""Maximum likelihood of models whose density is exact."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.contracts import Group, Noise
from gnomon.objectives.base import Loss, Objective, Term

__all__ = ["MaximumLikelihood"]


class MaximumLikelihood(Objective):
    r"""Lowers :math:`-\log p(x)`, the negative log-likelihood, of a torch module that keeps `HasLogProb`.

    The term ``negative_log_likelihood`` is in nats per row.
    """

    additive = True

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch with data ``X``."""
        x = torch.as_tensor(batch.data["X"], device=model.device)
        weight = torch.as_tensor(batch.weight, device=model.device)
        total = -(model.log_prob(x) * weight.to(x.dtype)).sum()
        return Loss({"negative_log_likelihood": Term(total, float(batch.weight.sum()))})
