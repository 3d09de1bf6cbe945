"""The variational recurrent network: one frame, quadrature over two, Kalman's likelihood, ends of sequences, draws."""

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp
from scipy.stats import chisquare, multivariate_normal, norm

import gnomon
from gnomon.cli.main import run
from gnomon.data.batches import Batch
from gnomon.distributions.latents import GaussianLatents
from gnomon.errors import UserError
from gnomon.nn.encoders import DenseEncoder
from gnomon.nn.likelihoods import BernoulliLikelihood, GaussianLikelihood
from gnomon.nn.recurrent import GRU, RNN
from gnomon.numeric.noise import Noise
from gnomon.objectives.estimators import ScoreFunction
from gnomon.objectives.variational import ELBO, IWAE
from gnomon.systems.variational._model import VAEModel
from gnomon.systems.variational._vrnn_model import VRNNModel, moments
from gnomon.systems.variational.vrnn import VRNN
from gnomon.training.group import Group
from oracles.binary import all_states

D, K, UNITS, HIDDEN = 2, 1, 3, (4,)
DOUBLE = torch.float64
LENGTHS = (3, 1, 2)
RANDOM = np.random.default_rng(0)
SEQUENCES = [(RANDOM.random((n, D)) < 0.5).astype(float) for n in LENGTHS]


def made(kind="bernoulli", k=K, layer=None, hidden=HIDDEN, seed=0, frames=3, d=D):
    """A model with random weights."""
    likelihood = {"bernoulli": BernoulliLikelihood(), "gaussian": GaussianLikelihood()}[kind]
    layer = GRU(d + k, UNITS, dtype=DOUBLE) if layer is None else layer
    network, units = DenseEncoder(hidden=hidden, activation="tanh"), layer.units
    sizes = ((units, 2 * k), (d + units, 2 * k), (k + units, d))
    networks = (network.build(*size, None, DOUBLE) for size in sizes)
    model = VRNNModel(d, k, frames, layer, *networks, likelihood.build(d, DOUBLE), likelihood.scales, DOUBLE)
    random = np.random.default_rng(seed)
    buffers = ("shift", "scale", "head.offset")
    model.load({
        name: value if name in buffers else 0.5 * random.normal(size=value.shape)
        for name, value in model.state().items()
    })  # fmt: skip
    with torch.no_grad():
        model.encoder[-1].bias[k:] += 1.0  # wider than the posterior, so that weights have a variance
    return model


def fitted(model, sequences=SEQUENCES, **options):
    """A system that has this model."""
    options = {"epochs": 1, "dtype": "float64", "random_state": 0, "n_latent": model.n_latent} | options
    system = VRNN(**options).fit(sequences)
    system.model_ = model
    return system


def rows_of(sequences, frames=3):
    """Flat sequences, NaN behind their ends."""
    rows = np.full((len(sequences), frames, len(sequences[0][0])), np.nan)
    for row, one in zip(rows, sequences, strict=True):
        row[: len(one)] = one
    return rows.reshape(len(rows), -1)


def batch_of(rows, weight=None):
    n = np.arange(len(rows))
    return Batch({"X": torch.tensor(rows)}, n, n, torch.tensor(np.ones(len(rows)) if weight is None else weight))


# --- the definition once more, in NumPy -------------------------------------------------------------------------------


def dense(state, name, x):
    return (
        np.tanh(x @ state[f"{name}.0.weight"].T + state[f"{name}.0.bias"]) @ state[f"{name}.2.weight"].T
        + state[f"{name}.2.bias"]
    )


def gru(state, x, h):
    """A gated unit, the reset gate acting after the product."""
    w, u, b = (np.split(state[f"layer.{name}"], 3) for name in ("weight_x", "weight_h", "bias"))
    r, z = (expit(x @ w[i].T + h @ u[i].T + b[i]) for i in (0, 1))
    n = np.tanh(x @ w[2].T + b[2] + r * (h @ u[2].T + state["layer.bias_n"]))
    return z * h + (1 - z) * n


