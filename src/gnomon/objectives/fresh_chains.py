"""Maximum likelihood by fresh chains: every update begins anew from noise and burns in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.blocks import units_of
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.objectives.base import Loss, Objective
from gnomon.objectives.chains import ChainPlan, ChainSet, fused
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.growth import Growth
from gnomon.objectives.moments import column_moments
from gnomon.objectives.positive import Positive
from gnomon.objectives.transitions import Transition
from gnomon.recipes.recipe import Recipe

__all__ = ["MCMC"]


@dataclass(frozen=True)
class MCMC(EnergyObjective):
    r"""Maximum likelihood with fresh chains: at every update they start from noise and walk k steps.

    The law of the chains is that of their start times the k-th power of the transition, so that the gradient's bias
    falls as :math:`\lambda_2^k`, with the second eigenvalue of the kernel: biased while k is too small, and dear when
    it is not. `PCD` goes on from the chains of the update before instead.

    Parameters
    ----------
    k : int in [1, inf), default 100
        Steps of every update, which are to be many enough to forget the start.
    growth : {"fixed", "rising", "table"} or recipe, default "fixed"
        What becomes of k in the course of the fit; the history then has it as ``k``.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows. A machine given conditions has one for each row.
    start : {"noise", "means"}, default "noise"
        ``noise``: all values of a unit alike, standard normal ones of real units. ``means``: independent columns with
        the means of the data.
    positive : {"clamped", "mean_field"} or recipe, default "clamped"
        What the hidden blocks are given the data: exact where they are independent given it, as in an RBM.
    transition : {"gibbs", "hmc", "langevin"} or recipe, default "gibbs"
        What a step is: a sweep over the blocks, or a move of real rows along the slope of log p.

    Notes
    -----
    Cost per update: about k times that of `CD`.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), "Deep learning", algorithm 18.1.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> rbm = gnomon.RBM(n_hidden=4, objective=MCMC(k=20), epochs=60, learning_rate=0.2, random_state=0).fit(X)
    >>> bool(rbm.score(X) > -2)
    True
    """

    short: ClassVar[str] = "mcmc"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"growth": Growth, "positive": Positive, "transition": Transition}
    k: Annotated[int, "[1, inf)"] = 100
    growth: str | Recipe = "fixed"
    n_chains: Annotated[int, "[1, inf)"] | None = None
    start: Literal["noise", "means"] = "noise"
    positive: str | Recipe = "clamped"
    transition: str | Recipe = "gibbs"

    @property
    def deep(self) -> bool:
        """Yes."""
        return True

    def build(self) -> Objective:
        """The objective."""
        return FreshChains(ChainPlan.of(self), self.n_chains, self.start == "means")


class FreshChains(ChainSet):
    """Chains that start anew at every update."""

    by_row = True

    def __init__(self, plan: ChainPlan, n_chains: int | None, from_means: bool) -> None:
        super().__init__(plan, n_chains)
        self.from_means = from_means

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """How many chains there are, and the means of the data where they start there."""
        super().begin(model, batches, noise, group)
        if self.from_means:
            if not hasattr(model, "base"):
                what = f"{type(model).__name__} has no base model whose columns have means of their own"
                raise UserTypeError(what, "objective__start", "use start='noise'")
            self.register_buffer("mean", torch.from_numpy(column_moments(batches, group)[0]))

    def contrast(
        self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group, k: int
    ) -> Loss:
        """Energies of the data against those of chains k steps from their start."""
        data, kept, rest = self._split(model)
        total, stream, counter = float(weight.sum()), noise.rows(positions), weight
        if getattr(model, "held", None) is None:  # else a chain for each row, given its condition
            stream = noise.rows(self.positions)
            counter = self._weigh(weight, group)[1]
        start = self._start(model, X, len(counter), stream.child("start"))
        if self.moves is not None:
            q = self.positive(model, X, noise.rows(positions).child("positive"))
            ends = self.moves.walk(model, start[data], stream, k)
            return self._along_slopes(model, q, weight, ends, counter, group)
        chain = gibbs(model, start, stream, steps=k, order=(*rest, *kept))
        if self._is_fused(model):
            return fused(model, X, weight, total, chain[data], counter)[0]
        q = self.positive(model, X, noise.rows(positions).child("positive"))
        return self._contrast(model, q, weight, {block: chain[block] for block in kept}, counter)[0]

    def _start(self, model: Any, like: Array, n: int, noise: Noise) -> dict[str, Array]:
        """The kept blocks of n chains."""
        kept = self._split(model)[1]
        if not self.from_means:
            units = units_of(model)
            return {block: units[block].start(noise, n, like, draw) for draw, block in enumerate(kept)}
        base = model.base(to_numpy(self._buffers["mean"]))
        blank = {block: convert(np.zeros((n, size)), like) for block, size in model.sizes.items()}
        return {block: base.conditional(block, blank).sample(noise, draw) for draw, block in enumerate(kept)}
