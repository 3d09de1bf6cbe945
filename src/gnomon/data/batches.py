"""The rows of a fit in batches, in an order that is a function of seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Group, Noise
from gnomon.errors import UserValueError

__all__ = ["Batch", "Batches"]

Ints = NDArray[np.int64]


class Batch:
    """This process's part of one global batch.

    Parameters
    ----------
    data : dict of str to array
        ``X``, and ``y`` where there are labels. May be the caller's own arrays: not to be written to.
    rows : int64 array
        Indices in the data.
    positions : int64 array
        Places in the global batch: the address of per-example noise.
    weight : array
        Weights of the rows.
    """

    __slots__ = ("data", "positions", "rows", "weight")

    def __init__(self, data: dict[str, NDArray[Any]], rows: Ints, positions: Ints, weight: NDArray[Any]) -> None:
        self.data, self.rows, self.positions, self.weight = data, rows, positions, weight

    def __len__(self) -> int:
        return len(self.rows)


class Batches:
    """Batches of a table.

    Epoch e visits the rows in the order ``noise.child("order").at(e).order(n)``, cut into global batches of
    `batch_size` rows, the last one possibly smaller. A process takes a contiguous part of every global batch, so the
    batches are the same for any number of processes. Batch i of epoch e needs no history: a fit resumes from a counter.

    Parameters
    ----------
    X : array of shape (n, ...)
    y : array of shape (n, ...), optional
    weight : array of shape (n,), optional
        Weights of the rows; all 1 where left out.
    batch_size : int >= 1, optional
        Rows of a global batch; None, or more than n, is one batch of everything.
    noise : Noise, optional
        Where the order comes from; needed when `shuffle`.
    shuffle : bool, default True
        Whether every epoch has an order of its own. Without it batches are views, in the order of the data.
    replace : bool, default False
        Whether the n rows of an epoch are drawn with replacement instead, from `noise` as well.
    least : int >= 1, default 1
        A last batch of fewer rows than this joins the one before.
    group : Group, optional
        The processes to share with; see `shard`.

    Attributes
    ----------
    n : int
        Rows of the data, over all processes.
    steps : int
        Batches of an epoch.
    total_weight : float
        Sum of the weights over all processes.

    Notes
    -----
    The order of an epoch costs one sort of n words; a batch costs its gather and a few microseconds.

    Examples
    --------
    >>> import numpy as np
    >>> batches = Batches(np.arange(10.0).reshape(5, 2), batch_size=2, shuffle=False)
    >>> [batch.rows.tolist() for batch in batches.epoch(0)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        X: NDArray[Any],
        y: NDArray[Any] | None = None,
        weight: NDArray[Any] | None = None,
        *,
        batch_size: int | None = None,
        noise: Noise | None = None,
        shuffle: bool = True,
        replace: bool = False,
        least: int = 1,
        group: Group | None = None,
    ) -> None:
        self.n = len(X)
        if batch_size is not None and batch_size < 1:
            raise UserValueError(f"{batch_size} rows in a batch", "batch_size", "give 1 or more")
        for name, part in (("y", y), ("weight", weight)):
            if part is not None and len(part) != self.n:
                raise UserValueError(f"{len(part)} values for {self.n} rows", name, "give one per row")
        if (shuffle or replace) and noise is None:
            raise TypeError("shuffled batches need noise")
        self.data = {"X": X} if y is None else {"X": X, "y": y}
        self.weight = np.ones(self.n, X.dtype if X.dtype.kind == "f" else np.float32) if weight is None else weight
        self.total_weight = float(self.weight.sum(dtype=np.float64))
        self.batch_size = max(1, self.n if batch_size is None else min(batch_size, self.n))
        self.steps = -(-self.n // self.batch_size)
        if self.steps > 1 and self.n - (self.steps - 1) * self.batch_size < least:
            self.steps -= 1
        self._order: Any = noise.child("order") if noise is not None and (shuffle or replace) else None
        self._replace = replace
        self._rank, self._size = (0, 1) if group is None else (group.rank, group.size)
        self._epoch, self._rows = -1, np.arange(self.n)
        self._positions = np.arange(self.batch_size + least)
        self._fixed: dict[int, Batch] = {}

    def shard(self, group: Group) -> Batches:
        """This process's part of every batch: places rank*m//size up to (rank+1)*m//size of its m rows.

        Parts differ by one row at most, and may be empty where a batch has fewer rows than there are processes.
        """
        part = object.__new__(Batches)
        part.__dict__.update(self.__dict__)
        part._rank, part._size, part._fixed = group.rank, group.size, {}
        return part

    def epoch(self, e: int) -> Iterator[Batch]:
        """The batches of epoch e, one after the other."""
        return (self.step(e, i) for i in range(self.steps))

    def step(self, e: int, i: int) -> Batch:
        """Batch i of epoch e, 0 <= i < steps."""
        if self._order is None:
            batch = self._fixed.get(i)
            if batch is None:
                batch = self._fixed[i] = self._view(*self._part(i))
            return batch
        start, stop, position = self._part(i)
        rows = self._visit(e)[start:stop]
        data = {name: array.take(rows, axis=0) for name, array in self.data.items()}
        return Batch(data, rows, self._positions[position : position + stop - start], self.weight.take(rows))

    def _part(self, i: int) -> tuple[int, int, int]:
        """Start and end of this process's part of batch i within the epoch, and its first place in the batch."""
        if not 0 <= i < self.steps:
            raise IndexError(f"batch {i} of {self.steps}")
        start = i * self.batch_size
        m = self.batch_size if i + 1 < self.steps else self.n - start
        low, high = self._rank * m // self._size, (self._rank + 1) * m // self._size
        return start + low, start + high, low

    def _view(self, start: int, stop: int, position: int) -> Batch:
        whole = start == 0 and stop == self.n
        data = self.data if whole else {name: array[start:stop] for name, array in self.data.items()}
        weight = self.weight if whole else self.weight[start:stop]
        return Batch(data, self._rows[start:stop], self._positions[position : position + stop - start], weight)

    def _visit(self, e: int) -> Ints:
        if e != self._epoch:
            noise = self._order.at(e)
            rows = noise.integers(self.n, (self.n,)) if self._replace else noise.order(self.n)
            self._rows, self._epoch = np.asarray(rows, np.int64), e
        return self._rows
