"""What systems around machines of rows of 0 and 1 share: the means of the columns, and chains that begin at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.numeric.sparse import is_sparse, units_of
from gnomon.systems.energy._machine import MachineSystem
from gnomon.training.gradient import Budget

__all__ = ["BinaryRows", "dealt"]


class BinaryRows(MachineSystem):
    """Base of the machines whose visible layer has one unit of 0 and 1 for each column."""

    def arguments(self, examples: Examples) -> dict[str, Any]:
        X, weight = examples.X, examples.weight.astype(np.float64)
        mean = units_of(X, weight)[0] if is_sparse(X) else np.average(X.astype(np.float64), axis=0, weights=weight)
        return super().arguments(examples) | {"mean": mean.tolist()}

    def _start_mean(self) -> Array:
        """Means of the training data, kept away from 0 and 1."""
        return np.clip(np.array(self.arguments_["mean"]), 0.01, 0.99)

    def _start(self, n: int, noise: contracts.Noise) -> Array:
        return noise.bernoulli(self.model_.place(np.broadcast_to(self._start_mean(), (n, self.n_features_in_))))


def dealt(epochs: Sequence[int], max_updates: int | None) -> list[Budget | None]:
    """The budget of each stage of a fit: its passes, or its part of the updates; None leaves it out.

    Updates are dealt evenly among the stages that have passes, and the last of these has what remains.

    Examples
    --------
    >>> dealt([3, 0, 5], None)
    [Budget(epochs=3, updates=None), None, Budget(epochs=5, updates=None)]
    >>> dealt([3, 0, 5], 7)
    [Budget(epochs=None, updates=3), None, Budget(epochs=None, updates=4)]
    """
    if max_updates is None:
        return [Budget(epochs=n) if n else None for n in epochs]
    taking = [number for number, n in enumerate(epochs) if n]
    each = max_updates // len(taking)
    found = [Budget(updates=each) if each and n else None for n in epochs]
    found[taking[-1]] = Budget(updates=max_updates - each * (len(taking) - 1))
    return found
