r"""Concrete distributions: continuous ones on the simplex that become draws of a categorical as a temperature falls.

With g of the Gumbel distribution, :math:`g = -\log(-\log u)`, the largest of :math:`\log\pi_i + g_i` is a draw of the
categorical with the weights :math:`\pi`; the softmax of :math:`(\log\pi + g) / \tau` in its place has a gradient.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise as Addresses

__all__ = ["RelaxedCategorical", "binary_concrete", "gumbel_softmax"]


def gumbel_softmax(
    logits: torch.Tensor, noise: Noise, temperature: float, *, hard: bool = False, draw: int = 0
) -> torch.Tensor:
    r"""Relaxed draws of categoricals: :math:`\text{softmax}((\log\pi + g) / \tau)` over the last axis.

    Parameters
    ----------
    logits : tensor of shape (n, ..., k)
        Log weights.
    noise : Noise
        Row i of `logits` uses the numbers of position i; a uniform number is never 0 or 1.
    temperature : float in (0, inf)
    hard : bool, default False
        The indicator of the largest entry forward, with the gradient of the relaxed draw (straight through).
    draw : int, default 0
        Number of the call within a step.

    Returns
    -------
    tensor of the shape of `logits`

    Raises
    ------
    UserValueError
        A temperature that is not above 0.

    Notes
    -----
    The gradient of a mean over such draws is biased for that of a mean over the categorical, less as the temperature
    falls, while its variance rises. Source: Jang, Gu and Poole (2017); Maddison, Mnih and Teh (2017).

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> y = gumbel_softmax(torch.zeros(4, 3), Noise(0, "draws"), 0.5)
    >>> y.sum(1).round(decimals=4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    _refuse(temperature)
    flat = logits.reshape(len(logits), -1)
    uniform = _uniform(noise, flat, draw).reshape(logits.shape)
    soft = ((logits - (-uniform.log()).log()) / temperature).softmax(-1)
    return _through(torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0), soft) if hard else soft


def binary_concrete(
    logits: torch.Tensor, noise: Noise, temperature: float, *, hard: bool = False, draw: int = 0
) -> torch.Tensor:
    r"""Relaxed draws of coins: :math:`\sigma((a + \log u - \log(1 - u)) / \tau)`, `gumbel_softmax` of two categories.

    Parameters
    ----------
    logits : tensor of shape (n, d)
        Log odds a.
    noise, temperature, hard, draw
        As of `gumbel_softmax`; the draw of `hard` is whether the relaxed one is above one half.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> binary_concrete(torch.full((2, 2), 50.0), Noise(0, "draws"), 0.1).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    _refuse(temperature)
    soft = ((logits + torch.logit(_uniform(noise, logits, draw))) / temperature).sigmoid()
    return _through((soft > 0.5).to(soft.dtype), soft) if hard else soft


def _uniform(noise: Noise, like: torch.Tensor, draw: int) -> torch.Tensor:
    found: torch.Tensor = noise.uniform(tuple(like.shape), draw, like=like.detach())
    return found


def _through(hard: torch.Tensor, soft: torch.Tensor) -> torch.Tensor:
    """The value of the one, exactly, and the gradient of the other."""
    return hard + (soft - soft.detach())


def _refuse(temperature: float) -> None:
    if not 0 < temperature < math.inf:
        raise UserValueError.must("temperature", "be a number above 0", temperature)


class RelaxedCategorical:
    r"""The concrete distribution of a categorical with these log weights, on the simplex.

    Parameters
    ----------
    logits : tensor or array of shape (..., k)
        Log weights.
    temperature : float in (0, inf)

    Notes
    -----
    Density :math:`(k - 1)! \tau^{k-1} \prod_i \pi_i y_i^{-\tau-1} / (\sum_i \pi_i y_i^{-\tau})^k` by the first k - 1
    entries of y. Source: Maddison, Mnih and Teh (2017), equation 10.

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.numeric.noise import Noise
    >>> die = RelaxedCategorical(np.log([1.0, 2.0, 3.0]), 0.5)
    >>> y = die.rsample(Noise(0, "draws"), 1000)
    >>> y.shape, round((y.argmax(1) == 2).double().mean().item(), 1)
    (torch.Size([1000, 3]), 0.5)
    """

    def __init__(self, logits: Any, temperature: float) -> None:
        _refuse(temperature)
        self.logits = logits if isinstance(logits, torch.Tensor) else torch.as_tensor(logits, dtype=torch.float64)
        self.temperature = temperature

    def rsample(self, noise: Addresses, n: int = 1, *, hard: bool = False, draw: int = 0) -> torch.Tensor:
        """n draws, shape (n, ..., k), with a gradient by the log weights; `hard` as of `gumbel_softmax`."""
        return gumbel_softmax(self.logits.expand(n, *self.logits.shape), noise, self.temperature, hard=hard, draw=draw)

    def log_prob(self, y: torch.Tensor) -> torch.Tensor:
        """Log density in nats of points inside the simplex, shape (...)."""
        k, tau, log_y = y.shape[-1], self.temperature, y.log()
        weights = self.logits - self.logits.logsumexp(-1, keepdim=True)
        normal = math.lgamma(k) + (k - 1) * math.log(tau)
        return normal + (weights - (tau + 1) * log_y).sum(-1) - k * (weights - tau * log_y).logsumexp(-1)
