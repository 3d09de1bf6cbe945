"""Many updates of a restricted machine by its chains in one compiled call, the numbers those of single updates."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from gnomon.numeric import philox
from gnomon.numeric.fast import chance32, chance64, f32, f64
from gnomon.numeric.philox import unit32, unit64

__all__ = ["updated_by_chains"]

kernel = numba.njit(cache=True, error_model="numpy", nogil=True)


@kernel
def _unit_draws32(field, bias, weight, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """The chances p = sigmoid(field + bias) times the row's weight, in place of the field; draws of them into `out`."""
    n, m = out.shape
    words = np.empty((1, m), np.uint32)
    for i in range(n):
        philox.words(words, positions[i : i + 1], draw, update, k0, k1)
        word, a, target, w = words[0], field[i], out[i], weight[i]
        for j in range(m):
            p = chance32(a[j] + bias[j])
            target[j] = f32(1.0) if unit32(word[j]) < p else f32(0.0)
            a[j] = p * w


@kernel
def _unit_draws64(field, bias, weight, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    n, m = out.shape
    words = np.empty((1, m), np.uint64)
    for i in range(n):
        philox.words64(words, positions[i : i + 1], draw, update, k0, k1)
        word, a, target, w = words[0], field[i], out[i], weight[i]
        for j in range(m):
            p = chance64(a[j] + bias[j])
            target[j] = f64(1.0) if unit64(word[j]) < p else f64(0.0)
            a[j] = p * w


@kernel
def _unit_means32(field, bias, weight):  # type: ignore[no-untyped-def]
    """The chances p = sigmoid(field + bias) times the row's weight, in place of the field."""
    n, m = field.shape
    for i in range(n):
        a, w = field[i], weight[i]
        for j in range(m):
            a[j] = chance32(a[j] + bias[j]) * w


@kernel
def _unit_means64(field, bias, weight):  # type: ignore[no-untyped-def]
    n, m = field.shape
    for i in range(n):
        a, w = field[i], weight[i]
        for j in range(m):
            a[j] = chance64(a[j] + bias[j]) * w


def _draw(field, bias, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Draws of units under a field, in the numbers of its dtype."""
    raise NotImplementedError


def _draw_weighted(field, bias, weight, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """`_unit_draws32` or the other."""
    raise NotImplementedError


def _weigh(field, bias, weight):  # type: ignore[no-untyped-def]
    """`_unit_means32` or the other."""
    raise NotImplementedError


@overload(_draw)
def _draw_of(field, bias, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    kind = philox.bernoulli_field32 if field.dtype == numba.float32 else philox.bernoulli_field64
    return lambda field, bias, out, positions, draw, update, k0, k1: kind(
        field, bias, 1.0, out, positions, draw, update, k0, k1
    )


@overload(_draw_weighted)
def _draw_weighted_of(field, bias, weight, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    kind = _unit_draws32 if field.dtype == numba.float32 else _unit_draws64
    return lambda field, bias, weight, out, positions, draw, update, k0, k1: kind(
        field, bias, weight, out, positions, draw, update, k0, k1
    )


@overload(_weigh)
def _weigh_of(field, bias, weight):  # type: ignore[no-untyped-def]
    kind = _unit_means32 if field.dtype == numba.float32 else _unit_means64
    return lambda field, bias, weight: kind(field, bias, weight)


@numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract"})
def _add_and_square(values, gradient, factor):  # type: ignore[no-untyped-def]
    """Add that multiple of a gradient in place; the sum of its squares, in vector registers."""
    by, total = values.dtype.type(factor), values.dtype.type(0)
    for i in range(values.size):
        values[i] += by * gradient[i]
        total += gradient[i] * gradient[i]
    return f64(total)


@kernel
def _run(X, weight, size, hidden, W, b, c, rate, k, persistent, positions, first, k0, k1):  # type: ignore[no-untyped-def]
    """Updates until the rows are used up or a gradient is not finite: how many, and the norm of the last gradient."""
    (d, m), chains, begun = W.shape, len(hidden), 0 if persistent else 1
    rows, field = np.empty((size + chains, d), W.dtype), np.empty((size + chains, m), W.dtype)
    signed, gradient = np.empty(size + chains, W.dtype), np.empty((d, m), W.dtype)
    seen, of_visible, of_hidden = np.empty((chains, d), W.dtype), np.empty(d, W.dtype), np.empty(m, W.dtype)
    near, far, chain = field[:size], field[size:], rows[size:]
    done, norm = 0, 0.0
    for begin in range(0, len(X), size):
        update = first + done
        data, counts = X[begin : begin + size], weight[begin : begin + size]
        total = f64(counts.sum())
        rows[:size] = data
        signed[:size] = -counts
        if persistent:
            signed[size:] = W.dtype.type(total / chains)
        else:
            signed[size:] = counts
        np.dot(data, W, near)
        for step in range(k):
            if step or not persistent:
                if step:
                    np.dot(chain, W, far)
                _draw(far if step else near, c, hidden, positions, 2 * step - 1 + begun, update, k0, k1)  # type: ignore[no-untyped-call]
            np.dot(hidden, W.T, seen)
            _draw(seen, b, chain, positions, 2 * step + begun, update, k0, k1)  # type: ignore[no-untyped-call]
        np.dot(chain, W, far)
        _weigh(near, c, signed)  # type: ignore[no-untyped-call]
        if persistent:
            _draw_weighted(far, c, signed[size:], hidden, positions, 2 * k, update, k0, k1)  # type: ignore[no-untyped-call]
        else:
            _weigh(far, c, signed[size:])  # type: ignore[no-untyped-call]
        np.dot(rows.T, field, gradient)
        np.dot(signed, rows, of_visible)
        of_hidden[:] = 0
        for i in range(size + chains):
            of_hidden += field[i]
        share = 1.0 / total if total else 0.0
        squares = _add_and_square(W.reshape(-1), gradient.reshape(-1), -rate * share)
        squares += _add_and_square(b, of_visible, -rate * share) + _add_and_square(c, of_hidden, -rate * share)
        norm = share * np.sqrt(squares)
        done += 1
        if not np.isfinite(norm):
            break
    return done, norm


def updated_by_chains(
    X: NDArray[Any], weight: NDArray[Any], size: int, hidden: NDArray[Any], parameters: tuple[NDArray[Any], ...],
    rate: float, k: int, address: tuple[int, int, int, NDArray[Any]], *, persistent: bool,
) -> tuple[int, float]:  # fmt: skip
    """Updates by plain descent, each on the next rows: binary units, data against chains of k steps.

    Parameters
    ----------
    X : array of shape (updates * size, d)
    weight : array of shape (updates * size,)
    size : int
        Rows of an update.
    hidden : array of shape (chains, m)
        Where persistent chains stand, moved in place; else room for the draws.
    parameters : arrays of shape (d, m), (d,) and (m,)
        Weights, visible and hidden biases, moved in place.
    rate : float
    k : int
    address : k0, k1, update and positions
        Of the first update, as `Noise.address` has them; the number of the update rises by one each time.
    persistent : bool
        Whether the chains go on from update to update; else they begin at the data.

    Returns
    -------
    tuple of int and float
        Updates made, fewer where a gradient was not finite, and the norm of the last gradient.
    """
    k0, k1, update, positions = address
    W, b, c = parameters
    done, norm = _run(X, weight, size, hidden, W, b, c, rate, k, persistent, positions, update, k0, k1)
    return int(done), float(norm)
