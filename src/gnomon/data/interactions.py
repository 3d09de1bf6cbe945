"""Users by items: the sparse matrix of ratings with the ids of its rows and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.data.examples import Examples
from gnomon.data.relations import Ratings
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["Ids", "Interactions", "Rule"]

Rule = Literal["last", "mean", "error"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ids:
    """What the rows or columns of a matrix are called: each id once, sorted; its place is its code.

    Parameters
    ----------
    values : array of shape (n,)
        Whole numbers or text, sorted, each once.

    Examples
    --------
    >>> known = Ids(np.array([3, 7]))
    >>> known.codes([7, 9]).tolist(), known.codes(["7", "007"]).tolist()
    ([1, -1], [1, -1])
    """

    def __init__(self, values: ArrayLike) -> None:
        self.values: NDArray[Any] = np.asarray(values)

    def __len__(self) -> int:
        return len(self.values)

    def codes(self, ids: ArrayLike) -> Ints:
        """Code of each id, -1 where it is unknown.

        Whole numbers and their usual spelling as text are the same, so that "42" from a command line finds 42.
        """
        wanted, known = np.asarray(ids), self.values
        order = np.arange(len(known))
        if known.dtype.kind in "iu" and wanted.dtype.kind in "USO":
            known = known.astype(np.str_)
            order = np.argsort(known)
            known = known[order]
        if known.dtype.kind in "US" and wanted.dtype.kind not in "US":
            wanted = wanted.astype(np.str_)
        index = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[index] == wanted, order[index], -1).astype(np.int64)

    def state(self) -> dict[str, NDArray[Any]]:
        """As arrays of numbers: whole numbers as they are, text as UTF-8 end to end and where each ends."""
        if self.values.dtype.kind in "iu":
            return {"ids": self.values.astype(np.int64)}
        encoded = [str(one).encode("utf-8", "surrogatepass") for one in self.values.tolist()]
        text = np.frombuffer(b"".join(encoded), np.uint8).copy()
        return {"text": text, "ends": np.cumsum([len(one) for one in encoded], dtype=np.int64)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Ids:
        """The ids that `state` described."""
        if "ids" in state:
            return cls(np.asarray(state["ids"]))
        text = np.asarray(state["text"], np.uint8).tobytes()
        ends = np.asarray(state["ends"]).tolist()
        return cls(np.array([text[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise([0, *ends])]))


@dataclass(frozen=True, eq=False)
class Interactions:
    """Every (user, item) pair once with its rating, by user and then by item; a stored 0 is a rating.

    Parameters
    ----------
    users, items : Ids
        Of the rows and of the columns.
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

    users: Ids
    items: Ids
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
        return cls(Ids(known_users), Ids(known_items), offsets, key % len(known_items), found, mass)

    @classmethod
    def from_ratings(cls, log: Ratings, *, repeats: Rule = "error") -> Interactions:
        """From ratings as `gnomon.data.pairs` reads them."""
        return cls.from_records(log.users, log.items, log.values, times=log.times, repeats=repeats)

    @classmethod
    def from_examples(cls, examples: Any) -> Interactions:
        """From what `to_examples` gave."""
        users, codes = (np.asarray(examples[name].parts[0]) for name in ("user", "item"))
        offsets = np.searchsorted(users, np.arange(len(examples.shared["users"]) + 1))
        values, weight = (np.asarray(part, np.float64) for part in (examples.y, examples.weight))
        return cls(examples.shared["users"], examples.shared["items"], offsets, codes, values, weight)

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
        """Fraction of the users by items of which nothing is known, 1 - n / (n_users n_items)."""
        return 1 - len(self) / (len(self.users) * len(self.items))

    def to_sparse(self) -> Any:
        """SciPy's CSR array, users by items; zeros that are ratings are stored."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.codes, self.offsets), shape=self.shape)

    def to_ratings(self, name: str = "ratings") -> Ratings:
        """One record per pair."""
        return Ratings(self.users.values[self.rows], self.items.values[self.codes], self.values, name=name)

    def to_examples(self, dtype: Any = np.float64) -> Examples:
        """As a fit takes them: codes of ``user`` and ``item``, ratings ``y``, and the ids as what all share."""
        fields = {"user": self.rows, "item": self.codes, "y": self.values.astype(dtype)}
        return Examples(fields, self.weight.astype(dtype), {"users": self.users, "items": self.items})


def _numbers(values: ArrayLike, name: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserTypeError(f"{name} must be numbers", name, "give one per record") from None
    if array.ndim != 1:
        raise UserValueError(f"{name} must have one axis, got shape {array.shape}", name, "give one per record")
    if not np.isfinite(array).all():
        row = int(np.isfinite(array).argmin())
        raise UserValueError(f"{name} must be finite, got {array[row]}", f"row {row}", "correct it, or drop the row")
    return array


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
