"""Compiled loops of `gnomon.distributions.gaussian`: squared distances, responsibilities, weighted moments."""

from __future__ import annotations

import numba
import numpy as np

from gnomon.numeric.fast import exp64, log64

__all__ = [
    "NEGLIGIBLE", "add", "distances", "gather", "responsibilities", "scale", "second_moments", "squares",
    "with_norms", "with_squares",
]  # fmt: skip

NEGLIGIBLE = 1e-24
"""A row of which a component has a smaller part is left out of its moments, whose sums would round it away."""

kernel = numba.njit(cache=True, nogil=True, error_model="numpy")
summing = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
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
        row, gaps, squared = x[i], out[i, :d], out[i, d : 2 * d]
        for j in range(d):
            gap = row[j] - pivot[j]
            gaps[j] = gap
            squared[j] = gap * gap
        for j in range(d):  # a loop of its own: two that write become vector instructions, one does not
            largest[j] = max(largest[j], squared[j])
        out[i, 2 * d] = 1.0


@summing
def with_norms(x, pivot, out, largest):  # type: ignore[no-untyped-def]
    """out[i] = [gap, |gap|^2, 1] with gap = x[i] - pivot; largest[0] = max over i of |gap|^2."""
    n, d = x.shape
    largest[0] = 0.0
    for i in range(n):
        row, gaps, norm = x[i], out[i, :d], 0.0
        for j in range(d):
            gap = row[j] - pivot[j]
            gaps[j] = gap
            norm += gap * gap
        out[i, d], out[i, d + 1] = norm, 1.0
        largest[0] = max(largest[0], norm)


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


@summing
def _sums(rows, out):  # type: ignore[no-untyped-def]
    """out[i] = sum_c rows[i, c]."""
    for i in range(len(rows)):
        total = 0.0
        for c in range(rows.shape[1]):
            total += rows[i, c]
        out[i] = total


@kernel
def responsibilities(field, constant, weight, total, rows):  # type: ignore[no-untyped-def]
    """In place from squared distances to weight[i] p(c | x_i); total[i] = log p(x_i), rows[c] += sum_i of the result.

    constant[c] is the log density at the mean plus the log of the component's share. Steps are loops of their own:
    those without a branch or a sum in them become vector instructions.
    """
    n, k = field.shape
    for i in range(n):
        row = field[i]
        for c in range(k):
            row[c] = constant[c] - 0.5 * max(row[c], 0.0)
        top = row[0]
        for c in range(1, k):
            top = max(top, row[c])
        total[i] = top
        for c in range(k):
            row[c] -= top
    flat, mass = field.reshape(-1), np.empty(n)
    for j in range(len(flat)):
        flat[j] = exp64(flat[j])
    _sums(field, mass)
    for i in range(n):
        row, factor = field[i], weight[i] / mass[i]
        for c in range(k):
            row[c] *= factor
        for c in range(k):
            rows[c] += row[c]
    for i in range(n):
        total[i] += log64(mass[i])


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
