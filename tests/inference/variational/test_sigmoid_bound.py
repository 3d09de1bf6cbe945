"""The mean-field bound of sigmoid belief nets: numbers of the page, sums over all states, brute-force optimization."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from gnomon.errors import UserValueError
from gnomon.inference.variational.sigmoid_bound import best_slope, mean_field_of_sigmoids, softplus_bound
from gnomon.systems.variational.sbn import SBN
from oracles.belief import net, states_of

F64 = torch.float64


def law(values, chances):
    """E z and the log moments of a variable that takes a few values."""
    z, p = (torch.tensor(one, dtype=F64) for one in (values, chances))
    return (p * z).sum().reshape(1), lambda t: torch.logsumexp(t[..., None] * z + p.log(), -1)


@pytest.mark.spec("GEN-075")
@pytest.mark.parametrize(("values", "chances", "xi", "value", "true"), [
    ([-1.0, 0.5, 2.0], [0.3, 0.3, 0.4], 0.610878, 1.243079, 1.236973),
    ([0.0, 2.0], [0.4, 0.6], 0.716890, 1.553416, 1.553416),
])  # fmt: skip
def test_the_best_slope_and_its_bound_are_those_of_the_page(values, chances, xi, value, true):
    mean, log_moment = law(values, chances)
    found = best_slope(mean, log_moment)
    assert found.item() == pytest.approx(xi, abs=2e-6)
    assert softplus_bound(found, mean, log_moment).item() == pytest.approx(value, abs=1e-6)
    assert np.dot(chances, np.logaddexp(0, values)) == pytest.approx(true, abs=1e-6)
    grid = torch.linspace(0, 1, 2001, dtype=F64)
    every = softplus_bound(grid, mean, log_moment)
    assert every.min() >= true - 1e-6 and every.min() == pytest.approx(value, abs=1e-6)
    if len(values) == 2:
        assert xi == pytest.approx(0.5 * np.log((1 + np.exp(2)) / 2), abs=1e-6)


def by_states(model, x, mean):
    """E log(1 + e^z) of every unit in place of its bound: the bound of independent units, by all their states."""
    h = states_of(len(mean))
    q = np.prod(np.where(h > 0, mean, 1 - mean), axis=1)
    many = torch.as_tensor(np.tile(x, (len(h), 1)))
    with torch.no_grad():
        log_p = model.log_joint(many, torch.as_tensor(h)).numpy()
    return q @ (log_p - np.log(q))


@pytest.mark.spec("GEN-075")
@pytest.mark.parametrize(("sizes", "layers"), [
    ((3, 2), "factorial"), ((3, 3, 2), "factorial"), ((3, 2, 2), "autoregressive"),
])  # fmt: skip
def test_the_bound_lies_below_the_likelihood_and_below_that_of_its_own_means(sizes, layers):
    for seed in range(3):
        model = net(sizes, seed=seed, layers=layers, scale=1.5)
        x = states_of(3)
        mean, bound = model.mean_field(torch.as_tensor(x), 60)
        mean, bound = mean.numpy(), bound.numpy()
        own = np.array([by_states(model, row, m) for row, m in zip(x, mean, strict=True)])
        assert (bound <= own + 1e-9).all() and (own <= model.log_prob(x) + 1e-9).all()
        start = model.ask("latent_mean", x)
        first = mean_field_of_sigmoids(model.fields(torch.as_tensor(x)), torch.as_tensor(start), steps=0)
        assert (bound >= first.bound.detach().numpy() - 1e-9).all() and (bound > first.bound.detach().numpy()).any()


@pytest.mark.spec("GEN-075")
def test_no_other_means_and_slopes_found_by_brute_force_are_better():
    """Two hidden units: Nelder and Mead from nine starts on the bound written unit by unit."""
    model = net((3, 2), seed=21)
    W, b, c = (one.detach().numpy() for one in (model.weights[0], *model.biases))

    def minus(at, x):
        mu, xi = expit(at[:2]), expit(at[2:])
        total = sum(c[j] * mu[j] - np.logaddexp(0, c[j]) for j in range(2))
        total -= sum(m * np.log(m) + (1 - m) * np.log(1 - m) for m in mu)
        for i in range(3):
            z = b[i] + W[i] @ mu
            sides = [
                -t * b[i] + sum(np.log(1 - mu[j] + mu[j] * np.exp(-t * W[i, j])) for j in range(2))
                for t in (xi[i], xi[i] - 1)
            ]
            total += x[i] * z - xi[i] * z - np.logaddexp(*sides)
        return -total

    x = states_of(3)[[1, 6]]
    mean, bound = model.mean_field(torch.as_tensor(x), 400)
    for row, found, m in zip(x, bound, mean, strict=True):
        starts = itertools.product([-1.5, 0.0, 1.5], repeat=2)
        options = {"maxiter": 4000, "maxfev": 4000, "xatol": 1e-8, "fatol": 1e-10}
        best = min(minimize(minus, [*s, 0, 0, 0], (row,), "Nelder-Mead", options=options).fun for s in starts)
        assert found.item() == pytest.approx(-best, abs=1e-4)
        at = m.logit().numpy()
        assert -minus([*at, 0, 0, 0], row) <= found.item() + 1e-9


@pytest.mark.spec("GEN-075")
def test_the_bound_is_tight_where_units_do_not_speak_and_finite_where_they_shout():
    model = net((3, 2), seed=22)
    with torch.no_grad():
        model.weights[0].zero_()
    x = states_of(3)
    _, bound = model.mean_field(torch.as_tensor(x), 300)
    np.testing.assert_allclose(bound, model.log_prob(x), atol=2e-5)
    with torch.no_grad():
        model.weights[0].fill_(500.0)
    mean, bound = model.mean_field(torch.as_tensor(x), 20)
    assert torch.isfinite(bound).all() and torch.isfinite(mean).all()
    assert (bound.numpy() <= model.log_prob(x) + 1e-9).all()


@pytest.mark.spec("GEN-075")
def test_a_fitted_net_infers_means_with_a_bound_below_its_log_probability():
    X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 30, axis=0)
    system = SBN(hidden=(3, 2), epochs=30, learning_rate=0.03, dtype="float64", random_state=0).fit(X)
    saul, recognition = system.infer(X, method="saul"), system.infer(X)
    exact = system.log_prob(X)
    assert saul.mean.shape == recognition.mean.shape == (60, 5) and ((saul.mean > 0) & (saul.mean < 1)).all()
    assert (saul.bound <= exact + 1e-9).all() and saul.bound.mean() > exact.mean() - 1.0
    assert recognition.bound.mean() == pytest.approx(system.elbo(X).value, abs=1e-9)
    assert logsumexp(system.log_prob(states_of(4))) == pytest.approx(0, abs=1e-9)
    with pytest.raises(UserValueError, match="method"):
        system.infer(X, method="gibbs")
