"""Weights by a recipe that needs order and shape alone, so that networks of two libraries can be given the same."""

import math
from collections.abc import Iterable

import numpy as np
import torch

NETWORKS = ("vgg11", "resnet18", "resnet50", "resnext50_32x4d", "densenet121", "googlenet")
SIZE, CLASSES = 64, 10
SKIPPED = ("num_batches_tracked", "shift", "scale")
"""Numbers that one of the libraries alone has: counters, and the standardization of pixels."""


def fill(state: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Numbers for each tensor from its place: spread by its inputs for weights, near 1 for gains and variances."""
    tensors = [
        (name, value)
        for name, value in state
        if name not in SKIPPED and not name.endswith(SKIPPED[0]) and not name.startswith("aux")
    ]
    for place, (name, value) in enumerate(tensors):
        random = np.random.default_rng(place)
        if value.ndim > 1:
            numbers = random.standard_normal(tuple(value.shape)) * math.sqrt(2 / math.prod(value.shape[1:]))
        elif name.endswith(("running_var", "weight", "gain")):
            numbers = random.uniform(0.5, 1.5, len(value))
        else:
            numbers = 0.1 * random.standard_normal(len(value))
        value.copy_(torch.from_numpy(numbers))


def pictures() -> torch.Tensor:
    """Two images (2, SIZE, SIZE, 3)."""
    return torch.from_numpy(np.random.default_rng(1).random((2, SIZE, SIZE, 3)))


def summary(maps: Iterable[torch.Tensor]) -> list[list[float]]:
    """Of maps (n, channels, rows, columns) of each stage the mean and the root mean square, and the first number."""
    return [[float(one.mean()), float(one.square().mean().sqrt()), float(one.flatten()[0])] for one in maps]
