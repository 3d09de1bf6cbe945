r"""Derivatives by automatic and by finite differences, and the rules of linear and quadratic forms.

One layout throughout (numerator layout): the gradient of a scalar s by a vector v has v's shape, (ds/dv)_i; the
Jacobian of a vector u of length m by v of length n is (m, n), J_ij = du_i / dv_j. So

- z = v^T x: dz/dx = v;
- z = W x: dz/dx = W, and dL/dW = (dL/dz) x^T, an outer product;
- z = x W for a row x: dz/dx = W^T, and dL/dW = x^T (dL/dz);
- z = x^T W x: dz/dx = (W + W^T) x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError

__all__ = [
    "batched_product", "gradient", "jacobian", "numeric_gradient", "numeric_jacobian", "outer_gradient",
    "quadratic_gradient",
]  # fmt: skip


def gradient(f: Callable[[Any], Any], x: Any) -> Any:
    """ds/dx of a scalar function of a tensor by automatic differentiation, in the shape of x.

    Parameters
    ----------
    f : callable
        Of torch operations, to a tensor with one element.
    x : float tensor

    Examples
    --------
    >>> import torch
    >>> gradient(lambda x: x.square().sum(), torch.tensor([1.0, 2.0]))
    tensor([2., 4.])
    """
    import torch

    point = x.detach().clone().requires_grad_()
    value = f(point)
    if value.numel() != 1:
        raise UserValueError(f"f must return one value, got {value.numel()}", "f", "use jacobian, or sum the values")
    slope = torch.autograd.grad(value.reshape(()), point, allow_unused=True)[0]
    return torch.zeros_like(point) if slope is None else slope


def jacobian(f: Callable[[Any], Any], x: Any) -> Any:
    """du/dx of a vector function of a vector by automatic differentiation, shape (m, n).

    Parameters
    ----------
    f : callable
        Of torch operations, from shape (n,) to shape (m,).
    x : float tensor of shape (n,)

    Examples
    --------
    >>> import torch
    >>> jacobian(lambda x: torch.stack([x[0] * x[1], x[1]]), torch.tensor([2.0, 3.0]))
    tensor([[3., 2.],
            [0., 1.]])
    """
    import torch

    return torch.autograd.functional.jacobian(f, x.detach())  # type: ignore[no-untyped-call]


def numeric_gradient(f: Callable[[NDArray[np.float64]], Any], x: Any, *, step: float = 1e-6) -> NDArray[np.float64]:
    """ds/dx of a scalar function by central differences, (f(x + h e_i) - f(x - h e_i)) / 2h, in the shape of x.

    The error falls as h^2 until rounding, about 1e-16 |f| / h, takes over. 2 n calls.

    Parameters
    ----------
    f : callable
        From a float64 array of x's shape to a number.
    x : array of float64
        Double precision only: in float32 the difference of two values has no digits left.
    step : float in (0, inf), default 1e-6
        h.

    Examples
    --------
    >>> numeric_gradient(lambda x: (x**2).sum(), np.array([1.0, 2.0])).round(6)
    array([2., 4.])
    """
    point = _double(x, step)
    return numeric_jacobian(lambda v: np.reshape(f(v.reshape(point.shape)), 1), point.ravel(), step=step).reshape(
        point.shape
    )


def numeric_jacobian(f: Callable[[NDArray[np.float64]], Any], x: Any, *, step: float = 1e-6) -> NDArray[np.float64]:
    """du/dx of a vector function by central differences, shape (m, n); parameters as in `numeric_gradient`.

    Examples
    --------
    >>> numeric_jacobian(lambda x: np.array([x[0] * x[1], x[1]]), np.array([2.0, 3.0])).round(6)
    array([[3., 2.],
           [0., 1.]])
    """
    point = _double(x, step)
    if point.ndim != 1:
        raise UserValueError.must("x", "be a vector", point, remedy="for other shapes use numeric_gradient")
    columns = []
    for i in range(point.size):
        up, down = point.copy(), point.copy()
        up[i] += step
        down[i] -= step
        columns.append((np.asarray(f(up)) - np.asarray(f(down))) / (up[i] - down[i]))
    return np.stack(columns, axis=-1)


def outer_gradient(gradient: Array, x: Array) -> Array:
    """dL/dW = (dL/dz) x^T of z = W x, shape (m, n); of a row z = x W it is ``outer_gradient(x, dL/dz)``.

    Parameters
    ----------
    gradient : array or tensor of shape (m,)
        dL/dz.
    x : array or tensor of shape (n,)
    """
    return gradient[:, None] * x[None, :]


def quadratic_gradient(W: Array, x: Array) -> Array:
    """dz/dx = (W + W^T) x of z = x^T W x; 2 W x only where W is symmetric.

    Parameters
    ----------
    W : array or tensor of shape (n, n)
    x : array or tensor of shape (n,)

    Examples
    --------
    >>> quadratic_gradient(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([2.0, 3.0]))
    array([3., 2.])
    """
    return (W + W.T) @ x


def batched_product(X: Array, Y: Array) -> Array:
    """Z_i = X_i Y_i of n matrices (a, b) and n matrices (b, c), shape (n, a, c); NumPy arrays or torch tensors.

    NumPy's ``matmul`` would repeat a batch of one; here sizes that differ are refused.

    Raises
    ------
    UserValueError
        Not three axes, different batches, or matrices that do not go together.

    Examples
    --------
    >>> batched_product(np.ones((5, 1, 2)), np.ones((5, 2, 3))).shape
    (5, 1, 3)
    """
    if X.ndim != 3 or Y.ndim != 3 or X.shape[0] != Y.shape[0] or X.shape[2] != Y.shape[1]:
        what = f"shapes must be (n, a, b) and (n, b, c), got {tuple(X.shape)} and {tuple(Y.shape)}"
        raise UserValueError(what, "batched_product")
    return X @ Y


def _double(x: Any, step: float) -> NDArray[np.float64]:
    point = np.asarray(x)
    if point.dtype != np.float64:
        raise UserTypeError(f"x must be float64 for finite differences, got {point.dtype}", "x")
    if not 0 < step < np.inf:
        raise UserValueError.must("step", "be positive", step)
    return point
