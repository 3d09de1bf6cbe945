"""Units for documents: how often each word stands in a text of a given length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution, Noise
from gnomon.distributions.units import Own, Units, mean_of
from gnomon.numeric.ops import logsumexp
from gnomon.numeric.tensors import detached, is_tensor

__all__ = ["Multinomials", "WordCountUnits", "log_orders"]

LEAST_SHARE = 0.01
"""Of all words together, dealt evenly: so no word of the vocabulary is impossible because it has not been seen."""


class Multinomials:
    """Counts of words in rows of given sums, each word drawn with the softmax of a row's field.

    Parameters
    ----------
    field : array or tensor, shape (rows, n)
        Log-odds of the words, up to a constant of the row.
    length : array or tensor, shape (rows,) or (1,)
        Words of each row.

    Examples
    --------
    >>> Multinomials(np.zeros((1, 2)), np.array([4.0])).mean.tolist()
    [[2.0, 2.0]]
    """

    __slots__ = ("field", "length")

    def __init__(self, field: Any, length: Any) -> None:
        self.field, self.length = field, length

    @property
    def share(self) -> Any:
        """Chances of the words, (rows, n)."""
        log = self.field - logsumexp(self.field)[:, None]
        return log.exp() if hasattr(log, "exp") else np.exp(log)

    @property
    def mean(self) -> Any:
        """length * share."""
        return self.length[:, None] * self.share

    @property
    def variance(self) -> Any:
        """length * share * (1 - share)."""
        return self.mean * (1 - self.share)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of every row: its words one by one, by a uniform number each; carries no gradient."""
        share, length = _numpy(self.share).astype(np.float64), _numpy(self.length + 0 * self.field[:, 0])
        rows, n = share.shape
        most = int(length.max(initial=0))
        u = _numpy(noise.uniform((rows, max(most, 1)), draw, like=self.field))[:, :most].astype(np.float64)
        row, place = np.nonzero(np.arange(most) < length[:, None])
        edges = np.cumsum(share, axis=1)
        edges = edges / edges[:, -1:] + np.arange(rows)[:, None]
        word = np.searchsorted(edges.ravel(), row + u[row, place], side="right").clip(row * n, row * n + n - 1)
        return _like(np.bincount(word, minlength=rows * n).reshape(rows, n).astype(np.float64), self.field)

    def log_prob(self, x: Any) -> Any:
        """Log probability of each row in nats; -inf where its sum is another."""
        log = self.field - logsumexp(self.field)[:, None]
        off = x.sum(-1) != self.length
        found = log_orders(x) + (x * log).sum(-1)
        return found - _like(np.where(_numpy(off), np.inf, 0.0), found)

    def entropy(self) -> Any:
        """Entropy of each row in nats."""
        log = self.field - logsumexp(self.field)[:, None]
        return -(self.mean * log).sum(-1) - self.mean_log_orders()

    def mean_log_orders(self) -> Any:
        """E[log(length! / prod_k x_k!)] of each row, by the sum over the counts of each word, which are binomial."""
        from scipy.special import gammaln
        from scipy.stats import binom

        share, length = _numpy(self.share).astype(np.float64), _numpy(self.length + 0 * self.field[:, 0])
        total = gammaln(length + 1)
        for k in range(2, int(length.max(initial=0)) + 1):
            total = total - math.lgamma(k + 1) * binom.pmf(k, length[:, None], share).sum(1)
        return _like(total, self.field)


@dataclass(frozen=True)
class WordCountUnits(Units):
    r"""How often each of n words stands in a row of N words, :math:`w(x) = b^T x + \log(N! / \prod_k x_k!)`.

    Under a field f the words are drawn one by one with the chances softmax(b + f): the N softmax units of a replicated
    softmax machine, whose parameters are the same, so that their sum is all that is seen of them. N is no parameter: it
    is handed in with these as ``length``, one number for each row or one for all.

    Parameters
    ----------
    n : int, in [1, inf)
        Words of the vocabulary.
    lengths : tuple of int
        What lengths rows are begun with where none are given: one of these, each as likely.

    References
    ----------
    Salakhutdinov and Hinton (2009), "Replicated softmax: an undirected topic model".

    Examples
    --------
    >>> own = {"bias": np.zeros(2), "length": np.array([3.0])}
    >>> np.exp(WordCountUnits(2).log_normalizer(np.zeros((1, 2)), own)).round(6).tolist()
    [8.0]
    """

    lengths: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        Units(self.n)

    def start(self, noise: Noise, rows: int, like: Array, draw: int = 0) -> Array:
        """Rows of one of the lengths each, all words alike."""
        field = _like(np.zeros((rows, self.n)), like)
        return Multinomials(field, self.drawn_lengths(noise.child("length"), field)).sample(noise, draw)

    def drawn_lengths(self, noise: Noise, like: Array) -> Array:
        """A length for each row of an array, each of `lengths` as likely."""
        u = _numpy(noise.uniform((len(like), 1), 0, like=like))[:, 0]
        return _like(np.array(self.lengths, np.float64)[(u * len(self.lengths)).astype(np.int64)], like)

    def conditional(self, field: Array, own: Own) -> Multinomials:
        """Words with the log-odds field + bias."""
        field += own["bias"]
        return Multinomials(field, own["length"])

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """length * logsumexp(field + bias)."""
        field += own["bias"]
        found: Array = own["length"] * logsumexp(field)
        return found

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """With the log of the number of orders in which the words may stand."""
        orders = x.mean_log_orders() if isinstance(x, Multinomials) else log_orders(mean_of(x))
        return mean_of(x) @ own["bias"] + orders

    def _fitting(self, mean: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Logs of the words' shares."""
        total = max(float(mean.sum()), 1e-300)
        return {"bias": np.log((mean / total + LEAST_SHARE / self.n) / (1 + LEAST_SHARE))}


def log_orders(x: Any) -> Any:
    """log(N! / prod_k x_k!) of each row, N being its sum.

    Examples
    --------
    >>> np.exp(log_orders(np.array([[2.0, 1.0]]))).round(6).tolist()
    [3.0]
    """
    if hasattr(x, "lgamma"):
        return (x.sum(-1) + 1).lgamma() - (x + 1).lgamma().sum(-1)
    from scipy.special import gammaln

    return (gammaln(x.sum(-1) + 1) - gammaln(x + 1).sum(-1)).astype(x.dtype)


def _numpy(x: Any) -> NDArray[np.float64]:
    plain = detached(x)
    return np.asarray(plain.cpu().numpy() if is_tensor(plain) else plain, np.float64)


def _like(x: NDArray[Any], like: Any) -> Any:
    """In the kind and type of another array."""
    if not is_tensor(like):
        return x.astype(like.dtype)
    import torch

    return torch.as_tensor(x, dtype=like.dtype, device=like.device)
