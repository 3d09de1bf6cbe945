"""DRAW: the definition written out, one step against a variational autoencoder, bounds against quadrature and sums."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn

import gnomon
from gnomon.cli.main import run as command
from gnomon.data import load, split
from gnomon.data.batches import Batch
from gnomon.distributions.latents import BinaryLatents, GaussianLatents
from gnomon.errors import UserValueError
from gnomon.evaluation import gradient_variance
from gnomon.nn.glimpses import GaussianAttention, WithoutAttention
from gnomon.nn.layers import dense
from gnomon.nn.likelihoods import BernoulliLikelihood, CategoricalLikelihood, GaussianLikelihood
from gnomon.nn.recurrent import GRU, RNN
from gnomon.numeric.noise import Noise
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.relaxed import GumbelSoftmax
from gnomon.objectives.variational import ELBO, IWAE, likelihood_and_divergence
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture
from gnomon.systems.variational._model import VAEModel
from gnomon.systems.variational.draw import DRAW, DRAWModel
from gnomon.training.group import Group

F64, RANDOM = torch.float64, np.random.default_rng(0)
BARS = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0]] * 8, np.float64)


def made(head, glimpse, n_steps, layer=GRU, d=12, latents=None, units=4, n_latent=2):
    """A model in double precision with random weights and units of the rows."""
    latents = latents or GaussianLatents()
    encoder = layer(glimpse.n_read + units, units, dtype=F64)
    decoder = layer(n_latent * latents.columns, units, dtype=F64)
    model = DRAWModel(d, n_steps, n_latent, glimpse, encoder, decoder, latents, head, not head.values, F64)
    with torch.no_grad():
        for one in (*model.parameters(), *head.buffers()):
            one.copy_(torch.as_tensor(0.4 * RANDOM.normal(size=one.shape)))
        if model.scales:
            model.shift.copy_(torch.as_tensor(RANDOM.normal(size=d)))
            model.scale.copy_(torch.as_tensor(RANDOM.uniform(0.5, 2.0, size=d)))
    return model


def cell(layer):
    """Torch's gated unit with the weights of a layer here."""
    own = nn.utils.skip_init(nn.GRUCell, layer.inputs, layer.units, dtype=F64)
    with torch.no_grad():
        own.weight_ih.copy_(layer.weight_x)
        own.weight_hh.copy_(layer.weight_h)
        own.bias_ih.copy_(layer.bias)
        own.bias_hh.copy_(torch.cat([torch.zeros(2 * layer.units, dtype=F64), layer.bias_n]))
    return own


def windowed(window, state):
    """Filters of each row and its gain, as they are published: pixels count from 1, rows are divided by their sums."""
    found = []
    for g_row, g_column, log_variance, log_stride, log_gain in window.numbers(state).tolist():
        sides = []
        for g, side in zip((g_row, g_column), window.size, strict=True):
            stride = (max(window.size) - 1) / (window.n - 1) * math.exp(log_stride)
            means = (side + 1) / 2 * (g + 1) + (np.arange(1, window.n + 1) - window.n / 2 - 0.5) * stride
            filters = np.exp(-((np.arange(1, side + 1) - means[:, None]) ** 2) / (2 * math.exp(log_variance)))
            sides.append(torch.as_tensor(filters / filters.sum(1, keepdims=True)))
        found.append((*sides, math.exp(log_gain)))
    return found


