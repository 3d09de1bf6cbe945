"""The log domain against SciPy and closed forms, on both kinds of arrays."""

import numpy as np
import pytest
import scipy.special
import torch

from gnomon.numeric import ops

KINDS = [np.float32, np.float64]
FUNCTIONS = [ops.sigmoid, ops.softplus, ops.softmax, ops.log_softmax, ops.logsumexp]


def both(function, x, *args):
    """The answer for NumPy, after checking that torch gives the same."""
    ours = function(x, *args)
    tensor = function(torch.from_numpy(np.ascontiguousarray(x)), *args)
    assert isinstance(tensor, torch.Tensor) and tensor.numpy().dtype == ours.dtype == x.dtype
    assert tensor.shape == ours.shape
    assert np.allclose(tensor.numpy(), ours, rtol=8 * np.finfo(x.dtype).eps, atol=8 * np.finfo(x.dtype).eps)
    return ours


@pytest.mark.spec("LIN-10")
@pytest.mark.parametrize("dtype", KINDS)
def test_softmax_of_one_two_three(dtype):
    got = both(ops.softmax, np.array([1, 2, 3], dtype))
    assert np.allclose(got, [0.0900306, 0.2447285, 0.6652410], atol=5e-8 + np.finfo(dtype).eps)


@pytest.mark.spec("LIN-10")
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", KINDS)
def test_softmax_is_that_of_scipy(dtype, axis):
    x = np.random.default_rng(0).normal(0, 20, (13, 17, 5)).astype(dtype)
    tolerance = 200 * np.finfo(dtype).eps  # scores some 100 below the peak, rounded to half a unit
    wide = x.astype(np.float64)
    assert np.allclose(both(ops.softmax, x, axis), scipy.special.softmax(wide, axis), rtol=tolerance, atol=1e-37)
    expected = scipy.special.log_softmax(wide, axis)
    assert np.allclose(both(ops.log_softmax, x, axis), expected, rtol=tolerance, atol=tolerance)
    expected = scipy.special.logsumexp(wide, axis)
    assert np.allclose(both(ops.logsumexp, x, axis), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.spec("LIN-10")
@pytest.mark.parametrize("dtype", KINDS)
def test_softmax_sums_to_one_keeps_order_and_ignores_a_shift(dtype):
    # Quarters, so that the shift is exact in float32.
    x = (np.random.default_rng(1).integers(-40, 40, (50, 9)) / 4).astype(dtype)
    p = both(ops.softmax, x)
    assert np.allclose(p.sum(-1), 1, atol=4 * np.finfo(dtype).eps) and (p >= 0).all() and (p <= 1).all()
    assert np.array_equal(np.argsort(p, -1, kind="stable"), np.argsort(x, -1, kind="stable"))
    for shift in (1024, -1024, 2**14):
        assert np.array_equal(ops.softmax(x + dtype(shift)), p)
        assert np.array_equal(ops.log_softmax(x + dtype(shift)), ops.log_softmax(x))


@pytest.mark.spec("LIN-10")
@pytest.mark.parametrize("dtype", KINDS)
def test_rows_without_any_choice_give_zeros_and_no_nan(dtype):
    x = np.array([[-np.inf] * 3, [-np.inf, 0, 0], [1, 2, -np.inf]], dtype)
    p = both(ops.softmax, x)
    assert p[0].tolist() == [0, 0, 0] and p[1].tolist() == [0, 0.5, 0.5] and p[2, 2] == 0
    log_p = ops.log_softmax(x)
    assert np.array_equal(log_p, ops.log_softmax(torch.from_numpy(x)).numpy())
    assert (log_p[0] == -np.inf).all() and log_p[1, 1] == -dtype(np.log(2))
    total = ops.logsumexp(x)
    assert total[0] == -np.inf and total[1] == dtype(np.log(2))
    assert np.array_equal(total, ops.logsumexp(torch.from_numpy(x)).numpy())


def test_gradient_stays_finite_beside_an_empty_row():
    for function in (ops.softmax, ops.log_softmax):
        x = torch.tensor([[-torch.inf, -torch.inf], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
        function(x)[..., 0].masked_fill(torch.tensor([True, False]), 0.0).sum().backward()
        assert torch.isfinite(x.grad).all() and x.grad[0].tolist() == [0, 0] and x.grad[1, 0] != 0


@pytest.mark.parametrize("dtype", KINDS)
def test_extremes_warn_of_nothing(dtype):
    top = np.finfo(dtype).max
    assert ops.logsumexp(np.array([top, top], dtype)) == top
    assert ops.logsumexp(np.array([np.inf, 0], dtype)) == np.inf
    assert ops.logsumexp(np.array([np.inf, -np.inf], dtype)) == np.inf
    assert np.isnan(ops.logsumexp(np.array([np.nan, 0], dtype)))
    assert np.isnan(ops.softmax(np.array([np.nan, 0], dtype))).all()
    assert np.isnan(ops.softmax(np.array([np.inf, 0], dtype))).any()
    assert ops.softmax(np.array([1e30, -1e30], dtype)).tolist() == [1, 0]
    assert ops.log_softmax(np.array([1e30, -1e30], dtype)).tolist() == [0, -np.array(2e30, dtype)]


@pytest.mark.parametrize("dtype", KINDS)
def test_sigmoid_and_softplus_are_those_of_scipy(dtype):
    x = np.random.default_rng(2).normal(0, 10, 1001).astype(dtype)
    wide, tolerance = x.astype(np.float64), 8 * np.finfo(dtype).eps
    assert np.allclose(both(ops.sigmoid, x), scipy.special.expit(wide), rtol=tolerance, atol=0)
    assert np.allclose(both(ops.softplus, x), np.logaddexp(0, wide), rtol=tolerance, atol=0)


def test_gradients_at_zero():
    """Parameters start at zero: a formula with abs would lose the gradient there."""
    for function, slope in ((ops.softplus, 0.5), (ops.sigmoid, 0.25)):
        x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        function(x).sum().backward()
        assert x.grad.item() == slope


@pytest.mark.parametrize("function", FUNCTIONS)
def test_whole_numbers_become_float32_and_inputs_stay(function):
    x = np.array([[1, 2, 3]])
    assert function(x).dtype == np.float32
    y = np.array([[1.0, 2.0, 3.0]])
    y.flags.writeable = False
    function(y)
    assert y.tolist() == [[1, 2, 3]]
