"""Whether held-out rows fare worse than training rows: by the mean, by the middle of the rows, and by the worst."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.evaluation.diagnosis.records import Finding
from gnomon.evaluation.score import Score

__all__ = [
    "SIGNIFICANT", "Fall", "Far", "fall_of", "floor", "impossible", "limit", "middle", "short", "tail", "trimmed",
]  # fmt: skip

SIGNIFICANT = 4.0
"""Standard errors that a finding needs where they are known: 6e-5 by chance, were what they belong to normal."""
SEEN = 2.0
"""Standard errors from which on a fall is told, though a warning needs more."""
SHARE_GAP, NATS_GAP, ERROR_FACTOR = 0.05, 0.1, 1.5
"""What a gap must exceed besides: in accuracy; in nats per row, and as a share of the score; as a ratio of errors."""
CUT = 0.2
"""Share of the rows that a trimmed mean leaves out at either end."""
WORST, FAR = 0.01, 2.0
"""Share of the training rows that are the worst; by how many times the held-out rows below them must exceed it."""
LEAST = 10
REMEDY = "a smaller model, a penalty, early stopping, or more data"
UNSURE = f"more rows held out would tell; if it stays, {REMEDY}"

Floats = NDArray[np.float64]


def limit(freedom: float, errors: float = SIGNIFICANT) -> float:
    """Standard errors that a finding needs when they are estimated: Student's quantile at the chance of `errors`.

    Examples
    --------
    >>> round(limit(9), 2), round(limit(1e6), 2), round(limit(9, SEEN), 2)
    (7.0, 4.0, 2.32)
    """
    from scipy.special import ndtr, stdtrit

    return -float(stdtrit(max(freedom, 1.0), ndtr(-errors)))


class Fall(NamedTuple):
    """By how much a quantity is worse on held-out rows, and the standard error of that.

    Attributes
    ----------
    train, held : float
        The quantity on either.
    size, error : float
        How much worse held-out rows fare; negative where they fare better.
    freedom : float
        Degrees of freedom of the error.
    """

    train: float
    held: float
    size: float
    error: float
    freedom: float

    def beyond_chance(self, least: float) -> bool:
        """Whether it exceeds both its error and what is worth a word."""
        return self.size > limit(self.freedom) * self.error and self.size > least

    def noticeable(self) -> bool:
        """Whether it is more than noise of two standard errors, which is not yet what a warning needs."""
        return self.size > limit(self.freedom, SEEN) * self.error

    def lacks(self, least: float) -> str:
        """What a warning needs and this fall has not."""
        needed, found = limit(self.freedom), self.size / self.error if self.error else math.inf
        parts = [] if found > needed else [f"{found:.2g} standard errors where a warning needs {needed:.2g}"]
        parts += [] if self.size > least else [f"a warning needs more than {least:.2g}"]
        return " and ".join(parts)

    def sides(self) -> str:
        """Both values and the fall."""
        return f"{self.train:.4g} and {self.held:.4g}, {self.words()}"

    def words(self) -> str:
        """The fall with the error that it is judged by."""
        return f"{abs(self.size):.3g} ± {self.error:.2g} {'worse' if self.size > 0 else 'better'}"


def fall_of(train: Score, held: Score) -> Fall:
    """The fall of the mean; training and held-out rows are other rows, so nothing is paired."""
    sign = 1 if held.higher_is_better else -1
    difference, error = replace(train, pointwise=None).difference(replace(held, pointwise=None))
    return Fall(train.value, held.value, sign * difference, error, min(train.n, held.n) - 1)


def middle(train: Score, held: Score) -> Fall | None:
    """The fall of the trimmed mean (Yuen 1974), which a few wild rows do not move; None where it says nothing."""
    values = [_values(score) for score in (train, held)]
    if held.trials > 0 or values[0] is None or values[1] is None:
        return None
    (a, u), (b, v) = (trimmed(x) for x in values if x is not None)
    left = min(len(x) - 2 * math.floor(CUT * len(x)) for x in values if x is not None)
    return Fall(a, b, (1 if held.higher_is_better else -1) * (a - b), math.hypot(u, v), left - 1)


class Far(NamedTuple):
    """Held-out rows that fare worse than nearly all training rows.

    Attributes
    ----------
    rows : int
        How many held-out rows fare worse than all but `but` training rows.
    but : int
    chance : float
        Of so many, were training and held-out rows alike.
    """

    rows: int
    but: int
    chance: float


def tail(train: Score, held: Score) -> Far | None:
    """Whether too many held-out rows fare worse than every training row, or than all but the worst hundredth.

    By ranks alone, so that it does not matter how far away they are: were the rows alike, the number of held-out rows
    below the r-th lowest training row would be beta-binomial (the exceedances of Gumbel and von Schelling 1950). None
    where that says nothing.
    """
    known, new = _values(train), _values(held)
    if held.trials > 0 or known is None or new is None:
        return None
    from scipy.stats import betabinom

    sign, n, m = 1 if held.higher_is_better else -1, len(known), len(new)
    ordered = np.sort(sign * known)
    found = []
    for r in {1, math.ceil(WORST * n)}:
        k = int((sign * new < ordered[r - 1]).sum())
        chance = float(betabinom.sf(k - 1, m, r, n - r + 1)) if k * (n + 1) > FAR * m * r else 1.0
        found.append(Far(k, r - 1, chance))
    return min(found, key=lambda one: one.chance)


def impossible(train: Score, held: Score) -> list[Finding] | str:
    """What can be said where one of the means is not finite."""
    known, new = train.pointwise, held.pointwise
    if known is None or new is None or not np.isfinite(known).all():
        return f"{held.name} is not finite"
    bad = int((~np.isfinite(new)).sum())
    evidence = f"{held.name} is {held.value} for {bad} of {len(new)} held-out rows, finite for all training rows"
    return [Finding("warning", "held-out rows are impossible to the model", evidence, REMEDY)]


def short(fall: Fall, least: float, evidence: str) -> Finding:
    """What is said of a fall that no warning is made of: it is seen, and a warning needs more; or there is none."""
    if not fall.noticeable():
        return Finding("ok", "no overfitting beyond chance", evidence)
    evidence += f"; {fall.lacks(least)}"
    if fall.size <= least:
        return Finding("ok", "held-out rows fare slightly worse", evidence)
    return Finding("notice", "held-out rows fare worse, by less than a warning needs", evidence, UNSURE)


def floor(score: Score, value: float) -> float:
    """The smallest fall from a value on training rows that is worth a word."""
    if score.unit == "fraction":
        return SHARE_GAP
    if "nats" in score.unit:
        return max(NATS_GAP, SHARE_GAP * abs(value))
    return (ERROR_FACTOR - 1) * abs(value)


def trimmed(x: Any) -> tuple[float, float]:
    """Mean without the highest and the lowest fifth, and its standard error by the winsorized variance.

    Examples
    --------
    >>> trimmed(np.array([1.0, 2.0, 3.0, 4.0, -1e9]))[0]
    2.0
    """
    x = np.sort(np.asarray(x, np.float64))
    n = len(x)
    cut = math.floor(CUT * n)
    left = n - 2 * cut
    held = x.copy()
    held[:cut], held[n - cut :] = x[cut], x[n - cut - 1]
    spread = float(held.std(ddof=1)) if n > 1 else math.nan
    return float(x[cut : n - cut].mean()), spread * math.sqrt((n - 1) / (left * (left - 1))) if left > 1 else math.nan


def _values(score: Score) -> Floats | None:
    """One value per row of equal weight."""
    if score.pointwise is None or score.weight is not None or len(score.pointwise) < LEAST:
        return None
    return score.pointwise
