"""Linear regression: hand-computed fits, parity with NumPy and scikit-learn, rank, penalties, chunks, density."""

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Lasso, Ridge
from sklearn.linear_model import LinearRegression as Peer

import gnomon
from gnomon.errors import Diverged, UserTypeError, UserValueError
from gnomon.numeric.noise import Noise
from gnomon.objectives.losses import SquaredError
from gnomon.systems.linear._least_squares import factor
from gnomon.systems.linear.linear_regression import LinearRegression

x = np.array([[1.0], [2.0], [3.0]])
y = np.array([2.0, 3.0, 5.0])


def rows(n=60, d=5, outputs=2, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * [1, 10, 0.1, 3, 1][:d] + 3
    return X, X @ random.normal(size=(d, outputs)) + random.normal(size=(n, outputs)) + 7


def descent(**changes):
    parameters = {"solver": "gradient", "standardize": False, "optimizer": "sgd", "learning_rate": 0.1, "epochs": 1,
                  "tol": 0.0, "random_state": 0}  # fmt: skip
    return LinearRegression(**parameters | changes)


@pytest.mark.spec("LIN-01", "LIN-02")
@pytest.mark.parametrize("changes", [{}, {"solver": "gradient", "optimizer": "sgd", "learning_rate": 0.3,
                                          "epochs": 5000, "tol": 1e-12}])  # fmt: skip
def test_three_points_by_hand(changes):
    fitted = LinearRegression(random_state=0, **changes).fit(x, y)
    assert fitted.coef_ == pytest.approx([1.5], abs=1e-9)
    assert fitted.intercept_ == pytest.approx(1 / 3, abs=1e-9)
    scores = fitted.evaluate(x, y)
    assert scores["squared_error"].value == pytest.approx(1 / 18, abs=1e-9)
    assert scores["r2"].value == fitted.score(x, y) == pytest.approx(27 / 28, abs=1e-9)
    loss = SquaredError()(torch.from_numpy(fitted.predict(x)), torch.from_numpy(y)).item()
    assert loss == pytest.approx(1 / 36, abs=1e-9)
    if not changes:
        assert fitted.history_["half_squared_error"] == pytest.approx([1 / 36], abs=1e-12)


@pytest.mark.spec("LIN-01")
def test_one_dimension_is_refused_with_a_remedy():
    with pytest.raises(UserValueError, match="Reshape your data"):
        LinearRegression().fit(x[:, 0], y)


@pytest.mark.spec("LIN-03")
def test_closed_form_is_numpys_and_leaves_a_residual_orthogonal_to_the_columns():
    X, Y = rows()
    ones = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.lstsq(ones, Y)[0]
    fitted = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(fitted.coef_, expected[:-1].T, atol=1e-10)
    np.testing.assert_allclose(fitted.intercept_, expected[-1], atol=1e-9)
    assert np.abs(ones.T @ (Y - fitted.predict(X))).max() < 1e-8
    single = LinearRegression().fit(X, Y[:, 0])
    assert single.coef_.shape == (5,)
    np.testing.assert_allclose(single.coef_, fitted.coef_[0], atol=1e-12)


PERFECT = "ignore:.*fitted without error"


@pytest.mark.spec("LIN-03")
@pytest.mark.filterwarnings(PERFECT)
def test_the_condition_number_is_not_squared():
    random = np.random.default_rng(1)
    u, v = np.linalg.qr(random.normal(size=(200, 4)))[0], np.linalg.qr(random.normal(size=(4, 4)))[0]
    u -= u.mean(0)
    X = u * [1, 1e-3, 1e-7, 1e-10] @ v.T  # the products of the columns have condition 1e20: no digit would be left
    beta = np.array([1.0, -2.0, 3.0, 0.5])
    found = LinearRegression(standardize=False).fit(X, X @ beta)
    assert found.rank_ == 4
    np.testing.assert_allclose(found.coef_, beta, rtol=1e-4)


@pytest.mark.spec("LIN-03", "LIN-01")
@pytest.mark.filterwarnings(PERFECT)
@pytest.mark.parametrize("n", [60, 4], ids=["dependent columns", "fewer rows than columns"])
def test_of_several_solutions_the_one_of_least_norm(n):
    X, Y = rows(n=n)
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.full(n, 2.0)])
    fitted = LinearRegression(standardize=False).fit(X, Y)
    expected = np.linalg.pinv(X - X.mean(0), rcond=1e-12) @ (Y - Y.mean(0))
    assert fitted.rank_ == min(5, n - 1)
    np.testing.assert_allclose(fitted.coef_, expected.T, atol=1e-8)
    np.testing.assert_allclose(fitted.predict(X), Peer().fit(X, Y).predict(X), atol=1e-8)


