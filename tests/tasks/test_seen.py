"""Rows at random with predictions and truth: the same again, the way of evaluation, inputs as they were read."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gnomon
from gnomon.cli.main import run
from gnomon.data.preprocessing import Standardizer
from gnomon.errors import UserTypeError, UserValueError
from gnomon.report.seen import seen_of
from gnomon.report.subject import Subject
from gnomon.tasks.seen import show_predictions
from oracles.commands import call


@pytest.mark.spec("PRA-080")
def test_the_selection_is_that_of_the_seed_and_fair():
    """Each of 10 rows among 4 in 40 % of 2,000 seeds: z within 4.5, a false alarm in 15,000 runs."""
    X, y = np.arange(10.0)[:, None], np.arange(10.0)
    model = LinearRegression().fit(X, y)
    first, again = (show_predictions(model, X, y, 4, random_state=5) for _ in range(2))
    assert np.array_equal(first.places, again.places) and len(set(first.places.tolist())) == 4
    assert np.array_equal(first.inputs, X[first.places]) and np.array_equal(first.true, y[first.places])
    assert np.allclose(first.predicted, model.predict(X)[first.places], rtol=0, atol=1e-12)
    counts = np.zeros(10)
    for seed in range(2000):
        counts[show_predictions(model, X, y, 4, random_state=seed).places] += 1
    assert (np.abs(counts / 2000 - 0.4) < 4.5 * np.sqrt(0.24 / 2000)).all()
    assert len(show_predictions(model, X, y, 50).places) == 10


@pytest.mark.spec("PRA-080")
def test_normalization_is_undone_for_display():
    random = np.random.default_rng(0)
    X = random.normal(50, 9, size=(30, 3))
    scaler = Standardizer().fit(X)
    Z, y = scaler.transform(X), X[:, 0]
    model = LinearRegression().fit(Z, y)
    found = show_predictions(model, Z, y, 6, random_state=1, undo=scaler)
    assert np.allclose(found.inputs, X[found.places], rtol=1e-12)
    assert np.allclose(found.predicted, model.predict(Z)[found.places], rtol=1e-12)  # asked with scaled rows
    by_function = show_predictions(model, Z, y, 6, random_state=1, undo=scaler.inverse_transform)
    assert np.array_equal(by_function.inputs, found.inputs)
    pipeline = make_pipeline(StandardScaler(), LinearRegression()).fit(X, y)
    assert np.allclose(show_predictions(pipeline, X, y, 6, random_state=1).predicted, found.predicted)
    for rows in (pd.DataFrame(X), pl.DataFrame(X)):
        assert np.allclose(
            np.asarray(show_predictions(pipeline, np.asarray(rows), y, 6, random_state=1).true), found.true
        )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    random = np.random.default_rng(0)
    kind, size = random.choice(["a", "b", "c"], 200), random.normal(1e6, 2e5, 200).round(1)
    frame = pl.DataFrame({"kind": kind, "size": size, "true": random.integers(0, 5, 200)})
    label = np.where((size > 1e6) ^ (kind == "a"), "yes", "no")
    frame.with_columns(pl.Series("label", label)).write_csv(folder / "mixed.csv")
    for name, *words in (
        ("tree", "decision-tree", "digits", "--max-depth", "5"),
        ("log", "logistic-regression", str(folder / "mixed.csv")),
        ("line", "linear-regression", "diabetes"), ("kmeans", "kmeans", "iris", "--n-clusters", "2"),
        ("ppca", "ppca", "iris", "--n-components", "1"),
    ):  # fmt: skip
        target = ["--target", "label"] if name == "log" else []
        assert run(["fit", *words, *target, "--random-state", "0", "--out", str(folder / name), "--json"]) == 0
    return folder


@pytest.mark.spec("PRA-080")
@pytest.mark.parametrize("name", ["tree", "log"])
def test_all_rows_shown_have_the_accuracy_of_evaluation(runs, capsys, name):
    """The same preprocessing: scaled and encoded columns, levels of gray."""
    accuracy = call(capsys, "evaluate", runs / name)["scores"]["accuracy"]
    found = call(capsys, "show", runs / name, "-n", 10_000)
    columns = found["columns"]
    right = np.mean(np.array(columns["true"]) == np.array(columns["predicted"]))
    assert found["n"] == accuracy["n"] and found["held_out"]
    assert right == pytest.approx(accuracy["value"], abs=1e-12)


@pytest.mark.spec("PRA-080")
def test_rows_are_shown_as_the_file_has_them(runs, capsys, tmp_path):
    found = call(capsys, "show", runs / "log", "-n", 8, "--seed", 3)["columns"]
    table = pl.read_csv(runs / "mixed.csv")
    assert list(found) == ["row", "true", "predicted", "probability", "kind", "size", "true (data)"]
    rows = found["row"]
    assert found["true"] == table["label"].gather(rows).to_list()
    assert found["kind"] == table["kind"].gather(rows).to_list()
    assert found["size"] == pytest.approx(table["size"].gather(rows).to_list(), rel=1e-12)
    assert call(capsys, "show", runs / "log", "-n", 8, "--seed", 3)["columns"] == found
    assert call(capsys, "show", runs / "log", "-n", 8, "--seed", 4)["columns"]["row"] != rows
    asked = table[rows].drop("label")
    asked.write_csv(tmp_path / "new.csv")
    alone = call(capsys, "show", runs / "log", tmp_path / "new.csv")["columns"]
    assert "true" not in alone or alone["true"] == asked["true"].to_list()
    assert alone["predicted"] == found["predicted"] and alone["probability"] == pytest.approx(found["probability"])
    labeled = call(capsys, "show", runs / "log", runs / "mixed.csv", "-n", 200)["columns"]
    assert labeled["true"] == table["label"].to_list()


@pytest.mark.spec("PRA-080")
def test_images_are_shown_on_their_levels_and_wrong_ones_framed(runs, capsys, tmp_path):
    name = "tree"
    found = call(capsys, "show", runs / name, "-n", 30, "--out", tmp_path / "seen.png")
    assert found["n"] == 30
    columns = call(capsys, "show", runs / name, "-n", 30)["columns"]
    picture = np.asarray(Image.open(tmp_path / "seen.png").convert("RGB")).astype(int)
    data = gnomon.data.load("digits").X.reshape(-1, 8, 8)
    wrong = np.array(columns["true"]) != np.array(columns["predicted"])
    assert wrong.any() and not wrong.all()
    for k, row in enumerate(columns["row"]):
        i, j = divmod(k, 6)
        tile = picture[49 * i : 49 * i + 48, 49 * j : 49 * j + 48]
        edge = np.ones((48, 48), bool)
        edge[2:-2, 2:-2] = False
        wanted = np.repeat(data[row].repeat(6, 0).repeat(6, 1)[..., None] * 255 / 16, 3, axis=2)
        assert np.abs(tile - wanted)[~edge].max() <= 1
        if wrong[k]:
            assert (tile[edge] == tile[0, 0]).all() and tile[0, 0, 0] > tile[0, 0, 1] + 100
        else:
            assert np.abs(tile - wanted).max() <= 1


@pytest.mark.spec("PRA-080")
def test_the_page_shows_rows_beside_the_scores(runs):
    from gnomon.report.figures import drawn_for_a_page

    with drawn_for_a_page():
        for name, words in (("tree", "red frame"), ("line", "bmi")):
            subject = Subject.of(runs / name)
            section = seen_of(subject)
            assert section is not None and section.title == "Seen at random" and words in section.body
            found = show_predictions(subject.system, subject.examples[0], None, 12, random_state=0)
            for place in found.places:
                assert f"<bdi>{subject.held.rows[place]}</bdi>" in section.body
        assert seen_of(Subject.of(runs / "ppca")) is None


def test_other_tasks_and_mistakes(runs, capsys, tmp_path):
    clusters = call(capsys, "show", runs / "kmeans", "iris", "-n", 3)["columns"]
    assert "true" not in clusters and set(clusters["predicted"]) <= {0, 1}
    assert run(["show", str(runs / "line"), "-n", "2"]) == 0
    assert "2 held-out rows of diabetes, drawn at random" in capsys.readouterr().out
    for arguments, message in (
        ([runs / "ppca"], "ppca does not predict"),
        ([runs / "line", "--out", tmp_path / "a.png"], "a table has no picture"),
        ([runs / "line", "--out", tmp_path / "a.npy"], "must end in .csv or .parquet or .png"),
        ([runs / "line", "iris"], "no column 'age'"),
        ([runs / "log", runs / "mixed.csv", "--target", "labl"], "no column 'labl'"),
    ):  # fmt: skip
        assert run(["show", *map(str, arguments)]) == 2
        assert message in capsys.readouterr().err
    for call_, error, message in (
        (lambda: show_predictions(object(), np.eye(2)), UserTypeError, "object does not predict"),
        (lambda: show_predictions(LinearRegression(), np.eye(2), [1]), UserValueError, "y must have 2 entries, got 1"),
        (lambda: show_predictions(LinearRegression(), np.eye(2), n=0), UserValueError, "at least 1, got 0 of 2"),
        (lambda: show_predictions(LinearRegression(), np.empty((0, 2))), UserValueError, "got 12 of 0"),
    ):
        with pytest.raises(error, match=message):
            call_()
