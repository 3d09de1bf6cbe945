"""Random words by address, Philox4x32-10 (Salmon et al. 2011), and the numbers made of them, on the CPU.

Element e of the row at `position` is word e % 4 of the block with counter (e // 4, position, draw, update) under a
64-bit key. Kernels write whole rows: first the words of a few rows into a buffer that stays in the first cache, then
the wanted numbers, element by element, so that both loops become vector instructions at any width.

Kernels take `out` as a C-contiguous (rows, elements) array, `positions` as uint32, and `draw`, `update`, `k0`, `k1` as
integers below 2**32. They check nothing: `Noise` does.
"""

from __future__ import annotations

import math

import numpy as np

from gnomon.numeric.fast import (
    chance32,
    chance64,
    f32,
    f64,
    inline,
    kernel,
    log32,
    log64,
    sincos2pi32,
    sincos2pi64,
)  # fmt: skip

__all__ = [
    "bernoulli32", "bernoulli64", "bernoulli_field32", "bernoulli_field64", "bernoulli_logits32", "bernoulli_logits64",
    "integers", "normal32", "normal64",
    "philox", "uniform32", "uniform64", "unit32", "unit64", "words", "words64",
]  # fmt: skip

u32, u64, i32, i64 = np.uint32, np.uint64, np.int32, np.int64
M0, M1, W0, W1 = u64(0xD2511F53), u64(0xCD9E8D57), u32(0x9E3779B9), u32(0xBB67AE85)
S32 = u64(32)
LOW = u32(0x80000000)
"""The bit of `draw` under which the low halves of 64-bit words lie."""
MASK = u64(0xFFFFFFFF)
BUFFER = 2048
"""Words made at a time; 8 KB stays in the first cache beside what is read and written."""


@inline
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Four words of one block: ten rounds of Philox4x32, all arguments uint32."""
    for _ in range(10):
        p0 = M0 * u64(c0)
        p1 = M1 * u64(c2)
        c0 = u32(u32(p1 >> S32) ^ c1 ^ k0)
        c2 = u32(u32(p0 >> S32) ^ c3 ^ k1)
        c1 = u32(p1)
        c3 = u32(p0)
        k0 = u32(k0 + W0)
        k1 = u32(k1 + W1)
    return c0, c1, c2, c3


@inline
def unit32(word):  # type: ignore[no-untyped-def]
    """A word as float32 in the open interval (0, 1): 23 bits and a half."""
    return (f32(i32(word >> u32(9))) + f32(0.5)) * f32(2.0**-23)


@inline
def unit64(word):  # type: ignore[no-untyped-def]
    """A 64-bit word as float64 in the open interval (0, 1): 52 bits and a half."""
    return (f64(i64(word >> u64(12))) + f64(0.5)) * f64(2.0**-52)


@kernel
def words(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Words of whole rows into a (rows, elements) uint32 array."""
    n, width = out.shape
    full, rest = width // 4, width % 4
    c2, c3, key0, key1 = u32(draw), u32(update), u32(k0), u32(k1)
    if full >= 16:
        for i in range(n):
            position, row = positions[i], out[i]
            for b in range(full):
                w0, w1, w2, w3 = philox(u32(b), position, c2, c3, key0, key1)
                row[4 * b], row[4 * b + 1], row[4 * b + 2], row[4 * b + 3] = w0, w1, w2, w3
    else:  # Narrow rows: the rows are the long way.
        for b in range(full):
            for i in range(n):
                w0, w1, w2, w3 = philox(u32(b), positions[i], c2, c3, key0, key1)
                out[i, 4 * b], out[i, 4 * b + 1], out[i, 4 * b + 2], out[i, 4 * b + 3] = w0, w1, w2, w3
    if rest == 0:
        return
    for i in range(n):
        w0, w1, w2, _ = philox(u32(full), positions[i], c2, c3, key0, key1)
        out[i, 4 * full] = w0
        if rest > 1:
            out[i, 4 * full + 1] = w1
        if rest > 2:
            out[i, 4 * full + 2] = w2


