"""Stages: procedures in turn on problems of their own, resumed in the middle of any; early stopping that refits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import gnomon
from gnomon.runs.folder import RunFolder
from gnomon.system.saving import load
from gnomon.training.driver import run_procedure
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.optimizers import SGD, Adam
from gnomon.training.procedure import Problem
from gnomon.training.stages import Ends, Stages
from oracles.tasks import Line, Squares, problem

CONFIG = {"kind": "fit", "system": "line", "where": "none:Line", "parameters": {}}
X, Y = load_iris(return_X_y=True)


def stages(seen: list[Ends] | None = None) -> Stages:
    """Slope and offset, then both with a penalty, for as many epochs as the first stage's last record says."""

    def penalized(whole: Problem) -> Problem:
        return replace(whole, objective=Squares(0.3), noise=whole.noise.child("second"))

    def make(ends: Ends) -> Gradient:
        if seen is not None:
            seen.append(ends)
        return Gradient(SGD(), 0.05, Budget(epochs=int(ends["first"]["epoch"]) + 1))

    return Stages([("first", Gradient(Adam(), 0.1, Budget(epochs=2)), None), ("second", make, penalized)])


def test_each_stage_goes_on_from_the_model_of_the_one_before() -> None:
    """The same as the two fits by hand, with the records in a row."""
    seen: list[Ends] = []
    task = problem(Squares())
    outcome = run_procedure(stages(seen), task)
    model = Line()
    one = problem(Squares(), model=model)
    first = run_procedure(Gradient(Adam(), 0.1, Budget(epochs=2)), replace(one, noise=one.noise.child("first")))
    two = problem(Squares(0.3), model=model)
    second = run_procedure(Gradient(SGD(), 0.05, Budget(epochs=3)), replace(two, noise=two.noise.child("second")))
    assert (task.model.a.item(), task.model.b.item()) == (model.a.item(), model.b.item())
    assert outcome.steps == first.steps + second.steps
    assert outcome.history["stage"] == [1, 1, 2, 2, 2]
    assert outcome.history["error"] == first.history["error"] + second.history["error"]
    assert seen[0]["first"]["epoch"] == 2.0


@pytest.mark.parametrize("stop", [1, 9, 10, 11, 13, 24])
def test_stopped_anywhere_it_ends_the_same(stop: int, tmp_path: Path) -> None:
    """Within a stage, and at its end, when the next one has begun."""
    task = problem(Squares())
    outcome = run_procedure(stages(), task)
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run_procedure(stages(), problem(Squares()), run, limit=stop)
    strange = Line()
    strange.a.data.fill_(77.0)
    again = problem(Squares(), model=strange)
    ended = run_procedure(stages(), again, RunFolder.open(run.path))
    assert ended.records == outcome.records
    for name, value in task.model.state().items():
        assert value.tobytes() == again.model.state()[name].tobytes()


def network(**options: Any) -> gnomon.MLP:
    given = {"hidden": (8,), "epochs": 30, "batch_size": None, "learning_rate": 0.3, "optimizer": "sgd", "l2": 0.0,
             "random_state": 0, "dtype": "float64"}  # fmt: skip
    return gnomon.MLP(**given | options)


def test_refitting_is_the_fit_to_all_rows_for_the_best_number_of_epochs() -> None:
    """Algorithm 7.2: in one batch of everything, whose order is no matter, a plain fit of so many epochs."""
    refit = network().set_params(early_stopping="refit", early_stopping__patience=3).fit(X, Y)
    searched = network(early_stopping="patience").set_params(early_stopping__patience=3).fit(X, Y)
    k = searched.best_epoch_
    assert 1 < k == refit.best_epoch_
    plain = network(epochs=k).fit(X, Y)
    assert refit.history_["stage"].count(2) == k
    for name, value in plain.model_.state().items():
        np.testing.assert_allclose(refit.model_.state()[name], value, rtol=1e-9, atol=1e-11, err_msg=name)
    assert not np.allclose(refit.model_.state()["layers.0.weight"], searched.model_.state()["layers.0.weight"])


def test_the_learning_rate_of_the_refit_goes_the_way_of_the_search() -> None:
    """A schedule counts towards the whole budget, not to the best epoch."""
    given: Any = (X[::3], Y[::3])
    fitted = network(schedule="linear", early_stopping="refit").fit(X, Y, validation=given)
    rates, stage = np.array(fitted.history_["learning_rate"]), np.array(fitted.history_["stage"])
    k = (stage == 2).sum()
    np.testing.assert_array_equal(rates[stage == 2], rates[stage == 1][:k])


@pytest.mark.parametrize("stop", [2, 31, 33])
def test_a_refit_resumes_in_either_stage(stop: int, tmp_path: Path) -> None:
    """Thirty updates of search (patience 100), then those of the refit; a model can be taken home from both."""
    made = network(dropout=0.2, batch_norm=True).set_params(early_stopping="refit", early_stopping__patience=100)
    whole = made.fit(X, Y)
    assert whole.n_steps_ > 33
    begun = network(dropout=0.2, batch_norm=True).set_params(early_stopping="refit", early_stopping__patience=100)
    examples = begun.ingest(X, Y)
    run = begun._open(tmp_path / "run", examples)
    begun._fit(examples, run, limit=stop)
    assert load(tmp_path / "run", unfinished=True).predict(X).shape == (150,)
    fresh = network(dropout=0.2, batch_norm=True).set_params(early_stopping="refit", early_stopping__patience=100)
    again = fresh.ingest(X, Y)
    fresh._fit(again, fresh._open(RunFolder.open(tmp_path / "run"), again))
    assert fresh.history_ == whole.history_
    for name, value in whole.model_.state().items():
        assert value.tobytes() == fresh.model_.state()[name].tobytes(), name
