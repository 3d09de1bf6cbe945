"""Looking inside a network of images: gradients, occlusion, Grad-CAM, the nearest of known images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.evaluation.hidden_windows import nearest_rows, occlusion, window_of
from gnomon.nn.attribution import grad_cam, input_gradient

__all__ = ["Looks"]

CHUNK = 1 << 16
"""Numbers of images that are looked at together where gradients are taken: each layer's outputs are held for these."""
BLOCK = 1024
"""Known images whose features are held together."""


class Looks:
    """What a network of images sees, for systems whose model has ``features`` and ``scores``."""

    model_: Any

    def saliency(self, X: Any, classes: Any = None, *, signed: bool = False) -> Array:
        """How much each pixel would move the score of a class: the size of its derivative.

        Parameters
        ----------
        X : array of images
        classes : label, or array of n labels, optional
            Whose scores are looked at; the predicted class of each image where left out.
        signed : bool, default False
            Whether the derivatives by every channel are given, with their signs, and not the largest size of a pixel's.

        Returns
        -------
        array of shape (n, rows, columns), or (n, rows, columns, channels)
            In units of the score for pixels from 0 to 1.

        Raises
        ------
        NotFittedError
            Before a fit.
        UserValueError
            A class that is in no training row.
        """
        rows, codes = self._looked_at(X, classes)
        model = self.model_
        found: Array = model.ask(lambda x, c: input_gradient(model.scores, x, c), rows, codes, chunk=CHUNK)
        return found if signed else np.abs(found).max(-1)

    def grad_cam(self, X: Any, classes: Any = None, *, stage: int = -1, resize: bool = True) -> Array:
        """Where in an image a class is seen (Grad-CAM): feature maps weighed by what they are worth to its score.

        Parameters
        ----------
        X : array of images
        classes : label, or array of n labels, optional
            The predicted class of each image where left out.
        stage : int, default -1
            Whose maps are taken, as of `features`: late ones know classes, early ones places.
        resize : bool, default True
            Whether the result has the rows and columns of the images, as the network sees them, not those of the maps.

        Returns
        -------
        array of shape (n, rows, columns)
            At least 0; all 0 where no map speaks for the class.

        Raises
        ------
        NotFittedError
            Before a fit.
        UserValueError
            A class that is in no training row, a stage that is not there.
        """
        rows, codes = self._looked_at(X, classes)
        model, total = self.model_, len(self.model_.features)
        if not hasattr(stage, "__index__") or not -total <= stage < total:
            raise UserValueError(f"stage must be a whole number from -{total} to {total - 1}, got {stage!r}", "stage")
        size = tuple(model.shape[:2]) if resize else None
        layer = model.features[stage]
        found: Array = model.ask(lambda x, c: grad_cam(model.scores, layer, x, c, size), rows, codes, chunk=CHUNK)
        return found

    def occlusion(
        self, X: Any, classes: Any = None, *, window: int | None = None, stride: int | None = None, fill: Any = None
    ) -> Array:
        """How much the probability of a class falls when a window of an image is hidden, by pixel.

        Parameters
        ----------
        X : array of images
        classes : label, or array of n labels, optional
            The predicted class of each image where left out.
        window : int in [1, inf), optional
            Side of the square; a quarter of the image's shorter side where left out.
        stride : int in [1, window], optional
            Pixels between windows; half of one where left out.
        fill : number or array of shape (channels,), optional
            What stands in a window, from 0 to 1; the mean of each image where left out.

        Returns
        -------
        array of shape (n, rows, columns)
            Mean over the windows that lie on a pixel; below 0 where what is seen speaks against the class.

        Raises
        ------
        NotFittedError
            Before a fit.
        UserValueError
            A class that is in no training row, a window or stride that does not fit.
        """
        rows, codes = self._looked_at(X, classes)
        return occlusion(self._probabilities, rows, codes, **window_of(rows, window, stride, fill))

    def nearest(self, X: Any, among: Any, k: int = 5) -> tuple[Array, Array]:
        """Of each image the k nearest of known ones, in the features that the last layer reads.

        Parameters
        ----------
        X : array of images
        among : array of images
            Those that are searched: of the training, say.
        k : int in [1, inf), default 5

        Returns
        -------
        places : int64 array of shape (n, k)
            In `among`, the nearest first.
        distances : array of shape (n, k)
            Euclidean, between features.

        Raises
        ------
        NotFittedError
            Before a fit.

        Notes
        -----
        The features are the inputs of the last dense layer; where a mean over places is last, the means of the last
        feature maps. Those of 1,024 known images are held at a time.
        """
        check_is_fitted(self)
        known = self._rows(among)  # type: ignore[attr-defined]
        blocks = (self._embedded(known[start : start + BLOCK]) for start in range(0, len(known), BLOCK))
        return nearest_rows(self._embedded(self._rows(X)), blocks, k)  # type: ignore[attr-defined]

    def _looked_at(self, X: Any, classes: Any) -> tuple[Array, Array]:
        """Images as the model takes them, and the place of the class that is asked about for each."""
        check_is_fitted(self)
        rows = self._rows(X)  # type: ignore[attr-defined]
        if classes is None:
            return rows, self._probabilities(rows).argmax(1)
        labels = np.asarray(classes)
        if labels.ndim == 0:
            labels = np.full(len(rows), labels[()])
        return rows, self.encode_target(labels, rows)  # type: ignore[attr-defined]

    def _probabilities(self, rows: Array) -> Array:
        found: Array = np.exp(self.class_log_proba(rows))  # type: ignore[attr-defined]
        return found

    def _embedded(self, rows: Array) -> Array:
        """What the last dense layer reads, (n, d); without one the means of the last feature maps."""
        model = self.model_
        layers = [one for one in model.modules() if isinstance(one, nn.Linear | nn.Conv2d)]
        if not isinstance(layers[-1], nn.Linear):
            found: Array = model.ask(lambda x: model.feature_maps(x, [-1 % len(model.features)])[0].mean((2, 3)), rows)
            return found
        read: list[torch.Tensor] = []
        hook = layers[-1].register_forward_pre_hook(lambda _, given: read.append(given[0]))

        def embed(x: torch.Tensor) -> torch.Tensor:
            model.scores(x)
            return read.pop()

        try:
            found = model.ask(embed, rows)
        finally:
            hook.remove()
        return found
