"""Adaptation, apart from the kernels: it looks at what a burn-in tells and answers a better kernel.

While a kernel changes with the past of its chains its target is not left invariant; so adaptation runs in burn-in and
is frozen before the first draw that is kept. Its state is named arrays, saved and resumed like that of the chains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, State
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.kernel import ChainState, Info

__all__ = ["Adaptation", "DualAveraging", "windows"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DualAveraging:
    """Step sizes that make the acceptance what is wanted, by Nesterov's dual averaging.

    ``log eps_t = mu - sqrt(t) / gamma * Hbar_t`` with Hbar the damped mean of ``target - acceptance``; what is used
    after burn-in is the weighted mean of the log step sizes with weights ``t^-kappa``.

    Parameters
    ----------
    target : float, in (0, 1)
        Wanted mean acceptance probability.
    gamma, t0, kappa : float
        Strength of the pull towards mu = log(10 eps_0), damping of the first steps, forgetting.

    References
    ----------
    Hoffman and Gelman (2014), "The no-U-turn sampler", section 3.2.

    Examples
    --------
    >>> rule = DualAveraging(0.8)
    >>> state = rule.init(1.0)
    >>> for _ in range(2000):
    ...     state = rule.update(state, np.exp(-np.exp(state["log_step"])))
    >>> round(float(np.exp(-rule.final(state))), 2)
    0.8
    """

    target: float = 0.8
    gamma: float = 0.05
    t0: float = 10.0
    kappa: float = 0.75

    def __post_init__(self) -> None:
        if not 0 < self.target < 1:
            raise UserValueError.must("target", "be in (0, 1)", self.target, remedy="0.8 is usual for HMC")

    def init(self, step_size: float | Array) -> dict[str, Floats]:
        """The state before the first update, at a first step size or at one per chain."""
        start = np.log(to_numpy(step_size))
        return {
            "mu": start + math.log(10.0), "log_step": start, "log_mean": np.zeros_like(start),
            "shortfall": np.zeros_like(start), "t": np.zeros(()),
        }  # fmt: skip

    def update(self, state: State, acceptance: float | Array) -> dict[str, Floats]:
        """The state after a step with this acceptance probability (of all chains together, or of each)."""
        t = float(state["t"]) + 1
        weight = 1 / (t + self.t0)
        shortfall = (1 - weight) * state["shortfall"] + weight * (self.target - to_numpy(acceptance))
        log_step = state["mu"] - math.sqrt(t) / self.gamma * shortfall
        fade = t**-self.kappa
        log_mean = fade * log_step + (1 - fade) * state["log_mean"]
        return {
            "mu": state["mu"], "log_step": log_step, "log_mean": log_mean, "shortfall": shortfall, "t": np.asarray(t),
        }  # fmt: skip

    def final(self, state: State) -> Floats:
        """The step size to keep."""
        return np.asarray(np.exp(state["log_mean"] if state["t"] > 0 else state["log_step"]))


@dataclass(frozen=True)
class Adaptation:
    """Tunes step size and covariance of HMC or a random walk in burn-in, in windows.

    The step size follows dual averaging of the acceptance all along. The covariance (variances by default) is that of
    the positions of all chains about their common mean in a window, shrunk a little towards a small multiple of the
    identity; windows double, and after each the kernel takes the new covariance and dual averaging starts anew. The
    first 15% and the last 10% of burn-in tune the step size alone.

    Parameters
    ----------
    acceptance : float, in (0, 1), optional
        Wanted acceptance; the kernel's own by default.
    covariance : {"variances", "full", None}
        What is estimated; None tunes the step size alone.
    per_chain : bool
        A step size for each chain rather than one for all.
    """

    acceptance: float | None = None
    covariance: str | None = "variances"
    per_chain: bool = False

    def __post_init__(self) -> None:
        if self.covariance not in ("variances", "full", None):
            raise UserValueError.must("covariance", "be variances or full", self.covariance)

    def init(self, kernel: Any, state: ChainState) -> dict[str, Floats]:
        """The state at the beginning of burn-in."""
        step = getattr(kernel, "step_size", None)
        if step is None:
            raise UserValueError(f"{type(kernel).__name__} has nothing to tune", "adapt", "use adapt=None")
        size = np.full(len(state), float(step)) if self.per_chain and np.ndim(step) == 0 else step
        return self._rule(kernel).init(size) | self._empty(state["x"])

    def update(
        self, kernel: Any, tuning: State, state: ChainState, info: Info, t: int, burn_in: int
    ) -> tuple[Any, dict[str, Floats]]:
        """Kernel and state after step t = 0, ..., burn_in - 1."""
        rule, chance = self._rule(kernel), to_numpy(info["accept_prob"])
        steps = rule.update(tuning, chance if np.ndim(tuning["log_step"]) else chance.mean())
        moments = {name: tuning[name] for name in ("count", "mean", "scatter") if name in tuning}
        covariance, ends = None, windows(burn_in)
        if moments and ends and ends[0] <= t < ends[-1]:
            moments = _absorb(moments, to_numpy(state["x"]).reshape(len(state), -1))
            if t + 1 in ends[1:]:
                covariance = _shrunk(moments)
                steps = rule.init(np.exp(steps["log_step"]))
                moments = self._empty(state["x"])
        size = rule.final(steps) if t + 1 == burn_in else np.exp(steps["log_step"])
        return kernel.tuned(size if np.ndim(size) else float(size), covariance), steps | moments

    def _rule(self, kernel: Any) -> DualAveraging:
        return DualAveraging(self.acceptance or kernel.best_acceptance)

    def _empty(self, x: Array) -> dict[str, Floats]:
        if self.covariance is None or x.ndim != 2:
            return {}
        d = x.shape[1]
        shape = (d, d) if self.covariance == "full" else (d,)
        return {"count": np.zeros(()), "mean": np.zeros(d), "scatter": np.zeros(shape)}


def windows(burn_in: int) -> list[int]:
    """Where windows of the covariance begin and end: from 15% to 90% of burn-in, each twice as long as the last."""
    first, last = int(0.15 * burn_in), int(0.9 * burn_in)
    if last - first < 20:
        return []
    ends, width = [first], 25
    while ends[-1] < last:
        # a rest shorter than the next window would be is joined to this one
        end = ends[-1] + width
        ends.append(last if end + 2 * width > last else end)
        width *= 2
    return ends


def _absorb(moments: State, x: Floats) -> dict[str, Floats]:
    """Count, mean and scatter with more rows (Chan, Golub and LeVeque 1979)."""
    if not moments:
        return {}
    n, m = float(moments["count"]), len(x)
    mean = x.mean(axis=0)
    inner, shift = x - mean, mean - moments["mean"]
    full = moments["scatter"].ndim == 2
    scatter = inner.T @ inner if full else (inner * inner).sum(axis=0)
    between = np.outer(shift, shift) if full else shift * shift
    return {
        "count": np.asarray(n + m),
        "mean": moments["mean"] + shift * (m / (n + m)),
        "scatter": moments["scatter"] + scatter + between * (n * m / (n + m)),
    }


def _shrunk(moments: State) -> Floats:
    n, scatter = float(moments["count"]), moments["scatter"]
    estimate = scatter / max(n - 1, 1)
    small = 1e-3 * np.eye(len(scatter)) if scatter.ndim == 2 else 1e-3
    return np.asarray(n / (n + 5) * estimate + 5 / (n + 5) * small)
