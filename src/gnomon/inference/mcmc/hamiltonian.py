"""Hamiltonian Monte Carlo: long moves along the gradient, accepted or rejected as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.mcmc.density import Density, as_density, computes_in
from gnomon.inference.mcmc.kernel import ChainState, Info, accept, select, spread, start_at
from gnomon.inference.mcmc.metropolis import check_positive, root_of

__all__ = ["HMC", "leapfrog"]

_DIVERGENT = 1000.0
"""Nats of energy error beyond which a trajectory is called divergent."""


@dataclass(frozen=True)
class HMC:
    """Hamiltonian (hybrid) Monte Carlo with a leapfrog integrator.

    A momentum ``p ~ N(0, M)`` is drawn, ``H(x, p) = -log p(x) + p' M^-1 p / 2`` is followed for `steps` leapfrog steps
    of size epsilon, and the end is accepted with probability ``min(1, exp(-(H' - H)))``. The integrator keeps volume
    and is reversible, so the target is left invariant exactly, for any step size; an end that is not finite is
    rejected.

    Parameters
    ----------
    step_size : float or array of shape (chains,), in (0, inf)
        epsilon, of all chains or of each, in units of `covariance`.
    steps : int, in [1, inf)
        Leapfrog steps of a move; their gradients are its cost.
    covariance : array of shape (d, d) or (d,), optional
        M^-1, best close to the covariance (or the variances) of the target. The identity by default.
    jitter : float, in [0, 1)
        Each chain's step size is multiplied by a number uniform in ``[1 - jitter, 1 + jitter]`` in every move, so that
        no trajectory is a whole period of an oscillation. It does not depend on the position: invariance stays.

    Notes
    -----
    The info tells ``accepted``, ``accept_prob``, ``energy_error`` (H' - H in nats) and ``divergent`` (beyond 1000).

    References
    ----------
    Duane, Kennedy, Pendleton and Roweth (1987), "Hybrid Monte Carlo"; Neal (2011), "MCMC using Hamiltonian dynamics".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> kernel = HMC(step_size=0.5, steps=5)
    >>> state = kernel.init(np.zeros((4, 2)), lambda x: -0.5 * (x * x).sum(-1))
    >>> state, info = kernel.step(state, Noise(0, "hmc").at(0))
    >>> bool((abs(info["energy_error"]) < 0.5).all())
    True
    """

    step_size: float | Array = 0.1
    steps: int = 10
    covariance: ArrayLike | None = None
    jitter: float = 0.2
    _root: NDArray[np.float64] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_positive(self.step_size, "step_size")
        if self.steps < 1:
            raise UserValueError.must("steps", "be at least 1", self.steps)
        if not 0 <= self.jitter < 1:
            raise UserValueError.must("jitter", "be in [0, 1)", self.jitter, remedy="0.2 is usual")
        object.__setattr__(self, "_root", None if self.covariance is None else root_of(self.covariance))

    def init(self, position: Array, target: Any) -> ChainState:
        """Chains at the rows of `position`, (chains, ...); see `Kernel`."""
        x = computes_in(target, position)
        log_p, slope = as_density(target).value_and_gradient(x)
        start_at(x, log_p)
        return ChainState(target, {"x": x, "log_p": log_p, "gradient": slope})

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """All chains moved once; see `Kernel`."""
        x, log_p, slope = state["x"], state["log_p"], state["gradient"]
        size = self._sizes(x, noise)
        start = noise.normal(tuple(x.shape), 0, like=x)
        root = None if self._root is None else convert(self._root, x)
        with np.errstate(over="ignore", invalid="ignore"):  # what diverges is rejected
            new, momentum, log_new, slope_new = leapfrog(
                as_density(state.target), x, start, slope, size, self.steps, root
            )
            error = _kinetic(momentum) - _kinetic(start) - (log_new - log_p)
        moved, chance = accept(-error, noise, 1)
        info = {
            "accepted": moved, "accept_prob": chance, "energy_error": error, "divergent": ~(error <= _DIVERGENT),
        }  # fmt: skip
        new_state = state.moved(
            x=select(moved, new, x), log_p=select(moved, log_new, log_p), gradient=select(moved, slope_new, slope)
        )
        return new_state, info

    def position(self, state: ChainState) -> dict[str, Array]:
        """The positions as ``x``."""
        return {"x": state["x"]}

    def reversed(self) -> HMC:
        """Itself: it is reversible."""
        return self

    @property
    def best_acceptance(self) -> float:
        """The acceptance to tune for: a little above the 0.65 of theory, which costs less than being below."""
        return 0.8

    def tuned(self, step_size: Any, covariance: Any = None) -> HMC:
        """The same with another step size, and another covariance if given."""
        return replace(self, step_size=step_size, covariance=self.covariance if covariance is None else covariance)

    def _sizes(self, x: Array, noise: Noise) -> Array:
        size = self.step_size if np.ndim(self.step_size) == 0 else spread(convert(self.step_size, x), x)
        if self.jitter == 0:
            return size
        factor = 1 + self.jitter * (2 * noise.uniform((len(x),), 2, like=x) - 1)
        return size * spread(factor, x)


def leapfrog(
    target: Density, x: Array, momentum: Array, slope: Array, size: Array | float, steps: int, root: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """Leapfrog steps through H = -log p(x) + w'w / 2, in the momentum ``w = L' p`` with ``M^-1 = L L'``.

    One step: ``w += (eps/2) L' grad(x)``, ``x += eps L w``, ``w += (eps/2) L' grad(x)``. Volume is kept exactly;
    running it again from (x', -w') leads back to (x, -w); the energy error is O(eps^2) at a fixed length of time.

    Parameters
    ----------
    target : Density
    x, momentum, slope : arrays of shape (chains, ...)
        Positions, momenta w, and the gradient of log p at x.
    size : float or array that broadcasts to x
        eps.
    steps : int, in [1, inf)
    root : array of shape (d,) or (d, d), optional
        L; the identity by default.

    Returns
    -------
    x, momentum, log_p, slope
        At the end. Cost: `steps` gradients.
    """
    half = 0.5 * size
    momentum = momentum + half * _turn(slope, root, transposed=True)
    for left in reversed(range(steps)):
        x = x + size * _turn(momentum, root)
        log_p, slope = target.value_and_gradient(x)
        momentum = momentum + (size if left else half) * _turn(slope, root, transposed=True)
    return x, momentum, log_p, slope


def _turn(z: Array, root: Array | None, transposed: bool = False) -> Array:
    """L z of every row, or L' z."""
    if root is None:
        return z
    if root.ndim <= 1:
        return z * root
    return z @ (root if transposed else root.T)


def _kinetic(momentum: Array) -> Array:
    flat = momentum.reshape(len(momentum), -1)
    return 0.5 * (flat * flat).sum(-1)
