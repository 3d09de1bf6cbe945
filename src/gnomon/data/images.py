"""Images: a folder with one sub-folder for each class, or a single file; all of one size, or brought to one."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.form import PLAIN, Form
from gnomon.data.image_decoding import MAX_PIXELS, Header, header_of, pixels_of
from gnomon.data.image_files import ImageFiles, image_files
from gnomon.data.sources import check_size
from gnomon.errors import UserValueError

T = TypeVar("T")

__all__ = [
    "MAX_PIXELS",
    "are_pixels",
    "array_of_images",
    "brought_to",
    "image_names",
    "left_out",
    "read_images",
    "shape_of",
]

MAX_COLUMNS = 1 << 22
"""Most columns of a table of images, each of which has a name."""

DEPTH = "save all in one depth, or bring all to 8 bits: --depth 8, in Python File(path, depth='8')"

NAMED = 5
"""Files that are named at most where images are left out."""


def read_images(
    path: Path,
    source: dict[str, Any],
    *,
    resize: tuple[int, int] | None = None,
    colors: bool = False,
    form: Form = PLAIN,
) -> Dataset:
    """The images of a folder, or a single one, as a table: a row for each image, a column for each pixel.

    Sub-folders are the classes, in order of name, and their names are the labels; their images come in order of name. A
    folder with images and no sub-folder gives images without labels, as a single file does. Grey images have 256 levels
    (65536 with 16 bits) and the shape (height, width). As soon as one image has colors, all have the shape
    (height, width, 3). Images are turned upright as their cameras say (EXIF). Names that start with a dot are left out;
    so are files with other endings, with a notice.

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
    form : Form, optional
        How images are framed, their background and depth, and what becomes of those that cannot be read.

    Raises
    ------
    UserValueError
        No image; a folder in the folder of a class; images of several sizes without `resize`; a damaged, transparent or
        animated image, where `form` says nothing else; one with more than `MAX_PIXELS`, which is said before it is
        decoded; Pillow is absent.

    Notes
    -----
    Sizes are read from the headers first, so that memory is known before a pixel is decoded.
    """
    listed = image_files(path) if path.is_dir() else ImageFiles([path], None, None, [])
    folder = path if path.is_dir() else path.parent
    listed.tell_of_others(folder)
    if form.framing is not None and resize is None:
        raise UserValueError(f"framing by {form.framing} needs a size", "framing", "give resize, such as 64x64, too")
    broken = _Broken(folder, form)
    headers = broken.tried(listed.images, lambda file: header_of(file, folder, form))
    files = list(headers)
    if resize is None:
        _refuse_sizes(files, list(headers.values()), folder)
    mode = _mode(files, list(headers.values()), folder, colors)
    height, width = headers[files[0]][:2] if resize is None else resize
    shape = (height, width, 3) if mode == "RGB" else (height, width)
    if int(np.prod(shape)) > MAX_COLUMNS:
        what = f"images must have at most {MAX_COLUMNS} values, got {' x '.join(map(str, shape))}"
        raise UserValueError(what, path.name, "bring them to a smaller size: --resize 64x64, in Python resize=(64, 64)")
    check_size(len(files) * int(np.prod(shape)) * 4, f"{path.name}, all images together")
    X = np.empty((len(files), int(np.prod(shape))), np.float32)
    places = {file: row for row, file in enumerate(files)}

    def decode(file: Path) -> None:
        X[places[file]] = pixels_of(file, folder, mode, form, resize).reshape(-1)

    read = broken.tried(files, decode)
    broken.tell(listed)
    kept = np.array([file in read for file in listed.images])
    facts = {"form": form.to_json(), "left_out": broken.names, "resize": resize and list(resize)}
    return Dataset(
        path.name,
        X=X if len(read) == len(files) else X[[places[file] for file in read]],
        y=None if listed.labels is None else listed.labels[kept],
        columns=_columns(shape),
        images=shape,
        levels=65536 if mode == "I;16" else 256,
        classes=listed.classes,
        source=source | {name: fact for name, fact in facts.items() if fact},
    )


class _Broken:
    """The images that cannot be read: the first is refused, or all are left out and told of once."""

    def __init__(self, folder: Path, form: Form) -> None:
        self.folder, self.skips = folder, form.broken == "skip"
        self.errors: dict[Path, UserValueError] = {}

    def tried(self, files: Sequence[Path], act: Callable[[Path], T]) -> dict[Path, T]:
        """What an action gives for each file that can be read."""
        found: dict[Path, T] = {}
        for file in files:
            try:
                found[file] = act(file)
            except UserValueError as error:
                if not self.skips:
                    raise self.advised(error) from None
                self.errors[file] = error
        if not found:
            raise next(iter(self.errors.values()))
        return found

    def advised(self, error: UserValueError) -> UserValueError:
        """The refusal with the option that leaves such files out."""
        if "cannot be read" not in error.what:
            return error
        remedy = f"{error.remedy}, or leave such files out: --broken skip, in Python File(path, broken='skip')"
        return UserValueError(error.what, error.where, remedy)

    @property
    def names(self) -> list[str]:
        """The files that are left out, as paths from the folder, in order."""
        return sorted(str(file.relative_to(self.folder)) for file in self.errors)

    def tell(self, listed: ImageFiles) -> None:
        """One notice of all that is left out.

        Raises
        ------
        UserValueError
            A class of which no image can be read.
        """
        if not self.errors:
            return
        if listed.labels is not None:
            left = {label for label, file in zip(listed.labels, listed.images, strict=True) if file not in self.errors}
            lost = next((one for one in listed.classes or () if one not in left), None)
            if lost is not None:
                what = "no image of the folder can be read"
                raise UserValueError(what, f"{self.folder.name}/{lost}", "repair its files, or remove it")
        reasons = {str(file.relative_to(self.folder)): error.what for file, error in self.errors.items()}
        shown = "; ".join(f"{self.folder.name}/{name}: {reasons[name]}" for name in self.names[:NAMED])
        more = len(self.errors) - NAMED
        count = "1 image is" if len(self.errors) == 1 else f"{len(self.errors)} images are"
        warnings.warn(
            f"{count} left out ({shown}{f'; and {more} more' if more > 0 else ''})", UserWarning, stacklevel=2
        )


def image_names(path: Path, left_out: Collection[str] = ()) -> list[str]:
    """The files of images in the order in which `read_images` has them, as paths from the folder.

    Parameters
    ----------
    path : path
    left_out : collection of str
        Those that could not be read: ``source["left_out"]`` of the data set.
    """
    if not path.is_dir():
        return [path.name]
    names = [str(file.relative_to(path)) for file in image_files(path).images]
    return [name for name in names if name not in set(left_out)]


def left_out(path: Path, form: Form) -> list[str]:
    """The files that `read_images` leaves out as the form says, which are decoded for that."""
    if form.broken != "skip" or not path.is_dir():
        return []
    broken = _Broken(path, form)
    broken.tried(image_files(path).images, lambda file: pixels_of(file, path, header_of(file, path, form).mode, form))
    return broken.names


def _refuse_sizes(files: Sequence[Path], headers: Sequence[Header], folder: Path) -> None:
    height, width = headers[0][:2]
    for file, (h, w, _) in zip(files, headers, strict=True):
        if (h, w) != (height, width):
            where, first = file.relative_to(folder), files[0].relative_to(folder)
            what = f"the image has {h} x {w} pixels, {first} has {height} x {width}"
            remedy = f"bring all images to one size: --resize {height}x{width}, in Python resize=({height}, {width})"
            raise UserValueError(what, f"{folder.name}/{where}", remedy)


def _mode(files: Sequence[Path], headers: Sequence[Header], folder: Path, colors: bool) -> str:
    """Pillow's mode that takes all images without loss."""
    modes = {mode for _, _, mode in headers} | ({"RGB"} if colors else set())
    if "I;16" in modes and len(modes) > 1:
        deep = {mode == "I;16" for _, _, mode in headers}
        if len(deep) == 1:
            raise UserValueError("the image has 16 bits, and colors are needed", files[0].name, DEPTH)
        other = next(file for file, (_, _, mode) in zip(files, headers, strict=True) if mode != headers[0][2])
        what = "some images have 16 bits, some have 8"
        raise UserValueError(what, f"{folder.name}/{other.relative_to(folder)}", DEPTH)
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
