"""Windows of a text in random order: each is read without what stood before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Noise
from gnomon.data.examples import Examples
from gnomon.data.layouts import Batch, Plan, joined
from gnomon.errors import UserValueError

__all__ = ["Windows"]


@dataclass(frozen=True)
class Windows:
    """All sequences joined into one and cut into windows, which an epoch visits in an order of its own.

    An epoch begins at a random token s < window, so that windows begin elsewhere in every epoch, and cuts the S tokens
    into (S - s - 1) // window windows (each needs one token more for what comes after its last). A batch gives ``X``,
    the tokens (rows, window), ``y``, the token after each, the weight of each of these, and ``begins``: True, since no
    state carries over. Windows that fill no batch are left out of the epoch, which has as many batches as every start
    leaves room for.

    Parameters
    ----------
    batch_size : int >= 1
        Windows of a global batch.
    window : int >= 1
        Tokens of a window; a text of fewer makes one window.
    field : str, default "X"
        The ragged field that is read.
    shuffle : bool, default True
        Without it the windows come in order from the first token on, the last one filled up with tokens of weight 0.
    """

    batch_size: int
    window: int
    field: str = "X"
    shuffle: bool = True

    def plan(self, examples: Examples, noise: Noise | None) -> Plan:
        """The windows; start and order come from ``noise.child("start")`` and ``noise.child("order")`` at the epoch."""
        if self.shuffle and noise is None:
            raise TypeError("windows in random order need noise")
        return _WindowPlan(self, examples, noise if self.shuffle else None)

    def in_order(self, rows: int) -> Windows:
        """Every window, from the first token on."""
        return Windows(self.batch_size, self.window, self.field, shuffle=False)


class _WindowPlan:
    """`Windows` of examples."""

    def __init__(self, layout: Windows, examples: Examples, noise: Noise | None) -> None:
        for name, value in (("batch_size", layout.batch_size), ("window", layout.window)):
            if value < 1:
                raise UserValueError(f"{name} must be at least 1, got {value}", name, "give 1 or more")
        self._text, self._weight = joined(examples, layout.field)
        pairs = len(self._text) - 1
        self.window, self.fixed, self._noise = min(layout.window, pairs), noise is None, noise
        # what every start leaves room for, and the starts that do
        self.n = max(1, (pairs - self.window + 1) // self.window) if noise is not None else -(-pairs // self.window)
        self._starts = min(self.window, pairs - self.n * self.window + 1)
        self.batch_size = min(layout.batch_size, self.n)
        self.steps = self.n // self.batch_size if noise is not None else -(-self.n // self.batch_size)
        self.total_weight = float(self._weight.sum(dtype=np.float64))
        self._epoch, self._first = -1, np.arange(self.n) * self.window

    def part(self, e: int, i: int, rank: int, size: int) -> Batch:
        """Copies of a process's windows."""
        if not 0 <= i < self.steps:
            raise IndexError(f"batch {i} of {self.steps}")
        self._visit(e)
        begin = i * self.batch_size
        m = min(self.batch_size, self.n - begin)
        positions = np.arange(rank * m // size, (rank + 1) * m // size)
        first = self._first[begin + positions]
        index = first[:, None] + np.arange(self.window)
        inside = index < len(self._weight)
        index = np.minimum(index, len(self._weight) - 1)
        data: dict[str, NDArray[Any]] = {
            "X": self._text[index], "y": self._text[index + 1], "begins": np.ones(len(first), np.bool_),
        }  # fmt: skip
        return Batch(data, first // self.window, positions, self._weight[index] * inside)

    def _visit(self, e: int) -> None:
        """Settle start and order of the epoch."""
        if self._noise is None or e == self._epoch:
            return
        start = int(self._noise.child("start").at(e).integers(self._starts, (1,))[0])
        count = (len(self._weight) - start) // self.window
        order = self._noise.child("order").at(e).order(count)
        self._first, self._epoch = start + np.asarray(order, np.int64) * self.window, e
