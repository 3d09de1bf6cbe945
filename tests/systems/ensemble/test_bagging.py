"""Bagging: what is drawn by enumeration and by frequency, out-of-bag by a loop, averages by their inequality."""

import numpy as np
import pytest
from scipy.stats import binom, chi2
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import BaggingClassifier

import gnomon
from gnomon.errors import UserError
from gnomon.numeric.noise import Noise
from gnomon.systems.ensemble.bagging import Bagging, BaggingRegression, bootstrap


@pytest.mark.spec("DLN-40", "DLN-42")
@pytest.mark.parametrize("m", [2, 10, 50])
def test_a_row_is_drawn_with_its_probability(m):
    samples, expected = 4000, 1 - (1 - 1 / m) ** m
    if m == 10:
        assert expected == pytest.approx(0.651322, abs=1e-6)
        assert 1 - expected == pytest.approx(0.348678, abs=1e-6)
    drawn = np.stack([bootstrap(m, m, Noise(m, "rows").at(i)) for i in range(samples)])
    assert drawn.min() == 0 and drawn.max() == m - 1
    first = int((drawn == 0).any(axis=1).sum())
    low, high = binom.ppf([5e-7, 1 - 5e-7], samples, expected)  # false alarm 1e-6
    assert low <= first <= high
    counts = np.bincount(drawn.ravel(), minlength=m)
    assert ((counts - samples) ** 2 / samples).sum() < chi2.ppf(1 - 1e-6, m - 1)  # false alarm 1e-6
    np.testing.assert_array_equal(drawn[3], bootstrap(m, m, Noise(m, "rows").at(3)))
    assert pytest.approx(1 - np.exp(-1), abs=1e-6) == 1 - (1 - 1e-6) ** 1e6


@pytest.mark.spec("DLN-40")
def test_the_bootstrap_error_of_a_mean():
    x = np.random.default_rng(0).normal(size=30)
    means = [x[bootstrap(30, 30, Noise(1, "rows").at(i))].mean() for i in range(4000)]
    exact = x.std(ddof=1) / np.sqrt(30) * np.sqrt(29 / 30)
    # the standard deviation of 4000 means is known to 1.1 %: five of these, false alarm below 1e-6
    assert np.std(means) == pytest.approx(exact, rel=0.056)


@pytest.mark.spec("DLN-40", "DLN-44")
def test_without_replacement_no_row_comes_twice():
    for i in range(50):
        rows = bootstrap(9, 6, Noise(0, "rows").at(i), replace=False)
        assert len(set(rows.tolist())) == 6
    drawn = np.concatenate([bootstrap(9, 6, Noise(0, "rows").at(i), replace=False) for i in range(3000)])
    low, high = binom.ppf([5e-8, 1 - 5e-8], 3000, 6 / 9)  # nine rows: false alarm 1e-6
    counts = np.bincount(drawn, minlength=9)
    assert len(counts) == 9 and (low <= counts).all() and (counts <= high).all()


@pytest.mark.spec("DLN-41", "DLN-42")
@pytest.mark.parametrize("weighted", [False, True])
def test_members_and_out_of_bag_by_a_loop(weighted):
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    weight = np.random.default_rng(0).uniform(0.5, 2, 150) if weighted else None
    fitted = Bagging(n_members=7, max_samples=0.8, random_state=3).fit(X, y, sample_weight=weight)
    total, said, asked = np.zeros((150, 3)), np.zeros((150, 3)), np.zeros(150, int)
    for i, part in enumerate(fitted.members_):
        rows = fitted.drawn(i, sample_weight=weight)
        assert len(rows) == 120
        again = gnomon.make("decision-tree", random_state=part.random_state)
        again.fit(X[rows], y[rows], sample_weight=None if weight is None else weight[rows])
        np.testing.assert_array_equal(part.predict(X), again.predict(X))
        out = np.setdiff1d(np.arange(150), rows)
        p = np.zeros((150, 3))
        p[:, np.searchsorted(fitted.classes_, part.classes_)] = part.predict_proba(X)
        total += p
        said[out] += p[out]
        asked[out] += 1
    np.testing.assert_allclose(fitted.predict_proba(X), total / 7, atol=1e-12)
    np.testing.assert_array_equal(fitted.out_of_bag_count_, asked)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(fitted.out_of_bag_, said / asked[:, None], atol=1e-12)
    right = fitted.classes_[said.argmax(1)] == y
    assert fitted.out_of_bag_score_ == pytest.approx(right[asked > 0].mean())
    assert len({tuple(fitted.drawn(i, sample_weight=weight)) for i in range(7)}) == 7


