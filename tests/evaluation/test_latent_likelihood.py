"""Importance-weighted bounds: a linear Gaussian model with a known answer, and binary latents by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp

from gnomon.errors import UserValueError
from gnomon.evaluation.latent_likelihood import latent_log_prob, latent_score
from gnomon.inference.importance.weights import WeightedSample
from gnomon.numeric.noise import Noise, recording
from oracles.stated_errors import check_coverage

LIKE = np.empty(0)
W = np.array([1.0, 2.0])
PRECISION = np.array([[2.0, 2.0], [2.0, 5.0]])
"""I + w w', of h given v in h ~ N(0, I), v | h ~ N(w'h, 1)."""
EXACT = float(stats.norm.logpdf(3.0, scale=math.sqrt(6.0)))
V = np.array([[3.0]])


class Gauss2:
    def log_joint(self, x, z):
        return stats.norm.logpdf(z).sum(axis=1) + stats.norm.logpdf(x[:, 0], loc=z @ W)


class Posterior:
    """Exact: mean (1, 2) v / 6, covariance (I + w w')^-1."""

    root = np.linalg.cholesky(np.linalg.inv(PRECISION))

    def infer(self, x, noise):
        e = noise.normal((len(x), 2), like=LIKE)
        log_q = stats.norm.logpdf(e).sum(axis=1) - np.log(np.diag(self.root)).sum()
        return x * W / 6 + e @ self.root.T, log_q


class MeanField(Posterior):
    """Mean (1, 2) v / 6, precisions (2, 5)."""

    root = np.diag(1 / np.sqrt([2.0, 5.0]))


class Wide(Posterior):
    """Precisions (1, 2.5): of finite variance, which the mean field's weights have not."""

    root = np.diag(1 / np.sqrt([1.0, 2.5]))


@pytest.mark.spec("INF-10")
def test_the_posterior_answers_log_p_with_every_draw():
    assert pytest.approx(-2.564818, abs=5e-7) == EXACT
    v = np.linspace(-4, 4, 9)[:, None]
    exact = stats.norm.logpdf(v[:, 0], scale=math.sqrt(6.0))
    for k in (1, 3):
        found = latent_log_prob(Gauss2(), Posterior(), v, k, Noise(0, "iw"), repeats=5)
        assert np.allclose(found.value, exact, rtol=0, atol=1e-13)
        assert (found.stderr < 1e-13).all()
    single = latent_log_prob(Gauss2(), Posterior(), v, 2, Noise(0, "iw"))
    assert (single.stderr < 1e-7).all()
    assert np.allclose(single.max_share, 0.5)


@pytest.mark.spec("INF-10")
def test_the_mean_field_bound_rises_from_the_elbo_to_log_p():
    """K = 1 gives -2.820231 in the mean, then the bound rises (each test within 4.5 errors, false-alarm rate 7e-6)."""
    values, errors = [], []
    for k, repeats in ((1, 40_000), (2, 20_000), (5, 8000), (20, 4000)):
        found = latent_log_prob(Gauss2(), MeanField(), V, k, Noise(1, "iw").child(str(k)), repeats=repeats)
        values.append(found.value[0])
        errors.append(found.stderr[0])
    assert abs(values[0] + 2.820231) < 4.5 * errors[0]
    assert errors[0] < 0.005
    for a, b in itertools.pairwise(range(4)):
        assert values[b] - values[a] > 3 * math.hypot(errors[a], errors[b])
    assert values[-1] < EXACT + 4.5 * errors[-1]
    many = latent_log_prob(Gauss2(), Wide(), V, 100_000, Noise(2, "iw"))
    assert abs(many.value[0] - EXACT) < 4.5 * many.stderr[0]
    assert many.stderr[0] < 0.01


@pytest.mark.spec("INF-10")
def test_the_second_bound_by_quadrature():
    """L_2 under the mean-field proposal: Gauss-Hermite in four dimensions."""
    node, weight = np.polynomial.hermite_e.hermegauss(24)
    weight = weight / weight.sum()
    grid = np.stack([a.ravel() for a in np.meshgrid(node, node, indexing="ij")], axis=1)
    mass = np.outer(weight, weight).ravel()
    z = np.array([0.5, 1.0]) + grid @ MeanField.root.T
    log_q = stats.norm.logpdf(grid).sum(axis=1) - np.log(np.diag(MeanField.root)).sum()
    log_w = Gauss2().log_joint(np.full((len(z), 1), 3.0), z) - log_q
    assert mass @ log_w == pytest.approx(-2.820231, abs=5e-7)
    second = mass @ (np.logaddexp(log_w[:, None], log_w) - math.log(2)) @ mass
    found = latent_log_prob(Gauss2(), MeanField(), V, 2, Noise(3, "iw"), repeats=50_000)
    assert abs(found.value[0] - second) < 4.5 * found.stderr[0]


class Switches:
    """Three latent switches with probabilities `a`, x_j = 1 with probability sigmoid(z B)_j."""

    a = np.array([0.2, 0.5, 0.7])
    B = np.array([[2.0, -1.0], [-3.0, 0.5], [1.0, 1.5]])

    def log_joint(self, x, z):
        logits = z @ self.B
        prior = z @ np.log(self.a) + (1 - z) @ np.log(1 - self.a)
        return prior + (x * logits - np.logaddexp(0, logits)).sum(axis=1)


class Coins:
    q = 0.5

    def infer(self, x, noise):
        z = noise.bernoulli(np.full((len(x), 3), self.q))
        return z, np.where(z == 1, math.log(self.q), math.log(1 - self.q)).sum(axis=1)


STATES = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
DATA = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])


