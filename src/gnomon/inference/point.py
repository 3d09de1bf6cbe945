"""Point estimates of the parameters of a family: maximum likelihood and maximum a posteriori."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from gnomon.distributions.family import Family
from gnomon.errors import UserValueError
from gnomon.inference.fisher import fisher, natural_gradient
from gnomon.numeric.minimization import minimize

__all__ = ["PointEstimate", "maximum_a_posteriori", "maximum_likelihood"]

Floats = NDArray[np.float64]

Method = Literal["quasi-newton", "conjugate-gradient", "natural-gradient"]
"""How a maximum is climbed."""

_STEPS = 500
_DAMPING = 1e-9
_FLAT = 1e-5
_FAR = 15.0  # in logs or log-odds from the start: a factor of three millions


@dataclass(frozen=True, eq=False)
class PointEstimate:
    """The most likely distribution of a family.

    Parameters
    ----------
    distribution : Family
        The plug-in prediction of the next row: the family at the estimate, which leaves out the doubt about it.
    parameters : dict of str to float
        The fitted ones.
    log_likelihood : float
        Of all rows at the estimate, in nats (without a prior).
    objective : float
        What was made greatest: the log-likelihood, plus the log prior where there is one, plus the log derivative where
        it is the mode of logs and log-odds.
    covariance : array of shape (k, k)
        Inverse of the observed information (minus the second derivatives of the objective) in the order of
        `parameters`: Laplace's covariance where there is a prior. Of a mode of logs and log-odds it is taken there and
        brought to the parameters by their derivatives.
    log_posterior : callable
        Log-likelihood plus log prior of other values of the fitted parameters (a dict), not normalized.
    """

    distribution: Family
    parameters: dict[str, float]
    log_likelihood: float
    objective: float
    covariance: Floats
    log_posterior: Callable[[Mapping[str, float]], float] = field(repr=False)

    @property
    def standard_errors(self) -> dict[str, float]:
        """Roots of the covariance's diagonal."""
        return dict(zip(self.parameters, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))


def maximum_likelihood(
    family: type[Family], x: ArrayLike, *, weight: ArrayLike | None = None, fixed: Mapping[str, float] | None = None,
    method: Method = "quasi-newton",
) -> PointEstimate:  # fmt: skip
    r"""Parameters that maximize :math:`\sum_i w_i \log p(x_i | \theta)`.

    Parameters
    ----------
    family : class
        A family of one-dimensional distributions, `Normal`, `Gamma`, `Poisson` ....
    x : array of shape (n,)
        Rows inside the family's support.
    weight : array of shape (n,), >= 0, optional
    fixed : mapping of parameter name to value, optional
        Parameters that are known.
    method : {"quasi-newton", "conjugate-gradient", "natural-gradient"}, default "quasi-newton"
        How the maximum is climbed; the last takes steps by the Fisher information (Fisher scoring).

    Returns
    -------
    PointEstimate

    Raises
    ------
    UserValueError
        Rows that the family cannot give, or a likelihood without a maximum inside the parameters' ranges: all
        successes, all rows equal, unbounded.

    Notes
    -----
    Parameters are brought to the whole line (logs of positive ones), where quasi-Newton steps find the maximum;
    standard errors are those of the parameters themselves. Cost: some hundred evaluations of n densities.

    References
    ----------
    Fisher (1922); Efron and Hinkley (1978) for observed information.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> found = maximum_likelihood(Normal, [1.0, 2.0, 6.0])
    >>> round(found.parameters["loc"], 4), round(found.parameters["scale"] ** 2, 4)
    (3.0, 4.6667)
    """
    return _maximize(family, x, weight, fixed, None, False, method)


def maximum_a_posteriori(
    family: type[Family],
    x: ArrayLike,
    log_prior: Callable[[dict[str, Any]], Any],
    *,
    weight: ArrayLike | None = None,
    fixed: Mapping[str, float] | None = None,
    mode_of: Literal["parameters", "unconstrained"] = "parameters",
    method: Method = "quasi-newton",
) -> PointEstimate:
    """Parameters that maximize log-likelihood plus log prior: a mode of the posterior, which depends on the scale.

    Parameters
    ----------
    family, x, weight, fixed, method
        As in `maximum_likelihood`.
    log_prior : callable
        Takes the free parameters as a dict of tensors, answers a tensor: the log density in the parameters' own scale.
        A constant (flat) prior gives maximum likelihood.
    mode_of : {"parameters", "unconstrained"}
        Mode of the density of the parameters themselves; or of their logs (positive) and log-odds (shares), which adds
        the log derivative and never lies at an end.

    Raises
    ------
    UserValueError
        As `maximum_likelihood`.
    """
    if mode_of not in ("parameters", "unconstrained"):
        raise UserValueError.must("mode_of", 'be "parameters" or "unconstrained"', mode_of)
    return _maximize(family, x, weight, fixed, log_prior, mode_of == "unconstrained", method)


