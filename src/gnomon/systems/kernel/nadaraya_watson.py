r"""Nadaraya-Watson regression: a mean of the training targets, weighted by how near their rows are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize

from gnomon.contracts import Array, Group, Noise, Procedure
from gnomon.distributions.domains import Real
from gnomon.numeric.ops import logsumexp
from gnomon.recipes.fields import Doc
from gnomon.system.fields import ComputesInDouble, DrawsNothing
from gnomon.system.prediction import Regressor
from gnomon.training.one_process import OnFirst
from gnomon.training.procedure import Problem

__all__ = ["NadarayaWatson", "NadarayaWatsonModel", "gaussian_kernel", "log_kernel"]

CELLS = 1 << 22
"""Weights that are held at once: 32 MB."""

JUDGES = 2000
"""Training rows, evenly spread over the table, whose errors a bandwidth is chosen by."""

GRID = 24
"""Bandwidths that are tried before the best is refined."""

DIGITS = 1e9
"""Products of a row and a training row, in squares of the width, from which on rounding would show in weights."""


def log_kernel(u: Any, h: float = 1.0) -> NDArray[np.float64]:
    """Logarithm of `gaussian_kernel`, which does not underflow."""
    return np.asarray(-0.5 * (np.asarray(u, np.float64) / h) ** 2 - math.log(h * math.sqrt(2 * math.pi)))


def gaussian_kernel(u: Any, h: float = 1.0) -> NDArray[np.float64]:
    r"""The Gaussian kernel :math:`K(u / h) / h`, :math:`K(u) = e^{-u^2 / 2} / \sqrt{2 \pi}`.

    In a weighted mean its constant cancels; in the estimate of a density it does not.

    Parameters
    ----------
    u : array
        Differences.
    h : float > 0, default 1
        Bandwidth.

    Examples
    --------
    >>> gaussian_kernel([0.0, 1.0]).round(7).tolist()
    [0.3989423, 0.2419707]
    """
    return np.exp(log_kernel(u, h))


class NadarayaWatsonModel:
    r"""f(x) = sum_i a_i y_i, a the softmax of :math:`-\tfrac12 \sum_c \omega_c^2 (x_c - x_{ic})^2 + \log w_i`.

    Parameters
    ----------
    n_features : int >= 1
    """

    def __init__(self, n_features: int) -> None:
        self.omega = np.ones(n_features)
        self.center = np.zeros(n_features)
        self.X, self.y, self.weight = np.zeros((0, n_features)), np.zeros(0), np.zeros(0)

    @property
    def n_parameters(self) -> int:
        """Widths; the rows are kept, not learned."""
        return len(self.omega)

    def keep(self, X: Array, y: Array, weight: Array) -> None:
        """Take over the training rows that have a weight, about the middle value of each column."""
        there = weight > 0
        # of the rows, not their mean: about what lies between two far groups, both would lose digits
        self.center = np.quantile(X[there].astype(np.float64), 0.5, axis=0, method="lower")
        self.X, self.y = X[there].astype(np.float64) - self.center, y[there].astype(np.float64)
        self.weight = weight[there].astype(np.float64)

    def log_weights(self, rows: Array, omega: Array) -> Array:
        """Unnormalized log weights of the training rows for rows about the center, (m, n).

        What all of a row's have in common, its own square, is left out: it cancels, and far away nothing else would be
        left of the differences.
        """
        keys, queries = self.X * omega, rows * omega
        found: Array = queries @ keys.T + (np.log(self.weight) - 0.5 * (keys**2).sum(axis=1))
        far = np.abs(queries).max(initial=0.0) * np.abs(keys).max(initial=0.0) > DIGITS
        return self._about_nearest(rows, omega, found.argmax(axis=1)) if far else found

    def _about_nearest(self, rows: Array, omega: Array, nearest: NDArray[np.int64]) -> Array:
        """The same up to a constant of each row, column by column about its nearest training row: no digits cancel."""
        found = np.tile(np.log(self.weight), (len(rows), 1))
        for key, row, factor in zip(self.X.T, rows.T, omega, strict=True):
            apart = (key - key[nearest, None]) * factor
            found += apart * ((row - key[nearest])[:, None] * factor - 0.5 * apart)
        return found

    def chunks(self, m: int) -> Iterator[slice]:
        """Rows of which all weights are held at once."""
        step = max(1, CELLS // max(1, len(self.X)))
        yield from (slice(begin, begin + step) for begin in range(0, m, step))

    def weights(self, X: Array) -> Array:
        """a of each row, (m, n): 0 or more, and their sum is 1."""
        scores = self.log_weights(X - self.center, self.omega)
        found: Array = np.exp(scores - logsumexp(scores)[:, None])
        return found

    def predict(self, X: Array) -> Array:
        """f of each row, (m,) or (m, t)."""
        parts = [self.weights(X[some].astype(np.float64)) @ self.y for some in self.chunks(len(X))]
        return np.concatenate(parts) if parts else np.zeros((0, *self.y.shape[1:]))

    # --- leaving out --------------------------------------------------------------------------------------------

    @property
    def unit(self) -> float:
        """What errors are measured in while widths are chosen: the largest target, so that no square overflows."""
        return float(np.abs(self.y).max(initial=0.0)) or 1.0

    def left_out(self, rows: NDArray[np.int64], omega: Array) -> Array:
        """Weights (m, n) for some training rows when one of each is taken away: of weight w, w - 1 stays, at least 0.

        The closed form of refits without the row, since a refit only takes a term out of both sums.
        """
        scores = self.log_weights(self.X[rows], omega)
        own = np.arange(len(rows)), rows
        weight = self.weight[rows]
        with np.errstate(divide="ignore"):
            scores[own] += np.log(np.maximum(weight - 1, 0) / weight)
        found: Array = np.exp(scores - logsumexp(scores)[:, None])
        return found

    def error(self, omega: Array, rows: NDArray[np.int64], *, slope: bool = False) -> tuple[float, Array]:
        r"""Mean squared error, in squares of `unit`, of training rows without themselves, and its gradient by omega.

        :math:`\partial_c = -2 \omega_c \sum_i \epsilon_i \sum_j a_{ij} (y_j - f_i) (x_{ic} - x_{jc})^2`.
        """
        total, gradient, share = 0.0, np.zeros(len(omega)), self.weight[rows] / self.weight[rows].sum()
        y = self.y / self.unit
        for some in self.chunks(len(rows)):
            a = self.left_out(rows[some], omega)
            missed = a @ y - y[rows[some]]
            total += float(np.tensordot(share[some], missed**2, (0, 0)).sum())
            if slope:
                gradient += self._slopes(a, y, rows[some], missed, share[some])
        return total, -2 * omega * gradient

    def _slopes(self, a: Array, y: Array, rows: NDArray[np.int64], missed: Array, share: Array) -> Array:
        """Sums over rows of error times the change of f with minus half of the squared distances in each column."""
        y, missed = y.reshape(len(y), -1), missed.reshape(len(missed), -1)
        pull = a * ((missed * share[:, None]) @ y.T - (missed * (missed + y[rows]) * share[:, None]).sum(1)[:, None])
        X, own = self.X, self.X[rows]
        found: Array = (own**2 * pull.sum(1)[:, None] - 2 * own * (pull @ X) + pull @ X**2).sum(axis=0)
        return found

    # --- widths -------------------------------------------------------------------------------------------------

    def search(self) -> None:
        """One bandwidth for all columns: the best of a grid, refined."""
        rows = self._judges()
        mean = np.average(self.X, axis=0, weights=self.weight)
        spread = math.sqrt(float(np.average(((self.X - mean) ** 2).sum(axis=1), weights=self.weight)))
        if len(self.X) < 2 or spread == 0:
            return
        ones = np.ones(self.X.shape[1])
        grid = np.log(spread) + np.linspace(math.log(1e-3), math.log(10), GRID)
        errors = [self.error(ones / math.exp(h), rows)[0] for h in grid]
        best = int(np.argmin(errors))
        low, high = grid[max(0, best - 1)], grid[min(GRID - 1, best + 1)]

        def slope(h: float) -> float:
            omega = ones / math.exp(h)
            return -float(self.error(omega, rows, slope=True)[1] @ omega)

        found = grid[best]
        if slope(low) < 0 < slope(high):  # at the root, and not where values stop differing: weights are repetitions
            root = brentq(slope, low, high, xtol=1e-12)
            found = root if self.error(ones / math.exp(root), rows)[0] < errors[best] else found
        self.omega = ones / math.exp(found)

    def learn(self, max_iter: int) -> float:
        """One width for each column, by gradient from where the search ended; the error that was reached."""
        rows = self._judges()
        if len(self.X) < 2:
            return 0.0

        begin = self.omega

        def objective(factor: Array) -> tuple[float, Array]:  # of the first widths: steps have no unit
            error, slope = self.error(factor * begin, rows, slope=True)
            return error, slope * begin

        ones = np.ones(len(begin))
        found: Any = minimize(objective, ones, jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
        self.omega = np.abs(found.x * begin)  # the sign means nothing
        return float(found.fun)

    def _judges(self) -> NDArray[np.int64]:
        n = len(self.X)
        return np.unique(np.linspace(0, n - 1, min(n, JUDGES)).astype(np.int64))

    # --- saving -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Widths and training rows."""
        return {name: getattr(self, name) for name in ("omega", "center", "X", "y", "weight")}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take over what `state` described."""
        for name in ("omega", "center", "X", "y", "weight"):
            setattr(self, name, np.array(state[name]))


class NadarayaWatson(ComputesInDouble, DrawsNothing, Regressor):
    r"""Nadaraya-Watson regression: attention whose keys are the training rows and whose values are their targets.

    .. math:: f(x) = \sum_i \frac{K((x - x_i) \omega)}{\sum_j K((x - x_j) \omega)} y_i
              = \sum_i \mathrm{softmax}_i\left(-\tfrac12 \|\omega (x - x_i)\|^2\right) y_i

    with the Gaussian kernel K and the inverse width :math:`\omega = 1 / h`. A wide kernel gives the mean of all
    targets, a narrow one that of the nearest row. The width is the one with the least squared error of the training
    rows, each predicted without itself: with itself the narrowest would always win.

    Attributes
    ----------
    bandwidth_ : float64 array of shape (n_features,)
        h of each column, infinite for a column that plays no part.
    omega_ : float64 array of shape (n_features,)
        1 / h, 0 or more.
    loo_error_ : float
        Mean squared error of the training rows without themselves, at these widths.

    Notes
    -----
    The fit keeps the training rows. A prediction costs O(n d), in memory a chunk of rows at a time. A search tries some
    40 widths on all rows, or on 2000 evenly spread ones, O(min(n, 2000) n d) each. A row of weight w counts as w rows,
    of which one is left out. Columns should have about the same spread: ``gnomon.fit`` and the command line see to it.
    Source: Nadaraya (1964); Watson (1964).

    Examples
    --------
    >>> model = NadarayaWatson(bandwidth=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0])
    >>> model.weights([[0.5]]).round(7).tolist(), model.predict([[0.5]]).round(7).tolist()
    ([[0.4223188, 0.4223188, 0.1553624]], [1.0437684])
    """

    name: ClassVar[str] = "nadaraya-watson"
    model_class: ClassVar[type] = NadarayaWatsonModel
    domain = Real(largest=1e70)
    several: ClassVar[bool] = True
    scale_dependent: ClassVar[bool] = True
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"max_iter": {"learned": "by-column"}}

    bandwidth: Annotated[
        float | None, "[1e-70, 1e70]", Doc("Width h of the kernel, the same for all columns; None: it is chosen.")
    ] = None
    learned: Annotated[
        Literal["common", "by-column"],
        Doc(
            "``common``: one width for all columns, by a search. ``by-column``: a width for each, by gradient descent "
            "on the same error, which shuts out columns that say nothing."
        ),
    ] = "common"
    max_iter: Annotated[int, "[1, inf)", Doc("Gradient steps at most.")] = 100

    def make(self, *, n_features: int, dtype: str, n_outputs: int | None) -> NadarayaWatsonModel:
        return NadarayaWatsonModel(n_features)

    def problem(self, model: Any, examples: Any, noise: Noise, group: Group, validation: Any = None) -> Problem:
        return Problem(model, examples, noise, group)

    def procedure(self, examples: Any) -> Procedure:
        return OnFirst(lambda problem: self._fit_model(problem.model, examples))

    def _fit_model(self, model: NadarayaWatsonModel, examples: Any) -> None:
        model.keep(examples.X, examples.y, examples.weight)
        if self.bandwidth is not None:
            model.omega = np.full(len(model.omega), 1 / self.bandwidth)
            return
        model.search()
        if self.learned == "by-column":
            model.learn(self.max_iter)

    @property
    def omega_(self) -> NDArray[np.float64]:
        """Inverse widths of the columns."""
        omega: NDArray[np.float64] = self.model_.omega
        return omega

    @property
    def bandwidth_(self) -> NDArray[np.float64]:
        """Widths of the columns."""
        with np.errstate(divide="ignore"):
            return 1 / self.omega_

    @property
    def loo_error_(self) -> float:
        """Mean squared error of the training rows without themselves."""
        model: NadarayaWatsonModel = self.model_
        if len(model.X) < 2:
            return math.nan
        return model.error(model.omega, np.arange(len(model.X)))[0] * model.unit**2

    def weights(self, X: Any) -> Array:
        """How much each training row counts for each row, (m, n); rows sum to 1."""
        return self.model_.weights(self._rows(X).astype(np.float64))
