"""Many updates of a restricted machine by its chains in one compiled call, the numbers those of single updates."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import overload
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Noise
from gnomon.distributions.harmonium_units import PoissonUnits
from gnomon.distributions.units import (
    BernoulliUnits,
    CenteredGaussianUnits,
    CenteredScaledGaussianUnits,
    GaussianUnits,
)
from gnomon.numeric import philox
from gnomon.numeric.counts import least_counts
from gnomon.numeric.descent import StepRule, descend
from gnomon.numeric.fast import chance32, chance64, f32, f64
from gnomon.numeric.philox import unit32, unit64
from gnomon.systems.energy.links import DenseLink

__all__ = ["UpdatedByChains"]

kernel = numba.njit(cache=True, error_model="numpy", nogil=True)
reordered = numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract"})

BITS, COUNTS, REAL, CENTERED, SCALED = range(5)
KINDS: dict[type, int] = {
    BernoulliUnits: BITS, PoissonUnits: COUNTS, GaussianUnits: REAL, CenteredGaussianUnits: CENTERED,
    CenteredScaledGaussianUnits: SCALED,
}  # fmt: skip
"""Kinds of visible units that have a compiled way; hidden ones are bits."""
PARAMETERS = ("weight", "visible_bias", "hidden_bias", "visible_log_precision")


class UpdatedByChains:
    """Beside a machine of two layers and one `DenseLink` without a name: the compiled way to make many updates."""

    def compiled(self) -> bool:
        """Whether these layers, and what an update does beside its step, have a compiled way."""
        machine: Any = self
        visible, hidden = machine.units["visible"], machine.units["hidden"]
        return type(visible) in KINDS and type(hidden) is BernoulliUnits and type(machine.links[0]) is DenseLink

    def ceiling(self) -> Any:
        """The largest log precisions, float64, of their shape; of shape (0,) where there is no limit."""
        return np.empty(0)

    @available_if(lambda self: isinstance(self, type) or self.compiled())
    def updated_by_chains(
        self, X: Array, weight: Array, size: int, hidden: Array, *, descent: StepRule, k: int, noise: Noise,
        persistent: bool,
    ) -> tuple[int, float]:  # fmt: skip
        """See `HasChainUpdates`."""
        machine: Any = self
        own, nothing = machine.views(), np.empty(0, X.dtype)
        values = tuple(own.get(name, nothing) for name in PARAMETERS)
        moments = tuple(descent.moments_of(name, X) for name in PARAMETERS)
        address = noise.address(draws=2 * k + persistent, updates=len(X) // size)  # type: ignore[attr-defined]
        kind, ceiling = KINDS[type(machine.units["visible"])], self.ceiling().astype(X.dtype)
        done, norm = _run(X, weight, size, hidden, values, moments, descent.rule, k, persistent, kind, ceiling, address)
        return int(done), float(norm)


@kernel
def _run(X, weight, size, hidden, values, moments, rule, k, persistent, kind, ceiling, address):  # type: ignore[no-untyped-def]
    """Updates until the rows are used up or a gradient is not finite: how many, and the norm of the last gradient.

    Each is on the next `size` rows, data against chains of k steps. Persistent chains stand at `hidden`, which is
    moved; else it is room for draws. Values are moved in place; the number of the update rises by one each time.
    """
    W, b, c, log_precision = values
    k0, k1, first, positions = address
    (d, m), chains, begun = W.shape, len(hidden), 0 if persistent else 1
    rows, field = np.empty((size + chains, d), W.dtype), np.empty((size + chains, m), W.dtype)
    scaled = np.empty_like(rows) if kind == SCALED else rows  # what the weights and their gradient are multiplied with
    signed, gradient = np.empty(size + chains, W.dtype), np.empty((d, m), W.dtype)
    seen, of_visible, of_hidden = np.empty((chains, d), W.dtype), np.empty(d, W.dtype), np.empty(m, W.dtype)
    of_precision = np.zeros(len(log_precision), W.dtype)
    precision, deviation = np.ones(d, W.dtype), np.ones(d, W.dtype)
    near, far, chain = field[:size], field[size:], rows[size:]
    done, norm = 0, 0.0
    for begin in range(0, len(X), size):
        update = first + done
        counts = weight[begin : begin + size]
        total = f64(counts.sum())
        rows[:size] = X[begin : begin + size]
        signed[:size] = -counts
        if persistent:
            signed[size:] = W.dtype.type(total / chains)
        else:
            signed[size:] = counts
        if kind == SCALED:
            for j in range(d):
                log = log_precision[j if len(log_precision) > 1 else 0]
                precision[j], deviation[j] = np.exp(log), np.exp(W.dtype.type(-0.5) * log)
            _scale(rows[:size], precision, scaled[:size])
        np.dot(scaled[:size], W, near)
        for step in range(k):
            if step or not persistent:
                if step == 0:
                    far[:] = near
                _draw(BITS, far, c, deviation, hidden, positions, 2 * step - 1 + begun, update, k0, k1)
            np.dot(hidden, W.T, seen)
            _draw(kind, seen, b, deviation, chain, positions, 2 * step + begun, update, k0, k1)
            if kind == SCALED:
                _scale(chain, precision, scaled[size:])
            np.dot(scaled[size:], W, far)
        _add_rows(field, c)
        if persistent:
            _means(near.reshape(-1))  # type: ignore[no-untyped-call]
            _compare_and_keep(far, hidden, positions, 2 * k, update, k0, k1)  # type: ignore[no-untyped-call]
        else:
            _means(field.reshape(-1))  # type: ignore[no-untyped-call]
        _weigh_rows(field, signed)
        np.dot(scaled.T, field, gradient)
        np.dot(signed, scaled, of_visible)
        if kind >= CENTERED:
            of_visible -= signed.sum() * precision * b
        of_hidden[:] = 0
        for i in range(size + chains):
            of_hidden += field[i]
        if kind == SCALED:
            _by_log_precision(rows, signed, b, precision, W, gradient, of_precision)
        share = 1.0 / total if total else 0.0
        squares = descend(W.reshape(-1), gradient.reshape(-1), share, moments[0], rule, done)
        squares += descend(b, of_visible, share, moments[1], rule, done)
        squares += descend(c, of_hidden, share, moments[2], rule, done)
        if kind == SCALED:
            squares += descend(log_precision, of_precision, share, moments[3], rule, done)
            for j in range(len(ceiling)):
                log_precision[j] = min(log_precision[j], ceiling[j])
        norm = np.sqrt(squares)
        done += 1
        if not np.isfinite(norm):
            break
    return done, norm


@kernel
def _scale(rows, by, out):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        a, target = rows[i], out[i]
        for j in range(len(by)):
            target[j] = a[j] * by[j]


@reordered
def _by_log_precision(rows, signed, b, precision, W, gradient, out):  # type: ignore[no-untyped-def]
    """Gradients by the log precisions: of the units' own weights, and of the couplings precision * W."""
    squares = np.zeros(len(b), W.dtype)
    for i in range(len(rows)):
        a, w = rows[i], signed[i]
        for j in range(len(b)):
            away = a[j] - b[j]
            squares[j] += w * away * away
    out[:] = 0
    for i in range(len(b)):
        pull, g, own = W.dtype.type(0), gradient[i], W[i]
        for j in range(len(own)):
            pull += g[j] * own[j]
        out[i if out.size > 1 else 0] += pull - W.dtype.type(0.5) * precision[i] * squares[i]


