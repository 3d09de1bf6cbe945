"""Images that a fit to images is asked about: a folder, one file or an array, in the form that the fit has seen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnomon.data.arrays import npy
from gnomon.data.dataset import Dataset
from gnomon.data.form import PLAIN, File, form_of
from gnomon.data.images import array_of_images, brought_to, shape_of
from gnomon.data.loading import load, located
from gnomon.data.names import BUILTIN
from gnomon.data.sources import IMAGES, check_file

__all__ = ["of_levels", "other_images"]


def other_images(recipe: Mapping[str, Any], name: str | os.PathLike[str]) -> Dataset | None:
    """The images of a folder, file or array as the run's fit has them; None where the fit or the data holds none.

    Parameters
    ----------
    recipe : mapping
        The data of the run.
    name : str

    Raises
    ------
    UserValueError
        Images of another size or without the colors of the fit.
    """
    features = recipe.get("features") or []
    shape = shape_of(features)
    if shape is None or name in BUILTIN:
        return None
    path, form = located(name).expanduser(), form_of(name)
    levels = recipe.get("levels")
    if path.suffix.lower() == ".npy":
        check_file(path)
        return array_of_images(npy(path), shape, levels or 256, {"path": os.path.abspath(path)})
    if not _holds_images(path):
        return None
    resize = recipe.get("resize")
    file = path if form == PLAIN else File(path, **form.to_json())
    data = load(file, columns=features, resize=None if resize is None else (resize[0], resize[1]))
    return data if levels is None else brought_to(data, levels)


def of_levels(data: Dataset, levels: int | None) -> Dataset:
    """An array of bytes in the levels that a fit has seen: dark images are not taken for bits, nor bytes for levels."""
    if levels is None or data.levels is None or data.levels == levels:
        return data
    return replace(data, levels=levels) if data.levels < levels else brought_to(data, levels)


def _holds_images(path: Path) -> bool:
    return path.is_dir() or (path.suffix.lower() in IMAGES and path.is_file())
