"""Contrastive learning of machines of any number of blocks: against enumeration, by hand, and beside the fused path."""

import importlib.util
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, GaussianUnits, IsingUnits
from gnomon.errors import UserValueError
from gnomon.inference.mcmc.gibbs import mean_field
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.positive import Clamped, MeanField
from gnomon.runs.folder import RunFolder
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import numerical_gradient

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
SHAPES = {
    "three": ({"visible": 4, "middle": 3, "top": 2}, [("visible", "middle"), ("middle", "top")]),
    "graph": ({"v": 3, "x": 2, "y": 2, "z": 2}, [("v", "x"), ("x", "y"), ("y", "v"), ("z", "v"), ("z", "y")]),
}


def machine_of(shape, kind=BernoulliUnits, seed=0, scale=0.7):
    sizes, links = SHAPES[shape]
    machine = LayeredMachine({name: kind(n) for name, n in sizes.items()}, links, dtype=torch.float64)
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in machine.parameters():
            parameter.copy_(torch.from_numpy(scale * random.normal(size=tuple(parameter.shape))))
    return machine


def all_states(machine, low=0.0):
    units = np.array(list(itertools.product([low, 1.0], repeat=sum(machine.sizes.values()))))
    cuts = np.cumsum(list(machine.sizes.values()))[:-1]
    return dict(zip(machine.units, np.split(units, cuts, axis=1), strict=True))


def likelihood(machine, X, weight, low=0.0):
    """Sum of weight_i log p(x_i), from joint energies alone."""
    states = all_states(machine, low)
    minus = -machine.joint_energy(states)
    same = (states[machine.observed][None, :, :] == X[:, None, :]).all(2)
    mass = np.array([np.logaddexp.reduce(minus[row]) for row in same])
    return float(weight @ (mass - np.logaddexp.reduce(minus)))


def batch_of(X, weight=None):
    n = len(X)
    return Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n) if weight is None else weight)


class Rows:
    """As many rows in a batch as said."""

    def __init__(self, n):
        self.batch_size = n


def loss_of(objective, machine, X, noise, weight=None):
    return objective(machine, batch_of(X, weight), noise=noise, phase="fit", group=Group())


def assert_same(found, expected, atol):
    assert set(found) == set(expected)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=atol, err_msg=name)


def data_of(machine, n=3, low=0.0):
    bits = np.random.default_rng(5).random((n, machine.sizes[machine.observed])) < 0.5
    return np.where(bits, 1.0, low)


