"""The driver: steps, history, checkpoints, callbacks, divergence, Ctrl-C, progress."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnomon
import gnomon.training.driver as driver
from gnomon.errors import Diverged, UserTypeError, UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.systems.recommend._least_squares import ALS
from gnomon.systems.recommend._posterior import MAP, Gibbs
from gnomon.systems.recommend._ranking import BPR
from gnomon.systems.recommend._sgd import SGD
from gnomon.training.context import context, current
from gnomon.training.driver import check_finite, run_procedure
from gnomon.training.procedure import Info
from gnomon.training.progress import Progress, announced_as
from oracles.tasks import Counter, counting_problem

RATED = [(user, item) for user in range(4) for item in range(4) if user != item]
STARS = [float(1 + (user + item) % 5) for user, item in RATED]
CONFIG = {"kind": "fit", "system": "counter", "where": "none:Counter", "parameters": {}}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", CONFIG)


def log(run: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]


def test_steps_until_done_and_keeps_the_history() -> None:
    outcome = run_procedure(Counter(6, every=2), counting_problem())
    assert outcome.steps == 6
    assert outcome.records == [{"step": s, "n": float(s)} for s in (2, 4, 6)]
    assert outcome.history == {"step": [2, 4, 6], "n": [2.0, 4.0, 6.0]}


def test_history_of_quantities_that_come_and_go() -> None:
    script = {1: Info(record={"a": 1.0}), 2: Info(record={"b": 2.0}), 3: Info(record={"a": 3.0}, done=True)}
    assert run_procedure(Counter(3, script=script), counting_problem()).history == {
        "step": [1, 2, 3],
        "a": [1.0, 3.0],
        "b": [2.0],
    }


def test_callbacks_hear_every_record() -> None:
    heard: list[Any] = []
    with context(callbacks=(lambda step, record: heard.append((step, record["n"])),)):
        run_procedure(Counter(5, every=2), counting_problem())
    assert heard == [(2, 2.0), (4, 4.0)]


def test_a_limit_stops_and_a_second_call_goes_on(run: RunFolder) -> None:
    first = run_procedure(Counter(7), counting_problem(), run, limit=3)
    assert first.steps == 3 and log(run) == first.records
    procedure = Counter(7)
    second = run_procedure(procedure, counting_problem(), RunFolder.open(run.path))
    assert (procedure.started, procedure.loaded) == (0, 1)
    assert second.steps == 7 and second.records == run_procedure(Counter(7), counting_problem()).records == log(run)
    third = Counter(7)
    assert run_procedure(third, counting_problem(), RunFolder.open(run.path)).steps == 7 and third.loaded == 1


def written(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps at which checkpoints are written from now on."""
    steps: list[int] = []
    inner = run.write_checkpoint
    monkeypatch.setattr(
        run, "write_checkpoint", lambda arrays, facts: (steps.append(facts["steps"]), inner(arrays, facts))
    )
    return steps


