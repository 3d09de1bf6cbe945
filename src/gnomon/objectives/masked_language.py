"""Masked language modeling: some tokens are hidden, and the network says what they were; and what follows what."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from gnomon.contracts import Group, Noise
from gnomon.data.packing import MASK, SPECIALS, Packed, pack
from gnomon.errors import UserValueError
from gnomon.objectives.base import Loss, Objective, Term

__all__ = ["IGNORED", "Masked", "MaskedLanguage", "mask_tokens"]

IGNORED = -100
"""The label of what is not to be foretold."""
FIRST = len(SPECIALS)
"""The first id that is no special symbol."""


class Masked(NamedTuple):
    """Tokens of which some are hidden.

    Attributes
    ----------
    ids : int64 tensor of shape (n, T)
    labels : int64 tensor of shape (n, T)
        What the chosen tokens were; `IGNORED` elsewhere.
    """

    ids: torch.Tensor
    labels: torch.Tensor


def mask_tokens(
    ids: torch.Tensor, noise: Noise, n_ids: int, *, fraction: float = 0.15, masked: float = 0.8, random: float = 0.1,
    width: int | None = None, begins: torch.Tensor | None = None,
) -> Masked:  # fmt: skip
    """Choose some tokens of each row, and hide most of them.

    Of the chosen ones a share becomes ``<mask>``, another a token drawn from the vocabulary (which may be the token
    itself), the rest stays. Special symbols are never chosen, nor drawn; a row with other tokens has at least one
    chosen token.

    Parameters
    ----------
    ids : int64 tensor of shape (n, T)
    noise : Noise
        Of the rows: other tokens are chosen at every update.
    n_ids : int
        Size of the vocabulary.
    fraction : float in (0, 1), default 0.15
        Probability to choose a token.
    masked, random : float in [0, 1], default 0.8 and 0.1
        Shares of the chosen ones.
    width : int >= T, optional
        Numbers are drawn for so many places, so that a row gets the same ones however wide its batch is.
    begins : bool tensor of shape (n_ids,), optional
        Whether a token begins a word: the tokens of a word are then chosen together.

    Raises
    ------
    UserValueError
        Shares that are more than all.

    Notes
    -----
    Source: Devlin, Chang, Lee and Toutanova (2019).

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> ids = torch.tensor([[2, 7, 8, 9, 3]])
    >>> found = mask_tokens(ids, Noise(0, "mask").rows(np.arange(1)), 10, masked=1.0, random=0.0)
    >>> bool(torch.where(found.labels == -100, ids, found.labels).equal(ids)), int((found.ids == 4).sum()) >= 1
    (True, True)
    """
    if masked + random > 1:
        raise UserValueError(f"masked and random must be at most 1 together, got {masked + random}", "masked")
    n, T = ids.shape
    like = torch.zeros((), device=ids.device)

    def drawn(purpose: str) -> torch.Tensor:
        found: torch.Tensor = noise.child(purpose).uniform((n, width or T), like=like)[:, :T]
        return found

    choice, known = drawn("choice"), ids >= FIRST
    if begins is not None:
        choice = choice.gather(1, _word_starts(begins[ids] | ~known))
    choice = torch.where(known, choice, 2.0)
    least = choice.min(1, keepdim=True).values if T else choice
    chosen = known & ((choice < fraction) | (choice == least))
    fate = drawn("fate")
    word = FIRST + (drawn("word").double() * (n_ids - FIRST)).long().clamp(max=n_ids - FIRST - 1)
    shown = torch.where(fate < masked, MASK, torch.where(fate < masked + random, word, ids))
    return Masked(torch.where(chosen, shown, ids), torch.where(chosen, ids, IGNORED))


def _word_starts(begins: torch.Tensor) -> torch.Tensor:
    """The place at which the word of each token begins."""
    at = torch.arange(begins.shape[1], device=begins.device).expand(begins.shape)
    return torch.where(begins, at, 0).cummax(1).values


class MaskedLanguage(Objective):
    r"""Cross-entropy of hidden tokens, plus that of whether the second passage follows the first.

    :math:`L = -\frac{1}{|C|} \sum_{t \in C} \log P(w_t | \hat w) - \frac{1}{n} \sum_i \log P(f_i | \hat w^i)` over the
    chosen places C and the rows that have two passages; both are terms of their own.

    Parameters
    ----------
    window : int
        Tokens of a row.
    fraction : float in (0, 1)
        Probability to choose a token.
    whole_words : bool, default False
        Whether the pieces of a word are chosen together: those that the model's ``vocabulary`` writes with ``##``, and
        what stands before them.

    Notes
    -----
    The model has ``encoder`` (`gnomon.nn.text_encoder.TextEncoder`), ``head`` (scores of all ids) and ``follows``
    (two scores, or None).
    """

    def __init__(self, window: int, fraction: float, whole_words: bool = False) -> None:
        super().__init__()
        self.window, self.fraction, self.whole_words = window, fraction, whole_words
        self._table: Any = None
        self._begins: torch.Tensor | None = None

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Passages that stand in for those that follow, and the tokens that begin a word."""
        self._table = batches.examples.shared["passages"]
        if self.whole_words:
            names = model.vocabulary.decode(range(len(model.vocabulary)))
            self._begins = torch.tensor([not name.startswith("##") for name in names], device=model.device)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Both terms, of tokens that are hidden anew at every update."""
        packed, follows = self.packed(model, batch, noise, phase)
        found, segments, lengths = self.masked(model, packed, batch, noise)
        tokens = model.encoder(found.ids, segments, lengths)
        terms = {"masked_cross_entropy": hidden_loss(model.head, tokens, found.labels)}
        if model.follows is not None:
            terms["next_cross_entropy"] = next_loss(model.follows, model.encoder.pool(tokens), follows)
        return Loss(terms)

    def packed(self, model: Any, batch: Any, noise: Noise, phase: str) -> tuple[Packed, np.ndarray[Any, Any]]:
        """The rows between special tokens, and whether the second passage follows; nothing is swapped in validation."""
        a, b = batch.data["X"], batch.data["next"]
        if model.follows is None:
            return pack(a, longest=self.window), np.full(len(a), -1)
        if phase == "validation":
            return pack(a, b, longest=self.window), np.full(len(a), -1)
        rows = noise.child("pairs").rows(batch.positions)
        second, follows = self._table.pairs(a, b, batch.data["document"], rows)
        return pack(a, second, longest=self.window), follows

    def masked(self, model: Any, packed: Packed, batch: Any, noise: Noise) -> tuple[Masked, torch.Tensor, torch.Tensor]:
        """The rows with hidden tokens, their segments and lengths, where the model computes."""
        ids, segments, lengths = (torch.as_tensor(one, device=model.device) for one in packed)
        rows = noise.child("mask").rows(batch.positions)
        n_ids = model.encoder.tokens.weight.shape[0]
        found = mask_tokens(ids, rows, n_ids, fraction=self.fraction, width=self.window, begins=self._begins)
        return found, segments, lengths


def hidden_loss(head: nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> Term:
    """Cross-entropy of the tokens that were chosen: scores are computed there alone."""
    chosen = labels != IGNORED
    scores = head(tokens[chosen])
    total = nn.functional.cross_entropy(scores, labels[chosen], reduction="sum")
    return Term(total, float(chosen.sum()))


def next_loss(layer: nn.Module, pooled: torch.Tensor, follows: Any) -> Term:
    """Cross-entropy of whether the second passage follows, of rows that say so: 1, or 0; -1 is left out."""
    labels = torch.as_tensor(follows, device=pooled.device)
    total = nn.functional.cross_entropy(layer(pooled), labels, ignore_index=-1, reduction="sum")
    return Term(total, float((labels >= 0).sum()))
