"""Paths of distributions from a base, which is drawn from exactly, to a target, with moves that keep each of them.

Annealed, linked and bridged estimates of a normalizer, tempered transitions and replica exchange walk on the same
paths; here each kind of path stands once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise, Path
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, prototype
from gnomon.inference.blocks import Keep, join, kept_blocks, part, summed_out
from gnomon.inference.mcmc.density import Density, Tempered, as_density, computes_in
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.inference.mcmc.kernel import Kernel, reversal, select
from gnomon.numeric.given import checked, doable, floats

__all__ = ["BridgePath", "TemperedPath", "bridged_blocks", "check_path", "check_rising", "row_size"]

_MANY = 1 << 20
"""Chains from which on the size of a state is asked for, before they are made."""


class BridgePath:
    """The geometric path of a model with blocks, on the blocks that are kept; the others are summed out.

    Level l is the kept blocks' marginal of ``p_base^(1 - eta_l) p^eta_l``, the mixture of JOINT energies. A move draws
    the others given the kept ones and then each kept block given the rest. A state is one array, the kept blocks side
    by side in the order of the model's blocks (`gnomon.inference.blocks.part` takes it apart).

    Parameters
    ----------
    model : HasBridge and HasMarginalEnergy
        The target, of any number of blocks.
    base : object
        From ``model.base(...)``: independent blocks and ``log_partition()``.
    etas : array of shape (n + 1,)
        Strictly increasing from at least 0 to 1, as `annealing_schedule` gives them; `log_z0` and `start` need a first
        eta of 0.
    keep : str or sequence of str, optional
        The blocks that are kept, such that the others are independent given them; the first such set by default.

    Notes
    -----
    A move takes as many draws of its noise as there are blocks, `start` as many as are kept. `back` draws the kept
    blocks in the opposite order, which is the reversal; of one kept block, or of several that are independent given the
    others (the even layers), it has the distribution of `move`.

    References
    ----------
    Salakhutdinov and Murray (2008), "On the quantitative analysis of deep belief networks"; Salakhutdinov (2008),
    "Learning and evaluating Boltzmann machines".
    """

    def __init__(self, model: Any, base: Any, etas: ArrayLike, keep: Keep | None = None) -> None:
        self.keep = bridged_blocks(model, keep)
        self.others = summed_out(model, self.keep)
        self.model, self.base, self.etas = model, base, check_rising(etas, "etas")
        # moves and weights ask for neighboring levels in turn; all of them would be many copies of the parameters
        self.at = lru_cache(maxsize=2)(self._bridge)

    def __len__(self) -> int:
        return len(self.etas)

    @property
    def log_z0(self) -> float:
        """Log Z of the base, in closed form."""
        self._needs_base()
        return float(self.base.log_partition())

    def log_prob(self, level: int, x: Array) -> Array:
        """Minus the marginal energy of the kept blocks, (chains,)."""
        return cast(Array, -self.at(level).marginal_energy(part(x, self.model, self.keep)))

    def start(self, n: int, noise: Noise) -> Array:
        """n draws of the base's kept blocks."""
        self._needs_base()
        like, sizes, level = prototype(self.model), self.model.sizes, self.at(0)
        blank = {block: convert(np.zeros((n, sizes[block])), like) for block in self.model.blocks}
        drawn = {block: level.conditional(block, blank).sample(noise, draw) for draw, block in enumerate(self.keep)}
        return join(drawn, self.keep)

    def move(self, level: int, x: Array, noise: Noise) -> Array:
        """The other blocks, then the kept ones, drawn at the level."""
        return self._move(level, x, noise, (*self.others, *self.keep))

    def back(self, level: int, x: Array, noise: Noise) -> Array:
        """The other blocks, then the kept ones in the opposite order: what undoes a move, in distribution."""
        return self._move(level, x, noise, (*self.keep, *self.others[::-1]), backward=True)

    def _move(self, level: int, x: Array, noise: Noise, order: Sequence[str], backward: bool = False) -> Array:
        state = part(x, self.model, self.keep)
        return join(gibbs(self.at(level), state, noise, order=order, backward=backward), self.keep)

    def _needs_base(self) -> None:
        if self.etas[0] != 0:
            raise UserValueError(f"etas must begin at 0, the base, got {self.etas[0]:g}", "etas")

    def _bridge(self, level: int) -> Any:
        return self.model.bridge(self.base, float(self.etas[level]))


