r"""Conjugate gradients: linear systems :math:`A x = b` with a positive definite A of which only products are asked.

`begin` and `advance` are the method step by step, for procedures that save their state; `conjugate_gradient` is the
whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.tensors import is_tensor

__all__ = ["CGState", "Solution", "advance", "begin", "conjugate_gradient"]

REFRESH = 50
"""Steps after which the residual is computed anew, since the recursion drifts from it."""

RESTARTS = 3
"""So often the recursion may say that it is done while the residual says that it is not."""

Operator = Callable[[Any], Any]
Numbers = NDArray[np.float64]


class CGState(NamedTuple):
    """Where the method stands.

    Attributes
    ----------
    x, r, p : arrays of shape (n, k)
        Solutions, residuals b - A x, directions; a column for each right side.
    rz : array of shape (k,)
        Inner products of residuals and preconditioned residuals.
    """

    x: Any
    r: Any
    p: Any
    rz: Numbers

    @property
    def norms(self) -> Numbers:
        """Lengths of the residuals, shape (k,)."""
        return np.sqrt(_dots(self.r, self.r))


class Solution(NamedTuple):
    """What `conjugate_gradient` found.

    Attributes
    ----------
    x : array of the shape of b
    converged : bool
        Whether the residual of every right side, computed anew, is small enough.
    iterations : int
    residuals : array of shape (iterations + 1,) or (iterations + 1, k)
        Lengths of the residuals, from that of the start on.
    """

    x: Any
    converged: bool
    iterations: int
    residuals: Numbers


def conjugate_gradient(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-8, atol: float = 0.0, max_iter: int | None = None,
    preconditioner: Any = None,
) -> Solution:  # fmt: skip
    r"""Solve :math:`A x = b`, A symmetric and positive definite, by products with A alone.

    From :math:`r = b - A x` and :math:`p = r`: :math:`\alpha = r^T r / p^T A p`, :math:`x \leftarrow x + \alpha p`,
    :math:`r \leftarrow r - \alpha A p`, :math:`p \leftarrow r + \beta p` with :math:`\beta` the quotient of the new
    and the old :math:`r^T r`. It ends where :math:`\|r\| \le \max(\text{rtol} \|b\|, \text{atol})`.

    Parameters
    ----------
    A : array or sparse array of shape (n, n), linear operator, or callable
        A callable takes arrays of the shape of b, or with fewer columns once some right sides are solved no others.
    b : array or tensor of shape (n,) or (n, k)
        One or several right sides, each of which is solved by itself in common products.
    x0 : array of the shape of b, optional
        Where to begin; 0 where left out.
    rtol, atol : float in [0, inf), default 1e-8 and 0
    max_iter : int in [0, inf), optional
        10 n where left out.
    preconditioner : as A, optional
        Products with an approximate inverse of A, symmetric and positive definite.

    Returns
    -------
    Solution

    Raises
    ------
    UserValueError
        An A that is not symmetric (of arrays) or not positive definite (:math:`p^T A p \le 0`); shapes that do not fit;
        numbers that are not finite.

    Notes
    -----
    At most as many steps as A has distinct eigenvalues, but for rounding; the error in the norm of A falls at every
    step, by a factor of :math:`(\sqrt\kappa - 1) / (\sqrt\kappa + 1)` in the long run. One product a step; the residual
    is computed anew every 50 steps and before the end. Source: Hestenes and Stiefel (1952); Golub and Van Loan (2013),
    section 11.3.

    Examples
    --------
    >>> found = conjugate_gradient([[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0])
    >>> found.x.round(6).tolist(), found.iterations
    ([0.090909, 0.636364], 2)
    """
    b = b if is_tensor(b) else _finite(b, "b")
    if b.ndim not in (1, 2) or not b.shape[0]:
        raise UserValueError(f"b must be one or several columns, got shape {tuple(b.shape)}", "b")
    flat, right = b.ndim == 1, b.reshape(b.shape[0], -1)
    apply = _operator(A, "A", len(b), flat)
    precondition = None if preconditioner is None else _operator(preconditioner, "preconditioner", len(b), flat)
    start = 0 * right if x0 is None else _like(x0, b).reshape(right.shape)
    target = np.maximum(rtol * np.sqrt(_dots(right, right)), atol)
    state, restarts = begin(apply, right, start, precondition, zero=x0 is None), 0
    residuals, limit = [state.norms], 10 * len(b) if max_iter is None else max_iter
    while len(residuals) <= limit and (state.norms > target).any():
        state = advance(apply, state, precondition, active=state.norms > target)
        done = (state.norms <= target).all()
        if done or len(residuals) % REFRESH == 0:
            fresh = right - apply(state.x)
            lost = done and (np.sqrt(_dots(fresh, fresh)) > target).any()
            state = begin(apply, right, state.x, precondition) if lost else state._replace(r=fresh)
            restarts += int(lost)
        residuals.append(state.norms)
        if restarts > RESTARTS:
            break
    history = np.array(residuals)
    x = state.x.reshape(b.shape)
    return Solution(x, bool((history[-1] <= target).all()), len(history) - 1, history[:, 0] if flat else history)


def begin(apply: Operator, b: Any, x: Any, precondition: Operator | None = None, *, zero: bool = False) -> CGState:
    """The state before the first step.

    Parameters
    ----------
    apply : callable
        Product of A with (n, k).
    b, x : arrays of shape (n, k)
    precondition : callable, optional
    zero : bool, default False
        Whether x is 0, which saves a product.
    """
    r = b + 0 * x if zero else b - apply(x)
    z = r if precondition is None else precondition(r)
    return CGState(x, r, z, _dots(r, z))


def advance(
    apply: Operator, state: CGState, precondition: Operator | None = None, *, active: NDArray[np.bool_] | None = None
) -> CGState:
    """One step of every right side that is `active`; the others stay.

    Raises
    ------
    UserValueError
        A direction p with p^T A p <= 0.
    """
    x, r, p, rz = state
    chosen = np.ones(len(rz), bool) if active is None else active
    product = apply(p)
    curvature = _dots(p, product)
    wrong = chosen & ~(curvature > 0)
    if wrong.any():
        value = float(curvature[np.argmax(wrong)])
        raise UserValueError(
            f"A must be positive definite, but p^T A p is {value:.3g} for a direction p", "A",
            "add a multiple of the identity, or solve a symmetric system by another method",
        )  # fmt: skip
    alpha = _columns(np.divide(rz, curvature, out=np.zeros_like(rz), where=chosen), p)
    x, r = x + alpha * p, r - alpha * product
    z = r if precondition is None else precondition(r)
    new = _dots(r, z)
    beta = np.divide(new, rz, out=np.zeros_like(rz), where=chosen & (rz > 0))
    return CGState(x, r, z + _columns(beta, p) * p, np.where(chosen, new, rz))


def _dots(a: Any, b: Any) -> Numbers:
    """Inner products of the columns, in float64."""
    found = (a * b).sum(0)
    return np.asarray(found.detach().double().cpu().numpy() if is_tensor(found) else found, np.float64)


def _columns(values: Numbers, like: Any) -> Any:
    return like.new_tensor(values) if is_tensor(like) else values.astype(like.dtype)


def _like(x: Any, b: Any) -> Any:
    if tuple(np.shape(x)) != tuple(b.shape):
        raise UserValueError(f"x0 must have the shape of b, {tuple(b.shape)}, got {tuple(np.shape(x))}", "x0")
    return x if is_tensor(x) else _finite(x, "x0").astype(b.dtype)


def _finite(x: Any, name: str) -> Any:
    array = np.asarray(x)
    array = array if array.dtype.kind == "f" else array.astype(np.float64)
    if not np.isfinite(array).all():
        raise UserValueError(f"{name} must hold finite numbers", name)
    return array


def _operator(A: Any, name: str, n: int, flat: bool) -> Operator:
    """Products with (n, k)."""
    if callable(A) and not hasattr(A, "shape"):
        return (lambda p: A(p[:, 0])[:, None]) if flat else A
    if not hasattr(A, "matvec") and not hasattr(A, "nnz") and not is_tensor(A):
        A = _finite(A, name)
        if A.shape == (n, n) and not np.allclose(A, A.T, rtol=1e-6, atol=1e-12 * float(np.abs(A).max(initial=0.0))):
            raise UserValueError(f"{name} must be symmetric", name, "solve least squares, or another method")
    if tuple(A.shape) != (n, n):
        raise UserValueError(f"{name} must have shape {(n, n)} beside b, got {tuple(A.shape)}", name)
    return lambda p: A @ p
