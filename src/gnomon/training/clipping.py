"""Gradients of bounded size: limited component by component, or shortened as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gnomon.errors import Diverged, UserValueError

__all__ = ["clip_by_norm", "clip_by_value", "global_norm"]


def global_norm(gradients: Sequence[Any]) -> float:
    """Euclidean norm of all gradients (arrays or tensors) taken together.

    Examples
    --------
    >>> global_norm([np.array([3.0]), np.array([[4.0]])])
    5.0
    """
    if not gradients:
        return 0.0
    if isinstance(gradients[0], torch.Tensor):  # one number leaves the device, not one per tensor
        return float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(gradients)))))
    return math.sqrt(sum(float((g * g).sum()) for g in gradients))


@torch.no_grad()
def clip_by_norm(gradients: Sequence[Any], most: float, norm: float | None = None) -> float:
    """Shorten the gradients, taken together, to a norm of at most `most`, in place: g <- g min(1, most / norm).

    The direction is kept, and plain gradient descent moves by at most learning_rate * most. The mean of shortened
    gradients is not the shortened mean: shorten once, after the gradients of all processes are summed.

    Parameters
    ----------
    gradients : sequence of arrays or tensors
    most : float > 0
    norm : float, optional
        What `global_norm` gives, where it is known already.

    Returns
    -------
    float
        The norm before.

    Raises
    ------
    UserValueError
        `most` that is not positive.
    Diverged
        A norm that is not finite: nothing is changed.

    Notes
    -----
    ``torch.nn.utils.clip_grad_norm_`` divides by norm + 1e-6 instead.

    References
    ----------
    Pascanu, Mikolov and Bengio (2013), On the difficulty of training recurrent neural networks.

    Examples
    --------
    >>> g = np.array([3.0, 4.0])
    >>> clip_by_norm([g], 1.0), g.round(12).tolist()
    (5.0, [0.6, 0.8])
    """
    if not most > 0:
        raise UserValueError.must("clip", "be positive", most, remedy="choose None to leave gradients alone")
    if norm is None:
        norm = global_norm(gradients)
    if not math.isfinite(norm):
        raise Diverged(f"the norm of the gradient is {norm}", "clip", "lower the learning rate")
    if norm <= most:
        return norm
    for g in gradients:
        g *= most / norm
    return norm


@torch.no_grad()
def clip_by_value(gradients: Sequence[Any], low: float, high: float) -> None:
    """Limit every component to [low, high], in place: g_i <- min(max(g_i, low), high). NaN stays NaN.

    The direction may change; with low < 0 < high the result never points uphill.

    Parameters
    ----------
    gradients : sequence of arrays or tensors
    low, high : float, low < high

    Raises
    ------
    UserValueError
        Limits that are not in order.

    Examples
    --------
    >>> g = np.array([3.0, -4.0, 0.5])
    >>> clip_by_value([g], -1.0, 1.0)
    >>> g.tolist()
    [1.0, -1.0, 0.5]
    """
    if not low < high:
        raise UserValueError.must("clip_value", "have limits low < high", (low, high))
    for g in gradients:
        if isinstance(g, torch.Tensor):
            g.clamp_(low, high)
        else:
            np.clip(g, low, high, out=g)
