"""Wake-sleep and its kin on machines whose every state can be visited: expected gradients, limits, what moves.

Where every draw is listed with its probability as weight, the objective's own loss gives its expected gradient exactly.
Random tests have fixed seeds; their false-alarm rates at other seeds stand beside them.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from gnomon.nn.encoders import DenseEncoder
from gnomon.numeric.noise import Noise
from gnomon.objectives.wake_sleep import ReweightedWakeSleep, WakeSleep
from gnomon.systems.variational._belief_net import LayeredCodes
from gnomon.systems.variational.helmholtz_machine import HelmholtzMachine
from gnomon.systems.variational.sbn import SBN
from gnomon.systems.variational.vae import VAE
from gnomon.training.group import Group
from oracles.belief import net, states_of, t1
from oracles.latents import batch_of, flat

F64 = torch.float64
DATA = np.array([[1.0, 0, 1], [0, 0, 1], [1, 1, 0]])
SIZES = (3, 2, 2)
H = torch.as_tensor(states_of(4))
"""States of the two hidden layers."""


def tables(model, x):
    """log p(x, h) and log q(h | x) of every state, (n, states) each."""
    x, h = torch.as_tensor(x), torch.as_tensor(states_of(sum(model.sizes[1:])))
    many, z = x.repeat_interleave(len(h), 0), h.repeat(len(x), 1)
    shape = (len(x), len(h))
    return model.log_joint(many, z).reshape(shape), model.encode(x).log_prob(_side_by_side(h, len(x))).reshape(shape)


def _side_by_side(h, n):
    return h.repeat(n, 1)


def loss_of(objective, model, batch, phase="fit", seed=0):
    return objective(model, batch, noise=Noise(seed, "fit/test"), phase=phase, group=Group())


def expected(objective, model, x, monkeypatch, phase="fit"):
    """The loss with every k-tuple of states drawn for each row, each with the probability of its coming."""
    log_q = tables(model, x)[1].detach().numpy()
    tuples = np.array(list(itertools.product(range(log_q.shape[1]), repeat=objective.k)))
    weight = np.exp(log_q[:, tuples].sum(2)).ravel()
    states = torch.as_tensor(states_of(sum(model.sizes[1:])))[torch.as_tensor(tuples).ravel()]
    with monkeypatch.context() as patched:
        patched.setattr(LayeredCodes, "sample", lambda self, noise, draw=0, draws=1: states.repeat(len(x), 1))
        return loss_of(objective, model, batch_of(np.repeat(x, len(tuples), axis=0), weight=weight), phase)


def all_dreams(model):
    """Every row and state, and log p of both together, held."""
    rows, h = states_of(model.sizes[0]), states_of(sum(model.sizes[1:]))
    x, z = (torch.as_tensor(one) for one in (np.repeat(rows, len(h), axis=0), np.tile(h, (len(rows), 1))))
    return x, z, model.log_joint(x, z).detach()


@pytest.mark.spec("INF-102", "GEN-076")
def test_the_expected_sleep_gradient_is_that_of_the_divergence_from_the_posterior(monkeypatch):
    model = net(SIZES, seed=1)
    x, z, log_p = all_dreams(model)
    monkeypatch.setattr(model, "dream", lambda n, noise: (x, z))
    objective = WakeSleep(moves="recognition").build()
    loss = loss_of(objective, model, batch_of(x.numpy(), weight=log_p.exp().numpy()), "recognition")
    rows = states_of(3)
    joint, log_q = tables(model, rows)
    joint = joint.detach()
    posterior = joint.softmax(1)
    divergence = (torch.logsumexp(joint, 1).exp() * (posterior * (posterior.log() - log_q)).sum(1)).sum()
    exact = flat(divergence, model)
    np.testing.assert_allclose(flat(loss.total(), model), exact, atol=1e-12)
    assert exact.abs().max() > 0.05


@pytest.mark.spec("INF-102", "GEN-076")
def test_the_expected_wake_gradient_is_that_of_the_bound_for_q_as_it_is(monkeypatch):
    model = net(SIZES, seed=2)
    found = flat(expected(WakeSleep(moves="generative").build(), model, DATA, monkeypatch, "generative").total(), model)
    joint, log_q = tables(model, DATA)
    share = log_q.detach().exp()
    bound = (share * (joint - log_q.detach())).sum(1).mean()
    np.testing.assert_allclose(found, -flat(bound, model), atol=1e-12)
    assert found.abs().max() > 0.1


@pytest.mark.spec("GEN-076")
def test_the_toy_machine_has_the_bounds_of_the_page(monkeypatch):
    model, row = t1(), np.array([[1.0, 1.0]])
    for k, value in ((1, -1.175897), (2, -1.110174)):
        objective = ReweightedWakeSleep(k=k).build()
        objective.taught = ["wake"]
        loss = expected(objective, model, row, monkeypatch)
        term = loss.terms["negative_bound"]
        assert -term.sum / term.weight == pytest.approx(value, abs=5e-7)
        assert term.weight == pytest.approx(1)
    assert model.log_prob(row)[0] == pytest.approx(-1.019465, abs=5e-7)


@pytest.mark.spec("GEN-078")
def test_one_draw_is_wake_sleep():
    model = net(SIZES, seed=3)
    losses = [
        loss_of(recipe.build(), model, batch_of(DATA)) for recipe in (WakeSleep(), ReweightedWakeSleep(1, "sleep"))
    ]
    first, second = (flat(loss.total(), model) for loss in losses)
    assert torch.equal(first, second) and first.abs().max() > 0.01
    assert losses[0].terms["negative_bound"] == losses[1].terms["negative_bound"]


@pytest.mark.spec("GEN-078")
def test_the_wake_gradients_are_the_weighted_ones_by_hand(monkeypatch):
    """All pairs of states: sum_ij q_i q_j (w_i g_i + w_j g_j) / (w_i + w_j), with g of log p and of log q."""
    model = net(SIZES, seed=4)
    objective = ReweightedWakeSleep(2, "wake").build()
    loss = expected(objective, model, DATA, monkeypatch)
    joint, log_q = tables(model, DATA)
    q, w = log_q.detach().exp(), (joint - log_q).detach().exp()
    share = torch.zeros_like(q)
    for i, j in itertools.product(range(16), repeat=2):
        both = q[:, i] * q[:, j] / (w[:, i] + w[:, j])
        share[:, i] += both * w[:, i]
        share[:, j] += both * w[:, j]
    by_hand = (share * (joint + log_q)).sum(1).mean()
    np.testing.assert_allclose(flat(loss.total(), model), -flat(by_hand, model), atol=1e-12)
    draws = loss.terms["effective_draws"]
    ess = sum(
        (q[:, i] * q[:, j] * (w[:, i] + w[:, j]) ** 2 / (w[:, i] ** 2 + w[:, j] ** 2)).mean()
        for i, j in itertools.product(range(16), repeat=2)
    )
    assert draws.sum / draws.weight == pytest.approx(float(ess), rel=1e-12)


@pytest.mark.spec("GEN-078")
def test_the_wake_gradient_tends_to_that_of_the_likelihood(monkeypatch):
    """Exactly for 1, 2 and 3 draws, whose bias falls; 400 of 64 draws within 5 errors and a bias of 1/64: 1e-5."""
    model = net(SIZES, seed=5, scale=0.7)
    exact = -flat(model.log_prob(torch.as_tensor(DATA)).mean(), model)
    away = []
    for k in (1, 2, 3):
        objective = ReweightedWakeSleep(k, "wake", moves="generative").build()
        away.append(
            float((flat(expected(objective, model, DATA, monkeypatch, "generative").total(), model) - exact).norm())
        )
    assert away[0] > 1.3 * away[1] > 1.3 * 1.1 * away[2]
    objective = ReweightedWakeSleep(64, "wake", moves="generative").build()
    found = torch.stack([
        flat(loss_of(objective, model, batch_of(DATA), "generative", seed).total(), model) for seed in range(400)
    ])  # fmt: skip
    error = found.std(0) / 20
    assert ((found.mean(0) - exact).abs() <= 5 * error + 3 * away[0] / 64 + 1e-12).all()
    assert (found.mean(0) - exact).norm() < 0.1 * away[0] + 5 * error.norm()


@pytest.mark.spec("GEN-078")
def test_both_lessons_together_are_their_mean():
    model = net(SIZES, seed=6)
    wake, sleep, both = (
        flat(loss_of(ReweightedWakeSleep(4, phi).build(), model, batch_of(DATA)).total(), model)
        for phi in ("wake", "sleep", "wake+sleep")
    )
    np.testing.assert_allclose(both, (wake + sleep) / 2, atol=1e-13)
    assert (wake - sleep).abs().max() > 0.01


@pytest.mark.spec("INF-102", "GEN-078")
@pytest.mark.parametrize(("recipe", "seed"), [(WakeSleep(), 7), (ReweightedWakeSleep(2, "wake+sleep"), 8)])
def test_drawn_gradients_have_the_expected_ones_as_their_mean(recipe, seed, monkeypatch):
    """60 batches of 600 rows, every number within 5 of its standard errors: false alarm below 1e-4."""
    model = net(SIZES, seed=seed)
    objective = recipe.build()
    exact = expected(recipe.build(), model, DATA, monkeypatch)
    x, z, log_p = all_dreams(model)
    with monkeypatch.context() as patched:
        patched.setattr(model, "dream", lambda n, noise: (x, z))
        asleep = WakeSleep(moves="recognition").build()
        dreams = loss_of(asleep, model, batch_of(x.numpy(), weight=log_p.exp().numpy()), "recognition")
    parts = [exact.terms[name] for name in exact.terms if name in ("wake", "recognized")]
    total = sum(term.scale * term.sum / term.weight for term in parts)
    total = total + dreams.total() * objective(
        model, batch_of(DATA), noise=Noise(0, "fit/test"), phase="fit", group=Group()
    ).terms["sleep"].scale  # fmt: skip
    rows = batch_of(np.tile(DATA, (200, 1)))
    found = torch.stack([flat(loss_of(objective, model, rows, seed=seed).total(), model) for seed in range(60)])
    mean = flat(total, model)
    assert ((found.mean(0) - mean).abs() <= 5 * found.std(0) / 60**0.5 + 1e-12).all()


class TableCodes:
    """q(h | x) with a number for every state."""

    def __init__(self, logits, states):
        self.log_q, self.states = logits.log_softmax(1), states

    def log_prob(self, z):
        place = (z @ torch.tensor([2.0, 1.0], dtype=F64)).long()
        return self.log_q.repeat_interleave(len(z) // len(self.log_q), 0).gather(1, place[:, None])[:, 0]

    def sample(self, noise, draw=0, *, draws=1):
        u = noise.uniform((len(self.log_q), 1), like=self.log_q.detach())
        return self.states[(self.log_q.exp().cumsum(1) < u).sum(1).clamp(max=3)]


class Tabular(nn.Module):
    """The net with a table in place of a way up."""

    def __init__(self, model):
        super().__init__()
        self.model, self.table = model, nn.Parameter(torch.zeros(8, 4, dtype=F64))
        self.log_joint, self.dream, self.generative = model.log_joint, model.dream, model.generative

    def recognition(self):
        return [self.table]

    def encode(self, x):
        return TableCodes(
            self.table[(x @ torch.tensor([4.0, 2.0, 1.0], dtype=F64)).long()], torch.as_tensor(states_of(2))
        )


@pytest.mark.spec("INF-102")
def test_asleep_a_table_learns_the_exact_posterior():
    """600 updates on 256 dreams each with a falling step size."""
    model = Tabular(net((3, 2), seed=9))
    before = [parameter.clone() for parameter in model.generative()]
    objective, rule = WakeSleep(moves="recognition").build(), torch.optim.Adam([model.table], lr=0.05)
    batch = batch_of(np.zeros((256, 3)))
    for update in range(600):
        rule.param_groups[0]["lr"] = 0.05 * (1 - update / 600)
        noise = Noise(0, "fit/recognition").at(update)
        rule.zero_grad()
        objective(model, batch, noise=noise, phase="recognition", group=Group()).total().backward()
        rule.step()
    joint = torch.as_tensor(tables(model.model, states_of(3))[0].detach())
    posterior, weight = joint.softmax(1), joint.exp().sum(1)
    q = model.encode(torch.as_tensor(states_of(3))).log_q.exp().detach()
    apart = (posterior - q).abs().max(1).values
    assert float(weight @ apart) < 0.02 and (apart[weight > 0.05] < 0.06).all()
    assert (posterior - 0.25).abs().max() > 0.3
    assert all(torch.equal(a, b) for a, b in zip(before, model.generative(), strict=True))


@pytest.mark.spec("INF-102")
def test_awake_the_gap_grows_while_the_bound_stays_one(monkeypatch):
    """From q near the posterior, 60 exact wake steps: the bound rises, the likelihood more, and the gap with it."""
    model = net((3, 2), seed=10, scale=0.3)
    asleep, awake = WakeSleep(moves="recognition").build(), WakeSleep(moves="generative").build()
    rule = torch.optim.Adam(model.recognition(), lr=0.05)
    for _ in range(200):
        x, z, log_p = all_dreams(model)
        with monkeypatch.context() as patched:
            patched.setattr(model, "dream", lambda n, noise, x=x, z=z: (x, z))
            loss = loss_of(asleep, model, batch_of(x.numpy(), weight=log_p.exp().numpy()), "recognition").total()
        rule.zero_grad()
        loss.backward()
        rule.step()

    def both():
        joint, log_q = (one.detach() for one in tables(model, DATA))
        return float((log_q.exp() * (joint - log_q)).sum(1).mean()), float(torch.logsumexp(joint, 1).mean())

    q_before = [parameter.clone() for parameter in model.recognition()]
    begun, history = both(), []
    rule = torch.optim.SGD(model.generative(), lr=0.2)
    for _ in range(60):
        rule.zero_grad()
        expected(awake, model, DATA, monkeypatch, "generative").total().backward()
        rule.step()
        history.append(both())
    bounds, likelihoods = np.array([begun, *history]).T
    assert (bounds <= likelihoods).all() and (np.diff(bounds) > 0).all()
    assert likelihoods[-1] - bounds[-1] > 3 * (begun[1] - begun[0]) and bounds[-1] > bounds[0] + 0.15
    assert all(torch.equal(a, b) for a, b in zip(q_before, model.recognition(), strict=True))


# --- fits -------------------------------------------------------------------------------------------------------------

X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 30, axis=0)


@pytest.mark.spec("INF-102")
@pytest.mark.parametrize("moves", ["generative", "recognition"])
def test_a_wake_step_and_a_sleep_step_move_one_net(moves):
    machine = HelmholtzMachine(hidden=(3, 2), random_state=0).partial_fit(X)
    before = {name: value.copy() for name, value in machine.model_.state().items()}
    machine.set_params(objective__moves=moves).partial_fit(X)
    moved = {name for name, value in machine.model_.state().items() if not np.array_equal(value, before[name])}
    own = {id(p) for p in getattr(machine.model_, moves)()}
    assert moved == {name for name, p in machine.model_.named_parameters() if id(p) in own}
    machine.set_params(objective__moves="both").partial_fit(X)


@pytest.mark.spec("INF-102", "GEN-076")
def test_a_fit_by_wake_and_sleep_finds_two_patterns_in_blocks_or_together():
    """Independent columns have 4 log 2 = 2.77 nats of surprise, two patterns 0.69."""
    for block in (0, 3):
        machine = HelmholtzMachine(
            hidden=(3,), objective=WakeSleep(block=block), epochs=60, learning_rate=0.05, batch_size=15, random_state=0
        )
        machine.fit(X)
        assert machine.score(X) > -1.6
        assert set(machine.history_) >= {"negative_bound", "wake", "sleep", "gradient_norm"}
        found, elbo = machine.evaluate(X)["log_likelihood"], machine.elbo(X, 32)
        assert elbo.value < found.value + 5 * elbo.error and found.kind == "exact"
        q = machine.posterior(X).mean
        assert q.shape == (60, 3) and machine.sample(4, random_state=0).shape == (4, 4)


@pytest.mark.spec("GEN-078")
def test_reweighted_draws_learn_more_than_single_ones():
    """Four pairs of nets on noisy patterns: the mean difference of log-likelihoods beyond twice its error."""
    random = np.random.default_rng(0)
    rows = np.repeat([[1.0, 1, 0, 0, 1, 0], [0, 0, 1, 1, 0, 1], [1, 0, 1, 0, 1, 1]], 60, axis=0)
    rows = np.abs(rows - (random.random(rows.shape) < 0.05))
    gained = []
    for seed in range(4):
        common = {
            "hidden": (4, 3),
            "epochs": 30,
            "learning_rate": 0.03,
            "encoder": DenseEncoder(()),
            "random_state": seed,
        }
        single = SBN(objective="wake-sleep", **common).fit(rows)
        several = SBN(objective=ReweightedWakeSleep(5, "wake+sleep"), **common).fit(rows)
        gained.append(several.score(rows) - single.score(rows))
    assert np.mean(gained) > 2 * np.std(gained, ddof=1) / len(gained) ** 0.5
    assert "effective_draws" in several.history_ and 1 <= several.history_["effective_draws"][-1] <= 5


def test_a_variational_autoencoder_learns_by_wake_and_sleep_too():
    for objective in ("wake-sleep", "reweighted-wake-sleep"):
        vae = VAE(
            n_latent=1, likelihood="bernoulli", objective=objective, epochs=60, learning_rate=0.01, random_state=0
        )
        assert vae.set_params(random_state=0).fit(X).score(X) > -2.0
