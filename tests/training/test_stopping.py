"""Early stopping: a scripted sequence of losses, which weights are kept, which rows are held out, resume to the bit."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.errors import Diverged, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.base import Loss, Term
from gnomon.runs.folder import RunFolder
from gnomon.training.driver import run_procedure
from gnomon.training.gradient import Budget, Gradient
from gnomon.training.optimizers import SGD, Adam
from gnomon.training.schedules import Plateau
from gnomon.training.stopping import EarlyStopping, Off, Watch, held_out
from oracles.tasks import Line, Squares, problem

CONFIG = {"kind": "fit", "system": "line", "where": "none:Line", "parameters": {}}


class Scripted(Squares):
    """Squares whose validation loss follows a script, one number per epoch (of five updates)."""

    def __init__(self, script: list[float]) -> None:
        super().__init__()
        self.script = script

    def forward(self, model: Line, batch: Any, *, noise: Any, phase: str, group: Any) -> Loss:
        if phase != "validation":
            return super().forward(model, batch, noise=noise, phase=phase, group=group)
        assert not torch.is_grad_enabled()
        return Loss({"error": Term(2.0 * self.script[noise.update // 5 - 1], 2.0)})


def watched(objective: Squares, model: Line | None = None) -> Any:
    task = problem(objective, model=model)
    return replace(task, validation=Batches(Examples({"X": np.array([[0.5, 1.0], [1.0, -1.0]])}), Rows(shuffle=False)))


def fit(objective: Squares, stopping: Any, epochs: int = 9, limit: int | None = None, run: Any = None) -> Any:
    task = watched(objective)
    return task, run_procedure(Gradient(SGD(), 0.1, Budget(epochs=epochs), stopping=stopping), task, run, limit=limit)


@pytest.mark.spec("PRA-062")
@pytest.mark.parametrize(
    ("script", "patience", "epochs", "ran", "kept"),
    [
        ([3, 2, 1, 2, 3, 0, 0, 0, 0], 2, 9, 5, 3),
        ([3, 2, 1, 2, 3, 0.5, 2, 2, 2], 4, 9, 9, 6),
        ([3, 2, 1, 2, 3, 0.5, 2, 2, 2], 4, 7, 7, 6),
        ([3, 2, 1, 2, 3], 100, 5, 5, 3),
        ([1, 1, 1, 1], 2, 4, 3, 1),
        ([5, 4, 3, 2], 1, 4, 4, 4),
    ],
)
def test_a_scripted_sequence(script: list[float], patience: int, epochs: int, ran: int, kept: int) -> None:
    """The best epoch's weights come back, whether patience or the number of epochs ended the fit."""
    task, outcome = fit(Scripted(script), EarlyStopping(patience=patience), epochs)
    assert len(outcome.records) == ran
    assert outcome.history["validation_error"] == [float(value) for value in script[:ran]]
    assert outcome.history["best_epoch"][-1] == kept
    until, _ = fit(Scripted(script), Off(), kept)
    for name, value in until.model.state().items():
        assert value.tobytes() == task.model.state()[name].tobytes()


@pytest.mark.spec("PRA-062")
def test_small_gains_are_kept_but_buy_no_time() -> None:
    watch = Watch(patience=2, min_delta=0.5)
    assert [watch.update(loss, {"w": np.array(loss)}) for loss in (3.0, 2.8, 2.6)] == [False, False, True]
    assert watch.epoch == 3 and watch.arrays["w"] == 2.6
    watch = Watch(patience=2, min_delta=0.5)
    assert [watch.update(loss, {}) for loss in (3.0, 2.8, 2.4, 2.3)] == [False] * 4


@pytest.mark.spec("PRA-062")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_monitor_that_is_no_number_stops_the_fit(bad: float) -> None:
    with pytest.raises(Diverged, match=r"validation_error became .*\(step 10\); lower the learning rate"):
        fit(Scripted([3.0, bad, 1.0]), EarlyStopping(patience=1))
    with pytest.raises(ValueError, match="a loss of"):
        Watch(2).update(bad, {})


