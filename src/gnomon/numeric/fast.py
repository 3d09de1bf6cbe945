"""Elementary functions that compile to vector instructions, and the kernels built on them.

Every function is written with correctly rounded operations alone (no fused multiply-add, no ``fastmath``), so a
number has the same bits wherever it stands in an array, and on any device that follows IEEE 754. The series are
Taylor's, cut where the rest falls below half a unit in the last place: exp on ``|r| <= log(2) / 2``, log as
``2 atanh(f / (2 + f))``, sine and cosine on ``|a| <= pi / 4``.

The functions named ``exp32``, ``log64`` ... are numba functions that are inlined into the kernel that calls them.
``exp32`` takes and gives float32, ``exp64`` float64. numba's cache on disk watches the file of the kernel only: after
an edit here, remove ``__pycache__/*.nbi`` of the rooms whose kernels use these functions.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "chance32", "chance64", "exp32", "exp64", "log1p32", "log1p64", "log32", "log64", "sigmoid", "sigmoid32",
    "sigmoid64", "sincos2pi32", "sincos2pi64", "softplus", "softplus32", "softplus64", "tail32", "tail64", "unit_rows",
]  # fmt: skip

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64
inline = numba.njit(inline="always", error_model="numpy")
kernel = numba.njit(cache=True, error_model="numpy")

# log(2) in two parts: n * HIGH is exact for every exponent n, LOW is the rest.
LN2_HIGH32, LN2_LOW32 = f32(0.693359375), f32(math.log(2) - 0.693359375)
LN2_HIGH64, LN2_LOW64 = f64(float.fromhex("0x1.62e42fee00000p-1")), f64(1.90821492927058770002e-10)
# Adding 1.5 * 2**23 rounds to a whole number and leaves it in the low bits; NaN passes through.
ROUND32, ROUND32_BITS = f32(1.5 * 2**23), i32(0x4B400000)
ROUND64, ROUND64_BITS = f64(1.5 * 2**52), i64(0x4338000000000000)


@inline
def split32(x):  # type: ignore[no-untyped-def]
    """y in [0.7, 1.42] and a whole k with exp(x) = y * 2**k; NaN gives y = NaN."""
    shifted = x * f32(1.4426950408889634) + ROUND32
    n = shifted - ROUND32
    r = (x - n * LN2_HIGH32) - n * LN2_LOW32
    y = f32(1 / 5040)
    y = y * r + f32(1 / 720)
    y = y * r + f32(1 / 120)
    y = y * r + f32(1 / 24)
    y = y * r + f32(1 / 6)
    y = y * r + f32(0.5)
    y = (y * (r * r) + r) + f32(1.0)
    return y, i32(f32(shifted).view(i32) - ROUND32_BITS)


@inline
def exp32(x):  # type: ignore[no-untyped-def]
    """exp(x), float32."""
    x = f32(89.0) if x > f32(89.0) else x
    x = f32(-105.0) if x < f32(-105.0) else x
    y, k = split32(x)
    # Two factors of 2**(k / 2), since 2**k itself may overflow or be subnormal where exp(x) is not.
    half = i32(k >> i32(1))
    first = i32((half + i32(127)) << i32(23)).view(f32)
    second = i32((k - half + i32(127)) << i32(23)).view(f32)
    return y * first * second


@inline
def split64(x):  # type: ignore[no-untyped-def]
    """y in [0.7, 1.42] and a whole k with exp(x) = y * 2**k; NaN gives y = NaN."""
    shifted = x * f64(1.4426950408889634) + ROUND64
    n = shifted - ROUND64
    r = (x - n * LN2_HIGH64) - n * LN2_LOW64
    y = f64(1 / 6227020800)
    y = y * r + f64(1 / 479001600)
    y = y * r + f64(1 / 39916800)
    y = y * r + f64(1 / 3628800)
    y = y * r + f64(1 / 362880)
    y = y * r + f64(1 / 40320)
    y = y * r + f64(1 / 5040)
    y = y * r + f64(1 / 720)
    y = y * r + f64(1 / 120)
    y = y * r + f64(1 / 24)
    y = y * r + f64(1 / 6)
    y = y * r + f64(0.5)
    y = (y * (r * r) + r) + f64(1.0)
    return y, f64(shifted).view(i64) - ROUND64_BITS


@inline
def exp64(x):  # type: ignore[no-untyped-def]
    """exp(x), float64."""
    x = f64(710.0) if x > f64(710.0) else x
    x = f64(-746.0) if x < f64(-746.0) else x
    y, k = split64(x)
    half = i64(k >> i64(1))
    first = i64((half + i64(1023)) << i64(52)).view(f64)
    second = i64((k - half + i64(1023)) << i64(52)).view(f64)
    return y * first * second


@inline
def log32(x):  # type: ignore[no-untyped-def]
    """log(x), float32, for a normal number x > 0."""
    bits = f32(x).view(i32)
    k = i32((bits - i32(0x3F3504F3)) >> i32(23))
    f = i32(bits - i32(k << i32(23))).view(f32) - f32(1.0)
    s = f / (f32(2.0) + f)
    z = s * s
    y = f32(2 / 11)
    y = y * z + f32(2 / 9)
    y = y * z + f32(2 / 7)
    y = y * z + f32(2 / 5)
    y = y * z + f32(2 / 3)
    half = f32(0.5) * f * f
    n = f32(k)
    return n * LN2_HIGH32 - ((half - (s * (half + y * z) + n * LN2_LOW32)) - f)


@inline
def log64(x):  # type: ignore[no-untyped-def]
    """log(x), float64, for a normal number x > 0."""
    bits = f64(x).view(i64)
    k = i64((bits - i64(0x3FE6A09E667F3BCD)) >> i64(52))
    f = i64(bits - i64(k << i64(52))).view(f64) - f64(1.0)
    s = f / (f64(2.0) + f)
    z = s * s
    y = f64(2 / 21)
    y = y * z + f64(2 / 19)
    y = y * z + f64(2 / 17)
    y = y * z + f64(2 / 15)
    y = y * z + f64(2 / 13)
    y = y * z + f64(2 / 11)
    y = y * z + f64(2 / 9)
    y = y * z + f64(2 / 7)
    y = y * z + f64(2 / 5)
    y = y * z + f64(2 / 3)
    half = f64(0.5) * f * f
    n = f64(k)
    return n * LN2_HIGH64 - ((half - (s * (half + y * z) + n * LN2_LOW64)) - f)


@inline
def log1p32(e):  # type: ignore[no-untyped-def]
    """log(1 + e), float32, for 0 <= e <= 1, to full relative accuracy: 2 atanh(e / (2 + e))."""
    s = e / (f32(2.0) + e)
    z = s * s
    y = f32(2 / 15)
    y = y * z + f32(2 / 13)
    y = y * z + f32(2 / 11)
    y = y * z + f32(2 / 9)
    y = y * z + f32(2 / 7)
    y = y * z + f32(2 / 5)
    y = y * z + f32(2 / 3)
    return (y * z) * s + f32(2.0) * s


@inline
def log1p64(e):  # type: ignore[no-untyped-def]
    """log(1 + e), float64, for 0 <= e <= 1, to full relative accuracy."""
    s = e / (f64(2.0) + e)
    z = s * s
    y = f64(2 / 35)
    y = y * z + f64(2 / 33)
    y = y * z + f64(2 / 31)
    y = y * z + f64(2 / 29)
    y = y * z + f64(2 / 27)
    y = y * z + f64(2 / 25)
    y = y * z + f64(2 / 23)
    y = y * z + f64(2 / 21)
    y = y * z + f64(2 / 19)
    y = y * z + f64(2 / 17)
    y = y * z + f64(2 / 15)
    y = y * z + f64(2 / 13)
    y = y * z + f64(2 / 11)
    y = y * z + f64(2 / 9)
    y = y * z + f64(2 / 7)
    y = y * z + f64(2 / 5)
    y = y * z + f64(2 / 3)
    return (y * z) * s + f64(2.0) * s


@inline
def sigmoid32(x):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-x)), float32."""
    e = exp32(-abs(x))
    return (e if x < f32(0.0) else f32(1.0)) / (f32(1.0) + e)


