"""The variational autoencoder: limits with a known likelihood, its verbs, its evidence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.decomposition import PCA

import gnomon
from gnomon.cli.main import run as command
from gnomon.data import load, split
from gnomon.errors import UserValueError
from gnomon.nn.encoders import DenseDecoder, DenseEncoder
from gnomon.nn.likelihoods import BernoulliLikelihood, CategoricalLikelihood, GaussianLikelihood
from gnomon.nn.mixture_density import MixtureLikelihood
from gnomon.numeric.noise import Noise
from gnomon.objectives.variational import ELBO, IWAE
from gnomon.systems.factors.ppca import PPCA
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture
from gnomon.systems.variational._views import latent_codes
from gnomon.systems.variational.vae import VAE

LINEAR = {
    "encoder": DenseEncoder(()), "decoder": DenseDecoder(()), "likelihood": GaussianLikelihood("one", floor=1e-6),
    "standardize": False, "initializer": "xavier-normal", "batch_size": None, "learning_rate": 0.02,
}  # fmt: skip


def plane(n=400, d=5, seed=0):
    """Rows near a plane: standard deviations exactly 2 and 1.5 along it, and 0.5 about it in every direction."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(n, d))
    white = math.sqrt(n) * np.linalg.svd(noise - noise.mean(0), full_matrices=False)[0]
    turned = np.linalg.qr(random.normal(size=(d, d)))[0]
    return white * np.sqrt([4.25, 2.5, *[0.25] * (d - 2)]) @ turned + 1.0


@pytest.fixture(scope="module")
def linear():
    """A linear VAE with three latent variables, one more than the data have, at its optimum."""
    X = plane()
    vae = VAE(n_latent=3, epochs=1500, schedule="cosine", objective=ELBO(n_samples=4), random_state=0, **LINEAR)
    return X, vae.fit(X)


@pytest.mark.spec("GEN-086", "BAY-64", "INF-107")
def test_the_optimum_of_a_linear_one_is_the_likelihood_of_probabilistic_pca(linear):
    X, vae = linear
    exact = PPCA(n_components=3).fit(X).score(X)
    assert exact == pytest.approx(PCA(3, svd_solver="full").fit(X).score(X), abs=0.02)  # another divisor
    elbo = vae.elbo(X, 400)
    assert elbo.value == pytest.approx(exact, abs=0.02 + 4 * elbo.error)
    assert elbo.value < exact + 4 * elbo.error
    bound = vae.log_prob_bound(X, 20)
    assert bound.value == pytest.approx(exact, abs=0.02 + 4 * bound.error)
    assert bound.kind == elbo.kind == "lower bound"


@pytest.mark.spec("BAY-65", "GEN-084")
def test_the_encoder_of_a_linear_decoder_attains_the_posterior_mean(linear):
    X, vae = linear
    model = vae.model_
    V, b = (p.detach().numpy() for p in (model.decoder[0].weight, model.decoder[0].bias))
    variance = model.head.log_variance.exp().item() + 1e-12
    M = V.T @ V + variance * np.eye(3)
    exact = np.linalg.solve(M, V.T @ (X - b).T).T
    assert np.abs(vae.transform(X) - exact).max() < 0.1 and np.abs(exact).max() > 1
    # of a diagonal q the best variances are the reciprocals of the posterior precision's diagonal
    assert np.allclose(vae.posterior(X).log_variance.mean(0).exp(), variance / np.diag(M), rtol=0.1)
    # what the decoder says of rows is the Gaussian with these moments
    log_p = stats.multivariate_normal(b, V @ V.T + variance * np.eye(5)).logpdf(X[:5])
    some = vae.log_prob_bound(X[:5], 400, proposal="encoder")
    assert np.allclose(some.pointwise, log_p, atol=0.05)
    plain = vae.log_prob_bound(X[:5], 20_000, proposal="prior")
    assert np.allclose(plain.pointwise, log_p, atol=0.3) and plain.value < log_p.mean() + 4 * plain.error
    assert abs(vae.amortization_gap(X).value) < 0.02
    poor = VAE(n_latent=3, epochs=50, random_state=0, **LINEAR).fit(X)
    gap = poor.amortization_gap(X[:50])
    assert gap.value > 0.1 and gap.value > 4 * gap.stderr  # below what each row's own q reaches


