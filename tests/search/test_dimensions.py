"""Ranges of hyper-parameters: draws against their laws, grids against counting, what is refused."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import ParameterGrid

from gnomon.errors import UserTypeError, UserValueError
from gnomon.search.conditions import size
from gnomon.search.dimensions import OneOf, RealRange, WholeRange
from gnomon.search.space import grid

FALSE_ALARM = 1e-4


def draw(one, seed, n):
    return [one.at(u) for u in np.random.default_rng(seed).random(n)]


@pytest.mark.spec("PRA-073")
def test_the_logarithm_of_a_rate_is_uniform():
    rate = RealRange(1e-5, 1e-1, log=True)
    drawn = np.array(draw(rate, 0, 4000))
    assert stats.kstest(np.log10(drawn), stats.uniform(-5, 4).cdf).pvalue > FALSE_ALARM
    assert rate.cdf(1e-3) == pytest.approx(0.5) and rate.cdf(0.01) == pytest.approx(0.75)
    x = np.geomspace(1e-6, 1, 50)
    law = stats.loguniform(1e-5, 1e-1)
    np.testing.assert_allclose(rate.pdf(x), law.pdf(x), rtol=1e-12)
    np.testing.assert_allclose(rate.cdf(x), law.cdf(x), rtol=1e-12)
    # the density by its formula, and that it is a density
    assert rate.pdf(0.01) == pytest.approx(1 / (0.01 * math.log(1e4)))
    u = np.linspace(math.log(1e-5) + 1e-9, math.log(1e-1) - 1e-9, 2001)
    assert np.trapezoid(rate.pdf(np.exp(u)) * np.exp(u), u) == pytest.approx(1, rel=1e-6)


@pytest.mark.spec("PRA-073")
def test_numbers_of_units_are_rounded_and_their_ends_as_likely_as_others():
    units = WholeRange(50, 2000, log=True)
    drawn = np.array(draw(units, 1, 40_000))
    assert drawn.min() >= 50 and drawn.max() <= 2000 and drawn.dtype.kind == "i"
    middle = np.log(drawn) < math.log(math.sqrt(50 * 2000))
    assert abs(middle.mean() - 0.5) < 4 * 0.5 / math.sqrt(drawn.size) + 0.01  # the median is 316.2
    few = np.array(draw(WholeRange(1, 4, log=True), 2, 20_000))
    edges = np.log([0.5, 1.5, 2.5, 3.5, 4.5])
    expected = np.diff(edges) / (edges[-1] - edges[0]) * few.size
    assert stats.chisquare(np.bincount(few)[1:], expected).pvalue > FALSE_ALARM


def test_uniform_ranges_and_choices_follow_their_laws():
    assert stats.kstest(draw(RealRange(-2, 3), 3, 2000), stats.uniform(-2, 5).cdf).pvalue > FALSE_ALARM
    assert stats.chisquare(np.bincount(draw(WholeRange(2, 5), 3, 4000))[2:]).pvalue > FALSE_ALARM
    drawn = draw(OneOf(("a", None, True)), 3, 3000)
    assert stats.chisquare([drawn.count("a"), drawn.count(None), drawn.count(True)]).pvalue > FALSE_ALARM
    assert draw(RealRange(0.5, 0.5), 3, 3) == [0.5] * 3 and RealRange(0.5, 0.5).size == 1


@pytest.mark.spec("PRA-073")
@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (
            lambda: RealRange(0.0, 1.0, log=True),
            UserValueError,
            "low must be positive where the logarithm",
        ),
        (lambda: WholeRange(-1, 3, log=True), UserValueError, "low must be positive"),
        (lambda: RealRange(2.0, 1.0), UserValueError, "low must be at most high, got 2.0 and 1.0"),
        (lambda: RealRange(0.0, math.inf), UserValueError, "high must be finite"),
        (lambda: RealRange(math.nan, 1.0), UserValueError, "low must be finite"),
        (lambda: WholeRange(1.5, 3), UserValueError, "bounds of whole numbers must be whole, got 1.5"),
        (lambda: RealRange("a", 1.0), UserTypeError, "low must be a number"),
        (lambda: OneOf(()), UserValueError, "at least one value"),
        (lambda: OneOf((1, 2, 1)), UserValueError, "values must differ, got 1, 2, 1"),
    ],
)
def test_ranges_that_cannot_be_are_refused(make, kind, words):
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.spec("PRA-070")
def test_a_grid_has_every_combination_once_in_order():
    rates, units = OneOf((0.1, 0.01, 1e-3, 1e-4, 1e-5)), OneOf((50, 100, 200, 500, 1000, 2000))
    points = grid({"a_rate": rates, "b_units": units})
    assert len(points) == 30
    assert points == list(ParameterGrid({"a_rate": rates.values, "b_units": units.values}))
    spaced = grid({"x": RealRange(1e-5, 1e-1, log=True), "n": WholeRange(1, 3), "c": OneOf(("p", "q"))}, 5)
    assert [round(math.log10(one["x"])) for one in spaced[::6]] == [-5, -4, -3, -2, -1]
    assert len(spaced) == 5 * 3 * 2 and spaced[0]["x"] == 1e-5 and spaced[-1]["x"] == 1e-1
    assert [(one["n"], one["c"]) for one in spaced[:6]] == [(n, c) for n in (1, 2, 3) for c in "pq"]
    assert size({"n": WholeRange(1, 3), "c": OneOf(("p", "q"))}) == 6 and size({"x": RealRange(0, 1)}) == math.inf


@pytest.mark.spec("PRA-070")
def test_an_explosion_of_the_grid_is_refused_with_its_size():
    space = {f"x{i}": WholeRange(1, 10) for i in range(6)}
    with pytest.raises(UserValueError, match=r"the grid has 1,000,000 points, more than 10,000 .*draw at random"):
        grid(space, 10)