def step(state, x, z, h):
    """log p(z | h), log p(x | z, h), log q(z | x, h) of one latent variable, and the next memory."""
    x = np.broadcast_to(x, (len(z), D))
    logits = dense(state, "decoder", np.hstack([z, h])) + state["head.offset"]
    emitted = np.where(x > 0, np.log(expit(logits)), np.log(expit(-logits))).sum(1)
    laws = [dense(state, "prior", h), dense(state, "encoder", np.hstack([x, h]))]
    prior, q = (norm(law[:, 0], np.exp(law[:, 1] / 2)).logpdf(z[:, 0]) for law in laws)
    return prior, emitted, q, gru(state, np.hstack([x, z]), h)


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def spread(state, name, given, h):
    """Nodes of z under a factor for each memory, their memories beside them, and the nodes' weights."""
    law = dense(state, name, np.hstack([np.broadcast_to(given, (len(h), len(given))), h]) if len(given) else h)
    z = (law[:, :1] + np.exp(law[:, 1:] / 2) * NODES).reshape(-1, 1)
    return z, np.repeat(h, len(NODES), 0)


def quadrature(state, x):
    """log p of x_1 ... x_t for each t, and mean and deviation of z_t given these; t up to 2."""
    h, log_w, found = np.zeros((1, UNITS)), np.zeros(1), []
    for frame in x:
        z, h = spread(state, "prior", (), h)
        log_w = np.repeat(log_w, len(NODES)) + np.tile(np.log(WEIGHTS), len(log_w))
        _, emitted, _, h = step(state, frame, z, h)
        log_w = log_w + emitted
        total = logsumexp(log_w)
        share = np.exp(log_w - total)
        mean = share @ z[:, 0]
        found.append((total, mean, np.sqrt(share @ (z[:, 0] - mean) ** 2)))
    return found


def bound_by_quadrature(state, x):
    """E_q[log p(x, z) - log q(z | x)] over nodes of q, frame by frame."""
    h, share, total = np.zeros((1, UNITS)), np.ones(1), 0.0
    for frame in x:
        z, h = spread(state, "encoder", frame, h)
        share = np.outer(share, WEIGHTS).ravel()
        prior, emitted, q, h = step(state, frame, z, h)
        total += share @ (prior + emitted - q)
    return total


TWO = [SEQUENCES[0][:2], SEQUENCES[2], SEQUENCES[1]]


@pytest.mark.spec("GEN-092")
def test_probabilities_of_all_sequences_of_two_frames_by_quadrature():
    """16 sequences have mass 1; the bounds of each lie below, within 5 of their errors of what quadrature says."""
    model, states = made(frames=2), all_states(D)
    everything = [np.stack([a, b]) for a in states for b in states]
    state = model.state()
    log_p = np.array([quadrature(state, x)[-1][0] for x in everything])
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-8)
    system = fitted(model, everything)
    found = system.particle_bound(everything, 300)
    assert found.kind == "lower bound" and found.value == pytest.approx(log_p.mean(), abs=5 * found.error + 1e-3)
    bound = np.array([bound_by_quadrature(state, x) for x in everything])
    assert (bound < log_p).all()
    elbo = system.elbo(everything, 300)
    assert elbo.kind == "lower bound" and elbo.value == pytest.approx(bound.mean(), abs=5 * elbo.error)
    np.testing.assert_allclose(elbo.pointwise, bound, atol=0.3)
    terms = system.elbo_terms(everything, 300)
    np.testing.assert_allclose(
        np.nansum(terms["log_likelihood"] - terms["divergence"], 1), elbo.pointwise, atol=1e-9
    )  # the same draws


@pytest.mark.spec("GEN-092")
def test_the_filter_is_the_posterior_of_each_frame_given_those_so_far():
    """Ragged sequences against quadrature: means within 5 standard errors of as many particles as count."""
    model = made(frames=2)
    system = fitted(model, TWO)
    found = system.filter(TWO, 20_000)
    assert found.mean.shape == (3, 2, K) and np.isnan(found.mean[2, 1]).all()
    for i, x in enumerate(TWO):
        for t, (_, mean, deviation) in enumerate(quadrature(model.state(), x)):
            error = 5 * deviation / np.sqrt(found.effective[i])
            assert found.mean[i, t, 0] == pytest.approx(mean, abs=error)
            assert found.deviation[i, t, 0] == pytest.approx(deviation, abs=error)
    encoder = dense(model.state(), "encoder", np.hstack([TWO[0][0], np.zeros(UNITS)]))[0]
    assert abs(found.mean[0, 0, 0] - encoder) > 0.1  # which the encoder is not


