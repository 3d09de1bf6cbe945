"""Derivatives: one layout, rules of linear and quadratic forms, finite against automatic differences."""

import numpy as np
import pytest
import torch

from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.derivatives import (
    batched_product,
    gradient,
    jacobian,
    numeric_gradient,
    numeric_jacobian,
    outer_gradient,
    quadratic_gradient,
)  # fmt: skip

RANDOM = np.random.default_rng(0)
W, V, X = RANDOM.normal(size=(3, 4)), RANDOM.normal(size=4), RANDOM.normal(size=4)
ROW, SQUARE = RANDOM.normal(size=3), RANDOM.normal(size=(4, 4))


def curve(x):
    """A function from R^4 to R^3 whose Jacobian is W diag(cos x)."""
    return W @ np.sin(x)


@pytest.mark.spec("DLN-60")
def test_row_i_of_a_jacobian_belongs_to_output_i():
    expected = W * np.cos(X)
    assert expected.shape == (3, 4)
    np.testing.assert_allclose(numeric_jacobian(curve, X), expected, atol=1e-9)
    automatic = jacobian(lambda x: torch.from_numpy(W) @ x.sin(), torch.from_numpy(X))
    np.testing.assert_allclose(automatic, expected, rtol=1e-14)


@pytest.mark.spec("DLN-60")
def test_a_gradient_has_the_shape_of_its_variable():
    f = lambda x: (x.sin() * 3 if isinstance(x, torch.Tensor) else np.sin(x) * 3).sum()  # noqa: E731
    expected = 3 * np.cos(W)
    np.testing.assert_allclose(numeric_gradient(f, W), expected, atol=1e-8)
    np.testing.assert_allclose(gradient(f, torch.from_numpy(W)), expected, rtol=1e-14)
    assert gradient(lambda x: torch.ones(1, requires_grad=True), torch.ones(2)).tolist() == [0, 0]


@pytest.mark.spec("DLN-61")
def test_a_linear_form_has_its_coefficients_for_gradient():
    np.testing.assert_allclose(numeric_gradient(lambda x: V @ x, X), V, atol=1e-6)


@pytest.mark.spec("DLN-61")
def test_a_matrix_times_a_column():
    """Of L = c^T W x, so that dL/dz = c."""
    np.testing.assert_allclose(numeric_jacobian(lambda x: W @ x, X), W, atol=1e-6)
    numeric = numeric_gradient(lambda w: ROW @ w @ X, W)
    np.testing.assert_allclose(outer_gradient(ROW, X), numeric, atol=1e-6)
    assert numeric.shape == W.shape


@pytest.mark.spec("DLN-61")
def test_a_row_times_a_matrix():
    """Of L = x W c, so that dL/dz = c."""
    np.testing.assert_allclose(numeric_jacobian(lambda x: x @ W, ROW), W.T, atol=1e-6)
    np.testing.assert_allclose(outer_gradient(ROW, X), numeric_gradient(lambda w: ROW @ w @ X, W), atol=1e-6)
    torchs = outer_gradient(torch.from_numpy(ROW), torch.from_numpy(X))
    np.testing.assert_array_equal(torchs, np.outer(ROW, X))


@pytest.mark.spec("DLN-61")
def test_a_quadratic_form_needs_both_the_matrix_and_its_transpose():
    numeric = numeric_gradient(lambda x: x @ SQUARE @ x, X)
    np.testing.assert_allclose(quadratic_gradient(SQUARE, X), numeric, atol=1e-6)
    np.testing.assert_allclose(
        quadratic_gradient(torch.from_numpy(SQUARE), torch.from_numpy(X)), quadratic_gradient(SQUARE, X), rtol=1e-14
    )
    symmetric = SQUARE + SQUARE.T
    np.testing.assert_allclose(quadratic_gradient(symmetric, X), 2 * symmetric @ X, rtol=1e-13)
    assert np.abs(2 * SQUARE @ X - numeric).max() > 0.1


@pytest.mark.spec("DLN-60")
def test_the_error_falls_as_the_square_of_the_step():
    errors = [np.abs(numeric_jacobian(curve, X, step=h) - W * np.cos(X)).max() for h in (1e-2, 1e-3)]
    assert errors[0] / errors[1] == pytest.approx(100, rel=1e-2)


def test_what_cannot_be_differentiated_is_refused():
    with pytest.raises(UserTypeError, match="x must be float64 for finite differences, got float32"):
        numeric_gradient(np.sum, X.astype(np.float32))
    with pytest.raises(UserValueError, match="step must be positive, got 0"):
        numeric_gradient(np.sum, X, step=0)
    with pytest.raises(UserValueError, match=r"shape \(3, 4\)"):
        numeric_jacobian(np.sum, W)
    with pytest.raises(UserValueError, match="f must return one value, got 3; use jacobian, or sum the values"):
        gradient(lambda x: 2 * x, torch.ones(3))


@pytest.mark.spec("DLN-31")
def test_matrices_are_multiplied_in_pairs():
    x, y = RANDOM.normal(size=(5, 2, 3)), RANDOM.normal(size=(5, 3, 4))
    loop = np.stack([np.array([[sum(a * b) for b in j.T] for a in i]) for i, j in zip(x, y, strict=True)])
    np.testing.assert_allclose(batched_product(x, y), loop, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(batched_product(x, y), np.matmul(x, y), rtol=1e-14)
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    np.testing.assert_allclose(batched_product(*tensors), torch.bmm(*tensors), rtol=1e-14)


@pytest.mark.spec("DLN-31")
@pytest.mark.parametrize(
    "shapes", [((1, 2, 3), (5, 3, 4)), ((5, 2, 3), (4, 3, 4)), ((5, 2, 3), (5, 2, 4)), ((2, 3), (5, 3, 4))], ids=str
)
@pytest.mark.parametrize("kind", [np.ones, torch.ones], ids=["numpy", "torch"])
def test_batches_that_differ_are_refused_not_repeated(shapes, kind):
    with pytest.raises(UserValueError, match=r"shapes must be \(n, a, b\) and \(n, b, c\), got \("):
        batched_product(*map(kind, shapes))
