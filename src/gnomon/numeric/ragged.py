"""One value per example, whatever its shape: the columns that examples are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError

__all__ = ["Dense", "Field", "Ragged"]

Ints = NDArray[np.int64]
Chosen = NDArray[Any] | Sequence[int] | slice


class Field:
    """Base of the fields: as many values as there are examples."""

    def __len__(self) -> int:
        raise NotImplementedError

    def join(self, other: Any) -> Field:
        """These examples, and those of another field of the same kind behind them."""
        raise NotImplementedError

    def take(self, chosen: Chosen) -> Field:
        """The values of some examples, by indices, a mask or a slice; a slice gives views."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """The arrays that determine the field, for fingerprints."""
        raise NotImplementedError


class Dense(Field):
    """Values of one shape, in one array.

    Parameters
    ----------
    values : array of shape (n, ...)

    Examples
    --------
    >>> Dense(np.eye(3)).take([2]).values
    array([[0., 0., 1.]])
    """

    __slots__ = ("values",)

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Dense({self.values.dtype}, shape {self.values.shape})"

    def join(self, other: Dense) -> Dense:
        """The arrays one after the other."""
        return Dense(np.concatenate([self.values, other.values]))

    def take(self, chosen: Chosen) -> Dense:
        """The values of some examples."""
        return Dense(self.values[chosen])

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """The array."""
        return (self.values,)


class Ragged(Field):
    """Sequences of different lengths, one after the other in one array.

    Parameters
    ----------
    values : array of shape (total, ...)
    offsets : int64 array of shape (n + 1,)
        Sequence i is ``values[offsets[i] : offsets[i + 1]]``; the first offset is 0, the last one total.

    Examples
    --------
    >>> words = Ragged.of([[5, 6], [], [7]])
    >>> words.lengths.tolist(), words[0].tolist(), words.padded().tolist()
    ([2, 0, 1], [5, 6], [[5, 6], [0, 0], [7, 0]])
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: NDArray[Any], offsets: Ints) -> None:
        if not offsets.size or offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
            raise UserValueError(
                f"offsets must rise from 0 to {len(values)}", "offsets", "give n + 1 of them for n sequences"
            )
        self.values, self.offsets = values, offsets

    @classmethod
    def of(cls, sequences: Sequence[Any], dtype: Any = np.int64) -> Ragged:
        """A field of a list of sequences of numbers."""
        offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
        parts = [np.asarray(one, dtype) for one in sequences if len(one)]
        return cls(np.concatenate(parts) if parts else np.zeros(0, dtype), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Ragged({self.values.dtype}, {len(self)} sequences, {len(self.values)} values)"

    def __getitem__(self, i: int) -> NDArray[Any]:
        part: NDArray[Any] = self.values[self.offsets[i] : self.offsets[i + 1]]
        return part

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    @property
    def lengths(self) -> Ints:
        """Length of every sequence."""
        return np.diff(self.offsets)

    def join(self, other: Ragged) -> Ragged:
        """The sequences one after the other."""
        values = np.concatenate([self.values, other.values])
        return Ragged(values, np.concatenate([self.offsets, self.offsets[-1] + other.offsets[1:]]))

    def take(self, chosen: Chosen) -> Ragged:
        """The sequences of some examples. Cost O(their values)."""
        if isinstance(chosen, slice):
            start, stop, step = chosen.indices(len(self))
            if step == 1:
                cuts = self.offsets[start : max(start, stop) + 1]
                return Ragged(self.values[cuts[0] : cuts[-1]], cuts - cuts[0])
        starts, lengths = self.offsets[:-1][chosen], self.lengths[chosen]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        index = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Ragged(self.values[index], offsets)

    def padded(self, fill: Any = 0) -> NDArray[Any]:
        """An array (n, longest, ...), filled up behind each sequence; the longest counts as 1 at least."""
        lengths = self.lengths
        shape = (len(self), max(1, int(lengths.max(initial=0))), *self.values.shape[1:])
        array = np.full(shape, fill, self.values.dtype)
        array[np.arange(shape[1]) < lengths[:, None]] = self.values
        return array

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """Values and offsets."""
        return self.values, self.offsets
