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

    The arrays are NumPy views of parameters and buffers; what changes these in place changes the views.

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
        """Parameters and buffers by name, sharing memory with the module."""
        return {name: value.detach().numpy() for name, value in self.state_dict().items()}

    def views(self) -> dict[str, np.ndarray[Any, Any]]:
        """What `state` gives, made once: a hot loop cannot afford the twenty microseconds. Not to be changed."""
        cached: dict[str, np.ndarray[Any, Any]] | None = self.__dict__.get("_views")
        if cached is None:
            cached = self.__dict__["_views"] = self.state()
        return cached

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.pop("_views", None)  # a parameter may have been replaced
        super().__setattr__(name, value)

    def register_buffer(self, name: str, tensor: torch.Tensor | None, persistent: bool = True) -> None:
        """Torch's, and the views are made anew."""
        self.__dict__.pop("_views", None)
        super().register_buffer(name, tensor, persistent)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self.__dict__.pop("_views", None)  # another dtype has other memory
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_views"}

    def load(self, state: Mapping[str, Any]) -> None:
        """Copy arrays of the same names and shapes into the module."""
        tensors = {name: _tensor(value) for name, value in state.items()}
        self.load_state_dict(tensors)


def _tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
