"""How examples become batches: the rule by which a fit visits them, a function of seed and epoch alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.data.examples import Dense, Examples, Field, Ragged
from gnomon.errors import UserValueError

__all__ = ["Batch", "Blocks", "Lanes", "Layout", "Padded", "Plan", "Rows"]

Ints = NDArray[np.int64]


class Batch:
    """This process's part of one global batch.

    Parameters
    ----------
    data : mapping of str to array or Field
        The fields by name, dense ones as arrays. May be the caller's own arrays: not to be written to.
    rows : int64 array
        Indices in the data.
    positions : int64 array
        Places in the global batch: the address of per-example noise.
    weight : array
        Weights of the rows; of `Lanes` one per predicted token.
    """

    __slots__ = ("data", "positions", "rows", "weight")

    def __init__(self, data: dict[str, Any], rows: Ints, positions: Ints, weight: NDArray[Any]) -> None:
        self.data, self.rows, self.positions, self.weight = data, rows, positions, weight

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, chosen: slice) -> Batch:
        """Some of the rows, at the places in the global batch that they have."""
        data = {name: one.take(chosen) if isinstance(one, Field) else one[chosen] for name, one in self.data.items()}
        return Batch(data, self.rows[chosen], self.positions[chosen], self.weight[chosen])


class Plan(Protocol):
    """A layout applied to examples."""

    n: int
    """Rows of the data (lanes of `Lanes`), over all processes."""
    steps: int
    """Batches of an epoch."""
    batch_size: int
    """Rows of a global batch."""
    total_weight: float
    """Sum of the weights of an epoch, over all processes."""
    fixed: bool
    """Whether every epoch is alike."""

    def part(self, e: int, i: int, rank: int, size: int) -> Batch:
        """A process's part of batch i of epoch e."""


class Layout(Protocol):
    """A rule; `Batches` asks it for a plan."""

    def plan(self, examples: Examples, noise: Noise | None) -> Plan:
        """The rule applied to examples; `noise` is where an order comes from."""

    def in_order(self, rows: int) -> Layout:
        """The same form of batches, up to `rows` rows each, every epoch alike: for examples that judge."""


@dataclass(frozen=True)
class Rows:
    """Rows in an order of its own in every epoch, ``noise.child("order").at(e).order(n)``, cut into batches.

    Ragged fields come as `Ragged` fields.

    Parameters
    ----------
    batch_size : int >= 1, optional
        Rows of a global batch; None, or more than n, is one batch of everything.
    shuffle : bool, default True
        Without it batches are views, in the order of the data.
    replace : bool, default False
        Whether the n rows of an epoch are drawn with replacement instead.
    least : int >= 1, default 1
        A last batch of fewer rows than this joins the one before.
    """

    batch_size: int | None = None
    shuffle: bool = True
    replace: bool = False
    least: int = 1

    def plan(self, examples: Examples, noise: Noise | None) -> Plan:
        """Rows in order, or in the order that `noise` gives."""
        return _RowPlan(self, examples, _order(self.shuffle or self.replace, noise))

    def in_order(self, rows: int) -> Rows:
        """Views."""
        return Rows(rows, shuffle=False)


@dataclass(frozen=True)
class Padded:
    """Rows of like length together, ragged fields as arrays (rows, longest) filled up with 0.

    Each ragged field comes with the lengths of its rows, as ``<name>_length``. The epoch's order of the rows is cut
    into stretches of `buckets` batches; each stretch is sorted by length and the batches visited in an order of their
    own, so that little is padded and every epoch meets other batches.

    Parameters
    ----------
    batch_size : int >= 1
        Rows of a global batch.
    buckets : int >= 1, default 50
        Batches whose rows are sorted together; 1 sorts nothing.
    shuffle : bool, default True
        Without it all rows are sorted by length, the same in every epoch.
    """

    batch_size: int
    buckets: int = 50
    shuffle: bool = True

    def plan(self, examples: Examples, noise: Noise | None) -> Plan:
        """Rows by length."""
        return _PaddedPlan(self, examples, _order(self.shuffle, noise), noise)

    def in_order(self, rows: int) -> Padded:
        """All rows sorted by length; batches of the same size as in training."""
        return Padded(min(rows, self.batch_size), self.buckets, shuffle=False)


