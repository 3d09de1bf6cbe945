"""Coordinate ascent: worked numbers, enumeration, closed forms, brute-force search, and where it goes astray."""

import itertools
import math

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.exact.linear_gaussian import LinearGaussian
from gnomon.inference.variational.binary_sparse_coding import BinarySparseCoding
from gnomon.inference.variational.coordinate_ascent import UnitFactors, coordinate_ascent
from gnomon.inference.variational.coordinate_forms import Finite, GammaFactor, GaussianFactor, Grid
from gnomon.inference.variational.coordinate_mixed import MixedFactors, factorization
from gnomon.inference.variational.coordinate_normals import NormalFactors
from gnomon.inference.variational.coordinate_tables import TableFactors
from gnomon.numeric.noise import Noise
from oracles.binary import all_states, numerical_gradient

CODING = BinarySparseCoding([[1.0, 0.5], [0.0, 1.0]], b=[0.0, -1.0], beta=[1.0, 2.0])
TWINS = BinarySparseCoding([[2.0, 2.0]], 0.0, 4.0)
ONES = np.ones((1, 2))


def table_of(model, rows):
    """log p(v, h) of every state."""
    states = all_states(len(model.b))
    tables = [model.log_joint(np.repeat(row[None], len(states), 0), states) for row in np.asarray(rows, float)]
    return np.reshape(tables, (len(rows), *(2,) * len(model.b)))


def bound_of(log_joint, factors):
    """E_q[log p - log q] by plain loops over all states."""
    total = 0.0
    for state in itertools.product(*(range(len(q)) for q in factors)):
        p = math.prod(float(q[s]) for q, s in zip(factors, state, strict=True))
        if p > 0:
            total += p * (float(log_joint[state]) - math.log(p))
    return total


def units_of(model, rows, start=0.5):
    """The family by the model's callbacks."""
    return UnitFactors(
        lambda i, means, v: model.updates(v, means)[:, i],
        lambda means, v: model.elbo(v, means),
        len(model.b),
        rows,
        start,
    )


def log_sum(table):
    """Log evidence of each row."""
    flat = table.reshape(len(table), -1)
    top = flat.max(1)
    return top + np.log(np.exp(flat - top[:, None]).sum(1))


# --- discrete units ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("INF-87", "INF-83", "INF-96")
@pytest.mark.parametrize("family", [lambda: TableFactors(table_of(CODING, ONES)), lambda: units_of(CODING, ONES)])
def test_the_worked_numbers_of_two_units(family):
    """Two sweeps from 1/2, the bound after each, and the fixed point, by tables and by the model's own callback."""
    chance = lambda found, k: found.state[list(found.state)[k]][0, -1]  # noqa: E731
    sweeps = [coordinate_ascent(family(), max_iter=n) for n in (1, 2)]
    for found, means, elbo in zip(
        sweeps, ((0.562177, 0.523461), (0.559287, 0.523821)), (-2.290024, -2.290007), strict=True
    ):
        np.testing.assert_allclose([chance(found, 0), chance(found, 1)], means, atol=5e-7)
        assert found.elbo[0] == pytest.approx(elbo, abs=5e-7)
        assert not found.converged.any()
    found = coordinate_ascent(family(), tol_h=1e-12)
    np.testing.assert_allclose([chance(found, 0), chance(found, 1)], (0.559242, 0.523827), atol=5e-7)
    assert found.converged.all()
    assert found.residual[0] < 1e-11
    assert (np.diff(found.trace[:, 0]) > -1e-14).all()
    np.testing.assert_allclose([chance(found, 0), chance(found, 1)], CODING.infer(ONES).means[0], atol=1e-9)


