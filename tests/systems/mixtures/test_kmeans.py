"""K-means: the limit of EM, scikit-learn from the same centers, and the best of all partitions."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans as Peer

import gnomon
from gnomon.errors import UserValueError
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixtureModel
from gnomon.systems.mixtures.kmeans import KMeans, KMeansModel


def rows(n=300, d=3, seed=0):
    random = np.random.default_rng(seed)
    return 2 * random.normal(size=(6, d))[random.integers(6, size=n)] + random.normal(size=(n, d))


def lloyd(X, centers, iterations):
    """scikit-learn's centers and inertia after so many iterations from these centers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an end without convergence
        peer = Peer(len(centers), init=centers, n_init=1, max_iter=iterations, tol=0, algorithm="lloyd").fit(X)
    return peer.cluster_centers_, peer.labels_, peer.inertia_


def shrunk(X, centers, weights, variance, iterations):
    """EM for the means alone, under one covariance variance * I that stays; responsibilities of the last step."""
    d = centers.shape[1]
    model = GaussianMixtureModel(weights, centers, variance * np.eye(d), "tied")
    found = []
    for _ in range(iterations):
        sums = model.expect(X, np.ones(len(X)))
        found.append(-2 * variance * float(sums["log_likelihood"]))
        model.maximize(sums)
        model = GaussianMixtureModel(model.weights, model.means, variance * np.eye(d), "tied")
    return model, found


@pytest.mark.spec("BAY-52")
@pytest.mark.parametrize("weights", [np.full(5, 0.2), np.array([0.6, 0.1, 0.1, 0.1, 0.1])])
def test_em_with_a_vanishing_shared_covariance_is_lloyds_algorithm(weights):
    """Iteration by iteration: the same centers and clusters, whatever the weights; the inertia is what EM lowers."""
    X = rows()
    start = X[:5]
    inertias = []
    for iterations in range(1, 12):
        centers, labels, inertia = lloyd(X, start, iterations)
        model, scaled = shrunk(X, start, weights, 1e-6, iterations)
        np.testing.assert_allclose(model.means, centers, atol=1e-8)
        part = model.posterior(X)
        assert (part.argmax(1) == labels).all()
        assert (part.max(1) > 1 - 1e-6).all()
        inertias.append(inertia)
    nearest = ((X[:, None] - start) ** 2).sum(2).min(1).sum()
    # -2 e log p(x) = |x - nearest|^2 + O(e log e) per row
    np.testing.assert_allclose(scaled[1:], inertias[:10], rtol=1e-4)
    assert scaled[0] == pytest.approx(nearest, rel=1e-4)
    assert (np.diff(inertias) <= 1e-9).all()
    assert inertias[-1] < 0.9 * inertias[0]


@pytest.mark.spec("BAY-52")
def test_a_wide_shared_covariance_is_not_k_means():
    """The limit is one: with variance 1 the memberships are soft and the means others."""
    X = rows()
    centers, _, _ = lloyd(X, X[:5], 11)
    model, _ = shrunk(X, X[:5], np.full(5, 0.2), 1.0, 11)
    assert abs(model.means - centers).max() > 0.05


@pytest.mark.spec("BAY-52")
def test_the_fitted_clusters_are_a_fixed_point_of_em_and_of_scikit_learn():
    X = rows()
    kmeans = KMeans(n_clusters=5, n_init=60, tol=0, random_state=0).fit(X)
    centers, labels, inertia = lloyd(X, kmeans.cluster_centers_, 50)
    np.testing.assert_allclose(kmeans.cluster_centers_, centers, atol=1e-12)
    np.testing.assert_array_equal(kmeans.labels_, labels)
    assert kmeans.inertia_ == pytest.approx(inertia, rel=1e-12)
    model, _ = shrunk(X, kmeans.cluster_centers_, np.full(5, 0.2), 1e-6, 3)
    np.testing.assert_allclose(model.means, kmeans.cluster_centers_, atol=1e-8)
    np.testing.assert_array_equal(model.posterior(X).argmax(1), kmeans.predict(X))
    best = Peer(5, n_init=50, random_state=1).fit(X).inertia_
    assert kmeans.inertia_ <= best * (1 + 1e-9)


