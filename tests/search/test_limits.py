"""Searches under limits: what is measured, that trials over a limit never win, that rows held out change nothing."""

import json

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserTypeError, UserValueError
from gnomon.search import limits
from gnomon.search.dimensions import RealRange
from gnomon.search.limits import Meter, checked, verb_of
from gnomon.search.trials import OverLimit
from gnomon.search.verb import search
from oracles.searching import bowl, finished, plan


def blobs(n=120, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return random.normal(size=(n, 2)) + 2.2 * y[:, None], y


class Time:
    """A clock that only what is told to takes time."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(limits, "clock", lambda: self.now)

    def during(self, function, seconds):
        def slow(*given, **options):
            self.now += seconds(given[0])
            return function(*given, **options)

        return slow


@pytest.mark.spec("PRA-069")
@pytest.mark.parametrize("strategy", ["tpe", "random", "sobol", "narrow", "refine"])
def test_a_trial_over_a_limit_never_wins(strategy):
    """The optimum, x = 2, lies over the limit x <= 1: the best within is at the limit."""

    def judge(parameters, report):
        if parameters["x"] > 1:
            raise OverLimit("megabytes", parameters["x"], 1.0)
        return bowl({**parameters, "n": 8, "kind": "b"})

    study = finished(plan(strategy, 60, {"x": RealRange(-5.0, 5.0)}), judge)
    over = [one for one in study.tried if one.parameters["x"] > 1]
    assert over and {(one.state, one.value) for one in over} == {("over a limit", None)}
    assert all(one.reason.startswith("megabytes is ") and one.reason.endswith("the limit of 1") for one in over)
    assert study.best().parameters["x"] == max(x for x in (one.parameters["x"] for one in study.tried) if x <= 1)
    assert all(one.state == "done" for one in study.tried if one.parameters["x"] <= 1)


@pytest.mark.spec("PRA-069")
def test_fits_that_take_too_long_or_answer_too_slowly(monkeypatch):
    """The clock stands still but for fits and answers, whose time is a hyper-parameter's value."""
    X, y = blobs()
    time, options = Time(monkeypatch), {"space": {"l2": "1e-3..1:log"}, "trials": 12, "strategy": "random"}
    monkeypatch.setattr(
        gnomon.LogisticRegression, "fit", time.during(gnomon.LogisticRegression.fit, lambda one: 10 * one.l2)
    )
    monkeypatch.setattr(
        gnomon.LogisticRegression, "predict", time.during(gnomon.LogisticRegression.predict, lambda one: one.l2)
    )
    found = search("logistic-regression", X, y, limits={"fit_seconds": 0.2}, **options)
    slow = {one.parameters["l2"] for one in found.trials if one.state == "over a limit"}
    assert slow == {one.parameters["l2"] for one in found.trials if one.parameters["l2"] > 0.02} and slow
    assert found.best.parameters["l2"] <= 0.02
    found = search("logistic-regression", X, y, limits={"predict_milliseconds": 5.0}, **options)  # of each of 24 rows
    slow = {one.parameters["l2"] for one in found.trials if one.state == "over a limit"}
    assert slow == {one.parameters["l2"] for one in found.trials if 1e3 * one.parameters["l2"] / 24 > 5} and slow
    assert found.best.parameters["l2"] <= 0.12


@pytest.mark.spec("PRA-069")
def test_a_fit_over_its_time_is_stopped_at_the_step(monkeypatch):
    X, y = blobs()
    time, steps = Time(monkeypatch), []

    def record(self, step, record):
        steps.append(step)
        time.now += 1.0
        watch(self, step, record)

    watch = Meter.watch
    monkeypatch.setattr(Meter, "watch", record)
    with pytest.raises(UserValueError, match=r"none of 1 trial has a score; .* fit_seconds is 4, over the limit of 3"):
        search(gnomon.MLP(epochs=50), X, y, trials=1, space={"l2": "0,1"}, limits={"fit_seconds": 3})
    assert len(steps) == 4


@pytest.mark.spec("PRA-069")
def test_the_size_of_a_model_is_that_of_its_files(tmp_path):
    X, y = blobs()
    sizes = {}
    for width in (8, 64, 512):
        saved = gnomon.MLP(hidden=(width,), epochs=1, random_state=0).fit(X, y).save(tmp_path / str(width))
        sizes[width] = sum(one.stat().st_size for one in saved.rglob("*") if one.is_file()) / 1e6
    limit = (sizes[64] + sizes[512]) / 2
    found = search(
        gnomon.MLP(epochs=1), X, y, trials=3, strategy="grid", space={"hidden": "8,64,512"}, limits={"megabytes": limit}
    )
    assert [one.state for one in found.trials] == ["done", "done", "over a limit"]
    words = found.trials[2].reason.split()
    assert float(words[2].strip(",")) == pytest.approx(sizes[512], rel=0.05)  # and how its columns were prepared
    assert found.trials[2].reason.endswith(f"over the limit of {limit:g}")


@pytest.mark.spec("PRA-069")
def test_folds_end_at_the_first_one_over_a_limit_and_stores_know_their_limits(monkeypatch, tmp_path):
    X, y = blobs()
    fits, fit = [], gnomon.LogisticRegression.fit
    monkeypatch.setattr(gnomon.LogisticRegression, "fit", lambda self, *a, **k: [fits.append(1), fit(self, *a, **k)][1])
    options = {"space": {"l2": "0,1"}, "trials": 1, "folds": 3, "out": tmp_path / "s"}
    with pytest.raises(UserValueError, match="over the limit"):
        search("logistic-regression", X, y, limits={"megabytes": 1e-6}, **options)
    assert len(fits) == 1
    with pytest.raises(UserValueError, match="a search of another limits"):
        search("logistic-regression", X, y, **options)


@pytest.mark.spec("PRA-069")
def test_rows_held_out_change_no_trial(monkeypatch):
    """Leak test: with other answers and features in the rows held out, every trial and the choice are the same."""
    X, y = blobs()
    data = gnomon.data.split((np.arange(len(y))[:, None].astype(float), y), test=0.2)
    held = data[1][0][:, 0].astype(int)
    assert len(held) == 24
    options = {"trials": 12, "space": {"C": "0.01..100:log"}}
    plain = search("svm", X, y, **options)
    for change in ("answers", "features"):
        other, answers = X.copy(), y.copy()
        if change == "answers":
            answers[held] = np.where(np.isin(np.arange(len(y)), held), np.roll(y, 1), y)[held]
        else:
            other[held] += 3.0 * np.random.default_rng(1).normal(size=other[held].shape)
        found = search("svm", other, answers, **options)
        assert [(one.parameters, one.value) for one in found.trials] == [
            (one.parameters, one.value) for one in plain.trials
        ]
        assert found.best.parameters == plain.best.parameters
        assert found.board.lines[0].score.value != plain.board.lines[0].score.value


@pytest.mark.spec("PRA-069")
def test_the_given_values_are_the_first_trial_and_chosen_unless_others_are_better():
    X, y = blobs()
    made = gnomon.SVM(C=3.0, random_state=0)
    found = search(made, X, y, trials=4, space={"C": "1..10:log"})
    assert found.trials[0].parameters == {"C": 3.0} and len(found.trials) == 4
    assert found.best.value > found.trials[0].value or found.best.number == 0
    outside = search(made, X, y, trials=2, space={"C": "0.1..1:log"})
    assert all(one.parameters["C"] <= 1 for one in outside.trials)


def test_limits_that_cannot_be_are_refused(capsys):
    for given, kind, words in (
        ({"seconds": 3}, UserValueError, "unknown limit 'seconds'; .*fit_seconds"),
        ({"fit_seconds": 0}, UserValueError, "fit_seconds must be positive and finite, got 0"),
        ({"megabytes": float("nan")}, UserValueError, "megabytes must be positive and finite"),
        ({"megabytes": "5"}, UserTypeError, "megabytes must be a number, got '5'"),
        ({"megabytes": True}, UserTypeError, "megabytes must be a number"),
        ([3], UserTypeError, "limits must be a mapping"),
    ):
        with pytest.raises(kind, match=words):
            checked(given)
    with pytest.raises(UserValueError, match="predict_milliseconds needs a task that answers for each row"):
        verb_of(("sample",))
    assert verb_of(("predict", "predict_proba")) == "predict" and verb_of(("log_prob", "sample")) == "log_prob"
    words = ["search", "svm", "iris", "--trials", "2", "--limit"]
    assert command([*words, "fit_seconds"]) == 2
    assert "--limit must be NAME=NUMBER, got 'fit_seconds'" in capsys.readouterr().err
    assert command([*words, "fit-seconds=100", "--limit", "megabytes=100", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["trials"]) == 2
