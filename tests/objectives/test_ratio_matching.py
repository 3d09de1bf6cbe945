"""Ratio matching against enumeration, finite differences and every choice of terms; sparse rows stay sparse."""

import tracemalloc

import numpy as np
import pytest
import torch
from scipy import sparse

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, IsingUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.numeric.sparse import SparseRows
from gnomon.objectives import ratio_matching
from gnomon.objectives.ratio_matching import RatioMatching, spread
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import Table, assert_same, by_differences, filled, machine_of

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))


def loss_of(model, X, weight=None, recipe=None, noise=None):
    weight = np.ones(X.shape[0]) if weight is None else weight
    numbers = np.arange(X.shape[0])
    objective = (recipe or RatioMatching()).build()
    objective.begin(model, None, Noise(0, "begin"), Group())
    return objective(
        model, Batch({"X": X}, numbers, numbers, weight), noise=noise or Noise(0, "fit"), phase="fit", group=Group()
    )


def star(kind, seed=0):
    """Four observed units between two hidden layers that are not linked; one link begins at a hidden layer."""
    units = {"v": kind(4), "a": kind(2), "b": kind(2)}
    return filled(LayeredMachine(units, [("v", "a"), ("b", "v")], dtype=torch.float64), seed)


def by_table(machine, X, weight, values):
    """The weighted sum of squared sigmoids from the masses of all states, by plain loops."""
    states, energy = Table(machine, values).marginal(["v"])
    mass = {tuple(row): np.exp(-e) for row, e in zip(states["v"], energy, strict=True)}
    total = 0.0
    for x, w in zip(X, weight, strict=True):
        for j in range(len(x)):
            flipped = x.copy()
            flipped[j] = sum(values) - x[j]
            total += w / (1 + mass[tuple(x)] / mass[tuple(flipped)]) ** 2
    return total


@pytest.mark.spec("INF-50")
def test_the_terms_of_the_row_101():
    loss = loss_of(RBMModel.of(*TINY), np.array([[1.0, 0, 1]]))
    assert loss.terms["ratio_matching"].sum == pytest.approx(0.830693, abs=1e-6)
    p = dict(zip(map(tuple, all_states(3)), RBMModel.of(*TINY).log_prob(all_states(3)), strict=True))
    each = [1 / (1 + np.exp(p[1, 0, 1] - p[y])) for y in ((0, 0, 1), (1, 1, 1), (1, 0, 0))]
    np.testing.assert_allclose(np.square(each), (0.315337, 0.364225, 0.151130), atol=1e-6)


@pytest.mark.spec("INF-50")
@pytest.mark.parametrize(("kind", "values"), [(BernoulliUnits, (0.0, 1.0)), (IsingUnits, (-1.0, 1.0))])
def test_loss_and_gradient_against_enumeration(kind, values):
    """Rows of different weight, two hidden layers, either sort of two-valued units."""
    machine, random = star(kind), np.random.default_rng(0)
    X, weight = random.choice(values, size=(5, 4)), random.uniform(0.5, 2.0, size=5)
    loss = loss_of(machine, X, weight)
    assert loss.terms["ratio_matching"].sum == pytest.approx(by_table(machine, X, weight, values), rel=1e-11)
    assert loss.terms["ratio_matching"].weight == pytest.approx(weight.sum())
    expected = by_differences(machine, lambda m: by_table(m, X, weight, values))
    assert_same(loss.gradients, expected, 1e-8)
    found = loss_of(machine, torch.from_numpy(X), weight, recipe=RatioMatching())
    assert_same({name: np.asarray(value) for name, value in found.gradients.items()}, loss.gradients, 1e-12)


