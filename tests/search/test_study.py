"""Trials on a store: counted, found again, shared between processes; strategies on functions whose optimum is known."""

import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.search.dimensions import OneOf, RealRange, WholeRange
from gnomon.search.study import Study
from gnomon.search.trials import SearchPlan
from oracles.searching import SPACE, bowl, finished, plan, table, work


def test_the_best_of_equal_trials_is_the_first():
    study = finished(plan(), lambda parameters, report: 1.0)
    assert study.best().number == 0 and len(study.tried) == 12


@pytest.mark.parametrize("higher", [True, False])
def test_the_best_is_the_extreme_of_all(higher):
    study = Study(SearchPlan(SPACE, "random", 15, 0, higher_is_better=higher))
    study.run(bowl)
    values = [one.value for one in study.tried]
    assert study.best().value == (max if higher else min)(values) and len(set(values)) == 15


@pytest.mark.spec("PRA-069")
def test_tpe_comes_nearer_to_the_optimum_than_random_draws():
    """Means of the best of 60 over 6 seeds."""
    found = {
        strategy: np.mean([finished(plan(strategy, 60, seed=seed)).best().value for seed in range(6)])
        for strategy in ("tpe", "random")
    }
    assert found["tpe"] < 0.6 * found["random"]


def test_a_grid_is_gone_through_once_whatever_the_number_of_trials():
    space = {"x": OneOf((1.0, 2.0, 3.0)), "n": OneOf((4, 8)), "kind": OneOf(("a", "b"))}
    study = finished(plan("grid", 100, space))
    assert study.total == len(study.tried) == len(table(study)) == 12
    assert study.best().parameters == {"x": 2.0, "n": 8, "kind": "b"} and study.best().value == 0
    assert [one.parameters["x"] for one in study.tried] == [1.0] * 4 + [2.0] * 4 + [3.0] * 4
    with pytest.warns(UserWarning, match="the grid has 12 points, of which 5 are tried"):
        assert len(finished(plan("grid", 5, space)).tried) == 5


@pytest.mark.parametrize("strategy", ["grid", "refine", "narrow"])
def test_a_process_that_comes_too_late_for_the_last_point_of_a_round_tries_none(strategy):
    square = lambda parameters, report: parameters["x"] ** 2  # noqa: E731
    with Study(plan(strategy, 30, {"x": RealRange(-1.0, 1.0)})) as study:
        study.study.optimize(lambda trial: study._try(trial, lambda parameters, report: 0.0), n_trials=1)
        assert study.tried == []
        study.run(square)
        assert table(study) == table(finished(plan(strategy, 30, {"x": RealRange(-1.0, 1.0)}), square))


def test_a_point_that_was_tried_is_not_fitted_again():
    calls = []

    def counting(parameters, report):
        calls.append(parameters["n"])
        return float(parameters["n"])

    study = finished(plan("tpe", 30, {"n": WholeRange(1, 6)}), counting)
    assert sorted(calls) == [1, 2, 3, 4, 5, 6] and len(study.tried) < 30


@pytest.mark.spec("PRA-072")
def test_draws_belong_to_the_number_of_a_trial_and_not_to_the_process(tmp_path):
    whole = finished(plan(trials=10))
    for part in (3, 7, 10):
        parts = finished(plan(trials=part), store=tmp_path / "s.db")
    assert table(parts) == table(whole)
    assert table(finished(plan(trials=10, seed=1))) != table(whole)


@pytest.mark.spec("PRA-069", "PRA-072")
def test_an_interrupted_trial_is_made_when_the_search_goes_on(tmp_path):
    calls = []

    def stopped(parameters, report):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return bowl(parameters)

    with pytest.raises(KeyboardInterrupt):
        finished(plan(trials=8), stopped, tmp_path / "s.db")
    study = finished(plan(trials=8), store=tmp_path / "s.db")
    assert table(study) == table(finished(plan(trials=8))) and len(study.tried) == 8


def test_a_score_that_is_no_number_is_a_failed_trial():
    study = finished(plan(trials=6), lambda parameters, report: np.nan if parameters["x"] < 0 else 1.0)
    assert {one.reason for one in study.tried if one.parameters["x"] < 0} == {"the score is nan (search)"}


