"""Folders of texts: a file for each text, in a sub-folder for each class."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.data import sources
from gnomon.data.dataset import Dataset
from gnomon.errors import UserValueError

__all__ = ["holds_texts", "read_texts"]

ENDING = ".txt"


def holds_texts(folder: Path) -> bool:
    """Whether a folder, or a folder in it, has text files and no images."""
    files = [one for place in (folder, *_classes(folder)) for one in place.iterdir() if one.is_file()]
    endings = {one.suffix.lower() for one in files if not one.name.startswith(".")}
    return ENDING in endings and endings.isdisjoint(sources.IMAGES)


def read_texts(folder: Path, source: Mapping[str, Any]) -> Dataset:
    """The texts of a folder in order of name; the sub-folder of each is its label, where there are sub-folders.

    Parameters
    ----------
    folder : path
    source : mapping
        What the set is read from again.

    Raises
    ------
    UserValueError
        Texts beside the sub-folders, a file that is no UTF-8.
    """
    classes = [place for place in _classes(folder) if _texts(place)]
    alone = _texts(folder)
    if classes and alone:
        what = f"{alone[0].name} lies beside the folders of the classes"
        raise UserValueError(what, str(folder), "put it into the folder of its class")
    files = alone or [file for place in classes for file in _texts(place)]
    texts = tuple(_content(file) for file in files)
    y = np.array([file.parent.name for file in files]) if classes else None
    return Dataset(folder.name, text=texts, y=y, source=dict(source))


def _classes(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))


def _texts(folder: Path) -> list[Path]:
    found = (one for one in folder.iterdir() if one.is_file() and one.suffix.lower() == ENDING)
    return sorted(one for one in found if not one.name.startswith("."))


def _content(file: Path) -> str:
    """A whole text; an empty file is a text without a word."""
    if not file.stat().st_size:
        return ""
    sources.check_file(file)
    return "".join(block.decode() for _, block in sources.blocks(file))
