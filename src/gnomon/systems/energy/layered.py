"""Boltzmann machines composed of layers of units and links between them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Distribution, Noise, Path, State
from gnomon.distributions.units import BernoulliUnits, Units, mean_of
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert
from gnomon.inference.blocks import bits, kept_blocks, smallest_keep, summed_out
from gnomon.inference.exact.enumeration import enumerable, log_evidence
from gnomon.inference.exact.enumeration import log_partition as exact_log_partition
from gnomon.inference.importance.binary_path import BinaryPath
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.nn.module import Module
from gnomon.numeric.tensors import detached
from gnomon.systems.energy.centering import centered_gradient, mean_differences, recentered
from gnomon.systems.energy.flips import Flips
from gnomon.systems.energy.links import DenseLink, LateralLink, Link
from gnomon.systems.energy.scores import Scores, has_closed_form
from gnomon.training.context import current as current_context

__all__ = ["EXACT_UNITS", "LayeredMachine"]

EXACT_UNITS = 20
"""log2 of the states that are enumerated for an exact log Z: units, where these are binary."""

EXACT_UNITS_OF_A_ROW = 12
"""log2 of the states that are enumerated for the exact energy of each row."""


class LayeredMachine(Module):
    r"""Layers of units of any kind, linked in any graph: :math:`E(x) = -\sum_l w_l(x_l) - \sum_{lm} x_l^T W_{lm} x_m`.

    A layer is a block: its units are independent given the layers it is linked to. What the kind of unit is (0 and 1,
    spins, one of several values, real) is said by objects from `gnomon.distributions.units`, and how two layers are
    coupled by link objects. Two layers make a restricted, several in a chain a deep Boltzmann machine. Units of two
    values may be coupled within their layer too, by a `LateralLink`, which adds :math:`-x^T L x / 2`: one such layer
    makes a general Boltzmann machine. They are drawn one after the other, each given all the rest.

    Parameters
    ----------
    units : mapping of str to Units
        The layers by name; the first holds the data unless `observed` says otherwise.
    links : iterable of pairs of str or links
        Which layers are coupled: a pair stands for ``DenseLink(a, b)``, and twice the same layer for
        ``LateralLink(a)``.
    observed : str, optional
        The layer that holds the data.
    dtype : torch.dtype, default torch.float32

    Raises
    ------
    UserTypeError, UserValueError
        A layer that does not exist, two links between the same layers, units with more than two values that are
        coupled within their layer.

    Notes
    -----
    Parameters are ``<a>_<b>_weight`` for a link, ``<layer>_bias`` for a layer. NumPy arrays are answered in NumPy,
    tensors in torch with gradients. `energy` and `log_prob` are there while what they sum over can be enumerated.

    References
    ----------
    Smolensky (1986); Salakhutdinov and Hinton (2009), "Deep Boltzmann machines"; Welling, Rosen-Zvi and Hinton (2004),
    "Exponential family harmoniums with an application to information retrieval".

    Examples
    --------
    >>> layers = {"visible": BernoulliUnits(6), "middle": BernoulliUnits(4), "top": BernoulliUnits(3)}
    >>> machine = LayeredMachine(layers, [("visible", "middle"), ("middle", "top")])
    >>> machine.marginal_blocks
    (('visible', 'top'), ('middle',))
    >>> round(float(machine.log_partition() / np.log(2)), 6)
    13.0
    """

    def __init__(
        self,
        units: Mapping[str, Units],
        links: Iterable[Sequence[str] | Link],
        *,
        observed: str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        if not units or not all(isinstance(kind, Units) for kind in units.values()):
            raise UserTypeError(
                "units must map names of layers to Units", "units", "give {'visible': BernoulliUnits(9)}"
            )
        self.units, self.links = dict(units), [_link(one) for one in links]
        self.blocks: tuple[str, ...] = tuple(self.units)
        self.sizes: Mapping[str, int] = {block: kind.size for block, kind in self.units.items()}
        self._check_graph()
        self.observed = self.blocks[0] if observed is None else observed
        if self.observed not in self.blocks:
            raise UserValueError(f"observed must be one of {', '.join(self.blocks)}, got {observed!r}", "observed")
        for link in self.links:
            for name, shape in link.shapes({block: kind.n_features for block, kind in self.units.items()}).items():
                if not (link.shares and link.names[name] in self._parameters):
                    self._add(link.names[name], shape, dtype)
        self._own_names = {
            block: {name: f"{block}_{name}" for name in kind.parameters} for block, kind in self.units.items()
        }
        for block, names in self._own_names.items():
            for name, shape in self.units[block].shapes.items():
                self._add(names[name], shape, dtype)

    def _check_graph(self) -> None:
        seen = set()
        for link in self.links:
            for end in link.ends:
                if end not in self.units:
                    raise UserValueError(f"layer {end!r} is unknown", "links", "use one of " + ", ".join(self.units))
            if frozenset(link.ends) in seen:
                what = f"links must join two layers once, got {link.ends[0]!r} and {link.ends[-1]!r} twice"
                raise UserValueError(what, "links", "leave one of them out")
            seen.add(frozenset(link.ends))
        for block in self.coupled:
            if sum(block in link.within for link in self.links) > 1:
                what = f"units of {block!r} must be coupled to each other by one link, got several"
                raise UserValueError(what, "links", "make one TermsLink of them")
            if not isinstance(self.units[block], BernoulliUnits):
                what = f"units of {block!r} are coupled to each other, and take more than two values"
                raise UserTypeError(what, "links", "use BernoulliUnits or IsingUnits, or a layer for each unit")

    def _add(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        if name in self._parameters:
            raise UserValueError(f"two parameters are called {name!r}", "links", "rename a layer")
        self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))

    # --- arrays -------------------------------------------------------------------------------------------------------

    def place(self, x: Array) -> Array:
        """x as the kind of array that a fit computes in: NumPy on the CPU (docs/decisions/0003), a tensor elsewhere."""
        like: Any = next(iter(self._parameters.values()))
        if self.device.type == "cpu" and current_context().backend != "torch":
            return np.asarray(x, dtype=np.float32 if like.dtype is torch.float32 else np.float64)
        return torch.as_tensor(x, dtype=like.dtype, device=like.device)

    def _plain(self) -> Mapping[str, Any]:
        """The parameters in NumPy: views on the CPU, copies from another device."""
        return self.views() if self.device.type == "cpu" else self.state()

    def _arrays(self, state: State) -> Mapping[str, Any]:
        """The parameters in the kind of the state's arrays."""
        for x in state.values():
            if isinstance(x, np.ndarray):
                return self._plain()
            if isinstance(x, torch.Tensor):
                return self._parameters
        tensor = isinstance(mean_of(next(iter(state.values()))), torch.Tensor)
        return self._parameters if tensor else self._plain()

    @cached_property
    def _neighbors(self) -> dict[str, list[tuple[Link, str]]]:
        """By layer its links to one other layer or to itself, and what lies at their other ends."""
        pairs = [one for one in self.links if one.bilinear]
        return {block: [(one, one.other(block)) for one in pairs if block in one.ends] for block in self.units}

    @property
    def bilinear(self) -> bool:
        """Whether every link joins two layers, so that the energy is bilinear in their states."""
        return all(link.bilinear for link in self.links)

    def _features(self, blocks: Iterable[str], state: State) -> dict[str, Array]:
        """What links see of these layers."""
        return {block: self.units[block].features(state[block]) for block in blocks}

    def _own(self, block: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
        return _of(self._own_names[block], arrays)

    def _with(self, values: Mapping[str, Any]) -> Self:
        """The same machine with other parameters."""
        twin = copy.copy(self)
        like = next(self.parameters())
        twin.__dict__["_parameters"] = {
            name: torch.nn.Parameter(torch.as_tensor(values[name], dtype=like.dtype, device=like.device))
            for name in self._parameters
        }
        return twin

    def initialize(self, noise: Noise, mean: ArrayLike | None = None, *, scale: float = 0.01) -> Self:
        """Small random weights, and biases with which the observed units have these means (None: fair)."""
        with torch.no_grad():
            for link in self.links:
                for name in link.names.values():
                    weight = self._parameters[name]
                    weight.copy_(scale * noise.child(name).normal(tuple(weight.shape), like=weight))  # type: ignore[union-attr]
            for name, value in self._base_parameters(mean).items():
                self._parameters[name].copy_(torch.as_tensor(value))  # type: ignore[union-attr]
        return self

    # --- the joint distribution ---------------------------------------------------------------------------------------

    @cached_property
    def coupled(self) -> frozenset[str]:
        """The layers whose units are coupled to each other."""
        return frozenset[str]().union(*(link.within for link in self.links))

    @cached_property
    def marginal_blocks(self) -> tuple[tuple[str, ...], ...]:
        """See `HasMarginalEnergy`: what is left of the largest sets of layers without a link among or within them."""
        linked = {frozenset(two) for link in self.links for two in combinations(link.ends, 2)}
        free = [block for block in self.blocks if block not in self.coupled and self.units[block].drawn]
        independent = _largest_independent(free, lambda a, b: frozenset((a, b)) in linked)
        kept = [tuple(block for block in self.blocks if block not in out) for out in independent]
        kept = [blocks for blocks in kept if blocks] or [self.blocks]
        return tuple(sorted(kept, key=lambda blocks: [self.blocks.index(block) for block in blocks]))

    def _field(self, block: str, state: State, arrays: Mapping[str, Any]) -> Array:
        """What the neighbors add to the natural parameters of a layer: a fresh array (rows, size)."""
        self._check_given(block, state)
        field: Any = None
        for link in self.links:
            if block in link.ends:
                others = [end for end in link.ends if end != block or block in link.within]
                more = link.push(block, self._features(others, state), _of(link.names, arrays))
                field = more if field is None else field + more
        if field is not None:
            return field
        like = mean_of(next(iter(state.values())))
        return convert(np.zeros((len(like), self.units[block].n_features)), like)

    def _check_given(self, block: str, state: State) -> None:
        if block in self.coupled and block not in state:
            what = f"the units of {block!r} are coupled to each other: one is drawn given all the others"
            raise UserValueError(what, "state", f"give a state of {block!r} too")

    def conditional(self, block: str, state: State) -> Distribution:
        """Distribution of a layer given those that it is linked to; of a coupled one each unit given all others."""
        arrays = self._arrays(state)
        return self.units[block].conditional(self._field(block, state, arrays), self._own(block, arrays))

    def sweep(
        self, block: str, state: State, noise: Noise, draw: int = 0, held: Array | None = None, backward: bool = False
    ) -> Array:
        """See `HasCoupledBlocks`: one draw of every unit, the numbers of an uncoupled layer's draw."""
        link, features, own, field = self._within(block, state)
        x = features[block]
        u = noise.uniform(tuple(x.shape), draw, like=x)
        found: Array = link.sweep(block, features, field, own, self._values(block), u, held, backward=backward)
        return found

    def relax(self, block: str, state: State, held: Array | None = None) -> Array:
        """See `HasCoupledBlocks`: a round of mean-field updates."""
        link, features, own, field = self._within(block, state)
        found: Array = link.relax(block, features, field, own, self._values(block), held)
        return found

    def _within(self, block: str, state: State) -> tuple[Any, dict[str, Array], dict[str, Any], Array]:
        """What couples the units of a layer to each other, what it sees, its parameters, the field of all else."""
        self._check_given(block, state)
        arrays = self._arrays(state)
        field: Any = self._own(block, arrays)["bias"]
        within: Any = None
        for link in (one for one in self.links if block in one.ends):
            if block in link.within:
                within = link
                continue
            others = self._features([end for end in link.ends if end != block], state)
            field = field + link.push(block, others, _of(link.names, arrays))
        own = {short: detached(value) for short, value in _of(within.names, arrays).items()}
        return within, self._features(within.ends, state), own, detached(field)

    def _values(self, block: str) -> tuple[float, float]:
        values: tuple[float, float] = self.units[block].values  # type: ignore[attr-defined]
        return values

    def joint_energy(self, state: State) -> Array:
        """E(x) of each row in nats; the expectation where layers are given by independent Distributions."""
        arrays = self._arrays(state)
        return self._energy_among(self.units, state, arrays)

    def _energy_among(self, blocks: Iterable[str], state: State, arrays: Mapping[str, Any]) -> Array:
        """Minus the log weights of these layers and the couplings among them."""
        total: Any = None
        for block in (name for name in self.units if name in blocks):
            weight = self.units[block].log_weight(state[block], self._own(block, arrays))
            total = -weight if total is None else total - weight
        for link in self.links:
            here = [end for end in link.ends if end in blocks]
            if len(here) == len(link.ends) or (here and link.apart):
                total = total - link.gain(self._features(here, state), _of(link.names, arrays))
        return total

    def marginal_energy(self, kept: State) -> Array:
        """-log sum over the other layers of exp(-E), each row in nats."""
        blocks = kept_blocks(self, tuple(kept))
        arrays = self._arrays(kept)
        total = self._energy_among(blocks, kept, arrays)
        for block in summed_out(self, blocks):
            field = self._field(block, kept, arrays)
            total = total - self.units[block].log_normalizer(field, self._own(block, arrays))
        return total

    def joint_gradient(self, state: State, weight: Array) -> dict[str, Array]:
        """See `HasJointGradient`: sums of statistics, one product per link."""
        arrays, minus = self._arrays(state), -weight
        found: dict[str, Any] = {}
        features = self._features(state, state)
        for link in self.links:
            sums = link.sums(features, minus, _of(link.names, arrays))
            for name, value in sums.items():
                shared = found.get(link.names[name])
                found[link.names[name]] = value if shared is None else shared + value
        for block, names in self._own_names.items():
            rows = self.units[block].statistics(state[block], features[block], _of(names, arrays))
            found |= {names[name]: minus @ value for name, value in rows.items()}
        return self._pulled({name: detached(found[name]) for name in self._parameters}, state)

    def _pulled(self, found: dict[str, Array], state: State) -> dict[str, Array]:
        """Gradients by the machine's own parameters, of those by what `_arrays` makes of them: the chain rule."""
        return found

    def marginal_gradient(self, kept: State, weight: Array) -> dict[str, Array]:
        """Sums over rows of weight_i * d marginal_energy(kept_i), the other layers at their conditionals."""
        return self.joint_gradient({**kept, **self.rest(kept)}, weight)

    def rest(self, kept: State) -> dict[str, Distribution]:
        """The conditional of each layer that is not kept."""
        return {block: self.conditional(block, kept) for block in summed_out(self, kept_blocks(self, tuple(kept)))}

    # --- the observed layer -------------------------------------------------------------------------------------------

    @available_if(lambda self: isinstance(self, type) or self._hidden_bits() <= EXACT_UNITS_OF_A_ROW)
    def energy(self, x: Array) -> Array:
        """-log sum over all other layers of exp(-E), each row in nats: log p(x) = -energy(x) - log Z.

        There while it is a closed form, or the layers that depend on each other have few states.
        """
        given = {self.observed: x}
        if not self._hidden_bits():
            return self.marginal_energy(given)
        return convert(-log_evidence(self, given, limit=EXACT_UNITS_OF_A_ROW), x)

    @available_if(
        lambda self: (
            isinstance(self, type) or (hasattr(self.units[self.observed], "values") and not self._hidden_bits())
        )
    )
    def flips(self, x: Array, rows: Array, sites: Array, active: Array | None = None) -> Flips:
        """See `HasFlips`; there where observed units have two values and the hidden layers are independent given x."""
        return Flips(self, x, rows, sites, active)

    @available_if(lambda self: isinstance(self, type) or has_closed_form(self))
    def scores(self, x: Array) -> Scores:
        """See `HasScores`; there beside real observed units whose hidden ones are independent and have two values."""
        return Scores(self, x)

    def _hidden_bits(self) -> float:
        """log2 of the states that are enumerated for each row."""
        return bits(self, (block for block in smallest_keep(self, (self.observed,)) if block != self.observed))

    @available_if(
        lambda self: (
            isinstance(self, type) or (enumerable(self, EXACT_UNITS) and self._hidden_bits() <= EXACT_UNITS_OF_A_ROW)
        )
    )
    def log_prob(self, x: Array) -> Array:
        """Exact log p(x) in nats; there only while the states that remain can be enumerated."""
        return -self.energy(x) - self.log_partition()

    def log_partition(self) -> float:
        """Exact log Z by enumeration of the layers with the fewest states; in closed form without coupling."""
        arrays = {name: np.asarray(value.detach().cpu(), np.float64) for name, value in self._parameters.items()}  # type: ignore[union-attr]
        if not any(arrays[name].any() for link in self.links for name in link.names.values()):
            parts = (
                kind.log_normalizer(np.zeros((1, kind.n_features)), self._own(block, arrays))
                for block, kind in self.units.items()
            )
            return float(sum(float(part[0]) for part in parts))
        return exact_log_partition(self._with(arrays)._in_double(), limit=EXACT_UNITS)

    def _in_double(self) -> Self:
        return self.double().cpu()

    # --- centered coordinates -----------------------------------------------------------------------------------------

    def centered_gradient(self, gradient: Mapping[str, Array], offsets: Mapping[str, Array]) -> dict[str, Array]:
        """See `HasCenteredGradient`."""
        return centered_gradient(self, gradient, offsets)

    def mean_differences(self, gradient: Mapping[str, Array]) -> dict[str, Array]:
        """See `HasCenteredGradient`."""
        return mean_differences(self, gradient)

    def centered(self, offsets: Mapping[str, Array]) -> Self:
        """This machine with its biases as they are where states count from offsets, by layer; undoes `uncentered`."""
        return cast(Self, recentered(self, offsets, 1.0))

    def uncentered(self, offsets: Mapping[str, Array]) -> Self:
        """The plain machine that this one is when its states count from offsets: energies less a constant.

        Parameters
        ----------
        offsets : mapping of str to array of shape (size,)
            By layer: the energy is read as ``-sum_l w_l(x_l) - sum_lm (x_l - mu_l)^T W_lm (x_m - mu_m)``.
        """
        return cast(Self, recentered(self, offsets, -1.0))

    # --- paths from a base --------------------------------------------------------------------------------------------

    def _base_parameters(self, mean: Any) -> dict[str, Any]:
        arrays = self._plain()
        found: dict[str, Any] = {}
        for block, kind in self.units.items():
            given = None if mean is None or block != self.observed else np.asarray(mean, np.float64)
            values = kind.base(given, self._own(block, arrays))
            found |= {self._own_names[block][name]: value for name, value in values.items()}
        return found

    def base(self, mean: Array | None = None) -> Self:
        """The machine without coupling whose observed units have these means (None: fair), the others fair."""
        nothing = {name: np.zeros(tuple(value.shape)) for name, value in self.named_parameters()}
        return self._with(nothing | self._base_parameters(mean))

    def bridge(self, base: LayeredMachine, eta: float) -> Self:
        """p_base**(1 - eta) * p**eta on all layers: energies, hence natural parameters, mix linearly."""
        start, end = dict(base.named_parameters()), dict(self.named_parameters())
        mixed: dict[str, Any] = {}
        with torch.no_grad():
            for link in self.links:
                values = link.mix(_of(link.names, start), _of(link.names, end), eta)
                mixed |= {link.names[name]: value for name, value in values.items()}
            for block, names in self._own_names.items():
                values = self.units[block].mix(self._own(block, start), self._own(block, end), eta)
                mixed |= {names[name]: value for name, value in values.items()}
        return self._with(mixed)

    def path(self, base: LayeredMachine, etas: Array, keep: Sequence[str]) -> Path:
        """The bridge; of two sets of 0-1 layers from a base without coupling in two products per level."""
        kept = kept_blocks(self, keep)
        other = summed_out(self, kept)
        coupled = any(base._plain()[name].any() for link in base.links for name in link.names.values())
        split = any(set(blocks) <= set(other) for blocks in self.marginal_blocks)
        if coupled or not split or not self._is_binary():
            return BridgePath(self, base, etas, kept)
        ends = [(base._biases(blocks), self._biases(blocks)) for blocks in (kept, other)]
        return BinaryPath(self, base, etas, kept, self._coupling(kept, other), *ends)

    def _biases(self, blocks: Sequence[str]) -> Any:
        return np.concatenate([self._plain()[f"{block}_bias"] for block in blocks])

    def _is_binary(self) -> bool:
        return all(type(kind) is BernoulliUnits for kind in self.units.values())

    def _coupling(self, rows: Sequence[str], columns: Sequence[str]) -> Array:
        """The couplings between two sets of layers as one matrix."""
        arrays, found = self._plain(), {}
        for link in self.links:
            matrix = link.matrix(_of(link.names, arrays))
            found[link.ends], found[link.ends[::-1]] = matrix, matrix.T
        kind = next(iter(arrays.values())).dtype
        return np.block(
            [[found.get((a, b), np.zeros((self.sizes[a], self.sizes[b]), kind)) for b in columns] for a in rows]
        )


def _of(names: Mapping[str, str], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by their short names."""
    return {short: arrays[name] for short, name in names.items()}


def _link(one: Any) -> Link:
    if isinstance(one, Link):
        return one
    a, b = one
    return LateralLink(a) if a == b else DenseLink(a, b)


def _largest_independent(nodes: Sequence[str], linked: Callable[[str, str], bool]) -> list[frozenset[str]]:
    """The sets of nodes without a link among them to which no node can be added."""
    found: list[frozenset[str]] = []

    def grow(chosen: frozenset[str], free: list[str], used: list[str]) -> None:
        if not free and not used:
            found.append(chosen)
        while free:
            node = free.pop()
            grow(chosen | {node}, [n for n in free if not linked(n, node)], [n for n in used if not linked(n, node)])
            used.append(node)

    grow(frozenset(), list(nodes), [])
    return found
