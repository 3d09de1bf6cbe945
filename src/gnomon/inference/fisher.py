r"""Scores, Fisher information, the Cramer-Rao bound, and the natural gradient.

A parametrization is a callable that makes a distribution from parameters: ``lambda t: Normal(t[0], t[1].exp())`` is the
normal by its mean and the log of its deviation. It is given a tensor of shape (p, n), n copies of the p parameters, and
makes n distributions beside each other, so that every outcome has a derivative of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from gnomon.contracts import Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.conjugate_gradient import conjugate_gradient

__all__ = ["crlb", "fisher", "fisher_product", "natural_gradient", "score"]

Floats = NDArray[np.float64]
Parametrization = Callable[[Any], Any]

REACH, POINTS = 8.0, 400
"""Exact means of continuous outcomes: so many normal deviations, by so many points."""
MOST = 100_000
"""Outcomes of a count that are summed over at most."""
LEFT_OUT = 1e-15
"""Mass of counts that may be left out."""
IRREGULAR = 1e-4
"""Size of the mean score, in units of its deviation, from which on it is not 0."""


def score(make: Parametrization, theta: ArrayLike, x: Any) -> Floats:
    r"""The score of each outcome, :math:`\nabla_\theta \log p(x | \theta)`, shape (n, p).

    Its mean over outcomes of the distribution itself is 0.

    Parameters
    ----------
    make : callable
        From parameters of shape (p, n) to n distributions.
    theta : array of shape (p,)
    x : array of shape (n, ...)
        Outcomes.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> score(lambda t: Normal(t[0], t[1].exp()), [0.0, 0.0], [1.0, -2.0]).tolist()
    [[1.0, 0.0], [-2.0, 3.0]]
    """
    import torch

    outcomes = x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x))
    t = _copies(theta, len(outcomes))
    log_p = _made(make, t).log_prob(outcomes)
    if not isinstance(log_p, torch.Tensor) or not log_p.requires_grad or log_p.shape[:1] != outcomes.shape[:1]:
        what = f"make must give {len(outcomes)} distributions whose log_prob depends on the parameters"
        raise UserTypeError(what, "make", "build them from the tensor (p, n) that it is given")
    (found,) = torch.autograd.grad(log_p.sum(), t)
    return np.asarray(found.numpy().T, np.float64)


def fisher(
    make: Parametrization, theta: ArrayLike, method: Literal["exact", "empirical", "mc"] = "exact", *,
    x: Any = None, n: int = 10_000, noise: Noise | None = None,
) -> Floats:  # fmt: skip
    r"""Fisher information :math:`I(\theta) = E[s s^T]` of one outcome, s the score, shape (p, p).

    Parameters
    ----------
    make, theta
        As of `score`.
    method : {"exact", "empirical", "mc"}, default "exact"
        By the outcomes that there are or quadrature; by rows `x`, which is NOT the Fisher information unless they come
        from the distribution (its curvature is another one where the model is wrong or not yet fitted); or by n draws.
    x : array of shape (n, ...), for "empirical"
    n : int in [1, inf), default 10,000
        Draws, for "mc".
    noise : Noise, for "mc"

    Returns
    -------
    array of shape (p, p)

    Raises
    ------
    UserValueError
        A family whose support depends on its parameters, so that its score has another mean than 0 ("exact"); what a
        method needs and was not given.

    Notes
    -----
    "exact" sums over the outcomes of coins, categories and counts, and takes other families of one dimension by 400
    points along their quantiles: to 1e-8 or so for smooth densities. Source: Fisher (1925); Kunstner, Hennig and Balles
    (2019) for what the empirical one is not.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> fisher(lambda t: Normal(t[0], t[1].exp()), [1.0, 0.0]).diagonal().round(6).tolist()
    [1.0, 2.0]
    """
    import torch

    if method == "empirical":
        if x is None:
            raise UserValueError("the method 'empirical' needs rows", "x", "give them, or use exact or mc")
        scores = score(make, theta, x)
        return np.asarray(scores.T @ scores / len(scores))
    if method == "mc":
        if noise is None or n < 1:
            raise UserValueError("the method 'mc' needs noise, and n of at least 1", "noise", "give Noise(0, 'fisher')")
        with torch.no_grad():
            draws = _made(make, _copies(theta, n)).sample(noise.rows(np.arange(n)))
        scores = score(make, theta, draws)
        return np.asarray(scores.T @ scores / n)
    if method != "exact":
        raise UserValueError.must("method", "be exact, empirical or mc", method)
    outcomes, chances = _outcomes(_made(make, _copies(theta, 1)))
    scores = score(make, theta, outcomes)
    found = (scores * chances[:, None]).T @ scores
    mean = chances @ scores
    if (np.abs(mean) > IRREGULAR * np.sqrt(np.maximum(np.diag(found), 1e-300))).any():
        raise UserValueError(
            f"the mean score must be 0, got {mean.round(6).tolist()}: the support depends on the parameters", "make",
            "there is no Fisher information of such a family",
        )  # fmt: skip
    return np.asarray(found)


def crlb(make: Parametrization, theta: ArrayLike, n: int = 1, **options: Any) -> Floats:
    r"""The Cramer-Rao bound :math:`I^{-1} / n`: the least covariance of an unbiased estimator from n outcomes.

    Parameters
    ----------
    make, theta
        As of `score`.
    n : int in [1, inf), default 1
    **options
        Of `fisher`.

    Raises
    ------
    UserValueError
        Parameters that outcomes do not tell apart.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> crlb(lambda t: Normal(t[0], 2.0), [1.0], 100).round(6).tolist()
    [[0.04]]
    """
    if n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    information = fisher(make, theta, **options)
    if np.linalg.matrix_rank(information, hermitian=True) < len(information):
        raise UserValueError("the Fisher information is singular", "theta", "leave out what outcomes do not tell")
    return np.asarray(np.linalg.inv(information) / n)


def fisher_product(scores: ArrayLike) -> Callable[[Floats], Floats]:
    """Products of E[s s^T] over rows of scores (n, p) with vectors (p,) or (p, k), without the matrix.

    Examples
    --------
    >>> fisher_product([[1.0, 0.0], [0.0, 2.0]])(np.array([1.0, 1.0])).tolist()
    [0.5, 2.0]
    """
    s = np.asarray(scores, np.float64)
    return lambda v: s.T @ (s @ v) / len(s)


def natural_gradient(
    gradient: ArrayLike, information: ArrayLike | Callable[[Floats], Floats], *, damping: float = 0.0,
    rtol: float = 1e-12,
) -> Floats:  # fmt: skip
    r"""Steepest ascent in the space of distributions: :math:`(F + \lambda I)^{-1} g`.

    It does not depend on how the distributions are parametrized, but for the length of the step. In the natural
    parameters of an exponential family it is the gradient by the mean parameters.

    Parameters
    ----------
    gradient : array of shape (p,)
    information : array of shape (p, p), or callable
        F, or products with it: `fisher`, `fisher_product`.
    damping : float in [0, inf), default 0
        lambda.
    rtol : float, default 1e-12
        Of conjugate gradients, by which the system is solved.

    Raises
    ------
    UserValueError
        A singular F without damping.

    Notes
    -----
    Source: Amari (1998).

    Examples
    --------
    >>> p, mean = 0.3, 0.45  # of coins: a step of 1 reaches the most likely p
    >>> natural_gradient([(mean - p) / (p * (1 - p))], [[1 / (p * (1 - p))]]).round(6).tolist()
    [0.15]
    """
    g = np.asarray(gradient, np.float64)
    if not damping >= 0:
        raise UserValueError.must("damping", "be at least 0", damping)
    matrix = None if callable(information) else np.asarray(information, np.float64)

    def product(v: Floats) -> Floats:
        return (information(v) if matrix is None else matrix @ v) + damping * v  # type: ignore[operator]

    try:
        found = conjugate_gradient(product, g, rtol=rtol)
    except UserValueError:
        raise _singular() from None
    if not found.converged and found.residuals[-1] > 1e-6 * found.residuals[0]:
        raise _singular()
    return np.asarray(found.x)


def _singular() -> UserValueError:
    return UserValueError("the Fisher information must be positive definite", "information", "give a damping above 0")


def _copies(theta: ArrayLike, n: int) -> Any:
    import torch

    t = torch.as_tensor(np.array(theta, np.float64))
    if t.ndim != 1 or not len(t):
        raise UserValueError.must("theta", "be one row of parameters", np.asarray(theta))
    return t[:, None].expand(-1, n).clone().requires_grad_()


def _made(make: Parametrization, t: Any) -> Any:
    made = make(t)
    if not hasattr(made, "log_prob"):
        raise UserTypeError(f"make must give a distribution, got a {type(made).__name__}", "make")
    return made


def _outcomes(distribution: Any) -> tuple[Any, Floats]:
    """Outcomes and their chances, or points and their weights."""
    import torch

    from gnomon.distributions.bernoulli import Bernoulli
    from gnomon.distributions.table import Categorical

    with torch.no_grad():
        if isinstance(distribution, Bernoulli) and distribution.logits.shape[-1] == 1:
            outcomes = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        elif isinstance(distribution, Categorical):
            outcomes = torch.arange(distribution.logits.shape[-1])
        elif not hasattr(distribution, "icdf"):
            name = type(distribution).__name__
            raise UserTypeError(f"outcomes of {name} are not enumerated", "method", "use mc or empirical")
        else:
            return _quantiles(distribution)
        log_p = distribution.log_prob(outcomes)
        return outcomes, log_p.reshape(len(outcomes)).exp().double().numpy()


def _quantiles(distribution: Any) -> tuple[Any, Floats]:
    """Counts up to where next to no mass is left; else points where a normal variable has Gauss and Legendre's."""
    from gnomon.distributions.counts import Binomial, Geometric, NegativeBinomial, Poisson

    if isinstance(distribution, Binomial | Geometric | NegativeBinomial | Poisson):
        last = int(np.asarray(distribution.icdf(np.array([1 - LEFT_OUT]))).ravel()[0]) + 20
        if last > MOST:
            raise UserValueError(f"there are {last:,} counts to sum over", "method", "use mc")
        outcomes = np.arange(last + 1, dtype=np.float64)
        log_p = distribution.log_prob(outcomes)
        chances = np.exp(np.asarray(log_p).reshape(-1))
        inside = chances > 0
        return outcomes[inside], chances[inside]
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    t = REACH * nodes
    chances = REACH * weights * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi)
    points = np.asarray(distribution.icdf(special.ndtr(t)), np.float64).reshape(-1)
    return points, chances / chances.sum()
