"""The Gaussian mixture: numbers by hand, parity with scikit-learn, climbs, degenerate data, sampling, criteria."""

import warnings

import numpy as np
import pytest
from scipy import integrate, stats
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as Peer

import gnomon
from gnomon.errors import UserError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.systems.mixtures.covariances import Diag, Full, Spherical, Tied
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixture, GaussianMixtureModel
from gnomon.testing import check_system

FORMS = ("full", "tied", "diag", "spherical")
RECIPES = {"full": Full, "tied": Tied, "diag": Diag, "spherical": Spherical}


def blobs(n=150, d=3, k=3, seed=0, offset=0.0):
    random = np.random.default_rng(seed)
    return offset + np.concatenate(
        [random.normal(size=(n, d)) @ random.normal(size=(d, d)) + 2 * random.normal(size=d) for _ in range(k)]
    )


def unit(form, k, d):
    """Covariances and precisions all one, in their form."""
    return {"full": np.tile(np.eye(d), (k, 1, 1)), "tied": np.eye(d), "diag": np.ones((k, d)), "spherical": np.ones(k)}[
        form
    ]


def iterate(model, X, n, weight=None):
    """Log-likelihood (sum) at the start of each of n iterations."""
    found = []
    for _ in range(n):
        sums = model.expect(X, np.ones(len(X)) if weight is None else weight)
        found.append(float(sums["log_likelihood"]))
        model.maximize(sums)
    return np.array(found)


@pytest.mark.spec("BAY-50")
@pytest.mark.parametrize("form", ["full", "diag", "spherical"])
def test_four_points_in_numbers(form):
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    model = GaussianMixtureModel([0.5, 0.5], [[-1.0], [1.0]], unit(form, 2, 1), form)
    first, second = iterate(model, X, 1), None
    assert first[0] == pytest.approx(-7.158187, abs=1e-6)
    np.testing.assert_allclose(model.means[:, 0], [-1.344825, 1.344825], atol=1e-6)
    np.testing.assert_allclose(model.normals.dense()[:, 0, 0], 0.691447, atol=1e-6)
    second = iterate(model, X, 1)
    assert second[0] == pytest.approx(-6.461856, abs=1e-6)
    np.testing.assert_allclose(model.means[:, 0], [-1.479126, 1.479126], atol=1e-6)
    np.testing.assert_allclose(model.normals.dense()[:, 0, 0], 0.312186, atol=1e-6)
    assert model.log_prob(X).sum() == pytest.approx(-5.724278, abs=1e-6)


@pytest.mark.spec("BAY-50", "BAY-75")
@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("form", FORMS)
def test_every_iteration_is_scikit_learns(form, offset):
    X = blobs(offset=offset)
    weights, means = np.array([0.2, 0.3, 0.5]), X[[0, 200, 400]]
    model = GaussianMixtureModel(weights, means, unit(form, 3, 3), form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an end without convergence
        peer = Peer(
            3, covariance_type=form, weights_init=weights, means_init=means, precisions_init=unit(form, 3, 3),
            reg_covar=0, tol=0, max_iter=40,
        ).fit(X)  # fmt: skip
    np.testing.assert_allclose(iterate(model, X, 40) / len(X), peer.lower_bounds_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.normals.covariances, peer.covariances_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.posterior(X), peer.predict_proba(X), atol=1e-7)
    parameters = model.n_parameters
    assert parameters == peer._n_parameters()
    assert parameters * np.log(len(X)) - 2 * model.log_prob(X).sum() == pytest.approx(peer.bic(X), abs=1e-5)


@pytest.mark.spec("BAY-50")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_the_likelihood_never_falls_and_ends_stationary(form, seed):
    X = np.concatenate([blobs(40, seed=seed), np.zeros((6, 3))])  # six equal rows: the floor is needed
    X[:, 2] *= 1e-3
    weight = np.random.default_rng(seed).uniform(0.1, 3, len(X))
    mixture = GaussianMixture(
        n_components=5, covariance=RECIPES[form](1e-4), max_iter=3000, tol=1e-13, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mixture.fit(X, sample_weight=weight)
    assert np.diff(mixture.history_["log_likelihood"]).min() > -1e-10
    model = mixture.model_

    def likelihood(means):
        other = GaussianMixtureModel(model.weights, means, model.normals.covariances, form)
        return weight @ other.log_prob(X)

    for index in np.ndindex(model.means.shape):
        step = np.zeros_like(model.means)
        step[index] = 1e-5 * np.sqrt(model.normals.dense()[index[0], index[1], index[1]])
        slope = (likelihood(model.means + step) - likelihood(model.means - step)) / 2e-5
        assert abs(slope) < 0.05 * len(X) ** 0.5


@pytest.mark.spec("BAY-75")
@pytest.mark.parametrize("form", FORMS)
def test_five_points_have_one_answer(form):
    X = np.arange(5.0)[:, None]
    mixture = GaussianMixture(n_components=1, covariance=RECIPES[form](0.0), random_state=0).fit(X)
    assert mixture.means_[0, 0] == pytest.approx(2, abs=1e-14)
    assert float(np.ravel(mixture.covariances_)[0]) == pytest.approx(2, abs=1e-13)
    assert mixture.log_prob(X).sum() == pytest.approx(-8.827560617423227, abs=1e-12)
    assert mixture.model_.n_parameters == 2
    assert mixture.bic(X) == pytest.approx(20.873997059714654, abs=1e-11)
    assert mixture.aic(X) == pytest.approx(21.655121234846455, abs=1e-11)


def test_identical_components_are_one():
    X = blobs(20)
    covariance = np.cov(X.T)
    weights, means = [0.2, 0.3, 0.5], np.tile(X.mean(0), (3, 1))
    full = GaussianMixtureModel(weights, means, np.tile(covariance, (3, 1, 1)), "full")
    tied = GaussianMixtureModel(weights, means, covariance, "tied")
    one = GaussianMixtureModel([1.0], means[:1], covariance, "tied")
    np.testing.assert_allclose(full.log_prob(X), tied.log_prob(X), atol=1e-12)
    np.testing.assert_allclose(one.log_prob(X), tied.log_prob(X), atol=1e-12)
    iterate(full, X, 1)
    iterate(tied, X, 1)
    assert full.log_prob(X).sum() == pytest.approx(tied.log_prob(X).sum(), abs=1e-9)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (4, 5)])