class Given(torch.nn.Module):
    """A function as a network."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def conditional(model, memory):
    """A `vae` of frames given what is remembered, of u = (z - m) / s, where the prior of z is N(m, s^2)."""

    def of(h):
        m, v = model.prior(h).chunk(2, 1)
        return m, (v / 2).exp(), v

    def encode(x):
        m, s, v = of(memory)
        own, width = model.encoder(torch.cat([x, memory], 1)).chunk(2, 1)
        return torch.cat([(own - m) / s, width - v], 1)

    def decode(u):
        h = memory.repeat_interleave(len(u) // len(memory), 0)
        m, s, _ = of(h)
        return model.decoder(torch.cat([m + s * u, h], 1))

    return VAEModel(
        D, model.n_latent, Given(encode), Given(decode), GaussianLatents(), model.head, model.scales, DOUBLE
    )


@pytest.mark.spec("GEN-092")
@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("recipe", [ELBO(), ELBO(n_samples=3, beta=0.5), IWAE(k=4)])
def test_one_frame_is_a_conditional_autoencoder(kind, recipe):
    """The same loss and the same gradients as of `vae` at the same draws."""
    model, x = made(kind, k=2, frames=1), np.asarray(RANDOM.random((5, D)) < 0.5, float)
    plain, found = conditional(model, torch.zeros(5, UNITS, dtype=DOUBLE)), []
    for one in (model, plain):
        loss = recipe.build()(one, batch_of(x), noise=Noise(0, "x"), phase="fit", group=Group())
        total = loss.total()
        parameters = [*model.prior.parameters(), *model.encoder.parameters(), *model.decoder.parameters()]
        found.append((total.item(), torch.autograd.grad(total, parameters, allow_unused=True)))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-12)
    if recipe.short == "elbo":  # `dreg` leaves out what has mean 0, which is another term for u
        for mine, theirs in zip(found[0][1], found[1][1], strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.spec("GEN-092")
def test_a_later_frame_is_a_conditional_autoencoder_given_the_memory():
    """The memory of the frame before and of its z, by hand; the frame's own terms are those of `vae` given it."""
    model = made("gaussian", k=2)
    x, z = (torch.tensor(RANDOM.normal(size=(6, 2 * 2))) for _ in range(2))
    with torch.no_grad():
        memory = model.layer.step(torch.cat([x[:, :2], z[:, :2]], 1), model.layer.initial(6))
        plain = conditional(model, memory)
        m, v = model.prior(memory).chunk(2, 1)
        u = (z[:, 2:] - m) * (-v / 2).exp()
        np.testing.assert_allclose(model.log_likelihoods(x, z)[:, 1], plain.log_likelihood(x[:, 2:], u), atol=1e-12)
        divergence = plain.divergence(plain.encode(x[:, 2:]))
        np.testing.assert_allclose(model.factors(x, z).divergences()[:, 1], divergence, atol=1e-12)
        joint = model.log_joint(x, z) - model.log_joint(x[:, :2], z[:, :2])
        np.testing.assert_allclose(joint, plain.log_joint(x[:, 2:], u) - v.sum(1) / 2, atol=1e-12)


# --- linear and normal ------------------------------------------------------------------------------------------------

SLOPE, STEP, EMIT, NOISE = 0.8, 0.6, 1.5, 0.5
"""z_t = SLOPE z_(t-1) + STEP e, x_t = EMIT z_t + NOISE e', z_0 = 0."""


def kalman(x):
    """log p(x), and mean and deviation of z_t given x_1 ... x_t."""
    mean, variance, total, found = 0.0, 0.0, 0.0, []
    for value in x:
        mean, variance = SLOPE * mean, SLOPE**2 * variance + STEP**2
        spread = EMIT**2 * variance + NOISE**2
        total += norm(EMIT * mean, np.sqrt(spread)).logpdf(value)
        gain = variance * EMIT / spread
        mean, variance = mean + gain * (value - EMIT * mean), (1 - gain * EMIT) * variance
        found.append((mean, np.sqrt(variance)))
    return total, np.array(found)


def affine(network, weight, bias):
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor(weight, dtype=DOUBLE))
        network[0].bias.copy_(torch.tensor(bias, dtype=DOUBLE))


