"""The class-gated machine and its group of nuisance units against plain loops, differences and simpler machines."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import chisquare

import gnomon
from gnomon.data.batches import Batch
from gnomon.distributions.class_units import ClassGatedUnits
from gnomon.distributions.units import BernoulliUnits, CenteredGaussianUnits
from gnomon.errors import UserValueError
from gnomon.evaluation.partition import log_partition
from gnomon.inference.variational.mean_field import factorized_posterior, mean_field_evidence
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, Exact
from gnomon.systems.energy._label_objective import LabelObjective
from gnomon.systems.energy.class_gated_rbm import ClassGatedRBM, ClassGatedRBMModel
from gnomon.systems.energy.label_rbm import LabelRBMModel
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states
from oracles.layered import assert_same, by_differences, filled

K, D, M, G = 3, 3, 2, 2
V, H, N = all_states(D), all_states(M), all_states(G)
ROWS, CODES = np.repeat(V, K, axis=0), np.tile(np.arange(K), len(V))


def model_of(n_nuisance=G, kind="bernoulli", relation="gated", seed=0):
    return filled(ClassGatedRBMModel(D, K, M, n_nuisance, kind, relation, torch.float64), seed)


def energy_of(model, kind="bernoulli"):
    """E(v, y, h, g) of the definition, term by term, from the numbers of the state."""
    p = model.state()
    gated = len(p["weight"]) == K * D + K
    b, d = p["visible_bias"][:D], p["visible_bias"][D:]

    def energy(v, k, h, g=()):
        own = v @ b if kind == "bernoulli" else -0.5 * ((v - b) ** 2).sum()
        total = own + d[k] + p["hidden_bias"] @ h
        for i, j in np.ndindex(D, M):
            total += (p["weight"][k * D + i, j] if gated else p["weight"][K + i, j]) * v[i] * h[j]
        for j in range(M):
            total += (p["weight"][K * D + k, j] if gated else p["weight"][k, j]) * h[j]
        for j, unit in enumerate(g):
            total += p["nuisance_bias"][j] * unit + sum(p["nuisance_weight"][i, j] * v[i] * unit for i in range(D))
        return -total

    return energy


def log_joint(model, kind="bernoulli", rows=V):
    """log of the sum over h and g of exp(-E), (rows, classes)."""
    energy = energy_of(model, kind)
    others = N if "nuisance" in model.units else [()]
    return np.array([[logsumexp([-energy(v, k, h, g) for h in H for g in others]) for k in range(K)] for v in rows])


BOTH = pytest.mark.parametrize("relation", ["gated", "pairwise"])
GROUPS = pytest.mark.parametrize("n_nuisance", [0, G])


@pytest.mark.spec("GEN-063", "GEN-064")
@GROUPS
@BOTH
def test_everything_by_enumeration(relation, n_nuisance):
    model = model_of(n_nuisance, relation=relation)
    joint = log_joint(model)
    both = model.with_class(ROWS, CODES)
    np.testing.assert_allclose(-model.energy(both), joint.ravel(), atol=1e-12)
    np.testing.assert_allclose(-model.row_energy(V), logsumexp(joint, axis=1), atol=1e-12)
    assert model.log_partition() == pytest.approx(logsumexp(joint), abs=1e-11)
    np.testing.assert_allclose(model.log_prob(both), joint.ravel() - logsumexp(joint), atol=1e-11)
    np.testing.assert_allclose(model.class_log_proba(V), log_softmax(joint, 1), atol=1e-12)
    np.testing.assert_allclose(
        model.class_log_proba(torch.from_numpy(V)).detach().numpy(), log_softmax(joint, 1), atol=1e-12
    )
    found = log_partition(model, "ais", noise=Noise(0, "ais"), chains=500, schedule=200)
    assert abs(found.value - logsumexp(joint)) < 5 * found.error  # false alarm below 1e-6


@pytest.mark.spec("GEN-063")
@BOTH
def test_a_row_and_its_class_are_drawn_at_once(relation):
    """Means, probabilities, entropies and draws of (v, y) given h and g: a table of the 24 states."""
    model = model_of(relation=relation)
    energy = energy_of(model)
    for h, g in itertools.product(H, N):
        state = {"hidden": h[None], "nuisance": g[None]}
        log_p = np.array([-energy(v, k, h, g) for v, k in zip(ROWS, CODES, strict=True)])
        log_p -= logsumexp(log_p)
        one = model.conditional("visible", state)
        both = model.with_class(ROWS, CODES)
        np.testing.assert_allclose(one.mean[0], np.exp(log_p) @ both, atol=1e-12)
        np.testing.assert_allclose(one.entropy(), -(np.exp(log_p) * log_p).sum(), atol=1e-12)
        many = model.conditional("visible", {name: np.repeat(x, 24, axis=0) for name, x in state.items()})
        np.testing.assert_allclose(many.log_prob(both), log_p, atol=1e-12)
    n = 20_000
    many = model.conditional("visible", {name: np.repeat(x, n, axis=0) for name, x in state.items()})
    drawn = many.sample(Noise(0, "draw").rows(np.arange(n)), 0)
    assert (drawn[:, D:].sum(1) == 1).all()
    counts = np.bincount(((drawn[:, :D] @ [4, 2, 1]) * K + drawn[:, D:] @ [0, 1, 2]).astype(int), minlength=24)
    assert chisquare(counts, n * np.exp(log_p)).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.spec("GEN-063", "GEN-064")
@GROUPS
@BOTH
def test_gradients_are_finite_differences(relation, n_nuisance):
    model = model_of(n_nuisance, relation=relation)
    weight = np.linspace(-1, 2, len(ROWS))
    both = model.with_class(ROWS, CODES)
    found = model.marginal_gradient({"visible": both}, weight)
    assert_same(found, by_differences(model, lambda m: weight @ m.energy(both)), 1e-7)
    log_p, found = model.class_gradient(ROWS, CODES, weight)
    np.testing.assert_allclose(log_p, model.class_log_proba(ROWS)[np.arange(24), CODES], atol=1e-12)
    index = np.arange(24), CODES
    assert_same(found, by_differences(model, lambda m: -weight @ m.class_log_proba(ROWS)[index]), 1e-7)
    # expectations over the layer's distribution, against the sum over its states
    q = model.rest({"hidden": H[1:2]} | ({"nuisance": N[2:3]} if n_nuisance else {}))["visible"]
    state = {"hidden": H[1:2], "visible": q} | ({"nuisance": N[2:3]} if n_nuisance else {})
    each = {name: np.repeat(x, 24, axis=0) for name, x in state.items() if name != "visible"} | {"visible": both}
    p = np.exp(model.conditional("visible", each).log_prob(both))
    assert_same(model.joint_gradient(state, np.ones(1)), model.joint_gradient(each, p), 1e-12)
    assert model.joint_energy(state)[0] == pytest.approx(p @ model.joint_energy(each), abs=1e-12)


@pytest.mark.spec("GEN-063", "GEN-064")
@pytest.mark.parametrize(("discriminative", "generative"), [(1.0, 0.0), (0.0, 1.0), (0.7, 0.3)])
def test_the_hybrid_is_the_gradient_of_both_likelihoods(discriminative, generative):
    """Rows of no class too, each by log p(v); the joint part with its exact objective."""
    model = model_of()
    codes, weight = np.array([0, 2, 1, 1, 0, 2, -1, -1]), np.linspace(0.2, 2.0, 8)
    batch = Batch({"X": V, "y": codes}, np.arange(8), np.arange(8), weight)
    objective = LabelObjective(discriminative, generative, Exact().build())
    found = objective(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group()).gradients

    def loss(m):
        joint = log_joint(m)
        known, total = codes >= 0, 0.0
        log_p = joint - logsumexp(joint)
        total -= discriminative * (weight * log_softmax(joint, 1)[np.arange(8), codes])[known].sum()
        total -= generative * (weight * log_p[np.arange(8), codes])[known].sum()
        return total - (weight * logsumexp(log_p, axis=1))[~known].sum()

    assert_same(found, by_differences(model, loss), 1e-6)


@pytest.mark.spec("GEN-063")
def test_each_class_is_a_restricted_machine_of_its_own():
    model = model_of(0)
    p = model.state()
    for k in range(K):
        rbm = RBMModel.of(
            p["weight"][k * D : (k + 1) * D], p["visible_bias"][:D], p["hidden_bias"] + p["weight"][K * D + k]
        )
        away = -model.energy(model.with_class(V, np.full(8, k))) + rbm.energy(V)
        np.testing.assert_allclose(away, p["visible_bias"][D + k], atol=1e-12)  # d_k, whatever the row
        machine = model.of_class(k)
        np.testing.assert_allclose(machine.energy(V), rbm.energy(V), atol=1e-12)
        one = model.conditional("hidden", {"visible": model.with_class(V, np.full(8, k))})
        np.testing.assert_allclose(one.mean, rbm.conditional("hidden", {"visible": V}).mean, atol=1e-12)


@pytest.mark.spec("GEN-063")
def test_couplings_that_are_alike_for_all_classes_make_the_classification_machine():
    """In energy, in probabilities, and in the gradient: that of W is the sum of those of the slices."""
    model, simple = model_of(0), filled(LabelRBMModel(D, K, M, "bernoulli", torch.float64))
    p = simple.state()
    model.load({**p, "weight": np.vstack([*[p["weight"][:D]] * K, p["weight"][D:]])})
    both, weight = model.with_class(ROWS, CODES), np.linspace(-1, 2, 24)
    np.testing.assert_allclose(model.energy(both), simple.energy(both), atol=1e-12)
    np.testing.assert_allclose(model.class_proba(V), simple.class_proba(V), atol=1e-12)
    assert model.log_partition() == pytest.approx(simple.log_partition(), abs=1e-12)
    for pair in (
        [m.marginal_gradient({"visible": both}, weight) for m in (model, simple)],
        [m.class_gradient(ROWS, CODES, weight)[1] for m in (model, simple)],
    ):
        found, expected = pair
        slices = found["weight"][: K * D].reshape(K, D, M)
        merged = {**found, "weight": np.vstack([slices.sum(0), found["weight"][K * D :]])}
        assert_same(merged, expected, 1e-12)
    light = model_of(0, relation="pairwise")
    light.load({**p, "weight": np.vstack([p["weight"][D:], p["weight"][:D]])})
    np.testing.assert_allclose(light.energy(both), simple.energy(both), atol=1e-12)


@pytest.mark.spec("GEN-064")
@BOTH
def test_the_nuisance_group_has_no_part_in_the_class(relation):
    whole = model_of(relation=relation)
    without = model_of(0, relation=relation)
    p = whole.state()
    without.load({name: value for name, value in p.items() if not name.startswith("nuisance")})
    np.testing.assert_allclose(whole.class_proba(V), without.class_proba(V), atol=1e-14)
    whole.load({**p, "nuisance_weight": 5 * p["nuisance_weight"], "nuisance_bias": p["nuisance_bias"] - 3})
    np.testing.assert_allclose(whole.class_proba(V), without.class_proba(V), atol=1e-14)
    _, found = whole.class_gradient(V, CODES[:8], np.ones(8))
    assert not found["nuisance_weight"].any()
    assert not found["nuisance_bias"].any()
    # removed: weights of 0 leave the machine without the group, but for its free bits
    whole.load({**p, "nuisance_weight": 0 * p["nuisance_weight"], "nuisance_bias": 0 * p["nuisance_bias"]})
    both = whole.with_class(ROWS, CODES)
    np.testing.assert_allclose(whole.energy(both), without.energy(both) - G * np.log(2), atol=1e-12)
    some = np.linspace(-1, 1, 24)
    found = whole.marginal_gradient({"visible": both}, some)
    expected = without.marginal_gradient({"visible": both}, some)
    assert_same({name: found[name] for name in expected}, expected, 1e-12)


@pytest.mark.spec("GEN-063")
def test_real_columns_by_quadrature():
    """log Z and p(y | v) of Gaussian columns; E[v] given h by the mixture over classes."""
    model = filled(ClassGatedRBMModel(1, K, M, 1, "gaussian", "gated", torch.float64))
    grid = np.linspace(-30, 30, 20_001)[:, None]
    mass = np.stack([-model.energy(model.with_class(grid, np.full(len(grid), k))) for k in range(K)], 1)
    p = model.state()
    for row, k in ((9_000, 0), (10_500, 2)):  # the energy itself, by hand
        v = grid[row, 0]
        total = -0.5 * (v - p["visible_bias"][0]) ** 2 + p["visible_bias"][1 + k]
        fields = p["hidden_bias"] + p["weight"][K + k] + v * p["weight"][k]
        total += np.log1p(np.exp(fields)).sum()
        total += np.log1p(np.exp(p["nuisance_bias"] + v * p["nuisance_weight"][0])).sum()
        assert mass[row, k] == pytest.approx(total, abs=1e-12)
    assert model.log_partition() == pytest.approx(logsumexp(mass) + np.log(grid[1, 0] - grid[0, 0]), abs=1e-9)
    np.testing.assert_allclose(model.class_proba(grid[9_000:9_010]), softmax(mass[9_000:9_010], 1), atol=1e-12)


@pytest.mark.spec("GEN-063", "GEN-064")
def test_chains_follow_the_joint_table_and_the_table_of_a_class():
    """Counts of (v, y) by chi-square tests at 1e-4, with and without the class held."""
    system = ClassGatedRBM(n_hidden=M, n_nuisance=G, visible="bernoulli", epochs=1, random_state=0, dtype="float64")
    system.fit(V, np.arange(8) % 3)
    system.model_ = model_of()
    n, joint = 8_000, log_joint(system.model_)
    X, y = system.sample(n, steps=20, random_state=0)
    counts = np.bincount(((X @ [4, 2, 1]) * K + y).astype(int), minlength=24)
    assert chisquare(counts, n * softmax(joint.ravel())).pvalue > 1e-4
    held, same = system.sample(n, y=2, steps=20, random_state=1)
    assert (same == 2).all()
    assert chisquare(np.bincount((held @ [4, 2, 1]).astype(int), minlength=8), n * softmax(joint[:, 2])).pvalue > 1e-4
    np.testing.assert_allclose(system.predict_proba(V), softmax(joint, 1), atol=1e-12)
    np.testing.assert_allclose(system.log_prob(V), logsumexp(joint, axis=1) - logsumexp(joint), atol=1e-9)


@pytest.mark.spec("GEN-064")
def test_codes_of_either_group_are_posterior_means():
    system = ClassGatedRBM(n_hidden=M, n_nuisance=G, visible="bernoulli", epochs=1, random_state=0, dtype="float64")
    system.fit(V, np.arange(8) % 3)
    system.model_ = model_of()
    energy, a, b = energy_of(system.model_), np.zeros((8, M)), np.zeros((8, G))
    for i, v in enumerate(V):
        states = list(itertools.product(range(K), H, N))
        p = softmax([-energy(v, *state) for state in states])
        a[i] = sum(w * h for w, (_, h, _) in zip(p, states, strict=True))
        b[i] = sum(w * g for w, (_, _, g) in zip(p, states, strict=True))
    np.testing.assert_allclose(system.transform(V), a, atol=1e-12)
    np.testing.assert_allclose(system.transform(V, group="nuisance"), b, atol=1e-12)
    np.testing.assert_allclose(system.transform(V, group="both"), np.hstack([a, b]), atol=1e-12)
    with pytest.raises(UserValueError, match="group must be one of class, nuisance, both, got 'b'"):
        system.transform(V, group="b")


def test_mean_field_of_the_hidden_groups_is_exact_and_bounds_from_the_row_side_too():
    model = model_of()
    both = model.with_class(ROWS, CODES)
    np.testing.assert_allclose(mean_field_evidence(model, {"visible": both}), -model.energy(both), atol=1e-10)
    q = factorized_posterior(model, {"visible": both})
    np.testing.assert_allclose(q["nuisance"].mean, model.conditional("nuisance", {"visible": both}).mean, atol=1e-12)


def test_the_units_count_their_states_and_know_their_normalizer():
    layer = ClassGatedUnits(BernoulliUnits(2), 3)
    states = layer.states(np.arange(12))
    assert len({tuple(x) for x in states}) == 12
    assert (states[:, 2:].sum(1) == 1).all()
    field, own = np.random.default_rng(0).normal(size=(1, 11)), {"bias": np.random.default_rng(1).normal(size=5)}
    masses = layer.log_weight(states, own) + layer.features(states) @ field[0]
    assert layer.log_normalizer(field.copy(), own)[0] == pytest.approx(logsumexp(masses), abs=1e-12)
    real = ClassGatedUnits(CenteredGaussianUnits(1), 2)
    assert real.n_states == np.inf


@pytest.mark.spec("GEN-063")
def test_a_class_with_few_rows_keeps_its_share():
    """CD under class imbalance, 9 to 1: the class is drawn with its row, so that chains do not stay in theirs."""
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], [450, 50])
    X = (random.random((500, 4)) < np.where(y[:, None] == 0, [0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9])).astype(float)
    system = ClassGatedRBM(
        n_hidden=2, visible="bernoulli", generative=1.0, discriminative=0.0, objective=CD(k=1), epochs=20,
        learning_rate=0.02, random_state=0,
    ).fit(X, y)  # fmt: skip
    share = system.sample(3_000, steps=30, random_state=0)[1].mean()
    assert abs(share - 0.1) < 0.04
    assert system.score(X, y) > 0.97


def test_the_gated_machine_learns_what_pairs_of_columns_cannot_say():
    """Of each class another column repeats the first: no moved hidden bias of two units can say it."""
    random = np.random.default_rng(0)
    X = (random.random((300, 3)) < 0.5).astype(float)
    y = random.integers(0, 2, 300)
    X[np.arange(300), 1 + y] = X[:, 0]
    known = X[:, 1] != X[:, 2]  # the others tell nothing
    gated = ClassGatedRBM(n_hidden=4, visible="bernoulli", epochs=40, learning_rate=0.03, random_state=0).fit(X, y)
    assert gated.score(X[known], y[known]) == 1.0


def test_wrong_input_is_refused_in_one_line():
    with pytest.raises(UserValueError, match="n_nuisance must be a whole number in"):
        ClassGatedRBM(n_nuisance=-1).fit(V, np.arange(8) % 2)
    with pytest.raises(UserValueError, match="relation must be"):
        ClassGatedRBM(relation="three").fit(V, np.arange(8) % 2)
    system = ClassGatedRBM(n_hidden=2, epochs=1, random_state=0).fit(V, np.arange(8) % 2)
    with pytest.raises(UserValueError, match="group must be class where"):
        system.transform(V, group="nuisance")
    assert isinstance(gnomon.ClassGatedRBM(), ClassGatedRBM)
