"""Whether two samples come from one distribution, and what a generator leaves out.

All distances are Euclidean, in the units of the columns: scale them first. Random splits and orders come from `Noise`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import power_of_two
from gnomon.evaluation.score import Score
from gnomon.recipes.imports import random_kept

__all__ = [
    "TwoSampleTest", "classifier_test", "density_coverage", "maximum_mean_discrepancy", "median_distance", "mmd_test",
    "nearest", "pair",
]  # fmt: skip

Floats = NDArray[np.float64]

BLOCK = 1 << 22
"""Distances held at a time."""

LARGE = 1e30
"""Values from here on are scaled down before they are looked at in single precision."""


class TwoSampleTest(NamedTuple):
    """Outcome of a test of "both samples come from one distribution".

    Attributes
    ----------
    statistic : float
    p_value : float
        Probability of a statistic at least as large if they do.
    """

    statistic: float
    p_value: float


def pair(X: ArrayLike, Y: ArrayLike, least: int = 2) -> tuple[Floats, Floats]:
    """Two samples as finite rows of the same columns, at least so many of each."""
    x, y = (np.asarray(one, np.float64) for one in (X, Y))
    x, y = (one.reshape(len(one), math.prod(one.shape[1:])) for one in (x, y))
    if x.shape[1] != y.shape[1]:
        raise UserValueError(f"Y must have {x.shape[1]} columns, got {y.shape[1]}", "Y", "give samples of one kind")
    for rows, name in ((x, "X"), (y, "Y")):
        if len(rows) < least:
            raise UserValueError(f"{name} must have at least {least} rows, got {len(rows)}", name, "give more")
        if not np.isfinite(rows).all():
            raise UserValueError(f"{name} must be finite, got {rows[~np.isfinite(rows)][0]}", name, "drop such rows")
    return x, y


def _squares(x: Floats, y: Floats) -> Floats:
    """Squared distances, (n, m), never negative."""
    distances: Floats = np.square(x).sum(1)[:, None] + np.square(y).sum(1) - 2 * np.matmul(x, y.T)
    return np.maximum(distances, 0.0, out=distances)


def median_distance(X: ArrayLike, Y: ArrayLike) -> float:
    """Median distance between different rows of both samples: a bandwidth for `maximum_mean_discrepancy`.

    Of the first 2,000 rows of each at most; 1 where all rows are alike.
    """
    x, y = pair(X, Y)
    rows = np.concatenate([x[:2000], y[:2000]])
    squares = _squares(rows, rows)[np.triu_indices(len(rows), 1)]
    middle = float(np.median(squares))
    return math.sqrt(middle) if middle > 0 else 1.0


def _kernel(x: Floats, y: Floats, bandwidths: Floats) -> Floats:
    squares = _squares(x, y)
    total: Floats = sum((np.exp(-0.5 * squares / h**2) for h in bandwidths), np.zeros_like(squares))
    return total / len(bandwidths)


def _bandwidths(X: Floats, Y: Floats, bandwidth: ArrayLike | None) -> Floats:
    if bandwidth is None:
        return median_distance(X, Y) * np.array([0.5, 1.0, 2.0])
    bandwidths = np.atleast_1d(np.asarray(bandwidth, np.float64))
    if not (np.isfinite(bandwidths).all() and (bandwidths > 0).all()):
        raise UserValueError(f"bandwidth must be positive, got {bandwidths.min()}", "bandwidth")
    return bandwidths


def maximum_mean_discrepancy(
    X: ArrayLike, Y: ArrayLike, *, bandwidth: ArrayLike | None = None, biased: bool = False
) -> float:
    r"""Squared MMD of a Gaussian kernel k, :math:`\overline{k(x, x')} + \overline{k(y, y')} - 2 \overline{k(x, y)}`.

    Parameters
    ----------
    X, Y : arrays of shape (n, d), (m, d)
    bandwidth : float or several, optional
        h of exp(-\|x - y\|^2 / 2 h^2); of several the mean kernel. 1/2, 1 and 2 times `median_distance` where left out.
    biased : bool, default False
        Whether pairs of a row with itself count: then it is never negative; without them its expectation is the squared
        MMD, 0 for equal distributions.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf and Smola (2012), "A kernel two-sample test".
    """
    x, y = pair(X, Y)
    h = _bandwidths(x, y, bandwidth)
    n, m = len(x), len(y)
    xx, yy, xy = _kernel(x, x, h), _kernel(y, y, h), _kernel(x, y, h)
    if biased:
        return float(xx.mean() + yy.mean() - 2 * xy.mean())
    return float((xx.sum() - n) / (n * (n - 1)) + (yy.sum() - m) / (m * (m - 1)) - 2 * xy.mean())


def mmd_test(
    X: ArrayLike, Y: ArrayLike, noise: Noise, *, permutations: int = 200, bandwidth: ArrayLike | None = None
) -> TwoSampleTest:
    """The unbiased squared MMD against its values when the rows are dealt to the samples anew.

    The p-value (1 + how many are as large) / (1 + permutations) is exact: below level a with probability a at most.

    Parameters
    ----------
    X, Y : arrays of shape (n, d), (m, d)
    noise : Noise
    permutations : int in [1, inf), default 200
    bandwidth
        As of `maximum_mean_discrepancy`.

    Notes
    -----
    Cost O((n + m)^2 (d + permutations)), memory (n + m)^2 numbers. Source: Gretton et al. (2012), section 5.
    """
    x, y = pair(X, Y)
    if permutations < 1:
        raise UserValueError(f"permutations must be at least 1, got {permutations}", "permutations")
    rows, n = np.concatenate([x, y]), len(x)
    kernel = _kernel(rows, rows, _bandwidths(x, y, bandwidth))
    np.fill_diagonal(kernel, 0.0)
    first = np.zeros((len(rows), permutations + 1))
    first[:n, 0] = 1
    for k in range(permutations):
        first[noise.at(k).order(len(rows))[:n], k + 1] = 1
    statistics = _statistics(kernel, first, n, len(rows) - n)
    larger = int((statistics[1:] >= statistics[0] - 1e-12).sum())
    return TwoSampleTest(float(statistics[0]), (1 + larger) / (1 + permutations))


def _statistics(kernel: Floats, first: Floats, n: int, m: int) -> Floats:
    """Unbiased squared MMD for every column of 0 and 1 that says which rows belong to the first sample."""
    fields = np.matmul(kernel, first)
    within = (first * fields).sum(0)
    across = ((1 - first) * fields).sum(0)
    rest = kernel.sum() - within - 2 * across
    statistic: Floats = within / (n * (n - 1)) + rest / (m * (m - 1)) - 2 * across / (n * m)
    return statistic


def classifier_test(X: ArrayLike, Y: ArrayLike, noise: Noise, *, judge: Any = None) -> TwoSampleTest:
    """Accuracy of a classifier that tells held-out rows of both samples apart; 1/2 is chance.

    Half of each sample, the same number of rows, is learned from, and the other halves are told apart. The p-value is
    that of so many right answers by fair coins, whatever the classifier.

    Parameters
    ----------
    X, Y : arrays of shape (n, d), (m, d)
        At least 4 rows each.
    noise : Noise
        Says which half is which, and seeds the forest.
    judge : classifier of scikit-learn's form, optional
        A forest of 200 trees where left out. Nearest neighbors are blind to rows that lie farther out than the data.

    References
    ----------
    Lopez-Paz and Oquab (2017), "Revisiting classifier two-sample tests".
    """
    from scipy.stats import binom

    with random_kept():
        from sklearn.ensemble import RandomForestClassifier

    x, y = pair(X, Y, least=4)
    n = min(len(x), len(y))
    half = n // 2
    halves = [one[noise.child(name).order(len(one))[: 2 * half]] for one, name in ((x, "x"), (y, "y"))]
    train = np.concatenate([one[:half] for one in halves])
    test = np.concatenate([one[half:] for one in halves])
    codes = np.repeat([0, 1], half)
    if (unit := power_of_two(np.concatenate([train, test]))) > LARGE:  # the forest looks at float32
        train, test = train / unit, test / unit
    seed = int(noise.child("forest").integers(1 << 31, (1,))[0])
    predicted = (judge or RandomForestClassifier(200, random_state=seed)).fit(train, codes).predict(test)
    right = int((predicted == codes).sum())
    return TwoSampleTest(right / len(test), float(binom.sf(right - 1, len(test), 0.5)))


def nearest(rows: Floats, to: Floats, k: int, *, itself: bool = False) -> tuple[Floats, NDArray[np.int64]]:
    """Distance to the k-th nearest of `to`, and which the nearest is; `itself` leaves a row's own place out."""
    distance, index = np.empty(len(rows)), np.empty(len(rows), np.int64)
    step = max(1, BLOCK // len(to))
    for start in range(0, len(rows), step):
        squares = _squares(rows[start : start + step], to)
        if itself:
            squares[np.arange(len(squares)), start + np.arange(len(squares))] = np.inf
        distance[start : start + step] = np.sqrt(np.partition(squares, k - 1, axis=1)[:, k - 1])
        index[start : start + step] = squares.argmin(1)
    return distance, index


def density_coverage(real: ArrayLike, made: ArrayLike, *, neighbors: int = 5) -> dict[str, Score]:
    """Whether made rows fall where the data are dense (density), and everywhere where there are data (coverage).

    Density counts in how many balls about real rows a made row lies, coverage the real rows in whose ball one lies. The
    ball of a real row reaches to its k-th nearest real neighbor. Density above 1 means rows crowded where the data are
    dense; coverage near 1 that no part of the data is left out.

    Parameters
    ----------
    real, made : arrays of shape (n, d), (m, d)
    neighbors : int k in [1, n), default 5

    Returns
    -------
    dict of str to Score
        ``density`` (per made row, divided by k) and ``coverage`` (fraction of the real rows).

    Notes
    -----
    For samples of one distribution density is 1 on average, and coverage about 1 - 2^-k for equal sizes.
    Source: Naeem, Oh, Uh, Choi and Yoo (2020).
    """
    x, y = pair(real, made)
    if not 1 <= neighbors < len(x):
        raise UserValueError(f"neighbors must be in [1, {len(x)}), got {neighbors}", "neighbors", "give more real rows")
    radius, _ = nearest(x, x, neighbors, itself=True)
    balls, hit = np.zeros(len(y)), np.zeros(len(x), bool)
    step = max(1, BLOCK // len(x))
    for start in range(0, len(y), step):
        inside = _squares(y[start : start + step], x) <= np.square(radius) * (1 + 1e-12)
        balls[start : start + step] = inside.sum(1)
        hit |= inside.any(0)
    return {
        "density": Score.from_pointwise(balls / neighbors, name="density", unit="balls per row"),
        "coverage": Score.from_pointwise(hit.astype(float), name="coverage", unit="fraction"),
    }


def sample_scores(
    real: ArrayLike, made: ArrayLike, noise: Noise, *, data_space: str = "", permutations: int = 200
) -> dict[str, Score]:
    """How well rows that a generator made stand for real ones that it has not seen.

    Parameters
    ----------
    real, made : arrays of shape (n, d), (m, d)
        In units in which distances mean something. 12 real rows or more.
    noise : Noise
    data_space : str, default ""
    permutations : int, default 200

    Returns
    -------
    dict of str to Score
        ``mmd``: squared maximum mean discrepancy, lower is better, 0 for equal distributions; ``mmd_p_value``;
        ``told_apart``: accuracy of `classifier_test`, lower is better, 1/2 for equal distributions; ``told_p_value``;
        ``density`` and ``coverage``. A p-value below 0.05 says that the test saw a difference.
    """
    x, y = pair(real, made, least=4)
    h = _bandwidths(x, y, None)
    xx, yy, xy = _kernel(x, x, h), _kernel(y, y, h), _kernel(x, y, h)
    n, m = len(x), len(y)
    of_real = (xx.sum(1) - 1) / (n - 1) - xy.mean(1)
    of_made = (yy.sum(1) - 1) / (m - 1) - xy.mean(0)
    value = of_real.mean() + of_made.mean()
    facts: dict[str, Any] = {"data_space": data_space, "higher_is_better": False}
    mmd = Score.from_pointwise(
        value + 2 * (of_real - of_real.mean()), name="mmd", unit="squared discrepancy", kind="estimate",
        error=2 * float(of_made.std(ddof=1)) / math.sqrt(m), **facts,
    )  # fmt: skip
    first = mmd_test(x, y, noise.child("mmd"), permutations=permutations, bandwidth=h)
    classifier = classifier_test(x, y, noise.child("classifier"))
    tests = 2 * (min(n, m) // 2)
    p = classifier.statistic
    apart = Score(
        p, math.sqrt(p * (1 - p) / tests), unit="fraction", name="told_apart",
        n=tests, **facts,
    )  # fmt: skip
    ps = {
        name: Score(p, name=name, unit="probability", kind="estimate", data_space=data_space)
        for name, p in (("mmd_p_value", first.p_value), ("told_p_value", classifier.p_value))
    }
    spread = density_coverage(x, y, neighbors=min(5, n - 1))
    return {"mmd": mmd, "told_apart": apart, **ps, **spread}
