"""Principles that compare a binary row with copies of itself in which units are flipped: log Z cancels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from gnomon.contracts import Group, HasFlips, Noise, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.sparse import in_full, is_sparse
from gnomon.objectives.base import Loss
from gnomon.objectives.contrastive import InClosedForm
from gnomon.objectives.positive import observed_block

__all__ = ["AgainstFlips", "refuse_other_values"]


class AgainstFlips(InClosedForm):
    """Base: the model has `HasFlips`, the rows hold the two values of its observed units."""

    principle: ClassVar[str] = ""
    """How messages name it."""
    by_row = True
    takes_levels: ClassVar[bool] = False
    """Whether units may have more than two values, in one-hot columns."""

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """A model whose rows cannot be compared with flipped ones is refused.

        Raises
        ------
        UserTypeError
            Observed units of other values than the principle takes, or hidden layers that depend on each other.
        """
        units = model.units[observed_block(model)]
        if supports(model, HasFlips) and (self.takes_levels or not hasattr(units, "levels")):
            return
        values = "finitely many" if self.takes_levels else "two"
        what = f"{self.principle} needs observed units of {values} values and hidden layers independent given them"
        raise UserTypeError(what, "objective", "use the objective cd, pcd or exact")

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """See `InClosedForm`."""
        refuse_other_values(model, batch, self.principle)
        return super().forward(model, batch, noise=noise, phase=phase, group=group)


def refuse_other_values(model: Any, batch: Any, principle: str) -> None:
    """Say where a batch holds something else than the two values of the observed units.

    Raises
    ------
    UserValueError
        The first such place.
    """
    low, high = model.units[observed_block(model)].values
    X = batch.data["X"]
    if is_sparse(X) and low == 0 and (X.data == high).all():
        return
    X = in_full(X)
    wrong = ~((low == X) | (high == X))
    if not wrong.any():
        return
    row, column = (int(place[0]) for place in np.nonzero(np.asarray(wrong)))
    what = f"{principle} needs rows of {low:g} and {high:g}, got {float(X[row, column]):g}"
    raise UserValueError(what, f"row {batch.rows[row]}, column {column}", "binarize the data")
