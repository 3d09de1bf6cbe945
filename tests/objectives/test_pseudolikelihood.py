"""Pseudolikelihood and composite likelihoods against enumeration, finite differences and scikit-learn."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.neural_network import BernoulliRBM

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, CategoricalUnits, GaussianUnits, IsingUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.likelihood import pseudo_log_likelihood
from gnomon.nn.module import Module
from gnomon.numeric.noise import Noise
from gnomon.objectives import pseudolikelihood
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.site_sets import Blocks, Pairs, Singletons, Windows, window_sets
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBM, RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import Table, assert_same, by_differences, filled, machine_of

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))
NAME = "negative_pseudo_log_likelihood"


def loss_of(model, X, weight=None, recipe=None, noise=None):
    weight = np.ones(len(X)) if weight is None else weight
    numbers = np.arange(len(X))
    objective = (recipe or Pseudolikelihood()).build()
    objective.begin(model, None, Noise(0, "begin"), Group())
    batch = Batch({"X": X}, numbers, numbers, weight)
    return objective(model, batch, noise=noise or Noise(0, "fit"), phase="fit", group=Group())


def star(kind, seed=0, below=BernoulliUnits):
    """Four observed units between two hidden layers that are not linked; one link begins at a hidden layer."""
    units = {"v": kind(4), "a": below(2), "b": below(2)}
    return filled(LayeredMachine(units, [("v", "a"), ("b", "v")], dtype=torch.float64), seed)


def by_table(mass, X, weight, sets, values):
    """Minus the weighted sum of log p(x_S | the rest) by plain loops over a table of masses."""
    total = 0.0
    for x, w in zip(X, weight, strict=True):
        for one in sets:
            below = 0.0
            for y in itertools.product(values, repeat=len(one)):
                changed = x.copy()
                changed[list(one)] = y
                below += mass[tuple(changed)]
            total -= w * np.log(mass[tuple(x)] / below)
    return total


def mass_of(machine, values=(0.0, 1.0)):
    states, energy = Table(machine, values).marginal(["v"])
    return {tuple(row): np.exp(-e) for row, e in zip(states["v"], energy, strict=True)}


@pytest.mark.spec("INF-43", "INF-44")
@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (Singletons(), 0.824507 + 0.925106 + 0.492257),
        (Blocks(size=1), 2.241870),
        (Blocks(size=2), 1.738291 + 0.492257),
        (Blocks(size=3), 2.096485),
    ],
)
def test_the_row_101(sets, expected):
    loss = loss_of(RBMModel.of(*TINY), np.array([[1.0, 0, 1]]), recipe=Pseudolikelihood(sets=sets))
    assert loss.terms[NAME].sum == pytest.approx(expected, abs=1.5e-6)


@pytest.mark.spec("INF-44")
def test_both_limits():
    """One set of all sites is the likelihood; sets of one site are the pseudolikelihood."""
    model, V = RBMModel.of(*TINY), all_states(3)
    weight = np.random.default_rng(0).uniform(0.5, 2, size=8)
    whole = loss_of(model, V, weight, Pseudolikelihood(sets=Blocks(size=3)))
    assert whole.terms[NAME].sum == pytest.approx(-weight @ model.log_prob(V), abs=1e-12)
    exact = by_differences(model, lambda m: -weight @ m.log_prob(V))
    assert_same(whole.gradients, exact, 1e-8)
    single = loss_of(model, V, weight).terms[NAME].sum
    given = -weight @ pseudo_log_likelihood(model, V).pointwise
    assert single == pytest.approx(given, abs=1e-12)


SETS = {
    "singletons": (Singletons(), [[0], [1], [2], [3]]),
    "pairs": (Pairs(), list(itertools.combinations(range(4), 2))),
    "blocks of unequal size": (Blocks(size=3), [[0, 1, 2], [3]]),
    "windows": (Windows(columns=2, height=2, width=1), [[0, 2], [1, 3]]),
}


@pytest.mark.spec("INF-43", "INF-44")
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("kind", "values"), [(BernoulliUnits, (0.0, 1.0)), (IsingUnits, (-1.0, 1.0))])
def test_loss_and_gradient_against_enumeration(name, kind, values):
    """Rows of different weight, two hidden layers, in NumPy and in tensors. Overlapping sets count several times."""
    sets, listed = SETS[name]
    machine, random = star(kind, below=kind), np.random.default_rng(0)
    X, weight = random.choice(values, size=(5, 4)), random.uniform(0.5, 2.0, size=5)
    loss = loss_of(machine, X, weight, Pseudolikelihood(sets=sets))
    assert loss.terms[NAME].weight == pytest.approx(weight.sum())
    assert loss.terms[NAME].sum == pytest.approx(
        by_table(mass_of(machine, values), X, weight, listed, values), rel=1e-11
    )
    expected = by_differences(machine, lambda m: by_table(mass_of(m, values), X, weight, listed, values))
    assert_same(loss.gradients, expected, 1e-8)
    with gnomon.context(backend="torch"):
        found = loss_of(machine, X, weight, Pseudolikelihood(sets=sets))
    assert all(isinstance(value, torch.Tensor) for value in found.gradients.values())
    assert_same({name: value.numpy() for name, value in found.gradients.items()}, loss.gradients, 1e-12)


@pytest.mark.spec("INF-43")
def test_hidden_units_of_any_kind():
    """Normal hidden units, whose fields enter as squares: conditionals by energies of rows, slopes by differences."""
    machine, random = star(BernoulliUnits, below=GaussianUnits), np.random.default_rng(0)
    X, weight = all_states(4)[[1, 6, 11]], random.uniform(0.5, 2.0, size=3)

    def by_energies(m):
        mass = dict(zip(map(tuple, all_states(4)), np.exp(-m.energy(all_states(4))), strict=True))
        return by_table(mass, X, weight, [[0], [1], [2], [3]], (0.0, 1.0))

    loss = loss_of(machine, X, weight)
    assert loss.terms[NAME].sum == pytest.approx(by_energies(machine), rel=1e-11)
    assert_same(loss.gradients, by_differences(machine, by_energies), 1e-8)


@pytest.mark.spec("INF-43", "INF-44")
@pytest.mark.parametrize(("sets", "listed"), [(Singletons(), [[0], [1], [2]]), (Blocks(size=2), [[0, 1], [2]])])
def test_sites_of_three_values(sets, listed, monkeypatch):
    """One-hot columns: k - 1 energies beside the row's for each site, k^2 - 1 for each pair."""
    units = {"v": CategoricalUnits(3, 3), "h": BernoulliUnits(2), "top": IsingUnits(2)}
    machine = filled(LayeredMachine(units, [("v", "h"), ("top", "v")], dtype=torch.float64))
    V = units["v"].states(np.arange(27))
    X, weight = V[[0, 5, 13, 22]], np.array([0.5, 1.0, 2.0, 0.7])

    def by_energies(m):
        mass = dict(zip(map(tuple, V), np.exp(-m.energy(V)), strict=True))
        total = 0.0
        for x, w in zip(X.reshape(-1, 3, 3), weight, strict=True):
            for one in listed:
                below = 0.0
                for levels in itertools.product(np.eye(3), repeat=len(one)):
                    changed = x.copy()
                    changed[one] = levels
                    below += mass[tuple(changed.ravel())]
                total -= w * np.log(mass[tuple(x.ravel())] / below)
        return total

    asked, flips = [], LayeredMachine.flips
    monkeypatch.setattr(
        LayeredMachine,
        "flips",
        lambda self, x, rows, *rest: asked.append(len(rows)) or flips.__get__(self)(x, rows, *rest),
    )
    loss = loss_of(machine, X, weight, Pseudolikelihood(sets=sets))
    assert sum(asked) == 4 * sum(3 ** len(one) - 1 for one in listed)
    assert loss.terms[NAME].sum == pytest.approx(by_energies(machine), rel=1e-11)
    assert_same(loss.gradients, by_differences(machine, by_energies), 1e-8)
    with pytest.raises(UserValueError, match="a set of 3 sites with 20 values each has more than 4096 states"):
        wide = LayeredMachine({"v": CategoricalUnits(3, 20)}, [])
        loss_of(wide, np.zeros((1, 60)), recipe=Pseudolikelihood(sets=Blocks(size=3)))


