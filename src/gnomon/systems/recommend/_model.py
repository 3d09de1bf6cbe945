"""Biases and factors of users and items: scores of pairs, the best items of a user, the neighbours of an item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.data.interactions import Ids
from gnomon.systems.recommend._kernels import best_of_rows, score_pairs

__all__ = ["CELLS", "FactorModel", "KnownPairs"]

CELLS = 1 << 22
"""Users by items whose scores are in memory at once."""

Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


class KnownPairs:
    """Base of the models of users and items: the ids, who had what, lists of the best, saving.

    A subclass gives `score` and `rows`, the arrays that it has `learned`, and ``item_factors``, by which items are
    compared.

    Parameters
    ----------
    n_users : int
    dtype : dtype
        Of the scores of lists.
    """

    item_factors: Floats

    def __init__(self, n_users: int, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.users = self.items = Ids(np.zeros(0, np.int64))
        self.seen_offsets, self.seen_items = np.zeros(n_users + 1, np.int64), np.zeros(0, np.int64)

    @property
    def n_parameters(self) -> int:
        """Numbers that were learned."""
        return sum(part.size for part in self.learned().values())

    def learned(self) -> dict[str, Floats]:
        """What a fit changes."""
        raise NotImplementedError

    def score(self, users: Array, items: Array) -> NDArray[np.float64]:
        """Expected rating of each pair of codes, shape (n,); the code -1 is an unknown user or item."""
        raise NotImplementedError

    def rows(self, users: Ints) -> Floats:
        """Expected ratings of all items by some users, shape (n, n_items)."""
        raise NotImplementedError

    def best(self, users: Ints, k: int, *, exclude_seen: bool) -> tuple[Ints, Floats]:
        """Codes and scores of the k best items of each user; -1 and -inf where there are no more.

        Cost O(n_items width) per user; never more than some million scores are in memory.
        """
        codes = np.full((len(users), k), -1, np.int64)
        values = np.full((len(users), k), -np.inf, self.dtype)
        for part in _chunks(len(users), len(self.items)):
            scores = self.rows(users[part])
            if exclude_seen:
                rows, items = self.seen_by(users[part])
                scores[rows, items] = -np.inf
            best_of_rows(scores, codes[part], values[part])
        return codes, values

    def seen_by(self, users: Ints) -> tuple[Ints, Ints]:
        """Rows and codes of the items that these users had rated; none of an unknown user."""
        rows, places = self.seen_at(users)
        return rows, self.seen_items[places]

    def seen_at(self, users: Ints) -> tuple[Ints, Ints]:
        """Rows of what these users had rated, and its places among all that was rated."""
        begin = np.where(users >= 0, self.seen_offsets[users], 0)
        counts = np.where(users >= 0, self.seen_offsets[users + 1], 0) - begin
        rows = np.repeat(np.arange(len(users)), counts)
        return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(begin, counts)

    def similar(self, items: Ints, k: int) -> tuple[Ints, Floats]:
        """Codes and cosines of the k items whose factors are most like those of each item, itself left out."""
        length = np.linalg.norm(self.item_factors, axis=1, keepdims=True)
        unit = self.item_factors / np.where(length > 0, length, 1)
        codes = np.full((len(items), k), -1, np.int64)
        values = np.full((len(items), k), -np.inf, self.dtype)
        for part in _chunks(len(items), len(self.items)):
            scores = np.matmul(unit[items[part]], unit.T)
            scores[np.arange(len(scores)), items[part]] = -np.inf
            best_of_rows(scores, codes[part], values[part])
        return codes, values

    # --- saving -------------------------------------------------------------------------------------------------

    def remember(self, users: Ids, items: Ids, offsets: Ints, codes: Ints) -> None:
        """Keep the ids, and who has rated what."""
        self.users, self.items, self.seen_offsets, self.seen_items = users, items, offsets, codes

    def state(self) -> dict[str, Array]:
        """What was learned, ids, and who has rated what."""
        ids = {
            f"{side}.{name}": value
            for side in ("users", "items")
            for name, value in getattr(self, side).state().items()
        }
        return {**self.learned(), "seen_offsets": self.seen_offsets, "seen_items": self.seen_items, **ids}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take the arrays over, in place.

        Raises
        ------
        ValueError
            Arrays of another model.
        """
        for name, own in self.learned().items():
            if own.shape != np.shape(state[name]):
                raise ValueError(f"{name} of shape {own.shape} has shape {np.shape(state[name])}")
            own[...] = state[name]
        sides = [
            Ids.from_state({key.partition(".")[2]: value for key, value in state.items() if key.startswith(f"{side}.")})
            for side in ("users", "items")
        ]
        self.remember(sides[0], sides[1], np.array(state["seen_offsets"]), np.array(state["seen_items"]))


class FactorModel(KnownPairs):
    r""":math:`\hat r_{ui} = \mu + b_u + c_i + s A_u \cdot B_i`; an unknown user or item has bias and factors 0.

    Parameters
    ----------
    n_users, n_items : int
    width : int
        Length of the factors.
    dtype : dtype

    Examples
    --------
    >>> model = FactorModel(1, 1, 2, np.float64)
    >>> model.user_factors[:], model.item_factors[:] = (1, 2), (0.5, 0.25)
    >>> model.user_bias[:], model.item_bias[:] = 0.1, -0.2
    >>> round(float(model.score([0], [0])[0]), 12)
    0.9
    """

    def __init__(self, n_users: int, n_items: int, width: int, dtype: Any) -> None:
        super().__init__(n_users, dtype)
        self.mean = np.zeros(1, dtype)
        self.user_bias, self.item_bias = np.zeros(n_users, dtype), np.zeros(n_items, dtype)
        self.user_factors, self.item_factors = np.zeros((n_users, width), dtype), np.zeros((n_items, width), dtype)

    @property
    def scale(self) -> float:
        """s: 1; a model of several draws side by side divides by their number."""
        return 1.0

    def learned(self) -> dict[str, Floats]:
        """What a fit changes."""
        names = ("mean", "user_bias", "item_bias", "user_factors", "item_factors")
        return {name: getattr(self, name) for name in names}

    def score(self, users: Array, items: Array) -> NDArray[np.float64]:
        """Expected rating of each pair of codes, shape (n,); the code -1 is an unknown user or item."""
        users, items = np.asarray(users, np.int64), np.asarray(items, np.int64)
        scores = np.empty(len(users))
        score_pairs(
            users, items, self.mean[0], self.user_bias, self.item_bias, self.user_factors, self.item_factors,
            self.scale, scores,
        )  # fmt: skip
        return scores

    def rows(self, users: Ints) -> Floats:
        """Expected ratings of all items by some users, shape (n, n_items)."""
        known = users >= 0
        rows = np.where(known, users, 0)
        factors = self.user_factors[rows] * (self.scale * known).astype(self.mean.dtype)[:, None]
        scores = np.matmul(factors, self.item_factors.T)
        scores += self.item_bias + self.mean
        scores += (self.user_bias[rows] * known)[:, None]
        return scores


def _chunks(n: int, width: int) -> Iterator[slice]:
    size = max(1, CELLS // max(1, width))
    return (slice(begin, begin + size) for begin in range(0, n, size))