@pytest.mark.spec("INF-10", "GEN-084", "GEN-088")
def test_the_mean_weight_is_unbiased_and_the_bound_is_that_of_the_enumeration():
    """Binary latents: log p(x) and L_1, L_2 by sums over 8 and 64 states; each within 4.5 errors."""
    model = Switches()
    for i, x in enumerate(DATA):
        log_w = model.log_joint(np.tile(x, (8, 1)), STATES) - 3 * math.log(0.5)
        exact = logsumexp(log_w) - math.log(8)
        bounds = (log_w.mean(), (np.logaddexp(log_w[:, None], log_w) - math.log(2)).mean())
        assert bounds[0] < bounds[1] < exact
        for k, bound in enumerate(bounds, start=1):
            found = latent_log_prob(model, Coins(), DATA, k, Noise(4, "iw").child(str(k)), repeats=4000)
            assert abs(found.value[i] - bound) < 4.5 * found.stderr[i]
        many = latent_log_prob(model, Coins(), DATA, 20_000, Noise(5, "iw"))
        assert abs(many.value[i] - exact) < 4.5 * many.stderr[i]


class Coin:
    """One bit z of chance 0.3, q a fair one; x changes nothing: the weights are 0.6 and 1.4."""

    def log_joint(self, x, z):
        return np.log(np.where(z == 1, 0.3, 0.7))

    def infer(self, x, noise):
        return noise.bernoulli_logits(np.zeros(len(x))), np.full(len(x), math.log(0.5))


@pytest.mark.spec("INF-10")
def test_the_bias_is_that_of_the_enumeration():
    """log p(x) = 0; E log mean w over the binomial number of ones among 40 draws, to the order of 1 / K^2."""
    ones = np.arange(41)
    gap = stats.binom.pmf(ones, 40, 0.5) @ np.log((0.6 * ones + 1.4 * (40 - ones)) / 40)
    found = latent_log_prob(Coin(), Coin(), np.zeros((2000, 1)), 40, Noise(0, "iw"))
    assert -0.16 / 80 * 1.1 < gap < -0.16 / 80  # half the squared coefficient of variation by K, by hand
    assert found.bias.mean() == pytest.approx(gap, rel=0.05)
    several = latent_log_prob(Coin(), Coin(), np.zeros((400, 1)), 40, Noise(1, "iw"), repeats=5)
    assert several.bias.mean() == pytest.approx(gap, rel=0.05)  # a mean of five is as low as one


def _bound(k):
    """E log mean w of k draws, by the binomial number of ones."""
    ones = np.arange(k + 1)
    return stats.binom.pmf(ones, k, 0.5) @ np.log((0.6 * ones + 1.4 * (k - ones)) / k)


@pytest.mark.spec("INF-10", "GEN-084", "GEN-088")
@pytest.mark.parametrize(("k", "repeats", "slack"), [(400, 1, 0.0), (20, 60, 0.005)])
def test_the_stated_error_covers_the_bound(k, repeats, slack):
    """3000 rows, each with an estimate and an error of its own, from K weights or from the repeats (t of 59)."""
    found = latent_log_prob(Coin(), Coin(), np.zeros((3000, 1)), k, Noise(2, "iw"), repeats=repeats)
    check_coverage(found.value, found.stderr, _bound(k), slack)