@pytest.mark.spec("LIN-04", "DLN-67")
@pytest.mark.parametrize(
    ("X", "target", "w", "b"),
    [(x, y, 0.7666667, 0.3333333), (x[:2], y[:2] * [1, 4 / 3], 0.5, 0.3)],
)
def test_one_step_by_hand(X, target, w, b):
    fitted = descent().fit(X, target)
    assert fitted.coef_ == pytest.approx([w], abs=1e-7)
    assert fitted.intercept_ == pytest.approx(b, abs=1e-7)


@pytest.mark.spec("LIN-04", "DLN-67")
def test_full_batches_end_at_least_squares_below_the_critical_rate_and_diverge_above():
    ones = np.column_stack([x, np.ones(3)])
    critical = 2 / np.linalg.eigvalsh(ones.T @ ones / 3).max()
    assert critical == pytest.approx(0.3605897, abs=1e-7)
    fitted = descent(learning_rate=0.9 * critical, epochs=1500).fit(x, y)
    np.testing.assert_allclose([*fitted.coef_, fitted.intercept_], np.linalg.lstsq(ones, y)[0], atol=1e-6)
    with pytest.raises(Diverged, match="lower the learning rate"):
        descent(learning_rate=1.5 * critical, epochs=3000).fit(x, y)


@pytest.mark.spec("LIN-04", "DLN-67", "DLN-79")
def test_mini_batches_with_a_short_last_one_are_torchs_sgd():
    X, Y = rows(n=7, d=2, outputs=1)
    fitted = descent(batch_size=3, epochs=2, learning_rate=0.001).fit(X, Y[:, 0])
    w, b = (torch.zeros(size, 1, dtype=torch.float64, requires_grad=True) for size in (2, 1))
    torch_sgd = torch.optim.SGD([w, b], lr=0.001)
    order = Noise(0, "fit").child("order")
    for epoch in range(2):
        for chosen in np.split(np.asarray(order.at(epoch).order(7)), [3, 6]):
            torch_sgd.zero_grad()
            (torch.from_numpy(X[chosen]) @ w + b - torch.from_numpy(Y[chosen])).square().mean().div(2).backward()
            torch_sgd.step()
    np.testing.assert_allclose(fitted.coef_, w.detach().numpy()[:, 0], atol=1e-12)
    np.testing.assert_allclose(fitted.intercept_, b.item(), atol=1e-12)


@pytest.mark.spec("LIN-21", "DLN-71")
def test_ridge_by_hand_and_in_the_limit():
    fitted = LinearRegression(l2=0.5, standardize=False).fit(x, y)
    assert fitted.coef_ == pytest.approx([0.8571429], abs=1e-7)
    assert fitted.intercept_ == pytest.approx(1.6190476, abs=1e-7)
    flat = LinearRegression(l2=1e12, standardize=False).fit(x, y)
    assert flat.coef_ == pytest.approx([0], abs=1e-10)
    assert flat.intercept_ == pytest.approx(y.mean(), abs=1e-9)


