"""What a search is to do, and what a trial was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.search.conditions import Space
from gnomon.search.intervals import Interval

__all__ = ["Judge", "OverLimit", "SearchPlan", "Tried"]

Judge = Callable[[dict[str, Any], Callable[[int, float], None]], float]
"""The score of hyper-parameters; it is given a function that reports a score so far, and may end the trial."""


class OverLimit(Exception):
    """A trial that takes more of something than it may.

    Parameters
    ----------
    name : str
        Of the limit.
    measured, limit : float
    """

    def __init__(self, name: str, measured: float, limit: float) -> None:
        self.name, self.excess = name, measured / limit - 1
        super().__init__(f"{name} is {measured:.3g}, over the limit of {limit:g}")


@dataclass(frozen=True)
class SearchPlan:
    """What is searched, where and how.

    Parameters
    ----------
    space : dict of str to OneOf, RealRange, WholeRange or Conditional
    strategy : {"tpe", "random", "sobol", "narrow", "grid", "refine"}
    trials : int in [1, inf)
    seed : int
    higher_is_better : bool
    facts : dict
        What two processes that join one search have in common: system, data, how it is judged.
    first : dict, optional
        The point of the first trial of ``tpe``: the values that the system has.
    intervals : dict of str to Interval
        Which ``refine`` does not leave.
    """

    space: Space
    strategy: str
    trials: int
    seed: int
    higher_is_better: bool
    facts: dict[str, Any] = field(default_factory=dict)
    first: dict[str, Any] | None = None
    intervals: dict[str, Interval] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """What must be the same in every process that joins; the number of trials may grow."""
        ranges = {name: str(one) for name, one in self.space.items()}
        return json.dumps({**self.facts, "space": ranges, "strategy": self.strategy, "seed": self.seed}, sort_keys=True)


@dataclass(frozen=True)
class Tried:
    """One trial.

    Parameters
    ----------
    number : int
    parameters : dict
        By address.
    state : {"done", "ended early", "over a limit", "failed", "under way"}
    value : float or None
        Its score on validation rows; None where it has none.
    seconds : float
    reason : str
        Why it failed, or which limit it is over.
    """

    number: int
    parameters: dict[str, Any]
    state: str
    value: float | None
    seconds: float
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The trial as a JSON object."""
        return asdict(self)
