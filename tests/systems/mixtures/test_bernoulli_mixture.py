"""The Bernoulli mixture and EM: two coins in numbers, monotone climbs, enumeration on three bits."""

import itertools
import warnings

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture, BernoulliMixtureModel

BITS = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
HEADS = (5, 9, 8, 4, 7)


def coins(start=(0.6, 0.5)):
    """Two coins, five sets of ten tosses of one coin each, both equally likely: the columns of a set are one mean."""
    model = BernoulliMixtureModel([0.5, 0.5], np.repeat(np.array(start)[:, None], 10, axis=1))
    X = np.array([[1.0] * heads + [0.0] * (10 - heads) for heads in HEADS])
    return model, X


def coin_step(model, X):
    """The M-step when all columns share a mean and the shares stay equal."""
    statistics = model.expect(X, np.ones(len(X)))
    means = statistics["ones"].sum(1) / (10 * statistics["rows"])
    return BernoulliMixtureModel([0.5, 0.5], np.repeat(means[:, None], 10, axis=1)), statistics["log_likelihood"]


@pytest.mark.spec("BAY-48")
def test_two_coins_in_numbers():
    model, X = coins()
    model, likelihood = coin_step(model, X)
    assert likelihood == pytest.approx(-33.093863, abs=1e-6)
    np.testing.assert_allclose(model.means[:, 0], (0.713012, 0.581339), atol=1e-6)
    for _ in range(200):
        model, likelihood = coin_step(model, X)
    np.testing.assert_allclose(model.means[:, 0], (0.796789, 0.519583), atol=1e-6)
    assert likelihood == pytest.approx(-31.570200, abs=1e-6)


@pytest.mark.spec("BAY-48", "BAY-50")
@pytest.mark.filterwarnings("ignore:a component has one value only")
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_objective_never_falls_and_ends_stationary(smoothing, seed):
    X = (np.random.default_rng(seed).random((80, 6)) < 0.4).astype(float)
    model = BernoulliMixture(n_components=3, smoothing=smoothing, max_iter=20000, tol=1e-15, random_state=seed).fit(X)
    climb = np.array(model.history_["objective"])
    assert (np.diff(climb) > -1e-10).all()
    inner = model.model_

    def objective(means):
        other = BernoulliMixtureModel(inner.weights, means, smoothing)
        return other.log_prob(X).sum() + other.log_prior()

    free = (inner.means > 1e-6) & (inner.means < 1 - 1e-6)
    for index in np.argwhere(free):
        step = np.zeros_like(inner.means)
        step[tuple(index)] = 1e-6
        slope = (objective(inner.means + step) - objective(inner.means - step)) / 2e-6
        assert abs(slope) < 2e-2


@pytest.mark.spec("BAY-50")
def test_responsibilities_and_weighted_counts_by_hand():
    X = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    weights, means = np.array([0.3, 0.7]), np.array([[0.2, 0.9], [0.6, 0.4]])
    model = BernoulliMixtureModel(weights, means)
    joint = np.array(
        [[w * np.prod(np.where(x == 1, m, 1 - m)) for w, m in zip(weights, means, strict=True)] for x in X]
    )
    r = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(model.posterior(X), r, atol=1e-12)
    model.maximize(model.expect(X, np.array([1.0, 2.0, 0.5])))
    counts = r * np.array([1.0, 2.0, 0.5])[:, None]
    np.testing.assert_allclose(model.weights, counts.sum(0) / 3.5, atol=1e-12)
    np.testing.assert_allclose(model.means, counts.T @ X / counts.sum(0)[:, None], atol=1e-12)


@pytest.mark.spec("BAY-75")
def test_probabilities_of_all_rows_sum_to_one():
    random = np.random.default_rng(0)
    model = BernoulliMixtureModel(random.dirichlet(np.ones(4)), random.random((4, 3)))
    assert np.exp(model.log_prob(BITS)).sum() == pytest.approx(1, abs=1e-12)
    by_hand = [
        sum(w * np.prod(np.where(x == 1, m, 1 - m)) for w, m in zip(model.weights, model.means, strict=True))
        for x in BITS
    ]
    np.testing.assert_allclose(model.log_prob(BITS), np.log(by_hand), atol=1e-12)


@pytest.mark.spec("BAY-75")
def test_samples_follow_the_enumerated_law():
    from scipy.stats import chisquare

    model = BernoulliMixtureModel([0.2, 0.5, 0.3], np.random.default_rng(0).random((3, 3)))
    n = 50_000
    drawn = model.sample(n, Noise(0, "sample"))
    counts = np.bincount((drawn @ [4, 2, 1]).astype(int), minlength=8)
    assert chisquare(counts, n * np.exp(model.log_prob(BITS))).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.spec("BAY-75")
def test_criteria_count_the_free_parameters():
    X = (np.random.default_rng(0).random((50, 4)) < 0.5).astype(float)
    model = BernoulliMixture(n_components=3, random_state=0).fit(X)
    total = model.log_prob(X).sum()
    assert model.bic(X) == pytest.approx((2 + 12) * np.log(50) - 2 * total)
    assert model.aic(X) == pytest.approx(2 * (2 + 12) - 2 * total)


