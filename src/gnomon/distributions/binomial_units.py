"""Units that count: several copies of a unit of 0 and 1 that share one bias and all their couplings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution
from gnomon.distributions.units import Own, Units, mean_of
from gnomon.numeric import ops

__all__ = ["BinomialUnits", "Binomials"]


class Binomials:
    """Independent counts out of a number of trials, p(x) = prod_j C(trials, x_j) exp(f_j x_j) / (1 + exp f_j)^trials.

    Parameters
    ----------
    field : array or tensor, shape (rows, n)
        Log-odds of each trial.
    trials : int

    Examples
    --------
    >>> Binomials(np.zeros((1, 3)), 2).mean
    array([[1., 1., 1.]])
    """

    __slots__ = ("field", "trials")

    def __init__(self, field: Any, trials: int) -> None:
        self.field, self.trials = field, trials

    @property
    def mean(self) -> Any:
        """trials * sigmoid(field)."""
        return self.trials * ops.sigmoid(self.field)

    @property
    def variance(self) -> Any:
        """trials * sigmoid(field) * sigmoid(-field)."""
        return self.mean * ops.sigmoid(-self.field)

    @property
    def mode(self) -> Any:
        """The most probable count, the larger of two."""
        return ((self.trials + 1) * ops.sigmoid(self.field)).clip(0, self.trials) // 1

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every unit; takes a uniform number for each trial."""
        u = noise.uniform((*self.field.shape, self.trials), draw, like=self.field)
        hit = u < ops.sigmoid(self.field)[..., None]
        return hit.to(self.field.dtype).sum(-1) if hasattr(hit, "to") else hit.sum(-1, dtype=self.field.dtype)

    def log_prob(self, x: Any) -> Any:
        """Log probability of each row in nats."""
        return (log_choices(x, self.trials) + x * self.field - self.trials * ops.softplus(self.field)).sum(-1)

    def entropy(self) -> Any:
        """Entropy of each row in nats."""
        kept = self.trials * ops.softplus(self.field) - self.mean * self.field
        return kept.sum(-1) - self.mean_log_choices()

    def mean_log_choices(self) -> Any:
        """E[sum_j log C(trials, x_j)] of each row, by the sum over the counts of a unit."""
        p, total = ops.sigmoid(self.field), 0.0
        for k in range(1, self.trials):
            ways = math.comb(self.trials, k)
            total = total + math.log(ways) * ways * p**k * (1 - p) ** (self.trials - k)
        return (total + 0 * p).sum(-1)


@dataclass(frozen=True)
class BinomialUnits(Units):
    """n units that count to `trials`, w(x) = bias . x + sum_j log C(trials, x_j).

    A unit is the sum of `trials` copies of a unit of 0 and 1 with the same bias and the same couplings: all that the
    rest of the machine sees of the copies. With 2 trials it is the layer that stands twice in the machines by which a
    deep Boltzmann machine is begun.

    Parameters
    ----------
    n : int, in [1, inf)
    trials : int, in [1, inf)

    References
    ----------
    Teh and Hinton (2001), "Rate-coded restricted Boltzmann machines for face recognition"; Salakhutdinov and Hinton
    (2009), "Deep Boltzmann machines", section 3.1.

    Examples
    --------
    >>> BinomialUnits(1, 2).states(np.arange(3)).tolist()
    [[0.0], [1.0], [2.0]]
    """

    trials: int = 2

    @property
    def n_states(self) -> float:
        """(trials + 1)^n, a whole number of any size."""
        return (self.trials + 1) ** self.n

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The digits of the numbers."""
        base = self.trials + 1
        return (numbers[:, None] // base ** np.arange(self.n - 1, -1, -1, dtype=np.int64) % base).astype(np.float64)

    @property
    def center(self) -> NDArray[np.float64]:
        """trials / 2."""
        return np.full(self.size, self.trials / 2)

    def conditional(self, field: Array, own: Own) -> Binomials:
        """Log-odds field + bias of each trial."""
        field += own["bias"]
        return Binomials(field, self.trials)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """trials times the sum of softplus(field + bias)."""
        field += own["bias"]
        return self.trials * ops.softplus(field).sum(-1)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """With the log of the number of ways to a count."""
        ways = x.mean_log_choices() if isinstance(x, Binomials) else log_choices(mean_of(x), self.trials).sum(-1)
        return mean_of(x) @ own["bias"] + ways

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Log-odds of the means as shares of the trials, which are kept between 0.01 and 0.99."""
        chance = np.clip(np.asarray(mean) / self.trials, 0.01, 0.99)
        return {"bias": np.log(chance) - np.log1p(-chance)}


def log_choices(x: Any, trials: int) -> Any:
    """log C(trials, x), continued to real x by the gamma function."""
    if hasattr(x, "lgamma"):
        return math.lgamma(trials + 1) - (x + 1).lgamma() - (trials - x + 1).lgamma()
    from scipy.special import gammaln

    return (math.lgamma(trials + 1) - gammaln(x + 1) - gammaln(trials - x + 1)).astype(x.dtype)
