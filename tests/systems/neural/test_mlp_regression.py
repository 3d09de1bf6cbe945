"""The multilayer perceptron that regresses: units of the target, least squares without hidden layers, best weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import gnomon
from gnomon.errors import UserValueError
from gnomon.training.stopping import EarlyStopping


def waves(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1]


@pytest.mark.spec("LIN-16")
def test_without_hidden_layers_it_is_ridge_regression() -> None:
    """Half the mean square plus l2 / 2 |W|^2 over standardized columns: alpha = n l2, on targets of any size."""
    X, y = waves()
    options: dict[str, Any] = {"learning_rate": 0.05, "schedule": "cosine", "epochs": 600, "dtype": "float64"}
    ours = gnomon.MLPRegression(hidden=(), l2=0.1, batch_size=None, random_state=0, **options).fit(X, 1e6 * y + 3e7)
    Z = (X - X.mean(0)) / X.std(0)
    theirs = Ridge(alpha=60 * 0.1).fit(Z, y)
    np.testing.assert_allclose(ours.predict(X), 1e6 * theirs.predict(Z) + 3e7, rtol=0, atol=100)


def test_a_level_of_a_category_is_not_scaled_up() -> None:
    """Three rows of sixty have it: the penalty acts on the column of zeros and ones as it is."""
    X, y = waves()
    level = np.zeros(60)
    level[[4, 20, 33]] = 1.0
    rows, target = np.column_stack([X, level]), y + 2 * level
    options: dict[str, Any] = {"learning_rate": 0.05, "schedule": "cosine", "epochs": 600, "dtype": "float64"}
    ours = gnomon.MLPRegression(hidden=(), l2=0.1, batch_size=None, random_state=0, **options).fit(rows, target)
    Z = np.column_stack([(X - X.mean(0)) / X.std(0), level])
    theirs = Ridge(alpha=60 * 0.1).fit(Z, target / target.std())
    np.testing.assert_allclose(ours.predict(rows), target.std() * theirs.predict(Z), rtol=0, atol=1e-4)
    weight = np.ones(60)
    weight[0], rows[0, 3] = 0.0, 0.5  # a row that does not count
    again = gnomon.MLPRegression(hidden=(), **options | {"epochs": 1}).fit(rows, target, sample_weight=weight)
    assert again.model_.shift[3] == 0 and again.model_.scale[3] == 1
    classifier = gnomon.MLP(epochs=1, random_state=0).fit(rows[1:], y[1:] > 0)
    assert (
        classifier.model_.shift[3] == 0 and classifier.model_.scale[3] == 1 and (classifier.model_.shift[:3] != 0).all()
    )


@pytest.mark.spec("LIN-16", "DLN-80")
def test_the_record_is_in_the_units_of_the_target_and_the_way_is_not() -> None:
    """A target in other units is the same fit: history and predictions are multiplied."""
    X, y = waves()
    options: dict[str, Any] = {"hidden": (8,), "epochs": 5, "random_state": 0, "dtype": "float64", "batch_size": 16}
    one = gnomon.MLPRegression(**options).fit(X, y)
    two = gnomon.MLPRegression(**options).fit(X, 1024.0 * y)
    np.testing.assert_allclose(two.predict(X), 1024.0 * one.predict(X), rtol=1e-9)
    for name, factor in (("squared_error", 1024.0**2), ("scaled_squared", 1.0)):
        np.testing.assert_allclose(two.history_[name], factor * np.array(one.history_[name]), rtol=1e-9)
    assert one.history_["scaled_squared"][0] == pytest.approx(one.history_["squared_error"][0] / 2 / y.var(), rel=1e-9)


@pytest.mark.spec("PRA-062")
@pytest.mark.parametrize("patience", [5, 100])
def test_the_best_weights_come_back(patience: int) -> None:
    """HB-49 to the letter: pure noise, 30 epochs; targets times 1e200 are refused by their size."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(80, 5)), random.normal(size=80)
    other, target = random.normal(size=(40, 5)), random.normal(size=40)
    system = gnomon.MLPRegression(hidden=(32,), epochs=30, random_state=0, early_stopping=EarlyStopping(patience))
    system.fit(X, y, validation=(other, target))
    seen = system.history_["validation_squared_error"]
    assert system.best_epoch_ == int(np.argmin(seen)) + 1
    assert len(seen) == min(30, system.best_epoch_ + patience)
    assert system.evaluate(other, target)["squared_error"].value == pytest.approx(min(seen), abs=1e-6)
    with pytest.raises(UserValueError, match=r"too large.*\(row \d+\)"):
        system.fit(X, y * 1e200)


def test_several_targets_and_one_column() -> None:
    X, y = waves()
    options: dict[str, Any] = {"hidden": (8,), "epochs": 2, "random_state": 0}
    assert gnomon.MLPRegression(**options).fit(X, np.c_[y, -y, 2 * y]).predict(X).shape == (60, 3)
    assert gnomon.MLPRegression(**options).fit(X, y[:, None]).predict(X).shape == (60, 1)
    assert gnomon.MLPRegression(**options).fit(X, y).predict(X).shape == (60,)


def test_only_systems_that_stop_early_take_validation_rows() -> None:
    X, y = waves()
    with pytest.raises(UserValueError, match="takes no validation rows"):
        gnomon.SoftmaxRegression(epochs=1).fit(X, y > 0, validation=(X, y > 0))
