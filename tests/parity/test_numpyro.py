"""Hamiltonian Monte Carlo against numpyro's on shared targets: the same moments within their Monte Carlo errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.infer as numpyro_infer
import pytest
import torch
from sklearn.datasets import load_breast_cancer

from gnomon.inference.mcmc.diagnostics import summarize
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.sampling import sample_chain

CHAINS, BURN_IN, DRAWS = 16, 200, 250
LIMIT = 4.5
"""Errors that a difference of two means may have: 7e-6 false alarms each, below 5e-4 for all 65 that are looked at."""


@dataclass
class Target:
    """One log density, written for torch on rows and for jax on a point."""

    d: int
    rows: Any
    point: Any
    steps: int
    exact: dict[str, Any]


def gaussian() -> Target:
    covariance = np.array([[1.0, 0.9, 0.0], [0.9, 1.5, -0.4], [0.0, -0.4, 0.5]])
    mean, precision = np.array([1.0, -2.0, 0.5]), np.linalg.inv(covariance)
    m, p = torch.from_numpy(mean), torch.from_numpy(precision)
    exact = {"mean": mean, "square": np.diag(covariance) + mean**2}
    return Target(
        3, lambda x: -0.5 * ((x - m) @ p * (x - m)).sum(-1),
        lambda x: -0.5 * (x - mean) @ precision @ (x - mean), 6, exact,
    )  # fmt: skip


def banana() -> Target:
    """x ~ N(0, 1), y given x ~ N(x^2 / 2, 1/4): E y = 1/2, E y^2 = 3/4 + 1/4."""
    exact = {"mean": np.array([0.0, 0.5]), "square": np.array([1.0, 1.0])}

    def rows(x):
        return -0.5 * x[:, 0] ** 2 - 2 * (x[:, 1] - 0.5 * x[:, 0] ** 2) ** 2

    return Target(2, rows, lambda x: -0.5 * x[0] ** 2 - 2 * (x[1] - 0.5 * x[0] ** 2) ** 2, 6, exact)


def logistic() -> Target:
    """Standard normal prior, the ten means of scikit-learn's breast_cancer, standardized, and a constant."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10]
    X = np.hstack([np.ones((len(X), 1)), (X - X.mean(0)) / X.std(0)])
    tX, ty = torch.from_numpy(X.T.copy()), torch.from_numpy(y.astype(float))

    def rows(w):
        field = w @ tX
        return field @ ty - torch.nn.functional.softplus(field).sum(-1) - 0.5 * (w * w).sum(-1)

    def point(w):
        field = X @ w
        return field @ y - jnp.logaddexp(0.0, field).sum() - 0.5 * w @ w

    return Target(11, rows, point, 6, {})


def peer(target: Target) -> np.ndarray:
    """Draws of numpyro, (chains, draws, d), tuned in as long a warm-up."""
    with jax.enable_x64(True):
        kernel = numpyro_infer.HMC(
            potential_fn=lambda x: -target.point(x), num_steps=target.steps, trajectory_length=None
        )
        chains = numpyro_infer.MCMC(
            kernel, num_warmup=BURN_IN, num_samples=DRAWS, num_chains=CHAINS, chain_method="vectorized",
            progress_bar=False,
        )  # fmt: skip
        start = jnp.asarray(np.random.default_rng(0).uniform(-1, 1, (CHAINS, target.d)))
        chains.run(jax.random.PRNGKey(0), init_params=start)
        return np.asarray(chains.get_samples(group_by_chain=True), dtype=np.float64)


@pytest.mark.slow
@pytest.mark.spec("GEN-041")
@pytest.mark.parametrize("make", [gaussian, banana, logistic])
def test_moments_are_those_of_numpyro(make):
    """Means of x and of x^2 per coordinate, and of the products of neighbors."""
    target = make()
    found = sample_chain(
        target.rows, HMC(steps=target.steps), chains=CHAINS, burn_in=BURN_IN, draws=DRAWS, start=target.d,
        random_state=0,
    )  # fmt: skip
    mine, theirs = moments(found.draws), moments(peer(target))
    error = np.hypot(mine["mcse"], theirs["mcse"])
    assert (np.abs(mine["mean"] - theirs["mean"]) < LIMIT * error).all()
    assert (error < 0.12 * mine["sd"]).all()  # errors so small that the comparison says something
    if target.exact:
        exact = np.concatenate([target.exact["mean"], target.exact["square"]])
        for one in (mine, theirs):
            assert (np.abs(one["mean"][: len(exact)] - exact) < LIMIT * one["mcse"][: len(exact)]).all()


def moments(x: np.ndarray) -> dict[str, np.ndarray]:
    return dict(summarize(np.concatenate([x, x**2, x[..., 1:] * x[..., :-1]], axis=-1)).columns)
