r"""Stochastic variational inference: natural gradients of the bound from batches of rows, in conjugate families.

The natural gradient of the bound by the natural parameters of q is :math:`\hat\lambda - \lambda`, with
:math:`\hat\lambda` the conjugate update of the prior by the batch counted n / b times. Steps that fall as Robbins and
Monro ask lead to a stationary point; a step of 1 over all rows is coordinate ascent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.variational.conjugate_models import as_conjugate
from gnomon.inference.variational.families import MeanField
from gnomon.inference.variational.method import (
    Approximation,
    Iteration,
    VariationalAscent,
    VariationalMethod,
    VariationalProblem,
)
from gnomon.inference.variational.windows import BoundWindows, batch_rows
from gnomon.numeric.averages import check_robbins_monro, robbins_monro

__all__ = ["SVI", "StreamingPosterior"]

Floats = NDArray[np.float64]


class StreamingPosterior:
    """q of a conjugate model that batches of rows move, one natural-gradient step each.

    Parameters
    ----------
    prior : Pair or ConjugateMixture
        See `gnomon.conjugate`.
    n : int >= 1
        Rows of the whole data, of which batches are taken.
    tau : float >= 0, default 1
    kappa : float > 0, default 0.7
        The step of batch t, counted from 1, is (t + tau)^-kappa; a warning where kappa is outside (0.5, 1].
    start : the like of prior, optional
        Where q begins; the prior by default, which for a mixture is a point that no batch leads away from.

    Attributes
    ----------
    q : PairModel or ConjugateMixture
        As the batches so far have left it.
    n_updates : int

    References
    ----------
    Hoffman, Blei, Wang and Paisley (2013), "Stochastic variational inference".

    Examples
    --------
    >>> from gnomon.distributions.conjugate import NormalMean
    >>> stream = StreamingPosterior(NormalMean(), n=3, tau=0.0, kappa=1.0)
    >>> for x in (1.0, 2.0, 3.0):
    ...     _ = stream.partial_fit([x])
    >>> stream.q.pair  # an epoch of steps 1 / t averages the updates: the exact posterior
    NormalMean(mean=1.5, variance=0.25, noise_variance=1.0)
    """

    def __init__(self, prior: Any, n: int, *, tau: float = 1.0, kappa: float = 0.7, start: Any = None) -> None:
        if n < 1:
            raise UserValueError.must("n", "be at least 1", n)
        if not tau >= 0 or not kappa > 0:
            raise UserValueError(f"tau must be at least 0 and kappa positive, got {tau} and {kappa}", "tau, kappa")
        check_robbins_monro(kappa)
        self.prior, self.n, self.tau, self.kappa = as_conjugate(prior), n, tau, kappa
        self.q = self.prior if start is None else as_conjugate(start)
        self.n_updates = 0

    def gradient(self, batch: ArrayLike) -> Floats:
        """Natural gradient of the bound from a batch: on average over batches that of all rows."""
        found: Floats = self.q.improved(self.prior, batch, self.n / len(np.asarray(batch))) - self.q.natural
        return found

    def partial_fit(self, batch: ArrayLike, rate: float | None = None) -> Self:
        """One step by a batch of rows.

        Parameters
        ----------
        batch : array of shape (b,) or (b, d)
        rate : float in (0, 1], optional
            Of this step, in place of the schedule's.
        """
        if len(np.asarray(batch)) < 1:
            raise UserValueError.must("batch", "have at least 1 row", batch)
        step = robbins_monro(self.n_updates + 1, self.tau, self.kappa) if rate is None else rate
        if not 0 < step <= 1:
            raise UserValueError.must("rate", "be in (0, 1]", step)
        self.q = self.q.with_natural(self.q.natural + step * self.gradient(batch))
        self.n_updates += 1
        return self

    def elbo(self, x: ArrayLike) -> tuple[float, float]:
        """The bound from rows and its standard error: exact with all rows, n / b times their share with a batch."""
        rows = self.q.row_bounds(x)
        b = len(rows)
        spread = float(rows.std(ddof=1)) if 1 < b < self.n else 0.0
        error = self.n * spread / math.sqrt(b) * math.sqrt(1 - b / self.n) if b < self.n else 0.0
        return self.n / b * float(rows.sum()) - self.q.divergence(self.prior), error


@dataclass(frozen=True)
class SVI(VariationalMethod):
    """Natural gradients in conjugate families, over all rows or over batches.

    With ``batch_size`` the step of iteration t is (t + tau)^-kappa, and the ascent ends when the mean bound of a window
    of iterations has three times not been above that of the window before by more than the error of the difference.
    Without it every step is 1, which is coordinate ascent, and `tol` ends it.

    Parameters
    ----------
    tau : float in [0, inf), default 1
        Delay of the steps.
    kappa : float in (0, inf), default 0.7
        How fast they fall; a warning outside (0.5, 1].
    window : int in [10, inf), default 100
        Iterations that are looked back over.

    References
    ----------
    Hoffman, Blei, Wang and Paisley (2013), "Stochastic variational inference".
    """

    FLAT: ClassVar[int] = 3
    short: ClassVar[str] = "svi"
    tau: Annotated[float, "[0, inf)"] = 1.0
    kappa: Annotated[float, "(0, inf)"] = 0.7
    window: Annotated[int, "[10, inf)"] = 100

    def ascent(self, problem: VariationalProblem, noise: Noise) -> VariationalAscent:
        """Of a conjugate pair, or a mixture of them, given rows.

        Raises
        ------
        UserTypeError, UserValueError
            Another target, no data, a family that is not the prior's.
        """
        if problem.data is None:
            raise UserTypeError("data is required: the rows that the prior is updated by", "data")
        if problem.family != MeanField():
            remedy = "natural gradients keep that of the prior: leave it out, or use method='advi'"
            raise UserValueError.must("family", "be 'mean-field' with method='svi'", problem.family, remedy=remedy)
        return _Stream(self, problem, noise)


class _Stream(VariationalAscent):
    """A stream of batches of the rows."""

    def __init__(self, recipe: SVI, problem: VariationalProblem, noise: Noise) -> None:
        self.recipe, self.noise = recipe, noise
        self.rows = np.asarray(problem.data)
        if not self.rows.ndim or not len(self.rows):
            raise UserValueError.must("data", "have at least 1 row", self.rows)
        prior = as_conjugate(problem.target)
        size = problem.batch_size
        self.size = None if size is None or size >= len(self.rows) else size
        start = prior.begin(self.rows, noise.child("start"))
        self.stream = StreamingPosterior(prior, len(self.rows), tau=recipe.tau, kappa=recipe.kappa, start=start)
        self.windows = BoundWindows(recipe.window)
        self.before = -math.inf

    def step(self, t: int) -> Iteration:
        if self.size is None:
            bound, _ = self.stream.partial_fit(self.rows, 1.0).elbo(self.rows)
            done = self.recipe.settled(self.before, bound)
            self.before = bound
            return Iteration(bound, 0.0, done)
        batch = self.rows[batch_rows(len(self.rows), self.size, t, self.noise.child("order"))]
        bound, error = self.stream.partial_fit(batch).elbo(batch)
        return Iteration(bound, error, self.windows.add(bound) and self.windows.flat >= self.recipe.FLAT)

    def state(self) -> dict[str, Array]:
        before = np.array([] if math.isinf(self.before) else [self.before])
        updates = np.array(self.stream.n_updates)
        return {"natural": self.stream.q.natural, "updates": updates, "before": before} | self.windows.state()

    def load(self, arrays: Mapping[str, Array]) -> None:
        self.stream.q = self.stream.q.with_natural(np.array(arrays["natural"]))
        self.stream.n_updates = int(arrays["updates"])
        self.before = float(arrays["before"][0]) if len(arrays["before"]) else -math.inf
        self.windows.load(arrays)

    def posterior(self) -> Approximation:
        found: Approximation = self.stream.q
        return found

    def bound(self) -> tuple[float, float]:
        return self.stream.elbo(self.rows)

    def log_weights(self, n: int, noise: Noise) -> Floats | None:
        found: Floats | None = self.stream.q.log_posterior_ratio(self.stream.prior, self.rows, n, noise)
        return found
