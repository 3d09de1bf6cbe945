"""Hyper-parameters against the intervals and kinds that a constructor states."""

from fractions import Fraction

import numpy as np
import pytest

import gnomon
from gnomon.errors import UserTypeError, UserValueError
from gnomon.objectives.contrastive import CD
from gnomon.recipes.parameters import in_interval
from gnomon.training.optimizers import SGD, Adam

X, Y = np.eye(4), np.array([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("interval", "inside", "outside"),
    [
        ("[1, inf)", (1, 1e9), (0, 0.999, float("inf"))),
        ("(0, inf)", (1e-300, 2), (0, -1)),
        ("[0, 1)", (0, 0.5), (-1e-9, 1, 2)),
        ("(0, 1]", (0.5, 1), (0, 1.001)),
        ("[1, 30]", (1, 30), (0, 31)),
    ],
)
def test_edges_of_intervals(interval, inside, outside):
    assert all(in_interval(value, interval) for value in inside)
    assert not any(in_interval(value, interval) for value in outside)


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"epochs": 0}, UserValueError, r"epochs.*\[1, inf\)"),
        ({"epochs": 1.0}, UserTypeError, "epochs.*whole number"),
        ({"epochs": True}, UserTypeError, "epochs.*whole number"),
        ({"learning_rate": float("nan")}, UserTypeError, "learning_rate.*number"),
        ({"learning_rate": 0.0}, UserValueError, r"learning_rate.*\(0, inf\)"),
        ({"learning_rate": float("inf")}, UserValueError, "learning_rate"),
        ({"learning_rate": "0.1"}, UserTypeError, "learning_rate.*number"),
        ({"learning_rate": Fraction(1, 10)}, UserTypeError, "learning_rate.*number"),
        ({"standardize": 1}, UserTypeError, "standardize.*True or False"),
        ({"dtype": "float23"}, UserValueError, "dtype.*float32"),
        ({"optimizer": SGD(momentum=1.0)}, UserValueError, r"momentum.*\[0, 1\)"),
        ({"optimizer": Adam(epsilon=0.0)}, UserValueError, r"epsilon.*\(0, inf\)"),
        ({"optimizer": "adma"}, UserValueError, "adam"),
        ({"optimizer": CD()}, UserTypeError, "optimizer.*adam"),
    ],
)
def test_values_that_are_not_allowed(parameters, error, words):
    with pytest.raises(error, match=words) as caught:
        gnomon.SoftmaxRegression(**{"epochs": 1, "random_state": 0, **parameters}).fit(X, Y)
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_and_none_are_allowed_where_stated():
    options = {"epochs": np.int64(1), "learning_rate": np.float32(0.1), "batch_size": None, "dtype": None}
    gnomon.SoftmaxRegression(random_state=0, **options).fit(X, Y)
    with pytest.raises(UserValueError, match="batch_size"):
        gnomon.SoftmaxRegression(batch_size=0).fit(X, Y)
