"""Scores of folds as one score over all rows, and scores of several seeds as their mean with its spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.evaluation.score import Kind, Score

__all__ = ["averaged", "joined", "spread"]

Rows = NDArray[np.int64]


def joined(scores: Sequence[Score], rows: Sequence[Rows]) -> Score:
    """The score over all rows of the folds; where it is no mean over rows, the mean over the folds by their sizes.

    Parameters
    ----------
    scores : sequence of Score
        One for each fold.
    rows : sequence of int arrays
        Numbers of the rows that each fold holds out.

    Examples
    --------
    >>> halves = [Score.from_pointwise([1.0, 0.0]), Score.from_pointwise([1.0])]
    >>> round(joined(halves, [np.array([0, 2]), np.array([1])]).value, 3)
    0.667
    """
    if len(scores) == 1:
        return scores[0]
    sizes = np.array([max(one.n, 1) for one in scores], np.float64)
    share = sizes / sizes.sum()
    error = math.sqrt(sum((part * one.error) ** 2 for part, one in zip(share, scores, strict=True)))
    facts = {**_facts(scores), "error": error}
    if all(_is_mean(one) for one in scores):
        places = np.concatenate([_places(i, one, part) for i, (one, part) in enumerate(zip(scores, rows, strict=True))])
        order = np.argsort(places, kind="stable")
        weighted = all(one.weight is not None for one in scores)
        weight = np.concatenate([np.asarray(one.weight) for one in scores])[order] if weighted else None
        values = np.concatenate([np.asarray(one.pointwise) for one in scores])[order]
        return Score.from_pointwise(values, weight=weight, rows=places[order], **facts)
    value = float(sum(part * one.value for part, one in zip(share, scores, strict=True)))
    stderr = math.sqrt(sum((part * one.stderr) ** 2 for part, one in zip(share, scores, strict=True)))
    note = facts.pop("note") or "mean over the folds"
    return Score(value, stderr, n=int(sizes.sum()), note=note, **facts)


def averaged(scores: Sequence[Score]) -> Score:
    """The mean of the scores of several seeds on the same rows; its error has the spread of the seeds in it.

    Examples
    --------
    >>> mean = averaged([Score.from_pointwise([1.0, 3.0]), Score.from_pointwise([3.0, 3.0])])
    >>> mean.value, mean.error
    (2.5, 0.5)
    """
    if len(scores) == 1:
        return scores[0]
    n = len(scores)
    error = math.hypot(spread(scores), math.sqrt(sum(one.error**2 for one in scores) / n)) / math.sqrt(n)
    facts = {**_facts(scores), "error": error}
    if all(_is_mean(one) and _alike(one, scores[0]) for one in scores):
        values = np.mean([np.asarray(one.pointwise) for one in scores], axis=0)
        return Score.from_pointwise(values, weight=scores[0].weight, rows=scores[0].rows, **facts)
    value, stderr = (float(np.mean([getattr(one, what) for one in scores])) for what in ("value", "stderr"))
    return replace(scores[0], value=value, stderr=stderr, error=error, kind=facts["kind"], pointwise=None, weight=None)


def spread(scores: Sequence[Score]) -> float:
    """Standard deviation of the values, from n - 1; infinite values have none (nan)."""
    values = np.array([one.value for one in scores])
    if not np.isfinite(values).all():
        return math.inf
    return float(np.std(values, ddof=1))


def _facts(scores: Sequence[Score]) -> dict[str, Any]:
    """What the scores have in common."""
    first = scores[0]
    kinds = {one.kind for one in scores}
    kind: Kind = first.kind if len(kinds) == 1 else "estimate"
    names = ("unit", "data_space", "name", "higher_is_better")
    return {"kind": kind, "note": first.note} | {name: getattr(first, name) for name in names}


def _is_mean(score: Score) -> bool:
    """Whether the value is the mean of the values per example (the perplexity is not)."""
    if score.pointwise is None or not len(score.pointwise):
        return False
    mean = np.average(score.pointwise, weights=score.weight)
    return bool(mean == score.value or math.isclose(mean, score.value, rel_tol=1e-9, abs_tol=1e-12))


def _alike(one: Score, other: Score) -> bool:
    """Whether two scores have the same rows, with the same weights."""
    pairs = ((one.rows, other.rows), (one.weight, other.weight))
    same = (a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)
    return one.n == other.n and all(same)


def _places(fold: int, score: Score, rows: Rows) -> Rows:
    """Numbers, in the whole set, of the examples of a fold; of what are no rows (users, words) numbers of their own."""
    index = np.arange(score.n) if score.rows is None else score.rows
    if len(index) and int(index.max()) < len(rows) and (score.rows is not None or score.n == len(rows)):
        places: Rows = rows[index]
        return places
    return index + (fold + 1 << 40)