@pytest.mark.spec("DLN-41", "DLN-42", "DLN-43")
def test_numbers_out_of_bag_by_a_loop_with_columns_drawn_twice():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150], y[:150]
    fitted = BaggingRegression(
        n_members=5, max_samples=0.7, max_features=0.6, bootstrap_features=True, random_state=2
    ).fit(X, y)
    assert fitted.columns_.shape == (5, 6)
    assert any(len(set(row)) < 6 for row in fitted.columns_.tolist())
    assert len({tuple(row) for row in fitted.columns_.tolist()}) == 5
    total, said, asked = np.zeros(150), np.zeros(150), np.zeros(150, int)
    for i, (part, columns) in enumerate(zip(fitted.members_, fitted.columns_, strict=True)):
        rows = fitted.drawn(i)
        again = clone(part).fit(X[rows][:, columns], y[rows])
        p, out = again.predict(X[:, columns]), np.setdiff1d(np.arange(150), rows)
        total += p
        said[out] += p[out]
        asked[out] += 1
    np.testing.assert_allclose(fitted.predict(X), total / 5, rtol=1e-12)
    np.testing.assert_array_equal(fitted.out_of_bag_count_, asked)
    known = asked > 0
    assert 0 < (~known).sum() < 150
    np.testing.assert_allclose(fitted.out_of_bag_[known], said[known] / asked[known], rtol=1e-12)
    assert np.isnan(fitted.out_of_bag_[~known]).all()
    wrong = ((y - fitted.out_of_bag_)[known] ** 2).sum()
    assert fitted.out_of_bag_score_ == pytest.approx(1 - wrong / ((y[known] - y[known].mean()) ** 2).sum())


@pytest.mark.spec("DLN-42")
def test_rows_that_every_member_has_drawn_have_no_estimate():
    X, y = load_iris(return_X_y=True)
    fitted = Bagging(n_members=1, random_state=0).fit(X, y)
    seen = np.unique(fitted.drawn(0))
    assert np.isnan(fitted.out_of_bag_[seen]).all()
    assert not np.isnan(np.delete(fitted.out_of_bag_, seen, axis=0)).any()
    np.testing.assert_array_equal(fitted.out_of_bag_count_ == 0, np.isin(np.arange(150), seen))


@pytest.mark.spec("DLN-42")
@pytest.mark.parametrize("system", [Bagging, BaggingRegression])
def test_rows_of_weight_0_are_not_judged_out_of_bag(system):
    """They were, as if they were there: the score was that of other rows than the fit's."""
    X, y = load_iris(return_X_y=True)
    weight = (np.arange(150) % 3 > 0).astype(float)
    there, wrong = weight > 0, np.where(weight > 0, y, 2 - y)
    made = system(n_members=3, random_state=0)
    fitted = made.fit(X, wrong, sample_weight=weight)
    count, score = fitted.out_of_bag_count_, fitted.out_of_bag_score_
    assert not count[~there].any() and np.isnan(fitted.out_of_bag_[~there]).all()
    alone = made.fit(X[there], y[there])
    np.testing.assert_array_equal(count[there], alone.out_of_bag_count_)
    assert score == alone.out_of_bag_score_


@pytest.mark.spec("DLN-41")
def test_the_average_is_at_every_point_at_most_as_wrong_as_its_members():
    X, y = load_diabetes(return_X_y=True)
    fitted = BaggingRegression(n_members=8, random_state=0).fit(X[:300], y[:300])
    said = np.stack([part.predict(X[300:]) for part in fitted.members_])
    np.testing.assert_allclose(fitted.predict(X[300:]), said.mean(0), rtol=1e-12)
    wrong = (said - y[300:]) ** 2
    assert ((fitted.predict(X[300:]) - y[300:]) ** 2 <= wrong.mean(0) + 1e-9).all()
    # the variance of a mean of M equally correlated numbers
    M, s, r = 8, 2.0, 0.3
    covariance = s**2 * (r + (1 - r) * np.eye(M))
    assert np.full(M, 1 / M) @ covariance @ np.full(M, 1 / M) == pytest.approx(s**2 * (r + (1 - r) / M))


