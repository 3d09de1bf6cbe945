"""Couplings of more than two units of an energy machine: a sum of products, each with a weight of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.inference.mcmc.term_updates import TermTable
from gnomon.numeric.ops import concatenate
from gnomon.numeric.sparse import in_full
from gnomon.numeric.tensors import is_tensor
from gnomon.systems.energy.links import Link, Own

__all__ = ["TermFlips", "TermsLink"]


class TermsLink(Link):
    r"""A weight for each of some sets of units, :math:`\sum_T w_T \prod_{i \in T} x_i`.

    Units of one layer, or of several side by side, of any number in a set. A unit's field is
    :math:`\sum_{T \ni i} w_T \prod_{j \in T \setminus i} x_j`: within a layer units are drawn one after the other.

    Parameters
    ----------
    layers : mapping of str to int
        Layers and their sizes; units are numbered through, those of the first layer first.
    terms : iterable of tuples of int
        Sets of at least two units, each set once. A single unit has its bias.
    name : str, optional
        What the name of the parameter begins with; the layers' names by default, nothing where it is empty.

    Raises
    ------
    UserTypeError, UserValueError
        No sets of different units that there are, or one twice.

    Notes
    -----
    The parameter is a row of weights, (1, terms). Only the sets that are listed are stored, as lists of their units.
    Cost of an energy: the units in all terms.

    Examples
    --------
    >>> link = TermsLink({"visible": 3}, [(0, 1), (0, 1, 2)])
    >>> own = {"weight": np.array([[3.0, 5.0]])}
    >>> link.gain({"visible": np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])}, own).tolist()
    [3.0, 8.0]
    """

    bilinear = False
    apart = True

    def __init__(self, layers: Mapping[str, int], terms: Iterable[tuple[int, ...]], *, name: str | None = None) -> None:
        self.layers, self.ends = dict(layers), tuple(layers)
        self.terms = _checked(terms, sum(self.layers.values()))
        self.table = TermTable(self.terms, sum(self.layers.values()))
        ends = np.cumsum([0, *self.layers.values()]).tolist()
        self.cuts = {end: slice(a, b) for end, a, b in zip(self.ends, ends[:-1], ends[1:], strict=True)}
        self.within = frozenset(end for end in self.ends if any(self._of(end, term) > 1 for term in self.terms))
        prefix = "_".join(self.ends) if name is None else name
        self.names = {"weight": f"{prefix}_weight" if prefix else "weight"}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.layers}, {len(self.terms)} terms)"

    def _of(self, end: str, term: tuple[int, ...]) -> int:
        """How many units of a layer are in a term."""
        cut = self.cuts[end]
        return sum(cut.start <= unit < cut.stop for unit in term)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One number for each term.

        Raises
        ------
        UserValueError
            Layers of other sizes.
        """
        for end, n in self.layers.items():
            if sizes[end] != n:
                raise UserValueError(f"layer {end!r} must have {n} units, got {sizes[end]}", "layers")
        return {"weight": (1, len(self.terms))}

    def _joined(self, features: Mapping[str, Array], absent: float = 1.0) -> Any:
        """All units side by side; those of a layer that is not there are this number."""
        like = next(iter(features.values()))
        parts = [
            features[end] if end in features else convert(np.full((len(like), self.layers[end]), absent), like)
            for end in self.ends
        ]
        joined = concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
        return joined if is_tensor(joined) else np.ascontiguousarray(joined)

    def push(self, block: str, features: Mapping[str, Array], own: Own) -> Array:
        """What all other units, of its own layer too, add to the field of each unit of a layer."""
        z, cut = self._joined(features), self.cuts[block]
        if not is_tensor(z):
            return self.table.fields(z, _weights(own, z), cut.start, cut.stop)
        weight, found = own["weight"][0], z.new_zeros(z.shape)
        for at, units in self.table.by_order():
            index = torch.as_tensor(units, device=z.device)
            mine = weight[torch.as_tensor(at, device=z.device)]
            for k in range(index.shape[1]):
                others = index[:, [other for other in range(index.shape[1]) if other != k]]
                found = found.index_add(1, index[:, k], mine * z[:, others].prod(-1))
        return found[:, cut]

    def gain(self, features: Mapping[str, Array], own: Own) -> Array:
        """The sum of weighted products of each row; of the terms among the layers that are there."""
        z = self._joined(features, absent=0.0)
        if not is_tensor(z):
            return self.table.values(z, _weights(own, z))
        return self._products(z) @ own["weight"][0]

    def sums(self, features: Mapping[str, Array], weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sum of the product of each term."""
        z = self._joined(features)
        if not is_tensor(z):
            return {"weight": self.table.sums(z, np.asarray(weight, z.dtype))[None]}
        return {"weight": (weight @ self._products(z))[None]}

    def _products(self, z: Any) -> Any:
        """The product of each term, (rows, terms), of tensors."""
        found = z.new_zeros((len(z), len(self.terms)))
        for at, units in self.table.by_order():
            index = torch.as_tensor(units, device=z.device)
            found = found.index_copy(1, torch.as_tensor(at, device=z.device), z[:, index].prod(-1))
        return found

    def sweep(
        self, block: str, features: Mapping[str, Array], field: Array, own: Own, values: tuple[float, float], u: Array,
        held: Array | None = None, *, backward: bool = False,
    ) -> Array:  # fmt: skip
        """Each unit of the layer drawn given all others, under this field of everything else."""
        z, field_, mask = self._states(block, features, field, held)
        uniform = to_numpy(u)
        # logit(u) < logit(p) keeps the tails that the sigmoid rounds away
        threshold = ((np.log(uniform) - np.log1p(-uniform)) / (values[1] - values[0])).astype(z.dtype)
        cut = self.cuts[block]
        self.table.sweep(z, _weights(own, z), cut.start, field_, threshold, mask, values, backward=backward)
        return convert(z[:, cut], features[block])

    def relax(
        self, block: str, features: Mapping[str, Array], field: Array, own: Own, values: tuple[float, float],
        held: Array | None = None,
    ) -> Array:  # fmt: skip
        """The means of the layer, each set to what it is given those of the others."""
        z, field_, mask = self._states(block, features, field, held)
        cut = self.cuts[block]
        self.table.relax(z, _weights(own, z), cut.start, field_, mask, values)
        return convert(z[:, cut], features[block])

    def _states(
        self, block: str, features: Mapping[str, Array], field: Array, held: Array | None
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
        """A copy of all units, the field of those of a layer, and which of these are held."""
        z = np.array(to_numpy(self._joined(features)), order="C")
        shape = (len(z), self.layers[block])
        mask = np.zeros(shape, np.bool_)
        if held is not None:
            mask[...] = to_numpy(held) != 0
        return z, np.ascontiguousarray(np.broadcast_to(to_numpy(field), shape), dtype=z.dtype), mask

    def renumbered(self, layers: Mapping[str, int], numbers: NDArray[np.int64]) -> TermsLink:
        """The same terms of units with other numbers, in other layers; the weights stay in their order."""
        return TermsLink(layers, [tuple(sorted(int(numbers[unit]) for unit in term)) for term in self.terms])


class TermFlips:
    """Rows of a machine of one layer and a `TermsLink` beside copies in which units are flipped (`HasFlips`).

    A flip changes the terms that its unit is in, and no others. Flips of a copy are made one after the other.

    Parameters
    ----------
    machine : LayeredMachine
    x, rows, sites, active
        See `gnomon.systems.energy.flips.Flips`.
    """

    def __init__(self, machine: Any, x: Array, rows: Array, sites: Array, active: Array | None = None) -> None:
        self.machine, self.like = machine, x
        (self.link,) = machine.links
        self.x = np.ascontiguousarray(to_numpy(in_full(x)))
        self.rows, self.sites = (np.ascontiguousarray(to_numpy(one), np.int64) for one in (rows, sites))
        values = machine.units[machine.observed].values
        change = sum(values) - 2 * self.x[self.rows[:, None], self.sites]
        if active is not None:
            change = change * to_numpy(active)
        self.change = np.ascontiguousarray(change, self.x.dtype)
        self.parameters = {name: to_numpy(value) for name, value in machine._arrays({machine.observed: x}).items()}

    def energies(self) -> Array:
        """E of the copy minus E of its row, shape (p,)."""
        bias = self.parameters[f"{self.machine.observed}_bias"]
        weight = self.parameters[self.link.names["weight"]][0].astype(self.x.dtype)
        found = -(self.change * bias[self.sites]).sum(-1)
        found -= self.link.table.flipped(self.x, self.rows, self.sites, self.change, weight)
        return convert(found, self.like)

    def gradient(self, weight: Array) -> dict[str, Array]:
        """Sums over copies of weight_i * d energies_i / d parameter, by name."""
        share = np.asarray(to_numpy(weight), self.x.dtype)
        moved = share[:, None] * self.change
        bias = np.bincount(self.sites.ravel(), moved.ravel(), self.x.shape[1]).astype(self.x.dtype)
        sums = self.link.table.flipped_sums(self.x, self.rows, self.sites, self.change, share)
        found = {self.link.names["weight"]: -sums[None], f"{self.machine.observed}_bias": -bias}
        return {name: convert(value, self.like) for name, value in found.items()}


def _weights(own: Own, z: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(own["weight"][0], z.dtype)


def _checked(terms: Iterable[tuple[int, ...]], n: int) -> tuple[tuple[int, ...], ...]:
    """Sets of units, as they are given, each in increasing order."""
    found, seen = [], set()
    for term in terms:
        try:
            units = tuple(sorted(int(unit) for unit in term))
        except (TypeError, ValueError):
            raise UserTypeError(f"a term must be numbers of units, got {term!r}", "terms", "give (0, 1, 2)") from None
        if len(units) < 2 or len(set(units)) < len(units):
            what = f"a term must have at least two units, each once, got {units}"
            raise UserValueError(what, "terms", "a single unit has its bias already")
        if units[0] < 0 or units[-1] >= n:
            raise UserValueError(f"units of a term must be in [0, {n - 1}], got {units}", "terms")
        if units in seen:
            raise UserValueError(f"a term must be there once, got {units} twice", "terms", "leave one of them out")
        seen.add(units)
        found.append(units)
    return tuple(found)
