"""Augmentations that change colors and leave every pixel at its place: `ColorJitter` and `PCAColor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.augment.base import Augmentation, in_unit
from gnomon.data.augment.scene import Scene
from gnomon.data.image_geometry import GREY, batched, hsv_of, rgb_of
from gnomon.distributions.arrays import row_weights
from gnomon.errors import UserValueError
from gnomon.numeric.fast import kernel
from gnomon.numeric.noise import Noise

__all__ = ["ColorJitter", "PCAColor", "recolored"]

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
IMAGES = 256
"""Images whose pixels are counted together."""


def _check_channels(shape: Sequence[int]) -> None:
    if shape[2] not in (1, 3, 4):
        rule = "have 1 channel, or 3 (red, green, blue), or 4 (the last is left alone)"
        raise UserValueError.must("image", rule, f"{shape[2]} channels")


def recolored(images: NDArray[Any], factors: Any, order: Any) -> NDArray[Any]:
    """Images with brightness, contrast, saturation and hue changed, each by a factor, in an order of their own.

    Parameters
    ----------
    images : float array of shape (n, rows, columns, channels)
        In [0, 1]. Of one channel saturation and hue are nothing; a fourth channel is left alone.
    factors : array of shape (n, 4)
        Brightness f: f x. Contrast: f x + (1 - f) m, m the mean grey level. Saturation: f x + (1 - f) g, g the grey
        level of the pixel. Hue: a fraction of a turn that is added.
    order : int array of shape (n, 4)
        The numbers 0 to 3 of these as they are carried out; values are cut to [0, 1] after each.

    Returns
    -------
    array of the shape of `images`

    Notes
    -----
    As torchvision's ``adjust_brightness``, ``adjust_contrast``, ``adjust_saturation`` and ``adjust_hue`` of floating
    numbers. A compiled loop.

    Examples
    --------
    >>> x = np.array([0.2, 0.4, 0.6]).reshape(1, 1, 1, 3)
    >>> recolored(x, [[2.0, 1.0, 1.0, 0.0]], [[0, 1, 2, 3]]).ravel().round(6).tolist()
    [0.4, 0.8, 1.0]
    """
    _check_channels(images.shape[1:])
    out = np.array(images, order="C")
    pixels, kind = out.reshape(len(out), -1, images.shape[3]), out.dtype
    _recolor(pixels, np.asarray(factors, kind), np.asarray(order, np.int64), np.array([*GREY, 0.0, 1.0], kind))
    return out


@kernel
def _recolor(images, factors, order, grey):  # type: ignore[no-untyped-def]
    """Images (n, pixels, channels) in place. Numbers are in their dtype: factors; weights of grey, 0 and 1."""
    n, pixels, channels = images.shape
    colored = channels > 1
    red, green, blue, zero, one = grey[0], grey[1], grey[2], grey[3], grey[4]
    for i in range(n):
        for step in range(4):
            what = order[i, step]
            f = factors[i, what]
            if what == HUE:
                if colored and f != zero:
                    for p in range(pixels):
                        h, s, v = hsv_of(images[i, p, 0], images[i, p, 1], images[i, p, 2])
                        images[i, p, 0], images[i, p, 1], images[i, p, 2] = rgb_of(h + f, s, v)
            elif f == one or (what == SATURATION and not colored):
                continue
            elif not colored:
                other = (one - f) * images[i, :, 0].mean() if what == CONTRAST else zero
                for p in range(pixels):
                    images[i, p, 0] = min(max(f * images[i, p, 0] + other, zero), one)
            else:
                other = zero
                if what == CONTRAST:
                    total = 0.0
                    for p in range(pixels):
                        total += red * images[i, p, 0] + green * images[i, p, 1] + blue * images[i, p, 2]
                    other += (one - f) * (total / pixels)
                for p in range(pixels):
                    r, g, b = images[i, p, 0], images[i, p, 1], images[i, p, 2]
                    if what == SATURATION:
                        other = (one - f) * (red * r + green * g + blue * b)
                    images[i, p, 0] = min(max(f * r + other, zero), one)
                    images[i, p, 1] = min(max(f * g + other, zero), one)
                    images[i, p, 2] = min(max(f * b + other, zero), one)


@dataclass(frozen=True)
class ColorJitter(Augmentation):
    """Change brightness, contrast, saturation and hue, in a random order.

    Factors are uniform in [max(0, 1 - a), 1 + a], the turn of the hue in [-a, a]. See `recolored` for what they do.

    Parameters
    ----------
    brightness, contrast, saturation : float in [0, inf), default 0.2
        a of the factor; 0 changes nothing.
    hue : float in [0, 0.5], default 0
        a of the turn; half a turn makes blue of yellow, which few labels survive.

    Examples
    --------
    >>> ColorJitter(0.0, 0.0, 0.0)(np.full((1, 1, 3), 0.5)).ravel().tolist()
    [0.5, 0.5, 0.5]
    """

    short: ClassVar[str] = "jitter"
    brightness: Annotated[float, "[0, inf)"] = 0.2
    contrast: Annotated[float, "[0, inf)"] = 0.2
    saturation: Annotated[float, "[0, inf)"] = 0.2
    hue: Annotated[float, "[0, 0.5]"] = 0.0

    def check(self, shape: Sequence[int]) -> None:
        """One channel, or three with colors."""
        super().check(shape)
        _check_channels(shape)

    def factors(self, n: int, noise: Noise) -> NDArray[np.float64]:
        """Of n pictures, (n, 4)."""
        spread = np.array([self.brightness, self.contrast, self.saturation, self.hue])
        low, high = np.maximum(0.0, 1 - spread), 1 + spread
        low[HUE], high[HUE] = -self.hue, self.hue
        factors: NDArray[np.float64] = low + noise.uniform((n, 4), dtype=np.float64) * (high - low)
        return np.where(spread == 0, [1.0, 1.0, 1.0, 0.0], factors)

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Every picture with factors and an order of its own."""
        n = len(scene)
        order = noise.uniform((n, 4), draw=1).argsort(1, kind="stable")
        return scene.with_images(recolored(scene.images, self.factors(n, noise), order))