@pytest.mark.spec("GEN-086", "GEN-087")
def test_the_error_of_the_bound_holds_it_and_rows_are_the_ancestral_ones(linear):
    """400 bounds with noise of their own: their scatter is the stated error, to 5 errors of a scatter (4 %), their mean
    the bound in closed form; the moments of what is drawn are the model's."""
    X, vae = linear
    few, model, seed = X[:5], vae.model_, vae.seed_
    with torch.no_grad():
        q = vae.posterior(few)
        V, b = (p.double().numpy() for p in (model.decoder[0].weight, model.decoder[0].bias))
    variance = model.head.log_variance.exp().item() + 1e-12
    mean, spread = (part.double().numpy() for part in (q.mean, q.log_variance.exp()))
    squares = (few - b - mean @ V.T) ** 2 + spread @ (V**2).T  # E_q (x - V z - b)^2
    exact = -0.5 * (squares / variance + np.log(2 * np.pi * variance)).sum(1)
    exact -= 0.5 * (mean**2 + spread - 1 - np.log(spread)).sum(1)
    found = []
    for k in range(400):
        vae.seed_ = k
        found.append(vae.elbo(few, 8))
    vae.seed_ = seed
    value = np.array([one.value for one in found])
    assert value.std(ddof=1) == pytest.approx(np.sqrt(np.square([one.error for one in found]).mean()), rel=0.2)
    rows = np.array([one.pointwise for one in found])
    assert (np.abs(rows.mean(0) - exact) < 5 * rows.std(0) / 20).all()
    assert np.allclose(value, rows.mean(1), rtol=1e-12)
    made = vae.sample(20_000, random_state=0).astype(float)
    law = V @ V.T + variance * np.eye(5)
    deviation = np.sqrt((law.diagonal()[:, None] * law.diagonal() + law**2) / 20_000)
    assert (np.abs(made.mean(0) - b) < 5 * np.sqrt(law.diagonal() / 20_000)).all()
    assert (np.abs(np.cov(made.T) - law) < 5 * deviation).all()


@pytest.mark.spec("BAY-65")
def test_the_gap_varies_over_seeds_as_its_error_says(linear):
    """100 seeds: a standard deviation of so many is known to 7 %, 4.5 of them are allowed; errors 1.4 off are red."""
    X, _ = linear
    vae, found = VAE(n_latent=3, epochs=20, random_state=0, **LINEAR).fit(X), []
    for seed in range(100):
        vae.seed_ = seed
        found.append(vae.amortization_gap(X[:30], steps=8, n_samples=12))
    assert np.std([gap.value for gap in found]) == pytest.approx(np.mean([gap.error for gap in found]), rel=0.32)
    assert vae.amortization_gap(X[:5], steps=1, n_samples=1).error == math.inf


@pytest.mark.spec("GEN-090")
def test_active_latents_are_as_many_as_the_data_have_directions(linear):
    X, vae = linear
    found = vae.active_latents(X)
    assert found["count"].value == 2 and sorted(found["active"].tolist()) == [False, True, True]
    means = vae.transform(X).astype(float)
    assert np.allclose(found["variance"], means.var(0))  # of the means: the encoder's noise is not counted
    idle = int(np.argmin(found["variance"]))
    assert found["variance"][idle] < 0.01 and found["divergence"][idle] < 0.02 < 0.5 < np.sort(found["divergence"])[1]
    q = vae.posterior(X)
    law = torch.distributions.Normal(q.mean.double(), (q.log_variance.double() / 2).exp())
    prior = torch.distributions.Normal(torch.zeros(3, dtype=torch.float64), 1.0)
    exact = torch.distributions.kl_divergence(law, prior).mean(0)
    np.testing.assert_allclose(found["divergence"], exact, rtol=1e-4, atol=1e-6)
    edge = np.sort(found["variance"])[1]  # a variance at the threshold is not above it
    assert [vae.active_latents(X, threshold=t)["count"].value for t in (edge, edge * (1 - 1e-6), 1e9)] == [1, 2, 0]
    constant = VAE(n_latent=3, epochs=1, **LINEAR).fit(X)
    with torch.no_grad():
        for parameter in constant.model_.encoder.parameters():
            parameter.zero_()
    assert constant.active_latents(X, threshold=0.0)["count"].value == 0  # a code that stands still is not above 0
    with pytest.raises(UserValueError, match="at least 2 rows, got 1"):
        vae.active_latents(X[:1])


