"""``gnomon.search`` on data: spaces of systems, the rows that trials see, going on, the command."""

import json
import sys

import numpy as np
import pytest

import gnomon
from gnomon.cli.main import run as command
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.search.dimensions import OneOf, RealRange, WholeRange
from gnomon.search.space import derived, space_of
from gnomon.search.verb import search
from gnomon.tasks.metrics import all_scores


@pytest.mark.parametrize("entry", gnomon.catalog(), ids=lambda entry: entry.name)
def test_every_value_of_a_derived_space_is_one_that_the_system_takes(entry):
    system = gnomon.make(entry.name)
    space = derived(system)
    assert space_of(system, space) == space  # refuses ends that the system refuses
    for name, one in space.items():
        now = getattr(system, name)
        if isinstance(one, OneOf):
            assert now in one.values
        else:
            assert one.low <= now <= one.high and isinstance(now, int) == isinstance(one, WholeRange)


def test_a_derived_space_leaves_out_budgets_seeds_and_what_does_nothing():
    assert set(derived(gnomon.MLP())) == {"hidden", "dropout", "l2", "learning_rate"}
    assert derived(gnomon.MLP())["hidden"].values == ((32,), (64,), (128,), (256,), (512,))
    assert derived(gnomon.LinearRegression()) == {}
    assert "learning_rate" in derived(gnomon.LinearRegression(solver="gradient"))
    networks = derived(gnomon.TransformerLM(n_embedding=24, n_heads=4))
    assert "n_heads" not in networks and networks["n_embedding"] == OneOf((8, 16, 24, 48, 96))
    assert derived(gnomon.SVM(C=3.0)) == {"C": RealRange(0.1, 90.0, log=True)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16..512", WholeRange(16, 512)), ("16..512:log", WholeRange(16, 512, log=True)), ("1,2,4", OneOf((1, 2, 4))),
    ],
)  # fmt: skip
def test_spaces_are_read_as_the_command_line_writes_them(text, expected):
    assert space_of(gnomon.RBM(), {"n_hidden": text}) == {"n_hidden": expected}


def test_spaces_of_other_kinds():
    mlp = gnomon.MLP()
    assert space_of(mlp, {"learning_rate": "1e-5..1e-1:log"}) == {"learning_rate": RealRange(1e-5, 0.1, log=True)}
    assert space_of(mlp, {"hidden": "64,128x64"}) == {"hidden": OneOf(((64,), (128, 64)))}
    assert space_of(gnomon.RBM(), {"objective.k": "1..10"}) == {"objective.k": WholeRange(1, 10)}
    assert space_of(mlp, {"activation": np.array(["relu", "tanh"])}) == {"activation": OneOf(("relu", "tanh"))}
    assert space_of(gnomon.RandomForest(), {"max_depth": "none,3"}) == {"max_depth": OneOf((None, 3))}


@pytest.mark.parametrize(
    ("space", "kind", "words"),
    [
        ({"n_hiden": "1..3"}, UserValueError, "RBM has no hyper-parameter 'n_hiden' .*did you mean n_hidden"),
        ({"objective.kk": "1..3"}, UserValueError, "no hyper-parameter 'objective.kk'"),
        ({"n_hidden": "1..x"}, UserValueError, r"n_hidden must be LOW..HIGH, LOW..HIGH:log or A,B,..., got '1..x'"),
        ({"n_hidden": "0..8"}, UserValueError, r"n_hidden must be a whole number in \[1, inf\), got 0"),
        ({"objective": ["pcd", "nothing"]}, UserValueError, "nothing"),
        ({"n_hidden": 3}, UserTypeError, "n_hidden must be a range such as"),
        (["n_hidden"], UserTypeError, "space must be a mapping"),
    ],
)
def test_spaces_that_cannot_be_are_refused_before_a_fit(space, kind, words):
    with pytest.raises(kind, match=words):
        space_of(gnomon.RBM(), space)


def test_values_of_a_number_that_is_off_are_of_the_kind_that_the_system_takes():
    space = space_of(gnomon.MLP(), {"clip": "1..10", "max_updates": "1..10"})
    assert space == {"clip": RealRange(1.0, 10.0), "max_updates": WholeRange(1, 10)}


def blobs(n=120, seed=0):
    random = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return random.normal(size=(n, 2)) + 2.2 * y[:, None], y


def test_trials_are_judged_by_the_fit_without_the_rows_that_are_held_out(monkeypatch):
    """Leak test: no trial sees a test row, none is fitted to a validation row, and the score is that of the peer."""
    X, y = blobs()
    seen, fit = [], gnomon.LogisticRegression.fit
    monkeypatch.setattr(
        gnomon.LogisticRegression, "fit", lambda self, X, y, **k: [seen.append(np.asarray(X)), fit(self, X, y, **k)][1]
    )
    found = search(gnomon.LogisticRegression(), X, y, trials=3, space={"l2": "1e-3..1:log"})
    train, test = gnomon.data.split((X, y), test=0.2)
    inner, validation = gnomon.data.split(train, test=0.25)
    rows = lambda table: {tuple(row) for row in np.round(table, 9)}  # noqa: E731
    assert len(seen) == 5 and all(rows(one) == rows(inner[0]) for one in seen[:3])
    assert all(rows(one) == rows(train[0]) for one in seen[3:])
    monkeypatch.undo()
    for one in found.trials:
        again = gnomon.LogisticRegression(random_state=0, **one.parameters).fit(*inner)
        assert one.value == again.score(*validation)
    assert found.board.lines[0].score.n == len(test[0]) and found.best.value == max(one.value for one in found.trials)


