"""What networks share that give every pixel of an image a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from gnomon.contracts import Array
from gnomon.distributions.pixels import PixelLabels
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.evaluation.segmentation import pixel_counts, segmentation_scores
from gnomon.objectives.criterion import ClassificationLoss
from gnomon.objectives.per_place import PerPlace
from gnomon.recipes.recipe import Recipe
from gnomon.system.prediction import without_nan
from gnomon.systems.vision._staged import StagedNetwork

__all__ = ["PixelClassifier"]


class PixelClassifier(StagedNetwork):
    """Base of the networks that label pixels; a subclass gives `make` and `initialize`.

    Its model has ``scores(x)``, shape (n, rows, columns, n_classes), of any images (n, rows, columns, channels).

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, rising; -1, which stands for no label, is none.
    """

    tasks: ClassVar[tuple[str, ...]] = ("segment",)
    primary: ClassVar[str] = "mean_iou"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"loss": ClassificationLoss}

    def coded(self, y: Any, shape: tuple[int, ...]) -> Any:
        self.classes_, codes = PixelLabels().encode(y, shape)
        if len(self.classes_) < 2:
            raise UserValueError(f"y must hold at least 2 classes, got only {self.classes_.tolist()[0]!r}", "y")
        return codes

    def encode_target(self, y: Any, rows: Any) -> Any:
        codes = PixelLabels().locate(y, self.classes_, rows.shape[:3])
        unseen = codes == len(self.classes_)
        if unseen.any():
            image, row, column = (int(i) for i in np.argwhere(unseen)[0])
            what = f"class {np.asarray(y)[image, row, column]} is in no training image"
            raise UserValueError(what, f"image {image}, row {row}, column {column}", "add images of it, or give -1")
        return codes

    def make_objective(self) -> PerPlace:
        return PerPlace(self.recipe("loss"))

    # --- verbs --------------------------------------------------------------------------------------------------

    def class_log_proba(self, rows: Any) -> Array:
        """Log probabilities of the classes at every pixel, shape (n, rows, columns, n_classes)."""
        scores = self.model_.ask("scores", rows)
        k = scores.shape[-1]
        log_p: Array = self.recipe("loss").class_log_proba(without_nan(scores.reshape(-1, k)))
        return log_p.reshape(scores.shape)

    def predict(self, X: Any) -> Any:
        """The likeliest class of each pixel; ties go to the first.

        Parameters
        ----------
        X : array of images of any size, or a list of images of several sizes
            With the channels of the fit.

        Returns
        -------
        array of shape (n, rows, columns), or a list of arrays (rows, columns)
        """
        return self.of_each(X, lambda rows: self.classes_[np.argmax(self.class_log_proba(rows), axis=-1)])

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes at each pixel, (n, rows, columns, n_classes), or a list; X as of `predict`."""
        return self.of_each(X, lambda rows: np.exp(self.class_log_proba(rows)))

    def predict_log_proba(self, X: Any) -> Any:
        """Log probabilities of the classes at each pixel, as of `predict_proba`."""
        return self.of_each(X, self.class_log_proba)

    def pixel_counts(self, X: Any, y: Any) -> Array:
        """Pixels of each image by true and predicted class: `gnomon.evaluation.segmentation.pixel_counts`.

        One more class stands behind those of the fit where y has classes that the fit has not seen.
        """
        found, k = self.predict(X), len(self.classes_)
        if y is None or not hasattr(y, "__len__"):
            raise UserValueError(
                "y must have a label for each pixel, got none", "y", "give an array, or a list of some"
            )
        if len(found) != len(y):
            raise UserValueError(f"y must have labels of {len(found)} images, got {len(y)}", "y")
        codes = [PixelLabels().locate(one, self.classes_, np.shape(image)) for one, image in zip(y, found, strict=True)]
        more = any((one == k).any() for one in codes)
        return pixel_counts(codes, [np.searchsorted(self.classes_, one) for one in found], k + int(more))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Mean intersection over union and pixel accuracy: `gnomon.evaluation.segmentation.segmentation_scores`.

        Pixels labeled -1 are left out. A class that the fit has not seen counts as wrong wherever it is.
        """
        counts = self.pixel_counts(X, y)
        return segmentation_scores(counts, [*self.classes_.tolist(), "unseen"][: counts.shape[1]])

    def score(self, X: Any, y: Any = None) -> float:
        """Mean intersection over union."""
        return float(self.evaluate(X, y)[self.primary].value)
