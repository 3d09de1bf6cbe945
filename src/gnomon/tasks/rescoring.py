"""Propose and rescore: candidates of one system in the order of a weighted sum of what several models say of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.text import Unit
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.translation import bleu_of_each

__all__ = ["Feature", "NBest", "candidate_scores", "rescore", "tune"]

Floats = NDArray[np.float64]
NBest = Sequence[tuple[str, Sequence[str]]]
"""Sources, each with its candidates, best first."""
Feature = Callable[[str, str], float] | Literal["length"] | Any
"""What scores a candidate: a fitted translator, a fitted language model, ``"length"``, or f(source, candidate)."""

STEPS = 100
"""Of the search for weights, at most."""


def candidate_scores(nbest: NBest, models: Sequence[Feature]) -> list[Floats]:
    """What each model says of each candidate: log h_k(e, f), of each source an array (candidates, models).

    Parameters
    ----------
    nbest : sequence of (source, candidates)
    models : sequence of translators, language models, ``"length"`` or callables
        A translator gives log P(candidate | source), a language model log P(candidate), both in nats with the end;
        ``"length"`` is the number of characters, whose weight mends that sums of log probabilities favor short ones.

    Raises
    ------
    UserError
        No model, one that is none of these, candidates that are no strings.

    Notes
    -----
    Every pair is scored once, in an order of its own, so that equal candidates have equal scores and no score depends
    on the order of the candidates.
    """
    _check(nbest, models)
    pairs = sorted({(source, one) for source, candidates in nbest for one in candidates})
    if not pairs:
        return [np.zeros((0, len(models))) for _ in nbest]
    table = np.stack([_scored(model, pairs) for model in models], 1)
    row = {pair: i for i, pair in enumerate(pairs)}
    return [table[[row[source, one] for one in candidates]] for source, candidates in nbest]


def rescore(
    nbest: NBest, models: Sequence[Feature], weights: Sequence[float] | None = None
) -> list[list[tuple[str, float]]]:
    r"""Candidates by :math:`\sum_k \lambda_k \log h_k(e, f)`, best first, each with this score.

    Parameters
    ----------
    nbest : sequence of (source, candidates)
        Of ``translator.propose``, say.
    models : sequence of translators, language models, ``"length"`` or callables
        See `candidate_scores`.
    weights : sequence of float, optional
        One for each model; 1 where left out. A model of weight 0 says nothing.

    Returns
    -------
    list of lists of (candidate, score)
        Candidates of equal scores keep their order; those that a model of any weight gives no probability come last.

    Raises
    ------
    UserError
        As of `candidate_scores`; weights that are no numbers, or not one for each model.

    References
    ----------
    Och and Ney (2002), "Discriminative training and maximum entropy models for statistical machine translation".

    Examples
    --------
    >>> rescore([("f", ["apple red", "red apple"])], [lambda source, candidate: float(candidate.startswith("red"))])
    [[('red apple', 1.0), ('apple red', 0.0)]]
    """
    used = _weights(weights, len(models))
    ranked = []
    for (_, candidates), table in zip(nbest, candidate_scores(nbest, models), strict=True):
        scores = _totals(table, used)
        order = np.argsort(-scores, kind="stable")
        ranked.append([(candidates[i], float(scores[i])) for i in order])
    return ranked


def tune(
    nbest: NBest, references: Sequence[str], models: Sequence[Feature], weights: Sequence[float] | None = None, *,
    unit: Unit = "char",
) -> Floats:  # fmt: skip
    r"""Weights of `rescore` under which the first candidates are nearest to the references, in the mean of BLEU.

    From the given weights one weight after another is moved to where the quality of the first candidates is best on
    its whole line, which is found exactly: along :math:`\lambda_k` a source's first candidate changes only where two
    candidates' scores cross. The step that gains most is taken, until none gains. What is chosen is never worse on
    these sources than the weights that it began with; on others nothing is promised, so keep test sources out.

    Parameters
    ----------
    nbest : sequence of (source, candidates)
        Of a part of the data that is for choices alone.
    references : sequence of str
        One for each source.
    models, weights
        As of `rescore`.
    unit : {"char", "word", ...}
        What the n-grams of BLEU are made of.

    Returns
    -------
    float64 array of shape (models,)

    Raises
    ------
    UserError
        As of `rescore`; not one reference for each source.

    References
    ----------
    Och (2003), "Minimum error rate training in statistical machine translation".

    Examples
    --------
    >>> lists = [("f", ["a b", "b a"]), ("g", ["c d", "d c"])]
    >>> weights = tune(lists, ["b a", "d c"], [lambda f, e: -float(e[0] in "bd"), "length"])
    >>> bool(weights[0] < 0)
    True
    """
    if len(references) != len(nbest):
        what = f"there must be one reference for each source, got {len(references)} for {len(nbest)}"
        raise UserValueError(what, "references", "give one for each source")
    used = _weights(weights, len(models))
    tables = candidate_scores(nbest, models)
    written = [one for _, candidates in nbest for one in candidates]
    wanted = [one for one, (_, candidates) in zip(references, nbest, strict=True) for _ in candidates]
    qualities = np.split(bleu_of_each(written, wanted, unit), np.cumsum([len(one) for one in tables])[:-1])
    kept = [np.isfinite(table).all(1) for table in tables]
    chosen = [i for i, one in enumerate(kept) if one.any()]
    if not chosen:
        return used
    most = max(int(kept[i].sum()) for i in chosen)
    scores, quality = np.zeros((len(chosen), most, len(models))), np.zeros((len(chosen), most))
    inside = np.zeros((len(chosen), most), bool)
    for row, i in enumerate(chosen):
        n = int(kept[i].sum())
        scores[row, :n], quality[row, :n], inside[row, :n] = tables[i][kept[i]], qualities[i][kept[i]], True
    return _ascent(scores, quality, inside, used)


def _ascent(scores: Floats, quality: Floats, inside: NDArray[np.bool_], weights: Floats) -> Floats:
    """Coordinate by coordinate, the step that gains most."""
    for _ in range(STEPS):
        totals = np.where(inside, scores @ weights, -np.inf)
        found = [best_step(totals, np.where(inside, scores[:, :, k], 0.0), quality) for k in range(len(weights))]
        gains = [gain for _, gain in found]
        k = int(np.argmax(gains))
        if gains[k] <= 1e-9:
            return weights
        weights = weights.copy()
        weights[k] += found[k][0]
    return weights


def best_step(totals: Floats, slopes: Floats, quality: Floats) -> tuple[float, float]:
    """The s at which the rows' largest ``totals + s slopes`` have the largest sum of qualities; and what it gains.

    Parameters
    ----------
    totals, slopes, quality : arrays of shape (rows, candidates)
        Totals of -inf are of no candidate.

    Returns
    -------
    s, gain : float
        Against s = 0; in the middle of the interval on which it is best, the one nearest to 0 among equal ones.
    """
    valid = np.isfinite(totals)
    rise = slopes[:, None, :] - slopes[:, :, None]
    crosses = (rise != 0) & valid[:, None, :] & valid[:, :, None]
    above = np.where(valid, totals, 0.0)
    at = np.divide(above[:, :, None] - above[:, None, :], rise, out=np.zeros_like(rise), where=crosses)
    at = np.sort(at.reshape(len(totals), -1), 1)  # where nothing crosses, 0: an interval of no width
    inner = (at[:, 1:] + at[:, :-1]) / 2
    points = np.concatenate([at[:, :1] - 1, inner, at[:, -1:] + 1], 1)
    first = np.argmax(totals[:, None, :] + points[:, :, None] * slopes[:, None, :], 2)
    reached = np.take_along_axis(quality, first, 1)
    order = np.argsort(at, axis=None, kind="stable")
    borders = at.ravel()[order]
    sums = reached[:, 0].sum() + np.concatenate([[0.0], np.cumsum(np.diff(reached, axis=1).ravel()[order])])
    low, high = np.concatenate([[-np.inf], borders]), np.concatenate([borders, [np.inf]])
    wide = high - low > 1e-9 * (1 + np.abs(np.where(np.isfinite(low), low, 0.0)))
    now = float(np.take_along_axis(quality, np.argmax(totals, 1)[:, None], 1).sum())
    best = float(sums[wide].max())
    near = np.flatnonzero(wide & (sums >= best - 1e-9))
    middle = np.array([_middle(low[i], high[i]) for i in near])
    return float(middle[np.argmin(np.abs(middle))]), best - now


def _middle(low: float, high: float) -> float:
    if not math.isfinite(low):
        return high - 1
    return low + 1 if not math.isfinite(high) else (low + high) / 2


def _totals(table: Floats, weights: Floats) -> Floats:
    """Weighted sums; -inf where a model that counts gives no probability."""
    on = weights != 0
    impossible = np.isneginf(table[:, on]).any(1)
    # summed row by row in one order: a product of matrices may round equal rows apart
    total = (np.where(np.isfinite(table), table, 0.0) * weights).sum(1)
    return np.where(impossible, -np.inf, total)


def _scored(model: Any, pairs: Sequence[tuple[str, str]]) -> Floats:
    if isinstance(model, str):
        return np.array([len(one) for _, one in pairs], np.float64)
    tasks = getattr(model, "tasks", ())
    if "translate" in tasks:
        return np.asarray(model.log_prob(list(pairs)), np.float64)
    if "language" in tasks:
        texts = sorted({one for _, one in pairs})
        # a list of nothing but empty texts is refused, so that one with a token stands beside them
        beside = [] if any(one.strip() for one in texts) else [model.vocabulary_.tokens[-1]]
        found = np.asarray(model.log_prob([*texts, *beside]), np.float64)[: len(texts)]
        known = dict(zip(texts, found.tolist(), strict=True))
        return np.array([known[one] for _, one in pairs])
    return np.array([float(model(source, one)) for source, one in pairs])


def _check(nbest: NBest, models: Sequence[Feature]) -> None:
    if not models:
        raise UserValueError("there must be at least 1 model, got 0", "models", "give a fitted language model")
    for model in models:
        tasks = getattr(model, "tasks", ())
        known = model == "length" if isinstance(model, str) else callable(model)
        if not known and "translate" not in tasks and "language" not in tasks:
            shown = repr(model) if isinstance(model, str) else f"a {getattr(model, 'name', type(model).__name__)}"
            what = f"a model must be a translator, a language model, 'length' or callable, got {shown}"
            raise UserTypeError(what, "models")
    for i, (source, candidates) in enumerate(nbest):
        if isinstance(candidates, str) or not all(isinstance(one, str) for one in (source, *candidates)):
            raise UserTypeError("a source must be a string with a list of strings", f"list {i}", "join tokens first")


def _weights(weights: Sequence[float] | None, n: int) -> Floats:
    if weights is None:
        return np.ones(n)
    used = np.asarray(weights, np.float64)
    if used.shape != (n,) or not np.isfinite(used).all():
        raise UserValueError.must("weights", f"be {n} finite numbers, one for each model", list(weights))
    return used
