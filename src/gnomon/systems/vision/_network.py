"""What convolutional classifiers share: features, a head, the activation and initial weights of choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon.contracts import Array, Noise
from gnomon.data.augment.base import Augmentation
from gnomon.data.augment.training import Augmenter
from gnomon.data.examples import Examples
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.dropout import Dropout
from gnomon.nn.image_steps import ImageStepLayer
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.layers import dense
from gnomon.nn.pooling import GlobalPool
from gnomon.nn.unshared import PlacedKernels
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.vision._images import ImageClassifier, ImageModel, too_small
from gnomon.systems.vision._looking import Looks
from gnomon.systems.vision._torchvision import by_our_names

__all__ = ["ConvNet", "ConvNetModel", "Stem", "map_shape"]

Stem = Literal["small", "large"]
"""First layers that keep rows and columns, or those of photographs, which leave a fourth or fewer."""

WEIGHTED = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d, PlacedKernels)
"""Layers with weights that are drawn."""

LARGEST = 1024
"""Rows and columns up to which the least size of an image is sought."""


class ConvNetModel(ImageModel):
    """Feature maps, then a head that turns them into scores.

    Parameters
    ----------
    shape : (rows, columns, channels)
    dtype : torch.dtype

    Attributes
    ----------
    features : nn.Sequential
        Images (n, channels, rows, columns) to feature maps.
    head : nn.Sequential
        Feature maps to scores (n, n_classes); its last layer is linear, or a convolution before a mean over places.
    gain : float
        Of the units behind all layers but the last one with weights.
    """

    backbone: ClassVar[tuple[str, ...]] = ("shift", "scale", "features.")
    features: nn.Sequential
    head: nn.Sequential
    gain: float = 1.0

    def build_head(
        self,
        n_classes: int,
        unit: Activation,
        hidden: tuple[int, ...] = (),
        *,
        dropout: float = 0.0,
        mean: bool = False,
        reader: nn.Module | None = None,
    ) -> None:
        """Put dense layers behind `features`: hidden ones with their units, and that of the scores.

        Parameters
        ----------
        n_classes : int
        unit : Activation
        hidden : tuple of int, default ()
        dropout : float in [0, 1), default 0
            Probability to drop an output of a hidden layer in training.
        mean : bool, default False
            Whether the dense layers read the mean of each map and not every place.
        reader : nn.Module, optional
            What else brings the maps to the rows that the dense layers read.

        Raises
        ------
        UserValueError
            Images that the windows of `features` do not fit into, with the least size that fits.
        """
        reader = reader or (GlobalPool() if mean else nn.Flatten())
        inputs = reader(torch.zeros(1, *self.check_size(), device="meta")).shape[1]
        dtype = self.shift.dtype
        self.gain = unit.gain
        self.head = nn.Sequential(reader)
        for units in hidden:
            self.head.extend([dense(inputs, units * unit.widening, dtype=dtype), unit.build(units, dtype)])
            if dropout:
                self.head.append(Dropout(dropout))
            inputs = units
        self.head.append(dense(inputs, n_classes, dtype=dtype))

    def _maps_of(self, rows: int, columns: int) -> tuple[int, ...] | None:
        return map_shape(self.features, (self.shape[2], rows, columns))

    def check_size(self, shape: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """(channels, rows, columns) of the last feature maps, of images of the network's shape where none is given.

        Raises
        ------
        UserValueError
            Images that the windows do not fit into, with the least size that fits.
        """
        given = shape or self.shape
        found = self._maps_of(*given[:2])
        if found is not None:
            return found
        fitting = (side for side in range(1, LARGEST) if self._maps_of(side, side) is not None)
        raise too_small(given, next(fitting, LARGEST), "the convolutions and poolings of this network")

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the classes, shape (n, n_classes), of images (n, rows, columns, channels).

        Raises
        ------
        UserValueError
            Images of another size than the network's that are too small.
        """
        maps = self.first(x)
        if tuple(maps.shape[2:]) != tuple(self.shape[:2]):
            self.check_size((*maps.shape[2:], maps.shape[1]))
        scores: torch.Tensor = self.head(self.features(maps))
        return scores

    def feature_maps(self, x: torch.Tensor, stages: Sequence[int] | None = None) -> list[torch.Tensor]:
        """Outputs of some stages of `features`, all by default, channels first, of images with channels last."""
        chosen = range(len(self.features)) if stages is None else stages
        found, maps = {}, self.first(x)
        for number, stage in enumerate(list(self.features)[: max(chosen, default=-1) + 1]):
            maps = stage(maps)
            if number in chosen:
                found[number] = maps
        return [found[number] for number in chosen]

    def initialize(self, initializer: Initializer, noise: Noise) -> None:
        """Initial weights: every layer but the last with the gain of the units behind it."""
        weighted = [name for name, layer in self.named_modules() if isinstance(layer, WEIGHTED)]
        initialize(self, initializer, noise, gain=dict.fromkeys(weighted[:-1], self.gain))


