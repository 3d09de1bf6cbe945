"""Augmentations that bend pictures: `RandomAffine` and `Elastic`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.augment.base import Augmentation
from gnomon.data.augment.scene import Scene
from gnomon.data.image_geometry import sample
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise

__all__ = ["Elastic", "RandomAffine", "affine_maps", "displaced", "warped"]

Floats = NDArray[np.float64]
FOLDS = 8.7
"""Alpha over sigma squared at which slopes of the field have standard deviation 1."""


def affine_maps(
    size: tuple[int, int], degrees: Any = 0.0, shift: Any = (0.0, 0.0), scale: Any = 1.0, shear: Any = 0.0
) -> Floats:
    r"""Maps of (row, column) of centers of pixels about the center of a picture: p -> R(degrees) s K(shear) p + shift.

    Parameters
    ----------
    size : (rows, columns)
    degrees : float or array of shape (n,), default 0
        Counter-clockwise as displayed, rows downward.
    shift : array of shape (2,) or (n, 2), default (0, 0)
        Pixels down and to the right.
    scale : float or array of shape (n,), default 1
    shear : float or array of shape (n,), default 0
        Degrees by which upright lines lean: tan(shear) columns to the right for each row downward.

    Returns
    -------
    array of shape (n, 2, 3)
        Forward: a point of the picture to where it goes.

    Examples
    --------
    >>> affine_maps((3, 3), 90.0)[0].round(6).tolist()
    [[0.0, -1.0, 2.0], [1.0, 0.0, 0.0]]
    """
    angle, s = np.radians(np.atleast_1d(degrees)), np.atleast_1d(np.asarray(scale, np.float64))
    lean, move = np.tan(np.radians(np.atleast_1d(shear))), np.atleast_2d(np.asarray(shift, np.float64))
    n = max(len(angle), len(s), len(lean), len(move))
    cos, sin = np.cos(angle), np.sin(angle)
    found = np.empty((n, 2, 3))
    found[:, 0, 0], found[:, 0, 1] = s * (cos - sin * lean), -s * sin
    found[:, 1, 0], found[:, 1, 1] = s * (sin + cos * lean), s * cos
    center = (np.array(size) - 1) / 2
    found[:, :, 2] = center + move - found[:, :, :2] @ center
    return found


def warped(scene: Scene, forward: Floats, fill: float = 0.0) -> Scene:
    """Pictures whose points have gone where affine maps take them.

    Parameters
    ----------
    scene : Scene
    forward : array of shape (n, 2, 3)
        As of `affine_maps`.
    fill : float, default 0
        What comes in from outside.

    Examples
    --------
    >>> x = np.arange(4.0).reshape(1, 2, 2, 1)
    >>> warped(Scene(x), affine_maps((2, 2), 90.0)).images[0, :, :, 0].round(6).tolist()
    [[1.0, 3.0], [0.0, 2.0]]
    """
    back = np.linalg.inv(forward[:, :, :2])
    start = -(back @ forward[:, :, 2:])[:, :, 0]
    row, column = np.arange(scene.size[0])[:, None], np.arange(scene.size[1])
    rows, columns = (
        back[:, k, 0, None, None] * row + back[:, k, 1, None, None] * column + start[:, k, None, None] for k in (0, 1)
    )
    boxes = scene.boxes
    if boxes is not None:  # edges of pixels are half a pixel away from their centers
        edges = forward.copy()
        edges[:, :, 2] += 0.5 - forward[:, :, :2] @ np.array([0.5, 0.5])
        boxes = boxes.moved(edges).clipped(scene.size)
    return Scene(*_looked(scene, rows, columns, fill), boxes)


def displaced(scene: Scene, down: NDArray[Any], right: NDArray[Any], fill: float = 0.0) -> Scene:
    """Pictures whose pixel (y, x) is the input at (y + down, x + right), rows first.

    Parameters
    ----------
    scene : Scene
    down, right : arrays of shape (n, rows, columns)
    fill : float, default 0

    Examples
    --------
    >>> x = np.array([0.0, 0.5, 1.0]).reshape(1, 1, 3, 1)
    >>> displaced(Scene(x), np.zeros((1, 1, 3)), np.ones((1, 1, 3))).images.ravel().tolist()
    [0.5, 1.0, 0.0]
    """
    rows, columns = np.arange(scene.size[0])[:, None] + down, np.arange(scene.size[1]) + right
    boxes = None if scene.boxes is None else scene.boxes.seen(rows, columns)
    return Scene(*_looked(scene, rows, columns, fill), boxes)


def _looked(scene: Scene, rows: Floats, columns: Floats, fill: float) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Images and masks where output pixels look; masks take the nearest pixel."""
    images = sample(scene.images, rows, columns, fill=fill) if len(scene) else scene.images
    if scene.masks is None or not len(scene):
        return images, scene.masks
    return images, sample(scene.masks[..., None], rows, columns, mode="nearest")[..., 0]


