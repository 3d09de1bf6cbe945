"""Maps of detectors under pooling units: each pooling unit is on where a detector of its region is.

In both kinds a pooling unit p is the maximum of the n detectors d of its region, and the log weight of a region is
``sum_i I_i d_i + f p`` with the detectors' fields I (bias included) and the pooling unit's field f. They differ in
which states there are: all 2^n, or the n + 1 in which at most one detector is on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution
from gnomon.distributions.units import Own, Units, mean_of
from gnomon.errors import UserValueError
from gnomon.numeric import ops
from gnomon.numeric.tensors import detached, is_tensor

__all__ = ["DeterministicMaxUnits", "PooledDetectors", "PooledUnits", "ProbabilisticMaxUnits"]

SLACK = 1e-3
"""By how much a pooling unit's mean may miss what its detectors' means say."""


@dataclass(frozen=True)
class PooledUnits(Units):
    """Base: n maps of detectors of 0 and 1, and a pooling unit for each region of each map.

    A state is [d, p]: the detectors in reading order, the maps of a place side by side, then the pooling units
    likewise. Links see both. Regions do not overlap and fill the maps; their size stays as it is where images grow, and
    there are more of them. The one parameter is ``bias``, of the detectors.

    Parameters
    ----------
    n : int, in [1, inf)
        Maps.
    rows, columns : int, in [1, inf)
        Of a map.
    height, width : int, in [1, inf)
        Of a region.

    Raises
    ------
    UserValueError
        Regions that do not fill a map.
    """

    rows: int = 1
    columns: int = 1
    height: int = 1
    width: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows % self.height or self.columns % self.width:
            what = f"regions must fill maps of {self.rows} x {self.columns}, got {self.height} x {self.width}"
            raise UserValueError(what, "region", "give divisors of both, or change the kernel or its mode")

    @property
    def detectors(self) -> int:
        """Of all maps."""
        return self.n * self.rows * self.columns

    @property
    def members(self) -> int:
        """Detectors of a region."""
        return self.height * self.width

    @property
    def regions(self) -> int:
        """Of all maps: pooling units."""
        return self.detectors // self.members

    @property
    def size(self) -> int:
        """A column for each detector, then one for each pooling unit."""
        return self.detectors + self.regions

    @property
    def unit_of_column(self) -> NDArray[np.int64]:
        """The region: its detectors and its pooling unit depend on each other."""
        region = np.arange(self.regions)[None]
        found: NDArray[np.int64] = self.joined(region[:, None].repeat(self.members, 1), region)[0]
        return found

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """A bias for each detector."""
        return {"bias": (self.detectors,)}

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """bias . d; -inf where a pooling unit is not the maximum of its detectors."""
        mean = mean_of(x)
        weight = mean[:, : self.detectors] @ own["bias"]
        if hasattr(x, "log_prob"):
            return weight
        lib = _library(mean)
        d, p = self.parts(mean)
        return lib.where(self._agree(d, p).all(1), weight, -math.inf * lib.ones_like(weight))

    def _agree(self, d: Any, p: Any) -> Any:
        """Of each region whether its state, or these means of states, can be."""
        raise NotImplementedError

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """d."""
        return {"bias": mean[:, : self.detectors]}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Biases of 0."""
        return {"bias": np.zeros(self.detectors)}

    def parts(self, x: Any) -> tuple[Any, Any]:
        """Detectors by region, (rows, members, regions), and pooling units, (rows, regions), of states."""
        return self.grouped(x[:, : self.detectors]), x[:, self.detectors :]

    def joined(self, d: Any, p: Any) -> Any:
        """States of their `parts`."""
        blocks = d.reshape(len(d), self.height, self.width, *self._blocks, self.n)
        return ops.concatenate([_permuted(blocks, (0, 3, 1, 4, 2, 5)).reshape(len(d), self.detectors), p], axis=1)

    def grouped(self, d: Any) -> Any:
        """Detectors (rows, detectors) by region, (rows, members, regions); both in reading order."""
        down, across = self._blocks
        blocks = d.reshape(len(d), down, self.height, across, self.width, self.n)
        return _permuted(blocks, (0, 2, 4, 1, 3, 5)).reshape(len(d), self.members, self.regions)

    @property
    def _blocks(self) -> tuple[int, int]:
        """Regions of a map, down and across."""
        return self.rows // self.height, self.columns // self.width

    def _under(self, field: Any, own: Own) -> tuple[Any, Any]:
        """Fields of the detectors by region, bias included, and of the pooling units."""
        d, p = self.parts(field)
        return d + self.grouped(own["bias"][None]), p


