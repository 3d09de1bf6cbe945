"""Systems that learn by gradient and can be told everything about it."""

from __future__ import annotations

from typing import Any

from gnomon.contracts import Procedure
from gnomon.system.base import System
from gnomon.system.fields import TrainedByGradient
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.procedure import Problem
from gnomon.training.stages import Ends, Stages
from gnomon.training.stopping import Off, Stopping

__all__ = ["ByGradient"]


class ByGradient(TrainedByGradient, System):
    """Base of the networks: gradient descent with the hyper-parameters of `TrainedByGradient`."""

    def procedure(self, examples: Any) -> Procedure:
        stopping = self.recipe("early_stopping")
        if not stopping.refits:
            return self.descent(stopping)

        def again(ends: Ends) -> Procedure:
            return self.descent(Off(), last_epoch=int(ends["search"]["best_epoch"]))

        return Stages([("search", self.descent(stopping), None), ("refit", again, self._anew)])

    def descent(self, stopping: Stopping, last_epoch: int | None = None) -> Gradient:
        """Gradient descent that ends in this way."""
        return Gradient(
            self.recipe("optimizer"), self.learning_rate, Budget.of(self.epochs, self.max_updates),
            schedule=self.recipe("schedule"), stopping=stopping, clip=self.clip, clip_value=self.clip_value,
            last_epoch=last_epoch,
        )  # fmt: skip

    def _anew(self, problem: Problem) -> Problem:
        """The first weights again, and all rows to learn from."""
        batches: Any = problem.batches
        judges: Any = problem.validation
        examples = batches.examples.join(judges.examples)
        begun = self._allocate(**self.arguments_)
        self.initialize(begun, examples, problem.noise.child("initial"))
        problem.model.load(begun.state())
        return self.problem(problem.model, examples, problem.noise.child("refit"), problem.group)

    @property
    def best_epoch_(self) -> int:
        """The epoch whose weights are kept, counted from 1: the last one where nothing was watched."""
        history = self.history_
        if "epoch" not in history:
            raise AttributeError("best_epoch_ belongs to fits by gradient")
        return int(history["best_epoch" if "best_epoch" in history else "epoch"][-1])
