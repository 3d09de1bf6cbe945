"""What a report says of the target: shares among rows that have one, quantiles of a number, no list of its values."""

import numpy as np
import pytest

from gnomon.cli.main import run as command
from gnomon.report.verb import report
from oracles.written_page import checked


def page_of(words, folder):
    assert command(["fit", *words, "--out", str(folder / "run")]) == 0
    return " ".join(" ".join(checked(report(folder / "run")).text).split())


@pytest.mark.filterwarnings("ignore:.*rows without a label are left out")
def test_a_numeric_target_has_quantiles_and_no_table_of_classes(tmp_path):
    y = np.random.default_rng(0).permutation(1000)[:604]
    lines = [f"{i % 13},{i * i % 7},{'' if i % 100 == 0 else value}" for i, value in enumerate(y)]
    (tmp_path / "price.csv").write_text("\n".join(["a,b,price", *lines]))
    text = page_of(["linear-regression", str(tmp_path / "price.csv"), "--target", "price"], tmp_path)
    known = np.delete(y, np.arange(0, 604, 100))
    assert "commonest" not in text and "Classes" not in text
    start = text.index("Target, with its quantiles")
    numbers = text[start:].split("max ", 1)[1].split()[:11]
    expected = [597, 7, known.mean(), known.std(), *np.quantile(known, [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])]
    assert [float(one.replace(",", "")) for one in numbers] == pytest.approx(expected, rel=1e-4, abs=0.01)


@pytest.mark.filterwarnings("ignore:.*rows without a label are left out")
def test_shares_of_classes_are_of_the_rows_that_have_one(tmp_path):
    labels = ["yes"] * 60 + ["no"] * 120 + [""] * 20
    lines = [f"{i % 13},{i * i % 7},{label}" for i, label in enumerate(labels)]
    (tmp_path / "churn.csv").write_text("\n".join(["a,b,churn", *lines]))
    text = page_of(["logistic-regression", str(tmp_path / "churn.csv"), "--target", "churn"], tmp_path)
    assert "Classes; 20 rows without a label, which have no share" in text
    assert "no 120 66.7%" in text and "yes 60 33.3%" in text
