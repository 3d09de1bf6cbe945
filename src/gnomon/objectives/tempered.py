"""Persistent chains at several temperatures that exchange their states: what is sampled crosses between modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array, Group, Noise
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.ladders import ladder
from gnomon.inference.mcmc.levels import machines_at, swap_neighbors, walked
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.chains import ChainPlan, PersistentChains
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.growth import Growth
from gnomon.objectives.moments import column_moments
from gnomon.objectives.positive import Positive
from gnomon.recipes.recipe import Recipe

__all__ = ["TemperedSML"]

State = dict[str, Array]


@dataclass(frozen=True)
class TemperedSML(EnergyObjective):
    r"""Persistent chains by replica exchange (Desjardins and others 2010): every chain has copies at temperatures.

    Copy l walks on :math:`p_l \propto p_0^{1 - \beta_l} p^{\beta_l}`, with p_0 the machine without couplings that has
    the means of the data. After the k steps of an update neighbors swap their states with the probability of
    Metropolis, even pairs and then odd ones. The gradient is that of the copies at beta = 1; ``swap_rate`` in the
    history is the mean acceptance, and near 0 the ladder needs more temperatures.

    Parameters
    ----------
    n_temperatures : int in [1, inf), default 5
        Copies of each chain; 1 is `PCD`.
    hottest : float in [0, 1), default 0
        The least beta; at 0 the hottest copies are drawn afresh from p_0.
    spacing : {"linear", "geometric"}, default "linear"
        Of the betas in between; geometric needs a `hottest` above 0.
    k : int in [1, inf), default 1
        Gibbs steps per update, of every copy.
    growth : {"fixed", "rising", "table"} or recipe, default "fixed"
        What becomes of k in the course of the fit; the history then has it as ``k``.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows.
    positive : {"clamped", "mean_field"} or recipe, default "clamped"
        What the hidden blocks are given the data: exact where they are independent given it, as in an RBM.

    Notes
    -----
    Cost per update: `n_temperatures` times the chains of `PCD`, and four energies for each pair that may swap. The
    copies follow the machine as it is now, though their states are from the update before.

    References
    ----------
    Desjardins, Courville, Bengio, Vincent and Delalleau (2010), "Tempered Markov chain Monte Carlo for training of
    restricted Boltzmann machines"; Salakhutdinov (2009), "Learning in Markov random fields using tempered transitions".

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> rbm = gnomon.RBM(n_hidden=4, objective=TemperedSML(3), epochs=60, learning_rate=0.2, random_state=0).fit(X)
    >>> bool(rbm.score(X) > -2), len(rbm.history_["swap_rate"])
    (True, 60)
    """

    short: ClassVar[str] = "tempered"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"growth": Growth, "positive": Positive}
    n_temperatures: Annotated[int, "[1, inf)"] = 5
    hottest: Annotated[float, "[0, 1)"] = 0.0
    spacing: Literal["linear", "geometric"] = "linear"
    k: Annotated[int, "[1, inf)"] = 1
    growth: str | Recipe = "fixed"
    n_chains: Annotated[int, "[1, inf)"] | None = None
    positive: str | Recipe = "clamped"

    @property
    def deep(self) -> bool:
        """Yes."""
        return True

    def build(self) -> Objective:
        """The objective.

        Raises
        ------
        UserValueError
            A geometric ladder that ends at 0.
        """
        if self.spacing == "geometric" and not self.hottest:
            raise UserValueError("hottest must be above 0 with spacing geometric, got 0", "hottest", "try 0.1")
        betas = ladder(self.n_temperatures, self.spacing, self.hottest) if self.n_temperatures > 1 else np.ones(1)
        return TemperedChains(ChainPlan.of(self), self.n_chains, betas)


class TemperedChains(PersistentChains):
    """Persistent chains, and beside them their hotter copies: buffers of shape (chains, copies, units)."""

    def __init__(self, plan: ChainPlan, n_chains: int | None, betas: NDArray[np.float64]) -> None:
        super().__init__(plan, n_chains)
        self.betas = betas

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """All copies start without field and preference."""
        super().begin(model, batches, noise, group)
        if len(self.betas) < 2:
            return
        self.register_buffer("mean", torch.from_numpy(column_moments(batches, group)[0]))
        like = model.place(np.zeros(0))
        streams = [noise.child(f"chains/{level}").rows(self.positions) for level in range(1, len(self.betas))]
        for draw, block in enumerate(self.stored):
            kind = model.units[block]
            copies = [torch.as_tensor(kind.start(one, len(self.positions), like, draw)) for one in streams]
            self.register_buffer(f"hot/{block}", torch.stack(copies, dim=1))
        self.sharded += tuple(f"hot/{block}" for block in self.stored)

    def contrast(
        self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group, k: int
    ) -> Loss:
        """As of persistent chains; then the copies walk, and neighbors swap."""
        loss = super().contrast(model, X, weight, positions, noise, group, k)
        if len(self.betas) < 2:
            return loss
        stream = noise.rows(self.positions)
        machines = self._machines(model)
        levels = [self._standing(X), *self._walked(machines, X, stream, k)]
        chance = swap_neighbors(machines, levels, stream.child("swap"))
        self._move(levels[0])
        self._move_copies(levels[1:])
        terms = {**loss.terms, "swap_rate": Term(float(chance.sum()), float(chance.size))}
        return Loss(terms, loss.gradients, loss.per)

    def settle(self, model: Any, noise: Noise, steps: int) -> None:
        """Move the chains and their copies by so many sweeps under the model as it is."""
        super().settle(model, noise, steps)
        if len(self.betas) > 1:
            self._move_copies(self._walked(self._machines(model), self.counter, noise.rows(self.positions), steps))

    @property
    def ladder(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """The betas, the cold one first, and the means of p_0; None of a single temperature."""
        return None if len(self.betas) < 2 else (self.betas, to_numpy(self._buffers["mean"]))

    def _machines(self, model: Any) -> list[Any]:
        """The model, and the machine of each hotter level."""
        return machines_at(model, model.base(to_numpy(self._buffers["mean"])), self.betas.tolist())

    def _walked(self, machines: list[Any], like: Array, stream: Noise, steps: int) -> list[State]:
        """The stored blocks of the copies at every level after so many sweeps."""
        _, kept, rest = self._split(machines[0])
        return [
            walked(machine, self._copy(level, like), stream.child(f"level/{level}"), steps, (*kept, *rest))
            for level, machine in enumerate(machines[1:], 1)
        ]

    def _move_copies(self, levels: list[State]) -> None:
        for level, state in enumerate(levels, 1):
            for block, standing in self._copy(level, state[next(iter(state))]).items():
                standing[...] = state[block]

    def _copy(self, level: int, like: Array) -> State:
        """Views of the copies at a level, by block, in the kind of an array."""
        hot = {block: cast(torch.Tensor, self._buffers[f"hot/{block}"])[:, level - 1] for block in self.stored}
        return hot if isinstance(like, torch.Tensor) else {block: value.numpy() for block, value in hot.items()}
