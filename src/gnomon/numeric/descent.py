"""Steps of descent that compiled updates take: plain ones and Adam's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from gnomon.numeric.fast import f64

__all__ = ["StepRule", "descend"]


@dataclass(frozen=True)
class StepRule:
    """How a gradient becomes a step: x <- x - rate g, or Adam's where there are moments.

    Parameters
    ----------
    rate : float
    moments : mapping of str to pair of arrays
        By parameter the running means of the gradient and of its square, moved in place; none of plain descent.
    step : float
        Adam's steps so far.
    beta1, beta2, epsilon : float
        As of `gnomon.training.optimizers.Adam`.
    """

    rate: float
    moments: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)
    step: float = 0.0
    beta1: float = 0.0
    beta2: float = 0.0
    epsilon: float = 0.0

    @property
    def rule(self) -> tuple[float, float, float, float, float]:
        """Its numbers, as `descend` takes them."""
        return float(self.rate), float(self.beta1), float(self.beta2), float(self.epsilon), float(self.step)

    def moments_of(self, name: str, like: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Those of a parameter on one axis; empty ones of plain descent."""
        if name not in self.moments:
            return np.empty(0, like.dtype), np.empty(0, like.dtype)
        first, second = self.moments[name]
        return first.reshape(-1), second.reshape(-1)


@numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract"})
def descend(values, gradient, share, moments, rule, done):  # type: ignore[no-untyped-def]
    """Move values in place by that share of a gradient; the sum of its squares, in vector registers.

    Arrays of one axis; `moments` are those of `StepRule.moments_of`, `rule` is its rule, `done` the steps since.
    """
    cast = values.dtype.type
    by, total, (rate, beta1, beta2, epsilon, before) = cast(share), cast(0), rule
    first, second = moments
    if first.size == 0:
        factor = cast(-rate * share)
        for i in range(values.size):
            values[i] += factor * gradient[i]
            total += gradient[i] * gradient[i]
        return share * share * f64(total)
    step = before + done + 1.0
    length = cast(rate / (1 - beta1**step))
    spread, least = cast(1 / math.sqrt(1 - beta2**step)), cast(epsilon)
    fresh, kept, new = cast(1 - beta1), cast(beta2), cast(1 - beta2)
    for i in range(values.size):
        g = by * gradient[i]
        m = first[i] + fresh * (g - first[i])
        s = kept * second[i] + new * g * g
        first[i], second[i] = m, s
        values[i] -= length * m / (np.sqrt(s) * spread + least)
        total += g * g
    return f64(total)
