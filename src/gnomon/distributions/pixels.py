"""Images of any size, and a label for each of their pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.arrays import plain
from gnomon.distributions.images import Images, size_of
from gnomon.errors import UserValueError
from gnomon.numeric.ragged import Dense

__all__ = ["UNKNOWN", "AnyImages", "PixelLabels", "by_size"]

UNKNOWN = -1
"""Label of a pixel that has none."""


@dataclass(frozen=True)
class AnyImages(Images):
    """Images whose rows and columns may be any number, and whose channels are those of the fit.

    Parameters
    ----------
    channels : int, optional
        What an image must have; anything where left out.

    Examples
    --------
    >>> AnyImages(channels=1).check(np.zeros((2, 5, 7))).shape
    (2, 5, 7, 1)
    """

    channels: int | None = None
    noun: ClassVar[str] = "images"

    def check(self, X: Any, *, name: str = "X", dtype: Any = None) -> Any:
        """As of `Images`; images with other channels than `channels` are refused."""
        images = super().check(X, name=name, dtype=dtype)
        if self.channels is not None and images.shape[3] != self.channels:
            what = f"{name} must have {_channels(self.channels)}, got images of {size_of(images.shape[1:])}"
            raise UserValueError(what, name, "give images like those of the fit")
        return images

    def columns(self, X: Any, field: Dense) -> Any:
        """None: an image has as many numbers as it likes."""
        return None

    def _declared(self, columns: int, name: str) -> tuple[int, ...]:
        what = f"{name} has flat rows of {columns} numbers, not images"
        raise UserValueError(what, name, "give (n, rows, columns) or (n, rows, columns, channels)")


def _channels(n: int) -> str:
    return "one channel" if n == 1 else f"{n} channels"


def by_size(X: Any) -> list[tuple[NDArray[np.int64], NDArray[Any]]] | None:
    """The images of a list in groups of one size, with their places; None where X is one array, or can become one.

    Examples
    --------
    >>> [(places.tolist(), images.shape) for places, images in by_size([np.zeros((2, 3)), np.ones((4, 4))])]
    [([0], (1, 2, 3)), ([1], (1, 4, 4))]
    """
    if not isinstance(X, list | tuple) or not X or not all(getattr(one, "ndim", 0) in (2, 3) for one in X):
        return None
    sizes: dict[tuple[int, ...], list[int]] = {}
    for place, one in enumerate(X):
        sizes.setdefault(np.shape(one), []).append(place)
    if len(sizes) == 1:
        return None
    return [(np.array(places), np.stack([X[place] for place in places])) for places in sizes.values()]


class PixelLabels:
    """A whole number for each pixel of images: its class, or -1 where it has none.

    Examples
    --------
    >>> classes, codes = PixelLabels().encode(np.array([[[7, 3], [-1, 7]]]), (1, 2, 2))
    >>> classes.tolist(), codes.tolist()
    ([3, 7], [[[1, 0], [-1, 1]]])
    """

    def encode(self, y: Any, shape: tuple[int, ...], name: str = "y") -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes in rising order, and the place of each label among them, -1 where a pixel has none.

        Parameters
        ----------
        y : array of shape (n, rows, columns)
            Whole numbers, also as floating ones, or truth values; -1 stands for no label.
        shape : (n, rows, columns)
            Of the images.
        name : str, default "y"

        Raises
        ------
        UserValueError
            Labels of another shape, or no whole numbers, with the pixel; no label at all.
        """
        labels = self.check(y, shape, name)
        classes = np.unique(labels)
        classes = classes[classes != UNKNOWN] if labels.dtype.kind != "b" else classes
        if not len(classes):
            raise UserValueError(f"no pixel in {name} has a label", name, "label some pixels: -1 stands for none")
        return classes, self.locate(labels, classes, shape, name)

    def locate(
        self, y: Any, classes: NDArray[Any], shape: tuple[int, ...], name: str = "y"
    ) -> NDArray[np.int64]:  # fmt: skip
        """The place of each label among known classes, -1 where a pixel has none, their number where it is another."""
        labels = self.check(y, shape, name)
        place = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        codes = np.where(classes[place] == labels, place, len(classes))
        return codes if labels.dtype.kind == "b" else np.where(labels == UNKNOWN, UNKNOWN, codes)

    def check(self, y: Any, shape: tuple[int, ...], name: str = "y") -> NDArray[Any]:
        """The labels as whole numbers or truth values; see `encode`."""
        if y is None:
            what = f"this system requires {name} to be passed, but the target {name} is None"
            raise UserValueError(what, name, "give a label for each pixel")
        labels = plain(y, name, "give a label for each pixel")
        if labels.shape != tuple(shape):
            what = f"{name} must have shape {tuple(shape)}, a label for each pixel, got {labels.shape}"
            raise UserValueError(what, name, "give an array (n, rows, columns)")
        if labels.dtype.kind in "bi":
            return labels
        if labels.dtype.kind == "u":
            return labels.astype(np.int64)
        if labels.dtype.kind != "f":
            raise UserValueError(f"labels of pixels must be whole numbers, got {labels.dtype}", name)
        wrong = ~np.isfinite(labels) | (labels != np.rint(labels))
        if wrong.any():
            first = np.argwhere(wrong)[0].tolist()
            what = f"labels of pixels must be whole numbers, got {labels[tuple(first)]:g}"
            axes = ("image", "row", "column")[-len(first) :]
            place = ", ".join(f"{axis} {number}" for axis, number in zip(axes, first, strict=True))
            raise UserValueError(what, place, "-1 stands for no label")
        return labels.astype(np.int64)

    def space(self, n_classes: int) -> str:
        """Name of the data space, for scores."""
        return f"pmf on {n_classes} classes of a pixel"