@pytest.mark.spec("GEN-091")
@pytest.mark.parametrize("likelihood", [BernoulliLikelihood(), GaussianLikelihood("network", floor=0.1)])
def test_steps_are_those_of_the_definition(likelihood):
    """Three steps on images of 2 x 3 with two channels, by torch's unit and matrix products row by row."""
    glimpse = GaussianAttention(2, 3).build((2, 3, 2), 1, likelihood.build(12, F64).width, 4, F64)
    model = made(likelihood.build(12, F64), glimpse, 3)
    x = torch.as_tensor((RANDOM.random((5, 12)) < 0.5).astype(float))
    z, width = torch.as_tensor(RANDOM.normal(size=(5, 6))), model.head.width
    seen = (x - model.shift) / model.scale
    h_enc = h_dec = torch.zeros(5, 4, dtype=F64)
    canvas, log_q, lost = torch.zeros(5, 12 * width, dtype=F64), 0.0, 0.0
    with torch.no_grad():
        path, raw = model.encode(x).follow(z), []
        for t in range(3):
            error = seen - (torch.sigmoid(canvas + model.head.offset) if width == 1 else canvas[:, :12])
            read = []
            for k, (rows, columns, gain) in enumerate(windowed(glimpse.reader, h_dec)):
                images = [*seen[k].reshape(2, 3, 2).unbind(2), *error[k].reshape(2, 3, 2).unbind(2)]
                read.append(torch.cat([(gain * rows @ one @ columns.T).ravel() for one in images]))
            h_enc = cell(model.encoder)(torch.cat([torch.stack(read), h_dec], 1), h_enc)
            mean, log_variance = model.to_codes(h_enc).chunk(2, 1)
            step = z[:, 2 * t : 2 * t + 2]
            q = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
            log_q = log_q + q.log_prob(step).sum(1)
            prior = torch.distributions.Normal(torch.zeros_like(mean), 1.0)
            lost = lost + torch.distributions.kl_divergence(q, prior).sum(1)
            h_dec = cell(model.decoder)(step, h_dec)
            patches = glimpse.brush(h_dec).reshape(5, width, 2, 3, 3)
            painted = []
            for k, (rows, columns, gain) in enumerate(windowed(glimpse.writer, h_dec)):
                images = [torch.stack([rows.T @ w @ columns / gain for w in one], 2).ravel() for one in patches[k]]
                painted.append(torch.cat(images))
            canvas = canvas + torch.stack(painted)
            raw.append(canvas)
            torch.testing.assert_close(path.states[t].canvas, canvas, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(model.canvases(z)[t], canvas, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(path.codes.log_prob(z), log_q, rtol=1e-10, atol=1e-10)
        log_p = model.head.log_prob(canvas, seen) - model.scale.log().sum()
        log_prior = -0.5 * (z**2 + math.log(2 * math.pi)).sum(1)
        torch.testing.assert_close(model.log_joint(x, z), log_p + log_prior)
        likelihood, divergence = likelihood_and_divergence(model, x, z, model.encode(x))
        torch.testing.assert_close(likelihood[:, 0], log_p)
        torch.testing.assert_close(divergence.sum((1, 2)), lost)  # of all steps
        torch.testing.assert_close(model.expected_canvases(z)[:, 1], model.expected(raw[1]))


class Same:
    """A noise whose steps draw what it draws itself."""

    def __init__(self, noise):
        self.noise = noise

    def child(self, name):
        return self.noise


@pytest.mark.spec("GEN-091")
def test_one_step_without_attention_is_a_variational_autoencoder():
    """Weights of image and error added up, in both nets a layer of tanh units: draws, bound and slopes are the same."""
    head = BernoulliLikelihood().build(12, F64)
    model = made(head, WithoutAttention().build((3, 4, 1), 1, 1, 4, F64), 1, RNN)
    encoder = nn.Sequential(dense(12, 4, dtype=F64), nn.Tanh(), dense(4, 4, dtype=F64))
    decoder = nn.Sequential(dense(2, 4, dtype=F64), nn.Tanh(), dense(4, 12, dtype=F64))
    of_image, of_error, _ = model.encoder.weight_x.split([12, 12, 4], 1)
    begun = head.offset.sigmoid()
    with torch.no_grad():
        for own, value in (
            (encoder[0].weight, of_image + of_error), (encoder[0].bias, model.encoder.bias - of_error @ begun),
            (encoder[2].weight, model.to_codes.weight), (encoder[2].bias, model.to_codes.bias),
            (decoder[0].weight, model.decoder.weight_x), (decoder[0].bias, model.decoder.bias),
            (decoder[2].weight, model.glimpse.brush.weight), (decoder[2].bias, model.glimpse.brush.bias),
        ):  # fmt: skip
            own.copy_(value)
    vae = VAEModel(12, 2, encoder, decoder, GaussianLatents(), head, False, F64)
    x = torch.as_tensor((RANDOM.random((6, 12)) < 0.5).astype(float))
    noise = Noise(0, "z")
    codes, plain = model.encode(x), vae.encode(x)
    z = codes.draw(lambda one, at: one.rsample(at), Same(noise), 3)
    torch.testing.assert_close(z, plain.rsample(noise, draws=3))
    torch.testing.assert_close(codes.log_prob(z), plain.log_prob(z))
    torch.testing.assert_close(codes.mean, plain.mean)
    torch.testing.assert_close(model.log_joint(x, z[::3]), vae.log_joint(x, z[::3]))
    bounds = []
    for one, q in ((model, codes), (vae, plain)):
        drawn = z if one is model else plain.rsample(noise, draws=3)
        likelihood, divergence = likelihood_and_divergence(one, x, drawn, q)
        bounds.append(likelihood.mean(1) - (divergence.mean(1) if divergence.ndim == 3 else divergence).sum(1))
    torch.testing.assert_close(*bounds)
    own = torch.autograd.grad(bounds[0].sum(), [model.encoder.weight_x, model.to_codes.weight, model.decoder.weight_x])
    theirs = torch.autograd.grad(bounds[1].sum(), [encoder[0].weight, encoder[2].weight, decoder[0].weight])
    torch.testing.assert_close(own[0][:, :12], theirs[0])
    torch.testing.assert_close(own[1:], theirs[1:])
    for one, other in zip(model.dream(5, Noise(1, "dream")), vae.dream(5, Noise(1, "dream")), strict=True):
        torch.testing.assert_close(one, other)


def exact_log_prob(model, X, n=81):
    """log p of rows made of two latent variables, by a grid over these."""
    ticks = torch.linspace(-6, 6, n, dtype=F64)
    z, x = torch.cartesian_prod(ticks, ticks), torch.as_tensor(np.asarray(X, np.float64))
    with torch.no_grad():
        joint = model.log_joint(x.repeat_interleave(len(z), 0), z.repeat(len(x), 1)).reshape(len(x), -1)
    return (joint.logsumexp(1) + 2 * torch.log(ticks[1] - ticks[0])).numpy()


@pytest.fixture(scope="module")
def small():
    draw = DRAW(
        n_steps=2, n_latent=1, units=12, attention=GaussianAttention(2, 2), likelihood="bernoulli", epochs=150,
        learning_rate=0.02, batch_size=None, dtype="float64", random_state=1,
    )  # fmt: skip
    return draw.fit(BARS)


@pytest.mark.spec("GEN-091")
def test_bounds_are_below_the_likelihood_and_meet_it(small):
    """The evidence lower bound by quadrature along both steps; the weighted bound at the density, by a grid."""
    rows, model = BARS[:3], small.model_
    exact = exact_log_prob(model, rows)
    assert np.exp(exact_log_prob(model, list(itertools.product([0, 1], repeat=4)))).sum() == pytest.approx(1, abs=1e-6)
    nodes, weights = np.polynomial.hermite_e.hermegauss(16)
    x, bound = torch.as_tensor(rows), 0.0
    with torch.no_grad():
        for e, f in itertools.product(range(16), repeat=2):
            state, lost = model.begin(x), 0.0
            for step, node in enumerate((e, f)):
                q, state = model.look(state, step)
                lost = lost + 0.5 * (q.mean**2 + q.log_variance.exp() - 1 - q.log_variance).sum(1)
                state = model.take(state, q.mean + nodes[node] * (0.5 * q.log_variance).exp(), step)
            value = model.log_of_rows(x, state.canvas) - lost
            bound = bound + weights[e] * weights[f] / (2 * math.pi) * value.numpy()
    found = small.elbo(rows, 400)
    assert found.kind == "lower bound" and found.value == pytest.approx(bound.mean(), abs=4 * found.error)
    assert np.allclose(found.pointwise, bound, atol=0.1) and found.error < 0.05
    assert (bound < exact).all() and found.value < exact.mean()
    tight = small.log_prob_bound(rows, 20_000)
    np.testing.assert_allclose(tight.pointwise, exact, atol=0.03)
    plain = small.log_prob_bound(rows, 20_000, proposal="prior")
    np.testing.assert_allclose(plain.pointwise, exact, atol=0.05)
    assert small.score(BARS) > -1.6  # of three rows, log 3 = 1.1


@pytest.mark.spec("GEN-091")
def test_samples_come_from_the_last_canvas_and_the_density(small):
    rows, canvas = small.sample(4000, return_canvas=True, random_state=0)
    assert np.array_equal(rows, small.sample(4000, random_state=0)) and canvas.shape == (4000, 2, 4)
    every = np.array(list(itertools.product([0, 1], repeat=4)), np.float64)
    p = np.exp(exact_log_prob(small.model_, every))
    seen = (rows[:, None] == every).all(2).mean(0)
    assert (np.abs(seen - p) < 5 * np.sqrt(p * (1 - p) / 4000) + 1e-3).all()  # 16 frequencies: false alarm below 1e-5
    # a row is a draw of the last canvas: bits about its means, 4 standardized sums
    left = (rows - canvas[:, -1]).sum(0) / np.sqrt((canvas[:, -1] * (1 - canvas[:, -1])).sum(0))
    assert (np.abs(left) < 5).all() and np.abs((rows - canvas[:, 0]).mean(0)).max() > 0.05
    codes = small.transform(BARS[:3])
    assert codes.shape == (3, 2) and small.get_feature_names_out().tolist() == ["draw0", "draw1"]
    painted = small.canvases(BARS[:3])
    assert np.array_equal(painted[:, -1], small.reconstruct(BARS[:3])) and painted.shape == (3, 2, 4)
    assert np.array_equal(painted[:, -1], small.inverse_transform(codes))
    used = small.active_latents(BARS)
    assert used["count"].unit == "of 2" and used["variance"].shape == used["divergence"].shape == (2,)
    given = np.where([[False, True, False, True]], np.nan, BARS[:1])
    filled = small.impute(given, steps=100, random_state=0)
    assert filled[0, [0, 2]].tolist() == [1, 0] and filled[0, 1] > 0.5 > filled[0, 3]


@pytest.mark.spec("GEN-091")
@pytest.mark.parametrize(
    "objective", [ELBO(n_samples=2, estimator=ScoreFunction("leave-one-out")), IWAE(k=2, estimator=ScoreFunction())]
)
def test_coins_learn_without_bias_and_have_a_likelihood(objective):
    """No component of the gradient off by 5 standard errors from the sum over states; log p by its four terms."""
    draw = DRAW(
        n_steps=2, n_latent=1, units=3, latents="binary", likelihood="bernoulli", objective=objective, epochs=2,
        attention=GaussianAttention(1, 2), dtype="float64", random_state=0,
    ).fit(BARS)  # fmt: skip
    found = gradient_variance(objective, draw, BARS[:4], n=150)
    assert found.exact is not None and found.seems_biased is False
    model, x = draw.model_, torch.as_tensor(BARS[:3])
    states = torch.tensor(list(itertools.product([0.0, 1.0], repeat=2)), dtype=F64)
    with torch.no_grad():
        exact = torch.stack([model.log_joint(x, z.expand(3, 2)) for z in states]).logsumexp(0)
    np.testing.assert_allclose(draw.log_prob_bound(BARS[:3], 4000).pointwise, exact, atol=0.05)
    assert model.latents == BinaryLatents()


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "iwae"}, {"objective": "wake-sleep"}, {"objective": "reweighted-wake-sleep"},
        {"objective": ELBO(warm_up=5, free_bits=0.1, form="kl")}, {"objective": ELBO(form="entropy", n_samples=2)},
        {"latents": "categorical", "objective": ELBO(estimator=GumbelSoftmax(hard=True))},
        {"latents": "binary", "objective": "nvil"}, {"likelihood": CategoricalLikelihood(3), "attention": "none"},
        {"likelihood": CategoricalLikelihood(2), "image_shape": (1, 2, 2)}, {"likelihood": "gaussian"},
        {"likelihood": "mixture", "image_shape": (4, 1)},
    ],
)  # fmt: skip
def test_all_that_its_latents_and_likelihoods_allow_learns(options, tmp_path):
    draw = DRAW(
        **{
            "n_steps": 2,
            "n_latent": 2,
            "units": 5,
            "likelihood": "bernoulli",
            "epochs": 3,
            "random_state": 0,
            **options,
        }
    ).fit(BARS)
    assert math.isfinite(draw.score(BARS)) and draw.sample(3, random_state=0).shape == (3, 4)
    again = gnomon.load(draw.save(tmp_path / "model"))
    assert again.score(BARS) == draw.score(BARS)
    assert np.array_equal(again.sample(5, random_state=1), draw.sample(5, random_state=1))


