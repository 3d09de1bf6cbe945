"""Maximum likelihood of energy models: the exact gradient, contrastive divergence, persistent chains.

All three are the same loss, mean energy of the data minus mean energy under the model (minus log Z's gradient), and
differ in where the model's side comes from. The machine has any number of blocks: some are kept, so that the others are
independent given them and enter by their conditional means. What the hidden blocks are given the data is the
positive phase (`gnomon.objectives.positive`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.arrays import convert
from gnomon.inference.blocks import bits, smallest_keep, summed_out, units_of
from gnomon.inference.exact.enumeration import log_evidence, log_partition, weighted_posterior, weighted_states
from gnomon.inference.mcmc.gibbs import gibbs, redrawn
from gnomon.numeric.ops import concatenate
from gnomon.numeric.sparse import in_full, is_sparse
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.base import Loss, Objective, Term, shard
from gnomon.objectives.positive import Clamped, Positive, observed_block
from gnomon.recipes.recipe import Recipe

__all__ = ["CD", "PCD", "EnergyObjective", "Exact", "InClosedForm"]

State = dict[str, Any]


class EnergyObjective(Recipe):
    """Base: the principle that an energy model is trained by."""

    def build(self) -> Objective:
        """The objective."""
        raise NotImplementedError


@dataclass(frozen=True)
class Exact(EnergyObjective):
    """The exact gradient of the log-likelihood, by enumeration: small models only.

    Parameters
    ----------
    limit : int in [1, 30], default 20
        log2 of the states that are visited at most: units of the smaller layer, where these are binary. The cost per
        update is as many gradients, and of hidden blocks that depend on each other as many again for each row.
    """

    short: ClassVar[str] = "exact"
    limit: Annotated[int, "[1, 30]"] = 20

    def build(self) -> Objective:
        """The objective."""
        return _ExactLikelihood(self.limit)


@dataclass(frozen=True)
class CD(EnergyObjective):
    """Contrastive divergence (Hinton 2002): chains start at the data and run k steps.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Gibbs steps, each hidden then visible.
    positive : {"clamped", "mean_field"} or recipe, default "clamped"
        What the hidden blocks are given the data: exact where they are independent given it, as in an RBM.
    """

    short: ClassVar[str] = "cd"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"positive": Positive}
    k: Annotated[int, "[1, inf)"] = 1
    positive: str | Recipe = "clamped"

    def build(self) -> Objective:
        """The objective."""
        return _ContrastiveDivergence(self.k, self.recipe("positive"))


@dataclass(frozen=True)
class PCD(EnergyObjective):
    """Persistent contrastive divergence (Tieleman 2008; Younes 1999): chains go on from update to update.

    Parameters
    ----------
    k : int in [1, inf), default 1
        Gibbs steps per update.
    n_chains : int in [1, inf) or None, default None
        Chains over all processes; None: as many as the batch has rows.
    positive : {"clamped", "mean_field"} or recipe, default "clamped"
        What the hidden blocks are given the data: exact where they are independent given it, as in an RBM.
    """

    short: ClassVar[str] = "pcd"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"positive": Positive}
    k: Annotated[int, "[1, inf)"] = 1
    n_chains: Annotated[int, "[1, inf)"] | None = None
    positive: str | Recipe = "clamped"

    def build(self) -> Objective:
        """The objective."""
        return _PersistentChains(self.k, self.n_chains, self.recipe("positive"))


class InClosedForm(Objective):
    """An objective whose gradients are sums that it computes itself."""

    takes_sparse: bool = False
    """Whether sparse rows are compared as they are, where the model computes in NumPy."""

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """`compare`, in the kind of array that the model computes in; tensors without recording gradients."""
        weight, rows = model.place(batch.weight), batch.data["X"]
        if self.takes_sparse and is_sparse(rows) and not is_tensor(weight):
            return self.compare(model, rows.astype(weight.dtype), weight, batch.positions, noise, group)
        X = model.place(in_full(rows))
        if not is_tensor(X):
            return self.compare(model, X, weight, batch.positions, noise, group)
        with torch.no_grad():
            return self.compare(model, X, weight, batch.positions, noise, group)

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """The loss of rows at these positions."""
        raise NotImplementedError


class _Contrast(InClosedForm):
    """Energies of the data against those of chains on the kept blocks."""

    descends: ClassVar[bool] = False

    def __init__(self, k: int, positive: Positive) -> None:
        super().__init__()
        self.k, self.positive = k, positive

    def _split(self, model: Any) -> tuple[str, Sequence[str], Sequence[str]]:
        """`_split` of the model, once."""
        known = self.__dict__.get("_known")
        if known is None or known[0] is not model:
            known = self.__dict__["_known"] = (model, _split(model))
        return cast(tuple[str, Sequence[str], Sequence[str]], known[1])

    def _is_fused(self, model: Any) -> bool:
        """Whether data and chains share their products (`HasEnergyGradient`)."""
        return hasattr(model, "energy_gradient") and isinstance(self.positive, Clamped)

    def _contrast(
        self, model: Any, q: State, weight: Array, fantasy: State, counter: Array
    ) -> tuple[Loss, dict[str, Any]]:
        """Gradients of sum weight_i E(q_i) - sum counter_i E(fantasy_i); the other blocks given the chains."""
        rest = {block: model.conditional(block, fantasy) for block in model.blocks if block not in fantasy}
        far = model.joint_gradient({**fantasy, **rest}, counter)
        gradients = {name: near - far[name] for name, near in model.joint_gradient(q, weight).items()}

        def gap() -> float:
            near = model.joint_energy(q) - sum(q[block].entropy() for block in rest)
            return _sum(weight * near) - _sum(counter * model.marginal_energy(fantasy))

        return Loss({"energy_gap": Term(gap, float(weight.sum()))}, gradients, "energy_gap"), rest


def _fused(model: Any, X: Array, weight: Array, total: float, fantasy: Array, counter: Array) -> tuple[Loss, Array]:
    """Gradients of sum weight_i E(x_i) - sum counter_i E(fantasy_i) in one product; all hidden means."""
    gradients, hidden = model.energy_gradient(concatenate([X, fantasy]), concatenate([weight, -counter]))

    def gap() -> float:
        return float(((weight * model.energy(X)).sum() - (counter * model.energy(fantasy)).sum()).item())

    return Loss({"energy_gap": Term(gap, total)}, gradients, "energy_gap"), hidden


class _ContrastiveDivergence(_Contrast):
    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Energies of the data against those k Gibbs steps away, each pair with the row's weight."""
        noise = noise.rows(positions)
        data, kept, rest = self._split(model)
        if self._is_fused(model):
            chain = gibbs(model, {data: X}, noise, steps=self.k, order=(*rest, *kept))
            return _fused(model, X, weight, float(weight.sum()), chain[data], weight)[0]
        q = self.positive(model, X, noise.child("positive"))
        start = {block: _drawn(q[block], noise.child("start"), draw) for draw, block in enumerate(kept)}
        chain = gibbs(model, start, noise, steps=self.k, order=(*rest, *kept))
        return self._contrast(model, q, weight, {block: chain[block] for block in kept}, weight)[0]


