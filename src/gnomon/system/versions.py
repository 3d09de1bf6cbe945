"""Several versions of one image at test time: shifted, mirrored, turned or cut, and their answers combined into one."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.data.image_geometry import resize
from gnomon.distributions.arrays import column_names
from gnomon.distributions.images import Images, size_of
from gnomon.distributions.pixels import by_size
from gnomon.errors import UserTypeError, UserValueError, nearest
from gnomon.numeric.ops import log_softmax

__all__ = [
    "SETS",
    "TTA",
    "Combine",
    "Crops",
    "Flip",
    "BothFlips",
    "Plain",
    "Shifts",
    "Turns",
    "Versions",
    "versions_named",
]

Array = NDArray[Any]
Size = tuple[int, int]
Combine = Literal["probabilities", "logits", "vote"]
LEAST_CROP = 0.5
"""Fraction of a side from which on four corners leave nothing out."""


# --- what is done to an image, and undone on maps of answers ------------------------------------------------------


@dataclass(frozen=True)
class _Flip:
    axes: tuple[int, ...]

    def apply(self, images: Array) -> Array:
        return np.flip(images, self.axes)

    def undo(self, maps: Array, size: Size) -> Array:
        return np.flip(maps, self.axes)


@dataclass(frozen=True)
class _Turn:
    quarters: int

    def apply(self, images: Array) -> Array:
        return np.rot90(images, self.quarters, (1, 2))

    def undo(self, maps: Array, size: Size) -> Array:
        return np.rot90(maps, -self.quarters, (1, 2))


@dataclass(frozen=True)
class _Shift:
    down: int
    right: int

    def apply(self, images: Array) -> Array:
        """Moved; what comes in has the color of the border."""
        rows, columns = (np.clip(np.arange(n) - by, 0, n - 1) for n, by in self._axes(images.shape[1:3]))
        return images[:, rows][:, :, columns]

    def undo(self, maps: Array, size: Size) -> Array:
        """Moved back; NaN where the answer has left the image."""
        places = [np.arange(n) + by for n, by in self._axes(size)]
        rows, columns = (np.clip(one, 0, n - 1) for one, n in zip(places, size, strict=True))
        gone = [(one < 0) | (one >= n) for one, n in zip(places, size, strict=True)]
        lost = gone[0][:, None] | gone[1]
        return np.where(lost[:, :, None], np.nan, maps[:, rows][:, :, columns])

    def _axes(self, size: Any) -> list[tuple[int, int]]:
        return [(int(size[0]), self.down), (int(size[1]), self.right)]


@dataclass(frozen=True)
class _Window:
    top: int
    left: int
    height: int
    width: int
    wanted: Size | None

    def apply(self, images: Array) -> Array:
        """The window, enlarged to what the network takes."""
        cut = images[:, self.top : self.top + self.height, self.left : self.left + self.width]
        same = self.wanted in (None, (self.height, self.width))
        return cut if same else resize(cut, self.wanted)  # type: ignore[arg-type]

    def undo(self, maps: Array, size: Size) -> Array:
        """Where it was cut; NaN around it."""
        whole = np.full((len(maps), *size, maps.shape[-1]), np.nan, maps.dtype)
        whole[:, self.top : self.top + self.height, self.left : self.left + self.width] = maps
        return whole


# --- sets of versions --------------------------------------------------------------------------------------------


class Versions:
    """Base of the sets of versions; a subclass gives `steps`, one for each version, None for the image as it is."""

    word: ClassVar[str] = ""
    first: ClassVar[int] = 1
    """Sets of a lower number are applied first: windows are cut before anything is turned."""

    def steps(self, size: Size, wanted: Size | None) -> list[Any]:
        """What is done for each version of images of this size, for a network that takes `wanted`, or any size."""
        raise NotImplementedError


@dataclass(frozen=True)
class Plain(Versions):
    """The image as it is: 1 version."""

    word: ClassVar[str] = "plain"

    def steps(self, size: Size, wanted: Size | None) -> list[Any]:
        return [None]


@dataclass(frozen=True)
class Flip(Versions):
    """The image and its mirror image, left for right: 2 versions."""

    word: ClassVar[str] = "flip"

    def steps(self, size: Size, wanted: Size | None) -> list[Any]:
        return [None, _Flip((2,))]


@dataclass(frozen=True)
class BothFlips(Versions):
    """The image, mirrored left for right, top for bottom, and both: 4 versions."""

    word: ClassVar[str] = "flips"

    def steps(self, size: Size, wanted: Size | None) -> list[Any]:
        return [None, _Flip((2,)), _Flip((1,)), _Flip((1, 2))]


@dataclass(frozen=True)
class Turns(Versions):
    """The image at the four quarter turns, which must be square unless the network takes any size: 4 versions."""

    word: ClassVar[str] = "turns"

    def steps(self, size: Size, wanted: Size | None) -> list[Any]:
        seen = size if wanted is None else wanted
        if wanted is not None and seen[0] != seen[1]:
            what = f"turns need square images, got {seen[0]} x {seen[1]}"
            raise UserValueError(what, "versions", "take flips or shifts")
        return [None, *(_Turn(quarters) for quarters in (1, 2, 3))]


@dataclass(frozen=True)
class Shifts(Versions):
    """The image, and moved up, down, left and right, with the color of its border coming in: 5 versions.

    Parameters
    ----------
    by : int in [1, inf), default 1
        Pixels.
    """

    word: ClassVar[str] = "shifts"
    by: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.by, int) or self.by < 1:
            raise UserValueError(f"shifts must be by at least 1 pixel, got {self.by}", "versions", "give shifts=2, say")

    def steps(self, size: Size, wanted: Size | None) -> list[Any]:
        moves = ((-self.by, 0), (self.by, 0), (0, -self.by), (0, self.by))
        return [None, *(_Shift(*move) for move in moves)]


@dataclass(frozen=True)
class Crops(Versions):
    """Windows at the four corners and in the middle: 5 versions; with the mirror images of all, ``flip``, ten.

    Of images that are larger than what the network takes, windows of the size that it takes. Of others windows with
    this fraction of each side, which are enlarged again where the network takes one size.

    Parameters
    ----------
    fraction : float in [0.5, 1], default 0.875
    """

    word: ClassVar[str] = "crops"
    first: ClassVar[int] = 0
    fraction: float = 0.875

    def __post_init__(self) -> None:
        if not LEAST_CROP <= self.fraction <= 1:
            what = f"crops must take a fraction in [{LEAST_CROP}, 1] of each side, got {self.fraction:g}"
            raise UserValueError(what, "versions", "give crops=0.875, say")

    def steps(self, size: Size, wanted: Size | None) -> list[Any]:
        height, width = (math.ceil(self.fraction * side) for side in size)
        if wanted is not None and size != wanted:
            height, width = wanted
        down, across = size[0] - height, size[1] - width
        corners = [(0, 0), (0, across), (down, 0), (down, across), (down // 2, across // 2)]
        return [_Window(top, left, height, width, wanted) for top, left in corners]


SETS: dict[str, type[Versions]] = {one.word: one for one in (Plain, Flip, BothFlips, Turns, Shifts, Crops)}
"""Sets of versions by name."""


def versions_named(text: str) -> list[Versions]:
    """The sets of a text: names joined by commas, ``shifts`` and ``crops`` with a number on wish.

    Raises
    ------
    UserValueError
        An unknown name, or a number that the set has not.

    Examples
    --------
    >>> versions_named("flip,crops=0.75")
    [Flip(), Crops(fraction=0.75)]
    """
    found: list[Versions] = []
    for part in text.split(","):
        name, equals, number = part.strip().partition("=")
        known = SETS.get(name.strip().lower())
        if known is None:
            close = nearest(name, list(SETS)) or list(SETS)
            raise UserValueError(f"no versions {name.strip()!r}", "versions", f"choose from {', '.join(close)}")
        try:
            values = ([int(number)] if known is Shifts else [float(number)]) if equals else []
            found.append(known(*values))
        except (ValueError, TypeError) as error:
            if isinstance(error, UserValueError):
                raise
            remedy = "only shifts and crops have one: shifts=2, crops=0.875"
            what = f"versions must have numbers of their kind, got {part.strip()!r}"
            raise UserValueError(what, "versions", remedy) from None
    return found


class _AtLeast(Images):
    """Images of a network's size or larger ones; flat rows are of its size."""

    def _flat(self, X: Any, name: str) -> Any:
        flat = column_names(X) is not None or np.ndim(X) == 2
        assert self.shape is not None
        rows, shape = Images(self.shape if flat else None)._flat(X, name)
        if any(mine < own for mine, own in zip(shape[:2], self.shape[:2], strict=True)) or shape[2] != self.shape[2]:
            what = f"{name} must have images of at least {size_of(self.shape)}, got {size_of(shape)}"
            raise UserValueError(what, name, "give images like those of the fit, or larger ones")
        return rows, shape

    def columns(self, X: Any, field: Any) -> Any:
        """None: larger images have more numbers."""
        return None


