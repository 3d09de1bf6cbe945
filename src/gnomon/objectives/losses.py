"""Losses of a model's outputs against targets: the slot ``loss``.

``loss(outputs, targets)`` is a number; ``loss.terms(outputs, targets, weight=w)`` the weighted sum over rows that a fit
divides only when all processes have been added up. Of a row with several outputs a classification loss is the sum over
them, a regression loss has a mean over rows and outputs; each class says so. Sums are never divided by anything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from gnomon.contracts import Group
from gnomon.data.class_vectors import one_hot
from gnomon.errors import UserTypeError, UserValueError
from gnomon.objectives.criterion import ClassificationLoss, Count, RegressionLoss, refuse

__all__ = [
    "AbsoluteError", "BinaryCrossEntropy", "CrossEntropyLoss", "Focal", "Huber", "NegativeLogLikelihood",
    "ProbabilityCrossEntropy", "SmoothL1", "SquaredError", "cross_entropy_backward",
]  # fmt: skip


@dataclass(frozen=True)
class NegativeLogLikelihood(ClassificationLoss):
    r"""l_n = -w[c_n] log p[n, c_n] of log probabilities, and the row counts w[c_n] in the mean, as in torch.

    Parameters
    ----------
    class_weight : tuple of float or None, default None
        Weight of each class, >= 0; None is 1 for all.
    ignore_index : int or None, default None
        A label whose rows have loss 0 and count 0, such as padding. If all are ignored the sum is 0 and the mean is
        refused.

    Examples
    --------
    >>> log_p = torch.tensor([[0.7, 0.3], [0.2, 0.8], [0.5, 0.5]]).log()
    >>> loss, c = NegativeLogLikelihood((1.0, 3.0)), torch.tensor([0, 1, 0])
    >>> [round(loss(log_p, c, reduction=r).item(), 6) for r in ("sum", "mean")]
    [1.719253, 0.343851]
    """

    short: ClassVar[str] = "nll"
    class_weight: tuple[float, ...] | None = None
    ignore_index: int | None = None

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """Log probabilities, of a network's scores."""
        return outputs.log_softmax(1), targets

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of log probabilities (n, k) and int64 classes (n,)."""
        log_p, labels = inputs
        weight = self._weights(log_p)
        ignored = -100 if self.ignore_index is None else self.ignore_index
        losses = functional.nll_loss(log_p, labels, weight, reduction="none", ignore_index=ignored)
        return losses, self._count(labels, weight)

    def shapes(self, *inputs: torch.Tensor) -> None:
        """(n, k) and whole numbers (n,)."""
        _matches(*inputs, classes=True)

    def check(self, *inputs: torch.Tensor) -> None:
        """Classes in [0, k), or ignored; log probabilities at most 0."""
        log_p, labels = inputs
        _check_classes(labels, log_p.shape[1], self.ignore_index)
        refuse(~(log_p <= 1e-6), log_p, "log probability {} is above 0", "give log_softmax of the scores")

    def _weights(self, like: torch.Tensor) -> torch.Tensor | None:
        if self.class_weight is None:
            return None
        if len(self.class_weight) != like.shape[1] or not all(0 <= w < math.inf for w in self.class_weight):
            rule = f"be {like.shape[1]} finite numbers >= 0, one per class"
            raise UserValueError.must("class_weight", rule, self.class_weight)
        return torch.tensor(self.class_weight, dtype=like.dtype, device=like.device)

    def _count(self, labels: torch.Tensor, weight: torch.Tensor | None) -> Count:
        if self.ignore_index is None:
            return 1 if weight is None else weight[labels]
        kept = labels != self.ignore_index
        return kept if weight is None else weight[labels.where(kept, 0)] * kept


@dataclass(frozen=True)
class CrossEntropyLoss(NegativeLogLikelihood):
    r"""l = log sum_k exp(o_k) - sum_j t_j o_j of scores o, with t one-hot or soft: dl/do = softmax(o) - t.

    The scores are any real numbers, never probabilities (a second softmax is no error that anyone would see).
    Source: Goodfellow, Bengio and Courville (2016), section 6.2.2.3.

    Parameters
    ----------
    class_weight : tuple of float or None, default None
        Weight of each class, >= 0, which the row also counts for in the mean; not with soft targets.
    ignore_index : int or None, default None
        A label whose rows have loss 0 and count 0, such as padding.
    smoothing : float in [0, 1), default 0
        Fraction of the target that is spread evenly over all classes (Szegedy et al. 2016); not with class weights.

    Examples
    --------
    >>> round(CrossEntropyLoss()(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([2])).item(), 6)
    0.407606
    """

    short: ClassVar[str] = "cross-entropy"
    smoothing: Annotated[float, "[0, 1)"] = 0.0

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """The scores themselves."""
        return outputs, targets

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of scores (n, k) and int64 classes (n,) or soft targets (n, k), each summing to 1."""
        scores, targets = inputs
        if targets.ndim == 2:
            losses = functional.cross_entropy(scores, targets, reduction="none", label_smoothing=self.smoothing)
            return losses, 1
        weight, ignored = self._weights(scores), -100 if self.ignore_index is None else self.ignore_index
        losses = functional.cross_entropy(
            scores, targets, weight, reduction="none", ignore_index=ignored, label_smoothing=self.smoothing
        )
        return losses, self._count(targets, weight)

    def shapes(self, *inputs: torch.Tensor) -> None:
        """(n, k), and whole numbers (n,) or soft targets (n, k)."""
        soft = inputs[1].ndim == 2
        _matches(*inputs, classes=not soft)
        if self.class_weight is not None and (soft or self.smoothing):
            what = "class weights do not go with soft targets or smoothing"
            raise UserValueError(what, "class_weight", "give one or the other")

    def check(self, *inputs: torch.Tensor) -> None:
        """Classes in [0, k), or ignored; soft targets that are distributions."""
        scores, targets = inputs
        if targets.ndim == 2:
            return _check_distribution(targets, "target")
        return _check_classes(targets, scores.shape[1], self.ignore_index)