class _PersistentChains(_Contrast):
    def __init__(self, k: int, n_chains: int | None, positive: Positive) -> None:
        super().__init__(k, positive)
        self.n_chains = n_chains

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """States of all chains, without field and preference; every process keeps its part."""
        self.n_chains = self.n_chains or batches.batch_size
        part = shard(self.n_chains, group)
        self.positions = np.arange(part.start, part.stop)
        stored, units, like = _stored(model), units_of(model), model.place(np.zeros(0))
        stream = noise.child("chains").rows(self.positions)
        for draw, block in enumerate(stored):
            start = units[block].start(stream, len(self.positions), like, draw)
            self.register_buffer(f"chains/{block}", torch.as_tensor(start))
        self.counter = model.place(np.ones(len(self.positions)))
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

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Energies of the data against those of the chains, which then move on."""
        data, kept, rest = self._split(model)
        stream, whole = noise.rows(self.positions), len(kept) + len(rest)
        chain = self._standing(X)
        for draw, block in enumerate(kept):
            chain[block] = redrawn(model, block, chain, stream, draw)
        if self.k > 1:
            chain = gibbs(model, chain, stream, steps=self.k - 1, order=(*rest, *kept), draw0=len(kept))
        counter, total = self.counter, float(weight.sum())
        counter[...] = group.sum(total) / (self.n_chains or 1)
        last = self.k * whole
        if self._is_fused(model):
            loss, hidden = _fused(model, X, weight, total, chain[data], counter)
            self._move({rest[0]: stream.bernoulli(hidden[len(X) :], last)})
            return loss
        q = self.positive(model, X, noise.rows(positions).child("positive"))
        fantasy = {block: chain[block] for block in kept}
        loss, given = self._contrast(model, q, weight, fantasy, counter)
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


class _ExactLikelihood(InClosedForm):
    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Energies of the data plus log Z, whose gradient enumerates the kept blocks with the fewest states."""
        total = float(weight.sum())
        gradients = self._near(model, X, weight)
        for states, log_p in weighted_states(model, limit=self.limit, like=X):
            expected = model.marginal_gradient(states, _exp(log_p, X))
            gradients = {name: gradients[name] - total * expected[name] for name in gradients}

        def loss() -> float:
            energy = model.energy(X) if hasattr(model, "energy") else -log_evidence(model, self._given(model, X))
            return _sum(weight * energy) + total * log_partition(model, limit=self.limit, like=X)

        gradients = {name: model.place(value) for name, value in gradients.items()}
        return Loss({"negative_log_likelihood": Term(loss, total)}, gradients, "negative_log_likelihood")

    @staticmethod
    def _given(model: Any, X: Array) -> State:
        return {observed_block(model): X}

    def _near(self, model: Any, X: Array, weight: Array) -> dict[str, Array]:
        """Expected gradients of the data's energies, over the hidden blocks given each row."""
        given = self._given(model, X)
        if not bits(model, (block for block in smallest_keep(model, given) if block not in given)):
            return cast(dict[str, Array], model.marginal_gradient(given, weight))
        found: dict[str, Array] = {}
        for states, log_p, rows in weighted_posterior(model, given, limit=self.limit):
            share = (weight[rows][:, None] * _exp(log_p, X)).reshape(-1)
            for name, value in model.marginal_gradient(states, share).items():
                found[name] = found[name] + value if name in found else value
        return found


def _split(model: Any) -> tuple[str, Sequence[str], Sequence[str]]:
    """The block of the data, the blocks that are kept with it, and those that are summed out given these."""
    data = observed_block(model)
    kept = smallest_keep(model, (data,))
    return data, kept, summed_out(model, kept)


def _stored(model: Any) -> tuple[str, ...]:
    """The blocks that chains need to go on: those summed out, and the kept ones too where they depend on each other."""
    rest = _split(model)[2]
    alone = any(set(kept) <= set(rest) for kept in model.marginal_blocks)
    return tuple(rest) if alone else tuple(model.blocks)


def _drawn(x: Any, noise: Noise, draw: int) -> Array:
    return x.sample(noise, draw) if hasattr(x, "log_prob") else x


def _sum(values: Array) -> float:
    return float(values.sum().item())


def _exp(log_p: Array, like: Array) -> Array:
    """exp, in float64 beside NumPy states and in the type of tensors."""
    return convert(log_p, like).exp() if is_tensor(like) else np.exp(log_p)