@dataclass(frozen=True)
class RandomAffine(Augmentation):
    """Turn, shift, enlarge and shear pictures a little, with values between pixels by bilinear interpolation.

    Small turns leave most labels true; by 180 degrees a 6 is a 9.

    Parameters
    ----------
    degrees : float in [0, 180], default 10
        Turned by an angle within plus and minus this; positive ones are counter-clockwise.
    translate : float in [0, 1], default 0.1
        Largest shift, as a fraction of the rows and of the columns.
    scale : float in [0, 1), default 0
        Enlarged by a factor within 1 plus and minus this.
    shear : float in [0, 90), default 0
        Upright lines lean by an angle within plus and minus this.
    fill : float in [0, 1], default 0
        What comes in from outside.

    Examples
    --------
    >>> RandomAffine(0.0, 0.0)(np.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    short: ClassVar[str] = "affine"
    degrees: Annotated[float, "[0, 180]"] = 10.0
    translate: Annotated[float, "[0, 1]"] = 0.1
    scale: Annotated[float, "[0, 1)"] = 0.0
    shear: Annotated[float, "[0, 90)"] = 0.0
    fill: Annotated[float, "[0, 1]"] = 0.0

    def maps(self, n: int, size: tuple[int, int], noise: Noise) -> Floats:
        """Forward maps of n pictures of (rows, columns), (n, 2, 3)."""
        u = 2 * noise.uniform((n, 5), dtype=np.float64) - 1
        shift = self.translate * u[:, 1:3] * np.array(size)
        return affine_maps(size, self.degrees * u[:, 0], shift, 1 + self.scale * u[:, 3], self.shear * u[:, 4])

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Every picture moved by a map of its own."""
        return warped(scene, self.maps(len(scene), scene.size, noise), self.fill)


@dataclass(frozen=True)
class Elastic(Augmentation):
    r"""Bend pictures by a smooth random field, as handwriting bends letters.

    Output pixel (y, x) is the input at :math:`(y+d_y, x+d_x)`, with
    :math:`d=\alpha\,G_\sigma * U(-1,1)`: uniform numbers at every pixel, smoothed by a Gaussian filter with zeros
    beyond the border.

    Parameters
    ----------
    alpha : float in [0, inf), default 10
        Strength; displacements have standard deviation 0.16 alpha / sigma away from the border.
    sigma : float in (0, 10000], default 3
        Width of the filter, in pixels.
    fill : float in [0, 1], default 0
        What comes in from outside.

    Notes
    -----
    A picture folds over itself where slopes of the field reach -1; they have standard deviation 0.115 alpha / sigma^2,
    so that alpha beyond 3 sigma^2 folds some and more than 8.7 sigma^2 is refused. A mask is bent by the same field.
    Source: Simard, Steinkraus and Platt (2003), with alpha 34 and sigma 4 for digits of 29 x 29 pixels.

    Examples
    --------
    >>> Elastic(alpha=0.0)(np.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    short: ClassVar[str] = "elastic"
    alpha: Annotated[float, "[0, inf)"] = 10.0
    sigma: Annotated[float, "(0, 10000]"] = 3.0
    fill: Annotated[float, "[0, 1]"] = 0.0

    def check(self, shape: Sequence[int]) -> None:
        """No field that folds everywhere."""
        super().check(shape)
        most = FOLDS * self.sigma**2
        if self.alpha > most:
            rule = f"be at most {most:.4g} with sigma {self.sigma:g}"
            raise UserValueError.must("alpha", rule, self.alpha, remedy="the picture would fold over itself")

    def field(self, n: int, size: tuple[int, int], noise: Noise) -> NDArray[np.float32]:
        """Displacements down and to the right, (n, 2, rows, columns)."""
        u = 2 * noise.uniform((n, 2, *size)) - 1
        down, right = (_smoothing(one, self.sigma) for one in size)
        found: NDArray[np.float32] = np.float32(self.alpha) * (down @ u @ right.T)
        return found

    def apply(self, scene: Scene, noise: Noise) -> Scene:
        """Every picture bent by a field of its own."""
        field = self.field(len(scene), scene.size, noise)
        return displaced(scene, field[:, 0], field[:, 1], self.fill)


@functools.lru_cache(maxsize=16)
def _smoothing(n: int, sigma: float) -> NDArray[np.float32]:
    """The Gaussian filter of n places as a matrix."""
    from scipy.ndimage import gaussian_filter1d

    found: NDArray[np.float32] = gaussian_filter1d(np.eye(n), sigma, axis=0, mode="constant").astype(np.float32)
    return found
