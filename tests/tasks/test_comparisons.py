"""Comparisons over seeds and folds, on arrays and frames, and the runs that they keep."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import gnomon
from gnomon.cli.main import run as command
from gnomon.data import Dataset, load, split
from gnomon.data.given import dataset_of
from gnomon.data.preparation import Preparation
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.tasks.base import task as find_task
from gnomon.tasks.boards import Leaderboard, Line
from gnomon.tasks.compare import Stopped, compare
from gnomon.tasks.merging import averaged, joined
from gnomon.tasks.metrics import all_scores
from gnomon.tasks.settings import draws, parameters_of, settings_of


def quick(**options):
    return gnomon.SoftmaxRegression(epochs=3, random_state=0, **options)


# --- scores over folds and seeds -----------------------------------------------------------------------------------


def test_folds_joined_are_the_mean_over_all_rows_and_stay_paired():
    random = np.random.default_rng(0)
    values, other = random.normal(size=(2, 30))
    rows = [np.arange(i, 30, 3) for i in range(3)]
    one, two = (joined([Score.from_pointwise(x[part]) for part in rows], rows) for x in (values, other))
    whole = Score.from_pointwise(values)
    assert one.value == pytest.approx(whole.value, rel=1e-14) and one.stderr == pytest.approx(whole.stderr, rel=1e-12)
    assert np.array_equal(one.pointwise, values), "rows in their order"
    assert one.against(two) == whole.against(Score.from_pointwise(other))


def test_what_is_no_mean_over_rows_is_averaged_by_size():
    folds = [Score(2.0, 0.3, n=10, name="rmse"), Score(5.0, 0.6, n=20, name="rmse")]
    both = joined(folds, [np.arange(10), np.arange(10, 30)])
    assert both.value == pytest.approx(4.0) and both.stderr == pytest.approx(np.hypot(0.1, 0.4))
    assert both.n == 30 and both.note == "mean over the folds"


def test_seeds_are_averaged_with_their_spread_in_the_error():
    values = np.random.default_rng(1).normal(size=(4, 50))
    mean = averaged([Score.from_pointwise(x) for x in values])
    assert mean.value == pytest.approx(values.mean(), rel=1e-12)
    assert mean.error == pytest.approx(values.mean(axis=1).std(ddof=1) / 2, rel=1e-12)
    assert mean.stderr == pytest.approx(values.mean(axis=0).std(ddof=1) / np.sqrt(50), rel=1e-12)


def test_errors_weights_and_kinds_survive_folds_and_seeds():
    random = np.random.default_rng(3)
    values, weight = random.normal(size=10), random.uniform(1, 3, size=10)
    rows = [np.arange(0, 10, 2), np.arange(1, 10, 2)]
    folds = [
        Score.from_pointwise(values[part], weight=weight[part], error=e)
        for part, e in zip(rows, (0.3, 0.8), strict=True)
    ]
    both = joined(folds, rows)
    assert both.value == pytest.approx(np.average(values, weights=weight), rel=1e-12)
    assert np.array_equal(both.weight, weight) and both.error == pytest.approx(np.hypot(0.15, 0.4), rel=1e-12)
    seeds = [Score(1.0, 0.2, 0.3), Score(3.0, 0.4, 0.5, "estimate")]
    mean = averaged(seeds)
    assert (mean.value, mean.stderr, mean.kind) == (2.0, pytest.approx(0.3), "estimate")
    assert mean.error == pytest.approx(np.sqrt((2.0 + (0.3**2 + 0.5**2) / 2) / 2), rel=1e-12)
    users = [Score.from_pointwise([1.0, 3.0]), Score.from_pointwise([5.0, 7.0])]  # of lists by user, not of rows
    assert len(set(joined(users, [np.arange(3), np.arange(3, 6)]).rows.tolist())) == 4


def test_other_rows_of_another_seed_are_not_paired():
    one, two = Score.from_pointwise([1.0, 2.0], rows=[0, 1]), Score.from_pointwise([1.0, 5.0], rows=[0, 2])
    mean = averaged([one, two])
    assert mean.value == pytest.approx(2.25) and mean.pointwise is None


def test_another_seed_is_no_zero():
    """E6: a mixture whose seeds lie hundreds of nats apart was shown as "± 0 exact"."""
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(10 * c, 0.1, size=(15, 3)) for c in range(6)])
    mixture = gnomon.GaussianMixture(n_components=6, max_iter=2, random_state=0)
    board = compare([mixture], X)[0]
    line, base = (
        next(one for one in board.lines if (one.name == "gaussian-mixture") == mine) for mine in (True, False)
    )
    assert line.spread is None and base.spread == 0.0
    assert [row.split("  ")[0] for row in str(board).splitlines() if "one seed" in row] == [line.title]
    several = compare([gnomon.GaussianMixture(n_components=6, max_iter=2)], X, seeds=3)[0]
    line = next(one for one in several.lines if one.name == "gaussian-mixture")
    train, test = split(Dataset("data", X))
    values = [
        gnomon.GaussianMixture(n_components=6, max_iter=2, random_state=seed).fit(train.X).score(test.X)
        for seed in range(3)
    ]
    assert line.seeds == 3 and line.score.value == pytest.approx(np.mean(values), rel=1e-9)
    assert line.spread == pytest.approx(np.std(values, ddof=1), rel=1e-9) and line.spread > 0
    json.dumps(several.to_json(), allow_nan=False)


def test_a_fit_that_draws_nothing_is_made_once(monkeypatch):
    fits, fit = [], gnomon.LinearRegression.fit
    monkeypatch.setattr(gnomon.LinearRegression, "fit", lambda *a, **k: fits.append(1) or fit(*a, **k))
    line = compare(["linear-regression"], "diabetes", seeds=5)[0].lines[0]
    assert len(fits) == 1 and line.spread == 0.0


def test_what_draws_is_what_its_fields_say():
    closed = [gnomon.LinearRegression(), gnomon.PPCA(), gnomon.SVM(), gnomon.SoftmaxRegression()]
    chance = [gnomon.RBM(), gnomon.PPCA(method="em"), gnomon.SoftmaxRegression(batch_size=8), gnomon.RandomForest()]
    assert not any(map(draws, closed)) and all(map(draws, chance))
    assert not draws(gnomon.LinearRegression(solver="gradient")), "on all rows at once"


def test_folds_score_every_row_once_as_by_hand():
    """Cross-validation: the mean over all rows of what models say that have not seen them."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, size=60)
    X = random.normal(size=(60, 2)) + y[:, None]
    board = compare([gnomon.LogisticRegression()], X, y, folds=4, split_seed=2)[0]
    line = next(one for one in board.lines if one.name == "logistic-regression")
    right = np.zeros(60)
    for train, held in find_task("classify").folds(dataset_of(X, y), 4, seed=2):
        right[held.rows] = gnomon.LogisticRegression().fit(train.X, train.y).predict(held.X) == held.y
    assert line.score.n == 60 and np.array_equal(line.score.pointwise, right)
    sizes = sorted(np.bincount(y[test]).tolist() for _, test in StratifiedKFold(4).split(X, y))
    ours = sorted(np.bincount(held.y).tolist() for _, held in find_task("classify").folds(dataset_of(X, y), 4))
    assert np.abs(np.array(sizes) - np.array(ours)).max() <= 1
    assert "4 folds, stratified, seed 2" in str(board)