@kernel
def _draw(kind, field, bias, deviation, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Draws of units of a kind under a field, which is written over, into `out`."""
    if kind == BITS:
        _add_rows(field, bias)
        _compare(field, out, positions, draw, update, k0, k1)  # type: ignore[no-untyped-call]
    elif kind == COUNTS:
        _add_rows(field, bias)
        _uniform(out, positions, draw, update, k0, k1)  # type: ignore[no-untyped-call]
        least_counts(out.reshape(-1), field.reshape(-1), out.reshape(-1))
    else:
        _normal(out, positions, draw, update, k0, k1)  # type: ignore[no-untyped-call]
        for i in range(len(out)):
            a, target = field[i], out[i]
            for j in range(len(bias)):
                target[j] = a[j] + bias[j] + deviation[j] * target[j]


@kernel
def _add_rows(field, bias):  # type: ignore[no-untyped-def]
    for i in range(len(field)):
        a = field[i]
        for j in range(len(bias)):
            a[j] += bias[j]


@kernel
def _weigh_rows(field, weight):  # type: ignore[no-untyped-def]
    for i in range(len(field)):
        a, w = field[i], weight[i]
        for j in range(a.size):
            a[j] *= w


@kernel
def _unit_draws32(field, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """The chances p = sigmoid(field) in place of the field; draws of them into `out`.

    Rows are gone through as one axis, a few at a time: the ends of short ones would not become vector instructions.
    """
    n, width = out.shape
    rows = max(1, philox.BUFFER // max(1, width))
    buffer = np.empty((rows, width), np.uint32)
    words = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        philox.words(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target, a = out[start:stop].reshape(-1), field[start:stop].reshape(-1)
        for e in range(target.size):
            p = chance32(a[e])
            target[e] = f32(1.0) if unit32(words[e]) < p else f32(0.0)
            a[e] = p


@kernel
def _unit_draws64(field, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    n, width = out.shape
    rows = max(1, philox.BUFFER // max(1, width))
    buffer = np.empty((rows, width), np.uint64)
    words = buffer.reshape(-1)
    for start in range(0, n, rows):
        stop = min(n, start + rows)
        philox.words64(buffer[: stop - start], positions[start:stop], draw, update, k0, k1)
        target, a = out[start:stop].reshape(-1), field[start:stop].reshape(-1)
        for e in range(target.size):
            p = chance64(a[e])
            target[e] = f64(1.0) if unit64(words[e]) < p else f64(0.0)
            a[e] = p


@kernel
def _unit_means32(field):  # type: ignore[no-untyped-def]
    """The chances p = sigmoid(field) in place of the field, of one axis."""
    for e in range(field.size):
        field[e] = chance32(field[e])


@kernel
def _unit_means64(field):  # type: ignore[no-untyped-def]
    for e in range(field.size):
        field[e] = chance64(field[e])


# --- what is chosen by the dtype --------------------------------------------------------------------------------------


def _uniform(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Uniform numbers of the dtype of `out`."""
    raise NotImplementedError


def _normal(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Normal numbers of the dtype of `out`."""
    raise NotImplementedError


def _compare(field, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """Draws of bits whose log-odds these are."""
    raise NotImplementedError


def _compare_and_keep(field, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    """`_unit_draws32` or the other."""
    raise NotImplementedError


def _means(field):  # type: ignore[no-untyped-def]
    """`_unit_means32` or the other."""
    raise NotImplementedError


@overload(_uniform)
def _uniform_of(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    kind = philox.uniform32 if out.dtype == numba.float32 else philox.uniform64
    return lambda out, positions, draw, update, k0, k1: kind(out, positions, draw, update, k0, k1)


@overload(_normal)
def _normal_of(out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    kind = philox.normal32 if out.dtype == numba.float32 else philox.normal64
    return lambda out, positions, draw, update, k0, k1: kind(out, positions, draw, update, k0, k1)


@overload(_compare)
def _compare_of(field, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    kind = philox.bernoulli_logits32 if field.dtype == numba.float32 else philox.bernoulli_logits64
    return lambda field, out, positions, draw, update, k0, k1: kind(field, out, positions, draw, update, k0, k1)


@overload(_compare_and_keep)
def _compare_and_keep_of(field, out, positions, draw, update, k0, k1):  # type: ignore[no-untyped-def]
    kind = _unit_draws32 if field.dtype == numba.float32 else _unit_draws64
    return lambda field, out, positions, draw, update, k0, k1: kind(field, out, positions, draw, update, k0, k1)


@overload(_means)
def _means_of(field):  # type: ignore[no-untyped-def]
    kind = _unit_means32 if field.dtype == numba.float32 else _unit_means64
    return lambda field: kind(field)
