"""Energies of rows with some observed units flipped, each row given a condition of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.contracts import Array
from gnomon.inference.arrays import convert, to_numpy
from gnomon.numeric.sparse import in_full
from gnomon.numeric.tensors import detached
from gnomon.systems.energy.flips import Flips, scattered
from gnomon.systems.energy.links import Link

__all__ = ["ConditionedFlips", "CopiedFlips"]


class ConditionedFlips(Flips):
    """As `Flips`, with biases that the condition of a row moves.

    Parameters
    ----------
    machine : ConditionedMachine
        With the condition in force.
    x, rows, sites, active
        See `Flips`.
    """

    def __init__(self, machine: Any, x: Array, rows: Array, sites: Array, active: Array | None = None) -> None:
        super().__init__(machine, x, rows, sites, active)
        self.condition = convert(machine.held, self.x)
        self.hidden = [(link, block) for link, block in self.hidden if not self._is_condition(link)]
        self.own_link = self._to(machine.observed)

    def _is_condition(self, link: Link) -> bool:
        return not self.machine.units[link.ends[0]].drawn

    def energies(self) -> Array:
        """F of the copy minus F of its row, given the row's condition."""
        found = super().energies()
        if self.own_link is None:
            return found
        moved = self.own_link.field(self.machine.observed, self.condition, self._of(self.own_link))
        return found - (self.change * moved[self.rows[:, None], self.sites]).sum(-1)

    def gradient(self, weight: Array) -> dict[str, Array]:
        """See `Flips.gradient`; the couplings to the condition are among the parameters."""
        self.by_condition = 0 * self.condition
        found = super().gradient(weight)
        n, d = self.x.shape
        shares = weight[:, None] * self.change
        slope = scattered(n * d, self.rows[:, None] * d + self.sites, shares, self.x).reshape(n, d)
        found |= self._moved(self.own_link, -slope)
        if self.machine.traced:
            (given,) = self.machine.conditions
            found[given] = detached(self.by_condition)
        return found

    def _base(self, link: Link, block: str) -> Array:
        found, own = super()._base(link, block), self._to(block)
        return found if own is None else found + own.field(block, self.condition, self._of(own))

    def _by_row(self, block: str, slope: Array) -> dict[str, Array]:
        return self._moved(self._to(block), slope)

    def _moved(self, link: Link | None, slope: Array) -> dict[str, Array]:
        """Gradients by what moves the biases of a layer, of those by the biases of each row."""
        if link is None:
            return {}
        if self.machine.traced:
            self.by_condition = self.by_condition + slope @ link.matrix(self._of(link)).T
        sums = link.statistics(self.condition, slope, slope[:, 0] * 0 + 1, self._of(link))
        return {link.names[name]: value for name, value in sums.items()}

    def _to(self, block: str) -> Link | None:
        """The link of the condition to a layer, where it moves this one."""
        return next((link for link, _ in self.machine._neighbors[block] if self._is_condition(link)), None)


class CopiedFlips:
    """As `Flips`, of a machine whose condition makes its couplings: copies are computed as rows of their own.

    Parameters
    ----------
    machine : ConditionedMachine
        With the condition in force.
    x, rows, sites, active
        See `Flips`.
    """

    def __init__(self, machine: Any, x: Array, rows: Array, sites: Array, active: Array | None = None) -> None:
        at, self.x = to_numpy(rows).astype(np.int64), x
        copies, places = np.array(to_numpy(in_full(x)))[at], to_numpy(sites).astype(np.int64)
        total, line = sum(machine.units[machine.observed].values), np.arange(len(at))
        for k in range(places.shape[1]):
            change = total - 2 * copies[line, places[:, k]]
            copies[line, places[:, k]] += change if active is None else change * to_numpy(active)[:, k]
        held = to_numpy(machine.held)
        self.rows, self.near = at, machine
        self.copies = convert(copies, x)
        self.far = machine.given(held if len(held) == 1 else held[at], traced=machine.traced)

    def energies(self) -> Array:
        """F of the copy minus F of its row, given the row's condition, shape (p,)."""
        before = to_numpy(self.near.energy(self.x))[self.rows]
        return self.far.energy(self.copies) - convert(before, self.copies)

    def gradient(self, weight: Array) -> dict[str, Array]:
        """Sums over copies of weight_i * d energies_i / d parameter, by name."""
        block = self.near.observed
        shares = np.bincount(self.rows, to_numpy(weight), self.x.shape[0])
        far = self.far.marginal_gradient({block: self.copies}, convert(to_numpy(weight), self.copies))
        near = self.near.marginal_gradient({block: self.x}, convert(shares, self.copies))
        if not self.near.traced:
            return {name: far[name] - near[name] for name in far}
        (given,) = (name for name, kind in self.near.units.items() if not kind.drawn)
        by_row = np.zeros(near[given].shape, near[given].dtype)
        np.add.at(by_row, self.rows, far[given])  # several copies of a row, or none, have its condition
        return {name: (by_row if name == given else far[name]) - near[name] for name in far}