@dataclass(frozen=True)
class Focal(NegativeLogLikelihood):
    r"""l = -w[c] (1 - p_c)^gamma log p_c of scores, p their softmax: rows that are right already count for little.

    With gamma 0 the cross-entropy. The mean divides by the class weights, not by what the rows still count for.
    Source: Lin, Goyal, Girshick, He and Dollar (2017).

    Parameters
    ----------
    class_weight : tuple of float or None, default None
        Weight of each class, >= 0.
    ignore_index : int or None, default None
        A label whose rows have loss 0 and count 0.
    gamma : float in [0, inf), default 2
        How fast a row is let go.

    Examples
    --------
    >>> scores = torch.tensor([[0.0, 3.0]])
    >>> [round(Focal(gamma=g)(scores, torch.tensor([1])).item(), 6) for g in (0.0, 2.0)]
    [0.048587, 0.000109]
    """

    short: ClassVar[str] = "focal"
    gamma: Annotated[float, "[0, inf)"] = 2.0

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """The scores themselves."""
        return outputs, targets

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of scores (n, k) and int64 classes (n,)."""
        log_p = inputs[0].log_softmax(1)
        losses, count = super().rows(log_p, inputs[1])
        chosen = log_p.gather(1, inputs[1].clamp(0, log_p.shape[1] - 1)[:, None])[:, 0]
        missing = -torch.expm1(chosen)  # 1 - p without loss of digits
        return losses * missing.clamp(min=torch.finfo(missing.dtype).tiny) ** self.gamma, count

    def check(self, *inputs: torch.Tensor) -> None:
        """Classes in [0, k), or ignored."""
        _check_classes(inputs[1], inputs[0].shape[1], self.ignore_index)


@dataclass(frozen=True)
class ProbabilityCrossEntropy(ClassificationLoss):
    """H(t, p) = -sum_j t_j log p_j of probabilities p against a one-hot or soft target t.

    For one label among several classes; with several true labels use `BinaryCrossEntropy`, since outputs where t is 0
    do not enter. From scores `CrossEntropyLoss` is the same and keeps its digits.

    Parameters
    ----------
    normalize_by_classes : bool, default False
        Divide by the number of classes, which only rescales.

    Examples
    --------
    >>> round(ProbabilityCrossEntropy()(torch.tensor([[0.2, 0.8]]), torch.tensor([[0.0, 1.0]])).item(), 6)
    0.223144
    """

    short: ClassVar[str] = "probability-cross-entropy"
    normalize_by_classes: bool = False

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """Probabilities of a network's scores, and the classes one-hot."""
        return outputs.softmax(1), _one_hot(targets, outputs)

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of probabilities (n, k) and targets (n, k); +inf where p is 0 and t is not, 0 log 0 = 0."""
        p, targets = inputs
        losses = -torch.xlogy(targets, p).sum(1)
        return losses / p.shape[1] if self.normalize_by_classes else losses, 1

    def shapes(self, *inputs: torch.Tensor) -> None:
        """Both (n, k)."""
        _matches(*inputs)

    def check(self, *inputs: torch.Tensor) -> None:
        """Rows of both that are distributions, and no zero where the target has mass."""
        p, targets = inputs
        _check_distribution(p, "prediction")
        _check_distribution(targets, "target")
        refuse((p == 0) & (targets > 0), targets, "probability 0 where the target is {}", "use cross-entropy on scores")


@dataclass(frozen=True)
class BinaryCrossEntropy(ClassificationLoss):
    r"""l = -y log s(z) - (1 - y) log s(-z) = max(z, 0) - z y + log1p(exp(-|z|)) of logits z: dl/dz = s(z) - y.

    A row with K outputs (several labels may be true at once) has the sum of its K losses, and the mean is over rows;
    torch's mean is over labels too, so it is 1/K of this one.

    Parameters
    ----------
    outputs : {"logits", "probabilities"}, default "logits"
        What comes in. Logarithms of probabilities are kept at -100 or above, as in torch.
    positive_weight : float in (0, inf), default 1
        Factor of the part with y: above 1 favors recall. Logits only.

    Examples
    --------
    >>> loss = BinaryCrossEntropy("probabilities")
    >>> [round(loss(torch.tensor([0.8]), torch.tensor([y])).item(), 6) for y in (1.0, 0.0)]
    [0.223144, 1.609438]
    """

    short: ClassVar[str] = "binary-cross-entropy"
    outputs: Literal["logits", "probabilities"] = "logits"
    positive_weight: Annotated[float, "(0, inf)"] = 1.0

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """One classifier per class against the rest: logits or their probabilities, and the classes one-hot."""
        return outputs if self.outputs == "logits" else outputs.sigmoid(), _one_hot(targets, outputs)

    def class_log_proba(self, scores: NDArray[Any]) -> NDArray[Any]:
        """The classifiers' probabilities, brought to sum 1."""
        alone = -np.logaddexp(0, -scores)
        log_p: NDArray[Any] = alone - np.logaddexp.reduce(alone, axis=1, keepdims=True)
        return log_p

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of outputs and labels in [0, 1], both (n,) or (n, K)."""
        outputs, labels = inputs[0], inputs[1].to(inputs[0].dtype)
        if self.outputs == "probabilities":
            losses = functional.binary_cross_entropy(outputs, labels, reduction="none")
        else:
            factor = None if self.positive_weight == 1 else outputs.new_tensor(self.positive_weight)
            losses = functional.binary_cross_entropy_with_logits(outputs, labels, reduction="none", pos_weight=factor)
        return _per_row(losses), 1

    def shapes(self, *inputs: torch.Tensor) -> None:
        """Both of one shape."""
        _matches(*inputs)
        if self.outputs == "probabilities" and self.positive_weight != 1:
            raise UserValueError("a positive weight needs logits", "positive_weight", "use outputs='logits'")

    def check(self, *inputs: torch.Tensor) -> None:
        """Labels, and probabilities where these come in, in [0, 1]."""
        outputs, labels = inputs
        if self.outputs == "probabilities":
            outside = ~((outputs >= 0) & (outputs <= 1))
            refuse(outside, outputs, "prediction must be in [0, 1], got {}", "give probabilities, or outputs='logits'")
        refuse(~((labels >= 0) & (labels <= 1)), labels, "label must be in [0, 1], got {}", "code labels as 0 and 1")


class _Elementwise(RegressionLoss):
    """A loss of each output, whose mean is over rows and outputs: a row counts for its outputs."""

    def elements(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of every element."""
        raise NotImplementedError

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of predictions and targets, both (n,) or (n, t)."""
        losses = self.elements(*inputs)
        return _per_row(losses), math.prod(losses.shape[1:])

    def shapes(self, *inputs: torch.Tensor) -> None:
        """Both of one shape."""
        _matches(*inputs)


@dataclass(frozen=True)
class SquaredError(_Elementwise):
    """l = (yhat - y)^2 / 2, the mean over rows and outputs: dl/dyhat = yhat - y. Half of torch's ``mse_loss``.

    Parameters
    ----------
    half : bool, default True
        Whether the factor 1/2 is there.
    summed : bool, default False
        Whether a row of several outputs has their sum instead of their mean.

    Examples
    --------
    >>> SquaredError()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])).item()
    1.0
    """

    short: ClassVar[str] = "squared"
    half: bool = True
    summed: bool = False

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of predictions and targets, both (n,) or (n, t)."""
        losses, count = super().rows(*inputs)
        return losses, 1 if self.summed else count

    def elements(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of every element."""
        losses = (outputs - targets).square()
        return losses / 2 if self.half else losses


@dataclass(frozen=True)
class AbsoluteError(_Elementwise):
    """l = |yhat - y|, the mean over rows and outputs; the slope at 0 is 0.

    Examples
    --------
    >>> AbsoluteError()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])).item()
    1.0
    """

    short: ClassVar[str] = "absolute"

    def elements(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of every element."""
        return (outputs - targets).abs()


