"""The Laplace operator against closed forms, the stencil of the row and scipy.ndimage."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from gnomon.errors import UserError
from gnomon.numeric.derivatives import numeric_gradient
from gnomon.numeric.fields import grid_laplacian, laplacian

random = np.random.default_rng(0)
POINTS = torch.as_tensor(random.normal(size=(20, 2)))


@pytest.mark.spec("DLN-33")
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda p: p[:, 0] ** 2 + 3 * p[:, 1] ** 2, lambda x, y: 8 + 0 * x),
        (lambda p: p[:, 0] ** 2 - p[:, 1] ** 2, lambda x, y: 0 * x),
        (lambda p: 2 * p[:, 0] - p[:, 1], lambda x, y: 0 * x),
        (lambda p: torch.ones(len(p), dtype=p.dtype), lambda x, y: 0 * x),
        (lambda p: p[:, 0] ** 3 * p[:, 1], lambda x, y: 6 * x * y),
    ],
)
def test_polynomials_are_exact(f, expected):
    x, y = POINTS.T
    np.testing.assert_allclose(laplacian(f, POINTS), expected(x, y), rtol=1e-15, atol=1e-15)
    assert laplacian(f, POINTS[3]).item() == pytest.approx(expected(x, y)[3].item(), abs=1e-15)


@pytest.mark.spec("DLN-33")
@pytest.mark.parametrize("d", [1, 2, 5])
def test_waves_and_bells_in_d_dimensions(d):
    p = torch.as_tensor(random.normal(size=(7, d)))
    k = torch.as_tensor(random.normal(size=d))
    np.testing.assert_allclose(laplacian(lambda x: (x @ k).sin(), p), -(k @ k) * (p @ k).sin(), atol=1e-13)
    r = (p * p).sum(1)
    with torch.no_grad():
        found = laplacian(lambda x: (-0.5 * (x * x).sum(1)).exp(), p)
    np.testing.assert_allclose(found, (r - d) * (-0.5 * r).exp(), atol=1e-13)


@pytest.mark.spec("DLN-33")
def test_a_function_without_closed_form_against_differences():
    W = random.normal(size=(2, 4))
    f = lambda x: np.tanh(x @ W).sum(-1)  # noqa: E731
    g = lambda x: numeric_gradient(f, x, step=1e-4)  # noqa: E731
    for p in POINTS[:4]:
        expected = sum(numeric_gradient(lambda x, i=i: g(x)[i], p.numpy(), step=1e-4)[i] for i in range(2))
        assert laplacian(lambda x: (x @ torch.as_tensor(W)).tanh().sum(-1), p).item() == pytest.approx(
            expected, abs=1e-5
        )


@pytest.mark.spec("DLN-33")
@pytest.mark.parametrize("border", ["reflect", "mirror", "nearest", "wrap", "constant"])
@pytest.mark.parametrize("shape", [(9,), (6, 7), (4, 5, 6)])
def test_grids_as_in_ndimage(shape, border):
    u = random.normal(size=shape)
    expected = ndimage.laplace(u, mode=border)
    np.testing.assert_allclose(grid_laplacian(u, border=border), expected, atol=1e-13)
    np.testing.assert_allclose(grid_laplacian(u, 0.5, border=border), 4 * expected, atol=1e-12)
    assert grid_laplacian(u.astype(np.float32), border=border).dtype == np.float32
    inner = (slice(1, -1),) * u.ndim
    np.testing.assert_allclose(grid_laplacian(u, border="valid"), expected[inner], atol=1e-13)


@pytest.mark.spec("DLN-33")
def test_the_stencil_of_the_row():
    point = np.zeros((5, 5), np.uint8)
    point[2, 2] = 200
    expected = np.zeros((5, 5))
    expected[1:4, 1:4] = 200.0 * np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    assert (grid_laplacian(point) == expected).all()


@pytest.mark.spec("DLN-33")
def test_every_axis_has_its_spacing():
    """Quadratics and harmonics exactly; the error of a wave falls as h^2."""
    x, y = np.meshgrid(np.arange(0, 2, 0.25), np.arange(0, 1, 0.125), indexing="ij")
    assert (grid_laplacian(x**2 + 3 * y**2, (0.25, 0.125), border="valid") == 8).all()
    assert (grid_laplacian(x**2 - y**2, (0.25, 0.125), border="valid") == 0).all()
    errors = []
    for n in (32, 64):
        t = np.arange(n) / n
        wave = np.sin(2 * np.pi * t)[:, None] * np.cos(4 * np.pi * t)
        errors.append(np.abs(grid_laplacian(wave, 1 / n, border="wrap") + 20 * np.pi**2 * wave).max())
    assert errors[0] / errors[1] == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: laplacian(lambda p: p, POINTS),
            r"f must return one value for each of the 20 rows, got shape \(20, 2\)",
        ),
        (
            lambda: laplacian(lambda p: p.sum(), POINTS),
            r"f must return one value for each of the 20 rows, got shape \(\)",
        ),
        (
            lambda: laplacian(lambda p: p[:, 0], [[1.0]]),
            r"x must be a tensor of floating-point numbers, got \[\[1\.0\]\]; give torch",
        ),
        (
            lambda: laplacian(lambda p: p[:, 0], torch.ones(2, 2, 2)),
            r"x must be n points of d coordinates or one point, got an array of shape \(2, 2, 2\)",
        ),
        (lambda: grid_laplacian(np.ones(3), border="reflct"), "got 'reflct'; did you mean reflect"),
        (
            lambda: grid_laplacian(np.ones((3, 2)), border="valid"),
            r"u must have at least three points on every axis, got an array of shape \(3, 2\)",
        ),
        (
            lambda: grid_laplacian(np.ones((3, 3)), (1, 2, 3)),
            r"spacing must be one positive number or 2, one per axis, got \(1, 2, 3\)",
        ),
        (lambda: grid_laplacian(np.ones((3, 3)), 0), "spacing must be one positive number or 2, one per axis, got 0"),
        (lambda: grid_laplacian(["a"]), "u must hold numbers, got dtype <U1"),
    ],
)
def test_mistakes_are_told_in_one_line(call, message):
    with pytest.raises(UserError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
