"""Generalized score matching of bits against enumeration, the row's numbers and finite differences."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, IsingUnits
from gnomon.errors import Diverged, UserTypeError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives import generalized_score_matching
from gnomon.objectives.generalized_score_matching import GeneralizedScoreMatching, missing_neighbors
from gnomon.systems.energy.gaussian_rbm import GaussianRBM
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled, machine_of

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))
NAME = "generalized_score_matching"


def loss_of(model, X, weight=None):
    numbers = np.arange(len(X))
    batch = Batch({"X": X}, numbers, numbers, np.ones(len(X)) if weight is None else weight)
    return GeneralizedScoreMatching().build()(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())


def value_of(model, X, weight=None):
    return loss_of(model, X, weight).terms[NAME].sum


def ratios(p, states):
    """p(row with bit j flipped) / p(row), by looking the flipped row up."""
    place = {tuple(row): i for i, row in enumerate(states)}
    found = np.zeros(states.shape)
    for i, j in np.ndindex(states.shape):
        other = list(states[i])
        other[j] = states.min() + states.max() - other[j]
        found[i, j] = p[place[tuple(other)]] / p[i]
    return found


@pytest.mark.spec("INF-49")
def test_the_number_of_the_row():
    """One row 101 of the tiny machine: -1.658414."""
    X = np.array([[1.0, 0, 1]])
    assert value_of(RBMModel.of(*TINY), X) == pytest.approx(-1.658414, abs=5e-7)
    p = np.exp(RBMModel.of(*TINY).log_prob(all_states(3)))
    r = ratios(p, all_states(3))[5]
    assert value_of(RBMModel.of(*TINY), X) == pytest.approx((r**2 - 2 / r).sum(), abs=1e-12)


@pytest.mark.spec("INF-49")
@pytest.mark.parametrize("kind", [BernoulliUnits, IsingUnits])
def test_it_is_the_distance_of_the_ratios_up_to_a_constant_of_the_data(kind):
    """sum P (r - r_data)^2 = loss + sum P r_data^2, to 1e-12; and so of the inverse conditionals 1 + r."""
    low, high = kind.values
    states = low + (high - low) * all_states(3)
    P = np.random.default_rng(0).dirichlet(np.full(8, 3.0))
    one = filled(LayeredMachine({"v": kind(3), "h": kind(2)}, [("v", "h")], dtype=torch.float64), seed=1)
    mine, theirs = ratios(np.exp(one.log_prob(states)), states), ratios(P, states)
    distance = (P[:, None] * (mine - theirs) ** 2).sum()
    assert distance == pytest.approx(value_of(one, states, P) + (P[:, None] * theirs**2).sum(), abs=1e-12)
    inverse = (P[:, None] * ((1 + mine) - (1 + theirs)) ** 2).sum()
    assert inverse == pytest.approx(distance, abs=1e-12)


@pytest.mark.spec("INF-49")
def test_the_truth_is_the_optimum_where_the_data_has_every_row():
    """The distribution of a machine as data: its own parameters have no slope, and a search ends at its density."""
    truth, V = RBMModel.of(*TINY), all_states(3)
    P = np.exp(truth.log_prob(V))
    for value in loss_of(truth, V, P).gradients.values():
        np.testing.assert_allclose(value, 0, atol=1e-12)
    other = RBMModel.of(*(0.5 * value + 0.1 for value in TINY))
    shapes = [p.shape for p in other.parameters()]
    cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def objective(theta):
        with torch.no_grad():
            for p, value in zip(other.parameters(), np.split(theta, cuts), strict=True):
                p.copy_(torch.from_numpy(value.reshape(p.shape)))
        loss = loss_of(other, V, P)
        return loss.terms[NAME].sum, np.concatenate([loss.gradients[n].ravel() for n, _ in other.named_parameters()])

    start = np.concatenate([p.detach().numpy().ravel() for p in other.parameters()])
    minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 3000})
    np.testing.assert_allclose(np.exp(other.log_prob(V)), P, atol=1e-5)


@pytest.mark.spec("INF-49")
def test_gradients_by_differences_in_parts_and_in_tensors(monkeypatch):
    units = {"v": IsingUnits(3), "h": BernoulliUnits(2), "g": CategoricalUnits(1, 3)}
    one = filled(LayeredMachine(units, [("v", "h"), ("g", "v")], dtype=torch.float64), seed=3, scale=0.4)
    X, weight = 2 * all_states(3) - 1, np.linspace(0.5, 2, 8)
    whole = loss_of(one, X, weight)
    assert_same(whole.gradients, by_differences(one, lambda m: value_of(m, X, weight)), 1e-6)
    monkeypatch.setattr(generalized_score_matching, "AT_ONCE", 7)
    parts = loss_of(one, X, weight)
    assert parts.terms[NAME].sum == pytest.approx(whole.terms[NAME].sum, rel=1e-12)
    assert_same(parts.gradients, whole.gradients, 1e-12)
    fits = []
    for backend in ("auto", "torch"):
        with gnomon.context(backend=backend):
            recipe = GeneralizedScoreMatching()
            rows = np.repeat(all_states(3), 5, axis=0)
            fits.append(RBM(n_hidden=3, objective=recipe, epochs=3, dtype="float64", random_state=0).fit(rows))
    for name, value in fits[0].model_.state().items():
        np.testing.assert_allclose(fits[1].model_.state()[name], value, rtol=1e-11, atol=1e-11)


@pytest.mark.spec("INF-49")
def test_neighbors_that_never_occur_are_counted():
    V = all_states(10) == 1
    assert missing_neighbors(V) == (0, 10 * 1024)
    some = V[np.random.default_rng(0).choice(1024, 300)]
    known = {tuple(row) for row in some}
    wanted = sum(
        tuple(np.where(np.arange(10) == j, ~np.array(row), row)) not in known
        for row, j in itertools.product(known, range(10))
    )
    assert missing_neighbors(some) == (wanted, 10 * len(known))


@pytest.mark.spec("INF-49")
def test_a_fit_without_a_minimum_is_warned_of_and_ends_with_the_reason():
    X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    rbm = RBM(n_hidden=3, objective="generalized-score-matching", epochs=300, learning_rate=0.2, random_state=0)
    with (
        pytest.warns(UserWarning, match="8 of 8 rows that differ in one bit from a row of the data never occur in it"),
        pytest.raises(Diverged, match=r"have a ratio of exp\(\d+\).* or use ratio_matching where neighb"),
    ):
        rbm.fit(X)


@pytest.mark.spec("INF-49")
def test_rows_of_all_processes_are_looked_through():
    """What this process lacks another one has."""
    V = all_states(3)

    class Other(Group):
        def gather(self, x):
            return np.concatenate([x, V[4:] == 1])

    class Half:
        def epoch(self, e):
            numbers = np.arange(5)
            return [Batch({"X": np.vstack([V[:4], V[7:]])}, numbers, numbers, np.array([1.0, 1, 1, 1, 0]))]

    objective = GeneralizedScoreMatching().build()
    objective.begin(RBMModel.of(*TINY), Half(), Noise(0, "begin"), Other())
    with pytest.warns(UserWarning, match="4 of 12 rows"):  # the last row has no weight
        objective.begin(RBMModel.of(*TINY), Half(), Noise(0, "begin"), Group())


@pytest.mark.spec("INF-49")
def test_what_has_no_ratios_is_refused():
    with pytest.raises(UserTypeError, match="generalized score matching needs observed units of two values and hid"):
        GaussianRBM(n_hidden=2, objective="generalized-score-matching", random_state=0).fit(np.eye(3))
    with pytest.raises(UserTypeError, match="generalized score matching needs observed units of two values and hid"):
        GeneralizedScoreMatching().build().begin(machine_of("three"), None, Noise(0, "begin"), Group())
    with pytest.raises(UserValueError, match=r"generalized score matching needs rows of 0 and 1, got 0\.5"):
        loss_of(RBMModel.of(*TINY), np.full((2, 3), 0.5))


@pytest.mark.spec("INF-49")
def test_a_fit_of_a_full_table_comes_near_the_likelihood():
    random = np.random.default_rng(0)
    P = random.dirichlet(np.full(16, 4.0))
    X = all_states(4)[random.choice(16, 4000, p=P)]
    options = {"n_hidden": 4, "epochs": 40, "learning_rate": 0.02, "random_state": 0}
    found = RBM(objective="generalized-score-matching", **options).fit(X).score(X)
    columns = -(X.mean(0) * np.log(X.mean(0)) + (1 - X.mean(0)) * np.log(1 - X.mean(0))).sum()
    assert found > -columns


def test_a_row_of_weight_0_is_no_row():
    """Whatever its ratios are."""
    model = RBMModel.of(np.array([[60.0], [0.0]]), np.array([-600.0, 0.5]), np.array([-30.0]))
    near, far = np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 1.0]])
    with pytest.raises(Diverged):
        loss_of(model, far)
    few = RBMModel.of(np.array([[0.3], [0.2]]), np.array([0.1, 0.5]), np.array([0.2]))
    alone, beside = loss_of(few, near), loss_of(few, np.concatenate([near, far]), np.array([1.0, 1.0, 0.0]))
    assert_same(beside.gradients, alone.gradients, 1e-12)
    loss_of(model, np.concatenate([far, far]), np.zeros(2))
