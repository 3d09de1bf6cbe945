"""What a preparation learns of single columns, on tables of a few rows that can be checked by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from gnomon.data import load
from gnomon.data.column_steps import CategoryStep, NumberStep
from gnomon.data.dataset import Dataset
from gnomon.data.preparation import Preparation
from gnomon.data.prepared import Prepared
from gnomon.errors import NoColumn

NAN = math.nan
ROWS = pl.DataFrame({"a": [1.0, 2.0, None, 9.0, 1.0], "b": [5.0, 6.0, 8.0, 7.0, 4.0]})


@pytest.mark.parametrize("kind", ["number", "number?", "truth value"])
def test_an_array_of_raw_columns_is_told_from_one_of_prepared_ones(kind: str) -> None:
    prepared = Prepared((NumberStep("a", kind, 1.0, missing=True, indicator=True), NumberStep("b")))
    raw, ready = np.array([[0.0, 9.0], [NAN, 7.0]]), np.array([[0.0, 0.0, 9.0]])
    assert prepared.given(raw).tolist() == [[0, 0, 9], [1, 1, 7]]
    assert prepared.given(ready) is ready


def test_an_array_that_cannot_be_raw_stays_as_it_is() -> None:
    """Of a column of text no array of numbers is raw; as many columns as before and after are the prepared ones."""
    text = Prepared((CategoryStep("s", ("f", "m")), NumberStep("b")))
    brought = Prepared((NumberStep("a", low=0.0, high=4.0), NumberStep("b")))
    for prepared in (text, brought):
        two = np.array([[0.5, 0.25]])
        assert prepared.given(two) is two


@pytest.mark.parametrize(
    ("scale", "scaled", "target"),
    [("auto", True, True), ("auto", False, False), ("yes", False, True), ("yes", True, True), ("no", True, False)],
)
def test_a_target_is_scaled_where_columns_are(scale: str, scaled: bool, target: bool) -> None:
    y = np.array([1.0, 2.0, 3.0, 6.0, 8.0])
    found = Preparation(scale=scale).fit(ROWS, y, scaled=scaled)
    assert found.target == (pytest.approx((y.mean(), y.std())) if target else None)
    assert (found.unit is not None) == target


def test_a_target_that_does_not_vary_keeps_its_unit() -> None:
    assert Preparation().fit(ROWS, np.full(5, 7.0), scaled=True).target == (7.0, 1.0)
    assert Preparation().fit(ROWS, scaled=True).target is None


@pytest.mark.parametrize(("missing", "value"), [("median", 1.5), ("mean", 3.25), ("most-frequent", 1.0)])
def test_what_stands_for_a_missing_number(missing: str, value: float) -> None:
    """Of a truth value the more frequent one, whatever stands for numbers."""
    rows = ROWS.with_columns(t=pl.Series([True, False, True, None, True]))
    found = Preparation(missing=missing).fit(rows).transform(rows)
    assert found[2, 0] == value and found[3, 3] == 1.0


def test_options_name_columns_that_are_there_or_were_left_out_before() -> None:
    data = Dataset("t", ROWS.fill_null(0.0).to_numpy(), columns=("a", "b"), source={"left_out": ("c",)})
    for option in ("drop", "id", "numeric", "categorical"):
        assert Preparation(**{option: ["c"]}).fit(data).names_in == ("a", "b")
        with pytest.raises(NoColumn, match=rf"no column 'd' \(t, {option}\)"):
            Preparation(**{option: ["d"]}).fit(data)


@pytest.mark.parametrize("name", ["customerId", "Unnamed: 0", "column_1", "id"])
def test_few_rows_are_named_by_what_their_column_is_called(name: str) -> None:
    rows = pl.DataFrame({name: [31, 7, 12], "x": [1.0, 4.0, 2.0]})
    assert list(Preparation().fit(rows).left_out) == [name]
    twice = pl.DataFrame({name: [7, 7, 12], "x": [1.0, 4.0, 2.0]})
    assert Preparation().fit(twice).names_in == (name, "x"), "a number of two rows names neither"


def test_columns_that_are_all_without_a_name_are_no_row_numbers_by_it() -> None:
    rows = pl.DataFrame({"column_1": [31, 7, 12], "column_2": [1.0, 4.0, 2.0]})
    assert Preparation().fit(rows).names_in == ("column_1", "column_2")


@pytest.mark.parametrize("named", [True, False])
def test_a_level_of_two_rows_is_kept_and_of_one_is_not(named: bool) -> None:
    rows = pl.DataFrame({"c": ["x", "x", "y", "y", "z"], "b": ROWS["b"]})
    found = Preparation(rare=0.0, categorical=["c"] if named else []).fit(rows)
    assert found.names_out == ("c=x", "c=y", "c other", "b")
    assert Preparation(rare=0.45).fit(rows).names_out == ("c=x", "c=y", "c=z", "b"), "where all are rare, all are kept"


@pytest.mark.parametrize(
    ("step", "cells", "expected"),
    [
        (NumberStep("a", low=2.0, high=4.0), [2.0, 3, 4, 9, -9], [0, 0.5, 1, 1, 0]),
        (NumberStep("a", low=2.0, high=2.0), [2.0, 3, 1], [0, 1, 0]),
        (NumberStep("a", above=2.0), [2.0, 2.1, None], [0, 1, NAN]),
        (NumberStep("a", above=2.0, value=9.0), [None], [1]),
        (CategoryStep("a", ("x", "y"), codes=True), ["y", "x", "new", None], [1, 0, 2, 2]),
        (CategoryStep("a", ("x", "y"), other=True, codes=True), ["new", None], [2, 2]),
        (CategoryStep("a", ("x", "y"), missing=True, codes=True), ["new", None], [2, 3]),
        (CategoryStep("a", ("x", "y"), other=True, missing=True, codes=True), ["new", None], [2, 3]),
    ],
)
def test_one_column_of_numbers(step: Any, cells: list[Any], expected: list[float]) -> None:
    out = np.empty((len(cells), 1))
    step.fill(pl.Series("a", cells), out)
    np.testing.assert_array_equal(out[:, 0], expected)


def test_a_level_that_was_not_seen_is_none_of_the_known_ones() -> None:
    out = np.empty((3, 2))
    CategoryStep("a", ("x", "y")).fill(pl.Series("a", ["y", "new", None]), out)
    assert out.tolist() == [[0, 1], [0, 0], [0, 0]]


def test_a_description_keeps_what_is_not_usual_alone() -> None:
    assert Preparation().to_json() == {} and Preparation(rare=0.0, id=("a",)).to_json() == {"rare": 0.0, "id": ["a"]}


def test_days_first_of_a_file_are_days_first_in_new_rows(tmp_path: Any) -> None:
    """A new file of which every date could be read both ways is read as the old one was."""
    for name, dates in (("old", ["01.02.2020", "28.02.2020", "13.03.2020"]), ("new", ["03.04.2020", "05.04.2020"])):
        (tmp_path / f"{name}.csv").write_text("d,x\n" + "".join(f"{d},{i * i}\n" for i, d in enumerate(dates)))
    prepared = Preparation().fit(load(tmp_path / "old.csv"))
    X = prepared.apply(load(tmp_path / "new.csv", kinds=prepared.kinds)).X
    assert X is not None and X[:, prepared.names_out.index("d.month")].tolist() == [4, 4]


def test_what_is_always_the_same_says_something_where_it_is_missing() -> None:
    days = pl.Series(["2024-01-05", None, "2024-01-05", None]).str.to_date()
    rows = pl.DataFrame({"c": ["x", None, "x", "x"], "n": [4.0, None, 4.0, 4.0], "d": days, "b": [1.0, 5.0, 2.0, 2.0]})
    found = Preparation().fit(rows)
    assert found.names_out == ("c=x", "c missing", "n", "n missing", "d.days", "d missing", "b")
    assert dict(Preparation().fit(rows.drop_nulls()).left_out).keys() == {"c", "n", "d"}


def test_of_one_row_nothing_is_constant_and_nothing_an_id() -> None:
    rows = pl.DataFrame({"id": [3.0], "b": [2.0], "c": ["x"], "patient id": ["p"]})
    assert Preparation().fit(rows).names_in == ("id", "b", "c", "patient id")


def test_texts_that_are_called_ids_are_left_out_of_few_rows_too() -> None:
    rows = pl.DataFrame({"patient_id": ["p1", "p2", "p3"], "name": ["r", "s", "t"], "b": [1.0, 5.0, 2.0]})
    assert list(Preparation().fit(rows).left_out) == ["patient_id"]


def test_a_count_with_gaps_is_no_row_number() -> None:
    rows = pl.DataFrame({"n": [*range(24), None], "b": np.arange(25.0) ** 2})
    assert Preparation().fit(rows).names_out == ("n", "n missing", "b")


def test_rare_is_a_share_of_all_rows() -> None:
    rows = pl.DataFrame({"c": ["x"] * 6 + ["y"] * 2 + [None] * 4, "b": np.arange(12.0) ** 2})
    assert Preparation(rare=0.25).fit(rows).names_out == ("c=x", "c other", "c missing", "b")
    assert Preparation(rare=0.16).fit(rows).names_out == ("c=x", "c=y", "c missing", "b")


def test_dates_stay_missing_where_nothing_is_to_stand_for_them() -> None:
    rows = pl.DataFrame({"d": pl.Series(["2024-01-05", None, "2024-01-09"]).str.to_date(), "b": [1.0, 5.0, 2.0]})
    X = Preparation(missing="none").fit(rows).transform(rows)
    assert np.isnan(X[1, :-1]).all() and X.shape == (3, 3), "weekday, days and b"


def test_dates_written_in_a_frame_are_read_as_they_were_in_the_fit() -> None:
    rows = pl.DataFrame({"d": ["01.02.2020", "28.02.2020", "13.03.2020", "14.03.2020"], "b": [1.0, 5.0, 2.0, 7.0]})
    prepared = Preparation().fit(rows)
    assert prepared.kinds["d"] == "date:%d.%m.%Y" and prepared.names_out[0] == "d.month"
    assert prepared.transform(pl.DataFrame({"d": ["03.04.2020"], "b": [1.0]}))[0, 0] == 4
