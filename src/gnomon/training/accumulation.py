"""Batches that are computed piece by piece, their gradients summed before the update."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from gnomon.contracts import Group
from gnomon.data.layouts import Batch
from gnomon.errors import UserValueError
from gnomon.training.context import current

__all__ = ["check_pieces", "pieces"]


def pieces(batch: Batch, size: int, group: Group) -> list[Batch]:
    """This process's rows of a batch in pieces of at most `size` rows, which differ by one row at most.

    Every process has as many pieces, so that they meet in the sums of layers; some may be empty.

    Examples
    --------
    >>> from gnomon.training.group import Group
    >>> rows = np.arange(5)
    >>> [part.rows.tolist() for part in pieces(Batch({"X": rows}, rows, rows, np.ones(5)), 2, Group())]
    [[0], [1, 2], [3, 4]]
    """
    longest = int(group.gather(np.array([len(batch)])).max())
    count = max(1, -(-longest // size))
    ends = [len(batch) * i // count for i in range(count + 1)]
    return [batch.part(slice(a, b)) for a, b in pairwise(ends)]


def check_pieces(objective: Any) -> None:
    """Refuse a loss that needs whole batches where the context asks for pieces.

    Raises
    ------
    UserValueError
    """
    if current().micro_batch is None or objective.additive:
        return
    what = "micro_batch must be None where the loss needs whole batches, as that of this fit does"
    raise UserValueError(what, "micro_batch", "leave it out, or choose a smaller batch_size")