@pytest.mark.spec("PRA-069")
def test_failed_trials_are_recorded_with_their_reason_and_never_win():
    def fails(parameters, report):
        if parameters["x"] < 0:
            raise UserValueError("x is negative")
        return -100.0 if parameters["kind"] == "b" else 0.0

    study = finished(plan(trials=20), fails)
    failed = [one for one in study.tried if one.state == "failed"]
    assert failed and all(one.parameters["x"] < 0 and one.reason == "x is negative" for one in failed)
    assert all(one.value is None for one in failed) and study.best().parameters["x"] >= 0
    assert len(study.tried) == 20

    def never(parameters, report):
        raise UserValueError("no")

    with pytest.raises(UserValueError, match="none of 4 trials has a score; the first reason: no"):
        finished(plan(trials=4), never).best()


def test_a_trial_that_falls_behind_ends_early_and_has_no_score():
    def slow(parameters, report):
        for step in range(5):
            report(step, bowl(parameters))
        return bowl(parameters)

    study = finished(plan(trials=30), slow)
    early = [one for one in study.tried if one.state == "ended early"]
    assert early and all(one.value is None for one in early)
    done = [bowl(one.parameters) for one in study.tried if one.state == "done"]
    assert min(bowl(one.parameters) for one in early) > min(done)


def test_no_trial_begins_after_the_time_is_over():
    study = Study(plan(trials=1000))
    study.run(lambda parameters, report: time.sleep(0.05) or bowl(parameters), seconds=0.3)
    assert 1 <= len(study.tried) < 20


def test_a_store_of_something_else_is_refused(tmp_path):
    store = tmp_path / "s.db"
    finished(plan(trials=2, data="one"), store=store)
    for other, word in ((plan(trials=2, data="two"), "data"), (plan("tpe", 2, data="one"), "strategy"),
                        (plan(trials=2, data="one", space={"x": RealRange(0, 1)}), "space")):  # fmt: skip
        with pytest.raises(UserValueError, match=f"the store holds a search of another {word}"):
            Study(other, store)
    with pytest.raises(UserValueError, match="cannot open the store"):
        Study(plan(), tmp_path / "no" / "such" / "s.db")
    with pytest.raises(UserValueError, match="cannot open the store") as refused:
        Study(plan(), "nosuch://me:secret@host/base")
    assert "secret" not in str(refused.value)
    (tmp_path / "text.db").write_text("no database at all, " * 100)
    with pytest.raises(UserValueError, match="cannot open the store"):
        Study(plan(), tmp_path / "text.db")


def processes(count, *given):
    found = [multiprocessing.get_context("spawn").Process(target=work, args=given) for _ in range(count)]
    for one in found:
        one.start()
    return found


@pytest.mark.slow
@pytest.mark.spec("PRA-079", "PRA-072")
@pytest.mark.parametrize("strategy", ["random", "narrow", "refine"])
def test_four_processes_make_the_table_of_one_and_no_trial_twice(tmp_path, strategy):
    """In rounds, too: of `narrow` the second one is begun, and all wait for the first."""
    store, log, trials = tmp_path / "s.db", tmp_path / "log", 24 if strategy == "narrow" else 16
    for one in processes(4, store, log, trials, 0.5, strategy):
        one.join(timeout=120)
        assert one.exitcode == 0
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len({line[0] for line in lines}) > 1, "one process did everything"
    assert len(lines) == len({tuple(line[1:]) for line in lines}) == trials
    alone, shared = finished(plan(strategy, trials)), Study(plan(strategy, trials), store)
    assert table(shared) == table(alone) and shared.best().parameters == alone.best().parameters


@pytest.mark.slow
@pytest.mark.spec("PRA-079")
def test_a_process_that_is_killed_leaves_the_others_and_its_trial_is_made_again(tmp_path):
    store, log = tmp_path / "s.db", tmp_path / "log"
    first, second = processes(2, store, log, 10, 1.5, "random", (1, 2))
    while not log.exists() or len({line.split()[0] for line in log.read_text().splitlines()}) < 2:
        assert first.is_alive() and second.is_alive()
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    second.join(timeout=120)
    assert second.exitcode == 0
    alone, shared = finished(plan(trials=10)), Study(plan(trials=10), store)
    assert table(shared) == table(alone) and shared.best().parameters == alone.best().parameters
