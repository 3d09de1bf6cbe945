"""Objectives whose gradients are sums in closed form, in NumPy or in tensors."""

from __future__ import annotations

from typing import Any

import torch

from gnomon.contracts import Array, Group, Noise
from gnomon.numeric.sparse import in_full, is_sparse
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.base import Loss, Objective

__all__ = ["InClosedForm"]


class InClosedForm(Objective):
    """An objective whose gradients are sums that it computes itself."""

    takes_sparse: bool = False
    """Whether sparse rows are compared as they are, where the model computes in NumPy."""
    compares_means: bool = False
    """Whether the gradient by a bias is the mean under the model less that of the data."""

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """`compare`, in the kind of array that the model computes in; tensors without recording gradients."""
        weight, rows = model.place(batch.weight), batch.data["X"]
        if self.takes_sparse and is_sparse(rows) and not is_tensor(weight):
            return self.compare(model, rows.astype(weight.dtype), weight, batch.positions, noise, group)
        X = model.place(in_full(rows))
        if not is_tensor(X):
            return self.compare(model, X, weight, batch.positions, noise, group)
        with torch.no_grad():
            return self.compare(model, X, weight, batch.positions, noise, group)

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """The loss of rows at these positions."""
        raise NotImplementedError
