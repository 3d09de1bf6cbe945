"""Single-site Gibbs sampling of two-valued units: compiled sweeps for pairwise energies, differences for all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from gnomon.contracts import Array, Noise, State
from gnomon.distributions.bernoulli import Bernoulli
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert, prototype, to_numpy
from gnomon.inference.mcmc.density import as_density
from gnomon.inference.mcmc.kernel import ChainState, Info, start_at
from gnomon.inference.mcmc.site_tables import SiteTables

__all__ = ["ColoredUnits", "PairwiseUnits", "SingleSite"]

Floats = NDArray[np.float64]

_REVERSED = {
    "systematic": "backward", "backward": "systematic", "random": "random",
    "colored": "colored-backward", "colored-backward": "colored",
}  # fmt: skip

kernel = numba.njit(cache=True, error_model="numpy")


class PairwiseUnits:
    """Units of 0 or 1 with pairwise couplings, a general Boltzmann machine: ``E(x) = -x'U x - b'x``.

    Every ordered pair counts: ``U + U'`` is what couples two units, and the diagonal is bias, since x^2 = x. The
    conditional logit of unit i is ``b_i + U_ii + sum_{j != i} (U_ij + U_ji) x_j``.

    Parameters
    ----------
    coupling : array or scipy sparse array of shape (d, d)
        U: upper triangular, or any; zeros are pairs that are not coupled.
    bias : array of shape (d,), optional
        b; 0 by default.

    References
    ----------
    Ackley, Hinton and Sejnowski (1985), "A learning algorithm for Boltzmann machines".

    Examples
    --------
    >>> units = PairwiseUnits([[0.0, 2.0], [0.0, 0.0]], [-1.0, 0.0])
    >>> units.energy(np.array([[1.0, 1.0]])).tolist(), units.logits(np.array([[1.0, 1.0]])).tolist()
    ([-1.0], [[1.0, 2.0]])
    """

    def __init__(self, coupling: Any, bias: ArrayLike | None = None) -> None:
        u = sparse.csr_array(coupling, dtype=np.float64)
        if u.ndim != 2 or u.shape[0] != u.shape[1] or not np.isfinite(u.data).all():
            raise UserValueError.must("coupling", "be a square matrix of finite numbers", u)
        d = u.shape[0]
        b = np.zeros(d) if bias is None else np.array(bias, dtype=np.float64)
        if b.shape != (d,) or not np.isfinite(b).all():
            raise UserValueError.must("bias", f"be {d} finite numbers, one per unit", b)
        own = u.diagonal()
        pairs = sparse.csr_array(u + u.T - 2 * sparse.diags_array(own))
        pairs.eliminate_zeros()
        pairs.sort_indices()
        self.pairs, self.bias, self.d = pairs, b + own, d

    def energy(self, x: Floats) -> Floats:
        """Energy of each row of 0 and 1, shape (rows,)."""
        return np.asarray(-x @ self.bias - 0.5 * ((x @ self.pairs) * x).sum(axis=1))

    def logits(self, x: Floats) -> Floats:
        """Logit of each unit being 1 given all the others, the shape of `x`."""
        return np.asarray(self.bias + x @ self.pairs)

    def colors(self) -> tuple[NDArray[np.int64], ...]:
        """Units by color, so that no two of one color are coupled: greedy, the most coupled units first."""
        return tuple(np.flatnonzero(self.color == c) for c in range(int(self.color.max(initial=-1)) + 1))

    @cached_property
    def color(self) -> NDArray[np.int64]:
        """The color of each unit, from 0."""
        starts, others = self.pairs.indptr, self.pairs.indices
        return np.asarray(_color(starts, others, np.argsort(-np.diff(starts), kind="stable")))

    @cached_property
    def by_color(self) -> NDArray[np.int64]:
        """All units, one color after the other: a checkerboard's black ones, then the white ones."""
        return np.argsort(self.color, kind="stable")

    @cached_property
    def tables(self) -> SiteTables | None:
        """Conditionals by the states of the neighbors; None where units have too many."""
        return SiteTables.of(self.pairs, self.bias)

    def colored(self) -> ColoredUnits:
        """The same with a block per color, for block Gibbs sampling: as many draws at a time as the graph lets."""
        return ColoredUnits(self)


