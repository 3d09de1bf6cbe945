"""Contrast of images: the measure, and images brought to one contrast, as wholes or around every pixel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d, gaussian_filter1d

from gnomon.data.image_geometry import are_sides
from gnomon.data.image_steps import ImagePreprocessing, Shape
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["GCN", "LCN", "Border", "contrast", "contrasts", "divided", "local_contrast", "window_means"]

Border = Literal["reflect", "inside"]
"""What a window sees beyond the border: the image mirrored there, or nothing."""

WIDEST = 10_000
"""Pixels that no side of a window reaches: all of them are listed."""

_CELLS = 1 << 20
"""Numbers whose contrast is computed at once."""

_LEAST = 1e-37
"""Below every variance but 0: the root has a finite derivative there, in float32 too."""


def contrast(image: Any) -> float:
    r"""Contrast of an image: the standard deviation of all its numbers.

    :math:`\sqrt{\frac{1}{rcC}\sum_{ijk}(X_{ijk}-\bar X)^2}` with one mean over all pixels and channels.

    Parameters
    ----------
    image : array of any shape
        One image, of bytes or other numbers; it is computed in float64.

    Returns
    -------
    float in [0, inf)
        In the units of the pixels; 0 of a constant image.

    Raises
    ------
    UserValueError, UserTypeError
        No pixel, or what is no finite number.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 12.2.1.1.

    Examples
    --------
    >>> round(contrast([1, 2, 3]), 7), contrast(np.full((4, 4, 3), 200, np.uint8))
    (0.8164966, 0.0)
    """
    pixels = np.asarray(image)
    if pixels.dtype.kind not in "biuf":
        raise UserTypeError.must("image", "be an array of numbers", image)
    if not pixels.size:
        raise UserValueError("image must have pixels, got none", "image", "give an array (rows, columns, channels)")
    spread = float(contrasts(pixels.reshape(1, -1))[0])
    if not np.isfinite(spread):
        raise UserValueError("image must hold finite numbers, got NaN or infinity", "image", "fill them first")
    return spread


def contrasts(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Contrast of each of many images, see `contrast`; of constant ones 0 exactly.

    Parameters
    ----------
    rows : array of shape (n, numbers)
        An image in each row; computed in float64, in chunks.

    Examples
    --------
    >>> contrasts(np.array([[1, 2, 3], [7, 7, 7]], np.uint8)).round(4).tolist()
    [0.8165, 0.0]
    """
    found, step = np.empty(len(rows)), max(1, _CELLS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        block = rows[start : start + step].astype(np.float64)
        block -= block[:, :1]
        found[start : start + step] = block.std(1)
    return found


def divided(centered: Any, variance: Any, lam: float, eps: float) -> Any:
    """Numbers over max(eps, sqrt(lam + variance)); NumPy arrays or tensors.

    Parameters
    ----------
    centered : array
    variance : array that broadcasts to it
        Of at least 0.
    lam, eps : float in [0, inf)

    Raises
    ------
    UserValueError
        A variance of 0 with both at 0: no factor changes the contrast of what is constant.

    Notes
    -----
    Where eps decides, no gradient goes to the variance; that of the root at 0 stays finite.
    """
    if not lam and not eps and bool((variance == 0).any()):
        raise UserValueError("an image or window is constant, and has no contrast", "X", "give eps or lam above 0")
    return centered / ((variance + lam).clip(_LEAST) ** 0.5).clip(eps)


@dataclass(frozen=True)
class GCN(ImagePreprocessing):
    r"""Global contrast normalization: every image gets the mean 0 and the standard deviation s.

    :math:`X'=s\,(X-\bar X)/\max(\varepsilon,\sqrt{\lambda+\mathrm{var}(X)})`, mean and variance over all pixels and
    channels of the image. With lam = 0 all images lie on a sphere of radius :math:`s\sqrt{rcC}` and keep their
    direction. Images of hardly any contrast would have their noise blown up: large objects have none of these
    (lam = 0), small patches do, lam = 10 on pixels of 0..255, which is 10 / 255**2 on [0, 1].

    Parameters
    ----------
    s : float in (0, inf), default 1
        The standard deviation of the images.
    lam : float in [0, inf), default 0
        Added to the variance, in squared units of the pixels.
    eps : float in [0, inf), default 1e-8
        The least number that is divided by; a constant image becomes 0.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), equation 12.3.

    Examples
    --------
    >>> GCN().transform([[[1.0, 2.0, 3.0]]]).round(4).tolist()
    [[[-1.2247, 0.0, 1.2247]]]
    """

    short: ClassVar[str] = "gcn"
    s: Annotated[float, "(0, inf)"] = 1.0
    lam: Annotated[float, "[0, inf)"] = 0.0
    eps: Annotated[float, "[0, inf)"] = 1e-8

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images with their contrast made alike."""
        x = x - x[:, :1, :1, :1]  # a constant image is 0 exactly
        x = x - x.mean((1, 2, 3), keepdims=True)
        return self.s * divided(x, (x * x).mean((1, 2, 3), keepdims=True), self.lam, self.eps)


@lru_cache(maxsize=64)
def window_means(n: int, window: int, sigma: float | None = None, border: Border = "reflect") -> NDArray[np.float64]:
    """The matrix W of local means along one axis, W x: a convolution with its border, shape (n, n).

    Parameters
    ----------
    n : int >= 1
        Pixels of the axis.
    window : odd int >= 1
        Pixels that are averaged.
    sigma : float > 0, optional
        Weights of a Gaussian with this standard deviation in place of `window`, up to 4 sigma away.
    border : {"reflect", "inside"}, default "reflect"
        ``d c b a | a b c d``, or the mean of what lies inside alone.

    Returns
    -------
    array of shape (n, n)
        Read-only; each row sums to 1.

    Examples
    --------
    >>> window_means(3, 3).round(2).tolist()
    [[0.67, 0.33, 0.0], [0.33, 0.33, 0.33], [0.0, 0.33, 0.67]]
    """
    mode = "reflect" if border == "reflect" else "constant"
    found: NDArray[np.float64] = (
        correlate1d(np.eye(n), np.ones(window), axis=0, mode=mode)
        if sigma is None
        else gaussian_filter1d(np.eye(n), sigma, axis=0, mode=mode)
    )
    found = found / found.sum(1, keepdims=True)
    found.flags.writeable = False
    return found


def local_contrast(x: Any, rows: Any, columns: Any, *, joined: bool, lam: float, eps: float) -> Any:
    """Every pixel less the mean around it, over the standard deviation there; NumPy arrays or tensors.

    Parameters
    ----------
    x : array of shape (n, channels, r, c)
    rows, columns : arrays of shape (r, r) and (c, c)
        Of `window_means`.
    joined : bool
        Whether a window reaches through all channels.
    lam, eps : float in [0, inf)
        See `divided`.

    Notes
    -----
    (r + c) multiplications a pixel and moment. The variance is that of the images about their own means, so that its
    two terms are no larger than the image's contrast, and is never below 0.
    """
    axes = (1, 2, 3) if joined else (2, 3)
    x = x - x.mean(axes, keepdims=True)

    def around(values: Any) -> Any:
        means = rows @ values @ columns.T
        return means.mean(1, keepdims=True) if joined else means

    mean = around(x)
    return divided(x - mean, (around(x * x) - mean * mean).clip(0), lam, eps)


@dataclass(frozen=True)
class LCN(ImagePreprocessing):
    r"""Local contrast normalization: every pixel less the mean around it, over the standard deviation there.

    :math:`x'=(x-m_W(x))/\max(\varepsilon,\sqrt{\lambda+v_W(x)})` with mean and variance over a window W around the
    pixel: a rectangle, or Gaussian weights. Edges in dark and in bright regions then stand out alike. Small windows see
    constant regions more often and need a larger `lam`; wide ones leave fine texture weaker.

    Parameters
    ----------
    window : tuple of int, default (9, 9)
        Rows and columns of the window, odd ones below 10000.
    sigma : float in (0, 10000], optional
        Standard deviation of Gaussian weights, in pixels, in place of `window`; they end 4 sigma away.
    per_channel : bool, default True
        Whether each channel has its own mean and deviation; else a window reaches through all channels.
    lam : float in [0, inf), default 1e-4
        Added to the variance, in squared units of the pixels.
    eps : float in [0, inf), default 1e-8
        The least number that is divided by.
    border : {"reflect", "inside"}, default "reflect"
        What a window sees beyond the border: the image mirrored there, or nothing.

    References
    ----------
    Jarrett, Kavukcuoglu, Ranzato and LeCun (2009), "What is the best multi-stage architecture for object recognition?".

    Examples
    --------
    >>> LCN(window=(3, 3), lam=0.0).transform([[[0.0, 0.0, 0.0, 0.1, 0.1, 0.1]]]).round(2).tolist()
    [[[0.0, 0.0, -0.71, 0.71, 0.0, 0.0]]]
    """

    short: ClassVar[str] = "lcn"
    window: tuple[Annotated[int, "[1, inf)"], ...] = (9, 9)
    sigma: Annotated[float, "(0, 10000]"] | None = None
    per_channel: bool = True
    lam: Annotated[float, "[0, inf)"] = 1e-4
    eps: Annotated[float, "[0, inf)"] = 1e-8
    border: Literal["reflect", "inside"] = "reflect"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not are_sides(self.window) or any(side % 2 == 0 or side > WIDEST for side in self.window):
            raise UserValueError.must("window", f"be two odd numbers (rows, columns) below {WIDEST}", self.window)

    def sizes(self, shape: Shape) -> Mapping[str, tuple[int, ...]]:
        """The local means along either axis."""
        return {"rows": (shape[0], shape[0]), "columns": (shape[1], shape[1])}

    def arrays(self, shape: Shape, learner: Any) -> dict[str, NDArray[Any]]:
        """The local means along either axis."""
        return {
            name: window_means(n, side, self.sigma, self.border)
            for name, n, side in zip(("rows", "columns"), shape[:2], self.window, strict=True)
        }

    def apply(self, x: Any, arrays: Mapping[str, Any]) -> Any:
        """The images with the contrast around every pixel made alike."""
        turned = x.swapaxes(1, 3)  # (n, channels, columns, rows)
        found = local_contrast(
            turned, arrays["columns"], arrays["rows"], joined=not self.per_channel, lam=self.lam, eps=self.eps
        )
        return found.swapaxes(1, 3)
