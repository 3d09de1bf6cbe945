"""Weights of one network as the first of another: copied, frozen, learned at rates of their own.

All of it is kept on the model and taken off again after the fit: parameters that are not learned, norms that keep their
statistics, factors of the learning rate by parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from gnomon.errors import UserValueError, nearest
from gnomon.nn.context import ContextLayer
from gnomon.nn.module import Module

__all__ = ["copy_weights", "freeze", "matched", "output_names", "parameter_groups", "release"]

COUNTERS = "num_batches_tracked"
"""What torch's norms count, and ours do not."""
UNITS = frozenset({"shift", "scale"})
"""Numbers that standardize the inputs of a network."""


def matched(names: Sequence[str], patterns: Iterable[str], option: str) -> list[str]:
    """The names that patterns, or names of layers above them, stand for.

    Raises
    ------
    UserValueError
        A pattern that stands for nothing, with layers that are there.

    Examples
    --------
    >>> names = ["features.1.weight", "features.1.bias", "features.10.weight", "head.weight"]
    >>> matched(names, ["features.1"], "freeze")
    ['features.1.weight', 'features.1.bias']
    >>> matched(names, ["*.bias", "head*"], "freeze")
    ['features.1.bias', 'head.weight']
    """
    found: set[str] = set()
    for pattern in patterns:
        here = {name for name in names if fnmatchcase(name, pattern) or name.startswith(f"{pattern}.")}
        if not here:
            layers = list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))
            close = nearest(pattern.rstrip("*."), layers) or layers[:3]
            what = f"{option}: {pattern!r} is the name of no parameter"
            raise UserValueError(what, option, f"there are {', '.join(close)} and so on")
        found |= here
    return [name for name in names if name in found]


def output_names(model: Module) -> list[str]:
    """Names of what belongs to the output layer, the last stage."""
    return [name for name in model.state_dict() if name.startswith(tuple(model.learning_stages()[-1]))]


def copy_weights(
    model: Module, arrays: Mapping[str, Any], fresh: Iterable[str], source: str, called: Mapping[str, str] | None = None
) -> list[str]:
    """Copy arrays into a model by name, all but the fresh ones, and say which; either all of them or none.

    Parameters
    ----------
    model : Module
    arrays : mapping of str to array
    fresh : iterable of str
        Names in the model that keep their first values, whatever the arrays hold.
    source : str
        What messages call the arrays.
    called : mapping of str to str, optional
        What the source calls some of the names.

    Raises
    ------
    UserValueError
        The first layer that is missing on one side, or of another shape, with both shapes.

    Examples
    --------
    >>> class Line(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.one = nn.Linear(2, 1)
    >>> copy_weights(Line(), {"one.weight": torch.ones(1, 2), "one.bias": torch.zeros(1)}, ["one.bias"], "the file")
    ['one.weight']
    """
    own, left = model.state_dict(), set(fresh)
    names = called or {}
    copied: dict[str, Any] = {}
    for name, value in own.items():
        if name in left or (name in UNITS and name not in arrays):
            continue
        there = f"{name} ({names[name]})" if names.get(name, name) != name else name
        if name not in arrays:
            what = f"{source} has no {name}, which this network has with shape {tuple(value.shape)}"
            raise UserValueError(what, "initial", "give the settings of the source, or fresh for layers of its own")
        if arrays[name].shape != value.shape:
            shape, other = tuple(value.shape), tuple(arrays[name].shape)
            what = f"{there} has shape {shape} in this network, and {other} in {source}"
            raise UserValueError(what, "initial", "give the settings of the source, or fresh for layers of its own")
        copied[name] = torch.as_tensor(arrays[name]).to(value.dtype)
    for name, value in arrays.items():
        if name not in own and not name.endswith(COUNTERS):
            what = f"{source} has {names.get(name, name)} with shape {tuple(value.shape)}, which this network has not"
            raise UserValueError(what, "initial", "give the settings of the source")
    if not copied:
        what = f"fresh must leave something to copy of {source}, got patterns of all of it"
        raise UserValueError(what, "fresh", "leave it or initial out")
    model.load_state_dict(copied, strict=False)
    return list(copied)


def freeze(model: nn.Module, patterns: Iterable[str]) -> list[str]:
    """Let parameters stay as they are, and the running statistics of norms all of whose parameters stay; their names.

    Parameters
    ----------
    model : nn.Module
    patterns : iterable of str
        As `matched` reads them.

    Raises
    ------
    UserValueError
        A pattern that is no name, or nothing left to learn.
    """
    parameters = dict(model.named_parameters())
    names = matched(list(parameters), patterns, "freeze")
    if all(name in names or not one.requires_grad for name, one in parameters.items()):
        what = "freeze must leave something to learn, got all parameters"
        raise UserValueError(what, "freeze", "freeze fewer layers")
    for name in names:
        parameters[name].requires_grad_(False)
    for layer in model.modules():
        own = list(layer.parameters())
        if isinstance(layer, ContextLayer) and own and not any(one.requires_grad for one in own):
            layer.frozen = True
    return names


def parameter_groups(
    model: Module, learning_rate: float, *, lr_backbone: float | None = None, lr_head: float | None = None,
    lr_decay: float = 1.0, fresh: Iterable[str] = (),
) -> dict[str, float]:  # fmt: skip
    """Factors of the learning rate by parameter, those of 1 left out.

    Parameters
    ----------
    model : Module
        Its `Module.learning_stages` say how deep a parameter is; the last one is the output layer.
    learning_rate : float
        What the factors are multiplied by.
    lr_backbone, lr_head : float, optional
        Step sizes before and in the output layer.
    lr_decay : float in (0, 1], default 1
        Factor for each stage from the output layer back.
    fresh : iterable of str
        Names that count as of the output layer, wherever they are.
    """
    stages, begun = model.learning_stages(), set(fresh)
    head = tuple(stages[-1])
    factors: dict[str, float] = {}
    for name, _ in model.named_parameters():
        steps = next((back for back, one in enumerate(reversed(stages)) if name.startswith(tuple(one))), 0)
        rate = lr_head if name in begun or name.startswith(head) else lr_backbone
        factors[name] = (1.0 if rate is None else rate / learning_rate) * lr_decay**steps
    return {name: factor for name, factor in factors.items() if factor != 1.0}


def release(model: Module, frozen: Iterable[str]) -> None:
    """Take off what holds for one fit: what was frozen can be learned again, at one rate."""
    parameters = dict(model.named_parameters())
    for name in frozen:
        parameters[name].requires_grad_(True)
    for layer in model.modules():
        if isinstance(layer, ContextLayer):
            layer.frozen = False
    model.rates = {}
