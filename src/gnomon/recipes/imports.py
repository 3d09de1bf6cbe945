"""Imports that leave Python's global generator as it was: rich, which scikit-learn and skops bring along, draws."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["load", "random_kept"]


@contextmanager
def random_kept() -> Iterator[None]:
    """Leave Python's global generator as it was found, whatever is imported inside.

    Examples
    --------
    >>> before = random.getstate()
    >>> with random_kept():
    ...     import sklearn.preprocessing
    >>> random.getstate() == before
    True
    """
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


def load(place: str) -> Any:
    """What ``module:name`` says, or the module itself where no name follows. This imports the module.

    Raises
    ------
    ImportError, AttributeError, ValueError
        There is none.

    Examples
    --------
    >>> load("gnomon.errors:counted").__name__
    'counted'
    """
    module, _, name = place.partition(":")
    with random_kept():
        found = importlib.import_module(module)
    return getattr(found, name) if name else found
