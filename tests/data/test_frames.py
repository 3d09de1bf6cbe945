"""Columns in their kinds: units of times, zones, truth values in other writings; frames that a user holds."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from gnomon.data.columns import Chunk
from gnomon.data.frames import DATE, LENIENT, NUMBER, TRUTH, frame_of, of_kind
from gnomon.data.given import dataset_of
from gnomon.errors import UserValueError


def column(cells, kind, *, typed=True):
    return of_kind(Chunk("t", pl.DataFrame({"a": cells}), "row", 0, typed=typed), "a", kind)


def test_times_of_day_are_hours_and_durations_are_days():
    assert column([time(6, 30), time(18, 0, 36)], NUMBER).to_list() == pytest.approx([6.5, 18.01])
    spans = [timedelta(hours=36), timedelta(days=-2), None]
    assert column(spans, NUMBER).to_list() == [1.5, -2.0, None]
    frame = frame_of(pd.DataFrame({"a": pd.to_timedelta(["36h", "-2D"])}))
    assert of_kind(Chunk("t", frame, "row", 0, typed=True), "a", NUMBER).to_list() == [1.5, -2.0]


def test_times_of_a_zone_are_those_of_greenwich():
    noon = [datetime(2024, 1, 31, 12), datetime(2024, 7, 31, 12)]
    there = pl.Series(noon).dt.replace_time_zone("Europe/Rome")
    greenwich = [datetime(2024, 1, 31, 11), datetime(2024, 7, 31, 10)]
    assert column(there, DATE).to_list() == greenwich
    zoned = pd.DataFrame({"a": pd.Series(noon).dt.tz_localize("Europe/Rome")})
    assert frame_of(zoned)["a"].to_list() == greenwich


def test_truth_values_in_other_writings():
    """A column that the fit had as truth values, as numbers and as text."""
    assert column(["1", "0", " TRUE ", "False", ""], TRUTH, typed=False).to_list() == [True, False, True, False, None]
    assert column([1, 0, None], TRUTH).to_list() == column([1.0, 0.0, float("nan")], TRUTH).to_list()
    assert column([1, 0, 1], TRUTH).to_list() == [True, False, True]
    for cells in (["1", "2"], [1, 2]):
        with pytest.raises(UserValueError, match="must be true or false, as in the fit"):
            column(cells, TRUTH, typed=False)


def test_what_is_no_number_is_missing_where_that_was_asked_for():
    assert column([" 1.5 ", "x", "inf", "nan"], LENIENT, typed=False).to_list() == [1.5, None, None, None]
    assert column([1.5, float("inf"), float("nan")], LENIENT).to_list() == [1.5, None, None]


def test_a_frame_keeps_what_is_missing_and_the_order_that_is_asked_for():
    whole = pl.DataFrame({"a": [1, None], "b": [3, 4], "ill": [True, False]})
    data = dataset_of(whole, target="ill", columns=["b", "a"])
    assert data.X is not None and np.array_equal(data.X, [[3, 1], [4, np.nan]], equal_nan=True)
    assert data.columns == ("b", "a") and data.y is not None and data.y.tolist() == [1, 0]
    frame = frame_of(pd.DataFrame({"n": pd.array([1, None], "Int64"), "b": pd.array([True, None], "boolean")}))
    assert frame["n"].to_list() == [1.0, None] and frame["b"].to_list() == [True, None]
    assert dataset_of(np.zeros((2, 3, 3), np.uint8)).levels == 256
