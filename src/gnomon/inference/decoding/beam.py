"""Beam search: the most probable sequence among those that stay within a beam of fixed width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import NextToken, State
from gnomon.errors import UserValueError
from gnomon.inference.decoding.filters import best

__all__ = ["STEEPEST", "Hypothesis", "beam_search"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

STEEPEST = 100
"""Of the exponents of a length, the largest whose powers of any length are numbers."""


@dataclass(frozen=True, order=False)
class Hypothesis:
    """One sequence that a search found.

    Parameters
    ----------
    tokens : tuple of int
        After the prompt; the end symbol is kept.
    log_prob : float
        In nats.
    score : float
        log_prob / len(tokens)**alpha.
    finished : bool
        Whether it ended by the end symbol, and was not cut at the greatest length.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool


@dataclass
class _Beam:
    """Live hypotheses of the prompts that are still searched: rows of one prompt stand together, `width` to each."""

    prompts: Ints  # (m,) numbers of the prompts
    limits: Ints  # (m,) their greatest lengths
    totals: Floats  # (m, width), -inf where there is no hypothesis
    tokens: Ints  # (m, width, t)
    state: State  # of m * width sequences


def beam_search(
    model: NextToken,
    prompts: Sequence[Sequence[int]],
    width: int,
    *,
    max_length: int | NDArray[np.int64],
    end: int | None,
    alpha: float = 0.75,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    r"""The best sequences after each prompt.

    Step by step all extensions of a prompt's live hypotheses, `width` times V of them, are pooled and the `width` most
    probable kept. Those that end in `end` are set aside and grow no more; the best of them all by
    :math:`\log P(y) / |y|^\alpha` is the answer.

    Parameters
    ----------
    model : NextToken
    prompts : sequence of sequences of at least one id
        What stands before; searched together.
    width : int, at least 1
        1 is greedy search. With V**(max_length - 1) or more nothing is ever dropped: the search is exhaustive.
    max_length : int or int array of shape (prompts,), at least 0
        Most tokens to add to each prompt.
    end : int or None
        The token that ends a sequence. None: sequences all grow to `max_length`.
    alpha : float, default 0.75
        Exponent of the length, which counts the end symbol; 0 compares log probabilities, which favors short ones.
    n_best : int, at least 1
        Hypotheses to return for each prompt.

    Returns
    -------
    list of lists of Hypothesis
        Best first, at most `n_best` to a prompt. Where nothing finished, those that were cut at `max_length` (or where
        the model gives no token any mass).

    Raises
    ------
    UserValueError
        A width or n_best below 1.

    Notes
    -----
    A prompt's search stops before `max_length` once no live hypothesis can overtake: a log probability only falls, so
    that nothing beyond total / max_length**alpha can come of it. Ties go to the better hypothesis of the step before,
    then to the lower id. A wider beam may return a sequence of lower score, unless it is exhaustive. A step costs one
    step of the model on width rows per prompt and a partial sort of width * V values.

    References
    ----------
    Lowerre (1976), The HARPY speech recognition system; Wu et al. (2016), section 7, for the length.
    """
    for name, value in (("width", width), ("n_best", n_best)):
        if value < 1:
            raise UserValueError.must(name, "be at least 1", value)
    if not -STEEPEST <= alpha <= STEEPEST:
        raise UserValueError.must("alpha", f"be from {-STEEPEST} to {STEEPEST}", alpha, "length_penalty")
    done: list[list[Hypothesis]] = [[] for _ in prompts]
    limits = np.broadcast_to(np.asarray(max_length, np.int64), (len(prompts),))
    some = np.flatnonzero(limits > 0)
    if not some.size:
        return done
    beam = _Beam(
        some, limits[some], np.zeros((some.size, 1)), np.zeros((some.size, 1, 0), np.int64),
        model.select(model.start([prompt[:-1] for prompt in prompts]), some),
    )  # fmt: skip
    last = np.array([prompt[-1] for prompt in prompts], np.int64)[some]
    for t in range(1, int(limits.max()) + 1):
        log_probs, beam.state = model.step(last, beam.state)
        known = np.asarray(log_probs, np.float64)
        _set_stuck_aside(beam, done, alpha, known)
        parents = _grow(beam, known, width)
        _set_aside(beam, done, alpha, end)
        going = np.flatnonzero((t < beam.limits) & _can_win(beam, done, t, alpha, n_best))
        if not going.size:
            break
        beam.prompts, beam.limits = beam.prompts[going], beam.limits[going]
        beam.totals, beam.tokens = beam.totals[going], beam.tokens[going]
        beam.state = model.select(beam.state, parents[going].ravel())
        last = beam.tokens[:, :, -1].ravel()
    return [_ranked(found, n_best) for found in done]


def _grow(beam: _Beam, log_probs: Floats, width: int) -> Ints:
    """Extend every hypothesis by the best tokens of the pool; rows of the state that the new ones come from."""
    m, old = beam.totals.shape
    vocabulary = log_probs.shape[1]
    pool = (beam.totals[:, :, None] + log_probs.reshape(m, old, vocabulary)).reshape(m, -1)
    chosen = best(pool, min(width, pool.shape[1]))
    parent, token = np.divmod(chosen, vocabulary)
    beam.totals = np.take_along_axis(pool, chosen, axis=1)
    beam.tokens = np.concatenate(
        [np.take_along_axis(beam.tokens, parent[:, :, None], axis=1), token[:, :, None]], axis=2
    )
    return np.asarray(np.arange(m)[:, None] * old + parent, np.int64)


def _set_aside(beam: _Beam, done: list[list[Hypothesis]], alpha: float, end: int | None) -> None:
    """Take the finished hypotheses out of the beam; at the greatest length of a prompt all the others too."""
    alive = beam.totals > -np.inf
    ends = alive & (beam.tokens[:, :, -1] == (-1 if end is None else end))
    _keep(beam, done, alpha, ends, finished=True)
    _keep(beam, done, alpha, alive & ~ends & (beam.tokens.shape[2] == beam.limits)[:, None], finished=False)
    beam.totals = np.where(ends, -np.inf, beam.totals)


def _set_stuck_aside(beam: _Beam, done: list[list[Hypothesis]], alpha: float, log_probs: Floats) -> None:
    """Keep, as cut, the hypotheses after which the model gives no token any mass."""
    stuck = log_probs.max(axis=1).reshape(beam.totals.shape) == -np.inf
    _keep(beam, done, alpha, stuck & (beam.totals > -np.inf), finished=False)


def _keep(
    beam: _Beam, done: list[list[Hypothesis]], alpha: float, chosen: NDArray[np.bool_], *, finished: bool
) -> None:
    length = max(1, beam.tokens.shape[2])
    for i, j in np.argwhere(chosen):
        total, tokens = float(beam.totals[i, j]), tuple(beam.tokens[i, j].tolist())
        done[beam.prompts[i]].append(Hypothesis(tokens, total, total / length**alpha, finished))


def _can_win(beam: _Beam, done: list[list[Hypothesis]], t: int, alpha: float, n_best: int) -> NDArray[np.bool_]:
    """Whether a live hypothesis of each prompt may still come among the best."""
    longest = beam.limits.astype(np.float64) if alpha > 0 else np.full(len(beam.limits), t + 1.0)
    reach = beam.totals.max(axis=1) / longest**alpha
    result = reach > -np.inf
    for i, prompt in enumerate(beam.prompts):
        scores = sorted((one.score for one in done[prompt] if one.finished), reverse=True)
        if len(scores) >= n_best:
            result[i] &= reach[i] > scores[n_best - 1]
    return result


def _ranked(found: list[Hypothesis], n_best: int) -> list[Hypothesis]:
    finished = [one for one in found if one.finished]
    return sorted(finished or found, key=lambda one: -one.score)[:n_best]
