"""The RBM as a system: its domain, sampling, fits that go wrong, and the way of other devices."""

import numpy as np
import pytest
from scipy.stats import chisquare

import gnomon
from gnomon.errors import Diverged, UserTypeError, UserValueError
from gnomon.inference.mcmc.gibbs import block_kernel
from gnomon.objectives.centered import Centered, Enhanced
from gnomon.objectives.contrastive import CD, PCD, Exact
from gnomon.objectives.fast_weights import FPCD
from gnomon.objectives.fresh_chains import MCMC
from gnomon.objectives.growth import RisingSteps
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.objectives.tempered import TemperedSML
from gnomon.objectives.warm_start import WarmStart
from gnomon.systems.energy.rbm import RBM, RBMModel
from oracles.binary import all_states

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))


def random_model(d=7, m=5, seed=0, scale=1.0):
    random = np.random.default_rng(seed)
    return tuple(scale * random.normal(size=shape) for shape in ((d, m), d, m))


def test_large_machines_refuse_an_exact_likelihood_and_estimate_it():
    X = (np.random.default_rng(0).random((40, 30)) < 0.3).astype(float)
    system = RBM(n_hidden=25, epochs=2, random_state=0).fit(X)
    assert not hasattr(system, "log_prob")
    score = system.evaluate(X)["log_likelihood"]
    assert score.kind == "estimate"
    assert 0 < score.error < 1
    assert score.value <= 0


CENTIMETRES = np.array([[5.1, 3.5, 1.4], [4.9, 3.0, 1.4], [6.3, 2.9, 5.6]] * 20)
PIXELS = np.random.default_rng(0).integers(0, 256, size=(64, 784)).astype(np.uint8)


@pytest.mark.spec("DLN-81", "GEN-005")
@pytest.mark.parametrize("X", [CENTIMETRES, PIXELS])
def test_values_outside_the_unit_interval_are_refused_with_their_place(X):
    with pytest.raises(UserValueError, match=r"\(row 0, column 0\).*scale to \[0, 1\].*binarize"):
        RBM(random_state=0).fit(X)


def test_truth_values_whole_numbers_and_rounding_noise():
    bits = np.array([[True, False], [False, True]] * 20)
    fits = [
        RBM(n_hidden=2, epochs=2, random_state=0).fit(X) for X in (bits, bits.astype(np.int8), bits.astype(np.float32))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].weights_, other.weights_)
    almost = RBM(n_hidden=2, epochs=2, random_state=0).fit(np.array([[0.0, 1.0 + 1e-9]] * 20))
    assert np.isfinite(almost.weights_).all()


@pytest.mark.spec("GEN-005")
def test_grey_rows_train_but_have_no_probability():
    X = np.random.default_rng(0).random((20, 4))
    system = RBM(n_hidden=2, epochs=1, random_state=0).fit(X)
    with pytest.raises(UserValueError, match="row 0, column 0"):
        system.score(X)


@pytest.mark.spec("GEN-005")
def test_verbs_are_those_of_the_model():
    """T1 of the specification: hidden means of (1, 1), the reconstruction from these, log p, in either dtype."""
    X = np.array([[1.0, 1.0], [0.0, 1.0]])
    system = RBM(n_hidden=2, epochs=1, random_state=0).fit(X)
    system.model_ = RBMModel.of(np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([0.1, -0.2]), np.array([0.3, -0.4]))
    hidden = system.transform(X)
    np.testing.assert_allclose(hidden[0], (0.858149, 0.645656), atol=1e-6)
    field = np.array([0.1 + hidden[0, 0] - hidden[0, 1], -0.2 + 0.5 * hidden[0, 0] + 2 * hidden[0, 1]])
    np.testing.assert_allclose(system.reconstruct(X)[0], 1 / (1 + np.exp(-field)), rtol=1e-12)
    np.testing.assert_allclose(np.exp(system.log_prob(X)), (0.408381, 0.356643), atol=1e-6)
    np.testing.assert_allclose(-system.free_energy(X) - 3.786021, system.log_prob(X), atol=1e-6)
    assert system.score(X) == pytest.approx(np.log((0.408381, 0.356643)).mean(), abs=1e-5)


