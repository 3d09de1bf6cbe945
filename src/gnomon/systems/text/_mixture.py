"""Interpolated (Jelinek-Mercer) smoothing: a mixture of all orders with weights found by expectation maximization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.data.counting import NGramCounts, TokenStream
from gnomon.errors import UserValueError
from gnomon.systems.text._smoothing import Floats, Mask, Parameters, Smoothed, Smoothing, interpolate, ratio, uniform

__all__ = ["Interpolated"]

_MOST = 1 - 1e-6  # a weight of 1 would leave nothing for what the held-out text happens not to have


@dataclass(frozen=True)
class Interpolated(Smoothing):
    """Mixture of orders: P_k(w|c) = l ML_k(w|c) + (1 - l) P_{k-1}(w|c'), P_0 uniform, l by order and bucket of N(c).

    So P = sum_k lam_k(context) ML_k with lam_k = l_k prod_{j>k} (1 - l_j). A context never seen passes to the lower
    order.

    Parameters
    ----------
    weights : None or tuple of n floats in [0, 1], lowest order first, default None
        The weight l of each order, the same for all contexts. None finds them by expectation maximization: on the
        validation text where there is one, else on the training text with each occurrence left out of its own counts.
    buckets : int in [1, inf), default 8
        Contexts with counts in [2^b, 2^(b+1)) share a weight, the last bucket has all higher counts. A bucket without
        evidence takes the weight of the one below it, the lowest 0.5.
    max_iter : int in [1, inf), default 50
        Iterations at most.
    tol : float in [0, inf), default 1e-5
        Stop when an iteration gains less than this in mean log likelihood (nats per token).

    Notes
    -----
    The parameter ``weights``, shape (n, buckets), has the weights; ``log_likelihood`` the mean held-out log likelihood
    before each iteration and after the last, which never falls. Fitted weights stay below 1 - 1e-6.

    References
    ----------
    Jelinek and Mercer (1980); leaving one out: Ney, Essen and Kneser (1994).
    """

    weights: tuple[float, ...] | None = None
    buckets: Annotated[int, "[1, inf)"] = 8
    max_iter: Annotated[int, "[1, inf)"] = 50
    tol: Annotated[float, "[0, inf)"] = 1e-5
    short: ClassVar[str] = "interpolated"

    def fit(self, counts: NGramCounts, outcomes: Mask, held_out: TokenStream | None = None) -> dict[str, Floats]:
        if self.weights is not None:
            return {"weights": np.repeat(self._given(counts.n)[:, None], self.buckets, axis=1)}
        events = _leave_one_out(counts, self.buckets) if held_out is None else _events(counts, held_out, self.buckets)
        base = uniform(outcomes)[events.token]
        events = events.where((base > 0) & (events.weight > 0))
        if not events.weight.size:
            raise UserValueError("the validation text has no tokens", "validation", "pass some sentences, or None")
        return self._maximize(events, 1 / outcomes.sum(), counts.n)

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        weights = np.asarray(parameters["weights"])

        def share(order: int) -> tuple[Floats, Floats]:
            total = counts.totals(order)
            own = np.where(total > 0, weights[order - 1][_bucket(total, weights.shape[1])], 0.0)
            likely = ratio(counts.counts[order - 1] * 1.0, total[counts.parents[order - 1]])
            return own[counts.parents[order - 1]] * likely, 1 - own

        return interpolate(counts, uniform(outcomes), share)

    def _given(self, n: int) -> Floats:
        values = np.asarray(self.weights, np.float64)
        if values.shape != (n,) or not ((values >= 0) & (values <= 1)).all():
            raise UserValueError(
                f"smoothing__weights must be {n} numbers in [0, 1], got {self.weights!r}",
                "smoothing__weights",
                "give one per order, lowest first",
            )
        return values

    def _maximize(self, events: _Events, base: float, n: int) -> dict[str, Floats]:
        weights = np.full((n, self.buckets), 0.5)
        history: list[float] = []
        stop = passed = np.zeros_like(weights)
        for _ in range(self.max_iter + 1):
            value, stop, passed = _expectations(events, weights, base)
            history.append(value)
            if len(history) > self.max_iter or (len(history) > 1 and value - history[-2] < self.tol):
                break
            weights = np.minimum(ratio(stop, stop + passed, 0.5), _MOST)
        weights = _filled(weights, stop + passed > 0)
        return {"weights": weights, "log_likelihood": np.array(history)}


@dataclass(frozen=True, eq=False)
class _Events:
    """Tokens to predict: the token, its weight, and for each order the likelihood and the bucket of its context."""

    token: NDArray[np.int64]
    weight: Floats
    likelihood: Floats  # (orders, events)
    bucket: NDArray[np.int64]  # (orders, events), -1: context not seen or not there

    def where(self, mask: Mask) -> _Events:
        return _Events(self.token[mask], self.weight[mask], self.likelihood[:, mask], self.bucket[:, mask])


def _bucket(total: Floats, buckets: int) -> NDArray[np.int64]:
    """floor(log2(total)), at most the last bucket; total 0 gives bucket 0."""
    exponent: NDArray[np.int64] = np.frexp(np.maximum(total, 1))[1].astype(np.int64) - 1
    return np.minimum(exponent, buckets - 1)


def _events(counts: NGramCounts, held_out: TokenStream, buckets: int) -> _Events:
    """The tokens of a held-out text."""
    at = np.flatnonzero(held_out.predicted)
    indices = counts.locate(held_out)
    count, total = np.zeros((counts.n, at.size)), np.zeros((counts.n, at.size))
    for order in range(1, counts.n + 1):
        index, totals = indices[order - 1][at], counts.totals(order)
        context = indices[order - 2][at - 1] if order > 1 else np.zeros(at.size, np.int64)
        known = (held_out.index[at] >= order - 1) & (context >= 0)
        total[order - 1, known] = totals[context[known]]
        seen = known & (index >= 0)
        count[order - 1, seen] = counts.counts[order - 1][index[seen]]
    return _from_counts(held_out.tokens[at], np.ones(at.size), count, total, buckets)


def _leave_one_out(counts: NGramCounts, buckets: int) -> _Events:
    """The tokens of the training text, each scored by the counts of all the others; equal n-grams are one event."""
    tokens, weights, count, total = [], [], [], []
    for highest in range(1, counts.n + 1):
        index = np.arange(counts.size(highest))
        weight = counts.counts[highest - 1] * 1.0 if highest == counts.n else counts.without_left(highest)
        index, weight = index[weight > 0], weight[weight > 0]
        mine, all_ = np.zeros((counts.n, index.size)), np.zeros((counts.n, index.size))
        tokens.append(counts.tokens[highest - 1][index])
        for order in range(highest, 0, -1):
            mine[order - 1] = counts.counts[order - 1][index] - 1
            all_[order - 1] = counts.totals(order)[counts.parents[order - 1][index]] - 1
            index = counts.lowers[order - 1][index]
        weights.append(weight)
        count.append(mine)
        total.append(all_)
    joined = np.concatenate(tokens), np.concatenate(weights), np.hstack(count), np.hstack(total)
    return _from_counts(*joined, buckets)


def _from_counts(token: NDArray[np.int64], weight: Floats, count: Floats, total: Floats, buckets: int) -> _Events:
    bucket = np.where(total > 0, _bucket(total, buckets), -1)
    return _Events(token, weight, ratio(count, total), bucket)


def _expectations(events: _Events, weights: Floats, base: float) -> tuple[float, Floats, Floats]:
    """Mean log likelihood, and how often each bucket is expected to stop at its order or to pass to the one below."""
    orders, buckets = weights.shape
    own = np.where(events.bucket >= 0, np.take_along_axis(weights, np.maximum(events.bucket, 0), axis=1), 0.0)
    probability = np.empty((orders + 1, events.weight.size))
    probability[0] = base
    for k in range(orders):
        probability[k + 1] = own[k] * events.likelihood[k] + (1 - own[k]) * probability[k]
    stop, passed = np.zeros_like(weights), np.zeros_like(weights)
    reach = events.weight / probability[-1]
    for k in range(orders - 1, -1, -1):
        known = events.bucket[k] >= 0
        at = events.bucket[k][known]
        stop[k] = np.bincount(at, (reach * own[k] * events.likelihood[k])[known], buckets)
        reach = reach * (1 - own[k])
        passed[k] = np.bincount(at, (reach * probability[k])[known], buckets)
    return float(events.weight @ np.log(probability[-1]) / events.weight.sum()), stop, passed


def _filled(weights: Floats, evident: Mask) -> Floats:
    """Buckets without evidence take the weight of the nearest lower one that has some."""
    out = weights.copy()
    for row, known in zip(out, evident, strict=True):
        for b in range(1, row.size):
            if not known[b]:
                row[b] = row[b - 1]
    return out
