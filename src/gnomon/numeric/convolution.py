"""Convolution and correlation of sequences, arrays and functions; scipy's direct sums and FFT underneath.

A convolution flips its kernel, (f * g)(x) = sum_t f(t) g(x - t); a correlation, which neural networks call convolution,
does not. Nothing is conjugated, complex input included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import signal

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.numeric.fourier import fft, ifft, irfft, next_fast_len, rfft
from gnomon.numeric.given import affordable, checked_complex, choice, numbers
from gnomon.numeric.tensors import is_tensor

__all__ = [
    "SampledConvolution", "circular_convolve", "convolve", "convolve2d", "convolve_functions", "correlate",
    "correlate2d", "linear_convolve",
]  # fmt: skip

Mode = Literal["full", "same", "valid"]
Method = Literal["auto", "direct", "fft"]

SHORT = 32
"""Taps up to which sequences are convolved by adding up shifted copies."""

EXACT_BITS = 45
"""Sums of whole numbers below 2^45 are recovered from float64 transforms of any length that fits memory."""


@checked_complex
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
    choice(mode, Mode, "mode")
    choice(method, Method, "method")
    if a.ndim != b.ndim:
        raise UserValueError(f"f and g must have the same number of axes, got {a.ndim} and {b.ndim}", "f and g")
    if mode == "valid" and any(k > n for k, n in zip(b.shape, a.shape, strict=True)):
        raise UserValueError(
            f"the kernel must fit into the array, got {_size(b)} and {_size(a)}",
            "g",
            "give a smaller kernel or mode='full'",
        )
    _check_range(a, b, method)
    if method == "auto" and not (np.isfinite(a).all() and np.isfinite(b).all()):
        method = "direct"
    result: NDArray[Any] = signal.convolve(a, b, mode=mode, method=method)
    return result


@checked_complex
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


@checked_complex
def correlate2d(x: ArrayLike, kernel: ArrayLike, *, mode: Mode = "valid", method: Method = "auto") -> NDArray[Any]:
    """`correlate` of a picture and a kernel, axis 0 rows and axis 1 columns: what networks call convolution.

    Examples
    --------
    >>> correlate2d([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 2], [3, 4]]).tolist()
    [[37, 47], [67, 77]]
    """
    _check_plane(x, "x")
    return correlate(x, kernel, mode=mode, method=method)


@checked_complex
def convolve2d(x: ArrayLike, kernel: ArrayLike, *, mode: Mode = "valid", method: Method = "auto") -> NDArray[Any]:
    """`convolve` of a picture and a kernel, axis 0 rows and axis 1 columns: the kernel is flipped on both.

    Examples
    --------
    >>> convolve2d([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1, 2], [3, 4]]).tolist()
    [[23, 33], [53, 63]]
    """
    _check_plane(x, "x")
    return convolve(x, kernel, mode=mode, method=method)


@checked_complex
def linear_convolve(h: Any, u: Any) -> Array:
    r"""Convolution of sequences on the last axis, :math:`y_k = \sum_j h_j u_{k-j}`, 0 outside; of length n + m - 1.

    `convolve` in mode ``full``, for batches of sequences and for tensors, which it differentiates: shifted copies are
    added up where one sequence has at most 32 numbers, otherwise spectra are multiplied, padded with zeros so that
    nothing wraps around.

    Parameters
    ----------
    h, u : arrays or tensors of shapes (..., n) and (..., m)
        Leading axes broadcast. Whole numbers stay whole, as int64; half precision is computed in float32.

    Returns
    -------
    array or tensor of shape (..., n + m - 1)

    Raises
    ------
    UserValueError, UserTypeError
        Empty sequences, no numbers, leading axes that do not broadcast, whole numbers whose sums leave int64.

    Notes
    -----
    Cost O(N log N), N = n + m; O(n m) where a number is infinite or NaN, which spectra would spread, and for whole
    numbers whose sums pass 2^45.

    Examples
    --------
    >>> linear_convolve([1, 1, 0], [1, 2, 3])
    array([1, 3, 5, 3, 0])
    """
    a, b = _sequences(h, u)
    if _direct(a, b):
        return _shifted(a, b)
    return _by_spectra(a, b, a.shape[-1] + b.shape[-1] - 1, fast=True)


@checked_complex
def circular_convolve(h: Any, u: Any, n: int | None = None) -> Array:
    r"""Convolution on a circle of n places, :math:`y_k = \sum_j h_j u_{(k-j) \bmod n}`, on the last axis.

    Its discrete Fourier transform is the product of the two transforms; and the transform of a product x y is
    ``circular_convolve(fft(x), fft(y)) / n``. Equal to `linear_convolve` from n + m - 1 places on; with fewer, what
    passes the end comes back at the start.

    Parameters
    ----------
    h, u : arrays or tensors of shapes (..., n)
        As in `linear_convolve`. Sequences shorter than `n` are filled up with zeros.
    n : int, optional
        Places; by default the length of the two sequences, which must then agree.

    Raises
    ------
    UserValueError, UserTypeError
        As `linear_convolve`; sequences of two lengths without `n`, or longer than `n`.

    Examples
    --------
    >>> circular_convolve([1, 1, 0], [1, 2, 3])
    array([4, 3, 5])
    """
    a, b = _sequences(h, u)
    lengths = sorted({a.shape[-1], b.shape[-1]})
    if n is None and len(lengths) > 1:
        raise UserValueError(f"n is required for sequences of unequal lengths, got {lengths[0]} and {lengths[1]}", "n")
    n = lengths[-1] if n is None else n
    if n < lengths[-1]:
        raise UserValueError.must("n", f"be at least {lengths[-1]}, the length of the longer sequence", n)
    affordable(n, "n", "give a smaller circle", each=16)
    if not _direct(a, b):
        return _by_spectra(a, b, n, fast=False)
    full = _shifted(a, b)
    y = _zeros(full, n)
    y[..., : min(n, full.shape[-1])] = full[..., :n]
    y[..., : max(full.shape[-1] - n, 0)] += full[..., n:]  # a full convolution ends before 2 n: it wraps once
    return y


class SampledConvolution(NamedTuple):
    """A convolution of functions on a grid: the coordinates by axis, and the values, one axis per coordinate."""

    axes: tuple[NDArray[np.floating[Any]], ...]
    values: NDArray[Any]


Function = Callable[[NDArray[np.float64]], NDArray[Any]]


@checked_complex
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
        raise UserValueError.must("points", "be at least 2", points)
    box = numbers(bounds, "bounds")
    if (
        box.ndim != 2
        or box.shape[1] != 2
        or not (box.size and np.isfinite(box).all() and (box[:, 0] < box[:, 1]).all())
    ):
        given = box.tolist() if box.size < 9 else f"an array of shape {box.shape}"
        raise UserValueError(f"bounds must be finite pairs with lower < upper, got {given}", "bounds")
    bounds = [(float(low), float(high)) for low, high in box]
    affordable((2.0 * points) ** len(bounds), "points", "take fewer", each=8 * (2 + len(bounds)))
    widths = [(high - low) / points for low, high in bounds]
    sides = [low + width * (np.arange(points) + 0.5) for (low, _), width in zip(bounds, widths, strict=True)]
    grid = np.stack([side.ravel() for side in np.meshgrid(*sides, indexing="ij")], axis=1)
    samples = [
        _samples(function(grid), len(grid), name).reshape((points,) * len(bounds))
        for function, name in ((f, "f"), (g, "g"))
    ]
    axes = tuple(
        2 * low + width * np.arange(1, 2 * points) for (low, _), width in zip(bounds, widths, strict=True)
    )  # the coordinates of two midpoints add up to the edge of a cell
    return SampledConvolution(axes, convolve(*samples, method="fft") * math.prod(widths))


def _samples(found: Any, n: int, name: str) -> NDArray[Any]:
    values = numbers(found, name)
    if values.shape != (n,) or not np.isfinite(values).all():
        raise UserValueError(f"{name} must return {n} finite numbers, one per row", name)
    return values


def _numbers(x: ArrayLike, name: str) -> NDArray[Any]:
    array = numbers(x, name)
    if not array.ndim or not array.size:
        raise UserValueError.must(name, "have at least one number on every axis", array)
    if array.dtype.kind in "biu":
        return array.astype(np.float64 if array.dtype == np.uint64 else np.int64)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _check_plane(x: ArrayLike, name: str) -> None:
    if numbers(x, name).ndim != 2:
        raise UserValueError.must(
            name, "have 2 axes, rows and columns", x, remedy="for other arrays use convolve or correlate"
        )


def _check_range(a: NDArray[Any], b: NDArray[Any], method: str) -> None:
    """Refuse whole numbers whose largest possible sum leaves int64, or float64's 53 bits under the FFT."""
    if a.dtype.kind != "i" or b.dtype.kind != "i":
        return
    sums = [max(abs(int(x.min())), abs(int(x.max()))) for x in (a, b)]
    largest = math.prod(sums) * math.prod(min(n, k) for n, k in zip(a.shape, b.shape, strict=True))
    bits = 50 if method == "fft" else 63
    if largest >= 1 << bits:
        remedy = "choose method='direct'" if method == "fft" and largest < 1 << 63 else "give floating-point numbers"
        raise UserValueError(f"sums of up to {largest:.3g} cannot be computed exactly", "f, g", remedy)


