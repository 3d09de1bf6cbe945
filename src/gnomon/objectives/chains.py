"""Energies of the data against those of Markov chains: where the chains start, go on, and what they are drawn from.

A machine has any number of blocks: some are kept, so that the others are independent given them and enter by their
conditional means. What the hidden blocks are given the data is the positive phase (`gnomon.objectives.positive`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.blocks import smallest_keep, summed_out, units_of
from gnomon.inference.mcmc.gibbs import gibbs, redrawn
from gnomon.numeric.descent import StepRule
from gnomon.numeric.ops import concatenate
from gnomon.numeric.sparse import in_full
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.base import Loss, Stretch, Term, shard
from gnomon.objectives.closed_form import InClosedForm
from gnomon.objectives.growth import Elapsed, Growth
from gnomon.objectives.negative import Conditional, Negative
from gnomon.objectives.positive import Clamped, Positive, observed_block, observed_blocks
from gnomon.objectives.transitions import GibbsSweeps, Transition

__all__ = ["ChainSet", "Contrast", "ContrastiveDivergence", "PersistentChains", "ChainPlan", "drawn", "fused", "split"]

State = dict[str, Any]


@dataclass(frozen=True)
class ChainPlan:
    """What objectives with chains have in common: how far these walk, and both phases.

    Parameters
    ----------
    k : int
        Steps of the first update.
    growth : Growth
        What becomes of k.
    positive : Positive
    negative : Negative
    transition : Transition
        What a step is.
    """

    k: int
    growth: Growth
    positive: Positive
    negative: Negative
    transition: Transition = field(default_factory=GibbsSweeps)

    @classmethod
    def of(cls, recipe: Any) -> ChainPlan:
        """That of a recipe with the fields ``k``, ``growth`` and ``positive``, perhaps the two others, checked."""
        growth: Growth = recipe.recipe("growth")
        growth.check(recipe.k)
        negative = recipe.recipe("negative") if "negative" in recipe.slots else Conditional()
        transition = recipe.recipe("transition") if "transition" in recipe.slots else GibbsSweeps()
        return cls(recipe.k, growth, recipe.recipe("positive"), negative, transition)


class Contrast(InClosedForm):
    """Energies of the data against those of chains on the kept blocks."""

    descends: ClassVar[bool] = False
    compares_means = True

    def __init__(self, plan: ChainPlan) -> None:
        super().__init__()
        self.plan, self.positive = plan, plan.positive
        self.progress = Elapsed() if plan.growth.grows else None
        self.moves = plan.transition.build()

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Take note of how many updates an epoch has, where the number of steps grows."""
        if self.moves is not None:
            self.moves.begin(model)
        if self.progress is not None:
            self.progress.begin(batches)

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """`contrast` with as many steps as it is time for, which stand in the history where they change."""
        if self.progress is None:
            return self.contrast(model, X, weight, positions, noise, group, self.plan.k)
        growth = self.plan.growth
        k = growth.at(self.plan.k, self.progress.time(growth.per))
        self.progress.advance()
        loss = self.contrast(model, X, weight, positions, noise, group, k)
        total = loss.terms[loss.watched].weight
        return Loss(loss.terms | {"k": Term(k * total, total)}, loss.gradients, loss.per)

    def contrast(
        self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group, k: int
    ) -> Loss:
        """The loss of rows at these positions against chains of k steps."""
        raise NotImplementedError

    def _split(self, model: Any) -> tuple[str, Sequence[str], Sequence[str]]:
        """`split` of the model, once; machines that differ in what they are given share their units."""
        known, same = self.__dict__.get("_known"), getattr(model, "units", model)
        if known is None or known[0] is not same:
            known = self.__dict__["_known"] = (same, split(model))
        return cast(tuple[str, Sequence[str], Sequence[str]], known[1])

    def _is_fused(self, model: Any) -> bool:
        """Whether data and chains share their products (`HasEnergyGradient`)."""
        return self._is_exact and hasattr(model, "energy_gradient")

    @property
    def _is_exact(self) -> bool:
        """Whether both phases are those of swept chains, the other blocks at their conditionals."""
        exact = isinstance(self.positive, Clamped) and isinstance(self.plan.negative, Conditional)
        return exact and self.moves is None

    def _stretch(self, model: Any, go: Any) -> Stretch | None:
        """`Stretch` by that, of a machine that has the compiled way and k steps throughout."""
        if self.progress is not None or not self._is_exact or not hasattr(model, "updated_by_chains"):
            return None
        if is_tensor(like := model.place(np.zeros(0))):
            return None
        d, m = (model.sizes[block] for block in (model.observed, *self._split(model)[2]))
        return Stretch(go, d * like.itemsize, d * m * (3 + 2 * self.plan.k))

    def _contrast(
        self, model: Any, q: State, weight: Array, fantasy: State, counter: Array, sampler: Any = None
    ) -> tuple[Loss, dict[str, Any]]:
        """Gradients of sum weight_i E(q_i) - sum counter_i E(fantasy_i), the other blocks by the negative phase.

        That is asked of the machine that the chains are drawn from, the model itself where left out.
        """
        sampler = model if sampler is None else sampler
        rest = {block: sampler.conditional(block, fantasy) for block in model.blocks if block not in fantasy}
        far = model.joint_gradient(self.plan.negative(sampler, fantasy, rest), counter)
        gradients = {name: near - far[name] for name, near in model.joint_gradient(q, weight).items()}

        def gap() -> float:
            near = model.joint_energy(q) - sum(q[block].entropy() for block in rest)
            return _sum(weight * near) - _sum(counter * model.marginal_energy(fantasy))

        return Loss({"energy_gap": Term(gap, float(weight.sum()))}, gradients, "energy_gap"), rest

    def _along_slopes(self, model: Any, q: State, weight: Array, ends: Array, counter: Array, group: Group) -> Loss:
        """`_contrast` with chains that the transition has moved, and what it tells of them."""
        assert self.moves is not None, "blocks are swept"
        loss = self._contrast(model, q, weight, {self._split(model)[0]: ends}, counter)[0]
        more = self.moves.terms(float(weight.sum()), group)
        return Loss(loss.terms | more, loss.gradients, loss.per)


