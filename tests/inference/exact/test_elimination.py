"""Variable elimination: enumeration of random factor sets, transfer matrices, known networks, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.exact.elimination import VariableElimination
from gnomon.inference.exact.enumeration import log_partition
from gnomon.inference.exact.factors import Factor
from gnomon.numeric.noise import Noise, recording
from oracles.toys import ToyDBM, tiny_rbm

FALSE_ALARM = 1e-4


class Brute:
    """Everything from one loop over all assignments; knows tables of plain weights alone."""

    def __init__(self, tables, sizes, evidence=None) -> None:
        self.names, self.mass = list(sizes), {}
        for state in itertools.product(*(range(k) for k in sizes.values())):
            value = dict(zip(self.names, state, strict=True))
            if any(value[n] != x for n, x in (evidence or {}).items()):
                continue
            self.mass[state] = math.prod(float(t[tuple(value[n] for n in names)]) for names, t in tables)
        self.total = math.fsum(self.mass.values())

    def law(self, names, sizes):
        p, at = np.zeros([sizes[n] for n in names]), [self.names.index(n) for n in names]
        for state, m in self.mass.items():
            p[tuple(state[i] for i in at)] += m
        return p / p.sum()


def random_tables(seed, n=6, zeros=0.0):
    """Loops, repeated scopes, a constant, unconnected parts, one variable of a single value."""
    rng = np.random.default_rng(seed)
    sizes = {f"x{i}": int(rng.integers(2, 4)) for i in range(n)} | {"one": 1}
    scopes = [tuple(rng.permutation(list(sizes))[: rng.integers(1, 4)].tolist()) for _ in range(n + 2)]
    scopes += [scopes[0], (), *((name,) for name in sizes)]
    tables = []
    for scope in scopes:
        t = rng.gamma(1.0, size=[sizes[name] for name in scope])
        t = t * (rng.random(t.shape) >= zeros) if t.ndim > 1 else t
        tables.append((scope, t))
    return tables, sizes


def engine_of(tables, **options):
    return VariableElimination([Factor.of(names, t) for names, t in tables], **options)


@pytest.mark.spec("INF-71", "REP-137")
@pytest.mark.parametrize("seed", range(25))
def test_everything_equals_enumeration(seed):
    tables, sizes = random_tables(seed, zeros=0.1 if seed % 2 else 0.0)
    engine, free = engine_of(tables), Brute(tables, sizes)
    assert engine.log_partition() == pytest.approx(math.log(free.total), abs=1e-12)
    rng = np.random.default_rng(seed)
    state = max(free.mass, key=lambda s: free.mass[s] * rng.random())
    value = dict(zip(free.names, state, strict=True))
    evidence = {name: value[name] for name in rng.permutation(list(sizes))[:2].tolist()}
    given = Brute(tables, sizes, evidence)
    assert engine.log_evidence(evidence) == pytest.approx(math.log(given.total / free.total), abs=1e-12)
    for seen, brute in ((None, free), (evidence, given)):
        marginals = engine.marginals(seen)
        assert set(marginals) == set(sizes) - set(seen or {})
        for name, p in marginals.items():
            assert np.allclose(p, brute.law([name], sizes), rtol=0, atol=1e-12)
        best, log_weight = engine.map(seen)
        assert log_weight == pytest.approx(math.log(max(brute.mass.values())), abs=1e-12)
        whole = best | (seen or {})
        assert brute.mass[tuple(whole[n] for n in brute.names)] == max(brute.mass.values())
    query = [name for name in rng.permutation(list(sizes)).tolist() if name not in evidence][:3]
    table = engine.posterior(query, evidence)
    assert table.names == tuple(query)
    assert np.allclose(table.probabilities, given.law(query, sizes), rtol=0, atol=1e-12)


@pytest.mark.spec("INF-71")
def test_the_order_changes_the_cost_and_no_number():
    tables, sizes = random_tables(3)
    reference = engine_of(tables)
    rng = np.random.default_rng(0)
    costs = set()
    for _ in range(10):
        engine = engine_of(tables, order=rng.permutation(list(sizes)).tolist())
        costs.add(engine.cost().total)
        assert engine.log_partition() == pytest.approx(reference.log_partition(), abs=1e-12)
        assert engine.posterior(["x1", "x4"], {"x0": 1}).probabilities == pytest.approx(
            reference.posterior(["x1", "x4"], {"x0": 1}).probabilities, abs=1e-12
        )
        for name, p in engine.marginals({"x2": 0}).items():
            assert p == pytest.approx(reference.marginals({"x2": 0})[name], abs=1e-12)
    assert len(costs) > 3 and reference.cost().total <= min(costs)


def ising(rows, columns, J, h):
    """Spins on a grid as factors; the coupling's table is exp(J s s'), s = +-1."""
    pair = np.array([[J, -J], [-J, J]])
    cells = itertools.product(range(rows), range(columns))
    factors = [Factor((f"s{i},{j}",), [-h, h]) for i, j in itertools.product(range(rows), range(columns))]
    for i, j in cells:
        factors += [Factor((f"s{i},{j}", f"s{i + 1},{j}"), pair)] if i + 1 < rows else []
        factors += [Factor((f"s{i},{j}", f"s{i},{j + 1}"), pair)] if j + 1 < columns else []
    return factors


def transfer(rows, columns, J, h):
    """log Z and the mean of spin 0,0 by column-to-column matrices over 2^rows states."""
    s = np.array(list(itertools.product([-1.0, 1.0], repeat=rows)))
    inside = h * s.sum(1) + J * (s[:, 1:] * s[:, :-1]).sum(1)
    step = np.exp(J * s @ s.T)
    right, log_scale = np.ones(len(s)), 0.0
    for _ in range(columns - 1):
        right = step @ (np.exp(inside) * right)
        log_scale += math.log(right.max())
        right /= right.max()
    first = np.exp(inside) * right
    return math.log(first.sum()) + log_scale, float((first / first.sum()) @ s[:, 0])


@pytest.mark.spec("INF-71", "REP-137")
@pytest.mark.parametrize(("rows", "columns"), [(1, 200), (4, 50), (8, 25)])
def test_two_hundred_spins_by_transfer_matrices(rows, columns):
    engine = VariableElimination(ising(rows, columns, 0.35, 0.1))
    log_z, mean = transfer(rows, columns, 0.35, 0.1)
    assert engine.log_partition() == pytest.approx(log_z, abs=1e-9)
    p = engine.marginals()["s0,0"]
    assert p[1] - p[0] == pytest.approx(mean, abs=1e-10)


@pytest.mark.spec("REP-137")
def test_the_slope_of_log_z_is_the_expected_statistic():
    """d log Z / dJ = E[sum of s s'] on a loop of spins, by central differences."""

    def log_z(J):
        return VariableElimination(ising(3, 3, J, 0.2)).log_partition()

    engine = VariableElimination(ising(3, 3, 0.4, 0.2))
    expected = 0.0
    for factor in engine._model.factors():
        if len(factor.names) == 2:
            p = engine.posterior(factor.names).probabilities
            expected += p[0, 0] + p[1, 1] - p[0, 1] - p[1, 0]
    assert (log_z(0.4 + 1e-5) - log_z(0.4 - 1e-5)) / 2e-5 == pytest.approx(expected, abs=1e-7)


@pytest.mark.spec("REP-137", "INF-71")
def test_networks_that_are_known():
    """Colds of three people: Z = 130, and what a roommate's health tells; a triangle of spins: Z = 14.337984."""
    cold = np.array([[2.0, 1.0], [1.0, 10.0]])
    engine = engine_of([(("colleague", "you"), cold), (("roommate", "you"), cold)])
    assert math.exp(engine.log_partition()) == pytest.approx(130)
    joint = engine.posterior(["colleague", "you", "roommate"]).probabilities
    assert joint[1, 1, 1] == pytest.approx(0.769231, abs=5e-7)
    assert engine.marginals()["you"][1] == pytest.approx(0.930769, abs=5e-7)
    assert engine.marginals()["colleague"][1] == pytest.approx(0.869231, abs=5e-7)
    assert engine.marginals({"roommate": 1})["colleague"][1] == pytest.approx(0.893805, abs=5e-7)
    assert engine.marginals({"roommate": 0})["colleague"][1] == pytest.approx(0.705882, abs=5e-7)
    pair, field = [[0.5, -0.5], [-0.5, 0.5]], [-0.2, 0.2]
    spins = [Factor(names, pair) for names in ("ab", "bc", "ca")] + [Factor(name, field) for name in "abc"]
    loop = VariableElimination(spins)
    assert math.exp(loop.log_partition()) == pytest.approx(14.337984, abs=5e-7)
    assert loop.marginals()["a"][1] == pytest.approx(0.707519, abs=5e-7)


def machine_factors(weights, biases):
    """The chain of layers as factors exp(b x) and exp(w x y)."""
    names = [[f"l{k}u{i}" for i in range(len(b))] for k, b in enumerate(biases)]
    units = zip(itertools.chain(*names), itertools.chain(*biases), strict=True)
    factors = [Factor((name,), [0.0, bias]) for name, bias in units]
    for W, (left, right) in zip(weights, itertools.pairwise(names), strict=True):
        factors += [
            Factor((a, b), [[0.0, 0.0], [0.0, W[i, j]]]) for i, a in enumerate(left) for j, b in enumerate(right)
        ]
    return factors, names


@pytest.mark.spec("INF-71", "REP-137")
def test_boltzmann_machines():
    """log Z as the engine of enumeration has it; the posterior of a restricted machine factorizes into sigmoids."""
    model = tiny_rbm()
    factors, names = machine_factors([model.W], [model.b, model.c])
    engine = VariableElimination(factors)
    assert engine.log_partition() == pytest.approx(4.163709, abs=5e-7)
    for v in itertools.product((0, 1), repeat=3):
        evidence = dict(zip(names[0], v, strict=True))
        expected = 1 / (1 + np.exp(-(model.c + np.array(v) @ model.W)))
        got = engine.marginals(evidence)
        assert [got[n][1] for n in names[1]] == pytest.approx(expected, abs=1e-12)
        assert engine.posterior(names[1], evidence).probabilities == pytest.approx(
            np.outer([1 - expected[0], expected[0]], [1 - expected[1], expected[1]]), abs=1e-12
        )
    deep = ToyDBM.random((4, 3, 4), seed=2)
    engine = VariableElimination(machine_factors(deep.weights, deep.biases)[0])
    assert engine.log_partition() == pytest.approx(log_partition(deep), abs=1e-11)
    assert engine.cost().width == 3  # the middle layer


@pytest.mark.spec("INF-71")
def test_draws_follow_the_posterior():
    """40,000 draws of five variables in a loop against the table; chi-square, false-alarm rate 1e-4 each."""
    tables, sizes = random_tables(11, n=5, zeros=0.15)
    engine, n = engine_of(tables), 40_000
    state = max((b := Brute(tables, sizes)).mass, key=b.mass.__getitem__)
    evidence = {"x0": dict(zip(b.names, state, strict=True))["x0"]}
    for seen in (None, evidence):
        drawn = engine.sample_posterior(n, Noise(4, "posterior"), seen)
        names = list(drawn)
        p = Brute(tables, sizes, seen).law(names, sizes).ravel()
        shape = [sizes[name] for name in names]
        count = np.bincount(np.ravel_multi_index([drawn[name] for name in names], shape), minlength=p.size)
        assert (count[p == 0] == 0).all()
        common = p * n >= 5
        expected = np.append(p[common], p[~common].sum()) * n
        observed = np.append(count[common], count[~common].sum())
        keep = expected > 0
        statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
        assert statistic < stats.chi2.isf(FALSE_ALARM, keep.sum() - 1)
        with recording():
            again = engine.sample_posterior(100, Noise(4, "posterior"), seen)
        assert all((again[name] == drawn[name][:100]).all() for name in names)


@pytest.mark.spec("INF-71", "REP-137")
def test_what_is_too_large_is_refused_at_once_with_its_cost():
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(60)]
    complete = [Factor(pair, rng.normal(size=(2, 2))) for pair in itertools.combinations(names, 2)]
    engine = VariableElimination(complete)
    assert engine.cost().width == 59
    for ask in (engine.log_partition, engine.marginals, engine.map, lambda: engine.posterior(["x0"])):
        with pytest.raises(
            UserValueError, match=r"1.15e\+18 entries \(9.2e\+18 bytes.*width 59.*limit of 16777216; .*sam"
        ):
            ask()
    held = dict.fromkeys(names[12:], 1)
    assert engine.cost(held).largest == 2**12
    assert sum(engine.marginals(held)["x0"]) == pytest.approx(1)
    with pytest.raises(UserValueError, match=r"4.1e\+03 entries"):
        VariableElimination(complete, limit=2**11).posterior(["x0"], held)
    chain = VariableElimination([Factor(p, np.zeros((2, 2))) for p in itertools.pairwise(names)], limit=4)
    assert chain.log_partition() == pytest.approx(60 * math.log(2))
    with pytest.raises(UserValueError, match="tables together of at least 238 entries"):
        chain.marginals()


