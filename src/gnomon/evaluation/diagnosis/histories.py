"""Checks of a fit's history: whether it came to rest, was cut, ran away, or learned its rows by heart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from gnomon.evaluation.diagnosis.records import Finding

__all__ = ["CHECKS", "History", "ended", "finite", "rest", "rise", "validation"]

COUNTERS = ("step", "stage", "epoch", "iteration", "start")
UNDIRECTED = ("energy_gap", "k", "gradient_norm")
"""What moves neither way as a fit learns; of a fit in stages the loss of a later one stands behind them."""
RISING = ("objective", "log_likelihood", "log_joint", "bound")
"""What expectation maximization raises; the first where there are both."""
LEAST = 10
STILL_MOVING = 0.01
"""Fraction of the whole way that the last fifth of a fit at rest stays below."""
SIGNIFICANT = 5.0
"""Slopes beyond so many standard errors are no noise: 3e-7 of fits at rest by chance, were their noise independent."""
TOLERANCE = 0.02


@dataclass(frozen=True)
class History:
    """How a fit went.

    Parameters
    ----------
    columns : mapping of name to sequence of float
        Quantities by record.
    finished : bool
    limit : int, optional
        Records after which the fit ends whatever it has reached.
    stopped : str
        Why it broke off: the words of the error; "" otherwise.
    resume : str
        How to go on.
    descends : bool
        Whether the fit moves the loss one way; see `gnomon.objectives.base.Objective`.
    """

    columns: Mapping[str, Sequence[float]] = field(default_factory=dict)
    finished: bool = True
    limit: int | None = None
    stopped: str = ""
    resume: str = ""
    descends: bool = True

    @classmethod
    def of(cls, system: Any, **facts: Any) -> Self:
        """That of a fitted system, with what is known besides."""
        make = getattr(system, "make_objective", None)
        descends = getattr(make() if make else None, "descends", True)
        return cls(getattr(system, "history_", {}), descends=descends, **facts)

    @property
    def loss(self) -> tuple[str, np.ndarray]:
        """The column that the fit lowers, or the negative of the one that it raises; ("", empty) without one.

        It is the first that counts nothing and has a way to go: what an objective has watched
        (`gnomon.objectives.base.Loss`) stands there.
        """
        measured = [name for name in self.columns if name not in COUNTERS + UNDIRECTED]
        if not measured or not self.descends:
            return "", np.empty(0)
        name, sign = measured[0], 1.0
        if name in RISING:
            name, sign = next(one for one in RISING if one in measured), -1.0
        return name, sign * np.asarray(self.columns[name], np.float64)


def ended(fit: History) -> list[Finding] | str:
    """Whether the fit came to its end, or broke off and why."""
    n = max((len(column) for column in fit.columns.values()), default=0)
    if fit.finished:
        return [Finding("ok", "the fit came to its end", f"{n} records" if n else "in one step, without a history")]
    if fit.stopped:
        return [Finding("warning", "the fit diverged", fit.stopped, "a lower learning rate, or data on one scale")]
    return [Finding("warning", "the fit was cut", f"no model after {n} records", fit.resume)]


def finite(fit: History) -> list[Finding] | str:
    """Whether every number of the history is finite."""
    if not fit.columns:
        return "there is no history"
    for name, column in fit.columns.items():
        bad = np.flatnonzero(~np.isfinite(np.asarray(column, np.float64)))
        if len(bad):
            evidence = f"{name} is {column[int(bad[0])]} in record {int(bad[0]) + 1}"
            return [Finding("warning", "the fit diverged", evidence, "a lower learning rate, or data on one scale")]
    count = sum(len(column) for column in fit.columns.values())
    return [Finding("ok", "the history is finite", f"{count} numbers")]


def rest(fit: History) -> list[Finding] | str:
    """Whether the loss had come to rest when the fit ended: the slope of its last fifth, against the whole way."""
    name, loss = fit.loss
    reason = _unfit(name, loss)
    if reason:
        return reason
    n = len(loss)
    if fit.limit is not None and n < fit.limit:
        return [Finding("ok", "the fit ended by itself", f"after {n} records of at most {fit.limit}")]
    tail = loss[-max(n // 5, 5) :]
    slope, error = _line(tail)
    gain = -slope * len(tail)
    way = float(loss[0] - loss.min())
    fraction = gain / way if way > 0 else 0.0
    evidence = f"{name} moved by {abs(gain):.3g} in the last {len(tail)} of {n} records, {abs(fraction):.1%} of the way"
    if fraction > STILL_MOVING and slope < -SIGNIFICANT * error:
        return [Finding("warning", "the fit was cut while it still learned", evidence, "more epochs or iterations")]
    return [Finding("ok", "the fit had come to rest", evidence)]


def rise(fit: History) -> list[Finding] | str:
    """Whether the loss ended well above its lowest value, or its start."""
    name, loss = fit.loss
    reason = _unfit(name, loss)
    if reason:
        return reason
    tail = loss[-max(len(loss) // 5, 5) :]
    level, noise = float(np.median(tail)), float(np.std(np.diff(loss[-len(loss) // 2 :])))
    lowest, span = float(loss.min()), float(np.ptp(loss))
    evidence = f"{name} starts at {abs(loss[0]):.4g}, has its best {abs(lowest):.4g} and ends about {abs(level):.4g}"
    if level > loss[0] and level - loss[0] > 3 * noise and level - loss[0] > TOLERANCE * abs(loss[0]):
        return [Finding("warning", "the loss rose", evidence, "a lower learning rate")]
    if level - lowest > max(3 * noise, 0.2 * span):
        return [Finding("notice", "the loss ended above its best", evidence, "a lower learning rate, or a schedule")]
    return [Finding("ok", "the loss did not rise", evidence)]


def validation(fit: History) -> list[Finding] | str:
    """Whether the loss on validation rows turned upwards while that on training rows went on falling."""
    names = [name for name in fit.columns if name.startswith("validation_")]
    if not names:
        return "no validation rows judged the epochs"
    name, loss = names[0], np.asarray(fit.columns[names[0]], np.float64)
    if len(loss) < LEAST or not np.isfinite(loss).all():
        return f"{len(loss)} records of {name}"
    best = int(loss.argmin())
    last = float(np.median(loss[-max(len(loss) // 10, 3) :]))
    evidence = f"{name} is lowest, {loss[best]:.4g}, in record {best + 1} of {len(loss)} and ends at {last:.4g}"
    rose = last - loss[best] > max(0.05 * abs(loss[best]), 4 * float(np.std(np.diff(loss))))
    if not rose:
        return [Finding("ok", "validation rows saw no turn", evidence)]
    if "best_epoch" in fit.columns:
        return [Finding("ok", "the turn was seen", f"{evidence}; the weights of the best epoch were kept")]
    remedy = "early_stopping='patience', more data, or a penalty"
    return [Finding("warning", "overfitting: validation rows got worse", evidence, remedy)]


CHECKS: dict[str, Callable[[History], list[Finding] | str]] = {
    "ended": ended, "finite": finite, "rest": rest, "rise": rise, "validation": validation,
}  # fmt: skip


def _unfit(name: str, loss: np.ndarray) -> str:
    if not name:
        return "the history has no loss"
    if len(loss) < LEAST:
        return f"{len(loss)} records, {LEAST} are needed"
    return "" if np.isfinite(loss).all() else "the loss is not finite"


def _line(y: np.ndarray) -> tuple[float, float]:
    """Slope of the least-squares line, and its standard error were the residuals independent."""
    x = np.arange(len(y)) - (len(y) - 1) / 2
    square = float((x * x).sum())
    slope = float((x * (y - y.mean())).sum()) / square
    residual = y - y.mean() - slope * x
    return slope, math.sqrt(float((residual**2).sum()) / (len(y) - 2) / square)