@dataclass(frozen=True)
class PCAColor(Augmentation):
    r"""Add one random color to a whole picture, along the directions in which colors vary in the training set.

    :math:`\sum_i a_i \lambda_i p_i` with :math:`a_i \sim N(0, \mathrm{sd}^2)`, :math:`\lambda_i` and :math:`p_i` the
    eigenvalues and eigenvectors of the covariance of all pixels; values are cut to [0, 1] afterwards.

    Parameters
    ----------
    sd : float in [0, inf), default 0.1
        Standard deviation of a.
    components : tuple of float or None, default None
        Each eigenvector times its eigenvalue, one after the other; None takes them from the training images.

    Notes
    -----
    Eigenvalues are those of pixels in [0, 1], below 0.1 as a rule, so that sd must be larger than it looks to be seen:
    1 to 3. Source: Krizhevsky, Sutskever and Hinton (2012).

    Examples
    --------
    >>> X = np.zeros((4, 2, 2, 3))
    >>> X[2:, :, :, 0] = 1.0
    >>> [round(one, 6) for one in PCAColor().fit(X).components[:3]]
    [0.25, 0.0, 0.0]
    """

    short: ClassVar[str] = "pca-color"
    sd: Annotated[float, "[0, inf)"] = 0.1
    components: tuple[float, ...] | None = None

    def check(self, shape: Sequence[int]) -> None:
        """One channel, or three with colors, and as many components."""
        super().check(shape)
        _check_channels(shape)
        colors = min(3, shape[2])
        if self.components is not None and len(self.components) != colors**2:
            raise UserValueError.must("components", f"be {colors**2} numbers", self.components)

    def fit(self, images: Any, weight: Any = None) -> PCAColor:
        """With the components of these images; weights of images count for all their pixels.

        Raises
        ------
        UserValueError
            No images, or images of other channels.
        """
        x = batched(images)[0]
        self.check(x.shape[1:])
        if self.components is not None:
            return self
        if not x.size:
            raise UserValueError.must("images", "have at least one pixel", x.shape)
        w = row_weights(weight, len(x), np.float64)
        colors = min(3, x.shape[3])
        sums, squares = np.zeros(colors), np.zeros((colors, colors))
        for begin in range(0, len(x), IMAGES):
            chosen = slice(begin, begin + IMAGES)
            part = in_unit(x[chosen])[0][..., :colors].astype(np.float64).reshape(-1, colors) - 0.5
            by = np.repeat(w[chosen], x.shape[1] * x.shape[2])
            sums += by @ part
            squares += (part * by[:, None]).T @ part
        total = w.sum() * x.shape[1] * x.shape[2]
        mean = sums / total
        values, vectors = np.linalg.eigh(squares / total - np.outer(mean, mean))
        vectors *= np.where(vectors[np.abs(vectors).argmax(0), np.arange(colors)] < 0, -1, 1)
        scaled = (vectors * np.maximum(values, 0.0)).T[::-1]
        return replace(self, components=tuple(float(one) for one in scaled.ravel()))

    def colors(self, n: int, noise: Noise) -> NDArray[np.float64]:
        """What is added to n pictures, (n, colors).

        Raises
        ------
        UserValueError
            Nothing was learned yet.
        """
        if self.components is None:
            raise UserValueError("pca-color was not fitted", "components", "call fit with training images first")
        components = np.array(self.components).reshape(round(len(self.components) ** 0.5), -1)
        drawn: NDArray[np.float64] = noise.normal((n, len(components)), dtype=np.float64)
        # one product after the other: a matrix product's sums may depend on the number of rows
        return self.sd * (drawn[:, :, None] * components).sum(1)

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Every picture with one color added."""
        added = self.colors(len(scene), noise)
        images = scene.images.copy()
        images[..., : added.shape[1]] += added[:, None, None].astype(images.dtype)
        return scene.with_images(np.clip(images, 0, 1, out=images))
