"""Gaussian classes: scikit-learn's discriminants and naive Bayes, Bayes' rule, rows without labels, draws."""

import json

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

import gnomon
from gnomon.cli.main import run
from gnomon.errors import UserError, UserValueError
from gnomon.numeric.ops import softmax
from gnomon.systems.mixtures.gaussian_classifier import GaussianClassifier

FORMS = ("full", "tied", "diag", "spherical")
UNLABELED_ROWS = pytest.mark.filterwarnings("ignore:.*labeled -1 taken as without a label")
X, Y = load_wine(return_X_y=True)
X = X[:, :5]
PEERS = {
    "tied": lambda priors: LinearDiscriminantAnalysis(solver="lsqr", priors=priors),
    "diag": lambda priors: GaussianNB(var_smoothing=0, priors=priors),
}


def two(n=2000, seed=0, distance=2.0):
    """Unit normal rows about -2 and 2."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n)
    return random.normal(size=(n, 1)) + distance * (2 * y[:, None] - 1), y


def hide(y, shown, seed=0):
    """All labels -1 but for the first few of each class."""
    kept = np.concatenate([np.flatnonzero(y == label)[:shown] for label in np.unique(y)])
    hidden = np.full(len(y), -1)
    hidden[kept] = y[kept]
    return hidden


@pytest.mark.spec("BAY-29")
@pytest.mark.parametrize("form", PEERS)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_probabilities_are_scikit_learns(form, offset):
    peer = PEERS[form](None).fit(X, Y)
    fitted = GaussianClassifier(covariance=form).fit(X + offset, Y)
    tolerance = 1e-9 if offset == 0 else 1e-5
    np.testing.assert_allclose(fitted.predict_proba(X + offset), peer.predict_proba(X), atol=tolerance)
    np.testing.assert_allclose(fitted.priors_, np.bincount(Y) / len(Y), atol=1e-15)
    if form == "tied":
        np.testing.assert_allclose(fitted.covariances_, peer.covariance_, atol=tolerance)  # divisor n
    else:
        np.testing.assert_allclose(fitted.covariances_, peer.var_, rtol=tolerance)


@pytest.mark.spec("BAY-29")
def test_quadratic_discriminants_are_scikit_learns_but_for_its_divisor():
    fitted = GaussianClassifier(covariance="full").fit(X, Y)
    for c, covariance in enumerate(fitted.covariances_):
        np.testing.assert_allclose(covariance, np.cov(X[c == Y].T, bias=True), atol=1e-9)
    peer = QuadraticDiscriminantAnalysis(store_covariance=True).fit(X, Y)
    counts = np.bincount(Y)
    # whichever of n and n - 1 the release divides by, its probabilities follow from its own covariances
    state = fitted.model_.state()
    state["covariances"] = np.array(peer.covariance_)
    fitted.model_.load(state)
    np.testing.assert_allclose(fitted.predict_proba(X), peer.predict_proba(X), atol=1e-9)
    ratio = peer.covariance_[0][0, 0] / np.var(X[Y == 0, 0])
    assert min(abs(ratio - 1), abs(ratio - counts[0] / (counts[0] - 1))) < 1e-9


@pytest.mark.spec("BAY-29")
def test_given_priors_take_the_place_of_the_counted_ones():
    priors = (0.7, 0.2, 0.1)
    peer = PEERS["diag"](priors).fit(X, Y)
    fitted = GaussianClassifier(covariance="diag", priors=priors).fit(X, Y)
    np.testing.assert_allclose(fitted.predict_proba(X), peer.predict_proba(X), atol=1e-9)
    counted = GaussianClassifier(covariance="diag").fit(X, Y)
    shifted = counted.predict_proba(X) * np.array(priors) / counted.priors_
    np.testing.assert_allclose(fitted.predict_proba(X), shifted / shifted.sum(1, keepdims=True), atol=1e-9)


@pytest.mark.spec("BAY-29")
def test_one_covariance_for_all_gives_a_linear_logistic_form():
    fitted = GaussianClassifier(covariance="tied").fit(X, Y)
    scores = X @ fitted.coef_.T + fitted.intercept_
    np.testing.assert_allclose(softmax(scores, 1), fitted.predict_proba(X), atol=1e-9)
    log_odds = fitted.predict_log_proba(X)
    line = np.column_stack([X, np.ones(len(X))])
    left = log_odds[:, 1] - log_odds[:, 0]
    np.testing.assert_allclose(line @ np.linalg.lstsq(line, left)[0], left, atol=1e-7)
    with pytest.raises(AttributeError, match="tied"):
        _ = GaussianClassifier(covariance="full").fit(X, Y).coef_


@pytest.mark.spec("BAY-29")
@pytest.mark.parametrize("form", FORMS)
def test_joint_marginal_and_bayes_rule(form):
    fitted = GaussianClassifier(covariance=form).fit(X, Y)
    dense = fitted.model_.normals.dense()
    joint = np.column_stack(
        [np.log((c == Y).mean()) + stats.multivariate_normal(X[c == Y].mean(0), dense[c]).logpdf(X) for c in range(3)]
    )
    np.testing.assert_allclose(fitted.log_prob(X, Y), joint[np.arange(len(X)), Y], atol=1e-8)
    whole = np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(fitted.marginal_log_prob(X), whole, atol=1e-8)
    np.testing.assert_allclose(fitted.anomaly_score(X), -whole, atol=1e-8)
    np.testing.assert_allclose(fitted.predict_proba(X), np.exp(joint - whole[:, None]), atol=1e-9)
    assert fitted.bits_per_dim(X).value == pytest.approx(-whole.mean() / (5 * np.log(2)), abs=1e-9)
    assert fitted.evaluate(X, Y)["log_likelihood"].value == pytest.approx(
        (fitted.log_prob(X, Y) - whole).mean(), abs=1e-8
    )


@pytest.mark.spec("BAY-29")
@pytest.mark.parametrize("form", FORMS)
def test_no_other_parameters_make_rows_and_labels_more_probable(form):
    fitted = GaussianClassifier(covariance=form).fit(X, Y)
    best, model = fitted.log_prob(X, Y).sum(), fitted.model_
    state = {name: value.copy() for name, value in model.state().items()}
    for name in ("means", "covariances"):
        for factor in (0.99, 1.01):
            model.load({**state, name: state[name] * factor})
            assert fitted.log_prob(X, Y).sum() < best
    other = state["weights"] + [0.02, -0.01, -0.01]
    model.load({**state, "weights": other})
    assert fitted.log_prob(X, Y).sum() < best


@pytest.mark.spec("BAY-29")
@pytest.mark.parametrize("form", FORMS)
def test_drawn_pairs_are_those_of_the_model(form):
    fitted = GaussianClassifier(covariance=form).fit(X[:, :2], np.array(["a", "b", "c"])[Y])
    rows, labels = fitted.sample(40_000, random_state=0)
    assert labels.dtype == fitted.classes_.dtype
    for c, name in enumerate(fitted.classes_):
        own = rows[labels == name]
        share = fitted.priors_[c]
        # six standard errors each: a false alarm in 10^8
        assert abs(len(own) / 40_000 - share) < 6 * (share * (1 - share) / 40_000) ** 0.5
        covariance = fitted.model_.normals.dense()[c]
        white = np.linalg.solve(np.linalg.cholesky(covariance), (own - fitted.means_[c]).T)
        assert np.abs(white.mean(1)).max() < 6 / len(own) ** 0.5
        assert np.abs(white @ white.T / len(own) - np.eye(2)).max() < 6 * (2 / len(own)) ** 0.5
    again = GaussianClassifier(covariance=form).fit(rows, labels)
    assert np.abs(again.means_ - fitted.means_).max() < 0.1
    np.testing.assert_array_equal(rows, fitted.sample(40_000, random_state=0)[0])


# --- rows without labels ------------------------------------------------------------------------------------------


@UNLABELED_ROWS
@pytest.mark.spec("BAY-29")
@pytest.mark.parametrize("form", ["full", "tied", "diag", "spherical"])
def test_one_label_per_class_and_many_rows_without(form):
    """The best error of N(-2, 1) against N(2, 1) is Phi(-2) = .02275; its standard error on 20,000 rows is .00105."""
    rows, labels = two()
    test, truth = two(n=20_000, seed=1)
    fitted = GaussianClassifier(covariance=form).fit(rows, hide(labels, 1))
    assert 1 - fitted.score(test, truth) == pytest.approx(0.02275, abs=0.006)
    assert np.abs(fitted.means_[:, 0] - [-2, 2]).max() < 0.2
    history = fitted.history_["log_likelihood"]
    assert (np.diff(history) > -1e-10).all()
    assert len(history) > 2


@UNLABELED_ROWS
@pytest.mark.spec("BAY-29")
@pytest.mark.parametrize("form", FORMS)
def test_the_fit_without_labels_is_a_fixed_point_of_clamped_em(form):
    """Written out: labeled rows belong to their class, the others by Bayes' rule; weighted moments of these."""
    hidden = np.where(np.arange(len(Y)) % 3 == 0, Y, -1)
    fitted = GaussianClassifier(covariance=form, tol=1e-13, max_iter=5000, unlabeled_weight=0.5).fit(X, hidden)
    part = np.where((hidden >= 0)[:, None], np.eye(3)[np.maximum(hidden, 0)], 0.5 * fitted.predict_proba(X))
    rows = part.sum(0)
    means = part.T @ X / rows[:, None]
    scatter = np.stack([(part[:, c, None] * (X - means[c])).T @ (X - means[c]) for c in range(3)])
    expected = {
        "full": scatter / rows[:, None, None],
        "tied": scatter.sum(0) / rows.sum(),
        "diag": np.einsum("kii->ki", scatter) / rows[:, None],
        "spherical": np.einsum("kii->k", scatter) / rows / 5,
    }[form]
    np.testing.assert_allclose(fitted.priors_, rows / rows.sum(), atol=1e-5)
    np.testing.assert_allclose(fitted.means_, means, rtol=1e-5)
    np.testing.assert_allclose(fitted.covariances_, expected, rtol=1e-3, atol=1e-4)


