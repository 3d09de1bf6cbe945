"""Energies of rows with some observed units flipped: what moves is a row of the couplings, not their product."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from gnomon.contracts import Array
from gnomon.inference.arrays import convert
from gnomon.numeric.sparse import in_full, is_sparse
from gnomon.numeric.tensors import detached, is_tensor
from gnomon.systems.energy.links import Link

__all__ = ["Flips", "scattered"]

AT_ONCE = 1 << 20
"""Numbers of hidden fields that are held at a time."""


class Flips:
    r"""Rows x of binary observed units beside copies in which some units are flipped.

    The hidden layers l are independent given x, so that F(x) = -b . x - sum_l A_l(x W_l). A flip of the units S adds
    sum_{j in S} delta_j W_l[j] to the field of layer l, delta_j the change of x_j: O(|S| m) in place of O(d m). Where
    the observed units are coupled by L, F has -x^T L x / 2 too, which a flip changes by -delta . x L
    - delta^T L delta / 2.

    Parameters
    ----------
    machine : LayeredMachine
        Its hidden layers are independent given the observed one, whose units have two values.
    x : array, sparse rows or tensor of shape (n, d)
    rows : int array of shape (p,)
        The row that each copy is made of.
    sites : int array of shape (p, k)
        The units that are flipped in it.
    active : array of shape (p, k) of 0 and 1, optional
        Which of these are: copies with fewer flips beside others with more. All where left out.
    """

    def __init__(self, machine: Any, x: Array, rows: Array, sites: Array, active: Array | None = None) -> None:
        self.machine, self.x = machine, x
        self.rows, self.sites = _numbers(rows, x), _numbers(sites, x)
        own = machine._own(machine.observed, self._parameters)
        values = machine.units[machine.observed].values
        here = x[self.rows[:, None], self.sites]
        self.change = sum(values) - 2 * (here.toarray() if is_sparse(x) else here)
        if active is not None:
            self.change = self.change * convert(active, self.change)
        self.bias = own["bias"]
        neighbors: list[tuple[Link, str]] = machine._neighbors[machine.observed]
        self.hidden = [(link, block) for link, block in neighbors if block != machine.observed]
        self.within = [link for link, block in neighbors if block == machine.observed]
        self.width = max([machine.sizes[block] for _, block in self.hidden], default=1)

    @property
    def _parameters(self) -> Any:
        return self.machine._arrays({self.machine.observed: self.x})

    def energies(self) -> Array:
        """F of the copy minus F of its row, shape (p,)."""
        found = -(self.change * self.bias[self.sites]).sum(-1)
        for link in self.within:
            found -= self._gain(link.matrix(self._of(link)))
        for link, block in self.hidden:
            kind, own, base, coupling = self._layer(link, block)
            before = kind.log_normalizer(base + 0, own)
            for part in self._parts():
                field = self._fields(base, coupling, part)
                found[part] -= kind.log_normalizer(field, own) - before[self.rows[part]]
        return found

    def gradient(self, weight: Array) -> dict[str, Array]:
        """Sums over copies of weight_i * d energies_i / d parameter, by name.

        The matrix of couplings gets x^T (mean hidden state of the copy minus that of the row), and in the rows of the
        flipped units delta times the mean of the copy.
        """
        machine, x = self.machine, self.x
        found = {name: 0 * value for name, value in self._parameters.items()}
        slope = scattered(len(self.bias), self.sites, weight[:, None] * self.change, x)
        found[f"{machine.observed}_bias"] = -slope
        for link in self.within:
            pairs = link.pull(-self._pair_slope(weight), self._of(link))
            found |= {link.names[name]: value for name, value in pairs.items()}
        for link, block in self.hidden:
            kind, own, base, coupling = self._layer(link, block)
            near = kind.conditional(base + 0, own)
            at_rows, at_sites = 0 * near.mean, 0 * coupling
            shares = scattered(x.shape[0], self.rows[:, None], weight[:, None], x)
            sums = {name: shares @ value for name, value in kind.statistics(near, near.mean, own).items()}
            for part in self._parts():
                far = kind.conditional(self._fields(base, coupling, part), own)
                mean, share = far.mean, weight[part]
                for name, value in kind.statistics(far, mean, own).items():
                    sums[name] = sums[name] - share @ value
                at_rows += scattered(x.shape[0], self.rows[part, None], share[:, None], x, mean)
                at_sites += scattered(len(coupling), self.sites[part], share[:, None] * self.change[part], x, mean)
            by_row = shares[:, None] * near.mean - at_rows
            slope = x.T @ by_row - at_sites
            first = link.ends[0] == machine.observed
            couplings = link.pull(slope if first else slope.T, self._of(link))
            found |= {link.names[name]: value for name, value in couplings.items()}
            found |= {machine._own_names[block][name]: value for name, value in sums.items()}
            found |= self._by_row(block, by_row)
        whole = {name: detached(value) for name, value in found.items()}
        return dict(machine._pulled(whole, {machine.observed: self.x}))

    def _gain(self, coupling: Array) -> Array:
        """delta . x L + delta^T L delta / 2 of each copy."""
        total = (self.change * (self.x @ coupling)[self.rows[:, None], self.sites]).sum(-1)
        for k, m in combinations(range(self.sites.shape[1]), 2):
            total += self.change[:, k] * coupling[self.sites[:, k], self.sites[:, m]] * self.change[:, m]
        return total

    def _pair_slope(self, weight: Array) -> Array:
        """Sums over copies of weight_i times the derivative of `_gain` by L: delta x^T, and delta_j delta_k once."""
        n, d = self.x.shape
        shares = weight[:, None] * self.change
        moved = scattered(n * d, self.rows[:, None] * d + self.sites, shares, self.x).reshape(n, d)
        slope = moved.T @ in_full(self.x)
        for k, m in combinations(range(self.sites.shape[1]), 2):
            at, share = self.sites[:, k] * d + self.sites[:, m], shares[:, k] * self.change[:, m]
            slope = slope + scattered(d * d, at[:, None], share[:, None], self.x).reshape(d, d)
        return slope

    def _layer(self, link: Link, block: str) -> tuple[Any, Any, Array, Array]:
        """A hidden layer: its kind, its own parameters, its fields (n, m), the couplings (d, m)."""
        machine = self.machine
        coupling = link.matrix(self._of(link))
        if link.ends[0] != machine.observed:
            coupling = coupling.T
        base = self._base(link, block)
        return machine.units[block], machine._own(block, self._parameters), base, coupling

    def _base(self, link: Link, block: str) -> Array:
        """Fields of a hidden layer beside the rows."""
        return link.field(block, self.x, self._of(link))

    def _by_row(self, block: str, slope: Array) -> dict[str, Array]:
        """Gradients of what moves the biases of a hidden layer row by row, given those by them, (n, m)."""
        return {}

    def _of(self, link: Link) -> dict[str, Any]:
        return {short: self._parameters[name] for short, name in link.names.items()}

    def _parts(self) -> Iterator[slice]:
        step = max(1, AT_ONCE // self.width)
        return (slice(start, start + step) for start in range(0, len(self.rows), step))

    def _fields(self, base: Array, coupling: Array, part: slice) -> Array:
        field, sites, change = base[self.rows[part]], self.sites[part], self.change[part]
        for k in range(sites.shape[1]):
            field += change[:, k, None] * coupling[sites[:, k]]
        return field


def _numbers(index: Array, like: Array) -> Array:
    """Indices in the kind and on the device of an array."""
    if not is_tensor(like):
        return np.asarray(index)
    import torch

    return torch.as_tensor(index, device=like.device)


def scattered(n: int, index: Array, share: Array, like: Array, values: Array | None = None) -> Array:
    """Sums of share[i, k] * values[i] at the places index[i, k] of n; of the shares alone without values."""
    if is_tensor(like):
        out = like.new_zeros((n,) if values is None else (n, values.shape[1]))
        for k in range(index.shape[1]):
            out.index_add_(0, index[:, k], share[:, k] if values is None else share[:, k, None] * values)
        return out
    if values is None:
        return np.bincount(index.ravel(), share.ravel(), n).astype(like.dtype)
    starts = np.arange(0, index.size + 1, index.shape[1])
    return sparse.csc_array((share.ravel(), index.ravel(), starts), shape=(n, len(index))) @ values
