"""What to do next to reach a goal: from the scores of training and of held-out rows."""

from __future__ import annotations

import math
from typing import Literal

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.diagnosis.records import Finding
from gnomon.evaluation.score import Score

__all__ = ["next_step"]

Standing = Literal["met", "missed", "undecided"]

CAPACITY = (
    "a larger model, and a learning rate found by gnomon curve --over learning_rate; if training rows still miss it, "
    "look for noise in the labels and for inputs that are missing"
)
DATA = "more rows, of which gnomon curve says how many; if there are none to be had, a smaller model or a penalty"
ROWS = "more held-out rows, or --folds: the numbers do not say which"
SPLIT = "look at how rows were held out: they are easier than the rows of the fit, in their mix of classes, say"


def next_step(train: Score, held: Score, goal: float) -> Finding:
    """What to do next to reach a goal.

    Training rows that miss it ask for capacity; training rows that reach it while held-out rows do not, and fare worse
    by more than chance, ask for data; where both reach it the work is done. What chance could turn over is undecided:
    a score reaches or misses the goal when its 95 % interval does not contain it.

    Parameters
    ----------
    train, held : Score
        The same quantity on rows of the fit and on rows that it has not seen.
    goal : float
        In the unit of the scores.

    Returns
    -------
    Finding
        Of the check ``goal``: "ok" where it is reached.

    Raises
    ------
    UserTypeError, UserValueError
        A goal that is no finite number.

    Notes
    -----
    Decisions that are repeated on the same rows overfit these: keep others for the last look. Source: Goodfellow,
    Bengio and Courville (2016), sections 11.3 and 11.4.1.

    Examples
    --------
    >>> train = Score.from_pointwise([1.0] * 99 + [0.0], name="accuracy", unit="fraction")
    >>> held = Score.from_pointwise([1.0] * 70 + [0.0] * 30, name="accuracy", unit="fraction", rows=range(100, 200))
    >>> next_step(train, held, 0.9).what
    'held-out rows miss the goal of 0.9, training rows reach it'
    """
    if isinstance(goal, bool) or not isinstance(goal, int | float):
        raise UserTypeError.must("goal", "be a number", goal)
    if not math.isfinite(goal):
        raise UserValueError.must("goal", "be finite", goal)
    own, other = _standing(train, goal), _standing(held, goal)
    numbers = f"{held.name} {train.value:.4g} on training rows, {held.value:.4g} on {held.n} held-out rows"
    if other == "met" and own == "missed":
        return Finding(
            "notice", f"held-out rows reach the goal of {goal:g}, training rows miss it", numbers, SPLIT, "goal"
        )
    if own == "missed":
        return Finding("notice", f"training rows miss the goal of {goal:g}", numbers, CAPACITY, "goal")
    if other == "met" and own == "met":
        return Finding("ok", f"the goal of {goal:g} is reached", numbers, "", "goal")
    if own == "met" and other == "missed" and train.against(held) == "better":
        what = f"held-out rows miss the goal of {goal:g}, training rows reach it"
        return Finding("notice", what, numbers, DATA, "goal")
    return Finding("notice", f"whether the goal of {goal:g} is reached is undecided", numbers, ROWS, "goal")


def _standing(score: Score, goal: float) -> Standing:
    """Whether a score reaches the goal by more than chance."""
    low, high = score.interval()
    if not (math.isfinite(low) and math.isfinite(high)):
        return "undecided"
    better, worse = (low >= goal, high < goal) if score.higher_is_better else (high <= goal, low > goal)
    return "met" if better else "missed" if worse else "undecided"
