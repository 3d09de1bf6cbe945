"""Folders of images: one sub-folder for each class, all pictures of one size."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.sources import IMAGES, check_size
from gnomon.errors import UserValueError

__all__ = ["MAX_PIXELS", "are_pixels", "read_images"]

MAX_PIXELS = 1 << 26
"""Most pixels of one image: a small file may claim to hold more than memory can."""

_MODES = {"1": "L", "L": "L", "P": "RGB", "RGB": "RGB", "RGBA": "RGB", "LA": "L", "I;16": "I;16", "CMYK": "RGB"}


def read_images(folder: Path, source: dict[str, Any]) -> Dataset:
    """The images of a folder as a table: a row for each image, a column for each pixel.

    Sub-folders are the classes, in order of name, and their images come in order of name; a folder with images and no
    sub-folder gives images without labels. Grey images have 256 levels (65536 with 16 bits) and the shape
    (height, width). As soon as one image has colors, all have the shape (height, width, 3). Names that start with a dot
    are left out.

    Parameters
    ----------
    folder : path
    source : dict
        What the data set says about where it comes from.

    Raises
    ------
    UserValueError
        No image; another file; images of several sizes; a damaged, transparent or animated image; one with more than
        `MAX_PIXELS`, which is said before it is decoded; Pillow is absent.

    Notes
    -----
    Sizes are read from the headers first, so that memory is known before a pixel is decoded.
    """
    files, y, classes = _files(folder)
    headers = [_header(file, folder) for file in files]
    height, width = headers[0][:2]
    for file, (h, w, _) in zip(files, headers, strict=True):
        if (h, w) != (height, width):
            where, first = file.relative_to(folder), files[0].relative_to(folder)
            what = f"the image has {h} x {w} pixels, {first} has {height} x {width}"
            raise UserValueError(what, f"{folder.name}/{where}", "bring all images to one size")
    modes = {mode for _, _, mode in headers}
    if "I;16" in modes and len(modes) > 1:
        other = next(file for file, (_, _, mode) in zip(files, headers, strict=True) if mode != headers[0][2])
        what = "some images have 16 bits, some have 8"
        raise UserValueError(what, f"{folder.name}/{other.relative_to(folder)}", "save all in one depth")
    mode = "RGB" if "RGB" in modes else next(iter(modes))
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    check_size(len(files) * int(np.prod(shape)) * 4, f"{folder.name}, all images together")
    X = np.empty((len(files), int(np.prod(shape))), np.float32)
    for row, file in enumerate(files):
        X[row] = _pixels(file, folder, mode).reshape(-1)
    return Dataset(
        folder.name,
        X=X,
        y=y,
        columns=_columns(shape),
        images=shape,
        levels=65536 if mode == "I;16" else 256,
        classes=classes,
        source=source,
    )


def are_pixels(columns: Sequence[str] | None) -> bool:
    """Whether these are names of pixels, as images that are read have them."""
    return columns is not None and all(re.fullmatch(r"pixel_\d+_\d+(_[rgb])?", str(column)) for column in columns)


def _columns(shape: tuple[int, ...]) -> tuple[str, ...]:
    pixels = [f"pixel_{row}_{column}" for row in range(shape[0]) for column in range(shape[1])]
    return tuple(pixels) if len(shape) == 2 else tuple(f"{pixel}_{c}" for pixel in pixels for c in "rgb")


def _files(folder: Path) -> tuple[list[Path], NDArray[np.int64] | None, tuple[str, ...] | None]:
    """Files, labels and names of the classes."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    folders = [path for path in inside if path.is_dir()]
    if not inside:
        remedy = "name a file, or put one folder of images for each class into it"
        raise UserValueError("the folder is empty", str(folder), remedy)
    if not folders:
        return _images(folder, folder), None, None
    other = next((path for path in inside if not path.is_dir()), None)
    if other is not None:
        what = "there is a file beside the folders of the classes"
        raise UserValueError(what, f"{folder.name}/{other.name}", "move it into one of them or out of the folder")
    files, labels = [], []
    for label, each in enumerate(folders):
        found = _images(each, folder)
        files += found
        labels += [label] * len(found)
    return files, np.array(labels, np.int64), tuple(path.name for path in folders)


def _images(folder: Path, top: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    where = top.name if folder == top else f"{top.name}/{folder.name}"
    if not any(file.suffix.lower() in IMAGES for file in files):
        raise UserValueError("the folder holds no image", where, "put images into it or remove it")
    for file in files:
        if file.suffix.lower() not in IMAGES or not file.is_file():
            what = (
                "this is a folder"
                if file.is_dir()
                else f"files of kind {file.suffix or 'without an ending'} are not images"
            )
            raise UserValueError(what, f"{where}/{file.name}", f"remove it; images end in {', '.join(IMAGES)}")
    return files


@contextmanager
def _opened(file: Path, folder: Path) -> Iterator[Any]:
    try:
        from PIL import Image
    except ImportError:
        raise UserValueError("images need Pillow", "", "run: pip install pillow") from None
    where = f"{folder.name}/{file.relative_to(folder)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of many pixels, which have an error of their own here
            with Image.open(file) as image:
                yield image
    except Image.DecompressionBombError:
        raise _too_large("", where) from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        if isinstance(error, UserValueError):
            raise
        reason = " ".join(str(error).split()).partition(str(file))[0].strip(" '")[:100]
        raise UserValueError(
            f"the image cannot be read: {reason or 'unknown format'}", where, "save it again"
        ) from None


def _too_large(size: str, where: str) -> UserValueError:
    what = f"the image has {size or 'far'} more than {MAX_PIXELS} pixels"
    return UserValueError(what, where, "make it smaller")


def _header(file: Path, folder: Path) -> tuple[int, int, str]:
    """Height, width and mode, without decoding."""
    where = f"{folder.name}/{file.relative_to(folder)}"
    with _opened(file, folder) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise _too_large(f"{height} x {width},", where)
        if getattr(image, "n_frames", 1) > 1:
            raise UserValueError(f"the image has {image.n_frames} frames", where, "save one of them")
        if image.mode not in _MODES:
            raise UserValueError(f"images of mode {image.mode} cannot be read", where, "save it as grey or RGB")
        return height, width, _MODES[image.mode]


def _pixels(file: Path, folder: Path, mode: str) -> NDArray[Any]:
    where = f"{folder.name}/{file.relative_to(folder)}"
    with _opened(file, folder) as image:
        image.load()
        if image.has_transparency_data and image.convert("RGBA").getextrema()[3] != (255, 255):
            raise UserValueError("the image is transparent", where, "give it a background")
        return np.asarray(image if image.mode == mode else image.convert(mode))
