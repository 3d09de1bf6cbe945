"""The bridge between two sets of layers of binary units, compiled: what annealed importance sampling walks on."""

from __future__ import annotations

import copy
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise
from gnomon.inference.blocks import Keep
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.numeric import ops, philox
from gnomon.numeric.fast import f32, f64, tail32, tail64
from gnomon.numeric.philox import unit32, unit64
from gnomon.numeric.sums import log_product, reordered

__all__ = ["BinaryPath"]

Floats = NDArray[Any]
Ends = tuple[Floats, Floats]

kernel = numba.njit(cache=True, error_model="numpy", nogil=True)


class BinaryPath(BridgePath):
    """The path of binary units in two layers, from layers without coupling: two products and two passes a level.

    A layer is a block or several side by side: the even and the odd layers of a deep machine.

    ``E_eta(x, y) = -eta x'W y - x'b_eta - y'c_eta`` with ``b_eta = (1 - eta) b_0 + eta b``, c_eta alike. The product
    ``x W`` serves both energies of the weight and the conditional of y: one compiled pass makes of it the difference of
    the softplus sums, the probabilities and the draws. With a block in each layer the numbers drawn are those of
    `BridgePath`, up to rounding of the fields; weights are summed in float64.

    Parameters
    ----------
    model, base, etas, keep
        As in `BridgePath`.
    weight : array of shape (d, m), float32 or float64
        W; rows belong to the kept layer.
    kept : arrays of shape (d,)
        b_0 and b, of the kept layer.
    other : arrays of shape (m,)
        c_0 and c.

    Notes
    -----
    The array that `climb` or `descend` is given is overwritten by the one it returns.
    """

    def __init__(
        self, model: Any, base: Any, etas: ArrayLike, keep: Keep, weight: Floats, kept: Ends, other: Ends
    ) -> None:
        super().__init__(model, base, etas, keep)
        # both ways round: a product with a transposed view takes a fifth longer
        self.weight, self.transposed = np.ascontiguousarray(weight), np.ascontiguousarray(weight.T)
        self.kept_ends, self.other_ends = kept, other
        self.slope = np.asarray(kept[1], np.float64) - np.asarray(kept[0], np.float64)
        single = self.weight.dtype == np.float32
        self._weigh_and_draw = _first32 if single else _first64
        self._draw = philox.bernoulli_field32 if single else philox.bernoulli_field64
        self._fields: tuple[Floats, ...] = ()

    def log_prob(self, level: int, x: Array) -> NDArray[np.float64]:
        """As in `BridgePath`, summed in float64."""
        eta = float(self.etas[level])
        field = eta * np.matmul(np.asarray(x, self.weight.dtype), self.weight) + self._biases(self.other_ends, level)
        own = np.matmul(np.asarray(x, np.float64), (1 - eta) * self.kept_ends[0] + eta * self.kept_ends[1])
        return np.asarray(own + ops.softplus(field).sum(-1, dtype=np.float64))

    def climb(self, level: int, x: Floats, noise: Noise) -> tuple[NDArray[np.float64], Floats]:
        """See `Climbs`; draw 0 is the other layer's, draw 1 the kept one's."""
        return self._step(level, level + 1, x, noise)

    def descend(self, level: int, x: Floats, noise: Noise) -> tuple[NDArray[np.float64], Floats]:
        """See `Climbs`: given the other layer, units of the kept one are independent, so a move is its own reversal."""
        return self._step(level, level - 1, x, noise)

    def move(self, level: int, x: Array, noise: Noise) -> Array:
        """As in `BridgePath`."""
        return self._step(level, level, np.array(x, self.weight.dtype), noise)[1]

    def back(self, level: int, x: Array, noise: Noise) -> Array:
        """As in `BridgePath`: a move."""
        return self.move(level, x, noise)

    def _step(self, begin: int, end: int, x: Floats, noise: Noise) -> tuple[NDArray[np.float64], Floats]:
        """log p_end - log p_begin of the states, and a move at the end."""
        field, other_field, y, before, after, kept = self._room(len(x))
        k0, k1, update, positions = noise.address(len(x), draws=2)  # type: ignore[attr-defined]
        gain, eta, to = np.empty(len(x)), float(self.etas[begin]), float(self.etas[end])
        np.matmul(x, self.weight, out=other_field)
        _mix(*self.other_ends, eta, before)
        _mix(*self.other_ends, to, after)
        _mix(*self.kept_ends, to, kept)
        self._weigh_and_draw(x, self.slope, other_field, before, after, eta, to, gain, y, positions, 0, update, k0, k1)
        np.matmul(y, self.transposed, out=field)
        self._draw(field, kept, to, x, positions, 1, update, k0, k1)
        return gain, x

    def another(self) -> BinaryPath:
        """The same for other chains at the same time: parameters shared, room of its own."""
        twin = copy.copy(self)
        twin._fields = ()
        return twin

    def _room(self, rows: int) -> tuple[Floats, ...]:
        """Fields of the kept and of the other layer, the other's units, three biases: one set for all levels."""
        if not self._fields or len(self._fields[0]) != rows:
            (d, m), kind = self.weight.shape, self.weight.dtype
            shapes = (rows, d), (rows, m), (rows, m), (m,), (m,), (d,)
            self._fields = tuple(np.empty(shape, kind) for shape in shapes)
        return self._fields

    def _biases(self, ends: Ends, level: int) -> Floats:
        eta, (start, end) = float(self.etas[level]), ends
        return np.asarray((1 - eta) * start + eta * end, self.weight.dtype)


