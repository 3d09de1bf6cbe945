"""What a procedure is given and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnomon.contracts import Batches, Group, Noise
from gnomon.errors import Diverged

__all__ = ["Info", "Problem", "diverged"]


def diverged(quantity: str, value: float, step: int) -> Diverged:
    """The error that ends a fit when a number stopped being finite."""
    return Diverged(
        f"{quantity} became {value}", f"step {step}", "lower the learning rate; the last finite checkpoint is kept"
    )


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
    """

    done: bool = False
    record: dict[str, float] | None = None
    monitored: float = 0.0