@pytest.mark.spec("GEN-089")
def test_the_latent_grid_of_a_linear_decoder_is_affine(linear):
    _, vae = linear
    grid = vae.latent_grid(4, span=(-1.5, 1.5))
    assert grid.shape == (4, 4, 5)
    weight, bias = (p.detach().numpy() for p in (vae.model_.decoder[0].weight, vae.model_.decoder[0].bias))
    ticks = np.linspace(-1.5, 1.5, 4)
    for i, j in ((0, 0), (3, 1), (2, 3)):
        assert np.allclose(grid[i, j], bias + ticks[i] * weight[:, 0] + ticks[j] * weight[:, 1], atol=1e-10)
    cells = vae.latent_grid(3, axes=(2, 0))
    quantiles = stats.norm.ppf([1 / 6, 1 / 2, 5 / 6])
    assert np.allclose(cells[0, 2], bias + quantiles[0] * weight[:, 2] + quantiles[2] * weight[:, 0], atol=1e-10)
    with pytest.raises(UserValueError, match="axes must be two different ones of 3"):
        vae.latent_grid(3, axes=(0, 3))
    assert latent_codes(2, 2).tolist()[1] == pytest.approx([stats.norm.ppf(0.25), stats.norm.ppf(0.75)])


@pytest.fixture(scope="module")
def digits():
    train, test = split(load("digits"), test=0.3, seed=0, how="random")
    train, test = (np.asarray(part.view("binary"), np.float32) for part in (train, test))
    return train, test, VAE(likelihood="bernoulli", epochs=25, random_state=0).fit(train)


@pytest.mark.spec("GEN-086", "BAY-64", "BAY-66")
def test_binary_digits(digits):
    train, test, vae = digits
    scores = vae.evaluate(test)
    mixture = BernoulliMixture(random_state=0).fit(train).evaluate(test)["log_likelihood"]
    assert scores["log_likelihood"].against(mixture) == "better"
    assert scores["elbo"].value < scores["log_likelihood"].value
    few = vae.log_prob_bound(test, 4)
    assert scores["elbo"].value - 4 * scores["elbo"].error < few.value < scores["log_likelihood"].value
    untrained = VAE(likelihood="bernoulli", epochs=1, random_state=0).fit(train)
    assert untrained.elbo(test).value < scores["elbo"].value - 1  # what is trained on rises on held-out rows
    history = vae.history_
    assert history["negative_bound"][-1] < history["negative_bound"][0]
    assert all(0 < value < 60 for value in history["divergence"])
    assert not hasattr(vae, "log_prob")
    # verbs
    codes = vae.transform(test[:7])
    assert codes.shape == (7, 10) and codes.dtype == np.float32
    means = vae.reconstruct(test[:7])
    assert means.shape == (7, 64) and (means > 0).all() and (means < 1).all()
    assert np.array_equal(means, vae.inverse_transform(codes))
    wrong = (np.round(vae.reconstruct(test)) != test).mean()
    assert wrong < 0.12 < (np.round(train.mean(0)) != test).mean()
    made = vae.sample(500, random_state=1)
    assert made.shape == (500, 64) and set(np.unique(made)) == {0, 1}
    assert np.array_equal(made[:50], vae.sample(50, random_state=1))
    # of 64 columns, the largest difference of means beyond 5 standard errors: false alarm below 4e-5, if it were exact
    assert np.abs(made.mean(0) - test.mean(0)).max() < 0.15
    line = vae.interpolate(test[0], test[1], 5)
    assert np.allclose(line[[0, 4]], vae.reconstruct(test[:2]), atol=1e-5)
    found = vae.posterior(test[:3]).mean
    assert found.shape == (3, 10) and np.allclose(found, codes[:3], atol=1e-6)


