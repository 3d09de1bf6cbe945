"""How many Gibbs steps chains take in the course of a fit: the slot ``growth`` of the objectives that have a k."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch

from gnomon.errors import UserValueError
from gnomon.nn.module import Module
from gnomon.recipes.recipe import Recipe

__all__ = ["FixedSteps", "Growth", "Elapsed", "RisingSteps", "StepTable"]

Unit = Literal["epoch", "update"]


class Growth(Recipe):
    """Base: a whole number of steps at each time, never less than before."""

    grows: ClassVar[bool] = True
    if TYPE_CHECKING:  # without a value it would read as a field
        per: Unit

    def check(self, k: int) -> None:
        """Refuse what does not go with the objective's own k."""

    def at(self, k: int, t: int) -> int:
        """Steps at time t, which counts epochs or updates from 0, of an objective that begins with k."""
        raise NotImplementedError


@dataclass(frozen=True)
class FixedSteps(Growth):
    """k steps throughout."""

    short: ClassVar[str] = "fixed"
    grows: ClassVar[bool] = False

    def at(self, k: int, t: int) -> int:
        """k."""
        return k


@dataclass(frozen=True)
class RisingSteps(Growth):
    """k + by * floor(t / every) steps, at most `largest`: cheap chains first, accurate ones later.

    Parameters
    ----------
    every : int in [1, inf), default 5
        Epochs (updates) of one number of steps.
    by : int in [1, inf), default 1
        Steps that come on top each time.
    largest : int in [1, inf), default 20
        More than this are never taken, but for the k that the objective begins with.
    per : {"epoch", "update"}, default "epoch"
        What t counts.

    Examples
    --------
    >>> [RisingSteps(every=2, by=3, largest=8).at(1, t) for t in range(8)]
    [1, 1, 4, 4, 7, 7, 8, 8]
    """

    short: ClassVar[str] = "rising"
    every: Annotated[int, "[1, inf)"] = 5
    by: Annotated[int, "[1, inf)"] = 1
    largest: Annotated[int, "[1, inf)"] = 20
    per: Literal["epoch", "update"] = "epoch"

    def at(self, k: int, t: int) -> int:
        """k + by * floor(t / every), at most `largest`."""
        return max(k, min(self.largest, k + self.by * (t // self.every)))


@dataclass(frozen=True)
class StepTable(Growth):
    """Steps by a table: the objective's k at first, ``steps[i]`` from ``start[i]`` on.

    Parameters
    ----------
    start : tuple of int in [1, inf), default (10, 20)
        Epochs (updates) at which the number changes, rising.
    steps : tuple of int in [1, inf), default (5, 20)
        The numbers from then on, not falling and none below the objective's k.
    per : {"epoch", "update"}, default "epoch"
        What `start` counts.

    Examples
    --------
    >>> [StepTable(start=(2, 3), steps=(5, 20)).at(1, t) for t in range(5)]
    [1, 1, 5, 20, 20]
    """

    short: ClassVar[str] = "table"
    start: tuple[Annotated[int, "[1, inf)"], ...] = (10, 20)
    steps: tuple[Annotated[int, "[1, inf)"], ...] = (5, 20)
    per: Literal["epoch", "update"] = "epoch"

    def check(self, k: int) -> None:
        """Refuse tables of two lengths, times that do not rise and steps that fall.

        Raises
        ------
        UserValueError
        """
        if len(self.start) != len(self.steps):
            what = f"start and steps must have as many entries, got {len(self.start)} and {len(self.steps)}"
            raise UserValueError(what, "growth", "give one number of steps for each start")
        if any(later <= sooner for sooner, later in pairwise(self.start)):
            raise UserValueError.must("start", "rise", self.start, "growth")
        if any(more < fewer for fewer, more in pairwise((k, *self.steps))):
            raise UserValueError.must("steps", f"not fall, from k = {k} on", self.steps, "growth")

    def at(self, k: int, t: int) -> int:
        """The entry of the table that holds at t."""
        return (k, *self.steps)[sum(t >= start for start in self.start)]


class Elapsed(Module):
    """How far a fit has come, as buffers: a fit that is resumed, or goes on with another chunk, counts on."""

    epochs: torch.Tensor
    updates: torch.Tensor
    within: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("epochs", "updates", "within"):
            self.register_buffer(name, torch.zeros(1, dtype=torch.int64))
        self.steps = 1

    def begin(self, batches: Any) -> None:
        """Take note of how many updates an epoch has."""
        self.steps = int(batches.steps)

    def time(self, per: Unit) -> int:
        """Epochs or updates that have been completed."""
        return int(self.epochs if per == "epoch" else self.updates)

    def advance(self) -> None:
        """One update more."""
        self.updates += 1
        self.within += 1
        if int(self.within) >= self.steps:
            self.epochs += 1
            self.within.zero_()