def test_a_stream_raises_the_bound():
    draw = DRAW(n_steps=2, n_latent=1, units=12, attention="none", likelihood="bernoulli", learning_rate=0.02)
    draw.set_params(random_state=0)
    first = draw.partial_fit(BARS).score(BARS)
    for _ in range(100):
        draw.partial_fit(BARS)
    assert draw.score(BARS) > first + 0.3


def test_what_cannot_be_asked(small):
    for options, told in (
        ({"image_shape": (2, 3)}, "image_shape must have 4 numbers, got 2 x 3 x 1"),
        ({"image_shape": (4,)}, "image_shape must be"), ({"attention": "all"}, "choose from gaussian, none"),
        ({"n_steps": 0}, "n_steps must be a whole number in .1, inf., got 0"),
        ({"latents": "binary"}, "discrete and have no gradient"),
    ):  # fmt: skip
        with pytest.raises((UserValueError, TypeError), match=told):
            DRAW(likelihood="bernoulli", **options).fit(BARS)
    with pytest.raises(UserValueError, match="Z must have 2 columns, got 4"):
        small.inverse_transform(BARS)


@pytest.mark.parametrize("shape", [(2, 6, 1), (2, 3, 2)])
def test_no_rows_are_painted_and_looked_at(shape):
    """None asked for; none of a batch on a process: every parameter has a gradient there, of 0."""
    model = made(BernoulliLikelihood().build(12, F64), GaussianAttention(2, 3).build(shape, 1, 1, 4, F64), 2)
    x, z = model.dream(0, Noise(0, "dream"))
    assert x.shape == (0, 12) and z.shape == (0, 4) and model.expected_canvases(z).shape == (0, 2, 12)
    batch = Batch({"X": x}, np.arange(0), np.arange(0), torch.ones(0, dtype=F64))
    loss = ELBO().build()(model, batch, noise=Noise(0, "x"), phase="fit", group=Group())
    loss.terms["negative_bound"].sum.backward()
    assert all(one.grad is not None and not one.grad.any() for one in model.parameters())


