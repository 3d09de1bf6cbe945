"""Systems that learn by gradient and can be told everything about it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from gnomon import contracts
from gnomon.contracts import Procedure
from gnomon.data.frames import needs_preparation
from gnomon.data.prepared import Prepared
from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.runs.initial import FineTuning
from gnomon.system.base import System
from gnomon.system.fields import TrainedByGradient
from gnomon.system.initial import Beginning, Source, read
from gnomon.training.fine_tuning import release
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.group import current as current_group
from gnomon.training.procedure import Problem
from gnomon.training.stages import Ends, Stages
from gnomon.training.stopping import Off, Stopping

__all__ = ["ByGradient"]


class ByGradient(TrainedByGradient, System):
    """Base of the networks: gradient descent with the hyper-parameters of `TrainedByGradient`."""

    _start: tuple[FineTuning, Source] | None = None
    """What the fit under way begins from."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, Any] | None = None,
        run: str | os.PathLike[str] | RunFolder | None = None,
        preparation: Prepared | None = None,
        initial: Any = None,
    ) -> Self:
        """Fit to data, from weights of chance or of another fit.

        Parameters
        ----------
        X, y, sample_weight, validation, run, preparation
            As of every system.
        initial : FineTuning, path or fitted system, optional
            What the weights begin from in place of chance: a run, a .safetensors file, the folder of a published
            encoder of texts, or with `gnomon.FineTuning` what stays frozen, what begins anew and what learns how
            fast. ``initial_`` says what was made of it.

        Returns
        -------
        self

        Raises
        ------
        UserError
            Data or parameters that cannot be used; weights of other shapes, with the layer and both shapes.
        Diverged
            A number stopped being finite.
        """
        tuning = None if initial is None else FineTuning.of(initial)
        if isinstance(run, RunFolder) and "initial" in run.config:
            tuning = FineTuning.from_json(run.config["initial"])
        with self._all_or_nothing():
            self.__dict__.pop("initial_", None)
            if tuning is not None:
                if run is not None:
                    tuning.to_json()  # refuses what no run can read again
                source = read(tuning.source)
                self._start = (tuning, source)
                if preparation is None and needs_preparation(X):
                    preparation = source.preparation
            try:
                super().fit(X, y, sample_weight=sample_weight, validation=validation, run=run, preparation=preparation)
            finally:
                self.__dict__.pop("_start", None)
        return self

    def _fit(self, *given: Any, **options: Any) -> Self:
        fitted = super()._fit(*given, **options)
        if self._start is not None:
            release(self.model_, self.initial_.frozen)
        return fitted

    def begun(self, examples: Any, noise: contracts.Noise) -> Any:
        model = super().begun(examples, noise)
        if self._start is not None:
            self.initial_ = Beginning.of(self, model, *self._start)
        return model

    def foreign_weights(
        self, model: Any, arrays: Mapping[str, Any], source: str
    ) -> tuple[dict[str, Any], dict[str, str]] | None:
        """Weights that another library has saved, by the model's names, and what that library calls them.

        None where they have no names that this system knows of.
        """
        return None

    def usable_weights(self, model: Any, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The weights of another fit without those that a model of another kind has for its own task: here all."""
        return arrays

    def _open(self, run: Any, examples: Any, validation: Any = None) -> RunFolder | None:
        folder = super()._open(run, examples, validation)
        if folder is None or self._start is None:
            return folder
        tuning, source = self._start
        known, mark = folder.config.get("initial", {}).get("mark"), source.mark
        if known not in (None, mark):
            what = f"the weights of {source.name} have changed since the fit began"
            raise UserValueError(what, "initial", "restore them, or fit into a new folder")
        if known is None:
            place = os.path.abspath(str(tuning.place))
            facts = {**folder.config, "initial": {**tuning.at(place).to_json(), "mark": mark}}
            if current_group().rank == 0:
                folder.replace(facts)
            folder.config = facts
        return folder

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
        begun = self.begun(examples, problem.noise.child("initial"))
        problem.model.load(begun.state())
        return self.problem(problem.model, examples, problem.noise.child("refit"), problem.group)

    @property
    def best_epoch_(self) -> int:
        """The epoch whose weights are kept, counted from 1: the last one where nothing was watched."""
        history = self.history_
        if "epoch" not in history:
            raise AttributeError("best_epoch_ belongs to fits by gradient")
        return int(history["best_epoch" if "best_epoch" in history else "epoch"][-1])
