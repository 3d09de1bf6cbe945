"""Data cut in a training and a test part, or in folds: data sets, arrays, sentences, ratings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gnomon.data.cuts import are_classes, cut, deal, parse
from gnomon.data.dataset import Dataset
from gnomon.data.holdout import Seed
from gnomon.errors import NoColumn, UserTypeError, UserValueError, nearest

__all__ = ["by_column", "folds", "split", "usual"]

Halves = tuple[NDArray[np.int64], NDArray[np.int64]]


@overload
def split(
    data: Dataset, *, test: float = 0.2, seed: Seed = 0, how: str | None = None, by: Any = None
) -> tuple[Dataset, Dataset]: ...
@overload
def split(
    data: NDArray[Any], *, test: float = 0.2, seed: Seed = 0, how: str | None = None, by: Any = None
) -> tuple[NDArray[Any], NDArray[Any]]: ...
@overload
def split(
    data: tuple[Any, ...], *, test: float = 0.2, seed: Seed = 0, how: str | None = None, by: Any = None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]: ...
@overload
def split(
    data: list[Any], *, test: float = 0.2, seed: Seed = 0, how: str | None = None, by: Any = None
) -> tuple[list[Any], list[Any]]: ...


def split(data: Any, *, test: float = 0.2, seed: Seed = 0, how: str | None = None, by: Any = None) -> tuple[Any, Any]:
    """Cut data in a training and a test part; a text is cut by sentences, ratings by pairs.

    Parameters
    ----------
    data : Dataset, array, tuple of arrays, or list of sentences
        A tuple of arrays (``(X, y)``) is cut along the same rows.
    test : float in (0, 1), default 0.2
    seed : int, Generator or RandomState, default 0
    how : str, optional
        ``stratified``: of each class its proportion, to within one row; what is done where the data has classes and
        nothing is asked for. ``random``: any rows. ``group=COLUMN``: whole groups. ``time=COLUMN``: the latest rows.
        The column is taken out of the table. Of arrays ``group`` and ``time`` go by `by`.
    by : array of shape (n,), optional
        Classes, groups or times, where they stand in no column.

    Returns
    -------
    train, test : in the form of `data`

    Warns
    -----
    UserWarning
        A class that one part has not.

    Raises
    ------
    UserError
        Data that cannot be cut.

    Examples
    --------
    >>> train, test = split(np.arange(10))
    >>> len(train), len(test), sorted([*train.tolist(), *test.tolist()]) == list(range(10))
    (8, 2, True)
    >>> X, y = np.zeros((10, 1)), np.array(["a"] * 5 + ["b"] * 5)
    >>> split((X, y), test=0.4)[1][1].tolist()
    ['a', 'a', 'b', 'b']
    """
    from gnomon.numeric.noise import seed_of

    seed = seed_of(seed) if isinstance(seed, np.random.Generator | np.random.RandomState) else seed
    if isinstance(data, Dataset):
        return _split_dataset(data, test, seed, how, by)
    if isinstance(data, tuple):
        lengths = {len(part) for part in data}
        if len(lengths) != 1:
            what = f"all arrays must have the same length, got {sorted(lengths)}"
            raise UserValueError(what, "", "give arrays with the same rows")
    elif not isinstance(data, list | np.ndarray):
        raise UserTypeError(
            f"{type(data).__name__} cannot be split", "", "give a Dataset, arrays or a list of sentences"
        )
    labels = np.asarray(data[1]) if isinstance(data, tuple) and len(data) > 1 and np.ndim(data[1]) == 1 else None
    n = len(data[0]) if isinstance(data, tuple) else len(data)
    train, held = _rows(n, labels, test, seed, how, by)
    if isinstance(data, tuple):
        return tuple(_take(p, train) for p in data), tuple(_take(p, held) for p in data)
    return _take(data, train), _take(data, held)


def _take(part: Sequence[Any] | NDArray[Any], rows: NDArray[np.int64]) -> Any:
    return part[rows] if isinstance(part, np.ndarray) else [part[i] for i in rows.tolist()]


def _split_dataset(data: Dataset, test: float, seed: int, how: str | None, by: Any) -> tuple[Dataset, Dataset]:
    facts: dict[str, Any] = {"test": test, "split_seed": seed}
    if data.ratings is not None:
        if how not in (None, "random"):
            raise UserValueError(f"how must be random for ratings, got {how!r}", "how", "use gnomon.data.split_ratings")
        rows = data.ratings.split_rows(test=test, seed=seed)
    else:
        how = how or usual(data.y if by is None else by)
        data = data if by is not None else by_column(data, how)
        rows = _rows(len(data), data.y, test, seed, how, data.by if by is None and "=" in how else by)
        facts["split"] = how
    train, held = (data.take(one, part, **facts) for one, part in zip(rows, ("train", "test"), strict=True))
    return train, held


def _rows(n: int, labels: NDArray[Any] | None, test: float, seed: int, how: str | None, by: Any) -> Halves:
    """Rows of both parts; a warning where a class is missing in one of them."""
    kind, by = _kind(n, labels, how, by)
    halves = cut(n, kind, by, test=test, seed=seed)
    if kind == "stratified":
        _tell_of_single(by)
    elif labels is not None and are_classes(labels):
        _warn_of_lost_classes(labels, *halves)
    return halves


def usual(labels: Any) -> str:
    """How rows are held out where nothing is asked for: stratified where there are classes."""
    return "stratified" if labels is not None and are_classes(labels) else "random"


def _kind(n: int, labels: NDArray[Any] | None, how: str | None, by: Any) -> tuple[str, Any]:
    """The kind of a cut, and what it goes by."""
    how = how or usual(labels if by is None else by)
    kind = how if how in ("group", "time") and by is not None else parse(how)[0]
    if kind == "stratified" and by is None:
        by = labels
    if kind == "random":
        return kind, None
    if by is None:
        what = "labels" if kind == "stratified" else "a column, or an array as by,"
        raise UserValueError(f"a split by {kind} needs {what}", "how", "split at random")
    by = np.asarray(by)
    if by.shape != (n,):
        raise UserValueError(f"by must have shape ({n},), got {by.shape}", "by", "give one of it per row")
    return kind, by


def folds(
    data: Dataset, k: int, *, seed: int = 0, how: str = "random", by: Any = None
) -> list[tuple[Dataset, Dataset]]:
    """Training and test parts of k folds, see `gnomon.data.cuts.deal`; all rows of a pair of ratings go together.

    Parameters
    ----------
    data : Dataset
    k : int in [2, n]
    seed : int, default 0
    how : {"random", "stratified", "group=COLUMN"}
    by : array of shape (n,), optional
        Classes or groups; those of the data set where left out.

    Raises
    ------
    UserError
        More folds than there is data for.

    Examples
    --------
    >>> [len(test) for _, test in folds(Dataset("ten", np.zeros((10, 1))), 3)]
    [4, 3, 3]
    """
    facts = {"folds": k, "split_seed": seed, "split": how}
    if data.ratings is not None:
        if how != "random":
            raise UserValueError(f"folds of ratings must be random, got {how!r}", "folds", "leave folds or split out")
        rows = deal(len(data), k, "group", data.ratings.pairs, seed=seed)
    else:
        data = by_column(data, how)
        kind, by = _kind(len(data), data.y, how, data.by if by is None and "=" in how else by)
        rows = deal(len(data), k, kind, by, seed=seed)
        if kind == "stratified":
            _tell_of_single(by)
    return [
        (data.take(train, "train", **facts, fold=i), data.take(held, "test", **facts, fold=i))
        for i, (train, held) in enumerate(rows)
    ]


def by_column(data: Dataset, how: str) -> Dataset:
    """The data set with the column of ``group=COLUMN`` or ``time=COLUMN`` set apart, as `Dataset.by`, not as a feature.

    Raises
    ------
    UserError
        No such column, a missing value, times that are neither numbers nor dates.

    Examples
    --------
    >>> data = Dataset("two", np.array([[1.0, 7.0], [2.0, 8.0]]), columns=("x", "day"))
    >>> found = by_column(data, "time=day")
    >>> found.columns, found.by.tolist()
    (('x',), [7.0, 8.0])
    """
    kind, column = parse(how)
    if column is None or data.by is not None:
        return data
    if column not in data.columns:
        close = nearest(column, list(data.columns)) or list(data.columns[:6])
        remedy = f"did you mean {', '.join(map(repr, close))}?" if close else "split at random"
        raise NoColumn(f"no column {column!r}", f"{data.name}, split", remedy)
    rest = tuple(name for name in data.columns if name != column)
    if not rest:
        raise UserValueError("no column is left as a feature", data.name, f"give at least one besides {column!r}")
    by = _values(data, column)
    where = f"{data.name}, column {column!r}"
    if kind == "time" and by.dtype.kind not in "iufM":
        raise UserValueError("times must be numbers or dates, got text", where, "write dates as 2026-01-31")
    missing = by != by  # NaN and NaT
    if missing.any():
        where = f"{data.name}, row {int(missing.argmax())}, column {column!r}"
        raise UserValueError("the value that rows are split by is missing", where, "fill it in or drop the row")
    X = None if data.X is None else np.delete(data.X, data.columns.index(column), axis=1)
    frame = None if data.frame is None else data.frame.drop(column)
    if X is None and frame is not None and all(kind.is_float() for kind in frame.dtypes):
        X, frame = frame.fill_null(float("nan")).to_numpy(order="c", writable=True), None
    return replace(data, X=X, frame=frame, columns=rest, by=by, images=None)


def _values(data: Dataset, column: str) -> NDArray[Any]:
    """A column as it was read; NaN, or NaT, where missing."""
    if data.frame is None:
        assert data.X is not None
        values: NDArray[Any] = data.X[:, data.columns.index(column)]
        return values
    cells = data.frame.get_column(column)
    if cells.dtype.is_numeric() or cells.dtype.is_temporal():
        return cells.to_numpy()
    if not cells.null_count():
        return np.array(cells.to_list())
    return np.array([float("nan") if cell is None else cell for cell in cells.to_list()], object)


def _tell_of_single(classes: Any) -> None:
    """Say which classes have one row only, which stays in training."""
    names, counts = np.unique(np.asarray(classes), return_counts=True)
    single = [str(name) for name in names[counts == 1].tolist()]
    if single:
        listed = ", ".join(single[:6]) + (", ..." if len(single) > 6 else "")
        who = "1 class has" if len(single) == 1 else f"{len(single)} classes have"
        warnings.warn(f"{who} one row only, which stays in training: {listed}", UserWarning, stacklevel=4)


def _warn_of_lost_classes(y: NDArray[Any], train: NDArray[np.int64], test: NDArray[np.int64]) -> None:
    everything = set(y.tolist())
    for part, rows in (("training", train), ("test", test)):
        lost = everything - set(y[rows].tolist())
        if lost:
            listed = ", ".join(sorted(map(str, lost))[:6])
            warnings.warn(f"the {part} part has no row of class {listed}", UserWarning, stacklevel=5)
