"""Maximum likelihood by fresh chains: its mean by powers of the enumerated kernel, and where it ends."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import gnomon
from gnomon.distributions.units import BernoulliUnits, GaussianUnits, IsingUnits
from gnomon.numeric.noise import Noise, recording
from gnomon.objectives.contrastive import Exact
from gnomon.objectives.fresh_chains import MCMC
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import Joint, all_states, marginal_kernel, rbm_energy
from oracles.layered import assert_same, machine_of
from oracles.principles import begun, bits, loss_of, mean_gradient

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))
DATA = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
NAMES = ("weight", "visible_bias", "hidden_bias")


def start_law(start):
    """Of the visible states: all alike, or independent columns with the means of the data."""
    p = DATA.mean(0) if start == "means" else np.full(3, 0.5)
    return np.prod(np.where(all_states(3) == 1, p, 1 - p), axis=1)


def expected(k, start):
    """The mean gradient of the loss, from the enumerated kernel's k-th power on the start."""
    W, _, c = TINY
    states = all_states(3)
    kernel = marginal_kernel(Joint(rbm_energy(*TINY), (3, 2)), 0)
    law = np.linalg.matrix_power(kernel, k) @ start_law(start)
    hidden = lambda V: 1 / (1 + np.exp(-(V @ W + c)))  # noqa: E731
    return {
        "weight": states.T @ (law[:, None] * hidden(states)) - DATA.T @ hidden(DATA) / len(DATA),
        "visible_bias": law @ states - DATA.mean(0),
        "hidden_bias": law @ hidden(states) - hidden(DATA).mean(0),
    }


@pytest.mark.spec("INF-32")
@pytest.mark.parametrize("start", ["noise", "means"])
@pytest.mark.parametrize("k", [1, 3])
def test_the_mean_gradient_is_that_of_the_enumerated_kernel(k, start):
    """Statistics in [0, 1], n chains: within 4.5 / (2 sqrt(n)); false alarm below 1e-4."""
    n, model = 80_000, RBMModel.of(*TINY)
    objective = begun(MCMC(k=k, n_chains=n, start=start), model, DATA)
    with recording():
        found = mean_gradient(objective, model, DATA)
    assert_same(found, expected(k, start), 4.5 / (2 * np.sqrt(n)))


@pytest.mark.spec("INF-32")
def test_the_bias_falls_with_the_second_eigenvalue_of_the_kernel():
    second = np.sort(np.abs(np.linalg.eigvals(marginal_kernel(Joint(rbm_energy(*TINY), (3, 2)), 0))))[-2]
    exact = mean_gradient(Exact().build(), RBMModel.of(*TINY), DATA)
    gaps = [np.abs(expected(k, "noise")["weight"] - exact["weight"]).max() for k in range(1, 12)]
    assert gaps[0] > 1e-3 and gaps[-1] < 1e-5
    assert gaps[-1] / gaps[-2] == pytest.approx(second, rel=1e-2)


@pytest.mark.spec("INF-32")
def test_a_tiny_machine_reaches_the_likelihood_of_exact_training():
    """Held-out rows of an enumerated law; 0.01 nat is what the row allows."""
    random = np.random.default_rng(0)
    rows = all_states(3)[random.choice(8, 2000, p=Joint(rbm_energy(*TINY), (3, 2)).marginal(0))]
    options = {"n_hidden": 2, "epochs": 120, "batch_size": 250, "learning_rate": 0.3, "dtype": "float64"}
    fits = [
        gnomon.RBM(objective=objective, random_state=0, **options).fit(rows[:1000])
        for objective in (Exact(), MCMC(k=20, n_chains=1000))
    ]
    scores = [fit.score(rows[1000:]) for fit in fits]
    assert scores[0] > -2.0  # it has learned: independent fair columns have -2.08
    assert abs(scores[0] - scores[1]) < 0.01


@pytest.mark.spec("INF-32")
def test_chains_of_machines_of_any_kind_end_near_the_exact_gradient():
    """Normal data above spins above bits: statistics have second moments below 4."""
    units = {"visible": GaussianUnits(2), "middle": IsingUnits(2), "top": BernoulliUnits(2)}
    machine = LayeredMachine(units, [("visible", "middle"), ("middle", "top")], dtype=torch.float64)
    machine.initialize(Noise(0, "initial"), scale=0.3)
    n = 20_000
    X = np.repeat([[0.5, -1.0], [1.0, 0.2]], n // 2, axis=0)
    exact = mean_gradient(Exact().build(), machine, X[[0, -1]])
    for start in ("noise", "means"):
        found = mean_gradient(begun(MCMC(k=20, start=start), machine, X), machine, X)
        assert_same(found, exact, 2 * 4.5 * 2 / np.sqrt(n))


@pytest.mark.parametrize("start", ["noise", "means"])
@pytest.mark.parametrize("shape", ["three", "graph"])
def test_no_number_is_drawn_twice_and_none_again_at_the_next_update(shape, start):
    machine = machine_of(shape)
    X = bits(3, machine.sizes[machine.observed])
    objective = begun(MCMC(k=3, start=start), machine, X)
    with recording():
        losses = [loss_of(objective, machine, X, update) for update in range(2)]
    assert any((losses[0].gradients[name] != losses[1].gradients[name]).any() for name in losses[0].gradients)


@pytest.mark.spec("INF-32")
@pytest.mark.parametrize("start", ["noise", "means"])
def test_every_system_learns_with_it(start):
    X, y = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0), np.repeat([0, 1], 20)
    objective = MCMC(k=10, start=start)
    options = {"n_hidden": 3, "objective": objective, "epochs": 60, "batch_size": 4, "random_state": 0}
    rbm = gnomon.RBM(**options, learning_rate=0.1).fit(X)
    assert rbm.score(X) > -2  # independent columns: -2.77
    noisy = X + 0.3 * np.random.default_rng(0).normal(size=X.shape)
    real = gnomon.GaussianRBM(**options, learning_rate=0.02).fit(noisy)
    assert real.score(noisy) > norm.logpdf(noisy, noisy.mean(0), noisy.std(0)).sum(1).mean() + 0.5
    options |= {"visible": "bernoulli", "discriminative": 0.0, "generative": 1.0, "optimizer": "sgd"}
    joint = gnomon.LabelRBM(**options, learning_rate=0.1).fit(X, y)
    assert joint.log_prob(X, y).mean() > -2.5  # independent columns and classes: -3.47
