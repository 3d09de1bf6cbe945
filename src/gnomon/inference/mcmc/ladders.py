"""Ladders of inverse temperatures: spacing, adaptation to even swap rates, and a look for critical temperatures.

A ladder falls from beta = 1, the target, to its hottest level. Neighbors exchange states as far as their energies
overlap, which the heat capacity ``C(beta) = Var_beta[E]`` (in nats squared, times beta^2 in physics) governs: where it
is large, steps must be short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from gnomon.contracts import State
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.adaptation import DualAveraging, windows
from gnomon.inference.mcmc.kernel import ChainState, Info
from gnomon.numeric.given import checked, doable, floats

__all__ = [
    "LadderCheck", "LadderTuning", "adapt", "check_falling", "check_ladder", "heat_capacity", "ladder", "spaced_by",
]  # fmt: skip

Floats = NDArray[np.float64]

_LEAST_RATE = 1e-6
_TOO_FEW_SWAPS = 0.1
"""Below this a gap lets so few states through that more temperatures pay."""


@checked
def ladder(n: int, kind: Literal["geometric", "linear"] = "geometric", hottest: float = 0.1) -> Floats:
    """Inverse temperatures 1 = beta_1 > ... > beta_n = hottest.

    Geometric: ``beta_k = hottest^((k - 1) / (n - 1))``, right where the heat capacity goes as 1 / beta^2 (quadratic
    energies); linear: equal steps.

    Parameters
    ----------
    n : int, in [2, inf)
        Number of temperatures.
    kind : {"geometric", "linear"}
    hottest : float, in (0, 1) for geometric, [0, 1) for linear

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> ladder(3, hottest=0.25).tolist(), ladder(3, "linear", 0.0).tolist()
    ([1.0, 0.5, 0.25], [1.0, 0.5, 0.0])
    """
    doable(n, "n", least=2)
    if kind not in ("geometric", "linear"):
        raise UserValueError.must("kind", "be geometric or linear", kind)
    if not (0 < hottest < 1 or (kind == "linear" and hottest == 0)):
        raise UserValueError.must("hottest", "be in (0, 1), or 0 with kind='linear'", hottest)
    betas = np.linspace(1.0, hottest, n) if kind == "linear" else hottest ** (np.arange(n) / (n - 1))
    betas[-1] = hottest
    return np.asarray(betas, dtype=np.float64)


@checked
def check_falling(betas: ArrayLike) -> Floats:
    """A ladder as it must be: at least 2 levels, from exactly 1 strictly down, never below 0.

    Raises
    ------
    UserValueError
        Naming the entry that is wrong.
    """
    b = np.array(betas, dtype=np.float64)
    if b.ndim != 1 or b.size < 2:
        raise UserValueError.must("betas", "be 2 or more inverse temperatures on one axis", b)
    if b[0] != 1:
        raise UserValueError(f"betas must begin at 1, the target, got {b[0]}", "betas")
    wrong = np.flatnonzero(~(np.diff(b) < 0) | ~(b[1:] >= 0))
    if wrong.size:
        k = int(wrong[0])
        raise UserValueError(
            f"betas must fall strictly and stay at least 0, got {b[k]} then {b[k + 1]}", f"betas, entry {k + 1}"
        )
    return b


@checked
def adapt(betas: ArrayLike, swap_rates: ArrayLike) -> Floats:
    """The ladder with the same ends and as many levels whose swap rates are more even.

    For energies that are nearly normal, levels an amount d(beta) apart swap at the rate ``erfc(d(beta) sigma_E / 2)``:
    ``erfcinv(rate)`` is a length that adds up along the ladder. It is taken to be spread evenly over each gap, and the
    new levels stand at equal shares of the whole. Even rates stay as they are; a few rounds of measuring and adapting
    settle.

    Parameters
    ----------
    betas : array of shape (n,)
        Falling from 1.
    swap_rates : array of shape (n - 1,), in [0, 1]
        Mean acceptance of swaps between neighbors.

    References
    ----------
    Predescu, Predescu and Ciobanu (2004), "The incomplete beta function distribution for parallel tempering sampling of
    classical canonical systems"; Syed, Bouchard-Cote, Deligiannidis and Doucet (2022), "Non-reversible parallel
    tempering".

    Examples
    --------
    >>> adapt([1.0, 0.5, 0.0], [0.3, 0.3]).tolist()
    [1.0, 0.5, 0.0]
    >>> bool(adapt([1.0, 0.5, 0.0], [0.1, 0.6])[1] > 0.5)
    True
    """
    b, rates = check_falling(betas), np.asarray(swap_rates, dtype=np.float64)
    if rates.shape != (len(b) - 1,) or not ((rates >= 0) & (rates <= 1)).all():
        raise UserValueError.must("swap_rates", f"be {len(b) - 1} numbers in [0, 1]", rates)
    return _evened(b, special.erfcinv(np.clip(rates, _LEAST_RATE, 1 - _LEAST_RATE)))


@checked
def spaced_by(n: int, betas: ArrayLike, capacity: ArrayLike) -> Floats:
    """A ladder of n levels with steps proportional to ``1 / sqrt(Var_beta[E])``: equal overlap of neighbors.

    Parameters
    ----------
    n : int, in [2, inf)
    betas : array of shape (m,)
        Falling from 1: where the heat capacity is known. The new ladder has the same ends.
    capacity : array of shape (m,), in (0, inf)
        Var_beta[E] there, linear in between after the square root.

    Examples
    --------
    >>> spaced_by(3, [1.0, 0.0], [4.0, 4.0]).tolist()
    [1.0, 0.5, 0.0]
    """
    doable(n, "n", least=2)
    b, spread = check_falling(betas), np.sqrt(_capacities(betas, capacity))
    fine = np.interp(np.arange(200 * (len(b) - 1) + 1) / 200, np.arange(len(b)), b)
    height = np.interp(-fine, -b, spread)
    return _evened(fine, -np.diff(fine) * 0.5 * (height[1:] + height[:-1]), n)


@checked
def heat_capacity(beta: ArrayLike, energies: ArrayLike, log_weights: ArrayLike | None = None) -> Floats:
    """``Var_beta[E]`` where the states can be listed: under weights ``exp(log_weight - beta E)``.

    It is minus the derivative of E_beta[E], the second derivative of log Z, and for two states D apart
    ``D^2 s (1 - s)``, ``s = sigma(beta D)``. From chains, take the variance of the energies of each level instead.

    Parameters
    ----------
    beta : float or array of shape (m,)
    energies : array of shape (states,)
        Nats.
    log_weights : array of shape (states,), optional
        Log of how many states have the energy, or log p_0 where the path has a base (E is then log p_0 - log p).

    Returns
    -------
    array of the shape of beta

    Examples
    --------
    >>> round(float(heat_capacity(0.0, [0.0, 2.0])), 12)
    1.0
    """
    e, b = floats(energies, "energies").ravel(), floats(beta, "beta")
    if not np.isfinite(b).all():
        raise UserValueError("beta must be finite", "beta")
    if e.size == 0 or not np.isfinite(e).all():
        raise UserValueError("energies must be finite", "energies", "leave out states of infinite energy")
    extra = np.zeros_like(e) if log_weights is None else floats(log_weights, "log_weights").ravel()
    if extra.shape != e.shape or not (extra < np.inf).all():
        raise UserValueError(
            f"log_weights must be {e.size} numbers below inf, one per state, got {extra.size}", "log_weights"
        )
    p = special.softmax(extra - b[..., None] * e, axis=-1)
    mean = p @ e
    return np.asarray((p * (e - mean[..., None]) ** 2).sum(axis=-1), dtype=np.float64)


@dataclass(frozen=True)
class LadderCheck:
    """What `check_ladder` found.

    Parameters
    ----------
    swap_rates : array of shape (n - 1,)
        Expected of normal energies, ``erfc(d(beta) sigma_E / 2)``.
    critical : array
        Inverse temperatures where the heat capacity peaks inside the ladder.
    notices : tuple of str
        A line for each critical temperature and each gap that lets next to nothing through.
    """

    swap_rates: Floats
    critical: Floats
    notices: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.notices) or "no critical temperature, and every gap can be swapped over"


@checked
def check_ladder(betas: ArrayLike, capacity: ArrayLike) -> LadderCheck:
    """Whether a ladder passes critical temperatures, and whether its gaps let states through.

    Near a critical temperature the distribution changes its nature within a short range of beta: the heat capacity
    peaks, and a schedule must move slowly there.

    Parameters
    ----------
    betas : array of shape (n,)
        Falling from 1.
    capacity : array of shape (n,), in (0, inf)
        Var_beta[E] at each.

    Examples
    --------
    >>> print(check_ladder([1.0, 0.6, 0.3, 0.1], [1.0, 50.0, 1.0, 1.0]))
    the heat capacity peaks at beta 0.6 (50): move slowly there
    """
    b, c = check_falling(betas), _capacities(betas, capacity)
    spread = np.sqrt(c)
    rates = special.erfc(-np.diff(b) * 0.25 * (spread[1:] + spread[:-1]))
    peaks = 1 + np.flatnonzero((c[1:-1] > c[:-2]) & (c[1:-1] > c[2:]))
    notices = [f"the heat capacity peaks at beta {b[k]:g} ({c[k]:.3g}): move slowly there" for k in peaks]
    notices += [
        f"about {rates[k]:.1%} of swaps between beta {b[k]:g} and {b[k + 1]:g} will be accepted: add levels there"
        for k in np.flatnonzero(rates < _TOO_FEW_SWAPS)
    ]
    return LadderCheck(rates, b[peaks], tuple(notices))


@dataclass(frozen=True)
class LadderTuning:
    """Tunes replica exchange in burn-in: the ladder towards even swap rates, and each level's step size.

    After each of the doubling windows of burn-in the ladder takes the step of `adapt` that its swap rates ask for; the
    ends stay. Step sizes follow dual averaging of each level's own acceptance. Both are frozen after burn-in.

    Parameters
    ----------
    levels : bool
        Whether the ladder moves.
    acceptance : float, in (0, 1), optional
        Wanted acceptance of the moves; the kernel's own by default.
    """

    levels: bool = True
    acceptance: float | None = None

    def init(self, kernel: Any, state: ChainState) -> dict[str, Floats]:
        """The state at the beginning of burn-in."""
        if not hasattr(kernel, "swap_rates"):
            raise UserValueError(f"{type(kernel).__name__} has no ladder to tune", "adapt", "use adapt='auto'")
        sizes = kernel.sizes(state.target)
        return {} if sizes is None else self._rule(kernel, state).init(sizes)

    def update(
        self, kernel: Any, tuning: State, state: ChainState, info: Info, t: int, burn_in: int
    ) -> tuple[Any, dict[str, Floats]]:
        """Kernel and state after step t = 0, ..., burn_in - 1."""
        rule, steps, betas = self._rule(kernel, state), dict(tuning), None
        if steps:
            steps = rule.update(steps, to_numpy(info["slot_accept"]).mean(axis=0))
        if self.levels and t + 1 in windows(burn_in)[1:]:
            rates = kernel.swap_rates(state)
            # a window too short to try every pair says nothing
            betas = adapt(kernel.betas, rates) if np.isfinite(rates).all() else None
        if steps and betas is not None:
            steps = rule.init(np.exp(steps["log_step"]))
        sizes = None
        if steps:
            sizes = rule.final(steps) if t + 1 == burn_in else np.exp(steps["log_step"])
        return kernel.tuned(sizes, betas), steps

    def _rule(self, kernel: Any, state: ChainState) -> DualAveraging:
        return DualAveraging(self.acceptance or kernel.best_acceptance(state.target))


def _evened(b: Floats, lengths: Floats, n: int | None = None) -> Floats:
    """Places at equal shares of a length that runs along b, the ends kept exactly."""
    total = np.concatenate([[0.0], np.cumsum(lengths)])
    n = len(b) if n is None else n
    new = np.interp(np.linspace(0.0, total[-1], n), total, b)
    new[0], new[-1] = b[0], b[-1]
    return new


def _capacities(betas: ArrayLike, capacity: ArrayLike) -> Floats:
    c = np.asarray(capacity, dtype=np.float64)
    if c.shape != np.shape(betas) or not (np.isfinite(c) & (c > 0)).all():
        raise UserValueError.must("capacity", "be a finite positive number per inverse temperature", c)
    return c
