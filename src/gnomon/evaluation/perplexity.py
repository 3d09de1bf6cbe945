"""Perplexity of token models, and bits per byte for comparing models of unlike tokens."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score

__all__ = ["Perplexity", "bits_per_byte", "exp_or_inf", "perplexity"]

_ROUNDING = 1e-9  # a log probability may exceed 0 by this much


class Perplexity:
    """Running perplexity exp(-(1/T) sum_t log p_t) over T tokens, fed piece by piece.

    What is added up is the log probability and the number of tokens; the exponential comes last. The mean of the
    perplexities of several texts is wrong: it is never less than the perplexity of them all, and depends on the cuts.

    Notes
    -----
    A token of probability 0 makes the perplexity inf. Perplexities are comparable for the same tokens alone: the same
    units, the same vocabulary, the same rule for unknown tokens and for the end of a sentence; else see
    `bits_per_byte`. Source: Jelinek, Mercer, Bahl and Baker (1977).

    Examples
    --------
    >>> meter = Perplexity()
    >>> meter.update(np.log([0.5, 0.25])).update(np.log([[0.125, 1.0]]), mask=[[True, False]])
    Perplexity(4.0, 3 tokens)
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.total, self.squares, self.tokens = 0.0, 0.0, 0

    def update(self, log_probs: ArrayLike, mask: ArrayLike | None = None) -> Self:
        """Add the log probabilities of the tokens that truly came.

        Parameters
        ----------
        log_probs : array of any shape
            Nats, in [-inf, 0].
        mask : bool array of the same shape, optional
            False for padding: whatever stands there is left out.

        Raises
        ------
        UserValueError
            For a probability above 1, a NaN, or a mask of another shape.
        """
        values = np.asarray(log_probs, np.float64)
        kept = np.ones(values.shape, np.bool_) if mask is None else np.asarray(mask, np.bool_)
        if kept.shape != values.shape:
            raise UserValueError(f"mask must be one per token, {values.shape}, got {kept.shape}", "mask")
        wrong = np.argwhere(kept & ~(values <= _ROUNDING))
        if wrong.size:
            at = tuple(wrong[0].tolist())
            raise UserValueError.must(
                "log_probs",
                "be in [-inf, 0]",
                values[at],
                f"token {', '.join(map(str, at))}",
                "pass nats, not probabilities",
            )
        chosen = values[kept]
        self.total += _sum(chosen)
        self.squares += _sum(chosen**2)
        self.tokens += chosen.size
        return self

    def merge(self, other: Perplexity) -> Self:
        """Add what another meter (of another process, another text) was fed."""
        self.total += other.total
        self.squares += other.squares
        self.tokens += other.tokens
        return self

    @property
    def cross_entropy(self) -> float:
        """-(1/T) sum log p, in nats per token."""
        if not self.tokens:
            raise UserValueError("log_probs must have at least one token", "log_probs")
        return -self.total / self.tokens

    @property
    def value(self) -> float:
        """The perplexity, at least 1."""
        return exp_or_inf(max(self.cross_entropy, 0.0))

    def score(self, *, data_space: str = "", note: str = "") -> Score:
        """The perplexity as a Score; its standard error over tokens follows from that of the cross-entropy."""
        entropy, stderr = self.cross_entropy, math.nan
        if self.tokens > 1 and math.isfinite(entropy):
            variance = max(self.squares / self.tokens - entropy**2, 0.0)
            stderr = self.value * math.sqrt(variance / (self.tokens - 1))
        return Score(
            self.value, stderr, unit="per token", data_space=data_space, name="perplexity", higher_is_better=False,
            n=self.tokens, note=note,
        )  # fmt: skip

    def __repr__(self) -> str:
        shown = f"{self.value:.6g}" if self.tokens else "nan"
        return f"Perplexity({float(shown)}, {self.tokens} tokens)"


def perplexity(log_probs: ArrayLike, mask: ArrayLike | None = None) -> float:
    """exp of the mean negative log probability of the tokens that came; see `Perplexity`.

    Examples
    --------
    >>> round(perplexity(np.log([0.5, 0.25, 0.125])), 12)
    4.0
    """
    return Perplexity().update(log_probs, mask).value


def bits_per_byte(log_prob: float, n_bytes: int) -> float:
    """Length of the best code for a text under a model, per byte of the text: -log2 p(text) / bytes.

    Unlike perplexities, comparable between words, characters and bytes, as long as each model gives the whole text a
    probability (what its tokens leave out, such as the spelling of unknown words, is not in the number).

    Parameters
    ----------
    log_prob : float
        Log probability of the whole text in nats.
    n_bytes : int, at least 1
        Length of the text in UTF-8.

    Examples
    --------
    >>> bits_per_byte(-8 * math.log(2), 4)  # 8 bits for 4 bytes
    2.0
    """
    if n_bytes < 1:
        raise UserValueError.must(
            "n_bytes", "be positive", n_bytes, remedy="pass the length of a text that is not empty"
        )
    return -log_prob / math.log(2) / n_bytes


def _sum(values: np.ndarray) -> float:
    """Exact sum, so that the order of tokens changes no bit; infinities stay."""
    return math.fsum(values) if np.isfinite(values).all() else float(values.sum())


def exp_or_inf(x: float) -> float:
    """exp(x), inf where a float64 holds no such number.

    Examples
    --------
    >>> exp_or_inf(709.5) > 1e308, exp_or_inf(710.0)
    (True, inf)
    """
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
