"""How samplers move between modes: targets that try them, and numbers for "the chain keeps drawing the same thing"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise
from gnomon.distributions.real import Normal
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.sweeps import Conditionals
from gnomon.numeric.tensors import is_tensor

__all__ = [
    "CoupledPair", "CorrelatedPair", "ModeReport", "SeparatedModes", "mixing_ratio", "mode_report",
    "successive_distance",
]  # fmt: skip

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CoupledPair:
    """Two units of -1 or +1 with ``E(a, b) = -w a b``: two modes with a barrier of 2 w nats.

    ``p(b = 1 | a = 1) = sigma(2 w)``. A Gibbs sweep keeps the correlation ``tanh(w)^2`` of one unit.

    Parameters
    ----------
    w : float
    """

    w: float

    def energy(self, x: Array) -> Array:
        """Energy of each row, shape (rows,)."""
        return -self.w * x[:, 0] * x[:, 1]

    @property
    def flip_rate(self) -> float:
        """Chance that one sweep changes the sign of the unit drawn last: ``2 s (1 - s)``, ``s = sigma(2 w)``."""
        s = 1 / (1 + np.exp(-2 * self.w))
        return float(2 * s * (1 - s))


@dataclass(frozen=True)
class CorrelatedPair:
    """Two standard normal variables with correlation rho; Gibbs sweeps keep rho^2 of one from draw to draw.

    Parameters
    ----------
    rho : float, in (-1, 1)
    """

    rho: float

    def __post_init__(self) -> None:
        if not -1 < self.rho < 1:
            raise UserValueError.must("rho", "be in (-1, 1)", self.rho)

    def energy(self, x: Array) -> Array:
        """Energy of each row up to a constant, shape (rows,)."""
        a, b = x[:, 0], x[:, 1]
        return (a * a - 2 * self.rho * a * b + b * b) / (2 * (1 - self.rho**2))

    def conditionals(self) -> Conditionals:
        """The same for Gibbs sampling, as variables ``a`` and ``b``."""
        rho, sd = self.rho, (1 - self.rho**2) ** 0.5
        return Conditionals({"a": lambda s: Normal(rho * s["b"], sd), "b": lambda s: Normal(rho * s["a"], sd)})

    def sample(self, n: int, noise: Noise) -> Floats:
        """n exact rows."""
        z = np.asarray(noise.normal((n, 2), like=np.empty(0)))
        return np.stack([z[:, 0], self.rho * z[:, 0] + (1 - self.rho**2) ** 0.5 * z[:, 1]], axis=1)


@dataclass(frozen=True)
class SeparatedModes:
    """Two equally likely standard normal clouds in the plane at +-(m, m), ``m = separation / sqrt(8)``: off the axes.

    Parameters
    ----------
    separation : float, in [0, inf)
        Distance of the centers in standard deviations.
    """

    separation: float

    def energy(self, x: Array) -> Array:
        """Energy of each row up to a constant, shape (rows,)."""
        m = self.separation / 8**0.5
        shared, tilt = 0.5 * (x * x).sum(-1) + m * m, m * (x[:, 0] + x[:, 1])
        # -log cosh without overflow
        size = abs(tilt)
        return shared - size - _log1p_exp(-2 * size)

    def sample(self, n: int, noise: Noise) -> Floats:
        """n exact rows."""
        z = np.asarray(noise.normal((n, 2), like=np.empty(0)))
        sign = np.where(np.asarray(noise.uniform((n,), 1)) < 0.5, -1.0, 1.0)
        return z + sign[:, None] * self.separation / 8**0.5

    def label(self, x: Array) -> NDArray[np.int64]:
        """Mode 0 or 1 of positions (..., 2): the nearer center."""
        return (to_numpy(x).sum(-1) > 0).astype(np.int64)


@dataclass(frozen=True)
class ModeReport:
    """How chains move between labelled modes.

    Parameters
    ----------
    switch_rate : float, in [0, 1]
        Fraction of steps that change the mode; ``1 - sum pi_k^2`` for independent draws.
    dwell : float, in [1, inf]
        Steps per switch; inf where there was none.
    occupancy : array of shape (modes,)
        Fraction of draws in each mode.
    occupancy_error : float, in [0, 1]
        Total variation distance of the occupancy from the true weights; NaN where they are not given.
    """

    switch_rate: float
    dwell: float
    occupancy: Floats
    occupancy_error: float


def mode_report(labels: ArrayLike, weights: ArrayLike | None = None) -> ModeReport:
    """Switches between modes, time spent in them, and whether each was seen as often as it should be.

    Parameters
    ----------
    labels : array of int of shape (chains, draws)
        Mode of each draw, 0, 1, ...; from a classifier or the nearest center. At least 2 draws.
    weights : array of shape (modes,), optional
        True weights of the modes.

    Examples
    --------
    >>> mode_report([[0, 0, 1, 1, 1]], [0.5, 0.5]).switch_rate
    0.25
    """
    m = np.asarray(labels)
    if m.ndim != 2 or m.shape[1] < 2 or m.dtype.kind not in "iu" or m.min() < 0:
        raise UserValueError(
            f"labels must be whole numbers, (chains, draws), got {m.dtype} of shape {m.shape}", "labels"
        )
    pi = None if weights is None else np.asarray(weights, dtype=np.float64)
    if pi is not None and (pi.ndim != 1 or len(pi) <= m.max() or not (pi >= 0).all() or abs(pi.sum() - 1) > 1e-9):
        raise UserValueError.must("weights", "be one per mode with sum 1", weights)
    switches = m[:, 1:] != m[:, :-1]
    share = np.bincount(m.ravel(), minlength=0 if pi is None else len(pi)) / m.size
    rate = float(switches.mean())
    error = float("nan") if pi is None else float(0.5 * np.abs(share - pi).sum())
    return ModeReport(rate, 1 / rate if rate else float("inf"), share, error)


def successive_distance(draws: Array, features: Callable[[Any], Any] | None = None) -> float:
    """Mean distance of consecutive draws over that of draws of different chains: 1 if independent, near 0 if stuck.

    Parameters
    ----------
    draws : array of shape (chains, draws, ...)
        At least 2 of each; the chains must have been started independently, or the ratio flatters.
    features : callable, optional
        Array (n, ...) -> (n, k): in what sense draws are alike. The draws themselves by default.

    Returns
    -------
    float
        Of Euclidean distances; NaN where all chains are at one place.

    Examples
    --------
    >>> successive_distance(np.array([[[0.0], [0.1]], [[1.0], [1.1]]])) < 0.2
    True
    """
    x = to_numpy(draws)
    if x.ndim < 2 or min(x.shape[:2]) < 2:
        raise UserValueError.must("draws", "have at least 2 chains and 2 draws", x)
    flat = x.reshape(-1, *x.shape[2:])
    z = (flat if features is None else to_numpy(features(flat))).reshape(*x.shape[:2], -1)
    near = np.linalg.norm(z[:, 1:] - z[:, :-1], axis=2).mean()
    far = np.linalg.norm(z - np.roll(z, 1, axis=0), axis=2).mean()
    return float(near / far) if far > 0 else float("nan")


def mixing_ratio(draws: Array) -> float:
    r"""Whether parallel chains move together: variance of their mean from step to step beside that across chains.

    .. math:: \frac{n \sum_j \mathrm{Var}_t(\bar s_{tj})}{\sum_j \mathrm{mean}_t \mathrm{Var}_i(s_{tij})}

    with both variances of divisor n - 1. Independent draws give 1 (of one coordinate F distributed with T - 1 and
    T (n - 1) degrees of freedom), chains whose states are correlated by r within a step 1 + n r / (1 - r), identical
    ones infinity. Chains that only forget slowly give less than 1: each of them is looked at by `autocorrelation`.

    Parameters
    ----------
    draws : array of shape (steps, chains) or (steps, chains, d)
        At least 2 steps and 2 chains.

    Returns
    -------
    float
        In [0, inf]; nan where nothing moves or differs.

    Raises
    ------
    UserValueError
        Fewer steps or chains, values that are not finite.

    Notes
    -----
    Where parameters change from step to step a trend inflates it: take few steps. Source: Goodfellow, Bengio and
    Courville (2016), section 18.2, who compare the two variances by eye.

    Examples
    --------
    >>> mixing_ratio(np.array([[0.0, 1.0], [1.0, 0.0]])), mixing_ratio(np.array([[0.0, 0.0], [1.0, 1.0]]))
    (0.0, inf)
    """
    x = to_numpy(draws).astype(np.float64)
    if x.ndim not in (2, 3) or min(x.shape[:2]) < 2:
        raise UserValueError.must("draws", "have at least 2 steps of 2 chains", x, remedy="give (steps, chains, ...)")
    if not np.isfinite(x).all():
        raise UserValueError("draws must be finite", "draws")
    x = x.reshape(*x.shape[:2], -1)
    between = x.shape[1] * float(x.mean(axis=1).var(axis=0, ddof=1).sum())
    within = float(x.var(axis=1, ddof=1).mean(axis=0).sum())
    if within == 0:
        return float("inf") if between > 0 else float("nan")
    return between / within


def _log1p_exp(x: Array) -> Array:
    if not is_tensor(x):
        return np.log1p(np.exp(x))
    return x.exp().log1p()
