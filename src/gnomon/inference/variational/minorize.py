r"""Maximization through a bound from below that touches: minorize-maximize, of which EM and mean field are cases.

A bound :math:`g(\xi, x) \le f(x)` with equality at :math:`\xi(x)` is raised in turn,
:math:`\xi_n = \arg\max_\xi g(\xi, x_{n - 1})`, :math:`x_n = \arg\max_x g(\xi_n, x)`, and f never falls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.given import floats
from gnomon.numeric.ops import softplus
from gnomon.recipes.parameters import how_many

__all__ = [
    "Minorized", "Minorizer", "MinorizerCheck", "jaakkola_bound", "jaakkola_curvature", "logistic_minorizer",
    "minorize_maximize",
]  # fmt: skip

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Share of max(1, |f|) by which a bound may lie above f, or f fall, for all that."""


class Minorized(NamedTuple):
    """Where minorize-maximize has ended.

    Attributes
    ----------
    x, xi : object
        The point and the bound's parameter there.
    value : float
        f(x).
    history : array of shape (n_iter + 1,)
        f at the start and after every iteration: never falling.
    converged : bool
        Whether an iteration gained no more than the tolerance.
    """

    x: Any
    xi: Any
    value: float
    history: Floats
    converged: bool

    @property
    def n_iter(self) -> int:
        """Iterations."""
        return len(self.history) - 1


class MinorizerCheck(NamedTuple):
    """Whether a bound is one, on a grid.

    Attributes
    ----------
    excess : float
        Largest g(xi, x) - f(x); above 0 the bound is broken.
    at : tuple (xi, x)
        Where.
    apart : float
        Largest f(x) - g(xi(x), x): 0 where the bound touches.
    apart_at : object
        The x of it.
    passed : bool
        Both within rounding.
    """

    excess: float
    at: tuple[Any, Any]
    apart: float
    apart_at: Any
    passed: bool

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        if self.passed:
            return "the bound holds, and touches"
        if self.excess > self.apart:
            return f"the bound is broken: {self.excess:.3g} above f at xi = {self.at[0]}, x = {self.at[1]}"
        return f"the bound does not touch: {self.apart:.3g} below f at x = {self.apart_at}"


@dataclass(frozen=True)
class Minorizer:
    r"""A function and a bound from below, :math:`g(\xi, x) \le f(x)`, that touches it at :math:`\xi(x)`.

    Parameters
    ----------
    f : callable
        x to a number.
    g : callable
        (xi, x) to a number.
    best_x : callable
        xi to the x of the largest g(xi, x).
    best_xi : callable
        x to the xi of the largest g(xi, x), where it touches.

    Examples
    --------
    >>> tangents = Minorizer(  # of x^2 in x^2 - x^4
    ...     lambda x: x**2 - x**4, lambda xi, x: 2 * xi * x - xi**2 - x**4, lambda xi: np.cbrt(xi / 2), lambda x: x
    ... )
    >>> tangents.check_bound(np.linspace(-2, 2, 41)).passed
    True
    >>> round(float(tangents.maximize(0.1).x), 4)  # at 1 / sqrt(2)
    0.7071
    """

    f: Callable[[Any], Any]
    g: Callable[[Any, Any], Any]
    best_x: Callable[[Any], Any]
    best_xi: Callable[[Any], Any]

    def maximize(self, start: Any, *, tol: float = 1e-10, max_iter: int = 10_000) -> Minorized:
        """Raise the bound in turn until an iteration gains no more than ``tol * max(1, |f|)``.

        Parameters
        ----------
        start : object
            The first x.
        tol : float >= 0
        max_iter : int >= 1

        Raises
        ------
        UserValueError
            A bound that lies above f, does not touch it, or is not maximized: with the point, where it shows.
        """
        if how_many(max_iter, "max_iter") < 1 or tol < 0:
            raise UserValueError(f"max_iter must be at least 1 and tol 0, got {max_iter} and {tol}", "max_iter, tol")
        x, value = start, float(self.f(start))
        history, converged = [value], False
        xi = self.best_xi(x)
        while not converged and len(history) <= max_iter:
            slack = ROUNDING * max(1.0, abs(value))
            self._touches(xi, x, value, slack)
            x = self.best_x(xi)
            before, value = value, float(self.f(x))
            bound = float(self.g(xi, x))
            if bound > value + slack:
                what = f"g must be at most f, got {bound:.9g} above {value:.9g} at x = {x}, xi = {xi}"
                raise UserValueError(what, "g", "it is no bound from below")
            if value < before - slack:
                what = f"f must not fall, got {value:.9g} after {before:.9g} at x = {x}, xi = {xi}"
                raise UserValueError(what, "best_x", "it does not maximize g at this xi")
            history.append(value)
            xi = self.best_xi(x)
            converged = value - before <= tol * max(1.0, abs(value))
        return Minorized(x, xi, value, np.array(history), converged)

    def _touches(self, xi: Any, x: Any, value: float, slack: float) -> None:
        at = float(self.g(xi, x))
        if not abs(at - value) <= slack:
            what = f"g must touch f at xi = {xi}, got {at:.9g} for {value:.9g} at x = {x}"
            raise UserValueError(what, "best_xi", "it does not maximize g at this x")

    def check_bound(self, grid: Sequence[Any], xis: Sequence[Any] | None = None) -> MinorizerCheck:
        """Whether g <= f for all pairs of a grid, and g = f at the best xi.

        Parameters
        ----------
        grid : sequence of x
        xis : sequence of xi, optional
            The best ones of the grid's points by default.
        """
        best = [self.best_xi(x) for x in grid]
        values = np.array([float(self.f(x)) for x in grid])
        chosen = best if xis is None else list(xis)
        bounds = np.array([[float(self.g(xi, x)) for x in grid] for xi in chosen])
        touching = np.array([float(self.g(xi, x)) for xi, x in zip(best, grid, strict=True)])
        slack = ROUNDING * np.maximum(1.0, np.abs(values))
        i, k = np.unravel_index(int(np.argmax(bounds - values)), bounds.shape)
        j = int(np.argmax(np.abs(values - touching)))
        passed = bool((bounds <= values + slack).all() and (np.abs(values - touching) <= slack).all())
        return MinorizerCheck(
            float((bounds - values)[i, k]),
            (chosen[int(i)], grid[int(k)]),
            float(values[j] - touching[j]),
            grid[j],
            passed,
        )


