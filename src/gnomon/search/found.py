"""What a search has found, as an object, JSON and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnomon.search.conditions import Space
from gnomon.search.trials import Tried
from gnomon.system.base import System
from gnomon.tasks.boards import Leaderboard

__all__ = ["Found"]


@dataclass
class Found:
    """What a search has found.

    Parameters
    ----------
    system : System
        With the hyper-parameters of the best trial, not fitted.
    best : Tried
    trials : list of Tried
    metric : str
        What trials were judged by, on validation rows.
    validation : str
        How those were held out of the training rows.
    space : dict of str to OneOf, RealRange or WholeRange
    board : Leaderboard
        The best and the system as it was given on the test rows, which no trial has seen, beside the baseline.
    """

    system: System
    best: Tried
    trials: list[Tried]
    metric: str
    validation: str
    space: Space
    board: Leaderboard

    def to_json(self) -> dict[str, Any]:
        """Everything as a JSON object."""
        return {
            "best": self.best.to_json(), "metric": self.metric, "validation": self.validation,
            "space": {name: str(one) for name, one in self.space.items()},
            "trials": [one.to_json() for one in self.trials], "leaderboard": self.board.to_json(),
        }  # fmt: skip

    def __str__(self) -> str:
        states = [one.state for one in self.trials]
        counts = ", ".join(f"{states.count(one)} {one}" for one in dict.fromkeys(states))
        chosen = ", ".join(f"{name}={one}" for name, one in self.best.parameters.items())
        head = f"{len(states)} trials ({counts}); the best, number {self.best.number}: {chosen}"
        value = f"{self.metric} {self.best.value:.4f} on validation rows ({self.validation})"
        return f"{head}\n{value}; as the best of many it is too good\n\non rows that no trial has seen:\n{self.board}"