@pytest.mark.spec("INF-43")
def test_sites_without_coupling_have_their_likelihood():
    machine = filled(LayeredMachine({"v": BernoulliUnits(4)}, [], dtype=torch.float64))
    X = all_states(4)
    for sets in (Singletons(), Blocks(size=2), Blocks(size=4)):
        loss = loss_of(machine, X, recipe=Pseudolikelihood(sets=sets))
        assert loss.terms[NAME].sum == pytest.approx(-machine.log_prob(X).sum(), rel=1e-13)


class Ising(Module):
    """Fully visible spins, log p~(x) = x^T J x / 2 + b x: flips by energies of whole rows."""

    observed = "v"
    units = {"v": IsingUnits(4)}  # noqa: RUF012

    def __init__(self, J, b):
        super().__init__()
        self.J, self.b = (torch.nn.Parameter(torch.as_tensor(value)) for value in (J, b))

    def place(self, x):
        return np.asarray(x)

    def flips(self, x, rows, sites, active=None):
        near, far = x[rows], x[rows]
        far[np.arange(len(rows))[:, None], sites] *= -1
        return Changed(self.views()["J"], self.views()["b"], near, far)


class Changed:
    def __init__(self, J, b, near, far):
        self.J, self.b, self.near, self.far = J, b, near, far

    def energies(self):
        def log_p(x):
            return ((x @ self.J) * x).sum(1) / 2 + x @ self.b

        return log_p(self.near) - log_p(self.far)

    def gradient(self, weight):
        pairs = np.einsum("n,ni,nj->ij", weight, self.near, self.near)
        pairs -= np.einsum("n,ni,nj->ij", weight, self.far, self.far)
        return {"J": pairs / 2, "b": weight @ (self.near - self.far)}


