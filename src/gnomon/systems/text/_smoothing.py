"""Smoothing of n-gram counts: recipes, and the one form that all of them are brought into.

Every smoothing here can be written as

    P_k(w | c) = p_k(c w)                    when the k-gram was seen
               = g_k(c) * P_lower(w | c')    otherwise, g_k(c) = 1 for a context never seen,

with c' the context without its oldest token. So a query is one look-up per order, whatever the smoothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.counting import BOS, EOS, UNKNOWN, NGramCounts, TokenStream
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["MLE", "Additive", "Dirichlet", "Smoothed", "KneserNey", "Smoothing"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.floating] | np.floating | float
Mask = NDArray[np.bool_]
Parameters = Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Probabilities of seen n-grams and weights of contexts, see the top of this file.

    Parameters
    ----------
    unigram : array of shape (V,)
        P_1, a full row.
    probability : list of n-1 arrays, one element per entry of the orders 2..n
    weight : list of n-1 arrays, one element per context of the orders 2..n
    floor : array of shape (V,), optional
        When given, every order falls to this row and not to the order below it.
    used : {"ngram", "context", "order"}
        What `NGramModel.order_used` reports: the longest n-gram seen; the longest context that was reliable; the order
        asked for.
    """

    unigram: Floats
    probability: list[Floats]
    weight: list[Floats]
    floor: Floats | None = None
    used: Literal["ngram", "context", "order"] = "ngram"

    def rows(self, counts: NGramCounts, contexts: list[NDArray[np.int64]], order: NDArray[np.int64]) -> Floats:
        """Full distributions over the next token.

        Parameters
        ----------
        counts : NGramCounts
        contexts : list of int64 arrays of shape (batch,)
            Places of the contexts of length 1, 2, ...; -1 where never seen.
        order : int64 array of shape (batch,)
            Order to use: one more than the number of context tokens that there are.

        Returns
        -------
        array of shape (batch, V)
        """
        row = np.repeat(self.unigram[None], order.size, axis=0)
        for k, context in enumerate(contexts, 2):
            wanted = order >= k
            if self.floor is not None:
                wanted = order == k
                row[wanted] = self.floor
            known = np.flatnonzero(wanted & (context >= 0))
            if not known.size:
                continue
            row[known] *= self.weight[k - 2][context[known], None]
            line, entry = entries_of(counts, k, context[known])
            row[known[line], counts.tokens[k - 1][entry]] = self.probability[k - 2][entry]
        return row


