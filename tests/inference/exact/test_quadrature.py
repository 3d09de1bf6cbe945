"""Quadrature on the log scale: closed forms, heights that overflow, and what cannot be normalized."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gnomon.errors import UserValueError
from gnomon.inference.exact.quadrature import log_integral

LINE = (-math.inf, math.inf)


@pytest.mark.spec("INF-30")
def test_gaussian():
    assert log_integral(lambda x: -0.5 * x[:, 0] ** 2) == pytest.approx(0.5 * math.log(2 * math.pi), abs=1e-10)
    assert log_integral(lambda x: -0.5 * x[:, 0] ** 2) == pytest.approx(0.918939, abs=5e-7)


@pytest.mark.parametrize("height", [-5000.0, 5000.0])
def test_any_height(height):
    value = log_integral(lambda x: height - 0.5 * (x[:, 0] - 3) ** 2 / 0.25)
    assert value == pytest.approx(height + math.log(0.5) + 0.5 * math.log(2 * math.pi), abs=1e-9)


@pytest.mark.parametrize(
    ("log_density", "bounds", "truth"),
    [
        (lambda x: -x[:, 0], (0, math.inf), 0.0),
        (lambda x: 2 * x[:, 0], (-math.inf, 1), 2 - math.log(2)),
        (lambda x: np.zeros(len(x)), (-1, 3), math.log(4)),
        (lambda x: 3 * np.log(x[:, 0]) - 2 * x[:, 0], (0, math.inf), math.log(6 / 16)),
    ],
)
def test_half_lines_and_intervals(log_density, bounds, truth):
    assert log_integral(log_density, [bounds]) == pytest.approx(truth, abs=1e-9)


def test_two_dimensions():
    precision = np.array([[2.0, 0.6], [0.6, 1.0]])
    value = log_integral(lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, precision, x), [LINE, LINE])
    assert value == pytest.approx(math.log(2 * math.pi) - 0.5 * math.log(np.linalg.det(precision)), abs=1e-9)


@pytest.mark.spec("INF-30")
@pytest.mark.parametrize(
    "log_density",
    [
        lambda x: np.zeros(len(x)),
        lambda x: -np.log1p(np.abs(x[:, 0])),
        lambda x: x[:, 0] ** 2,
        lambda x: np.full(len(x), -np.inf),
    ],
)
def test_what_cannot_be_normalized_is_refused(log_density):
    with np.errstate(over="ignore"), pytest.raises(UserValueError, match="did not converge"):
        log_integral(log_density)


def test_wrong_bounds():
    with pytest.raises(UserValueError, match="bounds must be 1 or 2 pairs, got 3"):
        log_integral(lambda x: x[:, 0], [LINE] * 3)
    with pytest.raises(UserValueError, match=r"bounds must have lower < upper, got \(1\.0, 1\.0\)"):
        log_integral(lambda x: x[:, 0], [(1, 1)])