def test_figures(digits):
    _, test, vae = digits
    picture = vae.manifold(4, axes=(1, 2)).axes[0].images[0].get_array()
    grid = vae.latent_grid(4, axes=(1, 2))
    assert picture.shape == (32, 32)
    assert np.allclose(picture[:8, 8:16], grid[3, 1].reshape(8, 8)) and picture.max() <= 1  # the first axis goes up
    figure = vae.latent_map(test[:50], np.arange(50) % 3)
    assert [len(c.get_offsets()) for c in figure.axes[0].collections] == [17, 17, 16]
    assert vae.latent_map(test[:5]).axes[0].get_legend() is None


def test_convolutions_binary_codes_and_importance_weights():
    X = np.asarray(load("digits").view("binary"), np.float64)[:200]
    common = {"likelihood": "bernoulli", "epochs": 3, "random_state": 0}
    conv = VAE(encoder="conv", decoder="conv", n_latent=3, objective=IWAE(k=3), **common).fit(X)
    assert conv.reconstruct(X[:2]).shape == (2, 64) and math.isfinite(conv.score(X))
    coins = VAE(latents="binary", objective=ELBO(n_samples=2, estimator="score"), n_latent=6, **common).fit(X)
    assert coins.transform(X).min() > 0 and coins.transform(X).max() < 1 and math.isfinite(coins.score(X))
    assert coins.history_["negative_bound"][-1] < coins.history_["negative_bound"][0]
    wide = VAE(image_shape=(4, 16), encoder="conv", decoder="dense", n_latent=2, **common).fit(X)
    assert math.isfinite(wide.score(X))


@pytest.mark.spec("BAY-73")
def test_categories_learn_through_relaxed_draws_and_are_judged_by_discrete_ones(tmp_path, capsys):
    """Four kinds of rows, 2 log 2 nats; columns of their own would need 4 log 2."""
    rows = np.array([[a, a, b, b] for a in (0.0, 1.0) for b in (0.0, 1.0)] * 20)
    file, run = tmp_path / "rows.csv", str(tmp_path / "run")
    np.savetxt(file, rows, fmt="%d", delimiter=",", header="a,b,c,d", comments="")
    words = ["fit", "vae", str(file), "--likelihood", "bernoulli", "--n-latent", "2", "--epochs", "60", "--out", run]
    words += ["--learning-rate", "0.003", "--random-state", "0", "--batch-size", "20", "--objective.estimator"]
    assert command([*words, "gumbel-softmax"]) == 2  # of Gaussian latents
    assert "draws of DiagonalGaussian are not discrete" in capsys.readouterr().err and not (tmp_path / "run").exists()
    assert command([*words, "gumbel-softmax", "--latents", "categorical", "--latents.n-categories", "3"]) == 0
    found = gnomon.load(run)
    codes = found.transform(rows)
    assert codes.shape == (80, 6) and np.allclose(codes.reshape(80, 2, 3).sum(2), 1, atol=1e-5)
    assert found.get_feature_names_out().shape == (6,) and found.active_latents(rows)["count"].value == 2
    assert -2.0 < found.score(rows) < -2 * math.log(2) + 0.05
    assert (found.inverse_transform(codes).round() == rows).mean() > 0.9


