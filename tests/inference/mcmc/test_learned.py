"""Learned transitions: the law they settle on, by matrix and by draws (false alarm 1e-5 a test)."""

import math

import numpy as np
import pytest
from scipy import stats

from gnomon import sample_chain
from gnomon.contracts import HasLogProb, supports
from gnomon.distributions.real import Normal
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.mcmc.density import as_density
from gnomon.inference.mcmc.learned import AddNormal, FiniteDenoiser, FlipBits, Replace, TransitionOperator
from gnomon.numeric.noise import Noise

DATA = np.repeat([0, 1, 2, 3], [50, 30, 15, 5])
LAW = np.array([0.5, 0.3, 0.15, 0.05])


@pytest.mark.spec("INF-22")
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_fitted_table_settles_on_the_law_of_the_data(rate):
    corruption = Replace(rate, 4)
    chain = TransitionOperator(corruption, FiniteDenoiser(corruption).fit(DATA))
    matrix = np.zeros((4, 4))  # corrupt and denoise written out: posterior of the clean state by Bayes' rule
    likelihood = (1 - rate) * np.eye(4) + rate / 4
    for now in range(4):
        for seen in range(4):
            posterior = LAW * likelihood[seen]
            matrix[:, now] += likelihood[seen, now] * posterior / posterior.sum()
    assert np.allclose(chain.matrix(), matrix, atol=1e-15)
    assert chain.is_ergodic() and np.abs(chain.stationary() - LAW).max() < 1e-12
    flow = chain.matrix() * LAW
    assert np.abs(flow - flow.T).max() < 1e-15  # corrupting and denoising exactly is reversible


@pytest.mark.spec("INF-22")
def test_steps_draw_the_matrix():
    corruption = Replace(0.4, 4)
    chain = TransitionOperator(corruption, FiniteDenoiser(corruption).fit(DATA))
    for start in (0, 3):
        state, info = chain.step(chain.init(np.full(20_000, start)), Noise(start, "learned").at(0))
        seen = np.bincount(state["x"], minlength=4)
        assert stats.chisquare(seen, chain.matrix()[:, start] * 20_000).pvalue > 1e-5
        assert info["changed"].shape == (20_000,) and math.isclose(info["changed"].mean(), 1 - seen[start] / 20_000)
    far = chain.sample(np.full(20_000, 3), Noise(0, "learned"), steps=40)
    assert stats.chisquare(np.bincount(far, minlength=4), LAW * 20_000).pvalue > 1e-5


@pytest.mark.spec("INF-22")
def test_the_table_is_the_best_one():
    corruption = Replace(0.3, 4)
    table = FiniteDenoiser(corruption).fit(DATA)
    best = table.log_likelihood(DATA).sum()
    draws = corruption(np.repeat(DATA, 2000), Noise(0, "corrupt"))
    told = table.conditional(draws).log_prob(np.repeat(DATA, 2000))
    assert abs(told.mean() * len(DATA) - best) < 4.5 * told.std() / math.sqrt(len(told)) * len(DATA)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = FiniteDenoiser(corruption)
        other.matrix = table.matrix * np.exp(0.1 * rng.normal(size=(4, 4)))
        other.matrix /= other.matrix.sum(axis=0)
        assert other.log_likelihood(DATA).sum() < best


class Step:
    """A state stays or goes to the next one; the last stays."""

    def matrix(self):
        return np.array([[0.6, 0.0, 0.0], [0.4, 0.6, 0.0], [0.0, 0.4, 1.0]])


def test_what_cannot_come_of_a_state_adds_nothing_to_its_likelihood():
    table = FiniteDenoiser(Step()).fit([0, 0, 1, 2, 2, 2])
    p, noise = table.matrix, Step().matrix()
    assert np.allclose(p[:, 1], np.array([0.8, 0.6, 0.0]) / 1.4)
    by_hand = [sum(noise[k, i] * math.log(p[i, k]) for k in range(3) if noise[k, i] > 0) for i in range(3)]
    assert np.allclose(table.log_likelihood([0, 1, 2]), by_hand, rtol=1e-13)