def test_each_fold_and_each_system_is_prepared_by_its_own_training_rows():
    """Scales that differ between folds: those of other rows, or of another system, give other answers."""
    random = np.random.default_rng(3)
    X = random.normal(size=(45, 2)) * np.where(np.arange(45) % 5 == 0, 9, 1)[:, None] * [1, 300]
    y = 1000 + 20 * np.tanh(X[:, 0]) + X[:, 1] / 100 + random.normal(size=45)
    board = compare([gnomon.LinearRegression(), gnomon.SupportVectorRegression()], X, y, folds=3)[0]
    found = {line.name: line.score.pointwise for line in board.lines}

    def machine(rows, held, target):
        """Scikit-learn's, on columns and target of mean 0 and spread 1."""
        columns, unit = StandardScaler().fit(rows), StandardScaler().fit(target[:, None])
        fitted = SVR()
        fitted.random_state = 0  # it draws from the global state else
        fitted.fit(columns.transform(rows), unit.transform(target[:, None])[:, 0])
        return unit.inverse_transform(fitted.predict(columns.transform(held))[:, None])[:, 0]

    theirs = {
        "linear-regression": lambda rows, held, target: LinearRegression().fit(rows, target).predict(held),
        "support-vector-regression": machine,
    }
    for train, held in find_task("regress").folds(dataset_of(X, y), 3):
        for name, predict in theirs.items():
            errors = (predict(X[train.rows], X[held.rows], y[train.rows]) - y[held.rows]) ** 2
            np.testing.assert_allclose(found[name][held.rows], errors, rtol=0.02, atol=0.05, err_msg=name)


