"""The objective of networks: terms, penalties, what is watched, and every loss reached from a system."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

import gnomon
from gnomon.data.layouts import Batch
from gnomon.nn.module import Module
from gnomon.numeric.noise import Noise
from gnomon.objectives.losses import BinaryCrossEntropy, CrossEntropyLoss, Huber, NegativeLogLikelihood, SquaredError
from gnomon.objectives.supervised import Supervised
from gnomon.training.group import Group

RANDOM = np.random.default_rng(0)


class Affine(Module):
    """Scores x w of targets in other units."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([[1.0], [-2.0]], dtype=torch.float64))

    @property
    def matrices(self) -> list[torch.Tensor]:
        return [self.w]

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.w

    def scaled(self, y: torch.Tensor) -> torch.Tensor:
        return (y[:, None] - 5) / 2

    def squared_error(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return ((outputs - targets) * 2).square().mean(1)


def batch(y: np.ndarray) -> Batch:
    X, weight = RANDOM.normal(size=(6, 2)), RANDOM.uniform(0.5, 2, size=6)
    return Batch({"X": X, "y": y}, np.arange(6), np.arange(6), weight)


def test_terms_penalties_and_what_is_watched() -> None:
    """By NumPy: the loss in scaled units, l1 and l2 of the matrices once, the error in the targets' units first."""
    given, model = batch(RANDOM.normal(size=6)), Affine()
    objective = Supervised(SquaredError(), targets="scaled", name="loss", watch="squared_error", l1=0.5, l2=0.25)
    loss = objective(model, given, noise=Noise(0, "fit"), phase="fit", group=Group())
    X, y, w = given.data["X"], given.data["y"], given.weight
    error = X @ np.array([1.0, -2.0]) - (y - 5) / 2
    expected = {"loss": (w * error**2).sum() / 2, "squared_error": (w * 4 * error**2).sum(), "l1": 3.0, "l2": 2.5}
    with torch.no_grad():
        sums = {name: float(term.sum() if callable(term.sum) else term.sum) for name, term in loss.terms.items()}
    assert sums == pytest.approx(expected, rel=1e-12)
    assert (loss.terms["l1"].scale, loss.terms["l2"].scale, loss.watched) == (0.5, 0.25, "squared_error")
    total = expected["loss"] / w.sum() + 0.5 * 3.0 + 0.25 * 2.5
    whole = loss.total().detach().item()
    assert whole == pytest.approx(total, rel=1e-12), "what is only watched is no part of the total"
    judged = objective.validate(model, given, noise=Noise(0, "fit"), group=Group())
    assert set(judged.terms) == {"loss", "squared_error"} and not judged.terms["loss"].sum.requires_grad


def fitted(loss: Any, *, weight: Any = None, **options: Any) -> Any:
    X, y = load_iris(return_X_y=True)
    given = {"hidden": (4,), "epochs": 5, "batch_size": 30, "learning_rate": 0.1, "optimizer": "sgd", "l2": 0.0,
             "random_state": 0, "dtype": "float64"}  # fmt: skip
    return gnomon.MLP(loss=loss, **given | options).fit(X, y, sample_weight=weight)


def test_class_weights_are_weights_of_rows() -> None:
    """The mean divides by them too: another way to the same fit."""
    y = load_iris(return_X_y=True)[1]
    weights = np.array([1.0, 3.0, 0.5])
    one, other = (
        fitted(CrossEntropyLoss(tuple(weights)), standardize=False),
        fitted(CrossEntropyLoss(), weight=weights[y], standardize=False),
    )
    for name, value in one.model_.state().items():
        np.testing.assert_allclose(value, other.model_.state()[name], rtol=1e-9, atol=1e-12)
    plain = fitted("cross-entropy", standardize=False).model_.state()["layers.0.weight"]
    assert not np.allclose(one.model_.state()["layers.0.weight"], plain)


def test_smoothing_reaches_the_fit_by_any_name() -> None:
    """As a recipe and as a hyper-parameter; smoothed targets keep the probabilities away from 0 and 1."""
    X, _ = load_iris(return_X_y=True)
    long = {"epochs": 40, "optimizer": "adam", "learning_rate": 0.05}
    smooth, plain = fitted(CrossEntropyLoss(smoothing=0.3), **long), fitted("cross-entropy", **long)
    named = gnomon.MLP(**smooth.get_params(deep=False)).set_params(loss="cross-entropy").set_params(loss__smoothing=0.3)
    assert named.recipe("loss") == smooth.loss
    assert smooth.predict_proba(X).max() < 0.95 < plain.predict_proba(X).max()


@pytest.mark.parametrize("loss", ["nll", "probability-cross-entropy"])
def test_losses_of_log_probabilities_and_probabilities_are_the_cross_entropy(loss: str) -> None:
    one, other = fitted(loss), fitted("cross-entropy")
    for name, value in one.model_.state().items():
        np.testing.assert_allclose(value, other.model_.state()[name], rtol=1e-7, atol=1e-10)
    assert loss.replace("-", "_") in one.history_


def test_one_against_the_rest() -> None:
    """The probabilities are those of k logistic regressions, brought to sum 1; the same from their probabilities."""
    X, y = load_iris(return_X_y=True)
    one, other = fitted("binary-cross-entropy", epochs=30), fitted(BinaryCrossEntropy("probabilities"), epochs=30)
    scores = one.model_.ask("scores", X)
    alone = 1 / (1 + np.exp(-scores))
    np.testing.assert_allclose(one.predict_proba(X), alone / alone.sum(1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-6)
    assert one.score(X, y) > 0.9


def test_a_class_may_be_ignored() -> None:
    """Padding's label has no gradient: a fit that ignores class 2 is the fit to the other rows."""
    y = load_iris(return_X_y=True)[1]
    one = fitted(NegativeLogLikelihood(ignore_index=2), batch_size=None, standardize=False)
    other = fitted("nll", weight=(y != 2).astype(float), batch_size=None, standardize=False)
    for name, value in one.model_.state().items():
        np.testing.assert_allclose(value, other.model_.state()[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("loss", "expected"), [("squared", np.mean), ("absolute", np.median), (Huber(1e-3), np.median), ("smooth-l1", None)]
)
def test_a_constant_prediction_is_the_losss_own_centre(loss: Any, expected: Any) -> None:
    """Mean or median of skewed targets, from a column that says nothing."""
    y = np.array([0.0, 0.0, 0.1, 0.2, 10.0])
    net = gnomon.MLPRegression(
        hidden=(), loss=loss, epochs=400, learning_rate=0.05, schedule="linear", l2=0.0, batch_size=None,
        random_state=0, dtype="float64",
    ).fit(np.zeros((5, 1)), y)  # fmt: skip
    middle = net.predict(np.zeros((1, 1)))[0]
    if expected is None:
        assert np.median(y) < middle < np.mean(y)
    else:
        assert middle == pytest.approx(expected(y), abs=0.03)
    assert {"squared_error", f"scaled_{net.recipe('loss').short.replace('-', '_')}"} <= set(net.history_)
