"""Conditional tables: draws and densities against the plain rows, certain and impossible values, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.distributions.conditional import ConditionalTable, draw_codes, running_sums
from gnomon.distributions.table import Categorical
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from oracles.scripted import Scripted


def random_table(k=7):
    p = np.random.default_rng(0).gamma(0.7, size=(2, 3, k))
    p[0, 1, [0, k - 1]] = 0
    p[1, 2] = 0
    p[1, 2, 4] = 1
    return p / p.sum(-1, keepdims=True)


@pytest.mark.spec("INF-11", "REP-132")
@pytest.mark.parametrize("k", [2, 5, 7, 8, 9])
def test_draws_by_bisection_have_the_shares_of_their_row(k):
    """Midpoints of 20,000 cells for every row of parents: shares to one cell, impossible values never."""
    p, m = random_table(max(k, 5))[..., :k], 20_000
    p = p / np.where(p.sum(-1, keepdims=True) > 0, p.sum(-1, keepdims=True), 1)
    p[p.sum(-1) == 0, 0] = 1
    table = ConditionalTable(p)
    for a in range(2):
        for b in range(3):
            distribution = table.distribution({"a": np.full(m, a), "b": np.full(m, b)})
            x = distribution.sample(Scripted(uniform=(np.arange(m) + 0.5) / m))
            share = np.bincount(x, minlength=k) / m
            assert abs(share - p[a, b]).max() <= 1.01 / m and (share[p[a, b] == 0] == 0).all()
            edge = distribution.sample(Scripted(uniform=np.resize([1 - 2.0**-53, 1e-300], m)))
            assert (p[a, b][edge] > 0).all()


@pytest.mark.spec("INF-11")
def test_a_number_on_an_edge_belongs_to_the_value_above():
    """So 0 never draws a first value of probability 0."""
    running = running_sums(np.array([0.0, 0.5, 0.0, 0.5, 0.0]))
    assert draw_codes(running, (), np.array([0.0, 0.25, 0.5, 0.75, 1 - 2.0**-53])).tolist() == [1, 1, 3, 3, 3]


@pytest.mark.spec("INF-11")
def test_rows_are_the_categorical_law_of_their_logits():
    p, rng = random_table(), np.random.default_rng(1)
    parents = {"a": rng.integers(0, 2, 500), "b": rng.integers(0, 3, 500)}
    distribution = ConditionalTable(p).distribution(parents)
    plain = Categorical(distribution.logits)
    assert np.exp(distribution.logits) == pytest.approx(p[parents["a"], parents["b"]], abs=1e-15)
    assert (distribution.sample(Noise(0, "x")) == plain.sample(Noise(0, "x"))).all()
    x = distribution.sample(Noise(1, "x"))
    assert distribution.log_prob(x) == pytest.approx(plain.log_prob(x), abs=1e-12)
    assert distribution.mean == pytest.approx(plain.mean) and distribution.entropy() == pytest.approx(plain.entropy())
    root = ConditionalTable([0.25, 0.75]).distribution({})
    assert root.batch_shape == () and root.sample(Noise(0, "x"), shape=(4,)).shape == (4,)


def test_rows_that_nearly_sum_to_one_are_made_to():
    table = ConditionalTable([[0.25, 0.75 + 5e-7], [0.5 - 5e-7, 0.5]])
    assert np.exp(table.log_probs).sum(-1) == pytest.approx(1, abs=1e-15)
    assert (table.size, table.parent_sizes, table.n_parameters) == (2, (2,), 2)
    assert ConditionalTable(random_table()).n_parameters == 2 * 3 * 6
    assert table.log_probs[0, 0] == pytest.approx(np.log(0.25 / (1 + 5e-7)), abs=1e-15)


def test_what_is_no_table_or_code_is_told():
    with pytest.raises(UserValueError, match=r"row \(0, 1\) must be >= 0 and sum to 1"):
        ConditionalTable([[[0.5, 0.5], [0.7, 0.2]]])
    with pytest.raises(UserValueError, match=r"row 0 must be"):
        ConditionalTable([0.5, np.nan])
    with pytest.raises(
        UserValueError,
        match=r"probabilities must have one axis per parent and a last one .*got an array of shape \(0,\)",
    ):
        ConditionalTable([])
    table = ConditionalTable(np.full((2, 2), 0.5))
    with pytest.raises(
        UserValueError, match=r"rain must be in \[0, 2\), got 2 \(row 1\); encode its values as 0, 1, \.\.\."
    ):
        table.distribution({"rain": np.array([0, 2])})
    with pytest.raises(
        UserValueError, match="parents must be 1, one per axis of the table, got 2; keep the order of the graph"
    ):
        table.distribution({"rain": 0, "sun": 1})
    with pytest.raises(
        UserValueError, match=r"x must be in \[0, 2\), got 0\.5 \(row 0\); encode its values as 0, 1, \.\.\."
    ):
        table.distribution({"rain": np.array([0])}).log_prob(np.array([0.5]))
