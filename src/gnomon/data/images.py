"""Images: a folder with one sub-folder for each class, or a single file; all of one size, or brought to one."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.boundary import is_ours
from gnomon.data.dataset import Dataset
from gnomon.data.image_files import ImageFiles, image_files
from gnomon.data.sources import check_size
from gnomon.errors import UserError, UserValueError

__all__ = ["MAX_PIXELS", "are_pixels", "array_of_images", "brought_to", "image_names", "read_images", "shape_of"]

MAX_PIXELS = 1 << 26
"""Most pixels of one image: a small file may claim to hold more than memory can."""

MAX_COLUMNS = 1 << 22
"""Most columns of a table of images, each of which has a name."""

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""What decoders are tried: those of `gnomon.data.sources.IMAGES`."""

_MODES = {"1": "L", "L": "L", "P": "RGB", "RGB": "RGB", "RGBA": "RGB", "LA": "L", "I;16": "I;16", "CMYK": "RGB"}


def read_images(
    path: Path, source: dict[str, Any], *, resize: tuple[int, int] | None = None, colors: bool = False
) -> Dataset:
    """The images of a folder, or a single one, as a table: a row for each image, a column for each pixel.

    Sub-folders are the classes, in order of name, and their names are the labels; their images come in order of name. A
    folder with images and no sub-folder gives images without labels, as a single file does. Grey images have 256 levels
    (65536 with 16 bits) and the shape (height, width). As soon as one image has colors, all have the shape
    (height, width, 3). Names that start with a dot are left out; so are files with other endings, with a notice.

    Parameters
    ----------
    path : path
    source : dict
        What the data set says about where it comes from.
    resize : (int, int), optional
        Height and width to which every image is brought, each pixel the mean of those that it covers or a linear
        interpolation.
    colors : bool, default False
        Whether grey images become images of three equal colors.

    Raises
    ------
    UserValueError
        No image; a folder in the folder of a class; images of several sizes without `resize`; a damaged, transparent or
        animated image; one with more than `MAX_PIXELS`, which is said before it is decoded; Pillow is absent.

    Notes
    -----
    Sizes are read from the headers first, so that memory is known before a pixel is decoded.
    """
    listed = image_files(path) if path.is_dir() else ImageFiles([path], None, None, [])
    files, y, classes = listed[:3]
    folder = path if path.is_dir() else path.parent
    listed.tell_of_others(folder)
    headers = [_header(file, folder) for file in files]
    if resize is None:
        _refuse_sizes(files, headers, folder)
    mode = _mode(files, headers, folder, colors)
    height, width = headers[0][:2] if resize is None else resize
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    if int(np.prod(shape)) > MAX_COLUMNS:
        what = f"images must have at most {MAX_COLUMNS} values, got {' x '.join(map(str, shape))}"
        raise UserValueError(what, path.name, "bring them to a smaller size: --resize 64x64, in Python resize=(64, 64)")
    check_size(len(files) * int(np.prod(shape)) * 4, f"{path.name}, all images together")
    X = np.empty((len(files), int(np.prod(shape))), np.float32)
    for row, file in enumerate(files):
        X[row] = _pixels(file, folder, mode, resize).reshape(-1)
    return Dataset(
        path.name,
        X=X,
        y=y,
        columns=_columns(shape),
        images=shape,
        levels=65536 if mode == "I;16" else 256,
        classes=classes,
        source=source if resize is None else {**source, "resize": list(resize)},
    )


def image_names(path: Path) -> list[str]:
    """The files of images in the order in which `read_images` has them, as paths from the folder."""
    return [str(file.relative_to(path)) for file in image_files(path).images] if path.is_dir() else [path.name]


def _refuse_sizes(files: Sequence[Path], headers: Sequence[tuple[int, int, str]], folder: Path) -> None:
    height, width = headers[0][:2]
    for file, (h, w, _) in zip(files, headers, strict=True):
        if (h, w) != (height, width):
            where, first = file.relative_to(folder), files[0].relative_to(folder)
            what = f"the image has {h} x {w} pixels, {first} has {height} x {width}"
            remedy = f"bring all images to one size: --resize {height}x{width}, in Python resize=({height}, {width})"
            raise UserValueError(what, f"{folder.name}/{where}", remedy)


def _mode(files: Sequence[Path], headers: Sequence[tuple[int, int, str]], folder: Path, colors: bool) -> str:
    """Pillow's mode that takes all images without loss."""
    modes = {mode for _, _, mode in headers} | ({"RGB"} if colors else set())
    if "I;16" in modes and len(modes) > 1:
        deep = {mode == "I;16" for _, _, mode in headers}
        if len(deep) == 1:
            raise UserValueError("the image has 16 bits, and colors are needed", files[0].name, "save it as RGB")
        other = next(file for file, (_, _, mode) in zip(files, headers, strict=True) if mode != headers[0][2])
        what = "some images have 16 bits, some have 8"
        raise UserValueError(what, f"{folder.name}/{other.relative_to(folder)}", "save all in one depth")
    return "RGB" if "RGB" in modes else next(iter(modes))


