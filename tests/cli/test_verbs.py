"""predict with what is kept and the spread, score, transform, components: the numbers of Python's face, refusals."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import gnomon
from gnomon.cli.main import run
from oracles.commands import call

Call = Any


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an id, and runs fitted to it."""
    folder = tmp_path_factory.mktemp("verbs")
    random = np.random.default_rng(0)
    kind = random.integers(0, 2, size=400)
    x = random.normal(size=(400, 2)) * [1, 3] + 4 * kind[:, None]
    y = x @ [1.5, -2] + random.normal(size=400)
    lines = [f"{i:04d},{a:.4f},{b:.4f},{'yes' if k else 'no'},{t:.4f}"
             for i, ((a, b), k, t) in enumerate(zip(x, kind, y, strict=True))]  # fmt: skip
    (folder / "t.csv").write_text("\n".join(["id,a,b,kind,y", *lines]) + "\n")
    table = str(folder / "t.csv")
    for name, system, *more in (
        ("class", "gaussian-classifier", "--target", "kind"),
        ("line", "bayesian-regression", "--target", "y"),
        ("mix", "gaussian-mixture", "--n-components", "2", "--random-state", "0", "--holdout", "0.5"),
        ("ppca", "ppca", "--n-components", "1", "--random-state", "0"),
        ("kmeans", "kmeans", "--n-clusters", "2", "--random-state", "0"),
        ("tree", "decision-tree", "--target", "kind"),
    ):
        assert run(["fit", system, table, "--columns", "a,b", *more, "--out", str(folder / name)]) == 0
    return folder


def refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    capsys.readouterr()
    assert run([*map(str, arguments)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return err


def rows(folder: Path) -> np.ndarray[Any, Any]:
    return pl.read_csv(folder / "t.csv").select("a", "b").to_numpy()


def cells(file: Path) -> list[dict[str, str]]:
    with file.open() as stream:
        return list(csv.DictReader(stream))


def test_predict_keeps_columns_beside_probabilities(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E17: an id and what it says stays, letter by letter; probabilities are Python's, in CSV and Parquet."""
    proba = gnomon.load(folder / "class").predict_proba(rows(folder))
    for ending in ("csv", "parquet"):
        out = folder / f"p.{ending}"
        words = ["predict", folder / "class", folder / "t.csv", "--keep", "id,kind", "--proba", "--out", out]
        assert call(capsys, *words) == {"n": 400, "out": str(out)}
        found = pl.read_parquet(out) if ending == "parquet" else pl.read_csv(out, schema_overrides={"id": pl.String})
        assert found.columns == ["id", "kind", "prediction", "no", "yes"]
        assert found["id"].to_list()[:2] == ["0000", "0001"]
        assert found["prediction"].to_list() == gnomon.load(folder / "class").predict(rows(folder)).tolist()
        assert np.array_equal(found.select("no", "yes").to_numpy(), proba)
    assert "exists" in refused(capsys, *words)
    shown = call(capsys, "predict", folder / "tree", folder / "t.csv", "--keep", "id")
    assert shown["kept"]["id"][:2] == ["0000", "0001"] and len(shown["predictions"]) == 400
    assert "no column 'idd'" in refused(capsys, "predict", folder / "tree", folder / "t.csv", "--keep", "idd")
    assert "'id' occurs twice (--keep)" in refused(
        capsys, "predict", folder / "tree", folder / "t.csv", "--keep", "id,id"
    )
    out = folder / "bad.npy"
    assert "is text" in refused(capsys, "predict", folder / "line", folder / "t.csv", "--keep", "id", "--out", out)
    assert not out.exists()


def test_predict_with_a_standard_deviation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E8: a regressor says that it is one, and names --std."""
    run_, table = folder / "line", folder / "t.csv"
    mean, std = gnomon.load(run_).predict(rows(folder), return_std=True)
    found = call(capsys, "predict", run_, table, "--std")
    assert np.array_equal(found["predictions"], mean) and np.array_equal(found["std"], std)
    assert call(capsys, "predict", run_, table, "--std", "--out", folder / "s.npy")["n"] == 400
    assert np.array_equal(np.load(folder / "s.npy"), np.stack([mean, std], 1))
    told = refused(capsys, "predict", run_, table, "--proba")
    assert "predicts numbers, which have no probabilities of classes (--proba); --std gives" in told
    assert "must not stand together" in refused(capsys, "predict", folder / "class", table, "--std", "--proba")
    assert "does not predict" in refused(capsys, "predict", folder / "ppca", table)
    assert "gaussian-mixture" in refused(capsys, "predict", folder / "kmeans", table, "--proba")


def test_numbers_of_float32_are_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five digits of a float32 are five digits, not the seventeen of the nearest float64."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32))
    assert run(["fit", "ppca", str(tmp_path / "x.npy"), "--n-components", "2", "--out", str(tmp_path / "run")]) == 0
    codes = gnomon.load(tmp_path / "run").transform(np.load(tmp_path / "x.npy"))
    assert codes.dtype == np.float32
    capsys.readouterr()
    assert run(["transform", str(tmp_path / "run"), str(tmp_path / "x.npy")]) == 0
    lines = capsys.readouterr().out.split()
    assert lines[0] == "ppca0,ppca1" and lines[1] == ",".join(map(str, codes[0]))
    found = call(capsys, "transform", tmp_path / "run", tmp_path / "x.npy")["columns"]
    assert found["ppca0"][0] == float(str(codes[0, 0]))


def test_score_is_the_log_density_of_each_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E11, against scipy's normal densities; a classifier's sums its classes."""
    mixture = gnomon.load(folder / "mix")
    each = [w * stats.multivariate_normal(m, c).pdf(rows(folder))
            for w, m, c in zip(mixture.weights_, mixture.means_, mixture.covariances_, strict=True)]  # fmt: skip
    found = call(capsys, "score", folder / "mix", folder / "t.csv", "--keep", "id")
    assert np.allclose(found["columns"]["log_density"], np.log(np.sum(each, 0)), rtol=1e-6)
    assert found["columns"]["id"][1] == "0001" and found["kind"] == "exact" and found["unit"] == "nats"
    assert found["data_space"] == "density on R^2"
    model = gnomon.load(folder / "class")
    shown = call(capsys, "score", folder / "class", folder / "t.csv")["columns"]["log_density"]
    assert np.array_equal(shown, model.marginal_log_prob(rows(folder)))


def test_outliers_at_a_rate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The threshold is that of the held-out rows, and flags at most the rate of them; a far row is flagged."""
    assert run(["score", str(folder / "mix"), str(folder / "t.csv"), "--rate", "0.05"]) == 0
    out, err = capsys.readouterr()
    assert "200 rows of the held-out part" in err and out.startswith("log_density,outlier\n")
    far = folder / "far.csv"
    far.write_text("a,b\n1,1\n60,-60\n")
    found = call(capsys, "score", folder / "mix", far, "--rate", "0.05", "--out", folder / "far.parquet")
    assert found["outliers"] == 1
    assert pl.read_parquet(folder / "far.parquet")["outlier"].to_list() == [False, True]
    mixture = gnomon.load(folder / "mix")
    held = gnomon.data.split(gnomon.data.load(folder / "t.csv", columns=["a", "b"]), test=0.5)[1]
    scores = mixture.log_prob(held.X)
    assert (scores < found["threshold"]).mean() <= 0.05 < (scores <= found["threshold"]).mean() + 1 / 200
    told = refused(capsys, "score", folder / "mix", far, "--rate", "0.0001")
    assert "needs at least 9999 ordinary rows" in told.splitlines()[-1]
    assert "must be in (0, 1)" in refused(capsys, "score", folder / "mix", far, "--rate", "1")
    other = call(capsys, "score", folder / "mix", far, "--rate", "0.05", "--ordinary", folder / "t.csv")
    assert other["threshold_from"].startswith("400 rows of")


def test_score_of_bounds_energies_and_targets(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the number is, is said: a bound, an estimate, the density of a target given the row."""
    np.save(tmp_path / "b.npy", np.random.default_rng(0).integers(0, 2, (60, 6)).astype(np.float32))
    for name, system, *more in (
        ("vae", "vae", "--epochs", "1", "--likelihood", "bernoulli"),
        ("rbm", "rbm", "--epochs", "1", "--n-hidden", "3"),
    ):
        words = ["fit", system, str(tmp_path / "b.npy"), *more, "--random-state", "0", "--out", str(tmp_path / name)]
        assert run(words) == 0
    X = np.load(tmp_path / "b.npy")
    found = call(capsys, "score", tmp_path / "vae", tmp_path / "b.npy")
    assert found["kind"] == "lower bound" and list(found["columns"]) == ["log_probability"]
    bound = gnomon.load(tmp_path / "vae").log_prob_bound(X)
    assert np.allclose(found["columns"]["log_probability"], bound.pointwise)
    exact = call(capsys, "score", tmp_path / "rbm", tmp_path / "b.npy")
    assert exact["kind"] == "exact"
    assert np.allclose(exact["columns"]["log_probability"], gnomon.load(tmp_path / "rbm").log_prob(X), rtol=1e-5)
    y = pl.read_csv(folder / "t.csv")["y"].to_numpy()
    given = call(capsys, "score", folder / "line", folder / "t.csv")
    assert given["note"] == "of the target given the row"
    assert np.allclose(given["columns"]["log_density"], gnomon.load(folder / "line").log_prob(rows(folder), y))
    told = refused(capsys, "score", folder / "tree", folder / "t.csv")
    assert "decision-tree does not give rows a density" in told and "gaussian-classifier" in told


def test_transform_names_its_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = call(capsys, "transform", folder / "kmeans", folder / "t.csv", "--keep", "kind")["columns"]
    assert list(found) == ["kind", "kmeans0", "kmeans1"]
    distances = gnomon.load(folder / "kmeans").transform(rows(folder))
    assert np.array_equal(np.stack([found["kmeans0"], found["kmeans1"]], 1), distances)
    assert "does not transform rows" in refused(capsys, "transform", folder / "tree", folder / "t.csv")


def test_components_stand_under_the_names_of_the_columns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = call(capsys, "components", folder / "ppca")["components"]
    model = gnomon.load(folder / "ppca")
    assert found["component"] == ["component 0", "mean"] and list(found) == ["component", "a", "b"]
    assert np.allclose([found["a"][0], found["b"][0]], model.components_[0])
    assert np.allclose([found["a"][1], found["b"][1]], model.mean_)
    mixture = call(capsys, "components", folder / "mix")["components"]
    assert list(mixture) == ["component", "weight", "a", "b"] and sum(mixture["weight"]) == pytest.approx(1)
    line = call(capsys, "components", folder / "line")["components"]
    assert line["output"] == ["prediction"] and line["b"] == pytest.approx([-2], abs=0.2)
    assert call(capsys, "components", folder / "kmeans", "--out", folder / "c.csv")["n"] == 2
    assert [row["center"] for row in cells(folder / "c.csv")] == ["center 0", "center 1"]
    assert "no components by column" in refused(capsys, "components", folder / "tree")
    assert "only images" in refused(capsys, "components", folder / "kmeans", "--out", folder / "c.png")


def test_pictures_of_samples_and_components(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E5: a grid as PNG, every pixel of an image a square of equal pixels."""
    from PIL import Image

    out = tmp_path / "run"
    words = ["fit", "bernoulli-mixture", "digits", "--n-components", "4", "--max-iter", "3", "--random-state", "0"]
    assert run([*words, "--out", str(out)]) == 0
    assert call(capsys, "sample", out, "-n", "4", "--seed", "1", "--out", tmp_path / "grid.png")["n"] == 4
    picture = np.asarray(Image.open(tmp_path / "grid.png").convert("L"))
    drawn = gnomon.load(out).sample(4, random_state=1).reshape(4, 8, 8)
    assert picture.shape == (98, 98)
    assert np.array_equal(picture[:48, 49:97][::6, ::6] > 127, drawn[1] > 0.5)
    assert call(capsys, "components", out, "--out", tmp_path / "means.png")["n"] == 4
    assert np.asarray(Image.open(tmp_path / "means.png")).shape[:2] == (98, 98)
    assert "exists" in refused(capsys, "sample", out, "--out", tmp_path / "grid.png")


def test_components_are_in_the_units_of_the_columns(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns that a fit scales come back in their own units: means, directions, weights of a plane."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 2)) * [1000, 0.1] + [50_000, 3]
    kind = np.where(x[:, 0] / 1000 + 10 * x[:, 1] > 80, "up", "down")
    lines = [f"{a:.3f},{b:.5f},{k}" for (a, b), k in zip(x, kind, strict=True)]
    (tmp_path / "u.csv").write_text("\n".join(["income,rate,kind", *lines]) + "\n")
    for name, system, *more in (
        ("ppca", "ppca", "--n-components", "1"), ("kmeans", "kmeans", "--n-clusters", "1"),
        ("mix", "gaussian-mixture", "--n-components", "1"),
    ):  # fmt: skip
        words = ["fit", system, str(tmp_path / "u.csv"), "--drop", "kind", "--holdout", "0", *more]
        assert run([*words, "--random-state", "0", "--out", str(tmp_path / name)]) == 0
        found = call(capsys, "components", tmp_path / name)["components"]
        assert found["income"][-1] == pytest.approx(x[:, 0].mean()) and found["rate"][-1] == pytest.approx(
            x[:, 1].mean(), rel=1e-4
        )
    model = gnomon.load(tmp_path / "ppca")
    rows = pl.DataFrame({"income": x[:, 0].round(3), "rate": x[:, 1].round(5)})
    rebuilt = model.transform(rows) @ model.components_ + model.mean_
    assert np.allclose(rebuilt, model.inverse_transform(model.transform(rows)))
    assert np.allclose(np.sqrt(np.diag(model.get_covariance())), x.std(0), rtol=0.01)
    words = ["fit", "svm", str(tmp_path / "u.csv"), "--target", "kind", "--kernel", "linear", "--holdout", "0"]
    assert run([*words, "--out", str(tmp_path / "svm")]) == 0
    found = call(capsys, "components", tmp_path / "svm")["components"]
    decisions = rows.to_numpy() @ [found["income"][0], found["rate"][0]] + found["intercept"][0]
    assert np.allclose(decisions, gnomon.load(tmp_path / "svm").decision_function(rows))


def test_info_lists_the_verbs_that_a_system_has(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("ppca", "gaussian-mixture", "bernoulli-mixture", "rbm"):
        assert {"anomaly_score", "log_prob", "sample"} <= set(call(capsys, "info", name)["verbs"])
    hooks = {"chunk", "sums_of", "pooled", "solve", "examples_of_chunk", "make_layer"}
    assert not hooks & {
        verb for name in ("ppca", "linear-regression", "rnn-lm") for verb in call(capsys, "info", name)["verbs"]
    }


def test_what_is_kept_is_read_as_the_fit_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Separator, marks and encoding of the run hold for the kept columns too; a range of columns is kept whole."""
    lines = [f"Zoé;{i};{i},5;{i * i % 7},25;{'on' if i % 2 else 'off'}" for i in range(40)]
    (tmp_path / "l.csv").write_bytes("\n".join(["name;id;u;v;kind", *lines]).encode("latin-1"))
    words = ["fit", "decision-tree", str(tmp_path / "l.csv"), "--columns", "u,v", "--target", "kind", "--holdout", "0"]
    form = ["--encoding", "latin-1", "--separator", ";", "--decimal", ","]
    assert run([*words, *form, "--out", str(tmp_path / "run")]) == 0
    found = call(capsys, "predict", tmp_path / "run", tmp_path / "l.csv", "--keep", "name:id")
    assert found["kept"] == {"name": ["Zoé"] * 40, "id": list(range(40))}


@pytest.mark.parametrize("scale", ["no", "yes"])
def test_weights_of_a_network_are_of_the_columns_as_given(scale: str) -> None:
    """The first layer's activity of raw rows is that within the network, whatever scaled the columns before it."""
    import torch

    from gnomon.tasks.components import components

    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.normal(50, 9, 60), "b": random.normal(size=60) * 1e-3})
    y = (frame["a"] > 50).to_numpy().astype(int)
    prepared = gnomon.data.Preparation(scale=scale).fit(frame)
    system = gnomon.MLP(hidden=(4,), epochs=2, random_state=0).fit(frame, y, preparation=prepared)
    found = components(system, ["a", "b"])
    assert found is not None
    table = found.table()
    mine = frame.to_numpy() @ np.array([table["a"], table["b"]]) + np.array(table["bias"])
    rows = torch.from_numpy(np.asarray(system._rows(frame)))
    model = system.model_
    inside = model.layers[0]((rows - model.shift) / model.scale).detach().numpy()
    np.testing.assert_allclose(mine, inside, rtol=1e-3, atol=1e-4)


def test_impute_fills_in_what_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers of Python's verb, from .npy with NaN and from a table with empty cells; known cells stay."""
    X = (np.random.default_rng(0).random((60, 4)) < 0.5).astype(float)
    X[:, 1] = X[:, 0]
    asked = X[:5].copy()
    asked[0, 1] = asked[2] = np.nan
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", asked)
    assert (
        run(["fit", "boltzmann-machine", str(tmp_path / "x.npy"), "--epochs", "20", "--out", str(tmp_path / "run")])
        == 0
    )
    capsys.readouterr()
    expected = gnomon.load(tmp_path / "run").impute(asked)
    found = call(capsys, "impute", tmp_path / "run", tmp_path / "y.npy")["columns"]
    assert np.allclose(np.column_stack(list(found.values())), expected)
    assert list(found) == [f"column_{j}" for j in range(1, 5)]
    names = ",".join(found)
    lines = [",".join("" if np.isnan(cell) else str(int(cell)) for cell in row) for row in asked]
    (tmp_path / "y.csv").write_text("\n".join([names, *lines]) + "\n")
    found = call(capsys, "impute", tmp_path / "run", tmp_path / "y.csv", "--how", "deviation")["columns"]
    assert found["column_2"][0] > 0 and found["column_1"][0] == 0
    drawn = call(capsys, "impute", tmp_path / "run", tmp_path / "y.csv", "--how", "sample", "--seed", "3")["columns"]
    again = gnomon.load(tmp_path / "run").impute(asked, how="sample", random_state=3)
    assert np.allclose(np.column_stack(list(drawn.values())), again)
    assert run(["fit", "ppca", str(tmp_path / "x.npy"), "--n-components", "2", "--out", str(tmp_path / "ppca")]) == 0
    capsys.readouterr()
    found = call(capsys, "impute", tmp_path / "ppca", tmp_path / "y.npy")["columns"]
    assert found["column_1"][0] == X[0, 0] and np.isfinite(found["column_2"][0])
    assert "takes no --steps" in refused(capsys, "impute", tmp_path / "ppca", tmp_path / "y.npy", "--steps", "9")
    assert run(["fit", "kmeans", str(tmp_path / "x.npy"), "--n-clusters", "2", "--out", str(tmp_path / "kmeans")]) == 0
    capsys.readouterr()
    assert "does not fill in missing cells" in refused(capsys, "impute", tmp_path / "kmeans", tmp_path / "y.npy")
