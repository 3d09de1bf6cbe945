"""Scores against one hyper-parameter, or against the number of training rows, on training and validation rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.power_law import PowerLaw
from gnomon.evaluation.score import Score
from gnomon.search.dimensions import label
from gnomon.search.judging import TrialJudge, judge_of, made_of
from gnomon.search.space import POINTS, space_of
from gnomon.system.base import System
from gnomon.tasks import pictures
from gnomon.tasks.merging import averaged, joined
from gnomon.training.context import context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Curve", "Point", "capacity_effect", "learning_curve", "validation_curve"]

LEAST_SIZES = 4
LEAST_ROWS = 16
"""Training rows of the first point of a learning curve."""
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
    """

    over: str
    metric: str
    higher_is_better: bool
    points: list[Point] = field(default_factory=list)
    trend: PowerLaw | None = None

    @property
    def best(self) -> Point:
        """The point with the best score on validation rows; one whose fit failed is worse than every other.

        Raises
        ------
        UserValueError
            Every fit failed.
        """
        done = [one for one in self.points if one.validation is not None and math.isfinite(one.validation.value)]
        if not done:
            raise UserValueError(f"every fit failed: {self.points[0].reason}", self.over)
        sign = -1 if self.higher_is_better else 1
        return min(done, key=lambda one: sign * one.validation.value if one.validation else math.inf)

    def to_json(self) -> dict[str, Any]:
        """The curve as a JSON object."""
        points = [
            {"value": one.value, "train": one.train and one.train.to_json(),
             "validation": one.validation and one.validation.to_json(), "reason": one.reason}
            for one in self.points
        ]  # fmt: skip
        trend = None if self.trend is None else self.trend.to_json()
        return {"over": self.over, "metric": self.metric, "points": points, "best": self.best.value, "trend": trend}

    def figure(self) -> Figure:
        """Training and validation scores with bars of one standard error."""
        done = [one for one in self.points if one.train is not None and one.validation is not None]
        series = {
            "training": [(one.train.value, one.train.stderr) for one in done if one.train],
            "validation": [(one.validation.value, one.validation.stderr) for one in done if one.validation],
        }
        return pictures.validation([one.value for one in done], series, self.over, self.metric)

    def __str__(self) -> str:
        rows = [(self.over, "training", "validation", "± examples")]
        for one in self.points:
            if one.train is None or one.validation is None:
                rows.append((label(one.value), "failed", one.reason, ""))
                continue
            numbers = (f"{one.train.value:.5g}", f"{one.validation.value:.5g}", f"{one.validation.stderr:.2g}")
            rows.append((label(one.value), *numbers[:2], numbers[2] + "  best" * (one is self.best)))
        widths = [max(len(row[j]) for row in rows) for j in range(4)]
        lines = ["  ".join(part.ljust(width) for part, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        effect = capacity_effect(self.over)
        lines += [f"raising {self.over}: capacity {effect}"] if effect else []
        lines += [str(self.trend)] if self.trend is not None else []
        return "\n".join([f"{self.metric} on training and validation rows", *lines])


def validation_curve(
    system: str | System, data: Any, y: Any = None, *, over: str, values: Any, **options: Any
) -> Curve:
    """Scores on training and validation rows against one hyper-parameter.

    Parameters
    ----------
    system : str or System
    data, y
        As in `gnomon.search`, and so are the `options`: task, metric, validation, folds, holdout, split, split_seed,
        target, columns, prepare. The rows that are held out are not looked at.
    over : str
        The hyper-parameter, ``n_hidden`` or ``objective.k``.
    values : sequence, or text
        As ranges of `gnomon.search`: ``8,16,32``, ``1e-4..1:log`` (five values).

    Returns
    -------
    Curve
        A fit that is refused or diverges is a point without scores: the worst, and not left out.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.4.1.

    Examples
    --------
    >>> import gnomon
    >>> curve = validation_curve(gnomon.DecisionTree(random_state=0), "iris", over="max_depth", values=[1, 2, 3])
    >>> [point.value for point in curve.points], curve.best.value > 1
    ([1, 2, 3], True)
    """
    made = made_of(system)
    dimension = space_of(made, {over: values})[over]
    chosen = [dimension.read(dimension.stored(one)) for one in dimension.grid(POINTS)]
    judge = judge_of(made, data, y, **options)
    return Curve(over, judge.metric, judge.higher_is_better, [_point(judge, one, {over: one}) for one in chosen])


def learning_curve(
    system: str | System, data: Any, y: Any = None, *, sizes: Sequence[int] | None = None, repeats: int = 3,
    seed: int = 0, **options: Any,
) -> Curve:  # fmt: skip
    """Scores against the number of training rows, and the power law that the errors follow.

    Parameters
    ----------
    system : str or System
    data, y, options
        As in `validation_curve`.
    sizes : sequence of int, optional
        Numbers of training rows; 16, 32, 64 ... and all of them where left out.
    repeats : int in [1, inf), default 3
        Subsets drawn for each size, whose scores are averaged.
    seed : int, default 0
        Of the subsets.

    Returns
    -------
    Curve
        `trend` is :math:`err(n) = a + b n^{-c}` fitted to the errors on validation rows (1 - score for proportions),
        where there are four sizes or more and they follow one.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.3; the power law is Cortes, Jackel, Solla, Vapnik and
    Denker (1994), Learning curves: asymptotic values and rate of convergence.

    Examples
    --------
    >>> import gnomon
    >>> curve = learning_curve(gnomon.LogisticRegression(), "breast-cancer", sizes=[30, 300], repeats=1)
    >>> [point.value for point in curve.points]
    [30, 300]
    """
    made = made_of(system)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise UserValueError(f"repeats must be a whole number of at least 1, got {repeats!r}", "repeats")
    judge = judge_of(made, data, y, **options)
    rows = min(len(judge.halves(fold)[0]) for fold in judge.room.folds)
    chosen = _sizes(rows) if sizes is None else sorted(set(_wholes(sizes)))
    if not chosen or chosen[0] < 2 or chosen[-1] > rows:
        raise UserValueError(f"sizes must be in [2, {rows}], the rows that there are, got {list(chosen)}", "sizes")
    random = np.random.default_rng(seed)
    points = []
    for size in chosen:
        drawn = [random.permutation(rows)[:size] for _ in range(repeats if size < rows else 1)]
        points.append(_mean([_point(judge, size, {}, one) for one in drawn]))
    curve = Curve("rows", judge.metric, judge.higher_is_better, points)
    curve.trend = _trend_of(curve)
    return curve


def _wholes(sizes: Any) -> list[int]:
    """Numbers of rows as they were given, checked."""
    if isinstance(sizes, str) or not isinstance(sizes, Sequence | np.ndarray):
        raise UserTypeError.must("sizes", "be a list of whole numbers", sizes)
    for one in sizes:
        if isinstance(one, bool) or not isinstance(one, int | np.integer):
            raise UserTypeError.must("sizes", "hold whole numbers", one)
    return [int(one) for one in sizes]


def _sizes(rows: int) -> list[int]:
    """Doubling sizes, and all rows."""
    found = [LEAST_ROWS << k for k in range(64) if LEAST_ROWS << k < rows]
    return [*found, rows]


def _point(judge: TrialJudge, value: Any, parameters: Mapping[str, Any], rows: Any = None) -> Point:
    """The scores of one fit on each fold, perhaps on some of its training rows."""
    try:
        with context(verbose=False):
            found = [judge.both(judge.system(parameters), fold, rows) for fold in judge.room.folds]
    except UserError as error:
        return Point(value, None, None, " ".join(str(error).split()))
    held = joined([held for _, held in found], [judge.rows(fold) for fold in judge.room.folds])
    return Point(value, averaged([own for own, _ in found]), held)


def _mean(points: Sequence[Point]) -> Point:
    """Subsets of one size as one point; a failed one fails it."""
    failed = next((one for one in points if one.reason), None)
    if failed is not None or len(points) == 1:
        return failed or points[0]
    return Point(
        points[0].value, averaged([one.train for one in points if one.train]),
        averaged([one.validation for one in points if one.validation]),
    )  # fmt: skip


def _trend_of(curve: Curve) -> PowerLaw | None:
    """The power law of the errors; None where there are too few sizes or no such law."""
    done = [one for one in curve.points if one.validation is not None]
    if len(done) < LEAST_SIZES:
        return None
    values = np.array([one.validation.value for one in done if one.validation])
    errors = 1 - values if curve.higher_is_better else values
    if (errors < 0).any():
        return None  # log likelihoods have no error of 0 to go to
    try:
        return PowerLaw.fit([one.value for one in done], errors)
    except UserValueError:
        return None