# --- what a line says ----------------------------------------------------------------------------------------------


def test_settings_tell_lines_apart():
    """E10: three settings of one system were three equal lines."""
    assert settings_of(gnomon.RBM(n_hidden=16, objective="pcd", random_state=5)).startswith("n_hidden=16")
    told = settings_of(gnomon.make("rbm", n_hidden=16, objective="cd", objective__k=5))
    assert "n_hidden=16" in told and "objective.k=5" in told
    assert settings_of(gnomon.make("mlp", hidden=(8, 4))) == "hidden=8x4" and settings_of(gnomon.make("mlp")) == ""
    from gnomon.cli.options import parse_system

    name, parameters = parse_system(f"rbm:{told}")
    assert settings_of(gnomon.make(name, **parameters)) == told, "as the command line takes them"
    board = compare([quick(), quick(learning_rate=0.5)], "iris")[0]
    assert sorted(line.title for line in board.lines if line.run is None and "softmax" in line.title) == [
        "softmax-regression:epochs=3", "softmax-regression:epochs=3,learning_rate=0.5",
    ]  # fmt: skip


def test_parameters_are_counted_or_left_open():
    """E10: "parameters 0" for forests, support vectors, logistic regression."""
    X, y = load("iris").X, load("iris").y
    forest = gnomon.RandomForest(n_trees=3, random_state=0).fit(X, y)
    trees = forest.model_.estimator.estimators_
    assert parameters_of(forest) == sum(tree.tree_.node_count for tree in trees)
    logistic = gnomon.LogisticRegression().fit(X, y)
    assert parameters_of(logistic) == 3 * 4 + 3
    machine = gnomon.SVM().fit(X, y)
    inside = machine.model_.estimator
    assert parameters_of(machine) == inside.support_vectors_.size + inside.dual_coef_.size + inside.intercept_.size
    assert parameters_of(object()) is None


def test_each_line_is_judged_against_the_best():
    """E10: the rows are paired, and system was not held against system."""
    noise = np.random.default_rng(0).normal(size=100)
    values = {"a": noise, "b": noise + 1, "c": noise + 1 + 0.01 * np.random.default_rng(1).normal(size=100)}
    lines = [Line(n, Score.from_pointwise(v), {}, 0.0, 1, "") for n, v in values.items()]
    board = Leaderboard("density", "d", "", "log_likelihood", lines)
    board.rank()
    lost = Line("lost", Score(float("nan"), float("nan")), {}, 0.0, 1, "")
    board.lines.insert(0, lost)
    board.rank()
    assert board.lines[-1] is lost and board.lines[0].against_best == "best"
    verdicts = {line.name: line.against_best for line in board.lines}
    assert verdicts["a"] == "worse" and sorted(verdicts[name] for name in "bc") == ["best", "undecided"]


