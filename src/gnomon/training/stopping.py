"""When a fit ends before its last epoch, and which epoch's weights it keeps: the slot ``early_stopping``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.recipes.recipe import Recipe

__all__ = ["EarlyStopping", "Off", "Refit", "Stopping", "Watch", "held_out"]


@dataclass(frozen=True)
class Stopping(Recipe):
    """Base of the recipes of the slot ``early_stopping``."""

    refits: ClassVar[bool] = False
    """Whether the fit begins anew with all rows once the best number of epochs is known."""

    @property
    def share(self) -> float:
        """Fraction of the training rows to hold out where no validation rows are given."""
        return 0.0

    def build(self) -> Watch | None:
        """What a fit keeps of it; None watches nothing."""
        return None


@dataclass(frozen=True)
class Off(Stopping):
    """All epochs are run, and the last weights kept."""

    short: ClassVar[str] = "off"


@dataclass(frozen=True)
class EarlyStopping(Stopping):
    """End when the loss on validation rows has stopped falling, and keep the weights of its best epoch.

    The best weights are kept however the fit ends. The validation rows are those of ``fit(..., validation=(X, y))``,
    else a share of the training rows, which then do not train: of every class about the same share, its last row never.

    Parameters
    ----------
    patience : int in [1, inf), default 10
        Epochs in a row without improvement that end the fit.
    min_delta : float in [0, inf), default 0
        An epoch has improved when its loss is below the last improvement's by more than this. The weights kept are
        those of the lowest loss, however small its lead.
    fraction : float in (0, 1), default 0.1
        Fraction of the training rows to hold out.
    """

    short: ClassVar[str] = "patience"
    patience: Annotated[int, "[1, inf)"] = 10
    min_delta: Annotated[float, "[0, inf)"] = 0.0
    fraction: Annotated[float, "(0, 1)"] = 0.1

    @property
    def share(self) -> float:
        """The fraction."""
        return self.fraction

    def build(self) -> Watch:
        """What a fit keeps of it."""
        return Watch(self.patience, self.min_delta)


@dataclass(frozen=True)
class Refit(EarlyStopping):
    """Find the best number of epochs on rows held out, then fit again to all rows for that many epochs.

    The second fit begins with the first weights of the same seed, and its learning rate goes the same way. So no row is
    lost to the weights that are kept; but nothing has judged these. Source: Goodfellow, Bengio and Courville (2016),
    algorithm 7.2.
    """

    short: ClassVar[str] = "refit"
    refits: ClassVar[bool] = True


class Watch:
    """The losses seen so far, and the weights of the lowest.

    Parameters
    ----------
    patience : int
    min_delta : float

    Attributes
    ----------
    epoch : int
        The best epoch, counted from 1.
    best : float
        Its loss.
    arrays : dict of str to array
        Its weights.

    Examples
    --------
    >>> watch = Watch(patience=2)
    >>> [watch.update(loss, {}) for loss in (3.0, 2.0, 1.0, 2.0, 3.0)], watch.epoch
    ([False, False, False, False, True], 3)
    """

    def __init__(self, patience: int, min_delta: float = 0.0) -> None:
        self.patience, self.min_delta = patience, min_delta
        self.best = self.reference = math.inf
        self.seen = self.epoch = self.bad = 0
        self.arrays: dict[str, NDArray[Any]] = {}

    def update(self, loss: float, arrays: Mapping[str, Array]) -> bool:
        """Take note of an epoch's loss and copy the weights if it is the best; whether to stop.

        Raises
        ------
        ValueError
            The loss is no finite number: that is never an improvement.
        """
        if not math.isfinite(loss):
            raise ValueError(f"a loss of {loss}")
        self.seen += 1
        if loss < self.best:
            self.best, self.epoch = loss, self.seen
            self.arrays = {name: np.array(value) for name, value in arrays.items()}
        if loss < self.reference - self.min_delta:
            self.reference, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience

    def state(self) -> dict[str, Any]:
        """What `load` goes on from, besides the weights, as JSON values."""
        return {name: getattr(self, name) for name in ("best", "reference", "seen", "epoch", "bad")}

    def load(self, state: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Take over what `state` gave, and the weights."""
        for name in ("best", "reference", "seen", "epoch", "bad"):
            setattr(self, name, state[name])
        self.arrays = {name: np.array(value) for name, value in arrays.items()}


def held_out(n: int, share: float, noise: Noise, codes: Any = None, weight: Any = None) -> NDArray[np.bool_]:
    """Which of n rows judge the epochs instead of training: ``round(share * n)`` of them, at least one.

    Parameters
    ----------
    n : int
    share : float in (0, 1)
    noise : Noise
        Where the choice comes from; it does not depend on the number of processes.
    codes : int array of shape (n,), optional
        Classes: each gives about the same share, and keeps at least one row for training.
    weight : array of shape (n,), optional
        Rows of weight 0 are not chosen, as they would judge nothing.

    Returns
    -------
    bool array of shape (n,)

    Raises
    ------
    UserValueError
        Too few rows to leave some for both.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> int(held_out(20, 0.25, Noise(0, "held out")).sum())
    5
    """
    order = np.asarray(noise.order(n))
    if weight is not None:
        order = order[np.asarray(weight)[order] > 0]
    if codes is None:
        free = order[1:]
    else:
        order = order[np.argsort(np.asarray(codes)[order], kind="stable")]
        first = np.unique(np.asarray(codes)[order], return_index=True)[1]
        free = np.delete(order, first)
    if not len(free):
        raise UserValueError(
            f"{n} rows are too few to hold some out", "early_stopping", "give validation rows, or early_stopping='off'"
        )
    m = min(len(free), max(1, round(share * n)))
    chosen = np.zeros(n, bool)
    chosen[free[(2 * np.arange(m) + 1) * len(free) // (2 * m)]] = True
    return chosen
