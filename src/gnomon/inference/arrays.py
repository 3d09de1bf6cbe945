"""NumPy arrays and torch tensors through one set of names, for engines that do not care which they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasState
from gnomon.numeric.given import floats
from gnomon.numeric.tensors import is_tensor

__all__ = ["convert", "double", "of_network", "prototype", "to_numpy", "where"]


def prototype(model: Any) -> Array:
    """An array of the kind, floating type and device that the model computes in: the first one of its state.

    Models that keep no state are taken to compute in float64 NumPy.
    """
    if isinstance(model, HasState):
        for value in model.state().values():
            if value.is_floating_point() if is_tensor(value) else np.issubdtype(value.dtype, np.floating):
                return value
    return np.empty(0)


def of_network(model: Any) -> Array:
    """As `prototype`; of a network, which keeps parameters in place of a state, the first of these."""
    if hasattr(model, "named_parameters"):
        return next((x.detach() for x in model.parameters() if x.is_floating_point()), np.empty(0))
    return prototype(model)


def convert(x: Array, like: Array) -> Array:
    """`x` as an array of the kind, type and device of `like`; `x` itself where it is one already."""
    if not is_tensor(like):
        return np.asarray(to_numpy(x) if is_tensor(x) else x, dtype=like.dtype)
    import torch

    return torch.as_tensor(x, dtype=like.dtype, device=like.device)


def to_numpy(x: Array, name: str = "values") -> NDArray[np.float64]:
    """`x` as a float64 NumPy array, detached; what holds no real numbers is refused by name."""
    if is_tensor(x) and x.is_floating_point():
        return x.detach().double().cpu().numpy()
    if type(x) is np.ndarray and x.dtype == np.float64:
        return x
    return floats(x, name)


def double(x: Array) -> Array:
    """`x` in float64, detached, where it lies."""
    return x.detach().double() if is_tensor(x) and not x.is_complex() else to_numpy(x)


def where(mask: Array, a: Array, b: Array) -> Array:
    """`a` where the mask is set, else `b`; kind and type of `b`."""
    if not is_tensor(b):
        return np.where(np.asarray(mask, dtype=bool), np.asarray(a, dtype=b.dtype), b)
    import torch

    return torch.where(torch.as_tensor(mask, dtype=torch.bool, device=b.device), convert(a, b), b)
