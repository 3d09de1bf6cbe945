"""Every system can be looked at: diagnosed, walked along its chains, shown on a page."""

import warnings

import numpy as np
import pytest

import gnomon
from gnomon.catalog import entries, entry, load_class
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.tasks.along_chains import sample_along_chains
from oracles.ways import case, made

NAMES = [one.name for one in entries()]
TARGETS = {"table": None, "table, labels": "species", "table, numeric target": "petal width (cm)"}
CHAINS = [
    name
    for name in NAMES
    if hasattr(load_class(name), "from_visible") and issubclass(load_class(name).model_class, LayeredMachine)
]
"""A belief network has chains at its top alone: what it draws are the ends of some."""


@pytest.mark.parametrize("name", NAMES)
def test_it_is_diagnosed(name):
    one = case(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gnomon.diagnose(one.fitted, one.X, one.y)
    assert found.findings and {f.level for f in found.findings} <= {"ok", "notice", "warning"}


@pytest.mark.parametrize("name", CHAINS)
def test_rows_along_its_chains_have_the_columns_and_units_of_the_data(name):
    one = case(name)
    rows = sample_along_chains(one.fitted, chains=20, rows=4, every=20, random_state=0).rows
    X = np.asarray(one.X, float)
    assert rows.shape == (20, 4, X.shape[1])
    assert (np.abs(rows.mean(axis=(0, 1)) - X.mean(axis=0)) < 3 * X.std(axis=0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if entry(name).needs in TARGETS])
def test_a_run_on_a_table_has_a_page(name, tmp_path):
    iris, file = gnomon.data.load("iris"), tmp_path / "iris.csv"
    rows = [[*map(str, row), str(label)] for row, label in zip(iris.X, iris.view("labels"), strict=True)]
    file.write_text("\n".join(",".join(row) for row in [[*iris.columns, "species"], *rows]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        [board] = gnomon.compare([made(name)], file, target=TARGETS[entry(name).needs], out=tmp_path / "runs")
        page = gnomon.report(next(line.run for line in board.lines if line.run)).read_text(encoding="utf-8")
    assert f"<h1><bdi>{name}" in page and page.endswith("</html>\n")