@kernel
def words64(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """64-bit words of whole rows into a (rows, elements) uint64 array: the high half is the 32-bit word there."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    high, low = np.empty((rows, width), u32), np.empty((rows, width), u32)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        count = stop - start
        words(high[:count], positions[start:stop], draw, update, k0, k1)
        words(low[:count], positions[start:stop], u32(draw) | LOW, update, k0, k1)
        target, h, l = out[start:stop].reshape(-1), high.reshape(-1), low.reshape(-1)
        for e in range(count * width):
            target[e] = (u64(h[e]) << S32) | u64(l[e])


@kernel
def uniform32(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Uniform float32 in (0, 1)."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    buffer = np.empty((rows, width), u32)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target = out[start:stop].reshape(-1)
        for e in range(target.size):
            target[e] = unit32(flat[e])


@kernel
def uniform64(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Uniform float64 in (0, 1)."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    buffer = np.empty((rows, width), u64)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words64(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target = out[start:stop].reshape(-1)
        for e in range(target.size):
            target[e] = unit64(flat[e])


@kernel
def bernoulli32(p, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """1 where u < p, float32."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    buffer = np.empty((rows, width), u32)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target, source = out[start:stop].reshape(-1), p[start:stop].reshape(-1)
        for e in range(target.size):
            target[e] = f32(1.0) if unit32(flat[e]) < source[e] else f32(0.0)


@kernel
def bernoulli64(p, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """1 where u < p, float64."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    buffer = np.empty((rows, width), u64)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words64(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target, source = out[start:stop].reshape(-1), p[start:stop].reshape(-1)
        for e in range(target.size):
            target[e] = f64(1.0) if unit64(flat[e]) < source[e] else f64(0.0)


@kernel
def bernoulli_logits32(logits, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """1 where u < sigmoid(logit), float32."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    buffer = np.empty((rows, width), u32)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target, source = out[start:stop].reshape(-1), logits[start:stop].reshape(-1)
        for e in range(target.size):
            target[e] = f32(1.0) if unit32(flat[e]) < chance32(source[e]) else f32(0.0)


@kernel
def bernoulli_logits64(logits, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """1 where u < sigmoid(logit), float64."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    buffer = np.empty((rows, width), u64)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words64(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target, source = out[start:stop].reshape(-1), logits[start:stop].reshape(-1)
        for e in range(target.size):
            target[e] = f64(1.0) if unit64(flat[e]) < chance64(source[e]) else f64(0.0)


@kernel
def bernoulli_field32(field, bias, scale, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """1 where u < sigmoid(scale * field + bias), float32, a bias for each column."""
    n, width = out.shape
    buffer, by = np.empty((1, width), u32), f32(scale)
    for i in range(n):
        words(buffer, positions[i : i + 1], draw, update, k0, k1)
        word, a, target = buffer[0], field[i], out[i]
        for e in range(width):
            target[e] = f32(1.0) if unit32(word[e]) < chance32(by * a[e] + bias[e]) else f32(0.0)


@kernel
def bernoulli_field64(field, bias, scale, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """1 where u < sigmoid(scale * field + bias), float64, a bias for each column."""
    n, width = out.shape
    buffer = np.empty((1, width), u64)
    for i in range(n):
        words64(buffer, positions[i : i + 1], draw, update, k0, k1)
        word, a, target = buffer[0], field[i], out[i]
        for e in range(width):
            target[e] = f64(1.0) if unit64(word[e]) < chance64(scale * a[e] + bias[e]) else f64(0.0)


@inline
def gauss32(first, second):  # type: ignore[no-untyped-def]
    """Two standard normal float32 from two words (Box and Muller 1958); magnitudes up to 6.66."""
    u = (f32(i32(first >> u32(1))) + f32(0.5)) * f32(2.0**-31)
    radius = f32(math.sqrt(f32(-2.0) * log32(u)))
    sine, cosine = sincos2pi32(f32(i32(second >> u32(8))) * f32(2.0**-24))
    return radius * sine, radius * cosine


@inline
def gauss64(first, second):  # type: ignore[no-untyped-def]
    """Two standard normal float64 from two 64-bit words; magnitudes up to 8.57."""
    radius = math.sqrt(f64(-2.0) * log64(unit64(first)))
    sine, cosine = sincos2pi64(f64(i64(second >> u64(12))) * f64(2.0**-52))
    return radius * sine, radius * cosine


@kernel
def pairs32(source, out):  # type: ignore[no-untyped-def]
    """Normal pairs from word pairs."""
    for j in range(source.size // 2):
        out[2 * j], out[2 * j + 1] = gauss32(source[2 * j], source[2 * j + 1])


@kernel
def normal32(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Standard normal float32; elements 2j and 2j + 1 come from words 2j and 2j + 1."""
    n, width = out.shape
    padded = (width + 3) // 4 * 4
    rows = max(1, BUFFER // max(1, padded))
    buffer, pairs = np.empty((rows, padded), u32), np.empty(rows * padded, f32)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        pairs32(flat[: (stop - start) * padded], pairs)
        for i in range(stop - start):
            target, source = out[start + i], pairs[i * padded : i * padded + width]
            for e in range(width):
                target[e] = source[e]


@kernel
def pairs64(source, out):  # type: ignore[no-untyped-def]
    """Normal pairs from word pairs."""
    for j in range(source.size // 2):
        out[2 * j], out[2 * j + 1] = gauss64(source[2 * j], source[2 * j + 1])


@kernel
def normal64(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Standard normal float64; elements 2j and 2j + 1 come from 64-bit words 2j and 2j + 1."""
    n, width = out.shape
    padded = (width + 3) // 4 * 4
    rows = max(1, BUFFER // max(1, padded))
    buffer, pairs = np.empty((rows, padded), u64), np.empty(rows * padded, f64)
    flat = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words64(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        pairs64(flat[: (stop - start) * padded], pairs)
        for i in range(stop - start):
            target, source = out[start + i], pairs[i * padded : i * padded + width]
            for e in range(width):
                target[e] = source[e]


@inline
def multiply_high(word, high):  # type: ignore[no-untyped-def]
    """floor(word * high / 2**64), both uint64."""
    w1, w0, h1, h0 = word >> S32, word & MASK, high >> S32, high & MASK
    a = w1 * h0 + ((w0 * h0) >> S32)
    b = w0 * h1 + (a & MASK)
    return w1 * h1 + (a >> S32) + (b >> S32)


@kernel
def integers(high, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Whole numbers in [0, high), int64."""
    n, width = out.shape
    rows = max(1, BUFFER // max(1, width))
    buffer = np.empty((rows, width), u64)
    flat, bound = buffer.reshape(-1), u64(high)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        words64(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target = out[start:stop].reshape(-1)
        for e in range(target.size):
            target[e] = i64(multiply_high(flat[e], bound))


@kernel
def positions32(positions):  # type: ignore[no-untyped-def]
    """Positions as uint32, and the first index whose position is not below 2**32 (else -1)."""
    out = np.empty(positions.size, u32)
    bad = -1
    for i in range(positions.size):
        p = positions[i]
        if p < 0 or p > i64(0xFFFFFFFF):
            bad = i
            break
        out[i] = u32(p)
    return out, bad
