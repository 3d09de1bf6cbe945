"""What systems around machines of rows of 0 and 1 share: the means of the columns, and chains that begin at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.numeric.sparse import is_sparse, units_of
from gnomon.systems.energy._machine import DensityMachine

__all__ = ["BinaryMachine"]


class BinaryMachine(DensityMachine):
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
