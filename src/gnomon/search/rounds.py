"""Strategies that go in rounds, the next of which depends on the scores of those before: grid, refine, narrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from gnomon.search.conditions import Space
from gnomon.search.dimensions import label
from gnomon.search.draws import drawn
from gnomon.search.refining import Axis, product
from gnomon.search.space import grid
from gnomon.search.trials import SearchPlan

__all__ = ["ROUNDS", "Key", "Point", "key", "next_round"]

Point = dict[str, Any]
Key = frozenset[tuple[str, str]]
Round = list[Point]
Rounds = Iterator[Round]
"""The rounds of a strategy one after the other; each is asked for when every point of the one before has a score."""

DRAWS = 20
"""Trials of a round that is drawn: one of them lies in the best tenth with probability 1 - 0.9^20 = 0.88."""
SHRINK = 0.5
"""Width of the ranges of a round by that of the round before."""


def key(point: Mapping[str, Any]) -> Key:
    """A point as its score is looked up."""
    return frozenset((name, label(value)) for name, value in point.items())


def next_round(plan: SearchPlan, costs: Mapping[Key, float]) -> Round:
    """The points of the next round that were not tried; none when the search has come to its end.

    It follows from the plan and the scores alone, so that every process and a search that goes on find the same.

    Parameters
    ----------
    plan : SearchPlan
        Its strategy is one of `ROUNDS`.
    costs : mapping
        Score by `key` of a point that was tried, smaller is better; infinite for a trial without a score.

    Examples
    --------
    >>> from gnomon.search.dimensions import RealRange
    >>> plan = SearchPlan({"x": RealRange(-1, 1)}, "refine", 50, 0, higher_is_better=False)
    >>> next_round(plan, {})
    [{'x': -1.0}, {'x': 0.0}, {'x': 1.0}]
    >>> costs = {key({"x": x}): (x - 1) ** 2 for x in (-1.0, 0.0, 1.0)}
    >>> next_round(plan, costs)  # of the round [1, 2, 3] without what is known
    [{'x': 2.0}, {'x': 3.0}]
    """
    for points in ROUNDS[plan.strategy](plan, costs):
        missing = [one for one in points if key(one) not in costs]
        if missing:
            return missing
    return []


def _best(points: list[Point], costs: Mapping[Key, float]) -> Point | None:
    """The first of the best points; None where none has a score."""
    best = min(points, key=lambda one: costs[key(one)])
    return best if math.isfinite(costs[key(best)]) else None


def _once(plan: SearchPlan, costs: Mapping[Key, float]) -> Rounds:
    """The grid."""
    yield grid(plan.space)


def _narrowed(plan: SearchPlan, costs: Mapping[Key, float]) -> Rounds:
    """Draws from ranges that shrink around the best so far."""
    space: Space = plan.space
    seen: list[Point] = []
    for done in range(0, plan.trials, DRAWS):
        points = [drawn(space, plan.seed, done + i) for i in range(DRAWS)]
        yield points
        seen += points
        best, width = _best(seen, costs), SHRINK ** (done // DRAWS + 1)
        if best is not None:
            space = {name: one.narrowed(best[name], width) if name in best else one for name, one in plan.space.items()}


def _refined(plan: SearchPlan, costs: Mapping[Key, float]) -> Rounds:
    """Grids that are shifted towards the best where it lies at an end, and refined around it where it lies inside."""
    axes = {name: Axis.of(one, plan.intervals.get(name)) for name, one in plan.space.items()}
    seen: dict[Key, Point] = {}
    moving = True
    while moving:
        points = product(plan.space, axes)
        yield points
        seen |= {key(one): one for one in points}
        best = _best(list(seen.values()), costs)
        if best is None:
            return
        moves = [axes[name].move(value, _tried_beside(best, name, seen)) for name, value in best.items()]
        moving = any(moves)


def _tried_beside(best: Point, name: str, seen: Container[Key]) -> Callable[[Any], bool]:
    """Whether a value of one hyper-parameter was tried beside the others of the best point."""
    return lambda value: key(best | {name: value}) in seen


ROUNDS: dict[str, Callable[[SearchPlan, Mapping[Key, float]], Rounds]] = {
    "grid": _once, "refine": _refined, "narrow": _narrowed,
}  # fmt: skip
"""By strategy."""
