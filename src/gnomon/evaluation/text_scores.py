"""Scores of a text under a language model: log likelihood and perplexity per token, bits per byte and character."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.text import Unit, detokenize
from gnomon.data.tokenizers import Subwords
from gnomon.evaluation.perplexity import exp_or_inf
from gnomon.evaluation.score import Score

__all__ = ["byte_lengths", "char_lengths", "text_scores"]


def text_scores(
    log_prob: NDArray[np.float64],
    tokens: NDArray[np.int64],
    n_bytes: NDArray[np.int64],
    n_chars: NDArray[np.int64],
    *,
    data_space: str,
    unknown: int = 0,
    of: int | None = None,
    note: str = "",
) -> dict[str, Score]:
    """Log likelihood per token, perplexity, bits per byte and per character, with standard errors over sentences.

    Parameters
    ----------
    log_prob : float64 array of shape (sentences,)
        Nats.
    tokens, n_bytes, n_chars : int64 arrays of shape (sentences,)
        Predicted tokens, UTF-8 bytes and code points of each.
    data_space : str
        Of the scores per token.
    unknown : int, default 0
        Tokens whose spelling the model does not give: bits are then a lower bound.
    of : int, optional
        Tokens of the text, ends left out; the number of unknown ones among them stands beside the perplexity.
    note : str

    Examples
    --------
    >>> found = text_scores(np.log([0.25, 0.25]), np.array([1, 2]), np.array([1, 3]), np.array([1, 1]), data_space="x")
    >>> round(found["perplexity"].value, 4), found["bits_per_byte"].value, found["bits_per_char"].value
    (2.5198, 1.0, 2.0)
    """
    count = f"{unknown} of {int(tokens.sum()) if of is None else of} tokens unknown"
    count = f"{count}; {note}" if note else count
    mean = _per(
        log_prob,
        tokens,
        name="log_likelihood",
        unit="nats per token",
        data_space=data_space,
        note=count if unknown else note,
    )
    ratio = exp_or_inf(-mean.value) if math.isfinite(mean.value) else math.inf
    if math.isinf(ratio) and not note:
        count += f"; exp({-mean.value:.6g}) is beyond what a float64 holds"
    perplexity = Score(
        ratio, ratio * mean.stderr, unit="per token", data_space=data_space, name="perplexity",
        higher_is_better=False, n=mean.n, note=count,
    )  # fmt: skip
    if unknown and not note:
        note = f"the spelling of {unknown} unknown tokens is not counted"
    facts: dict[str, Any] = {
        "kind": "lower bound" if unknown else "exact", "higher_is_better": False, "note": note,
    }  # fmt: skip
    bits = -log_prob / math.log(2)
    per_byte = _per(bits, n_bytes, name="bits_per_byte", unit="bits per byte", data_space="bytes of text", **facts)
    per_char = _per(
        bits, n_chars, name="bits_per_char", unit="bits per character", data_space="characters of text", **facts
    )
    return {"log_likelihood": mean, "perplexity": perplexity, "bits_per_byte": per_byte, "bits_per_char": per_char}


def _per(totals: NDArray[np.float64], counts: NDArray[np.int64], **facts: Any) -> Score:
    """sum of totals / sum of counts as a Score whose examples are the sentences."""
    means = np.divide(totals, counts, out=np.zeros(totals.shape), where=counts > 0)
    return Score.from_pointwise(means, weight=counts, **facts)


def byte_lengths(sentences: Sequence[Sequence[str]], unit: Unit | Subwords, *, ends: bool) -> NDArray[np.int64]:
    """UTF-8 length of each sentence, with the line's end where that is predicted: words are joined by blanks.

    Examples
    --------
    >>> byte_lengths([["a", "b"], []], "word", ends=True).tolist()
    [4, 1]
    """
    if unit == "byte":
        sizes = [len(tokens) for tokens in sentences]
    else:
        sizes = [len(detokenize(tokens, unit).encode("utf-8", "surrogatepass")) for tokens in sentences]
    return np.array(sizes, np.int64) + ends


def char_lengths(sentences: Sequence[Sequence[str]], unit: Unit | Subwords, *, ends: bool) -> NDArray[np.int64]:
    r"""Code points of each sentence, with the line's end where that is predicted: words are joined by blanks.

    Examples
    --------
    >>> char_lengths([["\u00c3", "\u00a9"], []], "byte", ends=True).tolist()  # the bytes of one letter
    [2, 1]
    """
    return np.array([len(detokenize(tokens, unit)) for tokens in sentences], np.int64) + ends
