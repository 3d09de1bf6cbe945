"""Two principles one after the other: a cheap one to begin with, an accurate one from where that has led."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch

from gnomon.contracts import Group, Noise
from gnomon.objectives.around import renamed
from gnomon.objectives.base import Loss, Objective
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.growth import Elapsed, Unit
from gnomon.recipes.recipe import Recipe

__all__ = ["WarmStart"]


@dataclass(frozen=True)
class WarmStart(EnergyObjective):
    """Train by one principle for so long, and then by another: contrastive divergence first, accurate chains later.

    Chains that persist begin without knowing the machine; where the second principle has some they walk `settle` sweeps
    under the machine that the first one has made, before they are looked at.

    Parameters
    ----------
    first : objective, default "cd"
        The principle of the first part.
    then : objective, default "pcd"
        That of the rest.
    after : int in [1, inf), default 10
        Epochs (updates) of the first part.
    per : {"epoch", "update"}, default "epoch"
        What `after` counts.
    settle : int in [0, inf), default 100
        Gibbs sweeps of the second principle's persistent chains at the change.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), "Deep learning", section 18.2.

    Examples
    --------
    >>> import numpy as np
    >>> import gnomon
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    >>> objective = WarmStart("cd", "exact", after=40)
    >>> rbm = gnomon.RBM(n_hidden=4, objective=objective, epochs=60, learning_rate=0.2, random_state=0).fit(X)
    >>> len(rbm.history_["energy_gap"]), len(rbm.history_["negative_log_likelihood"])
    (40, 20)
    """

    short: ClassVar[str] = "warm-start"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"first": EnergyObjective, "then": EnergyObjective}
    first: str | Recipe = "cd"
    then: str | Recipe = "pcd"
    after: Annotated[int, "[1, inf)"] = 10
    per: Literal["epoch", "update"] = "epoch"
    settle: Annotated[int, "[0, inf)"] = 100

    @property
    def deep(self) -> bool:
        """Where both are."""
        return bool(self.recipe("first").deep and self.recipe("then").deep)

    @property
    def recognizes(self) -> bool:
        """Where either does."""
        return bool(self.recipe("first").recognizes or self.recipe("then").recognizes)

    def build(self) -> Objective:
        """The objective."""
        first, then = (self.recipe(name).build() for name in ("first", "then"))
        return FirstThen(first, then, self.after, self.per, self.settle)


class FirstThen(Objective):
    """One objective up to a time, another from then on."""

    descends: ClassVar[bool] = False
    settled: torch.Tensor

    def __init__(self, first: Objective, then: Objective, after: int, per: Unit, sweeps: int) -> None:
        super().__init__()
        self.first, self.then, self.elapsed = first, then, Elapsed()
        self.after, self.per, self.sweeps = after, per, sweeps
        self.register_buffer("settled", torch.zeros(1, dtype=torch.int64))

    @property
    def largest(self) -> float:  # type: ignore[override]
        """That of the part that allows more."""
        return max(self.first.largest, self.then.largest)

    @property
    def compares_means(self) -> bool:
        """Where both parts do."""
        return all(getattr(part, "compares_means", False) for part in (self.first, self.then))

    @property
    def name(self) -> str:
        """Which part it is time for."""
        return "first" if self.elapsed.time(self.per) < self.after else "then"

    @property
    def part(self) -> Objective:
        """The part of that name."""
        return self.first if self.name == "first" else self.then

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin both parts."""
        self.elapsed.begin(batches)
        self.first.begin(model, batches, noise, group)
        self.then.begin(model, batches, noise.child("then"), group)
        parts = (("first", self.first), ("then", self.then))
        self.sharded = tuple(f"{name}.{buffer}" for name, part in parts for buffer in part.sharded)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of the part that it is time for."""
        name = self.name
        if name == "then" and not int(self.settled):
            self.settled.fill_(1)
            with torch.no_grad():
                self.then.settle(model, noise.child("settle"), self.sweeps)
        loss = renamed(name, self.part(model, batch, noise=noise, phase=phase, group=group))
        self.elapsed.advance()
        return Loss(loss.terms, loss.gradients, loss.per, loss.watched)

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """As of the part that it is time for."""
        return self.part.validate(model, batch, noise=noise, group=group)
