"""What a fit takes: seconds, megabytes, milliseconds of an answer; and the limits that a search sets them."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gnomon.errors import UserTypeError, UserValueError, unknown
from gnomon.search.trials import OverLimit
from gnomon.system.base import System

__all__ = ["LIMITS", "Meter", "checked", "verb_of"]

LIMITS = {
    "fit_seconds": "seconds of a fit, which is stopped at the first step beyond",
    "predict_milliseconds": "milliseconds of an answer, the validation rows being answered together",
    "megabytes": "size of the fitted model as it is saved, in millions of bytes",
}
"""What can be limited."""
ANSWERS = ("predict", "log_prob", "transform")
"""Verbs that answer for each row."""
clock = time.perf_counter


def checked(limits: Any) -> dict[str, float]:
    """Limits as they were given, checked.

    Raises
    ------
    UserTypeError, UserValueError
        No mapping, an unknown limit, one that is not a positive number.

    Examples
    --------
    >>> checked({"fit_seconds": 10})
    {'fit_seconds': 10.0}
    """
    if limits is None:
        return {}
    if not isinstance(limits, Mapping):
        raise UserTypeError.must("limits", 'be a mapping such as {"fit_seconds": 10}', limits, "search")
    for name, value in limits.items():
        if name not in LIMITS:
            raise unknown("limit", str(name), list(LIMITS))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserTypeError.must(name, "be a number", value, "limits")
        if not (math.isfinite(value) and value > 0):
            raise UserValueError.must(name, "be positive and finite", value, "limits")
    return {name: float(limits[name]) for name in LIMITS if name in limits}


def verb_of(verbs: tuple[str, ...]) -> str:
    """The verb of a task whose answers are timed.

    Raises
    ------
    UserValueError
        A task that has no answer for a row.
    """
    if verbs and verbs[0] in ANSWERS:
        return verbs[0]
    what = "predict_milliseconds needs a task that answers for each row"
    raise UserValueError(what, "limits", "leave it out")


class Meter:
    """Measures one fit and holds it to limits.

    Parameters
    ----------
    limits : mapping of str to float
        Some of `LIMITS`.

    Notes
    -----
    The memory that is limited is the fitted model's. What a fit takes while it runs cannot be told apart, within one
    process, from what earlier fits left to the allocator.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        self.limits = limits
        self.begun = clock()

    def watch(self, step: int, record: Mapping[str, Any]) -> None:
        """Called after each step of a fit, which it ends when it is over its time."""
        self._hold("fit_seconds", clock() - self.begun)

    def fitted(self, system: System, answer: Callable[[], object], rows: int) -> None:
        """Called after a fit.

        Parameters
        ----------
        system : System
            Fitted.
        answer : callable
            Answers for so many `rows`.
        rows : int

        Raises
        ------
        OverLimit
        """
        self._hold("fit_seconds", clock() - self.begun)
        if "megabytes" in self.limits:
            self._hold("megabytes", _bytes(system) / 1e6)
        if "predict_milliseconds" in self.limits:
            begun = clock()
            answer()
            self._hold("predict_milliseconds", 1e3 * (clock() - begun) / rows)

    def _hold(self, name: str, measured: float) -> None:
        if measured > self.limits.get(name, math.inf):
            raise OverLimit(name, measured, self.limits[name])


def _bytes(system: System) -> int:
    """Size of the fitted system's files."""
    with tempfile.TemporaryDirectory() as folder:
        saved = system.save(Path(folder) / "model")
        return sum(one.stat().st_size for one in saved.rglob("*") if one.is_file())