@pytest.mark.spec("BAY-45", "INF-83", "INF-87", "INF-92")
@pytest.mark.parametrize("damping", [1.0, 0.5])
def test_a_thousand_random_problems_never_lower_the_bound(damping):
    """At any single update, in any order; the ends are below the evidence."""
    random = np.random.default_rng(1)
    table = 3 * random.normal(size=(1000, 2, 3, 2, 2))
    family = TableFactors(table)
    order = ["h3", "h1", "h4", "h2", "h1"]
    state, before = {}, None
    for name in order * 3:
        found = coordinate_ascent(family, state, order=[name], max_iter=1, damping=damping, check=True)
        assert (found.elbo >= found.trace[0] - 1e-11).all()
        assert before is None or (found.trace[0] == before).all()
        state, before = found.state, found.elbo
    end = coordinate_ascent(family, state, order=order, damping=damping, tol_h=1e-6, check=True)
    assert end.converged.all()
    assert (np.diff(end.trace, axis=0) >= -1e-11).all()
    assert (end.elbo <= log_sum(table) + 1e-10).all()
    for row in range(0, 1000, 250):
        factors = [end.state[name][row] for name in family.names]
        assert end.elbo[row] == pytest.approx(bound_of(table[row], factors), abs=1e-10)


@pytest.mark.spec("INF-83", "INF-96")
def test_the_bound_has_no_slope_at_the_end_and_the_residual_is_that_slope():
    random = np.random.default_rng(2)
    table = random.normal(size=(3, 2, 2, 2))
    family = TableFactors(table)
    logit = lambda p: np.log(p[:, 1] / p[:, 0])  # noqa: E731

    def at(z, row):
        return bound_of(table[row], [np.array([1 / (1 + math.exp(x)), 1 / (1 + math.exp(-x))]) for x in z])

    end, part = coordinate_ascent(family, tol_h=1e-12), coordinate_ascent(family, max_iter=1)
    for row in range(3):
        z = np.array([logit(end.state[name])[row] for name in family.names])
        np.testing.assert_allclose(numerical_gradient(lambda z, row=row: at(z, row), z), 0, atol=1e-7)
        z = np.array([logit(part.state[name])[row] for name in family.names])
        h = 1 / (1 + np.exp(-z))
        slope = numerical_gradient(lambda z, row=row: at(z, row), z) / (h * (1 - h))  # by h, not by z
        assert part.residual[row] == pytest.approx(np.abs(slope).max(), rel=1e-5)


@pytest.mark.spec("INF-83")
def test_the_best_of_all_factorizations_of_four_spins_is_found():
    """Ising 2 x 2 with fields: every q on a grid of 25^4; the best is at most that of coordinate ascent."""
    spins, at = np.array([-1.0, 1.0]), np.linspace(0.02, 0.98, 25)
    field, J = np.array([0.3, -0.2, 0.1, 0.25]), 0.4
    pairs = [(0, 1), (1, 3), (3, 2), (2, 0)]
    x = np.meshgrid(*[spins] * 4, indexing="ij")
    table = sum(J * x[i] * x[j] for i, j in pairs) + sum(f * s for f, s in zip(field, x, strict=True))
    found = coordinate_ascent(TableFactors(table[None]), tol_h=1e-12)
    m = np.meshgrid(*[2 * at - 1] * 4, indexing="ij", sparse=True)
    entropy = lambda m: -((1 + m) / 2 * np.log((1 + m) / 2) + (1 - m) / 2 * np.log((1 - m) / 2))  # noqa: E731
    bounds = sum(J * m[i] * m[j] for i, j in pairs) + sum(f * s + entropy(s) for f, s in zip(field, m, strict=True))
    best = np.unravel_index(bounds.argmax(), bounds.shape)
    assert bounds.max() <= found.elbo[0] + 1e-12
    assert bounds.max() > found.elbo[0] - 0.005
    np.testing.assert_allclose([found.state[name][0, 1] for name in found.state], at[list(best)], atol=0.021)
    assert found.elbo[0] < log_sum(table[None])[0]


@pytest.mark.spec("INF-83")
def test_hidden_units_of_an_rbm_are_exact_after_one_cycle():
    """Given the visible units they are independent: means sigmoid(c + v'W), the bound the evidence, from anywhere."""
    random = np.random.default_rng(3)
    W, b, c, v = random.normal(size=(4, 3)), random.normal(size=4), random.normal(size=3), random.integers(0, 2, (5, 4))
    h = all_states(3)
    table = ((v @ b)[:, None] + h @ c + v @ W @ h.T).reshape(5, 2, 2, 2)
    found = coordinate_ascent(TableFactors(table, noise=Noise(0, "start")), max_iter=1)
    means = 1 / (1 + np.exp(-(c + v @ W)))
    for j in range(3):
        np.testing.assert_allclose(found.state[f"h{j + 1}"][:, 1], means[:, j], atol=1e-12)
    np.testing.assert_allclose(found.elbo, log_sum(table), atol=1e-12)


