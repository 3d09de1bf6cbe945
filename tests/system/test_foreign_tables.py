"""Tables of other libraries in forms that hold no numbers, or in forms of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

import gnomon
from gnomon.errors import UserError, UserTypeError, UserValueError

X = np.random.default_rng(0).normal(size=(20, 2))
Y = np.arange(20) % 2


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_tensors_without_values_are_refused_and_quantized_ones_are_numbers() -> None:
    fitted = gnomon.DecisionTree(random_state=0).fit(X, Y)
    with pytest.raises(UserTypeError, match="got a tensor without values"):
        fitted.predict(torch.empty(20, 2, device="meta"))
    coarse = torch.quantize_per_tensor(torch.tensor(X, dtype=torch.float32), 0.1, 0, torch.qint8)
    assert fitted.predict(coarse).tolist() == fitted.predict(coarse.dequantize().numpy()).tolist()


def test_half_a_character_is_said_with_its_row() -> None:
    rows = pd.DataFrame({"a": X[:, 0], "t": ["x", "\ud800"] * 10})
    with pytest.raises(UserValueError, match=r"lone surrogate\) in the text \(X, row 1, column 't'\)"):
        gnomon.DecisionTree().fit(rows, Y)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_dates_beyond_the_calendar_are_said_with_their_row(kind: str) -> None:
    days = pl.Series("d", [0, 10**7] * 10, dtype=pl.Int32).cast(pl.Date)
    rows = pl.DataFrame({"a": X[:, 0]}).with_columns(days)
    held = rows if kind == "polars" else pd.DataFrame({"a": X[:, 0], "d": days.cast(pl.Datetime("ms")).to_numpy()})
    for call in (gnomon.DecisionTree().fit, lambda table, y: gnomon.compare(["decision-tree"], table, y)):
        with pytest.raises(UserValueError, match=r"years 1 to 9999, got the year 29349 \(X, row 1, column 'd'\)"):
            call(held, Y)


def test_a_lazy_frame_is_to_be_collected() -> None:
    with pytest.raises(UserTypeError, match=r"got a LazyFrame; give X.collect\(\)"):
        gnomon.compare(["decision-tree"], pl.DataFrame({"a": X[:, 0]}).lazy(), Y)


@pytest.mark.parametrize(
    "table", [sparse.csr_array(X), torch.tensor(X), {"a": X[:, 0]}], ids=["sparse", "torch", "dict"]
)
def test_what_compare_does_not_take_is_named(table: object) -> None:
    """It was said that y must be left out, as if the table were a file."""
    with pytest.raises(UserTypeError, match="data must be a name, a file, an array or a data frame, got a"):
        gnomon.compare(["decision-tree"], table, Y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gnomon.compare(["decision-tree"], X, Y, holdout=None), "holdout must be in"),
        (lambda: gnomon.compare(["decision-tree"], X, Y, split=3), "split must be text"),
        (lambda: gnomon.compare(["decision-tree"], X, Y, out=3), "out must be the path of a folder"),
        (lambda: gnomon.compare(["decision-tree"], X, Y, prepare="x"), "prepare must be a gnomon.data.Preparation"),
        (lambda: gnomon.compare(["decision-tree"], X, Y, metric=3), "unknown metric 3"),
        (lambda: gnomon.compare(None, X, Y), "systems must be a list"),
        (lambda: gnomon.fit(3, "iris"), "system must be a name or a System"),
        (lambda: gnomon.fit(gnomon.DecisionTree, "iris"), "call the class"),
        (lambda: gnomon.fit("decision-tree", "iris", prepare=3), "prepare must be a gnomon.data.Preparation"),
        (lambda: gnomon.data.Preparation(drop=5), "drop must be a list of columns"),
        (lambda: gnomon.data.Preparation(numeric=[["a"]]), "numeric must be a list of columns"),
    ],
)
def test_arguments_of_other_kinds_are_said_in_one_line(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        call()


@pytest.mark.parametrize("options", [{"columns": 3}, {"kinds": 3}, {"kinds": {"a": 3}}, {"target": [0]}])
def test_options_of_readers_are_of_their_kinds(options: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(UserTypeError):
        gnomon.data.load(tmp_path / "t.csv", **options)  # type: ignore[arg-type]
