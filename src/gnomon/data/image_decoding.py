"""One image file: what its header says, and its pixels as all images of a set have them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.data.boundary import is_ours
from gnomon.data.form import Form
from gnomon.data.framing import center_offset
from gnomon.errors import UserError, UserValueError

__all__ = ["MAX_PIXELS", "Header", "framed", "header_of", "opened", "pixels_of"]

MAX_PIXELS = 1 << 26
"""Most pixels of one image: a small file may claim to hold more than memory can."""

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
"""What decoders are tried: those of `gnomon.data.sources.IMAGES`."""

_MODES = {
    "1": "L", "L": "L", "LA": "L", "La": "L", "P": "RGB", "PA": "RGB", "RGB": "RGB", "RGBA": "RGB", "RGBa": "RGB",
    "RGBX": "RGB", "CMYK": "RGB", "YCbCr": "RGB", "I;16": "I;16", "I;16L": "I;16", "I;16B": "I;16", "I;16N": "I;16",
}  # fmt: skip
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)
"""The tag of EXIF that says how a camera was held, and its values that exchange rows and columns."""
_TURNS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""Pillow's ``Transpose`` that undoes each of these values."""


class Header(NamedTuple):
    """What is known of an image before it is decoded."""

    height: int
    width: int
    mode: str
    """Pillow's mode that takes it without loss: ``L``, ``RGB`` or ``I;16``."""


def header_of(file: Path, folder: Path, form: Form) -> Header:
    """Height, width as it is looked at, and mode, without decoding.

    Raises
    ------
    UserValueError
        A damaged header, too many pixels, several frames, pixels that are neither grey nor colors.
    """
    where = f"{folder.name}/{file.relative_to(folder)}"
    with opened(file, folder) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise _too_large(f"{height} x {width},", where)
        if getattr(image, "n_frames", 1) > 1:
            raise UserValueError(f"the image has {image.n_frames} frames", where, "save one of them")
        if image.mode not in _MODES:
            raise UserValueError(f"images of mode {image.mode} cannot be read", where, "save it as grey or RGB")
        mode = _MODES[image.mode]
        if _orientation(image) in _TURNED:
            height, width = width, height
        return Header(height, width, "L" if mode == "I;16" and form.depth == "8" else mode)


def pixels_of(file: Path, folder: Path, mode: str, form: Form, size: tuple[int, int] | None = None) -> NDArray[Any]:
    """The pixels, upright, without transparency, in a mode and size.

    Parameters
    ----------
    file, folder : path
    mode : {"L", "RGB", "I;16"}
    form : Form
        How it is framed, what stands behind transparent pixels, how many levels there are.
    size : (int, int), optional
        Height and width.

    Raises
    ------
    UserValueError
        Damaged data, transparent pixels without a background, an image that is too small for its crop.
    """
    where = f"{folder.name}/{file.relative_to(folder)}"
    with opened(file, folder) as image:
        turned = _orientation(image)
        image.load()
        found = _opaque(image.transpose(_TURNS[turned]) if turned in _TURNS else image, form, where)
        if found.mode.startswith("I;16"):
            found = _of_levels(found, mode)
        if found.mode != mode:
            found = found.convert(mode)
        return np.asarray(found if size is None else framed(found, size, form.framing, where))


def _orientation(image: Any) -> int:
    """How the camera was held, 1 to 8, of an image that is not decoded yet; 1 of TIFF, which Pillow turns by itself."""
    from PIL import Image

    # not the PNG's own method, which decodes all of the image to see whether EXIF follows its pixels
    held = 1 if image.format == "TIFF" else Image.Image.getexif(image).get(_ORIENTATION, 1)
    return held if isinstance(held, int) else 1


