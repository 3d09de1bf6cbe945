"""Ratings (user, item, value, time) and triples (head, relation, tail), ids as the file has them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Ratings", "Triples", "columns_of", "ratings", "triples"]

Repeats = Literal["last", "sum", "count"]
REPEATS = ("last", "sum", "count")
_USER = ("user", "userid", "user_id", "uid", "user id")
_ITEM = ("item", "itemid", "item_id", "iid", "item id", "movieid", "movie_id", "movie", "product", "productid")
_VALUE = ("rating", "value", "score", "stars", "count", "weight")
_TIME = ("timestamp", "time", "date")
_HEAD, _RELATION, _TAIL = ("head", "subject"), ("relation", "predicate", "property"), ("tail", "object")


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
        lengths = {len(part) for part in self._parts().values()}
        if len(lengths) != 1:
            raise UserValueError(
                f"all parts must have the same length, got {sorted(lengths)}", self.name, "give one of each per row"
            )

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
            raise UserValueError(f"unknown rule {repeats!r}", "repeats", f"choose from {', '.join(REPEATS)}")
        if repeats == "sum" and self.values is None:
            raise UserValueError("repeats='sum' needs values", self.name, 'use repeats="count"')
        order = np.arange(len(self)) if self.times is None else np.argsort(self.times, kind="stable")
        n_pairs = int(self.pairs.max(initial=-1)) + 1
        last = np.empty(n_pairs, np.int64)
        last[self.pairs[order]] = order  # the last write of a pair stays
        found = self.take(np.sort(last))
        if repeats != "last":
            weight = None if repeats == "count" else self.values
            totals = np.bincount(self.pairs, weight, n_pairs).astype(np.float64)
            found = replace(found, values=totals[self.pairs[np.sort(last)]])
        return found, len(self) - n_pairs

    def split_rows(self, *, test: float = 0.2, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of a training and a test part, in ascending order, so that no (user, item) pair is on both sides.

        The pairs are cut by `gnomon.data.dataset.split_rows`, in the order in which they first occur; all rows of a
        pair stay together.

        Parameters
        ----------
        test : float in (0, 1), default 0.2
            Fraction of the pairs in the test part.
        seed : int, default 0

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
        from gnomon.data.dataset import split_rows

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
        lengths = {len(part) for part in (self.heads, self.relations, self.tails)}
        if len(lengths) != 1:
            raise UserValueError(
                f"all parts must have the same length, got {sorted(lengths)}", self.name, "give one of each per row"
            )

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


# --- reading ------------------------------------------------------------------------------------------------------


def ratings(
    name_or_file: str | os.PathLike[str],
    *,
    user: str | int | None = None,
    item: str | int | None = None,
    value: str | int | None = None,
    time: str | int | None = None,
) -> Ratings:
    """Ratings by name (``movielens-100k``) or from a table: CSV, TSV, Parquet, JSON Lines.

    Parameters
    ----------
    name_or_file : str or path
    user, item, value, time : str or int, optional
        Their columns, by name or place. Left out, they are found by their names (user, userId, item, movieId, rating,
        timestamp ...), and in a file without a header they are its first four columns. A column of values or times need
        not be there.

    Returns
    -------
    Ratings
        In the order of the file. Ids are int64 where all are whole numbers in their usual form, else text.

    Raises
    ------
    UserError
        A missing column or id, a value that is no finite number: line, column, value.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "r.csv")
    ...     _ = file.write_text("user,item,rating\\n007,NA,5\\n7,b,3\\n")
    ...     log = ratings(file)
    >>> log.users.tolist(), log.items.tolist(), log.values.tolist()
    (['007', '7'], ['NA', 'b'], [5.0, 3.0])
    """
    known = _by_name(name_or_file, "ratings")
    if known is not None:
        return known
    table = _open(name_or_file)
    places = [
        _column(table, given, names, place, parameter, parameter in ("user", "item"))
        for place, (given, names, parameter) in enumerate(
            ((user, _USER, "user"), (item, _ITEM, "item"), (value, _VALUE, "value"), (time, _TIME, "time"))
        )
    ]
    users, items, values, times = columns_of(table, places, ids_of=(0, 1))
    if times is not None and (times == np.rint(times)).all():
        times = times.astype(np.int64)
    return Ratings(users, items, values, times, name=table.name)


def triples(
    name_or_file: str | os.PathLike[str],
    *,
    head: str | int | None = None,
    relation: str | int | None = None,
    tail: str | int | None = None,
) -> Triples:
    """Triples by name (``nations``, ``kinships``, ``umls``) or from a table: CSV, TSV, Parquet, JSON Lines.

    Parameters
    ----------
    name_or_file : str or path
    head, relation, tail : str or int, optional
        Their columns, by name or place. Left out, they are found by their names (head, relation, tail; subject,
        predicate, object); a delimited file without any of these names has no header, and its first three columns are
        head, relation and tail.

    Returns
    -------
    Triples
        In the order of the file.

    Raises
    ------
    UserError
        A missing column or name, with its line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "t.tsv")
    ...     _ = file.write_text("uk\\tembassy\\tusa\\nusa\\tembassy\\tuk\\n")
    ...     len(triples(file))
    2
    """
    known = _by_name(name_or_file, "triples")
    if known is not None:
        return known
    names = (_HEAD, _RELATION, _TAIL)
    given = [str(one).casefold() for one in (head, relation, tail) if one is not None]
    table = _open(name_or_file, header=[*given, *(one for group in names for one in group)])
    places = [
        _column(table, column, group, place, parameter, True)
        for place, (column, group, parameter) in enumerate(
            zip((head, relation, tail), names, ("head", "relation", "tail"), strict=True)
        )
    ]
    heads, relations, tails = columns_of(table, places, ids_of=(0, 1, 2))
    if heads.dtype != tails.dtype and "U" in (heads.dtype.kind, tails.dtype.kind):
        heads, tails = heads.astype(np.str_), tails.astype(np.str_)
    return Triples(heads, relations, tails, name=table.name)


def _by_name(name_or_file: str | os.PathLike[str], part: str) -> Any:
    """What a data set that is known by name holds of it; None for a file."""
    from gnomon.data.names import BUILTIN

    if not isinstance(name_or_file, str) or name_or_file not in BUILTIN:
        return None
    from gnomon.data.builtin import builtin

    found = getattr(builtin(name_or_file), part)
    if found is None:
        raise UserValueError(f"{name_or_file} holds no {part}", "", "choose another set, or give a file")
    return found


def _open(path: str | os.PathLike[str], header: Sequence[str] | None = None) -> Any:
    from gnomon.data import sources
    from gnomon.data.readers import open_table

    try:
        file = Path(path).expanduser()
    except TypeError:
        raise UserTypeError(
            f"{type(path).__name__} is neither a name nor a file", "", "give a name or a path"
        ) from None
    sources.check_file(file)
    if sources.kind(file) in (".npy", ".npz", ".txt"):
        raise UserValueError("the file must be a table of ids", file.name, "give CSV, TSV, Parquet or JSON Lines")
    return open_table(file, header=header)


def _column(
    table: Any, given: str | int | None, names: Sequence[str], place: int, parameter: str, needed: bool
) -> str | None:
    """The column of a part: the one that is given, that has a usual name, or, without a header, at its usual place."""
    from gnomon.data.columns import place_of

    columns = table.columns
    if given is not None:
        return str(columns[place_of(given, columns, table.name, parameter)])
    found = next((column for column in columns if column.strip().casefold() in names), None)
    if found is not None:
        return str(found)
    if not getattr(table, "header", True):
        if place < len(columns):
            return str(columns[place])
        if needed:
            raise UserValueError(
                f"the table has {len(columns)} columns and none for {parameter}",
                table.name,
                "give a header or more columns",
            )
        return None
    if needed:
        remedy = f"name it: {parameter}=..., one of {', '.join(map(repr, columns[:6]))}"
        raise UserValueError(f"no column is called {names[0]!r}", table.name, remedy)
    return None


def columns_of(table: Any, places: Sequence[str | None], ids_of: Sequence[int]) -> list[Any]:
    """Columns of an opened table: those at the places `ids_of` as ids, the others as numbers; None where there is none.

    Raises
    ------
    UserValueError
        A column that stands for two things, a missing id, a value that is no number.
    """
    from gnomon.data.columns import features, ids

    chosen = [place for place in places if place is not None]
    twice = next((place for i, place in enumerate(chosen) if place in chosen[:i]), None)
    if twice is not None:
        raise UserValueError(f"column {twice!r} must be named once, got twice", table.name, "name another column")
    named = [str(places[i]) for i in ids_of]
    parts = list(table.parts(named, chosen))
    found: list[Any] = []
    for i, column in enumerate(places):
        if column is None:
            found.append(None)
        elif i in ids_of:
            found.append(ids(parts, column))
        else:
            found.append(np.concatenate([features(part, [column], missing=False)[:, 0] for part in parts]))
    return found
