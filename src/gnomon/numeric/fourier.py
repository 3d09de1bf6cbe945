r"""Fourier transforms: of sequences, of periodic functions, of functions on R^d.

Signs and scales throughout: the forward exponent is negative; :math:`\hat x_n = \sum_k x_k e^{-2 \pi i n k / N}` with
the factor 1/N in the inverse (``norm="ortho"`` puts 1/sqrt(N) on both sides); a series has harmonics
:math:`e^{2 \pi i n t / T}` of the period T; the continuous transform has ordinary frequencies,
:math:`\int f(x) e^{-2 \pi i K x} dx`, so neither side carries a factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import ArrayLike, NDArray
from scipy.fft import next_fast_len

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import affordable, checked, checked_complex, choice, floats, numbers
from gnomon.numeric.tensors import is_tensor

__all__ = [
    "Transform", "cft", "coefficients", "dft_matrix", "fft", "icft", "ifft", "irfft", "next_fast_len",
    "reconstruct", "rfft",
]  # fmt: skip

Norm = Literal["backward", "ortho", "forward"]
Complex = NDArray[np.complex128]
Floats = NDArray[np.float64]

CHUNK_NUMBERS = 1 << 20
"""Harmonics by times that one block of a reconstruction may take: 16 MB."""

EVEN = 1e-6
"""Largest departure of a grid's steps from their mean, as a share of it."""


# --- sequences --------------------------------------------------------------------------------------------------------


@checked_complex
def fft(x: Any, n: int | None = None, *, axis: int = -1, norm: Norm = "backward") -> Array:
    r"""Discrete Fourier transform :math:`\hat x_n = \sum_k x_k e^{-2 \pi i n k / N}`, in O(N log N) for every N.

    SciPy's transform for arrays, torch's for tensors, which it differentiates.

    Parameters
    ----------
    x : array or tensor
        Numbers; half precision is computed in float32, truth values and whole numbers in float64.
    n : int in [1, inf), optional
        Transform length: cut to it, or filled with zeros. The length of the axis by default.
    axis : int, default -1
    norm : {"backward", "ortho", "forward"}, default "backward"
        Where 1/N stands: in the inverse, its root on both sides, in the forward transform.

    Returns
    -------
    complex array or tensor
        complex64 for float32, complex128 for float64.

    Raises
    ------
    UserValueError, UserTypeError
        An empty axis, an axis that is not there, no numbers, an unknown norm.

    References
    ----------
    Cooley and Tukey (1965), "An algorithm for the machine calculation of complex Fourier series".

    Examples
    --------
    >>> fft([1, 2, 3, 4])
    array([10.-0.j, -2.+2.j, -2.-0.j, -2.-2.j])
    """
    return _transform("fft", _numbers(x, axis, n, norm), n, axis, norm)


@checked_complex
def ifft(x: Any, n: int | None = None, *, axis: int = -1, norm: Norm = "backward") -> Array:
    r"""Inverse of `fft`, :math:`x_k = \frac1N \sum_n \hat x_n e^{2 \pi i n k / N}`.

    Examples
    --------
    >>> ifft([10, -2 + 2j, -2, -2 - 2j]).real.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return _transform("ifft", _numbers(x, axis, n, norm), n, axis, norm)


@checked_complex
def rfft(x: Any, n: int | None = None, *, axis: int = -1, norm: Norm = "backward") -> Array:
    """The first N // 2 + 1 coefficients of `fft` of real numbers; the others are their conjugates.

    Examples
    --------
    >>> rfft([1, 2, 3, 4]).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    array = _numbers(x, axis, n, norm)
    if array.is_complex() if is_tensor(array) else np.iscomplexobj(array):
        raise UserTypeError("x must be real, got complex numbers", "x", "use fft, or give the real part")
    return _transform("rfft", array, n, axis, norm)


@checked_complex
def irfft(x: Any, n: int, *, axis: int = -1, norm: Norm = "backward") -> Array:
    """Inverse of `rfft` to `n` real numbers.

    Parameters
    ----------
    x : array or tensor
        n // 2 + 1 coefficients.
    n : int in [1, inf)
        Length of the result. It must be told: an even and an odd length have as many coefficients.
    axis : int, default -1
    norm : {"backward", "ortho", "forward"}, default "backward"

    Raises
    ------
    UserValueError
        Coefficients that are not those of `n` numbers.

    Examples
    --------
    >>> irfft(rfft([1, 2, 3]), 3).round(12).tolist()
    [1.0, 2.0, 3.0]
    """
    array = _numbers(x, axis, n, norm)
    if array.shape[axis] != n // 2 + 1:
        m = array.shape[axis]
        lengths = "1" if m == 1 else f"{2 * m - 2} or {2 * m - 1}"
        raise UserValueError.must("n", f"be {lengths} for {m} coefficients", n)
    return _transform("irfft", array, n, axis, norm)


