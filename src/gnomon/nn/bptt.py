"""Back-propagation through time in closed form, and how gradients fade or grow along a sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from gnomon.errors import UserTypeError
from gnomon.nn.recurrent import RNN, Recurrent

__all__ = ["Unrolled", "bptt", "log_gradient_norms", "spectral_radius", "unroll"]


@dataclass(frozen=True)
class Unrolled:
    """What a pass over sequences leaves for the way back.

    Parameters
    ----------
    x : tensor of shape (n, T, inputs)
    states : tensor of shape (n, T + 1, units)
        From the state before the first place on.
    slopes : tensor of shape (n, T, units)
        f'(pre-activation).
    scores : tensor of shape (n, T, outputs)
    """

    x: torch.Tensor
    states: torch.Tensor
    slopes: torch.Tensor
    scores: torch.Tensor


def _slope(layer: RNN, h: torch.Tensor) -> torch.Tensor:
    """f' from the value of f."""
    if layer.activation is torch.tanh:
        return 1 - h * h
    if layer.activation is torch.relu:
        return (h > 0).to(h.dtype)
    if bool((layer.activation(h) == h).all()):
        return torch.ones_like(h)
    raise UserTypeError(
        "the activation must be tanh, relu or the identity", "bptt", "use automatic differentiation for others"
    )


def unroll(layer: RNN, head: nn.Linear, x: torch.Tensor, state: torch.Tensor | None = None) -> Unrolled:
    """Run a simple network and the affine layer on its states, and keep what `bptt` needs."""
    with torch.no_grad():
        before = layer.initial(len(x)) if state is None else state
        states = torch.cat([before[:, None], layer.unroll(x, before)], 1)
        return Unrolled(x, states, _slope(layer, states[:, 1:]), head(states[:, 1:]))


def bptt(
    layer: RNN, head: nn.Linear, passed: Unrolled, gradient: torch.Tensor, truncate: int | None = None
) -> dict[str, torch.Tensor]:
    r"""Gradients of a loss through h_t = f(W_x x_t + W_h h_{t-1} + b), o_t = W_q h_t + b_q.

    .. math::
        \delta_t = f'_t \odot (W_q^T \, \partial L/\partial o_t + W_h^T \delta_{t+1}), \quad
        \frac{\partial L}{\partial W_h} = \sum_t \delta_t h_{t-1}^T, \quad
        \frac{\partial L}{\partial W_x} = \sum_t \delta_t x_t^T, \quad
        \frac{\partial L}{\partial W_q} = \sum_t \frac{\partial L}{\partial o_t} h_t^T

    With f the identity this is :math:`\partial L/\partial h_t = \sum_{i=t}^T (W_h^T)^{T-i} W_q^T\,
    \partial L/\partial o_{T+t-i}`.

    Parameters
    ----------
    layer : RNN
        With tanh, relu or the identity.
    head : nn.Linear
    passed : Unrolled
        Of `unroll`, of the same weights.
    gradient : tensor of shape (n, T, outputs)
        dL/do_t, whatever the loss: for a mean over T it holds the factor 1/T.
    truncate : int >= 1, optional
        Places after which the state is cut off: none of what comes later reaches the ones before, as in training on
        windows whose state is carried over. With T or more nothing is cut.

    Returns
    -------
    dict
        ``weight_x``, ``weight_h``, ``bias``, ``head.weight``, ``head.bias``, and ``state``: that of the state before
        the first place.

    Notes
    -----
    Fits use automatic differentiation, which is as fast. Memory: T states of each sequence.

    References
    ----------
    Werbos (1990), Backpropagation through time; Williams and Peng (1990) for the truncation.
    """
    with torch.no_grad():
        steps = passed.x.shape[1]
        length = truncate or steps
        own = gradient @ head.weight
        deltas, later = torch.zeros_like(passed.slopes), torch.zeros_like(passed.states[:, 0])
        for t in reversed(range(steps)):
            deltas[:, t] = passed.slopes[:, t] * (own[:, t] + later)
            later = deltas[:, t] @ layer.weight_h if t % length else torch.zeros_like(later)
        first = deltas[:, 0] @ layer.weight_h
        return {
            "weight_x": torch.einsum("nth,nti->hi", deltas, passed.x),
            "weight_h": torch.einsum("nth,ntj->hj", deltas, passed.states[:, :-1]),
            "bias": deltas.sum((0, 1)),
            "head.weight": torch.einsum("nto,nth->oh", gradient, passed.states[:, 1:]),
            "head.bias": gradient.sum((0, 1)),
            "state": first,
        }


def log_gradient_norms(
    layer: Recurrent, x: torch.Tensor, loss: Callable[[torch.Tensor], torch.Tensor], state: torch.Tensor | None = None
) -> torch.Tensor:
    r"""log of the norm of :math:`\partial L_t / \partial h_1` for t = 1 ... T: does the end still reach the beginning?

    A straight line down is a gradient that vanishes, one up a gradient that explodes; its slope is about the log of the
    spectral radius of the Jacobians (`spectral_radius` of W_h, less what saturation takes).

    Parameters
    ----------
    layer : Recurrent
    x : tensor of shape (n, T, inputs)
    loss : function
        Losses (n, T) of the outputs (n, T, units), each of the outputs of its own place alone.
    state : tensor of shape (n, state_size), optional

    Returns
    -------
    tensor of shape (T,)
        Norms over the whole batch; -inf where the gradient is 0.

    Notes
    -----
    T backward passes: O(T^2) places.

    References
    ----------
    Bengio, Simard and Frasconi (1994).
    """
    before = layer.initial(len(x)) if state is None else state
    first = layer.step(x[:, 0], before).detach().requires_grad_()
    states = [first]
    for t in range(1, x.shape[1]):
        states.append(layer.step(x[:, t], states[-1]))
    losses = loss(torch.stack([one[:, : layer.units] for one in states], 1)).sum(0)
    norms = []
    for value in losses:
        (gradient,) = torch.autograd.grad(value, first, retain_graph=True)
        norms.append(gradient.double().norm().log())
    return torch.stack(norms)


def spectral_radius(weight: torch.Tensor) -> float:
    """The largest absolute eigenvalue of the state's weights: above 1 gradients may explode, below 1 they vanish.

    Examples
    --------
    >>> round(spectral_radius(torch.tensor([[0.0, -1.5], [1.5, 0.0]])), 6)
    1.5
    """
    return float(torch.linalg.eigvals(weight.detach()).abs().max())
