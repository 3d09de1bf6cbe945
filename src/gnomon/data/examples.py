"""What a fit takes: examples of any shape, as named fields with one weight per example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import fingerprint
from gnomon.errors import UserValueError
from gnomon.numeric.ragged import Chosen, Dense, Field, Ragged

__all__ = ["Dense", "Examples", "Field", "Ragged"]


class Examples:
    """The one container between what users hold and what models learn from.

    A table is a field ``X``; a target beside it is ``y``; sentences are a ragged ``X``; ratings are ``user``, ``item``
    and ``y``.

    Parameters
    ----------
    fields : mapping of str to Field, array or None
        An array is a `Dense` field; None is no field.
    weight : array of shape (n,), optional
        Weights of the examples; all 1 where left out, in the dtype of ``X`` where that is floating.
    shared : mapping of str to object, optional
        What all examples share and a fit depends on, as the vocabulary of their tokens; each has ``state()``, a mapping
        of arrays.

    Examples
    --------
    >>> pairs = Examples({"X": np.eye(3), "y": np.array([2, 0, 1])})
    >>> len(pairs), pairs.take([2, 0]).y.tolist(), list(pairs.fields)
    (3, [1, 2], ['X', 'y'])
    """

    __slots__ = ("fields", "shared", "weight")

    def __init__(
        self,
        fields: Mapping[str, Field | NDArray[Any] | None],
        weight: NDArray[Any] | None = None,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        given = {name: one for name, one in fields.items() if one is not None}
        self.fields = {name: one if isinstance(one, Field) else Dense(one) for name, one in given.items()}
        self.shared = dict(shared or {})
        if not self.fields:
            raise UserValueError("examples must have at least one field", "fields", 'give {"X": rows}, say')
        n = len(next(iter(self.fields.values())))
        self.weight: NDArray[Any] = np.ones(n, self._weight_dtype()) if weight is None else weight
        lengths = {name: len(one) for name, one in self.fields.items()} | {"weight": len(self.weight)}
        for name, length in lengths.items():
            if length != n:
                raise UserValueError(f"{name} must hold one value per row, got {length} for {n} rows", name)

    def _weight_dtype(self) -> Any:
        first = self.fields.get("X")
        dtype = first.values.dtype if isinstance(first, Dense) else np.dtype(np.float32)
        return dtype if dtype.kind == "f" else np.float32

    def __len__(self) -> int:
        return len(self.weight)

    def __repr__(self) -> str:
        return f"Examples({len(self)}: {', '.join(f'{name}={one!r}' for name, one in self.fields.items())})"

    def __getitem__(self, name: str) -> Field:
        return self.fields[name]

    @property
    def X(self) -> Any:
        """What is learned from: the array of the dense field ``X``, or the field itself."""
        return _plain(self.fields["X"])

    @property
    def y(self) -> Any:
        """What is predicted, in the same way; None where there is no such field."""
        found = self.fields.get("y")
        return None if found is None else _plain(found)

    def take(self, chosen: Chosen) -> Examples:
        """Some of the examples, by indices, a mask or a slice."""
        fields = {name: one.take(chosen) for name, one in self.fields.items()}
        return Examples(fields, self.weight[chosen], self.shared)

    def join(self, other: Examples) -> Examples:
        """These examples, and others with the same fields behind them.

        Examples
        --------
        >>> Examples({"X": np.eye(2)}).join(Examples({"X": np.zeros((1, 2))})).X.tolist()
        [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
        """
        fields = {name: one.join(other.fields[name]) for name, one in self.fields.items()}
        return Examples(fields, np.concatenate([self.weight, other.weight]), self.shared)

    def replace(self, *, weight: NDArray[Any] | None = None, **fields: Field | NDArray[Any] | None) -> Self:
        """The same examples with other fields, added or put in the place of those of the same name."""
        return type(self)({**self.fields, **fields}, self.weight if weight is None else weight, self.shared)

    def fingerprint(self) -> str:
        """BLAKE2b over everything that a fit sees."""
        first = [part for name in ("X", "y") for part in _parts(self.fields.get(name))]
        rest = [
            part for name in sorted(self.fields) if name not in ("X", "y") for part in (name, *self.fields[name].parts)
        ]
        shared = [part for name in sorted(self.shared) for part in (name, *_state(self.shared[name]))]
        return fingerprint(*first, *rest, self.weight, *shared)


def _plain(one: Field) -> Any:
    return one.values if isinstance(one, Dense) else one


def _parts(one: Field | None) -> tuple[Any, ...]:
    return (None,) if one is None else one.parts


def _state(one: Any) -> list[Any]:
    return [part for name, value in sorted(one.state().items()) for part in (name, value)]
