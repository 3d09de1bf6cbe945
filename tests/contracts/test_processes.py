"""One process and two fit the same, in double and in single precision: one launch for every family."""

import functools

import numpy as np
import pytest

from gnomon.catalog import entry
from gnomon.testing import arrays_of
from gnomon.training.launch import launch
from oracles.ways import EVERY, brief, case, first_of

TOLERANCES = {"float64": 1e-9, "float32": 1e-5}
SEARCHED = {"product-of-ppca": 1e-5}
"""Where many parameters are one density: a search by slopes ends among them where the order of sums moves it to."""
ROWS = 37
"""So few that every batch is shared unevenly."""


def family(way):
    """The room of systems that a way belongs to."""
    return entry(EVERY[way][0]).where.split(".")[2]


FAMILIES = sorted({family(way) for way in EVERY})
QUICK = ("linear", "energy")
"""Closed forms, gradient descent and chains: what `make test` launches; every family with the slow tests."""


def fit(way, dtype):
    """Arrays of a fit in this process, or in this group."""
    X, y = first_of(case(way).X, ROWS), None if case(way).y is None else case(way).y[:ROWS]
    system, options = brief(way), {}
    if isinstance(X, np.ndarray):
        X = X.astype(dtype)
        options["sample_weight"] = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    known = system.get_params(deep=False)
    if "dtype" in known:
        system.set_params(dtype=dtype)
    if "tol" in known:
        system.set_params(tol=0.0)
    if dtype == "float32" and "epochs" in known:  # rounding grows with every update: twenty of them
        system.set_params(epochs=-(-20 // -(-ROWS // (known["batch_size"] or ROWS))))
    if dtype == "float32" and "optimizer" in known:  # Adam makes full steps of gradients as small as rounding
        system.set_params(optimizer="sgd", learning_rate=0.001)
    return arrays_of(system.fit(X, y, **options))


def fit_family(name):
    """Every way of a family in both precisions; a sampled binary unit that flips by rounding ends elsewhere."""
    ways = [way for way in EVERY if family(way) == name]
    found = {(way, "float64"): fit(way, "float64") for way in ways}
    if name in ("energy", "text"):
        return found
    return found | {(way, "float32"): fit(way, "float32") for way in ways}


@pytest.mark.filterwarnings("ignore:too little text")
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in FAMILIES]
)
def test_one_and_two_processes_fit_the_same(name):
    alone, together = fit_family(name), launch(functools.partial(fit_family, name), devices=2)
    assert alone.keys() == together.keys()
    for (way, dtype), arrays in alone.items():
        other = together[way, dtype]
        assert arrays.keys() == other.keys()
        for key, value in arrays.items():
            assert value.shape == other[key].shape, (way, key)
            gap = np.abs(value.astype(float) - other[key].astype(float)).max(initial=0.0)
            assert gap <= SEARCHED.get(way, TOLERANCES[dtype]), (way, dtype, key)
