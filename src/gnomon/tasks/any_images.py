"""Images of any size, for a model that takes them all: a built-in set, a folder, a file or an array."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from gnomon.data.arrays import npy
from gnomon.data.box_tables import holds_boxes
from gnomon.data.images import image_names, read_images
from gnomon.data.loading import load, located
from gnomon.data.masks import holds_masks
from gnomon.data.names import BUILTIN
from gnomon.data.sources import IMAGES, check_file
from gnomon.errors import UserValueError

__all__ = ["images_by_name"]


def images_by_name(data: str | os.PathLike[str], recipe: Mapping[str, Any], channels: int) -> tuple[list[str], Any]:
    """Names of images, and the images, which need not be of one size.

    Parameters
    ----------
    data : name, folder, image file or .npy file
        Of a folder with the folder ``images``, and ``masks`` or ``boxes.csv``, in it the former; an array
        (n, rows, columns) or (n, rows, columns, channels) of bytes, or of numbers in [0, 1].
    recipe : mapping
        The data of the run: whole numbers of an array are on the grey levels of the fit.
    channels : int
        Of the fit; grey images become colored ones where it is 3.

    Returns
    -------
    list of str
        Paths in the folder; of other data numbers.
    array, or list of arrays (rows, columns) or (rows, columns, channels)
        Pixels in [0, 1], or bytes.

    Raises
    ------
    UserError
        What is no image.
    """
    if data in BUILTIN:
        images = load(data).view("images")
        if images.ndim < 3:
            raise UserValueError("the data must be images, got a table", str(data), "choose images")
        return [str(place) for place in range(len(images))], images
    path = located(data).expanduser()
    if path.suffix.lower() == ".npy":
        check_file(path)
        return _of_array(npy(path), recipe.get("levels"), path.name)
    if not path.is_dir() and path.suffix.lower() not in IMAGES:
        remedy = "give a folder of images, an image, or an array in a .npy file"
        raise UserValueError("this holds no images", path.name, remedy)
    folder = path / "images" if holds_masks(path) or holds_boxes(path) else path
    names = image_names(folder)
    files = [folder / name for name in names] if folder.is_dir() else [folder]
    found = [read_images(file, {"path": str(file)}, colors=channels == 3).view("images")[0] for file in files]
    return names, found


def _of_array(images: Any, levels: int | None, name: str) -> tuple[list[str], Any]:
    """The images of an array, in [0, 1] where they are on the grey levels of the fit."""
    if images.ndim not in (3, 4):
        what = f"an array of images must have 3 axes, or 4 with channels, got shape {images.shape}"
        raise UserValueError(what, name, "give (n, rows, columns)")
    if images.dtype.kind not in "buif":
        raise UserValueError(f"an array of images must hold numbers, got {images.dtype}", name, "save numbers")
    if levels is not None and images.dtype != np.uint8 and float(images.max(initial=0)) > 1:
        images = images / (levels - 1)
    return [str(place) for place in range(len(images))], images
