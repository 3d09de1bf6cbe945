"""Expected squared error of an estimator, split into squared bias, variance and noise by repeated training."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gnomon import contracts
from gnomon.errors import UserValueError
from gnomon.evaluation._inputs import Floats
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise, seed_of

__all__ = ["decompose"]


def decompose(
    estimator: Callable[[], Any],
    generator: Callable[[contracts.Noise], tuple[Any, Any]],
    X: ArrayLike,
    truth: ArrayLike | Callable[[Any], Any],
    *,
    noise_variance: float | None = 0.0,
    repeats: int = 100,
    random_state: Any = None,
) -> dict[str, Score]:
    r"""Bias and variance of a learner at fixed test points, over training sets drawn anew.

    :math:`E (y - \hat f)^2 = (f - E \hat f)^2 + Var(\hat f) + \sigma^2`, averaged over the test points. With the
    divisor R in the variance the parts add up exactly to the mean squared error over the R repeats; the squared bias
    then holds Var / R too much on average.

    Parameters
    ----------
    estimator : callable
        Gives a new object with ``fit(X, y)`` and ``predict(X)``.
    generator : callable
        Gives a training set ``(X, y)`` drawn from the noise it is handed, a new one at each repeat. Resampling one
        data set instead understates the variance.
    X : array of shape (m, d)
        Test points, the same for every repeat.
    truth : array of shape (m,) or callable
        The noiseless f at the test points: known in a simulation alone.
    noise_variance : float in [0, inf) or None, default 0
        Variance of y about f. None: `truth` holds measured values, of which bias and noise cannot be told apart.
    repeats : int in [2, inf), default 100
        Training sets R.
    random_state : int, Generator, RandomState or None, default None
        Seed of the training sets.

    Returns
    -------
    dict of str to Score
        ``bias_squared``, ``variance``, ``noise``, ``total``; without `noise_variance` ``bias_squared_and_noise`` stands
        for the first and third. ``error`` is the standard error over the repeats.

    Raises
    ------
    UserValueError
        Predictions of another shape than the truth, or not finite; too few repeats.

    Notes
    -----
    Cost: R fits. Source: Geman, Bienenstock and Doursat (1992).

    Examples
    --------
    >>> class ShrunkMean:
    ...     def fit(self, X, y):
    ...         self.value = 0.8 * y.mean()
    ...         return self
    ...
    ...     def predict(self, X):
    ...         return np.full(len(X), self.value)
    >>> def draw(noise):
    ...     return np.zeros((4, 1)), 2 + noise.normal((4,), like=np.zeros(1))
    >>> parts = decompose(ShrunkMean, draw, [[0.0]], [2.0], noise_variance=1.0, repeats=400, random_state=0)
    >>> abs(parts["bias_squared"].value - 0.16) < 4 * parts["bias_squared"].error
    True
    """
    if repeats < 2:
        raise UserValueError.must("repeats", "be at least 2", repeats)
    if noise_variance is not None and not 0 <= noise_variance < math.inf:
        raise UserValueError.must("noise_variance", "be finite and at least 0", noise_variance)
    points = np.asarray(X)
    target = _column(truth(points) if callable(truth) else truth, len(points), "truth")
    stream = Noise(seed_of(random_state), "decompose")
    answers = np.empty((repeats, len(points)))
    for r in range(repeats):
        learner = estimator()
        learner.fit(*generator(stream.at(r)))
        answers[r] = _column(learner.predict(points), len(points), f"repeat {r}")
    return _parts(answers, target, noise_variance)


def _column(values: Any, m: int, where: str) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.shape not in ((m,), (m, 1)) or not m:
        raise UserValueError.must("predictions", f"be {m} numbers, one per test point", column, where)
    if not np.isfinite(column).all():
        raise UserValueError("predictions must be finite", where)
    return column.reshape(m)


def _parts(answers: Floats, target: Floats, noise_variance: float | None) -> dict[str, Score]:
    """The means over points, and the spread over repeats of what each repeat adds to them."""
    mean = answers.mean(axis=0)
    bias, gap = mean - target, answers - mean
    squares, tilt = (gap**2).mean(axis=1), 2 * (gap * bias).mean(axis=1)
    first = "bias_squared" if noise_variance is not None else "bias_squared_and_noise"
    known = noise_variance or 0.0
    parts = {
        first: _score(first, float((bias**2).mean()), tilt),
        "variance": _score("variance", float(squares.mean()), squares),
        "total": _score("total", float(((answers - target) ** 2).mean()) + known, squares + tilt),
    }
    if noise_variance is None:
        return parts
    noise = Score(known, 0.0, 0.0, "exact", unit="squared error", name="noise", higher_is_better=False)
    return {first: parts[first], "variance": parts["variance"], "noise": noise, "total": parts["total"]}


def _score(name: str, value: float, influence: Floats) -> Score:
    error = float(influence.std(ddof=1)) / math.sqrt(len(influence))
    return Score(value, 0.0, error, "estimate", unit="squared error", name=name, higher_is_better=False)