@pytest.mark.spec("BAY-64", "GEN-084", "GEN-086")
def test_likelihoods_are_those_of_torch():
    random = np.random.default_rng(0)
    raw, x = torch.tensor(random.normal(size=(4, 3))), torch.tensor(random.normal(size=(4, 3)))
    both = torch.cat([raw, 0.5 * x], 1)
    two = GaussianLikelihood("network", floor=0.1).build(3, torch.float64)
    deviation = ((0.5 * x).exp() + 0.01).sqrt()
    law = torch.distributions.Normal(raw, deviation)
    assert torch.allclose(two.log_prob(both, x), law.log_prob(x).sum(1)) and torch.equal(two.mean(both), raw)
    draws = two.sample(both.repeat(5000, 1), Noise(0, "x")).reshape(5000, 4, 3)
    assert torch.allclose(draws.std(0), deviation, rtol=0.05) and torch.allclose(draws.mean(0), raw, atol=0.15)
    fixed = GaussianLikelihood(fixed=2.0).build(3, torch.float64)
    assert torch.allclose(fixed.log_prob(raw, x), torch.distributions.Normal(raw, 2.0).log_prob(x).sum(1))
    assert not list(fixed.parameters())
    each = GaussianLikelihood("columns", floor=0.5).build(3, torch.float64)
    with torch.no_grad():
        each.log_variance.fill_(-50.0)
    assert torch.allclose(each.log_prob(raw, x), torch.distributions.Normal(raw, 0.5).log_prob(x).sum(1))  # the floor
    coins = BernoulliLikelihood().build(3, torch.float64)
    coins.offset.copy_(x[0])
    law = torch.distributions.Bernoulli(logits=raw + x[0])
    bits = (x > 0).double()
    assert torch.allclose(coins.log_prob(raw, bits), law.log_prob(bits).sum(1)) and torch.equal(
        coins.mean(raw), law.mean
    )


@pytest.mark.parametrize("standardize", [True, False])
def test_components_of_a_mixture_begin_among_the_rows(standardize):
    """In the units that the likelihood sees, whatever those of the columns are."""
    X = np.random.default_rng(0).normal(100.0, 5.0, size=(60, 2))
    vae = VAE(likelihood=MixtureLikelihood(2), standardize=standardize, epochs=2, random_state=0).fit(X)
    mean, deviation = (0.0, 1.0) if standardize else (X.mean(0), X.std(0))
    places = vae.model_.head.offset[1].numpy()
    np.testing.assert_allclose(places.mean(0), mean, atol=1e-9)
    np.testing.assert_allclose((places[1] - places[0]) / 2, 0.674490 * deviation, rtol=1e-5)
    assert vae.elbo(X).value > -12.0 or not standardize


@pytest.mark.spec("GEN-086", "BAY-64")
def test_categories_are_those_of_torch_and_two_are_a_bernoulli(tmp_path):
    random = np.random.default_rng(0)
    raw = torch.tensor(random.normal(size=(4, 9)))
    x = torch.tensor(random.integers(0, 3, (4, 3)).astype(float))
    head = CategoricalLikelihood(3).build(3, torch.float64)
    head.begin(np.array([[0, 1, 2], [0, 1, 1], [2, 0, 0], [1, 1, 0.0]]), np.ones(4))
    shares = np.array([[0.5, 0.25, 0.5], [0.25, 0.75, 0.25], [0.25, 0.01, 0.25]])
    logits = (raw.reshape(4, 3, 3) + torch.tensor(np.log(shares))).transpose(1, 2)
    law = torch.distributions.Categorical(logits=logits)
    assert torch.allclose(head.log_prob(raw, x), law.log_prob(x).sum(1))
    assert torch.equal(head.mean(raw), law.probs.argmax(2).double())
    assert head.inputs(x).reshape(4, 3, 3).argmax(2).equal(x.long()) and head.inputs(x).sum() == 12
    draws = head.sample(raw.repeat(4000, 1), Noise(0, "x")).reshape(4000, 4, 3)
    for code in range(3):  # 36 frequencies within 5 standard errors
        found, p = (draws == code).double().mean(0), law.probs[..., code]
        assert ((found - p).abs() < 5 * (p * (1 - p) / 4000).sqrt()).all()
    two, coins = CategoricalLikelihood(2).build(3, torch.float64), BernoulliLikelihood().build(3, torch.float64)
    bits, both = (x > 0).double(), torch.tensor(random.normal(size=(4, 6)))
    assert torch.allclose(two.log_prob(both, bits), coins.log_prob(both[:, 3:] - both[:, :3], bits))
    # three patterns of codes: log p is log(1/3) at best, of independent columns -6 log 3; by chance 0.4 % are patterns
    X = np.array([[0, 1, 2, 0, 1, 2], [2, 2, 0, 1, 0, 0], [1, 0, 1, 2, 2, 1]])[random.integers(0, 3, 150)]
    vae = VAE(likelihood=CategoricalLikelihood(3), n_latent=2, epochs=60, learning_rate=0.01, random_state=0).fit(X)
    assert -3 * math.log(3) < vae.score(X) < -math.log(3) + 0.1
    made = vae.sample(200, random_state=0)
    assert (made[:, None] == np.unique(X, axis=0)[None]).all(2).any(1).mean() > 0.4
    assert np.array_equal(vae.reconstruct(X[:9]), X[:9])
    again = gnomon.load(vae.save(tmp_path / "model"))
    assert again.score(X) == vae.score(X) and np.array_equal(
        again.sample(5, random_state=1), vae.sample(5, random_state=1)
    )
    conv = VAE(
        likelihood=CategoricalLikelihood(3), encoder="conv", decoder="conv", image_shape=(4, 4), n_latent=2, epochs=1
    )
    assert conv.fit(random.integers(0, 3, (20, 16))).sample(2).shape == (2, 16)
    with pytest.raises(UserValueError, match="must hold a code 0 to 2, got 3"):
        VAE(likelihood=CategoricalLikelihood(3)).fit(np.array([[0, 3], [1, 1]]))