def linear(q_slope, q_memory, q_deviation):
    """The model whose memory is z_(t-1), with q(z_t | x_t, z_(t-1)) = N(q_slope x_t + q_memory z_(t-1), .)."""
    model = made("gaussian", k=1, layer=RNN(2, 1, lambda h: h, dtype=DOUBLE), hidden=(), d=1, frames=6)
    model.load(
        {name: np.zeros_like(value) if name.startswith("layer") else value for name, value in model.state().items()}
    )
    with torch.no_grad():
        model.layer.weight_x[0, 1] = 1.0
        model.head.log_variance.fill_(np.log(NOISE**2 - model.head.floor**2))
    affine(model.prior, [[SLOPE], [0.0]], [0.0, 2 * np.log(STEP)])
    affine(model.encoder, [[q_slope, q_memory], [0.0, 0.0]], [0.0, 2 * np.log(q_deviation)])
    affine(model.decoder, [[EMIT, 0.0]], [0.0])
    return model


PRECISION = 1 / STEP**2 + EMIT**2 / NOISE**2
BEST = EMIT / NOISE**2 / PRECISION, SLOPE / STEP**2 / PRECISION, PRECISION**-0.5
"""p(z_t | x_t, z_(t-1)), the best encoder that does not look ahead."""


def dense_laws(x, q):
    """Mean and covariance of z given x, and of z under q, for all frames together."""
    T = len(x)
    prior = np.linalg.inv(np.eye(T) - SLOPE * np.eye(T, k=-1)) * STEP
    prior = prior @ prior.T
    precision = np.linalg.inv(prior) + np.eye(T) * EMIT**2 / NOISE**2
    posterior = np.linalg.inv(precision)
    slope, memory, deviation = q
    chain = np.linalg.inv(np.eye(T) - memory * np.eye(T, k=-1))
    return (posterior @ x * EMIT / NOISE**2, posterior), (slope * chain @ x, deviation**2 * chain @ chain.T)


def divergence(q, p):
    apart, inverse = q[0] - p[0], np.linalg.inv(p[1])
    logs = np.linalg.slogdet(p[1])[1] - np.linalg.slogdet(q[1])[1]
    return 0.5 * (np.trace(inverse @ q[1]) + apart @ inverse @ apart - len(apart) + logs)


@pytest.mark.spec("GEN-092")
def test_the_linear_normal_case_is_bounded_by_kalmans_likelihood():
    """Ragged sequences: the bound is log p - KL(q || posterior) in closed form, particles come up to log p, not above.

    Every comparison within 5 errors; the filter is Kalman's.
    """
    random = np.random.default_rng(1)
    X = [random.normal(size=(n, 1)) * 2 for n in (6, 3, 1, 5)]
    exact = np.array([kalman(x[:, 0])[0] for x in X])
    for q in (BEST, (0.4, 0.2, 0.5)):
        system = fitted(linear(*q), X, likelihood="gaussian")
        laws = [dense_laws(x[:, 0], q) for x in X]
        np.testing.assert_allclose(
            exact,
            [multivariate_normal(cov=EMIT**2 * joint(len(x)) + NOISE**2 * np.eye(len(x))).logpdf(x[:, 0]) for x in X],
        )
        bound = exact - [divergence(*law[::-1]) for law in laws]
        elbo = system.elbo(X, 2000)
        assert (bound <= exact + 1e-12).all() and bound[:1] < exact[:1] - 0.01
        assert elbo.value == pytest.approx(bound.mean(), abs=5 * elbo.error)
        one = system.particle_bound(X * 500, 1, resample=False)
        assert one.value == pytest.approx(bound.mean(), abs=5 * one.error)
        for resample in (True, False):
            few, many = (system.particle_bound(X * 10, size, resample=resample) for size in (4, 400))
            assert bound.mean() - 5 * few.error < few.value < exact.mean() + 5 * few.error
            assert exact.mean() - 0.02 < many.value < exact.mean() + 5 * many.error
    assert bound[2] < exact[2] - 0.01  # one frame: the encoder is not the best one
    mean, deviation = kalman(X[0][:, 0])[1][-1]
    after = system.generate(1, X[0], n=4000, random_state=0)
    spread = np.sqrt((EMIT * SLOPE * deviation) ** 2 + (EMIT * STEP) ** 2 + NOISE**2)
    assert after.mean() == pytest.approx(EMIT * SLOPE * mean, abs=5 * spread / np.sqrt(4000))
    assert after.std() == pytest.approx(spread, abs=5 * spread / np.sqrt(8000))
    found = system.filter(X, 20_000)
    for i, x in enumerate(X):
        mean, deviation = kalman(x[:, 0])[1].T
        error = 5 * deviation / np.sqrt(found.effective[i])
        assert (np.abs(found.mean[i, : len(x), 0] - mean) < error).all()
        assert (np.abs(found.deviation[i, : len(x), 0] - deviation) < error).all()


