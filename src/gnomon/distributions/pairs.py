"""Pairs of ids: who met what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Pairs", "ids_of"]

Columns = tuple[NDArray[Any], NDArray[Any]]
PLACES = {"user": 0, "item": 1}


@dataclass(frozen=True)
class Pairs:
    """Pairs (user, item); ids are whole numbers or text, and an id that the fit has not seen is allowed later.

    Examples
    --------
    >>> users, items = Pairs().check([[7, 1], [8, 1]])
    >>> users.tolist(), items.tolist()
    ([7, 8], [1, 1])
    """

    def check(self, X: Any, *, name: str = "X") -> Columns:
        """The ids of users and of items.

        Parameters
        ----------
        X : array or table of shape (n, 2), or object with ``users`` and ``items``
            NumPy, pandas, polars, nested lists, or ratings as `gnomon.data.pairs` reads them.
        name : str
            What error messages call it.

        Raises
        ------
        UserValueError, UserTypeError
            Another shape, no row, an id that is neither a whole number nor text, with its row.
        """
        if hasattr(X, "users") and hasattr(X, "items") and hasattr(X, "values"):
            columns = [X.users, X.items]
        elif hasattr(X, "columns"):  # a frame, whose columns have types of their own
            columns = [X[column] for column in X.columns]
        else:
            columns = _columns_of(X, name)
        if len(columns) != 2:
            raise UserValueError(f"{name} must have 2 columns, user and item, got {len(columns)}", name, "")
        users, items = (ids_of(column, f"{name}, {what}") for column, what in zip(columns, PLACES, strict=True))
        if len(users) != len(items):
            raise UserValueError(f"{name} must have as many users as items, got {len(users)} and {len(items)}", name)
        if not len(users):
            raise UserValueError(f"{name} must have at least 1 row, got 0", name, "give pairs of user and item")
        return users, items

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return "pairs of user and item, with a rating each"

    def space(self, n_columns: int = 2) -> str:
        """Name of the data space, for scores."""
        return "ratings of items by users"

    def example(self, random: np.random.Generator, n: int) -> NDArray[np.int64]:
        """n different pairs of some users and items."""
        side = max(2, int(np.ceil(np.sqrt(2 * n))))
        chosen = random.choice(side * side, size=n, replace=False)
        return np.stack([chosen // side + 100, chosen % side], axis=1)

    def malformed(self) -> list[Any]:
        """What must be refused."""
        mixed = np.array([[1, 2], [3, "x"], [4, 5]], dtype=object)
        return [
            np.zeros((0, 2), np.int64), np.arange(4), np.ones((3, 3), np.int64), [[1.5, 2]], [[np.nan, 1.0]], mixed,
            [[None, 1]], "ratings", 3,
        ]  # fmt: skip


def _columns_of(X: Any, name: str) -> list[NDArray[Any]]:
    if hasattr(X, "tocoo") or isinstance(X, str | bytes) or np.ndim(X) == 0:
        raise UserTypeError(f"{name} must be pairs of user and item, got {type(X).__name__}", name, "give (n, 2) ids")
    table = np.asarray(X) if isinstance(X, np.ndarray) else np.array(list(X), dtype=object)
    if table.ndim == 1 and table.size == 0:
        raise UserValueError(f"{name} must have at least 1 row, got 0", name, "give pairs of user and item")
    if table.ndim != 2:
        raise UserValueError(f"{name} must have shape (n, 2), got {table.shape}", name, "give pairs of user and item")
    return list(table.T)


def ids_of(column: Any, where: str) -> NDArray[Any]:
    """Ids as int64 or text: whole numbers (floating ones too, as a table of numbers has them) or text, never both.

    Raises
    ------
    UserValueError
        Anything else, with its row.

    Examples
    --------
    >>> ids_of([3.0, 4.0], "users").tolist(), ids_of(["a", "b"], "users").tolist()
    ([3, 4], ['a', 'b'])
    """
    ids = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if ids.ndim != 1:
        raise UserValueError(f"{where} must have one axis, got shape {ids.shape}", where, "give one id per row")
    if ids.dtype.kind == "O":
        ids = _from_objects(ids, where)
    if ids.dtype.kind in "iuU":
        return ids.astype(np.int64) if ids.dtype.kind != "U" else ids
    if ids.dtype.kind == "f":
        bad = np.flatnonzero(~(np.isfinite(ids) & (ids == np.rint(ids))))
        if not bad.size:
            return ids.astype(np.int64)
        raise UserValueError(f"an id must be a whole number or text, got {ids[bad[0]]}", f"{where}, row {bad[0]}")
    raise UserTypeError(f"ids must be whole numbers or text, got {ids.dtype}", where, "convert them")


def _from_objects(ids: NDArray[Any], where: str) -> NDArray[Any]:
    kinds = np.array([str if isinstance(one, str) else _kind(one) for one in ids.tolist()], dtype=object)
    wrong = np.flatnonzero(kinds == None)  # noqa: E711  element by element
    if wrong.size:
        raise UserValueError(
            f"an id must be a whole number or text, got {ids[wrong[0]]!r}", f"{where}, row {wrong[0]}", "drop the row"
        )
    other = np.flatnonzero(kinds != kinds[0]) if len(kinds) else kinds
    if len(other):
        raise UserValueError(
            f"ids must all be whole numbers or all be text, got {ids[0]!r} and {ids[other[0]]!r}",
            f"{where}, row {other[0]}", "make them text",
        )  # fmt: skip
    return ids.astype(np.str_) if len(kinds) and kinds[0] is str else ids.astype(np.float64)


def _kind(one: Any) -> type | None:
    return float if isinstance(one, int | float | np.number) and not isinstance(one, bool) else None