@pytest.mark.spec("INF-10")
@pytest.mark.parametrize("repeats", [1, 4])
def test_the_error_of_a_score_is_that_of_its_weighted_mean(repeats):
    """700 scores of 30 rows of unequal weight; their intervals hold the bound."""
    weight = np.arange(30.0)
    found = [
        latent_score(Coin(), Coin(), np.zeros((30, 1)), 100, Noise(seed, "iw"), repeats=repeats, weight=weight)
        for seed in range(700)
    ]
    check_coverage([score.value for score in found], [score.error for score in found], _bound(100))
    told = [float(score.note.split("about ")[1].split()[0]) for score in found]
    assert np.mean(told) == pytest.approx(-_bound(100), rel=0.05)


@pytest.mark.spec("INF-10")
def test_the_errors_and_the_gap_it_reports():
    """500 estimates with K = 50: their scatter is the reported error, their mean lies below by the reported bias."""
    v = np.full((500, 1), 3.0)
    found = latent_log_prob(Gauss2(), Wide(), v, 50, Noise(6, "iw"))
    assert found.value.std(ddof=1) == pytest.approx(np.sqrt(np.square(found.stderr).mean()), rel=0.15)
    gap = found.value.mean() - EXACT
    assert gap < 0
    assert abs(gap - found.bias.mean()) < 4 * found.value.std() / math.sqrt(500)


@pytest.mark.parametrize("batch_size", [1, 7, 64, 10_000])
def test_memory_is_bounded_and_changes_nothing(batch_size):
    v = np.linspace(-2, 2, 5)[:, None]
    largest = 0

    class Watched(MeanField):
        def infer(self, x, noise):
            nonlocal largest
            largest = max(largest, len(x))
            return MeanField.infer(self, x, noise)

    with recording():
        found = latent_log_prob(Gauss2(), Watched(), v, 30, Noise(7, "iw"), repeats=2, batch_size=batch_size)
    whole = latent_log_prob(Gauss2(), MeanField(), v, 30, Noise(7, "iw"), repeats=2)
    assert largest <= max(batch_size, 1)
    for a, b in zip(found, whole, strict=True):
        assert np.allclose(a, b, rtol=1e-10, atol=0, equal_nan=True)


@pytest.mark.spec("INF-10")
def test_the_score_says_that_it_is_a_bound():
    v = np.linspace(-2, 2, 6)[:, None]
    score = latent_score(Gauss2(), MeanField(), v, 20, Noise(8, "iw"), data_space="density on R^1")
    found = latent_log_prob(Gauss2(), MeanField(), v, 20, Noise(8, "iw"))
    assert score.kind == "lower bound"
    assert score.value == pytest.approx(found.value.mean(), rel=1e-14)
    assert score.error == pytest.approx(np.sqrt(np.square(found.stderr).sum()) / 6, rel=1e-12)
    assert "20 draws per row, in expectation below log p(x) by about" in score.note
    single = latent_score(Gauss2(), MeanField(), v, 1, Noise(8, "iw"))
    assert single.error == math.inf
    assert "about" not in single.note
    weighted = latent_score(Gauss2(), MeanField(), v, 20, Noise(8, "iw"), weight=[1, 0, 0, 0, 0, 3])
    assert weighted.value == pytest.approx((found.value[0] + 3 * found.value[5]) / 4, rel=1e-13)
    assert weighted.error == pytest.approx(math.hypot(found.stderr[0], 3 * found.stderr[5]) / 4, rel=1e-12)
    told = latent_score(Gauss2(), MeanField(), v, 20, Noise(8, "iw"), rows=[9, 7, 5, 3, 1, 0], batch_size=7)
    assert told.rows.tolist() == [9, 7, 5, 3, 1, 0]
    assert told.value == pytest.approx(score.value, rel=1e-13)
    with pytest.raises(UserValueError, match="got 2 for 6 rows"):
        latent_score(Gauss2(), MeanField(), v, 20, Noise(8, "iw"), weight=[1, 2])


