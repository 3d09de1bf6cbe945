"""Patches of photographs, and where installed packages keep such."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.installed import changed, locate

__all__ = ["PHOTOGRAPHS", "SIDE", "natural_patches", "patches"]

SIDE = 8
"""Pixels of a patch either way."""
LUMA = np.array([0.299, 0.587, 0.114])
"""Grey of red, green and blue (Rec. 601)."""
PHOTOGRAPHS = {
    "astronaut": (512, 512, 3), "brick": (512, 512), "camera": (512, 512), "chelsea": (300, 451, 3),
    "coffee": (400, 600, 3), "grass": (512, 512), "gravel": (512, 512),
}  # fmt: skip
"""Photographs of scenes and surfaces without loss that scikit-image's wheel has, and their shapes."""


def patches(name: str, photographs: Iterable[NDArray[Any]]) -> Dataset:
    """Every second 8 x 8 patch, as on a chessboard, of photographs in grey; none share a pixel.

    Parameters
    ----------
    name : str
        Of the set.
    photographs : iterable of arrays of shape (height, width) or (height, width, 3)
        Levels from 0 to 255.

    Examples
    --------
    >>> patches("one", [np.zeros((20, 24, 3), np.uint8)])
    Dataset('one', 3 rows x 64 columns)
    """
    rows = []
    for photograph in photographs:
        wide = photograph.astype(np.float64)
        grey = np.rint(wide @ LUMA) if wide.ndim == 3 else wide
        down, across = (side // SIDE for side in grey.shape)
        cut = grey[: down * SIDE, : across * SIDE].reshape(down, SIDE, across, SIDE).swapaxes(1, 2)
        rows.append(cut[np.add.outer(np.arange(down), np.arange(across)) % 2 == 0].reshape(-1, SIDE * SIDE))
    return Dataset(
        name,
        X=np.concatenate(rows).astype(np.float32),
        columns=tuple(f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)),
        images=(SIDE, SIDE),
        levels=256,
        source={"name": name},
    )


def natural_patches(name: str) -> Dataset:
    """Patches of `PHOTOGRAPHS`, in this order.

    Raises
    ------
    UserValueError
        scikit-image is absent; a file that is not the photograph that was expected.

    Examples
    --------
    >>> natural_patches("natural-patches")  # doctest: +SKIP
    Dataset('natural-patches', 13151 rows x 64 columns)
    """
    return patches(name, [_read(name, photograph, shape) for photograph, shape in PHOTOGRAPHS.items()])


def _read(name: str, photograph: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    file = locate(name, f"skimage/data/{photograph}.png")
    from PIL import Image, UnidentifiedImageError  # what matplotlib reads pictures with

    try:
        with Image.open(file) as image:
            found = np.asarray(image)
    except (OSError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise changed(name, file, " ".join(str(error).split())[:80]) from None
    if found.shape != shape or found.dtype != np.uint8:
        raise changed(name, file, f"{found.dtype} of shape {found.shape}")
    return found
