"""Task detect: what is where on images that the fit has not seen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.loading import load
from gnomon.distributions.boxes import BoxLabels
from gnomon.evaluation.boxes import box_iou
from gnomon.evaluation.detection import detection_scores
from gnomon.evaluation.score import Score
from gnomon.tasks.of_images import OfImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CommonestBox", "Detect"]

SHOWN = 8
"""Images that are drawn with their boxes."""
MOST = 1000
"""Boxes among which the commonest one is looked for."""


class CommonestBox:
    """On every image one box of the most frequent label: that of training which overlaps the others most."""

    title = "most frequent box"
    n_parameters = 5

    def fit(self, X: Any, y: Any) -> CommonestBox:
        """The box; of equally good ones the first."""
        boxes = BoxLabels().check(y, np.shape(X)[:3])
        boxes = boxes[boxes[..., 4] >= 0]
        labels, counts = np.unique(boxes[:, 4], return_counts=True)
        known = boxes[boxes[:, 4] == labels[counts.argmax()]][:MOST]
        best = known[box_iou(known[:, :4], known[:, :4]).sum(1).argmax()]
        self.answer = np.append(best, 1.0)
        return self

    def predict(self, X: Any) -> Any:
        """The box, for every image."""
        return np.tile(self.answer, (len(X), 1, 1))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Average precision and overlap."""
        return detection_scores(BoxLabels().check(y, np.shape(X)[:3]), self.predict(X))


class Detect(OfImages):
    """Average precision of the boxes on held-out images."""

    name: ClassVar[str] = "detect"
    title: ClassVar[str] = "Detection"
    title_zh: ClassVar[str] = "目标检测"
    primary: ClassVar[str] = "ap50"
    verbs: ClassVar[tuple[str, ...]] = ("detect", "predict")
    example_data: ClassVar[str] = "digit-boxes"

    def other_images(self, recipe: Mapping[str, Any], name: str | os.PathLike[str]) -> Dataset | None:
        """Images of any size and any number of grey levels: pixels are in [0, 1]."""
        return load(name)

    def marks(self, data: Dataset) -> Any:
        """Boxes with labels."""
        return data.view("boxes")

    def check(self, data: Dataset, system: Any) -> None:
        """Images by the domain, and boxes with labels."""
        X, y = self.examples(data, system)
        images = system.domain.check(X, name=data.name)
        BoxLabels().encode(y, images.shape[:3], name=data.name)

    def board(self, system: Any) -> str:
        """Everybody finds the same boxes."""
        return "boxes"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The most frequent box."""
        return CommonestBox.title, CommonestBox().fit(X, y)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Images with the boxes that are there and those that are found."""
        from matplotlib.figure import Figure as New
        from matplotlib.patches import Rectangle

        images = np.clip(np.asarray(X[:SHOWN], np.float64), 0, 1)
        figure = New(figsize=(8.0, 4.4), layout="constrained")
        parts = zip(figure.subplots(2, SHOWN // 2).ravel(), images, y, system.detect(images), strict=False)
        for axes in figure.axes:
            axes.axis("off")
        for axes, image, true, found in parts:
            axes.imshow(image.squeeze(), cmap="gray", vmin=0, vmax=1, extent=(0, image.shape[1], image.shape[0], 0))
            for boxes, color, style in ((np.asarray(true), "tab:green", "-"), (found, "tab:orange", "--")):
                for x1, y1, x2, y2, label, *_ in boxes[~np.isnan(boxes[:, 0])].tolist():
                    axes.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, color=color, linestyle=style))
                    if style == "--":
                        axes.text(x1, y1, f"{label:g}", color=color, fontsize=8, va="bottom")
        return {"boxes": figure}

    def example_answers(self, X: Any, group: Any, random: np.random.Generator) -> Any:
        """A box in the upper half of each image, elsewhere in each group."""
        rows, columns = np.shape(X)[1:3]
        left = np.choose(group, [0, columns // 2, columns // 4])
        corners = [left, 0, left + max(1, columns // 2), max(1, rows // 2)]
        return np.stack([*np.broadcast_arrays(*corners), group], 1)[:, None].astype(np.float64)