@pytest.mark.spec("INF-50")
def test_what_is_expected_of_the_data_is_least_at_the_truth():
    """E_P loss = E_P sum (g_data - g_model)^2 + E_P sum g_data (1 - g_data), g(x, j) = 1 / (1 + p(x) / p(f(x, j)))."""
    truth, other = RBMModel.of(*TINY), RBMModel.of(*(0.3 * value + 0.2 for value in TINY))
    V = all_states(3)
    P = np.exp(truth.log_prob(V))

    def g(model):
        q = dict(zip(map(tuple, V), np.exp(model.log_prob(V)), strict=True))
        rows = [[q[tuple(np.where(np.arange(3) == j, 1 - x, x))] for j in range(3)] for x in V]
        return 1 / (1 + np.array([q[tuple(x)] for x in V])[:, None] / np.array(rows))

    least = P @ (g(truth) * (1 - g(truth))).sum(1)
    for model in (truth, other):
        expected = P @ np.square(g(truth) - g(model)).sum(1) + least
        assert loss_of(model, V, P).terms["ratio_matching"].sum == pytest.approx(expected, abs=1e-12)
    at_truth = loss_of(truth, V, P).gradients
    assert max(np.abs(value).max() for value in at_truth.values()) < 1e-12
    assert max(np.abs(value).max() for value in loss_of(other, V, P).gradients.values()) > 1e-2


@pytest.mark.spec("INF-50")
def test_what_cannot_be_right_is_refused():
    grey = np.array([[1.0, 0, 1], [0, 0.25, 1]])
    with pytest.raises(UserValueError, match=r"ratio matching needs rows of 0 and 1, got 0.25 \(row 1, column 1\)"):
        loss_of(RBMModel.of(*TINY), grey)
    with pytest.raises(UserValueError, match=r"rows of 0 and 1, got 0.5 .*binarize"):
        RBM(objective="ratio_matching", random_state=0).fit(np.full((8, 3), 0.5))
    with pytest.raises(UserValueError, match=r"got 0.25"):
        loss_of(RBMModel.of(*TINY), SparseRows(grey), recipe=RatioMatching(n_zeros=1))
    deep = machine_of("three")
    levels = LayeredMachine({"v": CategoricalUnits(2, 3), "h": BernoulliUnits(2)}, [("v", "h")])
    for machine in (deep, levels):
        with pytest.raises(UserTypeError, match="ratio matching needs observed units of two values and hidden layers "):
            loss_of(machine, np.zeros((1, 4)))


@pytest.mark.spec("INF-50")
def test_parts_of_the_terms_change_nothing(monkeypatch):
    from gnomon.systems.energy import flips

    machine, X = star(BernoulliUnits), all_states(4)
    whole = loss_of(machine, X)
    monkeypatch.setattr(ratio_matching, "AT_ONCE", 7)
    monkeypatch.setattr(flips, "AT_ONCE", 6)
    parts = loss_of(machine, X)
    assert parts.terms["ratio_matching"].sum == pytest.approx(whole.terms["ratio_matching"].sum, rel=1e-13)
    assert_same(parts.gradients, whole.gradients, 1e-13)


class Given:
    """Noise whose uniform numbers are these."""

    def __init__(self, u):
        self.u = u

    def rows(self, positions):
        return self

    def uniform(self, shape, like=None):
        return np.full(shape, self.u)


@pytest.mark.spec("INF-51")
@pytest.mark.parametrize("n_zeros", [1, 2, 3, 9])
@pytest.mark.parametrize("form", [np.array, SparseRows])
def test_the_mean_over_all_choices_of_zeros_is_ratio_matching(n_zeros, form):
    """Rows of 0 to 4 ones among 4 bits; 12 equally likely starts hold each choice of 1, 2, 3 or 4 zeros alike."""
    model = RBMModel.of(*(np.random.default_rng(0).normal(size=shape) for shape in ((4, 3), 4, 3)))
    X, weight = all_states(4), np.random.default_rng(1).uniform(0.5, 2, size=16)
    exact = loss_of(model, X, weight)
    found = [loss_of(model, form(X), weight, RatioMatching(n_zeros=n_zeros), Given((i + 0.5) / 12)) for i in range(12)]
    mean = {name: np.mean([loss.gradients[name] for loss in found], axis=0) for name in exact.gradients}
    assert_same(mean, exact.gradients, 1e-12)
    sums = [loss.terms["ratio_matching"].sum for loss in found]
    assert np.mean(sums) == pytest.approx(exact.terms["ratio_matching"].sum, rel=1e-12)
    if n_zeros >= 4:  # every term with the chance 1
        np.testing.assert_allclose(sums, exact.terms["ratio_matching"].sum, rtol=1e-12)
    else:
        assert np.ptp(sums) > 1e-3