@pytest.mark.spec("LIN-21", "DLN-71")
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_scikit_learns_with_alpha_n_l2_on_both_ways(weighted):
    X, Y = rows()
    weight = np.random.default_rng(3).uniform(0.5, 2, size=60) if weighted else np.ones(60)
    total = weight.sum()
    peer = Ridge(alpha=total * 0.3).fit(X, Y, sample_weight=weight)
    closed = LinearRegression(l2=0.3, standardize=False).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(closed.coef_, peer.coef_, atol=1e-10)
    np.testing.assert_allclose(closed.intercept_, peer.intercept_, atol=1e-9)
    spread = LinearRegression(l2=0.3).fit(X, Y, sample_weight=weight)
    gradient = descent(standardize=True, l2=0.3, epochs=20000, learning_rate=0.5, tol=1e-12)
    gradient.fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(gradient.coef_, spread.coef_, atol=1e-8)
    np.testing.assert_allclose(gradient.noise_variance_, spread.noise_variance_, rtol=1e-8)


@pytest.mark.spec("DLN-71", "LIN-21", "LIN-22")
def test_a_gradient_step_with_l2_is_multiplicative_decay():
    start = descent(epochs=1).fit(x, y)
    w, b = start.coef_[0], start.intercept_
    second = descent(epochs=2, l2=0.2).fit(x, y)  # the first step starts at w = 0, where the penalty has no gradient
    error = w * x[:, 0] + b - y
    assert second.coef_[0] == pytest.approx((1 - 0.1 * 0.2) * w - 0.1 * (x[:, 0] * error).mean(), abs=1e-12)
    assert second.intercept_ == pytest.approx(b - 0.1 * error.mean(), abs=1e-12)


@pytest.mark.spec("DLN-72")
def test_lasso_with_orthogonal_columns_is_a_soft_threshold():
    random = np.random.default_rng(0)
    q = np.linalg.qr(np.column_stack([np.ones(50), random.normal(size=(50, 4))]))[0][:, 1:]
    X = q * np.sqrt(50)  # X^T X = n I, columns of mean 0
    target = X @ [2.0, -0.5, 0.2, 0.05] + 0.1 * random.normal(size=50)
    b = X.T @ target / 50
    fitted = descent(l1=0.3, epochs=4000, learning_rate=0.5, tol=1e-13).fit(X, target)
    np.testing.assert_allclose(fitted.coef_, np.sign(b) * np.maximum(np.abs(b) - 0.3, 0), atol=1e-10)
    assert (fitted.coef_ == 0).sum() == 2


@pytest.mark.spec("DLN-72")
def test_lasso_of_weighted_rows_and_columns_off_the_center_is_scikit_learns():
    """The intercept is not shrunk: at the mean of a target far from 0 it is what the weights depend on."""
    random = np.random.default_rng(4)
    X = random.normal(size=(40, 3)) + [1.0, -0.5, 0.0]
    target = X @ [1.0, 0.1, -0.7] + 5 + 0.1 * random.normal(size=40)
    weight = random.uniform(0.2, 3, size=40)
    fitted = descent(l1=0.2, epochs=20000, learning_rate=0.3, tol=1e-11).fit(X, target, sample_weight=weight)
    peer = Lasso(alpha=0.2, tol=1e-12, max_iter=100000, random_state=0).fit(X, target, sample_weight=weight)
    np.testing.assert_allclose(fitted.coef_, peer.coef_, atol=1e-8)
    np.testing.assert_allclose(fitted.intercept_, peer.intercept_, atol=1e-8)
    assert (peer.coef_ == 0).tolist() == [False, True, False] == (fitted.coef_ == 0).tolist()


@pytest.mark.spec("DLN-72")
@pytest.mark.parametrize("outputs", [1, 2])
def test_lasso_is_scikit_learns(outputs):
    X, Y = rows(outputs=2)
    Z, target = (X - X.mean(0)) / X.std(0), Y[:, :outputs]
    fitted = descent(l1=0.4, standardize=True, epochs=20000, learning_rate=0.4, tol=1e-12).fit(X, target)
    for j in range(outputs):
        peer = Lasso(alpha=0.4, tol=1e-12, max_iter=100000, random_state=0).fit(Z, target[:, j])
        np.testing.assert_allclose(fitted.coef_[j] * X.std(0), peer.coef_, atol=1e-7)
        assert ((fitted.coef_[j] == 0) == (peer.coef_ == 0)).all()
        assert (peer.coef_ == 0).any()
    assert fitted.n_iter_ < 20000


