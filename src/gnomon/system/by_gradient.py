"""Systems that learn by gradient and can be told everything about it."""

from __future__ import annotations

from typing import Any

from gnomon.contracts import Procedure
from gnomon.system.base import System
from gnomon.system.fields import TrainedByGradient
from gnomon.training.gradient import Budget, Gradient

__all__ = ["ByGradient"]


class ByGradient(TrainedByGradient, System):
    """Base of the networks: gradient descent with the hyper-parameters of `TrainedByGradient`."""

    def procedure(self, examples: Any) -> Procedure:
        return Gradient(
            self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates),
            schedule=self.recipe("schedule"), stopping=self.recipe("early_stopping"), clip=self.clip,
        )  # fmt: skip

    @property
    def best_epoch_(self) -> int:
        """The epoch whose weights are kept, counted from 1: the last one where nothing was watched."""
        history = self.history_
        return int(history["best_epoch" if "best_epoch" in history else "epoch"][-1])
