"""The addresses of `philox` in torch operations, for tensors on any device.

Words are kept in int64, since few devices multiply unsigned numbers. Floating-point steps are the same correctly
rounded operations in the same order as in `fast`, so uniform numbers, Bernoulli draws, integers and normals have the
bits of the compiled kernels on every device whose eager arithmetic follows IEEE 754. One exception: float64 normals
are a unit in the last place off where the device's float64 square root is.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["bernoulli", "bernoulli_logits", "integers", "normal", "philox", "sigmoid", "uniform", "words", "words64"]

MASK = 0xFFFFFFFF
LOW = 0x80000000
SINGLE = torch.float32
# log(2) in two parts, as in `fast`.
LN2_SINGLE = (0.693359375, math.log(2) - 0.693359375)
LN2_DOUBLE = (float.fromhex("0x1.62e42fee00000p-1"), 1.90821492927058770002e-10)


def words(positions: Tensor, width: int, draw: int, update: int, k0: int, k1: int) -> Tensor:
    """Words of whole rows.

    Parameters
    ----------
    positions : Tensor of int64, shape (rows,)
        Places below 2**32; the device of the answer.
    width : int
        Elements per row.
    draw, update, k0, k1 : int
        The rest of the address, each below 2**32.

    Returns
    -------
    Tensor of int64, shape (rows, width)
        Numbers in [0, 2**32). Cost: ten rounds of some ten operations on rows * width / 4 blocks.

    Examples
    --------
    >>> hex(int(words(torch.tensor([0]), 1, 0, 0, 0, 0)))
    '0x6627e8d5'
    """
    n, blocks = positions.shape[0], -(-width // 4)
    c0 = torch.arange(blocks, device=positions.device).expand(n, blocks)
    c1 = positions[:, None].expand(n, blocks)
    block = philox(c0, c1, torch.full_like(c0, draw), torch.full_like(c0, update), k0, k1)
    return torch.stack(block, -1).reshape(n, 4 * blocks)[:, :width]


def philox(c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor, k0: int, k1: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Four words per block, ten rounds of Philox4x32; counters are int64 below 2**32."""
    for _ in range(10):
        # The product may pass 2**63; its 64 bits are right all the same, and the mask undoes the signed shift.
        p0, p1 = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = ((p1 >> 32) & MASK) ^ c1 ^ k0, p1 & MASK, ((p0 >> 32) & MASK) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def words64(positions: Tensor, width: int, draw: int, update: int, k0: int, k1: int) -> tuple[Tensor, Tensor]:
    """High and low halves of 64-bit words, each as `words`."""
    high = words(positions, width, draw, update, k0, k1)
    return high, words(positions, width, draw | LOW, update, k0, k1)


def _fraction64(high: Tensor, low: Tensor) -> Tensor:
    """The leading 52 bits of 64-bit words as whole float64 numbers."""
    return ((high << 20) | (low >> 12)).double()


def uniform(positions: Tensor, width: int, dtype: torch.dtype, draw: int, update: int, k0: int, k1: int) -> Tensor:
    """Uniform numbers in (0, 1), shape (rows, width), float32 or float64."""
    if dtype == SINGLE:
        return ((words(positions, width, draw, update, k0, k1) >> 9).float() + 0.5) * 2.0**-23
    return (_fraction64(*words64(positions, width, draw, update, k0, k1)) + 0.5) * 2.0**-52


def bernoulli(p: Tensor, positions: Tensor, draw: int, update: int, k0: int, k1: int) -> Tensor:
    """1 where u < p, shape and dtype of `p`, (rows, width)."""
    return (uniform(positions, p.shape[1], p.dtype, draw, update, k0, k1) < p).to(p.dtype)


def bernoulli_logits(logits: Tensor, positions: Tensor, draw: int, update: int, k0: int, k1: int) -> Tensor:
    """1 where u < sigmoid(logit), with the `sigmoid` of this module."""
    return bernoulli(sigmoid(logits), positions, draw, update, k0, k1)


