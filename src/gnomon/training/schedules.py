"""How the learning rate changes during a fit: the slot ``schedule``.

A schedule says by what factor the system's learning rate is multiplied at time t, which counts epochs, or updates where
``per="update"``, from 0. Floors are factors too: ``Linear(floor=0.01)`` ends at a hundredth of the learning rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from gnomon.numeric.averages import check_robbins_monro, robbins_monro
from gnomon.recipes.recipe import Recipe

__all__ = [
    "Constant", "Cosine", "Exponential", "InverseTime", "Linear", "Plateau", "Polynomial", "RobbinsMonro", "Schedule",
    "Step", "WarmupLinear",
]  # fmt: skip


@dataclass(frozen=True)
class Schedule(Recipe):
    """Base of the recipes of the slot ``schedule``.

    Parameters
    ----------
    per : {"epoch", "update"}, default "epoch"
        What t counts.
    warmup : int in [0, inf), default 0
        So many epochs (updates) come before, in which the factor rises in equal steps: (t + 1) / (warmup + 1).
    """

    per: Literal["epoch", "update"] = "epoch"
    warmup: Annotated[int, "[0, inf)"] = 0

    @property
    def counts_down(self) -> bool:
        """Whether the factors depend on how long the whole fit is."""
        return False

    def at(self, t: int, total: int) -> float:
        """The factor at time t of `total`, after the warm-up.

        Parameters
        ----------
        t : int >= 0
        total : int >= 1
            Epochs (updates) of the whole fit, less the warm-up.
        """
        raise NotImplementedError

    def factor(self, t: int, total: int) -> float:
        """The factor at time t of `total`, warm-up included.

        Examples
        --------
        >>> [Linear(floor=0.0, warmup=1).factor(t, 5) for t in range(5)]
        [0.5, 1.0, 0.75, 0.5, 0.25]
        """
        if t < self.warmup:
            return (t + 1) / (self.warmup + 1)
        return self.at(t - self.warmup, max(1, total - self.warmup))

    def build(self) -> Clock:
        """What a fit keeps of it."""
        return Clock(self)


class Clock:
    """A schedule within a fit; only one that looks at the loss has something to remember.

    Parameters
    ----------
    schedule : Schedule
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def factor(self, epoch: int, epochs: int, update: int, updates: int) -> float:
        """The factor of this update of this epoch."""
        if self.schedule.per == "update":
            return self.schedule.factor(update, updates)
        return self.schedule.factor(epoch, epochs)

    def observe(self, loss: float) -> None:
        """Take note of an epoch's loss: on the validation rows where there are any, else on the training rows."""

    def state(self) -> dict[str, Any]:
        """What `load` goes on from, as JSON values."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The learning rate as it is: factor 1."""

    short: ClassVar[str] = "constant"

    def at(self, t: int, total: int) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class InverseTime(Schedule):
    """Factor 1 / (1 + rate * t): the sum over t diverges and that of its square does not (Robbins and Monro 1951).

    Parameters
    ----------
    rate : float in [0, inf), default 0.1
        How fast it falls: to a half at t = 1 / rate.
    """

    short: ClassVar[str] = "inverse-time"
    rate: Annotated[float, "[0, inf)"] = 0.1

    def at(self, t: int, total: int) -> float:
        """1 / (1 + rate * t)."""
        return 1.0 / (1.0 + self.rate * t)


@dataclass(frozen=True)
class RobbinsMonro(Schedule):
    """Factor (t + 1 + tau)^-kappa, whose sum diverges and that of whose squares does not (Robbins and Monro 1951).

    Called with a time counted from 1, as texts count, it answers (t + tau)^-kappa.

    Parameters
    ----------
    tau : float in [0, inf), default 1
        Delay: larger ones make the first steps shorter.
    kappa : float in (0, inf), default 0.7
        How fast the steps fall; a warning outside (0.5, 1].

    Examples
    --------
    >>> [RobbinsMonro(tau=0.0, kappa=1.0)(t) for t in (1, 2, 4)]
    [1.0, 0.5, 0.25]
    """

    short: ClassVar[str] = "robbins-monro"
    tau: Annotated[float, "[0, inf)"] = 1.0
    kappa: Annotated[float, "(0, inf)"] = 0.7

    def __post_init__(self) -> None:
        check_robbins_monro(self.kappa)

    def __call__(self, t: int) -> float:
        """The step at time t >= 1."""
        return robbins_monro(t, self.tau, self.kappa)

    def at(self, t: int, total: int) -> float:
        """(t + 1 + tau)^-kappa."""
        return self(t + 1)


@dataclass(frozen=True)
class Exponential(Schedule):
    """Factor gamma^t.

    Parameters
    ----------
    gamma : float in (0, 1], default 0.95
        Factor from one epoch (update) to the next.
    """

    short: ClassVar[str] = "exponential"
    gamma: Annotated[float, "(0, 1]"] = 0.95

    def at(self, t: int, total: int) -> float:
        """gamma^t."""
        return float(self.gamma**t)


