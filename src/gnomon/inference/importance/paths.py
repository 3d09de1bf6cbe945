"""Paths of annealed importance sampling: level by level over any bridge, compiled for two layers of binary units."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, HasBridge, Noise
from gnomon.inference.arrays import convert, double, prototype
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric import ops, philox
from gnomon.numeric.fast import f32, f64, inline, split32, split64
from gnomon.numeric.philox import unit32, unit64

__all__ = ["BinaryPath", "BridgePath"]

kernel = numba.njit(cache=True, error_model="numpy")
# A sum may be reordered into vector registers; nothing else of fast arithmetic is allowed.
reordered = numba.njit(cache=True, error_model="numpy", fastmath={"reassoc"})


class BridgePath:
    """The path of any model with a bridge: every level is a model, asked for its energies and conditionals.

    Parameters
    ----------
    model : HasBridge and HasMarginalEnergy
        Of two blocks.
    base : object
        A base from ``model.base(...)``.
    keep : str
        The block whose marginal energy is used.

    Notes
    -----
    A step of a machine with linear fields costs four products; models that share the fields between energies and
    conditionals offer a path of their own (``HasPath``).
    """

    def __init__(self, model: HasBridge, base: Any, keep: str) -> None:
        self.model, self.base, self.keep = model, base, keep
        self.other = next(block for block in model.blocks if block != keep)
        self._levels: dict[float, Any] = {}

    def start(self, chains: int, noise: Noise) -> Array:
        """Draws of the base's kept block, by draw 0."""
        like = prototype(self.model)
        empty = {block: convert(np.zeros((chains, self.model.sizes[block])), like) for block in self.model.blocks}
        return self._level(0.0).conditional(self.keep, empty).sample(noise, 0)

    def weigh(self, x: Array, eta: float, to: float) -> Array:
        """``F_eta(x) - F_to(x)`` of each chain in float64, F being the kept block's marginal energy."""
        now, following = self._level(eta), self._level(to)
        self._levels = {eta: now, to: following}
        return double(now.marginal_energy(self.keep, x)) - double(following.marginal_energy(self.keep, x))

    def step(self, x: Array, eta: float, to: float, noise: Noise) -> tuple[Array, Array]:
        """What `weigh` says, and the kept block after the other (draw 0) and it (draw 1) were redrawn at `to`."""
        gain = self.weigh(x, eta, to)
        return gain, gibbs(self._level(to), {self.keep: x}, noise, order=(self.other, self.keep))[self.keep]

    def _level(self, eta: float) -> Any:
        return self._levels[eta] if eta in self._levels else self.model.bridge(self.base, eta)


class BinaryPath:
    """The path of two layers of binary units, from layers without coupling: two products and two passes a step.

    ``E_eta(x, y) = -eta x'W y - x'b_eta - y'c_eta`` with ``b_eta = (1 - eta) b_0 + eta b``, c_eta alike. The product
    ``x W`` serves both energies of the weight and the conditional of y: one compiled pass makes of it the difference of
    the softplus sums, the probabilities and the draws. The numbers drawn are those of `BridgePath`, up to rounding of
    the fields; weights are summed in float64.

    Parameters
    ----------
    weight : array of shape (d, m), float32 or float64
        W; rows belong to the kept layer.
    bias, base_bias : arrays of shape (d,)
        b and b_0, of the kept layer.
    other_bias, other_base_bias : arrays of shape (m,)
        c and c_0.

    Notes
    -----
    The array that `step` is given is overwritten by the one it returns.
    """

    def __init__(
        self,
        weight: NDArray[Any],
        bias: NDArray[Any],
        base_bias: NDArray[Any],
        other_bias: NDArray[Any],
        other_base_bias: NDArray[Any],
    ) -> None:
        self.weight = np.ascontiguousarray(weight)
        self.kept, self.other = (base_bias, bias), (other_base_bias, other_bias)
        self.slope = np.asarray(bias, np.float64) - np.asarray(base_bias, np.float64)
        single = weight.dtype == np.float32
        self._weigh_and_draw, self._draw = (_first32, _second32) if single else (_first64, _second64)
        self._fields: tuple[NDArray[Any], ...] = ()

    def start(self, chains: int, noise: Noise) -> NDArray[Any]:
        """Draws of the base's kept layer, by draw 0."""
        d, m = self.weight.shape
        kind = self.weight.dtype
        self._fields = np.empty((chains, d), kind), np.empty((chains, m), kind), np.empty((chains, m), kind)
        logits = np.broadcast_to(np.asarray(self.kept[0], kind), (chains, d))
        return np.asarray(noise.bernoulli_logits(logits, 0))

    def weigh(self, x: NDArray[Any], eta: float, to: float) -> NDArray[np.float64]:
        """``F_eta(x) - F_to(x)`` of each chain, as in `BridgePath`."""
        field = np.matmul(x, self.weight)
        free = [ops.softplus(field * f + self._biases(self.other, f)).sum(-1, dtype=np.float64) for f in (to, eta)]
        return np.asarray((to - eta) * np.matmul(x, self.slope) + free[0] - free[1])

    def step(self, x: NDArray[Any], eta: float, to: float, noise: Noise) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """As in `BridgePath`."""
        field, other_field, y = self._fields
        k0, k1, update, places = noise.address(len(x), draws=2)  # type: ignore[attr-defined]
        gain = np.empty(len(x))
        np.matmul(x, self.weight, out=other_field)
        before, after = self._biases(self.other, eta), self._biases(self.other, to)
        self._weigh_and_draw(x, self.slope, other_field, before, after, eta, to, gain, y, places, 0, update, k0, k1)
        np.matmul(y, self.weight.T, out=field)
        self._draw(field, self._biases(self.kept, to), to, x, places, 1, update, k0, k1)
        return gain, x

    def _biases(self, ends: tuple[NDArray[Any], NDArray[Any]], eta: float) -> NDArray[Any]:
        return np.asarray((1 - eta) * ends[0] + eta * ends[1], self.weight.dtype)