@pytest.mark.spec("INF-83", "INF-87")
def test_the_start_decides_between_two_optima_and_a_line_of_symmetry_is_not_left():
    table = table_of(TWINS, [[2.0]])
    stuck = coordinate_ascent(TableFactors(table))
    np.testing.assert_allclose(stuck.state["h1"][0], 0.5)  # converged, at a saddle
    assert stuck.converged.all()
    found = coordinate_ascent(TableFactors(table, noise=Noise(0, "start")))
    assert found.elbo[0] > stuck.elbo[0] + 2
    np.testing.assert_allclose(
        sorted([found.state["h1"][0, 1], found.state["h2"][0, 1]]), (0.00034, 0.99966), atol=5e-6
    )


@pytest.mark.spec("INF-87")
def test_rows_end_by_themselves_and_the_same_as_alone():
    random = np.random.default_rng(4)
    table = random.normal(size=(40, 2, 2, 2, 2)) * np.linspace(0.1, 4, 40)[:, None, None, None, None]
    asked = []

    class Counted(TableFactors):
        def update(self, block, state, rows):
            asked.append(len(rows))
            return super().update(block, state, rows)

    whole = coordinate_ascent(Counted(table))
    assert len(set(whole.n_iter)) > 5
    assert sum(asked) == 4 * whole.n_iter.sum()
    for row in (0, 20, 39):
        alone = coordinate_ascent(TableFactors(table[row : row + 1]))
        np.testing.assert_allclose(alone.state["h2"][0], whole.state["h2"][row], atol=1e-12)
        assert alone.n_iter[0] == whole.n_iter[row]
        assert (whole.trace[alone.n_iter[0] :, row] == whole.elbo[row]).all()
    short = coordinate_ascent(TableFactors(table), max_iter=2)
    assert short.converged.sum() == (whole.n_iter <= 2).sum() < 40
    assert short.n_iter.max() == 2


@pytest.mark.spec("INF-87")
def test_either_rule_ends_a_row():
    table = np.random.default_rng(5).normal(size=(20, 2, 2, 2))
    by_moves = coordinate_ascent(TableFactors(table), tol_h=1e-12)
    by_gains = coordinate_ascent(TableFactors(table), tol_h=0.0, tol_elbo=1e-4)
    assert by_gains.converged.all()
    assert (by_gains.n_iter <= by_moves.n_iter).all()
    assert by_gains.n_iter.sum() < by_moves.n_iter.sum()
    for row in range(20):
        gains = np.diff(by_gains.trace[: by_gains.n_iter[row] + 1, row])
        assert gains[-1] < 1e-4
        assert (gains[:-1] >= 1e-4).all()


@pytest.mark.spec("INF-87")
def test_single_precision_has_a_floor_of_its_own():
    class Single(TableFactors):
        def start(self):
            return {name: q.astype(np.float32) for name, q in super().start().items()}

        def update(self, block, state, rows):
            return super().update(block, state, rows).astype(np.float32)

    found = coordinate_ascent(Single(np.random.default_rng(6).normal(size=(50, 2, 2, 2))), tol_h=1e-15, max_iter=500)
    assert found.state["h1"].dtype == np.float32
    assert found.converged.all()


# --- all at once ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("INF-92")
def test_two_twins_swing_at_large_steps_and_settle_at_small_ones():
    family, zero = TableFactors(table_of(TWINS, [[2.0]])), {"h1": [1.0, 0.0], "h2": [1.0, 0.0]}
    run = lambda a, n=500, **more: coordinate_ascent(  # noqa: E731
        family, zero, parallel=True, damping=a, max_iter=n, **more
    )
    whole = run(1.0, backtrack=False)
    assert whole.swings.all()
    assert not whole.converged.any()
    ends = [run(1.0, n, backtrack=False).state["h1"][0, 1] for n in (1, 2, 3)]
    np.testing.assert_allclose(ends, (0.99966, 0.00034, 0.99966), atol=5e-6)
    half = run(0.5, backtrack=False)
    assert half.swings.all()
    n = half.n_iter[0]
    np.testing.assert_allclose(
        sorted(run(0.5, k, backtrack=False).state["h1"][0, 1] for k in (n - 1, n)), (0.3707, 0.6293), atol=5e-5
    )
    small = run(0.2, backtrack=False)
    assert small.converged.all()
    np.testing.assert_allclose(small.state["h1"][0], 0.5, atol=1e-8)
    for a in (1.0, 0.5):  # caught and damped
        caught = run(a)
        assert caught.converged.all()
        assert caught.step[0] < a
        np.testing.assert_allclose(caught.state["h1"][0], 0.5, atol=1e-7)
        assert (np.diff(caught.trace[:, 0]) >= -1e-12).all()


