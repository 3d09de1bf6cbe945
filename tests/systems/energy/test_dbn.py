"""The deep belief network against enumeration: density, draws, greedy layers, bounds, wake and sleep, log Z."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp
from scipy.stats import chisquare

import gnomon
from gnomon.data.batches import Batch
from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_log_prob
from gnomon.evaluation.partition import log_partition
from gnomon.numeric.noise import Noise
from gnomon.systems.energy._dbn_model import DBNModel, Normalized
from gnomon.systems.energy._up_down import UpDown
from gnomon.systems.energy.dbn import DBN
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import all_states, log_sum, rbm_energy

W1, B0, C1 = np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4])
W2, B2 = np.array([[0.5, -1.0], [1.0, 0.2]]), np.array([0.1, 0.2])
V = all_states(2)


def model_of(weights, biases, recognition=None):
    """In float64; the way up is that of the machines with these couplings unless given as pairs (R, r)."""
    sizes = [len(weights[0]), *(W.shape[1] for W in weights)]
    model = DBNModel(sizes[0], sizes[1:], torch.float64)
    state = {f"weight_{k}": W for k, W in enumerate(weights, 1)} | {f"bias_{k}": b for k, b in enumerate(biases)}
    for k in range(1, len(weights)):
        R, r = (weights[k - 1], biases[k]) if recognition is None else recognition[k - 1]
        state |= {f"recognition_weight_{k}": R, f"recognition_bias_{k}": r}
    model.load(state)
    return model


def tied():
    """T1 with its own machine upside down on top of it."""
    return model_of([W1, W1.T], [B0, C1, B0])


def second():
    """The second case of the row."""
    return model_of([W1, W2], [B0, C1, B2])


def random_model(sizes, seed=0, scale=0.9):
    """Couplings, biases and a way up of its own."""
    random = np.random.default_rng(seed)
    weights = [scale * random.normal(size=pair) for pair in itertools.pairwise(sizes)]
    biases = [scale * random.normal(size=n) for n in sizes]
    pairs = [(scale * random.normal(size=W.shape), scale * random.normal(size=W.shape[1])) for W in weights[:-1]]
    return model_of(weights, biases, pairs), weights, biases, pairs


def bernoulli(p, x):
    """log p(x) of independent units, unit by unit."""
    return sum(math.log(p[i] if x[i] == 1 else 1 - p[i]) for i in range(len(x)))


class Table:
    """log p(v, h_1, ..., h_{L-1}) and log q(h | v) of every state, term by term from the definition."""

    def __init__(self, weights, biases, pairs):
        self.sizes = [len(b) for b in biases]
        depth = len(weights)
        energy = rbm_energy(weights[-1], biases[-2], biases[-1])
        upper = all_states(self.sizes[-1])
        mass = {tuple(h): log_sum([-energy(h, t) for t in upper]) for h in all_states(self.sizes[-2])}
        self.log_z = log_sum(list(mass.values()))
        self.states, self.log_p, self.log_q = [], [], []
        for layers in itertools.product(*(all_states(n) for n in self.sizes[:-1])):
            log_p, log_q = mass[tuple(layers[-1])] - self.log_z, 0.0
            for k in range(1, depth):
                log_p += bernoulli(expit(biases[k - 1] + weights[k - 1] @ layers[k]), layers[k - 1])
                R, r = pairs[k - 1]
                log_q += bernoulli(expit(r + layers[k - 1] @ R), layers[k])
            self.states.append(layers)
            self.log_p.append(log_p)
            self.log_q.append(log_q)
        self.log_p, self.log_q = np.array(self.log_p), np.array(self.log_q)
        self.layers = [np.array([s[k] for s in self.states]) for k in range(depth)]

    def of(self, v):
        """Places of the states with these rows."""
        return (self.layers[0] == v).all(1)

    def log_prob(self):
        return np.array([logsumexp(self.log_p[self.of(v)]) for v in all_states(self.sizes[0])])

    def bound(self):
        q = np.exp(self.log_q)
        return np.array(
            [(q * (self.log_p - self.log_q))[self.of(v)].sum() for v in all_states(self.sizes[0])]
        )  # fmt: skip


# --- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-010", "GEN-013", "GEN-014")
def test_a_machine_upside_down_on_itself_leaves_the_density_and_has_no_gap():
    rbm = RBMModel.of(W1, B0, C1)
    np.testing.assert_allclose(tied().log_prob(V), rbm.log_prob(V), atol=1e-14)
    np.testing.assert_allclose(np.exp(tied().log_prob(V)), (0.089042, 0.356643, 0.145935, 0.408381), atol=5e-7)
    np.testing.assert_allclose(tied().exact_bound(V), rbm.log_prob(V), atol=1e-14)


@pytest.mark.spec("GEN-010", "GEN-014")
def test_the_numbers_of_the_second_case():
    model = second()
    np.testing.assert_allclose(np.exp(model.log_prob(V)), (0.112722, 0.375543, 0.150067, 0.361668), atol=5e-7)
    np.testing.assert_allclose(model.log_prob(V), (-2.182834, -0.979381, -1.896672, -1.017029), atol=5e-7)
    np.testing.assert_allclose(model.exact_bound(V), (-2.306857, -1.084829, -1.999891, -1.089160), atol=5e-7)


@pytest.mark.spec("GEN-010", "GEN-014")
@pytest.mark.parametrize("sizes", [(3, 2, 2), (2, 3, 2, 2), (2, 2, 2, 1, 2)])
def test_any_depth_is_the_table(sizes):
    """Density, bound, joint weights and the way up of every state; a probability on the rows; bounds below it."""
    model, weights, biases, pairs = random_model(sizes)
    table = Table(weights, biases, pairs)
    v = all_states(sizes[0])
    np.testing.assert_allclose(model.log_prob(v), table.log_prob(), atol=1e-12)
    assert np.exp(model.log_prob(v)).sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(model.exact_bound(v), table.bound(), atol=1e-12)
    assert (model.exact_bound(v) < model.log_prob(v)).all()
    np.testing.assert_allclose(model.log_weight(table.layers) - table.log_z, table.log_p, atol=1e-12)
    np.testing.assert_allclose(model.log_prob_up(table.layers), table.log_q, atol=1e-12)
    tensors = [torch.from_numpy(x) for x in table.layers]
    np.testing.assert_allclose(model.log_weight(tensors).detach() - table.log_z, table.log_p, atol=1e-12)
    np.testing.assert_allclose(model.log_prob(torch.from_numpy(v)).detach(), table.log_prob(), atol=1e-12)


@pytest.mark.spec("GEN-010")
def test_one_hidden_layer_is_the_restricted_machine():
    model = model_of([W1], [B0, C1])
    rbm = RBMModel.of(W1, B0, C1)
    np.testing.assert_allclose(model.log_prob(V), rbm.log_prob(V), atol=1e-14)
    np.testing.assert_allclose(model.exact_bound(V), rbm.log_prob(V), atol=1e-14)
    np.testing.assert_allclose(model.means_up(V)[0], rbm.conditional("hidden", {"visible": V}).mean, atol=1e-14)
    X = np.random.default_rng(0).random((40, 5)) < 0.5
    alone = DBN(hidden=(3,), epochs=3, random_state=0).fit(X)
    assert alone.evaluate(X)["log_likelihood"].kind == "exact" and alone.sample(2, random_state=0).shape == (2, 5)


# --- draws ------------------------------------------------------------------------------------------------------------


def counts_index(layer):
    return (layer @ (1 << np.arange(layer.shape[1] - 1, -1, -1))).astype(int)


def counts_of(rows):
    return np.bincount(counts_index(rows), minlength=1 << rows.shape[1])


@pytest.mark.spec("GEN-012")
@pytest.mark.parametrize("sizes", [(3, 2, 2), (2, 3, 2, 2)])
def test_one_pass_down_from_exact_draws_of_the_top_follows_the_density(sizes):
    """40,000 draws by chi-square against the table, each layer in turn; false alarm 1e-4 for each."""
    model, weights, biases, pairs = random_model(sizes, seed=2)
    table, n = Table(weights, biases, pairs), 40_000
    rows = np.random.default_rng(0).choice(len(table.log_p), n, p=np.exp(table.log_p))
    top = table.layers[-1][rows]
    found = model.draw_down(top, Noise(0, "down").rows(np.arange(n)))
    np.testing.assert_array_equal(found[-1], top)
    for k, layer in enumerate(found):
        law = np.bincount(counts_index(table.layers[k]), weights=np.exp(table.log_p))
        assert chisquare(counts_of(layer), n * law).pvalue > 1e-4


@pytest.mark.spec("GEN-012")
def test_draws_of_the_system_follow_the_density_and_chains_go_on_or_are_held():
    """20,000 rows by chi-square, false alarm 1e-4; chains that go on; clamped units at the top."""
    X = np.repeat([[1, 1, 0], [0, 1, 1], [1, 0, 0]], 20, axis=0)
    network = DBN(hidden=(3, 2), epochs=60, learning_rate=0.1, dtype="float64", random_state=0).fit(X)
    n = 20_000
    law = np.exp(network.log_prob(all_states(3)))
    assert chisquare(counts_of(network.sample(n, steps=100, random_state=1)), n * law).pvalue > 1e-4
    first = network.sample_layers(n, steps=50, random_state=2)
    assert [layer.shape[1] for layer in first] == [3, 3, 2]
    later = network.sample_layers(n, steps=50, start=first[1], random_state=3)
    assert chisquare(counts_of(later[0]), n * law).pvalue > 1e-4
    stuck = network.sample_layers(500, steps=0, start=np.tile(first[1][:1], (500, 1)), random_state=4)
    np.testing.assert_array_equal(stuck[1], np.tile(first[1][:1], (500, 1)))  # a chain of no steps stays at its start
    mask = np.tile([[True, False]], (n, 1))
    held = network.sample_layers(n, steps=50, clamp={"hidden_2": (np.ones((n, 2)), mask)}, random_state=5)
    assert (held[2][:, 0] == 1).all() and 0 < held[2][:, 1].mean() < 1
    model = network.model_
    pair = model.pair(2)
    inner, upper = all_states(3), np.array([[1.0, 0.0], [1.0, 1.0]])
    mass = np.array([[-pair.joint_energy({"hidden_1": h[None], "hidden_2": t[None]})[0] for t in upper] for h in inner])
    law = np.exp(logsumexp(mass, 1) - logsumexp(mass))
    assert chisquare(counts_of(held[1]), n * law).pvalue > 1e-4
    assert network.sample(0).shape == (0, 3)


# --- greedy layers ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-013")
def test_a_new_layer_of_the_right_size_changes_no_probability_and_its_exact_steps_raise_the_bound():
    """Layer 2 begins as layer 1 upside down; 200 exact steps of its machine on draws of q, every one a gain."""
    random = np.random.default_rng(0)
    model = DBNModel(3, (2, 3), torch.float64)
    first = model.pair(1)
    first.load({"hidden_0_hidden_1_weight": random.normal(size=(3, 2)), "hidden_0_bias": random.normal(size=3),
                "hidden_1_bias": random.normal(size=2)})  # fmt: skip
    model.begin(2)
    v = all_states(3)
    state = model.state()
    rbm = RBMModel.of(*(np.array(state[name]) for name in ("weight_1", "bias_0", "recognition_bias_1")))
    np.testing.assert_allclose(model.log_prob(v), rbm.log_prob(v), atol=1e-13)
    np.testing.assert_allclose(model.exact_bound(v), rbm.log_prob(v), atol=1e-13)
    data = random.dirichlet(np.ones(8))
    h = all_states(2)
    q = np.array([[math.exp(bernoulli(m, x)) for x in h] for m in rbm.conditional("hidden", {"visible": v}).mean])
    law, pair = data @ q, model.pair(2)
    bounds = [float(data @ model.exact_bound(v))]
    before = {name: value.copy() for name, value in model.state().items()}
    for _ in range(200):
        near = pair.marginal_gradient({"hidden_1": h}, law)
        far = pair.marginal_gradient({"hidden_1": h}, np.exp(pair.log_prob(h)))
        with torch.no_grad():
            for name, parameter in pair.named_parameters():
                parameter -= 0.05 * torch.from_numpy(near[name] - far[name])
        bounds.append(float(data @ model.exact_bound(v)))
    assert (np.diff(bounds) >= -1e-13).all() and bounds[-1] > bounds[0] + 1e-3
    for name in ("weight_1", "bias_0", "recognition_weight_1", "recognition_bias_1"):
        np.testing.assert_array_equal(model.state()[name], before[name])


@pytest.mark.spec("GEN-013")
@pytest.mark.parametrize("lift", ["draws", "means"])
def test_stages_hand_up_draws_or_means_and_copy_parameters_unchanged(lift):
    X = (np.random.default_rng(0).random((2000, 4)) < 0.5).astype(np.float64)
    network = DBN(
        hidden=(3, 4, 2), lift=lift, epochs=1, tune_epochs=1, batch_size=1000, learning_rate=0.5, random_state=0
    )
    examples = network.ingest(X)
    network.arguments_, network.seed_ = network.arguments(examples), 0
    model = network.make(**network.arguments_)
    network.initialize(model, examples, Noise(0, "fit").child("initial"))
    whole = network.problem(model, examples, Noise(0, "fit"), Group())
    stages = network.procedure(examples)
    assert [name for name, _, _ in stages.stages] == ["layer_1", "layer_2", "layer_3", "tune"]
    state, moved = stages.start(whole), []
    for stage in range(4):
        now = model.state()
        before = {name: value.copy() for name, value in now.items()}
        if 0 < stage < 3:
            batch = state.inner.problem.batches.step(0, 0)
            x = batch.data["X"]
            mean = expit(X[batch.rows] @ now["weight_1"] + now["recognition_bias_1"])
            if stage == 2 and lift == "means":
                mean = expit(mean @ now["weight_2"] + now["recognition_bias_2"])
            if lift == "means":
                np.testing.assert_allclose(x, mean, atol=1e-12)
            elif stage == 1:
                assert set(np.unique(x)) == {0.0, 1.0}
                spread = np.sqrt((mean * (1 - mean)).sum(0))
                assert (np.abs((x - mean).sum(0)) < 4.5 * spread).all()  # false alarm below 1e-4
                again = state.inner.problem.batches.step(1, 0).data["X"]
                assert not np.array_equal(again, x)  # drawn anew in every epoch
        for _ in range(2):
            state, info = stages.step(state)
        moved.append({name for name, value in model.state().items() if not np.array_equal(value, before[name])})
    assert info.done
    assert moved[0] >= {"weight_1", "bias_0", "recognition_bias_1"}
    assert not moved[1] & {"weight_1", "bias_0", "recognition_bias_1", "bias_3", "weight_3"}
    assert moved[1] >= {"weight_2", "bias_1", "recognition_bias_2"}
    assert not moved[2] & {"weight_1", "weight_2", "bias_0", "bias_1", "recognition_bias_1", "recognition_bias_2"}
    assert moved[2] >= {"weight_3", "bias_2", "bias_3"}
    assert moved[3] == set(model.state())


@pytest.mark.spec("GEN-013")
def test_each_layer_raises_the_likelihood_of_held_out_digits_and_tuning_more():
    X = gnomon.data.load("digits").view("binary").astype(np.float64)
    train, test = X[:900], X[900:1300]
    settings = {"learning_rate": 0.05, "random_state": 0, "epochs": 30}
    one, two, tuned = (
        DBN(hidden=hidden, tune_epochs=tune, **settings).fit(train).evaluate(test)["log_likelihood"]
        for hidden, tune in (((64,), 0), ((64, 64), 0), ((64, 64), 20))
    )
    assert two.value > one.value + 3 * math.hypot(one.error, two.error)
    assert tuned.value > two.value + 3 * math.hypot(tuned.error, two.error)


# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-014")
def test_the_bound_by_draws_is_the_enumerated_one_and_more_draws_raise_it():
    model, weights, biases, pairs = random_model((3, 3, 2, 2), seed=7)
    table, v = Table(weights, biases, pairs), all_states(3)
    view = Normalized(model, table.log_z)
    found = latent_log_prob(view, view, v, 1, Noise(0, "bound"), repeats=4000)
    assert (np.abs(found.value - table.bound()) < 4.5 * found.stderr).all()  # false alarm below 1e-4
    many = latent_log_prob(view, view, v, 500, Noise(1, "bound"), repeats=20)
    assert (many.value > table.bound()).all()
    assert (np.abs(many.value - table.log_prob()) < 5 * many.stderr + 0.02).all()


@pytest.mark.spec("GEN-014", "GEN-017")
def test_the_score_says_exact_bound_or_estimate():
    X = gnomon.data.load("digits").view("binary")[:60]
    fits = [
        DBN(hidden=hidden, epochs=1, tune_epochs=1, random_state=0).fit(X) for hidden in ((8, 6), (16, 9), (24, 22))
    ]
    exact, bound, estimate = (one.evaluate(X)["log_likelihood"] for one in fits)
    assert (exact.kind, bound.kind, estimate.kind) == ("exact", "lower bound", "estimate")
    assert "no bound in the strict sense" in estimate.note and "effective number of weights" in estimate.note
    assert estimate.error >= fits[2].log_partition().error > 0 and fits[1].log_partition().kind == "exact"
    assert not hasattr(fits[1], "log_prob") and (fits[0].log_prob_bound(X) <= fits[0].log_prob(X) + 1e-4).all()
    assert fits[1].log_prob_bound(X, draws=50).mean() < bound.value + 0.1


# --- wake and sleep ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-015")
@pytest.mark.parametrize("sizes", [(2, 2, 2), (2, 3, 2, 2)])
def test_wake_and_sleep_gradients_are_autograds_of_their_expectations(sizes):
    """Every state with its weight: of q for the way down, of p for the way up."""
    model, weights, biases, pairs = random_model(sizes, seed=1)
    table = Table(weights, biases, pairs)
    layers = [torch.from_numpy(x) for x in table.layers]
    data = np.random.default_rng(0).dirichlet(np.ones(2 ** sizes[0]))
    share = np.exp(table.log_q) * data[counts_index(table.layers[0])]
    (torch.from_numpy(share) * model.log_weight(layers)).sum().backward()
    found = model.generative_gradient(table.layers, share)
    assert set(found) == {name for k in range(1, model.depth) for name in (f"weight_{k}", f"bias_{k - 1}")}
    for name, value in found.items():
        np.testing.assert_allclose(value, -model.get_parameter(name).grad.numpy(), atol=1e-12)
    model.zero_grad()
    (torch.from_numpy(-np.exp(table.log_p)) * model.log_prob_up(layers)).sum().backward()
    found = model.recognition_gradient(table.layers, np.exp(table.log_p))
    assert set(found) == {f"recognition_{kind}_{k}" for k in range(1, model.depth) for kind in ("weight", "bias")}
    for name, value in found.items():
        np.testing.assert_allclose(value, model.get_parameter(name).grad.numpy(), atol=1e-12)


@pytest.mark.spec("GEN-015")
def test_an_update_is_the_wake_the_contrast_and_the_sleep_of_its_draws():
    """40,000 rows: the gradients expected over q, over a chain of one step from q, over what it makes below."""
    sizes, n = (2, 2, 2), 40_000
    model, weights, biases, pairs = random_model(sizes, seed=1)
    table = Table(weights, biases, pairs)
    X = np.tile(V, (n // 4, 1))
    batch = Batch({"X": X}, np.arange(n), np.arange(n), np.ones(n))
    found = UpDown(k=1).forward(model, batch, noise=Noise(0, "fit"), phase="fit", group=Group())
    q = np.exp(table.log_q) / 4
    expected = model.generative_gradient(table.layers, q)
    h = all_states(2)
    law = np.array([q[(table.layers[1] == x).all(1)].sum() for x in h])
    top = model.pair(2)

    def table_of(above, below):
        """P(layer `above` | layer `below`): rows are its states."""
        means = top.conditional(f"hidden_{above}", {f"hidden_{below}": h}).mean
        return np.array([[math.exp(bernoulli(mean, x)) for mean in means] for x in h])

    up, down = table_of(2, 1), table_of(1, 2)
    after = down @ up @ law
    near, far = (top.marginal_gradient({"hidden_1": h}, share) for share in (law, after))
    expected |= {model.owner(name): near[name] - far[name] for name in near}
    below = np.exp(model.log_prob_down(table.layers))
    dream = below * after[counts_index(table.layers[1])]
    expected |= model.recognition_gradient(table.layers, dream)
    assert set(found.gradients) == set(expected) == set(model.state())
    for name, value in expected.items():  # statistics lie in [-1, 1]; false alarm below 1e-4 for each
        np.testing.assert_allclose(found.gradients[name] / n, value, atol=4.5 / np.sqrt(n), err_msg=name)


@pytest.mark.spec("GEN-015")
def test_the_way_up_is_let_go_of_in_the_last_stage_alone():
    X = all_states(4)
    kept, tuned = (
        DBN(hidden=(3, 2), epochs=5, tune_epochs=tune, learning_rate=0.2, random_state=0).fit(X).model_.state()
        for tune in (0, 5)
    )
    np.testing.assert_array_equal(kept["recognition_weight_1"], kept["weight_1"])
    assert not np.array_equal(tuned["recognition_weight_1"], tuned["weight_1"])


# --- log Z ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-017", "INF-66")
def test_annealing_from_base_rates_finds_log_z_of_the_top():
    """T1 and 20 hidden units: at least 55 of 60 runs within 3 of their errors (chance of fewer below 1e-4).

    The base and the law between are those of the rows; base rates never reach 0 or 1.
    """
    random = np.random.default_rng(0)
    t1 = RBMModel.of(W1, B0, C1)
    assert t1.log_partition() == pytest.approx(3.786021, abs=5e-7)
    large = RBMModel.of(0.5 * random.normal(size=(12, 20)), random.normal(size=12), random.normal(size=20))
    joint_z = logsumexp([v @ large.state()["visible_bias"] + np.logaddexp(0, v @ large.state()["weight"]
                         + large.state()["hidden_bias"]).sum() for v in all_states(12)])  # fmt: skip
    for model, exact, rates in ((t1, 3.786021, [0.0, 1.0]), (large, joint_z, random.random(12))):
        found = [
            log_partition(model, "ais", Noise(seed, "z"), chains=100, schedule=200, base_mean=np.array(rates))
            for seed in range(60)
        ]
        assert sum(abs(score.value - exact) <= 3 * score.error for score in found) >= 55
        assert all("effective number of weights" in score.note for score in found)
    base = t1.base(np.array([0.0, 1.0]))
    b_a = base.state()["visible_bias"]
    np.testing.assert_allclose(b_a, [math.log(0.01 / 0.99), math.log(0.99 / 0.01)])
    assert base.log_partition() == pytest.approx(np.logaddexp(0, b_a).sum() + 2 * math.log(2))
    path = t1.path(base, np.array([0.0, 0.3, 1.0]), ("visible",))
    law = V @ (0.7 * b_a + 0.3 * B0) + np.logaddexp(0, 0.3 * (C1 + V @ W1)).sum(1)
    np.testing.assert_allclose(path.log_prob(1, V), law, atol=1e-12)


@pytest.mark.spec("GEN-017", "INF-66")
def test_without_couplings_one_step_is_exact_and_without_variance():
    b = np.array([0.4, -1.0, 0.2])
    model = model_of([np.ones((2, 3)), np.zeros((3, 2))], [np.zeros(2), b, np.zeros(2)])
    found = log_partition(model.pair(2), "ais", Noise(0, "z"), chains=20, schedule=1, base_mean=expit(b))
    assert found.value == pytest.approx(np.logaddexp(0, b).sum() + 2 * math.log(2), abs=1e-12)
    assert found.error == pytest.approx(0, abs=1e-12)


@pytest.mark.spec("GEN-017", "INF-66")
def test_the_annealed_bound_is_below_the_enumerated_likelihood_by_its_gap():
    """3-2-2: bound with annealed log Z less than 3 of its errors above the enumerated bound, which is below log p."""
    model, weights, biases, pairs = random_model((3, 2, 2), seed=4)
    table, v = Table(weights, biases, pairs), all_states(3)
    assert (table.bound() < table.log_prob()).all()
    within = 0
    for seed in range(60):
        log_z = log_partition(model.pair(2), "ais", Noise(seed, "z"), chains=50, schedule=100)
        within += abs(log_z.value - table.log_z) <= 3 * log_z.error
        bound = model.exact_bound(v) + model.pair(2).log_partition() - log_z.value
        assert bound.mean() <= table.log_prob().mean() + 5 * log_z.error
    assert within >= 55  # of 99.7% promised; fewer come with a chance below 1e-4


def test_what_cannot_be_is_refused():
    with pytest.raises(UserValueError, match="hidden must name at least one layer"):
        DBN(hidden=()).fit(V)
    with pytest.raises(UserValueError, match="hidden must be at least 1 in every layer, got 0"):
        DBN(hidden=(3, 0)).fit(V)
