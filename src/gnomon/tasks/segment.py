"""Task segment: what every pixel of images that the fit has not seen belongs to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.loading import load
from gnomon.distributions.pixels import PixelLabels
from gnomon.evaluation.grids import enlargement, sample_grid
from gnomon.evaluation.overlays import label_colors
from gnomon.evaluation.score import Score
from gnomon.evaluation.segmentation import pixel_counts, segmentation_scores
from gnomon.tasks import pictures
from gnomon.tasks.of_images import OfImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CommonestLabel", "Segment"]

SHOWN = 8
"""Images that are drawn with truth and prediction."""


class CommonestLabel:
    """Every pixel gets the most frequent label of training."""

    title = "most frequent label"
    n_parameters = 1

    def fit(self, X: Any, y: Any) -> CommonestLabel:
        """The most frequent label; of equally frequent ones the least."""
        self.classes_, codes = PixelLabels().encode(y, np.shape(y))
        self.answer = int(np.bincount(codes[codes >= 0]).argmax())
        return self

    def predict(self, X: Any) -> Any:
        """The label, at every pixel."""
        return np.full(np.shape(X)[:3], self.classes_[self.answer])

    def pixel_counts(self, X: Any, y: Any) -> Any:
        """As of a system."""
        k = len(self.classes_)
        codes = PixelLabels().locate(y, self.classes_, np.shape(y))
        return pixel_counts(codes, np.full_like(codes, self.answer), k + int((codes == k).any()))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Mean intersection over union, and pixel accuracy."""
        counts = self.pixel_counts(X, y)
        return segmentation_scores(counts, [*self.classes_.tolist(), "unseen"])


class Segment(OfImages):
    """Intersection over union of the classes of pixels in held-out images."""

    name: ClassVar[str] = "segment"
    title: ClassVar[str] = "Segmentation"
    title_zh: ClassVar[str] = "图像分割"
    primary: ClassVar[str] = "mean_iou"
    verbs: ClassVar[tuple[str, ...]] = ("predict", "predict_proba")
    example_data: ClassVar[str] = "digit-scenes"

    def other_images(self, recipe: Mapping[str, Any], name: str | os.PathLike[str]) -> Dataset | None:
        """Images of any size and any number of grey levels: pixels are in [0, 1]."""
        return load(name)

    def marks(self, data: Dataset) -> Any:
        """Labels of pixels."""
        return data.view("masks")

    def check(self, data: Dataset, system: Any) -> None:
        """Images by the domain, and labels of pixels."""
        X, y = self.examples(data, system)
        images = system.domain.check(X, name=data.name)
        PixelLabels().encode(y, images.shape[:3], name=data.name)

    def board(self, system: Any) -> str:
        """Everybody labels the same pixels."""
        return "labels of pixels"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The most frequent label."""
        return CommonestLabel.title, CommonestLabel().fit(X, y)

    def metrics(
        self, system: Any, X: Any, y: Any, scores: Mapping[str, Score], data: Dataset | None = None
    ) -> dict[str, Score]:
        """Intersection over union of each class."""
        names = [*_names(system.classes_, data), "unseen"]
        found = segmentation_scores(system.pixel_counts(X, y), names, own=True)
        return {name: score for name, score in found.items() if "[" in name}

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Images with the true and the predicted labels of their pixels; which class was taken for which."""
        classes = system.classes_
        found = {"labeled_pixels": pictures.framed(beside(X[:SHOWN], y[:SHOWN], system.predict(X[:SHOWN]), classes))}
        counts = system.pixel_counts(X, y).sum(0)
        if len(classes) <= pictures.MOST_CLASSES and len(counts) == len(classes):
            found["confused_pixels"] = pictures.matrix(counts, [str(one) for one in classes])
        return found

    def example_answers(self, X: Any, group: Any, random: np.random.Generator) -> Any:
        """Whether a pixel is light, lighter or dark."""
        grey = np.asarray(X).reshape(*np.shape(X)[:3], -1).mean(3)
        return np.digitize(grey, [0.35, 0.7])


def beside(images: Any, true: Any, predicted: Any, classes: Any) -> np.ndarray[Any, Any]:
    """Image, true labels and predicted labels in threes, two of them a line; pixels without a label are gray."""
    images = np.asarray(images, np.float64)
    images = images[..., None] if images.ndim == 3 else images
    colored = np.broadcast_to(images[..., :3] if images.shape[3] >= 3 else images[..., :1], (*images.shape[:3], 3))
    maps = [label_colors(PixelLabels().locate(one, classes, np.shape(one))) for one in (true, predicted)]
    threes = np.stack([colored, *maps], axis=1).reshape(-1, *images.shape[1:3], 3)
    size = (*images.shape[1:3], 3)
    flat = np.clip(threes, 0, 1).reshape(len(threes), -1)
    return sample_grid(flat, size, across=6, factor=enlargement(size))


def _names(classes: Any, data: Dataset | None) -> list[str]:
    """What the classes are called, where the data says so."""
    known = () if data is None or data.classes is None else data.classes
    listed = np.asarray(classes).tolist()
    return [known[one] if 0 <= one < len(known) else str(one) for one in listed]
