"""Products of more than two units: plain loops over all states, differences, the pairwise machine, any table."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from scipy.stats import chisquare

from gnomon.distributions.units import BernoulliUnits, IsingUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.exact.enumeration import log_evidence
from gnomon.inference.mcmc.gibbs import gibbs, kernel_matrix
from gnomon.inference.variational.mean_field import mean_field_evidence
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import Exact
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.systems.energy._general import GeneralModel
from gnomon.systems.energy.connections import All, Grid, Terms
from gnomon.systems.energy.given import given_columns
from gnomon.systems.energy.higher_order import HigherOrderBoltzmannMachine, HigherOrderModel
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.terms import TermsLink
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled
from oracles.principles import begun, mean_gradient

TERMS = [(0, 1), (1, 3), (0, 1, 2), (1, 2, 4), (0, 2, 3, 4)]
X = all_states(5)
VALUES = {BernoulliUnits: (0.0, 1.0), IsingUnits: (-1.0, 1.0)}


def model_of(terms=TERMS, d=5, seed=0):
    return filled(HigherOrderModel(d, terms, torch.float64), seed)


def energies(bias, weight, terms, rows):
    """E of the definition, by loops."""
    found = []
    for x in rows:
        total = sum(b * unit for b, unit in zip(bias, x, strict=True))
        for w, term in zip(weight, terms, strict=True):
            product = 1.0
            for i in term:
                product *= x[i]
            total += w * product
        found.append(-total)
    return np.array(found)


def table(model, terms=TERMS, rows=X):
    p = model.state()
    return energies(p["visible_bias"], p["weight"][0], terms, rows)


@pytest.mark.spec("GEN-061")
def test_energies_log_z_and_conditionals_by_enumeration():
    model, energy = model_of(), table(model_of())
    np.testing.assert_allclose(model.energy(X), energy, atol=1e-12)
    np.testing.assert_allclose(model.energy(torch.from_numpy(X)).detach(), energy, atol=1e-12)
    assert model.log_partition() == pytest.approx(logsumexp(-energy), abs=1e-12)
    np.testing.assert_allclose(model.log_prob(X), -energy - logsumexp(-energy), atol=1e-11)
    bits = X.astype(int) @ [16, 8, 4, 2, 1]
    for kind in (X, torch.from_numpy(X)):
        mean = np.asarray(model.conditional("visible", {"visible": kind}).mean.detach() if kind is not X else
                          model.conditional("visible", {"visible": kind}).mean)  # fmt: skip
        for row, i in itertools.product(range(32), range(5)):
            flipped = bits[row] ^ (16 >> i)
            on, off = (row, flipped) if X[row, i] else (flipped, row)
            assert mean[row, i] == pytest.approx(softmax([-energy[off], -energy[on]])[1], abs=1e-12)


@pytest.mark.spec("GEN-061")
def test_a_sweep_over_the_units_leaves_the_distribution_as_it_is():
    model = model_of()
    p = softmax(-table(model))
    np.testing.assert_allclose(kernel_matrix(model) @ p, p, atol=1e-12)
    n = 20_000
    start = X[np.random.default_rng(0).choice(32, n, p=p)]
    for backward in (False, True):
        noise = Noise(0, "chains").rows(np.arange(n))
        end = gibbs(model, {"visible": start}, noise, steps=2, backward=backward)["visible"]
        counts = np.bincount((end @ [16, 8, 4, 2, 1]).astype(int), minlength=32)
        assert chisquare(counts, n * p).pvalue > 1e-4  # false alarm 1e-4 each
    far = gibbs(model, {"visible": np.zeros((n, 5))}, Noise(1, "far").rows(np.arange(n)), steps=30)["visible"]
    counts = np.bincount((far @ [16, 8, 4, 2, 1]).astype(int), minlength=32)
    assert chisquare(counts, n * p).pvalue > 1e-4
    held = np.array([True, False, False, True, False])
    clamp = {"visible": (np.array([[1.0, 0, 0, 0.0, 0]]).repeat(n, 0), np.tile(held, (n, 1)))}
    end = gibbs(model, {"visible": X[np.arange(n) % 32]}, Noise(2, "held").rows(np.arange(n)), steps=30, clamp=clamp)
    kept = (X[:, 0] == 1) & (X[:, 3] == 0)
    counts = np.bincount((end["visible"] @ [16, 8, 4, 2, 1]).astype(int), minlength=32)
    assert counts[~kept].sum() == 0
    assert chisquare(counts[kept], n * p[kept] / p[kept].sum()).pvalue > 1e-4
    tensor = gibbs(model, {"visible": torch.from_numpy(start)}, noise, steps=1)["visible"]
    np.testing.assert_array_equal(tensor, gibbs(model, {"visible": start}, noise, steps=1)["visible"])


@pytest.mark.spec("GEN-061")
def test_gradients_are_finite_differences():
    model, weight = model_of(), np.linspace(-1, 2, 32)
    found = model.joint_gradient({"visible": X}, weight)
    assert_same(found, by_differences(model, lambda m: weight @ table(m)), 1e-7)
    tensor = torch.from_numpy(X)
    (torch.from_numpy(weight) * model.joint_energy({"visible": tensor})).sum().backward()
    assert_same(found, {name: value.grad.numpy() for name, value in model.named_parameters()}, 1e-12)
    assert_same(model.joint_gradient({"visible": tensor}, torch.from_numpy(weight)), found, 1e-12)


def negative_log_likelihood(model, weight):
    energy = table(model)
    return (weight @ (energy + logsumexp(-energy))) / weight.sum()


def negative_pseudolikelihood(model, weight):
    energy, total = table(model), 0.0
    for row, i in itertools.product(range(32), range(5)):
        total += weight[row] * np.logaddexp(0, energy[row] - energy[row ^ (16 >> i)])
    return total / weight.sum()


def ratio_matching(model, weight):
    energy, total = table(model), 0.0
    for row, i in itertools.product(range(32), range(5)):
        total += weight[row] / (1 + np.exp(energy[row ^ (16 >> i)] - energy[row])) ** 2
    return total / weight.sum()


@pytest.mark.spec("GEN-061")
@pytest.mark.parametrize(
    ("recipe", "value"),
    [
        (Exact(), negative_log_likelihood),
        (Pseudolikelihood(), negative_pseudolikelihood),
        (RatioMatching(), ratio_matching),
    ],
    ids=lambda one: getattr(one, "short", ""),
)
def test_each_principle_has_the_gradient_of_what_it_claims(recipe, value):
    model, weight = model_of(), np.linspace(0.2, 2.0, 32)
    found = mean_gradient(begun(recipe, model, X, weight), model, X, weight=weight)
    assert_same(found, by_differences(model, lambda m: value(m, weight)), 1e-7)


def test_flips_of_several_units_are_differences_of_energies():
    model, energy = model_of(), table(model_of())
    random = np.random.default_rng(0)
    rows = random.integers(0, 32, 40)
    sites = np.array([random.permutation(5)[:3] for _ in rows])
    active = (random.random(sites.shape) < 0.7).astype(float)
    copies = X[rows].copy()
    for p, k in np.ndindex(sites.shape):
        if active[p, k]:
            copies[p, sites[p, k]] = 1 - copies[p, sites[p, k]]
    flips = model.flips(X, rows, sites, active)
    expected = energy[(copies @ [16, 8, 4, 2, 1]).astype(int)] - energy[rows]
    np.testing.assert_allclose(flips.energies(), expected, atol=1e-12)
    weight = np.linspace(-1, 2, 40)
    both = {"visible": np.vstack([copies, X[rows]])}
    assert_same(flips.gradient(weight), model.joint_gradient(both, np.concatenate([weight, -weight])), 1e-12)


@pytest.mark.spec("GEN-061")
def test_pairs_alone_are_the_boltzmann_machine():
    """In energy, log Z, gradient and, with the same numbers, in the very draws."""
    pairs = list(itertools.combinations(range(5), 2))
    higher = model_of(pairs)
    general = GeneralModel(5, 0, ("visible",), torch.float64)
    p = higher.state()
    general.load({"visible_weight": p["weight"], "visible_bias": p["visible_bias"]})
    np.testing.assert_allclose(higher.energy(X), general.energy(X), atol=1e-12)
    assert higher.log_partition() == pytest.approx(general.log_partition(), abs=1e-12)
    weight = np.linspace(-1, 2, 32)
    found, expected = (m.joint_gradient({"visible": X}, weight) for m in (higher, general))
    np.testing.assert_allclose(found["weight"], expected["visible_weight"], atol=1e-12)
    np.testing.assert_allclose(found["visible_bias"], expected["visible_bias"], atol=1e-12)
    draws = [gibbs(m, {"visible": X}, Noise(0, "x").rows(np.arange(32)), steps=3)["visible"] for m in (higher, general)]
    np.testing.assert_array_equal(*draws)
    two = HigherOrderBoltzmannMachine(order=2, epochs=3, random_state=0, objective="pcd").fit(X)
    assert two.terms_ == tuple(pairs)


@pytest.mark.spec("GEN-061")
def test_all_sets_fit_any_positive_table():
    """The weights by Moebius inversion of the logs give the table; and a fit on weighted rows finds it."""
    V = all_states(3)
    p = np.random.default_rng(3).dirichlet(np.full(8, 2.0))
    sets = [s for n in (2, 3) for s in itertools.combinations(range(3), n)]
    log = dict(zip(map(tuple, V.astype(int).tolist()), np.log(p), strict=True))

    def coefficient(term):
        return sum(
            (-1) ** (len(term) - n) * log[tuple(int(i in part) for i in range(3))]
            for n in range(len(term) + 1)
            for part in itertools.combinations(term, n)
        )

    model = HigherOrderModel(3, sets, torch.float64)
    model.load(
        {
            "weight": np.array([[coefficient(s) for s in sets]]),
            "visible_bias": np.array([coefficient((i,)) for i in range(3)]),
        }
    )
    np.testing.assert_allclose(np.exp(model.log_prob(V)), p, atol=1e-12)
    fit = HigherOrderBoltzmannMachine(
        objective="exact", epochs=1_500, batch_size=None, learning_rate=1.0, random_state=0, dtype="float64"
    ).fit(V, sample_weight=p)
    np.testing.assert_allclose(np.exp(fit.log_prob(V)), p, atol=2e-4)


@pytest.mark.spec("GEN-061")
def test_log_z_is_found_by_annealing_and_bounded_by_mean_field():
    model = model_of()
    log_z = logsumexp(-table(model))
    found = log_partition(model, "ais", Noise(0, "ais"), chains=500, schedule=100)
    assert abs(found.value - log_z) < 5 * found.error  # false alarm below 1e-6
    part = given_columns(model, np.array([True, False, True, False, False]))
    rows = np.unique(X[:, [0, 2]], axis=0)
    mass = [logsumexp(-table(model)[(X[:, [0, 2]] == row).all(1)]) for row in rows]
    whole = np.zeros((4, 5))
    whole[:, [0, 2]] = rows
    np.testing.assert_allclose(log_evidence(part.machine, part.state(whole)), mass, atol=1e-12)
    bound = mean_field_evidence(part.machine, part.state(whole), steps=200)
    assert (bound < np.array(mass) + 1e-9).all()
    assert (bound > np.array(mass) - 0.5).all()


@pytest.mark.spec("GEN-061")
@pytest.mark.parametrize("kind", VALUES)
def test_products_of_units_of_several_layers(kind):
    """A layer of columns and one of hidden units, with terms within and between: a table of all states."""
    terms = [(0, 1), (0, 1, 3), (2, 3, 4), (1, 4), (0, 2, 3)]
    machine = LayeredMachine(
        {"visible": kind(3), "hidden": kind(2)}, [TermsLink({"visible": 3, "hidden": 2}, terms)], dtype=torch.float64
    )
    filled(machine)
    assert machine.coupled == {"visible", "hidden"}
    p, Z = machine.state(), np.array(list(itertools.product(VALUES[kind], repeat=5)))
    bias = np.concatenate([p["visible_bias"], p["hidden_bias"]])
    energy = energies(bias, p["visible_hidden_weight"][0], terms, Z)
    state = {"visible": Z[:, :3], "hidden": Z[:, 3:]}
    np.testing.assert_allclose(machine.joint_energy(state), energy, atol=1e-12)
    assert machine.log_partition() == pytest.approx(logsumexp(-energy), abs=1e-12)
    rows = np.unique(Z[:, :3], axis=0)
    mass = [logsumexp(-energy[(Z[:, :3] == row).all(1)]) for row in rows]
    np.testing.assert_allclose(-machine.energy(rows), mass, atol=1e-11)
    weight = np.linspace(0.2, 2.0, 8)
    found = mean_gradient(begun(Exact(), machine, rows, weight), machine, rows, weight=weight)

    def loss(m):
        q = m.state()
        e = energies(np.concatenate([q["visible_bias"], q["hidden_bias"]]), q["visible_hidden_weight"][0], terms, Z)
        near = np.array([logsumexp(-e[(Z[:, :3] == row).all(1)]) for row in rows])
        return logsumexp(-e) - weight @ near / weight.sum()

    assert_same(found, by_differences(machine, loss), 1e-6)
    n, law = 10_000, softmax(-energy)
    start = Z[np.random.default_rng(0).choice(32, n, p=law)]
    noise = Noise(0, "x").rows(np.arange(n))
    end = gibbs(machine, {"visible": start[:, :3], "hidden": start[:, 3:]}, noise, steps=2)
    joined = np.hstack([end["visible"], end["hidden"]]) > 0
    assert chisquare(np.bincount(joined @ [16, 8, 4, 2, 1], minlength=32), n * law).pvalue > 1e-4  # false alarm 1e-4


def test_the_sets_are_those_of_connected_columns():
    assert len(All().terms(6, 3, 10**6)) == 15 + 20
    grid = Grid(columns=3).terms(9, 3, 10**6)
    near = Grid(columns=3).pattern(9, 0)
    every = [
        units for n in (2, 3) for units in itertools.combinations(range(9), n)
        if all(near[i, j] for i, j in itertools.combinations(units, 2))
    ]  # fmt: skip
    assert sorted(grid) == sorted(every)
    assert Terms.of([(2, 0), (1, 2, 3)]).terms(4, 2, 10) == [(2, 0), (1, 2, 3)]
    system = HigherOrderBoltzmannMachine(connections=Terms("0-1-2"), epochs=1, random_state=0).fit(X)
    assert system.terms_ == ((0, 1, 2),)


@pytest.mark.parametrize("objective", ["pcd", "cd", "pseudolikelihood", "exact"])
def test_every_principle_learns_a_parity_that_no_pair_of_columns_shows(objective):
    random = np.random.default_rng(0)
    rows = (random.random((400, 4)) < 0.5).astype(float)
    rows[:, 3] = rows[:, :3].sum(1) % 2
    system = HigherOrderBoltzmannMachine(
        order=4, objective=objective, epochs=40, learning_rate=0.05, optimizer="adam", random_state=0
    ).fit(rows)
    assert system.score(rows) > 4 * np.log(0.5) + 0.3  # log 2 more where it is learned whole


@pytest.mark.spec("GEN-061")
def test_missing_cells_are_filled_in_from_the_table():
    system = HigherOrderBoltzmannMachine(connections=Terms.of(TERMS), epochs=1, random_state=0, dtype="float64").fit(X)
    system.model_ = model_of()
    energy = table(system.model_)
    gap = np.array([[1.0, np.nan, 1.0, 0.0, np.nan]])
    rows = (X[:, 0] == 1) & (X[:, 2] == 1) & (X[:, 3] == 0)
    mean = softmax(-energy[rows]) @ X[rows]
    np.testing.assert_allclose(system.impute(gap)[0], mean, atol=1e-10)
    np.testing.assert_allclose(system.impute(gap, method="gibbs", steps=4_000)[0], mean, atol=0.06)
    assert system.log_prob_observed(gap)[0] == pytest.approx(logsumexp(-energy[rows]) - logsumexp(-energy), abs=1e-9)


def test_wrong_sets_are_refused_in_one_line():
    with pytest.raises(UserValueError, match="at least two units, each once"):
        HigherOrderModel(3, [(1, 1)])
    with pytest.raises(UserValueError, match=r"must be in \[0, 2\]"):
        HigherOrderModel(3, [(1, 3)])
    with pytest.raises(UserValueError, match="twice"):
        HigherOrderModel(3, [(0, 1), (1, 0)])
    with pytest.raises(UserTypeError, match="numbers of units"):
        HigherOrderModel(3, ["ab"])
    with pytest.raises(UserValueError, match="more than 2,000,000"):
        HigherOrderBoltzmannMachine(order=3).fit(np.eye(300))
    with pytest.raises(UserValueError, match="sets must be columns joined by -"):
        HigherOrderBoltzmannMachine(connections=Terms("a-b")).fit(X)
    with pytest.raises(UserValueError, match="at least two of the columns 0 to 4"):
        HigherOrderBoltzmannMachine(connections=Terms("1-9")).fit(X)
    with pytest.raises(UserValueError, match="at least one set of columns, got none"):
        HigherOrderBoltzmannMachine(connections="terms").fit(X)
    with pytest.raises(UserTypeError, match="join two layers each"):
        HigherOrderBoltzmannMachine(objective="centered", epochs=1).fit(X)