@pytest.mark.spec("BAY-52")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [2, 3])
def test_the_best_of_all_partitions_of_eight_rows(k, seed):
    X = np.random.default_rng(seed).normal(size=(8, 2))
    weight = np.random.default_rng(seed + 9).uniform(0.5, 2, 8)
    smallest = np.inf
    for labels in itertools.product(range(k), repeat=8):
        labels, total = np.array(labels), 0.0
        for c in range(k):
            w, x = weight[labels == c], X[labels == c]
            if len(x):
                total += (w[:, None] * (x - w @ x / w.sum()) ** 2).sum()
        smallest = min(smallest, total)
    fitted = KMeans(n_clusters=k, n_init=400, random_state=seed).fit(X, sample_weight=weight)
    assert fitted.inertia_ == pytest.approx(smallest, rel=1e-10)


@pytest.mark.spec("BAY-52")
def test_the_best_end_of_all_starts_is_kept():
    """HB-12: of the centers as they are kept, after any number of iterations."""
    for seed in range(8):
        X = np.random.default_rng(seed).normal(size=(60, 3))
        for iterations in (1, 2):
            options = {"n_clusters": 5, "max_iter": iterations, "random_state": seed}
            ends = [KMeans(n_init=n, **options).fit(X).inertia_ for n in (1, 2, 3, 5, 8)]
            assert ends == sorted(ends, reverse=True)


@pytest.mark.spec("BAY-52")
def test_verbs_by_hand():
    model = KMeans(n_clusters=2, random_state=0).fit([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 4.0]])
    order = np.argsort(model.cluster_centers_[:, 0])
    np.testing.assert_array_equal(model.cluster_centers_[order], [[0, 1], [9, 2]])
    np.testing.assert_allclose(model.transform([[0.0, 5.0]])[:, order], [[4, np.hypot(9, 3)]], atol=1e-6)
    assert model.predict([[1.0, 1.0]])[0] == order[0]
    assert model.inertia_ == pytest.approx(1 + 1 + 4 + 4)
    assert model.score([[0.0, 3.0], [9.0, 2.0]]) == pytest.approx(-2.0)
    assert not model.evaluate([[0.0, 3.0]])["squared_distance"].higher_is_better
    assert model.model_.n_parameters == 4


@pytest.mark.spec("BAY-52")
def test_fewer_distinct_rows_than_clusters_are_told():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0)
    for seed in range(20):
        with pytest.warns(UserWarning, match="3 clusters, 2 distinct rows"):
            kmeans = KMeans(n_clusters=3, random_state=seed).fit(X)
        assert np.isfinite(kmeans.cluster_centers_).all()
        assert kmeans.inertia_ == pytest.approx(0, abs=1e-20)
    with pytest.raises(UserValueError, match=r"at most n_samples=2"):
        KMeans(n_clusters=3).fit(X[:2])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_saved_model_is_its_centers(tmp_path, dtype):
    X = rows().astype(dtype)
    kmeans = KMeans(n_clusters=4, random_state=0).fit(X)
    again = gnomon.load(kmeans.save(tmp_path / "model"))
    assert again.cluster_centers_.dtype == dtype
    np.testing.assert_array_equal(again.cluster_centers_, kmeans.cluster_centers_)
    np.testing.assert_array_equal(again.predict(X), kmeans.labels_)
    assert again.inertia_ == kmeans.inertia_


def test_random_state_is_the_only_seed():
    X = rows()
    first, second = (KMeans(n_clusters=6, n_init=1, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    others = [KMeans(n_clusters=6, n_init=1, random_state=s).fit(X).inertia_ for s in range(10)]
    assert len({round(value, 6) for value in others}) > 1


def test_rows_go_to_the_nearest_center():
    model = KMeansModel([[0.0], [5.0]])
    np.testing.assert_array_equal(model.nearest(np.array([[1.0], [4.0], [2.5]])), [0, 1, 0])
    np.testing.assert_allclose(model.squared_distance(np.array([[1.0], [7.0]])), [1, 4])