def normal(positions: Tensor, width: int, dtype: torch.dtype, draw: int, update: int, k0: int, k1: int) -> Tensor:
    """Standard normal numbers, shape (rows, width), float32 or float64."""
    padded = -(-width // 4) * 4
    if dtype == SINGLE:
        pairs = words(positions, padded, draw, update, k0, k1).reshape(-1, 2)
        first = ((pairs[:, 0] >> 1).float() + 0.5) * 2.0**-31
        angle = (pairs[:, 1] >> 8).float() * 2.0**-24
    else:
        pairs = _fraction64(*words64(positions, padded, draw, update, k0, k1)).reshape(-1, 2)
        first = (pairs[:, 0] + 0.5) * 2.0**-52
        angle = pairs[:, 1] * 2.0**-52
    radius = _sqrt(_log(first) * -2.0)
    sine, cosine = _sincos2pi(angle)
    return torch.stack((radius * sine, radius * cosine), -1).reshape(-1, padded)[:, :width]


def integers(high: int, positions: Tensor, width: int, draw: int, update: int, k0: int, k1: int) -> Tensor:
    """Whole numbers in [0, high), int64, shape (rows, width)."""
    w1, w0 = words64(positions, width, draw, update, k0, k1)
    h1, h0 = high >> 32, high & MASK
    a = w1 * h0 + ((w0 * h0 >> 32) & MASK)
    b = w0 * h1 + (a & MASK)
    return w1 * h1 + ((a >> 32) & MASK) + ((b >> 32) & MASK)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), bit for bit that of `fast`."""
    e = _exp(-x.abs())
    return torch.where(x < 0, e, torch.ones_like(e)) / (1.0 + e)


def _horner(r: Tensor, coefficients: list[float]) -> Tensor:
    """Polynomial, leading coefficient first."""
    y = torch.full_like(r, coefficients[0])
    for c in coefficients[1:]:
        y = y * r + c
    return y


def _exp(x: Tensor) -> Tensor:
    single = x.dtype == SINGLE
    low, high, shift = (-105.0, 89.0, 1.5 * 2**23) if single else (-746.0, 710.0, 1.5 * 2**52)
    integer, mantissa, bias = (torch.int32, 23, 127) if single else (torch.int64, 52, 1023)
    ln2 = LN2_SINGLE if single else LN2_DOUBLE
    x = torch.clamp(x, low, high)
    shifted = x * 1.4426950408889634 + shift
    n = shifted - shift
    r = (x - n * ln2[0]) - n * ln2[1]
    y = _horner(r, [1 / math.factorial(i) for i in range(7 if single else 13, 1, -1)])
    y = (y * (r * r) + r) + 1.0
    k = shifted.view(integer) - torch.full_like(x, shift).view(integer)
    half = k >> 1
    return y * ((half + bias) << mantissa).view(x.dtype) * ((k - half + bias) << mantissa).view(x.dtype)


def _log(x: Tensor) -> Tensor:
    single = x.dtype == SINGLE
    integer, mantissa, root = (torch.int32, 23, 0x3F3504F3) if single else (torch.int64, 52, 0x3FE6A09E667F3BCD)
    ln2 = LN2_SINGLE if single else LN2_DOUBLE
    bits = x.view(integer)
    k = (bits - root) >> mantissa
    f = (bits - (k << mantissa)).view(x.dtype) - 1.0
    s = f / (f + 2.0)
    z = s * s
    y = _horner(z, [2 / i for i in range(11 if single else 21, 2, -2)])
    half, n = f * 0.5 * f, k.to(x.dtype)
    return n * ln2[0] - ((half - (s * (half + y * z) + n * ln2[1])) - f)


def _sqrt(x: Tensor) -> Tensor:
    """Correctly rounded in float32, also where the library behind torch.sqrt is not (MKL on CPUs)."""
    if x.dtype != SINGLE or x.device.type == "mps":  # mps has no float64
        return torch.sqrt(x)
    return torch.sqrt(x.double()).float()


def _sincos2pi(v: Tensor) -> tuple[Tensor, Tensor]:
    top = 9 if v.dtype == SINGLE else 17
    t = v * 4.0
    q = (t + 0.5).to(torch.int32)
    a = (t - q.to(v.dtype)) * (math.pi / 2)
    z = a * a
    s = _horner(z, [(-1) ** (i // 2) / math.factorial(i) for i in range(top, 2, -2)]) * z * a + a
    even = range(top + 1 if v.dtype == SINGLE else top - 1, 3, -2)
    c = _horner(z, [(-1) ** (i // 2) / math.factorial(i) for i in even]) * z * z
    c = (c - z * 0.5) + 1.0
    odd = (q & 1) != 0
    sine, cosine = torch.where(odd, c, s), torch.where(odd, s, c)
    return torch.where((q & 2) != 0, -sine, sine), torch.where(((q + 1) & 2) != 0, -cosine, cosine)
