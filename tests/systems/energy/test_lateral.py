"""Units coupled within their layer: every mechanism against the table of the joint distribution, by plain loops."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.units import BernoulliUnits, IsingUnits
from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.mcmc.density import TemperedBlocks
from gnomon.inference.mcmc.gibbs import block_kernel, gibbs, joint_states, kernel_matrix, mean_field
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.inference.mcmc.site_updates import drawn_by_sites
from gnomon.inference.mcmc.sweeps import Gibbs
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.positive import MeanField
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.objectives.site_sets import Blocks, Pairs, Singletons
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, LateralLink
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.layered import COUPLED, KINDS, VALUES, Table, assert_same, by_differences, filled, machine_of


def units_of(table):
    """All units side by side, and the layer and place of each."""
    places = [(block, i) for block in table.blocks for i in range(table.sizes[block])]
    return np.concatenate([table.state[block] for block in table.blocks], axis=1), places


def one_unit(table, unit):
    """T[i, j] of redrawing one unit given all others, from the table."""
    x, p = units_of(table)[0], table.p
    same = (np.delete(x, unit, 1)[:, None] == np.delete(x, unit, 1)[None]).all(-1)
    return same * p[:, None] / (same * p[:, None]).sum(0)


def sweep_of(table, block, free=None):
    """The kernel of one sweep over the units of a layer."""
    kernel = np.eye(len(table.p))
    for unit, (name, i) in enumerate(units_of(table)[1]):
        if name == block and (free is None or free[i]):
            kernel = one_unit(table, unit) @ kernel
    return kernel


# --- conditionals, chains ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", COUPLED)
def test_each_unit_given_all_others_is_the_tables(shape, kind):
    machine = machine_of(shape, KINDS[kind])
    table = Table(machine, VALUES[KINDS[kind]])
    x, places = units_of(table)
    for unit, (block, i) in enumerate(places):
        kernel = one_unit(table, unit)
        expected = (x[:, unit] @ kernel)[: len(x)]
        np.testing.assert_allclose(machine.conditional(block, table.state).mean[:, i], expected, atol=1e-12)


@pytest.mark.parametrize("shape", COUPLED)
def test_a_sweep_is_the_product_of_its_units_kernels_and_leaves_the_joint_as_it_is(shape):
    machine = machine_of(shape)
    table = Table(machine)
    for block in machine.coupled:
        expected = sweep_of(table, block)
        np.testing.assert_allclose(kernel_matrix(machine, (block,)), expected, atol=1e-12)
        np.testing.assert_allclose(expected @ table.p, table.p, atol=1e-13)
        held = np.arange(machine.sizes[block]) == 1
        clamp = {block: (np.ones(len(held)), held)}
        states = joint_states(machine, clamp)
        row = {tuple(x): k for k, x in enumerate(units_of(table)[0])}
        here = [row[tuple(x)] for x in np.concatenate([states[b] for b in machine.blocks], 1)]
        inner = sweep_of(table, block, ~held)[np.ix_(here, here)]
        np.testing.assert_allclose(kernel_matrix(machine, (block,), clamp), inner, atol=1e-12)
    both = kernel_matrix(machine) @ table.p
    np.testing.assert_allclose(both, table.p, atol=1e-12)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", COUPLED)
def test_what_chains_do_in_one_sweep_is_the_kernel(shape, kind, dtype, backward):
    """20,000 chains from one state by chi-square; false alarm 1e-3 over all 32 cases."""
    units = KINDS[kind]
    machine = machine_of(shape, units)
    table, n = Table(machine, VALUES[units]), 20_000
    x, places = units_of(table)
    block = sorted(machine.coupled)[0]
    kernel, inside = np.eye(len(x)), [unit for unit, (name, _) in enumerate(places) if name == block]
    for unit in inside[::-1] if backward else inside:
        kernel = one_unit(table, unit) @ kernel
    machine = machine.to(torch.float32 if dtype is np.float32 else torch.float64)
    start = {name: np.repeat(value[5:6].astype(dtype), n, 0) for name, value in table.state.items()}
    before = {name: value.copy() for name, value in start.items()}
    end = gibbs(machine, start, Noise(0, "walk").rows(np.arange(n)), order=(block,), backward=backward)
    assert end[block].dtype == dtype
    for name in start:
        np.testing.assert_array_equal(start[name], before[name])
    index = {tuple(row): k for k, row in enumerate(x)}
    counts = np.bincount(
        [index[tuple(row)] for row in np.concatenate([end[name] for name in table.blocks], 1)], minlength=len(x)
    )
    law = kernel[:, 5] * n
    many = law > 5
    assert counts[law < 1e-9].sum() == 0
    groups = ([*counts[many], counts[~many].sum()], [*law[many], law[~many].sum()])
    groups = groups if law[~many].sum() > 5 else (counts[many] * law[many].sum() / counts[many].sum(), law[many])
    assert chisquare(*groups).pvalue > 1e-3 / 32


def test_tensors_walk_where_arrays_do_on_the_way_of_other_devices_too(monkeypatch):
    from gnomon.inference.mcmc import site_updates

    machine = machine_of("whole")
    random = np.random.default_rng(0)
    state = {block: (random.random((50, n)) < 0.5).astype(float) for block, n in machine.sizes.items()}
    tensors = {block: torch.from_numpy(x) for block, x in state.items()}
    held = {"visible": (np.ones((50, 3)), random.random((50, 3)) < 0.3)}
    noise = Noise(0, "walk").rows(np.arange(50))
    with recording():
        expected = gibbs(machine, state, noise, steps=4, clamp=held)
    assert (expected["visible"][held["visible"][1]] == 1).all()
    for backward in (False, True):
        expected = gibbs(machine, state, noise, steps=4, clamp=held, backward=backward)
        found = gibbs(machine, tensors, noise, steps=4, clamp=held, backward=backward)
        for block in expected:
            np.testing.assert_array_equal(found[block].numpy(), expected[block])

    x, field = tensors["visible"], torch.from_numpy(random.normal(size=(50, 3)))
    coupling = torch.from_numpy(np.array([[0, 1.0, -2], [1, 0, 0.5], [-2, 0.5, 0]]))
    u = torch.from_numpy(random.random((50, 3)))
    for mask in (None, random.random((50, 3)) < 0.3):
        for backward in (False, True):
            plain = drawn_by_sites(
                x.numpy(), field.numpy(), coupling.numpy(), (0.0, 1.0), u.numpy(), mask, backward=backward
            )

            def loop(x, *given, mask=mask, backward=backward):
                threshold = u.log() - (-u).log1p()
                new = lambda f, i: (f > threshold[:, i]).to(x.dtype)  # noqa: E731
                return site_updates._one_by_one(x, field, coupling, mask, new, backward)

            np.testing.assert_array_equal(loop(x).numpy(), plain)


@pytest.mark.spec("INF-73")
def test_without_couplings_a_sweep_draws_the_numbers_of_the_whole_layer():
    random = np.random.default_rng(0)
    rbm = RBMModel.of(random.normal(size=(6, 4)), random.normal(size=6), random.normal(size=4))
    units = {"visible": BernoulliUnits(6), "hidden": BernoulliUnits(4)}
    links = [DenseLink("visible", "hidden", name=""), ("visible", "visible"), ("hidden", "hidden")]
    machine = LayeredMachine(units, links, dtype=torch.float64)
    machine.load({name: rbm.state().get(name, value) for name, value in machine.state().items()})
    v, h = ((random.random((40, n)) < 0.5).astype(float) for n in (6, 4))
    noise = Noise(0, "walk").rows(np.arange(40))
    found = gibbs(machine, {"visible": v, "hidden": h}, noise, steps=3, order=("hidden", "visible"))
    expected = gibbs(rbm, {"visible": v, "hidden": h}, noise, steps=3, order=("hidden", "visible"))
    for block in found:
        np.testing.assert_array_equal(found[block], expected[block])
    np.testing.assert_allclose(machine.energy(v), rbm.energy(v), atol=1e-12)
    assert machine.log_partition() == pytest.approx(rbm.log_partition(), abs=1e-12)
    joint = machine.joint_gradient({"visible": v, "hidden": h}, np.ones(40))
    assert_same(
        {name: joint[name] for name in rbm.state()}, rbm.joint_gradient({"visible": v, "hidden": h}, np.ones(40)), 1e-12
    )


# --- what would be wrong is refused -----------------------------------------------------------------------------------


@pytest.mark.spec("INF-73")
def test_a_coupled_layer_is_never_drawn_at_once():
    machine = machine_of("semi")
    h = np.zeros((2, 3))
    with pytest.raises(UserValueError, match="units of 'visible' are coupled to each other: one is drawn given all"):
        machine.conditional("visible", {"hidden": h})
    with pytest.raises(UserValueError, match="coupled"):
        gibbs(machine, {"hidden": h}, Noise(0, "x"), order=("visible",))
    with pytest.raises(UserValueError, match="coupled"):
        block_kernel(machine, "hidden")
    with pytest.raises(UserTypeError, match="coupled"):
        TemperedBlocks(machine, 0.5)
    with pytest.raises(
        UserValueError,
        match="scan must be systematic or backward where units are coupled within 'visible', got 'random'",
    ):
        Gibbs(scan="random").init({"visible": np.zeros((2, 4)), "hidden": h}, machine)


# --- log Z by estimates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ais", "linked", "bridge"])
@pytest.mark.parametrize("shape", COUPLED)
def test_every_estimate_of_log_z_takes_coupled_layers(shape, method):
    machine = machine_of(shape, scale=0.5)
    options = {"ais": {"schedule": 100}, "linked": {}, "bridge": {"chains": 10, "draws": 300}}[method]
    score = log_partition(machine, method, Noise(0, "z"), **options)
    assert abs(score.value - machine.log_partition()) < 5 * score.error + 1e-9  # fixed seeds


@pytest.mark.parametrize("shape", ["one", "semi"])
def test_a_path_goes_back_by_the_reversal(shape):
    """R(x' | x) p(x) = T(x | x') p(x') over all pairs of states, from 100,000 moves out of each; false alarm 1e-4."""
    machine, n = machine_of(shape, scale=1.0), 40_000
    path = BridgePath(machine, machine.base(), np.array([0.0, 0.5, 1.0]))
    rows, energy = Table(machine).marginal(["visible"])
    x, p = rows["visible"], np.exp(-energy)
    p, k = p / p.sum(), len(x)
    code = x @ (1 << np.arange(x.shape[1]))
    place = np.argsort(code)
    found = {}
    for way in ("move", "back"):
        moves = getattr(path, way)(2, np.repeat(x, n, 0), Noise(0, way).rows(np.arange(k * n)))
        to = place[(moves @ (1 << np.arange(x.shape[1]))).astype(int)]
        found[way] = np.bincount(np.repeat(np.arange(k), n) * k + to, minlength=k * k).reshape(k, k) / n
    there, back = found["move"] * p[:, None], (found["back"] * p[:, None]).T
    error = np.sqrt((found["move"] * p[:, None] ** 2 + (found["back"] * p[:, None] ** 2).T) / n) + 1e-9
    assert np.abs((there - back) / error).max() < 6  # at most 1024 pairs of normal errors
    assert np.abs((there - (found["move"] * p[:, None]).T) / error).max() > 6  # a sweep is not its own reversal


# --- training principles ----------------------------------------------------------------------------------------------


def begun(model, X, weight, objective):
    """The objective before its first update, and all rows as one batch."""
    numbers = np.arange(len(X))
    batch = Batch({"X": X}, numbers, numbers, weight)

    class Rows:
        batch_size = len(X)

        def epoch(self, _):
            yield batch

    built = objective.build()
    built.begin(model, Rows(), Noise(0, "begin"), Group())
    return built, batch


def loss_of(model, X, weight, objective):
    built, batch = begun(model, X, weight, objective)
    return built(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())


def rows_for(machine, values=(0.0, 1.0), n=6):
    random = np.random.default_rng(0)
    return random.choice(values, size=(n, machine.sizes["visible"])), random.uniform(0.5, 2.0, size=n)


def mass_of(machine, values=(0.0, 1.0)):
    states, energy = Table(machine, values).marginal(["visible"])
    return {tuple(row): np.exp(-e) for row, e in zip(states["visible"], energy, strict=True)}


def log_likelihood(machine, X, weight, values=(0.0, 1.0)):
    mass = mass_of(machine, values)
    return float(weight @ np.log([mass[tuple(x)] for x in X]) - weight.sum() * np.log(sum(mass.values())))


@pytest.mark.spec("GEN-004", "INF-73")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", COUPLED)
def test_the_exact_gradient_is_data_minus_model_statistics(shape, kind):
    """Minus the log-likelihood's, by differences of the table; and by autograd of the enumerated likelihood."""
    values = VALUES[KINDS[kind]]
    machine = machine_of(shape, KINDS[kind])
    X, weight = rows_for(machine, values)
    loss = loss_of(machine, X, weight, Exact())
    term = loss.terms["negative_log_likelihood"]
    assert term.sum() == pytest.approx(-log_likelihood(machine, X, weight, values), rel=1e-10)
    assert_same(loss.gradients, by_differences(machine, lambda m: -log_likelihood(m, X, weight, values)), 1e-7)


def moves(shape, order):
    """The machine, its table and the kernel of the updates in this order, from the table."""
    machine = machine_of(shape)
    table = Table(machine)
    kernel = np.eye(len(table.p))
    for block in order:
        kernel = sweep_of(table, block) @ kernel
    return machine, table, kernel


@pytest.mark.parametrize(("shape", "order"), [("one", ("visible",)), ("semi", ("hidden", "visible"))])
def test_cd_moves_by_the_enumerated_kernel(shape, order):
    """Mean gradient of CD-1 over 60,000 copies of two rows against T d; within 4.5 errors, false alarm 1e-4."""
    machine, table, kernel = moves(shape, order)
    n, sizes = 60_000, machine.sizes
    rows = np.array([[1.0, 0, 1, 1, 0], [0, 1, 1, 0, 1]])[:, : sizes["visible"]]
    loss = loss_of(machine, np.repeat(rows, n // 2, 0), np.ones(n), CD())
    data = np.zeros(len(table.p))
    for row in rows:
        here = (table.state["visible"] == row).all(1)
        data += 0.5 * here * (table.p / (here @ table.p))
    far = kernel @ data
    v = table.state["visible"]
    expected = {"visible_bias": (far - data) @ v}
    pairs = list(itertools.combinations(range(sizes["visible"]), 2))
    expected["visible_visible_weight"] = np.array([(far - data) @ (v[:, i] * v[:, j]) for i, j in pairs])[None]
    for name, value in expected.items():
        assert np.abs(loss.gradients[name] / n - value).max() < 4.5 * 0.5 / np.sqrt(n)
    assert np.abs(expected["visible_visible_weight"]).max() > 0.02  # what is looked for is no zero


@pytest.mark.parametrize("shape", COUPLED)
def test_persistent_chains_reach_the_models_statistics(shape):
    """The mean of 4,000 chains after 60 updates against the enumerated gradient; fixed seed, 5 standard errors."""
    machine, n = machine_of(shape, scale=0.5), 4_000
    X, weight = rows_for(machine)
    objective, batch = begun(machine, X, weight, PCD(n_chains=n))
    for update in range(60):
        with recording():
            loss = objective(machine, batch, noise=Noise(0, "fit").at(update), phase="fit", group=Group())
    table, total = Table(machine), weight.sum()
    v = table.state["visible"]
    pairs = list(itertools.combinations(range(machine.sizes["visible"]), 2))
    model = {"visible_bias": table.p @ v}
    data = {"visible_bias": weight @ X}
    if "visible" in machine.coupled:
        model["visible_visible_weight"] = np.array([table.p @ (v[:, i] * v[:, j]) for i, j in pairs])[None]
        data["visible_visible_weight"] = np.array([weight @ (X[:, i] * X[:, j]) for i, j in pairs])[None]
    for name in model:
        error = 5 * 0.5 / np.sqrt(n)
        assert np.abs((loss.gradients[name] + data[name]) / total - model[name]).max() < error


@pytest.mark.spec("GEN-002")
def test_the_positive_phase_of_coupled_hidden_units_is_sampled_or_mean_field():
    """The clamped phase's hidden statistics over 20,000 rows against the table; mean field's against its equations."""
    machine, n = machine_of("hidden"), 20_000
    table = Table(machine)
    row = np.array([1.0, 0, 1])
    here = (table.state["visible"] == row).all(1)
    p = table.p * here / (here @ table.p)
    h = table.state["hidden"]
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    X = np.repeat(row[None], n, 0)
    objective = CD().build()
    found = objective.positive(machine, X, Noise(0, "fit").rows(np.arange(n)))
    state = {"visible": X, "hidden": found["hidden"]}
    statistics = machine.joint_gradient(state, np.ones(n))
    expected = np.array([-(p @ (h[:, i] * h[:, j])) for i, j in pairs])
    assert np.abs(statistics["hidden_hidden_weight"] / n - expected).max() < 4.5 * 0.5 / np.sqrt(n)
    q = MeanField(steps=2000, tol=1e-13)(machine, X[:1], Noise(0, "fit"))["hidden"].mean
    means = mean_field(machine, {"visible": (X[:1], None)}, steps=2000, tol=1e-13)["hidden"]
    np.testing.assert_allclose(q, means, atol=1e-10)
    L, W = machine.links[1].matrix({"weight": machine.state()["hidden_hidden_weight"]}), machine.state()
    field = row @ W["visible_hidden_weight"] + means[0] @ L + W["hidden_bias"]
    np.testing.assert_allclose(means[0], 1 / (1 + np.exp(-field)), atol=1e-10)


@pytest.mark.parametrize("sets", [Singletons(), Pairs(), Blocks(size=4)], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ["one", "semi"])
def test_pseudolikelihood_and_its_gradient_are_the_enumerated_ones(shape, kind, sets):
    values = VALUES[KINDS[kind]]
    machine = machine_of(shape, KINDS[kind])
    X, weight = rows_for(machine, values)
    listed = [list(one) for group in sets.sets(machine.sizes["visible"]) for one in group]

    def value(m):
        mass, total = mass_of(m, values), 0.0
        for x, w in zip(X, weight, strict=True):
            for one in listed:
                below = 0.0
                for y in itertools.product(values, repeat=len(one)):
                    changed = x.copy()
                    changed[list(one)] = y
                    below += mass[tuple(changed)]
                total -= w * np.log(mass[tuple(x)] / below)
        return total

    loss = loss_of(machine, X, weight, Pseudolikelihood(sets=sets))
    assert loss.terms["negative_pseudo_log_likelihood"].sum == pytest.approx(value(machine), rel=1e-10)
    assert_same(loss.gradients, by_differences(machine, value), 1e-7)
    with gnomon.context(backend="torch"):
        found = loss_of(machine, X, weight, Pseudolikelihood(sets=sets))
    assert_same({name: value.numpy() for name, value in found.gradients.items()}, loss.gradients, 1e-12)


@pytest.mark.parametrize("shape", ["one", "semi"])
def test_ratio_matching_and_noise_contrast_have_the_slope_of_their_loss(shape):
    machine = machine_of(shape)
    X, weight = rows_for(machine)

    def ratios(m):
        mass, total = mass_of(m), 0.0
        for x, w in zip(X, weight, strict=True):
            for j in range(X.shape[1]):
                flipped = x.copy()
                flipped[j] = 1 - flipped[j]
                total += w * (mass[tuple(flipped)] / (mass[tuple(flipped)] + mass[tuple(x)])) ** 2
        return total

    loss = loss_of(machine, X, weight, RatioMatching())
    assert loss.terms["ratio_matching"].sum == pytest.approx(ratios(machine), rel=1e-10)
    assert_same(loss.gradients, by_differences(machine, ratios), 1e-7)

    objective, batch = begun(machine, X, weight, NCE())

    def contrast(m):
        with torch.no_grad():
            return objective(m, batch, noise=Noise(0, "fit"), phase="fit", group=Group()).terms["noise_contrast"].sum

    loss = objective(machine, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    gradients = {name: value for name, value in loss.gradients.items() if not name.startswith("objective/")}
    assert_same(gradients, by_differences(machine, contrast), 1e-7)


@pytest.mark.parametrize("shape", ["hidden", "whole"])
@pytest.mark.parametrize("objective", [Pseudolikelihood(), RatioMatching(), NCE()], ids=lambda one: one.short)
def test_what_needs_independent_hidden_units_says_so(shape, objective):
    machine = machine_of(shape)
    X, weight = rows_for(machine)
    with pytest.raises(UserTypeError, match=r"hidden layers (that are )?independent"):
        loss_of(machine, X, weight, objective)


# --- the link itself --------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-001", "REP-140")
def test_the_row_in_numbers():
    """U_12 = 0.5, U_13 = -0.3, U_23 = 0.2: U is the upper triangle, and each pair counts once."""
    machine = LayeredMachine({"x": BernoulliUnits(3)}, [LateralLink("x", name="")], dtype=torch.float64)
    machine.load({"weight": np.array([[0.5, -0.3, 0.2]]), "x_bias": np.array([0.1, -0.2, 0.3])})
    assert machine.log_partition() == pytest.approx(2.306849, abs=5e-7)
    table = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    p = np.exp(machine.log_prob(table))
    np.testing.assert_allclose(p @ table, (0.550078, 0.545920, 0.560306), atol=5e-7)
    assert p @ (table[:, 0] * table[:, 1]) == pytest.approx(0.329984, abs=5e-7)
    L = machine.links[0].matrix({"weight": machine.state()["weight"]})
    np.testing.assert_array_equal(L, [[0, 0.5, -0.3], [0.5, 0, 0.2], [-0.3, 0.2, 0]])
    U = np.triu(L)
    np.testing.assert_allclose(
        machine.energy(table), -((table @ U) * table).sum(1) - table @ [0.1, -0.2, 0.3], atol=1e-14
    )
    logits = machine.conditional("x", {"x": table}).logits
    np.testing.assert_allclose(logits, np.array([0.1, -0.2, 0.3]) + table @ (U + U.T), atol=1e-14)
    machine.load({"weight": np.zeros((1, 3)), "x_bias": np.array([0.1, -0.2, 0.3])})
    assert machine.log_partition() == pytest.approx(np.log1p(np.exp([0.1, -0.2, 0.3])).sum(), abs=1e-12)


def test_a_link_of_a_layer_is_its_matrix():
    link = LateralLink("v")
    assert link.shapes({"v": 5}) == {"weight": (1, 10)} and link.names == {"weight": "v_v_weight"}
    assert repr(link) == "LateralLink('v')"
    random = np.random.default_rng(0)
    own, x, weight = {"weight": random.normal(size=(1, 10))}, random.normal(size=(4, 5)), random.normal(size=4)
    L = link.matrix(own)
    np.testing.assert_array_equal(L, L.T)
    assert not np.diag(L).any() and np.count_nonzero(L) == 20
    np.testing.assert_allclose(link.field("v", x, own), x @ L)
    slope = link.statistics(x, x, weight, own)["weight"]
    for k, (i, j) in enumerate(itertools.combinations(range(5), 2)):
        assert slope[0, k] == pytest.approx(weight @ (x[:, i] * x[:, j]))
    tensor = torch.from_numpy(own["weight"]).requires_grad_()
    np.testing.assert_array_equal(link.matrix({"weight": tensor}).detach().numpy(), L)
    M = torch.from_numpy(random.normal(size=(5, 5)))
    (link.matrix({"weight": tensor}) * M).sum().backward()
    np.testing.assert_allclose(link.pull(M.numpy(), own)["weight"], tensor.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("kind", [BernoulliUnits, IsingUnits])
def test_a_machine_of_one_unit_has_no_pairs(kind):
    machine = filled(LayeredMachine({"v": kind(1)}, [("v", "v")], dtype=torch.float64))
    assert np.exp(machine.log_prob(kind(1).states(np.arange(2)))).sum() == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", COUPLED)
def test_centered_gradients_follow_the_chain_rule(shape, kind):
    """In coordinates b = b' - (offsets' field): slopes by couplings are differences of the likelihood along these."""
    values = VALUES[KINDS[kind]]
    machine = machine_of(shape, KINDS[kind])
    X, weight = rows_for(machine, values)
    random = np.random.default_rng(1)
    offsets = {block: random.uniform(*values, size=n) for block, n in machine.sizes.items()}
    plain = loss_of(machine, X, weight, Exact()).gradients
    found = machine.centered_gradient(plain, offsets)
    ends = {link.names["weight"]: link for link in machine.links}

    def field(block, parameters):
        total = np.zeros(machine.sizes[block])
        for name, link in ends.items():
            if block in link.ends:
                matrix = link.matrix({"weight": parameters[name]})
                total += offsets[link.other(block)] @ (matrix if block == link.ends[1] else matrix.T)
        return total

    state = {name: value.copy() for name, value in machine.state().items()}

    def moved(changes):
        """The machine whose couplings are changed at fixed b'."""
        new = state | {name: state[name] + change for name, change in changes.items()}
        for block in machine.units:
            new[f"{block}_bias"] = state[f"{block}_bias"] + field(block, state) - field(block, new)
        return machine._with(new)

    for name in ends:
        for place in list(np.ndindex(state[name].shape))[:4]:
            step = np.zeros(state[name].shape)
            step[place] = 1e-5
            rise = log_likelihood(moved({name: step}), X, weight, values)
            fall = log_likelihood(moved({name: -step}), X, weight, values)
            assert found[name][place] == pytest.approx(-(rise - fall) / 2e-5, abs=1e-6)
    for block in machine.units:
        name = f"{block}_bias"
        np.testing.assert_allclose(found[name], plain[name] - field(block, found), atol=1e-10)
