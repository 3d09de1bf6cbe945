"""Convolutions against sums written out, quadrature, closed forms and scipy; the algebra on random arrays."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, signal, stats

from gnomon.errors import UserError
from gnomon.numeric.convolution import convolve, convolve2d, convolve_functions, correlate, correlate2d

SHAPES = [((5,), (3,)), ((3,), (5,)), ((1,), (4,)), ((4, 6), (3, 2)), ((3, 4, 5), (2, 3, 2))]
random = np.random.default_rng(0)


def by_definition(f, g):
    """(f * g)(x) = sum_t f(t) g(x - t), every pair of places one after the other."""
    result = np.zeros([n + k - 1 for n, k in zip(f.shape, g.shape, strict=True)], np.result_type(f, g))
    for t in itertools.product(*map(range, f.shape)):
        for u in itertools.product(*map(range, g.shape)):
            result[tuple(a + b for a, b in zip(t, u, strict=True))] += f[t] * g[u]
    return result


def slide(x, kernel):
    """Y_ij = sum_ab K_ab X_{i+a,j+b}."""
    high, wide = (n - k + 1 for n, k in zip(x.shape, kernel.shape, strict=True))
    places = itertools.product(range(high), range(wide))
    rows, columns = kernel.shape
    return np.array(
        [
            sum(kernel[a, b] * x[i + a, j + b] for a, b in itertools.product(range(rows), range(columns)))
            for i, j in places
        ]
    ).reshape(high, wide)


@pytest.mark.spec("DLN-34")
@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
def test_values_of_the_row(method):
    np.testing.assert_allclose(convolve([1, 2, 3], [0, 1, 0.5], method=method), [0, 1, 2.5, 4, 1.5], atol=1e-15)


@pytest.mark.spec("DLN-34")
@pytest.mark.parametrize("method", ["direct", "fft"])
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_every_mode_is_a_part_of_the_sum_written_out(n, k, method):
    f, g = random.normal(size=n), random.normal(size=k)
    full = by_definition(f, g)
    np.testing.assert_allclose(convolve(f, g, method=method), full, atol=1e-13)
    middle = tuple(slice((b - 1) // 2, (b - 1) // 2 + a) for a, b in zip(n, k, strict=True))
    np.testing.assert_allclose(convolve(f, g, mode="same", method=method), full[middle], atol=1e-13)
    if all(b <= a for a, b in zip(n, k, strict=True)):
        inside = tuple(slice(b - 1, a) for a, b in zip(n, k, strict=True))
        np.testing.assert_allclose(convolve(f, g, mode="valid", method=method), full[inside], atol=1e-13)


@pytest.mark.spec("DLN-34")
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_the_algebra(n, k):
    f, g, h = (random.normal(size=size) for size in (n, k, k))
    np.testing.assert_allclose(convolve(f, g), convolve(g, f), atol=1e-13)
    np.testing.assert_allclose(convolve(convolve(f, g), h), convolve(f, convolve(g, h)), atol=1e-12)
    np.testing.assert_allclose(convolve(f, g + h), convolve(f, g) + convolve(f, h), atol=1e-13)
    np.testing.assert_allclose(convolve(2.5 * f, g), 2.5 * convolve(f, g), atol=1e-13)


@pytest.mark.spec("DLN-34")
def test_the_difference_may_be_taken_of_either():
    """In mode full a difference is a convolution with (1, -1), so it passes to either array."""
    f, g, d = random.normal(size=7), random.normal(size=4), np.array([1.0, -1.0])
    for one in (convolve(convolve(f, d), g), convolve(f, convolve(g, d))):
        np.testing.assert_allclose(convolve(convolve(f, g), d), one, atol=1e-13)


@pytest.mark.spec("DLN-34")
def test_same_has_the_size_of_the_first_so_it_does_not_commute():
    f, g = np.arange(1.0, 6.0), np.array([1.0, 2.0])
    assert convolve(f, g, mode="same").shape == (5,)
    assert convolve(g, f, mode="same").shape == (2,)


@pytest.mark.spec("DLN-34")
def test_complex_arrays_are_not_conjugated():
    f, g = (random.normal(size=4) + 1j * random.normal(size=4) for _ in range(2))
    np.testing.assert_allclose(convolve(f, g), by_definition(f, g), atol=1e-14)
    np.testing.assert_allclose(correlate(f, g), [(f * g).sum()], atol=1e-14)
    assert abs(correlate(f, g) - np.correlate(f, g)).max() > 0.1  # NumPy conjugates


@pytest.mark.spec("DLN-34", "DLN-107", "BAY-05")
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("kernel", [(3, 2), (1, 1), (2, 5), (6, 7)])
def test_parity_with_scipy(mode, kernel):
    x, k = random.normal(size=(6, 7)), random.normal(size=kernel)
    np.testing.assert_allclose(convolve(x, k, mode=mode), signal.convolve(x, k, mode=mode), atol=1e-13)
    np.testing.assert_allclose(convolve2d(x, k, mode=mode), signal.convolve2d(x, k, mode=mode), atol=1e-13)
    np.testing.assert_allclose(correlate2d(x, k, mode=mode), signal.correlate(x, k, mode=mode), atol=1e-13)
    if mode != "same" or kernel == (1, 1):
        np.testing.assert_allclose(correlate2d(x, k, mode=mode), signal.correlate2d(x, k, mode=mode), atol=1e-13)
    np.testing.assert_allclose(convolve(x, k, mode=mode), correlate(x, k[::-1, ::-1], mode=mode), atol=1e-13)


@pytest.mark.spec("DLN-107", "BAY-05")
@pytest.mark.parametrize("method", ["direct", "fft"])
@pytest.mark.parametrize("kernel", [(2, 2), (1, 3), (5, 7)])
def test_a_correlation_is_the_sliding_product(kernel, method):
    x, k = random.normal(size=(5, 7)), random.normal(size=kernel)
    np.testing.assert_allclose(correlate2d(x, k, method=method), slide(x, k), atol=1e-13)
    np.testing.assert_allclose(convolve2d(x, k, method=method), slide(x, k[::-1, ::-1]), atol=1e-13)


@pytest.mark.spec("DLN-107", "BAY-05")
def test_pictures_of_the_rows():
    assert correlate2d(np.arange(9).reshape(3, 3), np.arange(4).reshape(2, 2)).tolist() == [[19, 25], [37, 43]]
    x, k = np.arange(1, 10).reshape(3, 3), [[1, 2], [3, 4]]
    assert correlate2d(x, k).tolist() == [[37, 47], [67, 77]]
    assert convolve2d(x, k).tolist() == [[23, 33], [53, 63]]


@pytest.mark.spec("BAY-05")
@pytest.mark.parametrize("method", ["direct", "fft", "auto"])
def test_bytes_do_not_overflow(method):
    x = np.full((4, 4), 255, np.uint8)
    found = correlate2d(x, np.full((3, 3), 200, np.uint8), method=method)
    assert found.dtype == np.int64
    assert found.tolist() == [[9 * 255 * 200] * 2] * 2
    assert convolve(np.array([True, True]), [True, True]).tolist() == [1, 2, 1]


def test_one_missing_cell_stays_where_it_is():
    x = np.ones(3000)
    x[7] = np.nan
    found = convolve(x, np.ones(400), mode="valid")
    assert np.isnan(found).sum() == 8
    assert (found[8:] == 400).all()


@pytest.mark.spec("DLN-34")
def test_functions_against_quadrature():
    def f(t):
        return np.exp(-np.abs(t[:, 0]) * 3) * np.cos(t[:, 0])

    def g(t):
        return np.exp(-((t[:, 0] - 0.5) ** 2))

    (x,), values = convolve_functions(f, g, [(-12.0, 12.0)], points=4096)
    for place in (1500, 4095, 4500):
        true, _ = integrate.quad(
            lambda t, x=x[place]: f(np.array([[t]]))[0] * g(np.array([[x - t]]))[0], -12, 12, points=[0.0], limit=200
        )
        assert values[place] == pytest.approx(true, abs=1e-5)


@pytest.mark.spec("DLN-34")
def test_functions_with_a_closed_form():
    normal = stats.norm(0.3, 0.8).pdf, stats.norm(-0.2, 0.6).pdf
    (x,), values = convolve_functions(lambda t: normal[0](t[:, 0]), lambda t: normal[1](t[:, 0]), [(-8, 8)])
    np.testing.assert_allclose(values, stats.norm(0.1, 1.0).pdf(x), atol=1e-12)
    (x,), values = convolve_functions(*[lambda t: np.exp(-t[:, 0])] * 2, [(0, 40)], points=1 << 14)
    inside = x < 40
    np.testing.assert_allclose(values[inside], x[inside] * np.exp(-x[inside]), atol=3e-6)
    first, second = stats.multivariate_normal([0.1, 0.2], 0.5), stats.multivariate_normal([0, -0.3], 0.25)
    axes, values = convolve_functions(first.pdf, second.pdf, [(-5, 5), (-6, 6)], points=64)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    np.testing.assert_allclose(values, stats.multivariate_normal([0.1, -0.1], 0.75).pdf(grid), atol=1e-10)


@pytest.mark.spec("DLN-34")
def test_the_derivative_may_be_taken_of_either_function():
    f, df = lambda t: np.exp(-(t[:, 0] ** 2)), lambda t: -2 * t[:, 0] * np.exp(-(t[:, 0] ** 2))
    g = lambda t: np.exp(-2 * (t[:, 0] - 1) ** 2)  # noqa: E731
    dg = lambda t: -4 * (t[:, 0] - 1) * g(t)  # noqa: E731
    bounds = [(-9.0, 9.0)]
    (x,), values = convolve_functions(f, g, bounds)
    slope = np.gradient(values, x)[2:-2]
    for one in (convolve_functions(df, g, bounds).values, convolve_functions(f, dg, bounds).values):
        np.testing.assert_allclose(one[2:-2], slope, atol=5e-4)
    np.testing.assert_allclose(
        convolve_functions(df, g, bounds).values, convolve_functions(f, dg, bounds).values, atol=1e-12
    )
    assert math.isclose(values.sum() * (x[1] - x[0]), math.pi / math.sqrt(2), rel_tol=1e-12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        *(
            pytest.param(
                lambda call=call: call(np.ones((2, 2)), np.ones((3, 1))),
                r"the kernel must fit into the array, got 3x1 and 2x2 \(g\); give a smaller kernel or mode='full'",
                marks=pytest.mark.spec("DLN-107", "BAY-05"),
            )
            for call in (correlate2d, convolve2d)
        ),
        (
            lambda: convolve([1, 2], [1, 2, 3], mode="valid"),
            r"the kernel must fit into the array, got 3 and 2 \(g\); give a smaller kernel or mode='full'",
        ),
        (lambda: convolve([1, 2], [[1, 2]]), "f and g must have the same number of axes, got 1 and 2"),
        (lambda: convolve([], [1]), r"shape \(0,\)"),
        (lambda: convolve(["a"], [1]), "f must hold numbers, got dtype <U1"),
        (lambda: convolve([1], [1], mode="vald"), "got 'vald'; did you mean valid"),
        (lambda: convolve([1], [1], method="dft"), "got 'dft'"),
        (
            lambda: correlate2d([1, 2], [1]),
            "x must have 2 axes, rows and columns, got an array of shape .*use convolve or correlate",
        ),
        (
            lambda: convolve([1 << 40] * 3, [1 << 40] * 3),
            r"sums of up to 3\.63e\+24 cannot be computed exactly \(f, g\); give floating-point numbers",
        ),
        (
            lambda: convolve([1 << 30] * 3, [1 << 25] * 3, method="fft"),
            r"sums of up to 1\.08e\+17 cannot be computed exactly \(f, g\); choose method='direct'",
        ),
        (
            lambda: convolve_functions(np.sum, np.sum, [(1.0, 1.0)]),
            r"bounds must be finite pairs with lower < upper, got \[\[1\.0, 1\.0\]\]",
        ),
        (lambda: convolve_functions(np.sum, np.sum, [(0.0, 1.0)], points=1), "points must be at least 2, got 1"),
    ],
)
def test_what_cannot_be_convolved_is_refused_in_one_line(call, words):
    with pytest.raises(UserError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