def test_the_loss_that_is_watched_is_the_mean_over_the_validation_rows() -> None:
    """A slope and an offset that do not move: (a x + b - y)^2 with a = 0, b = 1 over rows (0.5, 1), (1, -1)."""
    task = watched(Squares(penalty=3.0))
    outcome = run_procedure(Gradient(SGD(), 1e-300, Budget(epochs=1), stopping=EarlyStopping()), task)
    assert outcome.records[0]["validation_error"] == pytest.approx((0.0 + 4.0) / 2, rel=1e-12)


@pytest.mark.spec("PRA-062", "PRA-063")
@pytest.mark.parametrize("stop", [3, 10, 19, 20, 24])
def test_stopped_anywhere_it_ends_the_same(stop: int, tmp_path: Path) -> None:
    """The best weights, the patience used up and the plateau's state are in the checkpoint."""
    script = [3.0, 1.0, 2.0, 2.0, 2.5, 2.0, 2.0]
    options: dict[str, Any] = {"stopping": EarlyStopping(patience=4), "schedule": Plateau(patience=2)}
    task = watched(Scripted(script))
    outcome = run_procedure(Gradient(Adam(), 0.1, Budget(epochs=7), **options), task)
    assert outcome.history["best_epoch"][-1] == 2 and len(outcome.records) == 6
    assert outcome.history["learning_rate"] == [0.1, 0.1, 0.1, 0.1, 0.05, 0.05]
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run_procedure(Gradient(Adam(), 0.1, Budget(epochs=7), **options), watched(Scripted(script)), run, limit=stop)
    strange = Line()
    strange.a.data.fill_(77.0)
    again = watched(Scripted(script), strange)
    ended = run_procedure(Gradient(Adam(), 0.1, Budget(epochs=7), **options), again, RunFolder.open(run.path))
    assert ended.records == outcome.records
    for name, value in task.model.state().items():
        assert value.tobytes() == again.model.state()[name].tobytes()


def test_early_stopping_without_rows_to_judge_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="validation rows"):
        run_procedure(Gradient(SGD(), 0.1, Budget(epochs=2), stopping=EarlyStopping()), problem(Squares()))


def noise() -> Noise:
    return Noise(0, "held out")


@pytest.mark.parametrize(("n", "share", "m"), [(100, 0.1, 10), (7, 0.1, 1), (2, 0.9, 1), (10, 0.99, 9)])
def test_how_many_rows_are_held_out(n: int, share: float, m: int) -> None:
    chosen = held_out(n, share, noise())
    assert chosen.sum() == m and len(chosen) == n


def test_every_class_gives_its_share_and_keeps_a_row() -> None:
    codes = np.repeat([0, 1, 2, 3], [60, 30, 9, 1])
    chosen = held_out(100, 0.2, noise(), codes)
    counts = np.bincount(codes[chosen], minlength=4)
    assert counts.sum() == 20 and counts[3] == 0
    assert np.abs(counts - np.array([12, 6, 1.8, 0])).max() <= 1
    everything = held_out(100, 0.99, noise(), codes)
    assert set(codes[~everything]) == {0, 1, 2, 3}


def test_the_choice_is_of_the_seed_and_of_every_row() -> None:
    """Each of 40 rows is held out in some of 200 seeds: a row's share is 1/4, so none is left out but once in 10^23."""
    chosen = np.array([held_out(40, 0.25, Noise(seed, "held out"), np.arange(40) % 2) for seed in range(200)])
    assert chosen.any(0).all() and not chosen.all(0).any()
    assert np.array_equal(chosen[3], held_out(40, 0.25, Noise(3, "held out"), np.arange(40) % 2))


def test_rows_without_weight_judge_nothing() -> None:
    weight = np.zeros(10)
    weight[[2, 5]] = 1.0
    chosen = held_out(10, 0.5, noise(), None, weight)
    assert chosen.sum() == 1 and weight[chosen].all()
    with pytest.raises(UserValueError, match="1 rows are too few"):
        held_out(1, 0.5, noise())
