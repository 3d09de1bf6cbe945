"""Standard errors of the coefficients of linear and logistic regression, with tests and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gnomon.errors import UserValueError

__all__ = ["Coefficients", "least_squares_coefficients", "logistic_coefficients", "posterior_coefficients"]

Floats = NDArray[np.float64]
MOST = 2000
"""Coefficients up to which the matrix of second derivatives is inverted."""
INTERCEPT = "intercept"


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of one output, the intercept last.

    Parameters
    ----------
    names : tuple of str
    value, stderr : arrays of shape (d + 1,)
    df : float
        Degrees of freedom of the t distribution; inf for the normal one.
    output : str
        What they speak for.
    note : str
        What has to be said of the errors.

    Examples
    --------
    >>> found = Coefficients(("a", "intercept"), np.array([2.0, 0.0]), np.array([1.0, 1.0]), math.inf)
    >>> found.p_value.round(4).tolist(), found.interval()[0].round(2).tolist()
    ([0.0455, 1.0], [0.04, 3.96])
    """

    names: tuple[str, ...]
    value: Floats
    stderr: Floats
    df: float
    output: str = ""
    note: str = ""

    @property
    def statistic(self) -> Floats:
        """Coefficient by its standard error."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.value / self.stderr

    @property
    def p_value(self) -> Floats:
        """Probability of so large a statistic, of either sign, were the coefficient 0."""
        distribution = stats.norm if math.isinf(self.df) else stats.t(self.df)
        return np.asarray(2 * distribution.sf(np.abs(self.statistic)))

    def interval(self, level: float = 0.95) -> Floats:
        """Lower and upper ends by coefficient, shape (d + 1, 2)."""
        if not 0 < level < 1:
            raise UserValueError.must("level", "be in (0, 1)", level)
        distribution = stats.norm if math.isinf(self.df) else stats.t(self.df)
        half = float(distribution.ppf((1 + level) / 2)) * self.stderr
        return np.stack([self.value - half, self.value + half], 1)

    def table(self) -> dict[str, NDArray[Any]]:
        """By column: coefficient, standard error, statistic, p value, 95 % interval."""
        low, high = self.interval().T
        return {
            "column": np.array(self.names), "coefficient": self.value, "stderr": self.stderr,
            "statistic": self.statistic, "p_value": self.p_value, "low": low, "high": high,
        }  # fmt: skip


def least_squares_coefficients(
    X: Any, y: Any, coef: Any, intercept: float, names: tuple[str, ...], *, l2: float = 0.0, standardize: bool = True
) -> Coefficients:
    r"""Standard errors of linear regression, from the training rows.

    With centered columns Z (of spread 1 where the fit standardizes) and :math:`A = Z^TZ + n \lambda` the weights are
    :math:`A^{-1} Z^T y`, whose covariance is :math:`\sigma^2 A^{-1} Z^TZ A^{-1}`, exact for noise of one variance. That
    variance is the sum of squared residuals by n minus the effective number of coefficients. With a penalty the
    estimate is biased too, which no standard error shows.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
    coef : array of shape (d,)
    intercept : float
    names : tuple of str
        Of the columns.
    l2 : float, default 0
        As `gnomon.LinearRegression` has it.
    standardize : bool, default True

    Raises
    ------
    UserValueError
        No more rows than coefficients.

    Examples
    --------
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0, 2.0])
    >>> least_squares_coefficients(X, y, np.array([0.6]), 0.1, ("a",)).stderr.round(4).tolist()
    [0.1414, 0.2646]
    """
    X, y, coef = (np.asarray(one, np.float64) for one in (X, y, coef))
    mean, scale = _spread(X, standardize)
    Z = (X - mean) / scale
    gram = np.matmul(Z.T, Z)
    inverse = np.linalg.pinv(gram + len(X) * l2 * np.eye(len(gram)), hermitian=True)
    used = float(np.trace(np.matmul(inverse, gram))) + 1
    df = len(X) - used
    if df <= 1e-6:
        raise UserValueError(f"standard errors need more rows than coefficients, got {len(X)} rows", "X", "")
    residual = y - np.matmul(X, coef) - intercept
    variance = float(np.matmul(residual, residual)) / df
    within = variance * np.matmul(np.matmul(inverse, gram), inverse)
    covariance = np.zeros((len(coef) + 1, len(coef) + 1))
    covariance[:-1, :-1], covariance[-1, -1] = within, variance / len(X)
    note = _note(l2, bool(np.linalg.matrix_rank(gram, hermitian=True) < len(gram)))
    errors = _errors(_raw(covariance, mean, scale))
    return Coefficients((*names, INTERCEPT), np.append(coef, intercept), errors, df, note=note)


def logistic_coefficients(
    X: Any, coef: Any, intercept: Any, names: tuple[str, ...], *, outputs: tuple[str, ...] = ("",), l2: float = 0.0,
    standardize: bool = True,
) -> list[Coefficients]:  # fmt: skip
    r"""Standard errors of logistic regression, from the training rows: the inverse of the observed information.

    With a penalty it is :math:`A^{-1} B A^{-1}`, B the information and A with the penalty's second derivatives: the
    spread of the estimate and not its bias. Of more than two classes the weights, which are known up to a common
    vector, are those that sum to 0.

    Parameters
    ----------
    X : array of shape (n, d)
        Training rows.
    coef : array of shape (1, d), or (k, d) for k classes
    intercept : array of shape (1,) or (k,)
    names : tuple of str
        Of the columns.
    outputs : tuple of str
        What each row of `coef` speaks for.
    l2 : float, default 0
        As `gnomon.LogisticRegression` has it.
    standardize : bool, default True

    Raises
    ------
    UserValueError
        More than 2,000 coefficients.

    Examples
    --------
    >>> X = np.array([[0.0]] * 6 + [[1.0]] * 4)
    >>> found = logistic_coefficients(X, [[np.log(6)]], [-np.log(2)], ("a",))[0]
    >>> found.stderr.round(4).tolist()  # of a log odds ratio: the root of the sum of 1 / counts, 1/4 + 1/2 + 1/1 + 1/3
    [1.4434, 0.866]
    """
    X, coef, intercept = (np.asarray(one, np.float64) for one in (X, coef, intercept))
    k, d = coef.shape
    if k * (d + 1) > MOST:
        what = f"standard errors take the square of the coefficients, at most {MOST}, got {k * (d + 1)}"
        raise UserValueError(what, "X", "explain fewer columns")
    mean, scale = _spread(X, standardize)
    Z = np.column_stack([(X - mean) / scale, np.ones(len(X))])
    information = _information(Z, _probabilities(np.matmul(X, coef.T) + intercept))
    penalty = np.tile(np.append(np.full(d, l2 * len(X)), 0.0), k)
    inverse = np.linalg.pinv(information + np.diag(penalty), hermitian=True)
    covariance = np.matmul(np.matmul(inverse, information), inverse)
    note = _note(l2, bool(np.linalg.matrix_rank(np.matmul(Z.T, Z), hermitian=True) < d + 1))
    found = []
    for j in range(k):
        part = slice(j * (d + 1), (j + 1) * (d + 1))
        errors = _errors(_raw(covariance[part, part], mean, scale))
        value = np.append(coef[j], intercept[j])
        found.append(Coefficients((*names, INTERCEPT), value, errors, math.inf, outputs[j], note))
    return found


def posterior_coefficients(
    X: Any, coef: Any, intercept: float, covariance: Any, names: tuple[str, ...], *, about: str = "flat",
    standardize: bool = False,
) -> Coefficients:  # fmt: skip
    r"""Standard deviations of the weights of a normal posterior, of what the training rows determine.

    Along a direction in which no row varies, as where the codes of a category add up to 1, the posterior is the prior,
    however many rows there are: its spread says nothing of the data, and the posterior mean has no part in it. With P
    the projector on the space of the rows, in the units of the prior, the covariance is :math:`P S P`, as the
    pseudo-inverse leaves such directions out of `least_squares_coefficients`.

    Parameters
    ----------
    X : array of shape (n, d)
        Training rows.
    coef : array of shape (d,)
    intercept : float
    covariance : array of shape (d + 1, d + 1)
        Posterior covariance of weights and intercept; infinite where there is none.
    names : tuple of str
        Of the columns.
    about : {"flat", "normal", "none"}, default "flat"
        As `gnomon.BayesianRegression` has ``intercept``.
    standardize : bool, default False

    Examples
    --------
    >>> X = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # of a category: the columns add up to 1
    >>> prior, noise = 1e6, 1.0
    >>> within = np.linalg.inv((X - 0.5).T @ (X - 0.5) / noise + np.eye(2) / prior)
    >>> covariance = np.zeros((3, 3))
    >>> covariance[:2, :2], covariance[2, 2] = within, noise / 4 + np.full(2, 0.5) @ within @ np.full(2, 0.5)
    >>> covariance[2, :2] = covariance[:2, 2] = -within @ np.full(2, 0.5)
    >>> found = posterior_coefficients(X, [1.0, -1.0], 0.0, covariance, ("a", "b"))
    >>> found.stderr[:2].round(2).tolist(), round(within[0, 0] ** 0.5)  # half of the error of a difference of two means
    ([0.5, 0.5], 707)
    """
    X, coef, covariance = (np.asarray(one, np.float64) for one in (X, coef, covariance))
    mean, scale = _spread(X, standardize)
    mean = mean if about == "flat" else np.zeros_like(mean)
    design = np.column_stack([(X - mean) / scale, np.full(len(X), float(about != "none"))])
    size, axes = np.linalg.eigh(np.matmul(design.T, design))
    axes = axes[:, size > size.max() * len(size) * np.finfo(np.float64).eps]
    within = np.zeros_like(covariance)
    within[:-1, :-1], within[-1, :-1], within[-1, -1] = np.diag(scale), mean, 1.0  # undoes `_raw`
    part = np.matmul(axes.T, within)
    inner = np.matmul(np.matmul(part, covariance), part.T)
    known = np.isfinite(covariance).all()
    kept = _raw(np.matmul(np.matmul(axes, inner), axes.T), mean, scale) if known else covariance
    parts = ["standard errors are posterior standard deviations"]
    parts += [_note(0.0, True)] if axes.shape[1] < len(coef) + (about != "none") else []
    return Coefficients((*names, INTERCEPT), np.append(coef, intercept), _errors(kept), math.inf, note="; ".join(parts))


def _probabilities(scores: Floats) -> Floats:
    """Of the classes, or of the second of two."""
    if scores.shape[1] == 1:
        return np.asarray(0.5 * (1 + np.tanh(0.5 * scores)))
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _information(Z: Floats, p: Floats) -> Floats:
    """Second derivatives of the negative log-likelihood by the weights of one class after the other."""
    k, d = p.shape[1], Z.shape[1]
    if k == 1:
        return np.matmul(Z.T * (p * (1 - p)).T, Z)
    found = np.empty((k, d, k, d))
    for i in range(k):
        for j in range(i + 1):
            block = np.matmul(Z.T * (p[:, i] * ((i == j) - p[:, j])), Z)
            found[i, :, j], found[j, :, i] = block, block.T
    return found.reshape(k * d, k * d)


def _spread(X: Floats, standardize: bool) -> tuple[Floats, Floats]:
    """Mean and unit of the columns; 1 of a column that does not vary."""
    mean, scale = X.mean(0), X.std(0)
    constant = scale <= 1e-12 * np.abs(X).max(0, initial=0.0)
    return mean, np.where(constant, 1.0, scale) if standardize else np.ones(X.shape[1])


def _raw(covariance: Floats, mean: Floats, scale: Floats) -> Floats:
    """The covariance of weights and intercept of the columns as they were given."""
    jacobian = np.zeros_like(covariance)
    jacobian[:-1, :-1] = np.diag(1 / scale)
    jacobian[-1, :-1], jacobian[-1, -1] = -mean / scale, 1.0
    return np.matmul(np.matmul(jacobian, covariance), jacobian.T)


def _errors(covariance: Floats) -> Floats:
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))


def _note(l2: float, collinear: bool) -> str:
    parts = []
    if l2:
        parts.append(f"with the penalty l2 = {l2:g} the errors are the spread of the estimate, not its bias")
    if collinear:
        parts.append("some columns are sums of others, so that only sums of their coefficients mean something")
    return "; ".join(parts)
