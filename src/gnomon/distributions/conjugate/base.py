"""What the pairs share: update, removal, evidence; the registry; the check of conditional conjugacy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from gnomon.distributions.family import Floats, kl_divergence
from gnomon.errors import UserTypeError, UserValueError, nearest
from gnomon.numeric.given import answers, checked, floats

__all__ = ["Pair", "Spread", "conjugate", "is_conjugate", "same_up_to_a_constant"]


REGISTRY: dict[tuple[str, str], type[Pair]] = {}
"""Pairs by the names of likelihood and prior."""


class Spread(NamedTuple):
    """Variance of the next row in its two parts, which add up to the predictive's; infinite where they do not exist.

    Parameters
    ----------
    epistemic : float or array
        Variance of the row's mean over the parameter: doubt that more rows take away.
    aleatoric : float or array
        Mean of the row's variance given the parameter: what stays.
    """

    epistemic: Any
    aleatoric: Any


class Pair(ABC):
    """Base of the pairs: distributions of a parameter that a likelihood leaves in their family."""

    likelihood: ClassVar[str] = ""
    prior: ClassVar[str] = ""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cls.likelihood:
            REGISTRY[cls.likelihood, cls.prior] = cls

    @abstractmethod
    def _moved(self, x: Floats, weight: Floats) -> Self:
        """The distribution after rows with weights; negative weights take rows out."""

    def _log_base(self, x: Floats, weight: Floats) -> float:
        """Sum of the factors of the likelihood that hold no parameter; what `_log_evidence` is made from here."""
        raise NotImplementedError

    @property
    @abstractmethod
    def log_normalizer(self) -> float:
        """Log of what divides the unnormalized distribution: evidence is a ratio of two of them."""

    @abstractmethod
    def distribution(self) -> Any:
        """Distribution of the parameter."""

    @abstractmethod
    def predictive(self) -> Any:
        """Distribution of the next row, the parameter averaged out."""

    @abstractmethod
    def spread(self) -> Spread:
        """Variance of the next row: what is not known of its mean, and what it has in itself."""

    @property
    def natural(self) -> Floats:
        """Natural parameters on one axis: `update` adds to them, and their averages are pairs again.

        Raises
        ------
        UserTypeError
            A pair that is no exponential family.
        """
        raise _no_family(self)

    def with_natural(self, natural: ArrayLike) -> Self:
        """The pair of these natural parameters; all else, such as a known variance, is this one's.

        Raises
        ------
        UserTypeError
            As `natural`.
        """
        raise _no_family(self)

    def mean_log_likelihood(self, x: ArrayLike) -> Floats:
        """E[log p(x | parameter)] of each row in nats, shape (n,): below `log_predictive` by Jensen's inequality."""
        return self._mean_log_likelihood(self._rows(x))

    def _mean_log_likelihood(self, x: Floats) -> Floats:
        raise _no_family(self)

    def divergence(self, other: Pair) -> float:
        """KL of this distribution of the parameter from another's, in nats."""
        return float(kl_divergence(self.distribution(), other.distribution()))

    def _rows(self, x: ArrayLike) -> Floats:
        """Rows that the likelihood can give."""
        return finite(x, 1)

    def update(self, x: ArrayLike, weight: ArrayLike | None = None) -> Self:
        """The posterior after rows, each counted `weight` times (1 where left out).

        Raises
        ------
        UserValueError
            Rows that the likelihood cannot give.
        """
        rows = self._rows(x)
        return self._moved(rows, weights_of(weight, len(rows)))

    def remove(self, x: ArrayLike, weight: ArrayLike | None = None) -> Self:
        """The distribution before these rows were added.

        Raises
        ------
        UserValueError
            Rows that were never added: parameters would leave their range.
        """
        rows = self._rows(x)
        return self._moved(rows, -weights_of(weight, len(rows)))

    def log_evidence(self, x: ArrayLike, weight: ArrayLike | None = None) -> float:
        """Log probability (density) in nats of the rows in their order, the parameter averaged out."""
        rows = self._rows(x)
        return self._log_evidence(rows, weights_of(weight, len(rows)))

    def _log_evidence(self, x: Floats, weight: Floats) -> float:
        return self._moved(x, weight).log_normalizer - self.log_normalizer + self._log_base(x, weight)

    def log_predictive(self, x: ArrayLike) -> Floats:
        """Log probability (density) in nats of each row as the next one, shape (n,)."""
        log_p: Floats = np.asarray(self.predictive().log_prob(self._rows(x)), np.float64)
        return log_p


