"""Checks of predictions and scores: the gap between training and held-out rows, calibration, classes, bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.evaluation.calibration import Reliability, reliability
from gnomon.evaluation.confusion import ConfusionMatrix
from gnomon.evaluation.diagnosis.gap import (
    REMEDY,
    SIGNIFICANT,
    fall_of,
    floor,
    impossible,
    limit,
    middle,
    short,
    tail,
    trimmed,
)
from gnomon.evaluation.diagnosis.records import Finding
from gnomon.evaluation.score import Score

__all__ = ["CHECKS", "Answers", "bias", "calibration", "classes", "gap", "use"]

CALIBRATION = 0.05
RECALL = 0.5
"""A class is badly served whose recall is below this share of the accuracy."""
LEAST = 10
CHANCE = 6e-5
"""Of so many held-out rows below nearly all training rows, from which on a finding is made."""


@dataclass(frozen=True)
class Answers:
    """What a system says of rows that the fit has not seen.

    Parameters
    ----------
    held : Score
        Its first score on them.
    train : Score, optional
        The same on training rows.
    baseline : Score, optional
        The same of a constant answer fitted to the training rows.
    y, predicted : arrays of shape (n,), optional
        The truth on the held-out rows, where y is predicted.
    proba : array of shape (n, k), optional
    classes : array of shape (k,), optional
        Where y is a class.
    """

    held: Score
    train: Score | None = None
    baseline: Score | None = None
    y: Any = None
    predicted: Any = None
    proba: Any = None
    classes: Any = None


def gap(found: Answers) -> list[Finding] | str:
    """Whether held-out rows fare worse than training rows by more than chance: overfitting.

    By the mean, by the trimmed mean, which a few wild rows do not hide, and by how many held-out rows fare worse than
    nearly all training rows, which the trimmed mean does not see. A fall of the mean by two standard errors, or by less
    than is worth a warning, is told as what it is.
    """
    train, held = found.train, found.held
    if train is None:
        return "the scores of training rows are not known"
    if not math.isfinite(train.value) or not math.isfinite(held.value):
        return impossible(train, held)
    fall, inner, far = fall_of(train, held), middle(train, held), tail(train, held)
    if not math.isfinite(fall.error):
        return f"{held.n} held-out rows are too few"
    seen = f"{held.name} {train.value:.4g} on {train.n} training rows"
    evidence = f"{seen}, {held.value:.4g} on {held.n} held out, {fall.words()}"
    title = "overfitting: held-out rows fare worse"
    if fall.beyond_chance(floor(held, train.value)):
        return [Finding("warning", title, evidence, REMEDY)]
    middling = "" if inner is None else f"{evidence}; without the highest and lowest fifth {inner.sides()}"
    if inner is not None and inner.beyond_chance(floor(held, inner.train)):
        return [Finding("warning", title, middling, REMEDY)]
    if far is not None and far.chance < CHANCE and fall.size > floor(held, train.value):
        who = f"all but {far.but} of the training rows" if far.but else "every training row"
        evidence += f"; {far.rows} of them fare worse than {who} (by chance in {max(far.chance, 1e-9):.0e} of cases)"
        return [Finding("warning", "overfitting: some held-out rows fare far worse", evidence, REMEDY)]
    if inner is not None and inner.noticeable() and not fall.noticeable():
        return [short(inner, floor(held, inner.train), middling)]
    return [short(fall, floor(held, train.value), evidence)]


def use(found: Answers) -> list[Finding] | str:
    """Whether the system does better than a constant answer, on the same rows."""
    held, base = found.held, found.baseline
    if base is None:
        return "there is no baseline"
    sign = 1 if held.higher_is_better else -1
    difference, error = held.difference(base)
    gain = sign * difference
    side = "better" if gain > 0 else "worse"
    evidence = (
        f"{held.name} {held.value:.4g}, a constant answer has {base.value:.4g}: {abs(gain):.3g} ± {error:.2g} {side}"
    )
    if gain <= 0:
        inner, spread = _inner_gain(held, base, sign)
        if inner > limit(0.6 * held.n - 1) * spread:
            words, remedy = (
                "better than a constant answer but for a few rows",
                "look at the rows with the largest error",
            )
            evidence += f"; without the highest and lowest fifth {inner:.3g} ± {spread:.2g} better"
            return [Finding("notice", words, evidence, remedy)]
        remedy = "see what gnomon.evaluation.overfit_tiny says"
        return [Finding("warning", "no better than a constant answer", evidence, remedy)]
    if gain < 2 * error:
        return [Finding("notice", "hardly better than a constant answer", evidence, "more data, other columns")]
    return [Finding("ok", "better than a constant answer", evidence)]


def _inner_gain(held: Score, base: Score, sign: int) -> tuple[float, float]:
    """Trimmed mean of the gains row by row; nan where they are not known."""
    if held.trials > 0 or held.pointwise is None or base.pointwise is None or held.n != base.n or held.n < LEAST:
        return math.nan, math.nan
    return trimmed(sign * (held.pointwise - base.pointwise))


def calibration(found: Answers) -> list[Finding] | str:
    """Whether stated probabilities come true as often as they say."""
    if found.proba is None:
        return "there are no probabilities"
    if len(found.proba) < LEAST or not np.isin(found.y, found.classes).all():
        return "too few held-out rows, or classes that the fit has not seen"
    meter = reliability(found.y, found.proba, classes=found.classes)
    value, spread = _unevenness(meter)
    stated, right, error = _sureness(meter)
    evidence = (
        f"calibration error {value:.3f} ± {spread:.2g} (right probabilities would show about "
        f"{meter.chance:.2g}), {stated:.1%} sure and {right:.1%} right: {stated - right:+.1%} ± {error:.1%}"
    )
    if abs(stated - right) > max(CALIBRATION, SIGNIFICANT * error):
        words = "overconfident" if stated > right else "underconfident"
        remedy = "gnomon.evaluation.TemperatureScaler on held-out rows"
        return [Finding("warning", f"the probabilities are {words}", evidence, remedy)]
    if not value - meter.chance > max(CALIBRATION, limit(meter.n - 1) * spread):
        return [Finding("ok", "the probabilities are calibrated within chance", evidence)]
    gaps = meter.weight * np.nan_to_num(meter.stated - meter.observed)
    worst = int(np.abs(gaps).argmax())
    evidence += f"; where it says {meter.stated[worst]:.0%}, {meter.observed[worst]:.0%} are right"
    remedy = "calibrate on held-out rows, by bins or isotonic regression"
    return [Finding("warning", "the probabilities are too high in places and too low in others", evidence, remedy)]


def _sureness(meter: Reliability) -> tuple[float, float, float]:
    """Mean stated probability, share that came true, and the standard error of their difference.

    The larger of the error by the rows and of the one that right probabilities would have, sum of w^2 p (1 - p): of few
    rows that all come true the first is 0.
    """
    weight, stated, came = (float(row.sum()) for row in meter.sums[:3])
    gap = (came - stated) / weight
    square, cross, variance, right = (float(row.sum()) for row in meter.sums[3:])
    seen = max(variance - 2 * gap * cross + gap * gap * square, 0.0) * meter.n / (meter.n - 1)
    return stated / weight, came / weight, math.sqrt(max(seen, right)) / weight


def _unevenness(meter: Reliability) -> tuple[float, float]:
    """Calibration error, and the larger of its error by the rows and of that of right probabilities.

    Of a bin's difference, which is normal with variance v then, the absolute value has the variance (1 - 2 / pi) v.
    """
    score = meter.score()
    right = (1 - 2 / math.pi) * float(meter.sums[6].sum())
    return score.value, max(score.stderr, math.sqrt(right) / float(meter.sums[0].sum()))


def classes(found: Answers) -> list[Finding] | str:
    """Recall of every class, the worst named."""
    if found.classes is None:
        return "no classes are predicted"
    if not np.isin(found.y, found.classes).all():
        return "held-out rows of a class that the fit has not seen"
    counted = ConfusionMatrix(found.classes).update(found.y, found.predicted)
    there = [label for label, row in zip(counted.classes, counted.weight, strict=True) if row.sum() > 0]
    recalls = {label: counted.recall(label) for label in np.asarray(there).tolist()}
    worst = min(recalls, key=lambda label: recalls[label].value)
    value, accuracy = recalls[worst].value, counted.accuracy().value
    rows = int(counted.weight[list(counted.classes).index(worst)].sum())
    evidence = f"recall {value:.3f} of {rows} rows of {worst!r}, the accuracy is {accuracy:.3f}"
    # chance of so few hits among the rows of a class that fares as all do: binomial, over all classes
    from scipy import stats

    chance = float(stats.binom.cdf(round(value * rows), rows, accuracy)) * len(recalls)
    if value < RECALL * accuracy and chance < 1e-3:
        return [Finding("warning", f"class {worst!r} is badly served", evidence, "weights or more rows for it")]
    return [Finding("ok", f"the worst class is {worst!r}", evidence)]


def bias(found: Answers) -> list[Finding] | str:
    """Whether predicted numbers are too high or too low on average."""
    if found.classes is not None or found.predicted is None:
        return "no numbers are predicted"
    residual = np.asarray(found.y, np.float64) - np.asarray(found.predicted, np.float64)
    residual = residual.reshape(len(residual), -1).mean(axis=1)
    if len(residual) < LEAST:
        return f"{len(residual)} held-out rows, {LEAST} are needed"
    mean, error = float(residual.mean()), float(residual.std(ddof=1)) / math.sqrt(len(residual))
    evidence = f"the truth is {mean:+.3g} ± {error:.2g} off the prediction on average"
    if abs(mean) > limit(len(residual) - 1) * error:
        side = "low" if mean > 0 else "high"
        return [Finding("warning", f"predictions are too {side}", evidence, "was the training data another?")]
    return [Finding("ok", "predictions are right on average", evidence)]


CHECKS: dict[str, Callable[[Answers], list[Finding] | str]] = {
    "gap": gap, "use": use, "calibration": calibration, "classes": classes, "bias": bias,
}  # fmt: skip
