"""A variational fit under the driver: ascents from several starts in turn, of which the highest one is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from gnomon.contracts import Array
from gnomon.inference.variational.method import VariationalAscent
from gnomon.training.procedure import Info, Problem

__all__ = ["Ascents", "Climb"]


@dataclass
class Climb:
    """Where the ascents of a fit stand: what the driver calls its model.

    Parameters
    ----------
    begin : callable
        The ascent of a start, counted from 0.
    """

    begin: Callable[[int], VariationalAscent]
    start: int = 0
    iteration: int = 0
    best: int = -1
    """The start of the best end so far; -1 before the first end."""
    bests: dict[str, Array] = field(default_factory=dict)
    heights: list[float] = field(default_factory=list)
    """The bound that each start has ended with, as the ascent itself tells it."""
    settled: list[bool] = field(default_factory=list)
    """Whether it ended by its own rule."""

    def __post_init__(self) -> None:
        self.ascent = self.begin(self.start)

    def state(self) -> dict[str, Array]:
        """The ascent under way."""
        return self.ascent.state()

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on with the ascent under way."""
        self.ascent.load(arrays)

    def keep(self, bound: float, settled: bool) -> None:
        """The ascent under way has ended: keep it if none was better."""
        if self.best < 0 or bound > self.heights[self.best]:
            self.best, self.bests = self.start, {name: np.array(x) for name, x in self.state().items()}
        self.heights.append(bound)
        self.settled.append(settled)

    def go_on(self) -> None:
        """From the next start."""
        self.start, self.iteration = self.start + 1, 0
        self.ascent = self.begin(self.start)

    def chosen(self) -> VariationalAscent:
        """The ascent of the best bound; the one under way where none has ended."""
        if self.best < 0:
            return self.ascent
        found = self.begin(self.best)
        found.load(self.bests)
        return found


class Ascents:
    """Steps of `Climb`: iterations of one start after another.

    Parameters
    ----------
    starts : int >= 1
    max_iter : int >= 1
        Iterations of a start at most.
    height : callable
        The bound of an ascent that has ended, by which the best is chosen.
    stop : callable, optional
        Asked after every iteration; true ends the fit there.
    """

    iterates: ClassVar[bool] = True

    def __init__(
        self,
        starts: int,
        max_iter: int,
        height: Callable[[VariationalAscent, int], float],
        stop: Callable[[], Any] | None = None,
    ) -> None:
        self.starts, self.max_iter, self.height, self.stop = starts, max_iter, height, stop

    def start(self, problem: Problem) -> Climb:
        """At the first start."""
        climb: Climb = problem.model
        return climb

    def total_steps(self, climb: Climb) -> int:
        """Iterations at most."""
        return self.starts * self.max_iter

    def step(self, climb: Climb) -> tuple[Climb, Info]:
        """One iteration; the last one of a start goes on to the next."""
        made = climb.ascent.step(climb.iteration)
        climb.iteration += 1
        record = {"start": climb.start, "iteration": climb.iteration, "elbo": made.bound}
        record |= {"error": made.error} if made.error else {}
        stopped = self.stop is not None and bool(self.stop())
        done = stopped
        if made.done or stopped or climb.iteration >= self.max_iter:
            climb.keep(self.height(climb.ascent, climb.start), made.done)
            done = stopped or climb.start + 1 >= self.starts
            if not done:
                climb.go_on()
        return climb, Info(done=done, record=record, monitored=made.bound)

    def save(self, climb: Climb) -> tuple[dict[str, Array], dict[str, Any]]:
        """The ascent under way, the best so far, and how high the ended ones are."""
        arrays = {f"now/{name}": x for name, x in climb.state().items()}
        arrays |= {f"best/{name}": x for name, x in climb.bests.items()}
        facts = ("start", "iteration", "best", "heights", "settled")
        return arrays, {name: getattr(climb, name) for name in facts}

    def load(self, problem: Problem, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> Climb:
        """Exactly the state that was saved."""
        climb = Climb(problem.model.begin, **dict(facts))
        inside = {prefix: {k.removeprefix(prefix): x for k, x in arrays.items() if k.startswith(prefix)}
                  for prefix in ("now/", "best/")}  # fmt: skip
        climb.load(inside["now/"])
        climb.bests = inside["best/"]
        problem.model.__dict__.update(climb.__dict__)
        return climb
