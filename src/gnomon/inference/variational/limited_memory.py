"""L-BFGS one step at a time, with a memory that can be saved: what library loops do not offer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array

__all__ = ["LimitedMemory"]

Floats = NDArray[np.float64]
Objective = Callable[[Floats], tuple[float, Floats]]


class LimitedMemory:
    """Ascent by L-BFGS (Nocedal and Wright 2006, section 7.2) with a line search by Armijo's rule, a step at a time."""

    def __init__(self, size: int = 20) -> None:
        self.size = size
        self.steps: list[Floats] = []
        self.changes: list[Floats] = []
        self.value: float | None = None
        self.slope: Floats = np.empty(0)

    def ascend(self, x: Floats, objective: Objective) -> tuple[float, float, Floats]:
        """Value before and after, and where: the value never falls."""
        if self.value is None:
            self.value, self.slope = objective(x)
        before, slope = self.value, self.slope
        for direction in (self._direction(slope), slope / max(1.0, float(np.abs(slope).max()))):
            rise, length = float(direction @ slope), 1.0
            while rise > 0 and length > 1e-12:
                value, new = objective(x + length * direction)
                if value >= before + 1e-4 * length * rise:
                    self._remember(length * direction, slope - new)
                    self.value, self.slope = value, new
                    return before, value, x + length * direction
                length *= 0.1 if value == -math.inf else 0.4
            self.steps, self.changes = [], []  # what is remembered misleads: begin again along the slope
        return before, before, x

    def _remember(self, step: Floats, change: Floats) -> None:
        if float(step @ change) > 1e-12 * float(change @ change):
            self.steps, self.changes = [*self.steps, step][-self.size :], [*self.changes, change][-self.size :]

    def _direction(self, slope: Floats) -> Floats:
        """The slope times the inverse curvature that the remembered steps tell."""
        d, shares = slope.copy(), []
        pairs = list(zip(self.steps, self.changes, strict=True))
        for s, y in reversed(pairs):
            shares.append(float(s @ d) / float(s @ y))
            d = d - shares[-1] * y
        if pairs:
            s, y = pairs[-1]
            d = d * (float(s @ y) / float(y @ y))
        else:
            d = d / max(1.0, float(np.abs(d).max()))
        for (s, y), share in zip(pairs, reversed(shares), strict=True):
            d = d + s * (share - float(y @ d) / float(s @ y))
        return d

    def state(self) -> dict[str, Array]:
        """The memory, and value and slope where the ascent stands."""
        if self.value is None:
            return {}
        kept = {"memory/value": np.array(self.value), "memory/slope": self.slope}
        if not self.steps:
            return kept
        return kept | {"memory/steps": np.stack(self.steps), "memory/changes": np.stack(self.changes)}

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Go on from there."""
        value = arrays.get("memory/value")
        self.value = None if value is None else float(value)
        self.slope = np.array(arrays.get("memory/slope", np.empty(0)))
        self.steps, self.changes = (list(np.array(arrays.get(f"memory/{name}", []))) for name in ("steps", "changes"))