@checked
def dft_matrix(n: int, scale: Literal["ortho"] | None = None, *, limit: int = 4096) -> Complex:
    r"""The dense matrix of `fft`, :math:`W_{nk} = e^{-2 \pi i n k / N}`; unitary with the scale N^(-1/2).

    For tests and proofs: applying it costs O(N^2), `fft` O(N log N). n k is reduced modulo N while it is a whole
    number, so that every entry is one of N roots of unity to the last bit.

    Parameters
    ----------
    n : int in [1, limit]
    scale : {"ortho", None}, default None
        ``ortho``: W^H W = I. None: W x = ``fft(x)``, larger by sqrt(N).
    limit : int, default 4096
        Largest size; the matrix takes 16 n^2 bytes.

    Returns
    -------
    complex128 array of shape (n, n)

    Raises
    ------
    UserValueError
        A size outside [1, limit], an unknown scale.

    Examples
    --------
    >>> dft_matrix(2, "ortho").real.round(4).tolist()
    [[0.7071, 0.7071], [0.7071, -0.7071]]
    """
    if scale not in ("ortho", None):
        raise UserValueError.must("scale", "be 'ortho' or None", scale)
    if n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    if n > limit:
        raise UserValueError(
            f"the {n} x {n} matrix would take {16 * n * n:.3g} bytes", "n", "use fft, or raise `limit`"
        )
    k = np.arange(n)
    roots = np.exp(-2j * np.pi * k / n) / (math.sqrt(n) if scale else 1.0)
    matrix: Complex = roots[np.outer(k, k) % n]
    return matrix


# --- periodic functions -----------------------------------------------------------------------------------------------


@checked
def coefficients(f: Callable[[Floats], ArrayLike], period: float, n_max: int, *, points: int | None = None) -> Complex:
    r"""Fourier series coefficients :math:`c_n = \frac1T \int_0^T f(t) e^{-2 \pi i n t / T} dt`, n = -n_max ... n_max.

    The midpoint rule on `points` equal cells, which one FFT carries out.

    Parameters
    ----------
    f : callable
        Takes times (points,) in (0, period) and returns numbers (points,), real or complex.
    period : float in (0, inf)
        T. The angular frequency of harmonic n is 2 pi n / T.
    n_max : int in [0, inf)
        Highest harmonic.
    points : int in (2 n_max, inf), optional
        Samples N; the next fast even length from max(4096, 16 n_max) on by default.

    Returns
    -------
    complex128 array of shape (2 n_max + 1,)
        c[n_max + n] is c_n.

    Raises
    ------
    UserValueError
        Fewer samples than 2 n_max + 1, values that are not finite or not one per time.

    Notes
    -----
    Harmonics n and n + N look alike on the samples (aliasing): c_n comes out as the alternating sum of c_(n + jN). So
    trigonometric polynomials of degree below N - n_max are exact, smooth functions nearly so, and with jumps on the
    edges of cells, as at 0 and T / 2, the error falls as N^-2. A sum of harmonics overshoots a jump by 9% of its height
    however many are taken (Gibbs); that is no error of the coefficients.

    Examples
    --------
    >>> c = coefficients(lambda t: np.sign(np.sin(t)), 2 * np.pi, 3)
    >>> c[4].round(6)
    np.complex128(-0-0.63662j)
    """
    if n_max < 0:
        raise UserValueError.must("n_max", "be at least 0", n_max)
    if points is None:
        points = 2 * next_fast_len(max(2048, 8 * n_max))
    if points <= 2 * n_max:
        raise UserValueError.must("points", f"be at least {2 * n_max + 1} to resolve harmonic {n_max}", points)
    affordable(points, "points", "take fewer samples", each=16)
    t = _period(period) * (np.arange(points) + 0.5) / points
    values = _finite(numbers(f(t), "f"), (points,), "f")
    n = np.arange(-n_max, n_max + 1)
    turned: Complex = scipy.fft.fft(values)[n] * np.exp(-1j * np.pi * n / points) / points
    return turned