@pytest.mark.spec("INF-92")
def test_fixed_points_do_not_depend_on_the_step_and_halved_steps_never_lower_the_bound():
    family = TableFactors(2 * np.random.default_rng(7).normal(size=(300, 2, 2, 2)))
    one_by_one = coordinate_ascent(family, tol_h=1e-11)
    for options in ({"damping": 0.3}, {"parallel": True, "damping": 0.3}, {"parallel": True}):
        again = coordinate_ascent(family, one_by_one.state, tol_h=1e-9, **options)
        assert (again.n_iter == 1).all()
        np.testing.assert_allclose(again.state["h1"], one_by_one.state["h1"], atol=1e-9)
    free = coordinate_ascent(family, parallel=True, tol_h=1e-9)
    assert free.converged.all()
    assert (np.diff(free.trace, axis=0) >= -1e-12).all()
    for n in (1, 2, 3, 5):  # rows that stay where they are are there
        part = coordinate_ascent(family, parallel=True, max_iter=n)
        np.testing.assert_allclose(family.elbo(part.state, np.arange(300)), part.elbo, atol=1e-10)
    loose = coordinate_ascent(family, parallel=True, backtrack=False, max_iter=50)
    assert (np.diff(loose.trace, axis=0) < -1e-6).any()  # no guarantee
    # at full step one after the other is INF-87, whose order matters; a parallel cycle has none
    orders = [
        coordinate_ascent(family, parallel=True, order=o, max_iter=1).state["h2"] for o in (None, ["h3", "h2", "h1"])
    ]
    np.testing.assert_array_equal(*orders)


# --- normal variables -------------------------------------------------------------------------------------------------


@pytest.mark.spec("INF-98", "INF-96")
def test_the_worked_normal_model_of_two_latents():
    family = NormalFactors.of(LinearGaussian([[1.0, 2.0]]), [[3.0]])
    sweeps = [family.mean(coordinate_ascent(family, max_iter=n).state)[0] for n in (1, 2, 3, 4)]
    np.testing.assert_allclose(sweeps[:2], [(1.5, 0.6), (0.9, 0.84)], atol=1e-12)
    errors = [abs(mean - (0.5, 1.0)) for mean in sweeps]
    for after, before in itertools.pairwise(errors[::-1]):
        np.testing.assert_allclose(after / before, 0.4, atol=1e-9)
    found = coordinate_ascent(family, tol_h=1e-13)
    np.testing.assert_allclose(family.mean(found.state)[0], (0.5, 1.0), atol=1e-12)
    np.testing.assert_allclose(family.variances(), (0.5, 0.2), atol=1e-12)
    _, covariance = LinearGaussian([[1.0, 2.0]]).posterior(np.array([[3.0]]))
    np.testing.assert_allclose(covariance.diagonal(), (0.833333, 0.333333), atol=5e-7)
    gap = LinearGaussian([[1.0, 2.0]]).log_prob(np.array([[3.0]]))[0] - found.elbo[0]
    assert gap == pytest.approx(0.255413, abs=5e-7)
    assert gap == pytest.approx(0.5 * math.log(2 * 5 / 6), abs=1e-12)
    # the bound by its definition, E_q[log p(h) + log p(v | h)] + H(q)
    m, s = family.mean(found.state)[0], family.variances()
    w = np.array([1.0, 2.0])
    direct = -0.5 * ((m**2 + s).sum() + (3 - w @ m) ** 2 + w**2 @ s) - 1.5 * math.log(2 * math.pi) + family.entropy()
    assert found.elbo[0] == pytest.approx(direct, abs=1e-12)
    slow = NormalFactors.of(LinearGaussian([[5.0, 5.0]]), [[3.0]])
    assert coordinate_ascent(slow).n_iter[0] > 5 * found.n_iter[0]