def array_of_images(array: NDArray[Any], shape: tuple[int, ...], levels: int, source: dict[str, Any]) -> Dataset:
    """Images of an array as the fit to a folder of images has them.

    Parameters
    ----------
    array : array of shape (n, *shape), (n, pixels), or one image of that shape
        Whole numbers from 0 to levels - 1.
    shape : tuple of int
        Height and width, perhaps 3 colors.
    levels : int
    source : dict

    Raises
    ------
    UserValueError
        Another shape, numbers that are no levels.
    """
    name, size = Path(source["path"]).name, " x ".join(map(str, shape))
    pixels = int(np.prod(shape))
    if array.shape == shape:
        array = array[None]
    if array.ndim == 0 or array.shape[1:] not in (shape, (pixels,)) or not len(array):
        got = " x ".join(map(str, array.shape)) or "one number"
        raise UserValueError(f"the array must hold images of {size} pixels, got {got}", name, "give images of the fit")
    if array.dtype.kind not in "biuf":
        raise UserValueError(f"images must be numbers, got {array.dtype}", name, "save whole numbers")
    whole = array.dtype.kind in "biu" or bool((array == np.rint(array)).all())
    inside = whole and float(array.min()) >= 0 and float(array.max()) <= levels - 1
    if not inside or (array.dtype.kind == "f" and levels > 2 and float(array.max()) <= 1):
        what = f"pixels must be whole numbers from 0 to {levels - 1}, as the fit has them"
        got = f"{array.dtype} from {array.min():g} to {array.max():g}"
        remedy = f"multiply by {levels - 1} and round, or fit to such an array"
        raise UserValueError(f"{what}, got {got}", name, remedy)
    X = array.reshape(len(array), pixels).astype(np.float32)
    return Dataset(name, X=X, columns=_columns(shape), images=shape, levels=levels, source=source)


def brought_to(data: Dataset, levels: int) -> Dataset:
    """Images with the number of grey levels that a fit has seen, each pixel the nearest level."""
    if data.levels is None or data.levels == levels:
        return data
    X = np.rint(np.asarray(data.X, np.float64) * ((levels - 1) / (data.levels - 1)))
    return replace(data, X=X.astype(np.float32), levels=levels)


def shape_of(columns: Sequence[str]) -> tuple[int, ...] | None:
    """Height and width (and 3) of the images whose pixels these are, None where they are not all pixels of some.

    Examples
    --------
    >>> shape_of(["pixel_0_0", "pixel_0_1"])
    (1, 2)
    """
    if not columns or not are_pixels(columns):
        return None
    row, column, *color = columns[-1].split("_")[1:]
    shape = (int(row) + 1, int(column) + 1, *([3] if color else []))
    return shape if len(columns) == math.prod(shape) and tuple(columns) == _columns(shape) else None


def are_pixels(columns: Sequence[str] | None) -> bool:
    """Whether these are names of pixels, as images that are read have them."""
    return columns is not None and all(re.fullmatch(r"pixel_\d+_\d+(_[rgb])?", str(column)) for column in columns)


def _columns(shape: tuple[int, ...]) -> tuple[str, ...]:
    pixels = [f"pixel_{row}_{column}" for row in range(shape[0]) for column in range(shape[1])]
    return tuple(pixels) if len(shape) == 2 else tuple(f"{pixel}_{c}" for pixel in pixels for c in "rgb")


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
            with Image.open(file, formats=FORMATS) as image:
                yield image
    except Image.DecompressionBombError:
        raise _too_large("", where) from None
    except UserError:
        raise
    except Exception as error:  # whatever a decoder says of a damaged header
        if is_ours(error):
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


def _pixels(file: Path, folder: Path, mode: str, resize: tuple[int, int] | None = None) -> NDArray[Any]:
    where = f"{folder.name}/{file.relative_to(folder)}"
    with _opened(file, folder) as image:
        image.load()
        if image.has_transparency_data and image.convert("RGBA").getextrema()[3] != (255, 255):
            raise UserValueError("the image is transparent", where, "give it a background")
        found = image if image.mode == mode else image.convert(mode)
        return np.asarray(found if resize is None else _resized(found, resize))


def _resized(image: Any, size: tuple[int, int]) -> Any:
    """The image in another size; one of 16 bits by way of 32, which Pillow interpolates."""
    from PIL import Image

    deep = image.mode == "I;16"
    found = (image.convert("I") if deep else image).resize(size[::-1], Image.Resampling.BILINEAR)
    return np.clip(np.asarray(found), 0, 65535) if deep else found
