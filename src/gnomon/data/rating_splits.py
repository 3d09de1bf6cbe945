"""Cuts of ratings in a training and a test part: at random, by user, by time."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gnomon.data.holdout import Seed
from gnomon.data.relations import Ratings
from gnomon.errors import UserValueError, counted, nearest

__all__ = ["Mode", "split_ratings"]

Mode = Literal["random", "user", "time"]


def split_ratings(
    log: Ratings, mode: Mode = "random", *, test: float = 0.2, n_test: int = 1, seed: Seed = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of a training and a test part, each in ascending order.

    Parameters
    ----------
    log : Ratings
    mode : {"random", "user", "time"}
        ``random``: a share of all pairs; later ratings may then help to predict earlier ones. ``user``: of every user
        `n_test` rows at random. ``time``: of every user the `n_test` latest rows, so that no training row of a user is
        later than a test row; among equal times the row that stands later counts as the later one.
    test : float in (0, 1), default 0.2
        Fraction of the test part; for ``random``.
    n_test : int in [1, inf), default 1
        Test rows of a user. A user with `n_test` rows or fewer stays in the training part.
    seed : int, Generator or RandomState, default 0
        For ``random`` and ``user``.

    Raises
    ------
    UserValueError
        An unknown mode, ratings without times for ``time``, no user with enough rows.

    Examples
    --------
    >>> log = Ratings(np.array([1, 1, 1, 2]), np.array([7, 8, 9, 7]), times=np.array([30, 10, 20, 5]))
    >>> [part.tolist() for part in split_ratings(log, "time")]
    [[1, 2, 3], [0]]
    """
    if mode not in get_args(Mode):
        close = nearest(str(mode), get_args(Mode)) or get_args(Mode)
        raise UserValueError(
            f"mode must be one of {', '.join(get_args(Mode))}, got {mode!r}", "mode", f"try {close[0]}"
        )
    if mode == "random":
        return log.split_rows(test=test, seed=seed)
    if n_test < 1:
        raise UserValueError(f"n_test must be at least 1, got {n_test}", "n_test", "")
    if mode == "time":
        if log.times is None:
            remedy = "name their column (--columns USER,ITEM,TIME), or split by user"
            raise UserValueError("a split by time needs times", log.name, remedy)
        order = log.times
    else:
        order = _shuffled(len(log), seed)
    test_rows = _last_of_each(log.users, order, n_test)
    if not test_rows.any():
        what = f"no user has more than {counted(n_test, 'row')}"
        raise UserValueError(what, log.name, "keep fewer rows of each out, or split at random")
    return np.flatnonzero(~test_rows), np.flatnonzero(test_rows)


def _shuffled(n: int, seed: Seed) -> NDArray[np.int64]:
    from gnomon.numeric.noise import Noise, seed_of

    return np.asarray(Noise(seed_of(seed), "split").order(n))


def _last_of_each(users: NDArray[Any], order: NDArray[Any], n: int) -> NDArray[np.bool_]:
    """Whether a row is one of its user's n last in this order; users with n rows or fewer have none."""
    _, codes, counts = np.unique(users, return_inverse=True, return_counts=True)
    ranked = np.lexsort((order, codes))
    from_end = np.empty(len(users), np.int64)
    from_end[ranked] = np.repeat(np.cumsum(counts), counts) - np.arange(len(users))
    return (from_end <= n) & (counts[codes] > n)
