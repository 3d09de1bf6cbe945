"""A detector of boxes: for each cell of a grid what has its center there, and how large it is."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.distributions.boxes import BoxLabels
from gnomon.evaluation.boxes import non_maximum_suppression
from gnomon.evaluation.detection import detection_scores
from gnomon.evaluation.score import Score
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.convolution import convolution
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.stages import conv_stages
from gnomon.numeric.given import checked
from gnomon.objectives.cell_boxes import CellBoxes
from gnomon.recipes.fields import Doc
from gnomon.systems.vision._images import ImageModel
from gnomon.systems.vision._staged import StagedNetwork

__all__ = ["BoxDetector", "BoxDetectorModel"]

Floats = NDArray[np.float64]

LEAST = 0.01
"""Probability from which on a box is found at all: precision is judged at every recall."""
MOST = 100
"""Boxes of an image at most."""
TOGETHER = 64
"""Images whose boxes are compared together."""
LARGEST = 8.0
"""Log of the largest size of a box in cells."""


class BoxDetectorModel(ImageModel):
    r"""Stages of convolutions, and a 1 x 1 convolution for the scores and the box of each cell of their last maps.

    A cell at row i and column j of a grid of cells of s x s pixels, whose box has the numbers t, says that there is a
    box of center :math:`s (j + 1/2 + t_1), s (i + 1/2 + t_2)`, width :math:`s e^{t_3}` and height :math:`s e^{t_4}`.

    Parameters
    ----------
    image_channels, n_classes : int
    channels : tuple of int
        Maps of each stage.
    convolutions, window, batch_norm, activation, dtype
        As of `gnomon.nn.stages.conv_stages`.

    Attributes
    ----------
    stride : int
        s: :math:`2^{stages - 1}`.

    Examples
    --------
    >>> net = BoxDetectorModel(1, 3, channels=(4, 8))
    >>> net.cells(torch.zeros(2, 5, 8, 1)).shape, net.stride
    (torch.Size([2, 3, 4, 8]), 2)
    """

    backbone: ClassVar[tuple[str, ...]] = ("shift", "scale", "stages.")

    def __init__(
        self,
        image_channels: int,
        n_classes: int,
        *,
        channels: tuple[int, ...] = (16, 32, 64),
        convolutions: int = 2,
        window: int = 3,
        batch_norm: bool = True,
        activation: Activation | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__((1, 1, image_channels), dtype)
        unit = activation or ReLU()
        self.gain, self.stride = unit.gain, 2 ** (len(channels) - 1)
        self.stages = conv_stages(
            image_channels, channels, convolutions=convolutions, window=window, unit=unit, norm=batch_norm, dtype=dtype
        )
        self.head = convolution(channels[-1], 1 + n_classes + 4, 1, dtype=dtype)

    def cells(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of background and classes, and the numbers t, of images; (n, rows, columns, 1 + n_classes + 4)."""
        rows, columns = x.shape[1:3]
        maps = functional.pad(self.first(x), (0, -columns % self.stride, 0, -rows % self.stride))
        for stage in self.stages:
            maps = stage(maps)
        found: torch.Tensor = self.head(maps).permute(0, 2, 3, 1)
        return found

    def initialize(self, initializer: Initializer, noise: Noise) -> None:
        """Initial weights: convolutions with the gain of the units behind them."""
        initialize(
            self, initializer, noise, gain={f"stages.{name}": self.gain for name, _ in self.stages.named_modules()}
        )


