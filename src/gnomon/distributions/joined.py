"""Units of several kinds side by side in one layer: numbers beside a class, bits beside categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution
from gnomon.distributions.units import Own, Units, mean_of
from gnomon.errors import UserTypeError
from gnomon.numeric.ops import concatenate

__all__ = ["Joined", "JoinedUnits"]


class Joined:
    """Independent distributions of neighboring columns, row by row.

    Parameters
    ----------
    parts : list of Distribution
    cuts : list of slice
        The columns of each part.

    Examples
    --------
    >>> from gnomon.distributions.layers import OneHot, Spins
    >>> both = Joined([Spins(np.zeros((1, 2))), OneHot(np.zeros((1, 2)), 2)], [slice(0, 2), slice(2, 4)])
    >>> both.mean, both.log_prob(np.array([[1.0, -1.0, 0.0, 1.0]])).round(4)
    (array([[0. , 0. , 0.5, 0.5]]), array([-2.0794]))
    """

    __slots__ = ("cuts", "parts")

    def __init__(self, parts: list[Any], cuts: list[slice]) -> None:
        self.parts, self.cuts = parts, cuts

    @classmethod
    def of(cls, parts: list[Any]) -> Joined:
        """Each of so many columns as its mean has."""
        ends = np.cumsum([0, *(part.mean.shape[1] for part in parts)]).tolist()
        return cls(parts, [slice(a, b) for a, b in pairwise(ends)])

    @property
    def mean(self) -> Any:
        """Means side by side."""
        return concatenate([part.mean for part in self.parts], axis=1)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every part, each from a stream of its own."""
        drawn = [part.sample(noise.child(f"part/{i}"), draw) for i, part in enumerate(self.parts)]
        return concatenate(drawn, axis=1)

    def log_prob(self, x: Any) -> Any:
        """Log probability (or density) of each row in nats."""
        return sum(part.log_prob(x[:, cut]) for part, cut in zip(self.parts, self.cuts, strict=True))

    def log_terms(self, x: Any) -> Any:
        """The same column by column, shape of x."""
        parts = zip(self.parts, self.cuts, strict=True)
        return concatenate([part.log_terms(x[:, cut]) for part, cut in parts], axis=1)

    def entropy(self) -> Any:
        """Entropy of each row in nats."""
        return sum(part.entropy() for part in self.parts)


@dataclass(frozen=True, init=False)
class JoinedUnits(Units):
    """Units of several kinds side by side as one layer, whose only own parameter is a bias for each column.

    Parameters
    ----------
    *parts : Units
        Kinds with the parameter ``bias`` alone, in the order of their columns.

    Raises
    ------
    UserTypeError
        A kind with other parameters.

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits, CategoricalUnits
    >>> layer = JoinedUnits(BernoulliUnits(1), CategoricalUnits(1, 3))
    >>> layer.size, layer.n_states, layer.states(np.array([4])).tolist()
    (4, 6, [[1.0, 0.0, 1.0, 0.0]])
    """

    parts: tuple[Units, ...] = ()

    def __init__(self, *parts: Units) -> None:
        for part in parts:
            if not isinstance(part, Units) or part.parameters != ("bias",):
                what = f"parts must be units with a bias alone, got {part!r}"
                raise UserTypeError(what, "JoinedUnits", "use BernoulliUnits, CategoricalUnits, CenteredGaussianUnits")
        object.__setattr__(self, "n", sum(part.n for part in parts))
        object.__setattr__(self, "parts", parts)

    @property
    def size(self) -> int:
        """Columns of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def n_states(self) -> float:
        """The product of those of the parts."""
        return math.prod(part.n_states for part in self.parts)

    @property
    def cuts(self) -> list[slice]:
        """The columns of each part."""
        ends = np.cumsum([0, *(part.size for part in self.parts)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @property
    def unit_of_column(self) -> NDArray[np.int64]:
        """Those of the parts, counted on."""
        starts = np.cumsum([0, *(part.n for part in self.parts)])
        return np.concatenate([k + part.unit_of_column for k, part in zip(starts[:-1], self.parts, strict=True)])

    def _each(self, own: Own) -> list[tuple[Units, slice, dict[str, Array]]]:
        """Each part with its columns and its own parameters."""
        return [(part, cut, {"bias": own["bias"][cut]}) for part, cut in zip(self.parts, self.cuts, strict=True)]

    def states(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """The states with these numbers, the first part the most significant."""
        found: list[NDArray[np.float64]] = []
        rest = numbers
        for part in reversed(self.parts):
            rest, number = np.divmod(rest, int(part.n_states))
            found.insert(0, part.states(number))
        return np.concatenate(found, axis=1)

    @property
    def center(self) -> NDArray[np.float64]:
        """Those of the parts."""
        return np.concatenate([part.center for part in self.parts])

    def conditional(self, field: Array, own: Own) -> Joined:
        """Each part under its columns of the field."""
        return Joined([part.conditional(field[:, cut], mine) for part, cut, mine in self._each(own)], self.cuts)

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """The sum over the parts."""
        return sum(part.log_normalizer(field[:, cut], mine) for part, cut, mine in self._each(own))

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """The sum over the parts."""
        return sum(
            part.log_weight(one, mine) for (part, _, mine), one in zip(self._each(own), self._of(x), strict=True)
        )

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """Those of the parts side by side."""
        found = [
            part.statistics(one, mean_of(one), mine)["bias"]
            for (part, _, mine), one in zip(self._each(own), self._of(x), strict=True)
        ]
        return {"bias": concatenate(found, axis=1)}

    def _of(self, x: Any) -> list[Any]:
        """x part by part."""
        return x.parts if isinstance(x, Joined) else [x[:, cut] for cut in self.cuts]

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """Those of the parts side by side."""
        found = [
            part.base(None if mean is None else np.asarray(mean)[cut], mine)["bias"]
            for part, cut, mine in self._each(own)
        ]
        return {"bias": np.concatenate(found)}