def joint(T):
    """Covariance of z_1 ... z_T."""
    chain = np.linalg.inv(np.eye(T) - SLOPE * np.eye(T, k=-1))
    return STEP**2 * chain @ chain.T


@pytest.mark.spec("GEN-092")
def test_with_the_posterior_as_encoder_one_frame_has_no_gap():
    """Every draw answers log p itself, of a frame and of frames that do not hang together."""
    system = fitted(linear(*BEST), [np.array([[1.3]]), np.array([[-0.2]])], likelihood="gaussian")
    X = [np.array([[1.3]]), np.array([[-0.2]])]
    exact = [kalman(x[:, 0])[0] for x in X]
    np.testing.assert_allclose(system.particle_bound(X, 1).pointwise, exact, atol=1e-12)
    assert system.elbo(X, 4000).value == pytest.approx(np.mean(exact), abs=5 * system.elbo(X, 4000).error)


# --- ends of sequences ------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-092")
@pytest.mark.parametrize("recipe", [ELBO(), ELBO(n_samples=2, free_bits=0.1), IWAE(k=3), ELBO(form="entropy")])
def test_what_stands_behind_the_end_changes_nothing(recipe):
    """Loss and gradient of ragged sequences: padded further, and each alone with its weight, to 1e-12."""
    model, rows = made(k=2), rows_of(SEQUENCES)
    weight = np.array([1.0, 0.5, 2.0])

    def loss_of(rows, weight, places):
        batch = Batch({"X": torch.tensor(rows)}, places, places, torch.tensor(weight))
        term = recipe.build()(model, batch, noise=Noise(0, "x"), phase="fit", group=Group()).terms["negative_bound"]
        found = torch.autograd.grad(term.sum, list(model.parameters()), allow_unused=True)
        return term.sum.item(), np.concatenate(
            [np.zeros(p.numel()) if g is None else g.ravel() for g, p in zip(found, model.parameters(), strict=True)]
        )

    padded = np.hstack([rows, np.full((3, 4 * D), np.nan)])
    places = np.arange(3)
    total, gradient = loss_of(rows, weight, places)
    for found in (
        loss_of(padded, weight, places),
        [
            sum(part)
            for part in zip(
                *[loss_of(rows[[i], : LENGTHS[i] * D], weight[[i]], places[[i]]) for i in range(3)], strict=True
            )
        ],
    ):
        assert found[0] == pytest.approx(total, abs=1e-12)
        np.testing.assert_allclose(found[1], gradient, atol=1e-12)


@pytest.mark.spec("GEN-092")
def test_scores_of_ragged_sequences_are_those_of_each():
    """In a list, in an array with longer ones, as a table: `pointwise` and terms are those of the sequence."""
    model = made()
    system = fitted(model)
    terms, bound = system.elbo_terms(SEQUENCES), system.elbo(SEQUENCES)
    assert terms["divergence"].shape == (3, 3)
    np.testing.assert_array_equal(~np.isnan(terms["divergence"]), np.arange(3) < np.array(LENGTHS)[:, None])
    np.testing.assert_allclose(np.nansum(terms["log_likelihood"] - terms["divergence"], 1), bound.pointwise, atol=1e-12)
    first = system.elbo(SEQUENCES[:1])
    assert first.value == pytest.approx(bound.pointwise[0], abs=1e-12)
    assert system.elbo(rows_of(SEQUENCES[:1])).value == first.value
    per_frame = system.elbo(SEQUENCES, per="frame")
    assert per_frame.value == pytest.approx(bound.pointwise.sum() / sum(LENGTHS), abs=1e-12)
    assert (bound.unit, per_frame.unit) == ("nats", "nats per frame") and per_frame.name == "elbo_per_frame"
    both = system.evaluate(SEQUENCES)
    assert both["elbo"].value == bound.value and both["elbo_per_frame"].value == per_frame.value
    assert both["log_likelihood"].value > bound.value - 5 * bound.error
    particles = system.particle_bound(SEQUENCES)
    assert system.particle_bound(SEQUENCES[:1]).value == pytest.approx(particles.pointwise[0], abs=1e-12)


