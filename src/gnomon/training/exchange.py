"""The only place that touches gradients: from a Loss to ``p.grad``, reduced over the processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numba
import numpy as np
import torch

from gnomon.contracts import Array, Group
from gnomon.objectives.base import Loss

__all__ = ["Exchange"]


class Exchange:
    """One bucket: the weights W_k and all gradients of a phase are summed over the processes at `finish`.

    Parameters
    ----------
    group : Group
    """

    def __init__(self, group: Group) -> None:
        self.group = group

    def prepare(self, model: torch.nn.Module, objective: torch.nn.Module) -> None:
        """Take note of the parameters, by the names that closed-form gradients use."""
        self.named = dict(model.named_parameters())
        self.parameters = [*self.named.values(), *objective.parameters()]

    def backward(self, loss: Loss) -> None:
        """Gradients of the total into the parameters, as this process's share; replaces what was there."""
        weights = {name: term.weight for name, term in loss.terms.items()}
        if self.group.size > 1:
            weights = self.group.sum(weights)
        for parameter in self.parameters:
            parameter.grad = None
        if loss.gradients is None:
            shares: list[Any] = [term.scale / weights[name] * cast(Any, term.sum) for name, term in loss.terms.items()]
            sum(shares[1:], start=shares[0]).backward()
            self.divisor = 1.0
            return
        for name, gradient in loss.gradients.items():
            tensor = gradient if isinstance(gradient, torch.Tensor) else torch.from_numpy(gradient)
            self.named[name].grad = tensor
        self.divisor = weights[loss.per or next(iter(weights))]

    def finish(self) -> float:
        """Sum the gradients over the processes, divide closed forms by their weight; the norm of the result."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self.group.size > 1:
            for gradient in gradients:
                gradient.copy_(self.group.sum(gradient))
        scale = 1.0 / self.divisor
        return math.sqrt(sum(_scale_and_square(gradient, scale) for gradient in gradients))

    def state(self) -> Mapping[str, Array]:
        """Nothing is kept between updates."""
        return {}


def _scale_and_square(gradient: torch.Tensor, scale: float) -> float:
    if gradient.device.type == "cpu" and gradient.is_contiguous():
        return float(_scale_kernel(gradient.numpy().reshape(-1), scale))
    gradient.mul_(scale)
    return float(gradient.square().sum())


@numba.njit(cache=True, error_model="numpy")
def _scale_kernel(values: np.ndarray, scale: float) -> float:
    """Scale in place and return the sum of squares, in one pass; eight running sums let it use vector registers."""
    factor = values.dtype.type(scale)
    n = len(values)
    lanes = np.zeros(16, values.dtype)
    body = n - n % 16
    for i in range(0, body, 16):
        for j in range(16):
            scaled = values[i + j] * factor
            values[i + j] = scaled
            lanes[j] += scaled * scaled
    total = 0.0
    for i in range(body, n):
        values[i] *= factor
        total += values[i] * values[i]
    for j in range(16):
        total += lanes[j]
    return total
