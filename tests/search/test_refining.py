"""Repeated grids: shifted where the best lies at an end, refined where it lies inside, within declared intervals."""

import math

import numpy as np
import pytest

import gnomon
from gnomon.search.dimensions import OneOf, RealRange, WholeRange
from gnomon.search.intervals import Interval
from gnomon.search.rounds import key, next_round
from gnomon.search.space import intervals_of, space_of
from gnomon.search.trials import SearchPlan
from oracles.searching import finished, table


def refining(space, trials=500, **intervals):
    return SearchPlan(space, "refine", trials, 0, higher_is_better=False, intervals=intervals)


def rounds(space, cost, **intervals):
    """Every round as the points that are new in it, until the search ends."""
    costs, found = {}, []
    while points := next_round(refining(space, **intervals), costs):
        assert not [one for one in points if key(one) in costs], "a point is tried twice"
        found.append(points)
        costs |= {key(one): cost(**one) for one in points}
    return found


def values(points):
    return [one["x"] for one in points]


@pytest.mark.spec("PRA-071")
@pytest.mark.parametrize(
    ("best", "new"), [(1.0, [2.0, 3.0]), (0.0, [-0.1, 0.1]), (-1.0, [-3.0, -2.0])], ids=["end", "inside", "other end"]
)
def test_the_documents_cases(best, new):
    """{-1, 0, 1} becomes {1, 2, 3} or {-0.1, 0, 0.1}, of which one value is known."""
    costs = {key({"x": x}): abs(x - best) for x in (-1.0, 0.0, 1.0)}
    assert values(next_round(refining({"x": RealRange(-1, 1)}), {})) == [-1.0, 0.0, 1.0]
    assert values(next_round(refining({"x": RealRange(-1, 1)}), costs)) == new


@pytest.mark.spec("PRA-071")
@pytest.mark.parametrize("optimum", [2.3, -7.41, 0.0, 0.05, 31.0])
def test_the_optimum_of_a_convex_function_is_reached(optimum):
    found = [x for one in rounds({"x": RealRange(-1, 1)}, lambda x: (x - optimum) ** 2) for x in values(one)]
    assert min(found, key=lambda x: abs(x - optimum)) == pytest.approx(optimum, abs=1e-3)
    assert len(found) < 80
    if optimum == 2.3:  # by hand: the two shifts, then tenths up to the one beyond the best
        assert found[:11] == [-1.0, 0.0, 1.0, 2.0, 3.0, 1.9, 2.1, 2.2, 2.3, 2.4, 2.5]
        assert found[11:13] == [2.29, 2.31]


@pytest.mark.spec("PRA-071")
def test_several_hyper_parameters_at_once():
    """A bowl along a diagonal: neither coordinate can be found without the other."""

    def bowl(x, y):
        return (x - y) ** 2 + 0.05 * (x + y - 7) ** 2

    space = {"x": RealRange(-1, 1), "y": RealRange(-1, 1)}
    found = [point for one in rounds(space, bowl) for point in one]
    best = min(found, key=lambda one: bowl(**one))
    assert (best["x"], best["y"]) == (3.5, 3.5) and len(found) == len({key(one) for one in found})
    assert len(rounds(space, bowl)[0]) == 9


@pytest.mark.spec("PRA-071")
def test_logarithms_whole_numbers_and_choices():
    def cost(rate, units, kind):
        return math.log10(rate / 0.02) ** 2 + math.log2(units / 23) ** 2 + (kind != "b")

    space = {"rate": RealRange(1e-5, 1e-3, log=True), "units": WholeRange(2, 8, log=True), "kind": OneOf(("a", "b"))}
    found = [point for one in rounds(space, cost) for point in one]
    best = min(found, key=lambda one: cost(**one))
    assert best["rate"] == pytest.approx(0.02, rel=0.01) and (best["units"], best["kind"]) == (23, "b")
    assert all(isinstance(one["units"], int) for one in found)
    first = sorted({one["rate"] for one in rounds(space, cost)[1]})
    assert first == pytest.approx([1e-3, 1e-2, 1e-1])  # a step of the logarithm is kept when the range is shifted
    few = [one["n"] for points in rounds({"n": WholeRange(1, 9)}, lambda n: abs(n - 4)) for one in points]
    assert few == [1, 5, 9, 4, 6, 2, 3]  # steps of 4, then of 1, shifted down once


