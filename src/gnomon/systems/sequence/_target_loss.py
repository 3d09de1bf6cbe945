"""The loss of systems that translate: of all targets, or of a part of them where there are very many."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.contracts import Group
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.sampled_softmax import sampled_softmax_losses
from gnomon.systems.sequence._model import outcome
from gnomon.systems.sequence._pairs import WritingModel, shifted

__all__ = ["TargetLoss"]


class TargetLoss(Objective):
    r"""Cross-entropy of the target's tokens and its end.

    With a part of the vocabulary the softmax of a batch is over the outcomes V' of its own targets and others, drawn
    uniformly until there are so many: :math:`-a_y + \log \sum_{w \in V'} e^{a_w}`. The proposal of importance sampling
    is uniform on V', so that its correction :math:`-\log Q(w) = \log |V'|` is one constant, which falls out; and every
    target has its own term. What is judged is the loss over all of the vocabulary.

    Parameters
    ----------
    forcing : float
        Fraction of the decoder's inputs that are the true tokens.
    part : int, optional
        Size of V', or the number of different outcomes of the batch if these are more; all where left out.

    Notes
    -----
    With V' the scores cost O(n T |V'| d) in place of O(n T V d). A batch is the training partition of the reference:
    Jean, Cho, Memisevic and Bengio (2015), "On using very large target vocabulary for neural machine translation".
    """

    def __init__(self, forcing: float, part: int | None = None) -> None:
        super().__init__()
        self.forcing, self.part = forcing, part
        self.additive = part is None

    def forward(self, model: WritingModel, batch: Any, *, noise: contracts.Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch of pairs, per token."""
        data = batch.data
        given, wanted, inside = shifted(data["target"], data["target_length"])
        counts = inside * np.asarray(batch.weight)[:, None]
        x, y, w = (torch.as_tensor(one, device=model.device) for one in (given, wanted, counts))
        y, w = outcome(y).flatten(), w.flatten()
        memory, judged = model.encode_batch(data), phase == "validation"
        if self.part is not None and not judged:
            words = self.words(y[w > 0].cpu().numpy(), model.target_size - 1, noise, group)
            losses, w = self._of_part(model.hidden(memory, x).flatten(0, 1), y, w, words, model.head)
        else:
            scores = model.scores(memory, x, None if judged else self._forced(batch, given, noise, model))
            losses = torch.nn.functional.cross_entropy(scores.flatten(0, 1), y, reduction="none")
        return Loss({"cross_entropy": Term((losses * w.to(losses.dtype)).sum(), float(counts.sum()))})

    def _forced(
        self, batch: Any, given: NDArray[np.int64], noise: contracts.Noise, model: WritingModel
    ) -> torch.Tensor | None:
        """Which inputs are the true tokens; None: all."""
        if self.forcing >= 1:
            return None
        u = noise.child("forcing").rows(batch.positions).uniform(given.shape, like=np.zeros(1))
        return torch.as_tensor(np.asarray(u) < self.forcing, device=model.device)

    def words(self, targets: NDArray[np.int64], size: int, noise: contracts.Noise, group: Group) -> NDArray[np.int64]:
        """V' of a batch, ascending: the outcomes of all its processes' targets, and others up to `part` of them."""
        assert self.part is not None
        rank = np.asarray(noise.child("words").uniform((size,), like=np.zeros(1))).copy()
        present = np.asarray(group.sum(np.bincount(targets, minlength=size).astype(np.float64))) > 0
        rank[present] = -1.0
        n = min(size, max(self.part, int(present.sum())))
        return np.sort(np.argpartition(rank, n - 1)[:n]) if n < size else np.arange(size)

    def _of_part(
        self, hidden: torch.Tensor, y: torch.Tensor, w: torch.Tensor, words: NDArray[np.int64], head: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Losses of what is no padding, and its weights."""
        kept, chosen = w > 0, torch.as_tensor(words, device=hidden.device)
        log_q = hidden.new_full((len(words),), -float(np.log(len(words))))
        return sampled_softmax_losses(hidden[kept], y[kept], head.weight, head.bias, chosen, log_q), w[kept]
