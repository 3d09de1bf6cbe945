"""Support vector machines: hand solutions, a quadratic program solved otherwise, optimality conditions, kernels."""

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC, SVR

from gnomon.errors import UserError
from gnomon.systems.kernel.kernels import RBF, Linear, Polynomial, Sigmoid, centered
from gnomon.systems.kernel.svm import SVM, SupportVectorRegression

CORNERS = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
XOR = np.array([-1, 1, 1, -1])


def cloud(n=24, seed=0):
    random = np.random.default_rng(seed)
    y = np.where(random.random(n) < 0.5, -1, 1)
    return random.normal(size=(n, 2)) + 0.8 * y[:, None], y


def dual(K, y, C):
    """Multipliers of the dual, by a general solver of constrained problems."""
    Q = K * np.outer(y, y)
    found = minimize(
        lambda a: 0.5 * a @ Q @ a - a.sum(), np.full(len(y), 0.01), jac=lambda a: Q @ a - 1,
        bounds=[(0, C)] * len(y), constraints=LinearConstraint(y[None].astype(float), 0, 0), method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2000},
    )  # fmt: skip
    return found.x


def multipliers(fitted, n):
    a = np.zeros(n)
    a[fitted.support_] = np.abs(fitted.dual_coef_[0])
    return a


@pytest.mark.spec("DLN-104")
def test_two_points():
    X, y = np.array([[0.0, 0.0], [2.0, 2.0]]), np.array([-1, 1])
    wide = SVM(kernel="linear", C=1.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(wide.coef_, [[0.5, 0.5]], atol=1e-7)
    np.testing.assert_allclose(wide.intercept_, [-1.0], atol=1e-7)
    np.testing.assert_allclose(np.abs(wide.dual_coef_), [[0.25, 0.25]], atol=1e-7)
    cheap = SVM(kernel="linear", C=0.2, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(cheap.coef_, [[0.4, 0.4]], atol=1e-7)


@pytest.mark.spec("DLN-104", "PRA-058")
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_primal_and_dual_meet(C):
    X, y = cloud()
    fitted = SVM(kernel="linear", C=C, tol=1e-9).fit(X, y)
    w, b, a = fitted.coef_[0], fitted.intercept_[0], multipliers(fitted, len(y))
    primal = 0.5 * w @ w + C * np.maximum(0, 1 - y * (X @ w + b)).sum()
    value = a.sum() - 0.5 * (a * y) @ (X @ X.T) @ (a * y)
    assert primal == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(w, (a * y) @ X, atol=1e-8)
    peer = SVC(kernel="linear", C=C, tol=1e-9, random_state=0).fit(X, y)
    np.testing.assert_allclose(fitted.decision_function(X), peer.decision_function(X), atol=1e-8)


@pytest.mark.spec("DLN-106")
def test_exclusive_or_by_hand():
    fitted = SVM(kernel=Polynomial(degree=2, gamma=1.0, offset=1.0), C=1.0, tol=1e-9).fit(CORNERS, XOR)
    np.testing.assert_allclose(multipliers(fitted, 4), 1 / 8, atol=1e-7)
    np.testing.assert_allclose(fitted.intercept_, 0, atol=1e-7)
    np.testing.assert_allclose(fitted.decision_function(CORNERS), XOR, atol=1e-7)


@pytest.mark.spec("DLN-106")
@pytest.mark.parametrize("kernel", [Linear(), Polynomial(degree=3, gamma=0.5, offset=1.0), RBF(gamma=0.7)])
@pytest.mark.parametrize("C", [0.5, 5.0])
def test_the_dual_is_solved(kernel, C):
    X, y = cloud()
    K = kernel.gram(X)
    fitted = SVM(kernel=kernel, C=C, tol=1e-9).fit(X, y)
    a, f = multipliers(fitted, len(y)), fitted.decision_function(X)
    other = dual(K, y, C)
    Q = K * np.outer(y, y)
    assert a.sum() - 0.5 * a @ Q @ a == pytest.approx(other.sum() - 0.5 * other @ Q @ other, rel=1e-5)
    # optimality: feasible, and complementary to the margins
    assert abs(a @ y) < 1e-8
    assert (a >= 0).all() and (a <= C + 1e-10).all()
    margin = y * f
    assert (margin[a < 1e-8] >= 1 - 1e-5).all()
    assert (margin[a > C - 1e-8] <= 1 + 1e-5).all()
    np.testing.assert_allclose(margin[(a > 1e-6) & (a < C - 1e-6)], 1, atol=1e-5)
    np.testing.assert_allclose(f, K @ (a * y) + fitted.intercept_[0], atol=1e-8)


@pytest.mark.spec("DLN-105")
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_features_of_the_polynomial_give_its_gram_matrix(degree):
    random = np.random.default_rng(0)
    X, Z = random.normal(size=(7, 3)), random.normal(size=(5, 3))
    kernel = Polynomial(degree=degree, gamma=0.7, offset=1.3)
    np.testing.assert_allclose(kernel.features(X) @ kernel.features(Z).T, kernel.gram(X, Z), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(kernel.gram(X, Z), (0.7 * X @ Z.T + 1.3) ** degree, rtol=1e-12)
    plain = Polynomial(degree=2, gamma=1.0, offset=1.0).features(np.array([[2.0, 3.0]]))[0]
    root = np.sqrt(2)
    np.testing.assert_allclose(sorted(plain), sorted([1, 2 * root, 3 * root, 4, 6 * root, 9]))


@pytest.mark.spec("DLN-105")
def test_kernels_by_their_formulas():
    random = np.random.default_rng(1)
    X, Z = random.normal(size=(6, 4)), random.normal(size=(5, 4))
    distance = ((X[:, None] - Z) ** 2).sum(-1)
    np.testing.assert_allclose(Linear().gram(X, Z), X @ Z.T, rtol=1e-12)
    np.testing.assert_allclose(RBF(gamma=0.3).gram(X, Z), np.exp(-0.3 * distance), rtol=1e-12)
    np.testing.assert_allclose(Sigmoid(gamma=0.3, offset=-0.5).gram(X, Z), np.tanh(0.3 * X @ Z.T - 0.5), rtol=1e-12)
    np.testing.assert_allclose(
        Polynomial(degree=4, gamma=0.2).gram(X, Z), pairwise_kernels(X, Z, "poly", degree=4, gamma=0.2, coef0=1)
    )
    for kernel in (Linear(), Polynomial(degree=3), RBF(gamma=2.0)):
        assert np.linalg.eigvalsh(kernel.gram(X)).min() > -1e-10
    # the sigmoid is no inner product: two points at which the matrix has a negative eigenvalue
    assert np.linalg.eigvalsh(Sigmoid(gamma=1.0, offset=-1.0).gram(np.array([[0.5], [1.0]]))).min() < -0.1
    features = X - X.mean(0)
    np.testing.assert_allclose(centered(Linear().gram(X)), features @ features.T, atol=1e-12)
    for function in (RBF().gram, Polynomial(gamma=None).features):
        with pytest.raises(UserError, match="gamma must be a number, got None"):
            function(X)
    for kernel, said in ((Polynomial(offset=-1.0), r"offset must be .*\[0, inf\), got -1"), (RBF(-1.0), "gamma must")):
        with pytest.raises(UserError, match=said):
            kernel.gram(X)
    with pytest.raises(UserError, match=r"gamma must be .*\(0, inf\) or None, got -2"):
        Polynomial(gamma=-2.0).features(X)  # its root would be NaN


@pytest.mark.spec("DLN-105", "DLN-106")
def test_the_kernel_trick_is_a_linear_machine_on_features():
    X, y = cloud()
    kernel = Polynomial(degree=2, gamma=1.0, offset=1.0)
    tricked = SVM(kernel=kernel, C=2.0, tol=1e-9).fit(X, y)
    explicit = SVM(kernel="linear", C=2.0, tol=1e-9).fit(kernel.features(X), y)
    new = np.random.default_rng(2).normal(size=(50, 2))
    np.testing.assert_allclose(
        tricked.decision_function(new), explicit.decision_function(kernel.features(new)), atol=1e-6
    )


@pytest.mark.spec("DLN-106")
def test_gamma_by_default_is_that_of_the_weighted_variance():
    X, y = cloud()
    fitted = SVM().fit(X, y)
    assert fitted.kernel_.gamma == pytest.approx(1 / (2 * X.var()))
    np.testing.assert_allclose(
        fitted.decision_function(X), SVC(random_state=0).fit(X, y).decision_function(X), atol=1e-9
    )
    weight = np.arange(len(y)) % 3
    heavy, many = SVM(tol=1e-9).fit(X, y, sample_weight=weight), SVM(tol=1e-9)
    many.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert heavy.kernel_ == many.kernel_ or heavy.kernel_.gamma == pytest.approx(many.kernel_.gamma)
    np.testing.assert_allclose(heavy.decision_function(X), many.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(X[heavy.support_], heavy.support_vectors_)  # rows as they were given


@pytest.mark.spec("DLN-104", "DLN-106")
def test_labels_of_any_kind_a_tilted_kernel_and_a_fit_that_was_cut_short():
    """y = -1 is the first class by name; the price of rows with weights is C times them; the sigmoid is not PSD."""
    X, y = cloud()
    names, weight = np.array(["yes", "no"])[(y < 0).astype(int)], np.linspace(0.2, 3, len(y))
    for kernel, peer in (("linear", {"kernel": "linear"}), (Sigmoid(gamma=0.4, offset=-0.3), {"kernel": "sigmoid",
                         "gamma": 0.4, "coef0": -0.3})):  # fmt: skip
        fitted = SVM(kernel=kernel, C=0.7, tol=1e-9).fit(X, names, sample_weight=weight)
        theirs = SVC(C=0.7, tol=1e-9, random_state=0, **peer).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(fitted.decision_function(X), theirs.decision_function(X), atol=1e-6)
        np.testing.assert_array_equal(fitted.predict(X) == "yes", fitted.decision_function(X) > 0)
        np.testing.assert_array_equal(fitted.support_, theirs.support_)
        assert (multipliers(fitted, len(y)) <= 0.7 * weight + 1e-9).all()
    with pytest.warns(UserWarning, match=r"stopped before it converged.*max_iter=3"):
        SVM(kernel=Sigmoid(), max_iter=3).fit(X, y)


def test_more_classes_are_voted_on():
    random = np.random.default_rng(3)
    y = random.integers(0, 4, 80)
    X = random.normal(size=(80, 2)) + 2 * np.eye(4)[y][:, :2] + y[:, None]
    names = np.array(["d", "a", "c", "b"])
    fitted = SVM().fit(X, names[y])
    peer = SVC(break_ties=True, random_state=0).fit(X, names[y])
    np.testing.assert_array_equal(fitted.predict(X), peer.predict(X))
    np.testing.assert_array_equal(fitted.classes_[fitted.decision_function(X).argmax(1)], fitted.predict(X))
    assert not hasattr(fitted, "predict_proba")


def test_regression_is_the_peers():
    random = np.random.default_rng(4)
    X = random.normal(size=(40, 2))
    y = X[:, 0] ** 2 + random.normal(size=40)
    fitted = SupportVectorRegression(C=3.0, epsilon=0.2, tol=1e-9).fit(X, y)
    state = np.random.get_state()  # the peer draws from the global generator
    peer = SVR(C=3.0, epsilon=0.2, tol=1e-9).fit(X, y)
    np.random.set_state(state)
    np.testing.assert_allclose(fitted.predict(X), peer.predict(X), atol=1e-6)
    inside = np.abs(y - fitted.predict(X)) < 0.2 - 1e-6
    assert not set(fitted.support_) & set(np.flatnonzero(inside))
