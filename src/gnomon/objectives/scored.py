"""Principles that compare scores, the gradients of log p by the row: only real rows have them, and log Z is gone."""

from __future__ import annotations

from typing import Any, ClassVar

from gnomon.contracts import Group, Noise
from gnomon.distributions.units import GaussianUnits
from gnomon.errors import UserTypeError
from gnomon.inference.blocks import smallest_keep
from gnomon.objectives.closed_form import InClosedForm
from gnomon.objectives.positive import observed_block

__all__ = ["ByScores", "refuse_without_scores"]


class ByScores(InClosedForm):
    """Base: the observed units are real numbers, and the hidden layers are summed out in closed form."""

    principle: ClassVar[str] = ""
    """How messages name it."""

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """A model whose rows have no score, or one that is known only as a bound, is refused.

        Raises
        ------
        UserTypeError
            Observed units that are not real numbers on the whole line, or hidden layers that depend on each other.
        """
        refuse_without_scores(model, self.principle)


def refuse_without_scores(model: Any, principle: str) -> None:
    """Refuse a model whose rows have no slope, or whose hidden layers are not summed out in closed form.

    Parameters
    ----------
    model : HasUnits, HasMarginalEnergy
    principle : str
        Who asks, for the message.

    Raises
    ------
    UserTypeError
    """
    data = observed_block(model)
    units = model.units[data]
    if not isinstance(units, GaussianUnits):
        what = f"{principle} needs observed units that are real numbers, got {type(units).__name__}"
        remedy = "other rows have no gradient: use ratio_matching for bits, cd or pcd with Gibbs sweeps for any units"
        raise UserTypeError(what, "objective", remedy)
    if smallest_keep(model, (data,)) != (data,):
        what = f"{principle} needs hidden layers that are independent given the observed one"
        remedy = "they are summed out exactly: use the objective cd, pcd or exact, with Gibbs sweeps"
        raise UserTypeError(what, "objective", remedy)
