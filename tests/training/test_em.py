"""Expectation maximization and closed forms as procedures: when they end, what they record, how they resume."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.runs.folder import RunFolder
from gnomon.training.driver import run_procedure
from gnomon.training.em import EM, ClosedForm, same_shapes
from gnomon.training.group import Group
from gnomon.training.procedure import Problem

CONFIG = {"kind": "fit", "system": "center", "where": "none:Center", "parameters": {}}
X = np.random.default_rng(0).normal(3.0, 1.0, size=(23, 2))
WEIGHT = np.random.default_rng(1).uniform(0.5, 2.0, size=23)


class Center:
    """log p = -|x - mean|^2 / 2 (up to a constant); an iteration goes half of the way to the weighted mean."""

    def __init__(self) -> None:
        self.mean = np.zeros(2)

    def state(self) -> dict[str, np.ndarray]:
        return {"mean": self.mean}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        self.mean = np.array(state["mean"])

    def moments(self, x: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
        return {"weight": weight.sum(), "x": weight @ x}

    def solve(self, moments: dict[str, Any]) -> dict[str, float]:
        self.mean = moments["x"] / moments["weight"]
        return {"rows": float(moments["weight"])}

    def expect(self, x: np.ndarray, weight: np.ndarray) -> dict[str, Any]:
        likelihood = -0.5 * weight @ ((x - self.mean) ** 2).sum(axis=1)
        return {**self.moments(x, weight), "log_likelihood": likelihood}

    def maximize(self, statistics: dict[str, Any]) -> None:
        self.mean = 0.5 * (self.mean + statistics["x"] / statistics["weight"])

    def log_prior(self) -> float:
        return -0.5 * float(self.mean @ self.mean)


def problem(batch_size: int | None = None) -> Problem:
    noise = Noise(0, "fit")
    batches = Batches(Examples({"X": X}, WEIGHT), Rows(batch_size, shuffle=False), noise=noise)
    return Problem(Center(), batches, noise, Group())


def test_closed_form_is_one_step_over_all_batches() -> None:
    for size in (None, 7):
        task = problem(size)
        outcome = run_procedure(ClosedForm(), task)
        assert outcome.records == [{"step": 1, "rows": pytest.approx(WEIGHT.sum(), rel=1e-12)}]
        assert np.allclose(task.model.mean, np.average(X, axis=0, weights=WEIGHT), rtol=1e-12)


@pytest.mark.spec("BAY-48")
def test_a_fall_is_an_error_in_development_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step away from the mean: the mathematics of the model is wrong. Otherwise the fit goes on."""
    wrong = problem()
    monkeypatch.setattr(wrong.model, "maximize", lambda statistics: setattr(wrong.model, "mean", wrong.model.mean - 1))
    run_procedure(EM(3, 0.0), wrong)
    monkeypatch.setattr("gnomon.training.em.DEBUG", True)
    with pytest.raises(AssertionError, match=r"Center: the objective fell from .* in iteration 2"):
        run_procedure(EM(3, 0.0), wrong)
    right = problem()
    monkeypatch.setattr(right.model, "log_prior", lambda: 0.0)
    run_procedure(EM(200, 0.0), right)  # stands still to rounding


@pytest.mark.spec("BAY-48")
def test_an_iteration_records_the_model_it_began_with() -> None:
    task = problem(7)
    history = run_procedure(EM(3, 0.0), task).history
    mean, middle = np.zeros(2), np.average(X, axis=0, weights=WEIGHT)
    for iteration in range(3):
        likelihood = -0.5 * np.average(((X - mean) ** 2).sum(axis=1), weights=WEIGHT)
        assert history["log_likelihood"][iteration] == pytest.approx(likelihood, rel=1e-12)
        assert history["objective"][iteration] == pytest.approx(
            likelihood - 0.5 * mean @ mean / WEIGHT.sum(), rel=1e-12
        )
        mean = 0.5 * (mean + middle)
    assert history["iteration"] == [1, 2, 3]
    assert np.allclose(task.model.mean, mean, rtol=1e-12)


@pytest.mark.spec("BAY-48")
def test_tolerance_ends_it_when_an_iteration_gained_no_more() -> None:
    whole = run_procedure(EM(200, 0.0), problem())
    assert whole.steps == 200
    climbed = whole.history["objective"]
    outcome = run_procedure(EM(200, 1e-3), problem())
    gains = np.diff(climbed)
    assert outcome.steps == int(np.flatnonzero(gains <= 1e-3)[0]) + 2 < 200
    assert outcome.history["objective"] == climbed[: outcome.steps]


def test_stopped_at_every_step_it_ends_at_the_same_one(tmp_path: Path) -> None:
    """Also right before the iteration that ends it, which must know what the one before it reached."""
    task = problem()
    whole = run_procedure(EM(200, 1e-3), task)
    for stop in range(1, whole.steps):
        run = RunFolder.create(tmp_path / str(stop), CONFIG)
        run_procedure(EM(200, 1e-3), problem(), run, limit=stop)
        again = problem()
        outcome = run_procedure(EM(200, 1e-3), again, RunFolder.open(run.path))
        assert outcome.records == whole.records, stop
        assert again.model.mean.tobytes() == task.model.mean.tobytes()


def test_a_closed_form_that_was_done_is_not_done_again(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run_procedure(ClosedForm(), problem(), run)
    task = problem()
    task.model.solve = lambda moments: pytest.fail("solved twice")  # type: ignore[method-assign]
    assert run_procedure(ClosedForm(), task, run).steps == 1
    assert np.allclose(task.model.mean, np.average(X, axis=0, weights=WEIGHT))


def test_shapes_are_compared() -> None:
    same_shapes(Center(), {"mean": np.ones(2)})
    for arrays, said in (({"mean": np.ones(3)}, r"mean of shape \(2,\) has shape \(3,\)"), ({}, "mean .* is missing")):
        with pytest.raises(ValueError, match=said):
            same_shapes(Center(), arrays)


def test_a_checkpoint_of_other_shapes_is_refused(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    facts = {"iteration": 1, "last": 0.0}
    run.write_checkpoint({"mean": np.ones(3)}, {"steps": 1, "done": False, "records": [], "procedure": facts})
    with pytest.raises(UserValueError, match="does not fit"):
        run_procedure(EM(5, 0.0), problem(), run)
