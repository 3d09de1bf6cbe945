"""Scores of tags of words, and of the spans that tags such as B-place and I-place mark."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.tagged import WordTags
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score

__all__ = ["marks_spans", "tagged_spans", "tagging_scores"]

_MARK = re.compile(r"O|[BI](-.+)?")

Ints = NDArray[np.int64]


def marks_spans(classes: Sequence[str]) -> bool:
    """Whether tags mark spans: each is ``O``, ``B``, ``I``, ``B-label`` or ``I-label``, and one begins a span.

    Examples
    --------
    >>> marks_spans(["B-city", "I-city", "O"]), marks_spans(["ADJ", "NOUN"])
    (True, False)
    """
    return all(_MARK.fullmatch(one) for one in classes) and any(one != "O" for one in classes)


def tagged_spans(tags: Any, counts: Ints) -> NDArray[Any]:
    """The spans that tags mark: text, first word, word behind the last, label.

    A span begins at a B, and at an I that continues none of its label; it ends before the next word that is no I of
    its label, and with its text.

    Parameters
    ----------
    tags : array of str
        Of the words of all texts, one after the other.
    counts : int array
        Words of each text.

    Returns
    -------
    array of dtype [("text", int64), ("start", int64), ("stop", int64), ("label", str)]

    Notes
    -----
    O(words). As the CoNLL 2000 script reads IOB2: Tjong Kim Sang and Buchholz (2000).

    Examples
    --------
    >>> tagged_spans(["B-a", "I-a", "I-b", "O", "I-b"], np.array([4, 1])).tolist()
    [(0, 0, 2, 'a'), (0, 2, 3, 'b'), (1, 0, 1, 'b')]
    """
    words = np.asarray(tags, np.str_)
    text = np.repeat(np.arange(len(counts)), counts)
    classes, place = np.unique(words, return_inverse=True)
    label, kind = (
        np.array([one[part] for one in classes.tolist()], np.str_)[place] for part in (slice(2, None), slice(1))
    )
    inside, goes_on = kind != "O", np.zeros(len(words), bool)
    goes_on[1:] = (kind[1:] == "I") & inside[:-1] & (label[1:] == label[:-1]) & (text[1:] == text[:-1])
    begin = np.flatnonzero(inside & ~goes_on)
    over = np.append(np.flatnonzero(~goes_on), len(words))  # words at which nothing goes on
    stop = over[np.searchsorted(over, begin, side="right")]
    first = (np.cumsum(counts) - counts)[text[begin]] if len(begin) else begin
    named = "<U1" if not len(label) else label.dtype
    found = np.zeros(len(begin), [("text", np.int64), ("start", np.int64), ("stop", np.int64), ("label", named)])
    found["text"], found["label"] = text[begin], label[begin]
    found["start"], found["stop"] = begin - first, stop - first
    return found


def tagging_scores(true: Any, predicted: Any, counts: Ints, n_classes: int) -> dict[str, Score]:
    r"""The fraction of words whose tag is right; where tags mark spans also precision, recall and F1 of whole spans.

    A span counts as found if first word, last word and label are right: :math:`F_1 = 2 TP / (spans + found)`, summed
    over all texts. Errors are over texts, those of ratios by the delta method, since words of a text hang together.

    Parameters
    ----------
    true, predicted : arrays of str
        Tags of the words of all texts, one after the other.
    counts : int array
        Words of each text.
    n_classes : int
        Tags that the fit knows.

    Raises
    ------
    UserValueError
        No word.

    Notes
    -----
    Source: Tjong Kim Sang and De Meulder (2003), the CoNLL 2003 shared task.

    Examples
    --------
    >>> found = tagging_scores(["B", "I", "O", "B"], ["B", "I", "B", "O"], np.array([3, 1]), 3)
    >>> {name: round(score.value, 3) for name, score in found.items()}
    {'accuracy': 0.5, 'span_f1': 0.5, 'span_precision': 0.5, 'span_recall': 0.5}
    """
    true, predicted = np.asarray(true, np.str_), np.asarray(predicted, np.str_)
    if not len(true):
        raise UserValueError("no text has a word", "y", "score texts with words")
    space, n = WordTags().space(n_classes), len(counts)
    text = np.repeat(np.arange(n), counts)
    right = np.bincount(text, true == predicted, n)
    per = np.divide(right, counts, out=np.zeros(n), where=counts > 0)
    found = {"accuracy": Score.from_pointwise(per, weight=counts, name="accuracy", unit="fraction", data_space=space)}
    if not marks_spans(np.unique(true).tolist()) or not marks_spans([*np.unique(predicted).tolist(), "B"]):
        return found
    theirs, ours = tagged_spans(true, counts), tagged_spans(predicted, counts)
    known = set(theirs.tolist())
    hit = np.array([one in known for one in ours.tolist()], bool)
    tp, there = np.bincount(ours["text"][hit], minlength=n), np.bincount(theirs["text"], minlength=n)
    marked = np.bincount(ours["text"], minlength=n)
    for name, above, below in (
        ("span_f1", 2 * tp, there + marked), ("span_precision", tp, marked), ("span_recall", tp, there),
    ):  # fmt: skip
        found[name] = _ratio(name, above, below, space)
    return found


def _ratio(name: str, above: Ints, below: Ints, space: str) -> Score:
    """A ratio of sums over texts; 0 where nothing is marked."""
    n, total = len(above), float(below.sum())
    value = float(above.sum()) / total if total else 0.0
    residuals = (above - value * below) / max(total, 1.0)
    stderr = math.sqrt(n / (n - 1) * float((residuals**2).sum())) if n > 1 else math.nan
    return Score(value, stderr, unit="fraction", data_space=space, name=name, n=n)
