"""What the classifiers of images share: taking images in, fitting by gradients, answering in chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array
from gnomon.data.dataset import no_images
from gnomon.data.examples import Examples
from gnomon.data.frames import needs_preparation
from gnomon.data.image_steps import AsTheyAre, ImagePreprocessing
from gnomon.data.preprocessing import channel_units
from gnomon.distributions.images import Images, size_of
from gnomon.errors import UserValueError
from gnomon.nn.image_steps import ImageStepLayer
from gnomon.nn.module import Module
from gnomon.objectives.criterion import ClassificationLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype
from gnomon.system.given_images import tell_of_bytes
from gnomon.system.prediction import Classifier

__all__ = ["ImageClassifier", "ImageModel", "too_small", "whole_numbers"]


class ImageModel(Module):
    """A network over images, channels last outside and channels first inside, pixels standardized by channel.

    A step of preprocessing, `preparation`, may stand before all else; the shape is that of the images behind it.

    Parameters
    ----------
    shape : (rows, columns, channels)
    dtype : torch.dtype
    """

    chunk: ClassVar[int] = 1 << 16
    """Numbers of the images that are looked at together: feature maps of more leave the processor's caches."""

    def __init__(self, shape: tuple[int, int, int], dtype: torch.dtype) -> None:
        super().__init__()
        self.shape = shape
        self.shift: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("shift", torch.zeros(shape[2], dtype=dtype))
        self.register_buffer("scale", torch.ones(shape[2], dtype=dtype))
        self.preparation: ImageStepLayer | None = None

    def first(self, x: torch.Tensor) -> torch.Tensor:
        """Standardized images (n, channels, rows, columns) of images (n, rows, columns, channels)."""
        if self.preparation is not None:
            x = self.preparation(x)
        # channels stay last in memory: convolutions of several channels are faster for it (benchmarks/convolutional.py)
        return ((x - self.shift) / self.scale).contiguous().permute(0, 3, 1, 2)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes, shape (n, n_classes), of images (n, rows, columns, channels)."""
        raise NotImplementedError

    def standardize(self, images: Array, weight: Array) -> None:
        """What preprocessing learns, then mean and spread of each channel of its images; weights included.

        Parameters
        ----------
        images : array of shape (n, rows, columns, channels)
            That train.
        weight : array of shape (n,)
        """
        change = None
        if self.preparation is not None:
            ready = self.preparation.recipe.fit(images, weight)
            self.preparation.take(ready)
            change = ready.transform
        shift, scale = channel_units(images, weight, change)
        self.shift.copy_(torch.from_numpy(shift))
        self.scale.copy_(torch.from_numpy(scale))


class ImageClassifier(ByGradient, HasDtype, Classifier):
    """Base of the classifiers of images; a subclass gives `make` and `initialize`."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"loss": ClassificationLoss, "preprocess": ImagePreprocessing}

    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"image_shape": {"image_shape": (8, 8)}}

    image_shape: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...] | None,
        Doc("(rows, columns) or (rows, columns, channels) of flat rows of numbers; arrays of images need none."),
    ] = None
    loss: Annotated[
        str | Recipe, Doc("Of the scores and the classes: class weights, smoothing; see `gnomon.objectives.losses`.")
    ] = "cross-entropy"
    preprocess: Annotated[
        str | Recipe,
        Doc(
            "What is done to images, in training and later, before their channels are standardized: contrast, "
            "whitening, the mean image, another size; see `gnomon.data.image_steps`."
        ),
    ] = "none"

    @property
    def domain(self) -> Any:
        """Images, flat rows of numbers among them where `image_shape` is given."""
        return Images(None if self.image_shape is None else tuple(self.image_shape))

    def check_parameters(self) -> None:
        super().check_parameters()
        shape = self.image_shape
        if shape is not None:
            whole_numbers("image_shape", shape, (2, 3), "(rows, columns) or (rows, columns, channels)")
        if not self.recipe("preprocess").gives_images:
            raise UserValueError("a network needs images, got components", "preprocess", "give kind zca")

    # --- images in ----------------------------------------------------------------------------------------------

    def known_domain(self) -> Any:
        domain = self.domain
        return Images(tuple(self.arguments_["shape"])) if isinstance(domain, Images) else domain

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if needs_preparation(X):
            raise no_images("X")
        examples = super().ingest(X, y, sample_weight)
        tell_of_bytes(X)
        return examples

    def arguments(self, examples: Examples) -> dict[str, Any]:
        shape = [int(size) for size in examples.X.shape[1:]]
        found = {"shape": shape, "n_classes": len(self.classes_), "dtype": str(examples.X.dtype)}
        step = self.recipe("preprocess")
        return found if isinstance(step, AsTheyAre) else found | {"preprocess": step}

    # --- fit and answers ----------------------------------------------------------------------------------------

    def make_objective(self) -> Supervised:
        return Supervised(self.recipe("loss"))

    def class_log_proba(self, rows: np.ndarray[Any, Any]) -> Array:
        log_p: Array = self.recipe("loss").class_log_proba(self.model_.ask("scores", rows))
        return log_p


def whole_numbers(name: str, values: Any, lengths: tuple[int, ...], form: str) -> None:
    """Refuse what is no tuple of whole numbers >= 1 of one of these lengths."""
    good = isinstance(values, tuple | list) and all(
        isinstance(one, int | np.integer) and not isinstance(one, bool) and one >= 1 for one in values
    )
    if not good or len(values) not in lengths:
        raise UserValueError(f"{name} must be {form}, whole numbers >= 1, got {values!r}", name)


def too_small(shape: tuple[int, ...], least: int, what: str) -> UserValueError:
    """The refusal of images that a network's windows do not fit into."""
    return UserValueError(
        f"images of {size_of(shape)} are too small for {what}", "X", f"give {least} x {least} pixels or more"
    )