@UNLABELED_ROWS
@pytest.mark.spec("BAY-29")
def test_rows_without_labels_and_without_weight_change_nothing():
    hidden = np.where(np.arange(len(Y)) % 2 == 0, Y, -1)
    kept = hidden >= 0
    alone = GaussianClassifier().fit(X[kept], Y[kept])
    weightless = GaussianClassifier(unlabeled_weight=0.0, tol=1e-12).fit(X, hidden)
    np.testing.assert_allclose(weightless.predict_proba(X), alone.predict_proba(X), atol=1e-8)
    helped = GaussianClassifier().fit(X, hidden)
    assert np.abs(helped.predict_proba(X) - alone.predict_proba(X)).max() > 1e-3
    assert helped.marginal_log_prob(X).mean() > alone.marginal_log_prob(X).mean()


def test_labels_that_mean_something_else():
    signs = GaussianClassifier().fit(X, np.where(Y == 0, -1, 1))
    assert signs.classes_.tolist() == [-1, 1]
    np.testing.assert_array_equal(signs.predict_proba(X), GaussianClassifier().fit(X, Y > 0).predict_proba(X))
    with pytest.raises(UserValueError, match="y must hold at least 2 classes, got only one class, 'a'"):
        GaussianClassifier().fit(X, ["a"] * len(Y))
    with pytest.raises(UserValueError, match="got no label at all"):
        GaussianClassifier().fit(X, np.full(len(Y), -1))
    with pytest.warns(UserWarning, match="rows labeled -1 taken as without a label; if -1 is a class"):  # HB-47
        below = GaussianClassifier().fit(X, Y - 3)  # classes -3, -2, and -1 that is none
    assert below.classes_.tolist() == [-3, -2]
    fitted = GaussianClassifier().fit(X, Y)
    with pytest.raises(UserValueError, match="marginal_log_prob"):
        fitted.log_prob(X)
    with pytest.raises(UserValueError, match="class 7 is in no training row"):
        fitted.log_prob(X[:2], [0, 7])


