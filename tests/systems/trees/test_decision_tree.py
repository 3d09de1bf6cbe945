"""Trees: splits and importances by enumeration, exclusive or, pruning, missing values."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from gnomon.systems.trees.decision_tree import DecisionTree, RegressionTree

XOR = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([0, 1, 1, 0])


def gini(y, w):
    p = np.array([w[y == c].sum() for c in np.unique(y)]) / w.sum()
    return 1 - (p**2).sum()


def entropy(y, w):
    p = np.array([w[y == c].sum() for c in np.unique(y)]) / w.sum()
    return -(p * np.log2(p)).sum()


def squares(y, w):
    return np.average((y - np.average(y, weights=w)) ** 2, weights=w)


def best_split(X, y, w, impurity):
    """(column, threshold, weighted impurity of the children) of the best split, by trying all."""
    found = []
    for column in range(X.shape[1]):
        values = np.unique(X[:, column])
        for threshold in (values[1:] + values[:-1]) / 2:
            left = X[:, column] <= threshold
            cost = sum(w[s].sum() / w.sum() * impurity(y[s], w[s]) for s in (left, ~left))
            found.append((cost, column, threshold))
    cost, column, threshold = min(found)
    return column, threshold, cost


@pytest.mark.spec("DLN-39")
def test_exclusive_or_takes_two_levels():
    fitted = DecisionTree(random_state=0).fit(*XOR)
    assert (fitted.depth_, fitted.n_leaves_) == (2, 4)
    assert fitted.score(*XOR) == 1
    # no first split lowers the impurity
    assert DecisionTree(min_decrease=1e-9, random_state=0).fit(*XOR).depth_ == 0


@pytest.mark.spec("DLN-39")
@pytest.mark.parametrize(("criterion", "impurity"), [("gini", gini), ("entropy", entropy)])
@pytest.mark.parametrize("seed", range(5))
def test_the_root_is_the_best_of_all_splits(criterion, impurity, seed):
    random = np.random.default_rng(seed)
    X, y, w = random.normal(size=(30, 3)).astype(np.float32), random.integers(0, 3, 30), random.uniform(0.5, 2, 30)
    fitted = DecisionTree(criterion=criterion, max_depth=1, random_state=0).fit(X, y, sample_weight=w)
    tree = fitted.model_.estimator.tree_
    column, threshold, cost = best_split(X, y, w.astype(np.float32).astype(float), impurity)
    assert tree.feature[0] == column
    assert tree.threshold[0] == pytest.approx(threshold, abs=1e-6)
    assert tree.impurity[0] == pytest.approx(impurity(y, w), abs=1e-6)
    assert fitted.impurity_decrease_[column] == pytest.approx(impurity(y, w) - cost, abs=1e-6)


@pytest.mark.spec("DLN-39")
@pytest.mark.parametrize("seed", range(5))
def test_the_root_of_a_regression_is_the_best_of_all_splits(seed):
    random = np.random.default_rng(seed)
    X, y, w = random.normal(size=(25, 2)), 100 * random.normal(size=25), random.uniform(0.5, 2, 25)
    fitted = RegressionTree(max_depth=1, min_rows_leaf=1, random_state=0).fit(X, y, sample_weight=w)
    column, threshold, cost = best_split(X, y, w, squares)
    tree = fitted.model_.estimator.tree_
    assert (tree.feature[0], tree.threshold[0]) == (column, pytest.approx(threshold, abs=1e-6))
    assert np.average((y - fitted.predict(X)) ** 2, weights=w) == pytest.approx(cost)
    assert fitted.impurity_decrease_[column] == pytest.approx(squares(y, w) - cost)
    left = X[:, column] <= threshold
    means = [np.average(y[s], weights=w[s]) for s in (left, ~left)]
    np.testing.assert_allclose(np.unique(fitted.predict(X)), np.sort(means))


@pytest.mark.spec("DLN-39")
def test_the_gain_of_a_split_in_bits():
    # 4 + 4 rows: 6 of them (2, 4), 2 pure
    X, y = np.array([[0.0]] * 6 + [[1.0]] * 2), np.array([0, 0, 1, 1, 1, 1, 0, 0])
    fitted = DecisionTree(criterion="entropy", random_state=0).fit(X, y)
    assert fitted.impurity_decrease_[0] == pytest.approx(0.311278, abs=1e-6)
    np.testing.assert_allclose(fitted.predict_proba([[0], [1]]), [[1 / 3, 2 / 3], [1, 0]])


@pytest.mark.spec("DLN-39")
def test_parity_and_leaves():
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    fitted = DecisionTree(max_depth=4, min_rows_leaf=3, random_state=0).fit(X, y)
    seed = fitted.model_.estimator.random_state
    peer = DecisionTreeClassifier(max_depth=4, min_samples_leaf=3, random_state=seed).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), peer.predict(X))
    np.testing.assert_array_equal(fitted.apply(X), peer.apply(X))
    sizes = np.unique(fitted.apply(X), return_counts=True)[1]
    assert sizes.min() >= 3
    assert fitted.n_leaves_ == len(sizes)
    assert DecisionTree(max_leaves=3, random_state=0).fit(X, y).n_leaves_ == 3
    assert DecisionTree(pruning=1.0, random_state=0).fit(X, y).n_leaves_ == 1


@pytest.mark.spec("DLN-39")
def test_constant_columns_are_never_split_and_missing_values_choose_a_side():
    X = np.column_stack([np.ones(8), np.arange(8.0)])
    y = (np.arange(8) > 3).astype(int)
    X[:2, 1] = np.nan
    fitted = DecisionTree(random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.model_.estimator.tree_.feature[[0]], [1])
    assert fitted.score(X, y) == 1
    assert fitted.predict([[1.0, np.nan]])[0] == 0  # the side of the missing rows of the fit


@pytest.mark.spec("DLN-46")
def test_importance_by_the_sum_over_nodes():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(120, 4)), random.integers(0, 3, 120)
    fitted = DecisionTree(max_depth=4, random_state=0).fit(X, y)
    tree = fitted.model_.estimator.tree_
    expected = np.zeros(4)
    leaves = fitted.model_.estimator.decision_path(X).toarray().astype(bool)  # rows that pass each node
    for node in range(tree.node_count):
        left, right = tree.children_left[node], tree.children_right[node]
        if left < 0:
            continue
        n, own, a, b = len(X), *(y[leaves[:, k]] for k in (node, left, right))
        parts = [gini(part, np.ones(len(part))) * len(part) for part in (own, a, b)]
        expected[tree.feature[node]] += (parts[0] - parts[1] - parts[2]) / n
    np.testing.assert_allclose(fitted.impurity_decrease_, expected, atol=1e-12)
    np.testing.assert_allclose(fitted.feature_importances_, expected / expected.sum(), atol=1e-12)


@pytest.mark.spec("DLN-46")
def test_importance_of_one_split_and_of_none():
    X = np.column_stack([np.zeros(6), np.arange(6.0)])
    y = (np.arange(6) > 2).astype(int)
    np.testing.assert_array_equal(DecisionTree(random_state=0).fit(X, y).feature_importances_, [0, 1])
    leaf = DecisionTree(min_decrease=1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(leaf.feature_importances_, [0, 0])
    noise = np.random.default_rng(0).normal(size=(50, 3))
    assert RegressionTree(random_state=0).fit(noise, noise[:, 0]).feature_importances_.sum() == pytest.approx(1)
