"""Compiled loops of `gnomon.distributions.gaussian`: squared distances, responsibilities, weighted moments."""

from __future__ import annotations

import numba
import numpy as np

from gnomon.numeric.fast import exp64, log64

__all__ = [
    "NEGLIGIBLE", "add", "distances", "gather", "responsibilities", "scale", "second_moments", "squares",
    "with_squares",
]  # fmt: skip

NEGLIGIBLE = 1e-24
"""A row of which a component has a smaller part is left out of its moments, whose sums would round it away."""

kernel = numba.njit(cache=True, error_model="numpy")
summing = numba.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
"""Sums may be reordered into vector registers; the order depends on the length alone, so the bits repeat."""


@summing
def squares(y, shift, out):  # type: ignore[no-untyped-def]
    """y[i, c] -= shift[c] in place, and out[i, c] = |y[i, c]|^2."""
    n, k, d = y.shape
    for i in range(n):
        for c in range(k):
            total = 0.0
            for j in range(d):
                value = y[i, c, j] - shift[c, j]
                y[i, c, j] = value
                total += value * value
            out[i, c] = total


@kernel
def with_squares(x, pivot, out, largest):  # type: ignore[no-untyped-def]
    """out[i] = [gap, gap^2, 1] with gap = x[i] - pivot; largest = max over i of gap^2, by column."""
    n, d = x.shape
    largest[:] = 0.0
    for i in range(n):
        for j in range(d):
            gap = x[i, j] - pivot[j]
            square = gap * gap
            out[i, j] = gap
            out[i, d + j] = square
            largest[j] = max(largest[j], square)
        out[i, 2 * d] = 1.0


@summing
def distances(x, center, precision, out):  # type: ignore[no-untyped-def]
    """out[i, c] = sum_j (x[i, j] - center[c, j])^2 precision[c, j]."""
    n, d = x.shape
    for i in range(n):
        for c in range(len(center)):
            total = 0.0
            for j in range(d):
                gap = x[i, j] - center[c, j]
                total += gap * gap * precision[c, j]
            out[i, c] = total


@kernel
def responsibilities(field, weight, total):  # type: ignore[no-untyped-def]
    """In place from log p(x_i, c) to weight[i] p(c | x_i); total[i] = log p(x_i)."""
    n, k = field.shape
    for i in range(n):
        top = field[i, 0]
        for c in range(1, k):
            top = max(top, field[i, c])
        for c in range(k):
            field[i, c] = exp64(field[i, c] - top)
        mass = 0.0
        for c in range(k):
            mass += field[i, c]
        factor = weight[i] / mass
        for c in range(k):
            field[i, c] *= factor
        total[i] = top + log64(mass)


@kernel
def gather(y, c, part, out):  # type: ignore[no-untyped-def]
    """The rows of component c times the root of their responsibility, one after the other; how many there are."""
    n, _, d = y.shape
    count = 0
    for i in range(n):
        if part[i, c] < NEGLIGIBLE:
            continue
        root = np.sqrt(part[i, c])
        for j in range(d):
            out[count, j] = root * y[i, c, j]
        count += 1
    return count


@kernel
def scale(y, part, first):  # type: ignore[no-untyped-def]
    """y[i, c] *= part[i, c] in place, and first[c] += its sum over the rows."""
    n, k, d = y.shape
    for i in range(n):
        for c in range(k):
            r = part[i, c]
            for j in range(d):
                value = r * y[i, c, j]
                y[i, c, j] = value
                first[c, j] += value


@kernel
def add(y, c, part, first):  # type: ignore[no-untyped-def]
    """first += sum_i part[i, c] y[i, c]."""
    n, _, d = y.shape
    for i in range(n):
        r = part[i, c]
        if r < NEGLIGIBLE:
            continue
        for j in range(d):
            first[j] += r * y[i, c, j]


@kernel
def second_moments(x, center, part, first, second):  # type: ignore[no-untyped-def]
    """first[c, j] += sum_i part[i, c] gap, second[c, j] += sum_i part[i, c] gap^2, gap = x[i, j] - center[c, j]."""
    n, d = x.shape
    for i in range(n):
        for c in range(len(center)):
            r = part[i, c]
            if r < NEGLIGIBLE:
                continue
            for j in range(d):
                gap = x[i, j] - center[c, j]
                weighted = r * gap
                first[c, j] += weighted
                second[c, j] += weighted * gap
