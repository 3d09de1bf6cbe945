"""The convolutional networks against training loops written by hand in torch, in one run; epochs and predictions.

    python benchmarks/convolutional.py [NETWORK ...] [--side 28] [--images 1024] [--rounds 3] [--memory]

For each network the seconds of an epoch in batches of 64, ours and by hand, each the best of several rounds in which
they take turns, and their ratio (limit 1.10; lenet has a benchmark of its own); the same for the prediction of all
images (limit 1.05), by hand under ``torch.inference_mode``. The loop by hand has the same layers out of torch's own,
Adam and the cosine, and nothing else: no record, no check for numbers that are not finite, no order of its own. With
one thread (``OMP_NUM_THREADS=1``) it is processor time, else time of the clock, for an idle machine. ``--memory``
compares the peaks of resident memory of the two loops in place of times, each in a process of its own (limit 1.10),
whose blocks of 64 kB and more go back to the system when they are free: what glibc keeps besides varies.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import torch
from torch import nn

import gnomon
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.dropout import Dropout
from gnomon.nn.pooling import GlobalPool
from gnomon.nn.residual import Residual
from gnomon.nn.shuffle import ChannelShuffle
from gnomon.nn.stages import Branches, DenseBlock

BATCH, ANSWERED = 64, 256
CLOCK = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
NETWORKS = ("cnn", "alexnet", "vgg", "nin", "googlenet", "resnet", "densenet", "shufflenet")


class BareResidual(nn.Module):
    """Unit of the sum of a block and its input."""

    def __init__(self, block: nn.Module, shortcut: nn.Module | None, after: nn.Module) -> None:
        super().__init__()
        self.block, self.shortcut, self.after = block, shortcut, after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x if self.shortcut is None else self.shortcut(x)
        return self.after(kept + self.block(x))


class BareDense(nn.Module):
    """Layers that read all channels before them."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class BareBranches(nn.Module):
    """Blocks side by side."""

    def __init__(self, branches: list[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def bare(layer: nn.Module) -> nn.Module:
    """The same layer out of torch's own, with new weights."""
    if isinstance(layer, nn.Sequential):
        return nn.Sequential(*map(bare, layer))
    if isinstance(layer, Residual):
        assert layer.scale == 1 and isinstance(layer.before, nn.Identity) and isinstance(layer.drop, nn.Identity)
        return BareResidual(bare(layer.block), layer.shortcut and bare(layer.shortcut), bare(layer.after))
    if isinstance(layer, DenseBlock):
        return BareDense([bare(one) for one in layer.layers])
    if isinstance(layer, Branches):
        return BareBranches([bare(one) for one in layer.branches])
    if isinstance(layer, BatchNorm):
        return nn.BatchNorm2d(len(layer.gain))
    if isinstance(layer, Dropout):
        return nn.Dropout(layer.p)
    if isinstance(layer, GlobalPool):
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    if isinstance(layer, ChannelShuffle):
        return nn.ChannelShuffle(layer.groups)
    if isinstance(layer, nn.Conv2d):
        return nn.Conv2d(
            layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
            groups=layer.groups, bias=layer.bias is not None,
        )  # fmt: skip
    if isinstance(layer, nn.Linear):
        return nn.Linear(layer.in_features, layer.out_features)
    return layer  # units and poolings have no weights


def our_epoch(name: str, X: np.ndarray, y: np.ndarray) -> tuple[float, gnomon.contracts.System]:
    """Seconds of the better of two epochs, the first of three left out, and the fitted system."""
    at: list[float] = []
    with gnomon.context(callbacks=(lambda step, record: at.append(CLOCK()),)):
        net = gnomon.make(name, epochs=3, batch_size=BATCH, random_state=0).fit(X, y)
    return float(np.diff(at).min()), net


def hand_epoch(net: nn.Module, X: torch.Tensor, y: torch.Tensor) -> float:
    """Seconds of the better of two epochs of a plain loop, after one to warm up."""
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
    seconds = []
    net.train()
    for _ in range(3):
        begun = CLOCK()
        for rows in torch.randperm(len(X)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(X[rows]), y[rows]).backward()
            optimizer.step()
        scheduler.step()
        seconds.append(CLOCK() - begun)
    return min(seconds[1:])


def hand_scores(net: nn.Module, X: torch.Tensor) -> np.ndarray:
    """Probabilities of all images, in batches of `ANSWERED`."""
    net.eval()
    with torch.inference_mode():
        return torch.cat([torch.softmax(net(part), 1) for part in X.split(ANSWERED)]).numpy()


def seconds(call: Callable[..., object], *arguments: object) -> float:
    """Of one call."""
    begun = CLOCK()
    call(*arguments)
    return CLOCK() - begun


def line(name: str, X: np.ndarray, y: np.ndarray, rounds: int) -> str:
    """What of a network is printed."""
    mean, spread = X.mean((0, 1, 2), keepdims=True), X.std((0, 1, 2), keepdims=True)
    images = torch.from_numpy(np.ascontiguousarray(((X - mean) / spread).transpose(0, 3, 1, 2)))
    codes = torch.from_numpy(y)
    pairs, answers = [], []
    for _ in range(rounds):
        own, net = our_epoch(name, X, y)
        model = net.model_
        plain = nn.Sequential(bare(model.features), bare(model.head))
        pairs.append((own, hand_epoch(plain, images, codes)))
        net.predict_proba(X[:64])
        answers.append((seconds(net.predict_proba, X), seconds(hand_scores, plain, images)))
    told = []
    for what, found in (("epoch", pairs), ("prediction", answers)):
        own, hand = (min(column) for column in zip(*found, strict=True))
        told.append(f"{what} {own:7.3f} s, by hand {hand:7.3f} s, ratio {own / hand:.3f}")
    return f"{name:11} {told[0]}   {told[1]}"


def peak(name: str, X: np.ndarray, y: np.ndarray, by_hand: bool) -> float:
    """Megabytes that training reaches beyond what stands after a first update on few images."""
    small = gnomon.make(name, max_updates=1, batch_size=4, random_state=0).fit(X[:20], np.arange(20) % 10)
    images = torch.from_numpy(np.ascontiguousarray(X.transpose(0, 3, 1, 2)))
    plain = nn.Sequential(bare(small.model_.features), bare(small.model_.head)).to(memory_format=torch.channels_last)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if by_hand:
        hand_epoch(plain, images, torch.from_numpy(y))
    else:
        our_epoch(name, X, y)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def memory_line(name: str, X: np.ndarray, y: np.ndarray) -> str:
    """Peaks of the two loops."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(1 << 16)  # read when a process begins
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        own, hand = (pool.submit(peak, name, X, y, by_hand).result() for by_hand in (False, True))
    return f"{name:11} training {own:5.0f} MB, by hand {hand:5.0f} MB, ratio {own / hand:.3f}"


def main() -> None:
    """A line for each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--side", type=int, default=28)
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    random = np.random.default_rng(0)
    X = random.random((asked.images, asked.side, asked.side, asked.channels), dtype="f4")
    y = random.integers(0, 10, asked.images)
    print(f"{asked.images} images of {asked.side} x {asked.side} x {asked.channels}, {torch.get_num_threads()} threads")
    for name in asked.networks:
        print(memory_line(name, X, y) if asked.memory else line(name, X, y, asked.rounds), flush=True)


if __name__ == "__main__":
    main()
