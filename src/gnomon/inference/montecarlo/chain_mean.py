"""Means of chain draws, whose errors count that draws depend on each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.contracts import Array
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.diagnostics import R_HAT_LIMIT, ess, r_hat
from gnomon.inference.montecarlo.expectation import RunningMean
from gnomon.inference.montecarlo.mean_error import MeanError

__all__ = ["ChainMean", "chain_mean"]


@dataclass(frozen=True)
class ChainMean(MeanError):
    """The mean of draws of Markov chains and its error, which counts that draws are dependent: see `chain_mean`.

    Parameters
    ----------
    count : int
        Draws of all chains.
    mean, variance : float or array
        Of all draws.
    effective : float or array
        Independent draws that would estimate the mean as well; nan where draws never differ.
    r_hat : float or array
        Above 1.01 the chains have not mixed.
    tails : str
        A word on tails without a finite variance.
    """

    count: int
    mean: Any
    variance: Any
    effective: Any
    r_hat: Any
    tails: str = ""

    @property
    def notice(self) -> str:
        """Why the error should not be trusted, in one line; empty when nothing is wrong, which proves nothing."""
        if np.isnan(self.effective).any():
            return "draws never differ: their error cannot be told"
        worst = float(np.max(self.r_hat))
        if worst > R_HAT_LIMIT:
            return f"the chains have not mixed (R-hat {worst:.3f}): the standard error is too small"
        return self.tails


def chain_mean(draws: Array) -> ChainMean:
    """The mean of chain draws with the error ``sd / sqrt(ESS)``, ESS from the autocorrelations.

    Parameters
    ----------
    draws : array of shape (chains, n, ...)
        Values of f along each chain, burn-in left out; n at least 8.

    Returns
    -------
    ChainMean
        With one chain mixing cannot be told from differences between chains.

    Raises
    ------
    UserValueError
        For too few draws, or a value that is not finite.

    References
    ----------
    Geyer (1992), "Practical Markov chain Monte Carlo".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> draws = Noise(0, "chains").normal((4, 500), like=np.empty(0))
    >>> found = chain_mean(draws)
    >>> found.notice, bool(abs(found.mean) < 4 * found.standard_error)
    ('', True)
    """
    y = to_numpy(draws)
    effective, mixing = ess(y, "mean"), r_hat(y)
    flat = RunningMean().update(y.reshape(-1, *y.shape[2:]))
    return ChainMean(flat.count, flat.mean, flat.variance, effective, mixing, flat.notice)