@pytest.mark.spec("DLN-81", "GEN-005", "GEN-006")
def test_sampling_follows_its_seed_and_the_model():
    system = RBM(n_hidden=2, epochs=1, random_state=0).fit(all_states(3))
    system.model_ = RBMModel.of(*TINY)
    drawn = system.sample(20_000, steps=30, random_state=0)
    counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, 20_000 * np.exp(system.model_.log_prob(all_states(3)))).pvalue > 1e-4  # false alarm 1e-4
    np.testing.assert_array_equal(system.sample(5, steps=3, random_state=1), system.sample(5, steps=3, random_state=1))
    assert system.sample(0).shape == (0, 3)


@pytest.mark.spec("DLN-81", "DLN-82")
def test_the_verbs_of_a_machine_by_enumeration():
    """Means, energies and likelihood by sums over all states; chains after 0, 1 and 2 sweeps, not in the limit alone.

    Five chi-square tests at 1e-5: a false alarm in 20,000 seeds.
    """
    W, b, c = 3 * TINY[0], np.array([0.1, -2.0, 0.3]), np.array([0.0, -2.0])  # chains that mix slowly
    V, H, n = all_states(3), all_states(2), 20_000
    system = RBM(n_hidden=2, epochs=1, learning_rate=1e-30, random_state=0, dtype="float64").fit(V[[1, 1, 2, 6]])
    system.model_.load(RBMModel.of(W, b, c).state())
    joint = np.exp(V @ b[:, None] + H @ c + V @ W @ H.T)  # (8, 4)
    given_v, given_h = joint / joint.sum(1, keepdims=True), joint / joint.sum(0)
    np.testing.assert_allclose(system.transform(V), given_v @ H, atol=1e-12)
    np.testing.assert_allclose(system.energy(V), -np.log(joint.sum(1)), atol=1e-12)
    p = joint.sum(1) / joint.sum()
    np.testing.assert_allclose(system.log_prob(V), np.log(p), atol=1e-12)
    assert system.score(V[:5]) == pytest.approx(np.log(p[:5]).mean(), abs=1e-12)
    hidden = given_v @ H
    np.testing.assert_allclose(system.reconstruct(V), 1 / (1 + np.exp(-(hidden @ W.T + b))), atol=1e-12)
    kernel = given_v @ given_h.T  # row v: the law of the next v
    np.testing.assert_allclose(p[:, None] * kernel, (p[:, None] * kernel).T, atol=1e-15)  # detailed balance
    np.testing.assert_allclose(block_kernel(system.model_, "visible").T, kernel, atol=1e-12)

    def law_of(drawn):
        return np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)

    for steps in (1, 2):
        ends = system.gibbs(np.repeat(V[5:6], n, axis=0), steps, random_state=steps)
        assert chisquare(law_of(ends), n * np.linalg.matrix_power(kernel, steps)[5]).pvalue > 1e-5
    np.testing.assert_array_equal(system.gibbs(V, 0, random_state=0), V)
    begins = np.prod(np.where(V == 1, [0.25, 0.5, 0.5], [0.75, 0.5, 0.5]), axis=1)  # the columns' means
    for steps in (0, 1, 2):
        drawn = system.sample(n, steps=steps, random_state=7 + steps)
        assert chisquare(law_of(drawn), n * begins @ np.linalg.matrix_power(kernel, steps)).pvalue > 1e-5


@pytest.mark.spec("DLN-87")
@pytest.mark.parametrize("objective", [CD(), CD(k=3)])
def test_contrastive_divergence_raises_the_exact_likelihood(objective):
    """The step is against the loss's gradient; at W = 0 and biases at the data's log-odds the expected one is 0."""
    X = np.repeat([[1.0, 1, 0, 0], [0, 0, 1, 1]], 50, axis=0)
    begun, fitted = (
        RBM(n_hidden=3, objective=objective, epochs=epochs, learning_rate=rate, random_state=0, dtype="float64").fit(X)
        for epochs, rate in ((1, 1e-30), (60, 0.1))
    )
    assert begun.score(X) == pytest.approx(-4 * np.log(2), abs=1e-3)
    assert fitted.score(X) > -2  # the best is -log 2


def test_a_learning_rate_that_freezes_the_chains_ends_the_fit():
    """HB-07: it warned, and the command ended with 0."""
    X = (np.random.default_rng(0).random((200, 30)) < 0.3).astype(float)
    with pytest.raises(Diverged, match=r"a weight has grown to .*lower the learning rate"):
        RBM(n_hidden=4, learning_rate=1e6, epochs=2, random_state=0).fit(X)


