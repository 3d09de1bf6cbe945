"""Centered coordinates and the enhanced gradient: by enumeration and Jacobian, under flips, around every principle."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

import gnomon
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.objectives.centered import Centered, Enhanced
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.fast_weights import FPCD
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.objectives.self_contrastive import SelfContrast
from gnomon.objectives.tempered import TemperedSML
from gnomon.objectives.warm_start import WarmStart
from gnomon.systems.energy.gaussian_rbm import GaussianRBMModel
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.layered import IsingUnits, Table, assert_same, machine_of
from oracles.principles import OneBatch, batch_of, begun, bits, loss_of, mean_gradient

T1 = (np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4]))
FOUR = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
NAMES = ("weight", "visible_bias", "hidden_bias")
SHAPES = ("three", "four", "graph", "semi", "whole")


def rbm(seed=0, d=4, m=3):
    random = np.random.default_rng(seed)
    return RBMModel.of(*(random.normal(size=shape) for shape in ((d, m), d, m)))


def gaussian(seed=0, quadratic=False):
    random = np.random.default_rng(seed)
    parts = random.normal(size=(3, 2)), random.normal(size=3), random.normal(size=2), random.uniform(0.5, 2.0, 3)
    return GaussianRBMModel.of(*parts, quadratic=quadratic)


def offsets_of(machine, seed=0):
    random = np.random.default_rng(seed)
    return {block: random.uniform(0.1, 0.9, size) for block, size in machine.sizes.items()}


def centered_energies(machine, table, offsets):
    """-sum of biases - sum (x - mu)^T W (y - nu), by plain loops over the units."""
    p = {name: value.astype(float) for name, value in machine.state().items()}
    found = np.zeros(len(table.p))
    for row in range(len(found)):
        x = {block: table.state[block][row] for block in table.blocks}
        away = {block: x[block] - offsets[block] for block in table.blocks}
        total = sum(p[f"{block}_bias"][i] * x[block][i] for block in x for i in range(len(x[block])))
        for a, b in (link.ends for link in machine.links):
            weight = p[f"{a}_{b}_weight"]
            pairs = itertools.combinations(range(len(x[a])), 2) if a == b else np.ndindex(weight.shape)
            total += sum(w * away[a][i] * away[b][j] for w, (i, j) in zip(weight.ravel(), pairs, strict=True))
        found[row] = -total
    return found


@pytest.mark.spec("GEN-030")
@pytest.mark.parametrize("shape", SHAPES)
def test_energies_differ_by_a_constant_and_likelihoods_not_at_all(shape):
    machine = machine_of(shape)
    offsets = offsets_of(machine)
    table = Table(machine)
    energies, plain = centered_energies(machine, table, offsets), machine.uncentered(offsets)
    gap = plain.joint_energy(table.state) - energies
    np.testing.assert_allclose(gap, gap[0], atol=1e-12)
    assert abs(plain.joint_energy(table.state) - machine.joint_energy(table.state)).max() > 0.1
    log_z = np.logaddexp.reduce(-energies)
    X = bits(5, machine.sizes[machine.observed])
    same = (table.state[machine.observed][None] == X[:, None]).all(2)
    mass = np.array([np.logaddexp.reduce(-energies[row]) for row in same])
    np.testing.assert_allclose(plain.log_prob(X), mass - log_z, atol=1e-10)
    for name, value in plain.centered(offsets).state().items():
        np.testing.assert_allclose(value, machine.state()[name], atol=1e-12)


@pytest.mark.spec("GEN-030")
def test_spins_and_real_units_are_the_same_machines_too():
    machine = machine_of("three", IsingUnits)
    offsets, table = offsets_of(machine), Table(machine, (-1.0, 1.0))
    gap = machine.uncentered(offsets).joint_energy(table.state) - centered_energies(machine, table, offsets)
    np.testing.assert_allclose(gap, gap[0], atol=1e-12)
    model, random = gaussian(), np.random.default_rng(1)
    v, h, mu = random.normal(size=(9, 3)), bits(9, 2), offsets_of(model)
    W, a, z, c = (model.state()[name] for name in ("weight", "visible_bias", "visible_log_precision", "hidden_bias"))
    pairs = np.einsum("ni,ij,nj->n", np.exp(z) * (v - mu["visible"]), W, h - mu["hidden"])
    energies = (np.exp(z) * (v - a) ** 2).sum(1) / 2 - pairs - h @ c
    gap = model.uncentered(mu).joint_energy({"visible": v, "hidden": h}) - energies
    np.testing.assert_allclose(gap, gap[0], atol=1e-12)


def by_jacobian(machine, gradient, offsets):
    """J J^T g over couplings and biases, J the derivative of plain by centered parameters, by differences."""
    names = [name for name in gradient if "precision" not in name]
    shapes = [gradient[name].shape for name in names]
    start = {name: value.astype(float).copy() for name, value in machine.centered(offsets).state().items()}

    def plain(flat):
        parts = np.split(flat, np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
        at = start | {name: part.reshape(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        state = machine._with(at).uncentered(offsets).state()
        return np.concatenate([state[name].ravel() for name in names])

    point = np.concatenate([start[name].ravel() for name in names])
    J = np.array([(plain(point + e) - plain(point - e)) / 2 for e in np.eye(len(point))]).T
    g = np.concatenate([gradient[name].ravel() for name in names])
    return dict(zip(names, np.split(J @ (J.T @ g), np.cumsum([int(np.prod(s)) for s in shapes])[:-1]), strict=True))


@pytest.mark.spec("GEN-030")
@pytest.mark.parametrize("make", [rbm, gaussian, *(lambda s=s: machine_of(s) for s in SHAPES)])
def test_the_step_is_the_chain_rule_there_and_back(make):
    """Without quadratic parts the map is linear, so that differences are exact."""
    machine, random = make(), np.random.default_rng(2)
    gradient = {name: random.normal(size=value.shape) for name, value in machine.state().items()}
    offsets = offsets_of(machine, 3)
    found, expected = machine.centered_gradient(gradient, offsets), by_jacobian(machine, gradient, offsets)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name].ravel(), value, atol=1e-9)
    for name in set(gradient) - set(expected):
        np.testing.assert_array_equal(found[name], gradient[name])


@pytest.mark.spec("GEN-030")
def test_the_couplings_gradient_is_that_of_states_less_their_offsets():
    """<(v - mu)(h - lambda)^T> of the data less that of the model, by enumeration."""
    machine = machine_of("three")
    offsets, table, X = offsets_of(machine), Table(machine), bits(4, 4, seed=3)
    found = machine.centered_gradient(loss_of(Exact().build(), machine, X).gradients, offsets)
    near = np.zeros(len(table.p))
    for row in X:
        same = (table.state["visible"] == row).all(1)
        near += same * table.p / table.p[same].sum()
    away = {block: table.state[block] - offsets[block] for block in table.blocks}
    for a, b in (("visible", "middle"), ("middle", "top")):
        expected = away[a].T @ ((len(X) * table.p - near)[:, None] * away[b])
        np.testing.assert_allclose(found[f"{a}_{b}_weight"], expected, atol=1e-10)


@pytest.mark.spec("GEN-030")
@pytest.mark.parametrize("make", [rbm, gaussian, lambda: gaussian(quadratic=True), lambda: machine_of("graph")])
def test_offsets_of_0_give_the_plain_gradient(make):
    machine, random = make(), np.random.default_rng(2)
    gradient = {name: random.normal(size=value.shape) for name, value in machine.state().items()}
    found = machine.centered_gradient(gradient, {block: np.zeros(size) for block, size in machine.sizes.items()})
    assert_same(found, gradient, 1e-12)


@pytest.mark.spec("GEN-030")
def test_centered_coordinates_are_better_conditioned():
    """Fisher information of a deep machine, enumerated, whose units are mostly on: J^T F J against F."""
    machine = machine_of("three", scale=0.3)
    for block in machine.blocks:
        machine.get_parameter(f"{block}_bias").data.fill_(2.0)
    table = Table(machine)
    offsets = {block: table.p @ table.state[block] for block in table.blocks}
    statistics = {}
    for name, mu in (("plain", {b: 0 * x for b, x in offsets.items()}), ("centered", offsets)):
        away = {block: table.state[block] - mu[block] for block in table.blocks}
        pairs = [np.einsum("ni,nj->nij", away[a], away[b]) for a, b in (("visible", "middle"), ("middle", "top"))]
        columns = [table.state[block] for block in table.blocks] + [pair.reshape(len(table.p), -1) for pair in pairs]
        F = np.cov(np.concatenate(columns, axis=1).T, aweights=table.p, ddof=0)
        statistics[name] = np.linalg.cond(F)
    assert statistics["centered"] < statistics["plain"] / 10


@pytest.mark.spec("GEN-031")
def test_enhanced_gradient_in_numbers():
    found = mean_gradient(begun(Enhanced("exact"), RBMModel.of(*T1), FOUR), RBMModel.of(*T1), FOUR)
    listed = {
        "weight": [[-0.015533, -0.009023], [-0.010258, 0.013357]],
        "visible_bias": [0.213241, -0.015070],
        "hidden_bias": [0.053572, -0.048956],
    }
    assert_same({name: -value for name, value in found.items()}, {k: np.array(v) for k, v in listed.items()}, 1e-6)


@pytest.mark.spec("GEN-031")
@pytest.mark.parametrize("inner", [Exact(), CD(k=2), PCD(n_chains=7), FPCD(), MCMC(k=2, n_chains=9), TemperedSML(2)])
def test_enhanced_is_the_difference_of_covariances(inner):
    """Data and model are what the inner principle takes for them; weights of rows count."""
    model, X, weight = rbm(), bits(6, 4), np.random.default_rng(4).uniform(0.5, 2.0, 6)
    enhanced, plain = begun(Enhanced(inner), model, X, weight), begun(inner, model, X, weight)
    g = {name: -value for name, value in mean_gradient(plain, model, X, 0, weight).items()}
    found = {name: -value for name, value in mean_gradient(enhanced, model, X, 0, weight).items()}
    p = weight / weight.sum()
    W, _, c = (model.state()[name].astype(float) for name in NAMES)
    near = 1 / (1 + np.exp(-(X @ W + c)))
    v, h, vh = p @ X, p @ near, X.T @ (p[:, None] * near)
    far_v, far_h, far_vh = v - g["visible_bias"], h - g["hidden_bias"], vh - g["weight"]
    dW = (vh - np.outer(v, h)) - (far_vh - np.outer(far_v, far_h))
    bar_v, bar_h = (v + far_v) / 2, (h + far_h) / 2
    expected = {
        "weight": dW, "visible_bias": g["visible_bias"] - dW @ bar_h, "hidden_bias": g["hidden_bias"] - dW.T @ bar_v,
    }  # fmt: skip
    assert_same(found, expected, 1e-12)


@pytest.mark.spec("GEN-031", "GEN-030")
@pytest.mark.parametrize(
    "recipe", [Enhanced("exact"), Centered("exact", rate=1.0), Centered("exact", "average", rate=1.0)]
)
@pytest.mark.parametrize("flipped", [[0], [1, 3], [0, 1, 2, 3]])
def test_flipped_columns_have_the_mirrored_update(recipe, flipped):
    """v -> 1 - v: the couplings and biases of these change their sign, hidden biases take the couplings up."""
    X, model = bits(6, 4), rbm()
    sign = np.where(np.isin(np.arange(4), flipped), -1.0, 1.0)
    mirrored = np.where(sign < 0, 1 - X, X)
    W, b, c = (model.state()[name].astype(float) for name in NAMES)
    taken_up = lambda W: W[sign < 0].sum(0)  # noqa: E731
    other = RBMModel.of(sign[:, None] * W, sign * b, c + taken_up(W))
    np.testing.assert_allclose(other.log_prob(mirrored), model.log_prob(X), atol=1e-10)
    cases = (model, X), (other, mirrored)
    found, mirror = (mean_gradient(begun(recipe, *case), *case) for case in cases)
    np.testing.assert_allclose(mirror["weight"], sign[:, None] * found["weight"], atol=1e-12)
    np.testing.assert_allclose(mirror["visible_bias"], sign * found["visible_bias"], atol=1e-12)
    np.testing.assert_allclose(mirror["hidden_bias"], found["hidden_bias"] + taken_up(found["weight"]), atol=1e-12)
    plain = (mean_gradient(Exact().build(), *case)["weight"] for case in cases)
    assert np.abs(np.subtract(next(plain) * sign[:, None], next(plain))).max() > 1e-3  # the plain one has not


@pytest.mark.spec("GEN-030")
@pytest.mark.parametrize(
    "inner",
    [
        CD(k=2),
        PCD(),
        FPCD(),
        MCMC(k=2),
        TemperedSML(3),
        Exact(),
        Pseudolikelihood(),
        RatioMatching(),
        NCE(nu=2),
        SelfContrast(),
        SelfContrast(refresh_every=3),
        WarmStart("cd", "pcd"),
    ],
)
def test_it_goes_around_every_principle(inner):
    model, X = rbm(), bits(6, 4)
    centered, plain = begun(Centered(inner, rate=0.2), model, X), begun(inner, model, X)
    for update in range(3):
        found, expected = (loss_of(one, model, X, update) for one in (centered, plain))
        offsets = {block: centered.state()[f"offset/{block}"] for block in model.units}
        own = {name: np.asarray(expected.gradients[name]) for name in NAMES}
        assert_same({name: found.gradients[name] for name in NAMES}, model.centered_gradient(own, offsets), 1e-12)
        assert found.terms.keys() == expected.terms.keys() and found.per == expected.per
        for name, _ in plain.named_parameters():
            np.testing.assert_array_equal(
                found.gradients[f"objective/inner.{name}"], expected.gradients[f"objective/{name}"]
            )
    assert centered.descends == plain.descends and centered.largest == plain.largest
    assert {name.removeprefix("inner.") for name in centered.sharded} == set(plain.sharded)


@pytest.mark.spec("GEN-030")
@pytest.mark.parametrize("shape", ["three", "graph", "semi"])
def test_offsets_begin_at_the_means_and_follow_them(shape):
    machine = machine_of(shape)
    X, weight = bits(6, machine.sizes[machine.observed], p=0.8), np.random.default_rng(1).uniform(0.5, 2.0, 6)
    objective = begun(Centered(CD(), rate=0.25), machine, X, weight)
    held = begun(Centered(CD(), rate=0.0), machine, X, weight)
    first = {block: objective.state()[f"offset/{block}"].copy() for block in machine.units}
    mean = weight @ X / weight.sum()
    np.testing.assert_allclose(first[machine.observed], mean, atol=1e-12)
    p = {name: value.astype(float) for name, value in machine.state().items()}
    for block in set(machine.units) - {machine.observed}:  # mean field: each is what its neighbors' means make it
        field = p[f"{block}_bias"].copy()
        for a, b in (link.ends for link in machine.links if block in link.ends):
            field += first[a] @ p[f"{a}_{b}_weight"] if b == block else p[f"{a}_{b}_weight"] @ first[b]
        np.testing.assert_allclose(first[block], 1 / (1 + np.exp(-field)), atol=1e-5)
    q = CD().build().positive(machine, X, Noise(0, "fit").at(0).rows(np.arange(6)).child("positive"))
    for one in (objective, held):
        loss_of(one, machine, X, 0, weight)
    for block, start in first.items():
        given = q[block].mean if hasattr(q[block], "mean") and not isinstance(q[block], np.ndarray) else q[block]
        expected = 0.75 * start + 0.25 * weight @ given / weight.sum()
        np.testing.assert_allclose(objective.state()[f"offset/{block}"], expected, atol=1e-12)
        np.testing.assert_array_equal(held.state()[f"offset/{block}"], start)


@pytest.mark.spec("GEN-030")
def test_visible_biases_start_at_the_log_odds_of_clipped_means():
    X = np.array([[1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    system = gnomon.RBM(n_hidden=2, objective="centered", epochs=1, learning_rate=1e-30, random_state=0).fit(X)
    share = np.array([0.75, 0.01, 0.25, 0.99])
    np.testing.assert_allclose(system.visible_bias_, np.log(share / (1 - share)), atol=1e-12)


@pytest.mark.spec("GEN-030", "GEN-031")
@pytest.mark.parametrize("recipe", [Centered("cd"), Centered("cd", "average"), Enhanced("cd")])
def test_every_system_learns_with_it(recipe):
    X, y = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0), np.repeat([0, 1], 20)
    options = {"n_hidden": 3, "objective": recipe, "epochs": 80, "batch_size": 4, "random_state": 0}
    rbm = gnomon.RBM(**options, learning_rate=0.1).fit(X)
    assert rbm.score(X) > -2  # independent columns: -2.77
    noisy = X + 0.3 * np.random.default_rng(0).normal(size=X.shape)
    options |= {"optimizer": "sgd"}
    real = gnomon.GaussianRBM(**options | {"batch_size": 20}, learning_rate=0.05).fit(noisy)
    assert real.score(noisy) > norm.logpdf(noisy, noisy.mean(0), noisy.std(0)).sum(1).mean() + 0.5
    options |= {"visible": "bernoulli", "discriminative": 0.0, "generative": 0.5}
    joint = gnomon.LabelRBM(**options, learning_rate=0.2).fit(X, y)
    assert joint.log_prob(X, y).mean() > -2.5  # independent columns and classes: -3.47


def test_validation_moves_no_offsets():
    model, X = rbm(), bits(6, 4)
    objective = begun(Centered(rate=0.5), model, X)
    before = {name: value.copy() for name, value in objective.state().items()}
    objective.validate(model, batch_of(X[:2]), noise=Noise(1, "validation"), group=Group())
    for name, value in objective.state().items():
        np.testing.assert_array_equal(value, before[name])


def test_what_cannot_be_is_refused():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(UserError, match="has no bias that could make up for an offset"):
        gnomon.make("spike-and-slab-rbm", objective=Centered("cd"), epochs=1, random_state=0).fit(rows)
    with pytest.raises(UserError, match="means under the model"):
        Enhanced("pseudolikelihood").build()
    with pytest.raises(UserError, match="means under the model"):
        Centered(Centered("cd"), "average").build()
    for one in (SelfContrast(), WarmStart("cd", SelfContrast())):
        with pytest.raises(UserError, match="means under the model"):
            Enhanced(one).build()

    class Other:
        pass

    with pytest.raises(UserError, match="no centered coordinates"):
        objective = Centered("ratio_matching").build()
        objective.begin(Other(), OneBatch(FOUR), Noise(0, "begin"), Group())


@pytest.mark.spec("GEN-030")
def test_deep_machines_without_pretraining():
    """The same updates from scratch, exact likelihood, a fixed seed; principles of chains fit a deep machine, too."""
    X = np.asarray(gnomon.data.load("digits").view("binary"))[:600]
    options = {"hidden": (8, 4), "pretrain_epochs": 0, "learning_rate": 0.1, "random_state": 0}
    plain, centered = (gnomon.make("dbm", objective=one, epochs=15, **options).fit(X) for one in (PCD(), Centered()))
    assert centered.score(X) > plain.score(X) + 0.1
    for objective in (FPCD(), TemperedSML(2), MCMC(k=2), Enhanced()):
        fit = gnomon.make("dbm", objective=objective, epochs=1, **options).fit(X[:100])
        assert np.isfinite(fit.score(X[:100]))
    with pytest.raises(UserError, match="needs exact draws"):
        gnomon.make("dbm", objective=Centered("cd"), **options).fit(X)
