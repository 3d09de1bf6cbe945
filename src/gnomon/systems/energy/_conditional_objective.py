"""What a machine given conditions is trained by: any principle that looks at states beside rows of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gnomon.contracts import Group, Noise
from gnomon.data.batches import Batch
from gnomon.errors import UserTypeError, UserValueError
from gnomon.objectives.around import Around
from gnomon.objectives.base import Loss, Objective

__all__ = ["GivenConditions", "Outcomes", "outcomes_of"]


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
            raise UserTypeError(
                what, "objective", "use cd, cd-percloss, mcmc, exact, pseudolikelihood or ratio_matching"
            )
        if getattr(inner, "n_chains", None) is not None:
            raise UserValueError("n_chains must be left out: each row has a chain of its own here", "objective")

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin the inner one with the rows that it compares."""
        super().begin(model, Outcomes(batches, outcomes_of), noise, group)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch, as sums."""
        machine, rows = self.given(model, batch)
        loss: Loss = self.inner(machine, rows, noise=noise, phase=phase, group=group)
        return loss

    def given(self, model: Any, batch: Any) -> tuple[Any, Batch]:
        """The machine under the conditions of a batch, and the rows that it is a machine of."""
        return model.given(model.place(batch.data["X"])), outcomes_of(batch)

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """As of the inner one."""
        machine, rows = self.given(model, batch)
        return self.inner.validate(machine, rows, noise=noise, group=group)


def outcomes_of(batch: Any) -> Batch:
    """The batch with what is conditioned on left out."""
    return Batch({"X": batch.data["y"]}, batch.rows, batch.positions, batch.weight)


class Outcomes:
    """The batches of a fit as an objective of their outcomes sees them."""

    def __init__(self, batches: Any, of: Callable[[Any], Batch]) -> None:
        self.batches, self.of, self.batch_size, self.steps = batches, of, batches.batch_size, batches.steps

    def epoch(self, number: int) -> Iterator[Batch]:
        """Batch by batch."""
        return (self.of(batch) for batch in self.batches.epoch(number))
