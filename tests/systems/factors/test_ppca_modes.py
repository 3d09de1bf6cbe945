"""Learning at most probable latent values: k-means, bounds by quadrature, what is maximal, and where it goes astray."""

import math

import numpy as np
import pytest
from sklearn.cluster import KMeans as Library

import gnomon
from gnomon import PPCA
from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Rows
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.systems.factors.ppca import PPCAModel
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixtureModel
from gnomon.training.em_forms import Hard
from gnomon.training.group import Group
from gnomon.training.procedure import Problem

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 2)) @ RANDOM.normal(size=(2, 5)) + 0.5 * RANDOM.normal(size=(200, 5))
GAPS = np.where(RANDOM.random(X.shape) < 0.15, np.nan, X)


def model_of(W, s, spread, d=4):
    model = PPCAModel(np.asarray(W, float), np.linspace(-0.5, 1.0, d), s)
    model.spread = spread
    return model


def values(model, rows):
    """What `expect_mode` says of each row."""
    return np.array([model.expect_mode(row[None], np.ones(1))["log_likelihood"] for row in rows])


def log_joint(model, x, z):
    """log p(x, z), number by number; missing ones are left out."""
    total = sum(-0.5 * math.log(2 * math.pi) - 0.5 * one**2 for one in z)
    for j, value in enumerate(x):
        if not math.isnan(value):
            mean = model.mean[j] + sum(model.components[j, i] * z[i] for i in range(len(z)))
            total += (
                -0.5 * math.log(2 * math.pi * model.noise_variance) - 0.5 * (value - mean) ** 2 / model.noise_variance
            )
    return total


@pytest.mark.spec("INF-79")
@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("rows", [X[:4, :4], GAPS[:8, :4]])
def test_the_objective_of_a_row_by_quadrature_at_its_mode(spread, rows):
    model = model_of(np.random.default_rng(1).normal(size=(4, 2)), 0.4, spread)
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    weights = weights / weights.sum()
    for x, value in zip(rows, values(model, rows), strict=True):
        z = model.latent_mean(x[None])[0]
        if not spread:
            assert value == pytest.approx(log_joint(model, x, z), abs=1e-10)
            continue
        mean = sum(
            wa * wb * log_joint(model, x, z + spread * np.array([a, b]))
            for a, wa in zip(nodes, weights, strict=True) for b, wb in zip(nodes, weights, strict=True)
        )  # fmt: skip
        assert value == pytest.approx(mean + math.log(2 * math.pi * math.e * spread**2), abs=1e-9)
        for step in np.random.default_rng(2).normal(size=(5, 2)) * 0.1:  # z is the most probable one
            assert log_joint(model, x, z + step) < log_joint(model, x, z)


@pytest.mark.spec("INF-79")
def test_smoothed_it_is_a_bound_and_tight_at_the_right_deviation_in_one_dimension():
    W, s = np.array([[1.0], [-0.5], [2.0], [0.3]]), 0.7
    exact = model_of(W, s, None).log_prob(X[:30, :4])
    right = math.sqrt(s / (float((W**2).sum()) + s))  # the posterior's own
    gaps = {spread: exact - values(model_of(W, s, spread), X[:30, :4]) for spread in (0.05, right, 0.5, 2.0)}
    np.testing.assert_allclose(gaps[right], 0, atol=1e-10)
    assert all((gap > 1e-3).all() for spread, gap in gaps.items() if spread != right)
    # of two dimensions of unlike length no s is the posterior's; KL of the two normal distributions is what is left
    W = np.array([[2.0, 0.1], [0.0, 0.3], [1.0, 0.0], [0.0, 0.2]])
    for spread in (0.1, 0.4, 0.8):
        model = model_of(W, s, spread)
        lam = np.linalg.inv(s * np.linalg.inv(W.T @ W + s * np.eye(2)))
        kl = 0.5 * (spread**2 * np.trace(lam) - 2 - np.linalg.slogdet(lam)[1] - 4 * math.log(spread))
        np.testing.assert_allclose(model.log_prob(X[:9, :4]) - values(model, X[:9, :4]), kl, atol=1e-10)
    part = model_of(W, s, 0.4)
    assert (values(part, GAPS[:30, :4]) < part.log_prob(GAPS[:30, :4])).all()
    # a point of a density bounds nothing: where the noise is small its log joint is above log p(x)
    point = model_of(3 * np.ones((4, 1)), 0.01, 0.0)
    rows = point.mean + np.outer(np.linspace(-0.1, 0.1, 3), np.ones(4))
    assert (values(point, rows) > point.log_prob(rows)).all()


@pytest.mark.spec("INF-79")
@pytest.mark.parametrize("noise", [0.0, 0.25])
@pytest.mark.parametrize("rows", [X, GAPS])
def test_it_never_falls_and_every_step_maximizes_over_the_parameters(noise, rows):
    fitted = PPCA(n_components=2, method="map", noise=noise, random_state=0, max_iter=40, tol=0.0).fit(rows)
    climbed = np.array(fitted.history_["objective"])
    assert len(climbed) == 40 and (np.diff(climbed) > -1e-12).all()
    assert fitted.history_["bound" if noise else "log_joint"] == fitted.history_["objective"]
    assert fitted.objective_ == climbed[-1] and "log_likelihood" not in fitted.history_
    # at held z the slope by every parameter is 0 after a step
    model = fitted.model_
    z = model.latent_mean(rows)
    model.maximize(model.expect_mode(rows, np.ones(len(rows))))
    observed = ~np.isnan(rows)

    def objective(W, mean, s):
        off = np.where(observed, rows - z @ W.T - mean, 0.0) ** 2 + noise**2 * observed * (W**2).sum(1)
        return -0.5 * float((observed * np.log(s) + off / s).sum())

    best = objective(model.components, model.mean, model.noise_variance)
    for move in np.random.default_rng(0).normal(size=(10, 5, 4)):
        for h in (1e-3, -1e-3):
            changed = model.components + h * move[:, :2], model.mean + h * move[:, 2]
            assert objective(*changed, model.noise_variance * math.exp(h * move[0, 3])) < best