def test_free_parameters(k, d):
    counts = {
        "full": k - 1 + k * d + k * d * (d + 1) // 2, "tied": k - 1 + k * d + d * (d + 1) // 2,
        "diag": k - 1 + 2 * k * d, "spherical": k - 1 + k * d + k,
    }  # fmt: skip
    for form, count in counts.items():
        model = GaussianMixtureModel(np.full(k, 1 / k), np.zeros((k, d)), unit(form, k, d), form)
        assert model.n_parameters == count


@pytest.mark.spec("BAY-75")
@pytest.mark.parametrize("form", FORMS)
def test_the_fitted_density_integrates_to_one(form):
    X = blobs(60, 1)
    mixture = GaussianMixture(n_components=3, covariance=form, random_state=0).fit(X)
    total, _ = integrate.quad(lambda x: np.exp(mixture.log_prob([[x]])[0]), -60, 60, limit=500, points=[-5, 0, 5])
    assert total == pytest.approx(1, abs=1e-7)
    X = blobs(60, 2)
    mixture = GaussianMixture(n_components=2, covariance=form, random_state=0).fit(X)
    grid = np.arange(-30, 30, 0.05)
    points = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
    assert np.exp(mixture.log_prob(points)).sum() * 0.05**2 == pytest.approx(1, abs=1e-6)


@pytest.mark.spec("BAY-75")
def test_samples_follow_the_density():
    model = GaussianMixtureModel([0.2, 0.5, 0.3], [[-3.0], [0.0], [4.0]], [0.5, 1.0, 2.0], "spherical")
    x = model.sample(20_000, Noise(0, "sample"))[:, 0]

    def distribution(x):
        return sum(w * stats.norm(m[0], v**0.5).cdf(x) for w, m, v in zip(
            model.weights, model.means, model.normals.covariances, strict=True))  # fmt: skip

    assert stats.kstest(x, distribution).pvalue > 1e-4  # false alarm 1e-4
    far = GaussianMixtureModel([0.2, 0.5, 0.3], [[-1e6], [0.0], [1e6]], [1.0, 1.0, 1.0], "spherical")
    counts = []
    for seed in range(2000):
        rows = far.sample(10, Noise(seed, "sample"))[:, 0]
        counts.append(np.histogram(rows, [-2e6, -5e5, 5e5, 2e6])[0])
    first = np.bincount(np.array(counts)[:, 0], minlength=11)
    wanted = stats.binom(10, 0.2).pmf(np.arange(11)) * 2000
    pooled = np.append(first[:5], first[5:].sum()), np.append(wanted[:5], wanted[5:].sum())
    assert stats.chisquare(*pooled).pvalue > 1e-4  # false alarm 1e-4


