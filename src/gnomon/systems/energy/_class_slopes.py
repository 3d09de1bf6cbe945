"""Probabilities of classes under hidden bits and the slopes of their logs, compiled: a row at a time, in the cache."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from gnomon.numeric.fast import f32, f64, tail32, tail64
from gnomon.numeric.sums import log_product, reordered

__all__ = ["class_slopes"]

kernel = numba.njit(cache=True, error_model="numpy", nogil=True)


def class_slopes(
    field: NDArray[Any], pull: NDArray[Any], bias: NDArray[Any], codes: NDArray[np.int64], weight: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    r"""log p(y | v) of each row's class, and sums of minus weight times its gradient by what the odds are made of.

    :math:`p(y = k) \propto \exp(b_k + \sum_j \mathrm{softplus}(f_j + U_{kj}))`.

    Parameters
    ----------
    field : array of shape (n, m)
        f, without the class.
    pull : array of shape (classes, m)
        U.
    bias : array of shape (classes,)
    codes : whole numbers of shape (n,)
    weight : array of shape (n,)

    Returns
    -------
    log_p : array of shape (n,)
    by_field : array of shape (n, m)
    by_pull : array of shape (classes, m)
    by_bias : array of shape (classes,)

    Examples
    --------
    >>> log_p, *_ = class_slopes(np.zeros((1, 3)), np.zeros((2, 3)), np.zeros(2), np.array([1]), np.ones(1))
    >>> log_p.round(4).tolist()
    [-0.6931]
    """
    log_p, by_field = np.empty(len(field), field.dtype), np.empty_like(field)
    by_pull, by_bias = np.zeros(pull.shape, field.dtype), np.zeros(len(bias), field.dtype)
    _fill(field, np.ascontiguousarray(pull), bias, codes, weight, log_p, by_field, by_pull, by_bias)
    return log_p, by_field, by_pull, by_bias


@kernel
def _fill(field, pull, bias, codes, weight, log_p, by_field, by_pull, by_bias):  # type: ignore[no-untyped-def]
    classes, m = pull.shape
    mean, t, factor = np.empty((classes, m), field.dtype), np.empty(m, field.dtype), np.empty(m, field.dtype)
    score, cast = np.empty(classes), field.dtype.type
    for i in range(len(field)):
        for k in range(classes):
            _add(field[i], pull[k], t)
            score[k] = f64(bias[k]) + _above(t)
            _means(t, mean[k], factor)  # type: ignore[no-untyped-call]
            score[k] += log_product(factor)
        top = score.max()
        log_total = top + math.log(np.exp(score - top).sum())
        log_p[i] = cast(score[codes[i]] - log_total)
        slope = by_field[i]
        slope[:] = 0
        for k in range(classes):
            away = cast((math.exp(score[k] - log_total) - (1.0 if k == codes[i] else 0.0)) * weight[i])
            by_bias[k] += away
            _spread(away, mean[k], slope, by_pull[k])


@kernel
def _add(a, b, out):  # type: ignore[no-untyped-def]
    for j in range(a.size):
        out[j] = a[j] + b[j]


@kernel
def _spread(by, mean, first, second):  # type: ignore[no-untyped-def]
    for j in range(mean.size):
        one = by * mean[j]
        first[j] += one
        second[j] += one


@reordered
def _above(t):  # type: ignore[no-untyped-def]
    """Sum of max(t, 0)."""
    total, zero = 0.0, t.dtype.type(0)
    for j in range(t.size):
        total += f64(max(t[j], zero))
    return total


@kernel
def _means32(t, mean, factor):  # type: ignore[no-untyped-def]
    """sigmoid(t), and 1 + exp(-abs(t))."""
    for j in range(t.size):
        e = tail32(t[j])
        factor[j] = f32(1.0) + e
        mean[j] = (e if t[j] < f32(0.0) else f32(1.0)) / (f32(1.0) + e)


@kernel
def _means64(t, mean, factor):  # type: ignore[no-untyped-def]
    for j in range(t.size):
        e = tail64(t[j])
        factor[j] = f64(1.0) + e
        mean[j] = (e if t[j] < f64(0.0) else f64(1.0)) / (f64(1.0) + e)


def _means(t, mean, factor):  # type: ignore[no-untyped-def]
    """`_means32` or the other."""
    raise NotImplementedError


@overload(_means)
def _means_of(t, mean, factor):  # type: ignore[no-untyped-def]
    kind = _means32 if t.dtype == numba.float32 else _means64
    return lambda t, mean, factor: kind(t, mean, factor)