@pytest.mark.spec("BAY-45", "INF-98")
def test_a_normal_target_keeps_its_means_and_loses_its_correlation():
    covariance = np.array([[1.0, 0.9], [0.9, 1.0]])
    precision, mean = np.linalg.inv(covariance), np.array([0.3, -1.2])
    family = NormalFactors(precision, (precision @ mean)[None])
    found = coordinate_ascent(family, tol_h=1e-13, max_iter=5000)
    np.testing.assert_allclose(family.mean(found.state)[0], mean, atol=1e-10)
    np.testing.assert_allclose(family.variances(), 0.19, atol=1e-12)
    np.testing.assert_allclose(family.variances(), 1 / precision.diagonal(), atol=1e-12)
    whole = NormalFactors(precision, (precision @ mean)[None], blocks=[["h1", "h2"]])
    exact = coordinate_ascent(whole)
    np.testing.assert_allclose(whole.mean(exact.state)[0], mean, atol=1e-12)
    assert exact.elbo[0] == pytest.approx(0, abs=1e-12)  # a normalized target: log Z = 0
    assert found.elbo[0] == pytest.approx(0.5 * math.log(0.19), abs=1e-12)


@pytest.mark.spec("BAY-45")
def test_a_thousand_random_normal_targets_in_blocks_never_lower_the_bound():
    random = np.random.default_rng(8)
    for _ in range(5):
        root = random.normal(size=(4, 4))
        precision = root @ root.T + 0.1 * np.eye(4)
        mean = random.normal(size=(200, 4))
        family = NormalFactors(precision, mean @ precision, blocks=[["h2", "h4"]])
        for options in ({}, {"damping": 0.6}, {"parallel": True}):
            found = coordinate_ascent(family, check=True, max_iter=60, **options)
            assert (np.diff(found.trace, axis=0) >= -1e-9 * np.maximum(1, abs(found.trace[1:]))).all()
            assert (found.elbo <= 1e-10).all()


# --- any kind of factor -----------------------------------------------------------------------------------------------

X = np.array([1.0, 2.0, 3.0])


def normal_gamma(mean, precision):
    """log p(x, mean, precision): mean ~ N(0, 1 / precision), precision ~ Gamma(2, 1), three normal rows."""
    squares = mean**2 + sum((x - mean) ** 2 for x in X)
    return (2 - 1 + 2) * np.log(precision) - precision * (1 + squares / 2) - 2 * math.log(2 * math.pi)


@pytest.mark.spec("BAY-45", "INF-96")
def test_mean_and_precision_of_normal_rows():
    family = MixedFactors(normal_gamma, {"mean": GaussianFactor(), "precision": GammaFactor()})
    found = coordinate_ascent(family, tol_h=1e-13, check=True)
    np.testing.assert_allclose(found.state["mean"][0], (1.5, 0.25), atol=1e-10)
    np.testing.assert_allclose(found.state["precision"][0], (4.0, 4.0), atol=1e-9)
    assert found.elbo[0] == pytest.approx(-6.703381, abs=5e-7)
    from gnomon.distributions.conjugate.normals import NormalMeanPrecision

    exact = NormalMeanPrecision(0.0, 1.0, 2.0, 1.0).log_evidence(X)
    assert exact == pytest.approx(-6.633660, abs=5e-7)
    assert found.elbo[0] < exact
    far = coordinate_ascent(
        MixedFactors(normal_gamma, {"mean": GaussianFactor(40.0, 0.01), "precision": GammaFactor(0.05, 9.0)}),
        check=True,
    )
    assert (np.diff(far.trace[:, 0]) >= -1e-9).all()
    assert far.elbo[0] == pytest.approx(found.elbo[0], abs=1e-9)
    both = family.distributions(found.state)
    assert (float(both["mean"].mean), float(both["precision"].mean)) == pytest.approx((1.5, 1.0))