@dataclass(frozen=True)
class Lanes:
    """All sequences joined into one and cut into lanes that are read side by side, window by window.

    Step i gives ``X``, the tokens (width, window) of its window, ``y``, the token after each, and the weight of each
    of these, 0 where there is none. Lane j goes on in step i + 1 where it stopped in step i, so a hidden state carries
    over; ``begins`` says of each lane whether nothing came before. Positions are the lanes.

    Parameters
    ----------
    width : int >= 1
        Lanes.
    window : int >= 1
        Tokens of a lane in one step.
    field : str, default "X"
        The ragged field that is read.
    shift : bool, default False
        Whether an epoch begins at a random one of the first `window` tokens, so that windows begin elsewhere in every
        epoch; what stands before is left out. Otherwise every epoch is alike.
    """

    width: int
    window: int
    field: str = "X"
    shift: bool = False

    def plan(self, examples: Examples, noise: Noise | None) -> Plan:
        """The lanes; where they begin comes from ``noise.child("shift")`` at the epoch."""
        if self.shift and noise is None:
            raise TypeError("shifted lanes need noise")
        return _LanePlan(self, examples, noise.child("shift") if self.shift and noise is not None else None)

    def in_order(self, rows: int) -> Lanes:
        """The same without a shift: lanes are always in order."""
        return Lanes(self.width, self.window, self.field)


@dataclass(frozen=True)
class Blocks:
    """Neighboring examples in the order of the data, as many as have about `values` values together.

    Parameters
    ----------
    values : int >= 1
    field : str, default "X"
        The ragged field whose values are counted.
    """

    values: int
    field: str = "X"

    def plan(self, examples: Examples, noise: Noise | None) -> Plan:
        """Views; nothing is drawn."""
        return _BlockPlan(self, examples)

    def in_order(self, rows: int) -> Blocks:
        """The same."""
        return self


def _order(shuffled: bool, noise: Noise | None) -> Any:
    if not shuffled:
        return None
    if noise is None:
        raise TypeError("shuffled batches need noise")
    return noise.child("order")


def _share(m: int, rank: int, size: int) -> tuple[int, int]:
    """A process's part of m rows: parts differ by one row at most, and may be empty."""
    return rank * m // size, (rank + 1) * m // size