def test_weights_are_repeated_rows():
    corruption = Replace(0.3, 4)
    weighted = FiniteDenoiser(corruption).fit([0, 1, 2, 3], weight=[50, 30, 15, 5])
    assert np.array_equal(weighted.matrix, FiniteDenoiser(corruption).fit(DATA).matrix)


class Fixed:
    """A corruption that always answers the same."""

    def matrix(self):
        return np.eye(3)


def test_a_chain_that_cannot_reach_everything_has_no_law():
    chain = TransitionOperator(Fixed(), FiniteDenoiser(Fixed()).fit([0, 1, 2]))
    assert not chain.is_ergodic()
    with pytest.raises(UserValueError):
        chain.stationary()
    with pytest.raises(UserValueError, match="smoothing"):
        FiniteDenoiser(Fixed()).fit([0, 1])
    assert np.allclose(FiniteDenoiser(Fixed(), smoothing=1.0).fit([0, 1]).matrix[:, 2], 1 / 3)


class Exact:
    """p(x | x + noise) of a normal x of variance 2, noise of variance 1."""

    def conditional(self, corrupted):
        return Normal(corrupted * 2 / 3, math.sqrt(2 / 3))


class Sure:
    """One that is too sure."""

    def conditional(self, corrupted):
        return Normal(corrupted * 2 / 3, 0.5)


@pytest.mark.spec("INF-22")
def test_the_exact_denoiser_of_a_normal_settles_on_it():
    chain = TransitionOperator(AddNormal(1.0), Exact())
    found = sample_chain(None, chain, chains=4000, draws=1, burn_in=25, start=np.full((4000, 1), 9.0), random_state=0)
    assert stats.kstest(found.draws[:, 0, 0], stats.norm(0, math.sqrt(2)).cdf).pvalue > 1e-5
    narrow = TransitionOperator(
        AddNormal(1.0), type("Sure", (), {"conditional": lambda _, c: Normal(c * 2 / 3, 0.5)})()
    )
    found = sample_chain(None, narrow, chains=4000, draws=1, burn_in=25, start=np.zeros((4000, 1)), random_state=0)
    assert stats.kstest(found.draws[:, 0, 0], stats.norm(0, math.sqrt(2)).cdf).pvalue < 1e-5


@pytest.mark.spec("INF-22")
def test_there_is_no_density():
    corruption = Replace(0.4, 4)
    chain = TransitionOperator(corruption, FiniteDenoiser(corruption).fit(DATA))
    assert not supports(chain, HasLogProb)
    with pytest.raises(AttributeError, match="no tractable log_prob"):
        chain.log_prob(DATA)
    with pytest.raises(
        UserTypeError, match="target must be a log density or have energy or log_prob, got a TransitionOperator"
    ):
        as_density(chain)
    with pytest.raises(UserTypeError, match="no matrix"):
        TransitionOperator(AddNormal(1.0), Exact()).stationary()


def test_bits_are_flipped_at_their_rate():
    x = np.zeros((2000, 10))
    x[:, 5:] = 1
    flipped = FlipBits(0.2)(x, Noise(0, "flip"))
    assert set(np.unique(flipped)) == {0.0, 1.0}
    assert stats.binomtest(int((flipped != x).sum()), 20_000, 0.2).pvalue > 1e-5


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Replace(0.0, 3), "rate"),
        (lambda: FlipBits(1.0), "rate"),
        (lambda: AddNormal(0.0), "scale"),
        (lambda: FiniteDenoiser(Replace(0.5, 3), smoothing=-1), "smoothing"),
        (lambda: FiniteDenoiser(Replace(0.5, 3)).fit([0, 3]), "row 1"),
        (
            lambda: FiniteDenoiser(Replace(0.5, 3)).fit([0.5]),
            r"state must hold whole numbers, got 0\.5 \(state, index 0\)",
        ),
        (
            lambda: FiniteDenoiser(Replace(0.5, 3)).fit([0, 1], weight=[1, -1]),
            r"weight must be one number >= 0 per row, got an array of shape \(2,\)",
        ),
        (lambda: TransitionOperator(AddNormal(1.0), Exact()).sample(np.zeros(1), Noise(0, "a"), steps=-1), "steps"),
    ],
)
def test_mistakes_are_named(make, match):
    with pytest.raises(UserValueError, match=match):
        make()
