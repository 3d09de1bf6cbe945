"""A few rows by heart: good systems pass; each way of failing is told."""

import copy

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_iris

import gnomon
from gnomon.errors import Diverged, UserError
from gnomon.evaluation.overfit import overfit_tiny
from oracles.wrong import ClosedForm, Flipped

X, y = load_iris(return_X_y=True)


class Cut(gnomon.SoftmaxRegression):
    """No gradient reaches the weights."""

    def make(self, **arguments):
        model = super().make(**arguments)
        model.weight.register_hook(torch.zeros_like)
        model.bias.register_hook(torch.zeros_like)
        return model


class Blind(gnomon.SoftmaxRegression):
    """Only the bias learns."""

    def make(self, **arguments):
        model = super().make(**arguments)
        model.weight.register_hook(torch.zeros_like)
        return model


class Line(RegressorMixin, BaseEstimator):
    """Least squares on the first `columns` columns."""

    def __init__(self, columns=4):
        self.columns = columns

    def fit(self, X, y):
        self.coef_ = np.linalg.lstsq(np.c_[X[:, : self.columns], np.ones(len(X))], y, rcond=None)[0]
        return self

    def predict(self, X):
        return np.c_[X[:, : self.columns], np.ones(len(X))] @ self.coef_


def test_a_right_system_learns_by_heart_and_is_left_alone():
    system = gnomon.SoftmaxRegression(epochs=3, l2=0.1, batch_size=2, random_state=5)
    before = copy.deepcopy(system.get_params())
    report = overfit_tiny(system, X, y, rows=6, epochs=400)
    assert report.passed and bool(report) and report.loss <= report.target and report.reason == ""
    assert report.start == pytest.approx(np.log(3)) and len(report.history["cross_entropy"]) == 400
    assert system.get_params() == before and not hasattr(system, "model_")
    assert overfit_tiny(ClosedForm(), X, y, rows=6, epochs=400).passed
    named = overfit_tiny(gnomon.SoftmaxRegression(), X, np.array(["x", "z", "w"])[y], rows=6, epochs=400)
    assert named.loss == pytest.approx(report.loss, rel=0.5)


@pytest.mark.parametrize(
    ("system", "params", "words"),
    [
        (Cut(), {"epochs": 50}, "never moved"),
        (Blind(), {"rows": 5, "epochs": 300}, "same for every row"),
        (Flipped(optimizer="sgd", learning_rate=0.2), {"rows": 5, "epochs": 100}, "rose"),
        (gnomon.SoftmaxRegression(learning_rate=2e-3), {"epochs": 100}, "still falling"),
        (gnomon.SoftmaxRegression(), {"l2": 10.0, "epochs": 300}, "constant answer"),
        (gnomon.SoftmaxRegression(), {"l2": 0.3, "epochs": 300}, "stands still above zero"),
    ],
)
def test_what_is_wrong_is_told(system, params, words):
    report = overfit_tiny(system, X, y, **{"rows": 6, **params})
    assert not report.passed
    assert words in report.reason and str(report).startswith("not learned: loss")


def test_a_regressor_by_its_share_of_the_variance():
    random = np.random.default_rng(0)
    data = random.normal(size=(20, 4))
    target = data @ [1.0, 2.0, -1.0, 0.5] + 3
    assert overfit_tiny(Line(), data, target).loss == pytest.approx(0, abs=1e-20)
    short = overfit_tiny(Line(columns=1), data, target)
    residual = target[:8] - Line(columns=1).fit(data[:8], target[:8]).predict(data[:8])
    assert not short.passed and short.loss == pytest.approx((residual**2).mean() / target[:8].var())
    assert short.start == 1.0


def test_a_fit_that_diverges_is_a_failure_with_its_reason():
    class Diverging(gnomon.SoftmaxRegression):
        def fit(self, X, y, **options):
            raise Diverged("the loss became nan", "step 3", "lower the learning rate")

    report = overfit_tiny(Diverging(), X, y)
    assert not report.passed and "became nan" in report.reason and report.loss == np.inf


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((gnomon.PPCA(), X, y), {}, "system must be a classifier or a regressor, got a PPCA"),
        ((gnomon.SoftmaxRegression(), X, y), {"rows": 1}, "rows must be from 2 to 150, got 1"),
        ((gnomon.SoftmaxRegression(), X, y), {"rows": 151}, "rows must be from 2 to 150, got 151"),
        (
            (gnomon.SoftmaxRegression(), X[:50], y[:50]),
            {},
            "y must differ between rows; give data with something to learn",
        ),
        ((gnomon.SoftmaxRegression(), X[:50], y), {}, "y must have 50 values, one per row, got 150"),
        ((gnomon.SoftmaxRegression(), X[[0, 60, 0]], np.array([0, 1, 2])), {"rows": 3}, "rows 0 and 2 are equal"),
    ],
)
def test_what_cannot_be_learned(arguments, options, words):
    with pytest.raises(UserError, match=words):
        overfit_tiny(*arguments, **options)
