"""Ratings (user, item, value, time) and triples (head, relation, tail), ids as the file has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.holdout import Seed, split_rows
from gnomon.errors import UserValueError

__all__ = ["Ratings", "Triples"]

Repeats = Literal["last", "sum", "count"]
REPEATS = ("last", "sum", "count")


def _check_lengths(parts: Iterable[NDArray[Any]], name: str) -> None:
    lengths = {len(part) for part in parts}
    if len(lengths) != 1:
        raise UserValueError(
            f"all parts must have the same length, got {sorted(lengths)}", name, "give one of each per row"
        )


@dataclass(frozen=True, eq=False)
class Ratings:
    """Who met what, how well it was liked, and when.

    Parameters
    ----------
    users, items : array of shape (n,)
        Ids, int64 or text; ``7`` and ``007`` are different ones.
    values : float64 array of shape (n,), optional
        Ratings or counts; None where the data says only that they met.
    times : array of shape (n,), optional
        When, int64 or float64.
    name : str

    Examples
    --------
    >>> log = Ratings(np.array(["u", "u", "v"]), np.array(["a", "a", "b"]), np.array([1.0, 2.0, 5.0]))
    >>> last, repeats = log.distinct("last")
    >>> last.values.tolist(), repeats
    ([2.0, 5.0], 1)
    """

    users: NDArray[Any]
    items: NDArray[Any]
    values: NDArray[np.float64] | None = None
    times: NDArray[Any] | None = None
    name: str = "ratings"

    def __post_init__(self) -> None:
        _check_lengths(self._parts().values(), self.name)

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        users, items = len(np.unique(self.users)), len(np.unique(self.items))
        return f"Ratings({self.name!r}, {len(self)} of {users} users and {items} items)"

    def _parts(self) -> dict[str, NDArray[Any]]:
        found = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "name"}
        return {name: part for name, part in found.items() if part is not None}

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Number of the (user, item) pair of each row: equal numbers are the same pair. Cost O(n log n)."""
        _, users = np.unique(self.users, return_inverse=True)
        known, items = np.unique(self.items, return_inverse=True)
        _, codes = np.unique(users.astype(np.int64) * len(known) + items, return_inverse=True)
        return codes.astype(np.int64)

    def take(self, rows: NDArray[np.int64]) -> Ratings:
        """These rows only."""
        parts: dict[str, Any] = {name: part[rows] for name, part in self._parts().items()}
        return replace(self, **parts)

    def arrays(self) -> list[NDArray[Any] | None]:
        """Users, items, values, times."""
        return [self.users, self.items, self.values, self.times]

    def distinct(self, repeats: Repeats = "last") -> tuple[Ratings, int]:
        """Every (user, item) pair once.

        Parameters
        ----------
        repeats : {"last", "sum", "count"}
            Which value a pair gets that occurs several times: that of its last row (by time where there are times,
            else, and among equal times, by place in the file), the sum of its values, or the number of its rows. Its
            time is that of the last row.

        Returns
        -------
        Ratings
            Pairs in the order of their last rows.
        int
            How many rows were repeats.

        Raises
        ------
        UserValueError
            An unknown rule, or a sum without values.
        """
        if repeats not in REPEATS:
            raise UserValueError.must("repeats", f"be one of {', '.join(REPEATS)}", repeats)
        if repeats == "sum" and self.values is None:
            raise UserValueError("repeats='sum' needs values", self.name, 'use repeats="count"')
        order = np.arange(len(self)) if self.times is None else np.argsort(self.times, kind="stable")
        n_pairs = int(self.pairs.max(initial=-1)) + 1
        last = np.empty(n_pairs, np.int64)
        last[self.pairs[order]] = order  # the last write of a pair stays
        kept = self.take(np.sort(last))
        if repeats != "last":
            weight = None if repeats == "count" else self.values
            totals = np.bincount(self.pairs, weight, n_pairs).astype(np.float64)
            kept = replace(kept, values=totals[self.pairs[np.sort(last)]])
        return kept, len(self) - n_pairs

    def split_rows(self, *, test: float = 0.2, seed: Seed = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of a training and a test part, in ascending order, so that no (user, item) pair is on both sides.

        The pairs are cut by `gnomon.data.holdout.split_rows`, in the order in which they first occur; all rows of a
        pair stay together.

        Parameters
        ----------
        test : float in (0, 1), default 0.2
            Fraction of the pairs in the test part.
        seed : int, Generator or RandomState, default 0

        Raises
        ------
        UserValueError
            Fewer than two pairs.

        Examples
        --------
        >>> log = Ratings(np.array([1, 1, 2]), np.array([7, 7, 8]))
        >>> sorted(part.tolist() for part in log.split_rows(test=0.5))
        [[0, 1], [2]]
        """
        _, first = np.unique(self.pairs, return_index=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first))
        _, held = split_rows(len(first), test=test, seed=seed)
        in_test = np.isin(rank[self.pairs], held)
        return np.flatnonzero(~in_test), np.flatnonzero(in_test)


@dataclass(frozen=True, eq=False)
class Triples:
    """Statements of a knowledge graph.

    Parameters
    ----------
    heads, relations, tails : array of shape (n,)
        Names, text or int64.
    parts : dict of str to int64 array
        Rows of the parts that the makers of the set cut it into (``train``, ``valid``, ``test``), where they did.
    name : str

    Examples
    --------
    >>> Triples(np.array(["uk"]), np.array(["embassy"]), np.array(["usa"]), name="one")
    Triples('one', 1 of 2 entities and 1 relations)
    """

    heads: NDArray[Any]
    relations: NDArray[Any]
    tails: NDArray[Any]
    parts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    name: str = "triples"

    def __post_init__(self) -> None:
        _check_lengths((self.heads, self.relations, self.tails), self.name)

    def __len__(self) -> int:
        return len(self.heads)

    def __repr__(self) -> str:
        entities, relations = len(self.entities), len(np.unique(self.relations))
        return f"Triples({self.name!r}, {len(self)} of {entities} entities and {relations} relations)"

    @cached_property
    def entities(self) -> NDArray[Any]:
        """Heads and tails, each once, sorted."""
        return np.union1d(self.heads, self.tails)

    def take(self, rows: NDArray[np.int64]) -> Triples:
        """These rows only, without parts."""
        return Triples(self.heads[rows], self.relations[rows], self.tails[rows], name=self.name)

    def arrays(self) -> list[NDArray[Any] | None]:
        """Heads, relations, tails."""
        return [self.heads, self.relations, self.tails]

    def part(self, name: str) -> Triples:
        """One of the parts.

        Raises
        ------
        UserValueError
            No such part.
        """
        if name not in self.parts:
            known = ", ".join(self.parts) or "none"
            raise UserValueError(f"no part {name!r}", self.name, f"there are {known}")
        return self.take(self.parts[name])
