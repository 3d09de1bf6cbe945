"""What augmentation costs: python benchmarks/augment.py. Bound: 5 % of an epoch of a small network at 64 x 64 x 3.

Prints the processor time of loading and changing a picture, and its share of what an image of an epoch of ``cnn``
takes, measured in the same run with one thread.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import torch

import gnomon
from gnomon.data import Batches
from gnomon.data.augment import Augmentation
from gnomon.data.augment.training import Augmenter
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.numeric.noise import Noise

IMAGES = 256
CHAINS = (
    "flip", "crop", "resized-crop", "affine", "elastic", "jitter", "jitter(hue=0.1)", "pca-color", "cutout", "mixup",
    "cutmix", "flip + crop", "flip + resized-crop", "flip + crop + jitter(hue=0.1)",
)  # fmt: skip


def loading(examples: Examples, text: str) -> float:
    """Seconds an image, the best of three epochs behind one that compiles."""
    change = Augmenter(Augmentation.of_text(text), examples)
    batches = Batches(examples, Rows(64), noise=Noise(0, "fit"), transform=change)
    seconds = []
    for e in range(4):
        begun = time.process_time()
        for _ in batches.epoch(e):
            pass
        seconds.append(time.process_time() - begun)
    return min(seconds[1:]) / IMAGES


def learning(examples: Examples) -> float:
    """Seconds an image of an epoch without augmentation."""
    at: list[float] = []
    with warnings.catch_warnings(), gnomon.context(callbacks=(lambda step, record: at.append(time.process_time()),)):
        warnings.simplefilter("ignore")  # noise is no help to learn from
        gnomon.CNN(epochs=4, random_state=0).fit(examples.X, examples.y)
    return float(np.diff(at).min()) / IMAGES


def main() -> None:
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    examples = Examples({"X": random.random((IMAGES, 64, 64, 3), dtype=np.float32), "y": random.integers(0, 5, IMAGES)})
    epoch = learning(examples)
    print(f"{'an image of an epoch':<32}{epoch * 1e6:8.0f} us")
    for text in CHAINS:
        each = loading(examples, text)
        print(f"{text:<32}{each * 1e6:8.0f} us{each / epoch:9.2%}")


if __name__ == "__main__":
    main()