@inline
def sigmoid64(x):  # type: ignore[no-untyped-def]
    """1 / (1 + exp(-x)), float64."""
    e = exp64(-abs(x))
    return (e if x < f64(0.0) else f64(1.0)) / (f64(1.0) + e)


@inline
def tail32(x):  # type: ignore[no-untyped-def]
    """exp(-abs(x)), no less than exp(-87), float32."""
    a = -abs(x)
    y, k = split32(f32(-87.0) if a < f32(-87.0) else a)
    return y * i32((k + i32(127)) << i32(23)).view(f32)


@inline
def tail64(x):  # type: ignore[no-untyped-def]
    """exp(-abs(x)), no less than exp(-700), float64."""
    a = -abs(x)
    y, k = split64(f64(-700.0) if a < f64(-700.0) else a)
    return y * i64((k + i64(1023)) << i64(52)).view(f64)


@inline
def chance32(x):  # type: ignore[no-untyped-def]
    """sigmoid32(x) for comparing with a uniform number: the same bits, but no less than exp(-87)."""
    e = tail32(x)
    return (e if x < f32(0.0) else f32(1.0)) / (f32(1.0) + e)


@inline
def softplus32(x):  # type: ignore[no-untyped-def]
    """log(1 + exp(x)), float32."""
    return (f32(0.0) if x < f32(0.0) else x) + log1p32(exp32(-abs(x)))


