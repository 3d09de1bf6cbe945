"""Models of rows whose columns are independent: the simplest that a domain has, which every other one should beat."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from gnomon.contracts import Noise
from gnomon.distributions.word_counts import Multinomials

__all__ = [
    "BernoulliColumns", "CategoricalColumns", "GaussianColumns", "IndependentColumns", "PoissonColumns",
    "Unigrams",
]  # fmt: skip

Floats = NDArray[np.float64]
PSEUDO_COUNT = 0.1
"""Rows that are added for every value of a column, so that what training has not shown is not impossible."""


class IndependentColumns:
    """Base: a subclass takes the rows that it is fitted to, and gives the log probability of each cell."""

    title: ClassVar[str] = "independent columns"
    n_parameters: int = 0

    def log_cells(self, X: Floats) -> Floats:
        """Log probability (or density) of each cell in nats; 0 where it is missing."""
        raise NotImplementedError

    def log_prob(self, X: Any) -> Floats:
        """Log probability (or density) of each row in nats, shape (n,)."""
        return self.log_cells(_rows(X)).sum(1)

    def sample(self, n: int, noise: Noise) -> Floats:
        """n rows."""
        raise NotImplementedError


class GaussianColumns(IndependentColumns):
    """Normal columns with the data's means and variances (divisor n); NaN is left out.

    Parameters
    ----------
    X : array of shape (n, ...)
    """

    title: ClassVar[str] = "diagonal Gaussian"

    def __init__(self, X: Any) -> None:
        rows = _rows(X)
        self.mean, self.variance = np.nanmean(rows, axis=0), np.nanvar(rows, axis=0)
        self.variance = np.maximum(self.variance, 1e-12 * max(float(self.variance.max()), 1e-300))
        self.n_parameters = 2 * rows.shape[1]

    def log_cells(self, X: Floats) -> Floats:
        """Log density of each cell."""
        cells = -0.5 * (math.log(2 * math.pi) + np.log(self.variance) + (X - self.mean) ** 2 / self.variance)
        return np.where(np.isnan(X), 0.0, cells)

    def sample(self, n: int, noise: Noise) -> Floats:
        """n rows."""
        drawn: Floats = self.mean + np.sqrt(self.variance) * noise.normal((n, len(self.mean)), like=self.mean)
        return drawn


class BernoulliColumns(IndependentColumns):
    """Columns that are 1 with a probability of their own.

    Parameters
    ----------
    X : array of zeros and ones of shape (n, ...)

    Examples
    --------
    >>> BernoulliColumns([[1, 0], [1, 1], [0, 0], [0, 1]]).log_prob([[1, 1]]).round(4)
    array([-1.3863])
    """

    title: ClassVar[str] = "independent Bernoulli"

    def __init__(self, X: Any) -> None:
        rows = _rows(X)
        self.mean = (rows.sum(0) + PSEUDO_COUNT) / (len(rows) + 2 * PSEUDO_COUNT)
        self.n_parameters = rows.shape[1]

    def log_cells(self, X: Floats) -> Floats:
        """Log probability of each cell."""
        cells: Floats = xlogy(X, self.mean) + xlog1py(1 - X, -self.mean)
        return cells

    def sample(self, n: int, noise: Noise) -> Floats:
        """n rows."""
        drawn: Floats = noise.bernoulli(np.tile(self.mean, (n, 1)))
        return drawn


class PoissonColumns(IndependentColumns):
    """Counts with a rate of their own in every column.

    Parameters
    ----------
    X : array of counts of shape (n, ...)

    Examples
    --------
    >>> PoissonColumns([[1], [3]]).log_prob([[0], [1]]).round(2)
    array([-1.95, -1.28])
    """

    title: ClassVar[str] = "independent Poisson"

    def __init__(self, X: Any) -> None:
        rows = _rows(X)
        self.rate = (rows.sum(0) + PSEUDO_COUNT) / (len(rows) + PSEUDO_COUNT)
        self.n_parameters = rows.shape[1]

    def log_cells(self, X: Floats) -> Floats:
        """Log probability of each cell."""
        cells: Floats = X * np.log(self.rate) - self.rate - gammaln(X + 1)
        return cells

    def sample(self, n: int, noise: Noise) -> Floats:
        """n rows."""
        from scipy.stats import poisson

        u = noise.uniform((n, len(self.rate)), like=self.rate)
        return np.asarray(poisson(self.rate).ppf(u), np.float64)


class Unigrams(IndependentColumns):
    """Words of documents that are drawn one by one with shares of their own, given how many a document has.

    Parameters
    ----------
    X : array of counts of shape (n, ...)

    Examples
    --------
    >>> np.exp(Unigrams([[1, 1], [2, 2]]).log_prob([[1, 1], [0, 0]])).round(3).tolist()
    [0.5, 1.0]
    """

    title: ClassVar[str] = "shares of the words"

    def __init__(self, X: Any) -> None:
        rows = _rows(X)
        total = rows.sum(0) + PSEUDO_COUNT
        self.share, self.lengths, self.n_parameters = total / total.sum(), rows.sum(1), rows.shape[1] - 1

    def log_cells(self, X: Floats) -> Floats:
        """What each cell adds to the log probability; the orders of the words come on top."""
        cells: Floats = X * np.log(self.share) - gammaln(X + 1)
        return cells

    def log_prob(self, X: Any) -> Floats:
        """Log probability of each row given its sum in nats, shape (n,)."""
        rows = _rows(X)
        found: Floats = self.log_cells(rows).sum(1) + gammaln(rows.sum(1) + 1)
        return found

    def sample(self, n: int, noise: Noise) -> Floats:
        """n rows, of lengths of the rows that were given."""
        u = noise.child("length").uniform((n, 1), like=self.share)[:, 0]
        lengths = self.lengths[(u * len(self.lengths)).astype(np.int64)]
        drawn: Floats = Multinomials(np.tile(np.log(self.share), (n, 1)), lengths).sample(noise)
        return drawn


class CategoricalColumns(IndependentColumns):
    """Categories with shares of their own in every column.

    Parameters
    ----------
    X : array of codes of shape (n, ...)
        Whole numbers in [0, n_categories).
    n_categories : int

    Examples
    --------
    >>> np.exp(CategoricalColumns([[0], [2], [2]], 3).log_prob([[0], [1], [2]])).round(3)
    array([0.333, 0.03 , 0.636])
    """

    title: ClassVar[str] = "independent categories"

    def __init__(self, X: Any, n_categories: int) -> None:
        codes = _rows(X).astype(np.int64)
        columns, k = codes.shape[1], n_categories
        counts = np.bincount((codes + k * np.arange(columns)).ravel(), minlength=k * columns).reshape(columns, k)
        self.shares = (counts + PSEUDO_COUNT) / (len(codes) + k * PSEUDO_COUNT)
        self.n_parameters = columns * (k - 1)

    def log_cells(self, X: Floats) -> Floats:
        """Log probability of each cell."""
        return np.log(self.shares)[np.arange(len(self.shares)), X.astype(np.int64)]

    def sample(self, n: int, noise: Noise) -> Floats:
        """n rows."""
        u = noise.uniform((n, len(self.shares)), like=self.shares)
        passed = u[:, :, None] > np.cumsum(self.shares, axis=1)[:, :-1]
        return passed.sum(2).astype(np.float64)


def _rows(X: Any) -> Floats:
    """Any examples as flat rows of float64."""
    rows = np.asarray(X, dtype=np.float64)
    return rows.reshape(len(rows), -1)
