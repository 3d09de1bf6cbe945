"""Networks on the few tokens before each: contexts as rows, the network, its loss."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gnomon.contracts import Group, Noise
from gnomon.data.counting import BOS, EOS
from gnomon.nn.dropout import Dropout
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.recipes.fields import Doc, Fields
from gnomon.systems.sequence._model import outcome

__all__ = ["Beside", "ContextFields", "ContextNet", "RowLoss", "contexts"]


def contexts(text: Ragged, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tokens before each token and each end, sentence by sentence, and these themselves.

    Parameters
    ----------
    text : Ragged
    width : int, at least 0
        Tokens before each; where a sentence has not so many, ``<s>`` stands for them.

    Returns
    -------
    arrays of shapes (tokens and ends, width) and (tokens and ends,)

    Examples
    --------
    >>> before, token = contexts(Ragged.of([[7, 8], []]), 2)
    >>> before.tolist(), token.tolist()
    ([[1, 1], [1, 7], [7, 8], [1, 1]], [7, 8, 2, 2])
    """
    lengths = text.lengths + 1
    sentence = np.repeat(np.arange(len(text)), lengths)
    at = np.arange(len(sentence)) + width * (sentence + 1)
    stream = np.full(len(sentence) + width * len(text), BOS)
    ends = np.zeros(len(sentence), np.bool_)
    ends[np.cumsum(lengths) - 1] = True
    stream[at[ends]], stream[at[~ends]] = EOS, text.values
    return stream[at[:, None] + np.arange(-width, 0)], stream[at]


class Beside(NamedTuple):
    """What other inputs add to the hidden units, (..., units), and to the scores, (..., V - 1); None: nothing."""

    hidden: torch.Tensor | None
    scores: torch.Tensor | None


class ContextNet(nn.Module):
    r"""Scores :math:`y = b + W x + U \tanh(d + H x)` of vectors x of a context.

    Parameters
    ----------
    inputs, outputs : int, at least 1
    units : int, at least 0
        Of the hidden layer; none where 0: then :math:`y = b + W x`.
    direct : bool
        Whether there is W.
    dropout : float in [0, 1)
        Probability to drop a hidden unit in training.
    dtype : torch.dtype
    """

    def __init__(
        self, inputs: int, units: int, outputs: int, direct: bool, dropout: float, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs, dtype=dtype))
        self.hidden = dense(inputs, units, dtype=dtype) if units else None
        self.out = dense(units, outputs, bias=False, dtype=dtype) if units else None
        self.direct = dense(inputs, outputs, bias=False, dtype=dtype) if direct else None
        self.drop = Dropout(dropout)

    def initialize(self, noise: Noise) -> None:
        """Weights of hidden units and scores of one size from layer to layer; W and the biases are 0."""
        for name in ("hidden", "out"):
            layer = getattr(self, name)
            if layer is not None:
                initialize(layer, XavierUniform(), noise.child(name))

    def forward(self, x: torch.Tensor, beside: Beside | None = None) -> torch.Tensor:
        """Scores (..., outputs) of contexts (..., inputs), and of what else is known."""
        scores: torch.Tensor = self.bias
        if self.direct is not None:
            scores = scores + self.direct(x)
            if beside is not None and beside.scores is not None:
                scores = scores + beside.scores
        return scores if self.out is None else scores + self.out(self._units(x, beside))

    def chosen(self, x: torch.Tensor, outcomes: torch.Tensor, beside: Beside) -> torch.Tensor:
        """The scores (n,) of one outcome of each row, at a cost that does not grow with their number."""
        scores = self.bias[outcomes]
        if self.direct is not None:
            own = (self.direct.weight[outcomes] * x).sum(1)
            scores = scores + own + (0 if beside.scores is None else beside.scores)
        if self.out is None:
            return scores
        return scores + (self.out.weight[outcomes] * self._units(x, beside)).sum(1)

    def _units(self, x: torch.Tensor, beside: Beside | None) -> torch.Tensor:
        """Hidden units (..., units)."""
        assert self.hidden is not None
        a = self.hidden(x)
        if beside is not None and beside.hidden is not None:
            a = a + beside.hidden
        units: torch.Tensor = self.drop(torch.tanh(a))
        return units


class RowLoss(Objective):
    r"""Cross-entropy of the token after each context, each a row: :math:`\log Z - y_w` for scores y.

    Parameters
    ----------
    penalty : float, at least 0
        The factor of :math:`(\log Z)^2`, which draws the sum of the exponentials of the scores to 1.
    """

    def __init__(self, penalty: float = 0.0) -> None:
        super().__init__()
        self.penalty = penalty
        self.additive = True

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch of contexts."""
        scores, weight = model.row_scores(batch.data), float(batch.weight.sum())
        y, w = (torch.as_tensor(one, device=scores.device) for one in (batch.data["y"], batch.weight))
        w, log_z = w.to(scores.dtype), scores.logsumexp(1)
        losses = log_z - scores.gather(1, outcome(y)[:, None])[:, 0]
        terms = {"cross_entropy": Term((losses * w).sum(), weight)}
        if self.penalty:
            terms["squared_log_normalizer"] = Term((log_z.square() * w).sum(), weight, scale=self.penalty)
        return Loss(terms)


class ContextFields(Fields):
    """Systems on the few tokens before each."""

    n: Annotated[int, "[2, inf)", Doc("The next token is told from the n - 1 tokens before it.")] = 5
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of the tokens' embeddings.")] = 64
    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 128
    direct: Annotated[
        Literal["no", "beside", "alone"],
        Doc("Whether scores depend on the embeddings past the hidden units: beside these, or with no such units."),
    ] = "beside"

    @property
    def hidden_units(self) -> int:
        """Hidden units that there are."""
        return 0 if self.direct == "alone" else self.n_hidden
