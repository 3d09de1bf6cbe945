"""Which rows are held out: at random, class by class, whole groups, or the latest; once, or in folds.

Each cut is a function of the rows' number, the seed and what it goes by, and draws one order: ``Noise(seed, "split")``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.holdout import held_out_size, split_rows
from gnomon.errors import UserValueError

__all__ = ["KINDS", "are_classes", "codes_of", "cut", "deal", "parse"]

KINDS = ("random", "stratified", "group", "time")
"""Ways of holding rows out."""
Halves = tuple[NDArray[np.int64], NDArray[np.int64]]
MOST_CLASSES = 20
"""Whole numbers of so many values are classes; so are those of ten rows each."""
DENSE = 10**8
"""Cells of the table of sums that may be filled for groups; beyond, most groups are taken as they come."""


def parse(how: str) -> tuple[str, str | None]:
    """The kind of a split, and the column that it goes by.

    Raises
    ------
    UserValueError
        Another kind, or a column too few or too many.

    Examples
    --------
    >>> parse("group=patient"), parse("stratified")
    (('group', 'patient'), ('stratified', None))
    """
    kind, equals, column = str(how).partition("=")
    by_column = kind in ("group", "time")
    if kind in KINDS and bool(equals and column) == by_column:
        return kind, column or None
    remedy = f"name the column: {kind}=COLUMN" if by_column else ""
    what = f"split must be random, stratified, group=COLUMN or time=COLUMN, got {how!r}"
    raise UserValueError(what, "split", remedy)


def are_classes(y: Any) -> bool:
    """Whether these are classes: texts, truth values, or whole numbers of which there are few.

    Examples
    --------
    >>> are_classes(np.array(["a", "b"])), are_classes(np.arange(100)), are_classes(np.array([0.5, 1.0]))
    (True, False, False)
    """
    y = np.asarray(y)
    if y.ndim != 1 or y.dtype.kind == "f":
        return False
    return y.dtype.kind not in "iu" or len(np.unique(y)) <= max(MOST_CLASSES, len(y) // 10)


def codes_of(values: Any) -> NDArray[np.int64]:
    """The number 0, 1 ... of each value among the different ones; objects go by what they look like."""
    values = np.asarray(values)
    if values.dtype.kind == "O":
        values = np.array([f"{type(one).__name__} {one}" for one in values.tolist()])
    return np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.int64)


def cut(n: int, kind: str = "random", by: Any = None, *, test: float = 0.2, seed: int = 0) -> Halves:
    """Row numbers of the training and the test part, each in ascending order.

    Parameters
    ----------
    n : int >= 2
    kind : {"random", "stratified", "group", "time"}
        ``random``: see `split_rows`. ``stratified``: of each class within one row of its proportion, the rows in the
        same random order; a class of one row stays in the training part. ``group``: whole groups, drawn at random,
        whose rows come as near to the fraction as whole groups can. ``time``: the latest rows; equal times stay
        together, on the side that brings the fraction nearer.
    by : array of shape (n,)
        Classes, groups or times.
    test : float in (0, 1), default 0.2
        Fraction of the test part.
    seed : int, default 0

    Raises
    ------
    UserValueError, UserTypeError
        As by `split_rows`; classes of one row only, one group, one time.

    Examples
    --------
    >>> cut(6, "stratified", list("aabbbb"), test=0.5)[1].tolist()
    [0, 3, 5]
    >>> cut(6, "time", [5, 1, 2, 2, 3, 4], test=0.3)[1].tolist()
    [0, 5]
    """
    random = split_rows(n, test=test, seed=seed)
    if kind == "random":
        return random
    if kind == "time":
        held = _latest(np.asarray(by), len(random[1]))
    elif kind == "stratified":
        held = _of_each_class(codes_of(by), test, _order(n, seed))
    else:
        held = _whole_groups(codes_of(by), len(random[1]), seed)
    return np.flatnonzero(~held), np.flatnonzero(held)


def deal(n: int, k: int, kind: str = "random", by: Any = None, *, seed: int = 0) -> list[Halves]:
    """Training and test rows of k folds; each row is in one test part, but for classes of one row, which are in none.

    Parameters
    ----------
    n : int
    k : int in [2, n]
    kind : {"random", "stratified", "group"}
        Test parts differ by at most one row; ``stratified``: of each class too. ``group``: whole groups, the largest
        first, each into the smallest part.
    by, seed
        As in `cut`.

    Raises
    ------
    UserValueError
        More folds than rows or groups; folds by time.

    Examples
    --------
    >>> [held.tolist() for _, held in deal(4, 2, "group", ["u", "u", "v", "v"])]
    [[0, 1], [2, 3]]
    """
    if kind == "time":
        raise UserValueError("rows in order of time cannot be dealt into folds", "folds", "leave folds out")
    most = n if by is None or kind != "group" else int(codes_of(by).max(initial=-1)) + 1
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 2 <= k <= most:
        what = f"folds must be from 2 to the number of {'groups' if kind == 'group' else 'rows'}, {most}, got {k!r}"
        raise UserValueError(what, "folds")
    order = _order(n, seed)
    if kind == "group":
        part = _balanced(codes_of(by), k, seed)
    else:
        codes = codes_of(by) if kind == "stratified" else np.zeros(n, np.int64)
        part = np.full(n, -1, np.int64)
        several = np.bincount(codes)[codes[order]] > 1 if kind == "stratified" else np.ones(n, bool)
        rows = order[several]
        rows = rows[np.argsort(codes[rows], kind="stable")]
        part[rows] = np.arange(len(rows)) % k
    halves = [(np.flatnonzero(part != i), np.flatnonzero(part == i)) for i in range(k)]
    if any(not len(held) for _, held in halves):
        raise UserValueError(f"there are not rows enough for {k} folds", "folds", "ask for fewer")
    return halves


def _order(n: int, seed: int) -> NDArray[np.int64]:
    """The rows in random order: the one that `split_rows` draws."""
    from gnomon.numeric.noise import Noise

    return np.asarray(Noise(seed, "split").order(n))


def _of_each_class(codes: NDArray[np.int64], test: float, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Largest remainder: whole rows of each class's proportion, then one more where most of a row was cut off."""
    counts = np.bincount(codes)
    several = np.where(counts > 1, counts, 0)
    if not several.any():
        what = "each class has one row, of which none can be held out"
        raise UserValueError(what, "split", "give more rows of each class, or split at random")
    size = held_out_size(int(several.sum()), test)
    quota = several * (size / several.sum())
    taken = np.minimum(np.floor(quota + 1e-9), np.maximum(several - 1, 0)).astype(np.int64)
    room = np.flatnonzero(taken < several - 1)
    first = np.lexsort((-several[room], -(quota - taken)[room]))
    taken[room[first[: size - int(taken.sum())]]] += 1
    ranked = order[np.argsort(codes[order], kind="stable")]  # class by class, each in random order
    place = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = np.zeros(len(codes), bool)
    held[ranked] = place < np.repeat(taken, counts)
    return held


