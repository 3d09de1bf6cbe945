r"""The evidence lower bound of any q, its two terms, and the identity that it comes from.

.. math:: \log p(x) = \mathcal L(q) + KL(q \| p(z | x)), \qquad
          \mathcal L(q) = E_q[\log p(x, z) - \log q(z)] = E_q[\log p(x | z)] - KL(q \| p(z)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.distributions.family import kl_divergence
from gnomon.distributions.real import Normal
from gnomon.distributions.table import Categorical
from gnomon.distributions.vectors import MultivariateNormal
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.inference.arrays import to_numpy
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.exact.posterior import ExactPosterior, codes
from gnomon.inference.mcmc.density import as_density
from gnomon.inference.variational.nodes import half_of, standard_nodes
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import how_many

__all__ = ["BoundCheck", "ElboTerms", "SolvedModel", "check_bound", "elbo", "elbo_terms", "free_energy"]

Floats = NDArray[np.float64]

DRAWS = 1000
MOST_UNITS = 16
"""Binary latents whose states are all visited."""
ERRORS = 4.0
"""Standard errors by which estimates of the two sides of the identity may differ: 1 in 16,000 does by chance."""
ROUNDING = 1e-8


class _Points(NamedTuple):
    """Where an expectation under q is taken: points (S, ...) and their weights (S,) or (S, rows)."""

    z: Any
    log_q: Floats
    weight: Floats
    exact: bool
    rough: Floats | None = None
    """Weights of half the nodes of a quadrature."""


def elbo(
    q: Any, log_joint: Callable[..., Any], n_samples: int | None = None, *, x: Array | None = None,
    random_state: Any = 0,
) -> Score:  # fmt: skip
    r"""The evidence lower bound :math:`E_q[\log p(x, z) - \log q(z)]` of a distribution q.

    log q is taken at the same draws as log p, so that the estimate has no variance where q is the posterior. Where q is
    certain, 0 log 0 is 0; where q goes and p is 0 the bound is -inf. A distribution of continuous z without spread has
    no bound: its entropy is -inf.

    Parameters
    ----------
    q : distribution
        Of the library's families, with a batch of one axis taken for independent coordinates; `Bernoulli` and
        `Categorical`; the ``q_`` of a fit, or the fit.
    log_joint : callable
        Draws (n, ...) to (n,): log p(x, z) in nats; of named parameters a mapping of tensors. With `x` it is called
        with rows of x and of z, as ``log_joint`` of a model with latents is.
    n_samples : int in [2, inf), optional
        Draws of q. Without it the expectation is exact where it can be: over all states of up to 16 binary units or of
        a category, by quadrature for normal q of one or two dimensions; else 1,000 draws.
    x : array of shape (rows, ...), optional
        Observations, for a q with one row each: `Bernoulli` with logits (rows, k). The score is then their mean.
    random_state : int, None or NumPy generator, default 0

    Returns
    -------
    Score
        Kind ``lower bound``: on average, since an estimate can lie above log p(x) by its ``error``. Of many `x` it is
        the mean over them, with their values in ``pointwise``; their sum is the bound of all.

    Raises
    ------
    UserTypeError, UserValueError
        A q that can be neither summed nor drawn from, answers of another shape.

    References
    ----------
    Jordan, Ghahramani, Jaakkola and Saul (1999), "An introduction to variational methods for graphical models".

    Examples
    --------
    >>> y = np.array([1.0, 2.0, 3.0])
    >>> def log_joint(z):  # y ~ N(z, 1), z ~ N(0, 1)
    ...     return -0.5 * ((y - z[:, None]) ** 2).sum(1) - 0.5 * z**2 - 2 * np.log(2 * np.pi)
    >>> round(elbo(Normal(0.0, 1.0), log_joint).value, 6), round(elbo(Normal(1.5, 0.5), log_joint).value, 6)
    (-11.256816, -5.949963)
    """
    points = _points(q, n_samples, Noise(seed_of(random_state), "elbo"))
    if x is not None:
        terms = _weighted(points.weight, _by_row(log_joint, x, points) - points.log_q)
        return Score.from_pointwise(terms.sum(0), kind="lower bound", name="log_evidence")
    value, error = _mean(points, _log_joint(log_joint, points.z) - points.log_q)
    return Score(value, error=error, kind="lower bound", name="log_evidence")


def free_energy(q: Any, log_joint: Callable[..., Any], n_samples: int | None = None, *, random_state: Any = 0) -> Score:
    """Variational free energy, minus the bound: an upper bound of -log p(x); parameters as in `elbo`.

    Examples
    --------
    >>> round(free_energy(Normal(0.0, 1.0), Normal(0.0, 1.0).log_prob).value, 6)  # of a normalized density 0 at best
    0.0
    """
    bound = elbo(q, log_joint, n_samples, random_state=random_state)
    return Score(-bound.value + 0.0, error=bound.error, kind="upper bound", name="free_energy", higher_is_better=False)


class ElboTerms(NamedTuple):
    """The bound as a data term and a regularizer.

    Attributes
    ----------
    data, data_error : float
        :math:`E_q[\\log p(x | z)]` in nats, `scale` times what the rows at hand give, and its standard error.
    kl, kl_error : float
        KL(q || p(z)); the error is 0 for a closed form.
    """

    data: float
    data_error: float
    kl: float
    kl_error: float

    @property
    def bound(self) -> float:
        """data - kl."""
        return self.data - self.kl


def elbo_terms(
    q: Any, log_likelihood: Callable[[Any], Any], prior: Any, n_samples: int | None = None, *, scale: float = 1.0,
    random_state: Any = 0,
) -> ElboTerms:  # fmt: skip
    r"""The two terms of the bound, :math:`E_q[\log p(x | z)]` and :math:`KL(q \| p(z))`.

    Parameters
    ----------
    q, n_samples, random_state
        As in `elbo`.
    log_likelihood : callable
        Draws (n, ...) to (n,): log p(x | z) in nats of the rows at hand.
    prior : distribution
        With a divergence in closed form from q where there is one (`kl_divergence`); else it is estimated.
    scale : float > 0, default 1
        n / b where the rows at hand are a batch of b out of n: the data term alone is multiplied.

    Examples
    --------
    >>> y = np.array([1.0, 2.0, 3.0])
    >>> def log_likelihood(z):
    ...     return -0.5 * ((y - z[:, None]) ** 2).sum(1) - 1.5 * np.log(2 * np.pi)
    >>> found = elbo_terms(Normal(1.5, 0.5), log_likelihood, Normal(0.0, 1.0))
    >>> round(found.data, 6), round(found.kl, 6), round(found.bound, 6)
    (-4.506816, 1.443147, -5.949963)
    """
    if not 0 < scale < math.inf:
        raise UserValueError.must("scale", "be positive and finite", scale)
    points = _points(q, n_samples, Noise(seed_of(random_state), "elbo"))
    data, error = _mean(points, _log_joint(log_likelihood, points.z))
    return ElboTerms(scale * data, scale * error, *_divergence(q, prior, points))


# --- the identity -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SolvedModel:
    """A joint density whose evidence and posterior are known: what a bound is checked against.

    Parameters
    ----------
    log_joint : callable
        Draws (n, ...) to (n,), log p(x, z) in nats.
    posterior : distribution
        p(z | x), with ``log_prob``.
    log_evidence : float
        log p(x).
    """

    log_joint: Callable[[Any], Any]
    posterior: Any
    log_evidence: float

    @classmethod
    def of_pair(cls, pair: Any, x: ArrayLike, log_likelihood: Callable[[Any], Any]) -> Self:
        """A conjugate pair given rows; `log_likelihood` is log p(x | z) of draws, (n,)."""
        prior = pair.distribution()
        return cls(
            lambda z: np.asarray(prior.log_prob(z)) + to_numpy(log_likelihood(z)),
            pair.update(x).distribution(), pair.log_evidence(x),
        )  # fmt: skip

    @classmethod
    def linear_gaussian(cls, model: LinearGaussian, v: ArrayLike) -> Self:
        """A linear-Gaussian model given one observation, (d,)."""
        row = np.asarray(v, np.float64)
        mean, covariance = model.posterior(row[None])
        prior = MultivariateNormal(np.zeros(model.W.shape[1]), np.eye(model.W.shape[1]))
        spread = model.noise if model.noise.ndim == 2 else np.diag(np.broadcast_to(model.noise, len(model.b)))
        noise = MultivariateNormal(np.zeros(len(row)), spread)
        return cls(
            lambda z: prior.log_prob(z) + noise.log_prob(row - model.b - z @ model.W.T),
            MultivariateNormal(mean[0], covariance), float(model.log_prob(row[None])[0]),
        )  # fmt: skip

    @classmethod
    def enumerated(cls, log_joint: Callable[[Any, Any], Any], x: ArrayLike, units: int) -> Self:
        """Binary latents, every state in turn: ``log_joint(x, h)`` of rows; `x` is one observation, (1, ...)."""
        row = np.asarray(x, np.float64)
        engine = ExactPosterior(log_joint, units)
        log_p = np.log(np.maximum(engine.posterior(row)[0], np.finfo(float).tiny))
        weights = 1 << np.arange(units - 1, -1, -1)
        return cls(
            lambda z: log_joint(np.repeat(row, len(z), axis=0), z), _Listed(log_p, weights),
            float(engine.log_evidence(row)[0]),
        )  # fmt: skip


@dataclass(frozen=True)
class _Listed:
    """A distribution of binary rows by the list of its log probabilities."""

    log_p: Floats
    weights: NDArray[np.int64]

    def log_prob(self, z: ArrayLike) -> Floats:
        found: Floats = self.log_p[(np.asarray(z).astype(np.int64) @ self.weights)]
        return found


@dataclass(frozen=True)
class BoundCheck:
    """Both sides of the identity log p(x) = bound + KL(q || posterior).

    Parameters
    ----------
    elbo : Score
    kl, kl_error : float
        KL(q || p(z | x)) in nats and its standard error, from draws other than those of the bound or in closed form.
    log_evidence : float
    """

    elbo: Score
    kl: float
    kl_error: float
    log_evidence: float

    @property
    def gap(self) -> float:
        """log p(x) - bound: what the divergence must be."""
        return self.log_evidence - self.elbo.value

    @property
    def passed(self) -> bool:
        """Whether gap and divergence agree within 4 standard errors, and the bound is one."""
        slack = ERRORS * math.hypot(self.elbo.error, self.kl_error) + ROUNDING * max(1.0, abs(self.log_evidence))
        return abs(self.gap - self.kl) <= slack and self.gap >= -slack

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "the identity holds" if self.passed else "the identity is broken"
        return f"{verdict}: {self.elbo.value:.6f} + {self.kl:.6f} = {self.log_evidence:.6f} nats"


def check_bound(model: Any, q: Any, n_samples: int | None = None, *, random_state: Any = 0) -> BoundCheck:
    """Whether log p(x) = bound + KL(q || p(z | x)) for a q, on a model whose evidence and posterior are known.

    Parameters
    ----------
    model : object with ``log_joint``, ``posterior`` and ``log_evidence``
        See `SolvedModel`.
    q, n_samples, random_state
        As in `elbo`.

    Examples
    --------
    >>> model = SolvedModel.linear_gaussian(LinearGaussian([[1.0, 2.0]]), [3.0])
    >>> check = check_bound(model, Normal(np.array([0.5, 1.0]), np.sqrt([0.5, 0.2])))
    >>> print(check)
    the identity holds: -2.820231 + 0.255413 = -2.564818 nats
    """
    bound = elbo(q, model.log_joint, n_samples, random_state=random_state)
    points = _points(q, n_samples, Noise(seed_of(random_state), "elbo/divergence"))
    return BoundCheck(bound, *_divergence(q, model.posterior, points), float(model.log_evidence))


# --- expectations under q ---------------------------------------------------------------------------------------------


def _points(q: Any, n_samples: int | None, noise: Noise) -> _Points:
    q = getattr(q, "q_", q)
    if n_samples is None:
        found = _exact(q)
        if found is not None:
            return found
    n = DRAWS if n_samples is None else how_many(n_samples, "n_samples")
    if n < 2:
        raise UserValueError.must("n_samples", "be at least 2", n)
    z = _drawn(q, n, noise)
    return _Points(z, _log_q(q, z), np.full(n, 1 / n), False)


def _exact(q: Any) -> _Points | None:
    """All states, or nodes of a quadrature; None where there is neither."""
    if isinstance(q, Bernoulli) and q.logits.shape[-1] <= MOST_UNITS:
        z = codes(np.arange(1 << q.logits.shape[-1]), (2,) * q.logits.shape[-1]).astype(np.float64)
        log_q = to_numpy(q.log_prob(z[:, None] if q.logits.ndim > 1 else z))
        return _Points(z, log_q, np.exp(log_q), True)
    if isinstance(q, Categorical) and q.logits.ndim == 1:
        z = np.arange(len(q.logits), dtype=np.float64)
        log_q = to_numpy(q.log_prob(z))
        return _Points(z, log_q, np.exp(log_q), True)
    k = _dimensions(q)
    if k not in (1, 2):
        return None
    e, weight = standard_nodes(k, 0, Noise(0, "elbo"))
    if isinstance(q, MultivariateNormal):
        z = q.loc + e @ np.linalg.cholesky(q.covariance).T
    else:
        z = to_numpy(q.mean) + np.sqrt(to_numpy(q.variance)) * (e if q.batch_shape else e[:, 0])
    return _Points(z, _log_q(q, z), weight, True, half_of(e, weight))


def _dimensions(q: Any) -> int:
    """Of a normal distribution whose expectations a quadrature takes; 0 for others."""
    if isinstance(q, MultivariateNormal):
        return len(q.loc)
    if isinstance(q, Normal) and len(q.batch_shape) <= 1:
        return math.prod(q.batch_shape)
    return 0


def _drawn(q: Any, n: int, noise: Noise) -> Any:
    if isinstance(q, Bernoulli):
        return Bernoulli(np.broadcast_to(to_numpy(q.logits), (n, *q.logits.shape)).copy()).sample(noise)
    if not hasattr(q, "sample"):
        raise UserTypeError(f"q must be a distribution with sample and log_prob, got a {type(q).__name__}", "q")
    if hasattr(q, "marginals"):  # of named parameters
        return q.sample(n, noise)
    return q.sample(noise, 0, (n,))


def _log_q(q: Any, z: Any) -> Floats:
    """log q of each draw, coordinates that are independent summed."""
    log_q = to_numpy(q.log_prob(z))
    return log_q.reshape(len(log_q), -1).sum(1)


def _log_joint(log_joint: Any, z: Any) -> Floats:
    """At draws; arrays or tensors as the function takes them."""
    if not isinstance(z, Mapping):
        return to_numpy(as_density(log_joint).log_prob(np.asarray(z, np.float64)))
    import torch

    with torch.no_grad():
        return to_numpy(log_joint({name: torch.from_numpy(np.ascontiguousarray(one)) for name, one in z.items()}))


def _by_row(log_joint: Callable[..., Any], x: Array, points: _Points) -> Floats:
    """At every state of every observation, (S, rows)."""
    rows, states = len(x), len(points.z)
    if not points.exact or points.weight.shape != (states, rows):
        what = f"q must be Bernoulli with a row of logits for each of the {rows} observations"
        raise UserTypeError(what, "q", "score other q by gnomon.evaluation.latent_score")
    left, right = np.tile(np.arange(rows), states), np.repeat(np.arange(states), rows)
    return to_numpy(log_joint(x[left], points.z[right])).reshape(states, rows)


def _divergence(q: Any, p: Any, points: _Points) -> tuple[float, float]:
    """KL(q || p) and its error: by the closed form where there is one, else at points of q."""
    try:
        return float(np.sum(to_numpy(kl_divergence(q, p)))), 0.0
    except (UserTypeError, AttributeError, NotImplementedError):
        pass
    return _mean(points, points.log_q - _log_q(p, points.z))


def _mean(points: _Points, signal: Floats) -> tuple[float, float]:
    """An expectation and its error: of draws, or how far half the nodes of a quadrature are from all."""
    value = float(_weighted(points.weight, signal).sum())
    if points.rough is not None:
        return value, abs(value - float(_weighted(points.rough, signal).sum()))
    if points.exact:
        return value, 0.0
    return value, float(signal.std(ddof=1) / math.sqrt(len(signal))) if np.isfinite(signal).all() else math.inf


def _weighted(weight: Floats, signal: Floats) -> Floats:
    """Terms of an expectation; 0 where the weight is."""
    return np.where(weight > 0, weight * np.where(weight > 0, signal, 0.0), 0.0)
