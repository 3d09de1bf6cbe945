"""Scores against one hyper-parameter, or against the number of training rows, on training and validation rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.power_law import PowerLaw
from gnomon.search.judging import TrialJudge, judge_of, made_of
from gnomon.search.records import LEAST_SIZES, Curve, Point
from gnomon.search.space import POINTS, derived, space_of
from gnomon.system.base import System
from gnomon.tasks.merging import averaged, joined
from gnomon.training.context import context
from gnomon.training.stopping import Off

__all__ = ["learning_curve", "validation_curve"]

AROUND = 7
"""Values around that of a system, where none are given: of rates, factors of three."""
BEST_ON = ("validation", "training")
LEAST_ROWS = 16
"""Training rows of the first point of a learning curve."""


def validation_curve(
    system: str | System, data: Any, y: Any = None, *, over: str, values: Any = None, best_on: str = "validation",
    **options: Any,
) -> Curve:  # fmt: skip
    """Scores on training and validation rows against one hyper-parameter.

    Over ``learning_rate`` with ``best_on="training"`` it is the sweep that tuning begins with: training error after a
    fixed amount of training, by rates that are factors apart. For one curvature a the best rate is 1 / a, and the error
    grows beyond twice that. Validation rows beside it tell what a low rate only learned too little of from what it
    did not overfit.

    Parameters
    ----------
    system : str or System
    data, y
        As in `gnomon.search`, and so are the `options`: task, metric, validation, folds, holdout, split, split_seed,
        target, columns, prepare. The rows that are held out are not looked at.
    over : str
        The hyper-parameter, ``n_hidden`` or ``objective.k``.
    values : sequence or text, optional
        As ranges of `gnomon.search`: ``8,16,32``, ``1e-4..1:log`` (five values). Left out: seven values around that of
        the system, as a search would range.
    best_on : {"validation", "training"}, default "validation"
        The rows whose score says which value is best.

    Returns
    -------
    Curve
        A fit that is refused or diverges is a point without scores: the worst, and not left out.

    Raises
    ------
    UserError
        No such hyper-parameter, or none with a range; ``best_on="training"`` with `early_stopping`, by which some
        values would train longer than others.

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
    if best_on not in BEST_ON:
        raise UserValueError(f"best_on must be one of {', '.join(BEST_ON)}, got {best_on!r}", "best_on")
    if best_on == "training" and "early_stopping" in made.slots and not isinstance(made.recipe("early_stopping"), Off):
        what = "early_stopping must be off: every value gets the same training"
        raise UserValueError(what, "best_on", "leave it out, or judge by validation rows")
    chosen = _values(made, over, values)
    judge = judge_of(made, data, y, **options)
    points = [_point(judge, one, {over: one}) for one in chosen]
    return Curve(over, judge.metric, judge.higher_is_better, points, best_on=best_on)


def _values(made: System, over: str, values: Any) -> list[Any]:
    """The values of a hyper-parameter that are tried."""
    if values is not None:
        dimension = space_of(made, {over: values})[over]
    elif over in (space := derived(made)):
        dimension = space[over]
    else:
        space_of(made, {over: [getattr(made, over, None)]})  # a name that is none says so first
        raise UserValueError(f"{over} has no range of its own", over, f"give its values, such as {over}=1,2,4")
    chosen = dimension.grid(POINTS if values is not None else AROUND)
    return [dimension.read(dimension.stored(one)) for one in chosen]


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
        with context(verbose=False), np.errstate(over="ignore"):  # what has run away may have a score of infinity
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
