"""Invariance and equivariance of layers to shifts, where they are known."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.evaluation import equivariance_error, invariance_error
from gnomon.nn.pooling import GlobalPool

X = np.random.default_rng(0).normal(size=(4, 8, 6, 2))
KERNEL = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 2, 3, 3)))
SHIFTS = [(0, 1), (1, 0), (2, -2), (-3, 1), (4, 2)]


def convolved(stride=1, circular=True):
    def call(x):
        first = torch.from_numpy(x).movedim(-1, 1)
        padded = functional.pad(first, (1, 1, 1, 1), mode="circular" if circular else "constant")
        return functional.conv2d(padded, KERNEL, stride=stride).movedim(1, -1)

    return call


@pytest.mark.spec("DLN-35")
def test_convolutions_move_with_their_input():
    assert equivariance_error(convolved(), X, SHIFTS).max() < 1e-12
    assert invariance_error(convolved(), X, SHIFTS).min() > 1  # they are not invariant
    zeros = convolved(circular=False)
    assert equivariance_error(zeros, X, [(0, 1)]).min() > 0.1  # the border differs
    one = np.zeros_like(X)
    one[:, 3:5, 2:4] = X[:, 3:5, 2:4]
    assert equivariance_error(zeros, one, [(1, 0)], border=1).max() < 1e-12
    found = equivariance_error(convolved(stride=2), X, [(2, 0), (-4, 2), (1, 0), (2, 1)], stride=2)
    assert found[:2].max() < 1e-12 and found[2:].min() > 1


@pytest.mark.spec("DLN-35")
def test_global_pooling_does_not_notice_and_dense_layers_do():
    for kind in ("max", "average"):
        pool = GlobalPool(kind)
        errors = invariance_error(lambda x, pool=pool: pool(torch.from_numpy(x).movedim(-1, 1)), X, SHIFTS)
        assert errors.max() < 1e-12
    weights = np.random.default_rng(2).normal(size=(96, 5))
    assert invariance_error(lambda x: x.reshape(len(x), -1) @ weights, X, SHIFTS).min() > 1
    # a pooling of windows: only within them
    inside = np.zeros((1, 4, 4, 1))
    inside[0, 0, 0] = 1
    pooled = lambda x: functional.max_pool2d(torch.from_numpy(x).movedim(-1, 1), 2)  # noqa: E731
    assert invariance_error(pooled, inside, [(1, 0), (0, 1), (1, 1)]).tolist() == [0, 0, 0]
    assert invariance_error(pooled, inside, [(2, 0)])[0] == pytest.approx(2**0.5)


@pytest.mark.spec("DLN-35")
def test_errors_are_mean_norms():
    def squares(x):
        return x[:, :, :, 0] ** 2

    shift = (1, 2)
    before, after = squares(X), squares(np.roll(X, shift, (1, 2)))
    expected = np.mean([np.sqrt(((a - b) ** 2).sum()) for a, b in zip(after, before, strict=True)])
    assert invariance_error(squares, X, [shift])[0] == pytest.approx(expected, rel=1e-12)

    def lopsided(x):
        return squares(x) * np.arange(8)[:, None]

    moved = np.roll(lopsided(X), shift, (1, 2))
    gaps = lopsided(np.roll(X, shift, (1, 2))) - moved
    expected = np.mean([np.linalg.norm(gap[1:-1, 1:-1]) for gap in gaps])
    assert equivariance_error(lopsided, X, [shift], border=1)[0] == pytest.approx(expected, rel=1e-12)
    assert equivariance_error(lopsided, X[..., 0][..., None], [shift]).shape == (1,)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: invariance_error(lambda x: x, X[0, 0], [(0, 1)]), "X must be images"),
        (lambda: invariance_error(lambda x: x, X, [1]), "shifts must be pairs"),
        (lambda: equivariance_error(lambda x: x, X, [(0.5, 1)]), "shifts must be pairs"),
        (lambda: invariance_error(lambda x: x[:2], X, [(0, 1)]), "have 4 rows"),
        (lambda: equivariance_error(lambda x: x.sum((1, 2)), X, [(0, 1)]), "must be maps"),
        (lambda: equivariance_error(lambda x: x, X, [(0, 1)], border=3), "more than 6 rows"),
        (lambda: equivariance_error(lambda x: x, X, [(0, 1)], stride=0), "stride must be at least 1"),
    ],
)
def test_what_cannot_be_shifted(call, said):
    with pytest.raises(UserValueError, match=said):
        call()
