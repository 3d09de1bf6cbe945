"""Tables as they are: what each kind of column becomes, learned from training rows alone."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from gnomon.data import Dataset, Preparation, Prepared, load, split
from gnomon.errors import NoColumn, UserError, UserTypeError, UserValueError
from oracles.tables import mixed, shuffled_and_strange, write


def column(prepared: Prepared, X: np.ndarray, name: str) -> list[float]:
    return X[:, prepared.names_out.index(name)].tolist()


def again(prepared: Prepared) -> Prepared:
    """As a run gives it back."""
    return Prepared.from_json(json.loads(json.dumps(prepared.to_json(), allow_nan=False)))


def test_a_file_of_mixed_columns_is_read_as_it_is(tmp_path):
    table = mixed()
    data = load(write(table, tmp_path / "t.csv"), target="alive")
    assert data.X is None and data.frame is not None and len(data) == len(table)
    kinds = {name: str(dtype).partition("(")[0] for name, dtype in data.frame.schema.items()}
    assert kinds == {
        "column_1": "Float64", "passenger_id": "Float64", "sex": "String", "age": "Float64", "deck": "String",
        "member": "Boolean", "joined": "Datetime", "name": "String", "planet": "String", "fare": "Float64",
    }  # fmt: skip
    assert data.frame["age"].null_count() == table["age"].isna().sum()
    assert data.frame["deck"].null_count() == table["deck"].isna().sum()
    assert data.y.tolist() == table["alive"].tolist()
    part = data.take(np.array([3, 5]), "part")
    assert part.frame["name"].to_list() == ["Name 3", "Name 5"] and part.fingerprint != data.fingerprint


def test_a_file_of_numbers_stays_an_array(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n,4\n")
    data = load(tmp_path / "t.csv")
    assert data.frame is None and np.array_equal(data.X, [[1, 2], [np.nan, 4]], equal_nan=True)


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_typed_files_are_read_as_they_are(tmp_path, ending):
    table = pl.DataFrame({"a": [1, None, 3], "s": ["x", None, "1"], "b": [True, None, False]})
    file = tmp_path / f"t.{ending}"
    table.write_parquet(file) if ending == "parquet" else table.write_ndjson(file)
    data = load(file)
    assert data.frame["a"].to_list() == [1.0, None, 3.0]
    assert data.frame["s"].to_list() == ["x", None, "1"] and data.frame["b"].to_list() == [True, None, False]


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["1", "2"] * 30 + ["x"], "line 62"),  # 98 % numbers: a mistake
        (["1", "2", "3", "x"] * 5, "line 5"),  # one word beside numbers
        (["1", "2", "x", "y"] * 5, None),  # a mixture: categories
        (["1", "", "NA"] * 5, None),
    ],
)
def test_mostly_numbers_do_not_become_categories_in_silence(tmp_path, cells, told):
    (tmp_path / "t.csv").write_text("\n".join(["a,b", *(f"{i % 7},{cell}" for i, cell in enumerate(cells))]))
    if told is None:
        assert load(tmp_path / "t.csv").frame is None or "x" in load(tmp_path / "t.csv").frame["b"].to_list()
        return
    with pytest.raises(UserValueError, match=rf"is not a number \(t.csv, {told}, column 'b'\).*categories"):
        load(tmp_path / "t.csv")
    asked = load(tmp_path / "t.csv", kinds={"b": "text"})
    assert set(asked.frame["b"].to_list()) == set(cells)
    lenient = load(tmp_path / "t.csv", kinds={"b": "number?"})
    assert lenient.frame["b"].null_count() == sum(not cell.isdigit() for cell in cells)


def test_what_becomes_of_each_column():
    table = mixed()
    prepared = Preparation().fit(table)
    assert prepared.names_out == (
        "sex=female", "sex=male", "age", "age missing", "deck=A", "deck=B", "deck=C", "deck missing", "member",
        "joined.year", "joined.month", "joined.weekday", "joined.days", "fare", "alive=no", "alive=yes",
    )  # fmt: skip
    assert {name: why.partition(";")[0] for name, why in prepared.left_out.items()} == {
        "passenger_id": "a row number or an id", "name": "a different text in every row, an id or free text",
        "planet": "the same in every training row ('earth')",
    }  # fmt: skip
    assert prepared.sources["age missing"] == "age" and prepared.sources["joined.month"] == "joined"
    X = prepared.transform(table)
    assert X.dtype == np.float64 and np.isfinite(X).all()
    assert column(prepared, X, "age missing") == table["age"].isna().astype(float).tolist()
    assert column(prepared, X, "age") == table["age"].fillna(table["age"].median()).tolist()
    assert column(prepared, X, "deck missing") == table["deck"].isna().astype(float).tolist()
    assert column(prepared, X, "member") == table["member"].astype(float).tolist()
    assert column(prepared, X, "joined.year") == table["joined"].dt.year.astype(float).tolist()
    assert column(prepared, X, "joined.month") == table["joined"].dt.month.astype(float).tolist()
    assert column(prepared, X, "joined.weekday") == (table["joined"].dt.day_of_week + 1.0).tolist()
    assert column(prepared, X, "joined.days") == (table["joined"] - table["joined"].min()).dt.days.tolist()
    told = "\n".join(prepared.lines())
    median = f"age ({table['age'].median():.6g})"
    parts = ["10 columns read, 7 used, as 16 numbers", "one-hot: sex (2 levels)", "deck (3 levels + missing)"]
    for part in (*parts, median, "joined (year, month, weekday, days)", "left out: name"):
        assert part in told, told


def test_unseen_levels_missing_cells_and_other_orders():
    table = mixed()
    prepared = again(Preparation().fit(table))
    strange = shuffled_and_strange(table.head(10))
    X, straight = prepared.transform(strange), prepared.transform(table.head(10))
    assert np.array_equal(X[4:], straight[4:])
    assert X[0, :2].tolist() == [0, 0]  # an unseen sex, no other level in training
    assert X[1, :2].tolist() == [0, 0]  # a missing one, none missing in training
    assert column(prepared, X, "joined.days")[1] == np.median(
        column(prepared, prepared.transform(table), "joined.days")
    )
    assert column(prepared, X, "age missing")[3] == 1
    deck = [name for name in prepared.names_out if name.startswith("deck")]
    assert [column(prepared, X, name)[2] for name in deck] == [0, 0, 0, 0]
    with pytest.raises(NoColumn, match="no column 'sex'"):
        prepared.transform(table.drop(columns="sex"))


def test_rare_levels_are_other_and_so_are_unseen_ones():
    city = ["Rome"] * 600 + ["Oslo"] * 390 + ["Bonn"] * 4 + ["Graz"] * 3 + ["Linz"] * 3
    prepared = Preparation().fit(pl.DataFrame({"city": city, "x": np.arange(1000.0) ** 0.5}))
    assert prepared.names_out[:3] == ("city=Oslo", "city=Rome", "city other")
    new = pl.DataFrame({"x": [0.0, 0, 0], "city": ["Bonn", "Paris", None]})
    assert prepared.transform(new)[:, :3].tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 1]]
    more = Preparation(rare=0.0035).fit(pl.DataFrame({"city": city, "x": city})).names_out
    assert more[0] == "city=Bonn" and "city=Graz" not in more, "3.5 rows are needed"


def test_texts_most_of_which_are_rare_are_no_categories():
    """190 levels of five rows each, less than the six that count in 1,010 rows."""
    city = ["Rome"] * 60 + [f"city {i // 5}" for i in range(950)]
    prepared = Preparation().fit(pl.DataFrame({"city": city, "x": np.arange(1010.0) ** 0.5}))
    assert prepared.left_out["city"].startswith("191 different texts, most of them rare")
    assert len(Preparation(rare=0).fit(pl.DataFrame({"city": city, "x": city})).names_out) == 2 * 191


def test_codes_in_one_column():
    rows = pl.DataFrame({"size": ["S", "M", "L", None] * 10 + ["XXL"], "x": np.arange(41.0) ** 2})
    prepared = again(Preparation(encode="ordinal").fit(rows))
    assert prepared.names_out == ("size", "x")
    new = pl.DataFrame({"size": ["L", "M", "S", "XXL", "tiny", None], "x": [0.0] * 6})
    assert prepared.transform(new)[:, 0].tolist() == [0, 1, 2, 3, 3, 4]  # other is 3, missing 4


def test_missing_numbers_are_kept_for_a_system_that_takes_them():
    table = mixed()
    kept = Preparation().fit(table, keep_missing=True)
    X = kept.transform(table)
    assert np.array_equal(np.isnan(X[:, kept.names_out.index("age")]), table["age"].isna())
    assert "age missing" not in kept.names_out and "missing numbers kept: age" in kept.lines()
    for how, value in (("mean", table["age"].mean()), ("most-frequent", table["age"].mode()[0])):
        filled = Preparation(missing=how).fit(table)
        values = np.array(column(filled, filled.transform(table), "age"))[table["age"].isna()]
        assert values == pytest.approx(value, rel=1e-12)


def test_missing_dates_and_truth_values():
    days = pd.to_datetime(["2024-01-01 06:00:36", None, "2024-01-03 18:30:00", "2024-03-04 06:00:00"])
    rows = pl.DataFrame({"when": days.to_numpy(), "ok": [True, False, None, None]})
    prepared = again(Preparation().fit(rows))
    X = prepared.transform(rows)
    assert column(prepared, X, "when missing") == [0, 1, 0, 0]
    assert column(prepared, X, "when.hour")[0] == pytest.approx(6.01)
    assert column(prepared, X, "when.month") == [1, 1, 1, 3], "the median of the others"
    assert column(prepared, X, "ok") == [1, 0, 0, 0], "a truth value, not one half"
    kept = again(Preparation().fit(rows, keep_missing=True))
    assert np.isnan(kept.transform(rows)[1, :-1]).all() and "when missing" not in kept.names_out


@pytest.mark.parametrize("encode", ["one-hot", "ordinal"])
def test_measurements_and_codes_are_scaled_and_zeros_and_ones_are_not(encode):
    days = pd.to_datetime(["2024-01-01", "2024-01-05", None, "2024-02-09"]).to_numpy()
    rows = pl.DataFrame({"size": ["S", "M", "S", "M"], "ok": [True, False, True, True], "x": [3.0, None, 5, 9]})
    rows = rows.with_columns(when=days)
    prepared = Preparation(encode=encode).fit(rows, scaled=True)
    X = prepared.transform(rows)
    assert prepared.shift is not None and prepared.unit is not None
    for j, name in enumerate(prepared.names_out):
        as_it_is = name == "ok" or name.endswith("missing") or name.startswith("size=")
        expected = (0.0, 1.0) if as_it_is else (X[:, j].mean(), X[:, j].std())
        assert (prepared.shift[j], prepared.unit[j]) == pytest.approx(expected, rel=1e-12), name
    stays = Preparation(missing="none").fit(rows)
    assert np.isnan(column(stays, stays.transform(rows), "x")[1])


def test_numbers_beyond_a_domain_are_brought_into_it():
    rows = pl.DataFrame({"a": [0.2, 0.4, 0.9], "b": [-1.0, 0.5, 1.0]})
    assert Preparation().fit(rows, within="binary").transform(rows).tolist() == [[0, 0], [0, 0], [1, 1]]
    unit = Preparation().fit(rows, within="unit", scaled=True)
    assert unit.transform(rows).tolist() == [[0.2, 0.0], [0.4, 0.75], [0.9, 1.0]]
    assert unit.unit is not None and unit.unit[0] != 1 and unit.unit[1] == 1


def test_what_stands_for_a_missing_number_may_be_zero():
    """A zero is kept with the model as any other number is."""
    rows = pl.DataFrame({"a": [-3.0, 0, 5, None], "b": [0.0, 2, 4, 2]})
    assert again(Preparation().fit(rows)).transform(rows)[3].tolist() == [0.0, 1.0, 2.0]
    unit = again(Preparation(numeric=["c"]).fit(rows.with_columns(c=pl.lit(7.0)), within="unit", indicators=False))
    assert unit.transform(rows.with_columns(c=pl.lit(9.0))).tolist() == [
        [0, 0, 1], [0.375, 0.5, 1], [1, 1, 1], [0.375, 0.5, 1],
    ]  # fmt: skip
    cut = again(Preparation().fit(rows, within="binary", indicators=False))
    assert cut.names_out == ("a>0", "b>2") and cut.transform(rows).tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]


def test_a_log_density_grows_by_the_units_of_the_columns_that_are_there():
    """Of normal columns: log N(x; m, s) is log N((x - m) / s; 0, 1) less log s, and a missing one is left out."""
    rows = pl.DataFrame({"a": [3.0, 100, 250, 180], "b": [0.1, 0.2, 0.4, 0.1], "c": [True, False, True, True]})
    prepared = Preparation().fit(rows, scaled=True)
    X = prepared.transform(rows)
    X[0, 0] = X[1, 1] = np.nan
    own = norm.logpdf(X[:, :2], rows.to_numpy()[:, :2].mean(0), rows.to_numpy()[:, :2].astype(float).std(0))
    scaled = norm.logpdf(prepared.scaled(X)[:, :2])
    expected = np.nansum(scaled, axis=1) - np.nansum(own, axis=1)
    np.testing.assert_allclose(prepared.log_units(X), expected, rtol=1e-10)


def test_prepared_columns_have_names_of_their_own():
    rows = pl.DataFrame({"a": ["b", "c"] * 4, "a=b": [3.0, 1, 4, 1, 5, 9, 2, 6]})
    prepared = Preparation().fit(rows)
    assert prepared.names_out == ("a=b", "a=c", "a=b (2)") and prepared.sources["a=b (2)"] == "a=b"


def test_columns_without_names_are_taken_by_place_where_none_is_left_out():
    values = np.array([[3.0, 1.0, 7.0], [1.0, 2.0, 7.0], [4.0, 5.0, 7.0]])
    nameless = tuple(f"column_{i}" for i in (1, 2, 3))
    named = Dataset("new", values[:, :2], columns=("x", "y"))
    whole = Preparation().fit(Dataset("t", values[:, :2], columns=nameless[:2]))
    assert whole.apply(named).X.tolist() == values[:, :2].tolist()
    less = Preparation().fit(Dataset("t", values, columns=nameless))
    assert list(less.left_out) == ["column_3"]
    for prepared, data in ((less, named), (whole, Dataset("new", values, columns=("x", "y", "z")))):
        with pytest.raises(NoColumn, match="no column 'column_1'"):
            prepared.apply(data)


def test_arrays_are_prepared_as_frames_are():
    """Columns found by name, one of them constant and left out; a hole is filled where the fit saw none, too."""
    values = np.array([[7.0, 3, 10], [7, 1, np.nan], [7, 4, 40], [7, 9, 20]])
    names = ("c", "a", "b")
    new = np.array([[1.0, 2, np.nan], [np.nan, 8, 50]])
    for keep in (True, False):
        prepared = Preparation().fit(Dataset("t", values, columns=names), keep_missing=keep)
        found = prepared.apply(Dataset("new", new, columns=("b", "a", "c")))
        frame = prepared.transform(pl.DataFrame({"b": [1.0, None], "a": [2.0, 8], "c": [None, 50.0]}))
        expected = [[2, 1], [8, np.nan]] if keep else [[2, 1, 0], [8, 20, 1]]
        np.testing.assert_array_equal(found.X, expected)
        np.testing.assert_array_equal(frame, expected)
        assert prepared.apply(found) is found, "prepared once"
    assert prepared.given(new[:, 1::-1]).tolist() == expected[:1] + [[8.0, 20.0, 1.0]]
    assert prepared.given(found.X) is found.X
    whole = Preparation().fit(Dataset("t", values[[0, 2, 3], 1:], columns=names[1:]))
    hole = whole.apply(Dataset("new", new[:, :2], columns=("b", "a")))
    assert hole.X.tolist() == [[2.0, 1.0], [8.0, 20.0]], "20 is the median of 10, 40, 20"


def test_dates_of_other_forms(tmp_path):
    lines = "\n".join(
        [
            "when,at,vague",
            *(f"{d}.03.2021,2021-03-01 {d % 24:02d}:30:00,0{d % 3 + 1}/0{d % 2 + 1}/2021" for d in range(10, 30)),
        ]
    )
    (tmp_path / "t.csv").write_text(lines)
    data = load(tmp_path / "t.csv")
    assert data.frame["when"].dt.day().to_list() == list(range(10, 30))
    assert data.frame["vague"].dtype == pl.String  # day and month cannot be told apart
    prepared = again(Preparation().fit(data))
    assert prepared.names_out[:4] == ("when.weekday", "when.days", "at.hour", "vague=01/01/2021")
    assert prepared.apply(data).X[:3, 2].tolist() == [10.5, 11.5, 12.5]
    (tmp_path / "u.csv").write_text("vague,at,when\n01/01/2021,2021-03-01 04:00:00,11.03.2021\n,,\n")
    new = load(tmp_path / "u.csv", columns=list(prepared.names_in), kinds=prepared.kinds)
    assert prepared.apply(new).X[0, 1:3].tolist() == [1.0, 4.0]
    (tmp_path / "u.csv").write_text("vague,at,when\n01/01/2021,2021-03-01 04:00:00,2021-03-11\n")
    with pytest.raises(UserValueError, match=r"must be a date written as %d.%m.%Y \(u.csv, line 2, column 'when'\)"):
        load(tmp_path / "u.csv", columns=list(prepared.names_in), kinds=prepared.kinds)


def test_ids_row_numbers_and_free_text_are_named_and_left_out():
    n = 60
    table = pl.DataFrame(
        {
            "Unnamed: 0": np.arange(n), "count": np.arange(n) + 1, "year": 1950 + np.arange(n),
            "userId": np.arange(n)[::-1] * 3,
            "note": [f"said {i // 2}" for i in range(n)], "price": np.arange(n)[::-1] * 2.0, "fluid": np.arange(n) * 2,
        }
    )  # fmt: skip
    prepared = Preparation().fit(table)
    assert prepared.names_out == ("year", "price", "fluid")
    assert list(prepared.left_out) == ["Unnamed: 0", "count", "userId", "note"]
    assert "--categorical note" in prepared.left_out["note"]
    assert "count" in Preparation(numeric=["count"]).fit(table).names_out
    asked = Preparation(categorical=["note"], drop=["year"], id=["price"]).fit(table)
    assert "note=said 7" in asked.names_out and asked.left_out["year"] == "as asked"
    assert asked.left_out["price"] == "an id, as asked"
    with pytest.raises(NoColumn, match=r"no column 'yaer' \(X, drop\); did you mean 'year'"):
        Preparation(drop=["yaer"]).fit(table)


def test_a_row_number_is_seen_in_training_rows_alone(tmp_path):
    (tmp_path / "t.csv").write_text("\n".join(["n,x", *(f"{i + 1},{i * i % 17}" for i in range(100))]))
    train, held = split(load(tmp_path / "t.csv"))
    prepared = Preparation().fit(train)
    assert prepared.names_out == ("x",) and prepared.apply(held).X.shape == (20, 1)


def test_no_column_is_left():
    with pytest.raises(UserValueError, match=r"no column is left as a feature \(planet: the same"):
        Preparation().fit(mixed()[["planet", "name"]])


def test_statistics_come_from_training_rows_alone(tmp_path):
    """Equal to those that pandas finds in the training rows; the held-out rows are far away on purpose."""
    table = mixed(200)
    _, held_rows = (part.rows for part in split(Dataset("n", np.zeros((200, 1)), table["alive"].to_numpy(str))))
    table.loc[held_rows, "age"] = 1e6
    table.loc[held_rows, "joined"] = pd.Timestamp("1900-01-01")
    table.loc[held_rows, "sex"] = "held"
    data = load(write(table, tmp_path / "t.csv"), target="alive")
    train, held = split(data)
    assert held.rows.tolist() == held_rows.tolist()
    prepared = Preparation().fit(train, scaled=True)
    rows = table.drop(index=held_rows)
    X = prepared.apply(train).X
    assert column(prepared, X, "age") == rows["age"].fillna(rows["age"].median()).tolist()
    ages = rows["age"].fillna(rows["age"].median())
    at = prepared.names_out.index("age")
    assert (prepared.shift[at], prepared.unit[at]) == pytest.approx((ages.mean(), ages.std(ddof=0)), rel=1e-12)
    assert column(prepared, X, "joined.days") == (rows["joined"] - rows["joined"].min()).dt.days.tolist()
    assert "sex=held" not in prepared.names_out
    assert not np.any(prepared.apply(held).X[:, :2])


@pytest.mark.parametrize("encode", ["one-hot", "ordinal"])
def test_the_same_columns_as_scikit_learns_steps(encode):
    table, new = mixed(300), shuffled_and_strange(mixed(80, seed=5))
    numbers, categories = ["age", "fare"], ["sex", "deck"]
    first = make_pipeline(SimpleImputer(strategy="median", add_indicator=True))
    coder = (
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=2, sparse_output=False)
        if encode == "one-hot"
        else OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=99)
    )
    steps = ColumnTransformer([("n", first, numbers), ("c", coder, categories)])
    prepared = Preparation(encode=encode, rare=0).fit(table[numbers + categories], scaled=True)
    plain = table.assign(deck=table["deck"].fillna("none"), sex=table["sex"])
    expected = steps.fit(plain[numbers + categories])
    known = new[numbers + categories].assign(deck=new["deck"].fillna("none"))
    for raw, given in ((table, plain), (new, known)):
        theirs = np.asarray(expected.transform(given[numbers + categories]), float)
        ours = prepared.transform(raw)
        order = ["age", "fare", "age missing", *[n for n in prepared.names_out if n.partition("=")[0] in categories]]
        order += [name for name in prepared.names_out if name == "deck missing"]
        found = ours[:, [prepared.names_out.index(name) for name in order]]
        if encode == "ordinal":
            unseen = np.array([2.0, 3.0])  # the code after the last level; of decks missing comes after it
            found = np.where(found[:, 3:] == unseen, 99, found[:, 3:])
            found[:, 1][found[:, 1] == 4] = 3
            theirs = theirs[:, 3:]
        np.testing.assert_allclose(found, theirs, rtol=0, atol=1e-12)
    X = prepared.transform(table)
    scaled = StandardScaler().fit_transform(X[:, [0, 2]])
    np.testing.assert_allclose(prepared.scaled(X)[:, [0, 2]], scaled, rtol=0, atol=1e-12)
    np.testing.assert_allclose(prepared.in_units(prepared.scaled(X)), X, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("within", ["unit", "binary"])
def test_numbers_for_systems_of_other_domains(within):
    table = mixed()
    prepared = again(Preparation().fit(table, within=within, indicators=False))
    X = prepared.transform(shuffled_and_strange(table))
    assert X.min() >= 0 and X.max() <= 1 and "joined" in prepared.left_out
    if within == "binary":
        assert np.isin(X, (0, 1)).all()
        median = table["fare"].median()
        at = next(i for i, name in enumerate(prepared.names_out) if name.startswith("fare>"))
        assert prepared.transform(table)[:, at].tolist() == (table["fare"] > median).astype(float).tolist()


def test_a_table_in_the_domain_already_stays_as_it_is():
    X = np.array([[0.0, 1, 0], [1, 1, 0], [0, 1, 1]])
    data = Dataset("binary", X, columns=("a", "b", "c"))
    prepared = Preparation().fit(data, within="binary")
    assert prepared.apply(data).X is X and prepared.lines() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"encode": "onehot"}, "encode must be one-hot, ordinal, none, got 'onehot'; did you mean 'one-hot'"),
        ({"missing": "zero"}, "missing must be"), ({"scale": True}, "scale must be"), ({"rare": 1.5}, "rare must be"),
        ({"drop": ["a"], "id": ["a"]}, "column 'a' must be named once"),
    ],
)  # fmt: skip
def test_descriptions_that_cannot_be(options, words):
    with pytest.raises(UserValueError, match=words):
        Preparation(**options)
    with pytest.raises(UserTypeError, match="drop must be a list"):
        Preparation(drop="a")


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"steps": [{"type": "magic"}]},
        {"steps": 3},
        {"steps": [{"type": "number", "name": "a"}], "unit": [1, 2], "shift": [0]},
    ],
)
def test_facts_that_are_no_preparation(facts):
    with pytest.raises(UserValueError, match="the preparation cannot be read"):
        Prepared.from_json(facts)


@pytest.mark.parametrize(
    ("step", "name", "value"),
    [(0, "value", "x"), (0, "kind", "text"), (0, "low", 1.0), (1, "levels", [1, True]), (1, "levels", ["a", "a"]),
     (1, "name", None), (2, "values", True), (2, "parts", ["hours"]), (2, "values", [1.0]), (2, "first", "x"),
     (2, "type", "time"), (0, "name", "c")],
)  # fmt: skip
def test_edited_facts_of_a_preparation_are_refused_where_they_are_read(step, name, value):
    """They ended late, in predict or info, with a traceback."""
    dates = pl.Series("d", [date(2020, 1, 1 + i) for i in range(9)] + [None])
    rows = pl.DataFrame({"n": [1.0, None] * 5, "c": ["a", "b"] * 5}).with_columns(dates)
    facts = Preparation().fit(rows).to_json()
    assert Prepared.from_json(facts).to_json() == facts
    facts["steps"][step][name] = value
    with pytest.raises(UserError, match="the preparation cannot be read"):
        Prepared.from_json(facts)
