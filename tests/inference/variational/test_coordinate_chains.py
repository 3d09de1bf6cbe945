"""Structured factors: one block is exact, single ones are mean field, chains against enumeration."""

import itertools
import math

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.exact.factors import Factor
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.inference.variational.coordinate_ascent import coordinate_ascent
from gnomon.inference.variational.coordinate_chains import ChainFactors
from gnomon.inference.variational.coordinate_tables import TableFactors


def product(factors, names):
    """Log weight of every state of the names, by plain loops."""
    sizes = {}
    for factor in factors:
        sizes |= factor.sizes
    table = np.zeros([sizes[name] for name in names])
    for state in itertools.product(*(range(sizes[name]) for name in names)):
        value = dict(zip(names, state, strict=True))
        table[state] = sum(factor.log_values[tuple(value[name] for name in factor.names)] for factor in factors)
    return table


def log_sum(table):
    return table.max() + math.log(np.exp(table - table.max()).sum())


def factorial(seed, n=3):
    """Two chains of n states of 3 values, and what is seen at each time, which depends on both."""
    random = np.random.default_rng(seed)
    links = [Factor((f"{c}{t}", f"{c}{t + 1}"), random.normal(size=(3, 3))) for c in "ab" for t in range(n - 1)]
    seen = [Factor((f"a{t}", f"b{t}", f"x{t}"), random.normal(size=(3, 3, 2))) for t in range(n)]
    first = [Factor((f"{c}0",), random.normal(size=3)) for c in "ab"]
    return links + seen + first, {f"x{t}": t % 2 for t in range(n)}


@pytest.mark.spec("INF-84")
@pytest.mark.parametrize("seed", range(3))
def test_two_chains_beside_each_other_against_enumeration(seed):
    """A factorial hidden Markov model: bound, fixed point and marginals by the table of all 3^6 states."""
    factors, given = factorial(seed)
    names = [f"{c}{t}" for c in "ab" for t in range(3)]
    chains = ChainFactors(factors, [names[:3], names[3:]], given=given)
    found = coordinate_ascent(chains, tol_h=1e-12, check=True)
    assert found.converged.all()
    assert (np.diff(found.trace[:, 0]) >= -1e-12).all()
    table = product([factor.given(given) for factor in factors], names)
    listed = TableFactors(table[None], names, blocks=[names[:3], names[3:]])
    whole = coordinate_ascent(listed, tol_h=1e-12)
    assert found.elbo[0] == pytest.approx(whole.elbo[0], abs=1e-10)
    for name, p in chains.marginals(found.state).items():
        np.testing.assert_allclose(p, listed.marginals(whole.state)[name][0], atol=1e-9)
    # each block is the exact law under the expected tables, and the bound E_q[log p - log q]
    qa, qb = (whole.state[block][0].reshape(3, 3, 3) for block in listed.blocks)
    best = np.tensordot(table, qb, 3)
    np.testing.assert_allclose(qa, np.exp(best - log_sum(best)), atol=1e-9)
    q = qa[..., None, None, None] * qb
    assert found.elbo[0] == pytest.approx(float((q * (table - np.log(q))).sum()), abs=1e-10)
    assert found.elbo[0] < log_sum(table)
    single = coordinate_ascent(ChainFactors(factors, given=given), tol_h=1e-12)
    assert single.elbo[0] < found.elbo[0]


@pytest.mark.spec("INF-84")
def test_one_block_is_the_posterior_and_single_blocks_are_mean_field():
    factors, given = factorial(5)
    names = [f"{c}{t}" for c in "ab" for t in range(3)]
    table = product([factor.given(given) for factor in factors], names)
    p = np.exp(table - log_sum(table))
    for family in (ChainFactors(factors, [names], given=given), TableFactors(table[None], names, blocks=[names])):
        exact = coordinate_ascent(family)
        assert exact.elbo[0] == pytest.approx(log_sum(table), abs=1e-10)
        for i, name in enumerate(names):
            expected = p.sum(tuple(j for j in range(6) if j != i))
            np.testing.assert_allclose(family.marginals(exact.state)[name].reshape(-1), expected, atol=1e-10)
    order = [*names[3:], *names[:3]]
    chains, listed = ChainFactors(factors, given=given), TableFactors(table[None], names)
    for n in (1, 2, 100):
        ours = coordinate_ascent(chains, order=order, max_iter=n)
        theirs = coordinate_ascent(listed, order=order, max_iter=n)
        assert ours.elbo[0] == pytest.approx(theirs.elbo[0], abs=1e-10)
        for name in names:
            np.testing.assert_allclose(
                chains.marginals(ours.state)[name], listed.marginals(theirs.state)[name][0], atol=1e-9
            )


