"""A hidden component in place of a search for structure: which joints it has, what it costs, what it says of a row."""

import itertools

import numpy as np
import pytest

from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixture
from oracles.binary import all_states

PAIRS = all_states(2)


def rows_of(counts, states=PAIRS):
    return np.repeat(states, counts, axis=0)


@pytest.mark.spec("REP-150")
@pytest.mark.filterwarnings("ignore:a component has one value only")
@pytest.mark.parametrize(
    "counts", [(40, 10, 10, 40), (5, 45, 45, 5), (10, 20, 30, 40), (1, 0, 0, 3), (7, 0, 2, 5), (25, 25, 25, 25)]
)
def test_one_hidden_bit_has_any_joint_of_two_bits_and_em_reaches_it(counts):
    """p(v) = sum_h p(h) p(v_1 | h) p(v_2 | h) has rank 2, as every 2 x 2 table has at most."""
    X, p = rows_of(counts), np.array(counts) / sum(counts)
    options = {"smoothing": 0.0, "n_init": 2, "max_iter": 150, "tol": 0.0}
    mixture = BernoulliMixture(n_components=2, random_state=0, **options).fit(X)
    np.testing.assert_allclose(np.exp(mixture.log_prob(PAIRS)), p, atol=2e-4)
    entropy = -(p[p > 0] @ np.log(p[p > 0]))
    assert -mixture.score(X) == pytest.approx(entropy, abs=1e-5)
    made = np.einsum("k,ka,kb->ab", mixture.weights_, *(_two(mixture.means_[:, j]) for j in range(2)))
    np.testing.assert_allclose(made.ravel(), p, atol=2e-4)


def _two(p):
    return np.stack([1 - p, p], axis=1)


@pytest.mark.spec("REP-150")
def test_columns_depend_on_each_other_through_the_hidden_component_alone():
    """Every pair of columns is dependent, and none given the component; parameters grow with d, not with 2^d."""
    random, d, k = np.random.default_rng(0), 6, 2
    h = random.random(4000) < 0.4
    X = (random.random((4000, d)) < np.where(h[:, None], 0.85, 0.2)).astype(float)
    mixture = BernoulliMixture(n_components=k, random_state=0).fit(X)
    states = all_states(d)
    p = np.exp(mixture.log_prob(states))
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert mixture.model_.n_parameters == (k - 1) + k * d < 2**d - 1
    joint = mixture.predict_proba(states) * p[:, None]  # p(v, h) of every state
    for i, j in itertools.combinations(range(d), 2):
        table = np.array([[p[(states[:, i] == a) & (states[:, j] == b)].sum() for b in (0, 1)] for a in (0, 1)])
        assert abs(np.linalg.det(table)) > 0.05
        for one in range(k):
            given = joint[:, one] / joint[:, one].sum()
            law = [[given[(states[:, i] == a) & (states[:, j] == b)].sum() for b in (0, 1)] for a in (0, 1)]
            assert abs(np.linalg.det(np.array(law))) < 1e-10


@pytest.mark.spec("REP-150")
@pytest.mark.parametrize("kind", ["bernoulli", "gaussian"])
def test_codes_are_the_responsibilities_in_closed_form_and_the_label_their_largest(kind):
    """p(h | v) = p(h) p(v | h) / sum: features of a row, and a classification by the component."""
    random = np.random.default_rng(1)
    h = random.integers(0, 2, 300)
    if kind == "bernoulli":
        X = (random.random((300, 4)) < np.where(h[:, None] == 1, 0.9, 0.2)).astype(float)
        mixture = BernoulliMixture(n_components=2, random_state=0).fit(X)
        m = mixture.means_
        density = np.array([[np.prod(np.where(x == 1, row, 1 - row)) for row in m] for x in X])
    else:
        X = random.normal(size=(300, 2)) + np.where(h[:, None] == 1, 3.0, -3.0)
        mixture = GaussianMixture(n_components=2, random_state=0).fit(X)
        density = np.empty((300, 2))
        for c, (mean, cov) in enumerate(zip(mixture.means_, mixture.covariances_, strict=True)):
            away = X - mean
            quadratic = np.sum(away @ np.linalg.inv(cov) * away, axis=1)
            density[:, c] = np.exp(-0.5 * quadratic) / np.sqrt(np.linalg.det(2 * np.pi * cov))
    joint = density * mixture.weights_
    responsibility = joint / joint.sum(1, keepdims=True)
    np.testing.assert_allclose(mixture.transform(X), responsibility, atol=1e-10)
    np.testing.assert_allclose(mixture.log_prob(X), np.log(joint.sum(1)), atol=1e-10)
    np.testing.assert_array_equal(mixture.predict(X), responsibility.argmax(1))
    truth = mixture.predict(X) == h
    assert max(truth.mean(), 1 - truth.mean()) > 0.9  # the components are known up to their order
    assert len(mixture.get_feature_names_out()) == 2


@pytest.mark.spec("REP-150")
def test_the_best_of_several_starts_is_kept():
    """Local optima: each start by itself, and the fit from all of them."""
    random = np.random.default_rng(3)
    prototypes = (random.random((6, 8)) < 0.5).astype(float)
    X = np.abs(prototypes[random.integers(0, 6, 200)] - (random.random((200, 8)) < 0.1))
    options = {"n_components": 6, "max_iter": 200}
    many = BernoulliMixture(n_init=6, random_state=0, **options).fit(X)
    first = BernoulliMixture(random_state=0, **options).fit(X)
    record = many.history_
    ends = [
        [value for value, at in zip(record["log_likelihood"], record["start"], strict=True) if at == i]
        for i in range(6)
    ]
    assert len({round(end[-1], 3) for end in ends}) > 1  # several optima
    reached = many.score(X) + many.model_.log_prior() / len(X)
    assert reached == pytest.approx(max(record["objective"]), abs=1e-6)
    assert reached >= first.score(X) + first.model_.log_prior() / len(X) - 1e-9
    assert ends[0] == pytest.approx(first.history_["log_likelihood"], abs=1e-12)
