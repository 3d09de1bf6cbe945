"""Point estimates of a model of y given x: maximum a posteriori, and the plug-in prediction at the mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.distributions.family import Family
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.point import climb, curvature
from gnomon.numeric.given import floats

__all__ = ["ConditionalEstimate", "conditional_maximum_a_posteriori"]

Floats = NDArray[np.float64]
FAR = 1e-3
"""Newton step, beside the parameters' size, from which on a point is no mode."""

Model = Callable[[Any, dict[str, Any]], Family]
"""The distribution of the rows of y given those of x (a tensor) and the parameters (tensors by name)."""


@dataclass(frozen=True, eq=False)
class ConditionalEstimate:
    """The mode of a posterior of parameters given x and y.

    Parameters
    ----------
    parameters : dict of str to array
        At the mode.
    log_likelihood : float
        log p(y | x, parameters) in nats.
    objective : float
        What was made greatest: the log-likelihood plus the log prior.
    covariance : array of shape (k, k)
        Laplace's: inverse of minus the second derivatives of the objective, in the order of `parameters`, each of them
        row by row.
    log_posterior : callable
        Log-likelihood plus log prior of other parameters, not normalized.
    """

    parameters: dict[str, Floats]
    log_likelihood: float
    objective: float
    covariance: Floats
    log_posterior: Callable[[Mapping[str, ArrayLike]], float] = field(repr=False)
    model: Model = field(repr=False)

    def predict(self, x: ArrayLike) -> Family:
        """The plug-in prediction p(y | x, mode) of each row: it leaves out the doubt about the parameters."""
        import torch

        given = {name: torch.from_numpy(value) for name, value in self.parameters.items()}
        distribution = self.model(torch.from_numpy(np.array(floats(x, "x"))), given)
        return type(distribution)(
            **{one: torch.as_tensor(getattr(distribution, one)).detach().numpy() for one in distribution.parameters}
        )


def conditional_maximum_a_posteriori(
    model: Model,
    x: ArrayLike,
    y: ArrayLike,
    start: Mapping[str, ArrayLike],
    log_prior: Callable[[dict[str, Any]], Any] | None = None,
    *,
    weight: ArrayLike | None = None,
) -> ConditionalEstimate:
    r"""Parameters that maximize :math:`\sum_i w_i \log p(y_i | x_i, \theta) + \log p(\theta)`.

    Parameters
    ----------
    model : callable
        ``model(x, parameters)`` answers the family of y, one member per row; x is a tensor, the parameters are tensors
        by name.
    x : array of shape (n, ...)
    y : array of shape (n,)
    start : mapping of parameter name to array
        Where the search begins, which also gives the shapes. Parameters lie on the whole line: the model takes the
        exponential of a logarithm, say, and the mode is that of the logarithm.
    log_prior : callable, optional
        Takes the parameters as a dict of tensors, answers a tensor. None, or a constant: maximum likelihood.
    weight : array of shape (n,), >= 0, optional

    Returns
    -------
    ConditionalEstimate

    Raises
    ------
    UserTypeError, UserValueError
        A model that answers something else than one distribution per row, rows that it makes impossible, or a posterior
        without a mode.

    Notes
    -----
    Quasi-Newton steps with gradients by torch; of several modes the one that the start leads to.

    Examples
    --------
    >>> from gnomon.distributions.real import Normal
    >>> line = lambda x, p: Normal(x * p["slope"], 1.0)
    >>> found = conditional_maximum_a_posteriori(
    ...     line, [1.0, 2.0], [2.0, 4.0], {"slope": 0.0}, lambda p: -0.5 * p["slope"] ** 2
    ... )
    >>> found.parameters["slope"].round(4).item(), found.predict([3.0]).mean.round(4).tolist()
    (1.6667, [5.0])
    """
    import torch

    rows, target = (torch.from_numpy(np.array(floats(one, name))) for one, name in ((x, "x"), (y, "y")))
    if rows.ndim < 1 or target.ndim != 1 or not len(target) or len(rows) != len(target):
        raise UserValueError.must("y", "have one value for each row of x", y)
    shares = np.ones(len(target)) if weight is None else floats(weight, "weight")
    if shares.shape != (len(target),) or not (np.isfinite(shares) & (shares >= 0)).all():
        raise UserValueError.must("weight", f"be {len(target)} numbers of at least 0, one per row", weight)
    w = torch.from_numpy(np.array(shares))
    first = {name: np.array(floats(value, f"start, {name}")) for name, value in start.items()}
    if not first:
        raise UserValueError("start must name the parameters, got none", "start")
    ends = np.cumsum([0, *(value.size for value in first.values())])

    def unpacked(point: Any) -> dict[str, Any]:
        return {
            name: point[ends[k] : ends[k + 1]].reshape(value.shape) for k, (name, value) in enumerate(first.items())
        }

    def likelihood(parameters: dict[str, Any]) -> Any:
        distribution = model(rows, parameters)
        log_p = distribution.log_prob(target) if hasattr(distribution, "log_prob") else None
        if not isinstance(log_p, torch.Tensor) or log_p.shape != target.shape:
            raise UserTypeError(
                "model must answer one distribution per row", "model", "make a gnomon family of tensors of shape (n,)"
            )
        return (w * log_p).sum()

    def objective(parameters: dict[str, Any]) -> Any:
        return likelihood(parameters) if log_prior is None else likelihood(parameters) + log_prior(parameters)

    def loss(point: Floats) -> tuple[float, Floats]:
        at = torch.tensor(point, dtype=torch.float64, requires_grad=True)
        total = objective(unpacked(at))
        total.backward()
        return -float(total.detach()), -at.grad.numpy()  # type: ignore[union-attr]

    def log_posterior(parameters: Mapping[str, ArrayLike]) -> float:
        given = {name: torch.from_numpy(np.array(floats(parameters[name], name))) for name in first}
        return float(objective(given))

    begin = np.concatenate([value.ravel() for value in first.values()])
    if not np.isfinite(loss(begin)[0]):
        raise UserValueError("the start must have a finite posterior, got rows that are impossible", "start")
    point = climb(loss, begin, "this model", len(target))
    at = torch.from_numpy(point)
    information = curvature(lambda v: objective(unpacked(v)), at)
    _check_mode(point, loss(point)[1], information)
    best = unpacked(at)
    return ConditionalEstimate(
        {name: np.array(value.numpy()) for name, value in best.items()}, float(likelihood(best)),
        float(objective(best)), np.asarray(np.linalg.inv(information), np.float64), log_posterior, model,
    )  # fmt: skip


def _check_mode(point: Floats, slope: Floats, information: Floats) -> None:
    """Refuse a plateau: there a small slope comes with a small curvature, and a Newton step leads far away."""
    least = float(np.linalg.eigvalsh(information)[0])
    if least > 0 and np.abs(np.linalg.solve(information, slope)).max() <= FAR * (1 + np.abs(point).max()):
        return
    raise UserValueError(
        "the posterior must have a mode, got one that goes on rising or is flat", "log_prior",
        "give a prior on every parameter, or leave out those that the rows say nothing of",
    )  # fmt: skip