@pytest.mark.spec("PRA-071")
def test_natural_bounds_are_never_left():
    decay = Interval(0.0, open_low=False)
    space = {"x": RealRange(0.5, 1.5)}
    found = [x for one in rounds(space, lambda x: x, x=decay) for x in values(one)]
    assert found[:4] == [0.5, 1.0, 1.5, 0.0] and min(found) == 0.0
    assert [x for one in rounds(space, lambda x: x, x=Interval(0.0)) for x in values(one) if x <= 0] == []
    below = [x for one in rounds({"x": RealRange(0.3, 0.7)}, lambda x: x, x=decay) for x in values(one)]
    assert below[:5] == [0.3, 0.5, 0.7, 0.0, 0.1] and min(below) == 0.0  # a step that ends beyond it ends at the bound
    ones = [one["n"] for p in rounds({"n": WholeRange(2, 6)}, lambda n: n, n=Interval(1, 9, False, False)) for one in p]
    assert min(ones) == 1
    system = gnomon.MLP()
    known = intervals_of(system, space_of(system, {"l2": "0..1", "dropout": "0..0.5", "hidden": "32,64"}))
    assert known["l2"] == Interval(0.0, math.inf, False, True)
    assert known["dropout"] == Interval(0.0, 1.0, False, True) and known["hidden"] == Interval()
    machine = gnomon.RBM()
    assert intervals_of(machine, space_of(machine, {"objective.k": "1..3"}))["objective.k"].low == 1


@pytest.mark.spec("PRA-071")
def test_repeats_are_not_fitted_again_and_a_search_goes_on(tmp_path):
    calls = []

    def judge(parameters, report):
        calls.append(parameters["x"])
        return (parameters["x"] - 2.3) ** 2

    space = {"x": RealRange(-1, 1)}
    whole = finished(refining(space), judge)
    assert len(calls) == len(set(calls)) == len(whole.tried) < 30  # it ends by itself
    assert whole.best().parameters == {"x": 2.3}
    assert all(one.state == "done" for one in whole.tried)
    for part in (2, 4, 9, 500):
        parts = finished(refining(space, part), judge, tmp_path / "s.db")
        assert len(parts.tried) == min(part, len(whole.tried))
    assert table(parts) == table(whole)


@pytest.mark.spec("PRA-071")
def test_failed_points_are_the_worst_and_the_first_of_equal_ones_is_kept():
    def fails(parameters, report):
        if parameters["x"] > 1:
            raise gnomon.errors.UserValueError("x must be at most 1")
        return (parameters["x"] - 2.3) ** 2

    study = finished(refining({"x": RealRange(-1, 1)}), fails)
    assert study.best().parameters["x"] == 1.0 and "failed" in {one.state for one in study.tried}
    flat = rounds({"x": RealRange(-1, 1)}, lambda x: 0.0)
    assert values(flat[1]) == [-3.0, -2.0]

    def never(parameters, report):
        raise gnomon.errors.UserValueError("x must be something else")

    assert len(finished(refining({"x": RealRange(-1, 1)}), never).tried) == 3


@pytest.mark.spec("PRA-071")
def test_the_strategy_on_data_leaves_the_range_within_the_declared_interval():
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.1 * random.normal(size=120)
    found = gnomon.search(
        gnomon.LinearRegression(), X, y, trials=60, strategy="refine", space={"l2": "0.5..1.5"}, seed=1
    )
    tried = [one.parameters["l2"] for one in found.trials]
    assert min(tried) == 0.0 and found.best.parameters["l2"] < 0.5 and len(set(tried)) == len(tried)
