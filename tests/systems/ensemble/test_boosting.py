"""Boosting: AdaBoost and gradient boosting by hand recursions, second-order splits by enumeration."""

import numpy as np
import pytest
from scipy import special
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from gnomon.errors import UserValueError
from gnomon.systems.ensemble.adaboost import AdaBoost
from gnomon.systems.ensemble.gradient_boosting import GradientBoosting, GradientBoostingRegression
from gnomon.systems.ensemble.histogram_boosting import HistogramBoosting, HistogramBoostingRegression

TEN = np.arange(10.0)[:, None], np.array([1, 1, 1, -1, -1, -1, 1, 1, 1, -1])
FOUR = np.arange(4.0)[:, None], np.array([0.0, 0.0, 1.0, 3.0])


def stump(x, y, w):
    """The stump of least weighted error: its predictions, by trying all."""
    found = []
    for threshold in np.arange(-0.5, 9.6):
        for sign in (-1, 1):
            h = np.where(x <= threshold, sign, -sign)
            found.append((w[h != y].sum(), threshold, sign))
    _, threshold, sign = min(found)
    return np.where(x <= threshold, sign, -sign)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("system", [GradientBoosting, HistogramBoosting])
def test_log_probabilities_stay_numbers_where_probabilities_round_to_0(system, k):
    X = np.arange(60.0)[:, None]
    y = (X[:, 0] // (60 / k)).astype(int)
    fitted = system(n_trees=80, learning_rate=1.0, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    scores = fitted.decision_function(X)
    scores = np.column_stack([np.zeros(60), scores]) if k == 2 else scores
    expected = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_log_proba(X), expected, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X), atol=1e-7)
    assert np.isfinite(fitted.evaluate(X, np.full(60, "a"))["log_likelihood"].value)
    if k == 3:  # a class of weight 0 has no probability
        unseen = system(n_trees=3, random_state=0).fit(X, np.array(["a", "b", "c"])[y], sample_weight=(y != 1) + 0.0)
        assert np.isneginf(unseen.predict_log_proba(X)[:, 1]).all()
        np.testing.assert_allclose(np.exp(unseen.predict_log_proba(X)).sum(1), 1)


@pytest.mark.spec("DLN-47")
def test_adaboost_of_stumps_by_the_recursion():
    X, y = TEN
    w = np.full(10, 0.1)
    errors, alphas, bound, total = [], [], 1.0, np.zeros(10)
    for _ in range(3):
        h = stump(X[:, 0], y, w)
        e = w[h != y].sum()
        a = 0.5 * np.log((1 - e) / e)
        w = w * np.exp(-a * y * h)
        bound *= w.sum()
        w /= w.sum()
        total += a * h
        errors.append(e)
        alphas.append(a)
    np.testing.assert_allclose(errors, [0.3, 0.2143, 0.1818], atol=5e-5)
    fitted = AdaBoost(n_trees=3, random_state=0).fit(X, y)
    np.testing.assert_allclose(fitted.errors_, errors, atol=1e-12)
    np.testing.assert_allclose(fitted.alphas_, alphas, atol=1e-12)
    np.testing.assert_array_equal(fitted.predict(X), np.sign(total))
    np.testing.assert_allclose(fitted.decision_function(X), total / np.sum(alphas), atol=1e-12)
    staged = [np.mean(p != y) for p in fitted.staged_predict(X)]
    assert staged[-1] == 0 <= bound
    assert bound == pytest.approx(np.prod([2 * np.sqrt(e * (1 - e)) for e in errors]))


