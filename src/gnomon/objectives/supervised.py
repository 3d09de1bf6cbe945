"""The objective of everything that learns targets from inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from gnomon.contracts import Group, Noise
from gnomon.numeric.sparse import is_sparse
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.criterion import Criterion, PairLoss
from gnomon.recipes.parameters import check_parameters

__all__ = ["Supervised"]


class Supervised(Objective):
    """A loss of what a model answers to ``X`` against ``y``, plus l1 sum |W| + l2 / 2 sum W^2 over its ``matrices``.

    Parameters
    ----------
    loss : Criterion
        Of the outputs and the targets, as its `Criterion.inputs` makes them.
    outputs : str, default "scores"
        The model's method that takes X.
    targets : str, default ""
        The model's method that brings y into the units of the outputs; y is taken as it is where left out.
    name : str, default ""
        Under which the loss is recorded; its short name where left out.
    watch : str, default ""
        The model's method of (outputs, targets) that gives a measure of each row, (n,): recorded under its name without
        a gradient, and judged by instead of the loss.
    l1, l2 : float, default 0
    """

    def __init__(
        self,
        loss: Criterion,
        outputs: str = "scores",
        *,
        targets: str = "",
        name: str = "",
        watch: str = "",
        l1: float = 0.0,
        l2: float = 0.0,
    ) -> None:
        super().__init__()
        check_parameters(loss, loss.get_params())
        self.loss, self.outputs, self.targets = loss, outputs, targets
        self.additive = not isinstance(loss, PairLoss)
        self.name, self.watch, self.l1, self.l2 = name or loss.short.replace("-", "_"), watch, l1, l2

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch with data ``X`` and ``y``; of validation rows without penalties."""
        outputs, targets, weight = self.compared(model, batch)
        if "share" in batch.data:
            term = self._mixed(model, outputs, targets, batch, group)
        else:
            (term,) = self.loss.terms(*self.loss.inputs(outputs, targets, group), weight=weight).values()
        terms = {self.name: term}
        if phase != "validation":
            terms |= self._penalties(model)
        if not self.watch:
            return Loss(terms, watch=self.name)
        with torch.no_grad():
            measured = getattr(model, self.watch)(outputs, targets)
            total = measured.sum() if weight is None else (measured * weight).sum()
        terms[self.watch] = Term(float(total), float(batch.weight.sum()))
        return Loss(terms, watch=self.watch)

    def compared(self, model: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Outputs, targets and weights of what the loss compares: the rows of the batch; no weights where all are 1."""
        device = model.device
        X, y = batch.data["X"], torch.as_tensor(batch.data["y"], device=device)
        X = X if is_sparse(X) else torch.as_tensor(X, device=device)
        weight = None if (batch.weight == 1).all() else torch.as_tensor(batch.weight, device=device)
        outputs = getattr(model, self.outputs)(X)
        return outputs, getattr(model, self.targets)(y) if self.targets else y, weight

    def _mixed(self, model: Any, outputs: torch.Tensor, targets: torch.Tensor, batch: Any, group: Group) -> Term:
        """Of rows that are mixtures of two: share l(o, y) + (1 - share) l(o, y')."""
        data, device = batch.data, model.device
        share = torch.as_tensor(data["share"], device=device)
        own, others = (torch.as_tensor(one, device=device) for one in (batch.weight, data["weight_other"]))
        y = torch.as_tensor(data["y_other"], device=device)
        pairs = (targets, own * share), (getattr(model, self.targets)(y) if self.targets else y, others * (1 - share))
        first: Any
        second: Any
        first, second = (
            next(iter(self.loss.terms(*self.loss.inputs(outputs, y, group), weight=weight).values()))
            for y, weight in pairs
        )
        return Term(first.sum + second.sum, first.weight + second.weight)

    def _penalties(self, model: Any) -> dict[str, Term]:
        """Recorded where they are asked for; their gradients are added by hand, a fifth of a small network's step."""
        found: dict[str, Term] = {}
        if self.l2:
            found["l2"] = Term(lambda: _half_squares(model.matrices), 1.0, self.l2, partial(_add, model.matrices))
        if self.l1:
            found["l1"] = Term(lambda: _sizes(model.matrices), 1.0, self.l1, partial(_add_signs, model.matrices))
        return found


def _half_squares(matrices: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([0.5 * w.square().sum() for w in matrices]).sum()


def _sizes(matrices: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([w.abs().sum() for w in matrices]).sum()


def _add(matrices: Sequence[torch.Tensor], factor: float) -> None:
    """Add a multiple of each matrix to its gradient; one that is held fast, or that a phase leaves alone, has none."""
    for w in matrices:
        if w.grad is not None:
            w.grad.add_(w.detach(), alpha=factor)


def _add_signs(matrices: Sequence[torch.Tensor], factor: float) -> None:
    for w in matrices:
        if w.grad is not None:
            w.grad.add_(w.detach().sign(), alpha=factor)
