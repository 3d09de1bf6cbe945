"""A torch module that is saved and loaded as arrays by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

__all__ = ["Module"]


class Module(nn.Module):
    """An ``nn.Module`` keeping `gnomon.contracts.HasState`: ``state() -> {name: array}`` and ``load(state)``.

    On the CPU the arrays are NumPy views of the parameters, elsewhere tensors.

    Examples
    --------
    >>> import torch
    >>> class Shift(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.b = torch.nn.Parameter(torch.zeros(2))
    >>> Shift().state()
    {'b': array([0., 0.], dtype=float32)}
    """

    @property
    def n_parameters(self) -> int:
        """Numbers that are learned."""
        return sum(parameter.numel() for parameter in self.parameters())

    def state(self) -> dict[str, Any]:
        """Parameters and buffers by name, detached, sharing memory with the module."""
        return {name: _array(value.detach()) for name, value in self.state_dict().items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Copy arrays of the same names and shapes into the module."""
        tensors = {name: _tensor(value) for name, value in state.items()}
        self.load_state_dict(tensors)


def _array(value: torch.Tensor) -> Any:
    return value.numpy() if value.device.type == "cpu" else value


def _tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
