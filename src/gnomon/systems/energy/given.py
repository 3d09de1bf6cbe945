"""A machine of layers whose observed layer is taken apart: columns that are seen, and columns that are not."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.distributions.units import Units
from gnomon.errors import UserTypeError
from gnomon.inference.arrays import to_numpy
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, LateralLink, Link
from gnomon.systems.energy.terms import TermsLink
from gnomon.systems.energy.three_way import ThreeWayLink

__all__ = ["Given", "given_columns"]


class Given(NamedTuple):
    """The machine, and which columns of the observed layer its layers hold."""

    machine: LayeredMachine
    seen: dict[str, NDArray[np.int64]]
    missing: dict[str, NDArray[np.int64]]

    def state(self, x: Array) -> dict[str, Array]:
        """Rows of the whole observed layer as states of the layers that are seen."""
        return {name: to_numpy(x)[:, columns] for name, columns in self.seen.items()}


def given_columns(machine: Any, seen: NDArray[np.bool_]) -> Given:
    r"""The same joint distribution in float64, with the seen and the other columns of the observed layer apart.

    What is not seen is then one more hidden layer, so that every engine answers what it has to: `energy` of what is
    seen is :math:`-\log \sum_{x_{miss}, h} e^{-E}` with the log Z of the whole, the other layers' posterior that of the
    missing columns. Couplings between the two parts become a link.

    Parameters
    ----------
    machine : LayeredMachine
    seen : bool array of shape (columns,)
        One-hot columns of a category are seen together or not at all.

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits
    >>> machine = LayeredMachine({"visible": BernoulliUnits(3), "hidden": BernoulliUnits(2)}, [("visible", "hidden")])
    >>> given_columns(machine, np.array([True, False, True])).machine.sizes
    {'seen': 2, 'missing': 1, 'hidden': 2}
    """
    data = machine.observed
    arrays = machine._arrays({data: np.zeros((1, machine.sizes[data]), np.float64)})
    layers = _layers(machine.units[data], seen)
    units: dict[str, Units] = {name: kind for name, (kind, _) in layers.items()}
    units |= {block: kind for block, kind in machine.units.items() if block != data}
    links: list[Link] = []
    values: dict[str, Array] = {}
    for link in machine.links:
        own = {short: arrays[name] for short, name in link.names.items()}
        if isinstance(link, ThreeWayLink):
            for three in product(*(_ends(end, data, layers) for end in link.ends)):
                cut, found = link.cut([name for name, _ in three], [columns for _, columns in three], own)
                links, values = links + cut, values | found
            continue
        if isinstance(link, TermsLink):
            whole_terms = _renumbered(link, data, layers)
            links.append(whole_terms)
            values[whole_terms.names["weight"]] = to_numpy(own["weight"])
            continue
        matrix = to_numpy(link.matrix(own))
        for a, rows in _ends(link.ends[0], data, layers):
            for b, columns in _ends(link.ends[1], data, layers):
                if a > b and link.ends[0] == link.ends[1]:
                    continue  # of two parts of one layer one link has both directions
                part = matrix[rows][:, columns]
                new = LateralLink(a) if a == b else DenseLink(a, b)
                links.append(new)
                values[new.names["weight"]] = new.of_pairs(part) if isinstance(new, LateralLink) else part
    whole = LayeredMachine(units, links, dtype=torch.float64)
    for block in machine.units:
        mine = {name: to_numpy(value) for name, value in machine._own(block, arrays).items()}
        for name, columns in _ends(block, data, layers):
            values |= {f"{name}_{short}": value[columns] for short, value in mine.items()}
    with torch.no_grad():
        for name, value in values.items():
            whole.get_parameter(name).copy_(torch.as_tensor(np.ascontiguousarray(value)))
    parts = {name: columns for name, (_, columns) in layers.items()}
    is_seen = {name: columns for name, columns in parts.items() if seen[columns[0]]}
    return Given(whole, is_seen, {name: columns for name, columns in parts.items() if name not in is_seen})


def _ends(block: str, data: str, layers: dict[str, Any]) -> list[tuple[str, Any]]:
    """The layers that a layer has become, with their columns in it."""
    if block != data:
        return [(block, slice(None))]
    return [(name, columns) for name, (_, columns) in layers.items()]


def _renumbered(link: TermsLink, data: str, layers: dict[str, Any]) -> TermsLink:
    """The same terms, of the layers that the ends have become."""
    found: dict[str, int] = {}
    numbers = np.zeros(sum(link.layers.values()), np.int64)
    for end, cut in link.cuts.items():
        for name, columns in _ends(end, data, layers):
            units = np.arange(cut.start, cut.stop)[columns]
            numbers[units] = sum(found.values()) + np.arange(len(units))
            found[name] = len(units)
    return link.renumbered(found, numbers)


def _layers(kind: Any, seen: NDArray[np.bool_]) -> dict[str, tuple[Units, NDArray[np.int64]]]:
    """The observed layer as layers that are seen and layers that are not, with their columns."""
    found: dict[str, tuple[Units, NDArray[np.int64]]] = {}
    parts = list(zip(kind.parts, kind.cuts, strict=True)) if hasattr(kind, "parts") else [(kind, slice(0, kind.size))]
    for number, (part, cut) in enumerate(parts):
        columns = np.arange(cut.start, cut.stop)
        tail = f"_{number}" if number else ""
        for name, chosen in (("seen", columns[seen[columns]]), ("missing", columns[~seen[columns]])):
            if len(chosen):
                found[name + tail] = (_of(part, len(chosen)), chosen)
    return found


def _of(kind: Units, columns: int) -> Units:
    """Units of the kind with so many columns."""
    if columns == kind.size:
        return kind
    if kind.size != kind.n:
        what = f"columns of {type(kind).__name__} must be known all or none"
        raise UserTypeError(what, "X", "give the whole category, or leave it out")
    return replace(kind, n=columns)
