"""The affine model of a numeric target as a torch module, and its fit by gradient descent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gnomon.nn.module import Module
from gnomon.systems.linear._least_squares import Affine, fixed
from gnomon.training.gradient import Gradient
from gnomon.training.procedure import Info

__all__ = ["Descent", "DescentModel"]


class DescentModel(Module, Affine):
    """`gnomon.systems.linear._least_squares.LinearRegressionModel` with gradients.

    Parameters
    ----------
    n_features, n_outputs : int
    dtype : str, default "float32"
        Of W and b; everything else is float64.
    """

    shift: torch.Tensor
    scale: torch.Tensor
    center: torch.Tensor
    unit: torch.Tensor
    noise: torch.Tensor

    def __init__(self, n_features: int, n_outputs: int, dtype: str = "float32") -> None:
        super().__init__()
        kind = getattr(torch, dtype)
        self.weight = torch.nn.Parameter(torch.zeros(n_features, n_outputs, dtype=kind))
        self.bias = torch.nn.Parameter(torch.zeros(n_outputs, dtype=kind))
        for name, size, value in fixed(n_features, n_outputs):
            self.register_buffer(name, torch.full((size,), value, dtype=torch.float64))

    @property
    def matrices(self) -> list[torch.Tensor]:
        """The weights, which penalties act on."""
        return [self.weight]

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Predictions in units of the scaled target, shape (n, n_outputs)."""
        return torch.addmm(self.bias, ((x - self.shift) / self.scale).to(self.weight.dtype), self.weight)

    def scaled(self, y: torch.Tensor) -> torch.Tensor:
        """The target, (n,) or (n, n_outputs), as `scores` predicts it."""
        return ((y.reshape(len(y), -1) - self.center) / self.unit).to(self.weight.dtype)

    def shrink(self, step: float) -> None:
        """Move every weight by ``step`` (in units of the target) towards 0 and no further: the proximal map of L1."""
        with torch.no_grad():
            threshold = (step / self.unit).to(self.weight.dtype)
            self.weight.copy_(self.weight.sign() * (self.weight.abs() - threshold).clamp_min(0))


class Descent(Gradient):
    """Gradient steps, each followed by the proximal map of L1; the last one measures the noise of the target.

    Parameters
    ----------
    *arguments
        Of `Gradient`.
    l1 : float
        Factor of the sum of the absolute weights.
    """

    def __init__(self, *arguments: Any, l1: float) -> None:
        super().__init__(*arguments)
        self.l1 = l1

    def step(self, state: Any) -> tuple[Any, Info]:
        """One update."""
        model = state.problem.model
        before = model.weight.detach().clone()
        state, info = super().step(state)
        if self.l1:
            model.shrink(state.rate * self.l1)
            info = self._settled(state, info, float((before - model.weight.detach()).norm()) / state.rate)
        if info.done:
            self._measure(state.problem)
        return state, info

    def _settled(self, state: Any, info: Info, norm: float) -> Info:
        """At the end of an epoch, judge by the step that the weights took: L1 balances a gradient that is not 0."""
        if info.record is None:
            return info
        record: Mapping[str, float] = info.record | {"gradient_norm": norm}
        last = state.update >= state.end
        return replace(info, done=last or 0 < norm <= self.tol, record=dict(record))

    @staticmethod
    def _measure(problem: Any) -> None:
        """Mean squared error of the fit over all rows of all processes."""
        squares: Any = np.zeros(len(problem.model.unit))
        moments = np.zeros((2, len(problem.model.unit)))
        for batch in problem.batches.epoch(0):
            weight = batch.weight.astype(np.float64)
            y = batch.data["y"].reshape(len(batch), -1)
            squares = squares + np.matmul(weight, (y - problem.model.predict(batch.data["X"])) ** 2)
            centered = y - problem.model.state()["center"]
            moments += np.stack([np.matmul(weight, centered), np.matmul(weight, centered**2)])
        squares, moments = problem.group.sum((squares, moments))
        total = problem.batches.total_weight
        variance = moments[1] / total - (moments[0] / total) ** 2
        problem.model.measure(squares / total, variance)
