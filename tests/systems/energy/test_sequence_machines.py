"""Machines of sequences: windows, enumeration frame by frame, derivatives through time, and what they reduce to."""

import numpy as np
import pytest
import torch

import gnomon
from gnomon.data.batches import Batch
from gnomon.data.movies import bouncing_ball
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import Diverged, UserError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import CD, Exact
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.systems.energy._conditional_objective import GivenConditions
from gnomon.systems.energy._through_time import ThroughTime, frames_of
from gnomon.systems.energy.autoregressive_rbm import AutoregressiveRBM, AutoregressiveRBMModel, lagged
from gnomon.systems.energy.rbm import RBMModel
from gnomon.systems.energy.rnn_rbm import RNNRBM, RNNRBMModel
from gnomon.systems.energy.rtrbm import RTRBM, RTRBMModel
from gnomon.training.group import Group
from oracles.binary import all_states, numerical_gradient

RANDOM = np.random.default_rng(3)
D, M, K, ORDER = 3, 2, 4, 2
STATES, HIDDEN = all_states(D), all_states(M)
LENGTHS = (5, 3, 1)
SEQUENCES = [(RANDOM.random((n, D)) < 0.5).astype(float) for n in LENGTHS]
WEIGHT = np.array([1.0, 0.5, 2.0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_frame(w, b, c, x):
    """log p(x) of a machine with these couplings and biases, term by term."""

    def mass(v):
        return np.logaddexp.reduce([v @ b + h @ c + v @ w @ h for h in HIDDEN])

    return mass(x) - np.logaddexp.reduce([mass(v) for v in STATES])


# --- given the frames before ------------------------------------------------------------------------------------------


def autoregressive(kind="bernoulli", seed=0):
    model, random = AutoregressiveRBMModel(D, ORDER, M, kind, torch.float64), np.random.default_rng(seed)
    model.load({name: random.normal(size=value.shape) for name, value in model.state().items()})
    return model


def log_autoregressive(state, sequences):
    """log p of each sequence, frame by frame, from the definition: A and B of each lag, nothing before the start."""
    a, b_ = (state[f"condition_{layer}_weight"].reshape(ORDER, D, -1) for layer in ("visible", "hidden"))
    found = []
    for x in sequences:
        total = 0.0
        for t in range(len(x)):
            b, c = state["visible_bias"].copy(), state["hidden_bias"].copy()
            for lag in range(1, min(ORDER, t) + 1):
                b += x[t - lag] @ a[lag - 1]
                c += x[t - lag] @ b_[lag - 1]
            total += log_frame(state["weight"], b, c, x[t])
        found.append(total)
    return np.array(found)


def fitted(system, model, sequences=SEQUENCES):
    """A system that has this model."""
    found = system.fit(sequences)
    found.model_ = model
    return found


@pytest.mark.spec("GEN-056")
def test_the_likelihood_of_sequences_by_enumeration_frame_by_frame():
    model = autoregressive()
    system = fitted(AutoregressiveRBM(order=ORDER, n_hidden=M, epochs=1, dtype="float64"), model)
    expected = log_autoregressive(model.state(), SEQUENCES)
    np.testing.assert_allclose(system.log_prob(SEQUENCES), expected, atol=1e-11)
    # shorter ones alone, an array of one length, and a table: the same sequences
    np.testing.assert_allclose(system.log_prob(SEQUENCES[1:]), expected[1:], atol=1e-11)
    np.testing.assert_allclose(system.log_prob(SEQUENCES[0][None]), expected[:1], atol=1e-11)
    np.testing.assert_allclose(system.log_prob(SEQUENCES[0].reshape(1, -1)), expected[:1], atol=1e-11)
    assert system.evaluate(SEQUENCES)["log_likelihood"].value == pytest.approx(expected.mean())


@pytest.mark.spec("GEN-056")
def test_the_gradient_is_that_of_the_likelihood_and_never_crosses_an_end():
    system = AutoregressiveRBM(order=ORDER, n_hidden=M, objective="exact", epochs=1, dtype="float64").fit(SEQUENCES)
    examples = system.learned(system.ingest(SEQUENCES, sample_weight=WEIGHT))
    assert len(examples) == sum(LENGTHS)
    model, n = autoregressive(), len(examples)
    batch = Batch({"X": examples.X, "y": examples.y}, np.arange(n), np.arange(n), examples.weight)
    loss = GivenConditions(Exact().build())(model, batch, noise=Noise(0, "x"), phase="fit", group=Group())
    state = {name: np.array(value) for name, value in model.state().items()}
    for name in state:
        found = numerical_gradient(
            lambda one, name=name: -WEIGHT @ log_autoregressive(state | {name: one}, SEQUENCES), state[name]
        )
        np.testing.assert_allclose(loss.gradients[name], found, atol=1e-6, err_msg=name)


@pytest.mark.spec("GEN-056")
def test_without_couplings_real_frames_are_a_vector_autoregression():
    """At the least-squares fit on stacked lags the likelihood has no slope, and is that of the autoregression."""
    truth = np.array([[0.5, -0.2], [0.1, 0.3], [-0.2, 0.0], [0.1, 0.2]])
    x = np.zeros((300, 2))
    for t in range(2, 300):
        x[t] = np.concatenate([x[t - 1], x[t - 2]]) @ truth + 0.3 + 0.5 * RANDOM.normal(size=2)
    lags, y = lagged(x[None], 2)[0][2:], x[2:]
    np.testing.assert_array_equal(lags, np.hstack([x[1:-1], x[:-2]]))
    design = np.hstack([lags, np.ones((298, 1))])
    coefficients = np.linalg.lstsq(design, y, rcond=None)[0]
    residual = y - design @ coefficients
    precision = 1 / (residual**2).mean(0)
    model = AutoregressiveRBMModel(2, 2, 3, "gaussian", torch.float64)
    model.load({name: np.zeros(value.shape) for name, value in model.state().items()} | {
        "condition_visible_weight": coefficients[:-1] * precision, "visible_bias": coefficients[-1],
        "visible_log_precision": np.log(precision),
    })  # fmt: skip
    expected = (0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * residual**2).sum(1)
    np.testing.assert_allclose(model.given(lags).log_prob(y), expected, atol=1e-10)
    batch = Batch({"X": lags, "y": y}, np.arange(298), np.arange(298), np.ones(298))
    loss = GivenConditions(Exact().build())(model, batch, noise=Noise(0, "x"), phase="fit", group=Group())
    for name, value in loss.gradients.items():
        np.testing.assert_allclose(value, 0, atol=1e-8, err_msg=name)
    # the fit itself, couplings and all, is at least as likely as the autoregression
    system = AutoregressiveRBM(
        order=2, n_hidden=2, visible="gaussian", objective="exact", epochs=60, learning_rate=0.02, random_state=0
    ).fit([x])
    start = np.vstack([np.zeros((2, 2)), x])
    rows = np.hstack([start[1:-1], start[:-2], np.ones((300, 1))])
    again = x - rows @ np.linalg.lstsq(rows, x, rcond=None)[0]
    best = -0.5 * (300 * np.log(2 * np.pi * (again**2).mean(0)) + 300).sum()
    assert system.log_prob([x])[0] > best - 3


@pytest.mark.spec("GEN-056")
def test_without_the_past_it_is_an_rbm_of_frames():
    model = autoregressive()
    with torch.no_grad():
        model.condition_visible_weight.zero_()
        model.condition_hidden_weight.zero_()
    plain = RBMModel.of(*(model.state()[name] for name in ("weight", "visible_bias", "hidden_bias")))
    system = fitted(AutoregressiveRBM(order=ORDER, n_hidden=M, epochs=1, dtype="float64"), model)
    np.testing.assert_allclose(system.log_prob(SEQUENCES), [plain.log_prob(x).sum() for x in SEQUENCES], atol=1e-11)


@pytest.mark.spec("GEN-056", "GEN-057", "GEN-058")
@pytest.mark.parametrize("name", ["autoregressive-rbm", "rnn-rbm", "rtrbm"])
def test_what_is_generated_has_the_distribution_of_the_next_frame(name):
    """Counts of the next frame after a given beginning, by a chi-square test at 1e-4; noise on the past moves them."""
    from scipy.stats import chisquare

    model = {"autoregressive-rbm": autoregressive, "rnn-rbm": recurrent, "rtrbm": tied}[name]()
    system = fitted(gnomon.make(name, n_hidden=M, epochs=1, dtype="float64", random_state=0, **sizes(name)), model)
    n, begun = 4000, SEQUENCES[0][:3]
    drawn = system.generate(1, begun, n=n, steps=30, random_state=0)[:, 0]
    counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
    both = [np.vstack([begun, v]) for v in STATES]
    law = np.exp(system.log_prob(both) - system.log_prob([begun])[0])
    assert law.sum() == pytest.approx(1, abs=1e-10)
    assert chisquare(counts, n * law).pvalue > 1e-4
    two = [system.generate(2, begun, n=200, jitter=jitter, random_state=0) for jitter in (0.0, 2.0)]
    np.testing.assert_array_equal(two[0][:, 0], two[1][:, 0])
    assert (two[0][:, 1] != two[1][:, 1]).any()
    assert system.sample(3, random_state=0).shape == (3, 5 * D)


def sizes(name):
    return {"autoregressive-rbm": {"order": ORDER}, "rnn-rbm": {"n_recurrent": K}}.get(name, {})


# --- given a recurrent state ------------------------------------------------------------------------------------------


def recurrent(seed=1, couplings=False):
    model = RNNRBMModel(D, K, M, "bernoulli", torch.float64, couplings=couplings)
    random = np.random.default_rng(seed)
    model.load({name: 0.7 * random.normal(size=value.shape) for name, value in model.state().items()})
    return model


def log_frame_of(w, b, c, frame):
    """`log_frame` in tensors: a sum over all hidden and visible states of a frame."""
    states, hidden = torch.as_tensor(STATES), torch.as_tensor(HIDDEN)
    mass = torch.logsumexp((hidden @ c)[None] + states @ w @ hidden.T, 1) + states @ b
    return torch.logsumexp(hidden @ c + hidden @ (w.T @ frame), 0) + frame @ b - torch.logsumexp(mass, 0)


def log_recurrent(state, sequences):
    """log p of each sequence from the definition, in tensors."""
    tensor = {name: torch.as_tensor(value) for name, value in state.items()}
    a, b_ = (tensor[f"machine.condition_{layer}_weight"] for layer in ("visible", "hidden"))
    plain = tensor["machine.weight"]
    emitted = tensor.get("machine.condition_visible_hidden_weight", torch.zeros(K, D, M, dtype=torch.float64))
    found = []
    for x in sequences:
        u, total, frames = tensor["first"], 0.0, torch.as_tensor(x)
        for frame in frames:
            w = plain + torch.tensordot(u, emitted, 1)
            b, c = tensor["machine.visible_bias"] + u @ a, tensor["machine.hidden_bias"] + u @ b_
            total = total + log_frame_of(w, b, c, frame)
            u = torch.tanh(tensor["network.weight_h"] @ u + tensor["network.weight_x"] @ frame + tensor["network.bias"])
        found.append(total)
    return torch.stack(found)


def batch_of(sequences, weight=WEIGHT):
    longest = max(map(len, sequences))
    X, inside = np.zeros((len(sequences), longest, D)), np.zeros((len(sequences), longest), bool)
    for i, one in enumerate(sequences):
        X[i, : len(one)], inside[i, : len(one)] = one, True
    n = np.arange(len(sequences))
    return Batch({"X": X, "inside": inside}, n, n, weight)


@pytest.mark.spec("GEN-058")
@pytest.mark.parametrize("couplings", [False, True])
def test_the_exact_gradient_is_autograd_through_the_enumerated_likelihood(couplings):
    """Ragged sequences and weights; energies against log Z of each frame, all parameters, the start's among them."""
    model = recurrent(couplings=couplings)
    loss = ThroughTime(Exact().build())(model, batch_of(SEQUENCES), noise=Noise(0, "x"), phase="fit", group=Group())
    state = {name: torch.tensor(np.array(value), requires_grad=True) for name, value in model.state().items()}
    total = -torch.as_tensor(WEIGHT) @ log_recurrent(state, SEQUENCES)
    total.backward()
    assert loss.total() * WEIGHT @ np.array(LENGTHS) == pytest.approx(float(total.detach()), abs=1e-10)
    assert loss.gradients.keys() == state.keys()
    for name, value in state.items():
        np.testing.assert_allclose(loss.gradients[name], value.grad, atol=1e-10, err_msg=name)
    system = fitted(RNNRBM(n_hidden=M, n_recurrent=K, epochs=1, dtype="float64"), model)
    assert ("machine.condition_visible_hidden_weight" in state) is couplings
    np.testing.assert_allclose(system.log_prob(SEQUENCES), log_recurrent(state, SEQUENCES).detach(), atol=1e-10)
    np.testing.assert_allclose(
        system.log_prob(SEQUENCES[1:2]), log_recurrent(state, SEQUENCES[1:2]).detach(), atol=1e-10
    )


@pytest.mark.spec("GEN-058")
@pytest.mark.parametrize("couplings", [False, True])
@pytest.mark.parametrize("recipe", [CD(k=2), MCMC(k=3)])
def test_a_gradient_of_samples_is_that_of_the_surrogate(recipe, couplings, monkeypatch):
    """F(data) - F(samples), the samples being numbers, by autograd through the states."""
    from gnomon.objectives import chains, fresh_chains

    seen, model, batch = [], recurrent(couplings=couplings), batch_of(SEQUENCES)
    module = chains if isinstance(recipe, CD) else fresh_chains
    original = module.gibbs

    def spy(*given, **options):
        seen.append(original(*given, **options))
        return seen[-1]

    monkeypatch.setattr(module, "gibbs", spy)
    loss = ThroughTime(recipe.build())(model, batch, noise=Noise(4, "x"), phase="fit", group=Group())
    (ends,) = seen
    conditions = model.states(torch.as_tensor(batch.data["X"]))[torch.as_tensor(batch.data["inside"])]
    given, weight = model.machine.given(conditions), torch.as_tensor(frames_of(batch).weight)
    near = given.energy(torch.as_tensor(frames_of(batch).data["X"]))
    surrogate = weight @ (near - given.energy(torch.as_tensor(ends["visible"])))
    surrogate.backward()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(loss.gradients[name], parameter.grad, atol=1e-10, err_msg=name)


@pytest.mark.spec("GEN-058")
def test_conditionals_of_single_units_through_time():
    """Pseudolikelihood of each frame given the past: finite differences."""
    model, batch = recurrent(), batch_of(SEQUENCES)
    loss = ThroughTime(Pseudolikelihood().build())(model, batch, noise=Noise(0, "x"), phase="fit", group=Group())
    state = {name: np.array(value) for name, value in model.state().items()}

    def pseudo(one):
        twin = recurrent()
        twin.load(one)
        frames = frames_of(batch)
        x, given = frames.data["X"], twin.machine.given(twin.contexts(batch.data["X"])[batch.data["inside"]])
        total = 0.0
        for j in range(D):
            flipped = x.copy()
            flipped[:, j] = 1 - flipped[:, j]
            total += frames.weight @ np.logaddexp(0, given.energy(x) - given.energy(flipped))
        return total

    for name in ("network.weight_h", "network.weight_x", "first", "machine.condition_hidden_weight", "machine.weight"):
        found = numerical_gradient(lambda one, name=name: pseudo(state | {name: one}), state[name])
        np.testing.assert_allclose(loss.gradients[name], found, atol=1e-6, err_msg=name)


@pytest.mark.spec("GEN-058")
@pytest.mark.parametrize("tie", [False, True], ids=["rnn-rbm", "rtrbm"])
def test_frames_behind_the_end_have_no_part_in_anything(tie):
    """Whatever stands there, and however long the longest sequence of the batch is: the same gradients, and draws."""
    model = tied() if tie else recurrent()
    for recipe in (Exact(), CD()):
        plain, padded = batch_of(SEQUENCES), batch_of(SEQUENCES)
        padded.data["X"][~padded.data["inside"]] = 7.0
        losses = [
            ThroughTime(recipe.build())(model, one, noise=Noise(0, "x"), phase="fit", group=Group())
            for one in (plain, padded)
        ]
        for name, value in losses[0].gradients.items():
            np.testing.assert_array_equal(value, losses[1].gradients[name], err_msg=name)


@pytest.mark.spec("GEN-058")
def test_memory_beats_frames_alone_on_a_ball_that_bounces():
    """Held-out nats per sequence of 12 frames: the best memoryless model has -33.3, two frames are enough for -3.5."""
    X = bouncing_ball().X
    machine = RNNRBM(frame_size=25, epochs=15, learning_rate=0.02, random_state=0).fit(X[:300])
    assert machine.score(X[300:]) > -33.3 + 10


# --- given the hidden means of the frame before -----------------------------------------------------------------------


def tied(seed=2):
    model, random = RTRBMModel(D, M, "bernoulli", torch.float64), np.random.default_rng(seed)
    model.load({name: random.normal(size=value.shape) for name, value in model.state().items()})
    return model


def log_tied(state, sequences):
    """log p of each sequence from the definition, in tensors: c_t = c + B^T h_(t-1), h_t = sigmoid(W^T x_t + c_t)."""
    tensor = {name.removeprefix("machine."): torch.as_tensor(value) for name, value in state.items()}
    w, b = tensor["weight"], tensor["visible_bias"]
    found = []
    for x in sequences:
        h, total = tensor["first"], 0.0
        for frame in torch.as_tensor(x):
            c = tensor["hidden_bias"] + tensor["condition_hidden_weight"].T @ h
            total, h = total + log_frame_of(w, b, c, frame), torch.sigmoid(w.T @ frame + c)
        found.append(total)
    return torch.stack(found)


@pytest.mark.spec("GEN-057")
def test_the_gradient_of_tied_couplings_is_autograd_and_differences():
    """Through all hidden means: the likelihood term by term, of ragged weighted sequences."""
    model = tied()
    loss = ThroughTime(Exact().build())(model, batch_of(SEQUENCES), noise=Noise(0, "x"), phase="fit", group=Group())
    state = {name: torch.tensor(np.array(value), requires_grad=True) for name, value in model.state().items()}
    total = -torch.as_tensor(WEIGHT) @ log_tied(state, SEQUENCES)
    total.backward()
    assert loss.total() * WEIGHT @ np.array(LENGTHS) == pytest.approx(float(total.detach()), abs=1e-10)
    assert loss.gradients.keys() == state.keys() == dict(model.named_parameters()).keys()
    plain = {name: value.detach().numpy() for name, value in state.items()}
    for name, value in state.items():
        np.testing.assert_allclose(loss.gradients[name], value.grad, atol=1e-10, err_msg=name)
        found = numerical_gradient(
            lambda one, name=name: float(-WEIGHT @ log_tied(plain | {name: one}, SEQUENCES).numpy()), plain[name]
        )
        np.testing.assert_allclose(loss.gradients[name], found, atol=1e-6, err_msg=name)
    system = fitted(RTRBM(n_hidden=M, epochs=1, dtype="float64"), model)
    np.testing.assert_allclose(system.log_prob(SEQUENCES), log_tied(plain, SEQUENCES), atol=1e-10)


@pytest.mark.spec("GEN-057")
@pytest.mark.parametrize("recipe", [Exact(), CD(k=2), Pseudolikelihood()])
def test_it_is_the_recurrent_machine_whose_state_is_the_posterior(recipe):
    """A sigmoid network with W and B of the machine: the same states, and gradients that are sums over the ties."""
    model, batch = tied(), batch_of(SEQUENCES)
    own = {name.removeprefix("machine."): np.array(value) for name, value in model.state().items()}
    twin = RNNRBMModel(D, M, M, "bernoulli", torch.float64)
    twin.network.activation = torch.sigmoid
    machine = {f"machine.{name}": value for name, value in own.items() if name != "first"}
    twin.load(machine | {
        "machine.condition_visible_weight": np.zeros((M, D)), "first": own["first"], "network.bias": own["hidden_bias"],
        "network.weight_x": own["weight"].T, "network.weight_h": own["condition_hidden_weight"].T,
    })  # fmt: skip
    np.testing.assert_allclose(model.contexts(batch.data["X"]), twin.contexts(batch.data["X"]), atol=1e-12)
    a, b = (
        ThroughTime(recipe.build())(one, batch, noise=Noise(0, "x"), phase="fit", group=Group()).gradients
        for one in (model, twin)
    )
    ties = {"weight": b["network.weight_x"].T, "condition_hidden_weight": b["network.weight_h"].T,
            "hidden_bias": b["network.bias"]}  # fmt: skip
    for name in own:
        whole = b[name] if name == "first" else b[f"machine.{name}"] + ties.get(name, 0)
        np.testing.assert_allclose(a[name if name == "first" else f"machine.{name}"], whole, atol=1e-10, err_msg=name)


@pytest.mark.spec("GEN-057")
def test_hidden_means_are_memory_enough_to_go_round():
    """A spot on a ring of four that begins anywhere: -ln 4 nats for a sequence of eight, -8 ln 4 without memory."""
    ring = np.eye(4)[(np.arange(4)[:, None] + np.arange(8)) % 4]
    machine = RTRBM(n_hidden=20, epochs=150, batch_size=4, learning_rate=0.05, random_state=0).fit(ring)
    assert machine.score(ring) > -8 * np.log(4) / 2
    assert (machine.generate(1, ring[:, :6], random_state=0)[:, 0].argmax(1) == ring[:, 6].argmax(1)).sum() >= 3


def test_the_ball_obeys_its_rule():
    frames = bouncing_ball().X.reshape(400, 12, 5, 5)
    assert (frames.sum((2, 3)) == 4).all()
    where = np.stack([frames.any(3).argmax(2), frames.any(2).argmax(2)], 2)
    assert (np.abs(np.diff(where, axis=1)) == 1).all()  # a step in both directions, always
    turned = np.diff(np.sign(np.diff(where, axis=1)), axis=1) != 0
    at_wall = (where[:, 1:-1] == 0) | (where[:, 1:-1] == 3)
    np.testing.assert_array_equal(turned, at_wall)
    distinct, counts = np.unique(frames.reshape(400, -1), axis=0, return_counts=True)
    share = counts / 400
    assert len(distinct) == 36 and -(share @ np.log(share)) == pytest.approx(3.466, abs=0.15)


@pytest.mark.parametrize("name", ["autoregressive-rbm", "rnn-rbm", "rtrbm"])
def test_what_is_refused(name):
    def make(**options):
        return gnomon.make(name, n_hidden=2, epochs=1, **options)

    with pytest.raises(UserValueError, match="frame_size must divide the 6 columns, got 4"):
        make(frame_size=4).fit(np.zeros((3, 6)))
    with pytest.raises(UserValueError, match="frame_size must be 3, as the sequences have it, got 2"):
        make(frame_size=2).fit(SEQUENCES)
    with pytest.raises(UserValueError, match="sequence 1"):
        make().fit([SEQUENCES[0], np.zeros((2, 5))])
    with pytest.raises(UserError, match="NaN"):
        make().fit([SEQUENCES[0], np.full((2, D), np.nan)])
    with pytest.raises(UserError, match="0 or 1"):
        make().fit([SEQUENCES[0] + 0.5])
    with pytest.raises(Diverged, match="a weight has grown to"):
        make(learning_rate=1e6).fit(SEQUENCES)
    system = make().fit(SEQUENCES)
    with pytest.raises(UserError, match="context must be of shape"):
        system.generate(2, np.zeros((2, 5)))
    with pytest.raises(UserError, match="jitter must be at least 0"):
        system.generate(2, jitter=-1.0)
    with pytest.raises(UserError, match="at most 5 frames, the most of the fit, got 9"):
        system.log_prob([np.zeros((9, D))])
    assert isinstance(system.model_.machine.units["visible"], BernoulliUnits)


@pytest.mark.parametrize("name", ["autoregressive-rbm", "rnn-rbm", "rtrbm"])
def test_real_frames_in_the_units_of_the_data(name):
    """Scaling changes a density by the units alone: fits to x and to 10 x + 3 differ by the log of 10 a number."""
    x = RANDOM.normal(size=(6, 4, 2))
    options = {"visible": "gaussian", "n_hidden": 2, "epochs": 3, "random_state": 0, "dtype": "float64"}
    one, other = (gnomon.make(name, **options).fit(rows) for rows in (x, 10 * x + 3))
    np.testing.assert_allclose(one.log_prob(x), other.log_prob(10 * x + 3) + 8 * np.log(10), atol=1e-8)
    drawn = other.generate(3, 10 * x[0] + 3, n=500, random_state=0)
    assert drawn.shape == (500, 3, 2) and abs(drawn.mean() - 3) < 5
