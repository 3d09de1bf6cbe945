"""The one cut of n rows in two parts, which everything that holds rows out goes by."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Seed", "held_out_size", "split_rows"]

Seed = int | np.random.Generator | np.random.RandomState


def split_rows(n: int, *, test: float = 0.2, seed: Seed = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of the training and the test part, each in ascending order.

    The test part is the first round(n * test) rows (at least 1, at most n - 1) of the order that
    ``Noise(chosen, "split")`` gives.

    Parameters
    ----------
    n : int >= 2
    test : float in (0, 1), default 0.2
        Fraction of the test part.
    seed : int, Generator or RandomState, default 0
        A generator gives one number.

    Raises
    ------
    UserValueError, UserTypeError
        Fewer than two rows, a fraction outside (0, 1), or something that is not a number.
    """
    from gnomon.numeric.noise import Noise, seed_of

    chosen: Any = seed_of(seed) if isinstance(seed, np.random.Generator | np.random.RandomState) else seed

    if not _is_a(numbers.Real, test):
        raise UserTypeError(f"test must be between 0 and 1, got {test!r}", "test")
    if not _is_a(numbers.Integral, chosen):
        raise UserTypeError(f"seed must be a whole number, got {seed!r}", "seed")
    if not 0 < test < 1:
        raise UserValueError(f"test must be between 0 and 1, got {test!r}", "test")
    if n < 2:
        raise UserValueError(f"data must have at least 2 rows to be split, got {n}", "data", "give more rows")
    size = held_out_size(n, test)
    order = np.asarray(Noise(chosen, "split").order(n))
    return np.sort(order[size:]), np.sort(order[:size])


def held_out_size(n: int, test: float) -> int:
    """Rows of the test part: the nearest whole number, at least 1 and at most n - 1."""
    return min(max(1, round(n * test)), n - 1)


def _is_a(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