def _opaque(image: Any, form: Form, where: str) -> Any:
    """The image on its background; one without any transparent pixel as it is."""
    from PIL import Image

    if not image.has_transparency_data:
        return image
    layers = image.convert("RGBA")
    if layers.getextrema()[3] == (255, 255):
        return image
    if form.backdrop is None:
        remedy = "put it on one: --backdrop white, in Python File(path, backdrop='white')"
        raise UserValueError("the image is transparent", where, remedy)
    found = Image.alpha_composite(Image.new("RGBA", layers.size, form.backdrop), layers)
    return found.convert("L" if image.mode in ("LA", "La", "L") else "RGB")


def _of_levels(image: Any, mode: str) -> Any:
    """An image of 16 bits in this machine's order of bytes, or with 8 bits: 0..65535 to the nearest of 0..255."""
    from PIL import Image

    levels = np.asarray(image).astype(np.uint32)  # Pillow's own conversion would cut at 255
    return Image.fromarray(levels.astype(np.uint16) if mode == "I;16" else ((levels + 128) // 257).astype(np.uint8))


def framed(image: Any, size: tuple[int, int], framing: str | None, where: str, *, nearest: bool = False) -> Any:
    """The image in another size, as an array or an image of Pillow.

    Parameters
    ----------
    image : PIL.Image.Image
    size : (height, width)
    framing : {"resize", "resize-crop", "center-crop"}, optional
        Stretched, also where left out; in proportion and cropped; or cropped alone.
    where : str
        What a refusal calls the image.
    nearest : bool, default False
        Whether pixels are picked and not mixed, as labels must be.

    Raises
    ------
    UserValueError
        An image that is too small for its crop.
    """
    height, width = size
    if framing == "center-crop" and (image.height < height or image.width < width):
        what = f"the image has {image.height} x {image.width} pixels, too few for a crop of {height} x {width}"
        raise UserValueError(what, where, "frame images by resize-crop, or crop less")
    if framing == "resize-crop":
        scale = max(height / image.height, width / image.width)
        inner = (max(height, round(image.height * scale)), max(width, round(image.width * scale)))
        image = _resized(image, inner, nearest)
    if framing in (None, "resize"):
        return _resized(image, size, nearest)
    pixels = np.asarray(image)
    top, left = center_offset(pixels.shape[0], height), center_offset(pixels.shape[1], width)
    return pixels[top : top + height, left : left + width]


def _resized(image: Any, size: tuple[int, int], nearest: bool) -> Any:
    """The image in another size; one of 16 bits by way of 32, which Pillow interpolates."""
    from PIL import Image

    if nearest:
        return image.resize(size[::-1], Image.Resampling.NEAREST)
    deep = image.mode == "I;16"
    found = (image.convert("I") if deep else image).resize(size[::-1], Image.Resampling.BILINEAR)
    return Image.fromarray(np.clip(np.asarray(found), 0, 65535).astype(np.uint16)) if deep else found


@contextmanager
def opened(file: Path, folder: Path) -> Iterator[Any]:
    """The image of a file, not decoded yet; what a decoder says of it becomes one line with its place in the folder."""
    try:
        from PIL import Image
    except ImportError:
        raise UserValueError("images need Pillow", "", "run: pip install pillow") from None
    where = f"{folder.name}/{file.relative_to(folder)}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of many pixels, which have an error of their own here
            # a stream: of a file that has a name Pillow reads uncompressed TIFF on its side wrongly
            with file.open("rb") as stream, Image.open(stream, formats=FORMATS) as image:
                yield image
    except Image.DecompressionBombError:
        raise _too_large("", where) from None
    except UserError:
        raise
    except Exception as error:  # whatever a decoder says of a damaged file
        if is_ours(error):
            raise
        reason = " ".join(str(error).split()).partition("<_io")[0].partition(str(file))[0].strip(" '")[:100]
        raise UserValueError(
            f"the image cannot be read: {reason or 'unknown format'}", where, "save it again"
        ) from None


def _too_large(size: str, where: str) -> UserValueError:
    what = f"the image has {size or 'far'} more than {MAX_PIXELS} pixels"
    return UserValueError(what, where, "make it smaller")
