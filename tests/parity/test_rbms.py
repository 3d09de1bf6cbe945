"""The restricted machine against rbms 0.5.0: energies, log Z exact and annealed, gradients, learning curves."""

import warnings

import numpy as np
import pytest
import torch

from gnomon.evaluation.partition import log_partition
from gnomon.inference.importance.ais import ais
from gnomon.numeric.noise import Noise
from gnomon.objectives.contrastive import PCD
from gnomon.systems.energy.rbm import RBMModel
from oracles.binary import all_states
from oracles.curves import agree, bars, curve, first_parameters, likelihood

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it compiles its functions by a way that torch has deprecated
    pytest.importorskip("rbms", reason="rbms is not installed")
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.partition_function.ais import compute_partition_function_ais
    from rbms.partition_function.exact import compute_partition_function

LIMIT = 4.5
"""Errors that a difference of two means may have: 7e-6 false alarms each."""
NAMES = {"weight": "weight_matrix", "visible_bias": "vbias", "hidden_bias": "hbias"}


@pytest.fixture(autouse=True)
def own_numbers():
    """The peer draws from torch's global state."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def both(d=8, m=5, seed=0, scale=0.8):
    """The same random parameters in both libraries."""
    random = np.random.default_rng(seed)
    parameters = [scale * random.normal(size=shape) for shape in ((d, m), d, m)]
    return RBMModel.of(*parameters), BBRBM(*(torch.tensor(part) for part in parameters))


def test_energies_and_conditionals_are_the_peers():
    model, peer = both()
    random = np.random.default_rng(1)
    v, h = (random.random((40, n)) < 0.5 for n in (8, 5))
    v, h = v.astype(float), h.astype(float)
    states = {"visible": torch.tensor(v), "hidden": torch.tensor(h)}
    np.testing.assert_allclose(model.joint_energy({"visible": v, "hidden": h}), peer.compute_energy(*states.values()))
    np.testing.assert_allclose(model.marginal_energy({"visible": v}), peer.compute_energy_visibles(states["visible"]))
    np.testing.assert_allclose(model.marginal_energy({"hidden": h}), peer.compute_energy_hiddens(states["hidden"]))
    hidden, visible = peer.sample_hiddens(dict(states)), peer.sample_visibles(dict(states))
    np.testing.assert_allclose(model.conditional("hidden", {"visible": v}).mean, hidden["hidden_mag"])
    np.testing.assert_allclose(model.conditional("visible", {"hidden": h}).mean, visible["visible_mag"])


def test_exact_log_z_is_the_peers():
    model, peer = both()
    ours = log_partition(model, "exact").value
    for n in (8, 5):
        assert ours == pytest.approx(compute_partition_function(peer, torch.tensor(all_states(n))), abs=1e-10)


def test_annealed_estimates_have_the_peers_mean_and_spread():
    """From the machine without couplings whose visible biases are kept, 50 temperatures, 100 chains, 30 estimates."""
    model, peer = both(scale=1.2)
    runs, exact = 30, log_partition(model, "exact").value
    base = RBMModel.of(np.zeros((8, 5)), model.views()["visible_bias"], np.zeros(5))
    weights = np.asarray(ais(model, base, Noise(2, "ais"), chains=100 * runs, schedule=50).log_weights)
    ours = np.exp(weights - exact).reshape(runs, 100).mean(1)
    theirs = np.exp([compute_partition_function_ais(100, 50, peer) - exact for _ in range(runs)])
    error = np.sqrt((ours.var(ddof=1) + theirs.var(ddof=1)) / runs)
    assert abs(ours.mean() - theirs.mean()) < LIMIT * error
    for found in (ours, theirs):  # both are unbiased for Z
        assert abs(found.mean() - 1) < LIMIT * found.std(ddof=1) / np.sqrt(runs)
    # equal spread: the logarithm of the ratio of variances has about the deviation 2 / sqrt(30), more with heavy tails
    assert abs(np.log(ours.var() / theirs.var())) < LIMIT * np.sqrt(4 / runs) * 1.5


@pytest.mark.parametrize("centered", [False, True])
def test_the_gradient_at_the_same_states_is_the_peers(centered):
    model, peer = both()
    random = np.random.default_rng(3)
    near, far = ((random.random((30, 8)) < p).astype(float) for p in (0.3, 0.6))
    one = np.full(30, 1 / 30)
    peer.init_grad()
    data, chains = (peer.init_chains(30, start_v=torch.tensor(x)) for x in (near, far))
    peer.compute_gradient(data, chains, centered=centered)
    sums = [model.marginal_gradient({"visible": x}, one) for x in (near, far)]
    ours = {name: sums[1][name] - sums[0][name] for name in NAMES}  # of energies: uphill is far less near
    if centered:
        v, h = near.mean(0), model.conditional("hidden", {"visible": near}).mean.mean(0)
        ours = model.centered_gradient(ours, {"visible": v, "hidden": h})
    for name, other in NAMES.items():
        np.testing.assert_allclose(ours[name], getattr(peer, other).grad, atol=1e-12)


UPDATES, RATE, RUNS = (20, 50, 100, 200), 0.5, 8


def of_peer(X, begun, seed):
    torch.manual_seed(seed)
    peer = BBRBM(*(torch.tensor(part) for part in begun))
    peer.init_grad()
    chains, visible, found = peer.init_chains(len(X)), torch.tensor(X), []
    optimizer = torch.optim.SGD(peer.parameters(), lr=RATE, maximize=True)
    for update in range(1, UPDATES[-1] + 1):
        data = peer.sample_hiddens({"visible": visible, "weights": torch.ones(len(X), dtype=torch.float64)})
        chains = peer.sample_state(chains, n_steps=2)
        peer.compute_gradient(data, chains, centered=False)
        optimizer.step()
        if update in UPDATES:
            found.append(likelihood(*(getattr(peer, name).numpy() for name in NAMES.values()), X))
    return found


def test_learning_curves_agree_within_their_monte_carlo_error():
    """Persistent chains on the same rows from the same parameters, plain steps, eight fits of each library."""
    X = bars()
    begun = first_parameters(X)
    fit = {"rate": RATE, "updates": UPDATES, "batch_size": len(X)}
    ours = [curve(PCD(k=2), X, begun, seed, **fit) for seed in range(RUNS)]
    theirs = [of_peer(X, begun, seed) for seed in range(RUNS)]
    assert agree(ours, theirs, LIMIT)
    assert min(ours[-1][-1], theirs[-1][-1]) > likelihood(*begun, X) + 0.8
