"""Compiled passes through shared hidden units that take in one column after the other."""

from __future__ import annotations

import numba
import numpy as np
from numba.extending import overload

from gnomon.numeric.fast import sigmoid32, sigmoid64

__all__ = ["forward", "backward"]

BLOCK = 64
"""Rows that go through a column together: their hidden units stay in the nearest memory, as the column's weights do."""

summing = numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract"})
exact = numba.njit(cache=True, error_model="numpy", nogil=True)


def _sigmoid(x):  # type: ignore[no-untyped-def]
    """The logistic function in the precision of its argument."""
    return 1 / (1 + np.exp(-x))


@overload(_sigmoid, inline="always")
def _sigmoid_of(x):  # type: ignore[no-untyped-def]
    return (lambda x: sigmoid64(x)) if x == numba.float64 else (lambda x: sigmoid32(x))


@exact
def _gates(scale, field, r, gate):  # type: ignore[no-untyped-def]
    """sigmoid(scale * field) of row r; apart from the loops whose sums may be taken in another order."""
    for k in range(field.shape[1]):
        gate[r, k] = _sigmoid(scale * field[r, k])  # type: ignore[no-untyped-call]


@summing
def _dots(V, i, o, gate, r, out):  # type: ignore[no-untyped-def]
    """out[r] = V[i, o] . gate[r] of four rows."""
    first = second = third = fourth = V.dtype.type(0)
    for k in range(V.shape[2]):
        w = V[i, o, k]
        first += w * gate[r, k]
        second += w * gate[r + 1, k]
        third += w * gate[r + 2, k]
        fourth += w * gate[r + 3, k]
    out[r], out[r + 1], out[r + 2], out[r + 3] = first, second, third, fourth


@summing
def _add_outer(by, r, V, i, o, gate, dV, pull):  # type: ignore[no-untyped-def]
    """Add by[r] gate[r] of four rows to dV[i, o], and by[r] V[i, o] to pull[r]."""
    first, second, third, fourth = by[r], by[r + 1], by[r + 2], by[r + 3]
    for k in range(V.shape[2]):
        dV[i, o, k] += first * gate[r, k] + second * gate[r + 1, k] + third * gate[r + 2, k] + fourth * gate[r + 3, k]
    for q in range(4):
        b = by[r + q]
        for k in range(V.shape[2]):
            pull[r + q, k] += b * V[i, o, k]


@summing
def _add_weights(number, W, t, field, r):  # type: ignore[no-untyped-def]
    """Add number W[t] to field[r]."""
    for k in range(W.shape[1]):
        field[r, k] += number * W[t, k]


@summing
def _take_back(number, W, t, field, r, later, dW):  # type: ignore[no-untyped-def]
    """Undo `_add_weights`, and add number later[r] to dW[t]."""
    for k in range(W.shape[1]):
        dW[t, k] += number * later[r, k]
        field[r, k] -= number * W[t, k]


@summing
def _settle(scale, field, gate, pull, later, r):  # type: ignore[no-untyped-def]
    """Carry what pulls at a row's gates to its field: `later` grows, `pull` is 0 again. The slope of the scale."""
    one, along = gate.dtype.type(1), gate.dtype.type(0)
    for k in range(gate.shape[1]):
        inside = pull[r, k] * gate[r, k] * (one - gate[r, k])
        along += inside * field[r, k]
        later[r, k] += scale * inside
        pull[r, k] = 0
    return along


@summing
def forward(order, x, W, c, V, b, scale, raw, begin, end):  # type: ignore[no-untyped-def]
    """raw[r, o, i] = b[i, o] + V[i, o] . sigmoid(scale[i] (c + sum of x[r, t] W[t] over t of columns before i)).

    `x` is (n, d * s), s numbers to a column, `W` (d * s, h), `V` (d, m, h); `scale` is empty where it is 1. Columns
    come in this order. Hidden units are computed anew only behind numbers that are not 0.
    """
    d, m, h = V.shape
    s = W.shape[0] // d
    field, gate = np.empty((BLOCK, h), x.dtype), np.zeros((BLOCK, h), x.dtype)
    moved, out, one = np.empty(BLOCK, np.bool_), np.empty(BLOCK, x.dtype), x.dtype.type(1)
    for start in range(begin, end, BLOCK):
        rows = min(BLOCK, end - start)
        for r in range(rows):
            for k in range(h):
                field[r, k] = c[k]
            moved[r] = True
        for i in order:
            for r in range(rows):
                if scale.size:
                    _gates(scale[i], field, r, gate)
                elif moved[r]:
                    _gates(one, field, r, gate)
            for o in range(m):
                for r in range(0, rows, 4):
                    _dots(V, i, o, gate, r, out)
                for r in range(rows):
                    raw[start + r, o, i] = b[i, o] + out[r]
            for r in range(rows):
                moved[r] = False
                for t in range(i * s, i * s + s):
                    number = x[start + r, t]
                    if number != 0:
                        moved[r] = True
                        _add_weights(number, W, t, field, r)


@summing
def backward(order, x, W, c, V, scale, slope, dW, dc, dV, db, dscale):  # type: ignore[no-untyped-def]
    """Add the gradients of the sum over r, o, i of slope[r, o, i] raw[r, o, i].

    The hidden units are found again on the way back from the last column: nothing is kept but those of a block.
    """
    n = x.shape[0]
    d, m, h = V.shape
    s = W.shape[0] // d
    field, gate = np.empty((BLOCK, h), x.dtype), np.zeros((BLOCK, h), x.dtype)
    pull, later = np.zeros((BLOCK, h), x.dtype), np.empty((BLOCK, h), x.dtype)
    by, one = np.zeros(BLOCK, x.dtype), x.dtype.type(1)
    for start in range(0, n, BLOCK):
        rows = min(BLOCK, n - start)
        for r in range(rows, BLOCK):
            by[r] = 0
        for r in range(rows):
            for k in range(h):
                field[r, k], later[r, k] = c[k], 0
            for t in range(d * s):
                number = x[start + r, t]
                if number != 0:
                    _add_weights(number, W, t, field, r)
            if not scale.size:
                _gates(one, field, r, gate)
        for i in order[::-1]:
            for r in range(rows):
                moved = False
                for t in range(i * s, i * s + s):
                    number = x[start + r, t]
                    if number != 0:
                        if not moved and not scale.size:
                            _settle(one, field, gate, pull, later, r)
                        moved = True
                        _take_back(number, W, t, field, r, later, dW)
                if scale.size:
                    _gates(scale[i], field, r, gate)
                elif moved:
                    _gates(one, field, r, gate)
            for o in range(m):
                for r in range(rows):
                    by[r] = slope[start + r, o, i]
                    db[i, o] += by[r]
                for r in range(0, rows, 4):
                    _add_outer(by, r, V, i, o, gate, dV, pull)
            if scale.size:
                for r in range(rows):
                    dscale[i] += _settle(scale[i], field, gate, pull, later, r)
        for r in range(rows):
            if not scale.size:
                _settle(one, field, gate, pull, later, r)
            for k in range(h):
                dc[k] += later[r, k]
