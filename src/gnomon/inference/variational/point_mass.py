"""A point as a distribution over named parameters: what a most probable value is, seen as a q."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.numeric.given import floats

__all__ = ["PointMarginal", "PointMass"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PointMarginal:
    """A number that is certain.

    Parameters
    ----------
    value : float
    whole : bool
        Whether it is one of values that are listed: its probability is then 1, where a real number has no density.

    Examples
    --------
    >>> PointMarginal(2.0, True).log_prob([2.0, 1.0]).tolist()
    [0.0, -inf]
    """

    value: float
    whole: bool

    @property
    def mean(self) -> float:
        """The value."""
        return self.value

    @property
    def variance(self) -> float:
        """0."""
        return 0.0

    def icdf(self, u: ArrayLike) -> Floats:
        """The value, whatever the share."""
        return np.full(np.shape(u), self.value)

    def log_prob(self, x: ArrayLike) -> Floats:
        """0 (inf of a real number) at the value, -inf elsewhere."""
        return np.where(floats(x, "x") == self.value, 0.0 if self.whole else math.inf, -math.inf)


class PointMass:
    """Named parameters that are certain.

    Parameters
    ----------
    values : mapping of name to array
    whole : bool, default False
        Whether all of them are values that are listed.

    Examples
    --------
    >>> point = PointMass({"h": np.array([1.0, 0.0])}, whole=True)
    >>> point.log_prob({"h": [[1.0, 0.0], [1.0, 1.0]]}).tolist(), list(point.marginals)
    ([0.0, -inf], ['h[0]', 'h[1]'])
    """

    def __init__(self, values: Mapping[str, ArrayLike], whole: bool = False) -> None:
        self.values = {name: np.array(x, np.float64) for name, x in values.items()}
        self.whole = whole

    def sample(self, n: int, noise: Noise) -> dict[str, Floats]:
        """The values n times, arrays (n, shape) by name."""
        return {name: np.repeat(x[None], n, axis=0) for name, x in self.values.items()}

    def log_prob(self, values: Mapping[str, Any]) -> Floats:
        """0 (inf of real numbers) for rows that are the point, -inf for others, (n,)."""
        same: Any = True
        for name, x in self.values.items():
            if name not in values:
                raise UserValueError(f"{name!r} is missing", "values", f"give {', '.join(self.values)}")
            rows = floats(values[name], name)
            if rows.shape[1:] != x.shape and rows.shape != x.shape:
                raise UserValueError(f"{name} must be rows of shape {x.shape}, got shape {rows.shape}", name)
            rows = rows.reshape(-1, *x.shape)
            same = same & (rows == x).reshape(len(rows), -1).all(1)
        return np.where(same, 0.0 if self.whole else math.inf, -math.inf)

    @property
    def mean(self) -> dict[str, Floats]:
        """The point."""
        return {name: x.copy() for name, x in self.values.items()}

    @cached_property
    def marginals(self) -> dict[str, PointMarginal]:
        """Of every number, by names such as ``h[0]``."""
        return {
            name + (f"[{', '.join(map(str, at))}]" if at else ""): PointMarginal(float(x[at]), self.whole)
            for name, x in self.values.items() for at in np.ndindex(*x.shape)
        }  # fmt: skip
