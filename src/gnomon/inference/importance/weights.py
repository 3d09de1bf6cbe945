"""Weighted samples: what importance sampling of every sort returns, and whether it can be trusted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, HasLogProb, Noise
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.adapters import as_proposal
from gnomon.inference.importance.pareto import tail_shape
from gnomon.numeric.given import affordable, answers, checked, floats, function
from gnomon.recipes.parameters import how_many

__all__ = ["Estimate", "WeightedSample", "check_support", "importance_sample"]

_FEWEST_EFFECTIVE = 10
"""Effective draws below which the delta method says nothing."""


class Estimate(NamedTuple):
    """An estimated expectation.

    Attributes
    ----------
    value : float or array
        The estimate.
    stderr : float or array
        Its standard error over new draws; inf for a single draw.
    bias : float or array
        Estimated bias of order 1/n (value minus truth); 0 for an unbiased estimator.
    """

    value: Any
    stderr: Any
    bias: Any


@dataclass(frozen=True)
class WeightedSample:
    """Draws of one distribution with log weights that turn them into draws of another.

    Parameters
    ----------
    log_weights : array of shape (n,)
        Log of p(x_i) / q(x_i) in nats, up to a constant where p or q is not normalized; -inf for weight 0. Kept in
        float64.
    values : array of shape (n, ...), optional
        The draws x_i.

    Raises
    ------
    UserValueError
        When there are no weights, one is nan or +inf, or all are -inf (the draws miss the target altogether).

    Examples
    --------
    >>> import numpy as np
    >>> sample = WeightedSample(np.log([1.0, 1.0, 2.0]))
    >>> round(sample.ess, 6), sample.max_share
    (2.666667, 0.5)
    >>> round(sample.log_mean_weight, 6)
    0.287682
    """

    log_weights: NDArray[np.float64]
    values: Array | None = None

    def __post_init__(self) -> None:
        log_w = to_numpy(self.log_weights).copy()
        if log_w.ndim != 1 or log_w.size == 0:
            raise UserValueError.must("log_weights", "be one number per draw", log_w)
        bad = np.flatnonzero(np.isnan(log_w) | (log_w == math.inf))
        if bad.size:
            raise UserValueError.must(
                "log_weights",
                "be below inf",
                log_w[bad[0]],
                f"draw {bad[0]}",
                "the target must be finite where the proposal draws",
            )
        if log_w.max() == -math.inf:
            raise UserValueError(
                f"all {log_w.size} weights are 0", "log_weights", "choose a proposal that covers the target"
            )
        if self.values is not None and len(self.values) != log_w.size:
            raise UserValueError(
                f"values must be one per weight, got {len(self.values)} for {log_w.size} weights", "values"
            )
        log_w.setflags(write=False)
        object.__setattr__(self, "log_weights", log_w)

    def __len__(self) -> int:
        return int(self.log_weights.size)

    @cached_property
    def normalized_weights(self) -> NDArray[np.float64]:
        """Weights that sum to 1, shape (n,)."""
        w = np.exp(self.log_weights - self.log_weights.max())
        return w / w.sum()

    @property
    def ess(self) -> float:
        """Effective number of draws, ``(sum w)^2 / sum w^2``, in [1, n].

        A high number does not prove that the target is covered: a mode that was never drawn does not show.
        """
        return 1.0 / float(np.square(self.normalized_weights).sum())

    @property
    def max_share(self) -> float:
        """Fraction of the largest weight in the sum of all, in [1/n, 1]."""
        return float(self.normalized_weights.max())

    @property
    def log_mean_weight(self) -> float:
        """Log of the mean weight in nats: estimates log of the ratio of normalizers, Z_p / Z_q.

        The mean weight itself is unbiased; its log is too low on average (Jensen), by about ``stderr**2 / 2``.
        """
        top = float(self.log_weights.max())
        return top + math.log(float(np.exp(self.log_weights - top).mean()))

    @property
    def stderr(self) -> float:
        """Standard error of `log_mean_weight` in nats by the delta method.

        Also the relative standard error of the mean weight: sd(w) / (mean(w) sqrt(n)). inf for a single draw.
        """
        n = len(self)
        if n == 1:
            return math.inf
        w = np.exp(self.log_weights - self.log_weights.max())
        return float(w.std(ddof=1) / w.mean()) / math.sqrt(n)

    @cached_property
    def khat(self) -> float:
        """Shape of the tail of the weights: above 0.5 their variance is infinite, above 0.7 do not trust the result.

        nan where it cannot be told (fewer than 5 weights in the tail, equal weights).
        """
        return tail_shape(self.log_weights)

    @checked
    def estimate(self, f: Callable[[Array], ArrayLike] | ArrayLike, *, self_normalized: bool = True) -> Estimate:
        """The expectation of f under the target.

        Self-normalized: ``sum w f / sum w``; needs no normalizer, is biased by O(1/n) toward the proposal's
        expectation, error and bias by the delta method: ``stderr^2 = n/(n-1) sum s^2 (f - value)^2``, ``bias = -sum s^2
        (f - value)`` with s the normalized weights. Otherwise ``mean(w f)``: unbiased, right only when p and q are both
        normalized.

        Parameters
        ----------
        f : callable or array
            Function of `values` giving (n,) or (n, k), or its values. What it is at draws of weight 0 does not matter.
        self_normalized : bool, default True
            Which of the two estimators.

        Returns
        -------
        Estimate
            Floats for f of shape (n,), else arrays of shape (k,).

        References
        ----------
        Owen (2013), "Monte Carlo theory, methods and examples", chapter 9.
        """
        y = to_numpy(f(self.values) if callable(f) else f)
        if y.shape[:1] != self.log_weights.shape:
            raise UserValueError(f"f must return one value per draw, got shape {y.shape} for {len(self)} draws", "f")
        n = len(self)
        y = np.where((self.log_weights == -math.inf).reshape(-1, *(1,) * (y.ndim - 1)), 0.0, y)
        if self_normalized:
            w = self.normalized_weights
            value = np.tensordot(w, y, axes=1)
            off = np.square(w) if n > 1 else np.zeros(1)
            bias = -np.tensordot(off, y - value, axes=1)
            stderr = np.sqrt(np.tensordot(off, np.square(y - value), axes=1) * n / max(n - 1, 1))
        else:
            terms = (np.exp(self.log_weights) * y.T).T
            value, bias = terms.mean(axis=0), np.zeros(y.shape[1:])
            stderr = terms.std(axis=0, ddof=1) / math.sqrt(n) if n > 1 else np.zeros(y.shape[1:])
        if n == 1:
            stderr = np.full(y.shape[1:], math.inf)
        return Estimate(*(float(part) if y.ndim == 1 else part for part in (value, stderr, bias)))

    @checked
    def resample(
        self,
        noise: Noise,
        n: int | None = None,
        *,
        draw: int = 0,
        method: Literal["systematic", "multinomial"] = "systematic",
    ) -> NDArray[np.int64]:
        """Indices of draws, chosen with probabilities `normalized_weights`: ``values[indices]`` follow the target.

        Systematic: one uniform number and n equally spaced points, so draw i is chosen floor or ceil of n w_i times.
        Multinomial: n independent choices.

        Parameters
        ----------
        noise : Noise
            Shared noise.
        n : int, in [1, inf), optional
            Number of indices; as many as draws by default.
        draw : int
            Call number.
        method : {"systematic", "multinomial"}
            How to choose.

        Returns
        -------
        array of shape (n,), int64

        References
        ----------
        Kitagawa (1996), "Monte Carlo filter and smoother for non-Gaussian nonlinear state space models".
        """
        n = len(self) if n is None else n
        if n < 1:
            raise UserValueError.must("n", "be at least 1", n)
        affordable(n, "n", "take fewer draws")
        if method not in ("systematic", "multinomial"):
            raise UserValueError.must("method", "be systematic or multinomial", method)
        like = np.empty(0)
        if method == "systematic":
            points = (np.arange(n) + noise.uniform((1,), draw, like=like)) / n
        else:
            points = noise.uniform((n,), draw, like=like)
        total = np.cumsum(self.normalized_weights)
        return np.searchsorted(total / total[-1], points, side="left").astype(np.int64)

    @property
    def notice(self) -> str:
        """Why the sample should not be trusted, in one line; empty when nothing is wrong.

        Speaks when one weight makes up more than half of the sum, or the tail index exceeds 0.7 while the effective
        number is below half of the draws (near-equal weights have no tail that matters), or 50 draws and more count as
        fewer than 10 (weights of few values have no tail to measure).
        """
        n = len(self)
        if n > 1 and self.max_share > 0.5:
            return (
                f"one of {n} weights makes up {self.max_share:.0%} of the sum (effective number {self.ess:.1f}): "
                "the estimate and its error are not to be trusted"
            )
        if self.ess < n / 2 and self.khat > 0.7:
            return f"the weights have a heavy tail (k-hat {self.khat:.2f}, effective number {self.ess:.1f} of {n})"
        if n >= 5 * _FEWEST_EFFECTIVE and self.ess < _FEWEST_EFFECTIVE:
            return f"{n} draws count as {self.ess:.1f}: too few for an estimate and its error"
        return ""

    def warn(self) -> None:
        """Issue `notice` as a warning, if there is one."""
        if self.notice:
            warnings.warn(self.notice, stacklevel=2)


@checked
def importance_sample(
    target: HasLogProb | Callable[[Array], Array], proposal: Any, n: int, noise: Noise
) -> WeightedSample:
    """Draws of a proposal weighted toward a target.

    Parameters
    ----------
    target : HasLogProb or callable
        Log density of the target in nats, normalized or not: (n, ...) to (n,).
    proposal : Family, fitted System, or HasLogProb and Samples
        ``sample(n, noise)`` and a normalized ``log_prob(x)``; a family of `gnomon.distributions` gives rows, with a
        column for each number of its batch.
    n : int, in [1, inf)
        Number of draws.
    noise : Noise
        Row i uses the numbers of position i.

    Returns
    -------
    WeightedSample
        log p(x_i) - log q(x_i) and the draws.

    References
    ----------
    Kahn and Marshall (1953), "Methods of reducing sample size in Monte Carlo computations".
    """
    if n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    proposal = as_proposal(proposal)
    if not isinstance(target, HasLogProb):
        function(target, "target")
    affordable(how_many(n), "n", "take fewer draws")
    x = proposal.sample(n, noise)
    log_p = target.log_prob(x) if isinstance(target, HasLogProb) else target(x)
    p, q = answers(log_p, (n,), "target"), answers(proposal.log_prob(x), (n,), "proposal")
    if (q == -math.inf).any():
        where = f"draw {int(np.argmax(q == -math.inf))}"
        raise UserValueError("the proposal has density 0 where it draws", where, "correct its log_prob")
    return WeightedSample(p - q, x)


def check_support(p: ArrayLike, q: ArrayLike, f: ArrayLike = 1.0) -> None:
    """Refuse a proposal on a finite space that never draws a state on which the expectation depends.

    Parameters
    ----------
    p, q : array of shape (K,)
        Probabilities (or masses) of target and proposal.
    f : array of shape (K,), optional
        The function whose expectation is wanted; 1 by default, which asks for the whole support.

    Raises
    ------
    UserValueError
        When q is 0 where p f is not, naming the first such state.

    Examples
    --------
    >>> check_support([0.5, 0.5], [1.0, 0.0], f=[1.0, 0.0])
    """
    p, q, f = floats(p, "p"), floats(q, "q"), floats(f, "f")
    if p.ndim != 1 or q.shape != p.shape or f.shape not in ((), p.shape):
        raise UserValueError(
            f"p, q and f must be one number per state, got shapes {p.shape}, {q.shape}, {f.shape}", "p, q, f"
        )
    for name, given in (("p", p), ("q", q), ("f", f)):
        if not (np.isfinite(given) & ((given >= 0) | (name == "f"))).all():
            raise UserValueError(f"{name} must be finite and at least 0", name)
    missed = np.flatnonzero((p * f != 0) & (q == 0))
    if missed.size:
        raise UserValueError(
            "the proposal has probability 0 where the target's integrand is not 0",
            f"state {missed[0]}",
            "choose a proposal that covers the target",
        )
