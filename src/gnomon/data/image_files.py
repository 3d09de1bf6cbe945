"""Which files of a folder are images, of which class, and which are something else."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.data.sources import IMAGES
from gnomon.errors import UserValueError

__all__ = ["ImageFiles", "image_files"]


class ImageFiles(NamedTuple):
    """The files of a folder of images."""

    images: list[Path]
    labels: NDArray[np.str_] | None
    classes: tuple[str, ...] | None
    others: list[Path]
    """What is no image by its ending."""

    def tell_of_others(self, folder: Path) -> None:
        """A notice of the files that are left out."""
        n = len(self.others)
        if n:
            what = "1 file that is not an image is" if n == 1 else f"{n} files that are not images are"
            where = f"{'' if n == 1 else 'first '}{folder.name}/{self.others[0].relative_to(folder)}"
            warnings.warn(f"{what} left out ({where})", UserWarning, stacklevel=2)


def image_files(folder: Path) -> ImageFiles:
    """The files of a folder of images: those of its sub-folders, which are the classes, or its own.

    Parameters
    ----------
    folder : path

    Raises
    ------
    UserValueError
        No image; images beside the folders of the classes; a folder in one of these.
    """
    inside = _visible(folder)
    folders = [path for path in inside if path.is_dir()]
    if not inside:
        remedy = "name a file, or put one folder of images for each class into it"
        raise UserValueError("the folder is empty", str(folder), remedy)
    if not folders:
        images, others = _images(folder, folder)
        return ImageFiles(images, None, None, others)
    beside = [path for path in inside if not path.is_dir()]
    image = next((path for path in beside if _is_image(path)), None)
    if image is not None:
        what = "there is an image beside the folders of the classes"
        raise UserValueError(what, f"{folder.name}/{image.name}", "move it into one of them or out of the folder")
    files, labels, others = [], [], beside
    for each in folders:
        found, rest = _images(each, folder)
        files += found
        others += rest
        labels += [each.name] * len(found)
    return ImageFiles(files, np.array(labels), tuple(path.name for path in folders), others)


def _images(folder: Path, top: Path) -> tuple[list[Path], list[Path]]:
    """The images of a folder, and its other files."""
    files = _visible(folder)
    where = top.name if folder == top else f"{top.name}/{folder.name}"
    inner = next((file for file in files if file.is_dir()), None)
    images = [file for file in files if _is_image(file)]
    if not images:
        remedy = f"put images into it or remove it; images end in {', '.join(IMAGES)}"
        raise UserValueError("the folder holds no image", where, remedy)
    if inner is not None:
        raise UserValueError("this is a folder", f"{where}/{inner.name}", "move its images up, or remove it")
    return images, [file for file in files if not _is_image(file)]


def _visible(folder: Path) -> list[Path]:
    """What a folder holds in order of name, without hidden names and what macOS adds to an archive."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name != "__MACOSX")


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in IMAGES and file.is_file()
