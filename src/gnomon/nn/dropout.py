"""Dropout and stochastic depth by address: the mask of a row is a function of its place in the global batch."""

from __future__ import annotations

import torch

from gnomon.contracts import Noise
from gnomon.data.counting import EOS, UNKNOWN
from gnomon.errors import UserValueError
from gnomon.nn.context import ContextLayer, current

__all__ = ["Dropout", "StochasticDepth", "WordDropout", "drop_words", "dropout_mask"]


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
        raise UserValueError.must("dropout", "be in [0, 1]", p)
    if p == 1:
        return torch.zeros_like(like)
    kept: torch.Tensor = noise.uniform(tuple(like.shape), draw, like=like.detach())
    return (kept < 1 - p).to(like.dtype).mul_(1 / (1 - p))


class Dropout(ContextLayer):
    """x * m / (1 - p) in training, m ~ Bernoulli(1 - p) for every element; x itself in prediction.

    The expectation over masks is x, so nothing is scaled at prediction. (In the form without 1 / (1 - p) weights are
    multiplied by 1 - p at prediction instead.) The gradient passes the same mask. Whether it is training is said by
    `gnomon.nn.context.training` and by nothing else: there is no mode to forget. Predictions within it sample from the
    thinned networks (Monte Carlo dropout; Gal and Ghahramani 2016).

    Parameters
    ----------
    p : float in [0, 1]
        Probability to drop.

    References
    ----------
    Srivastava, Hinton, Krizhevsky, Sutskever and Salakhutdinov (2014).

    Examples
    --------
    >>> from gnomon.nn.context import training
    >>> from gnomon.numeric.noise import Noise
    >>> layer, x = Dropout(0.5), torch.ones(2, 4)
    >>> with training(Noise(0, "dropout")):
    ...     thinned = layer(x)
    >>> bool((layer(x) == x).all()), sorted(set(thinned.flatten().tolist()))
    (True, [0.0, 2.0])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise UserValueError.must("dropout", "be in [0, 1]", p)
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Thinned x in training, else x."""
        now = current()
        if now is None or self.p == 0:
            return x
        return x * dropout_mask(x, self.p, *now.stream(self.path))

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"p={self.p}"


class StochasticDepth(ContextLayer):
    """x * m / (1 - p) in training, one m ~ Bernoulli(1 - p) for all numbers of a row; x itself in prediction.

    On the way of a block's change it leaves the whole block out for some rows, so that a deep network trains as many
    shallower ones. Multiplied by 1 / (1 - p) in training, nothing is scaled at prediction.

    Parameters
    ----------
    p : float in [0, 1]
        Probability to leave out.

    Raises
    ------
    UserValueError
        A p outside [0, 1].

    References
    ----------
    Huang, Sun, Liu, Sedra and Weinberger (2016), equation 2, with the factor of equation 5 moved to training.

    Examples
    --------
    >>> from gnomon.nn.context import training
    >>> from gnomon.numeric.noise import Noise
    >>> layer, x = StochasticDepth(0.5), torch.ones(8, 3)
    >>> with training(Noise(0, "depth")):
    ...     kept = layer(x)
    >>> bool((layer(x) == x).all()), bool((kept == kept[:, :1]).all()), sorted(set(kept.flatten().tolist()))
    (True, True, [0.0, 2.0])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise UserValueError.must("p", "be in [0, 1]", p)
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x with some rows 0 in training, else x."""
        now = current()
        if now is None or self.p == 0:
            return x
        mask = dropout_mask(x.flatten(1)[:, :1], self.p, *now.stream(self.path))
        return x * mask.reshape(-1, *(1,) * (x.ndim - 1))

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"p={self.p}"


def drop_words(ids: torch.Tensor, rate: float, noise: Noise, draw: int = 0) -> torch.Tensor:
    """Tokens of which each is replaced by ``<unk>`` with a probability; ``<s>`` and ``</s>`` always stay.

    Parameters
    ----------
    ids : int64 tensor of shape (n, T)
        0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    rate : float in [0, 1]
    noise : Noise
        With ``rows(batch.positions)`` what a row loses is the same for any number of processes.
    draw : int, default 0
        Number of this call within the update.

    Raises
    ------
    UserValueError
        A rate outside [0, 1].

    References
    ----------
    Bowman et al. (2016), "Generating sentences from a continuous space", section 3.1.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> drop_words(torch.tensor([[1, 5, 7, 2]]), 1.0, Noise(0, "words")).tolist()
    [[1, 0, 0, 2]]
    """
    if not 0 <= rate <= 1:
        raise UserValueError.must("rate", "be in [0, 1]", rate)
    like = torch.empty(0, dtype=torch.float32, device=ids.device)
    u: torch.Tensor = noise.uniform(tuple(ids.shape), draw, like=like)
    return torch.where((ids > EOS) & (u < rate), UNKNOWN, ids)


class WordDropout(ContextLayer):
    """`drop_words` in training; the tokens themselves in prediction.

    Parameters
    ----------
    rate : float in [0, 1]
        Probability of each token to be read as ``<unk>``.

    Examples
    --------
    >>> WordDropout(0.5)(torch.tensor([[1, 5, 7]])).tolist()
    [[1, 5, 7]]
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise UserValueError.must("rate", "be in [0, 1]", rate)
        self.rate = rate

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Tokens (n, T), some of them lost in training."""
        now = current()
        if now is None or self.rate == 0:
            return ids
        return drop_words(ids, self.rate, *now.stream(self.path))

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"rate={self.rate}"
