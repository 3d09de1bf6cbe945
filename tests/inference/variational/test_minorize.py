"""Minorize-maximize: tangents, the logistic bound against maximum likelihood, EM as an instance, broken bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

from gnomon.errors import UserValueError
from gnomon.inference.variational.minorize import (
    Minorizer,
    jaakkola_bound,
    jaakkola_curvature,
    logistic_minorizer,
    minorize_maximize,
)


def quartic(x):
    return x**2 - x**4


def tangent(xi, x):
    """Of x^2 at xi, less x^4."""
    return 2 * xi * x - xi**2 - x**4


def top(xi):
    return np.cbrt(xi / 2)


@pytest.mark.spec("BAY-46")
def test_tangents_of_a_square():
    line = np.linspace(-3, 3, 61)
    square = Minorizer(lambda x: x**2, lambda xi, x: 2 * xi * x - xi**2, lambda xi: xi, lambda x: x)
    check = square.check_bound(line)
    assert check and check.excess == pytest.approx(0, abs=1e-12) and check.apart == 0 and "touches" in str(check)
    for start in (0.05, 2.0, -0.3):
        found = minorize_maximize(quartic, tangent, top, lambda x: x, start)
        assert found.converged and (np.diff(found.history) >= -1e-12).all() and found.n_iter > 3
        assert found.x == pytest.approx(np.sign(start) / np.sqrt(2), abs=1e-4)
        assert found.value == pytest.approx(0.25, abs=1e-9)
    assert not minorize_maximize(quartic, tangent, top, lambda x: x, 0.01, max_iter=2).converged


@pytest.mark.spec("BAY-46")
def test_a_broken_bound_is_reported_with_the_point():
    line = np.linspace(-1, 1, 21)
    above = Minorizer(quartic, lambda xi, x: tangent(xi, x) + 0.3 * (x > 0.75), top, lambda x: x)
    check = above.check_bound(line)
    assert not check and check.excess == pytest.approx(0.3) and check.at[1] > 0.75 and "above f at xi" in str(check)
    reached = Minorizer(quartic, above.g, lambda xi: 0.79, lambda x: x)
    with pytest.raises(UserValueError, match=r"g must be at most f.* at x = 0\.79"):
        reached.maximize(0.7)
    apart = Minorizer(quartic, lambda xi, x: tangent(xi, x) - 0.1, top, lambda x: x)
    assert not apart.check_bound(line) and "does not touch: 0.1 below" in str(apart.check_bound(line))
    with pytest.raises(UserValueError, match=r"g must touch f at xi = 0\.5, got .* at x = 0\.5"):
        apart.maximize(0.5)
    with pytest.raises(UserValueError, match="f must not fall"):
        Minorizer(quartic, tangent, lambda xi: 0.1 * xi, lambda x: x).maximize(0.7)
    outside = above.check_bound(line, xis=[0.0, 0.9])  # other xi than those of the grid
    assert outside.at[0] == 0.9


@pytest.mark.spec("BAY-46")
def test_the_logistic_bound_is_one_and_touches_at_both_signs():
    a, xi = np.linspace(-12, 12, 121), np.linspace(0, 12, 61)
    exact = special.log_expit(a)
    assert (jaakkola_bound(xi[:, None], a) <= exact + 1e-12).all()
    assert jaakkola_bound(np.abs(a), a) == pytest.approx(exact, abs=1e-12)
    small = np.array([0.0, 1e-6, 9e-5, 1.1e-4, 0.01])
    exact = [0.125 if x == 0 else (special.expit(x) - 0.5) / (2 * x) for x in small]
    assert jaakkola_curvature(small) == pytest.approx(exact, rel=1e-6)


@pytest.mark.spec("BAY-46")
@pytest.mark.parametrize("precision", [0.0, 2.0])
def test_the_logistic_bound_leads_to_maximum_likelihood(precision):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(80), rng.normal(size=(80, 2))])
    y = (rng.random(80) < special.expit(x @ [0.3, 1.0, -1.5])).astype(float)
    model = logistic_minorizer(x, y, precision)
    found = model.maximize(np.zeros(3), tol=1e-14)

    def loss(w):
        return -special.log_expit((2 * y - 1) * (x @ w)).sum() + 0.5 * precision * w @ w

    other = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    assert found.converged and (np.diff(found.history) >= -1e-10).all()
    assert found.x == pytest.approx(other.x, abs=1e-4) and found.value == pytest.approx(-other.fun, abs=1e-8)
    assert model.check_bound(list(rng.normal(size=(12, 3))))
    with pytest.raises(UserValueError, match="y must be 0 or 1"):
        logistic_minorizer(x, y + 1)


@pytest.mark.spec("BAY-46")
def test_expectation_maximization_is_an_instance():
    """Two normals of unit variance and equal weights: xi are the memberships, g is the evidence lower bound."""
    x = np.concatenate([np.random.default_rng(0).normal(-1.5, 1, 60), np.random.default_rng(1).normal(1.5, 1, 40)])

    def logits(means):
        return -0.5 * (x[:, None] - means) ** 2 - 0.5 * np.log(2 * np.pi) - np.log(2)

    def log_likelihood(means):
        return special.logsumexp(logits(means), axis=1).sum()

    def bound(r, means):
        return (r * logits(means) + special.entr(r)).sum()

    def maximize(r):
        return (r * x[:, None]).sum(0) / r.sum(0)

    def expect(means):
        return special.softmax(logits(means), axis=1)

    em = Minorizer(log_likelihood, bound, maximize, expect)
    found = em.maximize(np.array([-0.1, 0.2]), tol=1e-13)
    means = np.array([-0.1, 0.2])
    for _ in range(found.n_iter):
        means = maximize(expect(means))
    assert found.x == pytest.approx(means, abs=1e-12) and found.converged
    other = optimize.minimize(lambda m: -log_likelihood(m), found.x + 0.3, method="BFGS")
    assert found.value == pytest.approx(-other.fun, abs=1e-6)
    assert em.check_bound([np.array([-1.0, 1.0]), np.array([0.0, 2.0]), means])