@pytest.mark.spec("BAY-75")
@pytest.mark.parametrize("form", FORMS)
def test_samples_have_the_covariance_of_every_form(form):
    """Two components far apart in two columns; shares, means and covariances within 5 errors (false alarm 1e-5)."""
    full = np.array([[[2.0, 0.9], [0.9, 0.7]], [[0.5, -0.6], [-0.6, 3.0]]])
    given = {
        "full": full,
        "tied": full[0],
        "diag": np.array([[2.0, 0.3], [0.5, 3.0]]),
        "spherical": np.array([2.0, 0.5]),
    }
    model = GaussianMixtureModel([0.3, 0.7], [[-100.0, 5.0], [100.0, -5.0]], given[form], form)
    n = 40_000
    x = model.sample(n, Noise(0, "sample"))
    assert abs((x[:, 0] < 0).mean() - 0.3) < 5 * np.sqrt(0.21 / n)
    for c, rows in enumerate((x[x[:, 0] < 0], x[x[:, 0] > 0])):
        own = given[form] if form == "tied" else given[form][c]
        C = own if form in ("full", "tied") else np.diag(np.broadcast_to(own, 2))
        error = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / len(rows))
        assert (abs(np.cov(rows.T) - C) < 5 * error).all()
        assert (abs(rows.mean(0) - model.means[c]) < 5 * np.sqrt(np.diag(C) / len(rows))).all()
        np.testing.assert_allclose(
            model.log_prob(rows[:5]),
            np.log([0.3, 0.7][c]) + stats.multivariate_normal(model.means[c], C).logpdf(rows[:5]),
        )


@pytest.mark.parametrize("n", range(2, 41))
def test_one_component_on_few_rows_samples(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # two rows lie on a line
        mixture = GaussianMixture(n_components=1, random_state=0).fit(X)
    assert mixture.weights_.tolist() == [1.0]
    assert mixture.sample(7).shape == (7, 2)


@pytest.mark.parametrize("weights", [[1 / 3] * 3, [0.1] * 10, np.full(3, 1 / 3, np.float32)])
def test_weights_that_sum_to_almost_one_are_accepted(weights):
    k = len(weights)
    model = GaussianMixtureModel(weights, np.zeros((k, 2)), np.ones(k), "spherical")
    for n in (0, 1, 2, 10, 1000):
        assert model.sample(n, Noise(0, "sample")).shape == (n, 2)


def test_models_that_are_none_are_refused():
    with pytest.raises(UserValueError, match=r"sum to 1 \(got 0.75\)"):
        GaussianMixtureModel([0.5, 0.25], np.zeros((2, 2)), np.ones(2), "spherical")
    with pytest.raises(UserValueError, match="did you mean full"):
        GaussianMixtureModel([1.0], np.zeros((1, 2)), np.ones((1, 2, 2)), "ful")
    with pytest.raises(UserValueError, match="one per weight"):
        GaussianMixtureModel([0.5, 0.5], np.zeros((1, 2)), np.ones(1), "spherical")


def test_sampling_leaves_the_model_alone_and_follows_its_seed():
    mixture = GaussianMixture(n_components=2, random_state=0).fit(blobs(20))
    before = {name: value.copy() for name, value in mixture.model_.state().items()}
    assert not np.array_equal(mixture.sample(20), mixture.sample(20))
    np.testing.assert_array_equal(mixture.sample(20, random_state=3), mixture.sample(20, random_state=3))
    for name, value in mixture.model_.state().items():
        np.testing.assert_array_equal(value, before[name])


CONSTANT = np.c_[np.random.default_rng(0).normal(size=50), np.full(50, 7.0)]
DEGENERATE = {
    "2 distinct rows": (np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0), 3, "3 components, 2 distinct rows"),
    "1 distinct row": (np.zeros((20, 2)), 2, "2 components, 1 distinct rows"),
    "1 row": (np.array([[1.0, 2.0]]), 1, "floor used"),
    "a constant column": (CONSTANT, 2, "floor used"),
}


@pytest.mark.spec("BAY-48", "BAY-50", "BAY-75")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_data_give_a_finite_fit_and_a_notice(case, form):
    X, k, notice = DEGENERATE[case]
    if form == "spherical" and case == "a constant column":
        notice = None  # one variance for both columns is not small
    for seed in range(20):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mixture = GaussianMixture(n_components=k, covariance=form, random_state=seed).fit(X)
        assert notice is None or any(notice in str(one.message) for one in caught)
        assert mixture.weights_.sum() == pytest.approx(1, abs=1e-12)
        assert np.isfinite(mixture.log_prob(X)).all()
        np.testing.assert_allclose(mixture.predict_proba(X).sum(1), 1, atol=1e-12)
        assert np.isfinite(mixture.sample(5, random_state=0)).all()


