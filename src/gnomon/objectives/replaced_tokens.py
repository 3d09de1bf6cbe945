"""Replaced-token detection: a small network proposes tokens, another one tells which are not those of the text."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gnomon.contracts import Group, Noise
from gnomon.objectives.base import Loss, Term
from gnomon.objectives.masked_language import IGNORED, Masked, MaskedLanguage, hidden_loss

__all__ = ["ReplacedTokens", "corrupt"]


def corrupt(found: Masked, scores: torch.Tensor, noise: Noise, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw tokens for those that were chosen; elsewhere the text stays.

    Parameters
    ----------
    found : Masked
    scores : tensor of shape (chosen, V)
        Of the chosen tokens, row by row; no gradient goes through what is drawn.
    noise : Noise
        Of the rows.
    width : int
        Numbers are drawn for so many places of a row.

    Returns
    -------
    ids : int64 tensor of shape (n, T)
    replaced : bool tensor of shape (n, T)
        Where the token is another one than that of the text: one that is drawn though it was there counts as original.
    """
    chosen = found.labels != IGNORED
    u = noise.uniform((len(found.ids), width), like=torch.zeros((), device=scores.device))[:, : found.ids.shape[1]]
    with torch.no_grad():
        below = torch.softmax(scores.double(), 1).cumsum(1)
        drawn = torch.searchsorted(below, u[chosen].double()[:, None]).clamp(max=scores.shape[1] - 1)[:, 0]
    text = torch.where(chosen, found.labels, found.ids)
    ids = text.masked_scatter(chosen, drawn)
    return ids, ids != text


class ReplacedTokens(MaskedLanguage):
    r"""Cross-entropy of the generator's hidden tokens, plus that of whether each token was replaced.

    :math:`L = -\frac{1}{|C|} \sum_{t \in C} \log P_G(w_t | \hat w) - \lambda \frac{1}{T} \sum_t \log P_D(r_t | x)`, x
    being the text with tokens drawn from the generator at the chosen places C, r whether a token differs from the
    text's. Nothing flows from the second term into the generator: the two do not play against each other.

    Parameters
    ----------
    window, fraction
        As of `MaskedLanguage`.
    weight : float
        :math:`\lambda`.

    Notes
    -----
    The model has ``generator`` (`TextEncoder`), ``head`` (its scores of all ids), ``encoder`` and ``replaced`` (a score
    of each token). Source: Clark, Luong, Le and Manning (2020).
    """

    def __init__(self, window: int, fraction: float, weight: float) -> None:
        super().__init__(window, fraction)
        self.weight = weight

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Both terms, of all tokens that are no padding."""
        packed, _ = self.packed(model, batch, noise, phase)
        found, segments, lengths = self.masked(model, packed, batch, noise)
        tokens = model.generator(found.ids, segments, lengths)
        proposed = hidden_loss(model.head, tokens, found.labels)
        scores = model.head(tokens[found.labels != IGNORED]).detach()
        ids, replaced = corrupt(found, scores, noise.child("drawn").rows(batch.positions), self.window)
        logits = model.replaced(model.encoder(ids, segments, lengths))
        inside = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        return Loss({
            "replaced_cross_entropy": replaced_loss(logits, replaced, inside, self.weight),
            "masked_cross_entropy": proposed,
        })  # fmt: skip


def replaced_loss(logits: torch.Tensor, replaced: torch.Tensor, inside: torch.Tensor, weight: float = 1.0) -> Term:
    """Binary cross-entropy of every token that is no padding."""
    total = nn.functional.binary_cross_entropy_with_logits(
        logits[inside], replaced[inside].to(logits.dtype), reduction="sum"
    )
    return Term(total, float(inside.sum()), scale=weight)