@checked_complex
def reconstruct(c: ArrayLike, t: ArrayLike, period: float) -> Complex:
    r"""The sum :math:`\sum_n c_n e^{2 \pi i n t / T}` of 2 n_max + 1 harmonics at the times t, complex, in t's shape.

    Parameters
    ----------
    c : array of shape (2 n_max + 1,)
        As `coefficients` gives them. Of a real function the sum is real up to rounding.
    t : array
    period : float in (0, inf)

    Raises
    ------
    UserValueError
        An even number of coefficients, a period that is no positive number.

    Examples
    --------
    >>> reconstruct([0.5, 0, 0.5], [0.0, 0.25, 0.5], period=1.0).real.round(12).tolist()
    [1.0, 0.0, -1.0]
    """
    weights, times = np.asarray(c, dtype=np.complex128), floats(t, "t")
    if weights.ndim != 1 or weights.size % 2 == 0:
        raise UserValueError.must("c", "hold the coefficients of -n_max, ..., n_max, an odd number", weights)
    if not (np.isfinite(weights).all() and np.isfinite(times).all()):
        raise UserValueError("coefficients and times must be finite", "c, t")
    n = np.arange(weights.size) - weights.size // 2
    turns = times / _period(period) % 1.0
    rows = max(CHUNK_NUMBERS // weights.size, 1)
    blocks = [
        np.exp(2j * np.pi * np.outer(part, n)) @ weights
        for part in np.split(turns.ravel(), range(rows, turns.size, rows))
    ]
    return np.concatenate(blocks).reshape(turns.shape)


# --- functions on R^d -------------------------------------------------------------------------------------------------


class Transform(NamedTuple):
    """A transform on a grid: its coordinates by axis, ascending, and the values, one axis per coordinate."""

    axes: tuple[Floats, ...]
    values: Complex


Grid = ArrayLike | Sequence[ArrayLike]


@checked_complex
def cft(f: Any, grid: Grid, *, start: float | Sequence[float] | None = None) -> Transform:
    r"""Fourier transform of a decaying function on R^d, :math:`F(K) = \int f(x) e^{-2 \pi i K \cdot x} dx`.

    The sum over an evenly spaced grid x = x0 + j h by one FFT, with the phase of x0, at the frequencies that N samples
    tell apart: steps of 1 / (N h).

    Parameters
    ----------
    f : callable or array
        Takes points (rows, d) and returns (rows,); or the values on the grid, one axis per coordinate.
    grid : array, or sequence of d arrays
        Ascending, evenly spaced coordinates of each axis, two or more.
    start : float or sequence of d floats, optional
        Where the frequencies begin; by default they are those of ``fftfreq`` in ascending order, 0 among them.

    Returns
    -------
    Transform
        Frequencies (cycles per unit of x) and values.

    Raises
    ------
    UserValueError
        A grid that is not evenly spaced, values that are not finite or do not fit the grid.

    Notes
    -----
    Two errors: what f has outside the grid is cut off, and frequencies 1/h apart are added up (aliasing), so refine
    and widen the grid until nothing changes. For functions that decay fast both vanish below rounding. In angular
    frequencies w = 2 pi K the transform is F(w / 2 pi). Cost O(N^d log N).

    Examples
    --------
    >>> (K,), F = cft(lambda x: np.exp(-np.pi * x[:, 0] ** 2), np.arange(-5, 5, 0.125))
    >>> float(np.abs(F - np.exp(-np.pi * K**2)).max()) < 1e-12
    True
    """
    return _continuous(f, grid, start, -1)


@checked_complex
def icft(F: Any, grid: Grid, *, start: float | Sequence[float] | None = None) -> Transform:
    r"""Inverse transform :math:`f(x) = \int F(K) e^{2 \pi i K \cdot x} dK`; parameters as in `cft`.

    ``icft(F.values, F.axes, start=x0)`` of ``F = cft(f, x)`` gives f back on x, which begins at x0.

    Examples
    --------
    >>> x = np.arange(3.0, 7.0)
    >>> F = cft(np.array([1.0, 2.0, 0.0, 5.0]), x)
    >>> (back,), f = icft(F.values, F.axes, start=3.0)
    >>> back.tolist(), f.real.round(12).tolist()
    ([3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 0.0, 5.0])
    """
    return _continuous(F, grid, start, 1)


def _continuous(f: Any, grid: Any, start: float | Sequence[float] | None, sign: int) -> Transform:
    axes = _axes(grid)
    shape = tuple(map(len, axes))
    affordable(math.prod(shape), "grid", "take a coarser grid", each=16 * (1 + len(shape)))
    if callable(f):
        points = np.stack([side.ravel() for side in np.meshgrid(*axes, indexing="ij")], axis=1)
        values = _finite(numbers(f(points), "f"), (len(points),), "f").reshape(shape)
    else:
        values = _finite(numbers(f, "f"), shape, "f")
    starts = _starts(start, len(axes))
    found, reciprocal = values.astype(np.complex128), []
    for d, (x, k0) in enumerate(zip(axes, starts, strict=True)):
        n, j = len(x), np.arange(len(x))
        h = (x[-1] - x[0]) / (n - 1)
        # The default first frequency is -(n // 2) steps: its turns per sample are an exact quotient of whole numbers.
        first = -(n // 2) if k0 is None else k0 * n * h
        k = (first + j) / (n * h)
        column = (slice(None),) + (None,) * (len(axes) - 1 - d)
        turned = found * _phase(sign * first * j / n)[column]
        summed = scipy.fft.fft(turned, axis=d) if sign < 0 else scipy.fft.ifft(turned, axis=d, norm="forward")
        found = summed * (h * _phase(sign * x[0] * k))[column]
        reciprocal.append(k)
    return Transform(tuple(reciprocal), found)


def _phase(turns: Floats) -> Complex:
    values: Complex = np.exp(2j * np.pi * (turns % 1.0))
    return values


# --- checks -----------------------------------------------------------------------------------------------------------


def _axes(grid: Any) -> list[Floats]:
    plain = isinstance(grid, Sequence) and not isinstance(grid, str)
    sides = list(grid) if plain and any(np.ndim(side) for side in grid) else [floats(grid, "grid")]
    if not sides or not np.size(sides[0]) or (len(sides) == 1 and not np.ndim(sides[0])):
        raise UserValueError("grid must hold the coordinates of at least one axis", "grid")
    if not plain and sides[0].ndim == 2:
        sides = list(sides[0])
    axes = [floats(side, f"grid, axis {d}") for d, side in enumerate(sides)]
    for d, x in enumerate(axes):
        if x.ndim != 1 or len(x) < 2:
            raise UserValueError.must("coordinates", "be two or more numbers on one axis", x, f"grid, axis {d}")
        steps, mean = np.diff(x), (x[-1] - x[0]) / (len(x) - 1)
        if not (mean > 0 and np.isfinite(mean)) or np.abs(steps - mean).max() > EVEN * mean:
            raise UserValueError(
                "coordinates must be ascending and evenly spaced", f"grid, axis {d}", "give x0 + h * arange(n)"
            )
    return axes


def _starts(start: float | Sequence[float] | None, d: int) -> list[float | None]:
    if start is None:
        return [None] * d
    given = floats(start, "start")
    if given.shape not in ((), (d,)) or not np.isfinite(given).all():
        raise UserValueError.must("start", f"be one finite number or {d}, one per axis", start)
    return [float(k) for k in np.broadcast_to(given, d)]


def _period(period: float) -> float:
    if not 0 < period < math.inf:
        raise UserValueError.must("period", "be positive and finite", period)
    return float(period)


def _finite(values: NDArray[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    if values.shape != shape:
        raise UserValueError(f"{name} must give one value per point, {shape}, got shape {values.shape}", name)
    if values.dtype.kind not in "biufc":
        raise UserTypeError(f"{name} must give numbers, got dtype {values.dtype}", name)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise UserValueError(f"{name} must give finite values, got {values.flat[bad[0]]} at point {bad[0]}", name)
    return values


def _numbers(x: Any, axis: int, n: int | None, norm: str) -> Any:
    """x as floating numbers that the transforms take, after every check that they share."""
    choice(norm, Norm, "norm")
    if n is not None and n < 1:
        raise UserValueError.must("n", "be at least 1", n)
    array = x if is_tensor(x) else numbers(x, "x")
    if not -array.ndim <= axis < array.ndim:
        raise UserValueError.must("axis", f"be an axis of an array of {array.ndim} axes", axis)
    if not array.shape[axis]:
        raise UserValueError("x must have at least one number on the axis", "x")
    affordable(
        0 if n is None else n * math.prod(array.shape) // array.shape[axis], "n", "give a smaller length", each=16
    )
    if is_tensor(array):
        return _floating_tensor(array)
    if array.dtype.kind not in "biufc":
        raise UserTypeError(f"x must hold numbers, got dtype {array.dtype}", "x")
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _floating_tensor(x: Any) -> Any:
    import torch

    if not (x.is_floating_point() or x.is_complex()):
        return x.to(torch.float64)
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.float()
    return x.to(torch.complex64) if x.dtype == torch.complex32 else x


def _transform(name: str, x: Any, n: int | None, axis: int, norm: str) -> Array:
    if is_tensor(x):
        import torch

        return getattr(torch.fft, name)(x, n, dim=axis, norm=norm)
    return getattr(scipy.fft, name)(x, n, axis=axis, norm=norm)
