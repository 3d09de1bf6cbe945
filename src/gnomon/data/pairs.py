"""Reading ratings and triples: by name, or from the columns of a table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.data.boundary import guarded
from gnomon.data.columns import columns_of, place_of
from gnomon.data.form import form_of
from gnomon.data.relations import Ratings, Triples
from gnomon.errors import UserTypeError, UserValueError, counted

__all__ = ["Ratings", "Triples", "ratings", "triples"]

_USER = ("user", "userid", "user_id", "uid", "user id")
_ITEM = ("item", "itemid", "item_id", "iid", "item id", "movieid", "movie_id", "movie", "product", "productid")
_VALUE = ("rating", "ratings", "value", "score", "stars", "count", "counts", "plays", "playcount", "play_count",
          "listens", "views", "clicks", "purchases", "quantity", "weight")  # fmt: skip
_TIME = ("timestamp", "time", "date")
_HEAD, _RELATION, _TAIL = ("head", "subject"), ("relation", "predicate", "property"), ("tail", "object")


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

    Warns
    -----
    UserWarning
        No column of values was found, but there are columns that are not used.

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
    with guarded(name_or_file):
        return _ratings(name_or_file, (user, item, value, time))


def _ratings(name_or_file: str | os.PathLike[str], given: tuple[str | int | None, ...]) -> Ratings:
    """Ratings from a table, whose columns are said or found."""
    table = _open(name_or_file)
    names = (_USER, _ITEM, _VALUE, _TIME)
    places = [
        _column(table, column, usual, index, parameter, parameter in ("user", "item"))
        for index, (column, usual, parameter) in enumerate(
            zip(given, names, ("user", "item", "value", "time"), strict=True)
        )
    ]
    users, items, values, times = columns_of(table, places, ids_of=(0, 1))
    if values is None:
        _warn_of_unused(table, places)
    if times is not None and (times == np.rint(times)).all():
        times = times.astype(np.int64)
    return Ratings(users, items, values, times, name=table.name)


def _warn_of_unused(table: Any, places: Sequence[str | None]) -> None:
    """Say which columns play no part where one of them may be that of the ratings."""
    unused = [str(column) for column in table.columns if column not in places]
    if unused:
        listed = ", ".join(map(repr, unused[:6]))
        what = f"column {listed} is not used" if len(unused) == 1 else f"columns {listed} are not used"
        hint = f"value={unused[0]!r} takes it as the rating (--target {unused[0]} on the command line)"
        warnings.warn(f"{what} ({table.name}); {hint}", UserWarning, stacklevel=4)


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
    with guarded(name_or_file):
        table = _open(name_or_file, header=[*given, *(one for group in names for one in group)])
    places = [
        _column(table, column, group, index, parameter, True)
        for index, (column, group, parameter) in enumerate(
            zip((head, relation, tail), names, ("head", "relation", "tail"), strict=True)
        )
    ]
    with guarded(name_or_file):
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
        what = f"data must be a name or a file, got a {type(path).__name__}"
        raise UserTypeError(what, "data", "give a name or a path") from None
    sources.check_file(file)
    if sources.kind(file) in (".npy", ".npz", ".txt"):
        raise UserValueError("the file must be a table of ids", file.name, "give CSV, TSV, Parquet or JSON Lines")
    return open_table(file, header=header, form=form_of(path))


def _column(
    table: Any, given: str | int | None, names: Sequence[str], index: int, parameter: str, needed: bool
) -> str | None:
    """The column of a part: the one that is given, that has a usual name, or, without a header, at its usual place."""
    columns = table.columns
    if given is not None:
        return str(columns[place_of(given, columns, table.name, parameter)])
    found = next((column for column in columns if column.strip().casefold() in names), None)
    if found is not None:
        return str(found)
    if not getattr(table, "header", True):
        if index < len(columns):
            return str(columns[index])
        if needed:
            raise UserValueError(
                f"the table has {counted(len(columns), 'column')} and none for {parameter}",
                table.name,
                "give a header or more columns",
            )
        return None
    if needed:
        option = " (--columns USER,ITEM on the command line)" if parameter in ("user", "item") else ""
        remedy = f"name it: {parameter}=...{option}, one of {', '.join(map(repr, columns[:6]))}"
        raise UserValueError(f"no column is called {names[0]!r}", table.name, remedy)
    return None
