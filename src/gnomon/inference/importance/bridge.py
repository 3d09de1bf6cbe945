"""Bridge sampling: the ratio of two normalizers from draws of both distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.importance.weights import WeightedSample
from gnomon.numeric.given import checked, floats, numbers
from gnomon.numeric.tensors import is_tensor

__all__ = ["LogRatio", "estimate_log_ratio"]

Floats = NDArray[np.float64]
Sides = tuple[Floats, Floats]
LogDensity = Callable[[Array], Array]
Bridge = Literal["optimal", "geometric"] | LogDensity

_FEW_DRAWS = 10.0


@dataclass(frozen=True)
class LogRatio:
    """What `estimate_log_ratio` found.

    Parameters
    ----------
    log_r_ : float
        Estimate of log(Z_1 / Z_0) in nats.
    se_ : float
        Its standard error, which is also the relative standard error of Z_1 / Z_0.
    converged_ : bool
        Whether the last iteration changed log r by less than the tolerance; True for bridges that do not iterate.
    n_iter_ : int
        Iterations.
    overlap_ : float, in [0, 1]
        Estimate of the integral of ``p_0 p_1 / (s_0 p_0 + s_1 p_1)``: 1 for equal distributions, 0 for disjoint ones.
    side0, side1 : WeightedSample
        Log of p_* / p_0 at the draws of p_0, and of p_* / p_1 at those of p_1.
    notice : str
        Why not to trust it, in one line; empty when nothing is wrong.
    """

    log_r_: float
    se_: float
    converged_: bool
    n_iter_: int
    overlap_: float
    side0: WeightedSample
    side1: WeightedSample
    notice: str = ""

    @property
    def r_(self) -> float:
        """Z_1 / Z_0 itself; biased by about ``se_**2`` of itself, as ratios of means are."""
        return math.exp(self.log_r_)

    def warn(self) -> None:
        """Issue `notice` as a warning, if there is one."""
        if self.notice:
            warnings.warn(self.notice, stacklevel=2)


@checked
def estimate_log_ratio(
    x0: Array | None,
    x1: Array | None,
    log_p0: LogDensity | tuple[ArrayLike, ArrayLike],
    log_p1: LogDensity | tuple[ArrayLike, ArrayLike],
    bridge: Bridge = "optimal",
    *,
    ess: tuple[float | None, float | None] = (None, None),
    log_weights: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
    start: float | None = None,
    tol: float = 1e-10,
    max_iter: int = 1000,
) -> LogRatio:
    r"""Log of Z_1 / Z_0 from draws of both, through a third density p_* that overlaps both.

    .. math:: r = Z_1 / Z_0 = \frac{E_0[\tilde p_*(x) / \tilde p_0(x)]}{E_1[\tilde p_*(x) / \tilde p_1(x)]}

    "geometric" takes :math:`p_* \propto (\tilde p_0 \tilde p_1)^{1/2}`; "optimal" the bridge of least variance,
    :math:`\tilde p_0 \tilde p_1 / (s_0 r \tilde p_0 + s_1 \tilde p_1)` with the shares s of the draws, iterated on the
    unknown r from the geometric estimate. With ``bridge=log_p1`` it is plain importance sampling from p_0, with
    ``bridge=log_p0`` the harmonic mean over draws of p_1.

    The error is that of independent draws, by the delta method: :math:`se^2 = cv_0^2 / n_0 + cv_1^2 / n_1` with the
    coefficients of variation of the two terms. For draws of a Markov chain pass their effective numbers.

    Parameters
    ----------
    x0, x1 : arrays of shape (n_0, ...) and (n_1, ...), or None
        Draws of p_0 and p_1. None where both densities are given as values and the bridge is named.
    log_p0, log_p1 : callable, or pair of arrays of shapes (n_0,) and (n_1,)
        Unnormalized log densities in nats, or their values at x0 and at x1.
    bridge : {"optimal", "geometric"} or callable
        A callable is the unnormalized log density of p_*.
    ess : pair of floats or None
        Effective numbers of draws behind x0 and x1; the numbers of draws by default.
    log_weights : pair of arrays of shapes (n_0,) and (n_1,), or None
        Log importance weights that make the draws those of p_0 and of p_1; equal ones by default.
    start : float, optional
        Log r at which the optimal bridge begins.
    tol : float, in (0, inf), default 1e-10
        The iteration stops when log r changes by less.
    max_iter : int, in [1, inf), default 1000

    Returns
    -------
    LogRatio
        Cost O(n_0 + n_1) per iteration, after four evaluations of densities.

    Raises
    ------
    UserValueError
        When less than one draw lies where the two overlap, a density is not a number, or 0 at a draw of its own.

    References
    ----------
    Bennett (1976), "Efficient estimation of free energy differences from Monte Carlo data"; Meng and Wong (1996),
    "Simulating ratios of normalizing constants via a simple identity".

    Examples
    --------
    >>> p0, p1 = np.log([1.0, 1, 1, 1]), np.log([8.0, 4, 2, 1])
    >>> x0, x1 = np.arange(4), np.repeat(np.arange(4), [8, 4, 2, 1])
    >>> round(estimate_log_ratio(x0, x1, lambda x: p0[x], lambda x: p1[x]).r_, 9)
    3.75
    """
    x0, x1 = (x if x is None or is_tensor(x) else numbers(x, name) for x, name in ((x0, "x0"), (x1, "x1")))
    if max_iter < 1 or not tol > 0:
        raise UserValueError(f"tol and max_iter must be positive, got {tol} and {max_iter}", "tol, max_iter")
    at0, at1 = _values(log_p0, x0, x1, "log_p0"), _values(log_p1, x0, x1, "log_p1")
    _check_own(at0[0], "x0", "log_p0")
    _check_own(at1[1], "x1", "log_p1")
    w0, w1 = at1[0] - at0[0], at1[1] - at0[1]
    sizes = _sizes(ess, len(w0), len(w1))
    own = _own_weights(log_weights[0], len(w0), "x0"), _own_weights(log_weights[1], len(w1), "x1")
    if w0.max() == -math.inf or w1.min() == math.inf:
        raise _no_overlap(0.0)
    if callable(bridge):
        if x0 is None or x1 is None:
            raise UserTypeError("x0 and x1 are required for a bridge given as a function", "x0, x1", "pass the draws")
        terms = to_numpy(bridge(x0)) - at0[0], to_numpy(bridge(x1)) - at1[1]
        log_r, n_iter, converged = _log_r(terms, own), 0, True
    elif bridge == "geometric":
        terms = 0.5 * w0, -0.5 * w1
        log_r, n_iter, converged = _log_r(terms, own), 0, True
    elif bridge == "optimal":
        begin = _log_r((0.5 * w0, -0.5 * w1), own) if start is None else float(start)
        log_r, n_iter, converged = _iterate(w0, w1, own, sizes, begin, tol, max_iter)
        terms = _optimal(w0, w1, sizes, log_r)
    else:
        raise UserValueError.must("bridge", "be optimal, geometric or a log density", bridge)
    overlap = _overlap(w0, w1, own, sizes, log_r)
    shared = overlap * min(sizes)
    if shared < 1:
        raise _no_overlap(shared)
    sides = WeightedSample(terms[0] + own[0], x0), WeightedSample(terms[1] + own[1], x1)
    se = math.hypot(*map(_relative_error, sides, own, sizes))
    notice = _notice(shared, converged, max_iter, sides)
    return LogRatio(log_r, se, converged, n_iter, overlap, *sides, notice)


def _values(
    log_p: LogDensity | tuple[ArrayLike, ArrayLike], x0: Array | None, x1: Array | None, name: str
) -> tuple[Floats, Floats]:
    """The log density at the draws of both sides."""
    if not callable(log_p):
        try:
            left, right = (floats(part, name).ravel() for part in log_p)
        except (TypeError, ValueError, UserError):
            raise UserTypeError(f"{name} must be a function or a pair (values at x0, values at x1)", name) from None
    elif x0 is None or x1 is None:
        raise UserTypeError(f"x0 and x1 are required where {name} is a function", "x0, x1", "pass the draws")
    else:
        left, right = to_numpy(log_p(x0), name), to_numpy(log_p(x1), name)
    for part, side, x in ((left, "x0", x0), (right, "x1", x1)):
        if part.ndim != 1 or part.size == 0 or (x is not None and len(x) != part.size):
            raise UserValueError.must("values", "be one number per draw", part, f"{name} at {side}")
        bad = np.flatnonzero(np.isnan(part) | (part == math.inf))
        if bad.size:
            what = f"the log density must be finite, got {part[bad[0]]}"
            raise UserValueError(what, f"{name} at {side}, draw {bad[0]}")
    return left, right


def _check_own(values: Floats, draws: str, name: str) -> None:
    lost = np.flatnonzero(values == -math.inf)
    if lost.size:
        what = "a density is 0 at one of its own draws"
        raise UserValueError(what, f"{name} at {draws}, draw {lost[0]}", "pass draws of this very density")


def _sizes(ess: tuple[float | None, float | None], n0: int, n1: int) -> tuple[float, float]:
    if not isinstance(ess, tuple | list) or len(ess) != 2:
        raise UserValueError.must("ess", "be a pair of numbers or None", ess)
    left, right = (float(n) if own is None else float(floats(own, "ess")) for own, n in zip(ess, (n0, n1), strict=True))
    if not (0 < left < math.inf and 0 < right < math.inf):
        raise UserValueError(f"ess must be positive, got {left} and {right}", "ess")
    return left, right


def _optimal(w0: Floats, w1: Floats, sizes: tuple[float, float], log_r: float) -> tuple[Floats, Floats]:
    """Log of p_* / p_0 and p_* / p_1 at r: ``p_* = p_0 p_1 / (s_0 r p_0 + s_1 p_1)``."""
    total = math.log(sum(sizes))
    s0, s1 = math.log(sizes[0]) - total + log_r, math.log(sizes[1]) - total
    return w0 - np.logaddexp(s0, s1 + w0), -np.logaddexp(s0, s1 + w1)


def _own_weights(log_weights: ArrayLike | None, n: int, draws: str) -> Floats:
    """Log weights with mean weight 1."""
    if log_weights is None:
        return np.zeros(n)
    found = WeightedSample(floats(log_weights, "log_weights"))
    if len(found) != n:
        raise UserValueError(f"log_weights must be one per draw, got {len(found)} for {n} draws", draws)
    return found.log_weights - found.log_mean_weight


def _iterate(
    w0: Floats, w1: Floats, own: Sides, sizes: tuple[float, float], log_r: float, tol: float, max_iter: int
) -> tuple[float, int, bool]:
    for step in range(1, max_iter + 1):
        before, log_r = log_r, _log_r(_optimal(w0, w1, sizes, log_r), own)
        if abs(log_r - before) < tol:
            return log_r, step, True
    return log_r, max_iter, False


def _overlap(w0: Floats, w1: Floats, own: Sides, sizes: tuple[float, float], log_r: float) -> float:
    """The smaller of its two estimates, one from each side; they agree where the optimal bridge has converged.

    Without overlap the iteration swings between two values, at each of which one of the two estimates is near 0.
    """
    left, right = _optimal(w0, w1, sizes, log_r)
    return math.exp(min(_log_mean(left + own[0]), _log_mean(right + own[1]) + log_r, 0.0))


def _log_r(terms: Sides, own: Sides) -> float:
    above, below = (_log_mean(term + weight) for term, weight in zip(terms, own, strict=True))
    if not (math.isfinite(above) and math.isfinite(below)):
        raise _no_overlap(0.0)
    return above - below


def _log_mean(x: Floats) -> float:
    top = float(x.max())
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.exp(x - top).mean()))


def _relative_error(side: WeightedSample, own: Floats, size: float) -> float:
    """Standard error of the log of the mean term when `size` draws were independent."""
    if not own.any():
        return side.stderr * math.sqrt(len(side) / size)
    away = len(side) * side.normalized_weights - np.exp(own)
    return float(away.std(ddof=1)) / math.sqrt(size) if len(side) > 1 else math.inf


def _no_overlap(shared: float) -> UserValueError:
    return UserValueError(
        f"the draws do not overlap: about {shared:.1g} of them lie where both densities count", "x0, x1",
        "take more draws, or go through distributions between the two (annealed or linked importance sampling)",
    )  # fmt: skip


def _notice(shared: float, converged: bool, max_iter: int, sides: tuple[WeightedSample, WeightedSample]) -> str:
    notices = []
    if not converged:
        notices.append(f"the bridge has not converged in {max_iter} iterations")
    if shared < _FEW_DRAWS:
        notices.append(f"only about {shared:.1f} draws lie where both densities count")
    notices += [f"{side.notice} (draws of p_{k})" for k, side in enumerate(sides) if side.notice]
    return "; ".join(notices)