@pytest.mark.spec("GEN-092")
def test_gradients_are_finite_differences_of_the_bound():
    """Draws held, all parameters, through every memory: central differences in double precision."""
    model, rows = made(k=2), rows_of(SEQUENCES)
    for recipe in (ELBO(n_samples=2), IWAE(k=2, estimator="pathwise")):
        objective = recipe.build()

        def value(objective=objective):
            return objective(model, batch_of(rows), noise=Noise(0, "x"), phase="fit", group=Group()).total()

        gradients = torch.autograd.grad(value(), list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            flat = parameter.detach().view(-1)
            for j in range(0, len(flat), 5):
                kept, ends = flat[j].item(), []
                for end in (-1e-5, 1e-5):
                    flat[j] = kept + end
                    with torch.no_grad():
                        ends.append(value().item())
                flat[j] = kept
                assert gradient.view(-1)[j].item() == pytest.approx((ends[1] - ends[0]) / 2e-5, abs=1e-7)


@pytest.mark.spec("GEN-092")
def test_the_gradient_through_draws_alone_is_that_of_all_in_mean():
    """`dreg` against `pathwise`, 16 batches of 250 copies of a sequence: every parameter within 5 standard errors."""
    model = made()
    rows = np.repeat(rows_of(SEQUENCES[:1]), 250, axis=0)
    found = {}
    for estimator in ("dreg", "pathwise"):
        objective, each = IWAE(k=3, estimator=estimator).build(), []
        for update in range(16):
            loss = objective(model, batch_of(rows), noise=Noise(update, "x"), phase="fit", group=Group())
            each.append(
                np.concatenate([g.ravel() for g in torch.autograd.grad(loss.total(), list(model.parameters()))])
            )
        found[estimator] = np.array(each)
    means = [one.mean(0) for one in found.values()]
    error = np.sqrt(sum(one.var(0, ddof=1) / 16 for one in found.values()))
    assert (np.abs(means[0] - means[1]) < 6 * error + 1e-12).all()


@pytest.mark.spec("GEN-092")
def test_scores_by_the_factors_make_the_gradient_of_log_q():
    """Scores held, their product with the parameters has the slope of log q, of ragged sequences; 0 behind the end."""
    model, rows = made(k=2), rows_of(SEQUENCES)
    codes = model.encode(torch.tensor(rows))
    z = codes.sample(Noise(0, "x"), draws=2)
    values, scores = codes.scores(z)
    assert values.shape == scores.shape == (3, 2, 3 * 2 * 2) and not scores[1, :, 4:].any()
    learned = [*model.encoder.parameters(), *model.layer.parameters()]
    for one, other in zip(*(
        torch.autograd.grad(total, learned) for total in ((scores * values).sum(), codes.log_prob(z).sum())
    ), strict=True):  # fmt: skip
        np.testing.assert_allclose(one, other, atol=1e-12)
    baselines = [ELBO(form="monte-carlo", estimator=ScoreFunction(name)) for name in ("optimal", "learned-optimal")]
    for recipe in baselines:
        system = VRNN(objective=recipe, n_recurrent=3, hidden=(3,), n_latent=1, epochs=2, random_state=0).fit(SEQUENCES)
        assert np.isfinite(system.history_["negative_bound"]).all()


@pytest.mark.spec("GEN-092")
@pytest.mark.parametrize("layer", [None, RNN(D + K, UNITS, dtype=DOUBLE)])
@pytest.mark.parametrize("recipe", [ELBO(), ELBO(form="entropy"), IWAE(k=3)])
def test_a_process_without_a_sequence_of_the_batch_adds_nothing(layer, recipe):
    model = made(layer=layer)
    loss = recipe.build()(model, batch_of(np.zeros((0, 6))), noise=Noise(0, "x"), phase="fit", group=Group())
    term = loss.terms["negative_bound"]
    assert (term.sum.item(), term.weight) == (0, 0)
    term.sum.backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())  # as the others have one


