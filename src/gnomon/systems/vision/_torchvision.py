"""Weights under torchvision's names, by ours: networks of the same layers in the same order.

A state dict in a .safetensors file has lost its order, which torchvision's names give back. Convolutions before norms
have biases in some of its networks (VGG); a bias before a norm only shifts the mean that is taken out, so that it goes
into the running mean, and the answers are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import torch

from gnomon.errors import UserValueError

__all__ = ["MEAN", "SPREAD", "by_our_names"]

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pixels in [0, 1] that torchvision's weights were trained on, by channel; all 0.5 for googlenet."""
WITHIN = ("weight", "bias", "running_mean", "running_var")
"""Tensors of a layer, in torchvision's order and in ours."""
ORDERS = {
    "resnet": r"(conv1|bn1|layer\d+)(?:\.(\d+))?(?:\.(conv1|bn1|conv2|bn2|conv3|bn3|downsample))?(?:\.(\d+))?",
    "densenet": r"features\.(conv0|norm0|(?:denseblock|transition)\d+|norm5)"
    r"(?:\.denselayer(\d+))?(?:\.(norm1|conv1|norm2|conv2|norm|conv))?",
    "googlenet": r"(conv\d|inception\d[a-z])(?:\.(branch\d))?(?:\.(\d))?\.(conv|bn)",
    "stack": r"(features)\.(\d+)",
}
"""How the names of layers before the head are made."""
PLACES = {
    "conv1": 0, "bn1": 1, "conv2": 2, "bn2": 3, "conv3": 4, "bn3": 5, "downsample": 6,
    "conv0": 0, "norm0": 1, "norm5": 1000, "norm1": -1, "norm2": 1, "norm": 0, "conv": 1, "bn": 2,
}  # fmt: skip
"""Of the parts of names, where their numbers do not say it."""
OWN = {"resnet": ("resnet",), "densenet": ("densenet",), "googlenet": ("googlenet",), "stack": ("vgg", "alexnet")}
"""Systems that have the layers of a family."""


def by_our_names(
    model: Any, arrays: Mapping[str, Any], system: str, source: str
) -> tuple[dict[str, Any], dict[str, str]] | None:
    """The arrays by the names of a network, and what torchvision calls them; None of other names than torchvision's.

    Parameters
    ----------
    model : ConvNetModel
    arrays : mapping of str to tensor
    system : str
        Name of the system.
    source : str
        For messages.

    Raises
    ------
    UserValueError
        Weights of a network that this system has not.
    """
    family = _family(arrays)
    if family is None:
        return None
    if system not in OWN.get(family, ()):
        what = f"{source} has the layers of torchvision's {'vgg or alexnet' if family == 'stack' else family}"
        raise UserValueError(f"{what}, got {system}", "initial", f"fit {' or '.join(OWN[family])}")
    if family == "googlenet" and model.variant != "torchvision":
        what = f"{source} has the layers of torchvision's googlenet, which has windows 3 x 3 in place of 5 x 5"
        raise UserValueError(what, "initial", "fit googlenet with variant torchvision, stem large and width 1")
    theirs = _layers({_plain(name): value for name, value in arrays.items() if not name.startswith("aux")}, family)
    ours: dict[str, list[str]] = {}
    for name in model.state_dict():
        if name not in ("shift", "scale") and not name.startswith("preparation."):
            ours.setdefault(name.rpartition(".")[0], []).append(name)
    found, called = _paired(theirs, list(ours.values()))
    if model.shape[2] == len(MEAN):
        mean, spread = ((0.5,) * 3, (0.5,) * 3) if family == "googlenet" else (MEAN, SPREAD)
        found |= {"shift": torch.tensor(mean), "scale": torch.tensor(spread)}
    return found, called


def _family(arrays: Mapping[str, Any]) -> str | None:
    """Which of torchvision's networks the names are of; None where they are of none."""
    if any(name.startswith("inception3a.") for name in arrays):
        return "googlenet"
    if "conv1.weight" in arrays and any(name.startswith("layer1.0.") for name in arrays):
        return "resnet"
    if "features.conv0.weight" in arrays:
        return "densenet"
    heads = any(re.fullmatch(r"classifier\.(\d+\.)?weight", name) for name in arrays)
    return "stack" if heads and any(re.fullmatch(r"features\.\d+\.weight", name) for name in arrays) else None


def _plain(name: str) -> str:
    """Old files of densenet write ``norm.1`` for ``norm1``."""
    return re.sub(r"\.(norm|conv)\.(\d)\.", r".\1\2.", name)


def _layers(arrays: Mapping[str, Any], family: str) -> list[tuple[str, dict[str, Any]]]:
    """Tensors by layer, the layers in the order of the network."""
    layers: dict[str, dict[str, Any]] = {}
    for name, value in arrays.items():
        layer, _, tensor = name.rpartition(".")
        if tensor in WITHIN:
            layers.setdefault(layer, {})[tensor] = value
    return sorted(layers.items(), key=lambda one: _place(one[0], family))


def _place(layer: str, family: str) -> tuple[int, ...]:
    """What the layers are sorted by; the head comes last."""
    found = re.fullmatch(ORDERS[family], layer)
    if found is None:
        return (1, *(int(number) for number in re.findall(r"\d+", layer)))
    return (0, *(_number(part) for part in found.groups()))


def _number(part: str | None) -> int:
    if part is None:
        return 0
    if part in PLACES:
        return PLACES[part]
    block = re.fullmatch(r"inception(\d)([a-z])", part)
    if block is not None:
        return 100 * int(block[1]) + ord(block[2])
    digits = re.search(r"\d+", part)
    number = int(digits[0]) if digits else 0
    if part.startswith(("layer", "denseblock", "transition")):
        return 2 * number + part.startswith("transition")
    return number


def _paired(theirs: list[tuple[str, dict[str, Any]]], ours: list[list[str]]) -> tuple[dict[str, Any], dict[str, str]]:
    """Tensors of one layer after the other under our names; what has no partner keeps its own name."""
    found: dict[str, Any] = {}
    called: dict[str, str] = {}
    carried: Any = None
    for one, names in zip_longest(theirs, ours):
        (layer, tensors), names = one or ("", {}), names or []
        parts = {part: value for part in WITHIN if (value := tensors.get(part)) is not None}
        if carried is not None and "running_mean" in parts:
            parts["running_mean"] = parts["running_mean"] - carried
        carried = None
        if "bias" in parts and len(names) == 1 and "running_mean" not in parts:
            carried = parts.pop("bias")  # of a convolution before a norm
        for part, name in zip_longest(parts, names):
            if part is None:
                continue
            own = name or f"{layer}.{part}"
            found[own], called[own] = parts[part], f"{layer}.{part}"
    return found, called
