"""Adversarial systems: what they learn, their verbs, noise on the output, dropout in the critic."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from gnomon.data import load, split
from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_log_prob
from gnomon.evaluation.two_sample import maximum_mean_discrepancy
from gnomon.nn.batch_norm import BatchNorm
from gnomon.nn.context import bind
from gnomon.nn.encoders import DenseDecoder, DenseEncoder
from gnomon.numeric.noise import Noise
from gnomon.objectives.adversarial import NonSaturating
from gnomon.systems.adversarial.gan import DCGAN, GAN
from gnomon.training.group import Group
from oracles.latents import batch_of


def ring(n=600, seed=0):
    """Rows near a circle of radius 3 about (5, -1)."""
    random = np.random.default_rng(seed)
    angle = random.uniform(0, 2 * math.pi, n)
    return 3 * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.2 * random.normal(size=(n, 2)) + [5, -1]


@pytest.fixture(scope="module")
def fitted():
    return GAN(n_latent=4, max_updates=1500, generator=DenseDecoder((128, 128)), critic=DenseEncoder((128, 128)),
               random_state=0).fit(ring())  # fmt: skip


@pytest.mark.spec("GEN-093", "GEN-097")
def test_rows_of_a_ring(fitted):
    fresh = ring(seed=1)
    made = fitted.sample(600, random_state=0)
    blind = np.random.default_rng(2).normal(fresh.mean(0), fresh.std(0), size=(600, 2))
    off, baseline = (np.abs(np.linalg.norm(rows - [5, -1], axis=1) - 3).mean() for rows in (made, blind))
    assert off < baseline / 2
    turned = np.arctan2(*(made - [5, -1]).T)
    assert np.histogram(turned, bins=8, range=(-math.pi, math.pi))[0].min() > 15  # no eighth of it is left out
    scores = fitted.evaluate(fresh)
    assert scores["coverage"].value > 0.6 and scores["density"].value > 0.5 and not scores["mmd"].higher_is_better
    assert fitted.score(fresh) == -scores["mmd"].value
    assert set(scores) == {"mmd", "told_apart", "mmd_p_value", "told_p_value", "density", "coverage"}
    assert not hasattr(fitted, "log_prob")
    # verbs
    p = fitted.discriminate(np.concatenate([fresh, [[100.0, 100.0]]]))
    assert p.shape == (601,) and (p >= 0).all() and (p <= 1).all() and 0.2 < p[:600].mean() < 0.8
    codes = fitted.codes(5, random_state=3)
    assert codes.shape == (5, 4) and np.array_equal(codes, fitted.codes(5, random_state=3))
    rows = fitted.decode(codes)
    line = fitted.interpolate(codes[0], codes[1], 3)
    assert np.allclose(line[[0, 2]], rows[:2]) and np.allclose(
        line[1], fitted.decode(codes[:2].mean(0, keepdims=True))[0]
    )
    mixed = fitted.latent_arithmetic(codes[:2], codes[2:3])
    assert np.allclose(mixed, fitted.decode(codes[:1] + codes[1:2] - codes[2:3])[0])
    assert np.array_equal(fitted.sample(9, random_state=1)[:4], fitted.sample(4, random_state=1))


def test_the_history_has_both_players(fitted):
    assert {"generator", "critic", "critic_accuracy"} <= set(fitted.history_)
    assert all(0 <= value <= 1 for value in fitted.history_["critic_accuracy"])
    assert next(iter(key for key in fitted.history_ if key not in ("step", "epoch"))) == "generator"


@pytest.mark.spec("GEN-093")
def test_the_critics_answer_is_the_logistic_of_its_logits():
    """An affine critic of scaled rows: d = 1 / (1 + exp(-a)), 1 for data; its loss falls as data are given larger a."""
    X = ring(40)
    gan = GAN(n_latent=2, critic=DenseEncoder(()), max_updates=3, random_state=0, dtype="float64").fit(X)
    (layer,) = (m for m in gan.model_.critic.modules() if isinstance(m, nn.Linear))
    logits = ((X - X.mean(0)) / X.std(0)) @ layer.weight.detach().numpy()[0] + layer.bias.item()
    assert np.allclose(gan.discriminate(X), 1 / (1 + np.exp(-logits)), rtol=1e-9) and np.ptp(logits) > 0.1
    real, fake = torch.tensor([0.3], requires_grad=True), torch.tensor([0.3], requires_grad=True)
    NonSaturating().critic_loss(real, fake).sum().backward()
    assert real.grad.item() == pytest.approx(1 / (1 + math.exp(-0.3)) - 1) and fake.grad.item() > 0


@pytest.mark.spec("GEN-101")
def test_noise_on_the_output_gives_the_density_of_a_linear_generator():
    X = ring(80)
    gan = GAN(n_latent=2, generator=DenseDecoder(()), epochs=3, random_state=0, dtype="float64").fit(X)
    noisy, rows = gan.with_noise(0.8), X[:6]
    layer = gan.model_.generator.network[0]
    scale, shift = gan.model_.scale.numpy(), gan.model_.shift.numpy()
    W = layer.weight.detach().numpy() * scale[:, None]
    mean = shift + scale * layer.bias.detach().numpy()
    law = stats.multivariate_normal(mean, W @ W.T + 0.64 * np.eye(2))
    with torch.no_grad():
        found = latent_log_prob(noisy, noisy, torch.tensor(rows), 20_000, Noise(0, "draws"))
    assert (np.abs(found.value - law.logpdf(rows)) < 5 * found.stderr + 1e-3).all()
    score = gan.log_prob_bound(rows, 0.8, 20_000)
    assert score.kind == "lower bound" and score.value == pytest.approx(law.logpdf(rows).mean(), abs=0.05)
    made = noisy.sample(4000, Noise(0, "rows"))
    assert np.allclose(np.cov(made.T), law.cov, rtol=0.15, atol=0.15) and np.allclose(made.mean(0), mean, atol=0.3)
    # off what the generator makes the density goes to 0 with the noise
    far = rows + 30
    values = [gan.log_prob_bound(far, deviation, 200).value for deviation in (3.0, 1.0, 0.3, 0.1)]
    assert all(b < 5 * a < 0 for a, b in itertools.pairwise(values[1:])) and values[-1] < -1e4
    assert "one weight makes up more than half" in gan.log_prob_bound(rows, 0.02, 50).note


@pytest.mark.spec("GEN-101")
def test_uniform_noise_inputs_give_the_density_of_a_blurred_line():
    """g(z) = w z + b on (0, 1): p(x) by quadrature over z."""
    X = ring(60)[:, :1]
    gan = GAN(
        n_latent=1, noise="uniform", generator=DenseDecoder(()), max_updates=2, random_state=0, dtype="float64"
    ).fit(X)  # fmt: skip
    ends = gan.decode([[0.0], [1.0]])[:, 0]
    rows = np.linspace(ends.min() - 1, ends.max() + 1, 5)[:, None]
    z = (np.arange(4000) + 0.5) / 4000
    exact = np.log(stats.norm.pdf(rows, ends[0] + z * (ends[1] - ends[0]), 0.7).mean(1))
    noisy = gan.with_noise(0.7)
    with torch.no_grad():
        found = latent_log_prob(noisy, noisy, torch.tensor(rows), 20_000, Noise(0, "draws"))
    assert (np.abs(found.value - exact) < 5 * found.stderr + 1e-4).all()


@pytest.mark.spec("GEN-102")
def test_dropout_in_the_critic_is_on_for_the_generators_step_too():
    gan = GAN(n_latent=2, critic=DenseEncoder((32,), dropout=0.5), epochs=1, random_state=0, dtype="float64").fit(
        ring(64)
    )
    model, objective = gan.model_, NonSaturating(penalty=0.0).build()
    bind(model)
    batch = batch_of(ring(64))

    def slope(ask, seed):
        noise = Noise(0, "fit/generator")
        draws = type(
            "Stream", (), {"child": lambda self, name: noise.child(name) if name == "latent" else Noise(seed, name)}
        )
        loss = ask(model, batch, noise=draws(), phase="generator", group=Group())
        return torch.cat([g.ravel() for g in torch.autograd.grad(loss.total(), list(model.generator.parameters()))])

    assert torch.equal(slope(objective, 1), slope(objective, 2))  # the mean network
    one, other = (slope(objective.in_training, seed) for seed in (1, 2))
    assert not torch.allclose(one, other) and not torch.allclose(one, slope(objective, 1))
    assert torch.equal(one, slope(objective.in_training, 1))
    # real and made rows have masks of their own, and so have the players' updates
    calls = []
    layer = next(m for m in model.critic.modules() if type(m).__name__ == "Dropout")
    handle = layer.register_forward_hook(lambda module, given, out: calls.append((out != 0).numpy().copy()))
    for phase in ("critic", "generator"):
        objective.in_training(model, batch, noise=Noise(0, f"fit/{phase}"), phase=phase, group=Group())
    handle.remove()
    assert len(calls) == 3 and all((a != b).any() for a, b in itertools.pairwise(calls))


@pytest.mark.slow
@pytest.mark.spec("GEN-097")
def test_convolutions_on_digits():
    train, test = split(load("digits"), test=0.3, seed=0, how="random")
    X, T = (np.asarray(part.view("table"), np.float32) for part in (train, test))
    begun = DCGAN(max_updates=1, random_state=0).fit(X)
    trained = DCGAN(epochs=25, learning_rate=1e-3, random_state=0).fit(X)
    gaps = [maximum_mean_discrepancy(T, one.sample(len(T), random_state=0)) for one in (begun, trained)]
    assert gaps[1] < gaps[0] / 3
    made = trained.sample(200, random_state=0)
    assert made.min() >= 0 and made.max() <= 16  # tanh, and pixels in [-1, 1] for the critic
    scaled = trained.model_.scaled(torch.tensor(X))
    assert scaled.min() == -1 and scaled.max() == 1
    critic, generator = trained.model_.critic.network, trained.model_.generator.network
    slopes = [m.negative_slope for m in critic.modules() if isinstance(m, nn.LeakyReLU)]
    assert slopes == [0.2, 0.2] and sum(isinstance(m, nn.ReLU) for m in generator.modules()) == 2
    assert not isinstance(generator[-2], BatchNorm) and not isinstance(critic[2], BatchNorm)
    fresh = DCGAN()
    assert (fresh.learning_rate, fresh.recipe("optimizer").beta1, fresh.recipe("initializer").spread) == (
        2e-4,
        0.5,
        0.02,
    )
    weights = begun.model_.generator.network[0].weight
    assert weights.std().item() == pytest.approx(0.02, rel=0.1)


@pytest.mark.spec("GEN-093", "GEN-097")
def test_batch_statistics_of_real_and_made_rows_are_apart():
    critic = DenseEncoder((4,), batch_norm=True)
    gan = GAN(n_latent=2, critic=critic, epochs=1, random_state=0, dtype="float64").fit(ring(64))
    model, objective, seen = gan.model_, NonSaturating(penalty=0.0).build(), []
    bind(model)
    layer = next(m for m in model.critic.modules() if isinstance(m, BatchNorm))
    layer.register_forward_hook(lambda module, given, out: seen.append(out.detach()))
    objective.in_training(model, batch_of(ring(64)), noise=Noise(0, "fit"), phase="critic", group=Group())
    for out in seen:
        assert torch.allclose(out.mean(0), layer.shift.expand(4), atol=1e-10)
    assert len(seen) == 2


@pytest.mark.spec("GEN-094", "GEN-095")
@pytest.mark.parametrize("objective", ["minimax", "ml"])
def test_every_payoff_moves_the_generator(objective):
    gan = GAN(n_latent=2, objective=objective, epochs=40, learning_rate=5e-4, random_state=0).fit(ring(200))
    made = gan.sample(300, random_state=0)
    assert np.isfinite(made).all() and maximum_mean_discrepancy(ring(300, seed=1), made) < 0.3


def test_rows_without_weight_set_no_scale():
    X = np.array([[0.0, 2.0], [1.0, 4.0], [3.0, 10.0], [-500.0, 900.0]])
    used, weight = X[:3], np.array([1.0, 1.0, 2.0, 0.0])
    wide, plain = (
        GAN(n_latent=1, scaling=scaling, max_updates=1, dtype="float64", random_state=0).fit(X, sample_weight=weight)
        for scaling in ("range", "standard")
    )
    assert (wide.model_.shift == 5).all() and (wide.model_.scale == 5).all()  # 0 to 10, of all columns
    mean = np.average(used, axis=0, weights=weight[:3])
    deviation = np.sqrt(np.average((used - mean) ** 2, axis=0, weights=weight[:3]))
    assert np.allclose(plain.model_.shift, mean) and np.allclose(plain.model_.scale, deviation)
    scaled = plain.model_.scaled(torch.from_numpy(used))
    assert np.allclose(scaled, (used - mean) / deviation) and np.allclose(plain.model_.rows(scaled), used)


def test_a_network_of_ones_own():
    def network(inputs, outputs, shape, dtype):
        return nn.Sequential(nn.Linear(inputs, 8, dtype=dtype), nn.Tanh(), nn.Linear(8, outputs, dtype=dtype))

    gan = GAN(n_latent=2, critic=network, epochs=2, random_state=0).fit(ring(40))
    assert gan.sample(3).shape == (3, 2)
    again = GAN(n_latent=2, critic=network, epochs=2, random_state=0).fit(ring(40))
    assert np.array_equal(gan.sample(3, random_state=0), again.sample(3, random_state=0))


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda gan: gan.decode(np.zeros((2, 3))), "Z must have 4 columns, got 3"),
        (lambda gan: gan.with_noise(0.0), "deviation must be positive, got 0.0"),
        (lambda gan: DCGAN().fit(ring(20)), "a square number of columns where no shape is given, got 2"),
        (lambda gan: GAN(objective="minmax").fit(ring(20)), "did you mean 'minimax'"),
    ],
)
def test_what_cannot_be_asked(fitted, ask, told):
    with pytest.raises(UserValueError, match=told):
        ask(fitted)