@pytest.mark.spec("DLN-47")
def test_adaboost_stops_without_error_and_bounds_the_training_error():
    X = np.arange(6.0)[:, None]
    perfect = AdaBoost(n_trees=10, random_state=0).fit(X, (X[:, 0] > 2).astype(int))
    assert len(perfect.errors_) == 1 and perfect.errors_[0] == 0
    X, y = load_breast_cancer(return_X_y=True)
    fitted = AdaBoost(n_trees=30, random_state=0).fit(X, y)
    bounds = np.cumprod(2 * np.sqrt(fitted.errors_ * (1 - fitted.errors_)))
    wrong = [np.mean(p != y) for p in fitted.staged_predict(X)]
    assert (np.array(wrong) <= bounds + 1e-12).all()
    seed = fitted.model_.estimator.random_state
    peer = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=30, random_state=seed).fit(X, y)
    np.testing.assert_allclose(peer.estimator_weights_, 2 * fitted.alphas_)


@pytest.mark.spec("DLN-47")
def test_adaboost_of_three_classes_adds_the_log_of_two():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    fitted = AdaBoost(n_trees=1, random_state=0).fit(X, np.array(list("aabbcc")))
    # one stump tells one class from two: of the six rows two are wrong
    assert fitted.errors_[0] == pytest.approx(1 / 3)
    assert 2 * fitted.alphas_[0] == pytest.approx(np.log(2) + np.log(2))


def samme(X, codes, w, n_trees, depth, rate=1.0):
    """Weighted errors, weights 2 a_m and votes (n, K) by the definition; trees of scikit-learn on the weights."""
    K, w, errors, alphas, votes = codes.max() + 1, w / w.sum(), [], [], np.zeros((len(X), codes.max() + 1))
    shares = []
    for _ in range(n_trees):
        tree = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(X, codes, w)
        h = tree.predict(X)
        e = w[h != codes].sum()
        if e >= 1 - 1 / K:
            break
        a = rate * (np.log((1 - e) / e) + np.log(K - 1)) if e > 0 else 1.0
        errors.append(e)
        alphas.append(a)
        shares.append(tree.feature_importances_)
        votes += a * np.where(np.eye(K, dtype=bool)[h], 1, -1 / (K - 1))
        if e <= 0:
            break
        w = w * np.exp(a * (h != codes))
        w /= w.sum()
    return np.array(errors), np.array(alphas), votes, np.average(shares, axis=0, weights=alphas)


@pytest.mark.spec("DLN-47", "DLN-46")
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize(("depth", "rate"), [(1, 1.0), (2, 0.3)])
def test_every_step_of_adaboost_by_the_recursion(k, depth, rate):
    """Three columns, K classes, weighted rows, deeper trees, a learning rate: errors, weights, votes, importances."""
    random = np.random.default_rng(k)
    X = random.normal(size=(150, 3))
    codes = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2 + random.normal(size=150), np.linspace(-0.5, 1.5, k - 1))
    weight = random.random(150) * (random.random(150) < 0.9)  # no two leaves tie
    there = weight > 0
    names = np.array(list("edcba"))[:k]  # another order than that of the codes
    fitted = AdaBoost(n_trees=12, max_depth=depth, learning_rate=rate, random_state=0)
    fitted.fit(X, names[codes], sample_weight=weight)
    errors, alphas, votes, shares = samme(X[there], codes[there], weight[there], 12, depth, rate)
    np.testing.assert_allclose(fitted.errors_, errors, atol=1e-12)
    np.testing.assert_allclose(2 * fitted.alphas_, alphas, rtol=1e-9)
    votes = (votes / alphas.sum())[:, ::-1]  # classes_ are sorted
    found = fitted.decision_function(X[there])
    np.testing.assert_allclose(found, votes if k > 2 else votes[:, 1], atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(X[there]), fitted.classes_[votes.argmax(axis=1)])
    np.testing.assert_allclose(fitted.feature_importances_, shares, atol=1e-9)
    assert len(list(fitted.staged_predict(X))) == len(errors) > 3


