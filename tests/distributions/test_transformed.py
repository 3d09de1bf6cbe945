"""Change of variables and inversion against closed forms; random tests fail a right sampler with probability 1e-5."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.distributions.real import Normal, StudentT
from gnomon.distributions.table import Categorical, Table
from gnomon.distributions.transformed import Pushforward, Truncated, inverse_transform_sample, invert_cdf
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from oracles.scripted import Scripted


class StandardNormals:
    """Rows of independent standard normals."""

    def __init__(self, d):
        self.d = d

    def log_prob(self, z):
        return -0.5 * (z**2).sum(-1) - self.d / 2 * math.log(2 * math.pi)

    def sample(self, noise, draw=0, shape=()):
        return noise.normal((*shape, self.d), draw, dtype=np.float64)


@pytest.mark.spec("GEN-083")
def test_the_exponential_of_a_normal_is_log_normal():
    distribution = Pushforward(Normal(0.3, 0.6), torch.exp, torch.log)
    x = np.array([0.1, 1.0, 4.0])
    assert np.allclose(distribution.log_prob(x), stats.lognorm(0.6, scale=math.exp(0.3)).logpdf(x))
    peer = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(torch.tensor(0.3).double(), 0.6), [torch.distributions.ExpTransform()]
    )
    assert np.allclose(distribution.log_prob(x), peer.log_prob(torch.from_numpy(x)).numpy())
    grid = np.linspace(1e-6, 60, 2_000_001)
    assert abs(np.exp(distribution.log_prob(grid)).sum() * (grid[1] - grid[0]) - 1) < 1e-5
    draws = distribution.sample(Noise(0, "x"), 0, (20_000,))
    assert stats.kstest(draws, stats.lognorm(0.6, scale=math.exp(0.3)).cdf).pvalue > 1e-5


@pytest.mark.spec("GEN-083")
def test_an_affine_map_gives_the_normal_of_its_covariance():
    A = torch.tensor([[2.0, 0.3, 0.0], [0.0, 1.0, -0.4], [0.5, 0.0, 0.7]], dtype=torch.float64)
    b = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
    distribution = Pushforward(StandardNormals(3), lambda z: z @ A.T + b, lambda x: torch.linalg.solve(A, (x - b).T).T)
    x = np.random.default_rng(0).normal(size=(20, 3))
    exact = stats.multivariate_normal(b.numpy(), (A @ A.T).numpy())
    assert np.allclose(distribution.log_prob(x), exact.logpdf(x))
    given = torch.tensor(x, requires_grad=True)
    distribution.log_prob(given).sum().backward()
    slope = -np.linalg.solve((A @ A.T).numpy(), (x - b.numpy()).T).T
    assert np.allclose(given.grad.numpy(), slope)
    draws = distribution.sample(Noise(0, "x"), 0, (5_000,))
    white = np.linalg.solve(A.numpy(), (draws - b.numpy()).T)
    assert stats.kstest(white.ravel(), stats.norm.cdf).pvalue > 1e-5


@pytest.mark.spec("GEN-083")
def test_a_curved_map_integrates_to_one():
    def forward(z):  # the banana
        return torch.stack([z[:, 0], z[:, 1] + 0.5 * z[:, 0] ** 2], 1)

    def inverse(x):
        return torch.stack([x[:, 0], x[:, 1] - 0.5 * x[:, 0] ** 2], 1)

    distribution = Pushforward(StandardNormals(2), forward, inverse)
    a, b = np.meshgrid(np.linspace(-6, 6, 301), np.linspace(-7, 25, 801))
    p = np.exp(distribution.log_prob(np.stack([a.ravel(), b.ravel()], 1)))
    assert abs(p.sum() * 12 / 300 * 32 / 800 - 1) < 1e-6


@pytest.mark.spec("GEN-083")
def test_where_there_is_no_density_it_is_said():
    distribution = Pushforward(Normal(0.0, 1.0), torch.exp, torch.log)
    with pytest.raises(UserValueError, match="row 1"):
        distribution.log_prob([1.0, -1.0])
    flat = Pushforward(StandardNormals(2), lambda z: z, lambda x: torch.stack([x[:, 0], x[:, 0]], 1))
    with pytest.raises(UserValueError, match="cannot be inverted"):
        flat.log_prob(np.ones((2, 2)))
    with pytest.raises(UserValueError, match="as many columns"):
        Pushforward(StandardNormals(1), lambda z: z, lambda x: x[:, :1]).log_prob(np.ones((2, 2)))


@pytest.mark.spec("GEN-082")
def test_inversion_of_a_cdf():
    u = np.array([0.0, 1e-9, 0.3, 0.9, 1.0])
    found = invert_cdf(stats.expon(scale=0.5).cdf, u, (0.0, 100.0))
    assert np.allclose(found[1:4], -np.log1p(-u[1:4]) * 0.5, rtol=1e-9)
    assert found[0] < 1e-15 and found[-1] <= 100

    def steps(x):  # flat from 1 to 2
        return np.where(x < 1, x / 2, np.where(x < 2, 0.5, np.minimum(x / 2 - 0.5, 1)))

    assert np.allclose(invert_cdf(steps, [0.25, 0.5, 0.75], (0.0, 3.0)), [0.5, 1.0, 2.5])
    # bisection by hand: of [0, 1] three halvings leave the upper end of the eighth that holds 0.3
    assert invert_cdf(lambda x: x, [0.3], (0.0, 1.0), steps=3).tolist() == [0.375]
    draws = inverse_transform_sample(20_000, Noise(0, "x"), (0.0, 40.0), cdf=stats.expon.cdf)
    assert stats.kstest(draws, stats.expon.cdf).pvalue > 1e-5
    with pytest.raises(UserValueError, match="finite ends"):
        invert_cdf(stats.norm.cdf, [0.5], (-math.inf, 0.0))


@pytest.mark.spec("GEN-082")
def test_inversion_of_a_density():
    draws = inverse_transform_sample(20_000, Noise(1, "x"), (-9.0, 9.0), pdf=lambda x: 3 * np.exp(-0.5 * x**2))
    assert stats.kstest(draws, stats.norm.cdf).pvalue > 1e-5
    coarse = inverse_transform_sample(20_000, Noise(1, "x"), (0.0, 1.0), pdf=lambda x: x, n_grid=2)
    assert stats.kstest(coarse, lambda x: x**2).pvalue > 1e-5  # linear densities are exact on any grid
    gap = inverse_transform_sample(5_000, Noise(2, "x"), (0.0, 3.0), pdf=lambda x: (abs(x - 1.5) > 0.5) * 1.0)
    assert not ((gap > 1.001) & (gap < 1.999)).any()
    for wrong in (lambda x: -x, lambda x: 0 * x):
        with pytest.raises(
            UserValueError, match="pdf must be finite and at least 0, and positive somewhere on the support"
        ):
            inverse_transform_sample(5, Noise(0, "x"), (0.0, 1.0), pdf=wrong)
    with pytest.raises(UserValueError, match="exactly one of cdf, pdf and pmf must be given"):
        inverse_transform_sample(5, Noise(0, "x"), (0.0, 1.0))


MASSES = np.array([0.0, 0.2, 0.0, 0.05, 0.45, 0.0, 0.3, 0.0])
EDGES = np.array([0.0, 1e-300, 0.1, 0.2, 0.2 + 1e-12, 0.25 - 1e-12, 0.3, 0.6999, 0.7001, 1 - 2.0**-53, 1.0])
PLACES = [1, 1, 1, 3, 3, 3, 4, 4, 6, 6, 6]
"""Where each of EDGES falls: the first place whose running sum exceeds it, never one of mass 0."""


def drawn_by(u):
    """What each discrete table draws at given uniform numbers, as places among MASSES."""
    noise = Scripted(uniform=u)
    values = 10.0 - np.arange(8.0)  # in falling order
    joint = Table(MASSES.reshape(2, 2, 2)).sample(len(u), noise)
    many = Categorical.of(np.stack([MASSES, MASSES[::-1]])).sample(Scripted(uniform=np.stack([u, u], 1)), 0, (len(u),))
    assert ((many[:, 1] >= 1) & (many[:, 1] <= 6)).all() and (MASSES[::-1][many[:, 1]] > 0).all()
    return {
        "pmf": 10 - inverse_transform_sample(len(u), noise, values, pmf=3 * MASSES),
        "pmf, callable": inverse_transform_sample(len(u), noise, range(8), pmf=lambda x: MASSES[x.astype(int)]),
        "table": joint @ [4, 2, 1],
        "categories": Categorical.of(MASSES).sample(noise, 0, (len(u),)),
        "batch": many[:, 0],
        "tensor": Categorical(torch.from_numpy(MASSES).log()).sample(noise, 0, (len(u),)).numpy(),
        "bisection": np.ceil(
            invert_cdf(lambda x: MASSES.cumsum()[np.clip(x, 0, 7).astype(int)], u[2:-2], (0, 8)) - 1e-9
        ),
    }


@pytest.mark.spec("GEN-082")
def test_discrete_tables_are_inverted():
    """By hand at the steps, at 0 and at 1; then frequencies of 20,000 draws of each."""
    for name, places in drawn_by(EDGES).items():
        if name != "bisection":
            assert places.tolist() == PLACES, name
    inner = np.array([0.01, 0.19, 0.21, 0.24, 0.26, 0.69, 0.71, 0.99])
    found = drawn_by(np.pad(inner, 2, mode="edge"))
    assert found["bisection"].tolist() == found["pmf"][2:-2].tolist() == [1, 1, 3, 3, 4, 4, 6, 6]
    n = 20_000
    draws = {
        "pmf": inverse_transform_sample(n, Noise(3, "x"), np.arange(8), pmf=MASSES),
        "table": Table(MASSES.reshape(2, 4)).sample(n, Noise(3, "x")) @ [4, 1],
        "categories": Categorical.of(MASSES).sample(Noise(3, "x"), 0, (n,)),
    }
    there = MASSES > 0
    for name, each in draws.items():
        counts = np.bincount(each.astype(int), minlength=8)
        assert not counts[~there].any(), name
        assert stats.chisquare(counts[there], n * MASSES[there]).pvalue > 1e-5, name


@pytest.mark.spec("GEN-082")
@pytest.mark.parametrize(
    ("support", "pmf", "words"),
    [
        ([1.0, 2.0], [0.5, -0.5], "pmf must be finite and at least 0, and positive somewhere"),
        ([1.0, 2.0], [0.0, 0.0], "positive somewhere"),
        ([1.0, 2.0], [0.5, math.inf], "finite"),
        ([1.0, 2.0], [0.5], r"shape \(2,\)"),
        ([], [], "finite values that have a mass"),
        ([1.0, math.nan], [0.5, 0.5], "finite values that have a mass"),
    ],
)
def test_what_is_no_mass(support, pmf, words):
    with pytest.raises(UserValueError, match=words):
        inverse_transform_sample(5, Noise(0, "x"), support, pmf=pmf)


@pytest.mark.spec("GEN-082")
def test_mass_beyond_the_support_goes_to_its_ends():
    u = np.array([0.0, 0.1, 0.1586, 0.5, 0.8414, 0.9, 1.0])
    found = invert_cdf(stats.norm.cdf, u, (-1.0, 1.0))
    assert found == pytest.approx(np.clip(stats.norm.ppf(u), -1, 1), abs=1e-12)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (-np.inf, 0.5), (1.0, np.inf)])
def test_a_truncated_distribution(low, high):
    distribution, peer = (
        Truncated(Normal(0.3, 1.2), low, high),
        stats.truncnorm((low - 0.3) / 1.2, (high - 0.3) / 1.2, 0.3, 1.2),
    )
    x = np.linspace(-2, 3, 21)
    assert np.allclose(distribution.log_prob(x), peer.logpdf(x), rtol=1e-10)
    assert np.allclose(distribution.cdf(x), peer.cdf(x), rtol=1e-10, atol=1e-14)
    u = np.linspace(0.01, 0.99, 9)
    assert np.allclose(distribution.icdf(u), peer.ppf(u), rtol=1e-8)
    assert stats.kstest(distribution.sample(Noise(0, "draws"), 0, (5000,)), peer.cdf).pvalue > 1e-5


def test_a_truncated_student_has_no_closed_form_elsewhere():
    distribution, peer = Truncated(StudentT(3.0, 0.0, 1.0), -1.0, 4.0), stats.t(3)
    mass = peer.cdf(4) - peer.cdf(-1)
    assert np.allclose(distribution.log_prob([0.0, 3.0]), peer.logpdf([0.0, 3.0]) - np.log(mass))
    assert np.isnan(distribution.log_prob(np.nan)) and distribution.log_prob(5.0) == -np.inf
    with pytest.raises(UserValueError, match=r"low must be below high, got 1\.0 and 1\.0 \(low, high\)"):
        Truncated(Normal(0.0, 1.0), 1.0, 1.0)
    with pytest.raises(UserValueError, match="mass"):
        Truncated(Normal(0.0, 1.0), 9.0, 10.0)
