"""Fourier transforms against sums written out, closed forms and NumPy."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch

from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.numeric.fourier import (
    cft,
    coefficients,
    dft_matrix,
    fft,
    icft,
    ifft,
    irfft,
    next_fast_len,
    reconstruct,
    rfft,
)  # fmt: skip

random = np.random.default_rng(0)
TAU = 2 * np.pi


def by_definition(x, sign=-1):
    """sum_k x_k e^(sign 2 pi i n k / N), the angle of every term from whole numbers."""
    N = len(x)
    angle = [[TAU * ((n * k) % N) / N for k in range(N)] for n in range(N)]
    return np.array([math.fsum((x * np.cos(a)).real) + 1j * math.fsum((x * np.cos(a)).imag) for a in angle]) + (
        sign * 1j * np.array([math.fsum((x * np.sin(a)).real) + 1j * math.fsum((x * np.sin(a)).imag) for a in angle])
    )


def noise(n):
    return random.normal(size=n) + 1j * random.normal(size=n)


@pytest.mark.spec("BAY-18", "BAY-20")
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_the_values_of_the_row_and_the_inverse(kind):
    found = fft(kind([1, 2, 3, 4]))
    np.testing.assert_allclose(np.asarray(found), [10, -2 + 2j, -2, -2 - 2j], atol=1e-15)
    np.testing.assert_allclose(np.asarray(ifft(found)), [1, 2, 3, 4], atol=1e-15)
    np.testing.assert_allclose(np.asarray(fft(kind([1, 2, 3, 4]))), np.asarray(found))


@pytest.mark.spec("BAY-18", "BAY-20")
@pytest.mark.parametrize("n", range(1, 65))
def test_every_length_is_the_sum_written_out(n):
    x, real = noise(n), random.normal(size=n)
    forward, backward = by_definition(x), by_definition(x, 1) / n
    for kind in (np.asarray, torch.as_tensor):
        np.testing.assert_allclose(np.asarray(fft(kind(x))), forward, atol=1e-12)
        np.testing.assert_allclose(np.asarray(ifft(kind(x))), backward, atol=1e-13)
        half = rfft(kind(real))
        np.testing.assert_allclose(np.asarray(half), by_definition(real)[: n // 2 + 1], atol=1e-12)
        np.testing.assert_allclose(np.asarray(irfft(half, n)), real, atol=1e-13)
    np.testing.assert_allclose(fft(x), np.fft.fft(x), atol=1e-12)
    np.testing.assert_allclose(ifft(x), np.fft.ifft(x), atol=1e-13)
    np.testing.assert_allclose(dft_matrix(n) @ x, forward, atol=1e-12)


@pytest.mark.spec("BAY-18")
@pytest.mark.parametrize(("norm", "scale"), [("backward", 1.0), ("ortho", 15**-0.5), ("forward", 1 / 15)])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_scales_parseval_linearity_and_the_symmetry_of_real_input(norm, scale, kind):
    x, y, n = noise(15), noise(15), 15
    found = np.asarray(fft(kind(x), norm=norm))
    np.testing.assert_allclose(found, scale * by_definition(x), atol=1e-13)
    assert (np.abs(found) ** 2).sum() == pytest.approx(scale**2 * n * (np.abs(x) ** 2).sum(), rel=1e-13)
    np.testing.assert_allclose(
        np.asarray(fft(kind(2 * x - 3j * y), norm=norm)), 2 * found - 3j * np.asarray(fft(kind(y), norm=norm)),
        atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(np.asarray(ifft(kind(found), norm=norm)), x, atol=1e-14)
    real = np.asarray(fft(kind(x.real)))
    np.testing.assert_allclose(real[1:], real[1:][::-1].conj(), atol=1e-14)
    half = rfft(kind(x.real), norm=norm)
    np.testing.assert_allclose(np.asarray(half), scale * by_definition(x.real)[:8], atol=1e-13)
    np.testing.assert_allclose(np.asarray(irfft(half, 15, norm=norm)), x.real, atol=1e-14)


@pytest.mark.spec("BAY-18", "BAY-20")
def test_axes_and_lengths():
    x = random.normal(size=(4, 6, 3))
    expected = np.stack([by_definition(np.r_[x[0, :, c], 0, 0]) for c in range(3)], axis=1)
    for kind in (np.asarray, torch.as_tensor):
        np.testing.assert_allclose(np.asarray(fft(kind(x), 8, axis=1))[0], expected, atol=1e-13)
        np.testing.assert_allclose(np.asarray(fft(kind(x), 4, axis=1))[0, :, 1], by_definition(x[0, :4, 1]), atol=1e-13)
        back = np.asarray(ifft(fft(kind(x), axis=0), axis=0))
        np.testing.assert_allclose(back, x, atol=1e-14)


@pytest.mark.spec("BAY-20")
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_single_precision_keeps_five_digits_at_65536(kind):
    x = random.normal(size=2**16)
    single, exact = np.asarray(fft(kind(x.astype(np.float32)))), fft(x)
    assert single.dtype == np.complex64
    assert np.abs(single - exact).max() < 1e-5 * np.abs(exact).max()
    back = np.asarray(irfft(rfft(kind(x.astype(np.float32))), 2**16))
    assert np.abs(back - x).max() < 1e-5 * np.abs(x).max()


@pytest.mark.spec("BAY-20")
@pytest.mark.parametrize("n", [7, 8, 60])
def test_half_precision_is_computed_in_single(n):
    x = random.integers(-8, 9, n) / 4.0  # exact in every floating type
    halves = (x.astype(np.float16), torch.as_tensor(x, dtype=torch.float16), torch.as_tensor(x, dtype=torch.bfloat16))
    for half in halves:
        for found in (fft(half), torch.as_tensor(rfft(half))):
            assert str(found.dtype).endswith("complex64")
        np.testing.assert_allclose(np.asarray(fft(half)), by_definition(x), atol=2e-5)


@pytest.mark.spec("BAY-20")
def test_fast_lengths_and_gradients():
    smooth = [m for m in range(1, 2000) if max(p for p in range(1, m + 1) if m % p == 0 and _prime(p)) <= 5]
    for n in range(1, 1900):
        assert n <= next_fast_len(n, real=True) <= min(m for m in smooth if m >= n)
    x = torch.as_tensor(random.normal(size=6), dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: rfft(z).abs().square().sum(), x)


def _prime(p):
    return p == 1 or all(p % q for q in range(2, int(p**0.5) + 1))


@pytest.mark.spec("BAY-19")
@pytest.mark.parametrize("n", [1, 2, 5, 16, 37, 128])
def test_the_matrix_is_that_of_scipy_and_unitary(n):
    W = dft_matrix(n, "ortho")
    np.testing.assert_allclose(W, scipy.linalg.dft(n, scale="sqrtn"), atol=1e-13)
    np.testing.assert_allclose(W.conj().T @ W, np.eye(n), atol=1e-14 * n)
    np.testing.assert_allclose(np.linalg.matrix_power(W, 4), np.eye(n), atol=1e-14 * n)
    np.testing.assert_allclose(dft_matrix(n), math.sqrt(n) * W, atol=1e-13)
    x = noise(n)
    np.testing.assert_allclose(W @ x, fft(x, norm="ortho"), atol=1e-13)


@pytest.mark.spec("BAY-19")
def test_angles_are_reduced_before_the_exponential():
    """The last entry is e^(-2 pi i (N-1)^2 / N) = e^(-2 pi i / N); unreduced angles lose three digits here."""
    n = 2000
    assert abs(dft_matrix(n)[-1, -1] - complex(math.cos(TAU / n), -math.sin(TAU / n))) < 4e-16


@pytest.mark.spec("BAY-16")
def test_the_square_wave():
    c = coefficients(lambda t: np.sign(np.sin(t)), TAU, 7, points=1 << 16)
    n = np.arange(-7, 8)
    expected = np.array([2 / (1j * np.pi * k) if k % 2 else 0 for k in n.tolist()])
    np.testing.assert_allclose(c, expected, atol=1e-8)
    assert c[8] == pytest.approx(-0.6366198j, abs=5e-8)
    np.testing.assert_allclose(c[::-1], c.conj(), atol=1e-15)
    coarse = coefficients(lambda t: np.sign(np.sin(t)), TAU, 7)
    np.testing.assert_allclose(coarse, expected, atol=1e-5)


@pytest.mark.spec("BAY-16")
def test_the_overshoot_beside_a_jump_is_that_of_gibbs():
    """Si(pi) / pi - 1/2 = 0.08949 of the jump of 2, at t = pi / (n_max + 1) for odd harmonics up to 399."""
    n_max = 399
    c = np.array([2 / (1j * np.pi * k) if k % 2 else 0 for k in range(-n_max, n_max + 1)])
    peak = reconstruct(c, np.linspace(0, 0.1, 20001), TAU).real.max()
    assert (peak - 1) / 2 == pytest.approx(0.0894898722, abs=1e-5)


@pytest.mark.spec("BAY-16")
@pytest.mark.parametrize("period", [1.0, TAU, 3.7])
@pytest.mark.parametrize("points", [11, 12, 40])
def test_trigonometric_polynomials_are_exact_from_2_n_max_plus_1_samples_on(period, points):
    c, t = noise(11), random.uniform(-9, 9, size=(3, 50))
    f = lambda t: sum(c[5 + n] * np.exp(1j * TAU * n * t / period) for n in range(-5, 6))  # noqa: E731
    found = coefficients(f, period, 5, points=points)
    np.testing.assert_allclose(found, c, atol=1e-14)
    np.testing.assert_allclose(reconstruct(found, t, period), f(t), atol=1e-12)
    fine = f(period * np.arange(64) / 64)
    assert (np.abs(found) ** 2).sum() == pytest.approx((np.abs(fine) ** 2).mean(), rel=1e-13)


@pytest.mark.spec("BAY-16")
def test_harmonics_beyond_the_samples_fold_back():
    """Of cos 9 t on 10 cells harmonic 9 lands on -1, sign turned by the midpoints; asked for, refused."""
    c = coefficients(lambda t: np.cos(9 * t), TAU, 1, points=10)
    np.testing.assert_allclose(c, [-0.5, 0, -0.5], atol=1e-14)
    with pytest.raises(UserValueError, match="points must be at least 11 to resolve harmonic 5, got 10"):
        coefficients(np.cos, TAU, 5, points=10)


def test_many_times_go_in_blocks(monkeypatch):
    c, t = noise(5), random.uniform(size=100)
    whole = reconstruct(c, t, 1.0)
    monkeypatch.setattr("gnomon.numeric.fourier.CHUNK_NUMBERS", 37)
    np.testing.assert_allclose(reconstruct(c, t, 1.0), whole, rtol=1e-14)


# --- functions on R^d -------------------------------------------------------------------------------------------------


def bell(x):
    return np.exp(-np.pi * (x * x).sum(1))


@pytest.mark.spec("BAY-17")
@pytest.mark.parametrize("start", [-6.0, -7.3, -9.0])
@pytest.mark.parametrize("n", [120, 121])
def test_the_bell_is_its_own_transform_wherever_the_grid_begins(start, n):
    (K,), F = cft(bell, start + 0.125 * np.arange(n))
    np.testing.assert_allclose(F, np.exp(-np.pi * K**2), atol=1e-13)
    assert (np.diff(K) > 0).all() and (K == 0).any()
    np.testing.assert_allclose(K, np.fft.fftshift(np.fft.fftfreq(n, 0.125)), atol=1e-13)


@pytest.mark.spec("BAY-17")
@pytest.mark.parametrize("d", [1, 2, 3])
def test_in_d_dimensions_with_shift_and_scale(d):
    """f(s (x - a)) has the transform e^(-2 pi i K a) F(K / s) / s^d."""
    a, s = np.array([0.3, -0.2, 0.1])[:d], 1.3
    grid = [lo + 0.125 * np.arange(n) for lo, n in [(-5, 80), (-4.6, 77), (-5.2, 82)]][:d]
    F = cft(lambda x: bell(s * (x - a)), grid)
    K = np.stack(np.meshgrid(*F.axes, indexing="ij"), axis=-1)
    expected = np.exp(-np.pi * (K * K).sum(-1) / s**2) / s**d * np.exp(-2j * np.pi * K @ a)
    np.testing.assert_allclose(F.values, expected, atol=1e-12)
    back = icft(F.values, F.axes, start=[g[0] for g in grid])
    np.testing.assert_allclose(back.values.ravel(), _on(grid, lambda x: bell(s * (x - a))), atol=1e-14)
    for one, other in zip(back.axes, grid, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def _on(grid, f):
    return f(np.stack([g.ravel() for g in np.meshgrid(*grid, indexing="ij")], axis=1))


@pytest.mark.spec("BAY-17")
def test_the_box_becomes_sinc():
    """Cells of width h whose edges are those of the box: the midpoint sum is sinc(K) / sinc(K h)."""
    h = 1 / 512
    (K,), F = cft(lambda x: (np.abs(x[:, 0]) < 0.5) * 1.0, -8 + h * (np.arange(16 * 512) + 0.5))
    np.testing.assert_allclose(F, np.sinc(K) / np.sinc(K * h), atol=1e-12)
    near = np.abs(K) < 5
    np.testing.assert_allclose(F[near], np.sinc(K[near]), atol=1e-5)


@pytest.mark.spec("BAY-17")
def test_the_inverse_has_the_other_sign_and_values_may_be_given():
    x = np.arange(-6, 6, 0.125)
    (_, ), forward = cft(lambda p: bell(p - 0.4), x)  # fmt: skip
    (t,), f = icft(lambda k: np.exp(-np.pi * k[:, 0] ** 2 - 0.8j * np.pi * k[:, 0]), x)
    np.testing.assert_allclose(f, bell((t - 0.4)[:, None]), atol=1e-13)
    np.testing.assert_allclose(cft(bell(x[:, None] - 0.4), x).values, forward, atol=1e-15)


@pytest.mark.spec("BAY-17")
def test_a_frequency_grid_of_choice():
    x = -6 + 0.125 * np.arange(100)
    (K,), F = cft(bell, x, start=-0.77)
    assert K[0] == pytest.approx(-0.77) and np.diff(K)[0] == pytest.approx(1 / 12.5)
    folded = sum(np.exp(-np.pi * (K + 8.0 * j) ** 2) for j in range(-2, 3))  # samples 1/8 apart add up F(K + 8 j)
    np.testing.assert_allclose(F, folded, atol=1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fft([]), "x must have at least one number on the axis"),
        (lambda: fft([1.0], axis=1), "axis must be an axis of an array of 1 axes, got 1"),
        (lambda: fft([1.0], norm="orto"), "got 'orto'; did you mean ortho"),
        (lambda: fft(["a"]), "x must hold numbers, got dtype <U1"),
        (lambda: fft([1.0], 0), "n must be at least 1, got 0"),
        (lambda: rfft([1j]), "x must be real, got complex numbers; use fft, or give the real part"),
        (lambda: rfft(torch.tensor([1j])), "complex numbers"),
        pytest.param(
            lambda: irfft([1, 2, 3], 6), "n must be 4 or 5 for 3 coefficients, got 6", marks=pytest.mark.spec("BAY-20")
        ),
        pytest.param(
            lambda: dft_matrix(10**5),
            r"the 100000 x 100000 matrix would take 1\.6e\+11 bytes \(n\); use fft, or raise `limit`",
            marks=pytest.mark.spec("BAY-19"),
        ),
        (lambda: dft_matrix(0), "n must be at least 1, got 0"),
        (lambda: dft_matrix(4, "sqrtn"), "scale must be 'ortho' or None, got 'sqrtn'"),
        (lambda: coefficients(np.cos, 0, 1), "period must be positive and finite, got 0"),
        (lambda: coefficients(np.cos, 1, -1), "n_max must be at least 0, got -1"),
        (
            lambda: coefficients(lambda t: np.full_like(t, np.nan), 1, 1),
            "f must give finite values, got nan at point 0",
        ),
        (lambda: coefficients(lambda t: 1.0, 1, 1), r"f must give one value per point, \(4096,\), got shape \(\)"),
        (
            lambda: reconstruct([1, 2], 0.0, 1.0),
            r"c must hold the coefficients of -n_max, \.\.\., n_max, an odd .*got an array of shape \(2,\)",
        ),
        (lambda: cft(bell, [0.0, 1.0, 3.0]), "axis 0.* give x0"),
        (
            lambda: cft(bell, [1.0, 0.0]),
            r"coordinates must be ascending and evenly spaced \(grid, axis 0\); give x0 \+ h \* arange\(n\)",
        ),
        (lambda: cft(bell, []), "grid must hold the coordinates of at least one axis"),
        (lambda: cft(bell, 1.0), "grid must hold the coordinates of at least one axis"),
        (
            lambda: cft(bell, [0.0, 1.0], start=[0.0, 1.0]),
            r"start must be one finite number or 1, one per axis, got \[0\.0, 1\.0\]",
        ),
        (lambda: cft(lambda x: x, [0.0, 1.0]), r"f must give one value per point, \(2,\), got shape \(2, 1\)"),
        (lambda: cft(np.ones(3), [0.0, 1.0]), r"f must give one value per point, \(2,\), got shape \(3,\)"),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value) and isinstance(caught.value, UserTypeError | UserValueError)