def test_a_board_is_ranked_by_the_metric_that_is_asked_for():
    board = compare(["linear-regression"], "diabetes", metric="absolute_error")[0]
    assert board.metric == "absolute_error" and {line.score.name for line in board.lines} == {"absolute_error"}
    assert all("squared_error" in line.others for line in board.lines) and "squared_error" in str(board)
    with pytest.raises(UserValueError, match="unknown metric 'absolute_eror' "):
        compare(["linear-regression"], "diabetes", metric="absolute_eror")


# --- data that one holds -------------------------------------------------------------------------------------------


def test_arrays_frames_and_files_give_the_same_board(tmp_path):
    """E16: `compare` took names, files and data sets alone."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 2))
    y = np.where(X[:, 0] + random.normal(size=60) > 0, "yes", "no")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    frame.to_csv(tmp_path / "t.csv", index=False)
    system = ["logistic-regression"]
    boards = [
        compare(system, X, y), compare(system, frame, target="y"), compare(system, frame[["a", "b"]], frame["y"]),
        compare(system, pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), target="y"),
        compare(system, tmp_path / "t.csv", target="y"),
    ]  # fmt: skip
    values = [[(line.name, line.score.value) for line in board[0].lines] for board in boards]
    assert all(one == values[0] for one in values)


def test_frames_of_text_are_prepared():
    frame = pd.DataFrame({"kind": list("xyxz") * 15, "size": np.arange(60.0), "out": [1.0, 5, 1, 9] * 15})
    frame["out"] += np.random.default_rng(0).normal(scale=0.1, size=60)
    line = compare(["linear-regression"], frame, target="out")[0].lines[0]
    assert line.name == "linear-regression" and line.score.value < 0.1


@pytest.mark.parametrize(
    ("data", "options", "kind", "words"),
    [
        (np.zeros(4), {}, UserValueError, r"X must be numbers of shape \(rows, columns\), got float64"),
        (np.zeros((4, 2)), {"y": [1, 2]}, UserValueError, r"y must have shape \(4,\), got \(2,\)"),
        (np.zeros((4, 2)), {"y": [1, 2, None, 4]}, UserValueError, r"the label is missing \(y, row 2\)"),
        ("wine", {"y": [1, 2]}, UserTypeError, "y must be left out"),
        ("wine", {"folds": 1}, UserValueError, "folds must be a whole number of at least 2, got 1"),
        ("wine", {"seeds": 0}, UserValueError, "seeds must be a whole number of at least 1, got 0"),
    ],
)
def test_data_and_options_that_cannot_be(data, options, kind, words):
    with pytest.raises(kind, match=words):
        compare(["softmax-regression"], data, **options)


# --- runs that are there -------------------------------------------------------------------------------------------


def test_the_same_comparison_takes_the_runs_that_are_there(tmp_path, monkeypatch):
    """E15: `compare` could not be resumed."""
    first = compare([quick(), quick(learning_rate=0.5)], "iris", out=tmp_path)[0]
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == ["softmax-regression", "softmax-regression-2"]
    fits = []
    monkeypatch.setattr(gnomon.SoftmaxRegression, "fit", lambda *a, **k: fits.append(1))
    again = compare([quick(), quick(learning_rate=0.5)], "iris", out=tmp_path)[0]
    assert not fits and sorted(path.name for path in tmp_path.iterdir()) == folders
    assert [(line.title, line.score.value, line.run) for line in again.lines] == [
        (line.title, line.score.value, line.run) for line in first.lines
    ]
    for options in ({"split_seed": 1}, {"holdout": 0.3}, {"split": "random"}):
        with pytest.raises(UserValueError, match=r"holds a run with another \w+ of its data .*choose another folder"):
            compare([quick()], "iris", out=tmp_path, **options)
    with pytest.raises(UserValueError, match="holds a run with other data"):
        compare([quick()], "wine", out=tmp_path)


def test_runs_of_other_arrays_and_other_seeds_are_not_taken(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
    compare([quick()], X, y, out=tmp_path)
    with pytest.raises(UserValueError, match="holds a run with other data"):
        compare([quick()], X + 1, y, out=tmp_path)
    compare([gnomon.SoftmaxRegression(epochs=3, random_state=1)], X, y, out=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["softmax-regression", "softmax-regression-2"]


def test_an_interrupted_comparison_goes_on(tmp_path, monkeypatch):
    whole = compare([quick(), gnomon.PPCA(n_components=2)], "iris")[0].lines
    fit = gnomon.SoftmaxRegression.fit

    def stopped(self, X, y, run=None, **options):
        def ends(step, record):
            if step == 2:
                raise KeyboardInterrupt

        with gnomon.context(callbacks=(ends,), checkpoint_every=1):
            return fit(self, X, y, run=run, **options)

    monkeypatch.setattr(gnomon.SoftmaxRegression, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        compare([quick()], "iris", out=tmp_path)
    monkeypatch.setattr(gnomon.SoftmaxRegression, "fit", fit)
    line = next(one for one in compare([quick()], "iris", out=tmp_path)[0].lines if one.run)
    assert [path.name for path in tmp_path.iterdir()] == ["softmax-regression"]
    assert line.score.value == next(one for one in whole if one.title == line.title).score.value


def test_what_is_finished_outlives_an_interruption(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gnomon.GaussianMixture, "fit", interrupt)
    assert command(["compare", "ppca", "gaussian-mixture", "product-of-ppca", "iris", "--task", "density"]) == 130
    said = capsys.readouterr()
    assert "ppca" in said.out and "baseline" in said.out and "gaussian-mixture" not in said.out
    assert "interrupted; not finished: gaussian-mixture, product-of-ppca" in said.err
    words = ["ppca", "gaussian-mixture", "iris", "--task", "density", "--out", str(tmp_path / "runs"), "--json"]
    assert command(["compare", *words]) == 130
    told = json.loads(capsys.readouterr().out)
    assert "ppca" in {line["name"].partition(":")[0] for line in told["error"]["leaderboards"][0]["lines"]}
    assert "the same command goes on with what is in" in told["error"]["message"]
    assert command(["compare", "gaussian-mixture", "iris", "--task", "density"]) == 130
    assert capsys.readouterr().out == ""
    with pytest.raises(Stopped) as stop:
        compare([gnomon.GaussianMixture()], "iris", task="density")
    assert stop.value.boards == [] and stop.value.left == ["gaussian-mixture"]


def interrupt(self, *rows, **options):
    raise KeyboardInterrupt


def test_runs_of_seeds_and_folds_hold_out_the_rows_that_they_were_scored_on(tmp_path):
    data = tmp_path / "t.csv"
    random = np.random.default_rng(0)
    rows = [f"{random.normal():.4f},{i % 6},{'ab'[i % 2]}" for i in range(60)]
    data.write_text("\n".join(["size,group,kind", *rows]) + "\n")
    options = {"target": "kind", "folds": 3, "seeds": 2, "split": "group=group", "out": tmp_path / "runs"}
    board = compare([quick(batch_size=8)], data, **options)[0]
    names = {f"softmax-regression-seed{s}-fold{f}" for s in range(2) for f in range(3)}
    assert {path.name for path in (tmp_path / "runs").iterdir()} == names
    from gnomon.runs.config import DataSpec
    from gnomon.tasks.fitting import parts

    seen = []
    for fold in range(3):
        folder = tmp_path / "runs" / f"softmax-regression-seed1-fold{fold}"
        config = json.loads((folder / "config.json").read_text())
        assert config["data"]["features"] == ["size"]
        held = parts(DataSpec.from_json(config["data"]), gnomon.load(folder))[1]
        seen += held.rows.tolist()
    assert sorted(seen) == list(range(60))
    line = next(one for one in board.lines if one.run)
    assert Path(line.run).name == "softmax-regression-seed0-fold0" and line.score.n == 60


def test_a_board_of_proportions_shows_their_interval():
    """Wilson's for 9 of 10 is 0.60 to 0.98 (statsmodels: 0.5958, 0.9821); other boards have none."""
    right = Score.from_pointwise([1.0] * 9 + [0.0], unit="fraction", name="accuracy")
    other = Score.from_pointwise([-1.0, -2.0], unit="nats", name="log_likelihood")
    texts = []
    for score in (right, other):
        board = Leaderboard("classify", "toy", "", score.name)
        board.lines = [Line("mlp", score, {}, 0.0, None, "better")]
        texts.append(str(board))
    assert "95 % interval" in texts[0] and "0.6 to 0.98" in texts[0]
    assert "interval" not in texts[1]
    assert "95 % interval" in str(compare(["decision-tree"], "wine", folds=2)[0])


