"""Ancestral sampling: one token after another from a model that keeps the contract NextToken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import NextToken, Noise
from gnomon.inference.decoding.filters import check_filters, filtered

__all__ = ["ancestral", "categorical"]

_CELLS = 2**22  # probabilities held at once


def categorical(log_probs: NDArray[np.floating], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Index drawn from each row by the inverse of its cumulative distribution; -1 for a row without any mass.

    Parameters
    ----------
    log_probs : array of shape (batch, categories)
        Nats; need not be normalized.
    u : float64 array of shape (batch,)
        Uniform numbers in (0, 1).

    Examples
    --------
    >>> categorical(np.log([[0.25, 0.75]] * 2), np.array([0.2, 0.3])).tolist()
    [0, 1]
    """
    peak = log_probs.max(axis=1, keepdims=True)
    total = np.cumsum(np.exp(log_probs - np.where(np.isfinite(peak), peak, 0.0)), axis=1, dtype=np.float64)
    mass = total[:, -1]
    # u * mass may round up to mass: the last category that has any mass is then the first to reach it
    chosen = np.minimum((total <= (u * mass)[:, None]).sum(axis=1), (total < mass[:, None]).sum(axis=1))
    return np.where(mass > 0, chosen, -1)


def ancestral(
    model: NextToken,
    prompts: Sequence[Sequence[int]],
    noise: Noise,
    *,
    max_length: int | NDArray[np.int64],
    vocabulary_size: int,
    end: int | None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    watch: Callable[[NDArray[np.int64], NDArray[np.int64]], None] | None = None,
) -> NDArray[np.int64]:
    """Draw a continuation of each prompt.

    Parameters
    ----------
    model : NextToken
    prompts : sequence of sequences of at least one id
        What stands before each; usually begins with the symbol of a sentence's beginning.
    noise : Noise
        Sequence i uses position i, its token t the update t: more sequences or more tokens change none of the first.
    max_length : int or int array of shape (prompts,), at least 0
        Most tokens to draw for each.
    vocabulary_size : int
        Width of the model's rows; bounds the memory.
    end : int or None
        A token that ends its sequence; it is kept.
    temperature, top_k, top_p
        See `gnomon.inference.decoding.filters.filtered`.
    watch : callable, optional
        Called after every step with the numbers of the sequences that got a token, and these tokens.

    Returns
    -------
    int64 array of shape (prompts, at most max_length)
        Drawn tokens, -1 after the end. A sequence also ends where the model gives nothing any mass.
    """
    check_filters(temperature, top_k, top_p)
    limits = np.broadcast_to(np.asarray(max_length, np.int64), (len(prompts),))
    longest = int(limits.max(initial=0))
    drawn = np.full((len(prompts), longest), -1, np.int64)
    batch = max(1, _CELLS // max(vocabulary_size, 1))
    for begin in range(0, len(prompts), batch):
        some = prompts[begin : begin + batch]
        going = np.flatnonzero(limits[begin : begin + batch] > 0)
        state = model.select(model.start([prompt[:-1] for prompt in some]), going)
        rows, tokens = begin + going, np.array([prompt[-1] for prompt in some], np.int64)[going]
        for t in range(longest if rows.size else 0):
            log_probs, state = model.step(tokens, state)
            values = filtered(np.asarray(log_probs), temperature=temperature, top_k=top_k, top_p=top_p)
            u = noise.take(rows).at(t).uniform((rows.size,), like=np.zeros(1))
            tokens = categorical(values, u)
            drawn[rows, t] = tokens
            if watch is not None:
                watch(rows, tokens)
            ends = (tokens < 0) | (tokens == (-1 if end is None else end)) | (t + 1 >= limits[rows])
            goes_on = np.flatnonzero(~ends)
            if not goes_on.size:
                break
            rows, tokens, state = rows[goes_on], tokens[goes_on], model.select(state, goes_on)
    return drawn[:, : int((drawn >= 0).sum(axis=1).max(initial=0))]
