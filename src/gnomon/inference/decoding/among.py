"""A model of the next token that chooses among the candidates of each context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import NextToken
from gnomon.numeric.ops import logsumexp

__all__ = ["Among"]


class Among:
    r"""The model's distribution of the next token given that it is a candidate: :math:`p(t) / p(C_i)` in context i.

    Parameters
    ----------
    model : NextToken
    candidates : bool array of shape (contexts, V)
        C_i of the context with the same number. Where none of them has any mass, nothing follows.

    Examples
    --------
    >>> class Even:
    ...     def start(self, contexts):
    ...         return np.arange(len(contexts))
    ...     def step(self, tokens, state):
    ...         return np.log(np.full((len(tokens), 4), 0.25)), state
    >>> among = Among(Even(), np.array([[True, True, False, False], [False, False, False, True]]))
    >>> np.exp(among.step(np.array([0, 0]), among.start([[], []]))[0]).round(3).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """

    def __init__(self, model: NextToken, candidates: NDArray[np.bool_]) -> None:
        self.model, self.candidates = model, candidates

    def start(self, contexts: Sequence[Sequence[int]]) -> Any:
        """The model's own state after the contexts, with their numbers."""
        return self.model.start(contexts), np.arange(len(contexts))

    def step(self, tokens: NDArray[np.int64], state: Any) -> tuple[NDArray[np.floating], Any]:
        """Log probabilities (n, V) of the next token, -inf of those that are no candidates, and the state."""
        inner, rows = state
        found, inner = self.model.step(tokens, inner)
        log_probs = np.where(self.candidates[rows], np.asarray(found), -np.inf)
        total = logsumexp(log_probs)[:, None]
        return log_probs - np.where(np.isfinite(total), total, 0), (inner, rows)

    def select(self, state: Any, index: NDArray[np.int64]) -> Any:
        """The states of some contexts."""
        return self.model.select(state[0], index), state[1][index]