# --- systems that fail, and how far it has come ----------------------------------------------------------------------


def failing(error):
    def fit(self, *given, **options):
        raise error

    return fit


@pytest.mark.parametrize(
    ("error", "reason"),
    [(UserValueError("no such rows", "X", "add rows"), "no such rows (X); add rows"), (KeyError("k"), "KeyError: 'k'")],
)
def test_a_system_that_fails_is_a_line_and_does_not_end_the_others(error, reason, monkeypatch, capsys):
    systems = [gnomon.RandomForest(n_trees=2, random_state=0), quick(), gnomon.PPCA(random_state=0)]
    expected = compare(systems[1:], "iris", folds=3)
    monkeypatch.setattr(gnomon.RandomForest, "fit", failing(error))
    with gnomon.context(verbose=True):
        boards = compare(systems, "iris", folds=3)
    assert [[line.title for line in one.lines] for one in boards] == [
        [line.title for line in one.lines] for one in expected
    ]
    board = boards[0]
    (failed,) = board.failed
    assert (failed.title, failed.reason) == ("random-forest:n_trees=2", reason)
    assert board.to_json()["failed"] == [{"name": "random-forest", "settings": "n_trees=2", "reason": reason}]
    assert str(board).splitlines()[-1] == f"random-forest:n_trees=2 failed: {reason}"
    said = capsys.readouterr().err
    assert ("Traceback" in said) == isinstance(error, KeyError)
    lines = [line for line in said.splitlines() if " of 9  " in line]
    assert lines[0] == "3 of 9  random-forest:n_trees=2: failed"
    assert [line.split(":")[0] for line in lines[1:4]] == [f"{3 + k} of 9  softmax-regression" for k in (1, 2, 3)]
    assert "fold 2" in lines[3] and lines[1].endswith(" left") and lines[-1].startswith("9 of 9  ")
    assert not lines[-1].endswith("left")


