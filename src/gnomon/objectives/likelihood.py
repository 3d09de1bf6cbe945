"""Likelihood of labels given inputs."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gnomon.contracts import Group, Noise
from gnomon.objectives.base import Loss, Objective, Term

__all__ = ["CrossEntropy", "cross_entropy"]


def cross_entropy(scores: torch.Tensor, labels: torch.Tensor, reduction: str = "none") -> torch.Tensor:
    r"""Cross-entropy of scores against labels: l = s log sum_k exp(o_k) - sum_j y_j o_j, with s = sum_j y_j.

    Parameters
    ----------
    scores : tensor of shape (n, classes)
        Logits, any real numbers. Never probabilities.
    labels : int64 tensor of shape (n,), or tensor of shape (n, classes)
        Class of each row in [0, classes), or the weights of soft labels, which need not sum to 1.
    reduction : "none", "sum" or "mean", default "none"

    Returns
    -------
    tensor of shape (n,), or a scalar, in nats

    Raises
    ------
    UserValueError
        A class outside the range.

    Notes
    -----
    The gradient with respect to the scores is s softmax(o) - y. Cost O(n classes). Source: Goodfellow, Bengio and
    Courville (2016), section 6.2.2.3.

    Examples
    --------
    >>> round(cross_entropy(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([2])).item(), 6)
    0.407606
    """
    if labels.ndim == 1:
        _check_classes(labels, scores.shape[1])
        losses = functional.cross_entropy(scores, labels, reduction="none")
    else:
        losses = labels.sum(1) * torch.logsumexp(scores, 1) - (labels * scores).sum(1)
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def _check_classes(labels: torch.Tensor, classes: int) -> None:
    from gnomon.errors import UserValueError

    wrong = (labels < 0) | (labels >= classes)
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise UserValueError(
            f"class {int(labels[row])} is outside [0, {classes})", f"row {row}", "encode labels as 0, 1, ..."
        )


class CrossEntropy(Objective):
    """Weighted cross-entropy of a classifier's scores, and half the squared norm of its weight matrix.

    Parameters
    ----------
    l2 : float, default 0
        Factor of the penalty l2 / 2 * ||W||^2, which adds to the mean cross-entropy.
    """

    def __init__(self, l2: float = 0.0) -> None:
        super().__init__()
        self.l2 = l2

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch with data ``X`` and ``y``."""
        X, y, weight = (torch.as_tensor(value) for value in (batch.data["X"], batch.data["y"], batch.weight))
        losses = functional.cross_entropy(model.scores(X), y, reduction="none")
        terms = {"cross_entropy": Term((losses * weight).sum(), float(weight.sum()))}
        if self.l2:
            terms["penalty"] = Term(0.5 * model.weight.square().sum(), 1.0, self.l2)
        return Loss(terms)
