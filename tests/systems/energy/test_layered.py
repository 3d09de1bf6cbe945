"""Machines of layers and links against full enumeration, finite differences and autograd."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from gnomon.contracts import (
    HasBridge,
    HasEnergy,
    HasJointGradient,
    HasLogProb,
    HasMarginalEnergy,
    HasPath,
    HasUnits,
    supports,
)  # fmt: skip
from gnomon.distributions.units import (
    BernoulliUnits,
    CategoricalUnits,
    GaussianUnits,
    IsingUnits,
)  # fmt: skip
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.exact.enumeration import enumerable, log_evidence, weighted_posterior
from gnomon.inference.exact.enumeration import log_partition as by_enumeration
from gnomon.inference.mcmc.gibbs import gibbs, joint_states, kernel_matrix, mean_field
from gnomon.inference.variational.mean_field import factorized_posterior, mean_field_evidence
from gnomon.numeric.noise import Noise, recording
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink
from gnomon.systems.energy.rbm import RBMModel
from oracles.layered import COUPLED, KINDS, SHAPES, VALUES, Table, assert_same, by_differences, filled, machine_of


@pytest.fixture(params=[*itertools.product([*SHAPES, *COUPLED], KINDS)], ids=lambda pair: f"{pair[0]}-{pair[1]}")
def pair(request):
    shape, kind = request.param
    machine = machine_of(shape, KINDS[kind])
    return machine, Table(machine, VALUES[KINDS[kind]])


# --- energies, marginals, conditionals --------------------------------------------------------------------------------


def test_log_partition_and_energies_are_the_brute_force_sums(pair):
    machine, table = pair
    np.testing.assert_allclose(machine.joint_energy(table.state), table.energy, atol=1e-12)
    assert machine.log_partition() == pytest.approx(table.log_z, abs=1e-11)
    assert log_partition(machine, "exact").value == pytest.approx(table.log_z, abs=1e-11)
    for kept in machine.marginal_blocks:
        assert by_enumeration(machine, keep=kept) == pytest.approx(table.log_z, abs=1e-11)


def test_every_set_that_can_be_kept_has_the_enumerated_marginal(pair):
    machine, table = pair
    sets = {kept for n in range(1, 5) for kept in itertools.combinations(machine.blocks, n)}
    allowed = {kept for kept in sets if any(set(least) <= set(kept) for least in machine.marginal_blocks)}
    for kept in allowed:
        state, energy = table.marginal(kept)
        np.testing.assert_allclose(machine.marginal_energy(state), energy, atol=1e-11)
    for kept in sets - allowed:
        with pytest.raises(UserValueError, match="keep must hold"):
            machine.marginal_energy({block: table.state[block] for block in kept})


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("three", {("visible", "top"), ("middle",)}),
        ("four", {("a", "c"), ("b", "d"), ("b", "c")}),
        ("graph", {("v", "y"), ("v", "x", "z"), ("x", "y", "z")}),
    ],
)
def test_the_smallest_sets_are_the_complements_of_the_largest_without_a_link(shape, expected):
    assert set(machine_of(shape).marginal_blocks) == expected


def test_conditionals_are_ratios_of_the_table(pair):
    machine, table = pair
    for block in sorted(set(machine.blocks) - machine.coupled):
        found = machine.conditional(block, {name: x for name, x in table.state.items() if name != block})
        for row in (0, 5, min(77, len(table.p) - 2), len(table.p) - 1):
            same = np.ones(len(table.p), bool)
            for other in machine.blocks:
                if other != block:
                    same &= (table.state[other] == table.state[other][row]).all(1)
            p = table.p[same] / table.p[same].sum()
            np.testing.assert_allclose(found.mean[row], p @ table.state[block][same], atol=1e-12)
            assert found.log_prob(table.state[block])[row] == pytest.approx(np.log(table.p[row] / table.p[same].sum()))
            entropy = -(p * np.log(p)).sum()
            assert found.entropy()[row] == pytest.approx(entropy, abs=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sweep_leaves_the_joint_distribution_invariant(shape):
    machine = machine_of(shape)
    for model in (machine, machine.bridge(machine.base(np.full(machine.sizes[machine.observed], 0.3)), 0.4)):
        states = joint_states(model)
        table = Table(model)
        for name, x in states.items():
            np.testing.assert_array_equal(x, table.state[name])
        for order in (None, *[(block,) for block in model.blocks], model.blocks[::-1]):
            np.testing.assert_allclose(kernel_matrix(model, order) @ table.p, table.p, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_sweeps_of_chains_that_follow_the_table_follow_it_still(kind):
    machine, n = machine_of("three", KINDS[kind]), 5_000
    table = Table(machine, VALUES[KINDS[kind]])
    rows = np.random.default_rng(0).choice(len(table.p), n, p=table.p)
    noise = Noise(0, "chains").rows(np.arange(n))
    with recording():
        end = gibbs(machine, {block: x[rows] for block, x in table.state.items()}, noise, steps=3)
    units = np.concatenate([end[block] for block in machine.blocks], axis=1)
    assert set(np.unique(units)) == set(VALUES[KINDS[kind]])
    counts = np.bincount((units > 0) @ (1 << np.arange(8, -1, -1)), minlength=512)
    many = table.p * n > 5
    expected = [*(table.p[many] * n), table.p[~many].sum() * n]
    assert chisquare([*counts[many], counts[~many].sum()], expected).pvalue > 1e-4  # false alarm 1e-4


# --- gradients --------------------------------------------------------------------------------------------------------


def test_joint_gradient_is_the_finite_difference_and_autograds(pair):
    machine, table = pair
    rows = np.arange(0, len(table.p), 7)
    state = {block: x[rows] for block, x in table.state.items()}
    weight = np.linspace(-1, 2, len(rows))
    found = machine.joint_gradient(state, weight)
    assert_same(found, by_differences(machine, lambda m: weight @ m.joint_energy(state)), 1e-7)
    tensors = {block: torch.from_numpy(x) for block, x in state.items()}
    (torch.from_numpy(weight) * machine.joint_energy(tensors)).sum().backward()
    assert_same(found, {name: p.grad.numpy() for name, p in machine.named_parameters()}, 1e-10)
    assert_same(machine.joint_gradient(tensors, torch.from_numpy(weight)), found, 1e-12)


def test_marginal_gradient_is_autograds_on_every_set(pair):
    machine, table = pair
    for kept in machine.marginal_blocks:
        state, _ = table.marginal(kept)
        weight = np.linspace(-1, 2, len(state[kept[0]]))
        found = machine.marginal_gradient(state, weight)
        machine.zero_grad()
        tensors = {block: torch.from_numpy(x) for block, x in state.items()}
        (torch.from_numpy(weight) * machine.marginal_energy(tensors)).sum().backward()
        assert_same(found, {name: p.grad.numpy() for name, p in machine.named_parameters()}, 1e-10)
        assert_same(machine.marginal_gradient(tensors, torch.from_numpy(weight)), found, 1e-12)


# --- the observed layer -----------------------------------------------------------------------------------------------


def test_the_energy_and_the_probability_of_the_observed_layer(pair):
    machine, table = pair
    state, energy = table.marginal((machine.observed,))
    x = state[machine.observed]
    np.testing.assert_allclose(machine.energy(x), energy, atol=1e-11)
    np.testing.assert_allclose(log_evidence(machine, {machine.observed: x}), -energy, atol=1e-11)
    assert np.exp(machine.log_prob(x)).sum() == pytest.approx(1, abs=1e-11)


def test_the_posterior_of_rows_is_that_of_the_table(monkeypatch):
    from gnomon.inference.exact import enumeration

    machine = machine_of("three")
    table = Table(machine)
    x, _ = table.marginal(("visible",))
    rows = x["visible"][[3, 9, 14]]
    for chunk in (1 << 21, 9 * 4):  # few states at a time
        monkeypatch.setattr(enumeration, "_CHUNK_NUMBERS", chunk)
        monkeypatch.setattr(enumeration, "_rows", lambda model, chunk=chunk: max(chunk // 9, 1))
        mean, total = np.zeros((3, 2)), np.zeros(3)
        for state, log_p, here in weighted_posterior(machine, {"visible": rows}):
            p = np.exp(log_p)
            total[here] += p.sum(1)
            mean[here] += (p[..., None] * state["top"].reshape(*p.shape, -1)).sum(1)
            np.testing.assert_array_equal(state["visible"].reshape(*p.shape, -1)[:, 0], rows[here])
        np.testing.assert_allclose(total, 1, atol=1e-12)
        for k, row in enumerate(rows):
            same = (table.state["visible"] == row).all(1)
            expected = (table.p[same] @ table.state["top"][same]) / table.p[same].sum()
            np.testing.assert_allclose(mean[k], expected, atol=1e-12)


def test_mean_field_solves_its_equations_and_bounds_the_evidence(pair):
    machine, table = pair
    state, energy = table.marginal((machine.observed,))
    x = state[machine.observed]
    means = mean_field(machine, {machine.observed: (x, None)}, steps=2000, tol=1e-12)
    for block in machine.blocks:
        if block != machine.observed:
            np.testing.assert_allclose(machine.conditional(block, means).mean, means[block], atol=1e-10)
    bounds = [mean_field_evidence(machine, {machine.observed: x}, steps=steps, tol=0.0) for steps in (1, 2, 5, 2000)]
    assert all((bound <= -energy + 1e-12).all() for bound in bounds)
    assert (bounds[-1] > bounds[0] - 1e-12).all()
    exact = (
        set(machine.blocks) - machine.coupled >= set(machine.blocks) - {machine.observed} and len(machine.blocks) < 3
    )
    assert (bounds[-1] < -energy - 1e-6).any() != exact  # hidden layers that are independent given the data


def test_mean_field_stops_where_no_mean_moves():
    machine = machine_of("three")
    x = np.ones((2, 4))
    far = mean_field(machine, {"visible": (x, None)}, steps=500)
    near = mean_field(machine, {"visible": (x, None)}, steps=500, tol=1e-3)
    assert 0 < max(np.abs(far[b] - near[b]).max() for b in far) < 1e-2


T2 = (np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([[0.7, -0.5], [0.2, 1.0]]))
"""Two visible units and two hidden layers of two, without biases."""


def toy_t2():
    units = {"visible": BernoulliUnits(2), "h1": BernoulliUnits(2), "h2": BernoulliUnits(2)}
    machine = LayeredMachine(units, [("visible", "h1"), ("h1", "h2")], dtype=torch.float64)
    with torch.no_grad():
        for link, W in zip(machine.links, T2, strict=True):
            machine.get_parameter(link.names["weight"]).copy_(torch.from_numpy(W))
    return machine


def test_two_hidden_layers_in_numbers():
    machine, v = toy_t2(), BernoulliUnits(2).states(np.arange(4))
    assert machine.log_partition() == pytest.approx(5.991623, abs=5e-7)
    np.testing.assert_allclose(np.exp(machine.log_prob(v)), (0.065652, 0.461550, 0.073396, 0.399402), atol=5e-7)
    found = factorized_posterior(machine, {"visible": v}, steps=500, tol=1e-12)
    np.testing.assert_allclose(found["h1"].mean[[3, 0]], [[0.842105, 0.850954], [0.534198, 0.673747]], atol=5e-7)
    np.testing.assert_allclose(found["h2"].mean[[3, 0]], [[0.681281, 0.605850], [0.624499, 0.600284]], atol=5e-7)
    bound = mean_field_evidence(machine, {"visible": v}, steps=500, tol=1e-12) - machine.log_partition()
    np.testing.assert_allclose(bound, (-2.772829, -0.799499, -2.658663, -0.945829), atol=5e-7)


@pytest.mark.spec("GEN-020")
def test_even_then_odd_layers_are_two_updates_of_a_sweep_whatever_the_depth():
    """Of T2 and of four layers: two block updates are the layer-by-layer sweep, and leave the joint as it is."""
    for machine in (toy_t2(), machine_of("four")):
        table, blocks = Table(machine), machine.blocks
        even, odd = blocks[::2], blocks[1::2]
        sweep = kernel_matrix(machine, (*even, *odd))
        np.testing.assert_allclose(sweep @ table.p, table.p, atol=1e-14)
        for half in (even, odd):  # a half is one update: the order within it makes no difference
            np.testing.assert_allclose(kernel_matrix(machine, half), kernel_matrix(machine, half[::-1]), atol=1e-14)
        layers = np.linalg.matrix_power(kernel_matrix(machine, blocks), 4000)
        np.testing.assert_allclose(layers, np.linalg.matrix_power(sweep, 4000), atol=1e-9)
        np.testing.assert_allclose(layers[:, 0], table.p, atol=1e-9)
        value = np.ones((1, machine.sizes[blocks[0]]))
        clamp = {blocks[0]: (value, np.arange(value.shape[1])[None] < 1)}
        start = {block: np.zeros((50, n)) for block, n in machine.sizes.items()}
        walked = gibbs(machine, start, Noise(0, "walk"), steps=5, clamp=clamp)[blocks[0]]
        assert (walked[:, 0] == 1).all() and 0 < walked[:, 1:].mean() < 1


@pytest.mark.spec("GEN-020")
def test_clamped_units_stay_and_every_other_layer_follows_their_conditional_law():
    """T2 with a unit of each layer held: the kernel's law, and 20,000 chains of it by chi-square; false alarm 1e-4."""
    machine, order = toy_t2(), ("visible", "h2", "h1")
    hold = {"visible": ([[1.0, 0.0]], [[True, False]]), "h1": ([[0.0, 0.0]], [[False, True]]),
            "h2": ([[0.0, 1.0]], [[False, True]])}  # fmt: skip
    clamp = {block: (np.array(value), np.array(mask)) for block, (value, mask) in hold.items()}
    table = Table(machine)
    held = np.ones(len(table.p), dtype=bool)
    for block, (value, mask) in clamp.items():
        held &= (table.state[block] == value)[:, mask[0]].all(1)
    law = table.p[held] / table.p[held].sum()
    np.testing.assert_allclose(kernel_matrix(machine, order, clamp) @ law, law, atol=1e-14)
    n = 20_000
    start = {block: np.tile(value, (n, 1)) for block, (value, _) in clamp.items()}
    end = gibbs(machine, start, Noise(0, "walk").rows(np.arange(n)), steps=30, order=order, clamp=clamp)
    for block, (value, mask) in clamp.items():
        assert (end[block] == value)[:, mask[0]].all()
    free = np.concatenate([end[block][:, ~mask[0]] for block, (_, mask) in clamp.items()], axis=1)
    counts = np.bincount((free @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, n * law).pvalue > 1e-4 and law.min() > 0.01


# --- the restricted machine, types, refusals --------------------------------------------------------------------------


def test_the_restricted_machine_is_the_case_of_two_layers():
    random = np.random.default_rng(0)
    W, b, c = random.normal(size=(5, 3)), random.normal(size=5), random.normal(size=3)
    rbm = RBMModel.of(W, b, c)
    units = {"visible": BernoulliUnits(5), "hidden": BernoulliUnits(3)}
    machine = LayeredMachine(units, [DenseLink("visible", "hidden", name="")], dtype=torch.float64)
    machine.load(rbm.state())
    v, h = (random.random((7, 5)) < 0.5).astype(float), (random.random((7, 3)) < 0.5).astype(float)
    state, weight = {"visible": v, "hidden": h}, random.normal(size=7)
    np.testing.assert_array_equal(rbm.joint_energy(state), -(v @ b) - h @ c - ((v @ W) * h).sum(-1))
    np.testing.assert_array_equal(machine.joint_energy(state), rbm.joint_energy(state))
    np.testing.assert_array_equal(machine.energy(v), rbm.energy(v))
    assert machine.log_partition() == rbm.log_partition()
    assert_same(machine.joint_gradient(state, weight), rbm.joint_gradient(state, weight), 0)
    assert_same(machine.marginal_gradient({"visible": v}, weight), rbm.energy_gradient(v, weight)[0], 1e-13)
    noise = Noise(0, "x").rows(np.arange(7))
    for block in ("visible", "hidden"):
        drawn = machine.conditional(block, state).sample(noise, 0)
        np.testing.assert_array_equal(drawn, rbm.conditional(block, state).sample(noise, 0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_are_answered_as_arrays_are(dtype):
    machine = machine_of("three").to(dtype)
    random = np.random.default_rng(0)
    kind = np.float32 if dtype == torch.float32 else np.float64
    state = {block: (random.random((6, n)) < 0.5).astype(kind) for block, n in machine.sizes.items()}
    tensors = {block: torch.from_numpy(x) for block, x in state.items()}
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13
    kept = {"visible": state["visible"], "top": state["top"]}
    pairs = [
        (machine.joint_energy(state), machine.joint_energy(tensors)),
        (machine.marginal_energy(kept), machine.marginal_energy({block: tensors[block] for block in kept})),
        (machine.energy(state["visible"]), machine.energy(tensors["visible"])),
        (machine.conditional("middle", state).mean, machine.conditional("middle", tensors).mean),
    ]
    for array, tensor in pairs:
        assert isinstance(array, np.ndarray) and isinstance(tensor, torch.Tensor)
        assert array.dtype == kind and tensor.dtype == dtype
        np.testing.assert_allclose(tensor.detach().numpy(), array, rtol=tolerance, atol=tolerance)
    noise = Noise(0, "walk").rows(np.arange(6))
    walked, other = gibbs(machine, state, noise, steps=3), gibbs(machine, tensors, noise, steps=3)
    for block in walked:
        np.testing.assert_array_equal(other[block].numpy(), walked[block])  # no uniform number lies between roundings


def test_contracts_of_the_instance():
    small, deep = machine_of("three"), LayeredMachine(
        {"v": BernoulliUnits(50), "h": BernoulliUnits(40), "t": BernoulliUnits(30)}, [("v", "h"), ("h", "t")]
    )  # fmt: skip
    for contract in (HasUnits, HasJointGradient, HasMarginalEnergy, HasBridge, HasPath):
        assert supports(small, contract) and supports(deep, contract)
    assert supports(small, HasLogProb) and supports(small, HasEnergy)
    assert not supports(deep, HasLogProb) and not supports(deep, HasEnergy)
    assert not enumerable(deep)


def test_initial_parameters_follow_the_noise_and_the_means():
    machine = LayeredMachine({"v": BernoulliUnits(40), "h": BernoulliUnits(30)}, [("v", "h")])
    machine.initialize(Noise(0, "initial"), np.full(40, 0.2))
    assert 0.009 < machine.state()["v_h_weight"].std() < 0.011  # 1200 numbers of standard deviation 0.01; a fixed seed
    np.testing.assert_allclose(machine.state()["v_bias"], np.log(0.25), rtol=1e-6)
    assert not machine.state()["h_bias"].any()


@pytest.mark.parametrize(
    ("units", "links", "match"),
    [
        ({"a": BernoulliUnits(2)}, [("a", "b")], "layer 'b' is unknown"),
        ({"a": BernoulliUnits(2)}, [("a", "a"), ("a", "a")], "join two layers once"),
        ({"a": CategoricalUnits(2, 3)}, [("a", "a")], "units of 'a' are coupled to each other, and take more than two"),
        ({"a": GaussianUnits(2)}, [("a", "a")], "take more than two values"),
        ({"a": BernoulliUnits(2), "b": BernoulliUnits(2)}, [("a", "b"), ("b", "a")], "join two layers once"),
        ({"a": 3}, [], "units must map"),
        ({}, [], "units must map"),
    ],
)
def test_graphs_that_are_none_are_refused(units, links, match):
    with pytest.raises((UserTypeError, UserValueError), match=match):
        LayeredMachine(units, links)


def test_units_and_the_observed_layer_are_checked():
    with pytest.raises(UserValueError, match="n must be at least 1, got 0"):
        BernoulliUnits(0)
    with pytest.raises(UserTypeError, match="n must be a whole number"):
        IsingUnits(1.5)
    with pytest.raises(UserValueError, match="observed must be one of a"):
        LayeredMachine({"a": BernoulliUnits(2)}, [], observed="b")
    with pytest.raises(UserValueError, match="cannot be counted"):
        GaussianUnits(2).states(np.arange(2))


def test_a_single_layer_is_independent_units():
    machine = filled(LayeredMachine({"v": BernoulliUnits(3)}, [], dtype=torch.float64))
    x = BernoulliUnits(3).states(np.arange(8))
    assert machine.marginal_blocks == (("v",),)
    assert np.exp(machine.log_prob(x)).sum() == pytest.approx(1, abs=1e-12)
