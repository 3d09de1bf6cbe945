"""Statistics of preprocessing over two processes are those of all rows. One launch does it all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gnomon.data.encoding import Indicators
from gnomon.data.preprocessing import Rescaler, Standardizer
from gnomon.training.group import current
from gnomon.training.launch import launch

WORDS = np.array([["B", "x"], ["A", "é"], ["C", "x"], ["B", "z"], ["中", "x"]])
CODES = np.array([[3.0], [np.nan], [1.0], [2.0], [3.0]])


def table() -> np.ndarray:
    rows = np.random.default_rng(0).normal(size=(101, 3)) * [1, 1e4, 1] + [0, 1e9, 5]
    rows[:, 2] = 5.1
    rows[60, 0] = np.nan
    return rows


def on_each() -> dict[str, Any]:
    """Each process fits its own part, of unequal length, then takes in the other's."""
    group, rows = current(), table()
    part, words = (slice(0, 30), slice(0, 2)) if group.rank == 0 else (slice(30, 101), slice(2, 5))
    found: dict[str, Any] = {}
    for make, data, mine in ((Standardizer, rows, part), (Rescaler, rows, part), (Indicators, WORDS, words)):
        found[make.__name__] = make().partial_fit(data[mine]).over(group).state()
    found["codes"] = Indicators().partial_fit(CODES[words]).over(group).state()
    return {name: {key: group.gather(value[None])[group.size - 1] for key, value in state.items()}
            for name, state in found.items()}  # fmt: skip


@pytest.fixture(scope="module")
def found():
    return launch(on_each, devices=2)


@pytest.mark.spec("PRA-059", "DLN-76")
def test_standardizing(found):
    """What the second process knows afterwards; the constant column stays constant to the bit."""
    for name, value in Standardizer().fit(table()).state().items():
        np.testing.assert_allclose(found["Standardizer"][name], value, rtol=1e-12, err_msg=name)
    assert found["Standardizer"]["variance"][2] == 0


@pytest.mark.spec("DLN-78")
def test_extremes(found):
    for name, value in Rescaler().fit(table()).state().items():
        np.testing.assert_array_equal(found["Rescaler"][name], value)


@pytest.mark.spec("DLN-77")
@pytest.mark.parametrize(("name", "data"), [("Indicators", WORDS), ("codes", CODES)])
def test_categories(found, name, data):
    for key, value in Indicators().fit(data).state().items():
        np.testing.assert_array_equal(found[name][key], value)
