"""Joint distributions of an unknown mean and precision: normal-gamma for numbers, normal-Wishart for vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gnomon.distributions.family import Floats, axes, kl_divergence, normal
from gnomon.distributions.positive import Gamma
from gnomon.distributions.real import Normal, StudentT
from gnomon.distributions.vectors import MultivariateStudentT, Wishart, positive_definite, vectors
from gnomon.errors import UserValueError
from gnomon.numeric.given import check_fields, checked, floats, outcomes

__all__ = ["NormalGamma", "NormalWishart"]


@dataclass(frozen=True)
class NormalGamma:
    r"""Mean and precision t of a normal number: ``t ~ Gamma(a, b)``, ``mean | t ~ N(m, 1 / (k t))``.

    Parameters
    ----------
    loc : float
        m.
    strength : float, positive
        k, how many rows m is worth.
    concentration, rate : float, positive
        a and b (b is no scale).

    References
    ----------
    Raiffa and Schlaifer (1961), section 11.5; Murphy (2007), section 3.

    Examples
    --------
    >>> distribution = NormalGamma(0.0, 1.0, 2.0, 1.0)
    >>> float(distribution.log_prob(0.0, 1.0).round(6)), distribution.precision_distribution().mean.tolist()
    (-1.918939, 2.0)
    """

    loc: float
    strength: float
    concentration: float
    rate: float

    def __post_init__(self) -> None:
        check_fields(self)
        if not math.isfinite(self.loc):
            raise UserValueError.must("loc", "be finite", self.loc)
        for name in ("strength", "concentration", "rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserValueError(f"{name} must be positive and finite, got {getattr(self, name):g}", name)

    def precision_distribution(self) -> Gamma:
        """Marginal distribution of the precision."""
        return Gamma(self.concentration, self.rate)

    def mean_distribution(self) -> StudentT:
        """Marginal distribution of the mean: Student t with 2 a degrees of freedom and squared scale b / (a k)."""
        return StudentT(2 * self.concentration, self.loc, math.sqrt(self.rate / (self.concentration * self.strength)))

    def log_prob(self, mean: ArrayLike, precision: ArrayLike) -> Floats:
        """Joint log density in nats of means and precisions, shape of their broadcast; -inf for precisions < 0.

        At a precision of 0 infinite for a concentration below 1/2 and 0 above, as near it.
        """
        precision = floats(precision, "precision")
        mean = outcomes(mean, "mean", precision.shape)
        possible = precision > 0
        safe = np.where(possible, precision, 1.0)
        given: Floats = Normal(self.loc, 1 / np.sqrt(self.strength * safe)).log_prob(np.asarray(mean, np.float64))
        inside = given + self.precision_distribution().log_prob(safe)
        a = self.concentration
        edge = a * math.log(self.rate) - math.lgamma(a) + 0.5 * math.log(self.strength / (2 * math.pi))
        edge += float(special.xlogy(a - 0.5, 0.0))
        return np.where(possible, inside, np.where((precision == 0) & np.isfinite(mean), edge, -np.inf))

    def entropy(self) -> float:
        """Entropy in nats: that of the precision, and of the mean given it on average."""
        mean_log = float(special.digamma(self.concentration)) - math.log(self.rate)
        given = 0.5 * (1 + math.log(2 * math.pi) - math.log(self.strength) - mean_log)
        return float(self.precision_distribution().entropy()) + given

    def _kl(self, other: NormalGamma) -> float:
        precision = self.precision_distribution()
        square = (self.loc - other.loc) ** 2 * float(precision.mean)
        given = _kl_of_means(self.strength, other.strength, 1, square)
        return float(kl_divergence(precision, other.precision_distribution())) + given

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> tuple[Floats, Floats]:
        """Means and precisions, each of `shape`; two calls of noise."""
        precision = np.asarray(self.precision_distribution().sample(noise, draw, shape), np.float64)
        z = normal(noise, shape, draw + 1)
        return self.loc + z / np.sqrt(self.strength * precision), precision


class NormalWishart:
    r"""Mean and precision matrix of a normal vector: ``L ~ Wishart(n, V)``, ``mean | L ~ N(m, (k L)^-1)``.

    Parameters
    ----------
    loc : array of shape (d,)
        m.
    strength : float, positive
        k, how many rows m is worth.
    df : float above d - 1
        n.
    scale : array of shape (d, d), positive definite
        V, not its inverse: the mean precision is n V.

    References
    ----------
    Bishop (2006), equation 2.157; Murphy (2007), section 8.

    Examples
    --------
    >>> distribution = NormalWishart([0.0], 1.0, 4.0, [[0.5]])  # a normal-gamma distribution with a = 2, b = 1
    >>> float(distribution.log_prob([0.0], [[1.0]]).round(6))
    -1.918939
    """

    @checked
    def __init__(self, loc: ArrayLike, strength: float, df: float, scale: ArrayLike) -> None:
        self.loc = floats(loc, "loc")
        if self.loc.ndim != 1 or not self.loc.size or not np.isfinite(self.loc).all():
            raise UserValueError.must("loc", "be d finite numbers", self.loc)
        if not 0 < strength < math.inf:
            raise UserValueError(f"strength must be positive and finite, got {strength:g}", "strength")
        self.strength, self.df = float(strength), float(df)
        self.scale = positive_definite(scale, "scale", len(self.loc))
        self._wishart = Wishart(df, self.scale)

    def precision_distribution(self) -> Wishart:
        """Marginal distribution of the precision matrix."""
        return self._wishart

    def mean_distribution(self) -> MultivariateStudentT:
        """Marginal distribution of the mean: Student t with n - d + 1 degrees of freedom."""
        df = self.df - len(self.loc) + 1
        return MultivariateStudentT(df, self.loc, np.linalg.inv(self.scale) / (df * self.strength))

    def log_prob(self, mean: ArrayLike, precision: ArrayLike) -> Floats:
        """Joint log density in nats of means (..., d) and matrices (..., d, d); -inf where one is not definite."""
        d = len(self.loc)
        matrices, offset = vectors(precision, "precision", (d, d)), vectors(mean, "mean", (d,)) - self.loc
        try:
            np.broadcast_shapes(matrices.shape[:-2], offset.shape[:-1])
        except ValueError:
            what = (
                f"mean and precision must broadcast, got {offset.shape[:-1]} means and {matrices.shape[:-2]} precisions"
            )
            raise UserValueError(what, "mean, precision") from None
        first = self._wishart.log_prob(matrices)
        matrices = np.where(np.isfinite(first)[..., None, None], matrices, np.eye(d))
        far = np.asarray(np.isinf(offset).any(-1))
        offset = np.where(far[..., None], 0.0, offset)
        log_det = np.linalg.slogdet(matrices)[1]
        square = (offset * np.matmul(matrices, offset[..., None])[..., 0]).sum(-1)
        given = 0.5 * (d * math.log(self.strength / (2 * math.pi)) + log_det - self.strength * square)
        return np.where(np.isfinite(first) & ~far, first + given, -np.inf)

    def entropy(self) -> float:
        """Entropy in nats: that of the precision, and of the mean given it on average."""
        d = len(self.loc)
        given = 0.5 * (d * (1 + math.log(2 * math.pi / self.strength)) - self._wishart.mean_log_determinant)
        return self._wishart.entropy() + given

    def _kl(self, other: NormalWishart) -> float:
        offset = self.loc - other.loc
        square = float(offset @ self._wishart.mean @ offset)
        given = _kl_of_means(self.strength, other.strength, len(self.loc), square)
        return float(kl_divergence(self._wishart, other._wishart)) + given

    def sample(self, noise: Any, draw: int = 0, shape: tuple[int, ...] = ()) -> tuple[Floats, Floats]:
        """Means ``shape + (d,)`` and precisions ``shape + (d, d)``; three calls of noise."""
        precision = self._wishart.sample(noise, draw, shape)
        z = normal(noise, (*axes(shape), len(self.loc)), draw + 2)
        root = np.linalg.cholesky(self.strength * precision)
        offset = np.linalg.solve(np.swapaxes(root, -1, -2), z[..., None])[..., 0]  # covariance (k L)^-1
        return self.loc + offset, precision


def _kl_of_means(k: float, other: float, d: int, square: float) -> float:
    """Of normal means given one precision, averaged over it; `square` is the mean squared offset in its units."""
    return 0.5 * (d * (other / k - 1 - math.log(other / k)) + other * square)