@inline
def chance64(x):  # type: ignore[no-untyped-def]
    """sigmoid64(x) for comparing with a uniform number: the same bits, but no less than exp(-700)."""
    e = tail64(x)
    return (e if x < f64(0.0) else f64(1.0)) / (f64(1.0) + e)


@inline
def softplus64(x):  # type: ignore[no-untyped-def]
    """log(1 + exp(x)), float64."""
    return (f64(0.0) if x < f64(0.0) else x) + log1p64(exp64(-abs(x)))


@inline
def sincos2pi32(v):  # type: ignore[no-untyped-def]
    """sin(2 pi v) and cos(2 pi v), float32, for 0 <= v < 1."""
    t = v * f32(4.0)
    q = i32(t + f32(0.5))
    a = (t - f32(q)) * f32(math.pi / 2)
    z = a * a
    s = (((f32(1 / 362880) * z - f32(1 / 5040)) * z + f32(1 / 120)) * z - f32(1 / 6)) * z * a + a
    c = (((f32(-1 / 3628800) * z + f32(1 / 40320)) * z - f32(1 / 720)) * z + f32(1 / 24)) * z * z
    c = (c - f32(0.5) * z) + f32(1.0)
    odd = (q & i32(1)) != 0
    sine = c if odd else s
    cosine = s if odd else c
    sine = -sine if (q & i32(2)) != 0 else sine
    cosine = -cosine if ((q + i32(1)) & i32(2)) != 0 else cosine
    return sine, cosine


@inline
def sincos2pi64(v):  # type: ignore[no-untyped-def]
    """sin(2 pi v) and cos(2 pi v), float64, for 0 <= v < 1."""
    t = v * f64(4.0)
    q = i32(t + f64(0.5))
    a = (t - f64(q)) * f64(math.pi / 2)
    z = a * a
    s = f64(1 / 355687428096000)
    s = s * z - f64(1 / 1307674368000)
    s = s * z + f64(1 / 6227020800)
    s = s * z - f64(1 / 39916800)
    s = s * z + f64(1 / 362880)
    s = s * z - f64(1 / 5040)
    s = s * z + f64(1 / 120)
    s = s * z - f64(1 / 6)
    s = s * z * a + a
    c = f64(1 / 20922789888000)
    c = c * z - f64(1 / 87178291200)
    c = c * z + f64(1 / 479001600)
    c = c * z - f64(1 / 3628800)
    c = c * z + f64(1 / 40320)
    c = c * z - f64(1 / 720)
    c = c * z + f64(1 / 24)
    c = (c * z * z - f64(0.5) * z) + f64(1.0)
    odd = (q & i32(1)) != 0
    sine = c if odd else s
    cosine = s if odd else c
    sine = -sine if (q & i32(2)) != 0 else sine
    cosine = -cosine if ((q + i32(1)) & i32(2)) != 0 else cosine
    return sine, cosine


