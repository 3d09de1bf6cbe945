"""Learned chains: a transition whose stationary distribution is the model, from corrupting and denoising in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Distribution, Noise
from gnomon.distributions.table import Categorical
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc import stationary as distributions
from gnomon.inference.mcmc.chains import FiniteChain
from gnomon.inference.mcmc.kernel import ChainState, Info
from gnomon.numeric.given import affordable, check_fields, checked, doable, floats, whole

__all__ = ["AddNormal", "Denoiser", "FiniteDenoiser", "FlipBits", "Replace", "TransitionOperator"]

Floats = NDArray[np.float64]


class Denoiser(Protocol):
    """What the clean row may have been, given the corrupted one."""

    def conditional(self, corrupted: Array) -> Distribution:
        """Law of the clean rows, batch first."""


@dataclass(frozen=True)
class FlipBits:
    """Each unit of 0 or 1 becomes the other with probability `rate`, in (0, 1)."""

    rate: float

    def __post_init__(self) -> None:
        check_fields(self)
        _probability(self.rate)

    def __call__(self, x: Array, noise: Noise) -> Array:
        """Corrupted rows."""
        _check_rows(x)
        flips = noise.uniform(tuple(x.shape), like=x) < self.rate
        return abs(x - flips)


@dataclass(frozen=True)
class AddNormal:
    """Normal noise of standard deviation `scale` > 0 on every number."""

    scale: float

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.scale < np.inf:
            raise UserValueError.must("scale", "be finite and positive", self.scale)

    def __call__(self, x: Array, noise: Noise) -> Array:
        """Corrupted rows."""
        _check_rows(x)
        return x + self.scale * noise.normal(tuple(x.shape), like=x)


@dataclass(frozen=True)
class Replace:
    """A state 0 ... K - 1 is replaced by a uniform one with probability `rate`, in (0, 1)."""

    rate: float
    states: int

    def __post_init__(self) -> None:
        check_fields(self)
        _probability(self.rate)
        if self.states < 1:
            raise UserValueError.must("states", "be at least 1", self.states)
        affordable(self.states**2, "states", "use fewer states: their matrix holds the square")

    def __call__(self, x: Array, noise: Noise) -> Array:
        """Corrupted states, int64."""
        return Categorical(np.log(self.matrix().T[_codes(x, self.states)])).sample(noise)

    def matrix(self) -> Floats:
        """``C[i, j] = P(corrupted = i | clean = j)``."""
        return (1 - self.rate) * np.eye(self.states) + self.rate / self.states


class FiniteDenoiser:
    """A table p(clean | corrupted) over K states, fitted by maximum likelihood with the corruption summed out.

    ``p(i | k) = (C[k, i] n_i + s) / sum_i (C[k, i] n_i + s)`` maximizes ``sum_i n_i sum_k C[k, i] log p(i | k)``, n_i
    being the weight of state i in the data; the smoothing s keeps a corrupted state that no data explains from having
    no answer.

    Parameters
    ----------
    corruption : object with ``matrix()``
        C, columns summing to 1.
    smoothing : float, in [0, inf)
        s.

    Examples
    --------
    >>> table = FiniteDenoiser(Replace(0.5, 2)).fit([0, 0, 0, 1])
    >>> table.matrix.round(3).tolist()
    [[0.9, 0.5], [0.1, 0.5]]
    """

    @checked
    def __init__(self, corruption: Any, smoothing: float = 0.0) -> None:
        if not 0 <= smoothing < np.inf:
            raise UserValueError.must("smoothing", "be finite and at least 0", smoothing)
        if not callable(getattr(corruption, "matrix", None)):
            what = f"corruption must have matrix(), as Replace(rate, states) has, got a {type(corruption).__name__}"
            raise UserTypeError(what, "corruption")
        self.corruption, self.smoothing = corruption, smoothing
        self._noise = FiniteChain(corruption.matrix()).matrix
        self.matrix = np.full(self._noise.shape, 1 / len(self._noise))

    def fit(self, x: ArrayLike, weight: ArrayLike | None = None) -> FiniteDenoiser:
        """Fit to states (n,), each counted `weight` times.

        Raises
        ------
        UserValueError
            States outside 0 ... K - 1; without smoothing, a corrupted state that no data can have become.
        """
        k = len(self._noise)
        codes = _codes(x, k)
        if codes.ndim != 1 or not codes.size:
            raise UserValueError.must("x", "be one state per row, (n,)", codes)
        weights = np.ones(len(codes)) if weight is None else floats(weight, "weight")
        if weights.shape != codes.shape or not (np.isfinite(weights) & (weights >= 0)).all():
            raise UserValueError.must("weight", "be one number >= 0 per row", weights)
        counts = np.bincount(codes, weights, minlength=k)
        joint = self._noise.T * counts[:, None] + self.smoothing  # (clean, corrupted)
        total = joint.sum(axis=0)
        if not (total > 0).all():
            raise UserValueError(
                "a state cannot arise from any row of the data",
                f"state {int(np.argmin(total))}",
                "use smoothing above 0",
            )
        self.matrix = joint / total
        return self

    def conditional(self, corrupted: Array) -> Categorical:
        """Law of the clean states."""
        with np.errstate(divide="ignore"):
            return Categorical(np.log(self.matrix.T[_codes(corrupted, len(self.matrix))]))

    def log_likelihood(self, x: ArrayLike) -> Floats:
        """``E log p(x | corrupted x)`` over the corruption, for each state (n,): its mean is what the fit raises."""
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(self._noise.T > 0, self._noise.T * np.log(self.matrix), 0.0).sum(axis=1)
        return np.asarray(terms[_codes(x, len(self.matrix))])


@dataclass(frozen=True)
class TransitionOperator:
    r"""A kernel that is a model: corrupt the row, then draw a clean one given the corrupted; what it settles on is p.

    Where the denoiser is the true :math:`p(x | \tilde x)` of the data's distribution and the chain can reach
    everything, the stationary distribution is the data's. There is no log density: only draws, and for finite states
    the matrix. As a kernel it is its own target: ``gnomon.sample_chain(operator, operator, start=rows)`` with a row per
    chain, (chains, d).

    Parameters
    ----------
    corruption : callable
        (x, noise) -> corrupted rows.
    denoiser : Denoiser
        Fitted; anything with ``conditional(corrupted)``.

    References
    ----------
    Bengio, Yao, Alain and Vincent (2013), "Generalized denoising auto-encoders as generative models".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> corruption = Replace(0.5, 3)
    >>> chain = TransitionOperator(corruption, FiniteDenoiser(corruption).fit([0, 0, 1, 2]))
    >>> chain.stationary().round(6).tolist()
    [0.5, 0.25, 0.25]
    >>> chain.sample(np.zeros(4, dtype=int), Noise(0, "chain"), steps=10).shape
    (4,)
    """

    corruption: Callable[[Array, Noise], Array]
    denoiser: Denoiser

    def __post_init__(self) -> None:
        corruption: Any = self.corruption
        if not callable(corruption) and not hasattr(corruption, "matrix"):
            what = f"corruption must be a function of (x, noise), got a {type(corruption).__name__}"
            raise UserTypeError(what, "corruption")
        if not callable(getattr(self.denoiser, "conditional", None)):
            what = f"denoiser must have conditional(corrupted), got a {type(self.denoiser).__name__}"
            raise UserTypeError(what, "denoiser")

    @property
    def log_prob(self) -> Any:
        """Refused: the distribution is known by its draws alone.

        Raises
        ------
        AttributeError
            Always, so that nothing takes the operator for a density.
        """
        raise AttributeError(
            "a learned transition has no tractable log_prob; draw from it, or use stationary() for finite states"
        )

    def init(self, position: Array, target: Any = None) -> ChainState:
        """Chains at the rows of `position`; the target is the operator itself and is not asked. See `Kernel`."""
        return ChainState(target, {"x": position})

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """Corrupted and denoised once; see `Kernel`."""
        corrupted = self.corruption(state["x"], noise.child("corrupt"))
        x = self.denoiser.conditional(corrupted).sample(noise.child("denoise"), 0)
        return state.moved(x=x), {"changed": _rows(x != state["x"])}

    def position(self, state: ChainState) -> dict[str, Array]:
        """The rows as ``x``."""
        return {"x": state["x"]}

    @checked
    def sample(self, start: Array, noise: Noise, *, steps: int = 100) -> Array:
        """Where chains are that began at the rows of `start`, after `steps` steps.

        Raises
        ------
        UserValueError
            A negative number of steps, or more than 10^9.
        """
        doable(steps, "steps")
        state = self.init(start)
        for t in range(steps):
            state, _ = self.step(state, noise.at(t))
        return state["x"]

    def matrix(self) -> Floats:
        """The transition over finite states, ``T[i, j] = sum_k p(i | k) C[k, j]``.

        Raises
        ------
        UserTypeError
            A corruption or a denoiser that has no matrix.
        """
        clean, corrupted = getattr(self.denoiser, "matrix", None), getattr(self.corruption, "matrix", None)
        if clean is None or corrupted is None:
            raise UserTypeError(
                "the transition has no matrix", "stationary", "use finite states (Replace, FiniteDenoiser), or draw"
            )
        return FiniteChain(np.matmul(clean, corrupted())).matrix

    def stationary(self) -> Floats:
        """The distribution that the chain settles on, over finite states.

        Raises
        ------
        UserValueError
            A chain that cannot reach everything, so that the distribution depends on the start.
        """
        return distributions.stationary(self.matrix())

    def is_ergodic(self) -> bool:
        """Whether the chain over finite states forgets its start: irreducible and aperiodic."""
        return distributions.is_irreducible(self.matrix()) and distributions.is_aperiodic(self.matrix())


def _check_rows(x: Any) -> None:
    if not hasattr(x, "shape"):
        raise UserTypeError(f"x must be an array or a tensor with rows, got a {type(x).__name__}", "x")


def _probability(rate: float) -> None:
    if not 0 < rate < 1:
        raise UserValueError.must("rate", "be in (0, 1)", rate, remedy="at the ends no chain is ergodic")


def _codes(x: ArrayLike, k: int) -> NDArray[np.int64]:
    codes = whole(x, "state")
    bad = (codes < 0) | (codes >= k)
    if bad.any():
        at = int(np.argmax(bad))
        raise UserValueError.must("a state", f"be an integer in [0, {k})", codes.ravel()[at], f"row {at}")
    return codes


def _rows(changed: Array) -> Array:
    return changed.reshape(len(changed), -1).sum(1) / max(int(np.prod(changed.shape[1:])), 1)
