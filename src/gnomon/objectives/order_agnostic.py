"""Order-agnostic training: the chain rule in all orders of the columns by one network."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.contracts import Group, Noise
from gnomon.objectives.base import Loss, Objective, Term

__all__ = ["OrderAgnostic"]

DRAWS = 8
"""Splits of each row that judges."""


class OrderAgnostic(Objective):
    r"""Lowers the negative log-likelihood, on average over all orders of the columns, by one prediction for each row.

    Of each row an order and a number k in {0, ..., d - 1} are drawn. The first k columns are given, and

    .. math:: \frac{d}{d - k} \sum_{i \text{ not given}} -\log p(x_i | x_\text{given})

    is on average over orders and k the mean over the orders o of
    :math:`-\sum_t \log p(x_{o_t} | x_{o_1}, \ldots, x_{o_{t-1}})`. The model gives ``log_taught(x, given)``, the log
    probability of each cell given those that are marked, (n, d). The term ``negative_log_likelihood`` is in nats per
    row. Rows that judge have 8 splits each, the same ones every time.

    Notes
    -----
    A pass costs what one conditional costs, and teaches all columns that are not given. Source: Uria, Murray and
    Larochelle (2014), A deep and tractable density estimator.
    """

    additive = True

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch with data ``X``."""
        x = torch.as_tensor(batch.data["X"], device=model.device)
        weight = torch.as_tensor(batch.weight, device=model.device)
        judges = phase == "validation"
        stream = (noise.at(0) if judges else noise).rows(batch.positions).child("split")
        draws = DRAWS if judges else 1
        losses = sum(self.losses(model, x, self.given(x, stream, draw)) for draw in range(draws))
        total = (losses * weight.to(x.dtype)).sum() / draws
        return Loss({"negative_log_likelihood": Term(total, float(batch.weight.sum()))})

    def given(self, x: torch.Tensor, noise: Noise, draw: int = 0) -> torch.Tensor:
        """The columns of each row that are given, (n, d) truths: the first k of a random order, k uniform below d."""
        u = noise.uniform(tuple(x.shape), 2 * draw, like=x)
        count = torch.as_tensor(noise.integers(x.shape[1], (len(x), 1), 2 * draw + 1), device=x.device)
        found: torch.Tensor = u < u.sort(1).values.gather(1, count)
        return found

    def losses(self, model: Any, x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """The loss of each row in nats, (n,), where these of its columns are given, one less than all at most."""
        cells = model.log_taught(x, given).masked_fill(given, 0.0)
        found: torch.Tensor = -cells.sum(1) * (x.shape[1] / (~given).sum(1))
        return found
