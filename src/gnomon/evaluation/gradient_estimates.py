"""Bias and variance of the gradients that an objective estimates from draws, at parameters that stand still."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.gradients import _Alone, problem_of
from gnomon.numeric.noise import Noise
from gnomon.objectives.base import as_found

__all__ = ["GradientVariance", "gradient_variance"]

Vectors = dict[str, NDArray[np.float64]]

ERRORS = 5.0
"""A bias beyond so many standard errors is one."""


@dataclass(frozen=True)
class GradientVariance:
    """Moments of one estimator of a gradient, by parameter.

    Attributes
    ----------
    n : int
        Estimates that were made.
    mean, variance : dict of str to array
        Of a single estimate.
    exact : dict of str to array or None
        What it should be in mean, where that is known.
    exact_error : dict of str to array
        Standard error of `exact`; 0 where it is exact.
    declared_biased : bool
        Whether the estimator says that it is.
    """

    n: int
    mean: Vectors
    variance: Vectors
    exact: Vectors | None
    exact_error: Vectors
    declared_biased: bool

    @property
    def trace(self) -> float:
        """Sum of the variances over all parameters: trace of the covariance."""
        return sum(float(one.sum()) for one in self.variance.values())

    @property
    def bias(self) -> Vectors | None:
        """Mean less exact, with the error `stderr`."""
        return None if self.exact is None else {name: self.mean[name] - self.exact[name] for name in self.mean}

    @property
    def stderr(self) -> Vectors:
        """Standard error of the bias."""
        return {
            name: np.sqrt(one / self.n + self.exact_error.get(name, 0.0) ** 2) for name, one in self.variance.items()
        }

    @property
    def bias_norm(self) -> float:
        """Euclidean norm of the bias over all parameters; NaN where the exact gradient is not known."""
        return math.nan if self.bias is None else _norm(self.bias)

    @property
    def seems_biased(self) -> bool | None:
        """Whether some component is off by more than 5 standard errors; None where that is not known."""
        if self.bias is None or self.exact is None:
            return None
        rounding = 1e-9 * (1 + _norm(self.exact))
        errors = self.stderr
        return any(bool((np.abs(one) > ERRORS * errors[name] + rounding).any()) for name, one in self.bias.items())

    def __str__(self) -> str:
        label = ", biased by design" if self.declared_biased else ""
        spread = f"variance {self.trace:.4g} of a single estimate ({self.n} estimates{label})"
        if self.exact is None:
            return f"{spread}; bias unknown: no exact gradient"
        verdict = "biased" if self.seems_biased else "no bias seen"
        error = math.sqrt(sum(float((one**2).sum()) for one in self.stderr.values()))
        return f"{spread}; bias {self.bias_norm:.4g} +- {error:.2g} of a gradient of {_norm(self.exact):.4g}: {verdict}"


def _norm(vectors: Vectors) -> float:
    return math.sqrt(sum(float((one**2).sum()) for one in vectors.values()))


def gradient_variance(
    objective: Any, model: Any, batch: Any, *, y: Any = None, n: int = 200, exact: Any = None, warm_up: int = 20,
    random_state: int = 0,
) -> GradientVariance:  # fmt: skip
    """Estimate the gradient of an objective again and again on one batch, and take the moments of the estimates.

    Parameters
    ----------
    objective : str or recipe
        Of the slot ``objective``: ``ELBO(estimator="score")``; for a module its recipe or its built objective.
    model : System or module
        A fitted system, or one that is not, with its first weights; or a module that the objective asks. Neither is
        changed.
    batch : array
        Rows, all of which are in every estimate.
    y : array, optional
        Their targets, of a system that has some.
    n : int in [2, inf), default 200
        Estimates.
    exact : dict of str to array, or recipe, optional
        The exact gradient of the loss by parameter, or an objective whose estimates have it in mean. Where left out,
        by enumeration of the states of discrete latent variables, if they are at most 4,096.
    warm_up : int in [0, inf), default 20
        Batches that the memory of a baseline sees before. Networks of a baseline keep their first weights.
    random_state : int, default 0

    Returns
    -------
    GradientVariance
        Of the gradient of the loss per unit of weight, in float64.

    Raises
    ------
    UserTypeError, UserValueError
        A model without gradients; fewer than two estimates.

    Notes
    -----
    Cost: n gradients of the batch, twice as many with a recipe for `exact`.

    Examples
    --------
    >>> import gnomon
    >>> from gnomon.objectives.estimators import ScoreFunction
    >>> from gnomon.objectives.variational import ELBO
    >>> X = [[1, 1, 0], [0, 0, 1], [0, 1, 1]]
    >>> vae = gnomon.VAE(n_latent=2, latents="binary", likelihood="bernoulli", random_state=0)
    >>> plain = gradient_variance(ELBO(estimator=ScoreFunction("none")), vae, X, n=50)
    >>> better = gradient_variance(ELBO(estimator=ScoreFunction("running")), vae, X, n=50)
    >>> plain.seems_biased, better.seems_biased, better.trace < plain.trace
    (False, False, True)
    """
    if n < 2:
        raise UserValueError.must("n", "be at least 2", n)
    noise = Noise(random_state, "gradient-variance")
    problem = _problem(objective, model, batch, y, noise)
    mean, variance = _moments(_estimates(problem, noise.child("draws"), n, warm_up))
    known, error = _known(exact, problem, model, batch, y, noise, n, warm_up)
    biased = bool(getattr(getattr(problem.objective, "estimator", None), "biased", False))
    return GradientVariance(n, mean, variance, known, error, biased)


def _problem(objective: Any, model: Any, batch: Any, y: Any, noise: Noise) -> Any:
    """Model, objective and one batch of all rows."""
    if hasattr(model, "problem") and hasattr(model, "get_params"):
        from sklearn.base import clone

        fields = model.get_params(deep=False)
        whole = {"batch_size": None} if "batch_size" in fields else {}
        own = clone(model).set_params(objective=objective, **whole)
        if hasattr(model, "model_"):
            own.model_ = model.model_
        return problem_of(own, np.asarray(batch), y, None, noise)
    if not hasattr(model, "named_parameters"):
        raise UserTypeError(f"model must be a System or a torch module, got a {type(model).__name__}", "model")
    rows = np.asarray(batch)
    one = SimpleNamespace(data={"X": rows}, positions=np.arange(len(rows)), weight=np.ones(len(rows)))
    batches = SimpleNamespace(step=lambda epoch, index: one, epoch=lambda epoch: [one])
    built = objective.build() if hasattr(objective, "build") else objective
    built.begin(model, batches, noise.child("begin"), _Alone())
    return SimpleNamespace(model=model, objective=built, batches=batches, group=_Alone())


def _estimates(problem: Any, noise: Noise, n: int, warm_up: int) -> Iterator[Vectors]:
    batch = problem.batches.step(0, 0)
    for update in range(warm_up):
        _loss(problem, batch, noise.at(update))
    for update in range(warm_up, warm_up + n):
        with as_found(problem.model, problem.objective):
            found = _gradients(problem.model, _loss(problem, batch, noise.at(update)))
        yield found


def _loss(problem: Any, batch: Any, noise: Noise) -> Any:
    objective = problem.objective
    phase = next(iter(objective.phases(problem.model)))
    return objective.in_training(problem.model, batch, noise=noise, phase=phase, group=problem.group)


def _gradients(model: Any, loss: Any) -> Vectors:
    """Of the loss per unit of weight, by parameter of the model."""
    import torch

    named = dict(model.named_parameters())
    if loss.gradients is not None:
        weight = loss.terms[loss.per or next(iter(loss.terms))].weight
        return {name: np.asarray(value, np.float64) / weight for name, value in loss.gradients.items() if name in named}
    found = torch.autograd.grad(loss.total(), list(named.values()), allow_unused=True)
    return {
        name: np.zeros(p.shape) if g is None else g.detach().double().cpu().numpy()
        for (name, p), g in zip(named.items(), found, strict=True)
    }


def _moments(estimates: Iterator[Vectors]) -> tuple[Vectors, Vectors]:
    """Mean and unbiased variance, in one pass."""
    mean: Vectors = {}
    squares: Vectors = {}
    count = 0
    for count, found in enumerate(estimates, 1):
        for name, value in found.items():
            before = mean.get(name, np.zeros(value.shape))
            mean[name] = before + (value - before) / count
            squares[name] = squares.get(name, np.zeros(value.shape)) + (value - before) * (value - mean[name])
    return mean, {name: value / (count - 1) for name, value in squares.items()}


def _known(
    exact: Any, problem: Any, model: Any, batch: Any, y: Any, noise: Noise, n: int, warm_up: int
) -> tuple[Vectors | None, Vectors]:
    """The exact gradient, if it is known, and its standard error."""
    if isinstance(exact, Mapping):
        return {name: np.asarray(value, np.float64) for name, value in exact.items()}, {}
    if exact is not None:
        other = _problem(exact, model, batch, y, noise)
        mean, variance = _moments(_estimates(other, noise.child("reference"), n, warm_up))
        return mean, {name: np.sqrt(one / n) for name, one in variance.items()}
    if not hasattr(problem.objective, "exact"):
        return None, {}
    loss = problem.objective.exact(problem.model, problem.batches.step(0, 0), noise=noise.at(warm_up))
    return (None, {}) if loss is None else (_gradients(problem.model, loss), {})
