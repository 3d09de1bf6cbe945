"""Forests: means of trees, random thresholds, importances, threads."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import gnomon
from gnomon.runs.estimators import dumps
from gnomon.systems.ensemble.extra_trees import ExtraTrees, ExtraTreesRegression
from gnomon.systems.ensemble.random_forest import RandomForest, RandomForestRegression


@pytest.mark.spec("DLN-45")
@pytest.mark.parametrize(
    ("system", "peer"), [(RandomForest, RandomForestClassifier), (ExtraTrees, ExtraTreesClassifier)]
)
def test_a_forest_is_the_mean_of_its_trees_and_the_peers(system, peer):
    X, y = load_breast_cancer(return_X_y=True)
    fitted = system(n_trees=15, random_state=0).fit(X[:400], y[:400])
    trees = fitted.model_.estimator.estimators_
    mean = np.mean([tree.predict_proba(X[400:]) for tree in trees], axis=0)
    np.testing.assert_allclose(fitted.predict_proba(X[400:]), mean, atol=1e-12)
    other = peer(n_estimators=15, random_state=fitted.model_.estimator.random_state).fit(X[:400], y[:400])
    np.testing.assert_array_equal(fitted.predict(X[400:]), other.predict(X[400:]))
    assert fitted.score(X[400:], y[400:]) > 0.9


@pytest.mark.spec("DLN-45")
def test_one_column_per_node_gives_splits_that_do_not_see_the_target():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4))
    # different targets, none of which makes a node pure before the second level
    a, b = np.arange(60) % 2, (np.arange(60) // 2) % 2
    roots = []
    for y in (a, b):
        tree = (
            ExtraTrees(n_trees=10, max_depth=1, max_features=1, random_state=0).fit(X, y).model_.estimator.estimators_
        )
        roots.append([(one.tree_.feature[0], one.tree_.threshold[0]) for one in tree])
    assert roots[0] == roots[1]
    free = ExtraTrees(n_trees=10, max_depth=1, max_features=None, random_state=0)
    roots = [[(one.tree_.feature[0], one.tree_.threshold[0]) for one in free.fit(X, y).model_.estimator.estimators_]
             for y in (a, b)]  # fmt: skip
    assert roots[0] != roots[1]


@pytest.mark.spec("DLN-45")
def test_thresholds_are_uniform_between_the_extremes():
    X = np.array([[0.0], [0.9], [1.0], [0.2]])
    y = np.array([0, 1, 0, 1])
    fitted = ExtraTrees(n_trees=400, max_depth=1, random_state=1).fit(X, y)
    t = np.sort([tree.tree_.threshold[0] for tree in fitted.model_.estimator.estimators_])
    assert t[0] > 0 and t[-1] < 1
    grid = np.arange(1, 401) / 400
    assert np.abs(t - grid).max() < 2.7 / np.sqrt(400)  # Kolmogorov: false alarm 2 exp(-2 * 2.7^2) = 1e-6


@pytest.mark.spec("DLN-45", "DLN-46")
def test_constant_columns_and_importances_over_trees():
    X, y = load_diabetes(return_X_y=True)
    X = np.column_stack([X, np.ones(len(X))])
    for system in (ExtraTreesRegression, RandomForestRegression):
        fitted = system(n_trees=8, max_features=3, random_state=0).fit(X, y)
        trees = fitted.model_.estimator.estimators_
        mean = np.mean([tree.feature_importances_ for tree in trees], axis=0)
        np.testing.assert_allclose(fitted.feature_importances_, mean / mean.sum(), atol=1e-12)
        assert fitted.feature_importances_[-1] == 0
        assert fitted.feature_importances_.sum() == pytest.approx(1)
        np.testing.assert_allclose(fitted.predict(X), np.mean([tree.predict(X) for tree in trees], axis=0), rtol=1e-9)


@pytest.mark.spec("DLN-42")
def test_out_of_bag_score_of_a_forest():
    X, y = load_breast_cancer(return_X_y=True)
    fitted = RandomForest(n_trees=60, out_of_bag=True, random_state=0).fit(X, y)
    forest = fitted.model_.estimator
    votes = np.zeros((len(X), 2))
    for tree, rows in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(len(X)), rows)
        votes[out] += tree.predict_proba(X[out])
    assert fitted.out_of_bag_score_ == pytest.approx((votes.argmax(1) == y).mean())


@pytest.mark.spec("DLN-42")
@pytest.mark.parametrize("n_trees", [4, 40])
@pytest.mark.parametrize("system", [RandomForestRegression, ExtraTreesRegression])
def test_out_of_bag_score_of_a_forest_of_numbers(system, n_trees):
    """Rows that all of four trees have seen were judged as 0: R^2 was -40 and changed with the target's origin."""
    X, y = load_diabetes(return_X_y=True)
    y += 1000
    made = system(n_trees=n_trees, bootstrap=True, out_of_bag=True, random_state=0)
    few = (
        pytest.warns(UserWarning, match=r"^\d+ of 442 rows were seen by every tree") if n_trees == 4 else nullcontext()
    )
    with few:
        fitted = made.fit(X, y)
    forest = fitted.model_.estimator
    said, asked = np.zeros(len(X)), np.zeros(len(X))
    for tree, rows in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(len(X)), rows)
        said[out] += fitted.model_.numbers(tree.predict(X[out]))
        asked[out] += 1
    np.testing.assert_array_equal(fitted.out_of_bag_count_, asked)
    known = asked > 0
    assert known.all() == (n_trees == 40)
    y, said = y[known], said[known] / asked[known]
    expected = 1 - ((y - said) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert fitted.out_of_bag_score_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.spec("DLN-42")
def test_rows_that_every_tree_has_seen_are_not_of_the_first_class(tmp_path):
    """With weights, of which two are 0; the count and the score are saved."""
    X, y = load_breast_cancer(return_X_y=True)
    names, weight = np.array(["malignant", "benign"])[y], np.random.default_rng(0).uniform(0.5, 2, len(y))
    weight[[3, 7]] = 0
    with pytest.warns(UserWarning, match=r"of 567 rows were seen by every tree and are not in the out-of-bag score"):
        fitted = RandomForest(n_trees=3, out_of_bag=True, random_state=0).fit(X, names, sample_weight=weight)
    there, forest = weight > 0, fitted.model_.estimator
    votes, asked = np.zeros((567, 2)), np.zeros(567)
    for tree, rows in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(567), rows)
        votes[out] += tree.predict_proba(fitted.model_.rows(X[there][out]))
        asked[out] += 1
    known = asked > 0
    right = fitted.classes_[votes.argmax(1)] == names[there]
    assert fitted.out_of_bag_score_ == pytest.approx(right[known].mean())
    assert fitted.out_of_bag_score_ > right.mean() + 0.05
    again = gnomon.load(fitted.save(tmp_path / "forest"))
    np.testing.assert_array_equal(again.out_of_bag_count_, asked)
    assert again.out_of_bag_score_ == fitted.out_of_bag_score_


