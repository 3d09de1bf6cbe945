"""Distributions of a layer of independent units, row by row: what a unit's field becomes.

Each answers in the kind, dtype and device of its parameters. `Bernoulli` units have a file of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.numeric import ops
from gnomon.numeric.tensors import detached

__all__ = ["Gaussians", "OneHot", "Spins"]

LOG_2_PI = math.log(2 * math.pi)


class Spins:
    """Independent units of -1 and 1, p(x) = prod_j exp(f_j x_j) / (2 cosh f_j).

    Parameters
    ----------
    field : array or tensor, shape (rows, n)

    Examples
    --------
    >>> Spins(np.zeros((2, 3))).log_prob(np.ones((2, 3))).round(4)
    array([-2.0794, -2.0794])
    """

    __slots__ = ("field",)

    def __init__(self, field: Any) -> None:
        self.field = field

    @property
    def mean(self) -> Any:
        """tanh(field)."""
        return 2 * ops.sigmoid(2 * self.field) - 1

    @property
    def mode(self) -> Any:
        """1 where the field is above 0, else -1."""
        return 2 * ops.positive(self.field) - 1

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every unit, -1 or 1."""
        return 2 * noise.bernoulli_logits(2 * self.field, draw) - 1

    def log_prob(self, x: Any) -> Any:
        """Log probability of each row in nats."""
        return self.log_terms(x).sum(-1)

    def log_terms(self, x: Any) -> Any:
        """Log probability of each unit in nats, (rows, n)."""
        return -ops.softplus(-2 * self.field * x)

    def entropy(self) -> Any:
        """Entropy of each row in nats."""
        a = 2 * self.field
        p = ops.sigmoid(a)
        return (p * ops.softplus(-a) + (1 - p) * ops.softplus(a)).sum(-1)


class OneHot:
    """Independent groups of columns, one of which is 1 in each group and the others 0: p = softmax in the group.

    Parameters
    ----------
    logits : array or tensor, shape (rows, groups * levels)
    levels : int
        Columns of a group.

    Examples
    --------
    >>> OneHot(np.zeros((1, 6)), 3).mean.round(2)
    array([[0.33, 0.33, 0.33, 0.33, 0.33, 0.33]])
    """

    __slots__ = ("levels", "logits")

    def __init__(self, logits: Any, levels: int) -> None:
        self.logits, self.levels = logits, levels

    def _grouped(self, x: Any) -> Any:
        return x.reshape(x.shape[0], -1, self.levels)

    @property
    def mean(self) -> Any:
        """Probability of each column's 1."""
        return ops.softmax(self._grouped(self.logits)).reshape(self.logits.shape)

    @property
    def mode(self) -> Any:
        """The first of the most probable columns of each group is 1."""
        return ops.largest(self._grouped(self.logits)).reshape(self.logits.shape)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One 1 per group; takes a uniform number for each group."""
        p = self._grouped(self.mean)
        u = noise.uniform(tuple(p.shape[:2]), draw, like=self.logits)[..., None]
        beyond = 0 * p + (u >= p.cumsum(-1))
        chosen = 0 * p
        chosen[..., 0] = 1
        # rounding may leave the last sum below u: the last level is where the others are not
        chosen[..., 1:] = beyond[..., :-1]
        chosen[..., :-1] -= beyond[..., :-1]
        return chosen.reshape(self.logits.shape)

    def log_prob(self, x: Any) -> Any:
        """Log probability of each row in nats."""
        return self.log_terms(x).sum(-1)

    def log_terms(self, x: Any) -> Any:
        """The same column by column, shape of x: of a group all of it stands at the column of its 1."""
        return _times(self._grouped(x), ops.log_softmax(self._grouped(self.logits))).reshape(x.shape)

    def entropy(self) -> Any:
        """Entropy of each row in nats."""
        log_p = ops.log_softmax(self._grouped(self.logits))
        return -_times(ops.softmax(self._grouped(self.logits)), log_p).sum((-1, -2))


class Gaussians:
    """Independent normal units: a mean per row and column, a precision per column.

    Parameters
    ----------
    mean : array or tensor, shape (rows, n)
    log_precision : array or tensor, shape (n,), or float, default 0
        Log of 1 / variance.

    Examples
    --------
    >>> Gaussians(np.zeros((1, 2))).log_prob(np.zeros((1, 2))).round(4)
    array([-1.8379])
    """

    __slots__ = ("log_precision", "mean")

    def __init__(self, mean: Any, log_precision: Any = 0.0) -> None:
        self.mean, self.log_precision = mean, log_precision

    @property
    def mode(self) -> Any:
        """The mean."""
        return self.mean

    @property
    def variance(self) -> Any:
        """1 / precision."""
        return exp(-self.log_precision)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every unit; carries no gradient."""
        drawn = self.mean + exp(-0.5 * self.log_precision) * noise.normal(tuple(self.mean.shape), draw, like=self.mean)
        return detached(drawn)

    def log_prob(self, x: Any) -> Any:
        """Log density of each row in nats."""
        return self.log_terms(x).sum(-1)

    def log_terms(self, x: Any) -> Any:
        """Log density of each unit in nats, (rows, n)."""
        away = x - self.mean
        return 0.5 * (self.log_precision - LOG_2_PI - exp(self.log_precision) * away * away)

    def entropy(self) -> Any:
        """Differential entropy of each row in nats."""
        return 0.5 * (1 + LOG_2_PI - self.log_precision + 0 * self.mean).sum(-1)


def _times(share: Any, log_p: Any) -> Any:
    """share * log_p, 0 where the share is 0 although the column never comes."""
    if isinstance(log_p, np.ndarray):
        return share * np.where(share == 0, log_p.dtype.type(0), log_p)
    return share * log_p.where(share != 0, 0.0)


def exp(x: Any) -> Any:
    """exp of an array, a tensor or a number."""
    if isinstance(x, float | int):
        return math.exp(x)
    return x.exp() if hasattr(x, "exp") else np.exp(x)
