"""What a classifier of images looks at: maps over pixels, feature maps, nearest training images, for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.errors import UserTypeError
from gnomon.evaluation.grids import enlargement, sample_grid
from gnomon.evaluation.hidden_windows import occlusion, window_of
from gnomon.evaluation.overlays import overlay_heat
from gnomon.numeric.noise import Noise
from gnomon.tasks.mistakes import worst_places

__all__ = ["MAPS", "Looked", "feature_grid", "image_shape", "images_of", "look", "neighbor_grid", "pick"]

Floats = NDArray[np.floating[Any]]

MAPS = {"grad-cam": "grad_cam", "gradient": "saliency", "occlusion": "occlusion"}
"""Ways to look at pixels, and the verbs of networks that do it; every classifier of images can be occluded."""


@dataclass(frozen=True)
class Looked:
    """Images, predictions, and a map over the pixels of each.

    Parameters
    ----------
    places : int64 array of shape (n,)
        Where the images stand among those that were given.
    images : array of shape (n, rows, columns, channels)
        In [0, 1].
    maps : array of shape (n, rows, columns)
        Of the predicted class.
    predicted : array of shape (n,)
    probability : array of shape (n,)
    """

    places: NDArray[np.int64]
    images: Floats
    maps: Floats
    predicted: NDArray[Any]
    probability: Floats

    def table(self, data: Dataset, true: Any = None) -> tuple[list[str], list[list[Any]]]:
        """The images as a table: number in the whole data, truth and prediction, the pixel with the largest value.

        Parameters
        ----------
        data : Dataset
            Of which the images are.
        true : array, optional
            Of all its rows.
        """
        numbers = self.places if data.rows is None else np.asarray(data.rows)[self.places]
        peaks = [np.unravel_index(int(one.argmax()), one.shape) for one in self.maps]
        columns: dict[str, Sequence[Any]] = {"row": numbers.tolist()}
        if true is not None:
            columns["true"] = np.asarray(true)[self.places].tolist()
        columns |= {
            "predicted": self.predicted.tolist(), "probability": [f"{one:.3g}" for one in self.probability],
            "strongest at": [f"{i}, {j}" for i, j in peaks], "there": [f"{one.max():.3g}" for one in self.maps],
        }  # fmt: skip
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def picture(self) -> Floats:
        """A line for each image: itself, and with its map over it, red for the class and blue against it."""
        return side_by_side([colored(self.images), overlay_heat(self.images, self.maps)])


def image_shape(system: Any, data: Dataset) -> tuple[int, int, int] | None:
    """(rows, columns, channels) of the images that rows of the data are to a system; None of a table."""
    known = (getattr(system, "arguments_", None) or {}).get("shape")
    shape = tuple(known) if known is not None and len(known) == 3 else data.images
    if shape is None or len(shape) not in (2, 3):
        return None
    rows, columns, *channels = (int(one) for one in shape)
    return rows, columns, channels[0] if channels else 1


def images_of(X: Any, shape: tuple[int, int, int]) -> Floats:
    """Rows as images between 0, black, and 1, white: scaled by all of them where they go beyond."""
    images = np.asarray(X, np.float64).reshape(-1, *shape)
    low, high = images.min(initial=0.0), images.max(initial=1.0)
    return (images - low) / (high - low)


def pick(system: Any, X: Any, y: Any, n: int, *, seed: int = 0, worst: bool = False) -> NDArray[np.int64]:
    """Places of n rows drawn at random, rising; or of the mistakes that the system is surest of, these first.

    Raises
    ------
    UserValueError
        Mistakes where the truth is not known, or where there are none.
    """
    return worst_places(system, X, y, n) if worst else np.sort(Noise(seed, "seen").order(len(X))[:n])


def look(
    system: Any, X: Any, places: NDArray[np.int64], shape: tuple[int, int, int], how: str = "grad-cam", *,
    stage: int | None = None,
) -> Looked:  # fmt: skip
    """Maps over the pixels of some rows, for the class that the system predicts of each.

    Parameters
    ----------
    system : System
        A fitted classifier of images; for all ways but occlusion a convolutional network.
    X : array of rows
        As its task gives them.
    places : int64 array
        Rows of X.
    shape : (rows, columns, channels)
    how : {"grad-cam", "gradient", "occlusion"}, default "grad-cam"
    stage : int, optional
        Of Grad-CAM.

    Raises
    ------
    UserTypeError
        A system that cannot be looked at in this way.
    """
    chosen = np.asarray(X)[places]
    if not hasattr(system, "predict_proba"):
        raise UserTypeError(f"{system.name} has no probabilities of classes", "", "choose a classifier that has")
    proba = np.asarray(system.predict_proba(chosen), np.float64)
    codes = proba.argmax(1)
    if hasattr(system, MAPS[how]):
        maps = getattr(system, MAPS[how])(chosen, **({} if stage is None else {"stage": stage}))
    elif how == "occlusion":
        maps = _occluded(system, chosen, codes, shape)
    else:
        remedy = "convolutional networks can; occlusion is for every classifier of images"
        raise UserTypeError(f"{system.name} cannot be looked at by {how}", "", remedy)
    sure = proba[np.arange(len(codes)), codes]
    images = images_of(chosen, shape) if maps.shape[1:] == shape[:2] else _as_seen(system, chosen.reshape(-1, *shape))
    return Looked(places, images, maps, np.asarray(system.classes_)[codes], sure)


def _as_seen(system: Any, images: Floats) -> Floats:
    """Images of another size behind the preprocessing of a network."""
    model = system.model_
    seen = model.ask(model.preparation, images.astype(model.state()["shift"].dtype))
    return images_of(seen, seen.shape[1:])


def _occluded(system: Any, X: Floats, codes: NDArray[Any], shape: tuple[int, int, int]) -> Floats:
    """Occlusion of a classifier that takes flat rows."""
    images = X.reshape(-1, *shape)
    return occlusion(
        lambda hidden: system.predict_proba(hidden.reshape(X.shape)), images, codes, **window_of(images)
    )  # fmt: skip


def feature_grid(maps: Floats, most: int = 64) -> Floats:
    """The feature maps of one image at one stage as a picture, on one scale; the first ones where there are many.

    Parameters
    ----------
    maps : array of shape (rows, columns, maps)
    most : int in [1, inf), default 64
    """
    shape = maps.shape[:2]
    return sample_grid(np.moveaxis(maps[..., :most], -1, 0), shape, factor=enlargement(shape))


def neighbor_grid(images: Floats, known: Floats, places: NDArray[np.int64]) -> Floats:
    """A line for each image: itself, then the known images at its places, all on one scale.

    Parameters
    ----------
    images : array of shape (n, rows, columns, channels)
    known : array of shape (m, rows, columns, channels)
    places : int64 array of shape (n, k)
    """
    columns = np.stack([images, *(known[column] for column in places.T)])
    scaled = images_of(columns, images.shape[1:]).reshape(columns.shape)
    return side_by_side([colored(column) for column in scaled])


def side_by_side(columns: Sequence[Floats]) -> Floats:
    """Images (n, rows, columns, 3) of several kinds, a line for each, as a picture."""
    n, shape = len(columns[0]), columns[0].shape[1:]
    lines = np.stack(columns, 1).reshape(n * len(columns), *shape)
    return sample_grid(lines, shape, across=len(columns) * math.ceil(n / 12), factor=enlargement(shape))


def colored(images: Floats) -> Floats:
    """Images of three channels; others become gray."""
    return images if images.shape[-1] == 3 else np.repeat(images.mean(-1, keepdims=True), 3, -1)
