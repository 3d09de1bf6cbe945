"""Convolutional networks written out with torch's functions, their weights taken in order from a state."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as f

Tensor = torch.Tensor


class Weights:
    """Weights of a model in the order in which its layers were made, each layer taken once."""

    def __init__(self, model: torch.nn.Module, normalize: bool = False) -> None:
        self.convolutions = self._kind(model, torch.nn.Conv2d)
        self.dense = self._kind(model, torch.nn.Linear)
        self.norms = iter([one for one in model.modules() if type(one).__name__ == "BatchNorm"])
        self.normalize = normalize

    @staticmethod
    def _kind(model: torch.nn.Module, kind: type) -> Iterator[Any]:
        return iter([one for one in model.modules() if isinstance(one, kind)])

    def conv(self, x: Tensor, stride: int = 1, padding: Any = 0, groups: int = 1) -> Tensor:
        layer = next(self.convolutions)
        return f.conv2d(x, layer.weight, layer.bias, stride, padding, 1, groups)

    def norm(self, x: Tensor) -> Tensor:
        layer = next(self.norms)
        if self.normalize:  # statistics of this batch
            mean = x.mean((0, 2, 3), keepdim=True)
            variance = ((x - mean) ** 2).mean((0, 2, 3), keepdim=True)
        else:
            mean, variance = layer.running_mean[None, :, None, None], layer.running_var[None, :, None, None]
        unit = (x - mean) / torch.sqrt(variance + 1e-5)
        return unit * layer.gain[None, :, None, None] + layer.shift[None, :, None, None]

    def linear(self, x: Tensor) -> Tensor:
        layer = next(self.dense)
        return x @ layer.weight.T + layer.bias

    def done(self) -> bool:
        """Whether every layer has been used."""
        return all(next(rest, None) is None for rest in (self.convolutions, self.dense, self.norms))


def alexnet(w: Weights, x: Tensor, *, large: bool, groups: int = 1) -> tuple[Tensor, list[Tensor]]:
    stride, border = (4, 0) if large else (1, 1)
    maps = []

    def pool(x: Tensor) -> Tensor:
        return f.max_pool2d(x, 3, 2, border)

    for place, (padding, halves) in enumerate(((border, 1), (2, groups), (1, 1), (1, groups), (1, groups))):
        x = f.relu(w.conv(x, stride if place == 0 else 1, padding, halves))
        maps.append(x)
        if place in (0, 1, 4):
            x = pool(x)
            maps.append(x)
    return head(w, x.flatten(1)), maps


def head(w: Weights, x: Tensor, hidden: int = 2) -> Tensor:
    for _ in range(hidden):
        x = f.relu(w.linear(x))
    return w.linear(x)


def vgg(w: Weights, x: Tensor, convolutions: tuple[int, ...], norm: bool, hidden: int) -> Tensor:
    for number in convolutions:
        for _ in range(number):
            x = w.conv(x, 1, 1)
            x = f.relu(w.norm(x) if norm else x)
        x = f.max_pool2d(x, 2)
    return head(w, x.flatten(1), hidden)


def nin(w: Weights, x: Tensor, *, large: bool, rectified: bool) -> tuple[Tensor, list[Tensor]]:
    maps = []
    windows = ((4, 0), (1, 2), (1, 1)) if large else ((1, 2), (1, 2), (1, 1))
    for stride, padding in windows:
        for place in range(3):
            x = f.relu(w.conv(x, stride if place == 0 else 1, padding if place == 0 else 0))
        maps.append(x)
        x = f.max_pool2d(x, 3, 2, 0 if large else 1)
        maps.append(x)
    for place in range(3):
        x = w.conv(x, 1, 1 if place == 0 else 0)
        x = f.relu(x) if place < 2 or rectified else x
    maps.append(x)
    return x.mean((2, 3)), maps


def unit(w: Weights, x: Tensor, norm: bool, padding: Any = 0, stride: int = 1) -> Tensor:
    x = w.conv(x, stride, padding)
    return f.relu(w.norm(x) if norm else x)


def inception(w: Weights, x: Tensor, norm: bool, form: str) -> Tensor:
    """The branches in the order in which they are made."""

    def crossed(h: Tensor) -> Tensor:
        return unit(w, unit(w, h, norm, (3, 0)), norm, (0, 3))

    def beside(h: Tensor) -> Tensor:
        return torch.cat([unit(w, h, norm, (1, 0)), unit(w, h, norm, (0, 1))], 1)

    one = unit(w, x, norm)
    three = unit(w, x, norm)
    three = {"whole": lambda h: unit(w, h, norm, 1), "A": lambda h: unit(w, h, norm, 1), "B": crossed, "C": beside}[
        form
    ](three)
    five = unit(w, x, norm)
    wide: dict[str, Callable[[Tensor], Tensor]] = {
        "whole": lambda h: unit(w, h, norm, 2),
        "A": lambda h: unit(w, unit(w, h, norm, 1), norm, 1),
        "B": lambda h: crossed(crossed(h)),
        "C": lambda h: beside(unit(w, h, norm, 1)),
    }
    five = wide[form](five)
    pooled = unit(w, f.max_pool2d(x, 3, 1, 1), norm)
    return torch.cat([one, three, five, pooled], 1)


def googlenet(w: Weights, x: Tensor, *, large: bool, norm: bool, factors: bool) -> tuple[Tensor, list[Tensor]]:
    maps = []
    x = unit(w, x, norm, 3 if large else 1, 2 if large else 1)
    x = f.max_pool2d(x, 3, 2, 1) if large else x
    x = unit(w, unit(w, x, norm), norm, 1)
    maps.append(x)
    for blocks, form in zip((2, 5, 2), "ABC" if factors else ("whole",) * 3, strict=True):
        x = f.max_pool2d(x, 3, 2, 1)
        for _ in range(blocks):
            x = inception(w, x, norm, form)
            maps.append(x)
    return w.linear(x.mean((2, 3))), maps


def resnet(
    w: Weights, x: Tensor, depths: tuple[int, ...], *, block: str, large: bool, plain: bool = False, groups: int = 1
) -> Tensor:
    pre = block == "pre-activation"
    x = w.conv(x, 2 if large else 1, 3 if large else 1)
    x = x if pre else f.relu(w.norm(x))
    x = f.max_pool2d(x, 3, 2, 1) if large else x
    for number, depth in enumerate(depths):
        for place in range(depth):
            x = _residual(w, x, block, 2 if number and not place else 1, plain, groups)
    x = f.relu(w.norm(x)) if pre else x
    return w.linear(x.mean((2, 3)))


def _residual(w: Weights, x: Tensor, block: str, stride: int, plain: bool, groups: int) -> Tensor:
    if block == "pre-activation":
        ready = f.relu(w.norm(x))
        change = w.conv(f.relu(w.norm(w.conv(ready, stride, 1))), 1, 1)
        return change + (x if stride == 1 and change.shape == x.shape else w.conv(ready, stride))
    if block == "basic":
        change = w.norm(w.conv(f.relu(w.norm(w.conv(x, stride, 1))), 1, 1))
    else:
        change = f.relu(w.norm(w.conv(x)))
        change = f.relu(w.norm(w.conv(change, stride, 1, groups)))
        change = w.norm(w.conv(change))
    if change.shape == x.shape:
        return f.relu(change + x)
    kept = w.conv(x, stride)
    return f.relu(change + (kept if plain else w.norm(kept)))


def densenet(
    w: Weights, x: Tensor, depths: tuple[int, ...], *, large: bool, bottleneck: bool
) -> tuple[Tensor, list[Tensor]]:
    maps = []
    x = f.relu(w.norm(w.conv(x, 2 if large else 1, 3 if large else 1)))
    x = f.max_pool2d(x, 3, 2, 1) if large else x
    for number, depth in enumerate(depths):
        for _ in range(depth):
            h = f.relu(w.norm(x))
            h = f.relu(w.norm(w.conv(h))) if bottleneck else h
            x = torch.cat([x, w.conv(h, 1, 1)], 1)
        maps.append(x)
        x = f.relu(w.norm(x))
        if number < len(depths) - 1:
            x = f.avg_pool2d(w.conv(x), 2)
            maps.append(x)
    return w.linear(x.mean((2, 3))), maps


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Channels read across groups, one by one."""
    each = x.shape[1] // groups
    return torch.cat([x[:, g * each + j : g * each + j + 1] for j in range(each) for g in range(groups)], 1)


def shufflenet(w: Weights, x: Tensor, depths: tuple[int, ...], groups: int, *, large: bool) -> Tensor:
    x = f.relu(w.norm(w.conv(x, 2 if large else 1, 1)))
    x = f.max_pool2d(x, 3, 2, 1) if large else x
    for number, depth in enumerate(depths):
        for place in range(depth):
            h = f.relu(w.norm(w.conv(x, groups=groups if number or place else 1)))
            h = shuffled(h, groups)
            h = w.norm(w.conv(h, 1 if place else 2, 1, h.shape[1]))
            h = w.norm(w.conv(h, groups=groups))
            if place:
                x = f.relu(x + h)
            else:
                x = f.relu(torch.cat([f.avg_pool2d(x, 3, 2, 1, count_include_pad=False), h], 1))
    return w.linear(x.mean((2, 3)))
