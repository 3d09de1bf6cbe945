"""Couplings among three layers of an energy machine: what one layer is to a second is switched by a third."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import to_numpy
from gnomon.systems.energy.links import Link, Own

__all__ = ["FactoredLink", "MaskLink", "PartsLink", "ThreeWayLink"]

Columns = slice | NDArray[np.int64]
Cut = tuple[list[Link], dict[str, Array]]


class ThreeWayLink(Link):
    r"""Every triple of units of three layers, each with a weight of its own: :math:`\sum_{ijk} W_{ijk} a_i b_j c_k`.

    Given one layer the two others are coupled as by a `DenseLink` whose weights are a sum of slices of W, so that each
    layer is independent given the two others. Cost of a field: O(rows a b c).

    Parameters
    ----------
    a, b, c : str
        The layers.
    name : str, optional
        What the names of the parameters begin with; ``<a>_<b>_<c>`` by default, nothing where it is empty.

    Examples
    --------
    >>> link = ThreeWayLink("x", "y", "h")
    >>> own, one = {"weight": np.array([[[2.0, 3.0]]])}, np.ones((1, 1))
    >>> link.push("h", {"x": one, "y": one}, own), link.push("y", {"x": one, "h": np.array([[1.0, 1.0]])}, own)
    (array([[2., 3.]]), array([[5.]]))
    """

    bilinear = False

    def __init__(self, a: str, b: str, c: str, *, name: str | None = None) -> None:
        self.ends, self.within = (a, b, c), frozenset()
        prefix = "_".join(self.ends) if name is None else name
        sizes = dict.fromkeys(self.ends, 0)
        self.names = {short: f"{prefix}_{short}" if prefix else short for short in self.shapes(sizes)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.ends))})"

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One tensor."""
        return {"weight": tuple(sizes[end] for end in self.ends)}

    def push(self, block: str, features: Mapping[str, Array], own: Own) -> Array:
        """The weights summed over the units of both other layers, each weight times their states."""
        a, b, c = self.ends
        weight = own["weight"]
        if block == a:
            return _products(features[b], features[c]) @ weight.reshape(len(weight), -1).T
        given = (features[a] @ weight.reshape(len(weight), -1)).reshape(-1, *weight.shape[1:])
        if block == c:
            return (features[b][:, None, :] @ given)[:, 0]
        return (given @ features[c][:, :, None])[..., 0]

    def gain(self, features: Mapping[str, Array], own: Own) -> Array:
        """The form of each row."""
        last = self.ends[-1]
        return (self.push(last, features, own) * features[last]).sum(-1)

    def sums(self, features: Mapping[str, Array], weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sum of products of three states."""
        a, b, c = (features[end] for end in self.ends)
        return {"weight": ((a * weight[:, None]).T @ _products(b, c)).reshape(own["weight"].shape)}

    def cut(self, ends: Sequence[str], columns: Sequence[Columns], own: Own) -> Cut:
        """The same coupling among parts of the layers, which have these names: links, and their parameters by name.

        Parameters
        ----------
        ends : three str
        columns : three slices or arrays of int
            Which units of each layer.
        own : mapping of str to array
        """
        link = ThreeWayLink(*ends)
        first, second, third = columns
        return [link], {link.names["weight"]: to_numpy(own["weight"])[first][:, second][:, :, third]}


class FactoredLink(ThreeWayLink):
    r"""A sum of products of three filters, :math:`\sum_f (a^T A_{:f}) (b^T B_{:f}) (c^T C_{:f})`.

    A `ThreeWayLink` of :math:`W_{ijk} = \sum_f A_{if} B_{jf} C_{kf}`, in O(n_factors (a + b + c)) numbers and time for
    each row. Only the products count: a filter may grow as another one shrinks.

    Parameters
    ----------
    a, b, c : str
        The layers.
    n_factors : int
    name : str, optional
        As of `ThreeWayLink`.

    Notes
    -----
    The parameters are ``first``, ``second`` and ``third``: A, B and C.

    References
    ----------
    Memisevic and Hinton (2010), "Learning to represent spatial transformations with factored higher-order Boltzmann
    machines".

    Examples
    --------
    >>> link = FactoredLink("x", "y", "h", 1)
    >>> own = {"first": np.array([[2.0]]), "second": np.array([[3.0]]), "third": np.array([[1.0], [-1.0]])}
    >>> link.push("h", {"x": np.ones((1, 1)), "y": np.ones((1, 1))}, own)
    array([[ 6., -6.]])
    """

    def __init__(self, a: str, b: str, c: str, n_factors: int, *, name: str | None = None) -> None:
        self.n_factors = n_factors
        super().__init__(a, b, c, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Three matrices, a column for each factor."""
        return {
            short: (sizes[end], self.n_factors)
            for short, end in zip(("first", "second", "third"), self.ends, strict=True)
        }

    def filters(self, own: Own) -> tuple[Array, Array, Array]:
        """A, B and C."""
        return own["first"], own["second"], own["third"]

    def _factors(self, features: Mapping[str, Array], own: Own) -> dict[str, Array]:
        """Of each layer the answers of its filters, (rows, n_factors)."""
        filters = dict(zip(self.ends, self.filters(own), strict=True))
        return {end: x @ filters[end] for end, x in features.items() if end in filters}

    def push(self, block: str, features: Mapping[str, Array], own: Own) -> Array:
        """The filters of the layer, each times the answers of its partners."""
        answers = self._factors({end: x for end, x in features.items() if end != block}, own)
        one, other = (answers[end] for end in self.ends if end != block)
        return (one * other) @ self.filters(own)[self.ends.index(block)].T

    def sums(self, features: Mapping[str, Array], weight: Array, own: Own) -> dict[str, Array]:
        """Of each filter the weighted sums of its inputs times the answers of its partners."""
        answers, found = self._factors(features, own), {}
        for short, end in zip(("first", "second", "third"), self.ends, strict=True):
            one, other = (answers[name] for name in self.ends if name != end)
            found[short] = (features[end] * weight[:, None]).T @ (one * other)
        return found

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """From no coupling on: all filters times the cube root of eta.

        Raises
        ------
        UserTypeError
            Filters of both ends that differ from 0: a sum of both has twice as many factors.
        """
        if any((value != 0).any() for value in start.values()):
            what = "the base of a path to factored couplings must have none, got filters other than 0"
            raise UserTypeError(what, "base", "start from a machine without coupling")
        return {name: end[name] * eta ** (1 / 3) for name in self.names}

    def cut(self, ends: Sequence[str], columns: Sequence[Columns], own: Own) -> Cut:
        """See `ThreeWayLink`: of each filter the rows of these units."""
        parts = [to_numpy(one)[chosen] for one, chosen in zip(self.filters(own), columns, strict=True)]
        link = FactoredLink(ends[0], ends[1], ends[2], parts[0].shape[1])
        return [link], dict(zip(link.names.values(), parts, strict=True))


class MaskLink(ThreeWayLink):
    r"""A layer that is seen by another through a mask of its own size: :math:`\sum_{ij} z_i v_i W_{ij} h_j`.

    Where z_i is 0, unit i of v is cut off from h. It is the `FactoredLink` whose filters of z and v are single units.

    Parameters
    ----------
    mask, layer, hidden : str
        z, v and h; z has as many units as v.
    inverse : bool, default False
        Less that, by the parameters of the `DenseLink` of v and h with the same name: both together are
        :math:`\sum_{ij} (1 - z_i) v_i W_{ij} h_j`, where h sees what the mask hides.
    name : str, optional
        As of `ThreeWayLink`.

    References
    ----------
    Sohn, Zhou, Lee and Lee (2013), "Learning and selecting features jointly with point-wise gated Boltzmann machines".

    Examples
    --------
    >>> link = MaskLink("mask", "visible", "hidden")
    >>> link.push("hidden", {"mask": np.array([[1.0, 0.0]]), "visible": np.ones((1, 2))}, {"weight": np.eye(2)})
    array([[1., 0.]])
    """

    def __init__(self, mask: str, layer: str, hidden: str, *, inverse: bool = False, name: str | None = None) -> None:
        self.shares, self.sign = inverse, -1.0 if inverse else 1.0
        super().__init__(mask, layer, hidden, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """One matrix."""
        return {"weight": (sizes[self.ends[1]], sizes[self.ends[2]])}

    def push(self, block: str, features: Mapping[str, Array], own: Own) -> Array:
        """(z v) W, z (W h), or v (W h); less that where inverse."""
        mask, layer, hidden = self.ends
        if block == hidden:
            return (self.sign * features[mask] * features[layer]) @ own["weight"]
        seen = features[hidden] @ own["weight"].T
        return self.sign * features[mask if block == layer else layer] * seen

    def sums(self, features: Mapping[str, Array], weight: Array, own: Own) -> dict[str, Array]:
        """The weighted sum of outer products of z v and h; less that where inverse."""
        mask, layer, hidden = (features[end] for end in self.ends)
        return {"weight": (mask * layer * (self.sign * weight)[:, None]).T @ hidden}

    def cut(self, ends: Sequence[str], columns: Sequence[Columns], own: Own) -> Cut:
        """See `ThreeWayLink`: single units are the filters of mask and layer, so that the parts may differ in size."""
        weight, (masks, units, hidden) = to_numpy(own["weight"]), columns
        part = weight[units][:, hidden]
        switch = self.sign * np.eye(len(weight), dtype=weight.dtype)[masks][:, units]
        link = FactoredLink(ends[0], ends[1], ends[2], len(part))
        filters = (switch, np.eye(len(part), dtype=weight.dtype), part.T)
        return [link], dict(zip(link.names.values(), filters, strict=True))


class PartsLink(ThreeWayLink):
    """A coupling of three parts of layers, where a part is columns of one that stand next to each other.

    Two of the parts may be of one layer, which then is to be given: nothing is pushed to a layer that is seen in parts.

    Parameters
    ----------
    inner : ThreeWayLink
        The coupling; its ends are names of parts, or of whole layers.
    parts : mapping of str to (layer, slice)
        By name of a part its layer and the columns of it.

    Examples
    --------
    >>> link = PartsLink(FactoredLink("x", "z", "h", 1), {"x": ("given", slice(0, 2)), "z": ("given", slice(2, 3))})
    >>> link.ends, link.shapes({"given": 3, "h": 5})
    (('given', 'h'), {'first': (2, 1), 'second': (1, 1), 'third': (5, 1)})
    """

    def __init__(self, inner: ThreeWayLink, parts: Mapping[str, tuple[str, slice]]) -> None:
        self.inner, self.within, self.names = inner, frozenset(), inner.names
        self.parts = {end: parts.get(end, (end, slice(None))) for end in inner.ends}
        self.ends = tuple(dict.fromkeys(layer for layer, _ in self.parts.values()))

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Those of the inner link, for parts of these widths."""
        return self.inner.shapes(
            {end: len(range(sizes[layer])[columns]) for end, (layer, columns) in self.parts.items()}
        )

    def push(self, block: str, features: Mapping[str, Array], own: Own) -> Array:
        """What the inner link pushes to a whole layer."""
        return self.inner.push(block, self._seen(features), own)

    def gain(self, features: Mapping[str, Array], own: Own) -> Array:
        """The form of each row."""
        return self.inner.gain(self._seen(features), own)

    def sums(self, features: Mapping[str, Array], weight: Array, own: Own) -> dict[str, Array]:
        """Those of the inner link."""
        return self.inner.sums(self._seen(features), weight, own)

    def mix(self, start: Own, end: Own, eta: float) -> dict[str, Array]:
        """As the inner link does."""
        return self.inner.mix(start, end, eta)

    def cut(self, ends: Sequence[str], columns: Sequence[Columns], own: Own) -> Cut:
        """Refused: columns of a layer may be in several parts.

        Raises
        ------
        UserTypeError
            Always.
        """
        raise UserTypeError("a coupling of parts of layers cannot be cut", "links", "couple whole layers")

    def _seen(self, features: Mapping[str, Array]) -> dict[str, Array]:
        """The parts that are among the layers."""
        return {end: features[layer][:, columns] for end, (layer, columns) in self.parts.items() if layer in features}


def _products(left: Array, right: Array) -> Array:
    """The products of each unit of two layers, (rows, left * right)."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)