def test_where_every_system_fails_the_first_error_is_raised(monkeypatch):
    monkeypatch.setattr(gnomon.SoftmaxRegression, "fit", failing(UserValueError("the first")))
    monkeypatch.setattr(gnomon.RandomForest, "fit", failing(UserValueError("the second")))
    with pytest.raises(UserValueError, match="the first"):
        compare([quick(), gnomon.RandomForest(random_state=0)], "iris")


@pytest.mark.parametrize(("first", "times"), [(KeyError("the first"), 1), (UserValueError("the first"), 0)])
def test_a_fault_of_every_system_is_told_once(first, times, monkeypatch, capsys):
    """It was printed where it occurred, and once more where it ended the command."""
    monkeypatch.setattr(gnomon.SoftmaxRegression, "fit", failing(first))
    monkeypatch.setattr(gnomon.DecisionTree, "fit", failing(ZeroDivisionError("the second")))
    assert command(["compare", "softmax-regression", "decision-tree", "iris"]) == 2 - times
    said = capsys.readouterr().err
    assert said.count("Traceback") == times + 1
    assert said.count("KeyError: 'the first'\n") == times and said.count("ZeroDivisionError: the second\n") == 1


def test_a_system_that_fails_on_a_later_fold_leaves_nothing_behind(monkeypatch):
    fit, calls = gnomon.SoftmaxRegression.fit, []

    def third(self, *given, **options):
        calls.append(1)
        if len(calls) == 3:
            raise UserValueError("no more")
        return fit(self, *given, **options)

    monkeypatch.setattr(gnomon.SoftmaxRegression, "fit", third)
    (board,) = compare([quick(), gnomon.RandomForest(n_trees=2, random_state=0)], "iris", folds=3)
    assert [one.name for one in board.failed] == ["softmax-regression"]
    assert "softmax-regression" not in {line.name for line in board.lines}


