"""How alike the draws of a chain are that lie a number of steps apart: one number for all coordinates together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy

__all__ = ["LagCorrelation", "lag_correlation"]

Floats = NDArray[np.float64]

MOST = 200
"""Lags that are looked at by default."""


@dataclass(frozen=True)
class LagCorrelation:
    """Autocorrelation of chains by lag.

    Parameters
    ----------
    lag : int64 array of shape (k,)
        In steps of the chain, from 0.
    value : array of shape (k,)
        NaN where no coordinate ever changes.
    stderr : array of shape (k,)
        Standard error over the chains, which are independent; NaN of a single one.
    """

    lag: NDArray[np.int64]
    value: Floats
    stderr: Floats

    def at(self, lag: int) -> tuple[float, float]:
        """The correlation after so many steps, and its standard error.

        Raises
        ------
        UserValueError
            A lag that was not looked at.
        """
        place = np.flatnonzero(self.lag == lag)
        if not len(place):
            raise UserValueError.must("lag", f"be one of {', '.join(map(str, self.lag[:8].tolist()))} ...", lag)
        return float(self.value[place[0]]), float(self.stderr[place[0]])

    def below(self, level: float = 0.1) -> int | None:
        """The first lag at which the correlation is below a level; None where it is at none that was looked at.

        Parameters
        ----------
        level : float in (0, 1), default 0.1
        """
        if not 0 < level < 1:
            raise UserValueError.must("level", "be in (0, 1)", level)
        low = self.value < level
        return int(self.lag[low.argmax()]) if low.any() else None


def lag_correlation(draws: Array, *, every: int = 1, most: int | None = None) -> LagCorrelation:
    r"""Autocorrelation of whole states, all chains and coordinates together.

    :math:`\rho_k = \frac{\frac{1}{n-k} \sum_{c,t,j} (x_{ctj} - m_j)(x_{c,t+k,j} - m_j)}{\frac{1}{n} \sum_{c,t,j}
    (x_{ctj} - m_j)^2}` with the mean :math:`m_j` over all draws of all chains. A chain that never leaves one mode is
    far from that mean and counts as correlated, though its draws scatter about a mean of its own; `autocorrelation` has
    that one, for each chain and coordinate.

    Parameters
    ----------
    draws : array of shape (chains, n, ...)
        n at least 2.
    every : int in [1, inf), default 1
        Steps of the chain from one draw to the next.
    most : int in [1, n), optional
        The largest lag, in draws; half of the draws, at most 200, by default.

    Returns
    -------
    LagCorrelation
        Standard errors by the jackknife over chains. Cost O(most chains n d).

    Raises
    ------
    UserValueError
        Too few draws, numbers that are not finite.

    Notes
    -----
    Of an autoregression :math:`x_{t+1} = \rho x_t + e_t` it is :math:`\rho^k`.
    Source: Quenouille (1956) and Tukey (1958) for the jackknife.

    Examples
    --------
    >>> found = lag_correlation(np.array([[1.0, -1.0] * 50]), every=10)
    >>> found.lag[:3].tolist(), found.value[:3].round(9).tolist()
    ([0, 10, 20], [1.0, -1.0, 1.0])
    """
    x = to_numpy(draws).astype(np.float64)
    if x.ndim < 2 or not len(x) or x.shape[1] < 2:
        raise UserValueError.must("draws", "be (chains, draws, ...) with 2 draws or more", x)
    if not np.isfinite(x).all():
        raise UserValueError("draws must be finite", "draws", "look at where the chains diverged")
    n = x.shape[1]
    most = max(1, min(MOST, n // 2)) if most is None else most
    if not 1 <= most < n:
        raise UserValueError.must("most", f"be in [1, {n})", most)
    if every < 1:
        raise UserValueError.must("every", "be at least 1", every)
    x = x.reshape(*x.shape[:2], -1)
    x = x - x.mean(axis=(0, 1))
    sums = np.array([[np.vdot(one[: n - k], one[k:]) / (n - k) for one in x] for k in range(most + 1)])
    value = _ratio(sums.sum(axis=1))
    lag = np.arange(most + 1) * every
    if len(x) == 1:
        return LagCorrelation(lag, value, np.full(most + 1, np.nan))
    without = np.stack([_ratio(sums.sum(axis=1) - sums[:, c]) for c in range(len(x))])
    spread = (len(x) - 1) * without.var(axis=0)
    return LagCorrelation(lag, value, np.sqrt(spread))


def _ratio(sums: Floats) -> Floats:
    """Each of the sums by that at lag 0."""
    return sums / sums[0] if sums[0] > 0 else np.full(len(sums), np.nan)