@pytest.mark.parametrize("offset", [-5000.0, 0.0, 5000.0])
def test_weights_that_no_number_holds(offset):
    """A factor times exp(offset) is the same law; log Z moves by the offset."""
    pair = Factor("ab", np.log([[2.0, 1.0], [1.0, 10.0]]) + offset)
    engine = VariableElimination([pair, Factor.of("b", [0.25, 0.75])])
    assert engine.log_partition() == pytest.approx(offset + math.log(0.25 * 3 + 0.75 * 11), rel=1e-13)
    assert engine.posterior(["a"]).probabilities == pytest.approx(np.array([1.25, 7.75]) / 9, rel=1e-10)
    assert engine.marginals()["b"] == pytest.approx(np.array([0.75, 8.25]) / 9, rel=1e-10)
    with pytest.raises(
        UserValueError, match=r"log weights must be numbers below \+inf, at least one \(factor \('a',\)\)"
    ):
        Factor("a", [])


@pytest.mark.spec("INF-71")
def test_the_log_probability_of_impossible_evidence_is_minus_infinity():
    """B2-25: in a network with a deterministic table, and among plain factors; without any mass there is no Z."""
    either = np.zeros((2, 2, 2))
    for t, u in itertools.product(range(2), repeat=2):
        either[t, u, t | u] = 1
    factors = [Factor.of(["T"], [0.99, 0.01]), Factor.of(["L"], [0.9, 0.1]), Factor.of(["T", "L", "E"], either)]
    for scale in (1.0, 7.0):
        inference = VariableElimination([*factors, Factor.of(["T"], [scale, scale])])
        assert inference.log_evidence({"E": 1, "T": 0, "L": 0}) == -math.inf
        assert inference.log_evidence({"E": 1, "T": 0}) == pytest.approx(math.log(0.99 * 0.1), rel=1e-12)
    with pytest.raises(UserValueError, match="probability 0"):
        inference.posterior(["L"], {"E": 0, "T": 1})
    nothing = VariableElimination([Factor.of(["a"], [0.0, 0.0])])
    with pytest.raises(UserValueError, match="Z = 0"):
        nothing.log_evidence({"a": 1})