def test_folds_are_those_of_the_training_rows_and_end_trials_early():
    X, y = blobs()
    system, options = gnomon.LogisticRegression(random_state=0), {"metric": "log_likelihood"}
    found = search(system, X, y, trials=12, space={"l2": "1e-4..1e4:log"}, folds=4, **options)
    assert found.validation == "4 folds, stratified"
    assert {one.state for one in found.trials} == {"done", "ended early"}
    train, _ = gnomon.data.split((X, y), test=0.2)
    done = next(one for one in found.trials[1:] if one.state == "done")  # the first is the system as it was
    board = gnomon.compare([gnomon.LogisticRegression(**done.parameters)], *train, folds=4, **options)[0]
    assert done.value == pytest.approx(next(line.score.value for line in board.lines if line.settings))


def test_a_fit_with_early_stopping_ends_by_its_own_validation_loss():
    X, y = blobs()
    system = gnomon.MLP(epochs=15, early_stopping="patience", random_state=0)
    found = search(system, X, y, trials=14, space={"learning_rate": "1e-7..1e-2:log"})
    assert {one.state for one in found.trials} == {"done", "ended early"}


def test_trials_are_judged_by_scores_of_all_rows_together():
    X, y = blobs()
    found = search(gnomon.LogisticRegression(random_state=0), X, y, trials=2, space={"l2": "1e-2..1:log"}, metric="AUC")
    train, _ = gnomon.data.split((X, y), test=0.2)
    inner, held = gnomon.data.split(train, test=0.25)
    fitted = gnomon.LogisticRegression(random_state=0, **found.best.parameters).fit(*inner)
    assert found.metric == found.board.metric == "roc_auc"
    assert found.best.value == pytest.approx(all_scores(fitted, *held)["roc_auc"].value)


def test_metrics_tasks_and_directions():
    X, y = blobs()
    line = X[:, 0] * 2 + X[:, 1]
    trees = search("regression-tree", X, line, trials=50, metric="absolute_error", space={"max_depth": "1..5"})
    assert trees.metric == "absolute_error" and trees.best.value == min(one.value for one in trees.trials)
    assert {one.parameters["max_depth"] for one in trees.trials} == {1, 2, 3, 4, 5}
    with pytest.raises(UserValueError, match=r"unknown metric 'accurracy'.*did you mean accuracy"):
        search(gnomon.SVM(), X, y, trials=5, metric="accurracy")
    with pytest.raises(UserValueError, match="space must be given for ppca"):
        search("ppca", X)
    for options in ({"trials": 0}, {"trials": True}, {"validation": 1.0}, {"folds": 1}, {"strategy": "best"}):
        with pytest.raises(UserError):
            search("svm", X, y, **options)
    for options in ({"holdout": 0}, {"holdout": True}, {"seconds": "a"}, {"store": 3}, {"out": 3}, {"seed": "a"}):
        with pytest.raises(UserError):
            search("svm", X, y, trials=2, **options)


def test_a_search_goes_on_from_its_store_and_ends_as_one_that_was_not_stopped(tmp_path):
    X, y = blobs()
    options = {"space": {"C": "1e-3..10:log"}}
    whole = search("svm", X, y, trials=9, out=tmp_path / "a", **options)
    search("svm", X, y, trials=4, out=tmp_path / "b", **options)
    parts = search("svm", X, y, trials=9, out=tmp_path / "b", **options)
    assert [(one.parameters, one.value) for one in parts.trials] == [
        (one.parameters, one.value) for one in whole.trials
    ]
    assert parts.board.lines[0].score == whole.board.lines[0].score
    runs = [one for one in (tmp_path / "b").iterdir() if one.is_dir()]
    assert any(parts.best.parameters["C"] == gnomon.load(one).C for one in runs)


def test_without_optuna_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gnomon.search.study", None)
    with pytest.raises(UserValueError, match=r"a search needs Optuna .*pip install \"gnomon\[search\]\""):
        search("svm", "iris")


def test_the_package_can_be_called_whatever_was_imported_first():
    import gnomon.search.space

    assert gnomon.search("svm", "iris", trials=2, space={"C": "1,2"}).best.value > 0.8


def test_the_command_line_tells_trials_and_gives_json(capsys, tmp_path):
    words = ["search", "svm", "iris", "--trials", "3", "--space", "C=0.1..10:log", "--out", str(tmp_path / "s")]
    assert command(words) == 0
    out, err = capsys.readouterr()
    assert out.startswith("3 trials (3 done); the best, number ") and "on rows that no trial has seen:" in out
    assert "1 of 3  C=" in err and "3 of 3  C=" in err
    assert command([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["trials"]) == 3 and found["space"] == {"C": "0.1..10:log"}
    assert {line["name"] for line in found["leaderboard"]["lines"]} >= {"svm", "class shares"}
    for wrong, said in (
        (["--space", "C"], "--space must be KEY=RANGE, got 'C'"),
        (["--space", "C=1,2", "--space", "C=3"], "C is given twice"),
        (["--strategy", "tp"], "unknown strategy 'tp'; did you mean tpe?"),
    ):
        assert command(["search", "svm", "iris", *wrong]) == 2
        assert said in capsys.readouterr().err
