"""The domain of ratings: users, items and how well these were liked, with ids of any kind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.data.interactions import Ids
from gnomon.data.relations import Ratings
from gnomon.distributions.arrays import column_names, plain
from gnomon.distributions.domains import Domain
from gnomon.errors import UserError, UserTypeError, UserValueError, shown
from gnomon.numeric.ragged import Dense

__all__ = ["MetItems", "UserItems", "ids_of"]

EXACT = 2**53 - 1
"""Up to this whole number no other one has the same float64."""
LARGEST = 1e15
"""Sums of squares of ratings up to this one are finite in single precision."""


@dataclass(frozen=True)
class UserItems(Domain):
    """Records of a user and an item, with or without a value.

    Ids are whole numbers or text. One that the fit has not seen gets the code -1: what a system says of it is the mean
    over users or items, and systems state it.

    Parameters
    ----------
    users, items : Ids, optional
        Known ids; `learn` finds them.

    Examples
    --------
    >>> log = Ratings(np.array(["ann", "bob"]), np.array([7, 9]), np.array([5.0, 3.0]))
    >>> fields = UserItems().learn(log).ingest([["bob", 9], ["eve", 7]])
    >>> fields["user"].values.tolist(), fields["item"].values.tolist()
    ([1, -1], [1, 0])
    """

    users: Ids | None = field(default=None, compare=False)
    items: Ids | None = field(default=None, compare=False)
    is_table: ClassVar[bool] = False
    noun: ClassVar[str] = "a set of ratings"
    view: ClassVar[str] = "ratings"
    features: ClassVar[str] = "ratings"
    reads_datasets: ClassVar[bool] = True

    def check(self, X: Any, y: Any = None, *, name: str = "X", dtype: Any = None) -> Ratings:  # type: ignore[override]
        """The records.

        Parameters
        ----------
        X : Ratings, Dataset of ratings, table of shape (n, 2) or (n, 3), or sparse matrix
            Columns: user, item, and the value where there are three. Of a matrix users by items the stored entries are
            the values.
        y : array of shape (n,), optional
            Values, where the table has two columns.

        Raises
        ------
        UserError
            No records, another number of columns, an id that is missing, a value that is no finite number.
        """
        log = getattr(X, "ratings", X)
        if X is None or (isinstance(X, np.ndarray) and not X.ndim):
            raise UserTypeError.must(name, "be records (user, item)", X, remedy="give (user, item) rows")
        if log is None:
            raise UserTypeError(f"{name} is the data set {X.name}, which holds no ratings", name, "choose ratings")
        if isinstance(X, list | tuple | np.ndarray) and not len(X):
            raise UserValueError(f"{name} must have at least 1 record, got 0", name, "give (user, item) rows")
        if not isinstance(log, Ratings):
            log = _from_table(X, name)
        if y is not None:
            log = replace(log, values=_numbers(y, len(log), "y"))
        if not len(log):
            raise UserValueError(f"{name} must have at least 1 record, got 0", name, "give (user, item) rows")
        if log.values is not None and not np.isfinite(log.values).all():
            row = int(np.isfinite(log.values).argmin())
            raise UserValueError(f"a rating must be finite, got {log.values[row]}", f"row {row}", "drop the row")
        if log.values is not None and np.abs(log.values).max() > LARGEST:
            row = int(np.abs(log.values).argmax())
            what = (
                f"a rating must be at most {LARGEST:g}, beyond which sums of squares overflow, got {log.values[row]:g}"
            )
            raise UserValueError(what, f"row {row}", "correct it, or divide all ratings")
        return log

    def learn(self, X: Any) -> Self:
        """The domain with the ids of these records."""
        log = self.check(X)
        return replace(self, users=Ids(np.unique(log.users)), items=Ids(np.unique(log.items)))

    def ingest(self, X: Any, y: Any = None, *, dtype: Any = None, name: str = "X") -> dict[str, Dense]:
        """Fields ``user`` and ``item`` of codes, and ``y`` of float64 values where there are some."""
        if self.users is None or self.items is None:
            raise TypeError("codes need known ids: use learn(X) first")
        log = self.check(X, y, name=name)
        fields = {"user": Dense(self.users.codes(log.users)), "item": Dense(self.items.codes(log.items))}
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
        return [
            [], 3, [["u"]], [["u", "i", "x"]], [["u", "i", np.inf]], missing, np.arange(4), [[1.5, 2]],
            np.array([[1, 2], [3, "x"]], object),
        ]  # fmt: skip


@dataclass(frozen=True)
class MetItems(UserItems):
    """Records of a user and an item that met; values play no part.

    Examples
    --------
    >>> MetItems().check([("ann", 7), ("bob", 9)]).users.tolist()
    ['ann', 'bob']
    """

    noun: ClassVar[str] = "a set of pairs"

    def describe(self) -> str:
        """What data of this domain is, in a few words."""
        return "pairs: user, item"

    def space(self, n_columns: int) -> str:
        """Name of the data space, for scores."""
        return "items that users met"

    def example(self, random: np.random.Generator, n: int, groups: NDArray[np.int64] | None = None) -> Ratings:
        """Pairs of ten users and a dozen items; each half of the users meets one half of the items."""
        user, item = np.divmod(np.arange(120), 12)
        alike = user % 2 == item % 2
        chosen = np.argsort(random.random(120) + ~alike)[: min(n, 120)]
        return Ratings(user[chosen] + 100, item[chosen])

    def shuffled(self, X: Ratings, random: np.random.Generator) -> Ratings:
        """Every item with another user."""
        return replace(X, items=random.permutation(X.items))


def _from_table(X: Any, name: str) -> Ratings:
    """Records of a table, column by column, so that ids keep their type."""
    columns = _columns(X, name)
    if len(columns) not in (2, 3):
        raise UserValueError(f"{name} must have 2 or 3 columns, got {len(columns)}", name, "give user, item, value")
    users, items = (
        ids_of(column, f"ids of {which}s") for which, column in zip(("user", "item"), columns, strict=False)
    )
    values = None if len(columns) == 2 else _numbers(columns[2], len(users), name)
    return Ratings(users, items, values)


def _columns(X: Any, name: str) -> list[Any]:
    if hasattr(X, "tocoo"):  # users by items, whose stored entries are the ratings
        entries = X.tocoo()
        return [*(entries.coords if hasattr(entries, "coords") else (entries.row, entries.col)), entries.data]
    if column_names(X) is not None:
        return [X[one] for one in X.columns]
    if isinstance(X, list | tuple) and X and all(isinstance(row, list | tuple) for row in X):
        if len({len(row) for row in X}) != 1:
            raise UserValueError(f"{name} has rows of different lengths", name, "give (user, item, value) rows")
        return [list(column) for column in zip(*X, strict=True)]
    if isinstance(X, np.ma.MaskedArray) or hasattr(X, "detach"):
        X = plain(X, name, "give (user, item) rows")
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return list(X.T)
    given = shown(X)
    raise UserTypeError(f"{name} must be records (user, item), got {given}", name, "give (user, item) rows")


def ids_of(column: Any, name: str) -> NDArray[Any]:
    """Ids as int64 or text: whole numbers (floating ones too, as a table of numbers has them) or text, never both.

    Parameters
    ----------
    column : array-like of shape (n,)
    name : str
        What error messages call it.

    Raises
    ------
    UserError
        Anything else, with its row.

    Examples
    --------
    >>> ids_of([3.0, 4.0], "users").tolist(), ids_of(["a", "b"], "users").tolist()
    ([3, 4], ['a', 'b'])
    """
    if hasattr(column, "to_numpy"):
        ids = column.to_numpy()
    else:
        ids = column if isinstance(column, np.ndarray) else np.array(column, object)
    if ids.ndim != 1:
        raise UserValueError(f"{name} must have one axis, got shape {ids.shape}", name, "give one id per row")
    if ids.dtype.kind == "O":
        ids = _from_objects(ids, name)
    if ids.dtype.kind == "f":
        ids = ids.astype(np.float64)
        bad = np.flatnonzero(~(np.isfinite(ids) & (ids == np.rint(ids))))
        if bad.size:
            raise UserValueError(f"{name} must be whole numbers or text, got {ids[bad[0]]}", f"row {bad[0]}", "drop it")
        _refuse_beyond(ids, EXACT, name)
    elif ids.dtype.kind == "u":
        _refuse_beyond(ids, np.iinfo(np.int64).max, name)
    elif ids.dtype.kind not in "iU":
        raise UserTypeError(f"{name} must be whole numbers or text, got {ids.dtype}", name, "convert them")
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _refuse_beyond(ids: NDArray[Any], limit: int, name: str) -> None:
    """Refuse ids that as int64 would be others: two might become one."""
    bad = np.flatnonzero(ids > limit if ids.dtype.kind == "u" else np.abs(ids) > limit)
    if bad.size:
        what = f"{name} must be whole numbers of at most {limit}, got {ids[bad[0]]}"
        raise UserValueError(what, f"row {bad[0]}", "give them as text")


def _from_objects(ids: NDArray[Any], name: str) -> NDArray[Any]:
    text = np.array([isinstance(one, str) for one in ids.tolist()], bool)
    number = np.array([isinstance(one, int | float | np.number) and not isinstance(one, bool) for one in ids], bool)
    wrong = np.flatnonzero(~(text | number))
    if wrong.size:
        raise UserValueError(
            f"{name} must be whole numbers or text, got {ids[wrong[0]]!r}", f"row {wrong[0]}", "drop the row"
        )
    other = np.flatnonzero(text != text[:1])
    if other.size:
        what = f"{name} must all be numbers or all be text, got {ids[0]!r} and {ids[other[0]]!r}"
        raise UserValueError(what, f"row {other[0]}", "make them text")
    if text.any():
        return ids.astype(np.str_)
    whole = [isinstance(one, int | np.integer) for one in ids]
    for row, one in enumerate(ids):
        if whole[row] and not -(2**63) <= int(one) < 2**63:
            what = f"{name} must be whole numbers of at most {2**63 - 1}, got {one}"
            raise UserValueError(what, f"row {row}", "give them as text")
    return ids.astype(np.int64 if all(whole) else np.float64)


def _numbers(values: Any, n: int, name: str) -> NDArray[np.float64]:
    try:
        array = plain(values, name, "give one number per record")
        if array.dtype.kind in "cmM":
            raise TypeError
        array = array.astype(np.float64)
    except UserError:
        raise
    except (TypeError, ValueError):
        raise UserTypeError(f"ratings in {name} must be numbers", name, "give one number per record") from None
    if array.shape != (n,):
        raise UserValueError(f"{name} must have one rating per record, got shape {array.shape} for {n}", name, "")
    return array