@pytest.mark.spec("GEN-092")
def test_a_warm_up_raises_the_factor_of_the_divergence():
    model, rows = made(), rows_of(SEQUENCES)

    def loss(recipe, update):
        return recipe.build()(model, batch_of(rows), noise=Noise(0, "x").at(update), phase="fit", group=Group())

    for update, share in ((0, 0.1), (4, 0.5), (20, 1.0)):
        warm, whole = loss(ELBO(warm_up=10), update), loss(ELBO(), update)
        carried = whole.terms["divergence"].sum
        assert warm.terms["divergence"].sum == pytest.approx(carried)
        apart = whole.terms["negative_bound"].sum.item() - warm.terms["negative_bound"].sum.item()
        assert apart == pytest.approx((1 - share) * carried, abs=1e-12)


# --- draws ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GEN-092")
def test_what_is_drawn_has_the_distribution_of_the_model():
    """Counts of all sequences of two frames, and of the frame after a given one: chi-square at 1e-4 each."""
    model, states = made(frames=2), all_states(D)
    everything, n = [np.stack([a, b]) for a in states for b in states], 4000
    log_p = np.array([quadrature(model.state(), x)[-1][0] for x in everything])
    system = fitted(model, everything)
    drawn = system.sample(n, random_state=0)
    assert drawn.shape == (n, 2 * D)
    counts = np.bincount((drawn @ [8, 4, 2, 1]).astype(int), minlength=16)
    order = [int(x.ravel() @ [8, 4, 2, 1]) for x in everything]
    assert chisquare(counts[order], n * np.exp(log_p)).pvalue > 1e-4
    begun = states[1][None]
    after = system.generate(1, begun, n=n, random_state=1)[:, 0]
    law = np.exp(log_p.reshape(4, 4)[1])
    counts = np.bincount((after @ [2, 1]).astype(int), minlength=4)[[int(s @ [2, 1]) for s in states]]
    assert chisquare(counts, n * law / law.sum()).pvalue > 1e-4
    assert system.sample(3, length=5, random_state=0).shape == (3, 5 * D)
    assert system.generate(0, begun).shape == (1, 0, D)
    np.testing.assert_array_equal(
        system.generate(2, n=3, random_state=4)[1], system.generate(2, n=2, random_state=4)[1]
    )


@pytest.mark.spec("GEN-092")
def test_each_frame_is_drawn_given_the_memory_of_those_before():
    """z and x of frame t at the same addresses of noise, from the memory that the frames before leave when read."""
    model, noise = made(k=2), Noise(0, "x").rows(np.arange(5))
    x, z = model.go_on(model.layer.initial(5), 3, noise)
    with torch.no_grad():
        states = model.read(x.flatten(1), z.flatten(1))[3]
        for t in range(3):
            drawn = moments(model.prior(states[:, t])).sample(noise.at(t).child("latent"))
            np.testing.assert_allclose(z[:, t], drawn, atol=1e-12)
            raw = model.decoder(torch.cat([drawn, states[:, t]], 1))
            np.testing.assert_array_equal(x[:, t], model.head.sample(raw, noise.at(t).child("frame")))


# --- fits -------------------------------------------------------------------------------------------------------------


def coins(n, frames=4, seed=0):
    """Sequences whose four columns are one coin in each frame, and whose second coin on is that of the frame before."""
    random = np.random.default_rng(seed)
    coin = np.repeat((random.random((n, 1)) < 0.5).astype(float), frames, 1)
    return np.repeat(coin[..., None], 4, 2)


@pytest.mark.spec("GEN-092")
def test_a_fit_finds_what_columns_and_frames_have_in_common():
    """log 2 nats are the least a sequence has, independent columns 16 times as many. z tells of its first frame."""
    system = VRNN(n_latent=1, n_recurrent=8, hidden=(8,), epochs=60, batch_size=16, learning_rate=0.02, random_state=0)
    system.fit([*coins(60), *coins(20, 2)])
    found = system.evaluate(coins(40, seed=1))
    assert -0.9 < found["log_likelihood"].value < -np.log(2) + 0.1
    assert found["elbo"].note == "" and found["elbo_per_frame"].value == pytest.approx(found["elbo"].value / 4)
    used = system.active_latents(coins(40, seed=1))
    divergence = system.elbo_terms(coins(40, seed=1))["divergence"].mean(0)
    assert used["active"].tolist() == [True] and used["divergence"][0] == pytest.approx(divergence.mean())
    assert divergence[0] > 0.5 > 10 * divergence[1:].max()
    given = np.ones((1, 4))
    assert (system.generate(3, given, n=20, random_state=0).mean((1, 2)) > 0.5).mean() > 0.8