class ContrastiveDivergence(Contrast):
    """Chains that start at the data."""

    by_row = True

    def stretch(self, model: Any) -> Stretch | None:
        """Many updates at once, of a machine that has the compiled way."""
        return self._stretch(model, self._go) if _unchanged(self, ContrastiveDivergence) else None

    def _go(self, model: Any, rows: Any, size: int, noise: Noise, descent: StepRule) -> tuple[int, float]:
        room = model.place(np.empty((size, model.sizes[self._split(model)[2][0]])))
        return _together(model, rows, size, room, noise.rows(np.arange(size)), descent, self.plan.k, persistent=False)

    def contrast(
        self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group, k: int
    ) -> Loss:
        """Energies of the data against those k steps away, each pair with the row's weight."""
        noise = noise.rows(positions)
        data, kept, rest = self._split(model)
        if self._is_fused(model):
            chain = gibbs(model, {data: X}, noise, steps=k, order=(*rest, *kept))
            return fused(model, X, weight, float(weight.sum()), chain[data], weight)[0]
        q = self.positive(model, X, noise.child("positive"))
        if self.moves is not None:
            return self._along_slopes(model, q, weight, self.moves.walk(model, X, noise, k), weight, group)
        start = {block: drawn(q[block], noise.child("start"), draw) for draw, block in enumerate(kept)}
        chain = gibbs(model, start, noise, steps=k, order=(*rest, *kept))
        return self._contrast(model, q, weight, {block: chain[block] for block in kept}, weight)[0]


class ChainSet(Contrast):
    """Chains that belong to no row: each process has its part, and together they weigh what the batch weighs."""

    def __init__(self, plan: ChainPlan, n_chains: int | None) -> None:
        super().__init__(plan)
        self.n_chains = n_chains

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """How many chains there are, and which of them are this process's."""
        super().begin(model, batches, noise, group)
        self.n_chains = self.n_chains or batches.batch_size
        part = shard(self.n_chains, group)
        self.positions = np.arange(part.start, part.stop)
        self.counter = model.place(np.ones(len(self.positions)))

    def _weigh(self, weight: Array, group: Group) -> tuple[float, Array]:
        """The weight of this process's rows, and that of each chain."""
        total = float(weight.sum())
        self.counter[...] = group.sum(total) / (self.n_chains or 1)
        return total, self.counter