def test_checkpoints_before_the_first_step_at_the_cadence_and_at_the_end(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = written(run, monkeypatch)
    with context(checkpoint_every=3):
        run_procedure(Counter(8), counting_problem(), run)
    assert steps == [0, 3, 6, 8]


def test_checkpoints_by_the_clock(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = written(run, monkeypatch)
    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", 0.02)
    run_procedure(Counter(6, script={3: lambda: time.sleep(0.05)}), counting_problem(), run)
    assert steps == [0, 3, 6]


def test_a_closed_form_has_nothing_to_save_before_its_step(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = written(run, monkeypatch)
    procedure = Counter(1)
    procedure.iterates = False  # type: ignore[misc]
    run_procedure(procedure, counting_problem(), run)
    assert steps == [1]


def test_the_log_of_a_fit_killed_before_its_first_checkpoint_is_not_kept(run: RunFolder) -> None:
    run.log({"step": 1, "n": 99.0})
    (run.path / ".tmp-left").write_text("x")
    outcome = run_procedure(Counter(2), counting_problem(), run)
    assert log(run) == outcome.records
    assert not list(run.path.rglob(".tmp-*"))


def test_facts_of_the_system_stand_in_every_checkpoint(run: RunFolder) -> None:
    run_procedure(Counter(5), counting_problem(), run, limit=2, describe=lambda outcome: {"at": outcome.steps})
    assert (run.read_checkpoint() or ({}, {}))[1]["system"] == {"at": 2}


@pytest.mark.parametrize(
    ("wrong", "quantity"),
    [
        (Info(monitored=float("nan")), "the loss or its gradient became nan (step 4)"),
        (Info(monitored=float("inf")), "the loss or its gradient became inf (step 4)"),
        (Info(record={"loss": float("-inf")}), "loss became -inf (step 4)"),
    ],
)
def test_divergence_stops_at_once_and_keeps_the_last_checkpoint(wrong: Any, quantity: str, run: RunFolder) -> None:
    with context(checkpoint_every=3), pytest.raises(Diverged) as caught:
        run_procedure(Counter(9, script={4: wrong}), counting_problem(), run)
    assert quantity in str(caught.value) and "learning rate" in str(caught.value) and caught.value.exit_code == 1
    arrays, facts = run.read_checkpoint() or ({}, {})
    assert facts["steps"] == 3 and arrays["n"].tolist() == [3.0]
    assert all(np.isfinite(record["n"]) for record in log(run))


def test_a_parameter_that_is_not_finite_is_never_saved(run: RunFolder) -> None:
    with context(checkpoint_every=3), pytest.raises(Diverged, match=r"n became nan \(step 6\)"):
        run_procedure(Counter(9, script={5: float("nan")}, every=100), counting_problem(), run)
    assert (run.read_checkpoint() or ({}, {}))[1]["steps"] == 3


def test_parameters_are_checked_without_a_run_too() -> None:
    problem = counting_problem()
    problem.model.state = lambda: {"w": np.array([1.0, np.inf])}
    with pytest.raises(Diverged, match="w became inf"):
        run_procedure(Counter(2), problem)


def test_parameters_are_checked_with_every_record(run: RunFolder) -> None:
    problem, procedure = counting_problem(), Counter(9, every=3)
    problem.model.state = lambda: {"w": np.array([np.nan if procedure.taken >= 5 else 0.0])}
    with pytest.raises(Diverged, match=r"w became nan \(step 6\)"):
        run_procedure(procedure, problem, run)
    assert [record["step"] for record in log(run)] == [3]


def test_whole_numbers_and_text_are_finite() -> None:
    check_finite({"i": np.arange(3), "s": np.array(["a"]), "e": np.zeros(0)}, 1)


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_interrupt_completes_the_step_and_saves_it(run: RunFolder) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_procedure(Counter(9, script={4: lambda: os.kill(os.getpid(), signal.SIGINT)}), counting_problem(), run)
    assert signal.getsignal(signal.SIGINT) is before
    assert (run.read_checkpoint() or ({}, {}))[1]["steps"] == 4
    assert (
        run_procedure(Counter(9), counting_problem(), run).records
        == run_procedure(Counter(9), counting_problem()).records
    )


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_a_second_interrupt_does_not_wait_for_the_step(run: RunFolder) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the second Ctrl-C was not heard")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a test runner may have ignored it
    try:
        with pytest.raises(KeyboardInterrupt):
            run_procedure(Counter(9, script={4: twice}), counting_problem(), run)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (run.read_checkpoint() or ({}, {}))[1]["steps"] == 0


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_an_interrupt_in_the_last_step_lets_the_fit_end(run: RunFolder) -> None:
    counter = Counter(3, script={3: lambda: os.kill(os.getpid(), signal.SIGINT)})
    outcome = run_procedure(counter, counting_problem(), run)
    assert outcome.steps == 3


def test_a_checkpoint_of_something_else_is_refused(run: RunFolder) -> None:
    run.write_checkpoint({"m": np.zeros(1)}, {"steps": 1, "done": False, "records": [], "procedure": {}})
    with pytest.raises(UserValueError, match="does not fit") as caught:
        run_procedure(Counter(3), counting_problem(), run)
    assert "\n" not in str(caught.value)
    run.write_checkpoint({"n": np.zeros(1)}, {"other": 1})
    with pytest.raises(UserValueError, match="does not fit"):
        run_procedure(Counter(3), counting_problem(), run)


def test_progress_is_silent_for_a_second_and_on_standard_error_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("gnomon.training.progress.time.monotonic", lambda: now[0])
    with Progress(enabled=True) as progress:
        for moment in (0.5, 0.99, 1.01, 1.5, 5.0, 11.5):
            now[0] = moment
            progress.show({"step": moment, "loss": 1 / 3})
    out, err = capsys.readouterr()
    assert out == "" and err == "step 1.01  loss 0.333333\nstep 11.5  loss 0.333333\n"


def test_progress_in_a_terminal_rewrites_one_line_and_ends_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    now = [0.0]
    monkeypatch.setattr("gnomon.training.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress(enabled=True) as progress:
        for moment in (2.0, 2.1, 2.3):
            now[0] = moment
            progress.show({"step": moment})
    assert capsys.readouterr().err == "\r\x1b[Kstep 2\r\x1b[Kstep 2.3\n"


def test_progress_names_the_system_and_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """E15: step lines did not name the system, and said nothing of the time left.

    The first step, which may compile for seconds, is no measure: "at most 3 h left" stood before a fit of 7 s.
    """
    now = [0.0]
    monkeypatch.setattr("gnomon.training.progress.time.monotonic", lambda: now[0])
    with Progress(enabled=True, name="rbm") as progress:
        progress.expect(500)
        now[0] = 10.0
        progress.show({"step": 101, "loss": 1.5})
        now[0] = 20.0
        progress.show({"step": 201, "loss": 1.5})
        now[0] = 30.5
        progress.step(301)
        now[0] = 41.0
        progress.wait()
    with announced_as("rbm:k=5, seed 2"), Progress(enabled=True, name="rbm") as progress:
        now[0] = 60.0
        progress.show({"step": 3})
    assert capsys.readouterr().err.splitlines() == [
        "rbm: step 101  loss 1.5",
        "rbm: step 201  loss 1.5  at most 30 s left",
        "rbm: step 301  loss 1.5  at most 21 s left",
        "rbm: step 301 of 500  41 s so far  at most 31 s left",
        "rbm:k=5, seed 2: step 3",
    ]


@pytest.mark.parametrize(
    ("system", "data"),
    [
        (gnomon.RBM(n_hidden=2, epochs=3), (np.eye(8, dtype=np.float32),)),
        (gnomon.BernoulliMixture(n_components=2, max_iter=4, tol=0.0), (np.eye(8, dtype=np.float32),)),
        (gnomon.Bagging(n_members=3), (np.eye(8), list("aabbaabb"))),
        (gnomon.Stacking(folds=2, members="decision-tree", final="decision-tree"), (np.eye(8), list("aabbaabb"))),
        (gnomon.MatrixFactorization(learner=ALS(iterations=3)), (RATED, STARS)),
        (gnomon.MatrixFactorization(learner=SGD(epochs=3)), (RATED, STARS)),
        (gnomon.PMF(inference=MAP(iterations=3)), (RATED, STARS)),
        (gnomon.PMF(inference=Gibbs(burn_in=1, draws=2)), (RATED, STARS)),
        (gnomon.ImplicitFactorization(objective=BPR(epochs=3)), (RATED,)),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_every_budget_tells_how_long_it_may_take(
    system: Any, data: tuple[Any, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.training.progress.SILENT_SECONDS", -1.0)
    monkeypatch.setattr("gnomon.training.progress.BETWEEN_SECONDS", {False: 0.0})
    with context(verbose=True):
        system.fit(*data)
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("compiling")]
    assert all(line.startswith(f"{system.name}: ") for line in lines)
    assert lines[-1].startswith(f"{system.name}: step ") and lines[-1].endswith(" s left")


def test_a_fit_within_a_fit_shows_the_outer_one_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    """Members of a stacking are silent, and the whole still says that it goes on."""
    with Progress(enabled=True, name="stacking") as outer:
        outer.expect(4)
        outer.next = 0.0
        with Progress(enabled=False, name="mlp") as inner:
            inner.show({"step": 1})
            inner.step(2)
    assert capsys.readouterr().err == "stacking: 0 s so far\n"


@pytest.mark.parametrize(
    "system", [gnomon.GradientBoosting(n_trees=40), gnomon.HistogramBoosting(n_trees=40), gnomon.AdaBoost(n_trees=40)]
)
def test_boosting_tells_how_many_trees_are_grown(
    system: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gnomon.training.progress.SILENT_SECONDS", -1.0)
    monkeypatch.setattr("gnomon.training.progress.BETWEEN_SECONDS", {False: 0.0})
    monkeypatch.setattr("gnomon.training.interrupts.LOOK_SECONDS", 0.002)
    X = np.random.default_rng(0).normal(size=(400, 6))
    with context(verbose=True):
        system.fit(X, np.where(X[:, 0] * X[:, 1] > 0, "a", "b"))
    told = [re.search(rf"^{system.name}: (\d+) of 40  .* left$", line) for line in capsys.readouterr().err.splitlines()]
    grown = [int(one[1]) for one in told if one]
    assert grown and grown == sorted(grown) and grown[-1] < 40


def test_no_progress_unless_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gnomon.training.progress.SILENT_SECONDS", -1.0)
    run_procedure(Counter(3), counting_problem())
    assert capsys.readouterr() == ("", "")
    with context(verbose=True):
        run_procedure(Counter(3), counting_problem())
    out, err = capsys.readouterr()
    assert out == "" and err


def test_circumstances_end_with_their_block() -> None:
    with context(checkpoint_every=3, verbose=True), context(verbose=False):
        assert (current().checkpoint_every, current().verbose) == (3, False)
    assert current().checkpoint_every is None
    with pytest.raises(UserTypeError, match="known: verbose"), context(verbos=True):
        pass
