"""Every system that takes a table takes one of text, truth values, dates, categories and missing cells as it is."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import gnomon
from gnomon.catalog import Entry, entries
from gnomon.cli.main import run
from oracles.tables import mixed, shuffled_and_strange, write

NO_TABLES = ("embed", "fill", "language", "translate", "recommend", "rank")
OTHERS = {one.name for one in entries() if one.needs.startswith(("images", "texts"))}
SYSTEMS = [one for one in entries() if one.tasks[0] not in NO_TABLES and one.name not in OTHERS]
FAST = ("svm", "decision-tree", "linear-regression", "ppca", "rbm", "bernoulli-mixture", "kmeans")


def asked(words: list[str]) -> str:
    """What a command writes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(words)
    assert status == 0, err.getvalue()
    return out.getvalue()


def answer(system: Any, frame: Any) -> np.ndarray[Any, Any]:
    """What a fitted system says of rows."""
    if system.name == "vrnn":
        return np.asarray(system.filter(frame).mean).reshape(len(frame), -1)
    if system.name == "conditional-gan":
        return np.asarray(system.discriminate(frame, frame["alive"]))
    verbs = ("predict", "transform", "log_prob", "discriminate", "energy")
    return np.asarray(getattr(system, next(name for name in verbs if hasattr(system, name)))(frame))


def options(one: Entry) -> dict[str, Any]:
    return {**one.tiny, "random_state": 0} if "random_state" in gnomon.make(one.name).get_params() else dict(one.tiny)


@pytest.mark.filterwarnings("ignore::UserWarning")  # components of few rows, networks of few epochs
@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.name, marks=() if one.name in FAST else pytest.mark.slow) for one in SYSTEMS]
)
def test_a_mixed_table_is_fitted_as_it_is(one: Entry, tmp_path: Path) -> None:
    """With nothing but a target; ``fit`` and ``compare`` runs answer alike, whatever the order of the columns."""
    file = write(mixed(), tmp_path / "t.csv")
    target = "fare" if one.tasks[0] == "regress" else "alive"
    words = {"target": target}
    gnomon.fit(gnomon.make(one.name, **options(one)), str(file), **words, run=tmp_path / "fit")
    task = "represent" if one.tasks == ("represent",) else None
    made = gnomon.make(one.name, **options(one))
    board = gnomon.compare([made], str(file), holdout=0.25, **words, task=task, out=tmp_path / "all")[0]
    assert all(np.isfinite(line.score.value) for line in board.lines)
    path = next(line.run for line in board.lines if line.run)
    new = shuffled_and_strange(mixed(30, seed=3))
    straight = new[list(mixed(30, seed=3).columns)]
    for folder in (tmp_path / "fit", Path(str(path))):
        system = gnomon.load(folder)
        assert system.preparation_.names_out and "name" in system.preparation_.left_out
        found = answer(system, new)
        assert len(found) == len(new)
        assert found.dtype.kind not in "f" or np.isfinite(found).all()
        np.testing.assert_array_equal(answer(system, straight), found)
        np.testing.assert_array_equal(answer(system, new.drop(columns=["remark", "name", "planet"])), found)
        write(new, tmp_path / "new.csv")
        for verb, method in (("transform", "transform"), ("score", "log_prob")):
            if not hasattr(system, method) or hasattr(system, "predict"):
                continue
            columns = json.loads(asked([verb, str(folder), str(tmp_path / "new.csv"), "--json"]))["columns"]
            values = np.column_stack(list(columns.values())).reshape(len(new), -1)
            same = getattr(system, method)(new).reshape(len(new), -1)
            np.testing.assert_allclose(values, same, rtol=1e-6, atol=1e-9)
        if hasattr(system, "predict"):
            told = json.loads(asked(["predict", str(folder), str(tmp_path / "new.csv"), "--json"]))["predictions"]
            same = np.asarray(told) == found if found.dtype.kind not in "f" else np.isclose(told, found, rtol=1e-9)
            assert np.all(same)