def map_shape(features: nn.Module, shape: tuple[int, int, int]) -> tuple[int, ...] | None:
    """(channels, rows, columns) behind layers, without any arithmetic; None where a window fits nowhere.

    Examples
    --------
    >>> map_shape(nn.MaxPool2d(2), (3, 9, 4)), map_shape(nn.MaxPool2d(2), (3, 1, 4))
    ((3, 4, 2), None)
    """
    states = {**dict(features.named_parameters()), **dict(features.named_buffers())}
    empty = {name: value.to("meta") for name, value in states.items()}
    dtype = next((value.dtype for value in states.values()), torch.float32)
    try:
        found = torch.func.functional_call(features, empty, torch.zeros(1, *shape, device="meta", dtype=dtype))
    except RuntimeError:
        return None
    return tuple(found.shape[1:])


class ConvNet(Looks, ImageClassifier):
    """Base of the convolutional classifiers; a subclass says its layers in `arguments`, a model builds them."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "activation": Activation, "augment": Augmentation, "initializer": Initializer,
    }  # fmt: skip
    sums_channels: ClassVar[bool] = False
    """Whether units stand behind sums or joins of channels, so that they must give as many as they take."""

    activation: Annotated[str | Recipe, Doc("Units of the hidden layers.")] = "relu"
    initializer: Annotated[str | Recipe, Doc("Initial weights; biases are 0.")] = "he-normal"
    augment: Annotated[
        str | Recipe,
        Doc(
            "Random changes of the training images, fresh in every epoch: one, or several joined by +, such as "
            "flip + crop(padding=2); see `gnomon.data.augment`."
        ),
    ] = "none"
    epochs: int = 20
    batch_size: int | None = 64
    learning_rate: float = 2e-3
    schedule: str | Recipe = "cosine"

    def check_parameters(self) -> None:
        super().check_parameters()
        _ = self.recipe("augment").parts  # reads the text of a chain
        activation = self.recipe("activation")
        if not activation.trainable:
            raise UserValueError(
                f"no gradient passes {activation.short}", "activation", "choose another, or straight_through=True"
            )
        if activation.widening > 1 and self.sums_channels:
            what = f"units of {activation.widening} pieces do not fit sums of channels"
            raise UserValueError(what, "activation", "choose another")
        if self.min_batch_size() > 1 and self.batch_size == 1:
            remedy = "give 2 or more"
            raise UserValueError("batch_size must be at least 2 for batch normalization, got 1", "batch_size", remedy)

    def features(self, X: Any, *, stages: Sequence[int] | None = None) -> list[Array]:
        """Feature maps behind stages of the network: a block, a group of blocks, a pooling.

        Parameters
        ----------
        X : array of images
        stages : sequence of int, optional
            Numbers of the stages from 0, in the order wanted; negative ones from the end; all where left out. Nothing
            behind the last one is computed, and no other maps are kept.

        Returns
        -------
        list of arrays of shape (n, rows, columns, maps)

        Raises
        ------
        NotFittedError
            Before a fit.
        UserValueError
            A stage that is not there.
        """
        check_is_fitted(self)
        total = len(self.model_.features)
        if stages is not None and not isinstance(stages, Sequence):
            raise UserTypeError.must("stages", "be a list of whole numbers", stages)
        chosen = list(range(total)) if stages is None else list(stages)
        for number in chosen:
            if not hasattr(number, "__index__") or not -total <= number < total:
                raise UserValueError(
                    f"stages must be whole numbers from -{total} to {total - 1}, got {number!r}", "stages"
                )
        places = [number % total for number in chosen]
        maps = self.model_.ask(lambda x: self.model_.feature_maps(x, places), self._rows(X))
        return [np.moveaxis(one, 1, -1) for one in maps]

    def batch_transform(self, examples: Examples) -> Augmenter | None:
        """Augmentation, if there is any."""
        recipe = self.recipe("augment")
        return Augmenter(recipe, examples) if recipe.parts else None

    def foreign_weights(
        self, model: Any, arrays: Mapping[str, Any], source: str
    ) -> tuple[dict[str, Any], dict[str, str]] | None:
        return by_our_names(model, arrays, self.name, source)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        return super().arguments(examples) | {"activation": self.recipe("activation")}

    def make(self, *, shape: Any, n_classes: int, dtype: str, preprocess: Any = None, **layers: Any) -> Any:
        rows, columns, channels = shape
        seen = (rows, columns, channels) if preprocess is None else preprocess.shape_after((rows, columns, channels))
        kind = getattr(torch, dtype)
        model = type(self).model_class(seen, n_classes, dtype=kind, **layers)
        if preprocess is not None:
            model.preparation = ImageStepLayer(preprocess, (rows, columns, channels), kind)
        return model

    def initialize(self, model: Any, examples: Examples, noise: Noise) -> None:
        model.standardize(examples.X, examples.weight)
        model.initialize(self.recipe("initializer"), noise)
