"""Rows without a label in tables that people have: left out with a word, by the place in the file."""

import numpy as np
import polars as pl
import pytest

import gnomon
from gnomon.data import load
from gnomon.data.places import placed

FILES = {
    "numbers.csv": b"a,y\n1,0.5\n2,NA\n3,1.5\n",
    "text.csv": b"a,b,y\n1,u,0.5\n2,v,\n3,u,1.5\n",
    "lines.jsonl": b'{"a": 1, "y": 0.5}\n{"a": 2}\n{"a": 3, "y": 1.5}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_rows_without_a_label_are_left_out_with_their_first_place(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(FILES[name])
    place = "line 2" if name.endswith("jsonl") else "line 3"
    with pytest.warns(UserWarning, match=rf"1 row without a label is left out \({name}, {place}, column 'y'\)"):
        data = load(file, target="y")
    features = data.X[:, 0] if data.frame is None else data.frame["a"].to_numpy()
    assert features.tolist() == [1, 3] and data.y.tolist() == [0.5, 1.5]


def test_typed_labels_of_text(tmp_path):
    pl.DataFrame({"a": [1.0, 2, 3], "y": [None, "x", None]}).write_parquet(tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match=r"2 rows without a label are left out \(first t.parquet, row 0, column 'y'\)"):
        data = load(tmp_path / "t.parquet", target="y")
    assert data.X.tolist() == [[2.0]] and data.y.tolist() == ["x"]


def test_places_of_later_rows_stay_those_of_the_file(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(b"a,y\n1,\n2,inf\n3,1\n")
    with pytest.warns(UserWarning, match="line 2"), pytest.raises(gnomon.errors.UserError, match="line 3"):
        load(file, target="y")


def test_a_fit_is_that_of_the_labeled_rows(tmp_path):
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 2))
    y = X[:, 0] + random.normal(size=40)
    rows = [f"{a},{b},{'' if i % 5 == 0 else t}" for i, ((a, b), t) in enumerate(zip(X, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    with pytest.warns(UserWarning, match="8 rows without a label"):
        found = gnomon.fit(
            "linear-regression", tmp_path / "t.csv", target="y", prepare=gnomon.data.Preparation(scale="no")
        )
    kept = np.arange(40) % 5 != 0
    assert np.allclose(found.coef_, gnomon.LinearRegression().fit(X[kept], y[kept]).coef_)


@pytest.mark.parametrize("name", FILES)
def test_rows_keep_their_numbers_in_the_file(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(FILES[name])
    with pytest.warns(UserWarning, match="left out"):
        data = load(file, target="y")
    assert data.rows.tolist() == [0, 2] and data.take(np.array([1]), "test").rows.tolist() == [2]


def test_what_is_wrong_later_is_found_where_it_stands(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(b"a,b,y\n1,0,x\n1,0,\n0,1,y\n1,7,x\n")
    with pytest.warns(UserWarning, match="line 3"):
        data = load(file, target="y")
    with pytest.raises(gnomon.errors.UserError, match=r"t.csv, line 5, column 'b'"), placed(data):
        gnomon.BernoulliMixture(n_components=1).fit(data.X)


def test_mistakes_are_numbered_as_in_the_file(tmp_path):
    from gnomon.tasks.mistakes import mistakes

    lines = [f"{i},{'' if i in (3, 11) else 'ab'[i % 2 if i != 20 else 1]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    with pytest.warns(UserWarning, match="2 rows"):
        data = load(tmp_path / "t.csv", target="y")
    X = (data.X % 2).astype(float)
    header, rows = mistakes(gnomon.LogisticRegression().fit(X, data.y), X, data.y).table(data)
    assert header == ["row", "true", "predicted", "probability", "of the true class", "a"]
    assert [(row[0], row[5]) for row in rows] == [(20, "20")]