def _maximize(
    family: type[Family], x: ArrayLike, weight: Any, fixed: Any, log_prior: Any, with_derivative: bool, method: Method
) -> PointEstimate:
    import torch

    if method not in get_args(Method):
        raise UserValueError.must("method", f"be one of {', '.join(get_args(Method))}", method)

    rows, known = np.asarray(x, np.float64), dict(fixed or {})
    if rows.ndim != 1 or not rows.size:
        raise UserValueError.must("x", "be an array of numbers", rows)
    unknown = [name for name in known if name not in family.parameters]
    if unknown:
        raise UserValueError(
            f"unknown parameter {unknown[0]!r}", "fixed", f"choose from {', '.join(family.parameters)}"
        )
    free = [name for name in family.parameters if name not in known]
    kinds = [family.parameters[name] for name in free]
    if weight is not None and np.shape(weight) != rows.shape:
        raise UserValueError.must("weight", f"be {len(rows)} numbers, one per row", weight)
    data = torch.from_numpy(rows)
    shares = torch.ones(len(rows), dtype=torch.float64) if weight is None else torch.tensor(np.asarray(weight, float))

    def values(point: Any) -> dict[str, Any]:
        return {name: way.inside(point[k]) for k, (name, way) in enumerate(zip(free, ways, strict=True))}

    def likelihood(parameters: Mapping[str, Any]) -> Any:
        full = {name: torch.as_tensor(v, dtype=torch.float64) for name, v in {**known, **parameters}.items()}
        return (shares * family(**full).log_prob(data)).sum()

    def objective(parameters: Mapping[str, Any]) -> Any:
        return likelihood(parameters) if log_prior is None else likelihood(parameters) + log_prior(dict(parameters))

    def whole(at: Any) -> Any:
        total = objective(values(at))
        if with_derivative:
            total = total + sum(_log_derivative(at[k], kind) for k, kind in enumerate(kinds) if kind != "real")
        return total

    def loss(point: Floats) -> tuple[float, Floats]:
        at = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        total = whole(at)
        total.backward()
        return -float(total.detach()), -at.grad.numpy()  # type: ignore[union-attr]

    def log_posterior(parameters: Mapping[str, float]) -> float:
        return float(objective({name: torch.tensor(float(parameters[name]), dtype=torch.float64) for name in free}))

    beginnings = []
    for ways in _beginnings(rows, free, kinds):
        beginnings.append((loss(np.array([way.start for way in ways]))[0], ways))
    least, ways = min(beginnings, key=lambda one: one[0] if math.isfinite(one[0]) else math.inf)
    start = np.array([way.start for way in ways])
    if not math.isfinite(least):
        raise UserValueError(
            f"some rows are impossible under {family.__name__}", "x", "drop them, or choose another family"
        )

    def information(point: Floats) -> Floats:
        return float(shares.sum()) * fisher(lambda t: family(**{**known, **values(t)}), point)

    point = climb(loss, start, family.__name__, len(rows), method, information)
    if any(abs(a - b) > _FAR for a, b, kind in zip(point, start, kinds, strict=True) if kind != "real"):
        raise _open(family.__name__)
    at = torch.from_numpy(point)
    best = {name: float(v.detach()) for name, v in values(at).items()}
    if with_derivative:
        slopes = np.array([
            way.unit if way.kind == "real" else math.exp(float(_log_derivative(at[k], way.kind)))
            for k, way in enumerate(ways)
        ])  # fmt: skip
        covariance = np.linalg.inv(curvature(whole, at)) * np.outer(slopes, slopes)
    else:
        stacked = torch.tensor(list(best.values()), dtype=torch.float64)
        covariance = np.linalg.inv(curvature(lambda v: objective(dict(zip(free, v, strict=True))), stacked))
    fitted = {**known, **best}
    return PointEstimate(
        family(**{name: fitted[name] for name in family.parameters}), best, float(likelihood(best)), float(whole(at)),
        np.asarray(covariance, np.float64), log_posterior,
    )  # fmt: skip


