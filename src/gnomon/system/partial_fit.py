"""Systems that are trained by gradient, learning from a stream of chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar, Self

import numpy as np

from gnomon.data.examples import Examples
from gnomon.distributions.arrays import is_empty, row_weights
from gnomon.distributions.domains import Labels
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise, seed_of
from gnomon.system.base import System, agreed
from gnomon.system.prediction import Classifier, Regressor
from gnomon.training.context import current as current_context
from gnomon.training.context import limited
from gnomon.training.driver import FitResult
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.group import current as current_group
from gnomon.training.procedure import Problem, diverged
from gnomon.training.schedules import Constant
from gnomon.training.stopping import Off

__all__ = ["OnlineClassifier", "OnlineModel", "OnlineRegressor"]


class _Online(System):
    """What both share: one pass of gradient steps over each chunk."""

    changes_between_chunks: ClassVar[frozenset[str]] = frozenset((
        "batch_size", "clip", "clip_value", "early_stopping", "epochs", "l1", "l2", "learning_rate", "loss",
        "max_updates", "objective", "optimizer", "random_state", "schedule", "tol",
    ))  # fmt: skip
    """Hyper-parameters of the steps, which may change from chunk to chunk: the others are those of the model."""

    _stream: Any = None
    """Model, optimizers, their recipe and the objective of the last chunk; not saved."""

    def _take_in(self, X: Any, chunk: Callable[[Any], Examples]) -> Self:
        """One pass over the examples that `chunk` makes of the rows once they are checked; of no rows, nothing."""
        self.check_parameters()
        first = not hasattr(self, "model_")
        if not first and is_empty(X):
            return self
        if not first:
            self._refuse_changes(sorted(set(self.get_params(deep=False)) - self.changes_between_chunks))
        with self._all_or_nothing():
            return self._learn(chunk(self._rows(X, reset=first)))

    def _learn(self, examples: Examples) -> Self:
        self._refuse_clocks(examples)
        if not hasattr(self, "model_"):
            self._begin(examples)
        kept = {name: np.array(value) for name, value in self.model_.state().items()}
        optimizers = {} if self._stream is None else self._stream[1]
        memory = deepcopy({phase: one.state_dict() for phase, one in optimizers.items()})
        try:
            return self._pass(examples)
        except BaseException:  # both move in place
            self.model_.load(kept)
            for phase, one in optimizers.items():
                one.load_state_dict(memory[phase])
            raise

    def _refuse_clocks(self, examples: Examples) -> None:
        if "early_stopping" in self.slots and not isinstance(self.recipe("early_stopping"), Off):
            raise UserValueError("a stream has no epochs to stop between", "early_stopping", 'use "off", or fit')
        procedure: Any = self._chunk_procedure(examples)
        if not isinstance(procedure, Gradient):
            raise UserTypeError(f"{self.name} is not trained by gradient", "partial_fit", "use fit")
        if not isinstance(procedure.schedule, Constant) or procedure.schedule.warmup:
            raise UserValueError("a stream has no last epoch to count towards", "schedule", 'use "constant", or fit')

    def _chunk_procedure(self, examples: Examples) -> Any:
        """What the steps of a chunk are of."""
        return self.procedure(examples)

    def _begin(self, examples: Examples) -> None:
        """The model before its first update; columns are standardized by the first chunk."""
        self.seed_ = agreed(seed_of(self.random_state), current_group())
        self.arguments_ = self.arguments(examples)
        model = self._allocate(**self.arguments_)
        self.initialize(model, examples, Noise(self.seed_, "fit").child("initial"))
        self._set_fitted(model, FitResult(0, []))

    def _pass(self, examples: Examples) -> Self:
        # every chunk has an address of its own: the updates made so far
        noise = Noise(self.seed_, "fit").child(f"chunk/{self.n_steps_}")
        problem: Problem = self.problem(self.model_, examples, noise, current_group())
        procedure: Any = self._chunk_procedure(examples)
        procedure.budget = Budget(epochs=1)
        procedure.compares = False
        state = procedure.start(problem)
        recipe = self.recipe("optimizer")
        if self._stream is not None and self._stream[0] is self.model_:
            before = self._stream[3]
            same = self._stream[1].keys() == state.optimizers.keys() and _shapes(problem.objective) == _shapes(before)
            if self._stream[2] == recipe and same:
                state.adopt(self._stream[1])  # the learning rate may have been changed since
            _go_on(problem.objective, before)
        with limited(current_context().threads, torch_alone=self.numpy_products):
            for _ in range(problem.batches.steps):
                state, info = procedure.step(state)
                if info.monitored is not None and not math.isfinite(info.monitored):
                    raise diverged("gradient_norm", info.monitored, self.n_steps_ + state.update)
        self.finish(self.model_)
        stream = (self.model_, state.optimizers, recipe, problem.objective)
        records = [*self.outcome_.records, {**info.record, "epoch": len(self.outcome_.records) + 1}]
        self._set_fitted(self.model_, FitResult(self.n_steps_ + state.update, records))
        self._stream = stream
        return self


def _shapes(objective: Any) -> list[Any]:
    """Of the parameters that an objective has of its own, which the optimizers remember too."""
    return [one.shape for one in objective.parameters()]


def _go_on(objective: Any, before: Any) -> None:
    """Take over persistent chains and parameters from the objective of the chunk before, where it has the same."""
    if type(objective) is not type(before):
        return
    found, wanted = before.state(), objective.state()
    if {name: value.shape for name, value in found.items()} == {name: v.shape for name, v in wanted.items()}:
        objective.load(found)


class OnlineModel(_Online):
    """A model of rows alone with `partial_fit`."""

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """One pass of gradient steps over a chunk of rows, going on from the chunks (or the fit) before.

        Parameters
        ----------
        X : array of shape (n, d)
            An empty chunk changes nothing.
        y : ignored
        sample_weight : array of shape (n,), optional

        Raises
        ------
        UserValueError
            A schedule or early stopping, which count epochs; a hyper-parameter of the model, such as a size,
            that is not the one of the chunks before.

        Notes
        -----
        As of `OnlineClassifier.partial_fit`. Persistent chains of an energy model go on from chunk to chunk while their
        number stays the same.
        """
        return self._take_in(X, lambda rows: Examples({"X": rows}, row_weights(sample_weight, len(rows), rows.dtype)))


class OnlineClassifier(Classifier, _Online):
    """A `Classifier` with `partial_fit`."""

    def partial_fit(self, X: Any, y: Any = None, *, classes: Any = None, sample_weight: Any = None) -> Self:
        """One pass of gradient steps over a chunk of rows, going on from the chunks (or the fit) before.

        Parameters
        ----------
        X : array of shape (n, d)
            An empty chunk changes nothing.
        y : array of shape (n,)
        classes : array, optional
            Every class that will come, on the first call; those of the first chunk where left out.
        sample_weight : array of shape (n,), optional

        Raises
        ------
        UserValueError
            A label that is none of the classes, with its row; a schedule or early stopping, which count epochs; a
            hyper-parameter of the model, such as ``hidden``, that is not the one of the chunks before.

        Notes
        -----
        ``epochs`` is not looked at. Columns are standardized, where the system does so, by the first chunk. The
        optimizer's memory goes on from chunk to chunk in one object; a loaded model begins it anew.
        """
        return self._take_in(X, lambda rows: self._chunk(rows, y, classes, sample_weight))

    def _chunk(self, rows: Any, y: Any, classes: Any, sample_weight: Any) -> Examples:
        given = None if classes is None else Labels().encode(classes, name="classes")[0]
        if not hasattr(self, "model_"):
            self.classes_ = Labels().encode(y, n=len(rows))[0] if given is None else given
            if len(self.classes_) < 2:
                what = f"y must hold at least 2 classes, got only {self.classes_.tolist()[0]!r}"
                raise UserValueError(what, "y", "name all classes of the stream: partial_fit(X, y, classes=...)")
        elif given is not None and given.tolist() != self.classes_.tolist():
            raise UserValueError("classes must be those of the first chunk", "classes", "leave them out")
        y = self.encode_target(y, rows)
        return Examples({"X": rows, "y": y}, row_weights(sample_weight, len(rows), rows.dtype))


class OnlineRegressor(Regressor, _Online):
    """A `Regressor` with `partial_fit`."""

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """One pass of gradient steps over a chunk of rows, going on from the chunks (or the fit) before.

        Parameters
        ----------
        X : array of shape (n, d)
            An empty chunk changes nothing.
        y : array of shape (n,) or (n, t)
        sample_weight : array of shape (n,), optional

        Raises
        ------
        UserValueError
            A target of other columns; a schedule or early stopping, which count epochs; a hyper-parameter of the model,
            such as ``hidden``, that is not the one of the chunks before.

        Notes
        -----
        ``epochs`` is not looked at. Columns and targets are standardized, where the system does so, by the first chunk.
        The optimizer's memory goes on from chunk to chunk in one object; a loaded model begins it anew.
        """
        return self._take_in(X, lambda rows: self.examples_of_chunk(rows, y, sample_weight))
