"""Convolution and correlation of sequences, arrays and functions; scipy's direct sums and FFT underneath.

A convolution flips its kernel, (f * g)(x) = sum_t f(t) g(x - t); a correlation, which neural networks call convolution,
does not. Nothing is conjugated, complex input included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal

from gnomon.errors import UserTypeError, UserValueError, nearest

__all__ = ["SampledConvolution", "convolve", "convolve2d", "convolve_functions", "correlate", "correlate2d"]

Mode = Literal["full", "same", "valid"]
Method = Literal["auto", "direct", "fft"]


def convolve(f: ArrayLike, g: ArrayLike, *, mode: Mode = "full", method: Method = "auto") -> NDArray[Any]:
    r"""Convolution of two arrays: :math:`(f * g)(x) = \sum_t f(t)\, g(x - t)`, 0 outside the arrays.

    Commutative in mode ``full``; associative, distributive, linear in each array. In mode ``same`` the result has the
    size of the first array, so two arrays of different lengths do not commute.

    Parameters
    ----------
    f, g : arrays of one number of axes
        Truth values and whole numbers are computed as int64, so that no byte overflows.
    mode : {"full", "same", "valid"}, default "full"
        ``full``: every x at which the arrays meet, size n + k - 1. ``same``: the middle of that, the size of `f`.
        ``valid``: every x at which `g` lies inside `f`, size n - k + 1.
    method : {"auto", "direct", "fft"}, default "auto"
        ``direct``: sums, O(n k). ``fft``: O(n log n), rounded to whole numbers for whole numbers; one infinite or NaN
        cell would spoil everything, so ``auto`` takes it for finite arrays only, where it is faster.

    Returns
    -------
    array

    Raises
    ------
    UserValueError, UserTypeError
        Empty arrays, no numbers, other numbers of axes, a kernel larger than its array in mode ``valid``, whole numbers
        whose sums leave the exact range of the method.

    Examples
    --------
    >>> convolve([1, 2, 3], [0, 1, 0.5])
    array([0. , 1. , 2.5, 4. , 1.5])
    >>> convolve([1, 2, 3], [1, 0, -1], mode="valid")
    array([2])
    """
    a, b = _numbers(f, "f"), _numbers(g, "g")
    _check_choice(mode, Mode, "mode")
    _check_choice(method, Method, "method")
    if a.ndim != b.ndim:
        raise UserValueError(f"{a.ndim} and {b.ndim} axes", "g", "give arrays with as many axes")
    if mode == "valid" and any(k > n for k, n in zip(b.shape, a.shape, strict=True)):
        raise UserValueError(
            f"the kernel {_size(b)} is larger than the array {_size(a)}", "g", "give a smaller kernel or mode='full'"
        )
    _check_range(a, b, method)
    if method == "auto" and not (np.isfinite(a).all() and np.isfinite(b).all()):
        method = "direct"
    result: NDArray[Any] = signal.convolve(a, b, mode=mode, method=method)
    return result


def correlate(x: ArrayLike, kernel: ArrayLike, *, mode: Mode = "valid", method: Method = "auto") -> NDArray[Any]:
    r"""Correlation: the kernel slides over the array as it is, :math:`Y_i = \sum_a K_a X_{i + a}`.

    A convolution with the kernel flipped on every axis.

    Parameters
    ----------
    x, kernel : arrays of one number of axes
    mode : {"full", "same", "valid"}, default "valid"
        As in `convolve`; ``valid`` has the size n - k + 1. With a kernel of even size the middle is that of
        ``scipy.signal.correlate``, one place after that of ``scipy.signal.correlate2d``.
    method : {"auto", "direct", "fft"}, default "auto"

    Returns
    -------
    array

    Raises
    ------
    UserValueError, UserTypeError
        As in `convolve`.

    Examples
    --------
    >>> correlate([1, 2, 3, 4], [1, 0, -1])
    array([-2, -2])
    """
    return convolve(x, np.flip(_numbers(kernel, "kernel")), mode=mode, method=method)


def correlate2d(x: ArrayLike, kernel: ArrayLike, *, mode: Mode = "valid", method: Method = "auto") -> NDArray[Any]:
    """`correlate` of a picture and a kernel, axis 0 rows and axis 1 columns: what networks call convolution.

    Examples
    --------
    >>> correlate2d([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 2], [3, 4]]).tolist()
    [[37, 47], [67, 77]]
    """
    _check_plane(x, "x")
    return correlate(x, kernel, mode=mode, method=method)


def convolve2d(x: ArrayLike, kernel: ArrayLike, *, mode: Mode = "valid", method: Method = "auto") -> NDArray[Any]:
    """`convolve` of a picture and a kernel, axis 0 rows and axis 1 columns: the kernel is flipped on both.

    Examples
    --------
    >>> convolve2d([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 2], [3, 4]]).tolist()
    [[23, 33], [53, 63]]
    """
    _check_plane(x, "x")
    return convolve(x, kernel, mode=mode, method=method)


class SampledConvolution(NamedTuple):
    """A convolution of functions on a grid: the coordinates by axis, and the values, one axis per coordinate."""

    axes: tuple[NDArray[np.floating[Any]], ...]
    values: NDArray[Any]


Function = Callable[[NDArray[np.float64]], NDArray[Any]]


def convolve_functions(
    f: Function, g: Function, bounds: Sequence[tuple[float, float]], *, points: int = 1024
) -> SampledConvolution:
    r"""Convolution of two functions on R^n, :math:`(f * g)(x) = \int f(t)\, g(x - t)\, dt`, on a grid.

    Both are taken at the midpoints of `points` cells a side and their sums come from one FFT. The derivative may be
    taken of either function: (f * g)' = f' * g = f * g'.

    Parameters
    ----------
    f, g : callables
        Take coordinates (rows, n) and return values (rows,); both must be 0, or negligible, outside `bounds`.
    bounds : sequence of n pairs (lower, upper)
        The box that holds both functions.
    points : int in [2, inf), default 1024
        Cells a side, of width h = (upper - lower) / points.

    Returns
    -------
    SampledConvolution
        2 points - 1 coordinates an axis, from 2 lower + h to 2 upper - h.

    Raises
    ------
    UserValueError
        Bounds that are no box, fewer than two points.

    Notes
    -----
    The error is that of the midpoint rule: O(h^2) for functions with a continuous slope, O(h) where both jump at
    places off the grid's edges, and below rounding for smooth functions that vanish at the bounds. Cost
    O(n points^n log points).

    Examples
    --------
    >>> box = lambda x: np.ones(len(x))
    >>> (x,), triangle = convolve_functions(box, box, [(0.0, 1.0)], points=4)
    >>> x.tolist(), triangle.round(12).tolist()
    ([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75], [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25])
    """
    if points < 2:
        raise UserValueError(f"{points} points", "points", "give 2 or more")
    if not bounds or not all(math.isfinite(low) and math.isfinite(high) and low < high for low, high in bounds):
        raise UserValueError(f"bounds {list(bounds)} are no box", "bounds", "give finite pairs (lower, upper)")
    widths = [(high - low) / points for low, high in bounds]
    sides = [low + width * (np.arange(points) + 0.5) for (low, _), width in zip(bounds, widths, strict=True)]
    grid = np.stack([side.ravel() for side in np.meshgrid(*sides, indexing="ij")], axis=1)
    samples = [np.asarray(function(grid)).reshape((points,) * len(bounds)) for function in (f, g)]
    axes = tuple(
        2 * low + width * np.arange(1, 2 * points) for (low, _), width in zip(bounds, widths, strict=True)
    )  # the coordinates of two midpoints add up to the edge of a cell
    return SampledConvolution(axes, convolve(*samples, method="fft") * math.prod(widths))


def _numbers(x: ArrayLike, name: str) -> NDArray[Any]:
    array = np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise UserTypeError(f"dtype {array.dtype} holds no numbers", name, "give an array of numbers")
    if not array.ndim or not array.size:
        raise UserValueError(f"an array of shape {array.shape}", name, "give at least one number on every axis")
    if array.dtype.kind in "biu":
        return array.astype(np.float64 if array.dtype == np.uint64 else np.int64)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _check_choice(value: Any, choices: Any, name: str) -> None:
    known = get_args(choices)
    if value not in known:
        close = nearest(str(value), known) or known
        raise UserValueError(f"{name} {value!r} is unknown", name, f"choose from {', '.join(close)}")


def _check_plane(x: ArrayLike, name: str) -> None:
    if np.ndim(x) != 2:
        raise UserValueError(f"{np.ndim(x)} axes", name, "give rows and columns; other arrays: convolve, correlate")


def _check_range(a: NDArray[Any], b: NDArray[Any], method: str) -> None:
    """Refuse whole numbers whose largest possible sum leaves int64, or float64's 53 bits under the FFT."""
    if a.dtype.kind != "i" or b.dtype.kind != "i":
        return
    sums = [max(abs(int(x.min())), abs(int(x.max()))) for x in (a, b)]
    largest = math.prod(sums) * math.prod(min(n, k) for n, k in zip(a.shape, b.shape, strict=True))
    bits = 50 if method == "fft" else 63
    if largest >= 1 << bits:
        remedy = "choose method='direct'" if method == "fft" and largest < 1 << 63 else "give floating numbers"
        raise UserValueError(f"sums of up to {largest:.3g} are not exact", "f, g", remedy)


def _size(x: NDArray[Any]) -> str:
    return "x".join(map(str, x.shape))