@pytest.mark.spec("DLN-29")
def test_log_density_is_the_gaussians_and_half_the_squared_error_up_to_a_constant():
    X, Y = rows()
    fitted = LinearRegression().fit(X, Y)
    found = fitted.predict(X)
    expected = norm(found, np.sqrt(((Y - found) ** 2).mean(0))).logpdf(Y).sum(1)
    np.testing.assert_allclose(fitted.log_prob(X, Y), expected, atol=1e-9)
    assert fitted.evaluate(X, Y)["log_likelihood"].value == pytest.approx(expected.mean(), abs=1e-9)
    fitted.model_.state()["noise"][:] = 1.0
    half = ((Y - found) ** 2).sum(1) / 2
    np.testing.assert_allclose(-fitted.log_prob(X, Y) - half, 2 * 0.9189385332, atol=1e-9)
    peer = torch.nn.GaussianNLLLoss(full=True, reduction="none")
    theirs = peer(torch.from_numpy(found), torch.from_numpy(Y), torch.ones(60, 2, dtype=torch.float64)).sum(1)
    np.testing.assert_allclose(-fitted.log_prob(X, Y), theirs, atol=1e-9)


@pytest.mark.spec("DLN-29", "LIN-06")
@pytest.mark.filterwarnings(PERFECT)
def test_the_variance_is_the_likeliest_and_has_a_floor():
    X, Y = rows(outputs=1)
    fitted = LinearRegression().fit(X, Y[:, 0])
    best, state = fitted.log_prob(X, Y[:, 0]).mean(), fitted.model_.state()
    for factor_of_variance in (0.9, 1.1):
        state["noise"] *= factor_of_variance
        assert fitted.log_prob(X, Y[:, 0]).mean() < best
        state["noise"] /= factor_of_variance
    for perfect in (LinearRegression().fit(x, 2 * x[:, 0]), LinearRegression().fit(x, np.full(3, 4.0))):
        assert np.isfinite(perfect.log_prob(x, perfect.predict(x))).all()
        assert perfect.noise_variance_ > 0


@pytest.mark.spec("LIN-06")
@pytest.mark.parametrize("changes", [{}, {"solver": "gradient", "optimizer": "sgd", "learning_rate": 0.3,
                                          "epochs": 5000, "tol": 1e-12}])  # fmt: skip
def test_likelihood_of_three_points(changes):
    fitted = LinearRegression(random_state=0, **changes).fit(x, y)
    assert fitted.noise_variance_ == pytest.approx(0.0555556, abs=1e-7)
    assert -fitted.log_likelihood(x, y) == pytest.approx(-0.0787420, abs=1e-7)
    assert fitted.log_likelihood(x, y, sample_weight=[1, 0, 2]) == pytest.approx(
        fitted.log_prob(x, y) @ [1, 0, 2], abs=1e-12
    )
    mean, spread = fitted.predict([[2.5]], return_std=True)
    assert (mean[0], spread.tolist()) == (fitted.predict([[2.5]])[0], [pytest.approx(18**-0.5, abs=1e-9)])


@pytest.mark.spec("LIN-06")
@pytest.mark.parametrize("sigma", [0.1, 1.0, 30.0])
def test_least_squares_is_the_likeliest_line_whatever_the_noise(sigma):
    X, Y = rows(outputs=1)
    fitted = LinearRegression(standardize=False).fit(X, Y)
    state = fitted.model_.state()
    state["noise"][:] = sigma**2
    residual = Y - fitted.predict(X)
    best = -(30 * np.log(2 * np.pi * sigma**2) + (residual**2).sum() / (2 * sigma**2))
    assert fitted.log_likelihood(X, Y) == pytest.approx(best, rel=1e-12)
    for name in ("weight", "center"):
        for place in np.ndindex(state[name].shape):
            ends = []
            for step in (1e-4, -2e-4):
                state[name][place] += step
                ends.append(fitted.log_likelihood(X, Y) - best)
            state[name][place] += 1e-4
            assert max(ends) < 0
            assert ends[0] == pytest.approx(ends[1], rel=1e-3)  # the top of a parabola


