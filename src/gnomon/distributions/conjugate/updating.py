"""Conjugate updates for people: a prior, data, and the posterior in closed form.

A prior is a *pair*: a distribution of a parameter together with the likelihood of the data, such as
`BernoulliBeta(ones=2, zeros=2)`. What comes back is a pair again, so that tomorrow's data goes on from today's
posterior:

>>> import gnomon
>>> posterior = gnomon.conjugate.update(gnomon.conjugate.BernoulliBeta(ones=2, zeros=2), [1, 1, 0, 1])
>>> posterior, float(posterior.distribution().mean)
(BernoulliBeta(ones=5.0, zeros=3.0), 0.625)
>>> posterior.remove([0]).update([0]) == posterior
True

``distribution()`` is the parameter's, ``predictive()`` the next row's, ``log_evidence(x)`` compares priors,
``remove(x)`` undoes an update.
"""

from __future__ import annotations

import inspect
from typing import Any

from numpy.typing import ArrayLike

from gnomon.distributions.conjugate.base import REGISTRY, Pair
from gnomon.distributions.conjugate.base import conjugate as _pair_class
from gnomon.errors import UserTypeError

__all__ = ["pairs", "prior", "update"]


def pairs() -> dict[tuple[str, str], str]:
    """Known pairs by the names of likelihood and prior, each with the parameters of its prior.

    Examples
    --------
    >>> pairs()["poisson", "gamma"]
    'PoissonGamma(concentration, rate)'
    """
    return {names: f"{cls.__name__}({', '.join(_parameters(cls))})" for names, cls in REGISTRY.items()}


def prior(likelihood: str, family: str, **parameters: Any) -> Pair:
    """A prior by name.

    Parameters
    ----------
    likelihood : str
        Of the data: "bernoulli", "categorical", "normal", "poisson" ...; `pairs` lists them.
    family : str
        Of the parameter's distribution: "beta", "dirichlet", "normal", "gamma" ...
    **parameters
        Of that distribution.

    Raises
    ------
    UserValueError
        A pair that is not known to be conjugate, with those that are; parameters out of range.
    UserTypeError
        Parameters that the distribution has not, or lacks.

    Examples
    --------
    >>> prior("poisson", "gamma", concentration=2, rate=1)
    PoissonGamma(concentration=2, rate=1)
    """
    cls = _pair_class(likelihood, family)
    try:
        return cls(**parameters)
    except TypeError as error:
        known = ", ".join(_parameters(cls))
        what = " ".join(str(error).split()).replace(f"{cls.__name__}.__init__()", f"{likelihood} with {family}")
        raise UserTypeError(what, "parameters", f"its parameters are {known}") from None


def update(prior: Pair | tuple[str, str], x: ArrayLike, weight: ArrayLike | None = None) -> Pair:
    """The posterior after data, in closed form.

    Parameters
    ----------
    prior : Pair, or names (likelihood, family)
        What was believed before; names stand for the distribution's default parameters.
    x : array of shape (n,), or (n, d) for vectors
        Rows that the likelihood can give.
    weight : array of shape (n,) or number, optional
        How often each row counts, >= 0; once by default.

    Returns
    -------
    Pair
        Of the same class. Cost: one pass over the rows.

    Raises
    ------
    UserValueError
        Rows that the likelihood cannot give, by row; weights below 0; an unknown pair.
    UserTypeError
        A prior that is none.

    References
    ----------
    Raiffa and Schlaifer (1961), "Applied statistical decision theory", chapter 3.

    Examples
    --------
    >>> update(("bernoulli", "beta"), [1, 1, 0], weight=[1, 1, 2])
    BernoulliBeta(ones=3.0, zeros=3.0)
    """
    if isinstance(prior, tuple) and len(prior) == 2 and all(isinstance(name, str) for name in prior):
        prior = _named(*prior)
    if not isinstance(prior, Pair):
        known = ", ".join(f"{one} with {other}" for one, other in REGISTRY)
        raise UserTypeError(
            f"{type(prior).__name__} is not a prior", "prior", f"give a pair, or (likelihood, family) of: {known}"
        )
    return prior.update(x, weight)


def _named(likelihood: str, family: str) -> Pair:
    return prior(likelihood, family)


def _parameters(cls: type[Pair]) -> list[str]:
    return [name for name in inspect.signature(cls).parameters if name != "self"]
