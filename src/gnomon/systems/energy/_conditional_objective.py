"""What a machine given conditions is trained by: any principle that looks at states beside rows of the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gnomon.contracts import Group, Noise
from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.objectives.around import Around
from gnomon.objectives.base import Loss, Objective

__all__ = ["GivenConditions"]


class GivenConditions(Around):
    """An energy objective of the rows ``y`` of a batch, the machine being given its rows ``X``, in both phases.

    Parameters
    ----------
    inner : Objective
    """

    def __init__(self, inner: Objective) -> None:
        super().__init__(inner)
        if not inner.by_row:
            what = "each row has a distribution of its own here, and this objective has states that belong to no row"
            raise UserTypeError(what, "objective", "use cd, mcmc, exact, pseudolikelihood or ratio_matching")
        if getattr(inner, "n_chains", None) is not None:
            raise UserValueError("n_chains must be left out: each row has a chain of its own here", "objective")

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin the inner one with the rows that it compares."""
        super().begin(model, _Outcomes(batches), noise, group)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch, as sums."""
        given = model.given(model.place(batch.data["X"]))
        loss: Loss = self.inner(given, outcomes_of(batch), noise=noise, phase=phase, group=group)
        return loss

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """As of the inner one."""
        given = model.given(model.place(batch.data["X"]))
        return self.inner.validate(given, outcomes_of(batch), noise=noise, group=group)


def outcomes_of(batch: Any) -> Batch:
    """The batch with what is conditioned on left out."""
    return Batch({"X": batch.data["y"]}, batch.rows, batch.positions, batch.weight)


class _Outcomes:
    """The batches of a fit as an objective of their outcomes sees them."""

    def __init__(self, batches: Any) -> None:
        self.batches, self.batch_size, self.steps = batches, batches.batch_size, batches.steps

    def epoch(self, number: int) -> Iterator[Batch]:
        """Batch by batch."""
        return (outcomes_of(batch) for batch in self.batches.epoch(number))