class BoxDetector(StagedNetwork):
    r"""Detector of objects: the box, the class and its probability of everything on an image, of images of any size.

    Stages of convolutions make a grid of cells. Each cell has the probabilities p of the classes and of nothing, and a
    box t (`BoxDetectorModel`). The cell that holds the center of a box is responsible for it; of several boxes with
    their center in one cell, for the smallest. The loss is :math:`\sum_c -\log p_c(y_c) + \lambda \sum_{c: y_c > 0}
    s(t_c - \hat t_c)`, a cross-entropy over all cells and a smooth absolute error over those that are responsible. Of
    boxes of one class that overlap too much the likeliest is kept (non-maximum suppression).

    A box is x1, y1, x2, y2 in edges of pixels: an image of W columns and H rows is 0, 0, W, H. y is a list of an array
    (m, 5) for each image, x1, y1, x2, y2 and the label, a whole number; m may be 0. Boxes labeled -1 are to be ignored:
    cells with their center in them are not learned from, and what is found there is not scored.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, rising.
    history_ : dict of lists
        ``loss``, ``cross_entropy`` (nats per image), ``box_error``, ``gradient_norm``, ``learning_rate`` by epoch.

    Notes
    -----
    Images are arrays (n, rows, columns) or (n, rows, columns, channels) of numbers in [0, 1], or bytes, which are
    divided by 255. `detect` and `predict` also take a list of images of several sizes. Two objects whose centers lie
    within one cell, ``model_.stride`` pixels either way, cannot both be found: fewer stages make smaller cells. There
    are no anchors. Source: Zhou, Wang and Krähenbühl (2019), Objects as points, with the cross-entropy and one grid
    of Redmon et al. (2016), You only look once.

    Examples
    --------
    >>> X = np.zeros((32, 8, 8))
    >>> at = np.arange(32) % 6
    >>> for image, place in zip(X, at):
    ...     image[2:5, place : place + 2] = 1
    >>> y = np.stack([at, 2 + 0 * at, at + 2, 5 + 0 * at, 7 + 0 * at], 1)[:, None]
    >>> net = BoxDetector(channels=(8, 8), epochs=8, batch_size=16, learning_rate=0.02, random_state=0).fit(X, y)
    >>> len(net.detect(X)), net.predict(X).shape
    (32, (32, 16, 6))
    """

    name: ClassVar[str] = "box-detector"
    tasks: ClassVar[tuple[str, ...]] = ("detect",)
    primary: ClassVar[str] = "ap50"
    model_class: ClassVar[type] = BoxDetectorModel

    box_weight: Annotated[float, "(0, inf)", Doc("Weight of the boxes' errors beside the cross-entropy.")] = 1.0
    epochs: int = 40

    @property
    def stride(self) -> int:
        """Pixels of a cell either way."""
        return int(2 ** (len(self.channels) - 1))

    def coded(self, y: Any, shape: tuple[int, ...]) -> Floats:
        self.classes_, boxes = BoxLabels().encode(y, shape)
        return cell_targets(boxes, shape, self.stride)

    def encode_target(self, y: Any, rows: Any) -> Floats:
        boxes = BoxLabels().locate(y, self.classes_, rows.shape[:3])
        boxes[boxes[..., 4] == len(self.classes_), 4] = -1  # of a class that cannot be found nothing is asked
        return cell_targets(boxes, rows.shape[:3], self.stride)

    def make(
        self, *, image_channels: int, n_classes: int, dtype: str, channels: Any, **layers: Any
    ) -> BoxDetectorModel:
        chosen = tuple(int(maps) for maps in channels)
        return BoxDetectorModel(image_channels, n_classes, channels=chosen, dtype=getattr(torch, dtype), **layers)

    def make_objective(self) -> CellBoxes:
        return CellBoxes(self.box_weight)

    # --- verbs --------------------------------------------------------------------------------------------------

    @checked
    def detect(self, X: Any, *, threshold: float = 0.5, iou: float = 0.5) -> list[Floats]:
        """What is on images, and where.

        Parameters
        ----------
        X : array of images of any size, or a list of images of several sizes
            With the channels of the fit.
        threshold : float in [0, 1], default 0.5
            Least probability of the class of a box.
        iou : float in [0, 1], default 0.5
            Overlap beyond which of two boxes of one class the less likely one is dropped.

        Returns
        -------
        list of arrays of shape (m, 6)
            x1, y1, x2, y2, label and probability of the boxes on each image, the likeliest first, at most 100.
        """
        found = self.of_each(X, lambda rows: list(self._found(rows, threshold, iou)))
        return [one[~np.isnan(one[:, 0])] for one in found]

    def predict(self, X: Any) -> Any:
        """The boxes of `detect` in one array (n, m, 6), filled up with rows of label -1 and else 0; of a list a list.

        Parameters
        ----------
        X : as of `detect`
        """
        return self.of_each(X, lambda rows: _filled(self._found(rows, 0.5, 0.5)))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Average precision and overlap of what is found: `gnomon.evaluation.detection.detection_scores`."""
        rows = self._rows(X)
        return detection_scores(BoxLabels().check(y, rows.shape[:3]), self._found(rows, LEAST, 0.5))

    def score(self, X: Any, y: Any = None) -> float:
        """Average precision at an overlap of one half."""
        return float(self.evaluate(X, y)[self.primary].value)

    def _found(self, rows: Any, threshold: float, iou: float) -> Floats:
        """x1, y1, x2, y2, label and probability, (n, m, 6), the likeliest first, NaN where there are fewer boxes."""
        cells = self.model_.ask("cells", rows).astype(np.float64)
        parts = [
            decoded(cells[begin : begin + TOGETHER], rows.shape[1:3], self.stride, threshold, iou)
            for begin in range(0, max(1, len(cells)), TOGETHER)
        ]
        found: Floats = np.concatenate(parts)
        there = ~np.isnan(found[..., 4])
        found[there, 4] = self.classes_[found[there, 4].astype(np.int64)]
        return found


def cell_targets(boxes: Floats, shape: tuple[int, ...], stride: int) -> Floats:
    """What each cell shall say of boxes (n, m, 5): class from 1, 0 for nothing, -1 for not asked; then its numbers t.

    Examples
    --------
    >>> targets = cell_targets(np.array([[[0.0, 0.0, 2.0, 4.0, 6.0]]]), (1, 4, 6), 2)
    >>> targets.shape, targets[0, 1, 0].round(2).tolist(), targets[..., 0].sum()
    ((1, 2, 3, 5), [7.0, 0.0, -0.5, 0.0, 0.69], np.float64(7.0))
    """
    n, rows, columns = shape[0], -(-shape[1] // stride), -(-shape[2] // stride)
    targets = np.zeros((n, rows, columns, 5))
    center = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1) * stride + stride / 2
    ignored = boxes[boxes[..., 4] == -1]
    owner = np.nonzero(boxes[..., 4] == -1)[0]
    if len(ignored):
        first, last = ignored[:, None, None, :2], ignored[:, None, None, 2:4]
        inside = ((center >= first) & (center < last)).all(-1)
        np.minimum.at(targets[..., 0], owner, np.where(inside, -1.0, 0.0))
    image, place = np.nonzero(boxes[..., 4] >= 0)
    own = boxes[image, place]
    size, middle = own[:, 2:4] - own[:, :2], (own[:, 2:4] + own[:, :2]) / 2
    largest_first = np.argsort(-size.prod(1), kind="stable")
    image, own = image[largest_first], own[largest_first]
    size, middle = size[largest_first], middle[largest_first]
    at = np.clip((middle // stride).astype(np.int64), 0, [columns - 1, rows - 1])
    numbers = np.concatenate([own[:, 4:] + 1, middle / stride - at - 0.5, np.log(size / stride)], 1)
    targets[image, at[:, 1], at[:, 0]] = numbers  # of several the last stays
    return targets


def decoded(cells: Floats, size: tuple[int, int], stride: int, threshold: float, iou: float) -> Floats:
    """Boxes (n, m, 6) of the answers of cells, with the place of the class, cut at the border of images of `size`."""
    n, rows, columns = cells.shape[:3]
    scores = cells[..., :-4] - cells[..., :-4].max(-1, keepdims=True)
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    best = p[..., 1:].argmax(-1)
    probability = np.take_along_axis(p[..., 1:], best[..., None], -1)
    at = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1) + 0.5
    middle = (at + cells[..., -4:-2]) * stride
    half = np.exp(np.minimum(cells[..., -2:], LARGEST)) * stride / 2
    corners = np.clip(np.concatenate([middle - half, middle + half], -1), 0, [size[1], size[0]] * 2)
    every = np.concatenate([corners, best[..., None], probability], -1).reshape(n, rows * columns, 6)
    order = np.argsort(-every[..., 5], axis=1, kind="stable")[:, :MOST]
    found: Floats = np.take_along_axis(every, order[..., None], 1)
    found[found[..., 5] < threshold] = np.nan
    found[~non_maximum_suppression(found[..., :4], found[..., 5], found[..., 4], iou=iou)] = np.nan
    last = np.argsort(np.isnan(found[..., 0]), axis=1, kind="stable")
    return np.take_along_axis(found, last[..., None], 1)


def _filled(found: Floats) -> Floats:
    none = np.array([0.0, 0.0, 0.0, 0.0, -1.0, 0.0])
    return np.where(np.isnan(found), none, found)
