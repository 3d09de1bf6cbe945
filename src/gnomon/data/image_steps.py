"""What is done to images before a network sees them: the slot ``preprocess``, and the steps of one's own scripts.

A recipe says what is done, ``GCN(lam=10.0)``; its ``fit`` learns from the training images what there is to learn and
answers an `ImageStep`, which is applied to all, saved, and loaded. Images are arrays (n, rows, columns) or (n, rows,
columns, channels). A step of NumPy arrays computes in float64; a network applies the same expressions to its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import State
from gnomon.data.pixel_range import to_unit
from gnomon.data.preprocessing import Standardizer
from gnomon.distributions.arrays import plain, row_weights
from gnomon.distributions.images import size_of
from gnomon.errors import UserTypeError, UserValueError
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe

__all__ = ["AsTheyAre", "ImagePreprocessing", "ImageStep", "PixelMean", "SymmetricRange"]

Shape = tuple[int, int, int]
"""Rows, columns, channels."""

_PIXELS = 1 << 20
"""Numbers that are computed at once."""


@dataclass(frozen=True)
class ImagePreprocessing(Recipe):
    """Base of the recipes of the slot ``preprocess``.

    A subclass gives `apply`, and `sizes` and `arrays` where it needs numbers beside the image: `apply` reads them by
    name, from NumPy arrays in a script, from tensors in a network.
    """

    learns: ClassVar[bool] = False
    """Whether the training images decide what is done."""

    def __post_init__(self) -> None:
        check_parameters(self, self.get_params(deep=False))

    @property
    def gives_images(self) -> bool:
        """Whether the result has rows and columns again, which a convolution needs."""
        return True

    def fit(self, X: Any, weight: Any = None) -> ImageStep:
        """Learn from the training images.

        Parameters
        ----------
        X : array of shape (n, rows, columns) or (n, rows, columns, channels)
            The training images, never those of validation or test.
        weight : array of shape (n,), optional
            Weights of the images.
        """
        return ImageStep(self).partial_fit(X, weight)

    def transform(self, X: Any) -> NDArray[Any]:
        """The step applied to images; one that learns is fitted first.

        Raises
        ------
        UserValueError
            A step that learns from training images.
        """
        if self.learns:
            name = type(self).__name__
            raise UserValueError(f"{name} learns from training images", "step", f"step = {name}(...).fit(images) first")
        return self.fit(X).transform(X)

    # --- what a subclass gives ----------------------------------------------------------------------------------

    def shape_after(self, shape: Shape) -> Shape:
        """Rows, columns and channels of what the step makes of images of this shape."""
        return shape

    def sizes(self, shape: Shape) -> Mapping[str, tuple[int, ...]]:
        """Shapes of the arrays of the step, by name."""
        return {}

    def learner(self, shape: Shape) -> Any:
        """What takes the training images in, ``partial_fit(rows, weight)``; None where nothing is learned."""
        return None

    def arrays(self, shape: Shape, learner: Any) -> dict[str, NDArray[Any]]:
        """The arrays of the step, once the learner has seen the training images; float64."""
        return {}

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The step applied to floating images (n, rows, columns, channels), NumPy arrays or tensors alike."""
        raise NotImplementedError

    def undo(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images that `apply` made these of."""
        what = f"{type(self).__name__} loses what the images were"
        raise UserValueError(what, "inverse_transform", "keep the images themselves")


class ImageStep:
    """A recipe with what it has learned: fit, transform, inverse_transform, state.

    Parameters
    ----------
    recipe : ImagePreprocessing

    Examples
    --------
    >>> step = PixelMean().fit([[[0.0, 1.0]], [[1.0, 3.0]]])
    >>> step.transform([[[1.0, 3.0]]]).tolist(), step.state()["mean"].tolist()
    ([[[0.5, 1.0]]], [[[0.5], [2.0]]])
    """

    def __init__(self, recipe: ImagePreprocessing) -> None:
        self.recipe = recipe
        self.shape: Shape | None = None
        self._learner: Any = None
        self._arrays: dict[str, NDArray[Any]] | None = None

    def fit(self, X: Any, weight: Any = None) -> Self:
        """Forget what was learned, and learn from these images."""
        self.shape, self._learner, self._arrays = None, None, None
        return self.partial_fit(X, weight)

    def partial_fit(self, X: Any, weight: Any = None) -> Self:
        """Learn from more images; chunks of any size give what all images at once give."""
        images, _ = self._images(X, learning=True)
        assert self.shape is not None
        if self._learner is None:
            if self._arrays is not None and self.recipe.learns:
                raise UserValueError("a step that was loaded learns no further", "partial_fit", "fit it anew")
            self._learner = self.recipe.learner(self.shape)
        self._arrays = None
        if self._learner is None:
            return self
        weights = row_weights(weight, len(images), np.float64)
        for part in _parts(images):
            self._learner.partial_fit(images[part].reshape(len(images[part]), -1).astype(np.float64), weights[part])
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The images behind the step: float32 of float32 and bytes, else float64."""
        return self._through(self.recipe.apply, X)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """The images that `transform` made these of.

        Raises
        ------
        UserValueError
            A step that loses something of an image: its contrast, its border.
        """
        return self._through(self.recipe.undo, X)

    def state(self) -> dict[str, NDArray[Any]]:
        """What was learned, as float64 arrays by name, and the shape of the images."""
        return {**self._known(), "shape": np.array(self.shape)}

    def load(self, state: State) -> None:
        """Take over what `state` gave."""
        rows, columns, channels = (int(size) for size in state["shape"])
        self.shape, self._learner = (rows, columns, channels), None
        self._arrays = {name: np.array(state[name], np.float64) for name in self.recipe.sizes(self.shape)}

    def _known(self) -> dict[str, NDArray[Any]]:
        if self.shape is None:
            raise UserValueError(f"the {type(self.recipe).__name__} was not fitted", "step", "call fit first")
        if self._arrays is None:
            self._arrays = self.recipe.arrays(self.shape, self._learner)
        return self._arrays

    def _through(self, change: Any, X: Any) -> NDArray[Any]:
        arrays = self._known()
        images, grey = self._images(X, back=change == self.recipe.undo)
        dtype = np.float32 if images.dtype in (np.uint8, np.float16, np.float32) else np.float64
        found = [change(images[part].astype(np.float64), arrays).astype(dtype) for part in _parts(images)]
        made: NDArray[Any] = np.concatenate(found)
        return made[..., 0] if grey and made.ndim == 4 and made.shape[3] == 1 else made

    def _images(self, X: Any, *, learning: bool = False, back: bool = False) -> tuple[NDArray[Any], bool]:
        """Finite numbers (n, rows, columns, channels) of the shape of the fit, and whether there was no channel."""
        array = plain(X, "X", "give images of one size")
        if array.dtype.kind not in "biuf":
            raise UserTypeError.must("X", "be an array of images", X)
        flat = back and not self.recipe.gives_images
        if flat:
            assert self.shape is not None
            kept = self.recipe.shape_after(self.shape)[2]
            if array.ndim != 2 or array.shape[1] != kept or not len(array):
                what = f"X must have the shape (n, {kept}), got {array.shape}"
                raise UserValueError(what, "X", "give what transform gave")
        elif array.ndim not in (3, 4) or not array.size:
            what = f"X must have the shape (n, rows, columns) or (n, rows, columns, channels), got {array.shape}"
            raise UserValueError(what, "X", "give X[None] for one image")
        if not np.isfinite(array.sum(dtype=np.float64)):
            raise UserValueError("X must hold finite numbers, got NaN or infinity", "X", "fill or drop the images")
        grey = array.ndim == 3
        images = array[..., None] if grey else array
        if learning and self.shape is None:
            rows, columns, channels = images.shape[1:]
            self.shape = (rows, columns, channels)
        assert self.shape is not None
        if not flat and images.shape[1:] != self.shape:
            what = f"X must have images of {size_of(self.shape)}, got {size_of(images.shape[1:])}"
            raise UserValueError(what, "X", "give images of the size of the fit")
        return images, grey


def _parts(images: NDArray[Any]) -> list[slice]:
    step = max(1, _PIXELS // max(1, int(np.prod(images.shape[1:]))))
    return [slice(start, start + step) for start in range(0, len(images), step)]


@dataclass(frozen=True)
class AsTheyAre(ImagePreprocessing):
    """Nothing is done: pixels in [0, 1] as they came.

    Examples
    --------
    >>> AsTheyAre().transform([[[0.25, 1.0]]]).tolist()
    [[[0.25, 1.0]]]
    """

    short: ClassVar[str] = "none"

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images."""
        return x

    def undo(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images."""
        return x


@dataclass(frozen=True)
class SymmetricRange(ImagePreprocessing):
    """Pixels in [0, 1] to [-1, 1]: 2 x - 1; bytes go to [0, 1] first, see `gnomon.data.pixel_range`.

    Examples
    --------
    >>> SymmetricRange().transform([[[0.0, 0.5, 1.0]]]).tolist()
    [[[-1.0, 0.0, 1.0]]]
    """

    short: ClassVar[str] = "symmetric"

    def transform(self, X: Any) -> NDArray[Any]:
        """Images in [-1, 1], of bytes, levels of 16 bits or numbers in [0, 1]."""
        return super().transform(to_unit(X))

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """2 x - 1."""
        return 2 * x - 1

    def undo(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """(x + 1) / 2."""
        return (x + 1) / 2


@dataclass(frozen=True)
class PixelMean(ImagePreprocessing):
    r"""The mean training image taken off, :math:`x'_{ijc}=x_{ijc}-\bar x_{ijc}`, pixel by pixel and channel by channel.

    The mean is that of the training images wherever the step is applied; it is summed up in float64, in chunks. This
    was AlexNet's only step.

    References
    ----------
    Krizhevsky, Sutskever and Hinton (2012), "ImageNet classification with deep convolutional neural networks".

    Examples
    --------
    >>> step = PixelMean().fit([[[0.0, 4.0]], [[1.0, 0.0]]])
    >>> step.transform([[[1.0, 1.0]]]).tolist(), step.inverse_transform([[[0.5, -1.0]]]).tolist()
    ([[[0.5, -1.0]]], [[[1.0, 1.0]]])
    """

    short: ClassVar[str] = "pixel-mean"
    learns: ClassVar[bool] = True

    def sizes(self, shape: Shape) -> Mapping[str, tuple[int, ...]]:
        """The mean image."""
        return {"mean": shape}

    def learner(self, shape: Shape) -> Any:
        """The moments of the pixels."""
        return Standardizer()

    def arrays(self, shape: Shape, learner: Any) -> dict[str, NDArray[Any]]:
        """The mean image."""
        return {"mean": learner.units()[0].reshape(shape)}

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images less the mean one."""
        return x - arrays["mean"]

    def undo(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images with the mean one put back."""
        return x + arrays["mean"]
