"""Augmentation of the batches of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.augment.base import Augmentation, applied
from gnomon.data.augment.mixing import Mixing
from gnomon.data.augment.scene import Scene
from gnomon.data.batches import Batch
from gnomon.data.examples import Examples

__all__ = ["Augmenter"]


class Augmenter:
    """A transform of `gnomon.data.Batches`: every batch with its pictures changed.

    A picture is a function of the seed, the update and its place in the global batch, so that any number of processes
    and a fit that goes on see the same. What a mixture is made with comes from the whole training set, which every
    process holds: ``y_other``, its weight ``weight_other`` and the ``share`` of the row's own label go with the batch.

    Parameters
    ----------
    recipe : Augmentation
        Fitted here to the training images.
    examples : Examples
        The training rows.

    Raises
    ------
    UserValueError
        Images that it cannot change.
    """

    def __init__(self, recipe: Augmentation, examples: Examples) -> None:
        recipe.check(examples.X.shape[1:])
        self.examples = examples
        parts = recipe.fit(examples.X, examples.weight).parts
        self.mixing = next((one for one in parts if isinstance(one, Mixing)), None)
        self.parts = tuple(one for one in parts if one is not self.mixing)

    def __call__(self, batch: Batch, noise: Any) -> Batch:
        """The batch with other pictures; the one that was given stays as it is."""
        n = len(batch)
        if not n:
            return batch
        data = dict(batch.data)
        data["X"] = self._changed(data["X"], noise)
        if self.mixing is None:
            return Batch(data, batch.rows, batch.positions, batch.weight)
        other = noise.child("partner").integers(len(self.examples), (n, 1))[:, 0]
        others = self._changed(self.examples.X[other], noise.child("other"))
        data["X"], data["share"] = self.mixing.mix(data["X"], others, noise.child("mix"))
        data["y_other"], data["weight_other"] = self.examples.y[other], self.examples.weight[other]
        return Batch(data, batch.rows, batch.positions, batch.weight)

    def _changed(self, images: NDArray[Any], noise: Any) -> NDArray[Any]:
        return np.ascontiguousarray(applied(self.parts, Scene(images), noise).images)
