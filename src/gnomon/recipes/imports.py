"""Imports, quickly, that leave Python's global generator as it was: rich, which scikit-learn and skops bring, draws."""

from __future__ import annotations

import gc
import importlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["load", "random_kept", "uncollected"]


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


@contextmanager
def uncollected() -> Iterator[None]:
    """Do not look for garbage meanwhile: imports make hardly any, and looking for it is a fifth of their time.

    Examples
    --------
    >>> with uncollected():
    ...     import sklearn.preprocessing
    >>> gc.isenabled()
    True
    """
    looks = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looks:
            gc.enable()


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
    with random_kept(), uncollected():
        found = importlib.import_module(module)
    return getattr(found, name) if name else found