class TTA:
    r"""A fitted classifier of images, or of their pixels, that answers for several versions of each image at once.

    With the log probabilities :math:`\log p_v(k)` of the V versions of an image, the answer is

    - ``probabilities``: :math:`p(k) = \frac1V \sum_v p_v(k)`, their mean;
    - ``logits``: :math:`p(k) \propto \exp \frac1V \sum_v \log p_v(k)`, which is the softmax of the mean scores, since
      log probabilities differ from scores by a number that all classes share;
    - ``vote``: the class that is the likeliest of most versions; ties go to the first. It has no probabilities.

    Labels of pixels are brought back to where the pixels were before they are combined: mirrored and turned back, moved
    back, put where the window was cut. A pixel's answer is combined from the versions that hold it. Nothing is learned
    and nothing is saved.

    Parameters
    ----------
    model : System
        Fitted, of images: ``resnet``, ``cnn``, ``fcn`` ...
    transforms : str, or sequence of Versions, default "flip"
        Sets of versions, all combinations of which are made: ``flip`` 2, ``flips`` 4, ``turns`` 4, ``shifts`` 5,
        ``crops`` 5, ``plain`` 1; ``"crops,flip"`` are the ten crops of Krizhevsky, Sutskever and Hinton (2012).
    combine : {"probabilities", "logits", "vote"}, default "probabilities"

    Attributes
    ----------
    system : System
        A copy of `model` whose verbs answer in this way: `confusion_matrix` and all others.

    Raises
    ------
    UserTypeError
        A model that does not classify images.
    UserValueError
        Unknown versions, or two sets of one kind.

    Notes
    -----
    V passes for each image. Mirrored and turned images help where the classes do not care: a digit is another one in
    the mirror. Source: Krizhevsky, Sutskever and Hinton (2012), section 4.1; Dieleman, Willett and Dambre (2015).

    Examples
    --------
    >>> from gnomon.systems.vision.cnn import CNN
    >>> X = np.random.default_rng(0).random((30, 8, 8))
    >>> net = CNN(layers="4c3-g", epochs=1, random_state=0).fit(X, X[:, 4, 4] > 0.5)
    >>> TTA(net, "crops,flip").count(X), TTA(net, "plain").score(X, X[:, 4, 4] > 0.5) == net.score(X, X[:, 4, 4] > 0.5)
    (10, True)
    """

    def __init__(
        self, model: Any, transforms: str | Sequence[Versions] = "flip", combine: Combine = "probabilities"
    ) -> None:
        if combine not in get_args(Combine):
            raise UserValueError.must("combine", f"be {', '.join(get_args(Combine))}", combine)
        single = getattr(model, "class_log_proba", None)
        if single is None or getattr(model.domain, "view", "") != "images":
            name = getattr(model, "name", type(model).__name__)
            raise UserTypeError(f"{name} does not classify images", "versions", "choose cnn, resnet or fcn, say")
        check_is_fitted(model)
        given = versions_named(transforms) if isinstance(transforms, str) else transforms
        if not isinstance(given, Sequence) or not given or not all(isinstance(one, Versions) for one in given):
            raise UserTypeError.must("transforms", "be a text or a list of versions", transforms)
        if len({type(one) for one in given}) < len(given):
            what = "sets of versions must be of different kinds, got two of one"
            raise UserValueError(what, "versions", "leave one out")
        self.transforms, self.combine, self._asked = sorted(given, key=lambda one: one.first), combine, single
        shape = getattr(model, "arguments_", {}).get("shape")
        self._wanted: Size | None = None if shape is None else (int(shape[0]), int(shape[1]))
        self.system = copy.copy(model)
        own: dict[str, Any] = {"class_log_proba": self._class_log_proba}
        if combine == "vote":
            own["has_probabilities"] = False
        if shape is not None and any(isinstance(one, Crops) for one in given):
            own["known_domain"] = lambda: _AtLeast(tuple(shape))
        self.system.__dict__.update(own)

    def count(self, X: Any) -> int:
        """How many versions of each image of X are looked at."""
        groups = by_size(X)
        rows = self.system._rows(X if groups is None else groups[0][1])
        return len(self._versions(rows.shape[1:3]))

    def predict(self, X: Any) -> Any:
        """The likeliest class of each image, or of each of its pixels, after the versions have been combined."""
        return self.system.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """The combined probabilities.

        Raises
        ------
        UserTypeError
            Of a vote, which has none.
        """
        if self.combine == "vote":
            raise UserTypeError("a vote has no probabilities", "combine", "combine probabilities or logits")
        return self.system.predict_proba(X)

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """The scores of the model for the combined answers; a vote has no likelihood."""
        found: dict[str, Any] = self.system.evaluate(X, y)
        return found

    def score(self, X: Any, y: Any) -> float:
        """The primary score of the model for the combined answers."""
        return float(self.system.score(X, y))

    def _versions(self, size: Any) -> list[tuple[Any, ...]]:
        """The steps of each version."""
        rows, columns = int(size[0]), int(size[1])
        sets = [one.steps((rows, columns), self._wanted) for one in self.transforms]
        return [tuple(step for step in steps if step is not None) for steps in product(*sets)]

    def _class_log_proba(self, rows: Array) -> Array:
        """Combined log probabilities, of images (n, classes), of pixels (n, rows, columns, classes)."""
        total: Any = None
        chosen = self._versions(rows.shape[1:3])
        if chosen == [()] and self.combine != "vote":
            return np.asarray(self._asked(rows))
        for steps in chosen:
            sizes, images = [], rows
            for step in steps:
                sizes.append(images.shape[1:3])
                images = step.apply(images)
            log_p = self._asked(np.ascontiguousarray(images))
            term = self._term(log_p)
            if term.ndim == 4:
                for step, size in zip(reversed(steps), reversed(sizes), strict=True):
                    term = step.undo(term, size)
            held = ~np.isnan(term)
            term = np.where(held, term, 0)
            total = (term, held.astype(np.int64)) if total is None else (total[0] + term, total[1] + held)
        mean = total[0] / total[1]
        if self.combine == "logits":
            combined = log_softmax(mean.reshape(-1, mean.shape[-1]), 1).reshape(mean.shape)
        else:
            with np.errstate(divide="ignore"):
                combined = np.log(mean)
        return np.asarray(combined, log_p.dtype)

    def _term(self, log_p: Array) -> Array:
        """What is averaged of one version, in double precision: a probability below 1e-45 is no 0."""
        if self.combine == "vote":
            return np.asarray(np.argmax(log_p, -1)[..., None] == np.arange(log_p.shape[-1]), np.float64)
        wide = log_p.astype(np.float64)
        return wide if self.combine == "logits" else np.asarray(np.exp(wide))
