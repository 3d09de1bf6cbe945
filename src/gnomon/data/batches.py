"""The examples of a fit in batches, in an order that is a function of seed and epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gnomon.contracts import Group, Noise
from gnomon.data.examples import Examples
from gnomon.data.layouts import Batch, Layout

__all__ = ["Batch", "Batches", "Transform"]

Transform = Callable[[Batch, Noise], Batch]
"""Changes a batch, with the noise of its rows."""


class Batches:
    """Batches of examples.

    A layout says what a batch is and in which order an epoch visits the examples. A process takes a contiguous part of
    every global batch, so the batches are the same for any number of processes. Batch i of epoch e needs no history: a
    fit resumes from a counter.

    Parameters
    ----------
    examples : Examples
    layout : Layout
        `Rows`, `Padded`, `Lanes`, `Blocks`: see `gnomon.data.layouts`.
    noise : Noise, optional
        Where orders and the transform's noise come from; needed where something is drawn.
    transform : callable, optional
        ``transform(batch, noise) -> batch`` changes every batch before it is given out: augmentation. Its noise is
        that of the rows' places in the global batch, ``noise.child("transform")`` at the update.
    group : Group, optional
        The processes to share with; see `shard`.

    Attributes
    ----------
    n : int
        Rows of the data, over all processes.
    steps : int
        Batches of an epoch.
    batch_size : int
        Rows of a global batch.
    total_weight : float
        Sum of the weights over all processes.

    Notes
    -----
    The order of an epoch costs one sort of n words; a batch costs its gather and a few microseconds.

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.data.layouts import Rows
    >>> batches = Batches(Examples({"X": np.arange(10.0).reshape(5, 2)}), Rows(2, shuffle=False))
    >>> [batch.rows.tolist() for batch in batches.epoch(0)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        examples: Examples,
        layout: Layout,
        *,
        noise: Noise | None = None,
        transform: Transform | None = None,
        group: Group | None = None,
    ) -> None:
        if transform is not None and noise is None:
            raise TypeError("a transform needs noise")
        self.examples, self._plan = examples, layout.plan(examples, noise)
        self.n, self.steps, self.batch_size = self._plan.n, self._plan.steps, self._plan.batch_size
        self.total_weight = self._plan.total_weight
        self._transform, self._changes = transform, None if noise is None else noise.child("transform")
        self._rank, self._size = (0, 1) if group is None else (group.rank, group.size)
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
        batch = self._kept(i) if self._plan.fixed else self._plan.part(e, i, self._rank, self._size)
        if self._transform is None or self._changes is None:
            return batch
        return self._transform(batch, self._changes.at(e * self.steps + i).rows(batch.positions))

    def run(self, e: int, i: int, count: int) -> Batch | None:
        """The rows of `count` batches of epoch e from i on, none the last, as one; None where they are not rows.

        Rows that are changed by a transform, or shared with other processes, are given batch by batch only.
        """
        if self._transform is not None or self._size > 1 or not hasattr(self._plan, "run"):
            return None
        return self._plan.run(e, i, count)

    def _kept(self, i: int) -> Batch:
        """Batch i of a plan whose epochs are alike."""
        batch = self._fixed.get(i)
        if batch is None:
            batch = self._fixed[i] = self._plan.part(0, i, self._rank, self._size)
        return batch