@pytest.mark.parametrize("name", ["svm", "decision-tree", "kmeans"])
def test_a_frame_is_taken_in_python(name: str, tmp_path: Path) -> None:
    """pandas and polars; without scaling, with what was learned kept in the saved model."""
    import polars as pl

    table, new = mixed(), shuffled_and_strange(mixed(30, seed=3))
    X, y = table.drop(columns="alive"), table["alive"]
    system = gnomon.make(name).fit(X, y)
    assert system.preparation_.unit is None
    found = system.predict(new)
    np.testing.assert_array_equal(
        system.predict(pl.DataFrame(new.astype(object).where(new.notna(), None).to_dict("list"), strict=False)), found
    )
    system.save(tmp_path / "model")
    np.testing.assert_array_equal(gnomon.load(tmp_path / "model").predict(new), found)
    write(new, tmp_path / "new.csv")
    told = json.loads(asked(["predict", str(tmp_path / "model"), str(tmp_path / "new.csv"), "--json"]))
    np.testing.assert_array_equal(told["predictions"], found)
    with pytest.raises(gnomon.errors.NoColumn, match="no column 'sex'"):
        system.predict(new.drop(columns="sex"))
    again = system.fit(np.eye(40)[:, :9] + np.arange(40)[:, None], np.arange(40) % 2)
    assert not hasattr(again, "preparation_")


def test_scaled_systems_answer_in_the_columns_own_units() -> None:
    """A density is that of the columns as they are: it does not depend on scaling where the model does not."""
    wine = gnomon.data.load("wine")
    full = gnomon.fit(gnomon.PPCA(n_components=12), wine)  # a full Gaussian but for the smallest eigenvalues
    plain = gnomon.PPCA(n_components=12).fit(wine.X)
    np.testing.assert_allclose(full.log_prob(wine.X), plain.log_prob(wine.X), rtol=1e-9)
    drawn = full.sample(4000, random_state=0)
    np.testing.assert_allclose(drawn.mean(0), wine.X.mean(0), atol=4 * wine.X.std(0).max() / 4000**0.5)
    np.testing.assert_allclose(drawn.std(0), wine.X.std(0), rtol=0.1)
    holes = wine.X.copy()
    holes[0, 0] = np.nan
    np.testing.assert_allclose(full.impute(holes)[0], plain.impute(holes)[0], rtol=1e-6)
    np.testing.assert_allclose(full.log_prob(holes), plain.log_prob(holes), rtol=1e-6)
    np.testing.assert_allclose(full.inverse_transform(np.zeros((1, 12)))[0], wine.X.mean(0), rtol=1e-9)
    centers = gnomon.fit(gnomon.KMeans(n_clusters=3, random_state=0), wine)
    labels = centers.predict(wine.X)
    means = np.stack([wine.X[labels == k].mean(0) for k in range(3)])
    np.testing.assert_allclose(centers.cluster_centers_, means, rtol=1e-9)


def test_the_same_rows_as_arrays_and_as_a_frame() -> None:
    """An array of raw numbers is not taken for one that is scaled already."""
    wine = gnomon.data.load("wine")
    system = gnomon.fit("svm", wine)
    frame = pd.DataFrame(wine.X, columns=list(wine.columns))[list(wine.columns)[::-1]]
    np.testing.assert_array_equal(system.predict(wine.X), system.predict(frame))
    assert system.score(wine.X, wine.y) > 0.95


def test_an_ensemble_is_scaled_for_its_members() -> None:
    wine = gnomon.data.load("wine")
    scaled, plain = (
        gnomon.fit(gnomon.make("bagging", base=base, n_members=2, random_state=0), wine)
        for base in ("svm", "decision-tree")
    )
    assert scaled.preparation_.unit is not None and plain.preparation_.unit is None
    assert scaled.score(wine.X, wine.y) > 0.95
