"""Training sets from what users met alone: pairs with sampled negatives, and triples (user, met, not met)."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.data.interactions import Interactions
from gnomon.errors import UserValueError

__all__ = ["Pointwise", "Preferences", "pairwise", "pointwise", "unobserved"]

Ints = NDArray[np.int64]
By = Literal["uniform", "popularity"]


class Pointwise(NamedTuple):
    """Pairs of codes, whether the user met the item, and the weight of the pair that was met (or drawn for)."""

    users: Ints
    items: Ints
    met: NDArray[np.bool_]
    weight: NDArray[np.float64]


class Preferences(NamedTuple):
    """Codes of users, of items that they met and of items that they did not meet; weights of the pairs that met."""

    users: Ints
    met: Ints
    unmet: Ints
    weight: NDArray[np.float64]


def pairwise(log: Interactions, noise: Noise, *, by: By = "uniform") -> Preferences:
    """A triple (u, i, j) for every pair (u, i) that met, with j drawn from the items that u did not meet.

    Parameters
    ----------
    log : Interactions
    noise : Noise
        ``noise.at(epoch)`` gives every epoch negatives of its own.
    by : {"uniform", "popularity"}
        j is drawn evenly, or in proportion to the number of users who met it (an item that nobody met is not drawn).

    Returns
    -------
    Preferences
        In the order of the pairs; a user who met all items (that can be drawn) has none.

    Notes
    -----
    Exact, without rejection: the r-th unmet item is found by bisection. Cost O(n log n).

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> log = Interactions.from_records([0, 0, 1], [0, 1, 1])
    >>> triples = pairwise(log, Noise(0, "negatives"))
    >>> [part.tolist() for part in triples]  # user 0 met everything
    [[1], [1], [0], [1.0]]
    """
    users = log.rows
    items = unobserved(log, users, noise, by=by)
    there = items >= 0
    return Preferences(users[there], log.codes[there], items[there], log.weight[there])


def pointwise(log: Interactions, n_negatives: int, noise: Noise, *, by: By = "uniform") -> Pointwise:
    """Every pair that met, and for each `n_negatives` pairs of its user with items that the user did not meet.

    Parameters
    ----------
    log, noise, by
        As in `pairwise`.
    n_negatives : int in [0, inf)

    Returns
    -------
    Pointwise
        The pairs that met first.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> log = Interactions.from_records([0, 1], [0, 1])
    >>> pairs = pointwise(log, 1, Noise(0, "negatives"))
    >>> pairs.items.tolist(), pairs.met.tolist()
    ([0, 1, 1, 0], [True, True, False, False])
    """
    if n_negatives < 0:
        raise UserValueError.must("n_negatives", "be at least 0", n_negatives)
    met = log.rows
    users = np.repeat(met, n_negatives)
    items = unobserved(log, users, noise, by=by)
    there = items >= 0
    flags = np.arange(len(met) + np.count_nonzero(there)) < len(met)
    weight = np.append(log.weight, np.repeat(log.weight, n_negatives)[there])
    return Pointwise(np.append(met, users[there]), np.append(log.codes, items[there]), flags, weight)


def unobserved(log: Interactions, users: Ints, noise: Noise, *, by: By = "uniform") -> Ints:
    """For each of these users an item that the user did not meet; -1 where there is none.

    Parameters
    ----------
    log, noise, by
        As in `pairwise`.
    users : int64 array of shape (n,)
        Codes.
    """
    if by not in ("uniform", "popularity"):
        raise UserValueError.must("by", "be uniform or popularity", by)
    mass = np.ones(len(log.items), np.int64)
    if by == "popularity":
        mass = np.bincount(log.codes, minlength=len(log.items))
    before = np.concatenate([[0], np.cumsum(mass)])
    own = np.concatenate([[0], np.cumsum(mass[log.codes])])
    # mass of what a user has not met that stands before each item that the user met
    gap = before[log.codes] - (own[:-1] - own[log.offsets[log.rows]])
    left = before[-1] - (own[log.offsets[1:]] - own[log.offsets[:-1]])
    drawn = np.minimum((noise.uniform((len(users),), like=np.zeros(0)) * left[users]).astype(np.int64), left[users] - 1)
    width = before[-1] + 1
    passed = np.searchsorted(log.rows * width + gap, users * width + drawn, side="right")
    index = drawn + own[passed] - own[log.offsets[users]]
    items = np.searchsorted(before, index, side="right") - 1
    return np.where(left[users] > 0, items, -1)
