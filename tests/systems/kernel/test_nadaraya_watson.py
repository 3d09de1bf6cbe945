"""Nadaraya-Watson regression: the published numbers, refits without a row, finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.datasets import load_diabetes

from gnomon import NadarayaWatson
from gnomon.errors import UserError, UserValueError
from gnomon.nn.attention import GaussianScore, weights
from gnomon.systems.kernel import nadaraya_watson as room
from gnomon.systems.kernel.nadaraya_watson import NadarayaWatsonModel, gaussian_kernel, log_kernel

X3, Y3 = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 4.0])


def drawn(n: int, d: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (n, d))
    return X, np.sin(2 * X[:, 0]) + 0.2 * random.normal(size=n)


@pytest.mark.spec("LIN-25")
def test_the_gaussian_kernel():
    assert gaussian_kernel([0.0, 1.0, -1.0]).tolist() == pytest.approx([0.3989423, 0.2419707, 0.2419707], abs=5e-8)
    u = np.linspace(-4, 4, 9)
    for h in (0.3, 1.0, 5.0):
        assert gaussian_kernel(u, h) == pytest.approx(norm(scale=h).pdf(u), rel=1e-13)
        assert quad(lambda t, h=h: float(gaussian_kernel(t, h)), -50, 50, points=[0])[0] == pytest.approx(1)
    assert log_kernel(1e3) == pytest.approx(norm.logpdf(1e3)) and np.isfinite(log_kernel(1e100))
    # the constant cancels in the mean of targets, not in the density of rows
    K = gaussian_kernel(0.5 - X3[:, 0], 0.7)
    model = NadarayaWatson(bandwidth=0.7).fit(X3, Y3)
    assert model.predict([[0.5]])[0] == pytest.approx((K @ Y3) / K.sum())
    assert quad(lambda x: gaussian_kernel(x - X3[:, 0], 0.7).mean(), -9, 11)[0] == pytest.approx(1)


@pytest.mark.spec("LIN-24")
def test_predictions_are_means_weighted_by_the_kernel():
    model = NadarayaWatson(bandwidth=1.0).fit(X3, Y3)
    assert model.weights([[0.5]])[0].tolist() == pytest.approx([0.4223188, 0.4223188, 0.1553624], abs=5e-8)
    assert model.predict([[0.5]])[0] == pytest.approx(1.0437684, abs=5e-8)
    X, y = drawn(60, 2)
    new = np.random.default_rng(1).normal(size=(7, 2))
    model = NadarayaWatson(bandwidth=0.4).fit(X, y)
    distances = ((new[:, None] - X) ** 2).sum(2)
    K = np.exp(-0.5 * distances / 0.4**2)
    assert model.weights(new) == pytest.approx(K / K.sum(1, keepdims=True), abs=1e-12)
    assert model.predict(new) == pytest.approx((K @ y) / K.sum(1))
    scores = GaussianScore(1 / 0.4).score(torch.from_numpy(new)[None], torch.from_numpy(X)[None])  # it is attention
    assert model.weights(new) == pytest.approx(weights(scores)[0].numpy())
    assert NadarayaWatson(bandwidth=0.4).fit(X, np.full(60, 3.5)).predict(new) == pytest.approx(3.5)
    weight = np.random.default_rng(2).integers(0, 4, 60)
    weighted = NadarayaWatson(bandwidth=0.4).fit(X, y, sample_weight=weight)
    repeated = NadarayaWatson(bandwidth=0.4).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert weighted.predict(new) == pytest.approx(repeated.predict(new))


@pytest.mark.spec("LIN-24")
@pytest.mark.parametrize("far", [1e2, 1e6, 1e12, 1e60])
def test_far_away_nothing_underflows(far):
    model = NadarayaWatson(bandwidth=0.1).fit(X3, Y3)
    assert model.predict([[far], [-far]]).tolist() == [4.0, 0.0]  # the nearest row alone
    shifted = NadarayaWatson(bandwidth=1.0).fit(X3 + 1e9, Y3)
    assert shifted.predict([[1e9 + 0.5]])[0] == pytest.approx(1.0437684, abs=1e-6)


@pytest.mark.spec("LIN-24")
@pytest.mark.parametrize("far", [1e6, 1e9, 1e12])
def test_rows_far_from_the_others_change_nothing(far):
    X, y = drawn(40, 2)
    alone = NadarayaWatson(bandwidth=0.5).fit(X, y).predict(X)
    for more in ([[far, 0.0]], X + [far, 0.0]):  # one row, or as many as there are
        wide = NadarayaWatson(bandwidth=0.5).fit(np.concatenate([X, more]), np.append(y, np.resize(y, len(more))))
        assert wide.predict(X) == pytest.approx(alone, rel=1e-9)


@pytest.mark.spec("LIN-26")
@pytest.mark.parametrize("unit", [1e-50, 1e-3, 1e4, 1e50])
def test_learned_widths_have_the_unit_of_the_columns(unit):
    X, y = drawn(40, 2)
    one = NadarayaWatson(learned="by-column").fit(X, y)
    other = NadarayaWatson(learned="by-column").fit(unit * X, y)
    assert other.omega_ * unit == pytest.approx(one.omega_, rel=1e-3, abs=1e-2)
    assert other.loo_error_ == pytest.approx(one.loo_error_, rel=1e-5)


@pytest.mark.spec("LIN-24")
def test_the_bandwidth_is_the_one_with_the_least_error_of_refits_without_a_row():
    X, y = drawn(30, 2)
    fitted = NadarayaWatson().fit(X, y)

    def refitted(h):
        errors = []
        for i in range(30):
            rest = np.delete(np.arange(30), i)
            errors.append(NadarayaWatson(bandwidth=h).fit(X[rest], y[rest]).predict(X[i : i + 1])[0] - y[i])
        return np.mean(np.square(errors))

    h = fitted.bandwidth_[0]
    assert fitted.bandwidth_[1] == h and fitted.loo_error_ == pytest.approx(refitted(h))
    assert all(refitted(h * factor) > fitted.loo_error_ for factor in (0.2, 0.9, 1.1, 5))
    # of a row of weight 2 one copy is left out: as if it stood there twice
    weight = np.random.default_rng(2).integers(0, 4, 30)
    one = NadarayaWatson().fit(X, y, sample_weight=weight)
    two = NadarayaWatson().fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert one.bandwidth_ == pytest.approx(two.bandwidth_, rel=1e-6)


@pytest.mark.spec("LIN-24")
def test_errors_fall_with_the_number_of_rows():
    grid = np.linspace(-1.5, 1.5, 50)[:, None]
    errors = []
    for n in (50, 500, 5000):
        X, y = drawn(n, seed=3)
        model = NadarayaWatson(bandwidth=0.6 * n**-0.2).fit(X, y)
        errors.append(np.mean((model.predict(grid) - np.sin(2 * grid[:, 0])) ** 2))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_memory_is_that_of_a_chunk(monkeypatch):
    X, y = drawn(200, 3)
    model = NadarayaWatson(learned="by-column").fit(X, y)
    expected, error = model.predict(X), model.loo_error_
    monkeypatch.setattr(room, "CELLS", 1000)
    sizes = []
    held = NadarayaWatsonModel.log_weights
    monkeypatch.setattr(NadarayaWatsonModel, "log_weights",
                        lambda self, *given: sizes.append((found := held(self, *given)).size) or found)  # fmt: skip
    assert model.predict(X) == pytest.approx(expected, abs=1e-12) and model.loo_error_ == pytest.approx(error)
    assert max(sizes) <= 1000 and len(sizes) == 80


@pytest.mark.spec("LIN-26")
def test_the_learned_width():
    for omega, expected in ((1.0, [0.4223188, 0.4223188, 0.1553624]), (2.0, [0.4954626, 0.4954626, 0.0090747])):
        model = NadarayaWatson(bandwidth=1 / omega).fit(X3, Y3)
        assert model.omega_.tolist() == [omega]
        assert model.weights([[0.5]])[0].tolist() == pytest.approx(expected, abs=5e-8)
    assert model.predict([[0.5]])[0] == pytest.approx(0.5317615, abs=5e-8)
    X, y = drawn(40, 3)
    flat = NadarayaWatsonModel(3)
    flat.keep(X, y, np.ones(40))
    flat.omega = np.zeros(3)
    assert flat.predict(X) == pytest.approx(y.mean())  # omega 0: the mean
    rows = np.arange(40)
    for several in (y, np.column_stack([y, X[:, 1] ** 2])):
        made = NadarayaWatsonModel(3)
        made.keep(X, several, np.random.default_rng(4).integers(1, 4, 40).astype(float))
        omega = np.array([1.3, 0.4, -2.0])
        _, slope = made.error(omega, rows, slope=True)
        steps = 1e-5 * np.eye(3)
        differences = [(made.error(omega + s, rows)[0] - made.error(omega - s, rows)[0]) / 2e-5 for s in steps]
        assert slope == pytest.approx(differences, rel=1e-6)
        assert made.error(-omega, rows)[0] == made.error(omega, rows)[0]  # the sign means nothing
    common, own = NadarayaWatson().fit(X, y), NadarayaWatson(learned="by-column").fit(X, y)
    assert own.loo_error_ < common.loo_error_ and (own.omega_ >= 0).all()
    assert own.omega_[0] > 5 * own.omega_[1:].max()  # the other columns say nothing
    _, slope = own.model_.error(own.omega_, rows, slope=True)
    assert np.abs(slope).max() < 1e-3
    # with its own pair a row is predicted without error by a kernel that is narrow enough: nothing would be learned
    wide = [NadarayaWatson(bandwidth=h).fit(X, y) for h in (1.0, 0.1, 0.001)]
    with_itself = [np.mean((one.predict(X) - y) ** 2) for one in wide]
    assert with_itself[0] > with_itself[1] > with_itself[2] and with_itself[2] < 1e-20
    assert wide[2].loo_error_ > own.loo_error_


def test_rows_that_leave_nothing_to_choose():
    one = NadarayaWatson().fit([[1.0, 2.0]], [3.0])
    assert one.predict([[9.0, 9.0]]).tolist() == [3.0] and np.isnan(one.loo_error_)
    same = NadarayaWatson(learned="by-column").fit(np.ones((5, 2)), np.arange(5.0))
    assert same.predict([[1.0, 1.0]])[0] == pytest.approx(2.0)
    large = NadarayaWatson().fit(np.arange(9.0)[:, None], 1e98 * np.arange(9.0))
    assert np.isfinite(large.predict([[4.5]])).all()
    with pytest.raises(UserValueError, match="bandwidth must be"):
        NadarayaWatson(bandwidth=0.0).fit(X3, Y3)
    with pytest.raises(UserError):
        one.predict([[np.nan, 1.0]])


def test_real_data():
    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    train, test = np.arange(442) % 3 > 0, np.arange(442) % 3 == 0
    assert NadarayaWatson().fit(X[train], y[train]).score(X[test], y[test]) > 0.35