@pytest.mark.parametrize("priors", [(0.5, 0.5), (0.5, 0.6, 0.2), (0.5, 0.7, -0.2)])
def test_priors_that_are_none(priors):
    with pytest.raises(UserValueError, match="priors"):
        GaussianClassifier(priors=priors).fit(X, Y)


def test_classes_that_lie_in_a_plane_are_told():
    flat = np.column_stack([X[:, :2], X[:, 0]])
    with pytest.warns(UserWarning, match="covariance floor used in 3 of 3 classes"):
        fitted = GaussianClassifier(covariance="full").fit(flat, Y)
    assert np.isfinite(fitted.predict_log_proba(flat)).all()
    with pytest.warns(UserWarning, match="covariance floor used in 3 of 3 classes"):
        GaussianClassifier().fit(np.column_stack([X[:, :2], Y]), Y)  # each class in a plane of its own


def test_the_levels_of_a_category_are_no_plane_to_tell_of():
    """A level that a class lacks does not rule the class out, nor is anything said: the default is as the peer."""
    levels = np.random.default_rng(0).integers(0, 3, len(Y))
    levels[(Y == 2) & (levels == 1)] = 0
    coded = np.column_stack([X[:, :2], np.eye(3)[levels]])
    peer = LinearDiscriminantAnalysis().fit(coded, Y)
    fitted = GaussianClassifier().fit(coded, Y)  # warnings are errors
    np.testing.assert_array_equal(fitted.predict(coded), peer.predict(coded))
    odd = [[*X[Y == 2][:, :2].mean(0), 0.0, 1.0, 0.0]]  # a level that no row of its class has
    np.testing.assert_array_equal(fitted.predict(odd), peer.predict(odd))


def test_the_commands_fit_and_draw_rows_with_labels(tmp_path, capsys):
    folder = str(tmp_path / "r")
    given = ["fit", "gaussian-classifier", "iris", "--covariance", "tied", "--out", folder]
    assert run(given) == 0
    capsys.readouterr()
    assert run(["sample", folder, "-n", "3", "--seed", "1"]) == 0
    lines = capsys.readouterr().out.strip().split("\n")
    assert len(lines) == 4
    assert {len(line.split(",")) for line in lines} == {5}
    assert run(["sample", folder, "-n", "2", "--seed", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["samples"]
    assert [len(row) for row in found] == [5, 5]
    rows, labels = gnomon.load(folder).sample(2, random_state=1)
    assert found == [[*row, label] for row, label in zip(rows.tolist(), labels.tolist(), strict=True)]
    iris = load_iris()
    assert gnomon.load(folder).score(iris.data, iris.target) > 0.95


@pytest.mark.parametrize("priors", [0.5, (0.5, 0.5), ((0.2, 0.3, 0.5),)])
def test_priors_are_one_number_per_class(priors):
    with pytest.raises(UserError, match=r"one number per class|priors must"):
        GaussianClassifier(priors=priors).fit(X, Y)