class PersistentChains(ChainSet):
    """Chains that go on from update to update."""

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """States of all chains, without field and preference; every process keeps its part."""
        super().begin(model, batches, noise, group)
        stored, units, like = self._stored(model), units_of(model), model.place(np.zeros(0))
        stream = noise.child("chains").rows(self.positions)
        for draw, block in enumerate(stored):
            start = units[block].start(stream, len(self.positions), like, draw)
            self.register_buffer(f"chains/{block}", torch.as_tensor(start))
        self.stored = {block: f"chains/{block}" for block in stored}
        self.sharded = tuple(self.stored.values())

    @property
    def chains(self) -> dict[str, torch.Tensor]:
        """Where the chains stand, by block."""
        return {block: cast(torch.Tensor, self._buffers[name]) for block, name in self.stored.items()}

    def distribute(self, state: Mapping[str, Array], group: Group) -> None:
        """Take over what `collect` joined; one array of chains was called ``chains`` once."""
        names = {"chains": self.sharded[0]} if len(self.sharded) == 1 else {}
        super().distribute({names.get(name, name): value for name, value in state.items()}, group)

    def _stored(self, model: Any) -> tuple[str, ...]:
        """What chains need to go on: the rows themselves where they move along the slope."""
        return _stored(model) if self.moves is None else (observed_block(model),)

    def samplers(self, model: Any) -> tuple[Any, Any]:
        """The machine whose energies are compared, and the one that chains are drawn from: here the model is both."""
        return model, model

    def stretch(self, model: Any) -> Stretch | None:
        """Many updates at once, of a machine that has the compiled way and whose chains are its own."""
        return self._stretch(model, self._go) if _unchanged(self, PersistentChains) else None

    def _go(self, model: Any, rows: Any, size: int, noise: Noise, descent: StepRule) -> tuple[int, float]:
        hidden = self._standing(self.counter)[self._split(model)[2][0]]
        return _together(model, rows, size, hidden, noise.rows(self.positions), descent, self.plan.k, persistent=True)

    def settle(self, model: Any, noise: Noise, steps: int) -> None:
        """Move the chains by so many steps under the model as it is."""
        data, kept, rest = self._split(model)
        stream = noise.rows(self.positions)
        if self.moves is not None:
            self._move({data: self.moves.walk(model, self._standing(self.counter)[data], stream, steps)})
            return
        chain = gibbs(model, self._standing(self.counter), stream, steps=steps, order=(*kept, *rest))
        self._move({block: chain[block] for block in self.stored})

    def contrast(
        self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group, k: int
    ) -> Loss:
        """Energies of the data against those of the chains, which then move on."""
        near, sampler = self.samplers(model)
        data, kept, rest = self._split(model)
        stream, whole = noise.rows(self.positions), len(kept) + len(rest)
        if self.moves is not None:
            ends = self.moves.walk(model, self._standing(X)[data], stream, k)
            self._move({data: ends})
            q = self.positive(model, X, noise.rows(positions).child("positive"))
            return self._along_slopes(model, q, weight, ends, self._weigh(weight, group)[1], group)
        chain = self._standing(X)
        for draw, block in enumerate(kept):
            chain[block] = redrawn(sampler, block, chain, stream, draw)
        if k > 1:
            chain = gibbs(sampler, chain, stream, steps=k - 1, order=(*rest, *kept), draw0=len(kept))
        (total, counter), last = self._weigh(weight, group), k * whole
        if near is sampler and self._is_fused(near):
            loss, hidden = fused(near, X, weight, total, chain[data], counter)
            self._move({rest[0]: stream.bernoulli(hidden[len(X) :], last)})
            return loss
        q = self.positive(near, X, noise.rows(positions).child("positive"))
        fantasy = {block: chain[block] for block in kept}
        loss, given = self._contrast(near, q, weight, fantasy, counter, sampler)
        self._move(
            fantasy | {block: one.sample(stream, last + draw) for draw, (block, one) in enumerate(given.items())}
        )
        return loss

    def _standing(self, like: Array) -> State:
        """The stored blocks, in the kind of an array."""
        if is_tensor(like):
            return dict(self.chains)
        views = self.views()
        return {block: views[name] for block, name in self.stored.items()}

    def _move(self, state: State) -> None:
        for block, standing in self._standing(next(iter(state.values()))).items():
            standing[...] = state[block]


def _unchanged(objective: Contrast, kind: type[Contrast]) -> bool:
    """Whether an objective compares as this kind does: what others do instead has no compiled way."""
    own = type(objective)
    return all(getattr(own, name, None) is getattr(kind, name, None) for name in ("compare", "contrast", "samplers"))


def _together(
    model: Any,
    rows: Any,
    size: int,
    hidden: Array,
    noise: Noise,
    descent: StepRule,
    k: int,
    *,
    persistent: bool,
) -> tuple[int, float]:
    """Updates on these rows, as the machine makes them."""
    X, weight = model.place(in_full(rows.data["X"])), model.place(rows.weight)
    made: tuple[int, float] = model.updated_by_chains(
        X, weight, size, hidden, descent=descent, k=k, noise=noise, persistent=persistent
    )
    return made


def split(model: Any) -> tuple[str, Sequence[str], Sequence[str]]:
    """The (first) block of the data, the blocks that are kept with all of it, those that are summed out given these."""
    kept = smallest_keep(model, observed_blocks(model))
    return observed_block(model), kept, summed_out(model, kept)


def drawn(x: Any, noise: Noise, draw: int) -> Array:
    """One draw of each row of a Distribution; what is an array is returned."""
    return x.sample(noise, draw) if hasattr(x, "log_prob") else x


def fused(model: Any, X: Array, weight: Array, total: float, fantasy: Array, counter: Array) -> tuple[Loss, Array]:
    """Gradients of sum weight_i E(x_i) - sum counter_i E(fantasy_i) in one product; all hidden means."""
    gradients, hidden = model.energy_gradient(concatenate([X, fantasy]), concatenate([weight, -counter]))

    def gap() -> float:
        return float(((weight * model.energy(X)).sum() - (counter * model.energy(fantasy)).sum()).item())

    return Loss({"energy_gap": Term(gap, total)}, gradients, "energy_gap"), hidden


def _stored(model: Any) -> tuple[str, ...]:
    """The blocks that chains need to go on: those summed out, and the kept ones too where they depend on each other.

    Or where ``rows_carry`` says that the rows of the model hold what no other block knows: how many words they have.
    """
    rest = split(model)[2]
    alone = any(set(kept) <= set(rest) for kept in model.marginal_blocks) and not getattr(model, "rows_carry", False)
    return tuple(rest) if alone else tuple(model.blocks)


def _sum(values: Array) -> float:
    return float(values.sum().item())
