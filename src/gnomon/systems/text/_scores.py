"""Scores of a text under an n-gram model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.text import detokenize
from gnomon.evaluation.score import Score
from gnomon.inference.counting import UNKNOWN

__all__ = ["impossible", "lengths", "scores"]


def lengths(model: Any, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Predicted tokens of each sentence."""
    return np.asarray(np.diff(offsets) + (model.sentence_start == "pad"))


def scores(model: Any, sentences: list[list[str]], text: Any, unit: Any, data_space: str) -> dict[str, Score]:
    """Log likelihood per token, perplexity and bits per byte, with standard errors over sentences.

    Parameters
    ----------
    model : NGramModel
    sentences : list of lists of str
        The text as tokens.
    text : pair (ids, offsets)
        The same, encoded.
    unit : {"word", "char", "byte"}
    data_space : str
    """
    values = model.log_prob(text)
    note = "" if np.isfinite(values).all() else impossible(model, text)
    mean = _per(
        values, lengths(model, text[1]), name="log_likelihood", unit="nats per token", data_space=data_space, note=note
    )
    ratio = math.exp(min(-mean.value, 709.0)) if math.isfinite(mean.value) else math.inf
    perplexity = Score(
        ratio, ratio * mean.stderr, unit="per token", data_space=data_space, name="perplexity",
        higher_is_better=False, n=mean.n, note=note,
    )  # fmt: skip
    lost = int((text[0] == UNKNOWN).sum())
    if lost and not note:
        note = f"the spelling of {lost} unknown tokens is not counted"
    bits = _per(
        -values / math.log(2), _bytes(sentences, unit, padded=model.sentence_start == "pad"), name="bits_per_byte",
        unit="bits per byte", data_space="bytes of text", kind="lower bound" if lost else "exact",
        higher_is_better=False, note=note,
    )  # fmt: skip
    return {"log_likelihood": mean, "perplexity": perplexity, "bits_per_byte": bits}


def _per(totals: NDArray[np.float64], counts: NDArray[np.int64], **said: Any) -> Score:
    """sum of totals / sum of counts as a Score whose examples are the sentences."""
    share = np.divide(totals, counts, out=np.zeros(totals.shape), where=counts > 0)
    return Score.from_pointwise(share, weight=counts, **said)


def _bytes(sentences: list[list[str]], unit: Any, *, padded: bool) -> NDArray[np.int64]:
    """UTF-8 length of each sentence: words joined by blanks; with the line's end where that is predicted."""
    if unit == "byte":
        sizes = [len(tokens) for tokens in sentences]
    else:
        sizes = [len(detokenize(tokens, unit).encode("utf-8", "surrogatepass")) for tokens in sentences]
    return np.array(sizes, np.int64) + padded


def impossible(model: Any, text: Any) -> str:
    """The first n-gram of probability 0, told in a line; "" where there is none."""
    found = model.first_impossible(text)
    if found is None:
        return ""
    sentence, place, ids = found
    gram = " ".join(model.vocabulary.decode(ids))
    return f"the n-gram {gram!r} (sentence {sentence}, token {place}) has probability 0"