@dataclass(frozen=True)
class Step(Schedule):
    """Factor gamma^floor(t / every): a constant rate that falls now and then.

    Parameters
    ----------
    every : int in [1, inf), default 30
        Epochs (updates) of one rate.
    gamma : float in (0, 1], default 0.1
        Factor from one rate to the next.
    """

    short: ClassVar[str] = "step"
    every: Annotated[int, "[1, inf)"] = 30
    gamma: Annotated[float, "(0, 1]"] = 0.1

    def at(self, t: int, total: int) -> float:
        """gamma^floor(t / every)."""
        return float(self.gamma ** (t // self.every))


@dataclass(frozen=True)
class _Descending(Schedule):
    """From 1 to a floor over a stretch of time, constant thereafter.

    Parameters
    ----------
    floor : float in [0, 1], default 0
        The last factor.
    length : int in [1, inf) or None, default None
        Epochs (updates) until the floor is reached; None takes the whole fit.
    """

    floor: Annotated[float, "[0, 1]"] = 0.0
    length: Annotated[int, "[1, inf)"] | None = None

    @property
    def counts_down(self) -> bool:
        """Without a length of its own."""
        return self.length is None

    def at(self, t: int, total: int) -> float:
        """floor + (1 - floor) * (what is left)."""
        return self.floor + (1.0 - self.floor) * self._left(min(1.0, t / (self.length or total)))

    def _left(self, progress: float) -> float:
        """From 1 at progress 0 to 0 at progress 1."""
        raise NotImplementedError


@dataclass(frozen=True)
class Linear(_Descending):
    """Straight from 1 to the floor, then constant (Goodfellow, Bengio and Courville 2016, section 8.3.1).

    Examples
    --------
    >>> round(0.1 * Linear(floor=0.01, length=10).factor(5, 100), 6)
    0.0505
    """

    short: ClassVar[str] = "linear"

    def _left(self, progress: float) -> float:
        return 1.0 - progress


@dataclass(frozen=True)
class WarmupLinear(_Descending):
    """From 0 straight up to 1, then straight down to the floor at the end (Devlin and others 2019).

    With the floor 0 it is ``get_linear_schedule_with_warmup`` of the package transformers: the rate at time 0 is 0.

    Parameters
    ----------
    per : {"epoch", "update"}, default "update"
        What t counts.
    warmup : int in [0, inf), default 0
        Updates (epochs) in which the rate rises; 0 takes `rise`.
    rise : float in [0, 1], default 0.1
        Fraction of the whole in which the rate rises, rounded up, where `warmup` is 0.

    Examples
    --------
    >>> schedule = WarmupLinear(warmup=100)
    >>> [schedule.factor(t, 1000) for t in (0, 50, 100, 550, 1000, 1200)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    """

    short: ClassVar[str] = "warmup-linear"
    per: Literal["epoch", "update"] = "update"
    rise: Annotated[float, "[0, 1]"] = 0.1

    def factor(self, t: int, total: int) -> float:
        """t / W until the time W, from then on the floor and what is left of the time above it."""
        whole = self.length or total
        rising = self.warmup or math.ceil(self.rise * whole)
        if t < rising:
            return t / rising
        left = max(0, whole - t) / max(1, whole - rising)
        return self.floor + (1.0 - self.floor) * self._left(1.0 - left)

    def _left(self, progress: float) -> float:
        return 1.0 - progress


@dataclass(frozen=True)
class Polynomial(_Descending):
    """From 1 to the floor as (1 - t / length)^power.

    Parameters
    ----------
    power : float in (0, inf), default 2
        1 is a straight line.
    """

    short: ClassVar[str] = "polynomial"
    power: Annotated[float, "(0, inf)"] = 2.0

    def _left(self, progress: float) -> float:
        return float((1.0 - progress) ** self.power)


@dataclass(frozen=True)
class Cosine(_Descending):
    """From 1 to the floor as (1 + cos(pi t / length)) / 2 (Loshchilov and Hutter 2017, without restarts)."""

    short: ClassVar[str] = "cosine"

    def _left(self, progress: float) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * progress))


@dataclass(frozen=True)
class Plateau(Schedule):
    """Multiply the rate by a factor each time the loss has not improved for some epochs.

    The loss is that of the validation rows where there are any, else that of the training rows.

    Parameters
    ----------
    shrink : float in (0, 1), default 0.5
        The factor.
    patience : int in [1, inf), default 5
        Epochs without improvement before it acts; torch's ``ReduceLROnPlateau(patience=k)`` waits for k + 1.
    min_delta : float in [0, inf), default 1e-4
        An epoch has improved when its loss is below the best by more than this.
    cooldown : int in [0, inf), default 0
        Epochs after a cut that are not counted.
    floor : float in [0, 1], default 0
        The smallest factor.
    """

    short: ClassVar[str] = "plateau"
    shrink: Annotated[float, "(0, 1)"] = 0.5
    patience: Annotated[int, "[1, inf)"] = 5
    min_delta: Annotated[float, "[0, inf)"] = 1e-4
    cooldown: Annotated[int, "[0, inf)"] = 0
    floor: Annotated[float, "[0, 1]"] = 0.0

    def at(self, t: int, total: int) -> float:
        """1: time alone changes nothing."""
        return 1.0

    def build(self) -> Clock:
        """What a fit keeps of it."""
        return _Plateau(self)


class _Plateau(Clock):
    schedule: Plateau

    def __init__(self, schedule: Plateau) -> None:
        super().__init__(schedule)
        self.best, self.bad, self.rest, self.cut = math.inf, 0, 0, 1.0

    def factor(self, epoch: int, epochs: int, update: int, updates: int) -> float:
        return self.cut * super().factor(epoch, epochs, update, updates)

    def observe(self, loss: float) -> None:
        improved = loss < self.best - self.schedule.min_delta
        self.bad = 0 if improved else self.bad + 1
        if improved:
            self.best = loss
        if self.rest:
            self.rest, self.bad = self.rest - 1, 0
        if self.bad >= self.schedule.patience:
            self.cut = max(self.schedule.floor, self.cut * self.schedule.shrink)
            self.bad, self.rest = 0, self.schedule.cooldown

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "bad": self.bad, "rest": self.rest, "cut": self.cut}

    def load(self, state: Mapping[str, Any]) -> None:
        self.best, self.bad, self.rest, self.cut = (state[name] for name in ("best", "bad", "rest", "cut"))