class ProbabilisticMaxUnits(PooledUnits):
    """At most one detector of a region is on: one of n + 1 states, p = sum_i d_i (probabilistic max pooling).

    ``P(d_i = 1) = e^{I_i + f} / (1 + sum_j e^{I_j + f})``; what comes down to a pooling unit is added to each of its
    detectors' fields.

    References
    ----------
    Lee, Grosse, Ranganath and Ng (2009), "Convolutional deep belief networks for scalable unsupervised learning of
    hierarchical representations", section 3.3.

    Examples
    --------
    >>> units, own = ProbabilisticMaxUnits(1, 2, 2, 2, 2), {"bias": np.array([0.0, 1.0, -1.0, 2.0])}
    >>> units.conditional(np.zeros((1, 5)), own).mean.round(6).tolist()
    [[0.080159, 0.217895, 0.029489, 0.592299, 0.919841]]
    """

    @property
    def n_states(self) -> float:
        """(members + 1)^regions, a whole number of any size."""
        return (self.members + 1) ** self.regions

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The digits of the numbers, region by region: 0 for none, i for the i-th detector."""
        levels = self.members + 1
        digits = numbers[:, None] // levels ** np.arange(self.regions - 1, -1, -1, dtype=np.int64) % levels
        on = (digits[:, None] == np.arange(1, levels)[:, None]).astype(np.float64)
        return np.asarray(self.joined(on, on.sum(1)))

    @property
    def center(self) -> NDArray[np.float64]:
        """1 / (members + 1), and members / (members + 1)."""
        share = 1 / (self.members + 1)
        return np.repeat([share, 1 - share], [self.detectors, self.regions])

    def conditional(self, field: Array, own: Own) -> PooledDetectors:
        """Softmax over the detectors of a region and a state of weight 1 in which all are off."""
        return _OneOrNone(self, *self._under(field, own))

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum over the regions of log(1 + sum_i exp(I_i + f))."""
        return _OneOrNone(self, *self._under(field, own)).log_normalizer()

    def _agree(self, d: Any, p: Any) -> Any:
        return (abs(d.sum(1) - p) < SLACK) & (p < 1 + SLACK)


