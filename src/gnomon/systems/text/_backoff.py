"""Back-off smoothing: the lower order is asked only for what the higher one has not seen, or is too rare to tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.counting import NGramCounts, TokenStream
from gnomon.systems.text._smoothing import (
    Floats,
    Mask,
    Parameters,
    Smoothed,
    Smoothing,
    entries_of,
    notice,
    ratio,
    uniform,
)

__all__ = ["Katz", "Threshold"]

_HIGHEST = 5  # Katz: counts above five are reliable and keep their mass
_FEW = 1e-3  # below this the mass of unseen tokens is summed directly, not taken as 1 - sum, which would cancel


@dataclass(frozen=True)
class Katz(Smoothing):
    """Katz back-off: P_k(w|c) = d c(c w) / N(c) when seen, else alpha(c) P_{k-1}(w|c'); alpha makes the sum 1.

    Parameters
    ----------
    discount : {"absolute", "good-turing"} or float in [0, 1), default "absolute"
        ``"absolute"`` takes D = n1 / (n1 + 2 n2) from every count (n_r: number of k-grams with count r);
        ``"good-turing"`` takes from counts r up to 5 what makes them r* = (r + 1) n_{r+1} / n_r, rescaled so that the
        mass of the unseen is n1 / N; a float is the absolute discount of every order; 0 takes nothing, so that seen
        contexts keep maximum likelihood and unseen ones use the lower order.

    Notes
    -----
    Order 1 backs off to the uniform distribution. Good-Turing factors outside (0, 1] fall back to the absolute
    discount, absolute discounts outside (0, 1) to 0.5, with one warning for all orders. When discounting leaves
    a context nothing for its unseen tokens, its total is raised by one. When every token was seen after a context, it
    keeps maximum likelihood. The parameter ``discounts``, shape (n, 6), has what is taken from counts of 1, ..., 5 and
    of 6 or more.

    References
    ----------
    Katz (1987); Ney, Essen and Kneser (1994).
    """

    discount: Literal["absolute", "good-turing"] | Annotated[float, "[0, 1)"] = "absolute"
    short: ClassVar[str] = "katz"
    fallback: ClassVar[float] = 0.5

    def fit(self, counts: NGramCounts, outcomes: Mask, held_out: TokenStream | None = None) -> dict[str, Floats]:
        if not isinstance(self.discount, str):
            return {"discounts": np.full((counts.n, _HIGHEST + 1), float(self.discount))}
        table, lacking, poor = [], [], []
        for order in range(1, counts.n + 1):
            n = np.bincount(np.minimum(counts.counts[order - 1], _HIGHEST + 2), minlength=_HIGHEST + 3)[1:]
            constant, taken = _absolute(n), _good_turing(n) if self.discount == "good-turing" else None
            if taken is None and self.discount == "good-turing":
                poor.append(order)
            elif taken is None and constant is None:
                lacking.append(order)
            if taken is None:
                taken = np.full(_HIGHEST + 1, self.fallback if constant is None else constant)
            table.append(taken)
        notice(lacking, "absolute discount", "0.5")
        notice(poor, "Good-Turing discounts", "absolute ones")
        return {"discounts": np.array(table)}

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        discounts = np.column_stack([np.zeros(counts.n), parameters["discounts"]])
        m = int(outcomes.sum())
        even = uniform(outcomes)
        kept, taken, total, types = self._discounted(counts, 1, discounts[0], m)
        unseen = np.array([1.0]) if not types[0] else (m - types) / m
        own, weight = _balanced(kept, taken, total, types < m, unseen, np.zeros(kept.size, np.int64))
        found = Smoothed(np.where(counts.counts[0] > 0, own, weight[0] * even), [], [])
        for order in range(2, counts.n + 1):
            kept, taken, total, types = self._discounted(counts, order, discounts[order - 1], m)
            unseen = _unseen_mass(counts, found, order, types < m, outcomes)
            own, weight = _balanced(kept, taken, total, types < m, unseen, counts.parents[order - 1])
            found.probability.append(own)
            found.weight.append(np.where(total > 0, weight, 1.0))
        return found

    def _discounted(
        self, counts: NGramCounts, order: int, discounts: Floats, m: int
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Per entry what is kept of its count; per context what was taken, the total and the number of tokens seen."""
        count = counts.counts[order - 1].astype(np.float64)
        taken = discounts[np.minimum(counts.counts[order - 1], _HIGHEST + 1)]
        types = counts.per_context(order, (count > 0) * 1.0)
        full = types >= m
        taken = np.where(full[counts.parents[order - 1]], 0.0, taken)
        total, lost = counts.totals(order), counts.per_context(order, taken)
        if self.discount != 0:
            extra = (total > 0) & ~full & (lost <= 0)
            total, lost = total + extra, lost + extra
        return count - taken, lost, total, types


def _balanced(
    kept: Floats, taken: Floats, total: Floats, open_: Mask, unseen: Floats, parents: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Probability of each entry and weight of each context, given the lower order's mass of the unseen tokens."""
    weight = np.where(open_, ratio(ratio(taken, total), unseen), 0.0)
    # where the lower order cannot take what was discounted, the seen tokens share it
    total = np.where(open_ & (unseen <= 0), total - taken, total)
    return ratio(kept, total[parents]), weight


def _unseen_mass(counts: NGramCounts, found: Smoothed, order: int, open_: Mask, outcomes: Mask) -> Floats:
    """Sum of P_{k-1}(w|c') over the tokens w never seen after c, for every context c."""
    below = found.unigram if order == 2 else found.probability[order - 3]
    mass = 1 - counts.per_context(order, below[counts.lowers[order - 1]])
    few = np.flatnonzero(open_ & (mass < _FEW))
    step = max(1, 2**22 // outcomes.size)
    for begin in range(0, few.size, step):
        context = few[begin : begin + step]
        chain, index = [], context
        for k in range(order - 1, 1, -1):
            index = counts.lowers[k - 1][index]
            chain.append(index)
        rows = found.rows(counts, chain[::-1], np.full(context.size, order - 1))
        rows[:, ~outcomes] = 0
        line, entry = entries_of(counts, order, context)
        rows[line, counts.tokens[order - 1][entry]] = 0
        mass[context] = rows.sum(axis=1)
    return mass


def _absolute(n: NDArray[np.int64]) -> float | None:
    """Ney's discount from counts of counts; None when it would take nothing or everything."""
    return None if n[0] == 0 or n[1] == 0 else float(n[0] / (n[0] + 2 * n[1]))


def _good_turing(n: NDArray[np.int64]) -> Floats | None:
    """What Katz takes from counts of 1..5 (and 0 from more); None when the counts of counts do not determine it."""
    if (n[: _HIGHEST + 1] == 0).any():
        return None
    r = np.arange(1, _HIGHEST + 1)
    star = (r + 1) * n[1 : _HIGHEST + 1] / n[:_HIGHEST]
    above = (_HIGHEST + 1) * n[_HIGHEST] / n[0]
    if above >= 1:
        return None
    factor = (star / r - above) / (1 - above)
    if (factor <= 0).any() or (factor > 1).any():
        return None
    return np.append(r * (1 - factor), 0.0)


@dataclass(frozen=True)
class Threshold(Smoothing):
    """Back-off by rarity: the maximum-likelihood estimate of the longest context seen often enough.

    Parameters
    ----------
    count : int in [1, inf), default 5
        A context is reliable when it was seen, as a context, this often. The empty context always is.

    Notes
    -----
    Every row sums to 1, but a token never seen after the chosen context has probability 0, as in maximum likelihood.
    `NGramModel.order_used` reports the order chosen.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 12.4.1.
    """

    count: Annotated[int, "[1, inf)"] = 5
    short: ClassVar[str] = "threshold"

    def estimate(self, counts: NGramCounts, outcomes: Mask, parameters: Parameters) -> Smoothed:
        below = ratio(counts.counts[0] * 1.0, counts.totals(1))
        found = Smoothed(below, [], [], used="context")
        for at in range(1, counts.n):
            total = counts.totals(at + 1)
            reliable = total >= self.count
            own = ratio(counts.counts[at] * 1.0, total[counts.parents[at]])
            below = np.where(reliable[counts.parents[at]], own, below[counts.lowers[at]])
            found.probability.append(below)
            found.weight.append(np.where(reliable, 0.0, 1.0))
        return found