@pytest.mark.spec("DLN-47")
def test_a_tree_no_better_than_chance_ends_the_fit():
    """It was to end there and went on for up to 50 trees of weight 1e-16, where rounding left e just below 1/2."""
    for n, few in ((13, 3), (37, 11)):
        y, nothing = (np.arange(n) < few).astype(int), np.zeros((n, 1))  # first the larger class, then e = 1/2
        fitted = AdaBoost(random_state=0).fit(nothing, y)
        np.testing.assert_allclose(fitted.errors_, [few / n])
        assert len(list(fitted.staged_predict(nothing))) == 1
        assert (fitted.predict(nothing) == 0).all()
        np.testing.assert_array_equal(fitted.decision_function([[0.0]]), [-1.0])
    three = AdaBoost(random_state=0).fit(np.zeros((9, 1)), [0, 0, 0, 0, 1, 1, 1, 2, 2])
    assert three.errors_[0] == pytest.approx(5 / 9)  # above 1/2, below the 2/3 of chance: errors rise to that
    assert 1 < len(three.errors_) < 50 and (np.diff(three.errors_) > 0).all() and three.errors_[-1] < 2 / 3


@pytest.mark.spec("DLN-47")
@pytest.mark.parametrize(
    ("X", "y", "weight", "rate"),
    [
        ([[0, 0], [0, 1], [1, 0], [1, 1]], [0, 1, 1, 0], None, "0.5"),  # exclusive or
        (np.zeros((4, 1)), list("abab"), None, "0.5"),
        (np.zeros((3, 1)), [0, 0, 1], [1, 1, 2], "0.5"),  # by the weight, not by the rows
        (np.zeros((6, 1)), [0, 0, 1, 1, 2, 2], None, "0.667"),
        (np.zeros((6, 1)), [0, 0, 1, 1, 2, 2], [1, 1, 1, 1, 0, 0], "0.5"),  # two classes are left
    ],
)
def test_a_first_tree_no_better_than_chance_is_refused_in_our_words(X, y, weight, rate):
    """It ended in the library's words: "BaseClassifier in AdaBoostClassifier ensemble is worse than random"."""
    with pytest.raises(UserValueError, match=f"first tree must be wrong on less than {rate} of the weight") as caught:
        AdaBoost(random_state=0).fit(X, y, sample_weight=weight)
    assert "\n" not in str(caught.value) and "max_depth" in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(UserValueError, match="class"):  # another refusal keeps its words
        AdaBoost().fit([[0.0], [1.0]], [1, 1])


@pytest.mark.spec("DLN-47")
def test_a_later_tree_without_error_ends_the_fit_with_a_weight_of_one_half():
    """Depth 2 on six rows, wrong on one of them in each round; the fourth tree is right, which has no finite a_m."""
    X = np.array([[4.0, 2], [0, 3], [2, 5], [1, 4], [5, 0], [3, 1]])
    y = np.array([1, 0, 0, 1, 1, 0])
    fitted = AdaBoost(n_trees=20, max_depth=2, random_state=0).fit(X, y)
    np.testing.assert_allclose(fitted.errors_, [1 / 6, 1 / 10, 1 / 18, 0], atol=1e-12)
    np.testing.assert_allclose(2 * fitted.alphas_, [np.log(5), np.log(9), np.log(17), 1])
    assert not np.isnan(fitted.feature_importances_).any()


@pytest.mark.spec("DLN-48")
def test_gradient_boosting_by_hand():
    X, y = FOUR
    expected = [[2 / 3, 2 / 3, 2 / 3, 2], [1 / 3, 1 / 3, 1, 7 / 3]]
    fitted = GradientBoostingRegression(n_trees=2, learning_rate=0.5, max_depth=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(list(fitted.staged_predict(X)), expected, atol=1e-12)
    losses = [np.mean((np.array(h) - y) ** 2) for h in expected]
    np.testing.assert_allclose(losses, [1 / 2, 1 / 6])
    np.testing.assert_allclose(fitted.training_losses_, losses, atol=1e-12)


@pytest.mark.spec("DLN-48")
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_the_squared_error_never_rises(rate):
    X, y = load_diabetes(return_X_y=True)
    fitted = GradientBoostingRegression(n_trees=40, learning_rate=rate, random_state=0).fit(X, y)
    assert (np.diff(fitted.training_losses_) <= 1e-9).all()
    peer = GradientBoostingRegressor(
        n_estimators=40, learning_rate=rate, random_state=fitted.model_.estimator.random_state
    ).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), peer.predict(X))