def test_impossible_evidence_and_impossible_factors_are_told():
    engine = engine_of([(("a", "b"), [[1.0, 0.0], [0.0, 1.0]]), (("b", "c"), [[1.0, 1.0], [1.0, 0.0]])])
    for ask in (engine.marginals, engine.map, lambda e: engine.posterior(["c"], e)):
        with pytest.raises(UserValueError, match=r"evidence \{'a': 0, 'b': 1\} has probability 0"):
            ask({"a": 0, "b": 1})
    assert engine.log_evidence({"a": 0, "b": 1}) == -math.inf
    with pytest.raises(UserValueError, match="probability 0"):
        engine.sample_posterior(3, Noise(0, "x"), {"a": 1, "c": 1})
    never = engine_of([(("a",), [1.0, 0.0]), (("a",), [0.0, 1.0])])
    with pytest.raises(UserValueError, match="Z = 0"):
        never.log_partition()


def test_huge_and_tiny_weights_stay_finite():
    chain = [Factor(pair, [[800.0, -800.0], [-900.0, 700.0]]) for pair in itertools.pairwise("abcdef")]
    engine = VariableElimination(chain)
    assert engine.log_partition() == pytest.approx(4000.0)
    assert engine.marginals()["c"] == pytest.approx([1.0, 0.0])


