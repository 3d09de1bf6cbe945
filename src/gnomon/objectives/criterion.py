"""What losses have in common: weighted sums over rows, reductions, checks; and the objective of a supervised fit."""

from __future__ import annotations

from typing import Any, Literal

import torch

from gnomon.contracts import Group, Noise
from gnomon.errors import UserValueError
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe

__all__ = ["Count", "Criterion", "Reduction", "Supervised", "refuse"]

Count = torch.Tensor | int
"""What each row counts for in a mean: a number for all rows alike, or a tensor of shape (n,)."""

Reduction = Literal["none", "sum", "mean"]


class Criterion(Recipe):
    """Base of losses. A subclass says the loss of each row, and what the row counts for.

    The mean is sum_i w_i loss_i / sum_i w_i count_i with the weights w of the rows, so that a mean over processes or
    chunks is a ratio of two sums. Counts are 1 unless a class says otherwise.
    """

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Loss of each row, shape (n,), and its count; shapes and values are trusted."""
        raise NotImplementedError

    def shapes(self, *inputs: torch.Tensor) -> None:
        """Refuse shapes and kinds of numbers that do not go together; nothing is broadcast."""

    def check(self, *inputs: torch.Tensor) -> None:
        """Refuse values that the loss has no meaning for."""

    def terms(self, *inputs: torch.Tensor, weight: torch.Tensor | None = None) -> dict[str, Term]:
        """The loss as one term under its short name: a weighted sum over rows, and the weight it is divided by.

        Parameters
        ----------
        inputs : tensors
            As the loss takes them. Their values are not checked: a fit has checked its data once.
        weight : tensor of shape (n,), optional
            Weights of the rows; 1 where left out.
        """
        self.shapes(*inputs)
        total, amount = _sums(*self.rows(*inputs), weight)
        return {self.short.replace("-", "_"): Term(total, float(amount))}

    def __call__(
        self, *inputs: torch.Tensor, weight: torch.Tensor | None = None, reduction: Reduction = "mean"
    ) -> torch.Tensor:
        """The loss of checked inputs.

        Parameters
        ----------
        inputs : tensors
        weight : tensor of shape (n,), optional
            Weights of the rows; 1 where left out.
        reduction : {"none", "sum", "mean"}, default "mean"
            ``none``: (n,), each row times its weight. ``mean`` divides the sum by the sum of weight times count.

        Raises
        ------
        UserValueError
            Values or shapes that the loss has no meaning for, with their row; a mean over rows that count for nothing.
        """
        check_parameters(self, self.get_params())
        if reduction not in ("none", "sum", "mean"):
            raise UserValueError(f"{reduction!r} is no reduction", "reduction", "choose from none, sum, mean")
        self.shapes(*inputs)
        self.check(*inputs)
        losses, count = self.rows(*inputs)
        if reduction == "none":
            return losses if weight is None else losses * weight
        total, amount = _sums(losses, count, weight)
        if reduction == "sum":
            return total
        if not amount > 0:
            raise UserValueError("every row is ignored or has weight 0", "mean", "use reduction='sum', or give rows")
        return total / amount


def _sums(losses: torch.Tensor, count: Count, weight: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | float]:
    if weight is None:
        return losses.sum(), count.sum() if isinstance(count, torch.Tensor) else float(count * len(losses))
    return (losses * weight).sum(), (weight * count).sum()


class Supervised(Objective):
    """A loss of what a model says of a batch against its targets.

    Parameters
    ----------
    loss : Criterion
        Of (outputs, targets).
    outputs : str, default "scores"
        The model's method that takes X and answers what the loss takes.
    """

    def __init__(self, loss: Criterion, outputs: str = "scores") -> None:
        super().__init__()
        check_parameters(loss, loss.get_params())
        self.loss, self.outputs = loss, outputs

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch with data ``X`` and ``y``."""
        X, y, weight = (torch.as_tensor(value) for value in (batch.data["X"], batch.data["y"], batch.weight))
        return Loss(self.loss.terms(getattr(model, self.outputs)(X), y, weight=weight))


def refuse(wrong: torch.Tensor, values: torch.Tensor, what: str, remedy: str) -> None:
    """Raise where something is wrong, with the first row (and column) and its value; ``{}`` in `what` is the value."""
    if not bool(wrong.any()):
        return
    place = tuple(int(i) for i in wrong.nonzero()[0])
    where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
    value = values[place].item()
    raise UserValueError(what.format(f"{value:g}" if isinstance(value, float) else value), where, remedy)
