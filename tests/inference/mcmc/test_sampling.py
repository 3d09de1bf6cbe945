"""Running chains: known laws, burn-in and thinning as slices, streams by seed and place, saving and going on."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
import torch

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.adaptation import Adaptation
from gnomon.inference.mcmc.density import Density
from gnomon.inference.mcmc.diagnostics import summarize
from gnomon.inference.mcmc.hamiltonian import HMC
from gnomon.inference.mcmc.metropolis import MetropolisHastings, RandomWalk
from gnomon.inference.mcmc.sampling import Sampler, sample_chain
from gnomon.inference.mcmc.sweeps import Conditionals
from gnomon.numeric.noise import Noise, recording
from oracles.binary import Joint, rbm_energy
from oracles.toys import tiny_rbm

COVARIANCE = np.array([[1.0, 1.6, 0.0], [1.6, 4.0, 0.3], [0.0, 0.3, 0.25]])
PRECISION = np.linalg.inv(COVARIANCE)
CENTER = np.array([3.0, -1.0, 0.5])


def pull(x):
    """-P (x - CENTER) of each row, summed so that its bits do not depend on the other rows."""
    z = x - CENTER
    return -(z[:, :1] * PRECISION[0] + z[:, 1:2] * PRECISION[1] + z[:, 2:] * PRECISION[2])


def log_normal(x):
    g, z = pull(x), x - CENTER
    return 0.5 * (g[:, 0] * z[:, 0] + g[:, 1] * z[:, 1] + g[:, 2] * z[:, 2])


correlated = Density(log_normal, pull)
"""Normal about CENTER with COVARIANCE."""


def bell(x):
    return -0.5 * (x * x).sum(-1)


def modes(x):
    """Two normals 12 of their standard deviations apart."""
    distance = torch.stack([((x - 6) ** 2).sum(-1), ((x + 6) ** 2).sum(-1)])
    return torch.logsumexp(-0.5 * distance, 0)


@pytest.mark.spec("INF-16")
@pytest.mark.parametrize("kernel", ["hmc", "metropolis"])
def test_moments_of_a_correlated_normal(kernel):
    """Within 4 errors of the mean by its ESS; variances within 5 of theirs by the ESS of the squares."""
    found = gnomon.sample_chain(
        correlated, kernel, start=3, draws=2000, burn_in=1000, thin=1 if kernel == "hmc" else 5, random_state=1
    )
    summary = found.summary()
    assert found.draws.shape == (8, 2000, 3)
    assert (np.abs(summary.columns["mean"] - CENTER) < 4 * summary.columns["mcse"]).all()
    squares = summarize((found.draws - CENTER) ** 2)
    assert (np.abs(squares.columns["mean"] - np.diag(COVARIANCE)) < 5 * squares.columns["mcse"]).all()
    assert summary.columns["ess_bulk"].min() > 2000
    assert summary.flagged == {}
    assert "acceptance 0." in found.table()
    wanted = found.kernel.best_acceptance
    assert found.info["accept_prob"].mean() == pytest.approx(wanted, abs=0.15)


@pytest.mark.spec("INF-16")
def test_marginals_of_an_rbm_by_enumeration():
    model = tiny_rbm()
    truth = Joint(rbm_energy(model.W, model.b, model.c), (3, 2))
    expected = truth.expectation(lambda s: s)
    found = sample_chain(model, "gibbs", chains=16, draws=2000, burn_in=50, random_state=2)
    summary = found.summary()
    assert summary.names == ("visible[0]", "visible[1]", "visible[2]", "hidden[0]", "hidden[1]")
    assert (np.abs(summary.columns["mean"] - expected) < 4 * summary.columns["mcse"]).all()
    assert summary.columns["mcse"].max() < 0.006
    with pytest.raises(UserValueError, match="several arrays: visible, hidden"):
        _ = found.draws


@pytest.mark.spec("INF-16")
def test_burn_in_and_thinning_are_slices_of_the_whole_path():
    kernel = HMC(0.4, 4)
    whole = sample_chain(correlated, kernel, start=3, draws=60, burn_in=0, adapt=None, random_state=3)
    late = sample_chain(correlated, kernel, start=3, draws=40, burn_in=20, adapt=None, random_state=3)
    thin = sample_chain(correlated, kernel, start=3, draws=10, burn_in=20, thin=4, adapt=None, random_state=3)
    assert np.array_equal(late.draws, whole.draws[:, 20:])
    assert np.array_equal(thin.draws, whole.draws[:, 20:][:, 3::4])
    assert np.array_equal(thin.info["accept_prob"], whole.info["accept_prob"][:, 20:])
    assert (np.diff(whole.draws, axis=1) != 0).any()


@pytest.mark.spec("INF-16")
@pytest.mark.parametrize("adapt", [None, Adaptation(covariance=None, per_chain=True)])
def test_a_chain_does_not_know_how_many_others_there_are(adapt):
    options = {"start": 3, "draws": 50, "burn_in": 50, "adapt": adapt, "random_state": 4}
    many = sample_chain(correlated, HMC(0.4, 4), chains=9, **options)
    few = sample_chain(correlated, HMC(0.4, 4), chains=2, **options)
    assert np.array_equal(many.draws[:2], few.draws)
    assert not np.array_equal(few.draws[0], few.draws[1])
    again = sample_chain(correlated, HMC(0.4, 4), chains=2, **options)
    other = sample_chain(correlated, HMC(0.4, 4), chains=2, **{**options, "random_state": 5})
    assert np.array_equal(few.draws, again.draws)
    assert not np.array_equal(few.draws, other.draws)


def through_a_file(arrays, facts):
    """Arrays and facts as they come back from disk."""
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.asarray(x) for name, x in arrays.items()})
    buffer.seek(0)
    return dict(np.load(buffer)), json.loads(json.dumps(facts))


@pytest.mark.spec("INF-16")
@pytest.mark.parametrize("kernel", ["hmc", "metropolis", "gibbs"])
def test_chains_go_on_bitwise(kernel):
    target, start = (tiny_rbm(), None) if kernel == "gibbs" else (correlated, 3)
    options = {"start": start, "burn_in": 60, "thin": 2, "random_state": 5, "adapt": "auto"}
    whole = sample_chain(target, kernel, draws=50, **options)
    part = sample_chain(target, kernel, draws=20, **options)
    on = sample_chain(target, kernel, draws=30, resume=through_a_file(*part.save()))
    joined = part.extend(30)
    for name, x in whole.values.items():
        assert np.array_equal(np.concatenate([part.values[name], on.values[name]], axis=1), x)
        assert np.array_equal(joined.values[name], x)
    for name, x in whole.info.items():
        assert np.array_equal(joined.info[name], x)


@pytest.mark.spec("INF-16")
@pytest.mark.parametrize("covariance", ["full", "variances", None])
@pytest.mark.parametrize("kernel", [HMC(), MetropolisHastings(RandomWalk())])
def test_tuning_is_saved_too(kernel, covariance):
    """Stopped at any step of burn-in, and read back, the rest is the same."""
    adapt = Adaptation(covariance=covariance)
    sampler = Sampler(correlated, kernel, Noise(6, "chain"), burn_in=120, adapt=adapt)
    walk = start = sampler.start(np.zeros((4, 3)))
    path, tuned = [], None
    for _ in range(140):
        walk, _ = sampler.step(walk)
        path.append(walk.state["x"])
        if walk.t == sampler.burn_in:
            tuned = walk.kernel
    assert walk.kernel is tuned  # tuning ends with burn-in: it goes against invariance
    for stop in (1, 47, 119, 130):
        walk = start
        for _ in range(stop):
            walk, _ = sampler.step(walk)
        walk = sampler.load(*through_a_file(*sampler.save(walk)))
        while walk.t < 140:
            walk, _ = sampler.step(walk)
            assert np.array_equal(walk.state["x"], path[walk.t - 1])


@pytest.mark.spec("INF-16", "INF-17")
def test_chains_in_two_modes_are_told_from_chains_that_mix():
    start = np.repeat([[-6.0], [6.0]], 4, axis=0)
    apart = sample_chain(modes, start=start, draws=300, burn_in=300, random_state=7)
    assert apart.summary().marks == ("not mixed, few",)
    assert (np.sign(apart.draws[..., 0]) == np.sign(start)).all()
    assert "not mixed" in apart.table()


@pytest.mark.spec("INF-16")
def test_no_address_is_used_twice():
    with recording():
        sample_chain(correlated, start=3, chains=3, draws=5, burn_in=5, random_state=8)
    with recording():
        sample_chain(tiny_rbm(), "gibbs", chains=3, draws=5, burn_in=5, random_state=8)


def test_tensors_keep_their_type_and_place():
    start = torch.zeros(2, 3, dtype=torch.float32)
    found = sample_chain(bell, chains=2, start=start, draws=4, burn_in=4, random_state=9)
    assert found.draws.dtype == np.float32
    assert found.walk.state["x"].dtype == torch.float32
    one = sample_chain(correlated, start=CENTER, chains=3, draws=0, burn_in=0, random_state=9)
    assert np.array_equal(one.walk.state["x"], np.stack([CENTER] * 3))
    assert one.draws.shape == (3, 0, 3)


@pytest.mark.spec("INF-16")
def test_starts_of_no_probability_and_other_mistakes_are_refused():
    def positive(x):
        return torch.where(x[:, 0] > 0, -x[:, 0], -math.inf)

    with pytest.raises(
        UserValueError, match=r"the log density must be finite at the start, got -inf at .*the density is positive"
    ):
        sample_chain(positive, chains=2, start=np.array([[1.0], [-1.0]]))
    with pytest.raises(
        UserValueError, match=r"start is required for a target that does not give its .*dimension, or a position"
    ):
        sample_chain(correlated)
    with pytest.raises(UserValueError, match="thin must be at least 1, got 0"):
        sample_chain(correlated, start=3, thin=0)
    with pytest.raises(UserValueError, match="start must be one position or 8, one per chain, got 4"):
        sample_chain(correlated, start=np.zeros((4, 3)))
    with pytest.raises(UserValueError, match="got 'nuts'"):
        sample_chain(correlated, "nuts", start=3)
    with pytest.raises(
        UserTypeError, match=r"Density has no conditionals \(target\); use kernel='hmc', or pass Conditionals\(\.\.\.\)"
    ):
        sample_chain(correlated, "gibbs", start=3)
    with pytest.raises(UserValueError, match=r"adapt must be .* got 'yes'"):
        sample_chain(correlated, start=3, adapt="yes")
    saved = sample_chain(correlated, "metropolis", start=3, draws=1, burn_in=1).save()
    with pytest.raises(UserValueError, match="MetropolisHastings"):
        sample_chain(correlated, "hmc", resume=saved)
    with pytest.raises(
        UserValueError,
        match="conditionals must hold at least one; pass one per variable",
    ):
        Conditionals({})
