"""Users by items: the sparse matrix of ratings with the ids of its rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.data.dataset import fingerprint
from gnomon.data.pairs import Ratings
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Interactions", "Rule", "codes_of"]

Rule = Literal["last", "mean", "error"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Interactions:
    """Every (user, item) pair once with its rating, by user and then by item; a stored 0 is a rating.

    Parameters
    ----------
    users, items : array
        Ids of the rows and of the columns, each once, sorted.
    offsets : int64 array of shape (n_users + 1,)
        The pairs of user u are those from ``offsets[u]`` up to ``offsets[u + 1]``.
    codes : int64 array of shape (n,)
        Places in `items`.
    values : float64 array of shape (n,)
    weight : float64 array of shape (n,)

    Examples
    --------
    >>> log = Interactions.from_records(["u", "u", "v"], ["a", "b", "b"], [5.0, 0.0, 3.0])
    >>> log.to_sparse().toarray().tolist(), log.sparsity
    ([[5.0, 0.0], [0.0, 3.0]], 0.25)
    >>> log.to_sparse().nnz  # the rating 0 of u for b is there, what v thinks of a is unknown
    3
    """

    users: NDArray[Any]
    items: NDArray[Any]
    offsets: Ints
    codes: Ints
    values: Floats
    weight: Floats

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def from_records(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        values: ArrayLike | None = None,
        *,
        times: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        repeats: Rule = "error",
    ) -> Interactions:
        """From one record per row.

        Parameters
        ----------
        users, items : array of shape (n,)
            Ids, whole numbers or text.
        values : array of shape (n,), optional
            Finite ratings; 1 where the records only say that they met.
        times : array of shape (n,), optional
            When; says which record of a pair is its last.
        weight : array of shape (n,), optional
            Weights of the records, >= 0; those of weight 0 are left out.
        repeats : {"error", "last", "mean"}
            What a pair that occurs several times gets: a refusal; the record with the latest time, among equal times
            (or without times) the one that stands last; or the weighted mean of its values with the sum of its weights.

        Raises
        ------
        UserValueError
            Columns of unlike lengths, no record, a value that is not finite, a pair that occurs twice under "error".

        Notes
        -----
        Cost O(n log n).
        """
        if repeats not in get_args(Rule):
            raise UserValueError(f"repeats must be one of {', '.join(get_args(Rule))}, got {repeats!r}", "repeats", "")
        parts = [np.asarray(users), np.asarray(items)]
        n = len(parts[0])
        number = np.ones(n) if values is None else _numbers(values, "values")
        heavy = np.ones(n) if weight is None else _numbers(weight, "weight")
        when = np.zeros(n) if times is None else np.asarray(times)
        for name, part in (("items", parts[1]), ("values", number), ("weight", heavy), ("times", when)):
            if len(part) != n:
                raise UserValueError(f"{name} must have one entry per record, got {len(part)} for {n}", name, "")
        if (heavy < 0).any():
            row = int((heavy < 0).argmax())
            raise UserValueError(f"weight must be at least 0, got {heavy[row]}", f"row {row}", "")
        kept = np.flatnonzero(heavy > 0)
        if not kept.size:
            raise UserValueError("there must be at least 1 record of positive weight, got 0", "records", "")
        known_users, user = np.unique(parts[0][kept], return_inverse=True)
        known_items, item = np.unique(parts[1][kept], return_inverse=True)
        key = user.astype(np.int64) * len(known_items) + item
        # by pair, within a pair by time, within equal times as they stand
        order = np.lexsort((when[kept], key)) if times is not None else np.argsort(key, kind="stable")
        key, rows = key[order], kept[order]
        first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        found, mass = _settle(number[rows], heavy[rows], rows, first, repeats)
        key = key[first]
        counts = np.bincount(key // len(known_items), minlength=len(known_users))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(known_users, known_items, offsets, key % len(known_items), found, mass)

    @classmethod
    def from_ratings(cls, log: Ratings, *, repeats: Rule = "error") -> Interactions:
        """From ratings as `gnomon.data.pairs` reads them."""
        return cls.from_records(log.users, log.items, log.values, times=log.times, repeats=repeats)

    @property
    def shape(self) -> tuple[int, int]:
        """Users and items."""
        return len(self.users), len(self.items)

    @property
    def rows(self) -> Ints:
        """Place in `users` of every pair."""
        return np.repeat(np.arange(len(self.users)), np.diff(self.offsets))

    @property
    def sparsity(self) -> float:
        """Share of the users by items of which nothing is known, 1 - n / (n_users n_items)."""
        return 1 - len(self) / (len(self.users) * len(self.items))

    def to_sparse(self) -> Any:
        """SciPy's CSR array, users by items; zeros that are ratings are stored."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.codes, self.offsets), shape=self.shape)

    def to_ratings(self, name: str = "ratings") -> Ratings:
        """One record per pair."""
        return Ratings(self.users[self.rows], self.items[self.codes], self.values, name=name)

    def fingerprint(self) -> str:
        """BLAKE2b over ids, pairs, values and weights."""
        return fingerprint(self.users, self.items, self.offsets, self.codes, self.values, self.weight)


def _numbers(values: ArrayLike, name: str) -> Floats:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserTypeError(f"{name} must be numbers", name, "give one per record") from None
    if found.ndim != 1:
        raise UserValueError(f"{name} must have one axis, got shape {found.shape}", name, "give one per record")
    if not np.isfinite(found).all():
        row = int(np.isfinite(found).argmin())
        raise UserValueError(f"{name} must be finite, got {found[row]}", f"row {row}", "correct it, or drop the row")
    return found


def _settle(values: Floats, weight: Floats, rows: Ints, first: Ints, repeats: str) -> tuple[Floats, Floats]:
    """Value and weight of each pair, whose records are those from `first` on."""
    if len(first) == len(values):
        return values, weight
    if repeats == "last":
        last = np.append(first[1:], len(values)) - 1
        return values[last], weight[last]
    if repeats == "mean":
        mass = np.add.reduceat(weight, first)
        return np.add.reduceat(weight * values, first) / mass, mass
    twice = int(np.setdiff1d(np.arange(len(values)), first)[0])
    raise UserValueError(
        "a pair of user and item must occur once", f"rows {rows[twice - 1]} and {rows[twice]}",
        'drop one, or choose repeats="last" or "mean"',
    )  # fmt: skip


def codes_of(ids: ArrayLike, known: NDArray[Any]) -> Ints:
    """Place of each id among the sorted known ones, -1 where it is none of them.

    Whole numbers and their usual spelling as text are the same ids, so that ``"42"`` from a command line finds 42.

    Parameters
    ----------
    ids : array of shape (n,)
    known : array of shape (m,)
        Sorted, each once.

    Examples
    --------
    >>> codes_of(["7", "007", "9"], np.array([3, 7])).tolist()
    [1, -1, -1]
    """
    wanted = np.asarray(ids)
    if known.dtype.kind in "US" and wanted.dtype.kind not in "US":
        wanted = wanted.astype(np.str_)
    if known.dtype.kind in "iu" and wanted.dtype.kind in "USO":
        wanted = wanted.astype(np.str_)
        known_text = known.astype(np.str_)
        order = np.argsort(known_text)
        found = _find(wanted, known_text[order])
        return np.where(found >= 0, order[found], -1)
    return _find(wanted, known)


def _find(wanted: NDArray[Any], known: NDArray[Any]) -> Ints:
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1).astype(np.int64)