class ColoredUnits:
    """Pairwise units in blocks that are independent given the rest (`HasBlocks`).

    Parameters
    ----------
    units : PairwiseUnits
    """

    def __init__(self, units: PairwiseUnits) -> None:
        self.pairwise, colors = units, units.colors()
        self.blocks = tuple(f"color {c}" for c in range(len(colors)))
        self.members = dict(zip(self.blocks, colors, strict=True))
        self.sizes = {block: len(members) for block, members in self.members.items()}
        self._columns = {block: units.pairs[:, members] for block, members in self.members.items()}

    def join(self, state: State) -> Floats:
        """The units in their own order, shape (rows, d); blocks that are absent are 0."""
        x = np.zeros((len(next(iter(state.values()))), self.pairwise.d))
        for block, value in state.items():
            x[:, self.members[block]] = value
        return x

    def conditional(self, block: str, state: State) -> Bernoulli:
        """Distribution of one color given the others."""
        fields = self.join(state) @ self._columns[block]
        return Bernoulli(np.ascontiguousarray(self.pairwise.bias[self.members[block]] + fields))

    def joint_energy(self, state: State) -> Floats:
        """Energy of the full state in nats, shape (rows,)."""
        return self.pairwise.energy(self.join(state))


@dataclass(frozen=True)
class SingleSite:
    """One unit after the other is drawn from its conditional given the rest: ``p(x_i = b) = sigma(E(a) - E(b))``.

    A step is a sweep of as many updates as there are free units. In fixed order it leaves the target invariant and is
    not reversible; a random scan, each chain choosing its own units, is both. `PairwiseUnits` are swept by a compiled
    loop over coupled units, and where units have few neighbors (grids) in fixed order by looking the conditionals up, a
    few nanoseconds each, fastest color by color; any other density costs two evaluations per unit.

    Parameters
    ----------
    scan : {"systematic", "backward", "random", "colored", "colored-backward"}
        Backward is systematic in the opposite order, its reversal. Colored takes the units of `PairwiseUnits` one
        color after the other, those of a color being independent given the rest: on a grid the checkerboard.
    order : sequence of int, optional
        Units of a sweep, or those that a random scan chooses from; all by default.
    clamp : (value, mask), optional
        Arrays of shape (d,): units whose mask is set keep the value, and chains draw from the distribution given these.
    values : pair of float
        The two values a < b of a unit. (-1, 1) for spins.

    Notes
    -----
    The info tells ``changed``: the share of a chain's units that a step changed.

    References
    ----------
    Geman and Geman (1984), "Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images".

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> mover = SingleSite()
    >>> state = mover.init(np.zeros((4, 2)), PairwiseUnits(np.zeros((2, 2)), [50.0, -50.0]))
    >>> mover.step(state, Noise(0, "sites").at(0))[0]["x"].tolist()
    [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    """

    scan: str = "systematic"
    order: Sequence[int] | None = None
    clamp: tuple[ArrayLike, ArrayLike] | None = None
    values: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.scan not in _REVERSED:
            raise UserValueError.must("scan", f"be one of {', '.join(_REVERSED)}", self.scan)
        if not self.values[0] < self.values[1]:
            raise UserValueError.must("values", "be two numbers, the smaller first", self.values)

    def begin(self, target: Any, start: int | None, chains: int, noise: Noise) -> Floats:
        """Random states of `start` units, or of as many as the target has."""
        d = getattr(target, "d", None) if start is None else int(start)
        if d is None:
            raise UserValueError(
                "start is required for a target that does not give its number of units",
                "start",
                "pass the number of units, or a state",
            )
        return np.where(noise.uniform((chains, d)) < 0.5, *self.values)

    def init(self, position: Array, target: Any) -> ChainState:
        """Chains at the rows of `position`, (chains, d); see `Kernel`."""
        x = to_numpy(position).copy()
        bad = np.argwhere((x != self.values[0]) & (x != self.values[1]))
        if bad.size:
            i, j = bad[0]
            raise UserValueError.must(
                f"unit {j}", f"be {self.values[0]} or {self.values[1]}", x[i, j], f"start, chain {i}"
            )
        if isinstance(target, PairwiseUnits):
            self._check_pairwise(x, target)
        elif self.scan.startswith("colored"):
            raise UserValueError(
                f"{type(target).__name__} has no colors", "scan", "use scan='systematic', or PairwiseUnits"
            )
        if self.clamp is not None:
            value, mask = (np.broadcast_to(np.asarray(part), x.shape[1:]) for part in self.clamp)
            x = np.where(mask != 0, value, x).astype(np.float64)
        start_at(x, self._log_p(target, x))
        return ChainState(target, {"x": x})

    def step(self, state: ChainState, noise: Noise) -> tuple[ChainState, Info]:
        """One sweep; see `Kernel`."""
        before, target = state["x"], state.target
        units = self._units(before, target)
        tables = target.tables if isinstance(target, PairwiseUnits) and self.scan != "random" else None
        if tables is not None and hasattr(noise, "address"):
            x, changed = tables.sweep(before, units.astype(np.uint64), noise)
            return state.moved(x=x), {"changed": changed}
        sites = self._sites(units, len(before), noise)
        u = noise.uniform(sites.shape, like=before)
        threshold = np.log(u) - np.log1p(-u)  # logit(u) < logit(p) keeps the tails that sigma(logit) rounds away
        x = before.copy()
        if isinstance(target, PairwiseUnits):
            pairs = target.pairs
            _sweep(x, sites, threshold, target.bias, pairs.indptr, pairs.indices, pairs.data)
        else:
            self._differences(target, x, sites, threshold)
        return state.moved(x=x), {"changed": (x != before).mean(axis=1)}

    def position(self, state: ChainState) -> dict[str, Array]:
        """The units as ``x``."""
        return {"x": state["x"]}

    def reversed(self) -> SingleSite:
        """The same in the opposite order; a random scan is reversible."""
        return replace(self, scan=_REVERSED[self.scan])

    def _units(self, x: Floats, target: Any) -> NDArray[np.int64]:
        """Units of a sweep in their order, or those that a random scan chooses from."""
        colored = self.scan.startswith("colored")
        if self.order is not None:
            units = np.asarray(self.order, dtype=np.int64)
            units = units[np.argsort(target.color[units], kind="stable")] if colored else units
        else:
            units = target.by_color if colored else np.arange(x.shape[1])
        if self.clamp is not None:
            mask = np.broadcast_to(np.asarray(self.clamp[1]), x.shape[1:])
            units = units[mask[units] == 0]
        return units[::-1] if self.scan.endswith("backward") else units

    def _sites(self, units: NDArray[np.int64], chains: int, noise: Noise) -> NDArray[np.int64]:
        """Units to update, (chains, updates)."""
        shape = (chains, len(units))
        if self.scan != "random" or not units.size:
            return np.ascontiguousarray(np.broadcast_to(units, shape))
        return units[noise.child("scan").integers(len(units), shape)]

    def _differences(self, target: Any, x: Floats, sites: NDArray[np.int64], threshold: Floats) -> None:
        rows, (low, high) = np.arange(len(x)), self.values
        for k in range(sites.shape[1]):
            site = sites[:, k]
            x[rows, site] = high
            up = self._log_p(target, x)
            x[rows, site] = low
            down = self._log_p(target, x)
            x[rows, site] = np.where(up - down > threshold[:, k], high, low)

    def _log_p(self, target: Any, x: Floats) -> Floats:
        # a copy: what is asked may keep what it is given
        return to_numpy(as_density(target).log_prob(convert(x.copy(), prototype(target))))

    def _check_pairwise(self, x: Floats, target: PairwiseUnits) -> None:
        if self.values != (0.0, 1.0):
            raise UserValueError.must("values", "be (0, 1) for pairwise units", self.values, remedy="or give an energy")
        if x.shape[1:] != (target.d,):
            raise UserValueError(f"start must have {target.d} units, got shape {x.shape[1:]}", "start")


@kernel
def _sweep(x, sites, threshold, bias, starts, others, weight):  # type: ignore[no-untyped-def]
    """Updates of every chain, in place."""
    for c in range(x.shape[0]):
        for k in range(sites.shape[1]):
            i = sites[c, k]
            field = bias[i]
            for p in range(starts[i], starts[i + 1]):
                field += weight[p] * x[c, others[p]]
            x[c, i] = 1.0 if field > threshold[c, k] else 0.0


@kernel
def _color(starts, others, order):  # type: ignore[no-untyped-def]
    """The smallest color that no coupled unit has, unit by unit."""
    color = np.full(order.size, -1, np.int64)
    taken = np.full(order.size + 1, -1, np.int64)
    for i in order:
        for p in range(starts[i], starts[i + 1]):
            if color[others[p]] >= 0:
                taken[color[others[p]]] = i
        c = 0
        while taken[c] == i:
            c += 1
        color[i] = c
    return color
