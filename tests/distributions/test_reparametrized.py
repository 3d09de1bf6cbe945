"""Draws as functions of their parameters: base noise, the map, and its derivatives.

Random tests have fixed seeds and leave 5 standard errors (a right estimate fails at another seed with probability
6e-7), Kolmogorov and Smirnov's test 1e-5.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, special, stats

from gnomon.distributions import bounded, counts, positive, real, vectors
from gnomon.distributions.implicit import log_gamma_slope
from gnomon.distributions.latents import DiagonalGaussian
from gnomon.errors import UserError, UserTypeError
from gnomon.numeric.noise import Noise

F64 = torch.float64
NOISE = Noise(0, "draws")
COVARIANCE = [[2.0, 0.6], [0.6, 0.5]]
ENDS = torch.tensor([2.0**-53, 1e-6, 0.5, 1 - 1e-6, 1 - 2.0**-53], dtype=F64)
"""The least and the greatest number that the noise can be, and some between."""


def leaf(value):
    return torch.tensor(value, dtype=F64, requires_grad=True)


def slopes(law, e):
    """Outcomes of base noise, and the derivative of each by each parameter of the law."""
    own = type(law)(*(leaf(np.full(len(e), float(getattr(law, name)))) for name in law.parameters))
    y = own.transform(e)
    found = torch.autograd.grad(y.sum(), [getattr(own, name) for name in law.parameters], allow_unused=True)
    return y.detach(), dict(zip(law.parameters, found, strict=True))


def by_torch(draw):
    """What torch draws from seed 0; its global generator is left as found."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return draw()


@pytest.mark.spec("BAY-70")
def test_the_table_of_maps():
    """Base noise that knows no parameter, and the map of each row of the table."""
    e = real.Normal(0, 1).base_noise(NOISE, 0, (6,))
    assert torch.equal(e, real.Normal(5.0, 7.0).base_noise(NOISE, 0, (6,)))
    assert torch.allclose(real.Normal(1.5, 2.0).transform(e), 1.5 + 2.0 * e)
    u = positive.Exponential(1.0).base_noise(NOISE, 0, (6,))
    assert torch.equal(u, positive.Exponential(9.0).base_noise(NOISE, 0, (6,))) and ((u > 0) & (u < 1)).all()
    assert torch.allclose(positive.Exponential(2.0).transform(u), -torch.log(1 - u) / 2.0)
    standard = positive.Gamma(1.0, 1.0).transform(u)
    assert torch.allclose(standard, -torch.log(1 - u), rtol=1e-9)
    assert torch.allclose(positive.Gamma(1.0, 1 / 3.0).transform(u), 3.0 * standard)  # rate 1 / 3: scale 3
    law = vectors.MultivariateNormal([1.0, -2.0], COVARIANCE)
    z = law.base_noise(NOISE, 0, (6,))
    A = law.transform(torch.eye(2, dtype=F64)) - torch.tensor([1.0, -2.0])
    assert torch.allclose(A.T @ A, torch.tensor(COVARIANCE, dtype=F64))
    assert torch.allclose(law.transform(z), torch.tensor([1.0, -2.0], dtype=F64) + z @ A)
    for one in (real.Normal(1.0, 2.0), positive.Exponential(2.0), positive.Gamma(2.5, 2.0), law):
        assert np.allclose(one.rsample(NOISE, 3, (9,)), one.sample(NOISE, 3, (9,)), rtol=1e-12)


@pytest.mark.spec("BAY-70")
@pytest.mark.parametrize(
    ("law", "peer"),
    [
        (real.Normal(1.5, 2.0), stats.norm(1.5, 2.0)),
        (positive.Exponential(2.0), stats.expon(scale=0.5)),
        (positive.Gamma(1.0, 0.25), stats.gamma(1, scale=4.0)),
        (positive.Gamma(0.3, 2.0), stats.gamma(0.3, scale=0.5)),
    ],
    ids=lambda value: "" if hasattr(value, "dist") else str(value),
)
def test_moments_and_law_of_the_draws(law, peer):
    y = law.rsample(NOISE, 0, (40_000,)).numpy()
    assert stats.kstest(y, peer.cdf).pvalue > 1e-5
    assert abs(y.mean() - peer.mean()) < 5 * peer.std() / 200
    fourth = float(peer.stats("k")) + 3
    assert abs(y.var() - peer.var()) < 5 * peer.var() * math.sqrt(fourth - 1) / 200
    assert isinstance(law, real.Normal) or law.transform(ENDS).isfinite().all()