@pytest.mark.spec("GEN-092")
def test_a_decoder_that_does_without_the_latent_variables_is_told_of():
    """Independent coins have nothing in common; a brief fit is not judged."""
    X = (np.random.default_rng(0).random((20, 3, 1)) < 0.5).astype(float)
    small = VRNN(n_latent=1, n_recurrent=4, hidden=(), batch_size=None, learning_rate=0.02, random_state=0)
    small.set_params(epochs=20).fit(X)
    with pytest.warns(UserWarning, match="posterior collapse: the latent variables carry .* the decoder ignores them"):
        small.set_params(epochs=250).fit(X)
    assert small.elbo(X).note.startswith("posterior collapse") and not small.active_latents(X)["active"].any()


@pytest.mark.spec("GEN-092")
def test_real_frames_are_scored_in_their_own_units():
    """The same sequences in other units: the same fit, and bounds that differ by the log of the units."""
    X = np.random.default_rng(0).normal(size=(12, 3, 2)).cumsum(1)
    options = {"likelihood": "gaussian", "n_latent": 1, "n_recurrent": 4, "hidden": (4,), "random_state": 0}
    first, second = (VRNN(epochs=3, **options).fit(rows) for rows in (X, 100 * X + 7))
    apart = first.elbo(X).value - second.elbo(100 * X + 7).value
    assert apart == pytest.approx(6 * np.log(100), abs=1e-6)
    drawn = second.sample(200, random_state=0)
    np.testing.assert_allclose(drawn, 100 * first.sample(200, random_state=0) + 7, rtol=1e-6)


def test_codes_are_drawn_and_scored():
    X = np.random.default_rng(0).integers(0, 3, (20, 4, 2)).astype(float)
    system = VRNN(likelihood=gnomon.nn.likelihoods.CategoricalLikelihood(3), epochs=2, random_state=0).fit(
        [*X, X[0, :2]]
    )
    assert set(np.unique(system.sample(30, random_state=0))) <= {0.0, 1.0, 2.0}
    assert np.isfinite(system.elbo(X).value) and system.evaluate(X)["elbo"].data_space == "pmf on {0..2}^8"


def test_mistakes_are_told_in_one_line():
    system = fitted(made())
    for call, words in [
        (lambda: system.elbo(SEQUENCES, 1), "n_samples must be at least 2, got 1"),
        (lambda: system.elbo(SEQUENCES, per="step"), "per must be known, got 'step'"),
        (lambda: system.particle_bound(SEQUENCES, 0), "n_particles must be at least 1"),
        (lambda: system.filter(SEQUENCES, 0), "n_particles must be at least 1"),
        (lambda: system.generate(2, np.ones((2, 3))), r"context must be of shape \(n, T, 2\) or \(T, 2\)"),
        (lambda: system.generate(2, particles=0), "particles must be at least 1"),
        (lambda: system.elbo([np.ones((9, 2))]), "a sequence must have at most 3 frames"),
        (lambda: VRNN(objective="nvil").fit(SEQUENCES), "objective nvil credits layers"),
        (lambda: VRNN(frame_size=3).fit(SEQUENCES), "frame_size must be 2"),
        (lambda: VRNN().fit([np.full((2, 2), 0.5)]), "0.5"),
    ]:
        with pytest.raises(UserError, match=words) as error:
            call()
        assert "\n" not in str(error.value)


def test_lengths_on_the_command_line(tmp_path, capsys):
    """`gnomon sample --length`: the names of frames go on."""
    names = [f"frame_{t}_{c}" for t in range(2) for c in "ab"]
    np.savetxt(
        tmp_path / "x.csv", RANDOM.random((30, 4)) < 0.5, fmt="%d", delimiter=",", header=",".join(names), comments=""
    )
    out = str(tmp_path / "run")
    words = ["--epochs", "1", "--n-recurrent", "4", "--hidden", "4", "--random-state", "0", "--out", out]
    assert run(["fit", "vrnn", str(tmp_path / "x.csv"), *words]) == 0
    assert gnomon.load(out).arguments_["frame_size"] == 2
    capsys.readouterr()
    assert run(["sample", out, "-n", "2", "--length", "3", "--seed", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ",".join([*names, "frame_2_a", "frame_2_b"]) and len(lines) == 3