@pytest.mark.spec("LIN-06")
def test_a_perfect_fit_is_told_and_its_likelihood_bounded():
    line = 3 * x[:, 0] + 1
    with pytest.warns(UserWarning, match="1 of 1 outputs fitted without error"):
        fitted = LinearRegression().fit(x, line)
    assert fitted.noise_variance_ == pytest.approx(1e-12 * line.var(), rel=1e-9)
    assert 0 < fitted.log_likelihood(x, line) < 100
    with pytest.warns(UserWarning, match="1 of 2 outputs"):
        descent(standardize=True, learning_rate=0.5, epochs=400).fit(x, np.column_stack([line, y]))


@pytest.mark.spec("LIN-06")
def test_drawn_targets_have_mean_and_spread_of_the_prediction():
    X, Y = rows()
    fitted = LinearRegression().fit(X, Y)
    many = np.repeat(X[:1], 20_000, axis=0)
    drawn = fitted.sample(many, random_state=0)
    mean, spread = fitted.predict(X[:1], return_std=True)
    z = (drawn - mean) / spread  # six standard errors: a false alarm in 10^8 seeds
    assert np.abs(z.mean(0)).max() < 6 / 20_000**0.5
    assert np.abs(z.var(0) - 1).max() < 6 * (2 / 20_000) ** 0.5
    assert abs((z[:, 0] * z[:, 1]).mean()) < 6 / 20_000**0.5
    np.testing.assert_array_equal(drawn, fitted.sample(many, random_state=0))
    assert (drawn != fitted.sample(many)).any()
    for none in (5, None):
        with pytest.raises(UserTypeError, match="linear-regression is a model of y given x and cannot draw rows x"):
            fitted.sample(none)


def test_a_far_target_keeps_its_digits_in_single_precision():
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 2)).astype(np.float32)
    seconds = 1.7e9 + X[:, 0].astype(float) * 5 + random.normal(size=100)
    for way in ({}, {"solver": "gradient", "epochs": 2000, "optimizer": "sgd", "learning_rate": 0.5}):
        fitted = LinearRegression(random_state=0, **way).fit(X, seconds)
        peer = Peer().fit(X.astype(float), seconds).score(X.astype(float), seconds)
        assert fitted.evaluate(X, seconds)["r2"].value == pytest.approx(peer, abs=1e-5)


@pytest.mark.parametrize("sizes", [(10,) * 10 + (1,), (3,) + (1,) * 98], ids=["tens", "ones"])
@pytest.mark.parametrize("outputs", [None, 2])
def test_chunks_of_any_size_are_one_fit(sizes, outputs):
    random = np.random.default_rng(2)
    X = random.normal(size=(101, 4)) @ np.diag([5, 3, 1, 0.1]) + 1000.0
    Y = X @ random.normal(size=(4, 2)) + random.normal(size=(101, 2))
    target, weight = Y if outputs else Y[:, 0], random.uniform(0.5, 2, 101)
    whole = LinearRegression(l2=0.1).fit(X, target, sample_weight=weight)
    chunked, start = LinearRegression(l2=0.1), 0
    for size in sizes:
        part = slice(start, start + size)
        chunked.partial_fit(X[part], target[part], sample_weight=weight[part])
        start += size
    chunked.partial_fit(X[:0], target[:0])
    assert chunked.n_samples_seen_ == 101
    np.testing.assert_allclose(chunked.coef_, whole.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(chunked.predict(X), whole.predict(X), atol=1e-8)
    np.testing.assert_allclose(chunked.noise_variance_, whole.noise_variance_, rtol=1e-8)


def test_chunks_go_on_from_a_fit_and_not_from_a_loaded_model(tmp_path):
    X, Y = rows()
    fitted = LinearRegression().fit(X[:40], Y[:40])
    loaded = gnomon.load(fitted.save(tmp_path / "m"))
    np.testing.assert_allclose(fitted.partial_fit(X[40:], Y[40:]).coef_, LinearRegression().fit(X, Y).coef_, atol=1e-10)
    with pytest.raises(UserValueError, match="fit to all rows again"):
        loaded.partial_fit(X, Y)
    with pytest.raises(UserValueError, match="columns of the first chunk"):
        fitted.partial_fit(X, Y[:, 0])
    with pytest.raises(UserValueError, match="chunks need the closed form"):
        descent().partial_fit(X, Y)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"l1": 0.1}, 'solver must be "gradient"'), ({"l1": 0.1, "solver": "gradient"}, "optimizer must be plain"),
     ({"l1": 0.1, "solver": "gradient", "optimizer": gnomon.training.optimizers.SGD(momentum=0.5)}, "plain"),
     ({"l2": -1.0}, "l2"), ({"solver": "lstsq"}, "solver")],
)  # fmt: skip
def test_parameters_that_do_not_go_together(changes, words):
    with pytest.raises(UserValueError, match=words) as caught:
        LinearRegression(**changes).fit(x, y)
    assert "\n" not in str(caught.value)


