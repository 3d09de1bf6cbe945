"""Circular and linear convolution of sequences: the theorem and its dual, sums written out, NumPy and SciPy."""

import numpy as np
import pytest
import torch
from scipy import signal

from gnomon.errors import UserError
from gnomon.numeric.convolution import circular_convolve, convolve_functions, linear_convolve
from gnomon.numeric.fourier import cft, fft, ifft

random = np.random.default_rng(0)
KINDS = [np.asarray, torch.as_tensor]
LENGTHS = [(1, 1), (1, 7), (3, 3), (40, 3), (3, 40), (33, 33), (64, 50), (97, 211), (1000, 1000)]


def circle(h, u, n):
    """y_k = sum_j h_j u_((k - j) mod n), every pair of places one after the other."""
    y = np.zeros(n, np.result_type(h, u))
    for j, a in enumerate(h):
        for i, b in enumerate(u):
            y[(i + j) % n] += a * b
    return y


@pytest.mark.spec("BAY-21")
@pytest.mark.parametrize("kind", KINDS)
def test_the_values_of_the_row(kind):
    assert np.asarray(circular_convolve(kind([1, 1, 0]), kind([1, 2, 3]))).tolist() == [4, 3, 5]
    assert np.asarray(linear_convolve(kind([1, 1]), kind([1, 2, 3]))).tolist() == [1, 3, 5, 3]


@pytest.mark.spec("BAY-21")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "m"), LENGTHS)
def test_linear_is_that_of_numpy_and_scipy(n, m, kind):
    for h, u in [
        (random.normal(size=n), random.normal(size=m)),
        (random.normal(size=n) + 1j * random.normal(size=n), random.normal(size=m) + 0j),
    ]:
        found = np.asarray(linear_convolve(kind(h), kind(u)))
        np.testing.assert_allclose(found, np.convolve(h, u), atol=1e-11)
        np.testing.assert_allclose(found, signal.fftconvolve(h, u), atol=1e-11)
    h, u = random.integers(-99, 99, n), random.integers(-99, 99, m)
    whole = np.asarray(linear_convolve(kind(h), kind(u)))
    assert whole.dtype == np.int64 and (whole == np.convolve(h, u)).all()


@pytest.mark.spec("BAY-21")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "m"), LENGTHS[:-1])
def test_circular_is_the_sum_written_out_and_linear_from_n_plus_m_minus_1_places_on(n, m, kind):
    h, u = random.normal(size=n), random.normal(size=m)
    for size in sorted({max(n, m), max(n, m) + 1, n + m - 1, n + m + 3}):
        found = np.asarray(circular_convolve(kind(h), kind(u), size))
        np.testing.assert_allclose(found, circle(h, u, size), atol=1e-11)
        linear = np.r_[np.convolve(h, u), np.zeros(size)][:size]
        if size >= n + m - 1:
            np.testing.assert_allclose(found, linear, atol=1e-11)
        elif min(n, m) > 1:
            assert np.abs(found - linear).max() > 1e-3  # it wraps around


@pytest.mark.spec("BAY-21")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 5, 32, 33, 60])
def test_the_theorem_and_its_dual(n, kind):
    x, y = (random.normal(size=n) + 1j * random.normal(size=n) for _ in range(2))
    product = np.asarray(ifft(fft(kind(x)) * fft(kind(y))))
    np.testing.assert_allclose(np.asarray(circular_convolve(kind(x), kind(y))), product, atol=1e-12)
    dual = np.asarray(circular_convolve(fft(kind(x)), fft(kind(y)))) / n
    np.testing.assert_allclose(np.asarray(fft(kind(x * y))), dual, atol=1e-11)


