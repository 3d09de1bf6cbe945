"""What a procedure is given and what it answers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from gnomon.contracts import Batches, Group, Noise
from gnomon.errors import Diverged

__all__ = ["Info", "Problem", "compare_losses", "diverged", "refuse_ruin"]

WORSE, RUINED = 2.0, 1e3
"""A loss that ended above so many times the first is told of, and ends the fit as one that diverged."""


def diverged(quantity: str, value: float, step: int) -> Diverged:
    """The error that ends a fit when a number stopped being finite."""
    return Diverged(
        f"{quantity} became {value}", f"step {step}", "lower the learning rate; the last finite checkpoint is kept"
    )


def refuse_ruin(name: str, value: float, largest: float, step: int) -> None:
    """Raise Diverged where a mean ended beyond what means anything."""
    if abs(value) > largest:
        raise Diverged(f"{name} ended at {value:.3g}", f"step {step}", "lower the learning rate")


def compare_losses(name: str, first: float, last: float, step: int, *, tell: bool = True) -> None:
    """Tell of a fit whose loss ended above that before the first update; numbers need not overflow to mean nothing.

    Parameters
    ----------
    name : str
    first, last : float
        NaN where there is none to compare with.
    step : int
    tell : bool, default True
        Whether this process warns.

    Raises
    ------
    Diverged
        It grew a thousandfold.
    """
    growth, scale = last - first, abs(first) or 1.0
    what = f"the loss ({name}) grew from {first:.3g} to {last:.3g}"
    if growth > RUINED * scale:
        raise Diverged(what, f"step {step}", "lower the learning rate")
    if tell and growth > (WORSE - 1) * scale:
        warnings.warn(f"{what}: lower the learning rate", UserWarning, stacklevel=8)


@dataclass(frozen=True)
class Problem:
    """What is to be fitted.

    Parameters
    ----------
    model : object with ``state`` and ``load``
    batches : Batches
        This process's part of the data; counting takes any data its model counts.
    noise : Noise
        The stream of this fit.
    group : Group
    objective : Objective or None
        None for counting, EM and closed forms.
    validation : Batches or None
        This process's part of the rows that judge epochs and do not train.
    """

    model: Any
    batches: Batches | Any
    noise: Noise
    group: Group
    objective: Any = None
    validation: Batches | Any = None


@dataclass(frozen=True, slots=True)
class Info:
    """What a step tells the driver.

    Parameters
    ----------
    done : bool
        This was the last step.
    record : dict or None
        A line of the history; procedures give one per epoch or iteration.
    watched : float
        A number that is not finite as soon as the fit has diverged.
    inside : dict or None
        What a `Monitor` has counted since the last record.
    """

    done: bool = False
    record: dict[str, float] | None = None
    monitored: float = 0.0
    inside: dict[str, Any] | None = None