@pytest.mark.spec("INF-84")
def test_both_latents_of_sparse_coding_in_one_block():
    model = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], b=[0.0, -1.0], beta=[1.0, 2.0])
    states = np.array(list(itertools.product([0.0, 1.0], repeat=2)))
    table = model.log_joint(np.ones((4, 2)), states).reshape(1, 2, 2)
    assert coordinate_ascent(TableFactors(table, blocks=[["h1", "h2"]])).elbo[0] == pytest.approx(-2.282347, abs=5e-7)
    whole = coordinate_ascent(ChainFactors([Factor(("h1", "h2"), table[0])], [["h1", "h2"]]))
    assert whole.elbo[0] == pytest.approx(-2.282347, abs=5e-7)
    assert coordinate_ascent(TableFactors(table)).elbo[0] == pytest.approx(-2.290007, abs=5e-7)


@pytest.mark.spec("INF-84")
def test_long_chains_are_solved_and_large_blocks_refused():
    random = np.random.default_rng(6)
    chain = [Factor((f"h{t}", f"h{t + 1}"), random.normal(size=(2, 2))) for t in range(24)]
    names = [f"h{t}" for t in range(25)]
    found = coordinate_ascent(ChainFactors(chain, [names]), max_iter=1)
    forward = np.zeros(2)
    for factor in chain:
        forward = np.logaddexp.reduce(forward[:, None] + factor.log_values, axis=0)
    assert found.elbo[0] == pytest.approx(float(np.logaddexp.reduce(forward)), abs=1e-9)
    halves = coordinate_ascent(ChainFactors(chain, [names[:12], names[12:]]), tol_h=1e-4)
    singles = coordinate_ascent(ChainFactors(chain), tol_h=1e-3)
    assert singles.elbo[0] < halves.elbo[0] < found.elbo[0]
    grid = [
        Factor((f"{i},{j}", f"{i + a},{j + 1 - a}"), np.eye(2)) for i in range(10) for j in range(10) for a in (0, 1)
    ]
    block = sorted({name for factor in grid for name in factor.names})
    with pytest.raises(UserValueError, match="above the limit"):
        coordinate_ascent(ChainFactors(grid, [block], limit=1 << 8))
    for make, words in [
        (lambda: ChainFactors(chain, [["h0", "k"]]), "unknown variable 'k'"),
        (lambda: ChainFactors(chain, given={"k": 0}), "unknown variable 'k'"),
        (lambda: ChainFactors([Factor.of("ab", [[1, 0], [0, 1]])]), "has weights of 0 and joins two blocks"),
        (lambda: ChainFactors([Factor.of("a", [1, 1])], given={"a": 0}), "no variable is left"),
        (lambda: coordinate_ascent(ChainFactors(chain), damping=0.5), "damping must be 1"),
    ]:
        with pytest.raises(UserValueError, match=words):
            make()


@pytest.mark.spec("INF-84")
def test_zeros_within_a_block_are_kept():
    random = np.random.default_rng(7)
    left = random.uniform(0.5, 2, size=(3, 3))
    left[0, 1] = left[2, 0] = 0  # no steps that way
    factors = [Factor.of(("a0", "a1"), left), Factor(("a1", "b"), random.normal(size=(3, 2)))]
    found = coordinate_ascent(ChainFactors(factors, [["a0", "a1"]]), tol_h=1e-12, check=True)
    assert found.trace[0, 0] == -np.inf  # the start allows what cannot be
    table = product(factors, ["a0", "a1", "b"])
    listed = coordinate_ascent(TableFactors(table[None], ["a0", "a1", "b"], blocks=[["a0", "a1"]]), tol_h=1e-12)
    assert found.elbo[0] == pytest.approx(listed.elbo[0], abs=1e-11)
    np.testing.assert_allclose(found.state["a0,a1"][0, :9], listed.state["a0,a1"][0], atol=1e-10)
