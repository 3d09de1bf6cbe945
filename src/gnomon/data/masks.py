"""Images with a label for each pixel: a folder of images, and one of masks beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.form import PLAIN, Form
from gnomon.data.image_decoding import framed, opened
from gnomon.data.images import image_names, read_images
from gnomon.errors import UserValueError

__all__ = ["VOID", "holds_masks", "read_masked"]

VOID = 255
"""Level of a mask's pixels that have no label."""
MODES = ("1", "L", "P", "I", "I;16")
"""Pillow's modes whose values are whole numbers."""


def holds_masks(path: Path) -> bool:
    """Whether a folder has the folders ``images`` and ``masks`` in it."""
    return (path / "images").is_dir() and (path / "masks").is_dir()


def read_masked(
    path: Path, source: dict[str, Any], *, resize: tuple[int, int] | None = None, form: Form = PLAIN
) -> Dataset:
    """Images and the labels of their pixels: ``images/NAME.png`` goes with ``masks/NAME.png``.

    A mask is a grey or palette image of the size of its image, whose levels are the labels; 255 stands for no label
    and becomes -1.

    Parameters
    ----------
    path : path
    source : dict
        What the data set says about where it comes from.
    resize : (int, int), optional
        Height and width to which images are brought; masks take the nearest pixel.
    form : Form, optional
        See `gnomon.data.images.read_images`; masks are framed as their images are.

    Raises
    ------
    UserValueError
        An image without a mask or with two, a mask of another size or in colors; what
        `gnomon.data.images.read_images` refuses.
    """
    folder = path / "images"
    data = read_images(folder, source, resize=resize, form=form)
    assert data.images is not None
    listed: dict[str, list[str]] = {}
    for name in image_names(path / "masks"):
        listed.setdefault(_stem(name), []).append(name)
    height, width = data.images[:2]
    masks = np.empty((len(data), height, width), np.int64)
    for row, name in enumerate(image_names(folder, data.source.get("left_out", ()))):
        found = listed.get(_stem(name), [])
        where = f"{path.name}/images/{name}"
        if len(found) != 1:
            what = "the image has no mask" if not found else f"the image has {len(found)} masks"
            raise UserValueError(what, where, f"give one: {path.name}/masks/{_stem(name)}.png")
        masks[row] = _mask(path / "masks" / found[0], path, (height, width), resize, form)
    return replace(data, name=path.name, y=None, classes=None, masks=np.where(masks == VOID, -1, masks))


def _stem(name: str) -> str:
    return str(Path(name).with_suffix(""))


def _mask(file: Path, top: Path, size: tuple[int, int], resize: tuple[int, int] | None, form: Form) -> NDArray[Any]:
    """The levels of a mask."""
    where = f"{top.name}/{file.relative_to(top)}"
    with opened(file, top) as image:
        if image.mode not in MODES:
            what = f"masks must be grey or palette images, whose levels are the labels, got mode {image.mode}"
            raise UserValueError(what, where, "save the numbers of the classes")
        found = image if resize is None else framed(image, resize, form.framing, where, nearest=True)
        levels = np.asarray(found)
    if levels.shape != size:
        got = " x ".join(map(str, levels.shape))
        raise UserValueError(f"the mask has {got} pixels, its image {size[0]} x {size[1]}", where, "give one per pixel")
    return levels