def entries_of(
    counts: NGramCounts, order: int, context: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All entries of each context: (which context, place of the entry)."""
    keys, size = counts.keys[order - 2], counts.vocabulary_size
    begin, end = np.searchsorted(keys, context * size), np.searchsorted(keys, (context + 1) * size)
    length = end - begin
    line = np.repeat(np.arange(context.size), length)
    return line, np.arange(line.size) - np.repeat(np.cumsum(length) - length - begin, length)


class Smoothing(Recipe):
    """Base of the recipes of the slot ``smoothing``."""

    def fit(self, counts: NGramCounts, outcomes: Mask, held_out: TokenStream | None = None) -> dict[str, Floats]:
        """What has to be estimated beside the counts, by name; empty for most."""
        return {}

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        """Bring the smoothing into the common form; a function of its arguments alone."""
        raise NotImplementedError


def possible(vocabulary_size: int, start: str, *, unknown: bool) -> Mask:
    """Which ids may come next: never ``<s>``; ``</s>`` with padded sentences; ``<unk>`` in an open vocabulary."""
    outcomes = np.ones(vocabulary_size, np.bool_)
    outcomes[BOS] = False
    outcomes[EOS] = start == "pad"
    outcomes[UNKNOWN] = unknown
    return outcomes


def uniform(outcomes: Mask) -> Floats:
    """The same probability for everything that may come."""
    return np.asarray(outcomes / outcomes.sum())


def ratio(top: Numbers, bottom: Numbers, otherwise: float = 0.0) -> Floats:
    """top / bottom, and `otherwise` where bottom is 0."""
    out = np.full(np.broadcast(top, bottom).shape, otherwise)
    return np.asarray(np.divide(top, bottom, out=out, where=np.not_equal(bottom, 0)))


def interpolate(
    counts: NGramCounts, base: Floats, share: Callable[[int], tuple[Floats, Floats]], floor: Floats | None = None
) -> Smoothed:
    """Estimate of P_k(w|c) = share_k(c w) + weight_k(c) P_{k-1}(w|c'), or with `floor` in the place of P_{k-1}.

    Parameters
    ----------
    base : array of shape (V,)
        P_0.
    share : function of the order
        Gives the own share of each entry and the weight of each context.
    """
    own, weight = share(1)
    unigram = own + weight[0] * base
    probability: list[Floats] = []
    weights: list[Floats] = []
    below = unigram
    for order in range(2, counts.n + 1):
        own, weight = share(order)
        at = order - 1
        lower = below[counts.lowers[at]] if floor is None else floor[counts.tokens[at]]
        below = own + weight[counts.parents[at]] * lower
        probability.append(below)
        weights.append(weight)
    return Smoothed(unigram, probability, weights, floor)


def notice(orders: list[int], what: str, instead: str) -> None:
    """One warning for all orders whose discounts the counts do not determine."""
    if orders:
        named = f"order {orders[0]}" if len(orders) == 1 else f"orders {', '.join(map(str, orders))}"
        warnings.warn(f"too little text to estimate the {what} of {named}; used {instead}", UserWarning, stacklevel=2)


def check_not_negative(name: str, *values: float) -> None:
    """Refuse a parameter below 0 or not finite."""
    for value in values:
        if not (isinstance(value, int | float) and 0 <= value < float("inf")):
            raise UserValueError(f"smoothing__{name} must be in [0, inf), got {value!r}", f"smoothing__{name}")


@dataclass(frozen=True)
class MLE(Smoothing):
    """Maximum likelihood, no smoothing: P(w | c) = c(c w) / N(c), with N(c) the count of c as a context.

    What was never seen has probability 0 (log probability -inf, perplexity inf); so has everything after a context that
    was never seen, where the ratio is undefined. With ``start="lower_order"`` the tables for the first n-1 tokens leave
    the last n-k tokens of each sentence out, so that products of conditionals are ratios of the same counts.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), equations 12.5 to 12.7.
    """

    short: ClassVar[str] = "none"

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        seen: list[NDArray[np.generic]] = list(counts.counts)
        if counts.start == "lower_order":
            for order in range(counts.n, 1, -1):
                seen[order - 2] = counts.totals(order, seen[order - 1])

        def share(order: int) -> tuple[Floats, Floats]:
            total = counts.totals(order, seen[order - 1])
            return ratio(seen[order - 1].astype(np.float64), total[counts.parents[order - 1]]), np.zeros(total.size)

        found = interpolate(counts, np.zeros(outcomes.size), share, floor=np.zeros(outcomes.size))
        return Smoothed(found.unigram, found.probability, found.weight, found.floor, used="order")


@dataclass(frozen=True)
class Additive(Smoothing):
    """Additive smoothing: P(w | c) = (c(c w) + alpha_w) / (N(c) + sum alpha), the mean under a Dirichlet prior.

    Parameters
    ----------
    alpha : float in [0, inf) or tuple of one float per token id, default 1
        Pseudo-count of every outcome. 1 is Laplace's rule, 0 is maximum likelihood. Numbers of ids that cannot come
        (``<s>``) are ignored.

    Notes
    -----
    Outcomes are all ids but ``<s>``: an unknown token counts as one more word with pseudo-count alpha. Far too much
    mass goes to unseen words when the vocabulary is large.
    """

    alpha: Annotated[float, "[0, inf)"] | tuple[float, ...] = 1.0
    short: ClassVar[str] = "additive"

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        alpha = np.where(outcomes, self._alpha(outcomes.size), 0.0)
        mass = alpha.sum()
        floor = ratio(alpha, np.full(alpha.shape, mass))

        def share(order: int) -> tuple[Floats, Floats]:
            total = counts.totals(order) + mass
            return ratio(counts.counts[order - 1] * 1.0, total[counts.parents[order - 1]]), ratio(mass, total, 1.0)

        found = interpolate(counts, floor, share, floor)
        return Smoothed(found.unigram, found.probability, found.weight, floor, used="order")

    def _alpha(self, size: int) -> Floats:
        values = self.alpha if isinstance(self.alpha, tuple) else (self.alpha,) * size
        check_not_negative("alpha", *values)
        if len(values) != size:
            raise UserValueError(
                f"smoothing__alpha must hold one pseudo-count per token id, got {len(values)} for {size} ids",
                "smoothing__alpha",
            )
        return np.asarray(values, np.float64)


@dataclass(frozen=True)
class Dirichlet(Smoothing):
    """Laplace back-off chain: P_k(w | c) = (c(c w) + e_k P_{k-1}(w | c')) / (N(c) + e_k), P_0 uniform.

    Parameters
    ----------
    strength : float in [0, inf) or tuple of one float per order, lowest first, default 1
        Pseudo-count e_k of the lower order. 0 gives maximum likelihood where the context was seen and the lower order
        where it was not; a very large one gives the lower order everywhere.

    References
    ----------
    MacKay and Peto (1995), A hierarchical Dirichlet language model.
    """

    strength: Annotated[float, "[0, inf)"] | tuple[float, ...] = 1.0
    short: ClassVar[str] = "dirichlet"

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        strengths = self.strength if isinstance(self.strength, tuple) else (self.strength,) * counts.n
        check_not_negative("strength", *strengths)
        if len(strengths) != counts.n:
            raise UserValueError(
                f"smoothing__strength must hold one number per order, got {len(strengths)} for {counts.n} orders",
                "smoothing__strength",
            )

        def share(order: int) -> tuple[Floats, Floats]:
            total = counts.totals(order) + strengths[order - 1]
            own = ratio(counts.counts[order - 1] * 1.0, total[counts.parents[order - 1]])
            return own, ratio(strengths[order - 1], total, 1.0)

        return interpolate(counts, uniform(outcomes), share)


@dataclass(frozen=True)
class KneserNey(Smoothing):
    """Interpolated modified Kneser-Ney smoothing.

    P_k(w|c) = (a(c w) - D(a(c w))) / A(c) + g(c) P_{k-1}(w|c'), with a the count at the highest order and below it the
    number of different tokens seen to the left (the beginning of a sentence is one of them; n-grams that begin with
    ``<s>`` keep their count); A(c) the sum of a over w; g(c) what the discounts took; P_0 uniform over the tokens that
    were never counted (``<unk>``, where the vocabulary comes from the text), or over all when every one was.

    Parameters
    ----------
    discounts : None, float in [0, 1] or three floats in [0, 1], [0, 2], [0, 3], default None
        What to take from counts of 1, 2 and 3 or more. None estimates them for each order: Y = n1 / (n1 + 2 n2),
        D_r = r - (r + 1) Y n_{r+1} / n_r, with n_r the number of k-grams with count r. One float serves all three.

    Notes
    -----
    Where an n_r is 0 or a discount leaves [0, r], the order takes 0.5, 1 and 1.5 instead, with one warning for all.
    The discounts used are in the parameter ``discounts`` of shape (n, 3).

    References
    ----------
    Kneser and Ney (1995); Chen and Goodman (1999), An empirical study of smoothing techniques.
    """

    discounts: Annotated[float, "[0, 1]"] | tuple[float, float, float] | None = None
    short: ClassVar[str] = "kneser-ney"
    fallback: ClassVar[tuple[float, float, float]] = (0.5, 1.0, 1.5)

    def fit(self, counts: NGramCounts, outcomes: Mask, held_out: TokenStream | None = None) -> dict[str, Floats]:
        if self.discounts is not None:
            return {"discounts": np.tile(self._given(), (counts.n, 1))}
        discounts = [_modified_discounts(adjusted(counts, order)) for order in range(1, counts.n + 1)]
        lacking = [order for order, row in enumerate(discounts, 1) if row is None]
        notice(lacking, "Kneser-Ney discounts", "0.5, 1 and 1.5")
        return {"discounts": np.array([self.fallback if row is None else row for row in discounts])}

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        discounts = np.column_stack([np.zeros(counts.n), parameters["discounts"]])

        def share(order: int) -> tuple[Floats, Floats]:
            count = adjusted(counts, order)
            taken = discounts[order - 1][np.minimum(count, 3).astype(np.int64)]
            total = counts.totals(order, count)
            own = ratio(count - taken, total[counts.parents[order - 1]])
            return own, ratio(counts.per_context(order, taken), total, 1.0)

        new = outcomes & (counts.counts[0] == 0)
        return interpolate(counts, uniform(new if new.any() else outcomes), share)

    def _given(self) -> tuple[float, float, float]:
        given = self.discounts
        values = given if isinstance(given, tuple) else (given, given, given)
        check_not_negative("discounts", *values)  # type: ignore[arg-type]
        if len(values) != 3 or any(value > most for value, most in zip(values, (1, 2, 3), strict=True)):  # type: ignore[operator]
            raise UserValueError(
                f"smoothing__discounts must be in [0, 1], [0, 2] and [0, 3], got {given!r}",
                "smoothing__discounts",
                "use for example 0.75",
            )
        return values  # type: ignore[return-value]


def adjusted(counts: NGramCounts, order: int) -> Floats:
    """Kneser-Ney counts: below the highest order the number of different left neighbors, see `KneserNey`."""
    raw = counts.counts[order - 1].astype(np.float64)
    if order == counts.n:
        return raw
    left = np.bincount(counts.lowers[order], minlength=raw.size) + (counts.without_left(order) > 0)
    return np.where(counts.firsts[order - 1] == BOS, raw, left)


def _modified_discounts(count: Floats) -> tuple[float, float, float] | None:
    """Discounts for counts of 1, 2, 3 and more by their counts of counts; None when these do not determine them."""
    n = np.bincount(np.minimum(count, 5).astype(np.int64), minlength=6)[1:5].astype(np.float64)
    if (n == 0).any():
        return None
    y = n[0] / (n[0] + 2 * n[1])
    discounts = [r - (r + 1) * y * n[r] / n[r - 1] for r in (1, 2, 3)]
    if any(not 0 <= d <= r for r, d in enumerate(discounts, 1)):
        return None
    return discounts[0], discounts[1], discounts[2]