@pytest.mark.spec("INF-51")
def test_zeros_are_chosen_alike():
    """5000 draws of 3 among 10: each with the chance 0.3, within 4.5 standard errors (false alarm below 1e-4)."""
    noise = Noise(0, "zeros").rows(np.arange(5000))
    first = np.floor(noise.uniform((5000, 1), dtype=np.float64)[:, 0] * 10).astype(int)
    rows, ranks = spread(first, np.full(5000, 10), 3)
    np.testing.assert_array_equal(np.bincount(rows), 3)
    assert len(np.unique(10 * rows + ranks)) == 15_000
    assert np.abs(np.bincount(ranks, minlength=10) / 5000 - 0.3).max() < 4.5 * np.sqrt(0.21 / 5000)


@pytest.mark.spec("INF-51")
def test_sparse_rows_cost_by_what_is_not_zero(monkeypatch):
    """300 rows of 10 ones among 100,000 columns: 120 MB as they are dense, and 6,000 terms of 30,000,000."""
    d, n = 100_000, 300
    random = np.random.default_rng(0)
    columns = random.integers(d // 10, size=(n, 10)) + d // 10 * np.arange(10)
    X = SparseRows((np.ones(10 * n, np.float32), columns.ravel(), np.arange(0, 10 * n + 1, 10)), shape=(n, d))
    model = RBMModel(d, 2)
    model.initialize(Noise(0, "weights"))
    asked = []
    flips = type(model).flips
    monkeypatch.setattr(
        RBMModel, "flips", lambda self, x, rows, sites: asked.append(len(rows)) or flips.__get__(self)(x, rows, sites)
    )
    tracemalloc.start()
    loss = loss_of(model, X, recipe=RatioMatching(n_zeros=10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert asked == [20 * n]
    assert peak < 20e6  # gradients and their parts, 0.8 MB each
    dense = loss_of(model, X.toarray()[:20], recipe=RatioMatching(n_zeros=10))
    few = loss_of(model, X[:20], recipe=RatioMatching(n_zeros=10))
    assert_same(few.gradients, dense.gradients, 1e-6)
    assert np.isfinite(loss.terms["ratio_matching"].sum)


@pytest.mark.spec("INF-51")
def test_a_fit_of_sparse_rows_is_that_of_dense_ones():
    X = (np.random.default_rng(0).random((60, 30)) < 0.1).astype(float)
    fits = [
        RBM(n_hidden=3, objective=RatioMatching(n_zeros=4), epochs=4, random_state=0, dtype="float64").fit(form)
        for form in (X, sparse.csr_array(X))
    ]
    np.testing.assert_allclose(fits[1].weights_, fits[0].weights_, atol=1e-12)
    assert fits[0].history_["ratio_matching"][-1] < fits[0].history_["ratio_matching"][0]
    counts = sparse.csr_array(3 * X)
    with pytest.raises(UserValueError):
        RBM(objective=RatioMatching(n_zeros=4), random_state=0).fit(counts)


@pytest.mark.spec("INF-50")
def test_the_exact_likelihood_rises():
    X = gnomon.data.load("digits").view("binary")[:300]
    fits = [
        RBM(n_hidden=8, objective=objective, epochs=epochs, learning_rate=0.3, random_state=0).fit(X)
        for objective in ("ratio_matching", RatioMatching(n_zeros=10))
        for epochs in (1, 20)
    ]
    scores = [one.score(X) for one in fits]
    assert scores[1] > scores[0] + 2
    assert scores[3] > scores[2] + 2
