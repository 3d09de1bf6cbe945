"""Measures of recommendation: where the items that a user went on to like stand among all that were unknown."""

from __future__ import annotations

import math
from typing import Any, Literal

import numba
import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score

__all__ = ["Placements", "rmse"]

Ints = NDArray[np.int64]
Ties = Literal["worst", "best"]
kernel = numba.njit(cache=True, error_model="numpy", nogil=True)


class Placements:
    """Where each user's relevant items stand by score among the user's candidates, fed piece by piece.

    The candidates of a user are the relevant items and the items that are neither relevant nor seen before.

    Attributes
    ----------
    users : int64 array of shape (n,)
        Number of the user of each relevant item, in the order of the scores' rows.
    above, tied : int64 array of shape (n,)
        Irrelevant candidates with a higher and with an equal score.
    n_others : int64 array of shape (n_users,)
        Irrelevant candidates of each user.

    Notes
    -----
    A user without relevant items takes no part; the notes of the scores say how many these are. Standard errors are
    over users. Cost O(items log relevant) per user.

    References
    ----------
    Herlocker, Konstan, Terveen and Riedl (2004); Järvelin and Kekäläinen (2002) for the discounted gain.

    Examples
    --------
    >>> placed = Placements().update([[0.9, 0.8, 0.7, 0.6]], relevant=([0, 1], [1]), seen=([0, 1], [0]))
    >>> placed.ranks().tolist(), placed.hit_rate(1).value, placed.auc().value  # item 0 was seen: item 1 is first
    ([1], 1.0, 1.0)
    """

    def __init__(self) -> None:
        self.users = self.above = self.tied = np.zeros(0, np.int64)
        self.n_others = np.zeros(0, np.int64)
        self._score = np.zeros(0)

    def update(self, scores: Any, relevant: Any, seen: Any = None) -> Placements:
        """Add users.

        Parameters
        ----------
        scores : array of shape (n_users, n_items)
            The higher, the better.
        relevant, seen : CSR array of shape (n_users, n_items), or pair (offsets, items)
            The items that should come first, and those that are no candidates; nothing is seen where left out.

        Raises
        ------
        UserValueError
            A score that is not finite, shapes that do not fit, a relevant item that was seen.
        """
        table = np.ascontiguousarray(scores, np.float64)
        if table.ndim != 2:
            raise UserValueError(f"scores must be users by items, got shape {table.shape}", "scores", "")
        if not np.isfinite(table).all():
            user, item = np.argwhere(~np.isfinite(table))[0]
            raise UserValueError(f"scores must be finite, got {table[user, item]}", f"row {user}, column {item}", "")
        offsets, items = _lists(relevant, table.shape, "relevant")
        none = np.zeros(len(table) + 1, np.int64), np.zeros(0, np.int64)
        seen_offsets, seen_items = none if seen is None else _lists(seen, table.shape, "seen")
        rows = np.repeat(np.arange(len(table)), np.diff(offsets))
        items = items[np.lexsort((table[rows, items], rows))]
        above, tied, others, bad = _place(table, offsets, items, seen_offsets, seen_items)
        if bad >= 0:
            user = int(np.searchsorted(offsets, bad, side="right")) - 1
            raise UserValueError(
                f"a relevant item must not have been seen, got item {items[bad]}", f"row {user}", "leave it out of one"
            )
        self.users = np.append(self.users, rows + len(self.n_others))
        self.above, self.tied = np.append(self.above, above), np.append(self.tied, tied)
        self.n_others = np.append(self.n_others, others)
        self._score = np.append(self._score, table[rows, items])
        return self

    def ranks(self, ties: Ties = "worst") -> Ints:
        """Place of each relevant item among its user's candidates, from 1.

        Parameters
        ----------
        ties : {"worst", "best"}
            Whether irrelevant items of an equal score stand before it, so that a constant score finds nothing, or
            behind it.
        """
        if ties not in ("worst", "best"):
            raise UserValueError(f"ties must be worst or best, got {ties!r}", "ties", "")
        order = np.lexsort((-self._score, self.users))
        among = np.empty(len(order), np.int64)
        among[order] = np.arange(len(order)) - np.searchsorted(self.users, self.users)[order]
        return 1 + self.above + among + (self.tied if ties == "worst" else 0)

    # --- scores -------------------------------------------------------------------------------------------------

    def hit_rate(self, k: int, *, ties: Ties = "worst") -> Score:
        """Fraction of users with a relevant item among the first k."""
        return self._score_of("hit_rate", k, self._hits(k, ties) > 0)

    def precision(self, k: int, *, ties: Ties = "worst") -> Score:
        """Fraction of relevant items among the first k, whether there are k candidates or not."""
        return self._score_of("precision", k, self._hits(k, ties) / k)

    def recall(self, k: int, *, ties: Ties = "worst") -> Score:
        """Fraction of the user's relevant items that are among the first k."""
        return self._score_of("recall", k, self._hits(k, ties) / self._relevant())

    def average_precision(self, k: int | None = None, *, ties: Ties = "worst") -> Score:
        """Mean over the relevant items of the precision at their places; its mean over users is MAP.

        With k an item behind the first k counts 0, and the mean is over min(k, relevant items).
        """
        ranks = self.ranks(ties)
        order = np.lexsort((ranks, self.users))
        among = np.arange(1, len(order) + 1) - np.searchsorted(self.users, self.users[order])
        gains = among / ranks[order] * (True if k is None else ranks[order] <= _cut(k))
        totals = self._sum(gains, self.users[order])
        most = self._relevant()
        return self._score_of("average_precision", k, totals / (most if k is None else np.minimum(most, k)))

    def ndcg(self, k: int | None = None, *, ties: Ties = "worst") -> Score:
        """Sum of 1 / log2(1 + rank) over the relevant items (among the first k), as a share of the largest possible."""
        ranks, most = self.ranks(ties), self._relevant()
        gains = np.where(True if k is None else ranks <= _cut(k), 1 / np.log2(1 + ranks), 0.0)
        ideal = np.cumsum(1 / np.log2(1 + np.arange(1, most.max(initial=1) + 1)))
        best = ideal[(most if k is None else np.minimum(most, k)) - 1]
        return self._score_of("ndcg", k, self._sum(gains, self.users) / best)

    def reciprocal_rank(self, *, ties: Ties = "worst") -> Score:
        """1 / rank of the first relevant item."""
        largest = np.zeros(len(self.n_others))
        np.maximum.at(largest, self.users, 1 / self.ranks(ties))
        return self._score_of("reciprocal_rank", None, largest[self._there()])

    def auc(self) -> Score:
        """Chance that a relevant item has a higher score than an irrelevant candidate; ties count half.

        Users without irrelevant candidates take no part either.
        """
        others = self.n_others[self.users]
        with np.errstate(invalid="ignore", divide="ignore"):
            fraction = (others - self.above - 0.5 * self.tied) / others
        totals = self._sum(np.where(others > 0, fraction, 0.0), self.users)
        there = self.n_others[self._there()] > 0
        return self._score_of("auc", None, (totals / self._relevant())[there], there)

    # --- sums over a user's items -------------------------------------------------------------------------------

    def _there(self) -> Ints:
        """Users with relevant items."""
        return np.unique(self.users)

    def _relevant(self) -> Ints:
        counts = np.bincount(self.users, minlength=len(self.n_others))
        return counts[counts > 0]

    def _sum(self, values: NDArray[Any], users: Ints) -> NDArray[np.float64]:
        totals = np.bincount(users, values, len(self.n_others))
        return totals[self._there()].astype(np.float64)

    def _hits(self, k: int, ties: Ties) -> NDArray[np.float64]:
        return self._sum((self.ranks(ties) <= _cut(k)).astype(np.float64), self.users)

    def _score_of(self, name: str, k: int | None, values: Any, there: Any = None) -> Score:
        rows = self._there() if there is None else self._there()[there]
        left_out = len(self.n_others) - len(rows)
        if not len(rows):
            raise UserValueError(f"{name} needs a user with relevant items", name, "hold out more")
        note = f"{left_out} of {len(self.n_others)} users have nothing to rank" if left_out else ""
        full = name if k is None else f"{name}@{k}"
        return Score.from_pointwise(
            values, name=full, unit="fraction", data_space="rankings of unseen items", rows=rows, note=note
        )


