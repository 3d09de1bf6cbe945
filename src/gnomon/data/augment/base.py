"""What augmentations have in common: the slot ``augment``, calls on images, and chains of several."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.data.augment.scene import Boxes, Scene
from gnomon.data.image_geometry import batched
from gnomon.distributions.arrays import plain
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe, named

__all__ = ["Augmentation", "Augmented", "Chain", "Unchanged", "applied", "in_unit", "noise_of"]


class Augmented(NamedTuple):
    """An image that was changed together with what is marked in it."""

    image: NDArray[Any]
    boxes: Any = None
    """x1, y1, x2, y2 and what came with them, those dropped left out; of a batch a list of arrays."""
    mask: NDArray[Any] | None = None


@dataclass(frozen=True)
class Augmentation(Recipe):
    """Base of the recipes of the slot ``augment``; a subclass gives `apply`.

    ``recipe + recipe`` is a `Chain`. Images hold numbers in [0, 1], or bytes; what comes back has their dtype.
    """

    mixes: ClassVar[bool] = False
    """Whether pictures are mixed with others, and their labels with them."""

    @classmethod
    def of_text(cls, text: str, slot: str = "") -> Augmentation:
        """A short name, or several with their settings: ``flip + crop(padding=2)``."""
        if set(text) & set("+("):
            return Chain(text)
        return named(Augmentation, text, slot)()

    @property
    def parts(self) -> tuple[Augmentation, ...]:
        """What is applied, one after the other."""
        return (self,)

    def check(self, shape: Sequence[int]) -> None:
        """Refuse settings that are not allowed, and images (rows, columns, channels) that it cannot change."""
        check_parameters(self, self.get_params(deep=False))

    def fit(self, images: Any, weight: Any = None) -> Augmentation:
        """The recipe with what it learns from training images; most learn nothing.

        Parameters
        ----------
        images : array of shape (n, rows, columns, channels)
        weight : array of shape (n,), optional
        """
        return self

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Changed pictures; row i of what `noise` draws belongs to picture i."""
        raise NotImplementedError

    def __call__(
        self, image: Any, boxes: Any = None, mask: Any = None, *, rng: Any = None, relative: bool = False
    ) -> Any:
        """A changed image, or a batch of them.

        Parameters
        ----------
        image : array of shape (rows, columns), (rows, columns, channels) or (n, rows, columns, channels)
            In [0, 1], or whole numbers of one or two bytes. Never written to.
        boxes : array of shape (m, 4 or more), optional
            x1, y1, x2, y2 in edges of pixels (a picture of W columns reaches from 0 to W); further columns, such as a
            class, stay with their box. Boxes are cut at the border; one that keeps less than a tenth of its area is
            dropped. Of a batch a sequence of arrays.
        mask : array of shape (rows, columns) or (n, rows, columns), optional
            Labels of pixels: moved as the image is, without new values; 0 comes in where the image ends.
        rng : int, generator or Noise, optional
            What is drawn from; None draws entropy.
        relative : bool, default False
            Whether boxes are fractions of the picture.

        Returns
        -------
        array, or Augmented where boxes or a mask are given
        """
        x, as_given = batched(image)
        if not x.size:
            raise UserValueError.must("image", "have at least one pixel", x.shape)
        self.check(x.shape[1:])
        images, back = in_unit(x)
        single = np.ndim(image) < 4
        unit = x.shape[1:3] if relative else (1, 1)
        marked = None if boxes is None else Boxes.of([boxes] if single else boxes, len(x), unit)
        scene = self.apply(Scene(images, _masks(mask, x, single), marked), noise_of(rng))
        changed = as_given(back(scene.images))
        if boxes is None and mask is None:
            return changed
        found = None
        if scene.boxes is not None:
            tables = scene.boxes.by_picture(len(x), scene.size if relative else (1, 1))
            found = tables[0] if single else tables
        masks = scene.masks[0] if single and scene.masks is not None else scene.masks
        return Augmented(changed, found, masks)

    def expand(self, X: Any, y: Any = None, k: int = 1, *, rng: Any = 0) -> Any:
        """A training set k + 1 times as large: the images, and behind them k changed copies of each.

        For systems that are fitted in one go; networks see fresh pictures in every epoch with ``augment=...``. Expand
        after the split, never before: copies of one picture on both sides are no test.

        Parameters
        ----------
        X : array of shape (n, rows, columns) or (n, rows, columns, channels)
        y : array of shape (n,), optional
        k : int >= 1, default 1
        rng : int, generator or Noise, default 0

        Returns
        -------
        array, or arrays X and y

        Raises
        ------
        UserValueError
            Images of other axes, a k below 1, another number of labels, pictures that are mixed with each other.
        """
        x = plain(X, "X", "give images of one size")
        copied = hasattr(k, "__index__") and not isinstance(k, bool) and k >= 1
        if x.ndim not in (3, 4) or not copied or (y is not None and np.shape(y)[:1] != x.shape[:1]):
            what = "X must be (n, rows, columns) or (n, rows, columns, channels), with n labels y and k of at least 1"
            raise UserValueError(f"{what}, got {x.shape}, {None if y is None else np.shape(y)} and {k!r}", "X")
        if any(one.mixes for one in self.parts):
            raise UserValueError("mixed pictures have no label of their own", "expand", "use augment= of a network")
        images = x[..., None] if x.ndim == 3 else x
        noise = noise_of(rng)
        copies = [self(images, rng=noise.at(number)).reshape(x.shape) for number in range(k)]
        every = np.concatenate([x, *copies])
        return every if y is None else (every, np.concatenate([np.asarray(y)] * (k + 1)))

    def __add__(self, other: Augmentation) -> Chain:
        if not isinstance(other, Augmentation):
            raise UserTypeError.must("augment", "be joined with an augmentation", other)
        return Chain(" + ".join(_spelled(one) for one in (*self.parts, *other.parts)))