@pytest.mark.parametrize("mixture", [GaussianMixture, gnomon.BernoulliMixture])
def test_more_components_than_rows_are_refused(mixture):
    """As scikit-learn does; of as many, a notice at most."""
    X = np.eye(4)[:, :3]
    with pytest.raises(UserValueError, match=r"^n_components must be at most n_samples=4, got n_components=5"):
        mixture(n_components=5).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert mixture(n_components=4, random_state=0).fit(X).means_.shape == (4, 3)


def test_without_a_floor_a_singular_covariance_names_its_component():
    with pytest.raises(UserError, match=r"component 0.*floor > 0"):
        GaussianMixture(n_components=1, covariance=Full(0.0), random_state=0).fit(CONSTANT)


def test_units_and_offsets_of_the_columns_change_nothing():
    X = blobs(60)
    moved = X * [1e-6, 1.0, 1e6] + [1.0, -50.0, 1e7]
    for form in ("full", "tied", "diag"):
        a = GaussianMixture(n_components=3, covariance=form, random_state=0).fit(X)
        b = GaussianMixture(n_components=3, covariance=form, random_state=0).fit(moved)
        np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(moved), atol=1e-6)


def test_the_order_of_the_rows_changes_nothing():
    X = blobs(60)
    order = np.random.default_rng(0).permutation(len(X))
    a = GaussianMixture(n_components=3, random_state=0).fit(X)
    b = GaussianMixture(n_components=3, random_state=0).fit(X[order])
    np.testing.assert_allclose(a.means_, b.means_, atol=1e-9)


def test_more_starts_never_end_lower_and_keep_every_contract():
    X = blobs(30, 2, 6, seed=4)
    options = {"n_components": 6, "covariance": "diag", "tol": 1e-9, "random_state": 1}
    ends = [GaussianMixture(n_init=n, **options).fit(X).score(X) for n in (1, 8)]
    assert ends[1] >= ends[0]
    several = GaussianMixture(n_init=8, **options).fit(X)
    history = several.history_
    last = [i for i, s in enumerate(history["start"]) if i + 1 == len(history["start"]) or history["start"][i + 1] != s]
    tops = [history["log_likelihood"][i] for i in last]
    assert len(tops) == 8
    assert np.ptp(tops) > 1e-3  # the starts differ, so that there is something to choose
    assert several.score(X) == pytest.approx(max(tops), abs=1e-6)
    check_system(GaussianMixture(n_components=2, n_init=3, max_iter=6, random_state=0), processes=False)


@pytest.mark.spec("BAY-48")
@pytest.mark.parametrize("form", ["full", "tied", "diag", "spherical"])
def test_the_best_end_of_all_starts_is_kept(form):
    """HB-12: the end, not what the last iteration began with; after any number of iterations."""
    X = np.random.default_rng(0).normal(size=(240, 4))
    for iterations in (1, 2):
        for seed in range(6):
            options = {"n_components": 4, "covariance": form, "max_iter": iterations, "random_state": seed}
            ends = [GaussianMixture(n_init=n, **options).fit(X) for n in (1, 2, 6)]
            scores = [end.score(X) for end in ends]
            assert scores == sorted(scores)
            assert ends[-1].history_["objective"][-1] == pytest.approx(scores[-1], abs=1e-9)


def test_many_rows_start_from_some_of_them(monkeypatch):
    from gnomon.systems.mixtures import gaussian_mixture

    X = blobs(2000, seed=5)
    whole = GaussianMixture(n_components=3, tol=1e-9, max_iter=2000, random_state=0).fit(X)
    monkeypatch.setattr(gaussian_mixture, "STARTING_ROWS", 500)
    part = GaussianMixture(n_components=3, tol=1e-9, max_iter=2000, random_state=0).fit(X)
    assert part.model_.starts[0]["means"].tolist() != whole.model_.starts[0]["means"].tolist()
    assert part.score(X) == pytest.approx(whole.score(X), abs=1e-5)


@pytest.mark.parametrize(("load", "least"), [(load_iris, 0.85), (load_wine, 0.8)])
def test_real_classes_are_found(load, least):
    X, y = load(return_X_y=True)
    mixture = GaussianMixture(n_components=3, covariance="tied", n_init=5, random_state=0).fit(X)
    assert adjusted_rand_score(y, mixture.labels_) > least


def test_slots_by_name_recipe_and_address(tmp_path):
    mixture = gnomon.GaussianMixture(n_components=2, covariance="tied", random_state=0)
    mixture.set_params(covariance__floor=1e-3)
    assert mixture.covariance == Tied(1e-3)
    X = blobs(20)
    folder = mixture.fit(X).save(tmp_path / "model")
    again = gnomon.load(folder)
    np.testing.assert_array_equal(again.log_prob(X), mixture.log_prob(X))
    assert again.covariance == Tied(1e-3)
    with pytest.raises(UserError, match="diag"):
        GaussianMixture(covariance="diagonal").fit(X)
