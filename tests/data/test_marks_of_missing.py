"""Marks of missing values among numbers, and a lone feature that looks like a row number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from gnomon.data import Preparation, load


@pytest.mark.parametrize("mark", ["?", "-", "NA", "N/A", "n/a", "nan", "NULL", "none", "Missing"])
def test_marks_among_numbers_are_missing(tmp_path: Path, mark: str) -> None:
    """As in ``horsepower`` of UCI's cars: numbers with a few marks are numbers, and what was taken is said."""
    cells = ["130", mark, "165.5", "150", mark, "140"]
    (tmp_path / "t.csv").write_text("\n".join(["power,b", *(f"{cell},1" for cell in cells)]))
    if mark in ("NA", "N/A", "nan"):
        data = load(tmp_path / "t.csv")
    else:
        with pytest.warns(UserWarning, match=r"2 cells .* taken as missing \(first t.csv, line 3, column 'power'\)"):
            data = load(tmp_path / "t.csv")
    assert np.array_equal(data.view("table")[:, 0], [130, np.nan, 165.5, 150, np.nan, 140], equal_nan=True)


def test_marks_among_words_stay_words(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nx,1\nnone,2\n?,3\n")
    assert load(tmp_path / "t.csv").frame["a"].to_list() == ["x", "none", "?"]
    (tmp_path / "u.csv").write_text("a,b\n1,x\nnone,y\n?,z\n")  # more of them than numbers
    assert load(tmp_path / "u.csv").frame["a"].to_list() == ["1", "none", "?"]


def test_a_numeric_target_with_a_mark_lacks_that_label(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1,2.5\n2,?\n3,4.5\n")
    with pytest.warns(UserWarning, match=r"1 row without a label is left out \(t.csv, line 3"):
        assert load(tmp_path / "t.csv", target="y").y.tolist() == [2.5, 4.5]


def test_a_frame_of_texts_with_marks() -> None:
    """What pandas makes of such a file: texts."""
    frame = pd.DataFrame({"power": ["130", "?", "165", "150"] * 5, "code": ["007", "?", "008", "009"] * 5})
    with pytest.warns(UserWarning, match="5 cells"):
        prepared = Preparation().fit(frame)
    assert prepared.names_out[:2] == ("power", "power missing") and prepared.names_out[2].startswith("code=")
    with pytest.warns(UserWarning, match="1 cell"):
        found = prepared.transform(pl.DataFrame({"code": ["007"], "power": ["?"]}))
    assert found[0, :2].tolist() == [150.0, 1.0]


def test_the_only_feature_is_used() -> None:
    """HB-48: x = 1 ... 60 alone was refused as a row number."""
    with pytest.warns(UserWarning, match="'x' looks like a row number or an id, and is used, as it is the only"):
        prepared = Preparation().fit(pl.DataFrame({"x": range(1, 61), "k": [7] * 60}))
    assert prepared.names_in == ("x",) and list(prepared.left_out) == ["k"]
    assert "x" in Preparation().fit(pl.DataFrame({"x": range(1, 61), "z": [0.5, 1.5] * 30})).left_out