@pytest.mark.spec("DLN-48")
def test_a_classifier_fits_the_residuals_of_the_cross_entropy():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 0, 1])
    p = y.mean()
    fitted = GradientBoosting(n_trees=1, learning_rate=1.0, max_depth=1, random_state=0).fit(X, y)
    start = np.log(p / (1 - p))
    # the stump on y - p with the least squared error parts rows 0-2 from 3-5; a leaf is one Newton step
    left = np.arange(6) < 3
    step = [(y[s] - p).sum() / (len(y[s]) * p * (1 - p)) for s in (left, ~left)]
    np.testing.assert_allclose(fitted.decision_function(X), start + np.where(left, *step), atol=1e-9)


def newton(X, codes, w, n_trees, rate, depth):
    """Probabilities after each step: trees on the residuals 1[y = c] - p_c, every leaf one Newton step."""
    K, Y = codes.max() + 1, np.eye(codes.max() + 1)[codes]
    share, trees = w @ Y / w.sum(), 1 if K == 2 else K
    F = np.tile(np.log(share[1:] / share[:1]) if K == 2 else np.log(share), (len(X), 1))
    for _ in range(n_trees):
        p = special.expit(F) if K == 2 else special.softmax(F, 1)
        step = np.zeros_like(F)
        for c in range(trees):
            r = Y[:, c + (K == 2)] - p[:, c]
            leaf = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(X, r, w).apply(X)
            for one in np.unique(leaf):
                i = leaf == one
                step[i, c] = (w[i] @ r[i]) / (w[i] @ (p[i, c] * (1 - p[i, c])))
        F = F + rate * step * (1 if K == 2 else (K - 1) / K)
        last = special.expit(F) if K == 2 else special.softmax(F, 1)
        yield np.hstack([1 - last, last]) if K == 2 else last


@pytest.mark.spec("DLN-48")
@pytest.mark.parametrize("k", [2, 3])
def test_every_step_of_a_classifier_by_the_recursion(k):
    """Two columns, K classes, weighted rows; the losses are mean cross-entropies (of two classes it was twice that)."""
    random = np.random.default_rng(k)
    X, w = random.normal(size=(90, 2)).astype(np.float32), random.uniform(0.5, 2, 90)
    codes = np.digitize(X[:, 0] + 0.3 * X[:, 1] + 0.5 * random.normal(size=90), np.linspace(-0.6, 0.6, k - 1))
    fitted = GradientBoosting(n_trees=6, learning_rate=0.3, max_depth=2, random_state=0).fit(X, codes, sample_weight=w)
    expected = list(newton(X, codes, w, 6, 0.3, 2))
    np.testing.assert_allclose(fitted.predict_proba(X), expected[-1], atol=1e-6)
    losses = [-np.average(np.log(p[np.arange(90), codes]), weights=w) for p in expected]
    np.testing.assert_allclose(fitted.training_losses_, losses, rtol=1e-6)
    for p, said in zip(expected, fitted.staged_predict(X), strict=True):
        np.testing.assert_array_equal(said, p.argmax(1))