def test_threads_change_nothing():
    X, y = load_breast_cancer(return_X_y=True)
    found = []
    for threads in (1, 2):
        with gnomon.context(threads=threads):
            found.append(RandomForest(n_trees=6, random_state=0).fit(X, y).model_.state()["estimator"])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("value", [2.5, 0.1, 0.7, 98.6, -1e9 / 3, 0.0])
@pytest.mark.parametrize("name", ["random-forest-regression", "extra-trees-regression", "bagging-regression"])
def test_out_of_bag_r2_of_a_target_that_does_not_vary_is_undefined(name, value):
    """B2-04: it was 1, -4.6, 0.32 and -0.4 for the first four."""
    options = {"n_members": 4} if name.startswith("bagging") else {"out_of_bag": True, "bootstrap": True, "n_trees": 40}
    rows = np.arange(30.0)[:, None]
    system = gnomon.make(name, random_state=0, **options)
    assert np.isnan(system.fit(rows, np.full(30, value)).out_of_bag_score_)
    moved = np.full(30, value) + 1e-3 * (np.arange(30) % 2) * max(abs(value), 1)
    assert np.isfinite(system.fit(rows, moved).out_of_bag_score_)
    if not name.startswith("bagging"):  # not one split, and yet the target varies
        assert np.isfinite(system.set_params(min_rows_leaf=20).fit(rows, moved).out_of_bag_score_)


@pytest.mark.parametrize("n_trees", [1, 23])
def test_a_forest_that_shows_its_progress_is_the_forest_of_a_single_fit(n_trees, monkeypatch):
    X, y = load_breast_cancer(return_X_y=True)
    model = RandomForest(n_trees=n_trees, out_of_bag=True).make(n_features=X.shape[1])
    grown, forest_fit = [], RandomForestClassifier.fit
    monkeypatch.setattr(
        RandomForestClassifier, "fit", lambda *given: [grown.append(model.reached()), forest_fit(*given)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one tree leaves rows unjudged
        model.fit(X, y, np.ones(len(X)), 7)
        monkeypatch.undo()
        peer = RandomForestClassifier(n_trees, oob_score=True, random_state=7).fit(model.rows(X), y)
    assert model.reached() == (n_trees, n_trees)
    assert grown == ([(23 * k // 10, 23) for k in range(10)] if n_trees == 23 else [(0, 1)])
    del model.estimator.oob_count_
    model.estimator.oob_score_ = peer.oob_score_  # the library judges rows that every tree has seen, too
    assert dumps(model.estimator.set_params(n_jobs=None)) == dumps(peer)