@pytest.mark.spec("GEN-091")
def test_digits_are_painted(tmp_path, capsys, monkeypatch):
    """Few steps and epochs are more than a Bernoulli mixture; the canvas nears the row; a picture, a report."""
    monkeypatch.chdir(tmp_path)
    train, test = split(load("digits"), test=0.3, seed=0, how="random")
    X, T = (np.asarray(part.view("binary"), np.float32) for part in (train, test))
    T = T[:200]
    draw = DRAW(n_steps=3, units=32, epochs=20, learning_rate=0.01, likelihood="bernoulli", random_state=0)
    draw.fit(X, run="run")
    mixture = BernoulliMixture(n_components=5, random_state=0).fit(X).evaluate(T)["log_likelihood"]
    found = draw.evaluate(T)
    assert found["log_likelihood"].against(mixture) == "better"
    assert found["elbo"].value < found["log_likelihood"].value
    wrong = [(np.abs(canvas - T)).mean() for canvas in draw.canvases(T).transpose(1, 0, 2)]
    assert wrong[0] > wrong[-1] and wrong[-1] < 0.2
    assert command(["sample", "run", "-n", "2", "--canvas", "--seed", "0", "--out", "canvas.csv"]) == 0
    lines = np.loadtxt("canvas.csv", delimiter=",", skiprows=1)
    rows, canvas = draw.sample(2, return_canvas=True, random_state=0)
    np.testing.assert_allclose(lines.reshape(2, 4, 64)[:, :3], canvas, atol=1e-6)
    assert np.array_equal(lines.reshape(2, 4, 64)[:, 3], rows)
