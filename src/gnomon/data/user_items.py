"""The domain of ratings: users, items and how well these were liked, with ids of any kind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.data.interactions import codes_of
from gnomon.data.pairs import Ratings
from gnomon.distributions.arrays import column_names
from gnomon.distributions.domains import Domain
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.ragged import Dense

__all__ = ["UserItems"]

Ids = NDArray[Any]


@dataclass(frozen=True)
class UserItems(Domain):
    """Records of a user and an item, with or without a value.

    Ids are whole numbers or text. One that the fit has not seen gets the code -1: what a system says of it is the mean
    over users or items, and systems state it.

    Parameters
    ----------
    users, items : array, optional
        Known ids, sorted, each once; `learn` finds them. Their places are the codes.

    Examples
    --------
    >>> log = Ratings(np.array(["ann", "bob"]), np.array([7, 9]), np.array([5.0, 3.0]))
    >>> fields = UserItems().learn(log).ingest([["bob", 9], ["eve", 7]])
    >>> fields["user"].values.tolist(), fields["item"].values.tolist()
    ([1, -1], [1, 0])
    """

    users: Ids | None = field(default=None, compare=False)
    items: Ids | None = field(default=None, compare=False)
    noun: ClassVar[str] = "a set of ratings"
    reads_datasets: ClassVar[bool] = True

    def check(self, X: Any, y: Any = None, *, name: str = "X", dtype: Any = None) -> Ratings:  # type: ignore[override]
        """The records.

        Parameters
        ----------
        X : Ratings, Dataset of ratings, or table of shape (n, 2) or (n, 3)
            Columns: user, item, and the value where there are three.
        y : array of shape (n,), optional
            Values, where the table has two columns.

        Raises
        ------
        UserError
            No records, another number of columns, an id that is missing, a value that is no finite number.
        """
        log = getattr(X, "ratings", X)
        if not isinstance(log, Ratings):
            log = _from_table(X, name)
        if y is not None:
            log = replace(log, values=_numbers(y, len(log), "y"))
        if not len(log):
            raise UserValueError(f"{name} must have at least 1 record, got 0", name, "give (user, item) rows")
        if log.values is not None and not np.isfinite(log.values).all():
            row = int(np.isfinite(log.values).argmin())
            raise UserValueError(f"a rating must be finite, got {log.values[row]}", f"row {row}", "drop the row")
        return log

    def learn(self, X: Any) -> Self:
        """The domain with the ids of these records."""
        log = self.check(X)
        return replace(self, users=np.unique(log.users), items=np.unique(log.items))

    def ingest(self, X: Any, y: Any = None, *, dtype: Any = None, name: str = "X") -> dict[str, Dense]:
        """Fields ``user`` and ``item`` of codes, and ``y`` of float64 values where there are some."""
        if self.users is None or self.items is None:
            raise TypeError("codes need known ids: use learn(X) first")
        log = self.check(X, y, name=name)
        fields = {"user": Dense(codes_of(log.users, self.users)), "item": Dense(codes_of(log.items, self.items))}
        return fields if log.values is None else {**fields, "y": Dense(np.asarray(log.values, np.float64))}

    def columns(self, X: Any, field: Any) -> Any:
        """Records have no feature columns."""
        return None

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return "ratings: user, item, value"

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return "ratings of items by users"

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> Ratings:
        """Ratings 1 to 5 of a dozen items by ten users, that two tastes explain."""
        pairs = random.permutation(120)[: min(n, 120)]
        user, item = pairs // 12, pairs % 12
        taste, appeal = random.normal(size=(10, 2)), random.normal(size=(12, 2))
        values = np.clip(np.round(3 + 1.2 * (taste[user] * appeal[item]).sum(1)), 1, 5)
        return Ratings(user + 100, item, values)

    def shuffled(self, X: Ratings, random: np.random.Generator) -> Ratings:
        """Every value with another pair."""
        return X if X.values is None else replace(X, values=random.permutation(X.values))

    def malformed(self) -> list[Any]:
        """No records, tables of other widths, ratings that are no numbers."""
        missing = np.array([["u", None]], object)
        return [[], 3, [["u"]], [["u", "i", "x"]], [["u", "i", np.inf]], missing]


def _from_table(X: Any, name: str) -> Ratings:
    """Records of a table of objects, column by column, so that ids keep their type."""
    if isinstance(X, str | bytes):
        raise UserTypeError(f"{name} must be records (user, item), got {type(X).__name__}", name, "give a table")
    if column_names(X) is not None:
        columns = [np.asarray(X[one].to_numpy()) for one in X.columns]
    else:
        rows = X.tolist() if isinstance(X, np.ndarray) else X
        if not isinstance(rows, list | tuple) or not rows or not all(isinstance(one, list | tuple) for one in rows):
            raise UserTypeError(f"{name} must be records (user, item), got {X!r:.60}", name, "give (user, item) rows")
        if len({len(row) for row in rows}) != 1:
            raise UserValueError(f"{name} has rows of different lengths", name, "give (user, item, value) rows")
        columns = [_column([row[j] for row in rows]) for j in range(len(rows[0]))]
    if len(columns) not in (2, 3):
        raise UserValueError(f"{name} must have 2 or 3 columns, got {len(columns)}", name, "give user, item, value")
    users, items = (_ids(column, j) for j, column in enumerate(columns[:2]))
    values = None if len(columns) == 2 else _numbers(columns[2], len(users), name)
    return Ratings(users, items, values)


def _column(values: list[Any]) -> NDArray[Any]:
    """Numbers as numbers, text as text, and anything mixed as objects."""
    kinds = {type(value) for value in values}
    return np.array(values) if len(kinds) == 1 else np.array(values, object)


def _ids(column: NDArray[Any], j: int) -> Ids:
    which = ("user", "item")[j]
    if column.dtype.kind == "f" and (column == np.rint(column)).all():
        return column.astype(np.int64)
    if column.dtype.kind == "O":
        missing = [row for row, one in enumerate(column) if one is None or one != one]
        if missing:
            raise UserValueError(f"the {which} is missing", f"row {missing[0]}", "drop the row")
        return column.astype(np.str_)
    if column.dtype.kind not in "iuU":
        raise UserTypeError(f"ids of {which}s must be whole numbers or text, got {column.dtype}", which, "")
    return column


def _numbers(values: Any, n: int, name: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserTypeError(f"ratings in {name} must be numbers", name, "give one number per record") from None
    if array.shape != (n,):
        raise UserValueError(f"{name} must have one rating per record, got shape {array.shape} for {n}", name, "")
    return array
