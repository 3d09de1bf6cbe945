"""Augmentation of images: random changes of the training pictures that leave their labels true. Loads no array library.

A recipe is called on an image, or stands in the slot ``augment`` of the image networks, alone or joined with others:
``"flip + crop(padding=2) + jitter(hue=0.1)"``. Pictures are changed in training only, and what they become depends on
the seed, the update and the place in the batch alone. Not every label survives: a mirrored b is a d, a 6 turned round a
9, and "left" becomes "right".
"""

from __future__ import annotations

from typing import Any

from gnomon.recipes.imports import load

_WHERE = {
    "Augmentation": "base", "Augmented": "base", "Chain": "base", "ColorJitter": "colors", "CutMix": "mixing",
    "Cutout": "hiding", "Elastic": "warping", "Mixup": "mixing", "PCAColor": "colors", "PadAndCrop": "framing",
    "RandomAffine": "warping", "RandomFlip": "framing", "RandomResizedCrop": "framing", "Unchanged": "base",
}  # fmt: skip

__all__ = [
    "Augmentation", "Augmented", "Chain", "ColorJitter", "CutMix", "Cutout", "Elastic", "Mixup", "PCAColor",
    "PadAndCrop", "RandomAffine", "RandomFlip", "RandomResizedCrop", "Unchanged",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"gnomon.data.augment.{_WHERE[name]}:{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
