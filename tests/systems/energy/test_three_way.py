"""Couplings among three layers and the machines made of them, against plain loops over all states and differences."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax

from gnomon.distributions.units import BernoulliUnits, IsingUnits
from gnomon.errors import UserTypeError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.exact.enumeration import log_evidence
from gnomon.inference.exact.enumeration import log_partition as by_enumeration
from gnomon.inference.mcmc.gibbs import joint_states, kernel_matrix
from gnomon.inference.variational.mean_field import factorized_posterior, mean_field_evidence
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.systems.energy.given import given_columns
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink
from gnomon.systems.energy.pointwise_gated_rbm import PointwiseGatedModel, PointwiseGatedRBM
from gnomon.systems.energy.rbm import RBMModel
from gnomon.systems.energy.three_way import FactoredLink, MaskLink, ThreeWayLink
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled
from oracles.principles import begun, mean_gradient

LINKS = {
    "tensor": lambda: [ThreeWayLink("a", "b", "c")],
    "factored": lambda: [FactoredLink("a", "b", "c", 2)],
    "mask": lambda: [MaskLink("a", "b", "c")],
    "inverse": lambda: [DenseLink("b", "c", name="a_b_c"), MaskLink("a", "b", "c", inverse=True)],
}
VALUES = {BernoulliUnits: (0.0, 1.0), IsingUnits: (-1.0, 1.0)}


def tensor_of(which, p):
    """The weights of every triple, and those of the pairs (b, c), by loops."""
    if which == "tensor":
        return p["a_b_c_weight"], 0
    if which == "factored":
        A, B, C = (p[f"a_b_c_{name}"] for name in ("first", "second", "third"))
        T = np.zeros((3, 3, 2))
        for i, j, k in np.ndindex(3, 3, 2):
            T[i, j, k] = sum(A[i, f] * B[j, f] * C[k, f] for f in range(2))
        return T, 0
    W, T = p["a_b_c_weight"], np.zeros((3, 3, 2))
    for i in range(3):
        T[i, i] = W[i] if which == "mask" else -W[i]
    return T, (W if which == "inverse" else 0)


class Case:
    """A machine a, b, c with one link of three and one of two, b and d; its joint states with their energies."""

    def __init__(self, which, kind=BernoulliUnits, seed=0):
        units = {"a": kind(3), "b": kind(3), "c": kind(2), "d": kind(2)}
        self.machine = filled(LayeredMachine(units, [*LINKS[which](), ("b", "d")], dtype=torch.float64), seed)
        states = np.array(list(itertools.product(VALUES[kind], repeat=10)))
        self.state = dict(zip("abcd", np.split(states, [3, 6, 8], axis=1), strict=True))
        p = self.machine.state()
        T, pairs = tensor_of(which, p)
        a, b, c, d = self.state.values()
        self.energy = -sum(self.state[name] @ p[f"{name}_bias"] for name in "abcd") - ((b @ p["b_d_weight"]) * d).sum(1)
        for i, j, k in np.ndindex(3, 3, 2):
            self.energy = self.energy - T[i, j, k] * a[:, i] * b[:, j] * c[:, k]
        self.energy = self.energy - ((b @ (pairs + np.zeros((3, 2)))) * c).sum(1)
        self.log_z = logsumexp(-self.energy)
        self.p = np.exp(-self.energy - self.log_z)


@pytest.fixture(params=[*itertools.product(LINKS, VALUES)], ids=lambda pair: f"{pair[0]}-{pair[1].__name__}")
def case(request):
    return Case(*request.param)


def test_energies_marginals_and_conditionals_are_those_of_the_table(case):
    machine, table = case.machine, case.state
    np.testing.assert_allclose(machine.joint_energy(table), case.energy, atol=1e-12)
    assert machine.log_partition() == pytest.approx(case.log_z, abs=1e-11)
    for kept in machine.marginal_blocks:
        assert by_enumeration(machine, keep=kept) == pytest.approx(case.log_z, abs=1e-11)
        joined = np.concatenate([table[block] for block in kept], axis=1)
        _, index = np.unique(joined, axis=0, return_inverse=True)
        first = np.unique(index.ravel(), return_index=True)[1]
        expected = [-logsumexp(-case.energy[index.ravel() == k]) for k in range(len(first))]
        found = machine.marginal_energy({block: table[block][first] for block in kept})
        np.testing.assert_allclose(found, expected, atol=1e-11)
    for block in machine.blocks:
        others = {name: x for name, x in table.items() if name != block}
        found = machine.conditional(block, others).mean
        for row in (0, 77, 500, 1023):
            same = np.all([(x == x[row]).all(1) for x in others.values()], axis=0)
            p = case.p[same] / case.p[same].sum()
            np.testing.assert_allclose(found[row], p @ table[block][same], atol=1e-12)


def test_two_ends_of_a_link_of_three_are_never_summed_out_together(case):
    for kept in case.machine.marginal_blocks:
        assert len({"a", "b", "c"} - set(kept)) <= 1


def test_gradients_are_finite_differences_and_autograds(case):
    machine = case.machine
    rows = np.arange(0, 1024, 37)
    state, weight = {block: x[rows] for block, x in case.state.items()}, np.linspace(-1, 2, 28)
    found = machine.joint_gradient(state, weight)
    assert_same(found, by_differences(machine, lambda m: weight @ m.joint_energy(state)), 1e-7)
    tensors = {block: torch.from_numpy(x) for block, x in state.items()}
    (torch.from_numpy(weight) * machine.joint_energy(tensors)).sum().backward()
    assert_same(found, {name: value.grad.numpy() for name, value in machine.named_parameters()}, 1e-10)
    assert_same(machine.joint_gradient(tensors, torch.from_numpy(weight)), found, 1e-12)


def test_a_row_alone_and_mean_field_against_the_table(case):
    """Energy and gradient of each row of a, all else summed out; the mean-field bound lies below."""
    machine, rows = case.machine, np.unique(case.state["a"], axis=0)
    mass = np.array([logsumexp(-case.energy[(case.state["a"] == row).all(1)]) for row in rows])
    np.testing.assert_allclose(-machine.energy(rows), mass, atol=1e-11)
    assert (mean_field_evidence(machine, {"a": rows}, steps=50) < mass + 1e-9).all()
    q = factorized_posterior(machine, {"a": rows}, steps=50)
    weight = np.linspace(0.5, 2, 8)
    bound = lambda m: weight @ (m.joint_energy(q) - sum(q[block].entropy() for block in "bcd"))  # noqa: E731
    assert_same(machine.joint_gradient(q, weight), by_differences(machine, bound), 1e-6)
    found = mean_gradient(begun(Exact(), machine, rows, weight), machine, rows, weight=weight)

    def loss(m):
        return -(weight @ (-m.energy(rows) - m.log_partition())) / weight.sum()

    assert_same(found, by_differences(machine, loss), 1e-6)


@pytest.mark.parametrize("which", LINKS)
def test_sweeps_leave_the_distribution_as_it_is(which):
    case = Case(which)
    for block, x in joint_states(case.machine).items():
        np.testing.assert_array_equal(x, case.state[block])
    for order in (None, ("c", "a"), ("d", "b", "c", "a")):
        np.testing.assert_allclose(kernel_matrix(case.machine, order) @ case.p, case.p, atol=1e-12)


@pytest.mark.parametrize("which", LINKS)
def test_the_bridge_is_a_geometric_path_and_annealing_finds_log_z(which):
    case = Case(which)
    base = case.machine.base(np.full(3, 0.3))
    middle = case.machine.bridge(base, 0.3)
    expected = 0.7 * base.joint_energy(case.state) + 0.3 * case.energy
    np.testing.assert_allclose(middle.joint_energy(case.state), expected, atol=1e-12)
    found = log_partition(case.machine, "ais", Noise(0, "ais"), chains=500, schedule=100)
    assert abs(found.value - case.log_z) < 5 * found.error  # false alarm below 1e-6
    if which == "factored":
        with pytest.raises(UserTypeError, match="must have none"):
            case.machine.bridge(filled(Case(which).machine, 1), 0.5)


@pytest.mark.parametrize("which", LINKS)
def test_unseen_units_of_a_layer_are_summed_out(which):
    """Of each end in turn: evidence of some of its columns, by the table."""
    for observed in "abc":
        case = Case(which)
        case.machine.observed = observed
        seen = np.arange(case.machine.sizes[observed]) != 1
        given = given_columns(case.machine, seen)
        rows = np.unique(case.state[observed][:, seen], axis=0)
        whole = np.zeros((len(rows), len(seen)))
        whole[:, seen] = rows
        mass = [logsumexp(-case.energy[(case.state[observed][:, seen] == row).all(1)]) for row in rows]
        np.testing.assert_allclose(log_evidence(given.machine, given.state(whole)), mass, atol=1e-11)


def test_a_tensor_made_of_factors_is_the_factored_link():
    factored, tensor = Case("factored").machine, Case("tensor").machine
    p = factored.state()
    W = np.einsum("if,jf,kf->ijk", *(p[f"a_b_c_{name}"] for name in ("first", "second", "third")))
    tensor.load({name: p.get(name, W) for name in tensor.state()})
    state = Case("tensor").state
    np.testing.assert_allclose(factored.joint_energy(state), tensor.joint_energy(state), atol=1e-12)
    for block in "abc":
        others = {name: x for name, x in state.items() if name != block}
        np.testing.assert_allclose(
            factored.conditional(block, others).mean, tensor.conditional(block, others).mean, atol=1e-12
        )


def test_centered_coordinates_are_refused():
    case = Case("mask")
    with pytest.raises(UserTypeError, match="join two layers each"):
        case.machine.centered({block: np.zeros(n) for block, n in case.machine.sizes.items()})


# --- the point-wise gated machine -------------------------------------------------------------------------------------


def gated(d=2, m=2, g=0, seed=0):
    return filled(PointwiseGatedModel(d, m, g, torch.float64), seed)


def pointwise_energy(model):
    """E of the definition, term by term."""
    p = model.state()
    d, m = p["weight"].shape

    def energy(v, z, h, g=()):
        total = v @ p["visible_bias"] + z @ p["mask_bias"] + h @ p["hidden_bias"]
        total += sum(z[i] * v[i] * p["weight"][i, j] * h[j] for i in range(d) for j in range(m))
        for j, unit in enumerate(g):
            total += p["background_bias"][j] * unit
            total += sum((1 - z[i]) * v[i] * p["background_weight"][i, j] * unit for i in range(d))
        return -total

    return energy


@pytest.mark.spec("GEN-065")
@pytest.mark.parametrize("n_background", [0, 2])
def test_the_pointwise_machine_by_enumeration(n_background):
    """2 columns, 2 bits of the mask, 2 hidden units (and 2 of the background): all of it by loops."""
    model, d, m = gated(g=n_background), 2, 2
    energy = pointwise_energy(model)
    others = all_states(n_background) if n_background else [()]
    V, Z, H = all_states(d), all_states(d), all_states(m)
    mass = np.array([[[[-energy(v, z, h, g) for g in others] for h in H] for z in Z] for v in V])
    np.testing.assert_allclose(-model.energy(V), logsumexp(mass, axis=(1, 2, 3)), atol=1e-12)
    assert model.log_partition() == pytest.approx(logsumexp(mass), abs=1e-12)
    system = PointwiseGatedRBM(n_hidden=m, n_background=n_background, epochs=1, random_state=0, dtype="float64").fit(V)
    system.model_ = model
    posterior = np.exp(mass - logsumexp(mass, axis=(1, 2, 3), keepdims=True))
    np.testing.assert_allclose(system.mask_posterior(V), posterior.sum((2, 3)) @ Z, atol=1e-12)
    np.testing.assert_allclose(system.transform(V), posterior.sum((1, 3)) @ H, atol=1e-12)
    np.testing.assert_allclose(system.log_prob(V), logsumexp(mass, axis=(1, 2, 3)) - logsumexp(mass), atol=1e-10)
    # not factorial: the pair of a bit of the mask and a hidden unit
    pair = posterior.sum(3)[3].reshape(4, 4)
    assert abs(pair[2:].sum(0)[2:].sum() - pair[2:].sum() * pair[:, 2:].sum()) > 1e-3
    n = 4_000
    X = system.sample(n, steps=30, random_state=0)
    counts = np.bincount((X @ [2, 1]).astype(int), minlength=4)
    p = softmax(logsumexp(mass, axis=(1, 2, 3)))
    assert (abs(counts / n - p) < 5 * np.sqrt(p * (1 - p) / n)).all()  # false alarm below 1e-5
    mean = np.array([softmax(logsumexp(mass, axis=(1, 2, 3))[[2 * a, 2 * a + 1]])[1] for a in (0, 1)])
    gaps = np.array([[0.0, np.nan], [1.0, np.nan]])
    np.testing.assert_allclose(system.impute(gaps)[:, 1], mean, atol=1e-10)
    np.testing.assert_allclose(system.impute(gaps, method="gibbs", steps=2_000)[:, 1], mean, atol=0.08)


@pytest.mark.spec("GEN-065")
def test_a_mask_that_shows_all_is_the_restricted_machine_and_one_that_hides_all_independent_columns():
    model = gated(3, 2)
    p = model.state()
    V, H = all_states(3), all_states(2)
    rbm = RBMModel.of(p["weight"], p["visible_bias"], p["hidden_bias"])
    shown = {"visible": V, "mask": np.ones((8, 3))}
    np.testing.assert_allclose(model.marginal_energy(shown) + p["mask_bias"].sum(), rbm.energy(V), atol=1e-12)
    np.testing.assert_allclose(
        model.conditional("hidden", shown).mean, rbm.conditional("hidden", {"visible": V}).mean, atol=1e-12
    )
    weight = np.linspace(-1, 2, 8)
    found, expected = model.marginal_gradient(shown, weight), rbm.marginal_gradient({"visible": V}, weight)
    assert_same({name: found[name] for name in expected}, expected, 1e-12)
    hidden = {"visible": V, "mask": np.zeros((8, 3))}
    off = 1 / (1 + np.exp(-p["hidden_bias"]))
    np.testing.assert_allclose(model.conditional("hidden", hidden).mean, np.tile(off, (8, 1)), atol=1e-12)
    columns = model.conditional("visible", {"hidden": H, "mask": np.zeros((4, 3))}).mean
    np.testing.assert_allclose(columns, np.tile(1 / (1 + np.exp(-p["visible_bias"])), (4, 1)), atol=1e-12)
    # by its bias instead of being held
    open_ = gated(3, 2)
    open_.load({**p, "mask_bias": np.full(3, 60.0)})
    np.testing.assert_allclose(open_.energy(V) + 180, rbm.energy(V), atol=1e-10)
    assert open_.log_partition() - 180 == pytest.approx(rbm.log_partition(), abs=1e-10)


@pytest.mark.spec("GEN-065")
def test_background_units_see_what_the_mask_hides():
    model = gated(3, 2, 2)
    p = model.state()
    V = all_states(3)
    other = RBMModel.of(p["background_weight"], p["visible_bias"], p["background_bias"])
    state = {"visible": V, "mask": np.zeros((8, 3))}
    np.testing.assert_allclose(
        model.conditional("background", state).mean, other.conditional("hidden", {"visible": V}).mean, atol=1e-12
    )
    half = np.tile([1.0, 0.0, 1.0], (8, 1))
    fields = np.log(model.conditional("background", {"visible": V, "mask": half}).mean)
    expected = V[:, 1:2] @ p["background_weight"][1:2] + p["background_bias"]
    np.testing.assert_allclose(fields, -np.log1p(np.exp(-expected)), atol=1e-12)


@pytest.mark.spec("GEN-065")
@pytest.mark.parametrize("recipe", [CD(k=3), PCD(k=3, n_chains=4_000)], ids=["cd", "pcd"])
def test_chains_give_the_gradient_that_they_claim(recipe):
    """Mean over many rows, posterior and chains at their ends: the likelihood's gradient, within what chance moves.

    The chains of CD start at the model's own distribution, which they leave as it is: the gradient of data drawn from
    the model is 0. PCD is compared after it has settled. False alarm below 1e-5 by bounds of 5 standard errors.
    """
    model, random = gated(3, 2), np.random.default_rng(0)
    V = all_states(3)
    X = V[random.choice(8, 4_000, p=np.exp(model.log_prob(V)))]
    objective = begun(recipe, model, X)
    for update in range(30 if recipe.short == "pcd" else 1):
        found = mean_gradient(objective, model, X, update=update)
    for value in found.values():
        assert abs(value).max() < 5 * np.sqrt(2 / 4_000)


@pytest.mark.spec("GEN-065")
def test_the_mask_leaves_noise_columns_out():
    """Columns in two groups that repeat each other, and columns of chance: these are what hidden units need not see."""
    random = np.random.default_rng(0)
    X = np.repeat((random.random((400, 2)) < 0.5).astype(float), 3, axis=1)
    X = np.hstack([X, (random.random((400, 3)) < 0.5).astype(float)])
    system = PointwiseGatedRBM(n_hidden=4, epochs=30, learning_rate=0.04, random_state=0).fit(X)
    independent = 9 * np.log(0.5)
    assert system.score(X) > independent + 1.5  # 2 bits in place of 6 would be 2.77 above
    size = np.abs(system.weights_).sum(1) * system.mask_posterior(X).mean(0)
    assert size[:6].min() > 1.5 * size[6:].max()


def test_wrong_input_of_the_pointwise_machine_is_refused_in_one_line():
    X = all_states(3)
    with pytest.raises(UserTypeError, match="pseudolikelihood needs observed units"):
        PointwiseGatedRBM(n_hidden=2, objective="pseudolikelihood", epochs=1).fit(X)
    with pytest.raises(UserTypeError, match="join two layers each"):
        PointwiseGatedRBM(n_hidden=2, objective="centered", epochs=1).fit(X)
