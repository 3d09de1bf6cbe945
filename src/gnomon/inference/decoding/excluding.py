"""A model of the next token that never gives some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import NextToken
from gnomon.numeric.ops import logsumexp

__all__ = ["Excluding"]


class Excluding:
    r"""The model's distribution of the next token given that it is none of these: :math:`p(t) / (1 - p(S))`.

    Parameters
    ----------
    model : NextToken
    tokens : sequence of int
        S, by id. Where nothing else has any mass, nothing follows.

    Examples
    --------
    >>> class Even:
    ...     def start(self, contexts):
    ...         return None
    ...     def step(self, tokens, state):
    ...         return np.log(np.full((len(tokens), 4), 0.25)), state
    >>> np.exp(Excluding(Even(), (0,)).step(np.array([1]), None)[0]).round(3).tolist()
    [[0.0, 0.333, 0.333, 0.333]]
    """

    def __init__(self, model: NextToken, tokens: Sequence[int]) -> None:
        self.model, self.tokens = model, list(tokens)

    def start(self, contexts: Sequence[Sequence[int]]) -> Any:
        """The model's own state after the contexts."""
        return self.model.start(contexts)

    def step(self, tokens: NDArray[np.int64], state: Any) -> tuple[NDArray[np.floating], Any]:
        """Log probabilities (n, V) of the next token, -inf of those left out, and the state."""
        found, state = self.model.step(tokens, state)
        log_probs = np.array(found)
        log_probs[:, self.tokens] = -np.inf
        total = logsumexp(log_probs)[:, None]
        return log_probs - np.where(np.isfinite(total), total, 0), state

    def select(self, state: Any, index: NDArray[np.int64]) -> Any:
        """The states of some contexts."""
        return self.model.select(state, index)