@pytest.mark.spec("INF-43")
def test_the_maximizer_recovers_a_fully_visible_ising_model():
    """The exact table as weights; the same of an RBM's table leaves no gradient at the truth."""
    random = np.random.default_rng(0)
    upper, V = np.triu(0.5 * random.normal(size=(4, 4)), 1), 2 * all_states(4) - 1
    J, b = upper + upper.T, 0.5 * random.normal(size=4)
    P = np.exp(((V @ J) * V).sum(1) / 2 + V @ b)
    P /= P.sum()
    above = np.triu_indices(4, 1)

    def objective(theta):
        free = np.zeros((4, 4))
        free[above] = theta[4:]
        loss = loss_of(Ising(free + free.T, theta[:4].copy()), V, P)
        slope = loss.gradients["J"]
        return loss.terms[NAME].sum, np.concatenate([loss.gradients["b"], (slope + slope.T)[above]])

    found = minimize(objective, np.zeros(10), jac=True, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(found.x, np.concatenate([b, J[above]]), atol=1e-7)
    truth = RBMModel.of(*TINY)
    slopes = loss_of(truth, all_states(3), np.exp(truth.log_prob(all_states(3)))).gradients
    assert max(np.abs(value).max() for value in slopes.values()) < 1e-12


@pytest.mark.spec("INF-43")
def test_scikit_learn_has_the_same_expectation():
    """Its `score_samples` flips one random bit and scales by their number.

    40,000 copies of each of three rows: within 4.5 standard errors; false alarm below 1e-4.
    """
    random = np.random.default_rng(0)
    W, b, c = (random.normal(size=shape) for shape in ((6, 4), 6, 4))
    peer = BernoulliRBM(n_components=4, random_state=0)
    peer.components_, peer.intercept_visible_, peer.intercept_hidden_ = W.T, b, c
    peer.n_features_in_ = 6
    model = RBMModel.of(W, b, c)
    for x in all_states(6)[[5, 22, 49]]:
        draws = peer.score_samples(np.repeat(x[None], 40_000, axis=0))
        assert draws.mean() == pytest.approx(-loss_of(model, x[None]).terms[NAME].sum, abs=4.5 * draws.std() / 200)


@pytest.mark.spec("INF-44")
def test_windows_and_their_mistakes():
    np.testing.assert_array_equal(window_sets((3, 2), (2, 2)), [[0, 1, 2, 3], [2, 3, 4, 5]])
    assert window_sets((8, 8), (2, 3)).shape == (42, 6)
    with pytest.raises(UserValueError, match="a window of 3 x 1 does not fit into 2 x 4"):
        window_sets((2, 4), (3, 1))
    with pytest.raises(UserValueError, match="at most 12 sites, got 16"):
        window_sets((8, 8), (4, 4))
    with pytest.raises(UserValueError, match="columns must divide the 3 sites of a row, got 2"):
        loss_of(RBMModel.of(*TINY), np.zeros((1, 3)), recipe=Pseudolikelihood(sets=Windows(columns=2)))
    with pytest.raises(UserValueError, match="size"):
        RBM(objective=Pseudolikelihood(sets=Blocks(size=13))).fit(np.zeros((4, 20)))


@pytest.mark.spec("INF-43")
def test_what_cannot_be_right_is_refused():
    with pytest.raises(UserValueError, match=r"pseudolikelihood needs rows of 0 and 1, got 0.25 \(row 0, column 1\)"):
        loss_of(RBMModel.of(*TINY), np.array([[1.0, 0.25, 1]]))
    with pytest.raises(UserTypeError, match="pseudolikelihood needs observed units of finitely many values and"):
        loss_of(machine_of("three"), np.zeros((1, 4)))  # of a bound on the mass the conditionals would be no bound
    with pytest.raises(UserTypeError, match="pseudolikelihood needs observed units of finitely many values and"):
        loss_of(LayeredMachine({"v": GaussianUnits(2), "h": BernoulliUnits(2)}, [("v", "h")]), np.zeros((1, 2)))


@pytest.mark.spec("INF-43", "INF-44")
def test_parts_change_nothing(monkeypatch):
    machine, X = star(BernoulliUnits), all_states(4)
    for recipe in (Pseudolikelihood(), Pseudolikelihood(sets="pairs"), Pseudolikelihood(n_conditionals=3)):
        whole = loss_of(machine, X, recipe=recipe)
        with monkeypatch.context() as patched:
            patched.setattr(pseudolikelihood, "AT_ONCE", 13)
            parts = loss_of(machine, X, recipe=recipe)
        assert parts.terms[NAME].sum == pytest.approx(whole.terms[NAME].sum, rel=1e-13)
        assert_same(parts.gradients, whole.gradients, 1e-13)


class Given:
    """Noise whose whole numbers are these."""

    def __init__(self, first):
        self.first = first

    def rows(self, positions):
        return self

    def integers(self, high, shape):
        return np.full(shape, self.first % high)


@pytest.mark.spec("INF-45")
@pytest.mark.parametrize("sets", [Singletons(), Pairs(), Blocks(size=2)])
@pytest.mark.parametrize("n_conditionals", [1, 2])
def test_the_mean_over_all_choices_is_the_whole(sets, n_conditionals):
    """Loss, scale and gradient: every choice is as likely as any other."""
    machine, weight = star(BernoulliUnits), np.random.default_rng(0).uniform(0.5, 2, size=16)
    exact = loss_of(machine, all_states(4), weight, Pseudolikelihood(sets=sets))
    recipe, number = Pseudolikelihood(sets=sets, n_conditionals=n_conditionals), len(sets.sets(4)[0])
    found = [loss_of(machine, all_states(4), weight, recipe, Given(first)) for first in range(number)]
    mean = {name: np.mean([loss.gradients[name] for loss in found], axis=0) for name in exact.gradients}
    assert_same(mean, exact.gradients, 1e-12)
    sums = [loss.terms[NAME].sum for loss in found]
    assert np.mean(sums) == pytest.approx(exact.terms[NAME].sum, rel=1e-12)
    if n_conditionals < number:
        assert np.ptp(sums) > 1e-2


@pytest.mark.spec("INF-45")
def test_rows_choose_by_their_place_in_the_batch():
    """The same noise and places give the same sums; each of 64 sites comes up alike in 6400 rows (false alarm 1e-4)."""
    machine = filled(LayeredMachine({"v": BernoulliUnits(64)}, [], dtype=torch.float64))
    X, recipe = np.zeros((6400, 64)), Pseudolikelihood(n_conditionals=1)
    first, again, other = (loss_of(machine, X, recipe=recipe, noise=Noise(seed, "fit")) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.gradients["v_bias"], again.gradients["v_bias"])
    assert np.abs(first.gradients["v_bias"] - other.gradients["v_bias"]).max() > 0
    p = 1 / (1 + np.exp(-machine.state()["v_bias"]))
    counts = first.gradients["v_bias"] / p / 64
    assert np.abs(counts - 100).max() < 4.9 * 10
    with pytest.raises(UserValueError, match="n_conditionals must be at most the 3 sets, got 4"):
        loss_of(RBMModel.of(*TINY), np.zeros((1, 3)), recipe=Pseudolikelihood(n_conditionals=4))
    with pytest.raises(UserValueError, match="n_conditionals needs sets of one size, got 2 sizes"):
        recipe = Pseudolikelihood(sets=Blocks(size=2), n_conditionals=1)
        loss_of(RBMModel.of(*TINY), np.zeros((1, 3)), recipe=recipe)


@pytest.mark.spec("INF-43", "INF-44", "INF-45")
@pytest.mark.parametrize(
    "objective", ["pseudolikelihood", Pseudolikelihood(sets="windows"), Pseudolikelihood(n_conditionals=8)]
)
def test_the_exact_likelihood_rises(objective):
    X = gnomon.data.load("digits").view("binary")[:300]
    fits = [
        RBM(n_hidden=8, objective=objective, epochs=epochs, learning_rate=0.3, random_state=0).fit(X)
        for epochs in (1, 12)
    ]
    assert fits[1].score(X) > fits[0].score(X) + 2
