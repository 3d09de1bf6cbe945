"""Particles of many rows at once, whose uneven weights are evened out by drawing them anew."""

from __future__ import annotations

import math
from typing import Any

import torch

from gnomon.contracts import Noise

__all__ = ["resampled"]


def resampled(
    log_w: torch.Tensor, total: torch.Tensor, noise: Noise, share: float = 0.5
) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """Which particles go on, their weights, and the log evidence so far: systematic, where few particles count.

    A row whose effective number of particles is at least `share` of them keeps them and their weights. The log of the
    mean weight of the others goes to the total, of which the exponential stays unbiased.

    Parameters
    ----------
    log_w : float64 tensor of shape (n, S)
        Log weights of each row's particles.
    total : float64 tensor of shape (n,)
        Log evidence up to the last time.
    noise : Noise
        Of n S rows, of which the first of each row is drawn from.
    share : float in [0, 1], default 0.5
        0 never draws anew.

    Returns
    -------
    index : int64 tensor of shape (n * S,), or None
        Of the n S particles, those that go on in the place of each; None where all stay.
    log_w : tensor of shape (n, S)
        0 of rows that were drawn anew.
    total : tensor of shape (n,)

    References
    ----------
    Gordon, Salmond and Smith (1993); Doucet and Johansen (2009).

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> log_w = torch.tensor([[0.0, -90.0, -90.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    >>> index, after, total = resampled(log_w, torch.zeros(2, dtype=torch.float64), Noise(0, "a"))
    >>> index.tolist(), [round(v, 4) for v in total.tolist()]
    ([0, 0, 0, 3, 4, 5], [-1.0986, 0.0])
    """
    n, s = log_w.shape
    weights = log_w.softmax(1)
    poor = weights.square().sum(1) * (share * s) > 1
    if not poor.any():
        return None, log_w, total
    u = noise.uniform((n * s, 1), like=weights)[:, 0].reshape(n, s)[:, :1]
    ticks = (torch.arange(s, device=weights.device) + u) / s
    chosen = torch.searchsorted(weights.cumsum(1).contiguous(), ticks.contiguous()).clamp_max(s - 1)
    own = torch.arange(s, device=weights.device).expand(n, s)
    index = torch.where(poor[:, None], chosen, own) + s * torch.arange(n, device=weights.device)[:, None]
    total = total + torch.where(poor, log_w.logsumexp(1) - math.log(s), 0.0)
    return index.reshape(-1), torch.where(poor[:, None], 0.0, log_w), total
