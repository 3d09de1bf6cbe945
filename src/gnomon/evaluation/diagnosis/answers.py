"""Checks of predictions and scores: the gap between training and held-out rows, calibration, classes, bias."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.evaluation.calibration import reliability
from gnomon.evaluation.confusion import ConfusionMatrix
from gnomon.evaluation.diagnosis.records import Finding
from gnomon.evaluation.score import Score

__all__ = ["CHECKS", "Answers", "bias", "calibration", "classes", "gap", "use"]

SIGNIFICANT = 4.0
"""Standard errors that a finding needs: 6e-5 by chance, were the errors normal."""
SHARE_GAP, NATS_GAP, ERROR_FACTOR = 0.05, 0.1, 1.5
"""What a gap must exceed besides: in accuracy; in nats per row, and as a share of the score; as a ratio of errors."""
CALIBRATION = 0.05
RECALL = 0.5
"""A class is badly served whose recall is below this share of the accuracy."""
LEAST = 10


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
    """Whether held-out rows fare worse than training rows by more than chance: overfitting."""
    train, held = found.train, found.held
    if train is None:
        return "the scores of training rows are not known"
    if not math.isfinite(train.value) or not math.isfinite(held.value):
        return f"{held.name} is not finite"
    sign = 1 if held.higher_is_better else -1
    fall = sign * (train.value - held.value)
    error = math.hypot(train.stderr, held.stderr)
    evidence = (
        f"{held.name} {train.value:.4g} on training rows, {held.value:.4g} ± {held.stderr:.2g} on {held.n} held out"
    )
    if not math.isfinite(error):
        return f"{held.n} held-out rows are too few"
    if fall > SIGNIFICANT * error and fall > _floor(train, held):
        remedy = "a smaller model, a penalty, early stopping, or more data"
        return [Finding("warning", "overfitting: held-out rows fare worse", evidence, remedy)]
    return [Finding("ok", "no overfitting beyond chance", evidence)]


def _floor(train: Score, held: Score) -> float:
    if held.unit == "fraction":
        return SHARE_GAP
    if "nats" in held.unit:
        return max(NATS_GAP, SHARE_GAP * abs(train.value))
    return (ERROR_FACTOR - 1) * abs(train.value)


def use(found: Answers) -> list[Finding] | str:
    """Whether the system does better than a constant answer."""
    held, base = found.held, found.baseline
    if base is None:
        return "there is no baseline"
    gain = (1 if held.higher_is_better else -1) * (held.value - base.value)
    evidence = f"{held.name} {held.value:.4g} ± {held.stderr:.2g}, a constant answer has {base.value:.4g}"
    if gain <= 0:
        return [
            Finding(
                "warning", "no better than a constant answer", evidence, "see what gnomon.evaluation.overfit_tiny says"
            )
        ]
    if gain < 2 * held.stderr:
        return [Finding("notice", "hardly better than a constant answer", evidence, "more data, other columns")]
    return [Finding("ok", "better than a constant answer", evidence)]


def calibration(found: Answers) -> list[Finding] | str:
    """Whether stated probabilities come true as often as they say."""
    if found.proba is None:
        return "there are no probabilities"
    if len(found.proba) < LEAST or not np.isin(found.y, found.classes).all():
        return "too few held-out rows, or classes that the fit has not seen"
    meter = reliability(found.y, found.proba, classes=found.classes)
    score = meter.score()
    stated = float((meter.weight * np.nan_to_num(meter.stated)).sum() / meter.weight.sum())
    right = float((meter.weight * np.nan_to_num(meter.observed)).sum() / meter.weight.sum())
    evidence = (
        f"calibration error {score.value:.3f} ± {score.stderr:.2g} (right probabilities would show about "
        f"{meter.chance:.2g}), {stated:.1%} sure and {right:.1%} right"
    )
    if score.value - meter.chance > max(CALIBRATION, SIGNIFICANT * score.stderr):
        words = "overconfident" if stated > right else "underconfident"
        remedy = "gnomon.evaluation.TemperatureScaler on held-out rows"
        return [Finding("warning", f"the probabilities are {words}", evidence, remedy)]
    return [Finding("ok", "the probabilities are calibrated within chance", evidence)]


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
    if abs(mean) > SIGNIFICANT * error:
        side = "low" if mean > 0 else "high"
        return [Finding("warning", f"predictions are too {side}", evidence, "was the training data another?")]
    return [Finding("ok", "predictions are right on average", evidence)]


CHECKS: dict[str, Callable[[Answers], list[Finding] | str]] = {
    "gap": gap, "use": use, "calibration": calibration, "classes": classes, "bias": bias,
}  # fmt: skip
