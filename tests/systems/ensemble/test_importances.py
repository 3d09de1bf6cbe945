"""Importances by impurity, of trees and of all that is made of trees: the sum over nodes, from the rows themselves."""

import numpy as np
import pytest
from scipy import special

import gnomon
from gnomon.systems.ensemble.extra_trees import ExtraTrees, ExtraTreesRegression
from gnomon.systems.ensemble.gradient_boosting import GradientBoosting, GradientBoostingRegression
from gnomon.systems.ensemble.random_forest import RandomForest, RandomForestRegression
from gnomon.systems.trees.decision_tree import DecisionTree, RegressionTree


def shares(y, w):
    return np.array([w[y == c].sum() for c in np.unique(y)]) / w.sum()


IMPURITY = {
    "gini": lambda y, w: 1 - (shares(y, w) ** 2).sum(),
    "entropy": lambda y, w: -special.xlogy(shares(y, w), shares(y, w)).sum() / np.log(2),
    "squared_error": lambda y, w: np.average((y - np.average(y, weights=w)) ** 2, weights=w),
}


def decrease(tree, X, y, w, impurity):
    """Sum over the nodes that split on a column of w_i / w (G_i - w_L / w_i G_L - w_R / w_i G_R)."""
    nodes, passed = tree.tree_, tree.decision_path(X).toarray().astype(bool) & (w > 0)[:, None]
    found = np.zeros(X.shape[1])
    for node in np.flatnonzero(nodes.children_left >= 0):
        rows = [passed[:, k] for k in (node, nodes.children_left[node], nodes.children_right[node])]
        own, left, right = (w[r].sum() * IMPURITY[impurity](y[r], w[r]) if r.any() else 0.0 for r in rows)
        found[nodes.feature[node]] += (own - left - right) / w.sum()
    return found


def normal(values):
    return values / values.sum()


def table(n=90, seed=0, classes=3):
    """Four columns, the second of a few values, rows of weight 0 among those of other weights."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)).astype(np.float32).astype(float)
    X[:, 1] = np.round(X[:, 1])
    y = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * random.normal(size=n)
    weight = random.random(n) * (random.random(n) < 0.85)
    return X, y, np.digitize(y, [-0.7, 0.6][: classes - 1]), weight


@pytest.mark.spec("DLN-46")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", IMPURITY)
def test_of_a_tree(criterion, weighted):
    X, number, codes, weight = table()
    w = weight if weighted else np.ones(len(X))
    numbers = criterion == "squared_error"
    made = (RegressionTree if numbers else DecisionTree)(criterion=criterion, max_depth=4, random_state=0)
    y = number if numbers else codes
    fitted = made.fit(X, y, sample_weight=w)
    expected = decrease(fitted.model_.estimator, X, y, w, criterion)
    np.testing.assert_allclose(fitted.impurity_decrease_, expected, atol=1e-9)
    np.testing.assert_allclose(fitted.feature_importances_, normal(expected), atol=1e-9)
    far = made.fit(X, 1e9 * (y + 1e3), sample_weight=w) if numbers else fitted  # a target in another unit
    np.testing.assert_allclose(far.feature_importances_, normal(expected), atol=1e-6)
    if numbers:
        np.testing.assert_allclose(far.impurity_decrease_, 1e18 * expected, rtol=1e-5)


@pytest.mark.spec("DLN-46")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("system", [RandomForest, ExtraTrees, RandomForestRegression, ExtraTreesRegression])
def test_of_a_forest(system, bootstrap, weighted):
    """The mean over the trees of what each has normalized; rows count as often as they were drawn, or as they weigh."""
    X, number, codes, weight = table(seed=1)
    w = weight if weighted else np.ones(len(X))
    numbers = system in (RandomForestRegression, ExtraTreesRegression)
    criterion, y = ("squared_error", number) if numbers else ("entropy", codes)
    made = system(n_trees=6, criterion=criterion, max_depth=4, max_features=2, bootstrap=bootstrap, random_state=0)
    forest = made.fit(X, y, sample_weight=w).model_.estimator
    there, each = np.flatnonzero(w > 0), []
    for k, tree in enumerate(forest.estimators_):
        own = np.bincount(forest.estimators_samples_[k], minlength=len(there)) if bootstrap else w[there]
        each.append(normal(decrease(tree, X[there], y[there], own, criterion)))
    np.testing.assert_allclose(made.feature_importances_, np.mean(each, axis=0), atol=1e-6)
    assert made.feature_importances_.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.spec("DLN-46")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_of_gradient_boosting(classes, weighted):
    """The residuals of every step by the recursion; decreases of all trees are added before they are normalized."""
    X, number, codes, weight = table(seed=2, classes=classes or 3)
    w = weight if weighted else np.ones(len(X))
    X, number, codes, w = (part[w > 0] for part in (X, number, codes, w))
    made = (GradientBoosting if classes else GradientBoostingRegression)(
        n_trees=5, learning_rate=0.4, max_depth=2, random_state=0
    )
    boosted = made.fit(X, codes if classes else number, sample_weight=w).model_.estimator
    if classes:
        target = np.eye(classes)[codes] if classes > 2 else codes[:, None] * 1.0
        p = np.average(target, axis=0, weights=w)
        score = np.log(p) if classes > 2 else np.log(p / (1 - p))
        share = (lambda F: special.softmax(F, axis=1)) if classes > 2 else special.expit
    else:
        target, score, share = number[:, None], np.average(number, weights=w)[None], lambda F: F
    F, total = np.broadcast_to(score, target.shape), np.zeros(4)
    for trees in boosted.estimators_:
        residual = target - share(F)
        for k, tree in enumerate(trees):
            total += decrease(tree, X, residual[:, k], w, "squared_error")
        F = F + 0.4 * np.stack([tree.predict(X) for tree in trees], axis=1)
    np.testing.assert_allclose(made.feature_importances_, normal(total), atol=1e-6)


@pytest.mark.spec("DLN-46")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("decision-tree", {}),
        ("regression-tree", {"min_rows_leaf": 1}),
        ("random-forest", {"n_trees": 3, "bootstrap": False}),
        ("random-forest-regression", {"n_trees": 3, "bootstrap": False}),
        ("extra-trees", {"n_trees": 3, "bootstrap": False}),
        ("extra-trees-regression", {"n_trees": 3, "bootstrap": False}),
        ("gradient-boosting", {"n_trees": 3}),
        ("gradient-boosting-regression", {"n_trees": 3}),
    ],
)
def test_splits_that_lower_nothing_are_worth_nothing(name, options):
    """Exclusive or at depth 1: forests and boosting said NaN for every column, with a warning of NumPy."""
    X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1.0]] * 3), np.array([0, 1, 1, 0] * 3)
    made = gnomon.make(name, max_depth=1, random_state=0, **options).fit(X, y * 1.0 if "regression" in name else y)
    assert made.feature_importances_.tolist() == [0, 0]


@pytest.mark.spec("DLN-46")
def test_columns_of_many_values_are_favored():
    """As the row warns: of two columns of noise, one of two values and one of as many as there are rows."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.integers(0, 2, 300), random.normal(size=300)])
    y = random.integers(0, 2, 300)
    few, many = RandomForest(n_trees=10, random_state=0).fit(X, y).feature_importances_
    assert many > 5 * few > 0
