"""Losses of pairs, triplets and masked entries: the slot ``loss`` of networks that embed.

Reductions as in `gnomon.objectives.losses`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch.nn import functional

from gnomon.contracts import Group
from gnomon.errors import UserValueError
from gnomon.objectives.criterion import Count, PairLoss, refuse, whole_batch

__all__ = ["BayesianRanking", "CosineEmbedding", "MarginRanking", "MaskedBinaryCrossEntropy", "TripletMargin"]


@dataclass(frozen=True)
class MarginRanking(PairLoss):
    """l = max(0, -y (x1 - x2) + margin) of two scores: y = 1 where x1 should exceed x2, -1 where x2 should.

    Parameters
    ----------
    margin : float in [0, inf), default 0
        By how much.

    Examples
    --------
    >>> one = torch.ones(1)
    >>> round(MarginRanking(0.1)(one, 1.5 * one, one).item(), 6)
    0.6
    """

    short: ClassVar[str] = "margin-ranking"
    margin: Annotated[float, "[0, inf)"] = 0.0

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """Cosines of each row with its hardest positive and negative: the first should exceed the second."""
        anchor, positive, negative = self.hardest(outputs, targets, group)
        first, second = (functional.cosine_similarity(anchor, other) for other in (positive, negative))
        return first, second, torch.ones_like(first)

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of scores x1, x2 and signs y, all (n,)."""
        first, second, sign = inputs
        return functional.margin_ranking_loss(first, second, sign, self.margin, reduction="none"), 1

    def shapes(self, *inputs: torch.Tensor) -> None:
        """All (n,)."""
        _alike(*inputs)

    def check(self, *inputs: torch.Tensor) -> None:
        """Signs are -1 or 1: 0 would be a constant without a gradient."""
        _check_sign(inputs[2])


@dataclass(frozen=True)
class BayesianRanking(PairLoss):
    """l = -log s(x1 - x2) of the scores of what is preferred and of what is not: Bayesian personalized ranking.

    The gradient with respect to d = x1 - x2 is s(d) - 1. A Gaussian prior is weight decay of the optimizer.
    Source: Rendle, Freudenthaler, Gantner and Schmidt-Thieme (2009).

    Examples
    --------
    >>> one = torch.ones(1)
    >>> round(BayesianRanking()(2 * one, one).item(), 6)
    0.313262
    """

    short: ClassVar[str] = "bpr"

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """Cosines of each row with its hardest positive and negative."""
        anchor, positive, negative = self.hardest(outputs, targets, group)
        first, second = (functional.cosine_similarity(anchor, other) for other in (positive, negative))
        return first, second

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of scores x1 and x2, both (n,)."""
        first, second = inputs
        return functional.softplus(second - first), 1

    def shapes(self, *inputs: torch.Tensor) -> None:
        """Both (n,)."""
        _alike(*inputs)


@dataclass(frozen=True)
class TripletMargin(PairLoss):
    """l = max(0, margin + ||a - p|| - ||a - n||) of an anchor, a positive and a negative.

    Embeddings that have collapsed to a point have loss = margin. As in torch 1e-6 is added to each difference before
    the norm, which keeps its gradient finite where two embeddings are equal.
    Source: Schroff, Kalenichenko and Philbin (2015).

    Parameters
    ----------
    margin : float in (0, inf), default 1
        How much farther than the positive the negative must be for a loss of 0.
    p : float in [1, inf), default 2
        Of the norm.
    swap : bool, default False
        Use the smaller of ||a - n|| and ||p - n|| (Balntas et al. 2016).

    Examples
    --------
    >>> a, p, n = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]])
    >>> round(TripletMargin(6.0)(a, p, n).item(), 4)
    1.0
    """

    short: ClassVar[str] = "triplet"
    margin: Annotated[float, "(0, inf)"] = 1.0
    p: Annotated[float, "[1, inf)"] = 2.0
    swap: bool = False

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """Each row with its hardest positive and negative."""
        return self.hardest(outputs, targets, group)

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of anchors, positives and negatives, all (n, d)."""
        anchor, positive, negative = inputs
        losses = functional.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, swap=self.swap, reduction="none"
        )
        return losses, 1

    def shapes(self, *inputs: torch.Tensor) -> None:
        """All (n, d)."""
        _alike(*inputs)


