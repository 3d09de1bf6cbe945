"""What losses have in common: weighted sums over rows, reductions, checks."""

from __future__ import annotations

from typing import Any, Literal

import torch
from numpy.typing import NDArray

from gnomon.contracts import Group
from gnomon.errors import UserValueError
from gnomon.numeric.ops import log_softmax
from gnomon.objectives.base import Term
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe

__all__ = [
    "ClassificationLoss",
    "Count",
    "Criterion",
    "PairLoss",
    "Reduction",
    "RegressionLoss",
    "refuse",
    "whole_batch",
]

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

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """What the loss takes, from a network's outputs and the targets of these rows: here the two as they are."""
        return outputs, targets

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
            raise UserValueError.must("reduction", "be none, sum or mean", reduction)
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


class ClassificationLoss(Criterion):
    """Base of the losses that a classifier learns by: of scores (n, k) and the codes of the classes."""

    def class_log_proba(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Log probabilities of the classes, (n, k), that scores stand for: those of the softmax."""
        return log_softmax(scores, 1)


class RegressionLoss(Criterion):
    """Base of the losses of predicted numbers against targets."""


class PairLoss(Criterion):
    """Base of the losses of pairs, triplets and sets of rows; `inputs` makes them of a batch's embeddings and classes.

    Every row of this process is compared with rows of the whole batch, over all processes: with the farthest of its
    class and the nearest of the others, where the loss takes one of each (Hermans, Beyer and Leibe 2017). A row that is
    alone in its class is its own positive; in a batch of one class it is its own negative.
    """

    def terms(self, *inputs: torch.Tensor, weight: torch.Tensor | None = None) -> dict[str, Term]:
        """As of other losses; several comparisons of a row have its weight."""
        if weight is not None and len(weight):
            weight = weight.repeat(len(inputs[0]) // len(weight))
        return super().terms(*inputs, weight=weight)

    @staticmethod
    def hardest(
        outputs: torch.Tensor, targets: torch.Tensor, group: Group
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Embeddings of the rows, of the farthest of their class, and of the nearest of the other classes."""
        everyone, classes, own = whole_batch(outputs, targets, group)
        alike = targets[:, None] == classes
        with torch.no_grad():
            distance = torch.cdist(outputs, everyone)
            positive = distance.masked_fill(~alike, -1.0).argmax(1) if len(outputs) else own
            negative = distance.masked_fill(alike, torch.inf).argmin(1) if len(outputs) else own
            negative = torch.where(alike.all(1), own, negative)
        return outputs, everyone[positive], everyone[negative]


def whole_batch(
    outputs: torch.Tensor, targets: torch.Tensor, group: Group
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Embeddings and classes of the batch over all processes, and the places of these rows in it."""
    counts = group.gather(torch.tensor([len(targets)], device=targets.device))
    first = int(counts[: group.rank].sum())
    own = torch.arange(first, first + len(targets), device=targets.device)
    return group.gather(outputs), group.gather(targets), own


def refuse(wrong: torch.Tensor, values: torch.Tensor, what: str, remedy: str) -> None:
    """Raise where something is wrong, with the first row (and column) and its value; ``{}`` in `what` is the value."""
    if not bool(wrong.any()):
        return
    index = tuple(int(i) for i in wrong.nonzero()[0])
    where = f"row {index[0]}" + (f", column {index[1]}" if len(index) > 1 else "")
    value = values[index].item()
    raise UserValueError(what.format(f"{value:g}" if isinstance(value, float) else value), where, remedy)
