"""Autocorrelation of whole states: an autoregression, exact kernels, chains that each stay in a mode of their own."""

import numpy as np
import pytest
from scipy.signal import lfilter

from gnomon import RBM
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.diagnostics import autocorrelation
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.inference.mcmc.lags import lag_correlation
from gnomon.systems.energy.rbm import RBMModel
from gnomon.tasks.along_chains import sample_along_chains


def autoregression(rho, chains, n, seed):
    """x_{t+1} = rho x_t + e_t, begun from its stationary distribution."""
    e = np.random.default_rng(seed).normal(size=(chains, n))
    e[:, 1:] *= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], e, axis=1)


@pytest.mark.spec("REP-035")
@pytest.mark.parametrize("rho", [0.9, 0.3, -0.6])
def test_an_autoregression_has_the_powers_of_its_coefficient(rho):
    """z within 5 of 24 chains (t of 23 degrees: a false alarm at 20 lags less than 1e-3), for both functions."""
    x = autoregression(rho, 24, 20_000, seed=3)
    found = lag_correlation(x, most=20)
    truth = rho ** np.arange(21)
    assert found.value[0] == 1 and found.stderr[0] < 1e-12
    assert (np.abs(found.value - truth)[1:] < 5 * found.stderr[1:]).all()
    assert (found.stderr[1:] < 0.01).all()
    each = autocorrelation(x)[:, 1:21]
    error = each.std(axis=0, ddof=1) / np.sqrt(24)
    assert (np.abs(each.mean(axis=0) - truth[1:]) < 5 * error + 2e-3).all()  # divided by n, not n - k, about own means


def test_the_stated_error_is_that_of_other_seeds():
    """Over 60 repeats the spread is known to 9 %; the mean of the stated errors must be within 40 % of it."""
    found = [lag_correlation(autoregression(0.7, 8, 400, seed=k), most=3) for k in range(60)]
    spread = np.std([one.value for one in found], axis=0, ddof=1)[1:]
    stated = np.mean([one.stderr for one in found], axis=0)[1:]
    assert np.allclose(stated / spread, 1, rtol=0, atol=0.4)


@pytest.mark.spec("REP-035")
def test_chains_of_a_machine_have_the_correlation_of_their_kernel():
    """z within 5 of 64 chains at ten lags (t of 63 degrees, a false alarm below 1e-4); T^k is the exact kernel."""
    random = np.random.default_rng(2)
    system = RBM(n_hidden=2, epochs=1, random_state=0).fit(random.integers(0, 2, (20, 3)))
    W = 3 * np.array([[1.0, -1.0], [1.0, -0.5], [-1.0, 1.0]])
    b, c = 0.3 - W.sum(axis=1) / 2, -W.sum(axis=0) / 2
    system.model_ = RBMModel.of(W, b, c)
    found = sample_along_chains(system, chains=64, rows=60, every=10, random_state=1)
    kernel = block_kernel(system.model_, "visible")
    states = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)], float)
    values, vectors = np.linalg.eig(kernel)
    stationary = np.real(vectors[:, np.argmax(values.real)])
    stationary /= stationary.sum()
    centered = states - stationary @ states
    products = centered @ centered.T
    exact = [float((np.linalg.matrix_power(kernel, k) * stationary * products).sum()) for k in range(11)]
    exact = np.array(exact) / exact[0]
    assert 0.2 < exact[10] < exact[1] < 0.9
    got, error = np.array([found.correlation.at(k) for k in range(1, 11)]).T
    assert (np.abs(got - exact[1:]) < 5 * error).all()
    assert found.rows.shape == (64, 60, 3) and found.steps.tolist() == list(range(10, 601, 10))
    means = found.rows.mean(axis=1)
    assert (np.abs(means.mean(0) - stationary @ states) < 5 * means.std(0, ddof=1) / 8).all()


@pytest.mark.spec("REP-035")
def test_rows_of_chains_that_stay_where_they_are_count_as_alike():
    """Each chain scatters about its own mode: about its own mean it looks independent."""
    modes = np.repeat([0.0, 10.0], 4)[:, None, None]
    x = modes + np.random.default_rng(0).normal(size=(8, 200, 3))
    assert lag_correlation(x).value[1:].min() > 0.9 and lag_correlation(x).below() is None
    assert np.abs(autocorrelation(x)[:, 1:50].mean(axis=(0, 2))).max() < 0.1


@pytest.mark.spec("REP-035")
def test_the_correlation_is_said_of_rows_as_they_are_shown():
    """A machine whose units copy each other keeps its state: close rows are alike, rows far apart are less so."""
    system = RBM(n_hidden=1, epochs=1, random_state=0).fit(np.tile([[0, 1], [1, 1]], (4, 1)))
    system.model_ = RBMModel.of(np.full((2, 1), 6.0), np.full(2, -3.0), np.full(1, -6.0))
    close = sample_along_chains(system, chains=16, rows=40, every=1, random_state=0)
    far = sample_along_chains(system, chains=16, rows=40, every=60, random_state=0)
    assert close.correlation.at(1)[0] > 0.8 > 0.4 > far.correlation.at(60)[0]
    assert "rows 1 step apart 0.8" in close.reading or "rows 1 step apart 0.9" in close.reading
    assert "below 0.1 after" in far.reading
    same = sample_along_chains(system, chains=16, rows=40, every=1, random_state=0)
    assert np.array_equal(same.rows, close.rows)


def test_one_chain_has_no_error_and_a_frozen_one_no_correlation():
    assert np.isnan(lag_correlation(autoregression(0.5, 1, 50, 0)).stderr).all()
    assert np.isnan(lag_correlation(np.ones((2, 10, 1))).value).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lag_correlation(np.ones((2, 1))), "2 draws or more"),
        (lambda: lag_correlation(np.full((2, 4), np.inf)), "draws must be finite"),
        (lambda: lag_correlation(np.ones((2, 4)), most=4), r"most must be in \[1, 4\), got 4"),
        (lambda: lag_correlation(np.ones((2, 4)), every=0), "every must be at least 1"),
        (lambda: lag_correlation(np.eye(4)).at(7), "lag must be one of 0, 1, 2 ..., got 7"),
        (lambda: lag_correlation(np.eye(4)).below(2.0), r"level must be in \(0, 1\)"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(UserValueError, match=message):
        call()


def test_mistakes_of_sampling_along_chains():
    from gnomon import KMeans

    system = RBM(n_hidden=1, epochs=1, random_state=0).fit(np.tile([[0, 1], [1, 1]], (4, 1)))
    for name in ("chains", "rows", "every"):
        with pytest.raises(UserValueError, match=f"{name} must be at least"):
            sample_along_chains(system, **{name: 0})
    with pytest.raises(UserTypeError, match="independent draws"):
        sample_along_chains(KMeans(n_clusters=1, random_state=0).fit(np.eye(3)))
