r"""What approximate inference costs: how loose the bound is, and how far it has led learning away.

.. math:: \text{gap}(\theta) = \log p(v; \theta) - \max_q \mathcal L(q; \theta), \qquad
          \text{harm} = \log p(v; \theta_{ML}) - \log p(v; \theta_{var}).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Encoder, HasLatents, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.latent_likelihood import latent_log_prob
from gnomon.evaluation.score import Kind, Score
from gnomon.inference.arrays import convert, of_network
from gnomon.numeric.given import floats
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.tensors import is_tensor
from gnomon.recipes.parameters import how_many

__all__ = ["HarmReport", "InferenceGap", "LearnsBothWays", "harm_report", "inference_gap"]

Floats = NDArray[np.float64]

STILL = 1e-9
"""Nats per row by which an iteration must rise to be followed by another."""


@runtime_checkable
class LearnsBothWays(Protocol):
    """A small model of binary latents that is solved exactly and by mean field, such as `BinarySparseCoding`.

    Moments have ``means`` (rows, m) of the latents and ``value`` (rows,), log p(v) or its bound; what else is in them
    is between the model's own methods.
    """

    @classmethod
    def begin(cls, v: ArrayLike, noise: Noise, n_components: int) -> Self:
        """A model to begin learning with."""

    def posterior_moments(self, v: ArrayLike) -> Any:
        """Under the posterior of each row."""

    def mean_field_moments(self, v: ArrayLike, start: ArrayLike) -> Any:
        """Under independent units, found from these means on."""

    def refitted(self, v: ArrayLike, moments: Any) -> Self:
        """The model of the parameters that are best for moments."""


@dataclass(frozen=True)
class InferenceGap:
    """How far a bound is below what it bounds, in nats per row; every row in ``pointwise``.

    Parameters
    ----------
    gap : Score
        log p - bound. Of an estimated log p, which is too low on average, it is a lower bound itself.
    log_prob, bound : Score
    """

    gap: Score
    log_prob: Score
    bound: Score

    def __str__(self) -> str:
        return f"gap {self.gap} per row: log p {self.log_prob}, bound {self.bound}"


def inference_gap(
    model: Any, X: Any, *, log_prob: ArrayLike | Score | None = None, starts: int = 10, n_samples: int = 1000,
    random_state: Any = 0,
) -> InferenceGap:  # fmt: skip
    r"""How loose the evidence lower bound of a model is at rows, :math:`\log p(v) - \mathcal L`.

    Parameters
    ----------
    model : system or model
        `BinarySparseCoding` and its like (`LearnsBothWays`): log p by enumeration, and the best bound of several
        starts of mean field. A fitted system with ``log_prob`` and ``elbo``: both as it says them. A model with latent
        variables and an encoder, or its system: both by draws of the encoder.
    X : array of shape (rows, ...)
    log_prob : array of shape (rows,) or Score, optional
        log p of each row from elsewhere, annealed importance sampling say; a Score tells its kind and error.
    starts : int in [1, inf), default 10
        Of mean field, for each row, which keeps its best.
    n_samples : int in [2, inf), default 1000
        Draws of an encoder for each row.
    random_state : int, None or NumPy generator, default 0

    Returns
    -------
    InferenceGap

    Raises
    ------
    UserTypeError, UserValueError
        A model that has no bound, or whose log p is not known.

    Notes
    -----
    Estimates by draws are too low on average, so the gap is larger than it looks; ``gap.note`` says by how much about.
    A small gap does not say that approximate inference has done no harm: parameters are learned to where the bound is
    tight. `harm_report` compares them with those of maximum likelihood.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 19.4.4; Turner and Sahani (2011), "Two problems with variational
    expectation maximisation for time series models".

    Examples
    --------
    >>> from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
    >>> model = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], b=[0.0, -1.0], beta=[1.0, 2.0])
    >>> round(inference_gap(model, [[1.0, 1.0]]).gap.value, 6)
    0.007659
    """
    for name, value, least in (("starts", starts, 1), ("n_samples", n_samples, 2)):
        if how_many(value, name) < least:
            raise UserValueError.must(name, f"be at least {least}", value)
    noise = Noise(seed_of(random_state), "inference-gap")
    if isinstance(model, type):
        raise UserTypeError(f"{model.__name__} is a class", "model", "give a model, with parameters, or harm_report")
    if isinstance(model, LearnsBothWays):
        bound = _Part(_best_bound(model, X, starts, noise))
        return _gap(_known(log_prob) or _Part(model.posterior_moments(X).value), bound)
    if hasattr(model, "elbo") and (log_prob is not None or hasattr(model, "log_prob")):
        return _gap(_known(log_prob) or _known(model.log_prob(X)), _known(model.elbo(X)))
    inner = getattr(model, "model_", model)
    if supports(inner, HasLatents) and supports(inner, Encoder):
        return _by_draws(inner, X, log_prob, n_samples, noise)
    what = f"{type(model).__name__} has no bound and no encoder"
    raise UserTypeError(what, "model", "give a model with latent variables and approximate inference")


class _Part(NamedTuple):
    """Values of each row, and what they are."""

    value: Floats
    kind: Kind = "exact"
    error: float = 0.0
    note: str = ""


def _known(given: Any) -> _Part | None:
    """What a user or a system says of the rows."""
    if given is None:
        return None
    if not isinstance(given, Score):
        values = floats(given, "log_prob")
        if np.isnan(values).any():
            raise UserValueError("log_prob must hold numbers, got NaN", "log_prob")
        return _Part(values)
    if given.pointwise is None:
        raise UserValueError("the score must have a value for each row", "log_prob", "give an array (rows,)")
    return _Part(given.pointwise, given.kind, given.error, given.note)


def _gap(log_prob: _Part | None, bound: _Part | None) -> InferenceGap:
    assert log_prob is not None and bound is not None  # asked only where both are there
    if log_prob.value.shape != bound.value.shape:
        what = f"log_prob must have one value for each of {len(bound.value)} rows, got shape {log_prob.value.shape}"
        raise UserValueError(what, "log_prob")
    kind: Kind = "estimate" if log_prob.kind == "exact" and bound.error else log_prob.kind
    gap = Score.from_pointwise(
        log_prob.value - bound.value, kind=kind, error=math.hypot(log_prob.error, bound.error), name="inference_gap",
        higher_is_better=False, note=log_prob.note,
    )  # fmt: skip
    return InferenceGap(
        gap,
        Score.from_pointwise(log_prob.value, kind=log_prob.kind, error=log_prob.error, note=log_prob.note),
        Score.from_pointwise(bound.value, kind="lower bound", error=bound.error, name="log_evidence"),
    )


def _by_draws(model: Any, X: Any, log_prob: Any, n_samples: int, noise: Noise) -> InferenceGap:
    """Of an encoder: K draws together estimate log p, each by itself the bound."""
    like = of_network(model)
    rows = convert(floats(X, "X"), like) if is_tensor(like) else floats(X, "X")
    single = latent_log_prob(model, model, rows, 1, noise.child("bound"), repeats=n_samples)
    bound = _Part(single.value, "lower bound", _error(single.stderr))
    known = _known(log_prob)
    if known is None:
        many = latent_log_prob(model, model, rows, n_samples, noise.child("evidence"))
        note = f"log p by {n_samples} draws is too low by about {-many.bias.mean():.2g} nats, and the gap with it"
        known = _Part(many.value, "lower bound", _error(many.stderr), note)
    return _gap(known, bound)


def _error(stderr: Floats) -> float:
    """Of the mean over rows."""
    return float(np.sqrt((stderr**2).sum()) / len(stderr))


def _best_bound(model: LearnsBothWays, X: Any, starts: int, noise: Noise) -> Floats:
    """The highest bound of each row over starts of mean field: the middle, and draws."""
    middle = model.mean_field_moments(X, 0.5)
    best = np.asarray(middle.value)
    for i in range(starts - 1):
        start = np.asarray(noise.child("start").at(i).uniform(middle.means.shape, like=np.empty(0)))
        best = np.maximum(best, model.mean_field_moments(X, start).value)
    return best


# --- learning both ways -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HarmReport:
    """A model learned by maximum likelihood and by mean field, in nats per row.

    Parameters
    ----------
    exact, variational : model
        Of the parameters theta_ML and theta_var.
    of_exact, of_variational : InferenceGap
        log p, the best bound and the gap of both.
    starts : tuple of float
        log p per row that exact EM has reached from each start, the last from theta_var: unlike ones tell of local
        optima.
    """

    exact: Any
    variational: Any
    of_exact: InferenceGap
    of_variational: InferenceGap
    starts: tuple[float, ...]

    @property
    def harm(self) -> Score:
        """log p(theta_ML) - log p(theta_var), never below 0: exact EM has gone on from theta_var too."""
        better, worse = (one.log_prob.pointwise for one in (self.of_exact, self.of_variational))
        assert better is not None and worse is not None
        return Score.from_pointwise(better - worse, name="harm", higher_is_better=False)

    def __str__(self) -> str:
        rows = [["", "log p", "bound", "gap"]]
        for name, one in (("maximum likelihood", self.of_exact), ("mean field", self.of_variational)):
            rows.append([name, *(f"{part.value:.4f}" for part in (one.log_prob, one.bound, one.gap))])
        lines = [f"{row[0]:<20}" + "".join(cell.rjust(12) for cell in row[1:]) for row in rows]
        return "\n".join([*lines, f"harm {self.harm} per row"])


def harm_report(
    model_class: Any, X: ArrayLike, n_components: int = 2, *, restarts: int = 5, max_iter: int = 300,
    starts: int = 10, random_state: Any = 0,
) -> HarmReport:  # fmt: skip
    r"""Whether approximate inference has kept learning from a better model: a small model learned both ways.

    Exact EM and EM with mean field begin at the same models. Of each the best end is kept by its own objective, and
    exact EM goes on from the end of mean field as well, so that the comparison does not hang on its starts alone.

    Parameters
    ----------
    model_class : class
        `BinarySparseCoding`, or one of your own that keeps `LearnsBothWays`.
    X : array of shape (rows, columns)
    n_components : int in [1, inf), default 2
        Latents; exact EM visits all of their states.
    restarts : int in [1, inf), default 5
    max_iter : int in [1, inf), default 300
        Iterations of each EM at most.
    starts : int in [1, inf), default 10
        Of mean field for each row, where bounds are compared in the end.
    random_state : int, None or NumPy generator, default 0

    Returns
    -------
    HarmReport

    Notes
    -----
    A small gap at theta_var and a large one at theta_ML together are the sign of harm: the bound has pulled the
    parameters to where it is tight. Cost: rows 2^m an iteration of exact EM.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 19.4.4.

    Examples
    --------
    >>> from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
    >>> on = np.random.default_rng(0).random((80, 2)) < 0.5
    >>> X = on @ [[1.0, 0.5], [1.0, -0.5]] + 0.4 * np.random.default_rng(1).normal(size=(80, 2))
    >>> report = harm_report(BinarySparseCoding, X, restarts=2)
    >>> report.harm.value >= 0, report.of_variational.gap.value > 0
    (True, True)
    """
    if not isinstance(model_class, type) or not issubclass(model_class, LearnsBothWays):
        names = "begin, posterior_moments, mean_field_moments and refitted"
        raise UserTypeError(f"model_class must have {names}", "model_class", "give BinarySparseCoding")
    for name, value in (("restarts", restarts), ("max_iter", max_iter), ("n_components", n_components)):
        if how_many(value, name) < 1:
            raise UserValueError.must(name, "be at least 1", value)
    noise = Noise(seed_of(random_state), "harm")
    begun = [model_class.begin(X, noise.child("begin").at(i), n_components) for i in range(restarts)]
    by_bound = [_learned(model, X, _mean_field(X, noise.child("means").at(i)), max_iter)
                for i, model in enumerate(begun)]  # fmt: skip
    variational = max(by_bound, key=lambda end: end[1])[0]
    exact = [_learned(model, X, lambda m: m.posterior_moments(X), max_iter) for model in [*begun, variational]]
    best = max(exact, key=lambda end: end[1])[0]
    found = [inference_gap(model, X, starts=starts, random_state=random_state) for model in (best, variational)]
    return HarmReport(best, variational, found[0], found[1], tuple(value for _, value in exact))


def _mean_field(X: ArrayLike, noise: Noise) -> Callable[[Any], Any]:
    """Moments by mean field that go on from where they were, so that the bound of a fit never falls."""
    last: Array = None

    def moments(model: Any) -> Any:
        nonlocal last
        if last is None:
            shape = model.mean_field_moments(X, 0.5).means.shape
            last = np.asarray(noise.uniform(shape, like=np.empty(0)))
        found = model.mean_field_moments(X, last)
        last = found.means
        return found

    return moments


def _learned(model: Any, X: ArrayLike, moments: Callable[[Any], Any], max_iter: int) -> tuple[Any, float]:
    """The end of EM, and the objective per row there."""
    found = moments(model)
    for _ in range(max_iter):
        new = model.refitted(X, found)
        then = moments(new)
        rise = float(then.value.mean() - found.value.mean())
        if rise <= 0:
            break
        model, found = new, then
        if rise <= STILL:
            break
    return model, float(found.value.mean())
