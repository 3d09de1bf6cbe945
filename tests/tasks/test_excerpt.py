"""Rows as people read them: useful columns first, cells in few letters, images by their files."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gnomon
from gnomon.cli.main import run
from gnomon.data import load
from gnomon.runs.config import DataSpec
from gnomon.runs.folder import RunFolder
from gnomon.tasks.excerpt import excerpt, plain_cell
from gnomon.tasks.fitting import parts


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (100500.0, "100500"), (106489, "106489"), (1234.5678, "1234.6"), (0.00012344, "0.0001234"), (1e20, "1e+20"),
        (float("nan"), ""), (None, ""), ("a b", "a b"), (True, "True"), (datetime.date(2020, 1, 2), "2020-01-02"),
        (datetime.datetime(2020, 1, 2), "2020-01-02"), (datetime.datetime(2020, 1, 2, 3, 4), "2020-01-02 03:04:00"),
    ],
)  # fmt: skip
def test_cells(value, wanted):
    assert plain_cell(value) == wanted


def test_columns_that_are_left_out_stand_last(tmp_path):
    random = np.random.default_rng(0)
    frame = {"customer": [f"c{i:04d}" for i in range(60)], "constant": [1.0] * 60}
    frame |= {f"x{j}": random.normal(size=60).round(3).tolist() for j in range(7)}
    frame |= {"y": random.integers(0, 2, 60).tolist()}
    pl.DataFrame(frame).write_csv(tmp_path / "t.csv")
    words = ["fit", "logistic-regression", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "run")]
    assert run(words) == 0
    spec = DataSpec.from_json(RunFolder.open(tmp_path / "run").config["data"])
    held = parts(spec, gnomon.load(tmp_path / "run"))[1]
    found = excerpt(held, np.arange(3))
    assert list(found) == [f"x{j}" for j in range(6)]
    assert found["x2"] == [plain_cell(frame["x2"][row]) for row in held.rows[:3]]


def test_images_have_the_names_of_their_files(tmp_path):
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (tmp_path / "all" / label).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(random.integers(0, 256, (4, 4), dtype=np.uint8)).save(tmp_path / "all" / label / f"{i}.png")
    data = load(tmp_path / "all")
    names = excerpt(data, np.array([0, 5]))["file"]
    assert [name.replace("\\", "/").split("/")[-2:] for name in names] == [["cat", "0.png"], ["dog", "2.png"]]
    later = data.take(np.array([4, 1]), "test")
    assert excerpt(later, np.array([0]))["file"][0].endswith("1.png")
    assert not excerpt(load("digits"), np.array([0]))
