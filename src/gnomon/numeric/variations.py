r"""Calculus of variations: the Euler-Lagrange equation of :math:`S(u) = \int L(t, u, u')\, dt`, and its solution.

On a grid S is :math:`S_h = \sum_j h_j L(\bar t_j, (u_j + u_{j+1}) / 2, (u_{j+1} - u_j) / h_j)`, the midpoint rule on
every interval, whose error is O(h^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, eigvalsh_tridiagonal, solve_banded

from gnomon.errors import Diverged, UserTypeError, UserValueError
from gnomon.numeric.given import affordable, checked, floats

__all__ = ["Extremal", "action", "residual", "solve_boundary_value"]

Floats = NDArray[np.float64]
Lagrangian = Callable[[Any, Any, Any], Any]

FLAT = 1e-13
"""Eigenvalues of the second variation below this share of the largest count as 0."""

HALVINGS = 30
"""Times that a step is halved in search of one that comes nearer."""


class Extremal(NamedTuple):
    """A stationary point of the action on a grid.

    ``kind`` says what the second variation, the Hessian of S_h in the values that may move, makes of it: "minimum" and
    "maximum" are local, "saddle" is neither, and with "degenerate" the second order does not decide.
    """

    t: Floats
    u: Floats
    action: float
    kind: Literal["minimum", "maximum", "saddle", "degenerate"]
    curvatures: tuple[float, float]
    """Smallest and largest eigenvalue of the second variation."""
    residual: float
    """Largest entry of the gradient of S_h."""
    iterations: int


@checked
def residual(L: Lagrangian, u: Any, grid: ArrayLike) -> Floats:
    r"""The Euler-Lagrange expression :math:`\partial L / \partial u - \sum_i d/dx_i\, \partial L / \partial u_{x_i}`.

    0 exactly where u makes the action stationary. The d/dx_i are total derivatives: they see x both in L and through u.

    Parameters
    ----------
    L : callable
        Of torch operations, L(t, u, v): times (n,), values (n,), slopes (n,) to (n,). For a field: points (n, d),
        values (n,), gradients (n, d) to (n,).
    u : callable or array of shape (n,)
        A function of torch operations, from times (n,) or points (n, d) to values (n,), whose residual is exact; or its
        values at the times, whose residual is the gradient of S_h over the length that each point stands for.
    grid : array of shape (n,) of times, or (n, d) of points
        For values of u: ascending times, three or more.

    Returns
    -------
    float64 array of shape (n,); (n - 2,), the inner points, for values of u

    Raises
    ------
    UserValueError, UserTypeError
        Shapes that do not fit, times that do not ascend.

    Examples
    --------
    >>> oscillator = lambda t, u, v: (v**2 - u**2) / 2
    >>> residual(oscillator, lambda t: t.sin(), [0.0, 1.0]).round(12) + 0.0
    array([0., 0.])
    >>> residual(oscillator, lambda t: t**2, [0.0, 1.0])
    array([-2., -3.])
    """
    if callable(u):
        return _exact_residual(L, u, grid)
    t = _times(grid)
    values = floats(u, "u")
    _check_finite(values, "u")
    if values.shape != t.shape or len(t) < 3:
        raise UserValueError.must("u", f"hold three or more values, one for each of the {len(t)} times", values)
    return _variations(L, t, values, order=1).gradient[1:-1] / (0.5 * (t[2:] - t[:-2]))


@checked
def action(L: Lagrangian, u: ArrayLike, grid: ArrayLike) -> float:
    r"""S_h, the midpoint rule of :math:`\int L(t, u, u')\, dt` for the values u at the times `grid`.

    Examples
    --------
    >>> action(lambda t, u, v: v**2 / 2, [0.0, 1.0, 4.0], [0.0, 1.0, 2.0])
    5.0
    """
    t, values = _times(grid), floats(u, "u")
    _check_finite(values, "u")
    if values.shape != t.shape:
        raise UserValueError.must("u", f"hold one value for each of the {len(t)} times", values)
    return _variations(L, t, values, order=0).action


@checked
def solve_boundary_value(
    L: Lagrangian,
    a: tuple[float, float | None],
    b: tuple[float, float | None],
    *,
    points: int = 101,
    start: ArrayLike | None = None,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> Extremal:
    r"""A function between two ends that makes :math:`\int L(t, u, u')\, dt` stationary: damped Newton on S_h.

    Every step solves the tridiagonal system of the second variation and is halved until the gradient shrinks.
    Stationary is not minimal: see ``kind``. Of several solutions the one that the start leads to is found.

    Parameters
    ----------
    L : callable
        Of torch operations, twice differentiable: L(t, u, v), times, values, slopes (n,) to (n,).
    a, b : pairs (time, value)
        The ends. A value None leaves the end free: then :math:`\partial L / \partial u' = 0` there comes out by itself.
    points : int in [3, inf), default 101
        Grid points, ends included.
    start : array of shape (points,), optional
        First guess; its ends are put to the given values. The straight line, or the constant, by default.
    tol : float in (0, inf), default 1e-10
        Largest entry of the gradient of S_h, relative to the largest of the terms that it is the sum of.
    max_iter : int in [1, inf), default 100
        Newton steps.

    Returns
    -------
    Extremal

    Raises
    ------
    UserValueError, UserTypeError
        Ends out of order, other arguments out of range, a Lagrangian with other than one value per time.
    Diverged
        No convergence; a singular system.

    Notes
    -----
    Cost O(points) a step. The values err by O(h^2).

    Examples
    --------
    >>> found = solve_boundary_value(lambda t, u, v: (v**2 - u**2) / 2, (0.0, 0.0), (np.pi / 2, 1.0))
    >>> found.kind, bool(np.abs(found.u - np.sin(found.t)).max() < 1e-4)
    ('minimum', True)
    """
    t, u = _first_guess(a, b, points, start)
    if not tol > 0 or max_iter < 1:
        raise UserValueError(f"tol must be positive and max_iter at least 1, got {tol} and {max_iter}", "tol, max_iter")
    free = slice(0 if a[1] is None else 1, points if b[1] is None else points - 1)
    now = _variations(L, t, u)
    for iteration in range(max_iter + 1):
        if not math.isfinite(now.size(free) + now.action):
            raise Diverged("the action or its gradient is not finite", f"iteration {iteration}", "give another `start`")
        rounding = 4 * np.finfo(float).eps * float(np.abs(now.diagonal * u).max())
        if now.size(free) <= max(tol * now.scale, rounding):
            return _extremal(t, u, now, free, iteration)
        if iteration < max_iter:
            u, now = _newton(L, t, u, now, free, iteration)
    what = f"no stationary point was found in {max_iter} steps: the gradient is {now.size(free):.3g}"
    raise Diverged(what, "max_iter", "give another `start` or more steps")


# --- the action on a grid ---------------------------------------------------------------------------------------------


class _Variations(NamedTuple):
    """S_h, its gradient, and its Hessian by diagonals; `scale` is the largest term of the gradient."""

    action: float
    gradient: Floats
    scale: float
    diagonal: Floats
    beside: Floats

    def size(self, free: slice) -> float:
        return float(np.abs(self.gradient[free]).max())


def _variations(L: Lagrangian, t: Floats, u: Floats, order: int = 2) -> _Variations:
    import torch

    h = torch.from_numpy(np.diff(t))
    left = torch.from_numpy(u[:-1].copy()).requires_grad_(order > 0)
    right = torch.from_numpy(u[1:].copy()).requires_grad_(order > 0)
    middle = torch.from_numpy(0.5 * (t[:-1] + t[1:]))
    with torch.enable_grad():
        terms = h * _checked(L(middle, (left + right) / 2, (right - left) / h), len(h))
        total = float(terms.detach().sum())
        nothing = np.zeros(0)
        if order == 0:
            return _Variations(total, nothing, 0.0, nothing, nothing)
        by_left, by_right = _slopes(terms, (left, right), keep=order > 1)
        gradient = _spread(by_left, by_right)
        scale = max(float(by_left.detach().abs().max()), float(by_right.detach().abs().max()), np.finfo(float).tiny)
        if order == 1:
            return _Variations(total, gradient, scale, nothing, nothing)
        left_left, left_right = _slopes(by_left, (left, right))
        (right_right,) = _slopes(by_right, (right,))
    return _Variations(total, gradient, scale, _spread(left_left, right_right), left_right.detach().numpy())


def _spread(by_left: Any, by_right: Any) -> Floats:
    """Sums over the one or two intervals of each point."""
    found = np.zeros(len(by_left) + 1)
    found[:-1] += by_left.detach().numpy()
    found[1:] += by_right.detach().numpy()
    return found


def _slopes(values: Any, by: tuple[Any, ...], keep: bool = True) -> list[Any]:
    """d values_n / d x_n for x in `by`, zeros where there is no dependence."""
    import torch

    if not values.requires_grad:
        return [torch.zeros_like(x) for x in by]
    found = torch.autograd.grad(values.sum(), by, create_graph=keep, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(by, found, strict=True)]


# --- Newton -----------------------------------------------------------------------------------------------------------


def _newton(
    L: Lagrangian, t: Floats, u: Floats, now: _Variations, free: slice, iteration: int
) -> tuple[Floats, _Variations]:
    """The values after one damped step; the norm of the gradient falls, whether the action falls or not."""
    beside = now.beside[free.start : free.stop - 1]
    bands = np.stack([np.r_[0.0, beside], now.diagonal[free], np.r_[beside, 0.0]])
    try:
        step = solve_banded((1, 1), bands, -now.gradient[free])
    except (LinAlgError, ValueError):
        raise Diverged(
            "the second variation is singular", f"iteration {iteration}", "fix an end or give another `start`"
        ) from None
    norm = float(np.linalg.norm(now.gradient[free]))
    share = 1.0
    for _ in range(HALVINGS):
        trial = u.copy()
        trial[free] += share * step
        new = _variations(L, t, trial)
        nearer = np.linalg.norm(new.gradient[free]) < (1 - 1e-4 * share) * norm  # False for NaN
        if nearer and math.isfinite(new.action):
            return trial, new
        share /= 2
    what = f"no stationary point was found: no step lowers the gradient below {now.size(free):.3g}"
    raise Diverged(what, f"iteration {iteration}", "give another `start`; there may be no solution")


def _extremal(t: Floats, u: Floats, now: _Variations, free: slice, iteration: int) -> Extremal:
    diagonal, beside = now.diagonal[free], now.beside[free.start : free.stop - 1]
    low, high = (
        float(eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(i, i))[0])
        for i in (0, len(diagonal) - 1)
    )
    flat = FLAT * max(-low, high)
    kind: Literal["minimum", "maximum", "saddle", "degenerate"] = "degenerate"
    if low < -flat and high > flat:
        kind = "saddle"
    elif low > flat:
        kind = "minimum"
    elif high < -flat:
        kind = "maximum"
    return Extremal(t, u, now.action, kind, (low, high), now.size(free), iteration)


def _first_guess(
    a: tuple[float, float | None], b: tuple[float, float | None], points: int, start: ArrayLike | None
) -> tuple[Floats, Floats]:
    for end, name in ((a, "a"), (b, "b")):
        if not (
            isinstance(end, Sequence) and len(end) == 2 and _is_real(end[0]) and (end[1] is None or _is_real(end[1]))
        ):
            raise UserValueError.must(name, "be (time, value), with None for a value that is free", end)
    if not (math.isfinite(a[0]) and math.isfinite(b[0]) and a[0] < b[0]):
        raise UserValueError(f"times must be finite with a before b, got {a[0]} and {b[0]}", "a, b")
    if points < 3:
        raise UserValueError.must("points", "be at least 3", points)
    affordable(points, "points", "take fewer", each=80)
    known = [end[1] for end in (a, b) if end[1] is not None]
    if not all(math.isfinite(value) for value in known):
        raise UserValueError(f"values must be finite, or None for a free end, got {a[1]} and {b[1]}", "a, b")
    t = np.linspace(a[0], b[0], points)
    if start is None:
        ends = known if len(known) == 2 else (known or [0.0]) * 2
        return t, np.linspace(ends[0], ends[1], points)
    u = floats(start, "start").copy()
    if u.shape != t.shape or not np.isfinite(u).all():
        raise UserValueError.must("start", f"hold {points} finite values", u)
    u[0] = u[0] if a[1] is None else a[1]
    u[-1] = u[-1] if b[1] is None else b[1]
    return t, u


# --- functions --------------------------------------------------------------------------------------------------------


def _exact_residual(L: Lagrangian, u: Callable[[Any], Any], grid: ArrayLike) -> Floats:
    import torch

    given = floats(grid, "grid").copy()
    _check_finite(given, "grid")
    if given.ndim not in (1, 2) or not given.size:
        raise UserValueError.must("grid", "be times (n,) or points (n, d)", given)
    x = torch.from_numpy(given).requires_grad_()
    with torch.enable_grad():
        value = _checked(u(x), len(x), "u")
        (slope,) = _slopes(value, (x,))
        # Partial derivatives are those by shifts of value and slope: x in L itself is told from x through u.
        shifts = torch.zeros_like(value).requires_grad_(), torch.zeros_like(slope).requires_grad_()
        density = _checked(L(x, value + shifts[0], slope + shifts[1]), len(x))
        by_value, momentum = _slopes(density, shifts)
        total = by_value
        for i in range(1 if given.ndim == 1 else given.shape[1]):
            part = momentum if given.ndim == 1 else momentum[:, i]
            (change,) = _slopes(part, (x,))
            total = total - (change if given.ndim == 1 else change[:, i])
    found: Floats = total.detach().numpy()
    return found


def _checked(values: Any, n: int, name: str = "L") -> Any:
    import torch

    if not isinstance(values, torch.Tensor):
        raise UserTypeError(
            f"{name} must return a tensor, got a {type(values).__name__}", name, "compute with torch operations"
        )
    if tuple(values.shape) != (n,):
        raise UserValueError(f"{name} must return one value each, ({n},), got shape {tuple(values.shape)}", name)
    if not values.dtype.is_floating_point:
        raise UserTypeError(f"{name} must return real floating-point numbers, got {values.dtype}", name)
    return values


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_finite(values: Floats, name: str) -> None:
    if not np.isfinite(values).all():
        index = int(np.argmax(~np.isfinite(values)))
        raise UserValueError.must(name, "be finite", values.flat[index], f"{name}, index {index}")


def _times(grid: ArrayLike) -> Floats:
    t = floats(grid, "grid")
    if t.ndim != 1 or len(t) < 2 or not (np.isfinite(t).all() and (np.diff(t) > 0).all()):
        raise UserValueError.must("grid", "hold two or more finite, ascending times", t)
    return t
