"""Which source token each token of a target comes from: IBM model 1 by EM, the diagonal, or the whole source.

The places of a source of S tokens are 0 ... S - 1, and S is its end. The end of a target is aligned to that of its
source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.numeric.given import affordable
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.recipe import Recipe

__all__ = ["IBM1", "Diagonal", "SourceAlignment", "TranslationTable", "WholeSource", "ibm1", "transitions"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Facts = Mapping[str, NDArray[Any]]

CELLS = 1 << 21
"""Pairs of a source and a target token that are looked at together."""
REACH = 32
"""Jumps that are counted apart: longer ones count as of this length."""


class TranslationTable(NamedTuple):
    """t(target | source) of the pairs of tokens that occur together.

    Attributes
    ----------
    source, target : int64 arrays of shape (entries,)
        In ascending order of (source, target); the source -1 is the empty word.
    probability : float64 array of shape (entries,)
        Of each source they sum to 1.
    log_likelihood : float64 array of shape (iterations,)
        Of the training pairs in nats, before each iteration: it never falls.
    """

    source: Ints
    target: Ints
    probability: Floats
    log_likelihood: Floats

    def of(self, source: Ints, target: Ints) -> Floats:
        """t of pairs of tokens; 0 of those that did not occur together."""
        if not len(self.source):
            return np.zeros(len(source))
        size = 1 + max(int(self.target.max()), int(target.max(initial=0)))
        keys, wanted = (self.source + 1) * size + self.target, (source + 1) * size + target
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, self.probability[at], 0.0)


class _Cells(NamedTuple):
    """All pairs of a target token and what may be its source, target token by target token."""

    source: Ints
    target: Ints
    place: Ints
    starts: Ints
    width: Ints


def _cells(sources: Ragged, targets: Ragged) -> _Cells:
    """The cells of some pairs; the first of each target token is that of the empty word, place -1."""
    pair = np.repeat(np.arange(len(targets)), targets.lengths)
    width = sources.lengths[pair] + 1
    starts = np.cumsum(width) - width
    place = np.arange(int(width.sum())) - np.repeat(starts, width) - 1
    at = np.repeat(sources.offsets[:-1][pair], width) + place
    source = np.full(len(place), -1)
    source[place >= 0] = sources.values[at[place >= 0]]
    return _Cells(source, np.repeat(targets.values, width), place, starts, width)


def _parts(sources: Ragged, targets: Ragged) -> list[slice]:
    """Pairs that follow one another, as many as memory allows."""
    size = np.cumsum((sources.lengths + 1) * targets.lengths) // CELLS
    cuts = np.flatnonzero(np.diff(size)) + 1
    borders = [0, *cuts.tolist(), len(sources)]
    return [slice(a, b) for a, b in pairwise(borders)]


def ibm1(sources: Ragged, targets: Ragged, iterations: int = 5) -> TranslationTable:
    r"""IBM model 1: :math:`P(t_1 \dots t_T \mid s) = \prod_i \frac{1}{S + 1} \sum_{j=0}^{S} t(t_i \mid s_j)`, by EM.

    s_0 is the empty word. An iteration counts each pair of tokens by its posterior probability to be aligned,
    :math:`t(t_i \mid s_j) / \sum_k t(t_i \mid s_k)`, and divides by the sums over targets. It begins from t uniform
    over the targets that a source token occurs with; the likelihood is concave, so that where it begins matters little.

    Parameters
    ----------
    sources, targets : Ragged of token ids at least 0
        As many.
    iterations : int, at least 1

    Notes
    -----
    An iteration costs O(sum of (S + 1) T) over the pairs, which are held as four bytes for each of these cells.
    Source: Brown, Della Pietra, Della Pietra and Mercer (1993).

    Examples
    --------
    >>> s, t = Ragged.of([[0, 1], [0, 2], [3, 2]]), Ragged.of([[5, 6], [5, 7], [8, 7]])
    >>> table = ibm1(s, t, 30)
    >>> bool(table.of(np.array([0]), np.array([5]))[0] > 0.9)
    True
    """
    cells_of_all = float(((sources.lengths + 1) * targets.lengths).sum())
    affordable(cells_of_all, "X", "give shorter pairs, or fewer", each=4)
    size = 1 + int(targets.values.max(initial=0))
    kept, keys = [], np.zeros(0, np.int64)
    for part in _parts(sources, targets):
        cells = _cells(sources.take(part), targets.take(part))
        keys = np.union1d(keys, (cells.source + 1) * size + cells.target)
    for part in _parts(sources, targets):
        cells = _cells(sources.take(part), targets.take(part))
        index = np.searchsorted(keys, (cells.source + 1) * size + cells.target).astype(np.int32)
        kept.append((index, cells.starts, cells.width))
    source = keys // size
    table = 1 / np.maximum(1, np.bincount(source, minlength=1))[source]
    steps = np.zeros(iterations)
    for step in range(iterations):
        counts = np.zeros(len(keys))
        for index, starts, width in kept:
            if not len(index):
                continue
            p = table[index]
            total = np.add.reduceat(p, starts)
            steps[step] += np.log(total / width).sum()
            counts += np.bincount(index, p / np.repeat(total, width), len(keys))
        table = counts / np.bincount(source, counts, 1)[source]
    return TranslationTable(source - 1, keys % size, table, steps)


class SourceAlignment(Recipe):
    """Base of the recipes that say where in its source each target token comes from."""

    searched: ClassVar[bool] = False
    """Whether the place depends on the target itself, so that it is not known before that is written."""

    def learn(self, sources: Ragged, targets: Ragged) -> dict[str, NDArray[Any]]:
        """What the places need to know of the training pairs."""
        raise NotImplementedError

    def at(self, facts: Facts, index: Ints, lengths: Ints, radius: int) -> Ints:
        """Places of target tokens by their index, in sources of these lengths; only where they follow from it."""
        raise NotImplementedError

    def places(self, facts: Facts, sources: Ragged, targets: Ragged, radius: int) -> Ints:
        """Places of all target tokens and ends, pair by pair.

        Parameters
        ----------
        facts : mapping
            What `learn` answered.
        sources, targets : Ragged
        radius : int
            Source tokens that are looked at on each side of a place.
        """
        lengths = targets.lengths + 1
        index = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.at(facts, index, np.repeat(sources.lengths, lengths), radius)


@dataclass(frozen=True)
class Diagonal(SourceAlignment):
    r"""Target token i comes from place :math:`\lfloor (i + 1/2) r \rfloor`, r the sources' tokens for each of targets.

    What lies beyond the source comes from its end. A place depends on no target token, so that what is said given the
    places is the probability of the target.
    """

    short: ClassVar[str] = "diagonal"

    def learn(self, sources: Ragged, targets: Ragged) -> dict[str, NDArray[Any]]:
        return {"ratio": np.array(len(sources.values) / max(1, len(targets.values)))}

    def at(self, facts: Facts, index: Ints, lengths: Ints, radius: int) -> Ints:
        return np.minimum(((index + 0.5) * float(facts["ratio"])).astype(np.int64), lengths)


@dataclass(frozen=True)
class WholeSource(SourceAlignment):
    """Every token comes from the source as a whole: its first 2 radius + 1 tokens, shorter ones filled up.

    The form for short phrases; of a longer source the rest is not seen.
    """

    short: ClassVar[str] = "whole"

    def learn(self, sources: Ragged, targets: Ragged) -> dict[str, NDArray[Any]]:
        return {}

    def at(self, facts: Facts, index: Ints, lengths: Ints, radius: int) -> Ints:
        return np.full(len(index), radius)


@dataclass(frozen=True)
class IBM1(SourceAlignment):
    """The most probable source token under IBM model 1, learned from the training pairs.

    Among equally probable ones the nearest to the diagonal. A target token that fits the empty word best, or no source
    token at all, takes the place of the nearest one that is aligned, of two the right one (Devlin et al. 2014).

    Parameters
    ----------
    iterations : int, default 5
        Iterations of EM.
    """

    short: ClassVar[str] = "ibm1"
    searched: ClassVar[bool] = True

    iterations: Annotated[int, "[1, inf)"] = 5

    def learn(self, sources: Ragged, targets: Ragged) -> dict[str, NDArray[Any]]:
        table = ibm1(sources, targets, self.iterations)
        facts = {"source": table.source, "target": table.target, "probability": table.probability}
        places = self.places(facts, sources, targets, 0)
        lengths = targets.lengths + 1
        before = np.concatenate([[-1], places[:-1]])
        before[np.cumsum(lengths) - lengths] = -1
        jumps = np.clip(places - before, -REACH, REACH) + REACH
        return facts | {"jumps": np.bincount(jumps, minlength=2 * REACH + 1) + 0.1}

    def places(self, facts: Facts, sources: Ragged, targets: Ragged, radius: int) -> Ints:
        table = TranslationTable(facts["source"], facts["target"], facts["probability"], np.zeros(0))
        found = [_nearest(table, sources.take(part), targets.take(part)) for part in _parts(sources, targets)]
        return np.concatenate(found)


def transitions(facts: Facts, lengths: Ints) -> Floats:
    """Probabilities (n, longest + 2, longest + 1) of the next place after each; the first row is of the first one.

    They are as frequent as jumps of this length were in training, among the places that there are.
    """
    size = int(lengths.max(initial=0)) + 1
    jumps = np.arange(size) - np.arange(-1, size)[:, None]
    table = facts["jumps"][np.clip(jumps, -REACH, REACH) + REACH] * (np.arange(size) <= lengths[:, None, None])
    return np.asarray(table / table.sum(2, keepdims=True))


def _nearest(table: TranslationTable, sources: Ragged, targets: Ragged) -> Ints:
    """Places of the tokens and ends of some pairs."""
    pair = np.repeat(np.arange(len(targets)), targets.lengths)
    index = np.arange(len(pair)) - targets.offsets[:-1][pair]
    cells = _cells(sources, targets)
    best = np.full(len(pair), -1)
    if len(pair):
        p = table.of(cells.source, cells.target)
        most = np.repeat(np.maximum.reduceat(p, cells.starts), cells.width)
        wanted = (index + 0.5) * sources.lengths[pair] / targets.lengths[pair] - 0.5
        far = np.where((p == most) & (cells.place >= 0), np.abs(cells.place - np.repeat(wanted, cells.width)), np.inf)
        order = np.lexsort((far, np.repeat(np.arange(len(pair)), cells.width)))[cells.starts]
        aligned = np.isfinite(far[order]) & (p[order] > p[cells.starts])  # better than the empty word
        best = np.where(aligned, cells.place[order], -1)
    return _inherited(best, sources.lengths, targets)


def _inherited(best: Ints, lengths: Ints, targets: Ragged) -> Ints:
    """Places with those of tokens that have none, -1, taken from the nearest that has; and of the ends."""
    n, pair = len(best), np.repeat(np.arange(len(targets)), targets.lengths)
    at, known = np.arange(n), best >= 0
    left = np.maximum.accumulate(np.where(known, at, -1)) if n else at
    right = np.minimum.accumulate(np.where(known, at, n)[::-1])[::-1] if n else at
    far = 2 * n + 1
    to_left = np.where(left >= targets.offsets[:-1][pair], at - left, far)
    to_right = np.where(right < targets.offsets[1:][pair], right - at, far)
    taken = np.where(to_right <= to_left, right, left)
    lonely = (to_left == far) & (to_right == far)
    found = np.where(lonely, lengths[pair], best[np.clip(taken, 0, max(0, n - 1))] if n else at)
    return np.insert(found, targets.offsets[1:], lengths)
