"""Fits that a triangular factor of the rows determines: in one pass over blocks, or chunk by chunk."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gnomon.contracts import Group, Noise
from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.distributions.arrays import is_empty, row_weights
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise as Stream
from gnomon.system.prediction import Regressor
from gnomon.systems.linear._least_squares import LeastSquares, merge
from gnomon.training.driver import FitResult
from gnomon.training.procedure import Problem

__all__ = ["InChunks"]

ROWS = 16384
"""Rows that are factored together."""


class InChunks(Regressor):
    """Base of the regressions whose model has ``moments``, ``solve``, and after it ``whole``, ``origin`` and ``seen``.

    `procedure` gives a `LeastSquares`, whose arguments ``solve`` takes; ``origin`` holds the arrays that ``moments``
    were taken about, by their names in the model's state.
    """

    def problem(self, model: Any, examples: Any, noise: Noise, group: Group, validation: Any = None) -> Problem:
        if not isinstance(self.procedure(examples), LeastSquares):
            return super().problem(model, examples, noise, group, validation)
        batches = Batches(examples, Rows(ROWS, shuffle=False))
        return Problem(model, batches.shard(group), noise, group)

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Take in more rows: whatever the chunks, the result is one fit to all rows so far.

        Goes on from a fit too. Cost O(n d^2 + d^3) per chunk; the factor of the rows, d^2 numbers, stays in memory and
        is not saved. An empty chunk changes nothing.

        Raises
        ------
        UserValueError
            A model without the factor: loaded.
        """
        self.check_parameters()
        first = not hasattr(self, "model_")
        if not first and not hasattr(self.model_, "whole"):
            raise UserValueError("the factor of the earlier rows was not kept", "partial_fit", "fit to all rows again")
        if not first and is_empty(X):
            return self
        with self._all_or_nothing():
            return self._take_in(self._chunk(X, y, sample_weight, first), first)

    def _chunk(self, X: Any, y: Any, sample_weight: Any, first: bool) -> Examples:
        rows = self._rows(X, reset=first)
        target = self.target.check(y, n=len(rows), dtype=rows.dtype, several=self.several)
        examples = Examples({"X": rows, "y": target}, row_weights(sample_weight, len(rows), rows.dtype))
        arguments = self.arguments(examples)
        if first:
            self.arguments_, self.seed_ = arguments, 0
        elif arguments.get("n_outputs") != self.arguments_.get("n_outputs"):
            raise UserValueError(f"a target of shape {target.shape}", "y", "give the columns of the first chunk")
        return examples

    def _take_in(self, examples: Examples, first: bool) -> Self:
        procedure = self.procedure(examples)
        assert isinstance(procedure, LeastSquares)
        model = self._allocate(**self.arguments_)
        if first:
            self.initialize(model, examples, Stream(0, "initial"))
        else:
            for name, value in self.model_.origin.items():
                model.state()[name][:] = value
        whole = model.moments(examples.X, np.asarray(examples.y), examples.weight)
        seen = len(examples.X)
        if not first:
            whole, seen = merge(self.model_.whole, whole), seen + self.model_.seen
        record = model.solve(whole, *procedure.arguments, seen)
        self.n_samples_seen_ = model.seen
        steps = 1 if first else self.n_steps_ + 1
        self._set_fitted(model, FitResult(steps, [{"step": steps, **record}]))
        return self
