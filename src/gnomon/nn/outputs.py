"""Output layers: scores to distributions along one axis, and their rules. NumPy arrays or torch tensors."""

from __future__ import annotations

import numpy as np

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.numeric import ops
from gnomon.numeric.tensors import is_tensor

__all__ = [
    "log_softmax",
    "log_softmax_jacobian",
    "normalize",
    "softmax",
    "softmax_backward",
    "softmax_jacobian",
    "softmin",
]


def softmax(x: Array, axis: int, *, mask: Array | None = None, temperature: float = 1.0) -> Array:
    r"""p_i = exp(x_i / T) / sum_j exp(x_j / T) along an axis, the largest score subtracted first.

    Parameters
    ----------
    x : array or tensor of floating numbers
        Scores; -inf has probability 0.
    axis : int
        The axis that sums to 1.
    mask : array or tensor of bool, optional
        True where an entry may be chosen; shape of `x`, or one that broadcasts to it. A row with nothing to choose
        gives zeros, never NaN.
    temperature : float in (0, inf), default 1
        T: towards 0 the arg max, towards inf uniform.

    Notes
    -----
    One pass more than the exponentials. Source: Bridle (1990).

    Examples
    --------
    >>> softmax(np.array([1.0, 2.0, 3.0]), 0).round(6)
    array([0.090031, 0.244728, 0.665241])
    >>> softmax(np.array([1.0, 2.0, 3.0]), 0, mask=np.array([True, True, False])).round(6)
    array([0.268941, 0.731059, 0.      ])
    """
    return ops.softmax(_prepared(x, mask, temperature), axis)


def softmin(x: Array, axis: int, *, mask: Array | None = None, temperature: float = 1.0) -> Array:
    """exp(-x_i / T) / sum_j exp(-x_j / T): the softmax of -x, for costs; parameters as in `softmax`.

    Examples
    --------
    >>> softmin(np.array([1.0, 2.0, 3.0]), 0).round(6)
    array([0.665241, 0.244728, 0.090031])
    """
    return softmax(-x, axis, mask=mask, temperature=temperature)


def log_softmax(x: Array, axis: int, *, mask: Array | None = None, temperature: float = 1.0) -> Array:
    """x_i / T - log sum_j exp(x_j / T): finite for scores of any size; -inf where masked. Parameters as in `softmax`.

    Examples
    --------
    >>> log_softmax(np.array([1.0, 2.0, 3.0]), 0).round(6)
    array([-2.407606, -1.407606, -0.407606])
    """
    return ops.log_softmax(_prepared(x, mask, temperature), axis)


def softmax_jacobian(p: Array) -> Array:
    """dp_i / dx_j = diag(p) - p p^T of each row of probabilities, shape (..., k) to (..., k, k).

    Examples
    --------
    >>> softmax_jacobian(np.array([0.25, 0.75]))
    array([[ 0.1875, -0.1875],
           [-0.1875,  0.1875]])
    """
    return p[..., :, None] * (_eye(p) - p[..., None, :])


def log_softmax_jacobian(p: Array) -> Array:
    """dlog p_i / dx_j = I - 1 p^T of each row of probabilities, shape (..., k) to (..., k, k)."""
    return _eye(p) - p[..., None, :]


def softmax_backward(p: Array, gradient: Array, axis: int) -> Array:
    """dL/dx = p * (g - sum_j g_j p_j) for g = dL/dp, without forming the Jacobian.

    Parameters
    ----------
    p : array or tensor
        Output of `softmax`.
    gradient : array or tensor
        dL/dp, same shape.
    axis : int
    """
    return p * (gradient - (gradient * p).sum(axis, keepdims=True))


def normalize(weights: Array, axis: int) -> Array:
    """p = w / sum w along an axis: unnormalized probabilities to probabilities.

    Parameters
    ----------
    weights : array or tensor
        Finite numbers >= 0. ``normalize(exp(x), axis)`` is ``softmax(x, axis)`` where exp(x) does not overflow.
    axis : int

    Raises
    ------
    UserValueError
        A weight below 0 or not finite; weights that are all 0, or whose sum overflows.

    Examples
    --------
    >>> normalize(np.array([1.0, 3.0]), 0)
    array([0.25, 0.75])
    """
    with np.errstate(over="ignore"):
        total = weights.sum(axis, keepdims=True)
    for wrong, what, remedy in (
        (~((weights >= 0) & (abs(weights) < np.inf)), "a weight is negative or not finite", "give numbers >= 0"),
        (total == 0, "all weights are 0", "give a weight above 0, or use softmax on their logarithms"),
        (total == np.inf, "the weights' sum overflows", "divide them by their maximum, or use softmax"),
    ):
        if bool(wrong.any()):
            first = tuple(int(i) for i in np.argwhere(np.asarray(wrong))[0])
            raise UserValueError(what, f"index {first}", remedy)
    return weights / total


def _prepared(x: Array, mask: Array | None, temperature: float) -> Array:
    if not temperature > 0:
        raise UserValueError.must("temperature", "be positive", temperature)
    scaled = x if temperature == 1 else x / temperature
    if mask is None:
        return scaled
    if is_tensor(x):
        return scaled.masked_fill(~mask, -np.inf)
    return np.where(mask, scaled, scaled.dtype.type(-np.inf))


def _eye(p: Array) -> Array:
    k = p.shape[-1]
    if not is_tensor(p):
        return np.eye(k, dtype=p.dtype)
    import torch

    return torch.eye(k, dtype=p.dtype, device=p.device)
