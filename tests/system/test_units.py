"""Trees answer alike in any unit, and tell apart whatever double precision tells apart."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.tree import DecisionTreeRegressor

import gnomon
from gnomon.system.units import TOP, ColumnUnits, TargetUnits

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(200, 3))
Y = 2 * X[:, 0] - X[:, 1] + 0.1 * RANDOM.normal(size=200)
CLASSES = (
    "decision-tree", "random-forest", "extra-trees", "bagging", "adaboost", "gradient-boosting", "histogram-boosting",
)  # fmt: skip
NUMBERS = (
    "regression-tree", "random-forest-regression", "extra-trees-regression", "bagging-regression",
    "gradient-boosting-regression", "histogram-boosting-regression",
)  # fmt: skip
SECONDS = 1.7e9 + np.arange(200.0)[:, None]
GAPS = np.r_[np.arange(100.0), np.full(50, 1e9), np.full(50, 1e9 + 1)][:, None]


def made(name):
    system = gnomon.make(name, random_state=0)
    few = {key: 5 for key in ("n_trees", "n_members") if key in system.get_params(deep=False)}
    return system.set_params(**few) if name not in NUMBERS[-2:] else system


@pytest.mark.parametrize("name", CLASSES + NUMBERS)
def test_scores_do_not_depend_on_units(name):
    """HB-24, and columns times 1e200: metres or nanometres, the same score."""
    y = Y if name in NUMBERS else (X[:, 0] > 0).astype(int)
    expected = made(name).fit(X, y).score(X, y)
    assert expected > 0.6
    for unit, scale in ((1e-9, 1e-9), (1e200, 1e38), (1e-200, 1e90)):
        scaled = y * scale if name in NUMBERS else y
        assert made(name).fit(X * unit, scaled).score(X * unit, scaled) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(("table", "split"), [(SECONDS, 77), (GAPS, 150)], ids=["seconds", "gaps"])
def test_values_that_single_precision_takes_for_one(name, table, split):
    """B2-09: rows are classified right, since a threshold separates the classes (rows drawn for a tree may miss it)."""
    y = (np.arange(200) >= split).astype(int)
    assert made(name).fit(table, y).score(table, y) >= (0.99 if name in ("random-forest", "bagging") else 1)


def test_two_values_that_become_one():
    """B2-09, the smallest case."""
    A = np.array([[16777216.0], [16777217.0]])
    tree = gnomon.DecisionTree().fit(A, [0, 1])
    assert tree.predict(A).tolist() == [0, 1]
    assert tree.predict([[0.0], [1e9]]).tolist() == [0, 1]


def test_a_power_of_two_changes_no_tree_of_the_library():
    """Same leaves, decreases of impurity and losses as scikit-learn, with parameters in units of the target."""
    for scale in (1.0, 2.0**-40):
        parameters = {"min_impurity_decrease": 0.05, "ccp_alpha": 0.02}
        theirs = DecisionTreeRegressor(**parameters, random_state=0, min_samples_leaf=3).fit(X, Y)
        ours = gnomon.RegressionTree(min_decrease=0.05 * scale**2, pruning=0.02 * scale**2, min_rows_leaf=3)
        ours.fit(X * scale, Y * scale)
        np.testing.assert_allclose(ours.predict(X * scale), theirs.predict(X) * scale, rtol=1e-12)
        expected = theirs.tree_.compute_feature_importances(normalize=False) * scale**2
        np.testing.assert_allclose(ours.impurity_decrease_, expected, rtol=1e-9)
        boosted = gnomon.GradientBoostingRegression(n_trees=5).fit(X, Y * scale)
        peer = GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X, Y)
        np.testing.assert_allclose(boosted.training_losses_, peer.train_score_ * scale**2, rtol=1e-9)
        np.testing.assert_allclose(list(boosted.staged_predict(X))[-1], peer.predict(X) * scale, rtol=1e-9)


def test_absolute_errors_have_the_unit_of_the_target():
    scale = 2.0**-30
    trees = [
        gnomon.RegressionTree(criterion="absolute_error", min_decrease=0.02 * s).fit(X, Y * s) for s in (1.0, scale)
    ]
    np.testing.assert_allclose(trees[1].predict(X), trees[0].predict(X) * scale, rtol=1e-12)
    np.testing.assert_allclose(trees[1].impurity_decrease_, trees[0].impurity_decrease_ * scale, rtol=1e-9)


def test_a_few_large_targets_hide_no_small_ones():
    y = np.r_[Y * 1e-9, 1e-3, -1e-3]
    rows = np.r_[X, [[50.0, 0, 0], [-50.0, 0, 0]]]
    tree = gnomon.RegressionTree(min_rows_leaf=1).fit(rows, y)
    np.testing.assert_allclose(tree.predict(X), Y * 1e-9, rtol=1e-6)


def test_a_target_far_from_zero_keeps_its_digits():
    y = 1e9 + 1e-4 * Y
    assert gnomon.RegressionTree(min_rows_leaf=1).fit(X, y).score(X, y) > 0.999
    assert TargetUnits.of(y).center == pytest.approx(1e9)
    assert TargetUnits.of(np.full(3, 7.0)) == TargetUnits()


def test_the_units_are_saved(tmp_path):
    fitted = gnomon.RegressionTree(min_rows_leaf=1).fit(SECONDS, 1e-9 * np.arange(200))
    again = gnomon.load(fitted.save(tmp_path / "run"))
    np.testing.assert_array_equal(again.predict(SECONDS + 0.3), fitted.predict(SECONDS + 0.3))
    assert np.unique(again.predict(SECONDS)).size == 200


@pytest.mark.parametrize(
    "column",
    [SECONDS[:, 0], GAPS[:, 0], X[:, 0] * 1e-300, X[:, 0] * 1e300, np.r_[-1e308, 1e308, 0, 1], np.full(5, 3.0),
     np.r_[np.nan, 1e9, 1e9 + 1, np.nan]],
    ids=["seconds", "gaps", "tiny", "huge", "ends", "constant", "missing"],
)  # fmt: skip
def test_columns_keep_their_order_and_what_is_apart(column):
    """The map is strictly increasing on the values of the fit, increasing everywhere, and leaves what is missing."""
    table = column[:, None]
    units = ColumnUnits.of(table)
    found = units.apply(table)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(found), np.isnan(table))
    values = np.unique(column[~np.isnan(column)])
    if len(values) != 4 or values[0] != -1e308:  # of 0 and 1 beside 1e308 a threshold may be anywhere
        assert (np.diff(units.apply(values[:, None])[:, 0]) > 0).all()
    between = np.sort(np.r_[values, values[:-1] / 2 + values[1:] / 2, np.nextafter(values, np.inf), -1e308, 1e308])
    assert (np.diff(units.apply(between[:, None])[:, 0].astype(float)) >= 0).all()


def test_ordinary_columns_and_targets_stay_as_they_are():
    np.testing.assert_array_equal(ColumnUnits.of(X).apply(X), X.astype(np.float32))
    assert TargetUnits.of(Y) == TargetUnits()
    small = ColumnUnits.of(X * 2.0**-40)
    assert not small.offset.any() and not len(small.knots)
    assert (np.abs(small.apply(X * 2.0**-40)).max(0) >= 2.0 ** (TOP - 1)).all()


def test_what_is_missing_at_prediction_goes_where_more_rows_went():
    """B2-13: the rule of the documentation, where the fit saw no missing value."""
    table, y = np.r_[np.zeros(40), np.ones(160)][:, None], np.r_[np.zeros(40), np.full(160, 8.0)]
    for name in ("regression-tree", "histogram-boosting-regression"):
        assert gnomon.make(name).fit(table, y).predict([[np.nan]]) == pytest.approx(8, abs=0.01)
        assert gnomon.make(name).fit(1 - table, y).predict([[np.nan]]) == pytest.approx(8, abs=0.01)


@pytest.mark.parametrize("name", ["histogram-boosting", "decision-tree", "histogram-boosting-regression"])
def test_a_column_that_is_missing_throughout_is_left_out(name):
    """HB-59: the answers of a fit without it, also where it is there at prediction."""
    y = np.arange(200) % 2 if name in CLASSES else Y
    fitted = gnomon.make(name, random_state=0).fit(np.c_[X, np.full(200, np.nan)], y)
    alone = gnomon.make(name, random_state=0).fit(X, y)
    for extra in (np.nan, 5.0):
        found = fitted.predict(np.c_[X, np.full(200, extra)])
        assert found.tolist() == alone.predict(X).tolist() or name == "decision-tree"
        assert fitted.score(np.c_[X, np.full(200, extra)], y) == pytest.approx(alone.score(X, y))


def test_a_column_that_is_missing_throughout_is_named_by_ppca():
    with pytest.raises(ValueError, match=r"no value is observed \(column 3\); leave the column out"):
        gnomon.PPCA().fit(np.c_[X, np.full(200, np.nan)])
