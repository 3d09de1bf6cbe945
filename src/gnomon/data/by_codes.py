"""Images turned round: what they were made from as the table, and the pixels as the target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.errors import UserValueError

__all__ = ["IMAGES_AS_TARGET", "images_by_codes"]

IMAGES_AS_TARGET = "images"
"""What ``--target`` says where images are predicted from their labels or codes."""


def images_by_codes(data: Dataset) -> Dataset:
    """The same set to draw images from: labels or codes as the columns, grey levels in [0, 1] as the target.

    Labels become one column of text, ``label``, which is encoded with a column of 0 and 1 for each when a system is
    fitted; numbers, one or several for each image, become columns ``code_1``, ``code_2`` ...

    Parameters
    ----------
    data : Dataset
        Of images: a folder with a sub-folder for each class, an archive with the images ``X`` and the codes ``y``.

    Returns
    -------
    Dataset
        A table and as many targets as an image has numbers, channels last.

    Raises
    ------
    UserValueError
        No images, or images without labels and codes.

    Examples
    --------
    >>> from gnomon.data import load
    >>> turned = images_by_codes(load("digits"))
    >>> turned.frame["label"][:3].to_list(), turned.y.shape
    (['0', '1', '2'], (1797, 64))
    """
    if data.images is None:
        raise UserValueError("images are drawn from codes, and this data has none", data.name, "give images")
    if data.y is None:
        remedy = "put the images of each class into a folder of its own, or codes y beside the images X in an archive"
        raise UserValueError("the images have no labels and no codes to be drawn from", data.name, remedy)
    pixels = np.asarray(data.view("unit"), np.float64)
    turned = replace(data, X=None, y=pixels, columns=(), images=None, levels=None, classes=None)
    labels = _labels(data)
    if labels is not None:
        import polars as pl

        return replace(turned, frame=pl.DataFrame({"label": labels}), columns=("label",))
    codes = np.asarray(data.y, np.float64).reshape(len(pixels), -1)
    names = tuple(f"code_{k}" for k in range(1, codes.shape[1] + 1))
    return replace(turned, X=codes, columns=names)


def _labels(data: Dataset) -> list[str] | None:
    """Names of the classes, image by image; None of codes that are numbers."""
    y: NDArray[Any] = np.asarray(data.y)
    if (y.ndim == 2 and y.shape[1] > 1) or y.dtype.kind == "f":
        return None
    flat = y.ravel().tolist()
    named = data.classes is not None and y.dtype.kind in "iu"
    return [str(data.classes[k]) if named and data.classes is not None else str(k) for k in flat]