def curvature(objective: Callable[[Any], Any], at: Any) -> Floats:
    """Minus the second derivatives of the objective there."""
    import torch

    found: Floats = -torch.autograd.functional.hessian(objective, at).numpy()  # type: ignore[no-untyped-call]
    return found


def climb(
    loss: Any, start: Floats, name: str, n: int, method: Method = "quasi-newton", information: Any = None
) -> Floats:
    """The least loss from the start on, of the sum over n rows; refused where there is none.

    `information` gives the Fisher information at a point, for the method "natural-gradient".
    """

    def guarded(point: Floats) -> tuple[float, Floats]:
        try:
            value, slope = loss(point)
        except UserValueError:  # a step beyond what float64 holds
            return math.inf, np.zeros_like(point)
        return (value, slope) if np.isfinite(value) else (math.inf, np.zeros_like(point))

    if method == "conjugate-gradient":
        found = minimize(guarded, start, _STEPS, tol=1e-10).x
    elif method == "natural-gradient":
        found = _scored(guarded, start, information)
    else:
        options = {"gtol": 1e-10, "maxiter": _STEPS}
        found = np.asarray(optimize.minimize(guarded, start, jac=True, method="BFGS", options=options).x, np.float64)
    value, slope = guarded(found)
    if not np.isfinite(value) or float(np.abs(slope).max()) > _FLAT * max(1.0, n):
        raise _open(name)
    return found


def _scored(loss: Callable[[Floats], tuple[float, Floats]], start: Floats, information: Any) -> Floats:
    """Natural gradient steps, halved until they lower the loss."""
    point, (value, slope) = start, loss(start)
    for _ in range(_STEPS):
        step = natural_gradient(-slope, information(point), damping=_DAMPING)
        for half in range(60):
            ahead = point + 0.5**half * step
            reached, gradient = loss(ahead)
            if reached < value:
                break
        else:
            return point
        point, value, slope = ahead, reached, gradient
    return point


def _open(name: str) -> UserValueError:
    return UserValueError(
        f"the likelihood of {name} has no maximum inside the parameters' ranges", "x",
        "the rows leave them open (all equal, all successes): add rows, fix a parameter, or use a prior",
    )  # fmt: skip


class _Way(NamedTuple):
    """From the whole line to a parameter: units from a center, logs or log-odds; and where the search begins."""

    kind: str
    start: float
    center: float = 0.0
    unit: float = 1.0

    def inside(self, value: Any) -> Any:
        """The parameter."""
        if self.kind == "real":
            return self.center + self.unit * value
        return value.sigmoid() if self.kind in ("unit", "probability") else value.exp()


def _beginnings(rows: Floats, names: list[str], kinds: list[str]) -> list[list[_Way]]:
    """Location and spread of the rows, or of their logarithms; ones and halves elsewhere. Free of the rows' unit."""
    return [_ways(rows, seen, names, kinds) for seen in ([rows, np.log(rows)] if (rows > 0).all() else [rows])]


def _ways(rows: Floats, seen: Floats, names: list[str], kinds: list[str]) -> list[_Way]:
    size = float(np.abs(seen).max()) or 1.0
    spread = float(seen.std()) if seen.std() > 1e-12 * size else size
    guess = {"scale": spread, "rate": 1 / (float(np.abs(rows).mean()) or 1.0)}
    places = {"loc": (float(np.median(seen)), spread)}
    return [
        _Way(kind, 0.0, *places.get(name, (1.0, 1.0))) if kind == "real"
        else _Way(kind, _outside(guess.get(name, 0.5 if kind in ("unit", "probability") else 1.0), kind))
        for name, kind in zip(names, kinds, strict=True)
    ]  # fmt: skip


def _outside(value: float, kind: str) -> float:
    return math.log(value / (1 - value)) if kind in ("unit", "probability") else math.log(value)


def _log_derivative(value: Any, kind: str) -> Any:
    """log of d parameter / d unconstrained, of a logarithm or log-odds."""
    import torch

    if kind in ("unit", "probability"):
        return torch.nn.functional.logsigmoid(value) + torch.nn.functional.logsigmoid(-value)
    return value