def _no_family(pair: Pair) -> UserTypeError:
    return UserTypeError.must("prior", "be an exponential family", pair, remedy="choose another pair")


def conjugate(likelihood: str, prior: str) -> type[Pair]:
    """The pair of a likelihood and a prior.

    Parameters
    ----------
    likelihood : {"normal", "bernoulli", "categorical", "poisson", "uniform", "multivariate-normal"}
    prior : str
        Its family.

    Raises
    ------
    UserValueError
        A pair that is not known to be conjugate, with those that are.

    Examples
    --------
    >>> conjugate("poisson", "gamma").__name__
    'PoissonGamma'
    """
    pair = REGISTRY.get((str(likelihood), str(prior)))
    if pair is not None:
        return pair
    known = [f"{one} with {other}" for one, other in REGISTRY]
    close = nearest(f"{likelihood} with {prior}", known) or known
    raise UserValueError(
        f"{likelihood} with {prior} is not a known conjugate pair", "likelihood, prior", f"known: {', '.join(close)}"
    )


def is_conjugate(likelihood: str, prior: str) -> bool:
    """Whether a posterior stays in the prior's family, as far as the registry knows."""
    try:
        conjugate(likelihood, prior)
    except UserValueError:
        return False
    return True


@checked
def same_up_to_a_constant(
    log_joint: Callable[[Any], ArrayLike],
    log_distribution: Callable[[Any], ArrayLike],
    grid: Any,
    *,
    tolerance: float = 1e-10,
) -> bool:
    """Whether a conditional of a joint density is a given distribution: their logs differ by a constant over a grid.

    The check of conditional conjugacy that Gibbs sampling and mean field rest on: `log_joint` as a function of one
    block with the others held, `log_distribution` a candidate for that block.

    Parameters
    ----------
    log_joint, log_distribution : callables
        Of the grid, giving log densities in nats, shape (n,).
    grid : array
        Values of the block, first axis n >= 3.
    tolerance : float > 0, default 1e-10
        Largest allowed spread of the difference, relative to the largest magnitude.
    """
    joint = floats(log_joint(grid), "log_joint")
    distribution = answers(log_distribution(grid), joint.shape, "log_distribution")
    if joint.ndim != 1 or len(joint) < 3 or not (np.isfinite(joint) & np.isfinite(distribution)).all():
        raise UserValueError.must("grid", "have 3 or more points of finite log density", joint)
    difference = joint - distribution
    size = max(1.0, float(np.abs(joint).max()), float(np.abs(distribution).max()))
    return bool(np.ptp(difference) <= tolerance * size)


def finite(x: ArrayLike, ndim: int) -> Floats:
    """Finite rows with this number of axes; one row may come without its axis."""
    values = floats(x, "x")
    values = values[None] if values.ndim == ndim - 1 else values
    if values.ndim != ndim:
        raise UserValueError.must("x", f"be an array of {ndim} axes", values)
    return allowed(values, np.isfinite, "not finite")


def allowed(values: Floats, test: Callable[[Floats], Any], words: str) -> Floats:
    """The values, or the refusal of the first that fails the test."""
    bad = ~np.asarray(test(values))
    if bad.any():
        at = np.argwhere(bad)[0].tolist()
        row = f"row {at[0]}" + (f", column {at[1]}" if len(at) > 1 else "")
        raise UserValueError(
            f"x must be possible under the likelihood, got {values[tuple(at)]}, which is {words}", row, "drop the row"
        )
    return values


def weights_of(weight: ArrayLike | None, n: int) -> Floats:
    """How often each row counts: one number each, at least 0."""
    if weight is None:
        return np.ones(n)
    values = floats(weight, "weight")
    if values.shape not in ((), (n,)):
        raise UserValueError.must("weight", f"have one value for each of the {n} rows", values)
    values = np.broadcast_to(values, (n,))
    return allowed(values, lambda v: np.isfinite(v) & (v >= 0), "negative or not finite")


def positive(**values: float) -> None:
    """Refuse prior parameters that are not positive."""
    for name, value in values.items():
        if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not 0 < value < math.inf:
            raise UserValueError(f"{name} must be positive and finite, got {value!s:.40}", name, "choose another prior")


def real(**values: float) -> None:
    """Refuse prior parameters that are not finite."""
    for name, value in values.items():
        if not math.isfinite(value):
            raise UserValueError(f"{name} must be finite, got {value}", name, "choose another prior")


def in_range(*values: Any) -> None:
    """Refuse a removal that leaves no distribution."""
    if not all(value > 0 for value in values):
        raise UserValueError("x must hold only rows that update has added", "x")
