"""A curve: scores at each value of a hyper-parameter or number of rows, which is the best, as a table and a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gnomon.errors import UserValueError
from gnomon.evaluation.power_law import PowerLaw
from gnomon.evaluation.score import Score
from gnomon.search.dimensions import label
from gnomon.tasks import pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LEAST_SIZES", "Curve", "Point", "capacity_effect"]

LEAST_SIZES = 4
"""Points that say how a curve goes on."""
CAPACITY = {
    "up": ("n_hidden", "hidden", "n_components", "n_latent", "n_factors", "n_embedding", "max_depth", "max_leaves",
           "n_trees", "epochs", "max_updates", "C", "n", "channels", "kernel_size", "padding"),
    "down": ("l1", "l2", "dropout", "min_rows_leaf", "min_rows_split", "smoothing", "noise_variance"),
    "highest at its optimum": ("learning_rate",),
}  # fmt: skip
"""What raising a hyper-parameter does to the capacity of a system."""


def capacity_effect(name: str) -> str:
    """What raising a hyper-parameter does to the effective capacity; "" where there is no general answer.

    Source: Goodfellow, Bengio and Courville (2016), section 11.4.1, table 11.1.

    Examples
    --------
    >>> capacity_effect("n_hidden"), capacity_effect("l2"), capacity_effect("learning_rate")
    ('up', 'down', 'highest at its optimum')
    """
    return next((effect for effect, names in CAPACITY.items() if name in names), "")


@dataclass(frozen=True)
class Point:
    """Scores at one value.

    Parameters
    ----------
    value : object
        Of the hyper-parameter, or the number of training rows.
    train, validation : Score or None
        None where the fit failed, and then `reason` says why.
    reason : str
    """

    value: Any
    train: Score | None
    validation: Score | None
    reason: str = ""


@dataclass
class Curve:
    """Points in the order of their values.

    Parameters
    ----------
    over : str
        The hyper-parameter, or ``rows``.
    metric : str
    higher_is_better : bool
    points : list of Point
    trend : PowerLaw or None
        Of a learning curve whose errors follow one.
    best_on : {"validation", "training"}
        The rows whose score says which point is the best.
    """

    over: str
    metric: str
    higher_is_better: bool
    points: list[Point] = field(default_factory=list)
    trend: PowerLaw | None = None
    best_on: str = "validation"

    def judged(self, point: Point) -> float | None:
        """The score by which a point is compared; None where there is none that is finite: worse than every other."""
        one = point.train if self.best_on == "training" else point.validation
        return one.value if one is not None and math.isfinite(one.value) else None

    @property
    def best(self) -> Point:
        """The point with the best score; one whose fit failed or diverged is worse than every other.

        Raises
        ------
        UserValueError
            Every fit failed.
        """
        done = [(value, one) for one in self.points if (value := self.judged(one)) is not None]
        if not done:
            raise UserValueError(f"every fit failed: {self.points[0].reason}", self.over)
        sign = -1 if self.higher_is_better else 1
        return min(done, key=lambda found: sign * found[0])[1]

    def to_json(self) -> dict[str, Any]:
        """The curve as a JSON object."""
        points = [
            {"value": one.value, "train": one.train and one.train.to_json(),
             "validation": one.validation and one.validation.to_json(), "reason": one.reason}
            for one in self.points
        ]  # fmt: skip
        trend = None if self.trend is None else self.trend.to_json()
        facts = {"over": self.over, "metric": self.metric, "best_on": self.best_on}
        return {**facts, "points": points, "best": self.best.value, "trend": trend}

    def figure(self) -> Figure:
        """Training and validation scores with bars of one standard error; a cross where a fit failed."""
        series = {
            name: [None if one is None else (one.value, one.stderr) for one in found]
            for name, found in (
                ("training", [one.train for one in self.points]),
                ("validation", [one.validation for one in self.points]),
            )
        }
        return pictures.validation([one.value for one in self.points], series, self.over, self.metric)

    def __str__(self) -> str:
        rows = [(self.over, "training", "validation", "± examples")]
        for one in self.points:
            if one.train is None or one.validation is None:
                rows.append((label(one.value), "failed", "", one.reason))
                continue
            numbers = (f"{one.train.value:.5g}", f"{one.validation.value:.5g}", f"{one.validation.stderr:.2g}")
            rows.append((label(one.value), *numbers[:2], numbers[2] + "  best" * (one is self.best)))
        widths = [max(len(row[j]) for row in rows) for j in range(4)]
        lines = ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        effect = capacity_effect(self.over)
        lines += [f"raising {self.over}: capacity {effect}"] if effect else []
        lines += [f"the best is the {self._end} value: try beyond it"] if effect and self._end else []
        lines += [str(self.trend)] if self.trend is not None else []
        chosen = ", the best by training rows" if self.best_on == "training" else ""
        return "\n".join([f"{self.metric} on training and validation rows{chosen}", *lines])

    @property
    def _end(self) -> str:
        """Whether the best is an end of a range of rates, whose optimum lies within."""
        if self.over != "learning_rate" or len(self.points) < LEAST_SIZES:
            return ""
        return {0: "lowest", len(self.points) - 1: "highest"}.get(self.points.index(self.best), "")