@pytest.mark.spec("BAY-70", "GEN-067")
def test_vectors_have_the_covariance_whose_factor_is_used():
    loc, covariance = leaf([1.0, -2.0]), leaf(COVARIANCE)
    law = vectors.MultivariateNormal(loc, covariance)
    y = law.rsample(NOISE, 0, (40_000,))
    found = y.detach().numpy()
    assert stats.kstest(found @ [1.0, 1.0], stats.norm(-1.0, math.sqrt(3.7)).cdf).pvalue > 1e-5
    for i, j in ((0, 0), (0, 1), (1, 1)):
        c = np.array(COVARIANCE)
        error = math.sqrt((c[i, i] * c[j, j] + c[i, j] ** 2) / 40_000)
        assert abs(np.cov(found.T)[i, j] - c[i, j]) < 5 * error
    # E[y' B y] = tr(B C) + m' B m
    B = torch.tensor([[1.0, 0.3], [0.3, 2.0]], dtype=F64)
    by_loc, by_covariance = torch.autograd.grad(torch.einsum("ni,ij,nj->n", y, B, y).mean(), [loc, covariance])
    assert torch.allclose(by_loc, 2 * B @ loc.detach(), atol=0.1)
    assert torch.allclose((by_covariance + by_covariance.T) / 2, B, atol=0.1)
    peer = torch.distributions.MultivariateNormal(loc, covariance)
    theirs = by_torch(lambda: peer.rsample((5,)))
    ours = law.transform(((theirs - loc) @ torch.linalg.inv(peer.scale_tril).T).detach())
    assert torch.allclose(ours, theirs)
    for mine, its in zip(
        *(torch.autograd.grad((one**2).sum(), [loc, covariance]) for one in (ours, theirs)), strict=True
    ):
        assert torch.allclose(mine, its)
    for singular in ([[1.0, 1.0], [1.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]):
        with pytest.raises(UserError, match="positive definite"):
            vectors.MultivariateNormal([0.0, 0.0], singular)


@pytest.mark.spec("BAY-70", "GEN-067", "GEN-068")
@pytest.mark.parametrize(
    ("law", "peer", "rtol"),
    [
        (real.Normal(1.5, 2.0), torch.distributions.Normal, 1e-12),
        (positive.Exponential(2.0), torch.distributions.Exponential, 1e-9),
        (positive.Gamma(0.3, 2.0), torch.distributions.Gamma, 2e-3),  # torch's slopes are approximate
        (positive.Gamma(4.0, 0.5), torch.distributions.Gamma, 2e-3),
        (positive.Gamma(150.0, 3.0), torch.distributions.Gamma, 2e-3),
        (bounded.Beta(0.7, 2.0), torch.distributions.Beta, 2e-3),
        (bounded.Beta(30.0, 12.0), torch.distributions.Beta, 2e-3),
        (real.Laplace(1.0, 2.0), torch.distributions.Laplace, 1e-9),
        (real.Cauchy(1.0, 2.0), torch.distributions.Cauchy, 1e-7),
        (positive.LogNormal(0.2, 0.6), torch.distributions.LogNormal, 1e-9),
        (bounded.Uniform(-1.0, 3.0), torch.distributions.Uniform, 1e-9),
    ],
    ids=str,
)
def test_parity_with_torch_at_its_own_draws(law, peer, rtol):
    """Torch's draws of one seed, the noise that makes them here, and both derivatives of every draw."""
    given = [leaf(np.full(200, float(getattr(law, name)))) for name in law.parameters]
    theirs = by_torch(lambda: peer(*given).rsample())
    plain = theirs.detach().numpy()
    is_normal = isinstance(law, real.Normal)
    e = (plain - law.loc) / law.scale if is_normal else np.asarray(law.cdf(plain))
    ours, found = slopes(law, torch.from_numpy(np.asarray(e, np.float64)))
    assert np.allclose(ours, plain, rtol=1e-6)
    for name, slope in zip(law.parameters, torch.autograd.grad(theirs.sum(), given), strict=True):
        assert np.allclose(found[name], slope, rtol=rtol, atol=rtol * float(slope.abs().mean())), name


@pytest.mark.spec("GEN-068", "BAY-70")
@pytest.mark.parametrize(
    "law",
    [
        positive.Gamma(0.02, 1.0), positive.Gamma(3.0, 0.7), positive.Gamma(1e6, 1.0), positive.InverseGamma(3.0, 2.0),
        bounded.Beta(0.3, 0.4), bounded.Beta(2e4, 3e4), real.StudentT(0.7), real.StudentT(40.0, 1.0, 2.0),
        bounded.TruncatedNormal(0.3, 1.2, -1.0, 2.0), bounded.TruncatedNormal(0.0, 1.0, 5.0, 9.0),
        bounded.VonMises(0.3, 4.0),
    ],
    ids=str,
)  # fmt: skip
def test_implicit_slopes_are_differences_of_the_inverse_cdf(law):
    u = torch.tensor([1e-9, 1e-4, 0.01, 0.2, 0.45, 0.77, 0.99, 0.9999, 1 - 1e-9], dtype=F64)
    u = u[2:7] if isinstance(law, bounded.VonMises) else u  # scipy's mass of its tails has few digits
    y, found = slopes(law, u)
    assert np.allclose(y, law.icdf(u.numpy()), rtol=1e-12)
    assert all(slope.isfinite().all() for slope in slopes(law, ENDS)[1].values())
    for name in law.parameters:
        now = float(getattr(law, name))
        h = 1e-5 * (abs(now) or 1.0)
        moved = [
            type(law)(*(float(getattr(law, n)) + (step if n == name else 0.0) for n in law.parameters)).icdf(u.numpy())
            for step in (h, -h)
        ]
        numeric = (moved[0] - moved[1]) / (2 * h)
        rounding = 1e-14 * np.abs(y.numpy()) / h
        assert np.allclose(found[name], numeric, rtol=1e-5, atol=1e-9 + rounding.max()), name


@pytest.mark.spec("GEN-068")
def test_the_slope_of_an_angle_is_the_integral_over_the_circle():
    """At concentrations where scipy's distribution function is an approximation, by quadrature."""

    def integral(term, end):
        edges = [-math.pi, *(edge for edge in (-0.9, -0.3, -0.1, -0.03, 0.0) if edge < end), end]
        return math.fsum(integrate.quad(term, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(edges))

    for k in (1e-3, 40.0, 900.0):
        density = stats.vonmises(k).pdf
        mean = integral(lambda t, p=density: math.cos(t) * p(t), 0.0) * 2
        y, found = slopes(bounded.VonMises(0.0, k), torch.tensor([0.03, 0.4, 0.93], dtype=F64))
        for angle, slope in zip(y.tolist(), found["concentration"].tolist(), strict=True):
            mass = integral(lambda t, p=density, m=mean: (math.cos(t) - m) * p(t), angle)
            assert slope == pytest.approx(-mass / density(angle), rel=1e-6)


@pytest.mark.spec("GEN-068")
@pytest.mark.parametrize(("a", "x"), [(0.4, 0.01), (0.4, 0.5), (3.0, 2.0), (3.0, 8.0), (30.0, 25.0), (30.0, 45.0)])
def test_the_slope_of_a_gamma_number_is_an_integral_to_ten_digits(a, x):
    """dP(x; a)/da is the integral over log t of t^a e^-t (log t - psi(a)) / Gamma(a) up to log x."""

    def mass(s):
        return math.exp(a * s - math.exp(s) - special.gammaln(a)) * (s - special.digamma(a))

    edges = [-45 / min(a, 1.0), -10.0, -3.0, 0.0, 2.0, 3.0, math.log(x)]
    total = math.fsum(
        integrate.quad(mass, low, min(high, math.log(x)), epsabs=1e-14)[0]
        for low, high in itertools.pairwise(edges) if low < math.log(x)
    )  # fmt: skip
    density = math.exp(a * math.log(x) - x - special.gammaln(a))
    assert float(log_gamma_slope(np.array(a), np.log(x))) == pytest.approx(-total / density, rel=1e-10)


@pytest.mark.spec("GEN-068")
def test_the_slope_of_a_gamma_number_below_the_least_double():
    """There P is x^a / Gamma(a + 1), so at held mass u log x = (log u + log Gamma(a + 1)) / a."""
    for a, log_u in ((0.01, -4.0), (0.02, -9.0)):

        def log_x(a, log_u=log_u):
            return (log_u + math.lgamma(a + 1)) / a

        difference = (log_x(a + 1e-7) - log_x(a - 1e-7)) / 2e-7
        assert log_x(a) < -300
        assert float(log_gamma_slope(np.array(a), np.array(log_x(a)))) == pytest.approx(difference, rel=1e-7)


@pytest.mark.spec("GEN-068")
def test_dirichlet_vectors_have_torchs_gradient_in_mean():
    """A vector has several right derivatives; their mean over draws is that of the expectation, in closed form."""
    a, cost = torch.tensor([0.4, 1.5, 3.0], dtype=F64), torch.tensor([1.0, -2.0, 0.5], dtype=F64)
    n = 20_000

    def mean_slope(draw):
        own = leaf(np.tile(a.numpy(), (n, 1)))
        (found,) = torch.autograd.grad((((draw(own) * cost).sum(1)) ** 2).sum(), own)
        return found.mean(0), found.std(0) / math.sqrt(n)

    ours = mean_slope(lambda own: vectors.Dirichlet(own).rsample(NOISE))
    theirs = mean_slope(lambda own: by_torch(lambda: torch.distributions.Dirichlet(own).rsample()))
    given = leaf(a.numpy())
    total, mean = given.sum(), (given * cost).sum() / given.sum()
    square = ((given * cost**2).sum() / total - mean**2) / (total + 1) + mean**2  # E[(c' p)^2]
    (exact,) = torch.autograd.grad(square, given)
    assert ((ours[0] - exact).abs() < 5 * ours[1]).all() and ((theirs[0] - exact).abs() < 5 * theirs[1]).all()
    assert (exact.abs() > 10 * ours[1]).any()
    law = vectors.Dirichlet(a)
    assert np.allclose(law.rsample(NOISE, 2, (7,)), vectors.Dirichlet(a.numpy()).sample(NOISE, 2, (7,)), rtol=1e-12)
    # and the derivative of the very draws, by differences
    u = law.base_noise(NOISE, 0, (4,))
    own = leaf(a.numpy())
    (slope,) = torch.autograd.grad((vectors.Dirichlet(own).transform(u) @ cost).sum(), own)
    for i in range(3):
        ends = [
            (vectors.Dirichlet(a + h * torch.eye(3, dtype=F64)[i]).transform(u) @ cost).sum().item()
            for h in (1e-6, -1e-6)
        ]
        assert float(slope[i]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)


@pytest.mark.spec("GEN-067")
def test_a_gaussian_of_two_networks():
    """m = f(x), s = g(x): E[y^2] has the slopes 2 m and 2 s; at held noise the weights' gradient is a difference."""
    m, s = leaf(np.full(100_000, -0.7)), leaf(np.full(100_000, 3.0))
    y = real.Normal(m, s).rsample(NOISE)
    for parameter, exact in ((m, -1.4), (s, 6.0)):
        (found,) = torch.autograd.grad((y**2).sum(), parameter, retain_graph=True)
        assert abs(float(found.mean()) - exact) < 5 * float(found.std()) / math.sqrt(100_000)
    assert abs(float(y.detach().std()) - 3.0) < 5 * 3.0 / math.sqrt(200_000)  # s, neither its square nor its root
    for wrong in (0.0, -1.0):
        with pytest.raises(UserError, match="scale must be positive"):
            real.Normal(0.0, wrong)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(5, 3)))
    weights = [leaf(np.random.default_rng(k).normal(size=(3,))) for k in (1, 2)]

    def cost():
        law = real.Normal(x @ weights[0], torch.nn.functional.softplus(x @ weights[1]))
        return (law.rsample(NOISE).sin() ** 2).sum()

    def plain():
        with torch.no_grad():
            return cost().item()

    for weight in weights:
        (slope,) = torch.autograd.grad(cost(), weight)
        ends = []
        for h in (1e-6, -2e-6):
            with torch.no_grad():
                weight[1] += h
            ends.append(plain())
        with torch.no_grad():
            weight[1] += 1e-6
        assert float(slope[1]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    # the codes of a variational autoencoder are drawn by the same map, from log variances
    mean, log_variance = (torch.from_numpy(np.random.default_rng(k).normal(size=(4, 3))) for k in (3, 4))
    assert torch.allclose(
        DiagonalGaussian(mean, log_variance).rsample(NOISE), real.Normal(mean, (log_variance / 2).exp()).rsample(NOISE)
    )


@pytest.mark.spec("GEN-068", "BAY-71")
@pytest.mark.parametrize(
    "law", [counts.Poisson(3.0), counts.Binomial(5, 0.3), counts.Geometric(0.4), counts.NegativeBinomial(2.0, 0.3)],
    ids=str,
)  # fmt: skip
def test_discrete_draws_have_no_path(law):
    with pytest.raises(UserTypeError, match=r"no gradient.*score_gradient"):
        law.rsample(NOISE)