@pytest.mark.spec("DLN-43", "DLN-44")
def test_patches_and_subspaces():
    X, y = load_iris(return_X_y=True)
    patches = Bagging(n_members=12, max_samples=0.5, max_features=0.5, random_state=0).fit(X, y)
    assert patches.columns_.shape == (12, 2)
    assert all(len(set(row)) == 2 for row in patches.columns_.tolist())
    assert len({tuple(row) for row in patches.columns_.tolist()}) > 2
    assert all(len(patches.drawn(i)) == 75 for i in range(12))
    said = np.mean([m.predict_proba(X[:, c]) for m, c in zip(patches.members_, patches.columns_, strict=True)], axis=0)
    np.testing.assert_allclose(patches.predict_proba(X), said, atol=1e-12)
    subspace = Bagging(base="logistic-regression", n_members=6, bootstrap=False, max_features=0.5, random_state=0)
    subspace.fit(X, y)
    assert all(np.array_equal(subspace.drawn(i), np.arange(150)) for i in range(6))
    # members of the same columns are the same, others are not: only the columns differ
    seen = {}
    for part, columns in zip(subspace.members_, subspace.columns_, strict=True):
        known = seen.setdefault(tuple(columns), part.coef_)
        np.testing.assert_array_equal(part.coef_, known)
    assert len(seen) > 1
    same = Bagging(base="logistic-regression", n_members=3, bootstrap=False, random_state=0).fit(X, y)
    alone = gnomon.make("logistic-regression").fit(X, y)
    np.testing.assert_allclose(same.predict_proba(X), alone.predict_proba(X), atol=1e-12)


@pytest.mark.spec("DLN-43", "DLN-41")
def test_all_columns_are_bagging_and_the_peer_is_as_good():
    X, y = load_iris(return_X_y=True)
    whole = Bagging(n_members=5, max_features=1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(whole.columns_, np.tile(np.arange(4), (5, 1)))
    train, test = np.arange(150) % 2 == 0, np.arange(150) % 2 == 1
    options = {"max_samples": 0.5, "max_features": 0.5}
    ours = [Bagging(n_members=20, random_state=s, **options).fit(X[train], y[train]).score(X[test], y[test])
            for s in range(8)]  # fmt: skip
    peer = [BaggingClassifier(n_estimators=20, random_state=s, **options).fit(X[train], y[train])
            .score(X[test], y[test]) for s in range(8)]  # fmt: skip
    # eight fits each: a difference of five standard errors of their means, false alarm below 1e-4
    spread = np.sqrt((np.var(ours, ddof=1) + np.var(peer, ddof=1)) / 8) + 0.005
    assert abs(np.mean(ours) - np.mean(peer)) < 5 * spread


@pytest.mark.spec("DLN-41")
def test_a_class_that_a_sample_lacks_has_probability_zero_there():
    X = np.arange(24.0)[:, None]
    y = np.array(["a"] * 12 + ["b"] * 11 + ["c"])
    fitted = Bagging(n_members=6, max_samples=0.3, random_state=0).fit(X, y)
    lacking = [part for part in fitted.members_ if len(part.classes_) == 2]
    assert lacking
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1)
    with pytest.raises(UserError, match="one class only"):
        Bagging(n_members=1, max_samples=0.04, random_state=0).fit(X, y)


def test_any_system_is_a_member_and_addresses_reach_it(tmp_path):
    X, y = load_iris(return_X_y=True)
    votes = Bagging(base="svm", n_members=3, random_state=0).set_params(base__C=0.1).fit(X, y)
    assert {part.C for part in votes.members_} == {0.1}
    assert set(np.unique(votes.predict_proba(X).round(6))) <= {0, 0.333333, 0.666667, 1}
    folder = votes.save(tmp_path / "bag")
    assert sorted(path.name for path in (folder / "members").iterdir()) == ["0", "1", "2"]
    again = gnomon.load(folder)
    np.testing.assert_array_equal(again.predict_proba(X), votes.predict_proba(X))
    np.testing.assert_array_equal(gnomon.load(folder / "members" / "1").predict(X), votes.members_[1].predict(X))
    assert again.base.C == 0.1
    with pytest.raises(UserError, match="must be a classifier"):
        Bagging(base="regression-tree").fit(X, y)
    with pytest.raises(UserError, match="did you mean"):
        Bagging().set_params(bas__C=1)
    with pytest.raises(UserError, match="unknown system"):
        Bagging(base="decision-treee").fit(X, y)


def test_trees_that_are_averaged_are_grown_to_single_rows():
    """A lone regression tree has leaves of ten rows; in the mean of many these would only add bias."""
    X, y = load_diabetes(return_X_y=True)
    fitted = BaggingRegression(n_members=3, random_state=0).fit(X, y)
    for i, part in enumerate(fitted.members_):
        rows = fitted.drawn(i)
        np.testing.assert_allclose(part.predict(X[rows]), y[rows], rtol=1e-12)
    limited = BaggingRegression(n_members=3, random_state=0).set_params(base__max_depth=2).fit(X, y)
    assert all(part.depth_ == 2 and part.min_rows_leaf == 1 for part in limited.members_)
    assert BaggingRegression(base="regression-tree").fit(X, y).members_[0].min_rows_leaf == 10