@pytest.mark.spec("INF-96")
def test_normal_factors_by_probes_equal_those_in_closed_form():
    def log_joint(h1, h2):
        return -0.5 * (h1**2 + h2**2 + (3 - h1 - 2 * h2) ** 2) - 1.5 * math.log(2 * math.pi)

    for n in (1, 2, 50):
        family = MixedFactors(log_joint, {"h1": GaussianFactor(0, 1), "h2": GaussianFactor(0, 1)})
        ours = coordinate_ascent(family, max_iter=n)
        known = NormalFactors.of(LinearGaussian([[1.0, 2.0]]), [[3.0]])
        theirs = coordinate_ascent(known, max_iter=n)
        np.testing.assert_allclose(
            [ours.state[name][0, 0] for name in ("h1", "h2")], known.mean(theirs.state)[0], atol=1e-8
        )
        np.testing.assert_allclose([ours.state[name][0, 1] for name in ("h1", "h2")], (0.5, 0.2), atol=1e-12)
        assert ours.elbo[0] == pytest.approx(theirs.elbo[0], abs=1e-10)


@pytest.mark.spec("INF-96")
def test_a_grid_serves_a_target_of_any_form_and_climbs():
    """A banana: no factor is normal, the bound never falls, and it is below log Z by quadrature."""
    log_p = lambda a, b: -0.5 * a**2 - 2 * (b - a**2 + 1) ** 2  # noqa: E731
    forms = {"a": Grid(low=-4, high=4, cells=161), "b": Grid(low=-4, high=15, cells=321)}
    family = factorization(log_p, forms)
    found = coordinate_ascent(family, check=True, tol_h=1e-10)
    assert (np.diff(found.trace[:, 0]) >= -1e-13).all()
    log_z = math.log(2 * math.pi / 2)  # 1 and 1/2 are the standard deviations along a, and of b given a
    assert log_z - 2 < found.elbo[0] < log_z
    a = forms["a"].points()
    q = found.state["a"][0]
    b_mean = found.state["b"][0] @ forms["b"].points()
    b_variance = found.state["b"][0] @ (forms["b"].points() - b_mean) ** 2
    log_best = -0.5 * a**2 - 2 * ((b_mean - a**2 + 1) ** 2 + b_variance)  # exp of the expectation by its moments
    best = np.exp(log_best - log_best.max())
    np.testing.assert_allclose(q, best / best.sum(), atol=1e-9)
    third = q @ (a - q @ a) ** 4 / (q @ (a - q @ a) ** 2) ** 2
    assert third < 2.5  # no normal distribution, which has 3
    finer = factorization(log_p, {"a": Grid(low=-4, high=4, cells=322), "b": Grid(low=-4, high=15, cells=642)})
    assert coordinate_ascent(finer).elbo[0] == pytest.approx(found.elbo[0], abs=1e-5)


@pytest.mark.spec("INF-96")
def test_discrete_and_continuous_variables_together():
    """A spike-and-slab pair: s of 0 and 1, slab x; the factor of s by hand from the moments of x."""

    def log_joint(s, x):
        return -0.5 * x**2 - 2 * (1.3 - s * x) ** 2 + s * 0.4

    family = factorization(log_joint, {"s": 2, "x": GaussianFactor()})
    found = coordinate_ascent(family, tol_h=1e-12, check=True)
    p, (m, variance) = found.state["s"][0, 1], found.state["x"][0]
    assert 1 / variance == pytest.approx(1 + 4 * p, rel=1e-9)
    assert m == pytest.approx(4 * 1.3 * p * variance, rel=1e-9)
    odds = 0.4 - 2 * (-2 * 1.3 * m + m**2 + variance)
    assert p == pytest.approx(1 / (1 + math.exp(-odds)), rel=1e-9)
    listed = factorization(log_joint, {"s": Finite([0, 1]), "x": Grid(low=-6, high=6, cells=2001)})
    other = coordinate_ascent(listed, tol_h=1e-12)
    assert other.elbo[0] == pytest.approx(found.elbo[0], abs=1e-6)