def _cut(k: int) -> int:
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise UserTypeError(f"k must be a whole number, got {k!r}", "k", "")
    if k < 1:
        raise UserValueError(f"k must be at least 1, got {k}", "k", "")
    return int(k)


def _lists(given: Any, shape: tuple[int, ...], name: str) -> tuple[Ints, Ints]:
    """Offsets and items of a CSR array or a pair, items of a user in ascending order."""
    if hasattr(given, "tocsr"):
        matrix = given.tocsr().sorted_indices()
        offsets, items = matrix.indptr, matrix.indices
    else:
        offsets, items = given
    offsets, items = np.asarray(offsets, np.int64), np.asarray(items, np.int64)
    if len(offsets) != shape[0] + 1 or offsets[-1] != len(items) or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise UserValueError(f"{name} must have one list of items per row of scores", name, f"give {shape[0]} lists")
    if len(items) and not (items.min() >= 0 and items.max() < shape[1]):
        raise UserValueError(f"{name} must hold columns below {shape[1]}, got {items.max()}", name, "")
    return offsets, items


@kernel
def _place(scores, offsets, items, seen_offsets, seen_items):  # type: ignore[no-untyped-def]
    """Irrelevant candidates above and level with each relevant item, candidates per user, a relevant item seen.

    A user's relevant items come by ascending score.
    """
    n_users, n_items = scores.shape
    above, tied = np.zeros(len(items), np.int64), np.zeros(len(items), np.int64)
    others = np.zeros(n_users, np.int64)
    taken = np.zeros(n_items, np.int8)  # 1: no candidate, 2: relevant
    for u in range(n_users):
        a, b = offsets[u], offsets[u + 1]
        taken[:] = 0
        for s in range(seen_offsets[u], seen_offsets[u + 1]):
            taken[seen_items[s]] = 1
        for r in range(a, b):
            if taken[items[r]] == 1:
                return above, tied, others, r
            taken[items[r]] = 2
        for j in range(n_items):
            if taken[j]:
                continue
            others[u] += 1
            low, high = a, b
            while low < high:
                middle = (low + high) // 2
                if scores[u, items[middle]] < scores[u, j]:
                    low = middle + 1
                else:
                    high = middle
            if low > a:
                above[low - 1] += 1  # and above all that stand before it
            if low < b and scores[u, items[low]] == scores[u, j]:
                tied[low] += 1
        for r in range(b - 2, a - 1, -1):
            above[r] += above[r + 1]
        for r in range(a + 1, b):
            if scores[u, items[r]] == scores[u, items[r - 1]]:
                tied[r] = tied[r - 1]
    return above, tied, others, -1


def rmse(squared: Any, *, data_space: str = "") -> Score:
    """Root of the mean of squared errors, its standard error by the first derivative.

    The squared errors go along as the values of the examples, so that two systems are compared by paired differences.

    Parameters
    ----------
    squared : array of shape (n,)

    Examples
    --------
    >>> rmse([1.0, 4.0, 4.0]).value
    1.7320508075688772
    """
    mean = Score.from_pointwise(
        squared, name="rmse", unit="units of the rating", data_space=data_space, higher_is_better=False
    )
    root = math.sqrt(mean.value)
    error = mean.stderr / (2 * root) if root else 0.0
    return Score(
        root, error, kind="exact", unit=mean.unit, data_space=data_space, name="rmse", higher_is_better=False,
        n=mean.n, pointwise=mean.pointwise,
    )  # fmt: skip
