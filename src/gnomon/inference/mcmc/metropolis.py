"""Metropolis-Hastings: propose, then accept or stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.mcmc.chains import FiniteChain
from gnomon.inference.mcmc.density import as_density, computes_in
from gnomon.inference.mcmc.kernel import ChainState, Info, accept, select, spread, start_at

__all__ = ["Independence", "MetropolisHastings", "RandomWalk", "metropolis_matrix"]

Proposal = Callable[[Array, Noise], tuple[Array, Array | float]]
"""(x, noise) -> (x', log g(x | x') - log g(x' | x)), the latter (chains,) or 0 for a symmetric proposal."""


@dataclass(frozen=True)
class RandomWalk:
    """Gaussian steps from where a chain is: ``x' = x + scale * L z``, a symmetric proposal.

    Parameters
    ----------
    scale : float or array of shape (chains,), in (0, inf)
        Step size, of all chains or of each. About ``2.4 / sqrt(d)`` with the target's own covariance.
    covariance : array of shape (d, d) or (d,), optional
        L L' of the steps at scale 1: a full matrix, or variances. The identity by default.

    References
    ----------
    Metropolis, Rosenbluth, Rosenbluth, Teller and Teller (1953); Roberts, Gelman and Gilks (1997).
    """

    scale: float | Array = 1.0
    covariance: ArrayLike | None = None
    _root: NDArray[np.float64] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")
        object.__setattr__(self, "_root", None if self.covariance is None else root_of(self.covariance))

    def __call__(self, x: Array, noise: Noise) -> tuple[Array, float]:
        """The proposed positions; the log ratio is 0."""
        z = noise.normal(tuple(x.shape), like=x)
        if self._root is not None:
            root = convert(self._root, x)
            z = z * root if root.ndim <= 1 else z @ root.T
        scale = self.scale if np.ndim(self.scale) == 0 else spread(convert(self.scale, x), x)
        return x + scale * z, 0.0


@dataclass(frozen=True)
class Independence:
    """Proposals that forget where a chain is, from a distribution g: the ratio is ``g(x) / g(x')``.

    The distribution should have heavier tails than the target, or chains stick in the tails.

    Parameters
    ----------
    sample : callable
        (n, noise) -> array (n, ...).
    log_prob : callable
        Array (n, ...) -> (n,), log g in nats; a constant may be left out.
    """

    sample: Callable[[int, Noise], Array]
    log_prob: Callable[[Array], Array]

    def __call__(self, x: Array, noise: Noise) -> tuple[Array, Array]:
        """The proposed positions and log g(x) - log g(x')."""
        new = convert(self.sample(len(x), noise), x)
        return new, self.log_prob(x) - self.log_prob(new)


@dataclass(frozen=True)
class MetropolisHastings:
    """Propose x' from g(. | x); accept with probability ``min(1, p(x') g(x | x') / (p(x) g(x' | x)))``.

    Leaves p invariant, and is reversible, for any proposal whose ratio is right. The step size may be adapted in
    burn-in only: adapting goes against invariance.

    Parameters
    ----------
    proposal : callable
        (x, noise) -> (x', log g(x | x') - log g(x' | x)): `RandomWalk`, `Independence` or your own. It must not use
        the stream ``noise.child("accept")``.

    Notes
    -----
    One density per step. The info tells ``accepted`` (bool), ``accept_prob`` and ``proposed`` (the positions).

    References
    ----------
    Hastings (1970), "Monte Carlo sampling methods using Markov chains and their applications".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> kernel = MetropolisHastings(RandomWalk(2.0))
    >>> state = kernel.init(np.zeros((4, 1)), lambda x: -0.5 * (x * x).sum(-1))
    >>> state, info = kernel.step(state, Noise(0, "walk").at(0))
    >>> state["x"].shape, info["accepted"].shape
    ((4, 1), (4,))
    """

    proposal: Proposal = field(default_factory=RandomWalk)

    def init(self, position: Array, target: Any) -> ChainState:
        """Chains at the rows of `position`, (chains, ...); see `Kernel`."""
        x = computes_in(target, position)
        log_p = as_density(target).log_prob(x)
        start_at(x, log_p)
        return ChainState(target, {"x": x, "log_p": log_p})

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """All chains moved once; see `Kernel`."""
        x, log_p = state["x"], state["log_p"]
        new, log_ratio = self.proposal(x, noise)
        if np.shape(log_ratio) not in ((), np.shape(log_p)):
            what = f"the log ratio must have shape {tuple(np.shape(log_p))}, got {tuple(np.shape(log_ratio))}"
            raise UserValueError(what, "proposal", "give one number per chain")
        log_new = as_density(state.target).log_prob(new)
        moved, chance = accept(log_new - log_p + log_ratio, noise.child("accept"))
        info = {"accepted": moved, "accept_prob": chance, "proposed": new}
        return state.moved(x=select(moved, new, x), log_p=select(moved, log_new, log_p)), info

    def position(self, state: ChainState) -> dict[str, Array]:
        """The positions as ``x``."""
        return {"x": state["x"]}

    def reversed(self) -> MetropolisHastings:
        """Itself: it is reversible."""
        return self

    @property
    def best_acceptance(self) -> float:
        """The acceptance that a random walk in many dimensions is best at."""
        return 0.234

    def tuned(self, step_size: Any, covariance: Any = None) -> MetropolisHastings:
        """The same with another scale and covariance of its random walk."""
        if not isinstance(self.proposal, RandomWalk):
            raise UserValueError(
                f"{type(self.proposal).__name__} has no step size", "adapt", "use adapt=None, or a RandomWalk"
            )
        covariance = self.proposal.covariance if covariance is None else covariance
        return MetropolisHastings(RandomWalk(step_size, covariance))

    @property
    def step_size(self) -> Any:
        """The scale of its random walk; None for other proposals."""
        return getattr(self.proposal, "scale", None)


def metropolis_matrix(proposal: ArrayLike, log_p: ArrayLike) -> NDArray[np.float64]:
    """The transition matrix of Metropolis-Hastings on a finite space.

    Parameters
    ----------
    proposal : array of shape (K, K)
        ``g[i, j]``, the chance of proposing i in state j; columns sum to 1.
    log_p : array of shape (K,)
        Unnormalized log density; -inf for impossible states.

    Returns
    -------
    array of shape (K, K)
        ``T[i, j]``; columns sum to 1; reversible under exp(log_p).

    Examples
    --------
    >>> metropolis_matrix([[0.5, 0.5], [0.5, 0.5]], np.log([0.8, 0.2])).round(3).tolist()
    [[0.875, 0.5], [0.125, 0.5]]
    """
    g, log_p = FiniteChain(proposal).matrix, np.asarray(log_p, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (log_p[:, None] + np.log(g.T)) - (log_p[None, :] + np.log(g))
        matrix = g * np.exp(np.minimum(ratio, 0.0))
    matrix = np.where(g > 0, np.nan_to_num(matrix), 0.0)
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=0))
    return matrix


def check_positive(value: Any, name: str) -> None:
    """Refuse what is not finite and above 0."""
    numbers = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise UserValueError.must(name, "be finite and positive", value)


def root_of(covariance: ArrayLike) -> NDArray[np.float64]:
    """Standard deviations of variances, the lower Cholesky factor of a matrix."""
    c = np.asarray(covariance, dtype=np.float64)
    if c.ndim <= 1:
        check_positive(c, "covariance")
        return np.asarray(np.sqrt(c), dtype=np.float64)
    try:
        return np.asarray(np.linalg.cholesky(c), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise UserValueError(
            "covariance must be positive definite", "covariance", "use variances or a covariance"
        ) from None