@pytest.mark.spec("BAY-21")
def test_the_theorem_and_its_dual_for_functions():
    """In ordinary frequencies neither has a factor: F[f * g] = F G, and F[f g] = F * G, which is F * G / 2 pi in w."""
    x = np.arange(-8, 8, 1 / 16)

    def f(p):
        return np.exp(-np.pi * (p[:, 0] - 0.3) ** 2)

    def g(p):
        return np.exp(-2 * np.pi * p[:, 0] ** 2) * (1 + p[:, 0])

    (K,), F = cft(f, x)
    G = cft(g, x).values
    (t,), both = convolve_functions(f, g, [(-8.0, 8.0)], points=256)
    product = (both * np.exp(-2j * np.pi * np.outer(K, t))).sum(1) * (t[1] - t[0])
    np.testing.assert_allclose(product, F * G, atol=1e-10)
    step = K[1] - K[0]
    dual = linear_convolve(F, G)[len(K) // 2 :][: len(K)] * step  # frequency 0 stands in the middle
    np.testing.assert_allclose(dual, cft(lambda p: f(p) * g(p), x).values, atol=1e-10)


@pytest.mark.spec("BAY-21")
def test_variances_of_bells_add():
    x = np.arange(-400, 401) / 20
    bells = [np.exp(-0.5 * x * x / v) / np.sqrt(2 * np.pi * v) for v in (1.5, 2.5)]
    y = linear_convolve(*bells) / 20
    wide = np.arange(-800, 801) / 20
    np.testing.assert_allclose(y, np.exp(-0.5 * wide**2 / 4) / np.sqrt(8 * np.pi), atol=1e-14)
    assert (wide**2 * y).sum() / 20 == pytest.approx(4.0, rel=1e-12)


@pytest.mark.spec("BAY-21")
@pytest.mark.parametrize("m", [3, 70])
def test_batches_broadcast_and_tensors_are_differentiated(m):
    h, u = (torch.as_tensor(random.normal(size=shape)) for shape in ((4, 1, m), (3, 80)))
    found = linear_convolve(h, u)
    assert found.shape == (4, 3, 79 + m)
    np.testing.assert_allclose(found[2, 1], np.convolve(h[2, 0], u[1]), atol=1e-12)
    np.testing.assert_allclose(circular_convolve(h, u, 80)[2, 1], circle(h[2, 0].numpy(), u[1].numpy(), 80), atol=1e-12)
    leaf = h[0, 0].clone().requires_grad_()
    for convolve in (linear_convolve, lambda a, b: circular_convolve(a, b, 80)):
        weights = torch.arange(1.0, convolve(leaf, u[0]).numel() + 1)
        (gradient,) = torch.autograd.grad((convolve(leaf, u[0]) * weights).sum(), leaf)
        units = torch.eye(m, dtype=torch.float64)
        np.testing.assert_allclose(gradient, (convolve(units, u[0]) * weights).sum(-1), atol=1e-9)  # it is linear


@pytest.mark.spec("BAY-21")
@pytest.mark.parametrize("kind", KINDS)
def test_what_spectra_would_spoil_goes_direct(kind):
    h, u = random.normal(size=100), random.normal(size=90)
    u[50] = np.inf
    found = np.asarray(linear_convolve(kind(h), kind(u)))
    np.testing.assert_allclose(found[:50], np.convolve(h, u[:50])[:50], atol=1e-13)
    assert np.isinf(found[50:150]).all() and np.isfinite(found[150:]).all()
    big = np.full(64, 1 << 25)
    assert np.asarray(linear_convolve(kind(big), kind(big + 1))).max() == 64 * (1 << 25) * ((1 << 25) + 1)


@pytest.mark.parametrize(
    ("dtype", "found"), [(np.float16, "float32"), (np.float32, "float32"), (np.bool_, "int64"), (np.uint8, "int64")]
)
def test_kinds_and_types(dtype, found):
    for n in (4, 50):
        x = np.ones(n, dtype)
        for y in (linear_convolve(x, x), linear_convolve(torch.as_tensor(x), torch.as_tensor(x))):
            assert str(y.dtype).endswith(found) and float(y.max()) == pytest.approx(n)
    halves = torch.ones(50, dtype=torch.bfloat16)
    assert circular_convolve(halves, halves).dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: circular_convolve([1, 2], [1, 2, 3]), "n is required for sequences of unequal lengths, got 2 and 3"),
        (
            lambda: circular_convolve([1, 2, 3], [1], 2),
            "n must be at least 3, the length of the longer sequence, got 2",
        ),
        (lambda: linear_convolve([], [1.0]), r"shape \(0,\)"),
        (lambda: linear_convolve(torch.ones(0), [1.0]), r"shape \(0,\)"),
        (lambda: linear_convolve(["a"], [1.0]), "h must hold numbers, got dtype <U1"),
        (
            lambda: linear_convolve(np.ones((2, 3)), np.ones((4, 3))),
            r"leading axes must broadcast, got \(2,\) and \(4,\) \(h, u\); give as many sequences in each",
        ),
        (
            lambda: linear_convolve([1 << 40], [1 << 40]),
            r"sums of up to 1\.21e\+24 cannot be computed exactly \(h, u\); give floating-point numbers",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