def minorize_maximize(
    f: Callable[[Any], Any], g: Callable[[Any, Any], Any], best_x: Callable[[Any], Any],
    best_xi: Callable[[Any], Any], start: Any, *, tol: float = 1e-10, max_iter: int = 10_000,
) -> Minorized:  # fmt: skip
    """Maximize f through a bound that touches it; see `Minorizer` and its `maximize`.

    References
    ----------
    Hunter and Lange (2004), "A tutorial on MM algorithms".

    Examples
    --------
    >>> tangents = lambda xi, x: 2 * xi * x - xi**2 - x**4
    >>> found = minorize_maximize(lambda x: x**2 - x**4, tangents, lambda xi: np.cbrt(xi / 2), lambda x: x, 1.5)
    >>> round(found.value, 6), found.converged
    (0.25, True)
    """
    return Minorizer(f, g, best_x, best_xi).maximize(start, tol=tol, max_iter=max_iter)


# --- the logistic function --------------------------------------------------------------------------------------------


def jaakkola_curvature(xi: ArrayLike) -> Floats:
    r""":math:`\lambda(\xi) = \tanh(\xi / 2) / (4 \xi)`, 1/8 at 0.

    Examples
    --------
    >>> jaakkola_curvature([0.0, 2.0]).round(6).tolist()
    [0.125, 0.095199]
    """
    x = np.abs(floats(xi, "xi"))
    safe = np.where(x > 1e-4, x, 1.0)
    found: Floats = np.where(x > 1e-4, np.tanh(safe / 2) / (4 * safe), 0.125 - x * x / 96)
    return found


def jaakkola_bound(xi: ArrayLike, a: ArrayLike) -> Floats:
    r"""A quadratic bound of log sigmoid(a) from below that touches at a = xi and a = -xi.

    .. math:: \log \sigma(a) \ge \log \sigma(\xi) + (a - \xi) / 2 - \lambda(\xi) (a^2 - \xi^2)

    References
    ----------
    Jaakkola and Jordan (2000), "Bayesian parameter estimation via variational methods".

    Examples
    --------
    >>> round(float(jaakkola_bound(2.0, 2.0)), 6), round(float(-np.log1p(np.exp(-2.0))), 6)
    (-0.126928, -0.126928)
    """
    x, at = floats(xi, "xi"), floats(a, "a")
    found: Floats = -softplus(-x) + (at - x) / 2 - jaakkola_curvature(x) * (at * at - x * x)
    return found


def logistic_minorizer(X: ArrayLike, y: ArrayLike, precision: float = 0.0) -> Minorizer:
    r"""Log-likelihood of a logistic regression, plus a normal prior's log density, and its quadratic bound.

    Each round solves a weighted least-squares problem,
    :math:`(\tau I + 2 \sum_n \lambda(\xi_n) x_n x_n^T) w = \sum_n (y_n - 1/2) x_n`, and sets
    :math:`\xi_n = |x_n^T w|`. With precision 0 its end is the maximum-likelihood estimate.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,) of 0 and 1
    precision : float >= 0, default 0
        tau of the prior N(0, I / tau) of w, without its constant.

    Raises
    ------
    UserValueError
        Labels other than 0 and 1, lengths that differ.
    """
    rows, labels = floats(X, "X"), floats(y, "y")
    if rows.ndim != 2 or labels.shape != rows.shape[:1] or not np.isin(labels, (0, 1)).all():
        raise UserValueError.must("y", "be 0 or 1 for each row of X", labels)
    signs = 2 * labels - 1
    right = rows.T @ (labels - 0.5)

    def f(w: Floats) -> float:
        return float(-softplus(-signs * (rows @ w)).sum() - 0.5 * precision * w @ w)

    def g(xi: Floats, w: Floats) -> float:
        return float(jaakkola_bound(xi, signs * (rows @ w)).sum() - 0.5 * precision * w @ w)

    def best_x(xi: Floats) -> Floats:
        curved = 2 * jaakkola_curvature(xi)[:, None] * rows
        return np.asarray(np.linalg.solve(precision * np.eye(rows.shape[1]) + rows.T @ curved, right))

    return Minorizer(f, g, best_x, lambda w: np.abs(rows @ w))
