"""Mixture density heads: torch's mixtures, the scaled gradient of the means, far rows, first components."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Categorical, MixtureSameFamily, Normal

from gnomon.distributions.mixed_normals import MixedNormals
from gnomon.errors import UserValueError
from gnomon.nn.mixture_density import MDNHead, MixtureLikelihood
from gnomon.numeric.noise import Noise

F64, K, D, N = torch.float64, 3, 4, 6


def numbers(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def head_and_rows(**options):
    head = MDNHead(K, D, dtype=F64, **options)
    head.offset.copy_(numbers(2, 3, K, D))
    return head, numbers(0, N, 3 * K * D).requires_grad_(), 2 * numbers(1, N, D)


def by_torch(head, raw):
    """The mixtures as torch has them; raw is (n, 3, k, d)."""
    weights, mean, log_variance = (raw.reshape(N, 3, K, D) + head.offset).transpose(2, 3).unbind(1)
    deviation = (log_variance.exp() + head.floor**2).sqrt()
    return MixtureSameFamily(Categorical(logits=weights), Normal(mean, deviation))


@pytest.mark.spec("GEN-118")
@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_densities_gradients_and_moments_are_those_of_torch(floor):
    head, raw, x = head_and_rows(floor=floor)
    theirs = by_torch(head, raw)
    torch.testing.assert_close(head.log_probs(raw, x), theirs.log_prob(x))
    torch.testing.assert_close(head.log_prob(raw, x), theirs.log_prob(x).sum(1))
    torch.testing.assert_close(head.mean(raw), theirs.mean)
    torch.testing.assert_close(head.distribution(raw).variance, theirs.variance)
    mine, other = (torch.autograd.grad(f.sum(), raw)[0] for f in (head.log_prob(raw, x), theirs.log_prob(x)))
    torch.testing.assert_close(mine, other)
    assert torch.autograd.gradcheck(lambda r: head.log_prob(r, x), raw)


@pytest.mark.spec("GEN-117", "GEN-118")
def test_the_worked_density():
    head = MDNHead(2, floor=0.0, dtype=F64)
    raw = torch.tensor([[math.log(0.3), math.log(0.7), -1.0, 1.0, 2 * math.log(0.5), 0.0]], dtype=F64)
    assert head.log_prob(raw, torch.tensor([[0.5]], dtype=F64)).item() == pytest.approx(-1.389881, abs=5e-7)


@pytest.mark.spec("GEN-118")
def test_some_columns_are_columns_of_all():
    head, raw, x = head_and_rows()
    some = raw.reshape(N, 3 * K, D)[:, :, 1:3].flatten(1)
    torch.testing.assert_close(head.log_probs(some, x[:, 1:3], slice(1, 3)), head.log_probs(raw, x)[:, 1:3])


@pytest.mark.spec("GEN-118")
def test_nothing_underflows_far_from_all_components():
    head = MDNHead(K, D)
    raw, far = torch.zeros(1, 3 * K * D, requires_grad=True), torch.full((1, D), 1e6)
    found = head.log_prob(raw, far)
    (slope,) = torch.autograd.grad(found.sum(), raw)
    assert found.isfinite().all() and slope.isfinite().all()
    assert found.item() == pytest.approx(-0.5 * D * 1e12, rel=1e-3)
    wild = torch.full((1, 3 * K * D), 1e4)
    assert head.log_prob(wild, torch.zeros(1, D)).isfinite().all()
    assert (head.distribution(-wild).variances >= 0.01**2 * 0.999).all()


@pytest.mark.spec("GEN-118")
def test_draws_follow_the_mixture():
    """Kolmogorov and Smirnov on 4,000 draws; a false alarm in a thousand for each of three columns."""
    head, raw, _ = head_and_rows(floor=0.0)
    one = raw[:1].detach().expand(4_000, -1)
    drawn, parts = head.sample(one, Noise(0, "draw")).numpy(), by_torch(head, raw.detach())
    weights = parts.mixture_distribution.probs[0].numpy()
    mean, deviation = (v[0].numpy() for v in (parts.component_distribution.loc, parts.component_distribution.scale))
    for j in range(3):

        def cumulated(x, j=j):
            return (weights[j] * stats.norm.cdf(x[:, None], mean[j], deviation[j])).sum(1)

        assert stats.kstest(drawn[:, j], cumulated).pvalue > 1e-3


@pytest.mark.spec("GEN-118")
@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_first_components_stand_apart_and_have_the_columns_moments(k):
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(500, D))
    weight = np.random.default_rng(1).random(500)
    head = MDNHead(k, D, floor=0.0, dtype=F64)
    head.begin(rows, weight)
    start = torch.zeros(1, 3 * k * D, dtype=F64)
    mean = np.average(rows, axis=0, weights=weight)
    np.testing.assert_allclose(head.mean(start)[0], mean, rtol=1e-12)
    variance = np.average((rows - mean) ** 2, axis=0, weights=weight)
    np.testing.assert_allclose(head.distribution(start).variance[0], variance, rtol=1e-9 if k < 20 else 0.1)
    places = head.distribution(start).means[0, 0].numpy()
    assert k == 1 or np.diff(places).min() > 0.1 * variance[0] ** 0.5


@pytest.mark.spec("GEN-118")
def test_no_component_dies_where_the_data_have_as_many():
    """Three narrow clusters, and three components begun beside each other: each finds one."""
    random = np.random.default_rng(0)
    rows = torch.from_numpy(random.choice([-4.0, 0.0, 4.0], 300) + 0.3 * random.normal(size=300))[:, None]
    head = MDNHead(3, floor=0.01, dtype=F64)
    head.begin(rows.numpy(), np.ones(300))
    raw = torch.zeros(1, 9, dtype=F64, requires_grad=True)
    rule = torch.optim.Adam([raw], lr=0.05)
    for _ in range(300):
        rule.zero_grad()
        (-head.log_prob(raw.expand(300, -1), rows).mean()).backward()
        rule.step()
    found = head.distribution(raw.detach())
    assert found.log_weights.exp().min() > 0.25
    np.testing.assert_allclose(sorted(found.means.ravel().tolist()), [-4, 0, 4], atol=0.15)


@pytest.mark.spec("GEN-119")
def test_scaled_gradients_of_means_are_the_true_ones_times_the_deviation():
    """The density, and the gradients by weights and scales, are as they were; a deviation of 1 changes nothing."""
    plain, raw, x = head_and_rows()
    scaled, _, _ = head_and_rows(mean_gradient="scaled")
    values = [head.log_prob(raw, x) for head in (plain, scaled)]
    assert torch.equal(*values)
    true, found = (torch.autograd.grad(v.sum(), raw)[0].reshape(N, 3, K, D) for v in values)
    deviation = plain.distribution(raw).variances.sqrt().transpose(1, 2).detach()
    torch.testing.assert_close(found[:, 1], true[:, 1] * deviation, rtol=1e-14, atol=0)
    torch.testing.assert_close(found[:, [0, 2]], true[:, [0, 2]], rtol=0, atol=0)
    assert (true[:, 1] != found[:, 1]).any()
    with pytest.raises(RuntimeError, match="Jacobian"):
        torch.autograd.gradcheck(lambda r: scaled.log_prob(r, x), raw)
    one = MDNHead(1, 1, floor=0.0, mean_gradient="scaled", dtype=F64)
    unit = torch.tensor([[0.0, 0.7, 0.0]], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: one.log_prob(r, torch.ones(1, 1, dtype=F64)), unit)


@pytest.mark.spec("GEN-118")
def test_arrays_and_tensors_have_the_same_mixtures():
    head, raw, x = head_and_rows()
    tensors = head.distribution(raw.detach())
    arrays = MixedNormals(tensors.log_weights.numpy(), tensors.means.numpy(), tensors.variances.numpy())
    noise = Noise(3, "both")
    np.testing.assert_allclose(arrays.log_prob(x.numpy()), tensors.log_prob(x), rtol=1e-12)
    np.testing.assert_allclose(arrays.sample(noise), tensors.sample(noise), rtol=1e-12)
    np.testing.assert_allclose(arrays.variance, tensors.variance, rtol=1e-12)


@pytest.mark.parametrize(("options", "where"), [
    ({"k": 0}, "k"), ({"k": 2, "floor": -1.0}, "floor"), ({"k": 2, "mean_gradient": "half"}, "mean_gradient"),
])  # fmt: skip
def test_mistakes_are_told(options, where):
    with pytest.raises(UserValueError, match=where):
        MDNHead(**options)
    assert MixtureLikelihood(2).build(3, torch.float32).width == 6
