"""The log domain and the logistic functions, for NumPy arrays and torch tensors alike; the dtype is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.numeric import fast
from gnomon.numeric.tensors import is_tensor

__all__ = ["concatenate", "largest", "log_softmax", "logsumexp", "positive", "sigmoid", "softmax", "softplus"]


def sigmoid(x: Any) -> Any:
    """Logistic function 1 / (1 + exp(-x)) of every element.

    Parameters
    ----------
    x : array or tensor
        Any shape; whole numbers are taken as float32.

    Examples
    --------
    >>> sigmoid(np.array([0.0, 1000.0]))
    array([0.5, 1. ])
    """
    return x.sigmoid() if is_tensor(x) else fast.sigmoid(_floating(x))


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) of every element, relatively accurate for very negative `x` too.

    Parameters
    ----------
    x : array or tensor
        Any shape; whole numbers are taken as float32.

    Examples
    --------
    >>> softplus(np.array([-1000.0, 1000.0]))
    array([   0., 1000.])
    """
    if not is_tensor(x):
        return fast.softplus(_floating(x))
    import torch

    # Beyond the threshold torch answers x itself; its default of 20 would cost float64 2e-9.
    return torch.nn.functional.softplus(x, threshold=40.0 if x.dtype == torch.float64 else 20.0)


def logsumexp(x: Any, axis: int = -1) -> Any:
    """log(sum(exp(x))) along one axis; -inf where every entry is -inf, without a warning.

    Parameters
    ----------
    x : array or tensor
    axis : int
        The axis that is summed over and dropped.

    Examples
    --------
    >>> logsumexp(np.log([[1.0, 3.0]])).round(6)
    array([1.386294])
    """
    if is_tensor(x):
        return x.logsumexp(axis)
    return np.squeeze(_logsumexp(_floating(x), axis), axis)


def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) along one axis: scores to probabilities.

    A row of -inf alone (nothing may be chosen, as in a masked attention row) has no distribution; its answer is all
    zeros, never NaN. NaN and +inf scores give NaN.

    Parameters
    ----------
    x : array or tensor
    axis : int
        The axis that sums to 1.

    References
    ----------
    Bridle (1990), Probabilistic interpretation of feedforward classification network outputs.

    Examples
    --------
    >>> softmax(np.array([1.0, 2.0, 3.0])).round(7)
    array([0.0900306, 0.2447285, 0.665241 ])
    """
    if not is_tensor(x):
        x = _floating(x)
        with np.errstate(invalid="ignore"):
            e = np.exp(x - _peak(x, axis))
            total = e.sum(axis, keepdims=True)
            return e / np.where(total == 0, x.dtype.type(1), total)
    empty = _empty(x, axis)
    return x.masked_fill(empty, 0.0).softmax(axis).masked_fill(empty, 0.0)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """x - logsumexp(x): the logarithm of `softmax`, -inf throughout a row of -inf alone.

    Parameters
    ----------
    x : array or tensor
    axis : int
        The axis whose exponentials sum to 1.

    Examples
    --------
    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    if not is_tensor(x):
        x = _floating(x)
        with np.errstate(invalid="ignore"):
            shifted = x - _peak(x, axis)
            return shifted - _logsumexp(shifted, axis, finite=True)
    empty = _empty(x, axis)
    return x.masked_fill(empty, 0.0).log_softmax(axis).masked_fill(empty, -np.inf)


def positive(x: Any) -> Any:
    """1 where x is above 0, else 0, in the dtype of x.

    Examples
    --------
    >>> positive(np.array([-np.inf, 0.0, 0.1])).tolist()
    [0.0, 0.0, 1.0]
    """
    return (x > 0).to(x.dtype) if is_tensor(x) else (np.asarray(x) > 0).astype(x.dtype)


def largest(x: Any) -> Any:
    """1 at the largest entry along the last axis, the first of equals, and 0 elsewhere, in the dtype of x.

    Examples
    --------
    >>> largest(np.array([[1.0, 3.0, 3.0]])).tolist()
    [[0.0, 1.0, 0.0]]
    """
    index = x.argmax(-1)[..., None]
    if not is_tensor(x):
        return (np.arange(x.shape[-1]) == index).astype(x.dtype)
    import torch

    return (torch.arange(x.shape[-1], device=x.device) == index).to(x.dtype)


def concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one kind joined on an axis.

    Examples
    --------
    >>> concatenate([np.zeros(1), np.ones(2)]).tolist()
    [0.0, 1.0, 1.0]
    """
    if not is_tensor(arrays[0]):
        return np.concatenate(arrays, axis)
    import torch

    return torch.cat(list(arrays), axis)


def _floating(x: Any) -> NDArray[Any]:
    x = np.asarray(x)
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


def _peak(x: NDArray[Any], axis: int) -> NDArray[Any]:
    """The largest entry, 0 where that is -inf, so that subtracting it never gives inf - inf there."""
    peak = x.max(axis, keepdims=True)
    return np.where(peak == -np.inf, x.dtype.type(0), peak)


def _logsumexp(x: NDArray[Any], axis: int, finite: bool = False) -> NDArray[Any]:
    """With the axis kept; `finite` says that the peak was subtracted: an empty row then counts as log 1."""
    if finite:
        total = np.exp(x).sum(axis, keepdims=True)
        return np.log(np.where(total == 0, x.dtype.type(1), total))
    peak = _peak(x, axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        # +inf - inf is NaN where the peak is +inf; the sum is +inf there.
        total = np.exp(x - peak).sum(axis, keepdims=True)
        return np.where(peak == np.inf, peak, np.log(total) + peak)


def _empty(x: Any, axis: int) -> Any:
    """Where a tensor's row is -inf alone."""
    return (x.detach() == -np.inf).all(axis, keepdim=True)
