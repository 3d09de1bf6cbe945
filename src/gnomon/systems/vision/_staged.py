"""What networks of stages of convolutions share whose answer is as large as the image: labels of pixels, boxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

from sklearn.utils import Tags

from gnomon.contracts import Noise
from gnomon.data.dataset import no_images
from gnomon.data.examples import Examples
from gnomon.data.frames import needs_preparation
from gnomon.distributions.pixels import AnyImages, by_size
from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.initializers import Initializer
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype
from gnomon.system.given_images import tell_of_bytes
from gnomon.systems.vision._images import too_small

__all__ = ["StagedNetwork"]


class StagedNetwork(ByGradient, HasDtype):
    """Base of the networks over `gnomon.nn.stages.conv_stages` that take images of any size.

    A subclass gives `coded`, `make` and `make_objective`. Its model has ``standardize`` and ``initialize``.
    """

    domain: ClassVar[Any] = AnyImages()
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"activation": Activation, "initializer": Initializer}

    channels: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Maps of each stage, the finest first; each stage has half the resolution of the one before."),
    ] = (16, 32, 64)
    convolutions: Annotated[int, "[1, inf)", Doc("Convolutions of each stage.")] = 2
    radius: Annotated[int, "[0, 50]", Doc("Pixels that a convolution sees on each side: 1 for windows 3 x 3.")] = 1
    batch_norm: Annotated[bool, Doc("Whether convolutions are normalized over the batch before their units.")] = True
    activation: Annotated[str | Recipe, Doc("Units of the hidden layers.")] = "relu"
    initializer: Annotated[str | Recipe, Doc("Initial weights; biases are 0.")] = "he-normal"
    epochs: int = 20
    batch_size: int | None = 32
    learning_rate: float = 5e-3
    schedule: str | Recipe = "cosine"

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layer_sizes(self.channels, "channels", "give the maps of each stage, such as (16, 32, 64)")
        if not self.channels:
            raise UserValueError("channels must have at least one stage, got ()", "channels", "give (16, 32, 64), say")
        if not self.recipe("activation").trainable:
            short = self.recipe("activation").short
            remedy = "choose another, or straight_through=True"
            raise UserValueError(f"no gradient passes {short}", "activation", remedy)
        if self.batch_norm and self.batch_size == 1:
            what = "batch_size must be at least 2 for batch normalization, got 1"
            raise UserValueError(what, "batch_size", "give 2 or more")

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1

    # --- images in ----------------------------------------------------------------------------------------------

    def known_domain(self) -> Any:
        return AnyImages(channels=self.arguments_["image_channels"])

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        if needs_preparation(X):
            raise no_images("X")
        if by_size(X) is not None:
            raise UserValueError(
                "a fit takes images of one size", "X", "cut them into tiles of one size; predict takes any"
            )
        examples = super().ingest(X, None, sample_weight)
        codes = self.coded(y, examples.X.shape[:3])
        tell_of_bytes(X)
        return examples.replace(y=codes)

    def coded(self, y: Any, shape: tuple[int, ...]) -> Any:
        """What the network learns of images (n, rows, columns); here the classes are found."""
        raise NotImplementedError

    def arguments(self, examples: Examples) -> dict[str, Any]:
        least = 2 ** (len(self.channels) - 1) // 2  # below, the last stage would see little but what is filled up
        if max(examples.X.shape[1:3]) < least:
            raise too_small(examples.X.shape[1:], least, f"{len(self.channels)} stages")
        return {
            "image_channels": int(examples.X.shape[3]), "n_classes": len(self.classes_), "dtype": str(examples.X.dtype),
            "channels": list(self.channels), "convolutions": self.convolutions, "window": 2 * self.radius + 1,
            "batch_norm": self.batch_norm, "activation": self.recipe("activation"),
        }  # fmt: skip

    def initialize(self, model: Any, examples: Examples, noise: Noise) -> None:
        model.standardize(examples.X, examples.weight)
        model.initialize(self.recipe("initializer"), noise)

    # --- answers ------------------------------------------------------------------------------------------------

    def of_each(self, X: Any, answer: Callable[[Any], Any]) -> Any:
        """What is answered to an array of images, or to each of a list of several sizes, in its order."""
        groups = by_size(X)
        if groups is None:
            return answer(self._rows(X))
        found: list[Any] = [None] * len(X)
        for places, images in groups:
            for place, one in zip(places.tolist(), answer(self._rows(images)), strict=True):
                found[place] = one
        return found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
