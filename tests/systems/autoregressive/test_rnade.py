"""RNADE: limits that are known densities, quadrature, the definition, draws, the floor of its widths."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from gnomon.nn.mixture_density import MDNHead, MixtureLikelihood
from gnomon.numeric.noise import Noise
from gnomon.systems.autoregressive._nade_model import NADEModel
from gnomon.systems.autoregressive.rnade import RNADE
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixture

F64 = torch.float64
TICKS = np.arange(-20, 20, 0.08) + 0.04
PLANE = np.stack(np.meshgrid(TICKS, TICKS, indexing="ij"), -1).reshape(-1, 2)


def drawn(d, k, h=4, seed=0, order=None, floor=0.2):
    """A model with random weights, of columns that are shifted and scaled."""
    random = np.random.default_rng(seed)
    model = NADEModel(d, h, MDNHead(k, d, floor=floor, dtype=F64), True, True, F64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(0.7 * random.normal(size=parameter.shape)))
        model.s += 1
        model.scale.copy_(torch.from_numpy(random.random(d) + 0.5))
        model.shift.copy_(torch.from_numpy(random.normal(size=d)))
        if order is not None:
            model.order.copy_(torch.tensor(order))
    return model


@pytest.mark.spec("GEN-117")
def test_the_worked_density():
    model = NADEModel(1, 2, MDNHead(2, floor=0.0, dtype=F64), True, True, F64)
    with torch.no_grad():
        model.b.copy_(torch.tensor([[math.log(0.3), math.log(0.7), -1.0, 1.0, 2 * math.log(0.5), 0.0]]))
    assert model.log_prob(np.array([[0.5]])).item() == pytest.approx(-1.389881, abs=5e-7)


@pytest.mark.spec("GEN-117")
def test_one_component_without_hidden_weights_is_independent_gaussians():
    model = drawn(3, 1, floor=0.0)
    with torch.no_grad():
        model.V.zero_()
    x = np.random.default_rng(1).normal(size=(20, 3))
    (mean, log_variance), scale = model.b[:, 1:].detach().numpy().T, model.scale.numpy()
    law = stats.norm(mean * scale + model.shift.numpy(), np.exp(0.5 * log_variance) * scale)
    np.testing.assert_allclose(model.log_prob(x), law.logpdf(x).sum(1), rtol=1e-12)


@pytest.mark.spec("GEN-117")
def test_first_weights_leave_the_columns_independent():
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(200, 3))
    rnade = RNADE(likelihood=MixtureLikelihood(1, floor=1e-6), epochs=1, learning_rate=1e-12, random_state=0).fit(X)
    np.testing.assert_allclose(rnade.log_prob(X), stats.norm(X.mean(0), X.std(0)).logpdf(X).sum(1), atol=1e-6)


@pytest.mark.spec("GEN-117")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_densities_integrate_to_one(order):
    model = drawn(2, 3, order=order)
    assert np.exp(model.log_prob(PLANE)).sum() * 0.08**2 == pytest.approx(1, abs=1e-4)


@pytest.mark.spec("GEN-117")
def test_densities_are_those_of_the_definition():
    """Column by column from hidden units whose fields are scaled by place, and mixtures by scipy."""
    model, x = drawn(4, 2, order=(2, 0, 3, 1)), np.random.default_rng(2).normal(size=(6, 4))
    W, c, V, b, s = (one.detach().numpy() for one in (model.W[:, 0], model.c, model.V, model.b, model.s))
    scale = model.scale.numpy()
    z, total = (x - model.shift.numpy()) / scale, np.zeros(6)
    for t, i in enumerate(model.order.tolist()):
        before = model.order[:t].tolist()
        h = 1 / (1 + np.exp(-s[i] * (c + z[:, before] @ W[before])))
        a, mean, log_variance = np.split(b[i] + h @ V[i].T, 3, axis=1)
        share = np.exp(a) / np.exp(a).sum(1, keepdims=True)
        each = stats.norm.pdf(z[:, i : i + 1], mean, np.sqrt(np.exp(log_variance) + 0.2**2))
        total += np.log((share * each).sum(1)) - np.log(scale[i])
    np.testing.assert_allclose(model.log_prob(x), total, rtol=1e-12)


@pytest.mark.spec("GEN-117")
def test_gradients_are_those_of_differences():
    model, x = drawn(3, 2, order=(1, 2, 0)), torch.from_numpy(np.random.default_rng(3).normal(size=(5, 3)))
    names, values = zip(*model.named_parameters(), strict=True)
    model.forward = model.log_prob

    def log_prob(*values):
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), x)

    assert torch.autograd.gradcheck(log_prob, values)


@pytest.mark.spec("GEN-117")
def test_draws_follow_the_density():
    """Each column of 4,000 draws against its distribution function by quadrature; a false alarm in a thousand each."""
    model = drawn(2, 3)
    rows = model.sample(4_000, Noise(0, "rows"))
    mass = np.exp(model.log_prob(PLANE)).reshape(len(TICKS), -1) * 0.08**2
    for j in range(2):
        cumulated = np.cumsum(mass.sum(1 - j))
        assert stats.kstest(rows[:, j], lambda x, c=cumulated: np.interp(x, TICKS + 0.04, c)).pvalue > 1e-3


@pytest.mark.spec("GEN-117")
def test_a_bent_density_is_found_in_the_units_of_the_columns():
    """Better than any normal one; columns in another unit change the density by the unit."""
    random = np.random.default_rng(0)
    first = random.normal(size=500)
    X = np.stack([first, first**2 + 0.3 * random.normal(size=500)], 1)
    way = {"n_hidden": 16, "epochs": 30, "learning_rate": 0.01, "random_state": 0, "likelihood": MixtureLikelihood(3)}
    rnade = RNADE(**way).fit(X[:400])
    assert rnade.score(X[400:]) > GaussianMixture(n_components=1).fit(X[:400]).score(X[400:]) + 0.5
    other = RNADE(**way).fit(100 + 10 * X[:400])
    assert other.score(100 + 10 * X[400:]) == pytest.approx(rnade.score(X[400:]) - 2 * math.log(10), abs=0.02)
    assert rnade.sample(5, random_state=0).shape == (5, 2)


@pytest.mark.spec("GEN-117", "GEN-119")
@pytest.mark.parametrize("gradient", ["plain", "scaled"])
def test_values_that_repeat_do_not_make_the_density_grow_without_bound(gradient):
    """No component is narrower than the floor, in units of the column's standard deviation."""
    X = np.random.default_rng(0).integers(0, 2, size=(100, 2)).astype(float)
    likelihood = MixtureLikelihood(2, floor=0.1, mean_gradient=gradient)
    rnade = RNADE(n_hidden=4, likelihood=likelihood, epochs=80, learning_rate=0.02, random_state=0).fit(X)
    highest = (-np.log(0.1 * X.std(0)) - 0.5 * math.log(2 * math.pi)).sum()
    assert highest - 4 < rnade.log_prob(X).max() < highest


@pytest.mark.spec("GEN-117")
def test_conditionals_are_mixtures_in_the_units_of_the_columns():
    X = np.random.default_rng(0).normal([5.0, -3.0], [2.0, 0.1], size=(60, 2))
    rnade = RNADE(n_hidden=4, epochs=2, order="random", random_state=1).fit(X)
    cells = rnade.log_conditionals(X)
    np.testing.assert_allclose(cells.sum(1), rnade.log_prob(X), rtol=1e-9)
    for column in range(2):
        np.testing.assert_allclose(rnade.conditional(column, X).log_prob(X[:, column]), cells[:, column], atol=1e-9)