def _size(x: NDArray[Any]) -> str:
    return "x".join(map(str, x.shape))


# --- sequences of either kind -----------------------------------------------------------------------------------------


def _sequences(h: Any, u: Any) -> tuple[Array, Array]:
    """Two sequences of one kind, device and floating type, after every check."""
    if is_tensor(h) or is_tensor(u):
        a, b = _tensors(h, u)
    else:
        a, b = _numbers(h, "h"), _numbers(u, "u")
        dtype = np.result_type(a, b)
        a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    try:
        np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    except ValueError:
        what = f"leading axes must broadcast, got {tuple(a.shape[:-1])} and {tuple(b.shape[:-1])}"
        raise UserValueError(what, "h, u", "give as many sequences in each") from None
    if _whole(a) and _largest(a, b) >= 1 << 63:
        raise UserValueError(
            f"sums of up to {_largest(a, b):.3g} cannot be computed exactly", "h, u", "give floating-point numbers"
        )
    return a, b


def _tensors(h: Any, u: Any) -> tuple[Array, Array]:
    import torch

    device = (h if is_tensor(h) else u).device
    pair = [torch.as_tensor(x, device=device) for x in (h, u)]
    for x, name in zip(pair, "hu", strict=True):
        if not x.ndim or not x.numel():
            raise UserValueError.must(name, "have at least one number on every axis", x)
    dtype = torch.promote_types(pair[0].dtype, pair[1].dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.int64
    half = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
    return pair[0].to(half.get(dtype, dtype)), pair[1].to(half.get(dtype, dtype))


def _whole(x: Any) -> bool:
    return not (x.is_floating_point() or x.is_complex()) if is_tensor(x) else x.dtype.kind == "i"


def _largest(a: Any, b: Any) -> int:
    """Bound of the sums of whole numbers."""
    tops = [max(abs(int(x.min())), abs(int(x.max()))) for x in (a, b)]
    return math.prod(tops) * min(a.shape[-1], b.shape[-1])


def _direct(a: Any, b: Any) -> bool:
    if min(a.shape[-1], b.shape[-1]) <= SHORT:
        return True
    if _whole(a):
        return _largest(a, b) >= 1 << EXACT_BITS
    return not all(bool((x.isfinite() if is_tensor(x) else np.isfinite(x)).all()) for x in (a, b))


def _zeros(like: Any, n: int) -> Array:
    shape = (*like.shape[:-1], n)
    return like.new_zeros(shape) if is_tensor(like) else np.zeros(shape, like.dtype)


def _shifted(a: Any, b: Any) -> Array:
    """One shifted copy of the longer sequence for each number of the shorter one."""
    short, long = sorted((a, b), key=lambda x: int(x.shape[-1]))
    m = long.shape[-1]
    y = _zeros(short[..., :1] * long[..., :1], short.shape[-1] + m - 1)
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite stays so, or makes NaN of its neighbors
        for j in range(short.shape[-1]):
            y[..., j : j + m] += short[..., j : j + 1] * long
    return y


def _by_spectra(a: Any, b: Any, n: int, *, fast: bool) -> Array:
    """Product of spectra of n places, or of the next fast length, which only zeros fill up."""
    size = next_fast_len(n, real=True) if fast else n
    if a.is_complex() if is_tensor(a) else np.iscomplexobj(a):
        return ifft(fft(a, size) * fft(b, size))[..., :n]
    y = irfft(rfft(a, size) * rfft(b, size), size)[..., :n]
    if not _whole(a):
        return y
    return y.round().to(a.dtype) if is_tensor(y) else np.rint(y).astype(a.dtype)
