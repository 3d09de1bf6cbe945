"""Whether a kernel leaves its target as it is, tried by experiment where no matrix can be written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gnomon.contracts import Array, Noise, State
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.kernel import Kernel

__all__ = ["InvarianceReport", "check_invariance"]

Statistics = Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]]


@dataclass(frozen=True)
class InvarianceReport:
    """What `check_invariance` found.

    Parameters
    ----------
    p_values : mapping of test to float
        One per statistic (means, paired) and per coordinate (Kolmogorov-Smirnov).
    false_alarm : float
        Chance that a right kernel fails, over all tests together.
    """

    p_values: Mapping[str, float]
    false_alarm: float

    @property
    def holds(self) -> bool:
        """Whether no test speaks against invariance (Bonferroni)."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The tests that speak against it."""
        limit = self.false_alarm / len(self.p_values)
        return tuple(name for name, p in self.p_values.items() if p < limit)


def check_invariance(
    kernel: Kernel,
    target: Any,
    draws: Array | State,
    noise: Noise,
    *,
    steps: int = 1,
    statistics: Statistics | None = None,
    false_alarm: float = 1e-4,
) -> InvarianceReport:
    """Move exact draws of the target by the kernel and test that their distribution is the same: ``q' = E_q T = q``.

    The mean change of each statistic is tested against 0 by its normal approximation, in pairs before and after, which
    sees small errors of a kernel that moves little; each coordinate of one half, moved, is tested against that of the
    other half, unmoved, by Kolmogorov and Smirnov. Failing proves the kernel wrong; holding proves no more than that
    nothing was seen with so many draws.

    Parameters
    ----------
    kernel : Kernel
    target : object
        What the kernel walks on.
    draws : array of shape (n, d), or mapping of block to array
        Independent exact draws of the target; n in the thousands. Of a latent model draws of latents and observations
        together, by blocks: moved by the kernel they are to follow the same joint law.
    noise : Noise
    steps : int, in [1, inf)
        Moves; one shows an error most clearly.
    statistics : mapping of name to function of (n, d) -> (n,), optional
        Each coordinate, its square, and products of neighboring coordinates by default; blocks stand side by side.
    false_alarm : float, in (0, 1)
        Chance that a right kernel fails.

    References
    ----------
    Geweke (2004), "Getting it right: joint distribution tests of posterior simulators".

    Examples
    --------
    >>> from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
    >>> from gnomon.numeric.noise import Noise
    >>> bell, kernel = (lambda x: -0.5 * (x * x).sum(-1)), MetropolisHastings(RandomWalk(1.0))
    >>> check_invariance(kernel, bell, Noise(0, "exact").normal((4000, 1)), Noise(0, "moves")).holds
    True
    """
    if steps < 1:
        raise UserValueError.must("steps", "be at least 1", steps)
    before, names = _columns(draws if isinstance(draws, Mapping) else {"x": draws})
    if len(before) < 100:
        raise UserValueError.must("draws", "be at least 100", len(before), remedy="use thousands")
    state = kernel.init(draws, target)
    for t in range(steps):
        state, _ = kernel.step(state, noise.at(t))
    position = kernel.position(state)
    after, _ = _columns({block: position[block] for block in (draws if isinstance(draws, Mapping) else ("x",))})
    found = {name: _paired(f(before), f(after)) for name, f in (statistics or _moments(names)).items()}
    half = len(before) // 2
    for j, name in enumerate(names):
        found[f"distribution of {name}"] = float(
            stats.ks_2samp(before[:half, j], after[half:, j], method="asymp").pvalue
        )
    return InvarianceReport(found, false_alarm)


def _columns(arrays: State) -> tuple[NDArray[np.float64], list[str]]:
    """Arrays (n, d) side by side, and the names of their columns."""
    parts = {block: to_numpy(x) for block, x in arrays.items()}
    return np.concatenate(list(parts.values()), axis=1), [
        f"{b}[{j}]" for b, x in parts.items() for j in range(x.shape[1])
    ]


def _moments(names: list[str]) -> Statistics:
    found: dict[str, Any] = {}
    for j, name in enumerate(names):
        found[name] = lambda x, j=j: x[:, j]
        found[f"{name}^2"] = lambda x, j=j: x[:, j] ** 2
        if j:
            found[f"{names[j - 1]} {name}"] = lambda x, j=j: x[:, j - 1] * x[:, j]
    return found


def _paired(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    change = after - before
    spread = change.std(ddof=1)
    if not np.isfinite(spread):
        return 0.0
    if spread == 0:
        return 1.0 if change.mean() == 0 else 0.0
    return float(2 * stats.norm.sf(abs(change.mean()) / (spread / np.sqrt(len(change)))))
