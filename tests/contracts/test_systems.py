"""Every system of the catalog keeps every contract."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import gnomon
from gnomon.errors import UserError, UserValueError
from gnomon.testing import CHECKS, arrays_of
from oracles.ways import EVERY, NAMES, TABLES, brief, brief_case, case, first_of, made

pytestmark = pytest.mark.filterwarnings("ignore:too little text")

LEARNED = ("improves", "stays_finite")
"""Checks of what a fit has learned; the others hold after any number of steps."""
ALONE = [name for name in CHECKS if name != "processes_agree"]


@pytest.mark.parametrize("way", EVERY)
@pytest.mark.parametrize("check", ALONE)
def test_contract(way, check):
    (case if check in LEARNED else brief_case)(way).check(check)


@pytest.mark.filterwarnings("ignore:the loss .* grew")  # a few epochs on a few rows
@pytest.mark.parametrize("way", EVERY)
def test_fitting_again_on_other_data_leaves_nothing_behind(way):
    system = brief(way)
    X, y = brief_case(way).X, brief_case(way).y
    first = arrays_of(brief_case(way).fitted)
    half = X[:30, :4] if isinstance(X, np.ndarray) else first_of(X, 10)
    answers = None if y is None else y[: len(half)]
    if np.ndim(answers) == 3:  # labels of pixels
        answers = answers[:, :4]
    system.fit(half, answers)
    again = arrays_of(system.fit(X, y))
    assert first.keys() == again.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_parameter_names_the_nearest(name):
    system = gnomon.make(name)
    known = next(iter(system.get_params(deep=False)))
    with pytest.raises(ValueError, match=known):
        system.set_params(**{known[:-1] + "q": 1})


@pytest.mark.parametrize("name", ["rbm", "bernoulli-mixture"])
def test_a_generator_advances_and_gives_two_fits(name):
    X, y = case(name).X, case(name).y
    generator = np.random.default_rng(0)
    first = arrays_of(made(name).set_params(random_state=generator).fit(X, y))
    second = arrays_of(made(name).set_params(random_state=generator).fit(X, y))
    assert any(not np.array_equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("name", TABLES)
def test_a_fit_that_fails_leaves_the_earlier_one_whole(name):
    X, y = brief_case(name).X, brief_case(name).y
    system = brief(name).fit(X, y)
    score = system.score(X, y)
    narrow = np.ones((10, 3))
    for spoiled, options in ((np.full((10, 3), np.inf), {}), (narrow, {"sample_weight": np.zeros(10)})):
        with pytest.raises(UserError):
            system.fit(spoiled, np.arange(10) % 2, **options)
        assert system.score(X, y) == score
        assert system.n_features_in_ == 5


@pytest.mark.parametrize("name", ["ppca", "bernoulli-mixture", "rbm"])
@pytest.mark.parametrize("n", [-1, 1.5, "3", None, 2**40])
def test_numbers_of_samples_that_are_none(name, n):
    X, y = case(name).X, case(name).y
    with pytest.raises(UserError, match="n must be"):
        made(name).fit(X, y).sample(n)


def test_every_verb_says_that_nothing_is_fitted():
    X = np.eye(5)
    rbm, ppca = made("rbm"), made("ppca")
    verbs = [rbm.sample, rbm.log_partition, ppca.get_covariance, lambda: ppca.inverse_transform(X[:, :2])]
    for verb in [*verbs, lambda: rbm.evaluate(X), lambda: ppca.log_prob(X)]:
        with pytest.raises(NotFittedError):
            verb()


@pytest.mark.parametrize(("name", "parameter"), [("rbm", "n_hidden"), ("vae", "n_latent")])
def test_a_model_that_no_memory_holds_is_refused(name, parameter):
    X, y = case(name).X, case(name).y
    with pytest.raises(UserValueError, match=f"too large.*{parameter}"):
        made(name).set_params(**{parameter: 10**20}).fit(X, y)
