"""Compiled loops over the ratings of restricted machines that share their weights by item."""

from __future__ import annotations

import numpy as np

from gnomon.systems.recommend._kernels import summing

__all__ = [
    "add_conditional_slopes",
    "add_statistics",
    "climb",
    "hidden_fields",
    "pair_log_weights",
    "rating_fields",
]

BETWEEN_LOGS = 16
"""Factors that are multiplied before a logarithm is taken: a couple of numbers up to exp(44) each stay finite."""


@summing
def hidden_fields(offsets, items, weight, visible, hidden_bias, coupling, rated, field):  # type: ignore[no-untyped-def]
    """``c + sum_r w_r sum_k v_rk W[i_r, k] + sum_r D[i_r]`` of each user, whose ratings lie between its offsets.

    `rated` is D, and of length 0 where there is none.
    """
    n_levels, n_hidden = coupling.shape[1], coupling.shape[2]
    for u in range(len(field)):
        own = field[u]
        own[:] = hidden_bias
        for r in range(offsets[u], offsets[u + 1]):
            i = items[r]
            for k in range(n_levels):
                v = weight[r] * visible[r, k]
                if v != 0:
                    for f in range(n_hidden):
                        own[f] += v * coupling[i, k, f]
            if len(rated):
                for f in range(n_hidden):
                    own[f] += rated[i, f]


@summing
def rating_fields(offsets, items, weight, hidden, bias, coupling, field):  # type: ignore[no-untyped-def]
    """``w_r (b[i_r, k] + W[i_r, k] . h)`` of each rating r and level k, h being the hidden units of its user."""
    n_levels, n_hidden = coupling.shape[1], coupling.shape[2]
    for u in range(len(hidden)):
        h = hidden[u]
        for r in range(offsets[u], offsets[u + 1]):
            i = items[r]
            for k in range(n_levels):
                total = bias[i, k]
                for f in range(n_hidden):
                    total += coupling[i, k, f] * h[f]
                field[r, k] = weight[r] * total


@summing
def add_statistics(offsets, places, weight, visible, hidden, sign, bias, coupling, rated):  # type: ignore[no-untyped-def]
    """Add ``sign`` times the derivatives of minus the energies by b, W and D: sums over the ratings.

    Row `places[r]` of the three arrays belongs to the item of rating r.
    """
    n_levels, n_hidden = coupling.shape[1], coupling.shape[2]
    for u in range(len(hidden)):
        h = hidden[u]
        for r in range(offsets[u], offsets[u + 1]):
            i = places[r]
            for k in range(n_levels):
                v = sign * weight[r] * visible[r, k]
                if v != 0:
                    bias[i, k] += v
                    for f in range(n_hidden):
                        coupling[i, k, f] += v * h[f]
            if len(rated):
                for f in range(n_hidden):
                    rated[i, f] += sign * h[f]


@summing
def pair_log_weights(rows, items, new, field, bias, grown, rated, log_base, common, found):  # type: ignore[no-untyped-def]
    """``b[i, k] + sum_f log((1 + exp(a_f + W[i, k, f])) / (1 + exp(a_f)))`` of each pair and level k.

    a is row ``rows[p]`` of `field`, the hidden fields without the rating of this item, and D[i] where the pair is
    `new`; `grown` is exp(W) - 1. The factors 1 + q grown are multiplied, q = sigmoid(a), so that there is a logarithm
    for every few of them. Of an item below 0 b is `log_base`, grown is `common` and D is 0.
    """
    n_levels, n_hidden = common.shape
    q = np.empty(n_hidden)
    for p in range(len(rows)):
        i = items[p]
        for f in range(n_hidden):
            a = np.float64(field[rows[p], f])
            if new[p] and i >= 0 and len(rated):
                a += rated[i, f]
            q[f] = 1 / (1 + np.exp(-a))
        own_bias, own = (bias[i], grown[i]) if i >= 0 else (log_base, common)
        for k in range(n_levels):
            total = np.float64(own_bias[k])
            for begin in range(0, n_hidden, BETWEEN_LOGS):
                product = 1.0
                for f in range(begin, min(begin + BETWEEN_LOGS, n_hidden)):
                    product *= 1 + q[f] * own[k, f]
                total += np.log(product)
            found[p, k] = total


@summing
def climb(items, slope, rate, shrink, anchor, values):  # type: ignore[no-untyped-def]
    """``values[i] += rate slope - shrink_i (values[i] - anchor)`` for each of the items, whose slopes are its rows."""
    for e in range(len(items)):
        own = values[items[e]]
        for f in range(values.shape[1]):
            own[f] += rate * slope[e, f] - shrink[e] * (own[f] - anchor[f])


@summing
def add_conditional_slopes(  # type: ignore[no-untyped-def]
    offsets, items, places, levels, weight, field, bias, coupling, by_bias, by_coupling, by_rated, by_hidden
):  # fmt: skip
    """Add derivatives of ``sum_r w_r log P(v_r | the other ratings of the user)`` by b, W, D and c; returns the sum.

    `field` has the hidden fields of the users, each with all its ratings. With q the sigmoid of the field without the
    rating itself, the level k has b + sum_f log t_f with t = 1 - q + q exp(W_k), and q exp(W_k) / t is what the hidden
    units would be with it.
    """
    n_levels, n_hidden = coupling.shape[1], coupling.shape[2]
    total, log_p = 0.0, np.empty(n_levels)
    q, on = np.empty(n_hidden, field.dtype), np.empty((n_levels, n_hidden), field.dtype)
    one = field.dtype.type(1)
    for u in range(len(field)):
        everything = np.zeros(n_hidden, field.dtype)
        own = np.zeros((offsets[u + 1] - offsets[u], n_hidden), field.dtype)
        for r in range(offsets[u], offsets[u + 1]):
            i, e, v, w, mine = items[r], places[r], levels[r], weight[r], own[r - offsets[u]]
            for f in range(n_hidden):
                q[f] = one / (one + np.exp(w * coupling[i, v, f] - field[u, f]))
            for k in range(n_levels):
                log_p[k] = w * bias[i, k]
                for begin in range(0, n_hidden, BETWEEN_LOGS):
                    product = 1.0
                    for f in range(begin, min(begin + BETWEEN_LOGS, n_hidden)):
                        grown = q[f] * np.exp(w * coupling[i, k, f])
                        t = one - q[f] + grown
                        on[k, f] = grown / t
                        product *= t
                    log_p[k] += np.log(product)
            largest = log_p.max()
            log_z = largest + np.log(np.exp(log_p - largest).sum())
            total += w * (log_p[v] - log_z)
            for k in range(n_levels):
                away = field.dtype.type(w * ((1.0 if k == v else 0.0) - np.exp(log_p[k] - log_z)))
                by_bias[e, k] += w * away
                for f in range(n_hidden):
                    by_coupling[e, k, f] += w * away * on[k, f]
                    mine[f] += away * on[k, f]
            for f in range(n_hidden):
                everything[f] += mine[f]
        for f in range(n_hidden):
            by_hidden[f] += everything[f]
        for r in range(offsets[u], offsets[u + 1]):
            e, v, mine = places[r], levels[r], own[r - offsets[u]]
            for f in range(n_hidden):
                by_coupling[e, v, f] += weight[r] * (everything[f] - mine[f])
                if len(by_rated):
                    by_rated[e, f] += everything[f]
    return total