class DeterministicMaxUnits(PooledUnits):
    """Any detectors of a region may be on, p = max_i d_i: 2^n states of a region in closed form.

    ``P(p = 1) = e^f (prod_i (1 + e^{I_i}) - 1) / (1 + e^f (prod_i (1 + e^{I_i}) - 1))`` as long as detectors interact
    through p alone, as they do here: given p = 1 they are independent but for the one state in which all are off.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 20.6.

    Examples
    --------
    >>> units, own = DeterministicMaxUnits(1, 2, 2, 2, 2), {"bias": np.array([0.0, 1.0, -1.0, 2.0])}
    >>> float(units.conditional(np.zeros((1, 5)), own).mean[0, -1].round(6))
    0.988282
    """

    values: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @property
    def n_states(self) -> float:
        """2^detectors, a whole number of any size."""
        return 1 << self.detectors

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The bits of the numbers for the detectors, and the maxima of their regions."""
        shift = np.arange(self.detectors - 1, -1, -1, dtype=np.int64)
        bits = ((numbers[:, None] >> shift) & 1).astype(np.float64)
        return np.concatenate([bits, self.grouped(bits).max(1)], axis=1)

    @property
    def center(self) -> NDArray[np.float64]:
        """1/2, and 1 - 2^-members."""
        return np.repeat([0.5, 1 - 0.5**self.members], [self.detectors, self.regions])

    def conditional(self, field: Array, own: Own) -> PooledDetectors:
        """Pooling units of the odds of "any" against "none", detectors given these."""
        return _AnyOrNone(self, *self._under(field, own))

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """Sum over the regions of log(1 + e^f (prod_i (1 + e^{I_i}) - 1))."""
        return _AnyOrNone(self, *self._under(field, own)).log_normalizer()

    def _agree(self, d: Any, p: Any) -> Any:
        return (p > _library(d).amax(d, 1) - SLACK) & (p < d.sum(1) + SLACK) & (p < 1 + SLACK)


class PooledDetectors:
    """Distribution of detectors and pooling units: regions are independent given their fields.

    Parameters
    ----------
    units : PooledUnits
    field : array or tensor, shape (rows, members, regions)
        Of the detectors.
    top : array or tensor, shape (rows, regions)
        Of the pooling units.
    """

    __slots__ = ("field", "top", "units")

    def __init__(self, units: PooledUnits, field: Any, top: Any) -> None:
        self.units, self.field, self.top = units, field, top

    def log_normalizer(self) -> Any:
        """Log of the sum over the states of each row, in nats."""
        raise NotImplementedError

    def means(self) -> tuple[Any, Any]:
        """P(d_i = 1), (rows, members, regions), and P(p = 1), (rows, regions)."""
        raise NotImplementedError

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every region; carries no gradient."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """[P(d = 1), P(p = 1)]."""
        return self.units.joined(*self.means())

    @property
    def mode(self) -> Any:
        """The most probable state of each region, the first of equals."""
        return self.units.joined(*self.modes())

    def modes(self) -> tuple[Any, Any]:
        """Of the detectors, (rows, members, regions), and of the pooling units, (rows, regions)."""
        raise NotImplementedError

    @property
    def variance(self) -> Any:
        """Of each column, which is 0 or 1."""
        mean = self.mean
        return mean * (1 - mean)

    def log_prob(self, x: Any) -> Any:
        """Log probability of each row in nats; -inf where a pooling unit is not the maximum of its detectors."""
        d, p = self.units.parts(x)
        found = self._product(d, p) - self.log_normalizer()
        lib = _library(found)
        return lib.where(self.units._agree(d, p).all(1), found, -math.inf * lib.ones_like(found))

    def entropy(self) -> Any:
        """Entropy of each row in nats."""
        return self.log_normalizer() - self._product(*self.means())

    def _largest(self) -> Any:
        """1 at the detector of the largest field of each region, the first of equals, (rows, members, regions)."""
        return _permuted(ops.largest(_permuted(self.field, (0, 2, 1))), (0, 2, 1))

    def _product(self, d: Any, p: Any) -> Any:
        return (d * self.field).sum((-1, -2)) + (p * self.top).sum(-1)


class _OneOrNone(PooledDetectors):
    def _weights(self) -> tuple[Any, Any, Any]:
        """Log of the largest weight of a state, weights of one detector on and the sum of all, divided by it."""
        one = self.field + self.top[:, None]
        lib = _library(one)
        peak = lib.amax(one, 1).clip(0)
        each = lib.exp(one - peak[:, None])
        return peak, each, each.sum(1) + lib.exp(-peak)

    def log_normalizer(self) -> Any:
        peak, _, total = self._weights()
        return (peak + _library(total).log(total)).sum(-1)

    def means(self) -> tuple[Any, Any]:
        _, each, total = self._weights()
        d = each / total[:, None]
        return d, d.sum(1)

    def modes(self) -> tuple[Any, Any]:
        best = self._largest()
        p = ops.positive((best * self.field).sum(1) + self.top)
        return best * p[:, None], p

    def sample(self, noise: Any, draw: int = 0) -> Any:
        d, p = (detached(mean) for mean in self.means())
        u = noise.uniform(tuple(p.shape), draw, like=p)
        beyond = 0 * d + (u[:, None] >= d.cumsum(1))
        chosen = 1 - beyond
        chosen[:, 1:] -= 1 - beyond[:, :-1]
        return self.units.joined(chosen, 1 - beyond[:, -1])


class _AnyOrNone(PooledDetectors):
    def _tails(self) -> Any:
        """log prod_{j >= i} (1 + e^{I_j}) of each detector; more than 0, however far the fields fall."""
        each = ops.softplus(self.field)
        lib = _library(each)
        return lib.flip(lib.flip(each, (1,)).cumsum(1), (1,)).clip(lib.finfo(each.dtype).tiny)

    def _odds(self) -> Any:
        """Log odds of any detector against none."""
        whole = self._tails()[:, 0]
        lib = _library(whole)
        return self.top + whole + lib.log(-lib.expm1(-whole))

    def log_normalizer(self) -> Any:
        return ops.softplus(self._odds()).sum(-1)

    def means(self) -> tuple[Any, Any]:
        whole, p = self._tails()[:, :1], ops.sigmoid(self._odds())
        return p[:, None] * (ops.sigmoid(self.field) / -_library(whole).expm1(-whole)), p

    def modes(self) -> tuple[Any, Any]:
        """All detectors of positive fields, at least the one of the largest; none where that weighs less than 1."""
        on = ops.positive(self.field)
        d = on + (1 - on.sum(1).clip(0, 1))[:, None] * self._largest()
        p = ops.positive((d * self.field).sum(1) + self.top)
        return d * p[:, None], p

    def sample(self, noise: Any, draw: int = 0) -> Any:
        p, tails, alone = (detached(x) for x in (ops.sigmoid(self._odds()), self._tails(), ops.sigmoid(self.field)))
        n, members, regions = alone.shape
        u = noise.uniform((n, members + 1, regions), draw, like=alone)
        pooled = 0 * p + (u[:, -1] < p)
        # where the region is on and no detector before this one is, one of the rest must be: the last for certain
        needed = alone / -_library(tails).expm1(-tails)
        d, found = 0 * alone, 0 * p
        for i in range(members):
            drawn = u[:, i] < found * alone[:, i] + (1 - found) * needed[:, i]
            if i + 1 == members:
                drawn = drawn | (found == 0)
            d[:, i] = pooled * drawn
            found = found + (1 - found) * d[:, i]
        return self.units.joined(d, pooled)


def _library(x: Any) -> Any:
    """numpy or torch."""
    if not is_tensor(x):
        return np
    import torch

    return torch


def _permuted(x: Any, axes: tuple[int, ...]) -> Any:
    return x.permute(axes) if is_tensor(x) else x.transpose(axes)