def test_wrong_use_is_named():
    chain = [Factor.of("ab", np.ones((2, 3))), Factor.of("bc", np.ones((3, 2)))]
    engine = VariableElimination(chain)
    with pytest.raises(UserValueError, match=r"'a' must be an integer in \[0, 2\), got 2 \(evidence\)"):
        engine.marginals({"a": 2})
    with pytest.raises(UserValueError, match=r"'a' must be an integer in \[0, 2\), got 0\.5 \(evidence\)"):
        engine.marginals({"a": 0.5})
    with pytest.raises(
        UserValueError, match=r"unknown variable 'z' \(query, evidence\); use a variable of the factors"
    ):
        engine.posterior(["z"])
    with pytest.raises(UserValueError, match="query must name each variable once and none that is observed, got 'a'"):
        engine.posterior(["a"], {"a": 0})
    with pytest.raises(UserValueError, match="'b' has 2 values in one factor and 3 in another"):
        VariableElimination([*chain, Factor.of("b", [1, 1])])
    with pytest.raises(UserValueError, match="order must name every variable once, got 2 names"):
        VariableElimination(chain, order="ab")
    with pytest.raises(UserValueError, match=r"a weight must be at least 0, got -1\.0 \(factor \('a',\)\)"):
        Factor.of("a", [1, -1])
    with pytest.raises(
        UserValueError, match=r"log weights must be numbers below \+inf, at least one \(factor \('a',\)\)"
    ):
        Factor("a", [np.inf, 0])
    with pytest.raises(UserValueError, match=r"names must be 2 different names, one per axis, got \('a',\)"):
        Factor("a", np.zeros((2, 2)))
    with pytest.raises(UserTypeError, match=r"model must be tables or have factors\(\), got ndarray"):
        VariableElimination([np.ones(2)])


def test_one_variable_may_be_asked_for_by_its_name():
    engine = VariableElimination([Factor.of(("rain", "wet"), [[3, 1], [2, 4]])])
    asked = engine.posterior("rain", {"wet": 1})
    assert asked.probabilities.tolist() == engine.posterior(["rain"], {"wet": 1}).probabilities.tolist() == [0.2, 0.8]
    assert VariableElimination([Factor.of("ab", [[1, 2], [3, 4]])]).posterior("ab").probabilities.shape == (2, 2)
    with pytest.raises(UserValueError, match="did you mean 'rain'"):
        engine.posterior(["rian"])
    with pytest.raises(UserTypeError, match="names must be text, got 3; use for example 'x3'"):
        Factor(("a", 3), [[0, 0], [0, 1]])