@pytest.mark.parametrize("steps", [1.5, "a", -1])
def test_gibbs_takes_a_whole_number_of_steps(steps):
    system = RBM(n_hidden=2, epochs=1, random_state=0).fit(all_states(3))
    with pytest.raises((UserTypeError, UserValueError), match="steps"):
        system.gibbs(all_states(3), steps)


def test_visible_biases_start_at_the_log_odds_of_the_columns():
    X = np.array([[1.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    system = RBM(n_hidden=2, epochs=1, learning_rate=1e-30, random_state=0).fit(X)
    share = np.array([0.75, 0.01, 0.25, 0.99])
    np.testing.assert_allclose(system.visible_bias_, np.log(share / (1 - share)), atol=1e-12)
    assert 0.002 < system.weights_.std() < 0.03  # eight numbers of spread 0.01; a fixed seed
    drawn = system.sample(5000, steps=0, random_state=0)  # where chains begin: the columns' means
    np.testing.assert_allclose(drawn.mean(0), share, atol=4.5 * 0.5 / np.sqrt(5000))  # false alarm below 1e-4


def test_grey_rows_have_no_pseudo_likelihood():
    system = RBM(n_hidden=2, epochs=1, random_state=0).fit(np.eye(4))
    with pytest.raises(UserValueError, match="row 0, column 0"):
        system.pseudo_log_likelihood(np.full((2, 4), 0.5))
    almost = np.abs(np.eye(4) - 1e-9)  # rounding noise is none of a row's values
    assert system.pseudo_log_likelihood(almost).value == system.pseudo_log_likelihood(np.eye(4)).value
    for score in (system.pseudo_log_likelihood(np.eye(4)), system.evaluate(np.eye(4))["log_likelihood"]):
        assert score.data_space == "pmf on {0,1}^4"


def test_a_base_of_constant_columns_is_finite():
    base = RBMModel.of(*TINY).base(np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(base.state()["visible_bias"], [-np.log(99), 0, np.log(99)], atol=1e-12)


def test_log_partition_is_remembered_by_its_options():
    system = RBM(n_hidden=3, epochs=1, random_state=0).fit(all_states(4))
    system.model_ = RBMModel.of(*random_model(4, 3))
    few, more = (system.log_partition("ais", chains=chains, schedule=5) for chains in (10, 50))
    assert few.value != more.value
    assert system.log_partition("ais", chains=10, schedule=5) is few


@pytest.mark.parametrize(
    "objective",
    [
        CD(k=2), PCD(), Exact(), PCD(positive="mean_field"), Pseudolikelihood(sets="pairs"),
        Pseudolikelihood(n_conditionals=2), RatioMatching(), RatioMatching(n_zeros=2), NCE(nu=2), FPCD(),
        FPCD(applies="model"), MCMC(k=3), MCMC(k=3, start="means"), TemperedSML(3), CD(growth=RisingSteps(every=1)),
        Centered(), Centered("ratio_matching"), Centered(NCE(nu=2), rate=0.0), Enhanced("cd"),
        WarmStart("cd", "pcd", after=1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_way_of_other_devices_gives_the_same_numbers(objective, dtype):
    """Tensors throughout the fit, walked on the CPU by force: chains alike, sums to rounding."""
    X = (np.random.default_rng(0).random((60, 8)) < 0.4).astype(float)
    fits = []
    for backend in ("auto", "torch"):
        with gnomon.context(backend=backend):
            system = RBM(n_hidden=5, objective=objective, epochs=3, dtype=dtype, random_state=0).fit(X)
        fits.append(system)
    tolerance = 1e-4 if dtype == "float32" else 1e-11
    for name, value in fits[0].model_.state().items():
        np.testing.assert_allclose(fits[1].model_.state()[name], value, rtol=tolerance, atol=tolerance)
    for name, values in fits[0].history_.items():
        np.testing.assert_allclose(fits[1].history_[name], values, rtol=10 * tolerance, atol=10 * tolerance)
    np.testing.assert_allclose(fits[1].transform(X), fits[0].transform(X), rtol=tolerance, atol=tolerance)
