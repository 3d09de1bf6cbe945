"""Greedy search: the most probable token at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import NextToken

__all__ = ["greedy"]


def greedy(
    model: NextToken,
    prompts: Sequence[Sequence[int]],
    *,
    max_length: int | NDArray[np.int64],
    end: int | None,
    watch: Callable[[NDArray[np.int64], NDArray[np.int64]], None] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The most probable next token after each prompt, over and over; it may miss the most probable sequence.

    Parameters
    ----------
    model : NextToken
    prompts : sequence of sequences of at least one id
        What stands before, each usually beginning with the symbol of a sentence's beginning.
    max_length : int or int array of shape (prompts,), at least 0
        Most tokens to add to each.
    end : int or None
        A token that ends its sequence; it is kept.
    watch : callable, optional
        Called after every step with the numbers of the sequences that got a token, and these tokens.

    Returns
    -------
    tokens : int64 array of shape (prompts, at most max_length)
        Of equally probable tokens that with the lowest id; -1 after the end. A sequence also ends where the model
        gives nothing any mass.
    log_prob : float64 array of shape (prompts,)
        Sum of the log probabilities of its tokens, in nats.

    Notes
    -----
    Finished sequences leave the batch, so that a step costs what is still going on.
    """
    n = len(prompts)
    limits = np.broadcast_to(np.asarray(max_length, np.int64), (n,))
    longest = int(limits.max(initial=0))
    tokens, log_prob = np.full((n, longest), -1, np.int64), np.zeros(n)
    rows, last = np.flatnonzero(limits > 0), np.array([prompt[-1] for prompt in prompts], np.int64)
    if not rows.size:
        return tokens[:, :0], log_prob
    last, state = last[rows], model.select(model.start([prompt[:-1] for prompt in prompts]), rows)
    for t in range(longest):
        log_probs, state = model.step(last, state)
        values = np.asarray(log_probs)
        last = values.argmax(axis=1)
        gain = values[np.arange(rows.size), last]
        possible = gain > -np.inf
        tokens[rows[possible], t] = last[possible]
        log_prob[rows[possible]] += gain[possible]
        if watch is not None:
            watch(rows[possible], last[possible])
        goes_on = np.flatnonzero(possible & (last != (-1 if end is None else end)) & (t + 1 < limits[rows]))
        if not goes_on.size:
            break
        if goes_on.size < rows.size:
            rows, last, state = rows[goes_on], last[goes_on], model.select(state, goes_on)
    return tokens[:, : int((tokens >= 0).sum(axis=1).max(initial=0))], log_prob