@pytest.mark.parametrize(("kind", "low"), [(BernoulliUnits, 0.0), (IsingUnits, -1.0)])
@pytest.mark.parametrize("shape", SHAPES)
def test_exact_gradients_are_the_finite_difference_of_the_likelihood(shape, kind, low):
    machine = machine_of(shape, kind)
    X, weight = data_of(machine, 3, low), np.array([0.5, 2.0, 1.0])
    loss = loss_of(Exact().build(), machine, X, Noise(0, "fit"), weight)
    assert loss.terms[loss.per].sum() == pytest.approx(-likelihood(machine, X, weight, low), abs=1e-10)
    expected = {}
    for name, parameter in machine.named_parameters():

        def at(value, parameter=parameter):
            before = parameter.detach().clone()
            with torch.no_grad():
                parameter.copy_(torch.from_numpy(value))
                result = -likelihood(machine, X, weight, low)
                parameter.copy_(before)
            return result

        expected[name] = numerical_gradient(at, parameter.detach().numpy().copy())
    assert_same(loss.gradients, expected, 1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_persistent_chains_follow_the_joint_distribution_while_the_weights_stand(shape):
    machine, n = machine_of(shape, scale=0.5), 4_000
    objective = PCD(positive="mean_field").build()
    objective.begin(machine, Rows(n), Noise(0, "begin"), Group())
    states = all_states(machine)
    p = np.exp(-machine.joint_energy(states) - machine.log_partition())
    for update in range(25):
        loss_of(objective, machine, data_of(machine), Noise(0, "fit").at(update))
    stored = [block for block in machine.units if block in objective.chains]
    assert stored == {"three": ["middle"], "graph": ["v", "x", "y", "z"]}[shape]

    def codes(state):
        joined = np.concatenate([np.asarray(state[block]) for block in stored], axis=1)
        return (joined @ (1 << np.arange(joined.shape[1]))).astype(int)

    law = np.bincount(codes(states), weights=p)
    counts, many = np.bincount(codes(objective.chains), minlength=len(law)), law * n > 5
    expected, found = [*(law[many] * n)], [*counts[many]]
    if not many.all():
        expected, found = [*expected, law[~many].sum() * n], [*found, counts[~many].sum()]
    assert chisquare(found, expected).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.parametrize("recipe", [PCD(k=2, n_chains=20_000), CD(k=30)])
@pytest.mark.parametrize("shape", SHAPES)
def test_many_chains_and_clamped_sweeps_are_near_the_exact_gradient(shape, recipe):
    """Statistics lie in [0, 1]: means of n of them are within 4.5 / sqrt(4 n) of theirs, on both sides."""
    machine, n = machine_of(shape, scale=0.5), 20_000
    X = np.repeat(data_of(machine, 2), n // 2, axis=0)
    objective = recipe.build()
    objective.begin(machine, Rows(n), Noise(0, "begin"), Group())
    for update in range(12 if isinstance(recipe, PCD) else 1):
        found = loss_of(objective, machine, X[:: 1 if update else 50], Noise(1, "fit").at(update))
    found = loss_of(objective, machine, X, Noise(1, "fit").at(99)).gradients
    exact = loss_of(Exact().build(), machine, data_of(machine, 2), Noise(0, "fit")).gradients
    expected = {name: value / 2 for name, value in exact.items()}
    assert_same({name: g / n for name, g in found.items()}, expected, 2 * 4.5 / np.sqrt(4 * n))


def test_the_mean_field_phase_by_hand():
    """Gradients at the means minus those at the chains; no number is drawn twice."""
    machine, X, weight = machine_of("three"), data_of(machine_of("three"), 3), np.array([0.5, 2.0, 1.0])
    objective = PCD(k=2, n_chains=7, positive=MeanField(steps=200, tol=1e-12)).build()
    objective.begin(machine, Rows(3), Noise(0, "begin"), Group())
    assert {block: tuple(x.shape) for block, x in objective.chains.items()} == {"middle": (7, 3)}
    middle = objective.chains["middle"].numpy().copy()
    noise = Noise(0, "fit").at(3)
    with recording():
        loss = loss_of(objective, machine, X, noise, weight)
    places = noise.rows(np.arange(7))
    state = {"middle": middle}
    for draw, block in enumerate(["visible", "top", "middle", "visible", "top"]):
        state[block] = machine.conditional(block, state).sample(places, draw)
    means = mean_field(machine, {"visible": (X, None)}, steps=500)
    far = {"visible": state["visible"], "top": state["top"]}
    far_means = machine.conditional("middle", far).mean
    share = weight.sum() / 7
    v, m, t = X, means["middle"], means["top"]
    expected = {
        "visible_middle_weight": share * far["visible"].T @ far_means - (v * weight[:, None]).T @ m,
        "middle_top_weight": share * far_means.T @ far["top"] - (m * weight[:, None]).T @ t,
        "visible_bias": share * far["visible"].sum(0) - weight @ v,
        "middle_bias": share * far_means.sum(0) - weight @ m,
        "top_bias": share * far["top"].sum(0) - weight @ t,
    }
    assert_same(loss.gradients, expected, 1e-9)
    drawn = machine.conditional("middle", far).sample(places, 6)
    np.testing.assert_array_equal(objective.chains["middle"].numpy(), drawn)
    assert np.isfinite(loss.terms["energy_gap"].sum())


@pytest.mark.parametrize("recipe", [CD(k=2), CD(positive="mean_field"), PCD(k=3), PCD(positive="mean_field")])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_number_is_drawn_twice(shape, recipe):
    machine = machine_of(shape)
    objective = recipe.build()
    with recording():
        objective.begin(machine, Rows(3), Noise(0, "begin"), Group())
        for update in range(2):
            loss = loss_of(objective, machine, data_of(machine), Noise(0, "fit").at(update))
    assert np.isfinite(loss.terms["energy_gap"].sum()) and set(loss.gradients) == set(machine.state())


@pytest.mark.parametrize("recipe", [CD(k=2), PCD(k=2), Exact()])
def test_the_fused_path_of_two_layers_is_the_general_one(recipe):
    random = np.random.default_rng(0)
    rbm = RBMModel.of(random.normal(size=(5, 3)), random.normal(size=5), random.normal(size=3))
    units = {"visible": BernoulliUnits(5), "hidden": BernoulliUnits(3)}
    plain = LayeredMachine(units, [DenseLink("visible", "hidden", name="")], dtype=torch.float64)
    plain.load(rbm.state())
    X, weight = (random.random((6, 5)) < 0.5).astype(float), random.uniform(0.5, 2.0, size=6)
    found = {}
    for name, machine in (("fused", rbm), ("plain", plain)):
        objective = recipe.build()
        objective.begin(machine, Rows(6), Noise(0, "begin"), Group())
        losses = [loss_of(objective, machine, X, Noise(0, "fit").at(update), weight) for update in range(3)]
        found[name] = losses[-1], {block: x.numpy() for block, x in getattr(objective, "chains", {}).items()}
    (fused, chains), (general, other) = found["fused"], found["plain"]
    assert_same(fused.gradients, general.gradients, 1e-12)
    for block in chains:
        np.testing.assert_array_equal(chains[block], other[block])
    (name,) = fused.terms
    assert fused.terms[name].sum() == pytest.approx(general.terms[name].sum(), rel=1e-10)
    assert fused.terms[name].weight == general.terms[name].weight


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    "recipe", [CD(k=2), PCD(k=2), Exact(), CD(positive="mean_field"), PCD(positive="mean_field", n_chains=4)]
)
def test_tensors_give_the_numbers_of_arrays(recipe, deep, monkeypatch):
    random = np.random.default_rng(0)
    found = []
    X = (random.random((6, 4)) < 0.5).astype(float)
    for tensors in (False, True):
        machine = machine_of("three") if deep else RBMModel.of(*(p.copy() for p in _rbm_parameters()))
        if tensors:
            monkeypatch.setattr(type(machine), "place", _place)
        objective = recipe.build()
        objective.begin(machine, Rows(6), Noise(0, "begin"), Group())
        losses = [loss_of(objective, machine, X, Noise(0, "fit").at(update)) for update in range(3)]
        assert all(isinstance(g, torch.Tensor if tensors else np.ndarray) for g in losses[-1].gradients.values())
        chains = {block: x.numpy().copy() for block, x in getattr(objective, "chains", {}).items()}
        found.append((losses[-1], {k: np.asarray(g) for k, g in losses[-1].gradients.items()}, chains))
        monkeypatch.undo()
    (array, gradients, chains), (tensor, others, other_chains) = found
    assert_same(gradients, others, 1e-12)
    for block in chains:
        np.testing.assert_array_equal(chains[block], other_chains[block])
    (name,) = array.terms
    assert tensor.terms[name].sum() == pytest.approx(array.terms[name].sum(), rel=1e-10)


def _place(self, x):
    """As on a device."""
    return torch.as_tensor(np.asarray(x), dtype=torch.float64)


def _rbm_parameters():
    random = np.random.default_rng(1)
    return random.normal(size=(4, 3)), random.normal(size=4), random.normal(size=3)


def test_real_data_and_a_chain_of_three_kinds():
    """Normal data above spins above bits: the mean-field gradient of many chains is near the exact one."""
    units = {"visible": GaussianUnits(2), "middle": IsingUnits(2), "top": BernoulliUnits(2)}
    machine = LayeredMachine(units, [("visible", "middle"), ("middle", "top")], dtype=torch.float64)
    machine.initialize(Noise(0, "initial"), scale=0.3)
    n = 20_000
    X = np.repeat([[0.5, -1.0], [1.0, 0.2]], n // 2, axis=0)
    objective = PCD(k=2, n_chains=n, positive="clamped").build()
    objective.begin(machine, Rows(n), Noise(0, "begin"), Group())
    for update in range(10):
        loss_of(objective, machine, X[:2], Noise(1, "fit").at(update))
    found = loss_of(objective, machine, X, Noise(1, "fit").at(99)).gradients
    exact = loss_of(Exact().build(), machine, X[[0, -1]], Noise(0, "fit")).gradients
    # statistics have second moments below 4
    assert_same({k: g / n for k, g in found.items()}, {k: g / 2 for k, g in exact.items()}, 2 * 4.5 * 2 / np.sqrt(n))


class Pair:
    """Two processes in turn: each gives its part, and what is gathered is handed in."""

    size = 2

    def __init__(self, rank, parts=None):
        self.rank, self.parts = rank, parts

    def gather(self, x):
        return np.concatenate([np.asarray(part) for part in self.parts])

    def sum(self, tree):
        return tree


def test_chains_of_all_blocks_are_collected_and_distributed():
    machine = machine_of("graph")
    halves = []
    for rank in (0, 1):
        half = PCD(n_chains=5).build()
        half.begin(machine, Rows(5), Noise(0, "begin"), Pair(rank))
        halves.append(half)
    whole = PCD(n_chains=5).build()
    whole.begin(machine, Rows(5), Noise(0, "begin"), Group())
    assert set(whole.sharded) == {"chains/v", "chains/x", "chains/y", "chains/z"}
    for block, chains in whole.chains.items():
        parts = [half.chains[block] for half in halves]
        assert [len(part) for part in parts] == [2, 3]
        np.testing.assert_array_equal(np.concatenate(parts), chains)
        chains.fill_(1.0)
    halves[1].distribute(whole.collect(Group()), Pair(1))
    assert all((chains == 1).all() and len(chains) == 3 for chains in halves[1].chains.values())


def test_an_unknown_positive_phase_is_refused_by_name():
    with pytest.raises(UserValueError, match="positive"):
        PCD(positive="meanfield").build()
    assert PCD(positive=Clamped(steps=3)).build().positive.steps == 3


@pytest.mark.filterwarnings("ignore:the fit began with other versions")
def test_a_run_that_was_interrupted_before_chains_had_names_ends_as_it_would_have(tmp_path):
    """The folder was left by the version that kept one array of chains."""
    spec = importlib.util.spec_from_file_location("artifacts_make", ARTIFACTS / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    shutil.copytree(ARTIFACTS / "interrupted-1" / "rbm", tmp_path / "rbm")
    X, _ = make.data("rbm")
    resumed, whole = (gnomon.RBM(n_hidden=3, objective=PCD(k=2), epochs=5, random_state=0) for _ in range(2))
    examples = resumed.ingest(X)
    resumed._fit(examples, resumed._open(RunFolder.open(tmp_path / "rbm"), examples))
    whole.fit(X)
    for name, value in whole.model_.state().items():
        # another machine may add in another order before the interruption
        np.testing.assert_allclose(resumed.model_.state()[name], value, rtol=1e-9, atol=1e-12)
    known = json.loads((ARTIFACTS / "format-1" / "expected.json").read_text())["rbm"]
    assert resumed.n_steps_ == whole.n_steps_ == known["steps"]
    for name, value in make.facts(resumed, "rbm")["sums"].items():
        assert value == pytest.approx(known["sums"][name], rel=1e-9)