@pytest.mark.spec("INF-96")
def test_zeros_and_what_cannot_be_a_factor_are_told():
    impossible = np.full((1, 2, 2), -np.inf)
    impossible[0, 0, 0] = impossible[0, 1, 1] = 0.0  # the same value or nothing
    with pytest.raises(UserValueError, match="no value of h1 is possible beside the others"):
        coordinate_ascent(TableFactors(impossible))
    held = coordinate_ascent(TableFactors(impossible), {"h2": [0.0, 1.0]})
    np.testing.assert_array_equal(held.state["h1"][0], (0.0, 1.0))
    assert held.elbo[0] == 0.0
    assert coordinate_ascent(TableFactors(impossible, blocks=[["h1", "h2"]])).elbo[0] == pytest.approx(math.log(2))
    one_gone = np.log([[[0.2, 0.3], [0.5, 1.0]]])
    one_gone[0, 1, 1] = -np.inf
    some = coordinate_ascent(TableFactors(one_gone), tol_h=1e-12)
    np.testing.assert_array_equal(some.state["h1"][0], (1.0, 0.0))  # h2 = 1 may be, so h1 = 1 may not
    np.testing.assert_allclose(some.state["h2"][0], (0.4, 0.6))
    assert some.elbo[0] == pytest.approx(math.log(0.5), abs=1e-12)
    for log_joint, words in [
        (lambda x: 0.1 * x**2, "the factor of x cannot be normalized"),
        (lambda x: -(x**4), "the log joint must be a quadratic in x"),
        (lambda x: np.where(x > 0, -x, -np.inf), "the expected log density of x must be finite"),
        (lambda x: np.zeros((7, 3)), "log_joint must return shape"),
    ]:
        with pytest.raises(UserValueError, match=words):
            coordinate_ascent(MixedFactors(log_joint, {"x": GaussianFactor()}))
    with pytest.raises(UserValueError, match=r"the factor of t cannot be normalized: Gamma"):
        coordinate_ascent(MixedFactors(lambda t: -3 * np.log(t) - t, {"t": GammaFactor()}))
    small = MixedFactors(lambda x: -0.5 * (x - 4) ** 2, {"x": Grid(low=-3, high=3, cells=31)})
    with pytest.warns(UserWarning, match="widen it"):
        small.distributions(coordinate_ascent(small).state)


@pytest.mark.spec("BAY-45", "INF-87")
def test_a_wrong_update_is_an_error_where_it_is_looked_for():
    class Wrong(TableFactors):
        def update(self, block, state, rows):
            return super().update(block, state, rows)[:, ::-1]

    table = np.random.default_rng(9).normal(size=(4, 2, 2))
    with pytest.raises(AssertionError, match="the bound of row"):
        coordinate_ascent(Wrong(table), check=True)


@pytest.mark.spec("INF-87", "INF-92")
def test_options_that_cannot_be_are_refused():
    family = TableFactors(np.zeros((2, 2, 2)))
    for options, words in [
        ({"order": ["h9"]}, "unknown factor 'h9'"),
        ({"start": {"h3": [0.5, 0.5]}}, "unknown factor 'h3'"),
        ({"start": {"h1": [0.5, 0.5, 0.0]}}, "the start of 'h1' must be numbers of shape"),
        ({"damping": 0.0}, "damping must be in"),
        ({"damping": 1.5}, "damping must be in"),
        ({"tol_h": -1.0}, "tol_h must be at least 0"),
        ({"max_iter": -1}, "max_iter must be at least 0"),
    ]:
        with pytest.raises(UserValueError, match=words):
            coordinate_ascent(family, **options)
    for make, words in [
        (lambda: TableFactors([1.0, 2.0]), "log_joint must have rows"),
        (lambda: TableFactors(np.full((1, 2), -np.inf)), "every state has probability 0"),
        (lambda: TableFactors(np.zeros((1, 2, 2)), ["a", "a"]), "names must be 2 different names"),
        (lambda: TableFactors(np.zeros((1, 2, 2)), blocks=[["h1", "h1"]]), "blocks must name a variable once"),
        (lambda: TableFactors(np.zeros((1, 2)), measure={"h1": [1, -1]}), "measure of h1 must be 2 positive"),
        (lambda: NormalFactors(np.eye(2), [[0.0]]), "shift must be finite rows of 2"),
        (lambda: factorization(lambda x: x, {}), "variables must name at least one"),
        (
            lambda: factorization(lambda x: -x * x, {"x": GaussianFactor()}, blocks=[["x"]]),
            "blocks must be of variables",
        ),
        (lambda: factorization(lambda **x: 0, dict.fromkeys("abcde", Grid())), "numbers would take"),
    ]:
        with pytest.raises(UserValueError, match=words):
            make()
