"""What a search is to do, and what a trial was."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from gnomon.search.space import Space

__all__ = ["Judge", "SearchPlan", "Tried"]

Judge = Callable[[dict[str, Any], Callable[[int, float], None]], float]
"""The score of hyper-parameters; it is given a function that reports a score so far, and may end the trial."""


@dataclass(frozen=True)
class SearchPlan:
    """What is searched, where and how.

    Parameters
    ----------
    space : dict of str to OneOf, RealRange or WholeRange
    strategy : {"tpe", "random", "grid"}
    trials : int in [1, inf)
    seed : int
    higher_is_better : bool
    facts : dict
        What two processes that join one search have in common: system, data, how it is judged.
    """

    space: Space
    strategy: str
    trials: int
    seed: int
    higher_is_better: bool
    facts: dict[str, Any] = field(default_factory=dict)

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
    state : {"done", "ended early", "failed", "under way"}
    value : float or None
        Its score on validation rows; None where it has none.
    seconds : float
    reason : str
        Why it failed.
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
