"""Compiled loops over ratings: stochastic gradient steps of blocks, ridge solutions of rows, the best k of rows.

All release the interpreter's lock, so that threads of Python run them side by side. What a call writes, no other call
at the same time reads or writes: any number of threads gives the same bits.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["best_of_rows", "score_pairs", "sgd_blocks", "sgd_pairs", "sgd_triples", "solve_rows"]

kernel = numba.njit(cache=True, error_model="numpy", nogil=True)
summing = numba.njit(cache=True, error_model="numpy", nogil=True, fastmath={"reassoc", "contract"})


@summing
def sgd_blocks(  # type: ignore[no-untyped-def]
    blocks, shift, starts, users, items, values, weight, mean, biases, rate, user_penalty, item_penalty,
    user_bias, item_bias, user_factors, item_factors, squared,
):  # fmt: skip
    """A step for every rating of the blocks (b, (b + shift) % n) of users by items, in the order in which they lie.

    ``squared[b]`` becomes the weighted sum of the squared errors that the steps of block b came upon.
    """
    n, k = len(squared), user_factors.shape[1]
    for b in blocks:
        position = b * n + (b + shift) % n
        total = 0.0
        for r in range(starts[position], starts[position + 1]):
            u, i = users[r], items[r]
            p, q = user_factors[u], item_factors[i]
            found = mean + user_bias[u] + item_bias[i]
            for f in range(k):
                found += p[f] * q[f]
            error, step = values[r] - found, rate * weight[r]
            total += weight[r] * error * error
            pull, own, other = step * error, step * user_penalty[u], step * item_penalty[i]
            if biases:
                user_bias[u] += pull - own * user_bias[u]
                item_bias[i] += pull - other * item_bias[i]
            for f in range(k):
                old = p[f]
                p[f] = old - own * old + pull * q[f]
                q[f] = q[f] - other * q[f] + pull * old
        squared[b] = total


@summing
def sgd_triples(  # type: ignore[no-untyped-def]
    order, users, met, unmet, weight, rate, l2, item_bias, user_factors, item_factors
):  # fmt: skip
    """A step for each triple (u, i, j), in this order, on ``log(1 + exp(-d)) + l2 / 2`` times the squares it touches.

    d is the score of i less that of j, for user u. Returns the weighted sum of the objective as the steps came upon it.
    """
    k, total = user_factors.shape[1], 0.0
    for r in order:
        u, i, j = users[r], met[r], unmet[r]
        p, q, o = user_factors[u], item_factors[i], item_factors[j]
        d = item_bias[i] - item_bias[j]
        squares = item_bias[i] * item_bias[i] + item_bias[j] * item_bias[j]
        for f in range(k):
            d += p[f] * (q[f] - o[f])
            squares += p[f] * p[f] + q[f] * q[f] + o[f] * o[f]
        step = rate * weight[r]
        total += weight[r] * (max(-d, 0.0) + np.log1p(np.exp(-abs(d))) + 0.5 * l2 * squares)
        pull, shrink = step / (1 + np.exp(d)), 1 - step * l2
        item_bias[i] = shrink * item_bias[i] + pull
        item_bias[j] = shrink * item_bias[j] - pull
        for f in range(k):
            old, gap = p[f], q[f] - o[f]
            p[f] = shrink * old + pull * gap
            q[f] = shrink * q[f] + pull * old
            o[f] = shrink * o[f] - pull * old
    return total


@summing
def sgd_pairs(  # type: ignore[no-untyped-def]
    order, users, items, met, weight, rate, l2, user_bias, item_bias, user_factors, item_factors
):  # fmt: skip
    """A step for each pair (u, i), in this order, on ``log(1 + exp(-+s)) + l2 / 2`` times the squares it touches.

    s is the score; its sign is minus where the user met the item, else plus. Returns as `sgd_triples`.
    """
    k, total = user_factors.shape[1], 0.0
    for r in order:
        u, i = users[r], items[r]
        p, q = user_factors[u], item_factors[i]
        s = user_bias[u] + item_bias[i]
        squares = user_bias[u] * user_bias[u] + item_bias[i] * item_bias[i]
        for f in range(k):
            s += p[f] * q[f]
            squares += p[f] * p[f] + q[f] * q[f]
        sign = 1.0 if met[r] else -1.0
        d, step = sign * s, rate * weight[r]
        total += weight[r] * (max(-d, 0.0) + np.log1p(np.exp(-abs(d))) + 0.5 * l2 * squares)
        pull, shrink = sign * step / (1 + np.exp(d)), 1 - step * l2
        user_bias[u] = shrink * user_bias[u] + pull
        item_bias[i] = shrink * item_bias[i] + pull
        for f in range(k):
            old = p[f]
            p[f] = shrink * old + pull * q[f]
            q[f] = shrink * q[f] + pull * old
    return total


@summing
def solve_rows(  # type: ignore[no-untyped-def]
    begin, end, offsets, codes, values, weight, mean, biases, precision, linear, ridge, scale, normal,
    other_bias, other, own_bias, own,
):  # fmt: skip
    """The minimum over row u of ``x' precision x - 2 linear' x + ridge W_u x'x + scale sum_r w_r (t_r - z_r' x)^2``.

    x are the factors of u, with `biases` its bias too; z the factors of what u rated (and 1), t the rating less mean
    and the other's bias, W_u the sum of u's weights. With normal numbers (rows as those of `own`) it is a draw from the
    Gaussian with that mean and precision. Where the minimum is not unique, directions without curvature stay 0.
    """
    k = own.shape[1]
    d = k + 1 if biases else k
    A, y, z = np.empty((d, d)), np.empty(d), np.ones(d)
    for u in range(begin, end):
        mass = 0.0
        for a in range(d):
            y[a] = linear[a]
            for b in range(a + 1):
                A[a, b] = precision[a, b]
        for r in range(offsets[u], offsets[u + 1]):
            c, w = codes[r], scale * weight[r]
            t = values[r] - mean
            if biases:
                t -= other_bias[c]
            for f in range(k):
                z[f] = other[c, f]
            mass += weight[r]
            for a in range(d):
                wa = w * z[a]
                y[a] += wa * t
                for b in range(a + 1):
                    A[a, b] += wa * z[b]
        largest = 0.0
        for a in range(d):
            A[a, a] += ridge * mass
            largest = max(largest, A[a, a])
        for a in range(d):  # Cholesky in place, solving L x = y on the way
            for b in range(a):
                rest = A[a, b]
                for s in range(b):
                    rest -= A[a, s] * A[b, s]
                A[a, b] = rest / A[b, b] if A[b, b] > 0 else 0.0
            rest, left = A[a, a], y[a]
            for s in range(a):
                rest -= A[a, s] * A[a, s]
                left -= A[a, s] * y[s]
            A[a, a] = np.sqrt(rest) if rest > 1e-13 * largest else 0.0
            y[a] = left / A[a, a] if A[a, a] > 0 else 0.0
        for f in range(normal.shape[1]):
            y[f] += normal[u, f]
        for a in range(d - 1, -1, -1):
            y[a] = y[a] / A[a, a] if A[a, a] > 0 else 0.0
            for s in range(a):
                y[s] -= A[a, s] * y[a]
        for f in range(k):
            own[u, f] = y[f]
        if biases:
            own_bias[u] = y[k]


@summing
def score_pairs(users, items, mean, user_bias, item_bias, user_factors, item_factors, scale, found):  # type: ignore[no-untyped-def]
    """mean + b_u + c_i + scale A_u . B_i of each pair of codes; a code below 0 has bias and factors 0."""
    for r in range(len(users)):
        u, i = users[r], items[r]
        total = np.float64(mean)
        if u >= 0:
            total += user_bias[u]
        if i >= 0:
            total += item_bias[i]
        if u >= 0 and i >= 0:
            dot = 0.0
            for f in range(user_factors.shape[1]):
                dot += user_factors[u, f] * item_factors[i, f]
            total += scale * dot
        found[r] = total


@kernel
def best_of_rows(scores, items, values):  # type: ignore[no-untyped-def]
    """The highest scores of each row and their columns, best first, equal ones by column; -inf is no candidate.

    `items` comes filled with -1 and `values` with -inf; places for which there is no candidate keep them.
    """
    k = items.shape[1]
    for u in range(len(scores)):
        for j in range(scores.shape[1]):
            s = scores[u, j]
            if not s > values[u, k - 1]:
                continue
            position = k - 1
            while position > 0 and s > values[u, position - 1]:
                values[u, position], items[u, position] = values[u, position - 1], items[u, position - 1]
                position -= 1
            values[u, position], items[u, position] = s, j