@kernel
def _sigmoid32(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = sigmoid32(x[i])


@kernel
def _sigmoid64(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = sigmoid64(x[i])


@kernel
def _unit_rows32(field, bias, weight, mean, weighted):  # type: ignore[no-untyped-def]
    n, m = field.shape
    for i in range(n):
        w = weight[i]
        for j in range(m):
            p = sigmoid32(field[i, j] + bias[j])
            mean[i, j] = p
            weighted[i, j] = p * w


@kernel
def _unit_rows64(field, bias, weight, mean, weighted):  # type: ignore[no-untyped-def]
    n, m = field.shape
    for i in range(n):
        w = weight[i]
        for j in range(m):
            p = sigmoid64(field[i, j] + bias[j])
            mean[i, j] = p
            weighted[i, j] = p * w


@kernel
def _softplus32(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = softplus32(x[i])


@kernel
def _softplus64(x, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        out[i] = softplus64(x[i])


def _apply(x: NDArray[Any], out: NDArray[Any] | None, single: Any, double: Any) -> NDArray[Any]:
    """Run a kernel over an array of any layout; `out` may be `x` itself."""
    if x.dtype not in (f32, f64):
        raise TypeError(f"expected float32 or float64, got {x.dtype}")
    if out is None:
        out = np.empty(x.shape, x.dtype)
    if out.shape != x.shape or out.dtype != x.dtype or not out.flags.c_contiguous:
        raise ValueError("out must be C-contiguous, of the shape and dtype of x")
    run = single if x.dtype == f32 else double
    run(np.ascontiguousarray(x).reshape(-1), out.reshape(-1))
    return out


def unit_rows(field: NDArray[Any], bias: NDArray[Any], weight: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Means of binary units, p = sigmoid(field + bias), and p times a weight per row, in one pass.

    Parameters
    ----------
    field : C-ordered array of shape (n, m), float32 or float64
    bias : array of shape (m,)
    weight : array of shape (n,)

    Examples
    --------
    >>> unit_rows(np.zeros((1, 2)), np.zeros(2), np.array([3.0]))
    (array([[0.5, 0.5]]), array([[1.5, 1.5]]))
    """
    mean, weighted = np.empty_like(field), np.empty_like(field)
    (_unit_rows32 if field.dtype == f32 else _unit_rows64)(field, bias, weight, mean, weighted)
    return mean, weighted


def sigmoid(x: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Logistic function 1 / (1 + exp(-x)) of every element.

    Parameters
    ----------
    x : ndarray of float32 or float64
    out : ndarray, optional
        Where to write, C-contiguous, shape and dtype of `x`; may be `x` itself.

    Returns
    -------
    ndarray
        `out`, or a new array. Error below 3 units in the last place, subnormal results included.

    Examples
    --------
    >>> sigmoid(np.array([0.0, -1000.0, np.inf]))
    array([0.5, 0. , 1. ])
    """
    return _apply(x, out, _sigmoid32, _sigmoid64)


def softplus(x: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """log(1 + exp(x)) of every element, computed as max(x, 0) + log1p(exp(-abs(x))).

    Parameters
    ----------
    x : ndarray of float32 or float64
    out : ndarray, optional
        Where to write, C-contiguous, shape and dtype of `x`; may be `x` itself.

    Returns
    -------
    ndarray
        `out`, or a new array. The relative error stays at a few units in the last place for very negative `x` too.

    Examples
    --------
    >>> softplus(np.array([0.0, 1000.0, -np.inf]))
    array([6.93147181e-01, 1.00000000e+03, 0.00000000e+00])
    """
    return _apply(x, out, _softplus32, _softplus64)