@kernel
def _mix(start, end, eta, out):  # type: ignore[no-untyped-def]
    """(1 - eta) start + eta end, in their own precision."""
    low, high = start.dtype.type(1 - eta), end.dtype.type(eta)
    for j in range(out.size):
        out[j] = low * start[j] + high * end[j]


@reordered
def _rise(old, new):  # type: ignore[no-untyped-def]
    """Sum of max(new, 0) - max(old, 0)."""
    total, zero = 0.0, old.dtype.type(0)
    for j in range(old.size):
        s, t = old[j], new[j]
        total += f64(max(t, zero) - max(s, zero))
    return total


@reordered
def _dot(x, slope):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(x.size):
        total += f64(x[j]) * slope[j]
    return total


@kernel
def _first32(x, slope, field, before, after, eta, to, gain, y, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Gains of the weights and draws of the other layer, a row at a time so that all of it stays in the cache.

    ``softplus(t) - softplus(s) = max(t, 0) - max(s, 0) + log((1 + exp(-|t|)) / (1 + exp(-|s|)))``. Short loops over few
    arrays: one loop over all of them would not become vector instructions.
    """
    n, m = field.shape
    words, old, new = np.empty((1, m), np.uint32), np.empty(m, f32), np.empty(m, f32)
    now, then = f32(eta), f32(to)
    for i in range(n):
        philox.words(words, positions[i : i + 1], draw, update, k0, k1)
        word, a, out = words[0], field[i], y[i]
        for j in range(m):
            old[j] = now * a[j] + before[j]
        for j in range(m):
            new[j] = then * a[j] + after[j]
        total = _rise(old, new) + (to - eta) * _dot(x[i], slope)
        for j in range(m):
            e0, e1 = tail32(old[j]), tail32(new[j])
            old[j] = (f32(1.0) + e1) / (f32(1.0) + e0)
            new[j] = (e1 if new[j] < f32(0.0) else f32(1.0)) / (f32(1.0) + e1)
        gain[i] = total + log_product(old)
        for j in range(m):
            out[j] = f32(1.0) if unit32(word[j]) < new[j] else f32(0.0)


@kernel
def _first64(x, slope, field, before, after, eta, to, gain, y, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    n, m = field.shape
    words, old, new = np.empty((1, m), np.uint64), np.empty(m, f64), np.empty(m, f64)
    for i in range(n):
        philox.words64(words, positions[i : i + 1], draw, update, k0, k1)
        word, a, out = words[0], field[i], y[i]
        for j in range(m):
            old[j] = eta * a[j] + before[j]
        for j in range(m):
            new[j] = to * a[j] + after[j]
        total = _rise(old, new) + (to - eta) * _dot(x[i], slope)
        for j in range(m):
            e0, e1 = tail64(old[j]), tail64(new[j])
            old[j] = (f64(1.0) + e1) / (f64(1.0) + e0)
            new[j] = (e1 if new[j] < f64(0.0) else f64(1.0)) / (f64(1.0) + e1)
        gain[i] = total + log_product(old)
        for j in range(m):
            out[j] = f64(1.0) if unit64(word[j]) < new[j] else f64(0.0)