def test_one_component_is_independent_columns():
    X = (np.random.default_rng(0).random((200, 5)) < 0.3).astype(float)
    model = BernoulliMixture(n_components=1, smoothing=0, random_state=0).fit(X)
    np.testing.assert_allclose(model.means_[0], X.mean(0), atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*distinct rows")
@pytest.mark.parametrize("seed", range(20))
def test_more_components_than_distinct_rows(seed):
    for X in (np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0), np.zeros((20, 2)), np.array([[1.0, 0.0]] * 3)):
        model = BernoulliMixture(n_components=3, random_state=seed).fit(X)
        assert model.weights_.sum() == pytest.approx(1)
        assert np.isfinite(model.log_prob(X)).all()
        np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)


@pytest.mark.parametrize("weights", [[1 / 3] * 3, [0.1] * 10, np.full(3, 1 / 3, np.float32)])
def test_weights_that_sum_to_almost_one_are_accepted(weights):
    model = BernoulliMixtureModel(weights, np.full((len(weights), 2), 0.5))
    for n in (0, 1, 2, 7, 1000):
        assert model.sample(n, Noise(0, "sample")).shape == (n, 2)


def test_weights_that_do_not_sum_to_one_are_refused():
    with pytest.raises(UserValueError, match=r"sum to 1 \(got 0.75\)"):
        BernoulliMixtureModel([0.5, 0.25], np.full((2, 2), 0.5))


def test_sampling_leaves_the_model_alone_and_follows_its_seed():
    X = (np.random.default_rng(0).random((50, 4)) < 0.5).astype(float)
    model = BernoulliMixture(n_components=2, random_state=0).fit(X)
    before = model.means_.copy()
    first, second = model.sample(20), model.sample(20)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(model.sample(20, random_state=3), model.sample(20, random_state=3))
    np.testing.assert_array_equal(before, model.means_)


@pytest.mark.parametrize(
    ("rows", "k", "distinct"),
    [(np.repeat([[0, 0], [1, 1]], 50, axis=0), 3, 2), (np.zeros((20, 2)), 2, 1), (np.array([[1, 0]] * 2), 2, 1)],
)
def test_more_components_than_distinct_rows_is_told(rows, k, distinct):
    with pytest.warns(UserWarning, match=f"{k} components, {distinct} distinct rows"):
        mixture = BernoulliMixture(n_components=k, random_state=0).fit(rows)
    assert np.isfinite(mixture.score(rows))


def test_models_that_are_none_are_refused():
    for weights in ([np.nan, 1.0], [-0.5, 1.5], [0.5, 0.25]):
        with pytest.raises(UserValueError, match="sum to 1"):
            BernoulliMixtureModel(weights, np.full((2, 2), 0.5))
    for means in ([[np.nan, 0.5]], [[0.5, 7.0]], [[-0.1, 0.5]]):
        with pytest.raises(UserValueError, match=r"must be probabilities in \[0, 1\]"):
            BernoulliMixtureModel([1.0], means)


@pytest.mark.spec("BAY-50")
def test_a_component_without_rows_keeps_its_means():
    means = np.array([[0.2, 0.9], [0.6, 0.4]])
    model = BernoulliMixtureModel([1.0, 0.0], means)
    X = np.array([[1.0, 0.0], [1.0, 1.0]])
    model.maximize(model.expect(X, np.ones(2)))
    np.testing.assert_array_equal(model.weights, [1.0, 0.0])
    np.testing.assert_array_equal(model.means[1], means[1])
    np.testing.assert_allclose(model.means[0], X.mean(0), atol=1e-9)


def test_rows_of_no_weight_are_not_among_the_distinct_ones():
    X = np.array([[0, 0], [1, 1], [0, 1]])
    with pytest.warns(UserWarning, match="3 components, 2 distinct rows"):
        BernoulliMixture(n_components=3, random_state=0).fit(X, sample_weight=[1.0, 1.0, 0.0])
    BernoulliMixture(n_components=3, random_state=0).fit(X)  # warns of nothing


def test_without_smoothing_a_probability_that_should_be_0_is_told_of():
    """B2-17: the floor is 1e-12, and said; with smoothing, or where both values were seen, nothing is said."""
    X = np.tile([1.0, 0, 1, 0, 1], (3, 1))
    with pytest.warns(UserWarning, match="5 columns.*probability is set to 1e-12.*set smoothing above 0"):
        model = BernoulliMixture(n_components=1, smoothing=0.0, random_state=0).fit(X)
    np.testing.assert_allclose(model.log_prob([[1.0, 0, 1, 0, 0], X[0]]), [np.log(1e-12), 0], atol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BernoulliMixture(n_components=1, random_state=0).fit(X)
        BernoulliMixture(n_components=1, smoothing=0.0, random_state=0).fit(np.r_[X, 1 - X])