@pytest.mark.spec("DLN-48")
@pytest.mark.parametrize("target", ["number", "class"])
def test_gradient_boosting_stops_when_rows_held_out_gain_nothing(target):
    """A step must be better than one of the last three, on a fifth of the rows; the steps that were taken stay."""
    X, y = load_diabetes(return_X_y=True)
    system = GradientBoostingRegression if target == "number" else GradientBoosting
    y = y if target == "number" else (y > 140).astype(int)
    fitted = system(n_trees=200, learning_rate=0.4, patience=3, held_out=0.2, random_state=0).fit(X, y)
    assert 5 < fitted.n_trees_ == len(fitted.training_losses_) < 200
    seed, classes = fitted.model_.estimator.random_state, None if target == "number" else y
    train, _, own, _ = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=classes)
    rest = system(n_trees=fitted.n_trees_, learning_rate=0.4, random_state=0)
    peer = rest.make_estimator(X.shape[1]).set_params(random_state=seed).fit(train, own)
    verb = "predict" if target == "number" else "predict_proba"
    np.testing.assert_allclose(getattr(fitted, verb)(X), getattr(peer, verb)(X), rtol=1e-9)
    assert system(n_trees=9, random_state=0).fit(X, y).n_trees_ == 9
    _, held, _, answer = train_test_split(X, y, test_size=0.2, random_state=seed, stratify=classes)
    if target == "number":
        losses = [((p - answer) ** 2).mean() for p in fitted.staged_predict(held)]
    else:
        losses = [log_loss(answer, p) for p in peer.staged_predict_proba(held)]
    better = [t < 3 or loss < max(losses[t - 3 : t]) for t, loss in enumerate(losses)]
    assert all(better[:-1]) and not better[-1]


@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_second_order_split_and_leaves_by_enumeration(l2):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(40, 2)), random.normal(size=40)
    fitted = HistogramBoostingRegression(
        n_trees=1, learning_rate=1.0, max_leaves=2, min_rows_leaf=1, l2=l2, random_state=0
    ).fit(X, y)
    g = y.mean() - y  # first derivative of half the squared error at H_0; the second is 1
    found = []
    for column in range(2):
        for value in np.sort(X[:, column])[:-1]:
            left = X[:, column] <= value
            gain = sum(g[s].sum() ** 2 / (s.sum() + l2) for s in (left, ~left)) - g.sum() ** 2 / (len(y) + l2)
            found.append((gain / 2, column, value))
    gain, column, value = max(found)
    left = X[:, column] <= value
    leaves = [-g[s].sum() / (s.sum() + l2) for s in (left, ~left)]
    np.testing.assert_allclose(fitted.predict(X), y.mean() + np.where(left, *leaves), atol=1e-5)
    assert fitted.model_.estimator._predictors[0][0].nodes["gain"][0] == pytest.approx(2 * gain, rel=1e-4)


def test_without_a_penalty_and_with_a_bin_per_value_it_is_exact_greedy_boosting():
    random = np.random.default_rng(1)
    X, y = random.integers(0, 40, size=(150, 3)).astype(float), random.normal(size=150)
    fast = HistogramBoostingRegression(n_trees=5, learning_rate=0.5, max_depth=1, min_rows_leaf=1, random_state=0).fit(
        X, y
    )
    exact = GradientBoostingRegression(n_trees=5, learning_rate=0.5, max_depth=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(fast.predict(X), exact.predict(X), atol=1e-5)
    np.testing.assert_allclose(fast.feature_importances_, exact.feature_importances_, atol=1e-6)
    assert np.unique(fast.feature_importances_).size == 3 and fast.feature_importances_.sum() == pytest.approx(1)
    flat = HistogramBoostingRegression(n_trees=2, random_state=0).fit(X, np.ones(150))
    assert not flat.feature_importances_.any()


def test_missing_values_stopping_and_parity():
    X = np.column_stack([np.r_[np.zeros(30), np.full(30, np.nan)], np.ones(60)])
    y = np.r_[np.zeros(30), np.ones(30)].astype(int)
    fitted = HistogramBoosting(n_trees=20, random_state=0).fit(X, y)
    assert fitted.score(X, y) == 1
    X, y = load_diabetes(return_X_y=True)
    stopped = HistogramBoostingRegression(n_trees=300, learning_rate=0.5, patience=3, random_state=0).fit(X, y)
    assert stopped.n_trees_ < 300
    whole = HistogramBoostingRegression(n_trees=20, random_state=0).fit(X, y)
    assert whole.n_trees_ == 20
    peer = HistGradientBoostingRegressor(max_iter=20, early_stopping=False, random_state=0).fit(X, y)
    np.testing.assert_array_equal(whole.predict(X), peer.predict(X))
    assert np.mean([len(set(p)) for p in whole.staged_predict(X[:50])]) > 1