def test_a_proposal_that_misses_is_told():
    """A narrow proposal beside the posterior: one weight rules, which the note says."""

    class Beside(MeanField):
        def infer(self, x, noise):
            return MeanField.infer(self, x - 20.0, noise)

    score = latent_score(Gauss2(), Beside(), V, 50, Noise(9, "iw"))
    assert "one weight makes up more than half of the sum in 1 of 1 rows (row 0:" in score.note

    class Narrow(MeanField):
        root = MeanField.root / 2

    many = latent_score(Gauss2(), Narrow(), V, 5000, Noise(9, "iw"))
    assert "heavy tail (k-hat above 0.7) in 1 of 1 rows" in many.note
    steady = latent_log_prob(Gauss2(), Wide(), np.full((100, 1), 3.0), 1000, Noise(9, "iw"))
    assert np.isfinite(steady.khat).sum() == 64
    assert np.nanmedian(steady.khat) < 0.5
    assert "heavy" not in latent_score(Gauss2(), Wide(), np.full((100, 1), 3.0), 1000, Noise(9, "iw")).note
    z, log_q = Narrow().infer(np.full((500, 1), 3.0), Noise(9, "iw").rows(np.arange(500)))
    sample = WeightedSample(Gauss2().log_joint(np.full((500, 1), 3.0), z) - log_q)
    same = latent_log_prob(Gauss2(), Narrow(), V, 500, Noise(9, "iw"), batch_size=130)
    assert same.value[0] == pytest.approx(sample.log_mean_weight, rel=1e-12)
    assert same.stderr[0] == pytest.approx(sample.stderr, rel=1e-10)
    assert same.max_share[0] == pytest.approx(sample.max_share, rel=1e-12)
    assert same.khat[0] == pytest.approx(sample.khat, rel=1e-9)

    class Never(Gauss2):
        def log_joint(self, x, z):
            return np.full(len(x), -np.inf)

    for repeats in (1, 3):
        none = latent_log_prob(Never(), MeanField(), V, 5, Noise(9, "iw"), repeats=repeats)
        assert none.value[0] == -math.inf
        assert none.stderr[0] > 0
        assert not np.isnan(none.stderr).any()


def test_tensors_and_layers_of_latents():
    class Torch(Gauss2):
        def log_joint(self, x, z):
            return torch.from_numpy(Gauss2.log_joint(self, x.numpy(), np.stack([part.numpy() for part in z], axis=1)))

    class Layers(MeanField):
        def infer(self, x, noise):
            z, log_q = MeanField.infer(self, x.numpy(), noise)
            return (torch.from_numpy(z[:, 0]), torch.from_numpy(z[:, 1])), torch.from_numpy(log_q)

    a = latent_log_prob(Torch(), Layers(), torch.from_numpy(V), 10, Noise(10, "iw"))
    b = latent_log_prob(Gauss2(), MeanField(), V, 10, Noise(10, "iw"))
    assert np.allclose(a.value, b.value, rtol=1e-14)


def test_what_cannot_be_estimated_is_refused():
    def run(model=None, proposal=None, **options):
        options = {"x": V, "n_samples": 5, **options}
        return latent_log_prob(model or Gauss2(), proposal or MeanField(), noise=Noise(0, "bad"), **options)

    for name in ("n_samples", "repeats", "batch_size"):
        with pytest.raises(UserValueError, match=f"{name} must be at least 1, got 0"):
            run(**{name: 0})
    with pytest.raises(UserValueError, match="x must have at least 1 row"):
        run(x=np.zeros((0, 1)))
    with pytest.raises(UserValueError, match=r"more than 2\^32"):
        run(n_samples=1 << 33)
    with pytest.raises(UserValueError, match=r"nan \(row 1\)"):
        run(x=np.array([[0.0], [np.nan]]))

    class Pairs(Gauss2):
        def log_joint(self, x, z):
            return z

    with pytest.raises(UserValueError, match="one number per row"):
        run(model=Pairs(), proposal=type("P", (), {"infer": lambda self, x, noise: (np.zeros((len(x), 2)), 0.0)})())


@pytest.mark.spec("INF-10")
def test_the_bound_of_numpyro():
    """RenyiELBO(alpha=0) with 5 particles over 20,000 keys: equal means within 4.5 joint errors."""
    before = np.random.get_state()  # importing numpyro draws from the global generator
    import jax
    import numpyro
    from numpyro import distributions as dist
    from numpyro.infer import RenyiELBO

    def model():
        h = numpyro.sample("h", dist.Normal(jax.numpy.zeros(2), 1.0).to_event(1))
        numpyro.sample("v", dist.Normal(h @ W, 1.0), obs=3.0)

    def guide():
        numpyro.sample("h", dist.Normal(jax.numpy.array([0.5, 1.0]), jax.numpy.array([2.0, 5.0]) ** -0.5).to_event(1))

    loss = jax.jit(jax.vmap(lambda key: RenyiELBO(alpha=0, num_particles=5).loss(key, {}, model, guide)))
    peer = -np.asarray(loss(jax.random.split(jax.random.key(0), 20_000)), dtype=np.float64)
    np.random.set_state(before)
    found = latent_log_prob(Gauss2(), MeanField(), V, 5, Noise(11, "iw"), repeats=20_000)
    joint = math.hypot(found.stderr[0], peer.std(ddof=1) / math.sqrt(len(peer)))
    assert joint < 0.006
    assert abs(found.value[0] - peer.mean()) < 4.5 * joint