def _latest(times: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """The rows from one time on; of the two times between which `size` rows end, the one that is nearer."""
    ranked = np.sort(times)
    if ranked[0] == ranked[-1]:
        raise UserValueError("all rows have the same time", "split", "split at random")
    edge = ranked[len(times) - size]
    from_edge, after = times >= edge, times > edge
    wide, narrow = int(from_edge.sum()), int(after.sum())
    fits = wide < len(times) and (narrow == 0 or wide - size <= size - narrow)
    return from_edge if fits else after


def _whole_groups(codes: NDArray[np.int64], size: int, seed: int) -> NDArray[np.bool_]:
    """Random groups whose rows come as near to `size` as whole groups can."""
    counts = np.bincount(codes)
    if len(counts) < 2:
        raise UserValueError("there must be two groups at least, got 1", "split", "split at random")
    order, chosen = _order(len(counts), seed), np.zeros(len(counts), bool)
    if len(counts) * len(codes) > DENSE:  # nearly all of the fraction, as the groups come; sums are found for the rest
        sure = np.cumsum(counts[order]) <= size - 4 * counts.max()
        chosen[order[sure]] = True
        order = order[~sure][: max(64, DENSE // len(codes))]
    done = int(counts[chosen].sum())
    reached = _reach(counts[order], size - done, len(codes) - done)
    chosen[order[reached]] = True
    held: NDArray[np.bool_] = chosen[codes]
    return held


def _reach(sizes: NDArray[np.int64], goal: int, most: int) -> list[int]:
    """Places of the sizes whose sum is nearest to `goal`, more than 0 and less than `most`."""
    by = np.full(most, -1, np.int64)  # the size by which a sum was first reached: those before it reach what is left
    known = np.zeros(most, bool)
    known[0] = True
    for i, size in enumerate(sizes.tolist()):
        if size < most:
            new = known[: most - size] & ~known[size:]
            by[size:][new] = i
            known[size:] |= new
        if 0 < goal < most and known[goal]:
            break
    sums = np.flatnonzero(known)[1:]
    total, places = int(sums[np.abs(sums - goal).argmin()]), []
    while total:
        places.append(int(by[total]))
        total -= int(sizes[by[total]])
    return places


def _balanced(codes: NDArray[np.int64], k: int, seed: int) -> NDArray[np.int64]:
    """The fold of each row, whole groups together: the largest group first, into the smallest fold."""
    counts = np.bincount(codes)
    order = _order(len(counts), seed)
    fold, full = np.empty(len(counts), np.int64), np.zeros(k, np.int64)
    for group in order[np.argsort(-counts[order], kind="stable")].tolist():  # equal ones in random order
        fold[group] = full.argmin()
        full[fold[group]] += counts[group]
    folded: NDArray[np.int64] = fold[codes]
    return folded