@inline
def tail32(x):  # type: ignore[no-untyped-def]
    """exp(-abs(x)), no less than exp(-87): what `chance32` divides."""
    a = -abs(x)
    y, k = split32(f32(-87.0) if a < f32(-87.0) else a)
    return y * np.int32((k + np.int32(127)) << np.int32(23)).view(f32)


@inline
def tail64(x):  # type: ignore[no-untyped-def]
    """exp(-abs(x)), no less than exp(-700): what `chance64` divides."""
    a = -abs(x)
    y, k = split64(f64(-700.0) if a < f64(-700.0) else a)
    return y * np.int64((k + np.int64(1023)) << np.int64(52)).view(f64)


@reordered
def _rise(old, new):  # type: ignore[no-untyped-def]
    """Sum of max(new, 0) - max(old, 0)."""
    total, zero = 0.0, old.dtype.type(0)
    for j in range(old.size):
        s, t = old[j], new[j]
        total += f64(max(t, zero) - max(s, zero))
    return total


@reordered
def _log_product(factors):  # type: ignore[no-untyped-def]
    """Log of the product of factors in [1/2, 2]: one logarithm for 512 of them, whose product is far from overflow."""
    total = 0.0
    for begin in range(0, factors.size, 512):
        product = 1.0
        for j in range(begin, min(begin + 512, factors.size)):
            product *= f64(factors[j])
        total += math.log(product)
    return total


@reordered
def _dot(x, slope):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(x.size):
        total += f64(x[j]) * slope[j]
    return total


@kernel
def _first32(x, slope, field, before, after, eta, to, gain, y, places, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Gains of the weights and draws of the other layer, a row at a time so that all of it stays in the cache.

    ``softplus(t) - softplus(s) = max(t, 0) - max(s, 0) + log((1 + exp(-|t|)) / (1 + exp(-|s|)))``. Short loops over few
    arrays: one loop over all of them would not become vector instructions.
    """
    n, m = field.shape
    words, old, new = np.empty((1, m), np.uint32), np.empty(m, f32), np.empty(m, f32)
    now, then = f32(eta), f32(to)
    for i in range(n):
        philox.words(words, places[i : i + 1], draw, update, k0, k1)
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
        gain[i] = total + _log_product(old)
        for j in range(m):
            out[j] = f32(1.0) if unit32(word[j]) < new[j] else f32(0.0)


@kernel
def _first64(x, slope, field, before, after, eta, to, gain, y, places, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    n, m = field.shape
    words, old, new = np.empty((1, m), np.uint64), np.empty(m, f64), np.empty(m, f64)
    for i in range(n):
        philox.words64(words, places[i : i + 1], draw, update, k0, k1)
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
        gain[i] = total + _log_product(old)
        for j in range(m):
            out[j] = f64(1.0) if unit64(word[j]) < new[j] else f64(0.0)


@kernel
def _second32(field, bias, to, x, places, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Draws of the kept layer."""
    n, d = field.shape
    words, scale = np.empty((1, d), np.uint32), f32(to)
    for i in range(n):
        philox.words(words, places[i : i + 1], draw, update, k0, k1)
        word, a, out = words[0], field[i], x[i]
        for j in range(d):
            logit = scale * a[j] + bias[j]
            e = tail32(logit)
            p = (e if logit < f32(0.0) else f32(1.0)) / (f32(1.0) + e)
            out[j] = f32(1.0) if unit32(word[j]) < p else f32(0.0)


@kernel
def _second64(field, bias, to, x, places, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    n, d = field.shape
    words = np.empty((1, d), np.uint64)
    for i in range(n):
        philox.words64(words, places[i : i + 1], draw, update, k0, k1)
        word, a, out = words[0], field[i], x[i]
        for j in range(d):
            logit = to * a[j] + bias[j]
            e = tail64(logit)
            p = (e if logit < f64(0.0) else f64(1.0)) / (f64(1.0) + e)
            out[j] = f64(1.0) if unit64(word[j]) < p else f64(0.0)