@dataclass(frozen=True)
class SmoothL1(_Elementwise):
    """l = d^2 / (2 beta) for d = |yhat - y| < beta, d - beta / 2 else; the mean over rows and outputs.

    Source: Girshick (2015).

    Parameters
    ----------
    beta : float in [0, inf), default 1
        Half-width of the parabola; 0 is the absolute error.

    Examples
    --------
    >>> [SmoothL1(b)(torch.tensor([0.5]), torch.tensor([0.0])).item() for b in (1.0, 2.0)]
    [0.125, 0.0625]
    """

    short: ClassVar[str] = "smooth-l1"
    beta: Annotated[float, "[0, inf)"] = 1.0

    def elements(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of every element."""
        return functional.smooth_l1_loss(outputs, targets, reduction="none", beta=self.beta)


@dataclass(frozen=True)
class Huber(_Elementwise):
    """l = d^2 / 2 for d = |yhat - y| < delta, delta (d - delta / 2) else: delta times `SmoothL1` of beta = delta.

    Source: Huber (1964).

    Parameters
    ----------
    delta : float in (0, inf), default 1
        Where the parabola becomes a line.
    """

    short: ClassVar[str] = "huber"
    delta: Annotated[float, "(0, inf)"] = 1.0

    def elements(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of every element."""
        return functional.huber_loss(outputs, targets, reduction="none", delta=self.delta)


def cross_entropy_backward(
    scores: torch.Tensor, targets: torch.Tensor, *, reduction: Literal["sum", "mean"] = "sum"
) -> torch.Tensor:
    """dL/do = softmax(o) - t of the cross-entropy of scores: of the sum over rows, or of the mean (divided by n).

    Parameters
    ----------
    scores : tensor of shape (n, k)
    targets : int64 tensor of shape (n,), or soft targets of shape (n, k)
    reduction : {"sum", "mean"}, default "sum"

    Examples
    --------
    >>> cross_entropy_backward(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([2]))
    tensor([[ 0.0900,  0.2447, -0.3348]])
    """
    gradient = scores.softmax(1)
    if targets.ndim == 1:
        gradient[torch.arange(len(targets)), targets] -= 1
    else:
        gradient -= targets
    return gradient / len(scores) if reduction == "mean" else gradient


# --- shapes and values ----------------------------------------------------------------------------------------------


def _matches(outputs: torch.Tensor, targets: torch.Tensor, *, classes: bool = False) -> None:
    """Refuse shapes that would broadcast: (n,) against (n, 1) would be n x n."""
    if classes and targets.is_floating_point():
        raise UserTypeError(f"targets must be whole numbers (int64), one per class, got {targets.dtype}", "targets")
    expected = outputs.shape[:1] if classes else outputs.shape
    if targets.shape != expected or (classes and outputs.ndim != 2):
        what = f"targets must have shape {tuple(expected)} for outputs of shape {tuple(outputs.shape)}"
        raise UserValueError(f"{what}, got {tuple(targets.shape)}", "targets")


def _one_hot(codes: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Codes as rows of zeros and a one; what has rows already stays as it is."""
    return codes if codes.ndim == 2 else one_hot(codes, like.shape[1], dtype=like.dtype, name="targets")


def _per_row(losses: torch.Tensor) -> torch.Tensor:
    return losses if losses.ndim == 1 else losses.flatten(1).sum(1)


def _check_classes(labels: torch.Tensor, k: int, ignored: int | None) -> None:
    wrong = (labels < 0) | (labels >= k)
    if ignored is not None:
        wrong &= labels != ignored
    refuse(wrong, labels, f"class must be in [0, {k}), got {{}}", "code labels as 0, 1, ...")


def _check_distribution(p: torch.Tensor, name: str) -> None:
    refuse(~((p >= 0) & (p <= 1 + 1e-5)), p, f"{name} must be in [0, 1], got {{}}", "give probabilities")
    total = p.sum(1)
    refuse((total - 1).abs() > 1e-4, total, f"{name} must sum to 1 in every row, got {{}}", "give rows that sum to 1")
