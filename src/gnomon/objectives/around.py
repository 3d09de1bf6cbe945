"""Objectives made of others: their names, buffers and parameters under the name of the part."""

from __future__ import annotations

from typing import Any

from gnomon.contracts import Group, Noise
from gnomon.objectives.base import Loss, Objective

__all__ = ["Around", "renamed"]

OWN = "objective/"
"""What the names of an objective's own parameters begin with in the gradients."""


def renamed(part: str, loss: Loss) -> Loss:
    """The loss of a part with the gradients of its own parameters by their names in the whole."""
    gradients = {
        f"{OWN}{part}.{name.removeprefix(OWN)}" if name.startswith(OWN) else name: value
        for name, value in (loss.gradients or {}).items()
    }
    return Loss(loss.terms, gradients, loss.per, loss.watch)


class Around(Objective):
    """An objective that changes what another one answers.

    Parameters
    ----------
    inner : Objective
        With gradients in closed form.
    """

    def __init__(self, inner: Objective) -> None:
        super().__init__()
        self.inner = inner

    @property
    def descends(self) -> bool:  # type: ignore[override]
        """As of the inner one."""
        return self.inner.descends

    @property
    def largest(self) -> float:  # type: ignore[override]
        """As of the inner one."""
        return self.inner.largest

    def settle(self, model: Any, noise: Noise, steps: int) -> None:
        """As of the inner one."""
        self.inner.settle(model, noise, steps)

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin the inner one."""
        self.inner.begin(model, batches, noise, group)
        self.sharded = tuple(f"inner.{name}" for name in self.inner.sharded)

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """As of the inner one."""
        return self.inner.validate(model, batch, noise=noise, group=group)