def test_triangular_factor_of_any_number_of_rows():
    random = np.random.default_rng(0)
    for n in (1, 3, 9):
        A = random.normal(size=(n, 3))
        np.testing.assert_allclose(factor(A).T @ factor(A), A.T @ A, atol=1e-12)


@pytest.mark.spec("LIN-01")
def test_diabetes_by_both_solvers_is_scikit_learns():
    X, target = load_diabetes(return_X_y=True)
    peer = Peer().fit(X, target)
    np.testing.assert_allclose(LinearRegression().fit(X, target).coef_, peer.coef_, rtol=1e-8)
    adam = LinearRegression(solver="gradient", epochs=3000, random_state=0).fit(X, target)
    assert adam.score(X, target) == pytest.approx(peer.score(X, target), abs=1e-4)


@pytest.mark.spec("BAY-83")
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_conjugate_gradients_are_the_closed_form_and_take_as_many_steps_as_eigenvalues(standardize, l2):
    random = np.random.default_rng(0)
    X, weight = random.normal(size=(80, 6)) @ random.normal(size=(6, 6)) + 3.0, random.uniform(0.5, 2, 80)
    y = X @ random.normal(size=(6, 2)) + random.normal(size=(80, 2)) - 40
    common = {"standardize": standardize, "l2": l2, "dtype": "float64"}
    closed = LinearRegression(**common).fit(X, y, sample_weight=weight)
    found = LinearRegression(solver="conjugate-gradient", tol=1e-11, **common).fit(X, y, sample_weight=weight)
    assert np.allclose(found.coef_, closed.coef_, rtol=1e-6) and np.allclose(found.intercept_, closed.intercept_)
    assert np.allclose(found.noise_variance_, closed.noise_variance_)
    assert len(found.history_["gradient_norm"]) <= 6 + 3 and found.history_["gradient_norm"][-1] <= 1e-10
    from_sparse = LinearRegression(solver="conjugate-gradient", tol=1e-11, **common)
    from_sparse.fit(sparse.csr_array(X), y, sample_weight=weight)
    assert np.allclose(from_sparse.coef_, closed.coef_, rtol=1e-6)
    losses = found.history_["half_squared_error"]
    if not l2:
        assert all(b <= a + 1e-12 for a, b in itertools.pairwise(losses))


@pytest.mark.spec("BAY-83")
def test_conjugate_gradients_on_more_columns_than_rows_have_the_least_norm():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(20, 500)), random.normal(size=20)
    with pytest.warns(UserWarning, match="without error"):
        closed = LinearRegression(dtype="float64").fit(X, y)
        found = LinearRegression(solver="conjugate-gradient", tol=1e-12, dtype="float64").fit(X, y)
    assert np.allclose(found.coef_, closed.coef_, atol=1e-9)
    assert len(found.history_["gradient_norm"]) < 40