class TemperedPath:
    """Any density at inverse temperatures, moved by any kernel: ``log p_l = log p_0 + beta_l (log p - log p_0)``.

    Parameters
    ----------
    target : anything that `as_density` takes
    base : object with ``log_prob`` (normalized) and ``sample(n, noise)``, or None
        p_0; its log Z is 0. None: ``exp(-beta_l E)``, whose hottest level has no known normalizer.
    betas : array of shape (n + 1,)
        Strictly increasing from at least 0 to 1; `log_z0` and `start` need a base and a first beta of 0.
    kernel : Kernel or sequence of n + 1 kernels
        One for all levels, or one for each (step sizes fit one temperature). Its position must be one array.
    steps : int, in [1, inf)
        Steps of the kernel in a move.

    Notes
    -----
    `back` runs ``kernel.reversed()``: Metropolis-Hastings, Hamiltonian Monte Carlo and random scans are their own
    reversals, sweeps in fixed order are reversed by the opposite order. A kernel without ``reversed`` can `move` and
    not go back. Step s of a move uses the stream ``noise.child("s")``; a move costs one density more than its steps.

    References
    ----------
    Neal (2001), "Annealed importance sampling".

    Examples
    --------
    >>> from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
    >>> from gnomon.numeric.noise import Noise
    >>> path = TemperedPath(lambda x: -(x * x).sum(-1), None, [0.1, 1.0], MetropolisHastings(RandomWalk(1.0)))
    >>> path.log_prob(0, np.array([[2.0]])).tolist(), path.move(1, np.zeros((3, 1)), Noise(0, "path")).shape
    ([-0.4], (3, 1))
    """

    @checked
    def __init__(
        self, target: Any, base: Any, betas: ArrayLike, kernel: Kernel | Sequence[Kernel], *, steps: int = 1
    ) -> None:
        self.betas = check_rising(betas, "betas")
        several = list(kernel) if isinstance(kernel, Sequence) else []
        kernels = [kernel] * len(self.betas) if hasattr(kernel, "step") else several
        if not all(hasattr(one, "step") for one in kernels):
            raise UserTypeError(f"kernel must be a Kernel or one per level, got a {type(kernel).__name__}", "kernel")
        if len(kernels) != len(self.betas):
            raise UserValueError(
                f"kernel must be one or {len(self.betas)}, one per level, got {len(kernels)}", "kernel"
            )
        doable(steps, "steps", least=1)
        self.target, self.base, self.kernels, self.steps = target, base, kernels, steps
        # of a base with an energy too, log_prob is the normalized one
        self._ground = _normalized(base)

    def __len__(self) -> int:
        return len(self.betas)

    @property
    def log_z0(self) -> float:
        """0: the base is normalized."""
        self._needs_base()
        return 0.0

    def log_prob(self, level: int, x: Array) -> Array:
        """The tempered density, (chains,)."""
        return self._at(level).log_prob(x)

    def start(self, n: int, noise: Noise) -> Array:
        """n draws of the base, in the kind of the target's own arrays."""
        self._needs_base()
        return computes_in(self.target, self.base.sample(n, noise))

    def move(self, level: int, x: Array, noise: Noise) -> Array:
        """The kernel's steps at the level."""
        return self._run(self.kernels[level], level, x, noise)

    def back(self, level: int, x: Array, noise: Noise) -> Array:
        """The steps of the kernel's reversal at the level."""
        return self._run(reversal(self.kernels[level]), level, x, noise)

    def _run(self, kernel: Any, level: int, x: Array, noise: Noise) -> Array:
        density = self._at(level)
        try:
            state = kernel.init(x, density)
        except UserValueError:
            gone = density.log_prob(x) == -np.inf
            if not gone.any():
                raise
            return self._run_others(kernel, level, x, noise, gone)
        for step in range(self.steps):
            state, _ = kernel.step(state, noise.child(str(step)))
        return cast(Array, kernel.position(state)["x"])

    def _run_others(self, kernel: Any, level: int, x: Array, noise: Noise, gone: Array) -> Array:
        """Rows of density 0, which the base reaches and the target does not, stay: their weight is 0 for good."""
        if gone.all():
            return x
        stand_in = x[~gone][:1]
        return select(gone, x, self._run(kernel, level, select(gone, 0 * x + stand_in, x), noise))

    def _at(self, level: int) -> Density:
        beta = float(self.betas[level])
        # Tempered is 0 wherever the target is, at beta = 0 too: that is not the base, and has another normalizer
        return self._ground if beta == 0 and self._ground is not None else Tempered(self.target, beta, self._ground)

    def _needs_base(self) -> None:
        if self.betas[0] != 0 or not hasattr(self.base, "sample") or not hasattr(self.base, "log_prob"):
            raise UserValueError(
                f"the path must begin at beta 0 with a base that has sample and a normalized log_prob, got beta "
                f"{self.betas[0]:g} and {'none' if self.base is None else type(self.base).__name__}", "base",
            )  # fmt: skip


def _normalized(base: Any) -> Density | None:
    if base is None:
        return None
    return Density(base.log_prob) if hasattr(base, "log_prob") else as_density(base)


def check_rising(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Places on a path: at least two, finite, strictly increasing to exactly 1, never below 0.

    Raises
    ------
    UserValueError
        Naming the first entry that is wrong.
    """
    betas = floats(values, name).copy()
    if betas.ndim != 1 or betas.size < 2 or betas[-1] != 1 or not betas[0] >= 0:
        raise UserValueError("the path does not rise to 1 from 0 or above", name, "pass an array [0, ..., 1]")
    falls = np.flatnonzero(~(np.diff(betas) > 0))
    if falls.size:
        j = int(falls[0])
        raise UserValueError(
            f"the path does not rise from {betas[j]} to {betas[j + 1]}", f"{name}, entry {j + 1}", "sort them"
        )
    return betas


def check_path(path: Any) -> None:
    """Refuse what has no levels to walk."""
    if not all(hasattr(path, verb) for verb in ("__len__", "start", "move", "log_prob")):
        raise UserTypeError(
            f"path must be a path, such as a TemperedPath or a BridgePath, got a {type(path).__name__}", "path"
        )


def row_size(path: Path, chains: int, noise: Noise) -> int:
    """Numbers in the state of one chain, of a single draw of the base; few chains are made without asking: 1."""
    if chains < _MANY:
        return 1
    return int(np.prod(path.start(1, noise.child("size")).shape))


def bridged_blocks(model: Any, keep: Keep | None = None) -> tuple[str, ...]:
    """The kept blocks of a model that can be bridged, in its order; the first set that it offers by default.

    Raises
    ------
    UserTypeError, UserValueError
        When the model has no blocks with a marginal energy and a bridge; for blocks that cannot be kept alone.
    """
    if not hasattr(model, "bridge") or not hasattr(model, "marginal_energy"):
        raise UserTypeError(
            f"{type(model).__name__} cannot be annealed", "model", "it needs blocks, marginal_energy and bridge"
        )
    return kept_blocks(model, keep)
