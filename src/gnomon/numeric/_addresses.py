"""What `Noise` is asked for, as whole numbers: shapes, draws and updates, and the refusal of what has no address."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["NoSuchAddress", "form_of", "index_of"]


class NoSuchAddress(UserValueError, OverflowError):
    """An update, draw, position or element beyond those that addresses can name."""


def index_of(value: Any, name: str) -> int:
    """A whole number of any kind as an int."""
    try:
        return operator.index(value)
    except TypeError:
        raise UserTypeError.must(name, "be an integer", value) from None


def form_of(shape: Any) -> tuple[tuple[int, ...], int, int]:
    """Shape, rows, elements per row; a scalar is one row of one element."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),), int(shape), 1
    shape = tuple(shape) if isinstance(shape, tuple) else _sequence(shape)
    if len(shape) == 2:
        return shape, shape[0], shape[1]
    return (shape, shape[0], math.prod(shape[1:])) if shape else (shape, 1, 1)


def _sequence(shape: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(length) for length in shape)
    except TypeError:
        raise UserTypeError.must("shape", "be an int or a sequence of ints", shape) from None
