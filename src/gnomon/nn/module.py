"""A torch module that is saved and loaded as arrays by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from gnomon.nn.context import bind

__all__ = ["Module"]


CACHED = ("_views", "_device")


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

    chunk: ClassVar[int] = 1 << 22
    """Numbers of the input that are looked at together when a network answers: 16 MB in float32."""
    rates: Mapping[str, float] = MappingProxyType({})
    """Factors of the learning rate by parameter, for one fit; 1 where left out."""
    backbone: ClassVar[tuple[str, ...]] = ()
    """How the names of what stands under the heads begin, from the input on: other heads may begin on it."""

    def learning_stages(self) -> list[tuple[str, ...]]:
        """How the names of what it holds begin, from the input to the output: the last stage is the output layer.

        Here a stage is a layer, or the part of a sequence.

        Examples
        --------
        >>> net = Module()
        >>> net.features, net.head = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3)), nn.Linear(3, 2)
        >>> net.learning_stages()
        [('features.0.',), ('features.2.',), ('head.',)]
        """
        parts = (name.split(".") for name, _ in self.named_parameters())
        firsts = (one[: 2 if len(one) > 2 and one[1].isdigit() else 1] for one in parts)
        return [(f"{name}.",) for name in dict.fromkeys(".".join(one) for one in firsts)]

    def bind(self, prefix: str = "") -> int:
        """Tell the layers that ask for it their path, `gnomon.nn.context.bind`; how many there are."""
        return bind(self, prefix)

    @property
    def device(self) -> torch.device:
        """Where the module computes; found once."""
        cached: torch.device | None = self.__dict__.get("_device")
        if cached is None:
            device = next((value.device for values in (self.parameters(), self.buffers()) for value in values), None)
            cached = self.__dict__["_device"] = device or torch.device("cpu")
        return cached

    def ask(self, method: str | Callable[..., Any], rows: Any, *others: Any, chunk: int | None = None) -> Any:
        """What a method answers to rows, as a NumPy array: in chunks, without gradients, where the module computes.

        Parameters
        ----------
        method : str, or callable
            A method's name, or a function: takes a tensor (n, ...) and gives a tensor (n, ...), or a list of some.
        rows : array of shape (n, ...)
        *others : arrays of shape (n, ...)
            What the method takes beside them, such as the rows' classes.
        chunk : int, optional
            Numbers of the rows that are looked at together; the class's own where left out.

        Returns
        -------
        array of shape (n, ...), or a list of arrays

        Examples
        --------
        >>> class Twice(Module):
        ...     def twice(self, x):
        ...         return 2 * x
        >>> Twice().ask("twice", np.arange(6.0).reshape(3, 2), chunk=2).tolist()
        [[0.0, 2.0], [4.0, 6.0], [8.0, 10.0]]
        """
        function, device = getattr(self, method) if isinstance(method, str) else method, self.device
        step = max(1, (chunk or self.chunk) // max(1, math.prod(rows.shape[1:])))
        parts = []
        with torch.no_grad():
            for start in range(0, max(1, len(rows)), step):
                # copies: rows may be read-only
                given = (torch.tensor(one[start : start + step], device=device) for one in (rows, *others))
                parts.append(_arrays(function(*given)))
        if isinstance(parts[0], list):
            return [np.concatenate(column) for column in zip(*parts, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    @property
    def n_parameters(self) -> int:
        """Numbers that are learned."""
        return sum(parameter.numel() for parameter in self.parameters())

    def state(self) -> dict[str, Any]:
        """Parameters and buffers by name, sharing memory with the module."""
        return {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}

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
        for name in CACHED:
            self.__dict__.pop(name, None)  # another dtype has other memory
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in CACHED}

    def load(self, state: Mapping[str, Any]) -> None:
        """Copy arrays of the same names and shapes into the module."""
        tensors = {name: _tensor(value) for name, value in state.items()}
        self.load_state_dict(tensors)


def _arrays(answer: Any) -> Any:
    return [one.cpu().numpy() for one in answer] if isinstance(answer, list | tuple) else answer.cpu().numpy()


def _tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
