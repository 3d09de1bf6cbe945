"""Finite distributions against sums over axes and NumPy. Random tests fail a right sampler with p below 1e-5."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.distributions.table import LARGEST, Categorical, Table
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise


def table(shape=(2, 3, 4), seed=0):
    p = np.random.default_rng(seed).random(shape)
    return Table(p / p.sum(), names=tuple("abcd"[: len(shape)]))


@pytest.mark.spec("REP-124")
def test_marginals_and_conditionals_are_sums_over_axes():
    joint = table()
    p = joint.probabilities
    assert math.isclose(p.sum(), 1) and joint.n_parameters == 23
    assert np.allclose(joint.marginal("a").probabilities, p.sum((1, 2)))
    assert np.allclose(joint.marginal("c", "a").probabilities, p.sum(1).T)
    assert np.allclose(joint.conditional("b", c=1).probabilities, p[:, :, 1].sum(0) / p[:, :, 1].sum())
    assert np.allclose(joint.conditional("c", "b", a=1).probabilities, (p[1] / p[1].sum()).T)
    for order in itertools.permutations("abc"):
        axes = ["abc".index(name) for name in order]
        assert np.allclose(joint.marginal(*order).probabilities, p.transpose(axes))
    rows = np.array([[0, 2, 3], [1, 0, 0]])
    assert np.allclose(joint.prob(rows), [p[0, 2, 3], p[1, 0, 0]])
    assert np.allclose(np.exp(joint.log_prob(rows)), joint.prob(rows))
    for bad, match in (
        (lambda: joint.marginal("z"), r"unknown variable 'z' \(names\); choose from a, b, c"),
        (lambda: joint.marginal("a", "a"), "names must be different from each other"),
        (lambda: joint.conditional("a", b=-1), r"b must be in \[0, 3\), got -1"),
        (lambda: joint.prob([[0, 0, -1]]), "row 0, column 2"),
        (lambda: joint.prob([[0, 0]]), r"rows must have shape \(n, 3\), got an array of shape \(1, 2\)"),
        (lambda: joint.conditional("a", a=0), r"'a' is both a query and given \(names\); leave it out of one of them"),
        (lambda: Table([[0.5, 0.0], [0.5, 0.0]]).conditional("x0", x1=1), "probability 0"),
    ):
        with pytest.raises(UserValueError, match=match):
            bad()


@pytest.mark.spec("REP-124")
def test_counts_with_and_without_laplaces_one():
    rows = np.array([[0, 1], [0, 1], [1, 0]])
    assert np.allclose(Table.from_counts(rows, (2, 2)).probabilities, [[0, 2 / 3], [1 / 3, 0]])
    assert np.allclose(Table.from_counts(rows, (2, 2), alpha=1).probabilities, [[1 / 7, 3 / 7], [2 / 7, 1 / 7]])
    assert np.allclose(Table.from_counts(np.empty((0, 2)), (2, 2), alpha=1).probabilities, 0.25)
    with pytest.raises(
        UserValueError, match=r"a code must be in \[0, 2\), got 2 \(row 1, column 0\); encode values as 0, 1, \.\.\."
    ):
        Table.from_counts([[0, 0], [2, 0]], (2, 2))
    with pytest.raises(UserValueError, match="n > 0 or alpha > 0"):
        Table.from_counts(np.empty((0, 2)), (2, 2))


@pytest.mark.spec("REP-124")
def test_a_table_that_no_memory_holds_is_refused_before_it_is_made():
    with pytest.raises(
        UserValueError,
        match=r"a table must have 1 to 67108864 entries, got 1\.1e\+12 \(8\.8e\+12 bytes\) \(probabilities\)",
    ):
        Table.from_counts(np.zeros((1, 40), int), (2,) * 40)
    assert LARGEST < 2**40
    for wrong in ([0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0]):
        with pytest.raises(UserValueError):
            Table(wrong)


@pytest.mark.spec("REP-125")
def test_draws_have_the_frequencies_of_the_table():
    joint = table()
    rows = joint.sample(100_000, Noise(0, "draws"))
    assert rows.shape == (100_000, 3) and rows.dtype == np.int64
    seen = np.bincount(np.ravel_multi_index(tuple(rows.T), (2, 3, 4)), minlength=24)
    assert stats.chisquare(seen, joint.probabilities.ravel() * 100_000).pvalue > 1e-5
    numpy = np.bincount(np.random.default_rng(0).choice(24, 100_000, p=joint.probabilities.ravel()), minlength=24)
    assert stats.chi2_contingency([seen, numpy]).pvalue > 1e-5


@pytest.mark.spec("REP-125")
def test_the_ends_of_the_running_sum():
    distribution = Table([0.0, 0.25, 0.0, 0.75, 0.0])
    u = np.array([0.0, np.nextafter(0, 1), 0.25, np.nextafter(0.25, 0), np.nextafter(1, 0), 1.0])
    assert distribution._rows(u)[:, 0].tolist() == [1, 1, 3, 1, 3, 3]
    tenths = Table([0.1] * 10)
    assert tenths._rows(np.array([1.0, np.nextafter(1, 0)]))[:, 0].tolist() == [9, 9]


def test_categories():
    p = np.array([[0.2, 0.0, 0.8], [0.5, 0.25, 0.25]])
    distribution = Categorical.of(p)
    assert np.allclose(distribution.mean, p) and np.allclose(distribution.entropy(), stats.entropy(p, axis=1))
    assert np.allclose(distribution.log_prob([2, 1]), np.log([0.8, 0.25]))
    assert distribution.log_prob([1, 1])[0] == -np.inf
    shifted = Categorical(torch.log(torch.tensor(p)) + 7.0)
    assert torch.allclose(
        shifted.log_prob(torch.tensor([2, 1])), torch.log(torch.tensor([0.8, 0.25], dtype=torch.float64))
    )
    assert torch.allclose(shifted.entropy(), torch.tensor(stats.entropy(p, axis=1)))
    draws = distribution.sample(Noise(0, "draws"), 0, (50_000,))
    assert draws.shape == (50_000, 2) and not (draws[:, 0] == 1).any()
    for row, column in zip(p, draws.T, strict=True):
        seen = np.bincount(column, minlength=3)
        assert stats.chisquare(seen[row > 0], row[row > 0] * 50_000).pvalue > 1e-5
    assert np.array_equal(np.asarray(shifted.sample(Noise(0, "draws"), 0, (50_000,))), draws)
    with pytest.raises(UserValueError, match=r"probs must be at least 0 and sum to 1, got 0\.75; normalize them"):
        Categorical.of([0.5, 0.25])
    with pytest.raises(UserValueError, match=r"x must be a category in \[0, 3\), got 3; encode them as 0, 1, \.\.\."):
        distribution.log_prob([3, 0])
