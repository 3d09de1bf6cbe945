"""Independent binary variables given by their logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.numeric import ops

__all__ = ["Bernoulli"]


class Bernoulli:
    """Independent binary variables, p(x) = prod_j sigmoid(a_j)^x_j sigmoid(-a_j)^(1 - x_j).

    Parameters
    ----------
    logits : array or tensor of float32 or float64, shape (..., n)
        Natural parameters a = log(p / (1 - p)); infinite where the outcome is certain. Everything is answered in
        this kind, dtype and device.

    Examples
    --------
    >>> import numpy as np
    >>> coin = Bernoulli(np.zeros((2, 3)))
    >>> coin.log_prob(np.ones((2, 3))).round(4)
    array([-2.0794, -2.0794])
    """

    __slots__ = ("logits",)

    def __init__(self, logits: Any) -> None:
        self.logits = logits

    @classmethod
    def of(cls, probs: Any) -> Bernoulli:
        """Those of these probabilities of a 1, an array of float32 or float64 with values in [0, 1]."""
        with np.errstate(divide="ignore"):
            return cls(np.log(probs) - np.log1p(-probs))

    @property
    def mean(self) -> Any:
        """sigmoid(logits)."""
        return ops.sigmoid(self.logits)

    @property
    def mode(self) -> Any:
        """1 where that is the more probable outcome, else 0."""
        return ops.positive(self.logits)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every variable, 0 or 1, at the address of `noise` and `draw`; carries no gradient."""
        return noise.bernoulli_logits(self.logits, draw)

    def log_prob(self, x: Any) -> Any:
        """Log probability in nats, summed over the last axis: sum_j x_j a_j - log(1 + exp(a_j)).

        Parameters
        ----------
        x : array or tensor, shape broadcastable to that of the logits
            Binary, or a probability in [0, 1]: then the expected log probability of a variable with that mean.

        Returns
        -------
        array or tensor, shape (...)
            -inf where `x` contradicts a certain outcome.
        """
        return self.log_terms(x).sum(-1)

    def log_terms(self, x: Any) -> Any:
        """Log probability of each variable in nats, shape of `x`."""
        a = self.logits
        x = _like(x, a)
        return -(_weighted(x, ops.softplus(-a)) + _weighted(1 - x, ops.softplus(a)))

    def entropy(self) -> Any:
        """Entropy in nats, summed over the last axis; 0 where the outcome is certain."""
        a = self.logits
        return (_weighted(ops.sigmoid(a), ops.softplus(-a)) + _weighted(ops.sigmoid(-a), ops.softplus(a))).sum(-1)

    def _kl(self, other: Bernoulli) -> Any:
        """Summed over the last axis; infinite where the other is certain of what may come otherwise."""
        a, b = self.logits, other.logits
        with np.errstate(invalid="ignore"):  # of outcomes that come under neither
            on, off = ops.softplus(-b) - ops.softplus(-a), ops.softplus(b) - ops.softplus(a)
        return (_weighted(ops.sigmoid(a), on) + _weighted(ops.sigmoid(-a), off)).sum(-1)


def _like(x: Any, like: Any) -> Any:
    """`x` in the kind, dtype and device of `like`."""
    if isinstance(like, np.ndarray):
        return np.asarray(x, like.dtype)
    import torch

    return torch.as_tensor(x, dtype=like.dtype, device=like.device)


def _weighted(weight: Any, cost: Any) -> Any:
    """weight * cost, 0 where the weight is 0 although the cost is infinite."""
    if isinstance(cost, np.ndarray):
        return weight * np.where(weight == 0, cost.dtype.type(0), cost)
    return weight * cost.where(weight != 0, 0.0)