@dataclass(frozen=True)
class Unchanged(Augmentation):
    """Pictures as they are.

    Examples
    --------
    >>> Unchanged()(np.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    short: ClassVar[str] = "none"

    @property
    def parts(self) -> tuple[Augmentation, ...]:
        """Nothing."""
        return ()

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """The same."""
        return scene


@dataclass(frozen=True)
class Chain(Augmentation):
    """Several changes, one after the other: ``flip + crop(padding=2) + jitter(hue=0.1)``.

    Each draws from a stream of its own. ``mixup`` and ``cutmix`` come last.

    Parameters
    ----------
    steps : str, default "flip + crop"
        Short names with their settings in brackets, joined by +.

    Examples
    --------
    >>> [one.short for one in Chain("flip(p=1) + crop(padding=1)").parts]
    ['flip', 'crop']
    >>> Chain("flip(p=1)")(np.array([[0.0, 1.0, 0.5]])).tolist()
    [[0.5, 1.0, 0.0]]
    """

    short: ClassVar[str] = "chain"
    steps: str = "flip + crop"

    @property
    def parts(self) -> tuple[Augmentation, ...]:
        """The recipes that the text names."""
        return tuple(part for text in _cut(self.steps, "+") for part in _read(text).parts)

    def check(self, shape: Sequence[int]) -> None:
        """Of every part; pictures are mixed once, and last."""
        parts = self.parts
        for one in parts:
            one.check(shape)
        if any(one.mixes for one in parts[:-1]):
            raise UserValueError("mixup and cutmix must come last, and once", "augment", "put it at the end")

    def fit(self, images: Any, weight: Any = None) -> Augmentation:
        """The chain of fitted parts."""
        return Chain(" + ".join(_spelled(one.fit(images, weight)) for one in self.parts))

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """One part after the other."""
        return applied(self.parts, scene, noise)


def applied(parts: Sequence[Augmentation], scene: Scene, noise: Noise) -> Scene:
    """A scene after several changes, each with a stream of its own."""
    for number, one in enumerate(parts):
        scene = one.apply(scene, noise.child(f"{number}-{one.short}"))
    return scene


# --- what a user hands over -------------------------------------------------------------------------------------------


def noise_of(rng: Any) -> Noise:
    """A stream of random numbers, of a seed, a generator or a stream.

    Examples
    --------
    >>> noise_of(3).purpose
    'augment'
    """
    return rng if isinstance(rng, Noise) else Noise(seed_of(rng), "augment")


def in_unit(x: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    """Pictures in [0, 1], and the way back to what was given."""
    kind = x.dtype
    if kind in (np.uint8, np.uint16):
        top = float(np.iinfo(kind).max)
        return (x / np.float32(top)).astype(np.float32), lambda y: np.clip(np.rint(y * top), 0, top).astype(kind)
    if kind.kind == "b":
        return x.astype(np.float32), lambda y: y >= 0.5
    if kind.kind != "f":
        raise UserTypeError.must("image", "hold numbers in [0, 1], or bytes", f"dtype {kind}")
    images = x if kind in (np.float32, np.float64) else x.astype(np.float32)
    if not (images.min() >= 0 and images.max() <= 1):
        at = np.unravel_index(int((~((images >= 0) & (images <= 1))).argmax()), images.shape)
        raise UserValueError.must("image", "be in [0, 1]", images[at], remedy="divide by the highest grey level")
    return images, lambda y: y.astype(kind, copy=False)


def _masks(mask: Any, x: NDArray[Any], single: bool) -> NDArray[Any] | None:
    if mask is None:
        return None
    masks = np.asarray(mask)[None] if single else np.asarray(mask)
    if masks.shape != x.shape[:3]:
        raise UserValueError.must("mask", f"have the rows and columns of the image, {x.shape[1:3]}", np.shape(mask))
    return masks


# --- chains as text ---------------------------------------------------------------------------------------------------


def _cut(text: str, mark: str) -> Iterator[str]:
    """The parts of a text between marks that stand in no brackets."""
    depth, begin = 0, 0
    for place, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if sign == mark and depth == 0:
            yield text[begin:place].strip()
            begin = place + 1
    yield text[begin:].strip()


def _read(text: str) -> Augmentation:
    """``short(field=value, ...)`` as a recipe, checked."""
    match = re.fullmatch(r"([\w-]+)\s*(?:\((.*)\))?", text)
    if match is None:
        example = "such as flip + crop(padding=2)"
        raise UserValueError(f"augment must be short names joined by +, got {text!r}", "augment", example)
    recipe = named(Augmentation, match[1], "augment")
    known, given = recipe().get_params(deep=False), {}
    for part in _cut(match[2], ",") if match[2] else ():
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or name not in known:
            what = f"{match[1]} takes {', '.join(f'{one}=...' for one in known) or 'nothing'}, got {part!r}"
            raise UserValueError(what, "augment", "write name=value")
        if name in given:
            raise UserValueError(f"{match[1]} has {name} twice", "augment", "leave one out")
        given[name] = _value(value)
    made = recipe(**given)
    check_parameters(made, made.get_params(deep=False))
    return made


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def _spelled(one: Augmentation) -> str:
    fields, defaults = one.get_params(deep=False), type(one)().get_params(deep=False)
    given = ", ".join(f"{name}={value}" for name, value in fields.items() if value != defaults[name])
    return one.short + (f"({given})" if given else "")
