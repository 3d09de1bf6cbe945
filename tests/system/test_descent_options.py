"""Every option of a fit by gradient reaches the descent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gnomon

X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


def weights(**options: Any) -> np.ndarray[Any, Any]:
    fitted = gnomon.MLP(**{"hidden": (3,), "epochs": 3, "batch_size": 8, "random_state": 0, **options}).fit(X, Y)
    return np.concatenate([value.ravel() for value in fitted.model_.state().values()])


@pytest.mark.parametrize(
    "option",
    [
        {"schedule": "cosine"}, {"optimizer": "sgd"}, {"learning_rate": 0.5}, {"epochs": 2}, {"max_updates": 2},
        {"batch_size": 6}, {"clip": 1e-3}, {"clip_value": 1e-3}, {"l1": 1.0}, {"l2": 1.0}, {"dropout": 0.5},
        {"initializer": "normal"}, {"activation": "tanh"}, {"batch_norm": True}, {"standardize": False},
        {"early_stopping": "patience"}, {"random_state": 1},
    ],
    ids=lambda option: next(iter(option)),
)  # fmt: skip
def test_an_option_changes_the_fit(option: dict[str, Any]) -> None:
    usual = weights()
    assert np.array_equal(usual, weights())
    found = weights(**option)
    assert found.shape != usual.shape or not np.array_equal(found, usual)