@pytest.mark.spec("BAY-66")
def test_a_stream_of_chunks_raises_the_bound_of_rows_that_it_has_not_seen():
    X = np.asarray(load("digits").view("binary"), np.float32)
    train, test = X[:900], X[900:1200]
    vae = VAE(likelihood="bernoulli", batch_size=50, random_state=0)
    bounds = []
    for number in range(18):  # three times over nine chunks
        chunk = train[number % 9 * 100 : number % 9 * 100 + 100]
        assert vae.partial_fit(chunk) is vae and vae.n_steps_ == 2 * (number + 1)
        if number in (0, 8, 17):
            bounds.append(vae.elbo(test).value)
    assert bounds[0] < bounds[1] < bounds[2]
    before = vae.score(test)
    vae.partial_fit(train[:0])
    assert vae.score(test) == before and len(vae.history_["negative_bound"]) == 18
    with pytest.raises(ValueError, match="expecting 64 features"):
        vae.partial_fit(train[:, :9])
    assert vae.score(test) == before
    with pytest.raises(UserValueError, match="no first update to warm up from"):
        VAE(likelihood="bernoulli", objective=ELBO(warm_up=9)).partial_fit(train)


@pytest.mark.spec("BAY-64", "GEN-086")
def test_a_density_is_one_of_the_rows_and_constant_columns_do_not_explode():
    X = plane(150)
    wide = X * np.array([10.0, 1, 1, 1, 1])
    fits = [VAE(n_latent=2, epochs=30, random_state=0).fit(rows).log_prob_bound(rows) for rows in (X, wide)]
    assert fits[1].value == pytest.approx(fits[0].value - math.log(10), abs=1e-6)
    held = np.concatenate([X, np.full((150, 1), 3.0)], 1)
    vae = VAE(n_latent=2, epochs=200, learning_rate=0.01, random_state=0).fit(held)
    assert vae.score(held) < fits[0].value + -math.log(0.01 * math.sqrt(2 * math.pi)) + 1.5
    assert abs(vae.sample(100, random_state=0)[:, 5].mean() - 3.0) < 0.5


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda vae, X: vae.log_prob_bound(X, proposal="posterior"), "proposal must be known, got 'posterior'"),
        (lambda vae, X: vae.elbo(X, 1), "n_samples must be at least 2, got 1"),
        (lambda vae, X: vae.inverse_transform(X), "Z must have 3 columns, got 5"),
        pytest.param(
            lambda vae, X: VAE(likelihood="bernoulli").fit(X), "X must be 0 or 1", marks=pytest.mark.spec("BAY-64")
        ),
        (lambda vae, X: VAE(encoder="conv").fit(X), "a square number of columns where no shape is given, got 5"),
        (lambda vae, X: VAE(objective="elbow").fit(X), "did you mean 'elbo'"),
    ],
)
def test_what_cannot_be_asked(linear, ask, told):
    X, vae = linear
    with pytest.raises(UserValueError, match=told):
        ask(vae, X)
