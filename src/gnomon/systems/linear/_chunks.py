"""Fits that a triangular factor of the rows determines: in one pass over blocks, or chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.contracts import Group, Noise
from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.system.from_sums import FromSums
from gnomon.system.prediction import Regressor
from gnomon.systems.linear._conjugate import NormalEquations
from gnomon.systems.linear._least_squares import LeastSquares, merge
from gnomon.training.procedure import Problem

__all__ = ["InChunks"]

ROWS = 16384
"""Rows that are factored together."""


class InChunks(FromSums, Regressor):
    """Base of the regressions whose model has ``moments``, ``solve``, and after it ``sums`` and ``origin``.

    `procedure` gives a `LeastSquares`, whose arguments ``solve`` takes; ``origin`` holds the arrays that ``moments``
    were taken about, by their names in the model's state.
    """

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, y, sample_weight)
        self.n_samples_seen_ = len(examples)
        return examples

    def problem(self, model: Any, examples: Any, noise: Noise, group: Group, validation: Any = None) -> Problem:
        if not isinstance(self.procedure(examples), LeastSquares | NormalEquations):
            return super().problem(model, examples, noise, group, validation)
        batches = Batches(examples, Rows(ROWS, shuffle=False))
        return Problem(model, batches.shard(group), noise, group)

    def chunk(self, rows: Any, y: Any, sample_weight: Any) -> Examples:
        return self.examples_of_chunk(rows, y, sample_weight)

    def sums_of(self, model: Any, examples: Examples, earlier: Any) -> Any:
        if earlier is not None:
            for name, value in earlier.origin.items():
                model.state()[name][:] = value
        return model.moments(examples.X, np.asarray(examples.y), examples.weight)

    def pooled(self, one: Any, other: Any) -> Any:
        return merge(one, other)

    def solve(self, model: Any, sums: Any, examples: Examples, n: int) -> dict[str, float]:
        procedure: Any = self.procedure(examples)
        record: dict[str, float] = model.solve(sums, *procedure.arguments, n)
        return record
