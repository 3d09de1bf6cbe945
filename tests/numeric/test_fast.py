"""Own elementary functions against extended precision, in units in the last place."""

import numba
import numpy as np
import pytest
import torch

from gnomon.numeric import fast, philox_torch

KINDS = [np.float32, np.float64]
LIMIT = {np.float32: 104.0, np.float64: 745.5}
ODD = [np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0, -0.0]


def grid(dtype):
    rng = np.random.default_rng(0)
    limit = LIMIT[dtype]
    parts = [np.linspace(-limit, limit, 100_001), rng.normal(0, 3, 100_000), rng.normal(0, 1e-3, 10_000)]
    return np.concatenate(parts).astype(dtype)


def ulps(value, exact):
    """Largest error in units in the last place of the exact answer."""
    unit = np.spacing(np.abs(exact).astype(value.dtype)).astype(np.longdouble)
    return float((np.abs(value.astype(np.longdouble) - exact) / unit).max())


def mapped(function):
    """The inline function as a loop over arrays."""

    @numba.njit(error_model="numpy")
    def run(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    def call(x):
        out = np.empty_like(x)
        run(x, out)
        return out

    return call


@pytest.mark.parametrize("dtype", KINDS)
def test_sigmoid_and_softplus_over_the_whole_range(dtype):
    x = grid(dtype)
    exact = x.astype(np.longdouble)
    e = np.exp(-np.abs(exact))
    assert ulps(fast.sigmoid(x), np.where(exact < 0, e, 1) / (1 + e)) < 3
    assert ulps(fast.softplus(x), np.maximum(exact, 0) + np.log1p(e)) < 3


@pytest.mark.parametrize("dtype", KINDS)
def test_exp(dtype):
    exp = mapped(fast.exp32 if dtype == np.float32 else fast.exp64)
    x = grid(dtype)
    x = x[x < (88.7 if dtype == np.float32 else 709.7)]
    assert ulps(exp(x), np.exp(x.astype(np.longdouble))) < 1.5
    with np.errstate(over="ignore"):
        assert np.array_equal(exp(np.array(ODD, dtype)), np.exp(np.array(ODD, dtype)), equal_nan=True)


@pytest.mark.parametrize("dtype", KINDS)
def test_log(dtype):
    tiny, huge = np.finfo(dtype).tiny, np.finfo(dtype).max
    x = np.concatenate([
        np.exp(np.linspace(np.log(tiny) + 1e-3, np.log(huge) - 1e-3, 100_001)),
        1 + np.random.default_rng(1).normal(0, 1e-2, 50_000), np.random.default_rng(2).random(50_000) + 0.5,
    ]).astype(dtype)  # fmt: skip
    x = x[x != 1]
    log = mapped(fast.log32 if dtype == np.float32 else fast.log64)
    assert ulps(log(x), np.log(x.astype(np.longdouble))) < 1.5
    assert log(np.ones(1, dtype))[0] == 0


@pytest.mark.parametrize("dtype", KINDS)
def test_log1p(dtype):
    e = np.concatenate([np.linspace(0, 1, 10_001)[1:], np.exp(np.linspace(-80, 0, 10_001))]).astype(dtype)
    log1p = mapped(fast.log1p32 if dtype == np.float32 else fast.log1p64)
    assert ulps(log1p(e), np.log1p(e.astype(np.longdouble))) < 2.5
    assert log1p(np.zeros(1, dtype))[0] == 0


@pytest.mark.parametrize("dtype", KINDS)
def test_sincos(dtype):
    function = fast.sincos2pi32 if dtype == np.float32 else fast.sincos2pi64

    @numba.njit(error_model="numpy")
    def run(v, sine, cosine):
        for i in range(v.size):
            sine[i], cosine[i] = function(v[i])

    v = (np.arange(200_000) / 200_000).astype(dtype)
    sine, cosine = np.empty_like(v), np.empty_like(v)
    run(v, sine, cosine)
    angle = 2 * np.arccos(np.longdouble(-1)) * v.astype(np.longdouble)
    eps = np.finfo(dtype).eps
    assert np.abs(sine - np.sin(angle)).max() < 1.2 * eps and np.abs(cosine - np.cos(angle)).max() < 1.2 * eps
    assert sine[::50_000].tolist() == [0, 1, 0, -1] and cosine[::50_000].tolist() == [1, 0, -1, 0]


@pytest.mark.parametrize("dtype", KINDS)
def test_extremes(dtype):
    x = np.array(ODD, dtype)
    assert np.array_equal(fast.sigmoid(x), np.array([1, 0, np.nan, 1, 0, 0.5, 0.5], dtype), equal_nan=True)
    two = dtype(np.log(2))
    expected = np.array([np.inf, 0, np.nan, 1e30, 0, two, two], dtype)
    assert np.array_equal(fast.softplus(x), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("function", [fast.sigmoid, fast.softplus])
def test_layout_and_place_change_no_bit(function, dtype):
    x = np.random.default_rng(0).normal(0, 3, (37, 21)).astype(dtype)
    whole = function(x)
    assert whole.dtype == dtype
    assert np.array_equal(function(x.T), whole.T) and np.array_equal(function(x[::2, 1::3]), whole[::2, 1::3])
    for i in range(12):  # every length of tail
        assert np.array_equal(function(x.ravel()[i : 2 * i]), whole.ravel()[i : 2 * i])
    x.flags.writeable = False
    out = np.empty_like(x)
    assert function(x, out=out) is out and np.array_equal(out, whole)
    again = x.copy()
    assert function(again, out=again) is again and np.array_equal(again, whole)
    assert function(np.array(0, dtype)).shape == ()


@pytest.mark.parametrize("dtype", KINDS)
def test_torch_sigmoid_has_the_same_bits(dtype):
    x = grid(dtype)
    assert np.array_equal(philox_torch.sigmoid(torch.from_numpy(x)).numpy(), fast.sigmoid(x))


@pytest.mark.parametrize("dtype", KINDS)
def test_chance_is_the_sigmoid_wherever_a_draw_can_tell(dtype):
    x = grid(dtype)
    chance = mapped(fast.chance32 if dtype == np.float32 else fast.chance64)(x)
    far = np.abs(x) >= (87 if dtype == np.float32 else 700)
    exact = fast.sigmoid(x)
    assert np.array_equal(chance[~far], exact[~far])
    assert np.abs(chance - exact)[far].max() < 1e-37


def test_wrong_arrays_are_refused():
    with pytest.raises(TypeError, match="int64"):
        fast.sigmoid(np.arange(3))
    for out in (np.empty(4), np.empty(3, np.float32), np.empty(6)[::2]):
        with pytest.raises(ValueError, match="out must be"):
            fast.softplus(np.zeros(3), out=out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_rows_are_the_sigmoid_and_its_weighted_copy(dtype):
    random = np.random.default_rng(0)
    field, bias, weight = (random.normal(size=size).astype(dtype) for size in ((7, 13), 13, 7))
    before = field.copy()
    mean, weighted = fast.unit_rows(field, bias, weight)
    np.testing.assert_array_equal(field, before)
    np.testing.assert_array_equal(mean, fast.sigmoid(field + bias))
    np.testing.assert_array_equal(weighted, mean * weight[:, None])
