"""One option selects the principle: where all of them agree with maximum likelihood, and where they do not."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import gnomon
from gnomon.numeric.noise import Noise
from gnomon.objectives.centered import Centered, Enhanced
from gnomon.objectives.contrastive import CD, PCD, EnergyObjective, Exact
from gnomon.objectives.fast_weights import FPCD
from gnomon.objectives.growth import RisingSteps
from gnomon.objectives.noise_contrastive import NCE
from gnomon.objectives.pseudolikelihood import Pseudolikelihood
from gnomon.objectives.ratio_matching import RatioMatching
from gnomon.objectives.self_contrastive import SelfContrast
from gnomon.objectives.tempered import TemperedSML
from gnomon.objectives.warm_start import WarmStart
from gnomon.recipes.recipe import shorts
from gnomon.systems.energy.rbm import RBMModel
from gnomon.training.group import Group
from oracles.binary import Joint, all_states, marginal_kernel, rbm_energy
from oracles.principles import OneBatch, begun, bits, loss_of, mean_gradient

TINY = (np.array([[1.0, -1.0], [0.5, 0.5], [-1.0, 2.0]]), np.array([0.1, -0.2, 0.3]), np.array([0.0, -0.5]))
STATES = all_states(3)
NAMES = ("weight", "visible_bias", "hidden_bias")
REAL_ROWS = {"score-matching", "denoising-score-matching", "langevin-cd"}
"""Principles that need the slope of a density by the row."""
NETWORK = {"recognized"}
"""Principles that teach a network beside a deep machine."""


def law_of(parameters):
    return Joint(rbm_energy(*parameters), parameters[0].shape).marginal(0)


def of(flat, m, d=3):
    return flat[: d * m].reshape(d, m), flat[d * m : d * m + d], flat[d * m + d :]


def exact(parameters, law):
    """The mean gradient of the negative log-likelihood of a law over all rows, flat."""
    states = all_states(len(parameters[1]))
    found = mean_gradient(Exact().build(), RBMModel.of(*parameters), states, weight=law)
    return np.concatenate([found[name].ravel() for name in NAMES])


def expected_cd(parameters, law, k):
    """The same of CD-k from the power of the enumerated kernel, without code of the library."""
    W, _, c = parameters
    states = all_states(len(W))
    far = np.linalg.matrix_power(marginal_kernel(Joint(rbm_energy(*parameters), W.shape), 0), k) @ law
    hidden = 1 / (1 + np.exp(-(states @ W + c)))
    gap = far - law
    return np.concatenate([(states.T @ (gap[:, None] * hidden)).ravel(), gap @ states, gap @ hidden])


@pytest.mark.spec("GEN-008")
def test_at_the_machine_that_made_the_data_every_gradient_vanishes():
    """The law of a machine has mass everywhere. Closed forms exactly; CD and NCE in the mean over draws, whose
    statistics lie in [0, 1]: within 4.5 / (2 sqrt(n)) of 0, twice that for a difference; false alarm below 1e-4.
    """
    model, law = RBMModel.of(*TINY), law_of(TINY)
    for recipe in (Exact(), Pseudolikelihood(), Pseudolikelihood(sets="pairs"), RatioMatching()):
        for value in mean_gradient(begun(recipe, model, STATES, law), model, STATES, weight=law).values():
            np.testing.assert_allclose(value, 0, atol=1e-12)
    for k in (1, 5):
        np.testing.assert_allclose(expected_cd(TINY, law, k), 0, atol=1e-12)
    n = 20_000
    X, weight = np.repeat(STATES, n, axis=0), np.repeat(law, n)
    spread = 4.5 * np.sqrt((weight**2).sum()) / weight.sum()
    noise = NCE(nu=4).build()
    noise.begin(model, OneBatch(X, weight), Noise(0, "begin"), Group())
    with torch.no_grad():
        noise.log_z.fill_(model.log_partition())
    for objective in (CD(k=1).build(), CD(k=3).build(), noise):
        for value in mean_gradient(objective, model, X, weight=weight).values():
            np.testing.assert_allclose(value, 0, atol=spread)


@pytest.mark.spec("GEN-008")
def test_elsewhere_the_optima_of_the_principles_are_not_that_of_maximum_likelihood():
    """Fourteen parameters cannot have every law of sixteen states: other gradients are not 0 at their best likelihood.

    Two hidden units, since with one alone the chain from the data has the model's law where the likelihood is best.
    """
    random, states = np.random.default_rng(1), all_states(4)
    law = law_of((1.5 * random.normal(size=(4, 3)), random.normal(size=4), random.normal(size=3)))

    def loss(flat):
        found = loss_of(Exact().build(), RBMModel.of(*of(flat, 2, 4)), states, weight=law)
        return float(found.terms[found.per].sum()), exact(of(flat, 2, 4), law)

    start = 0.1 * np.random.default_rng(0).normal(size=14)
    best = of(minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x, 2, 4)
    assert np.abs(best[0]).max() < 5 and np.abs(exact(best, law)).max() < 2e-9
    model = RBMModel.of(*best)
    assert np.abs(expected_cd(best, law, 1)).max() > 1e-7
    assert np.abs(expected_cd(best, law, 400)).max() < 2e-9
    for recipe in (Pseudolikelihood(), RatioMatching()):
        found = mean_gradient(begun(recipe, model, states, law), model, states, weight=law)
        assert max(np.abs(value).max() for value in found.values()) > 1e-5


@pytest.mark.spec("GEN-008")
def test_rows_that_never_occur_push_the_optimum_to_infinity():
    """Two of eight rows: the likelihood rises towards log(1/2), which no finite machine has, and weights go on."""
    law = np.zeros(8)
    law[[0b101, 0b010]] = 0.5
    flat, sizes, scores = 0.1 * np.random.default_rng(0).normal(size=11), [], []
    for step in range(1, 8_001):
        flat = flat - 0.3 * exact(of(flat, 2), law)
        if step in (500, 2_000, 8_000):
            sizes.append(np.linalg.norm(flat))
            scores.append(law[law > 0] @ np.log(law_of(of(flat, 2))[law > 0]))
    assert np.diff(sizes).min() > 0.3
    assert scores[0] < scores[1] < scores[2] < np.log(0.5)


@pytest.mark.spec("GEN-008")
@pytest.mark.filterwarnings("ignore:.*never occur in it")
def test_one_option_selects_any_principle():
    """Every recipe of the slot trains bits or says in one line why it cannot; so do `partial_fit` and the history."""
    X = bits(40, 5)
    for short in shorts(EnergyObjective):
        rbm = gnomon.RBM(n_hidden=3, objective=short, epochs=2, random_state=0)
        if short in REAL_ROWS | NETWORK:
            with pytest.raises(gnomon.errors.UserError, match=r"real numbers|recognition network"):
                rbm.fit(X)
            continue
        before = len(rbm.fit(X).history_["epoch"])
        assert before == 2 and np.isfinite(rbm.score(X))
        rbm.partial_fit(X)
        assert len(rbm.history_["epoch"]) == 3
    real = bits(40, 5) + 0.1 * np.random.default_rng(0).normal(size=(40, 5))
    for short in REAL_ROWS:
        assert np.isfinite(
            gnomon.GaussianRBM(n_hidden=3, objective=short, epochs=2, random_state=0).fit(real).score(real)
        )


@pytest.mark.spec("GEN-008")
@pytest.mark.parametrize(
    "objective",
    [
        PCD(k=2, n_chains=7), FPCD(growth=RisingSteps(every=2)), TemperedSML(3), SelfContrast(refresh_every=7),
        WarmStart("cd", TemperedSML(3), after=2), WarmStart("cd", SelfContrast(), after=4), Centered(FPCD()),
        Enhanced(TemperedSML(2)),
    ],
    ids=str,
)  # fmt: skip
def test_chains_have_one_seed_and_go_on_with_the_fit(objective, tmp_path):
    """A run that is resumed ends where a longer one does; another seed has other chains."""
    X = bits(40, 5)
    options = {"n_hidden": 3, "objective": objective}
    whole = gnomon.RBM(epochs=6, random_state=0, **options).fit(X)
    gnomon.RBM(epochs=3, random_state=0, **options).fit(X, run=tmp_path / "run")
    resumed = gnomon.resume(tmp_path / "run", X, epochs=6)
    for name, value in whole.model_.state().items():
        np.testing.assert_array_equal(resumed.model_.state()[name], value)
    other = gnomon.RBM(epochs=6, random_state=1, **options).fit(X)
    assert (other.weights_ != whole.weights_).any()