def test_runs_that_are_there_do_not_shorten_the_time_that_is_left(tmp_path, capsys):
    words = {"folds": 2, "out": tmp_path / "runs"}
    compare([quick()], "iris", **words)
    with gnomon.context(verbose=True):
        compare([quick(), gnomon.RandomForest(n_trees=2, random_state=0)], "iris", **words)
    lines = [line for line in capsys.readouterr().err.splitlines() if " of 4  " in line]
    assert [line.endswith(" left") for line in lines] == [False, False, True, False]


def fitted_by_hand(name, data):
    """All scores of a system fitted to the rows that a comparison fits it to, on those that it holds out."""
    one = gnomon.catalog.make(name, random_state=0)
    goal = find_task(one.tasks[0])
    train, test = goal.split(goal.adopt(load(data)), test=0.2)
    return all_scores(one.fit(train.X, train.y), test.X, test.y)


@pytest.mark.parametrize(
    ("name", "data"), [("logistic-regression", "breast-cancer"), ("bayesian-regression", "diabetes")]
)
def test_boards_are_ranked_by_every_score_that_evaluate_prints(name, data):
    for metric, score in fitted_by_hand(name, data).items():
        if metric == "coverage_95":
            with pytest.raises(UserError, match="must have a direction that is better"):
                compare([name], data, metric=metric)
            continue
        board = compare([name], data, metric=metric, prepare=Preparation(scale="no"))[0]
        lines = {line.name: line.score for line in board.lines}
        assert board.metric == metric == lines[name].name, metric
        assert lines[name].value == pytest.approx(score.value, nan_ok=True), metric
        values = [line.score.value for line in board.lines if not np.isnan(line.score.value)]
        assert values == sorted(values, reverse=score.higher_is_better)
        pointwise = all(one.pointwise is not None for one in lines.values() if np.isfinite(one.value))
        assert pointwise or f"{metric} has no value for each row" in str(board)


def test_scores_of_all_rows_together_are_compared_by_their_own_errors():
    board = compare(["logistic-regression", "decision-tree"], "breast-cancer", metric="auc", folds=3)[0]
    best, second, base = board.lines
    assert board.metric == "roc_auc" and not board.paired and not board.to_json()["paired"]
    assert base.name == "class shares" and base.score.value == 0.5
    margin = 1.97 * np.hypot(best.score.stderr, second.score.stderr)
    assert second.against_best == ("worse" if best.score.value - second.score.value > margin else "undecided")
    assert compare(["linear-regression"], "diabetes")[0].paired


def test_a_system_without_the_score_that_ranks_fails_alone():
    board = compare(["logistic-regression", "svm"], "breast-cancer", metric="roc_auc")[0]
    assert [one.name for one in board.failed] == ["svm"] and "has no roc_auc" in board.failed[0].reason