@dataclass(frozen=True)
class CosineEmbedding(PairLoss):
    """l = 1 - cos(x1, x2) where y = 1 (alike), max(0, cos(x1, x2) - margin) where y = -1.

    As in torch the squared norms get an epsilon, so a zero vector has cosine 0 and a finite gradient.

    Parameters
    ----------
    margin : float in [-1, 1], default 0
        Cosine below which vectors count as unlike.

    Examples
    --------
    >>> x1, x2 = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    >>> round(CosineEmbedding()(x1, x2, torch.ones(1)).item(), 6)
    0.292893
    """

    short: ClassVar[str] = "cosine"
    margin: Annotated[float, "[-1, 1]"] = 0.0

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """Two pairs of each row: with its hardest positive, and with its hardest negative."""
        anchor, positive, negative = self.hardest(outputs, targets, group)
        sign = outputs.new_ones(len(outputs))
        return torch.cat([anchor, anchor]), torch.cat([positive, negative]), torch.cat([sign, -sign])

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of vectors x1, x2 (n, d) and signs y (n,)."""
        first, second, sign = inputs
        return functional.cosine_embedding_loss(first, second, sign, self.margin, reduction="none"), 1

    def shapes(self, *inputs: torch.Tensor) -> None:
        """(n, d) twice and (n,)."""
        _alike(*inputs[:2])
        _alike(inputs[0][:, 0], inputs[2])

    def check(self, *inputs: torch.Tensor) -> None:
        """Signs are -1 or 1."""
        _check_sign(inputs[2])


@dataclass(frozen=True)
class MaskedBinaryCrossEntropy(PairLoss):
    r"""l = -sum_i m_i log s((2 y_i - 1) z_i) / sum_i m_i of a row of logits z, labels y and mask m: word2vec's loss.

    Entries with mask 0 have no loss and no gradient. A row with an empty mask has loss 0 and counts for nothing.

    Parameters
    ----------
    average : {"rows", "entries"}, default "rows"
        ``rows``: every row is the mean over its valid entries, and rows count alike. ``entries``: the sum over a row's
        valid entries, and it counts for their number, so that the mean is over all valid entries.

    Notes
    -----
    Source: Mikolov et al. (2013), Distributed representations of words and phrases.

    Examples
    --------
    >>> z, y, m = torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[1.0, 1.0, 0.0]])
    >>> round(MaskedBinaryCrossEntropy()(z, y, m).item(), 6)
    0.220095
    """

    short: ClassVar[str] = "masked-binary"
    average: Literal["rows", "entries"] = "rows"

    def inputs(self, outputs: torch.Tensor, targets: torch.Tensor, group: Group) -> tuple[torch.Tensor, ...]:
        """Inner products of each row with all others of the batch as logits of being of one class."""
        everyone, classes, own = whole_batch(outputs, targets, group)
        mask = torch.ones(len(targets), len(classes), device=outputs.device, dtype=outputs.dtype)
        mask[torch.arange(len(own), device=own.device), own] = 0
        return outputs @ everyone.T, (targets[:, None] == classes).to(outputs.dtype), mask

    def rows(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, Count]:
        """Of logits, labels and mask, all (n, width)."""
        logits, labels, mask = inputs
        valid = mask != 0
        entries = -functional.logsigmoid((2 * labels - 1) * torch.where(valid, logits, 0))
        sums, sizes = torch.where(valid, entries, 0).sum(1), valid.sum(1)
        if self.average == "entries":
            return sums, sizes
        return sums / sizes.clamp(min=1), sizes > 0

    def shapes(self, *inputs: torch.Tensor) -> None:
        """All (n, width)."""
        _alike(*inputs)

    def check(self, *inputs: torch.Tensor) -> None:
        """Labels and mask are 0 or 1."""
        for name, values in (("label", inputs[1]), ("mask", inputs[2])):
            refuse((values != 0) & (values != 1), values, f"{name} must be 0 or 1, got {{}}", "give zeros and ones")


def _alike(first: torch.Tensor, *others: torch.Tensor) -> None:
    for other in others:
        if other.shape != first.shape:
            what = f"inputs must have one shape, got {tuple(first.shape)} and {tuple(other.shape)}"
            raise UserValueError(what, "inputs")


def _check_sign(sign: torch.Tensor) -> None:
    refuse((sign != 1) & (sign != -1), sign, "y must be 1 or -1, got {}", "give signs")
