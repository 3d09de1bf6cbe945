"""Dropout by address: the mask of a row is a function of its place in the global batch."""

from __future__ import annotations

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError

__all__ = ["Dropout", "dropout_mask"]


def dropout_mask(like: torch.Tensor, p: float, noise: Noise, draw: int = 0) -> torch.Tensor:
    """Factors of the elements of a tensor: 0 with probability p, else 1 / (1 - p).

    Parameters
    ----------
    like : tensor of shape (n, ...)
        Gives shape, dtype and device.
    p : float in [0, 1]
        Probability to drop; 1 drops everything.
    noise : Noise
        With ``rows(batch.positions)`` a row's factors are the same for any number of processes.
    draw : int, default 0
        Number of this call within the update.

    Raises
    ------
    UserValueError
        A p outside [0, 1].
    """
    if not 0 <= p <= 1:
        raise UserValueError(f"{p} is no probability to drop", "dropout", "choose a value in [0, 1]")
    if p == 1:
        return torch.zeros_like(like)
    kept: torch.Tensor = noise.uniform(tuple(like.shape), draw, like=like.detach())
    return (kept < 1 - p).to(like.dtype).mul_(1 / (1 - p))


class Dropout(nn.Module):
    """x * m / (1 - p) in training, m ~ Bernoulli(1 - p) for every element; x itself in prediction.

    The expectation over masks is x, so nothing is scaled at prediction. (In the form without 1 / (1 - p) weights are
    multiplied by 1 - p at prediction instead.) The gradient passes the same mask. Whether it is training is said by the
    noise and by nothing else: there is no mode to forget. Noise at prediction samples from the thinned networks
    (Monte Carlo dropout; Gal and Ghahramani 2016).

    Parameters
    ----------
    p : float in [0, 1]
        Probability to drop.
    draw : int, default 0
        Number of the layer: two layers of one number would drop alike.

    References
    ----------
    Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov (2014).

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> layer, x = Dropout(0.5), torch.ones(2, 4)
    >>> bool((layer(x) == x).all()), sorted(set(layer(x, Noise(0, "dropout")).flatten().tolist()))
    (True, [0.0, 2.0])
    """

    def __init__(self, p: float, draw: int = 0) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise UserValueError(f"{p} is no probability to drop", "dropout", "choose a value in [0, 1]")
        self.p, self.draw = p, draw

    def forward(self, x: torch.Tensor, noise: Noise | None = None) -> torch.Tensor:
        """Thinned x where there is noise, else x."""
        if noise is None or self.p == 0:
            return x
        return x * dropout_mask(x, self.p, noise, self.draw)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"p={self.p}"