class Held(GaussianMixtureModel):
    """A mixture whose weights and one variance stay as they are."""

    def maximize(self, statistics):
        weights, covariances = self.weights, self.normals.covariances.copy()
        super().maximize(statistics)
        self.load({"weights": weights, "means": self.means, "covariances": covariances})


@pytest.mark.spec("INF-79")
@pytest.mark.parametrize("variance", [0.3, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_hard_iterations_of_a_mixture_with_one_variance_and_equal_weights_are_k_means(seed, variance):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(150, 2)) + random.integers(0, 3, size=(150, 1)) * 2.0
    start = rows[random.choice(150, 4, replace=False)]
    model, noise = Held(np.full(4, 0.25), start, np.full(4, variance), "spherical"), Noise(0, "fit")
    task = Problem(model, Batches(Examples({"X": rows}, np.ones(150)), Rows(None), noise=noise), noise, Group())
    procedure = Hard().build(100, 0.0)
    state, objective = procedure.start(task), []
    for _ in range(40):
        state, info = procedure.step(state)
        objective.append(info.record["objective"])
    peer = Library(4, init=start, n_init=1, max_iter=40, tol=0.0, algorithm="lloyd").fit(rows)
    np.testing.assert_allclose(model.means, peer.cluster_centers_, atol=1e-10)
    np.testing.assert_array_equal(model.log_joint(rows).argmax(1), peer.labels_)
    assert (np.diff(objective) > -1e-12).all()
    constant = math.log(0.25) - math.log(2 * math.pi * variance)
    assert objective[-1] == pytest.approx(constant - 0.5 * peer.inertia_ / variance / 150, abs=1e-9)


@pytest.mark.spec("INF-79")
def test_mixtures_are_fitted_so_too():
    rows = RANDOM.normal(size=(120, 2)) + np.repeat([[0.0, 0.0], [3.0, 1.0], [0.0, 4.0]], 40, 0)
    found = gnomon.GaussianMixture(n_components=3, covariance="spherical", em="hard", random_state=0).fit(rows)
    assert (np.diff(found.history_["objective"]) > -1e-12).all()
    best = found.model_.log_joint(rows).max(1)
    assert found.lower_bound_ == pytest.approx(best.mean(), abs=1e-3)
    assert found.lower_bound_ < found.score(rows)  # of a point of listed values the log joint is a bound


@pytest.mark.spec("INF-79")
def test_without_noise_latents_shrink_and_objectives_of_unlike_noise_are_no_measure():
    def fit(noise, max_iter):
        return PPCA(n_components=2, method="map", noise=noise, random_state=0, max_iter=max_iter, tol=0.0).fit(X)

    short, long = fit(0.0, 20), fit(0.0, 320)
    assert np.linalg.norm(long.components_) > 1.3 * np.linalg.norm(short.components_)
    assert (long.transform(X) ** 2).mean() < 0.5 * (short.transform(X) ** 2).mean()
    assert long.objective_ > short.objective_ and long.score(X) < short.score(X) - 0.5
    smooth = fit(0.2, 160)
    assert long.objective_ > smooth.objective_ + 0.5 and smooth.score(X) > long.score(X) + 1.0
    assert smooth.objective_ < smooth.score(X) < PPCA(n_components=2).fit(X).score(X)  # below the maximum likelihood


@pytest.mark.spec("INF-79")
def test_chunks_and_what_is_refused():
    stream = PPCA(n_components=1, method="map", noise=0.3, random_state=0)
    bounds = []
    for _ in range(12):
        bounds += stream.partial_fit(X).history_["bound"]
    assert bounds[-1] > bounds[0] + 0.1 and "log_likelihood" not in stream.history_
    whole = PPCA(n_components=1, method="map", noise=0.3, random_state=0).fit(X)
    assert stream.score(X) == pytest.approx(whole.score(X), abs=0.05)
    with pytest.raises(UserError, match="method must be em or auto where latents are known"):
        PPCA(n_components=1, method="map").fit(X, latents=np.ones((200, 1)))
    with pytest.raises(UserError, match="noise must be"):
        PPCA(noise=-1.0).fit(X)
    with pytest.raises(AttributeError, match="iterated fits"):
        _ = PPCA(n_components=1).fit(X).objective_
    with pytest.raises(UserError, match="noise"):
        stream.set_params(noise=0.1).partial_fit(X)


@pytest.mark.filterwarnings("ignore:the rows lie in the fitted subspace:UserWarning")
@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("rows", [np.ones((10, 4)), np.where(np.eye(10, 4) > 0, np.nan, 2.0)])
def test_rows_that_are_all_alike_put_every_z_at_0(rows, noise):
    fitted = PPCA(n_components=3, method="map", noise=noise, random_state=0, max_iter=30).fit(rows)
    assert (np.diff(fitted.history_["objective"]) > -1e-6).all()
    np.testing.assert_allclose(fitted.model_.mean, np.nanmax(rows), atol=1e-9)
    np.testing.assert_allclose(fitted.components_, 0, atol=1e-9)