class _Cut:
    """Rows 0 ... n - 1 of an epoch in batches of a size."""

    def __init__(self, examples: Examples, batch_size: int | None, least: int = 1) -> None:
        if batch_size is not None and batch_size < 1:
            raise UserValueError(f"batch_size must be at least 1, got {batch_size}", "batch_size")
        self.n = len(examples)
        self.weight = examples.weight
        self.total_weight = float(examples.weight.sum(dtype=np.float64))
        self.batch_size = max(1, self.n if batch_size is None else min(batch_size, self.n))
        self.steps = -(-self.n // self.batch_size)
        if self.steps > 1 and self.n - (self.steps - 1) * self.batch_size < least:
            self.steps -= 1
        self.positions = np.arange(self.batch_size + least)

    def bounds(self, i: int, rank: int, size: int) -> tuple[int, int, int]:
        """Start and end of a process's part of batch i within the epoch, and its first place in the batch."""
        if not 0 <= i < self.steps:
            raise IndexError(f"batch {i} of {self.steps}")
        start = i * self.batch_size
        m = self.batch_size if i + 1 < self.steps else self.n - start
        low, high = _share(m, rank, size)
        return start + low, start + high, low


class _RowPlan(_Cut):
    """`Rows` of examples."""

    def __init__(self, layout: Rows, examples: Examples, order: Any) -> None:
        super().__init__(examples, layout.batch_size, layout.least)
        self.fixed = order is None
        self._order, self._replace = order, layout.replace
        self._dense, self._other = _by_kind(examples.fields)
        self._epoch, self._rows = -1, np.arange(self.n)

    def part(self, e: int, i: int, rank: int, size: int) -> Batch:
        """Views in order, fresh arrays of a shuffled epoch."""
        start, stop, position = self.bounds(i, rank, size)
        positions = self.positions[position : position + stop - start]
        if self._order is None:
            return self._view(start, stop, positions)
        rows = self._visit(e)[start:stop]
        data: dict[str, Any] = {name: array.take(rows, axis=0) for name, array in self._dense.items()}
        if self._other:
            data |= {name: one.take(rows) for name, one in self._other.items()}
        return Batch(data, rows, positions, self.weight.take(rows))

    def run(self, e: int, i: int, count: int) -> Batch:
        """The rows of whole batches i, ..., i + count - 1 of epoch e in one; places go on through all of them."""
        start, stop = i * self.batch_size, (i + count) * self.batch_size
        rows = self._visit(e)[start:stop] if self._order is not None else self._rows[start:stop]
        data: dict[str, Any] = {name: array.take(rows, axis=0) for name, array in self._dense.items()}
        data |= {name: one.take(rows) for name, one in self._other.items()}
        return Batch(data, rows, np.arange(stop - start), self.weight.take(rows))

    def _view(self, start: int, stop: int, positions: Ints) -> Batch:
        if start == 0 and stop == self.n:
            return Batch({**self._dense, **self._other}, self._rows, positions, self.weight)
        data: dict[str, Any] = {name: array[start:stop] for name, array in self._dense.items()}
        data |= {name: one.take(slice(start, stop)) for name, one in self._other.items()}
        return Batch(data, self._rows[start:stop], positions, self.weight[start:stop])

    def _visit(self, e: int) -> Ints:
        if e != self._epoch:
            noise = self._order.at(e)
            rows = noise.integers(self.n, (self.n,)) if self._replace else noise.order(self.n)
            self._rows, self._epoch = np.asarray(rows, np.int64), e
        return self._rows


class _PaddedPlan(_Cut):
    """`Padded` rows of examples."""

    def __init__(self, layout: Padded, examples: Examples, order: Any, noise: Any) -> None:
        super().__init__(examples, layout.batch_size)
        if layout.buckets < 1:
            raise UserValueError(f"buckets must be at least 1, got {layout.buckets}", "buckets", "1 sorts nothing")
        self.fixed = order is None
        self._order = order
        self._turns = None if order is None or noise is None else noise.child("batches")
        self._dense, self._ragged = _by_kind(examples.fields)
        if not self._ragged:
            raise UserValueError("padded batches need a ragged field", "Padded", "use Rows for arrays")
        self._lengths = sum((one.lengths for one in self._ragged.values()), np.zeros(self.n, np.int64))
        self._stretch = self.batch_size * layout.buckets
        self._epoch = -1
        self._rows, self._batches = np.argsort(self._lengths, kind="stable"), np.arange(self.steps)

    def part(self, e: int, i: int, rank: int, size: int) -> Batch:
        """Arrays as wide as the longest of their own rows."""
        if not 0 <= i < self.steps:
            raise IndexError(f"batch {i} of {self.steps}")
        self._visit(e)
        start, stop, position = self.bounds(int(self._batches[i]), rank, size)
        rows = self._rows[start:stop]
        data: dict[str, Any] = {name: array.take(rows, axis=0) for name, array in self._dense.items()}
        for name, one in self._ragged.items():
            taken = one.take(rows)
            data[name], data[f"{name}_length"] = taken.padded(), taken.lengths
        return Batch(data, rows, self.positions[position : position + stop - start], self.weight.take(rows))

    def _visit(self, e: int) -> None:
        """Settle rows and batches of the epoch."""
        if self._order is None or self._turns is None or e == self._epoch:
            return
        rows = self._order.at(e).order(self.n)
        stretch = np.arange(self.n) // self._stretch
        self._rows = rows[np.lexsort((self._lengths[rows], stretch))]
        self._batches, self._epoch = self._turns.at(e).order(self.steps), e


class _LanePlan:
    """`Lanes` of examples: (width, columns) arrays of the joined tokens and of those after them."""

    def __init__(self, layout: Lanes, examples: Examples, shifts: Any = None) -> None:
        for name, value in (("width", layout.width), ("window", layout.window)):
            if value < 1:
                raise UserValueError(f"{name} must be at least 1, got {value}", name, "give 1 or more")
        self._text, self._token_weight = joined(examples, layout.field)
        pairs = len(self._text) - 1
        self.n = self.batch_size = layout.width
        self.window, self.fixed, self._shifts = layout.window, shifts is None, shifts
        self._shape = (layout.width, -(-pairs // layout.width))
        self.steps = -(-self._shape[1] // layout.window)
        self.total_weight = float(self._token_weight.sum(dtype=np.float64))
        self._lanes, self._epoch = np.arange(layout.width), -1
        self._laid: tuple[NDArray[Any], ...] = ()

    def part(self, e: int, i: int, rank: int, size: int) -> Batch:
        """Views of a process's lanes."""
        if not 0 <= i < self.steps:
            raise IndexError(f"batch {i} of {self.steps}")
        tokens, following, weight = self._lay(e)
        low, high = _share(self.n, rank, size)
        here = (slice(low, high), slice(i * self.window, (i + 1) * self.window))
        lanes = self._lanes[low:high]
        data = {"X": tokens[here], "y": following[here], "begins": np.full(high - low, i == 0)}
        return Batch(data, lanes, lanes, weight[here])

    def _lay(self, e: int) -> tuple[NDArray[Any], ...]:
        """Tokens, the ones after them and their weights, of an epoch."""
        if self._shifts is None:
            e = 0
        if e != self._epoch:
            first = 0
            if self._shifts is not None:
                most = min(self.window, len(self._text) - 1)
                first = int(self._shifts.at(e).integers(most, (1,))[0])
            columns = self.steps * self.window
            parts = self._text[first:-1], self._text[first + 1 :], self._token_weight[first:]
            self._laid, self._epoch = tuple(_lay(one, self._shape, columns) for one in parts), e
        return self._laid


def joined(examples: Examples, field: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """The sequences of a ragged field as one, and the weight of every token but the first."""
    text = examples[field]
    if not isinstance(text, Ragged):
        raise UserValueError(f"lanes need a ragged field, {field} is an array", field, "use Rows")
    if len(text.values) < 2:
        raise UserValueError("a text must have at least 2 tokens", field, "give a longer text")
    return text.values, np.repeat(examples.weight, text.lengths)[1:]


def _lay(values: NDArray[Any], shape: tuple[int, int], columns: int) -> NDArray[Any]:
    """Values in rows, one after the other, each row filled up with 0 to a number of columns."""
    whole = np.zeros(shape[0] * shape[1], values.dtype)
    whole[: len(values)] = values
    laid = np.zeros((shape[0], columns), values.dtype)
    laid[:, : shape[1]] = whole.reshape(shape)
    return laid


class _BlockPlan:
    """`Blocks` of examples."""

    fixed = True

    def __init__(self, layout: Blocks, examples: Examples) -> None:
        text = examples[layout.field]
        if not isinstance(text, Ragged):
            raise UserValueError(f"blocks need a ragged field, {layout.field} is an array", layout.field, "use Rows")
        self.examples, self.n = examples, len(examples)
        self.steps = max(1, -(-len(text.values) // layout.values))
        inner = np.searchsorted(text.offsets, np.arange(1, self.steps) * layout.values)
        self._ends = np.concatenate([[0], inner, [self.n]])
        self.batch_size = int(np.diff(self._ends).max(initial=1))
        self.total_weight = float(examples.weight.sum(dtype=np.float64))

    def part(self, e: int, i: int, rank: int, size: int) -> Batch:
        """Views of a process's examples of the block."""
        if not 0 <= i < self.steps:
            raise IndexError(f"batch {i} of {self.steps}")
        start, stop = int(self._ends[i]), int(self._ends[i + 1])
        low, high = _share(stop - start, rank, size)
        own = self.examples.take(slice(start + low, start + high))
        data = {name: one.values if isinstance(one, Dense) else one for name, one in own.fields.items()}
        return Batch(data, np.arange(start + low, start + high), np.arange(low, high), own.weight)


def _by_kind(fields: Mapping[str, Field]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    dense = {name: one.values for name, one in fields.items() if isinstance(one, Dense)}
    return dense, {name: one for name, one in fields.items() if not isinstance(one, Dense)}
