"""The Laplace operator: of functions by automatic differentiation, of grids by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from gnomon.errors import UserTypeError, UserValueError
from gnomon.numeric.given import checked, choice, floats

__all__ = ["Border", "grid_laplacian", "laplacian"]

Border = Literal["reflect", "mirror", "nearest", "wrap", "constant", "valid"]


@checked
def laplacian(f: Callable[[Any], Any], x: Any) -> Any:
    r"""Sum of second partial derivatives :math:`\sum_i \partial^2 f / \partial x_i^2` at each of n points.

    Exact, by differentiating automatically twice: d + 1 backward passes for all points together.

    Parameters
    ----------
    f : callable
        Of torch operations, from points (n, d) to values (n,); the value of a point must depend on that point alone.
    x : float tensor of shape (n, d), or (d,) for one point

    Returns
    -------
    tensor of shape (n,), or () for one point
        Detached.

    Raises
    ------
    UserValueError, UserTypeError
        Points of another shape or type, a function with other than one value per point.

    Examples
    --------
    >>> import torch
    >>> laplacian(lambda x: x[:, 0] ** 2 + 3 * x[:, 1] ** 2, torch.tensor([[1.0, 2.0], [0.0, 5.0]]))
    tensor([8., 8.])
    """
    import torch

    if not (isinstance(x, torch.Tensor) and x.is_floating_point()):
        raise UserTypeError.must(
            "x", "be a tensor of floating-point numbers", x, remedy="give torch.tensor([[...], ...])"
        )
    if x.ndim not in (1, 2) or not x.shape[-1]:
        raise UserValueError.must("x", "be n points of d coordinates or one point", x)
    points = x.detach().reshape(-1, x.shape[-1]).clone().requires_grad_()
    with torch.enable_grad():
        values = f(points)
        if not isinstance(values, torch.Tensor) or not values.dtype.is_floating_point:
            raise UserTypeError(
                f"f must return a tensor of floating-point numbers, got a {type(values).__name__}",
                "f",
                "compute with torch operations",
            )
        if tuple(values.shape) != (len(points),):
            what = f"f must return one value for each of the {len(points)} rows, got shape {tuple(values.shape)}"
            raise UserValueError(what, "f")
        total = torch.zeros_like(points[:, 0])
        slopes = _gradient(values, points)
        for i in range(points.shape[1]):
            total = total + _gradient(slopes[:, i], points)[:, i].detach()
    return total if x.ndim == 2 else total[0]


@checked
def grid_laplacian(
    u: ArrayLike, spacing: float | Sequence[float] = 1.0, *, border: Border = "reflect"
) -> NDArray[np.floating[Any]]:
    r"""Laplacian of a field on a grid: :math:`\sum_i (u_{+i} - 2 u + u_{-i}) / h_i^2`.

    In the plane with spacing 1 the stencil [[0, 1, 0], [1, -4, 1], [0, 1, 0]]. Exact for polynomials of third degree
    away from the border; in general the error is :math:`\sum_i h_i^2 u_{iiii} / 12`.

    Parameters
    ----------
    u : array
        Any number of axes; whole numbers are computed in float64.
    spacing : float, or one float per axis, in (0, inf), default 1
        h.
    border : {"reflect", "mirror", "nearest", "wrap", "constant", "valid"}, default "reflect"
        What lies outside: ``reflect`` (d c b a | a b c d) and ``nearest`` repeat the outermost value, so that nothing
        flows through the border; ``mirror`` (d c b | a b c d) reflects about the outermost point, whose slope is 0;
        ``wrap`` goes on at the other side; ``constant`` is 0. ``valid`` keeps the inner points alone, two fewer on
        every axis.

    Returns
    -------
    float array
        Shape of `u`; two fewer on every axis with ``valid``.

    Raises
    ------
    UserValueError, UserTypeError
        An unknown border rule, spacings that do not fit the axes, no numbers, too few points for ``valid``.

    Examples
    --------
    >>> x, y = np.meshgrid(np.arange(4.0), np.arange(5.0), indexing="ij")
    >>> grid_laplacian(x**2 + 3 * y**2, border="valid")
    array([[8., 8., 8.],
           [8., 8., 8.]])
    """
    field = np.asarray(u)
    if field.dtype.kind not in "biuf":
        raise UserTypeError(f"u must hold real numbers, got dtype {field.dtype}", "u")
    choice(border, Border, "border")
    if not field.ndim or not field.size or (border == "valid" and min(field.shape) < 3):
        least = "three points" if border == "valid" else "one point"
        raise UserValueError.must("u", f"have at least {least} on every axis", field)
    steps = _spacings(spacing, field.ndim)
    kind = field.dtype if field.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    field = field.astype(kind)
    total = np.zeros_like(field)
    mode = "nearest" if border == "valid" else border
    for axis, h in enumerate(steps):
        total += ndimage.correlate1d(field, [1.0, -2.0, 1.0], axis, mode=mode) / kind.type(h * h)
    return total[(slice(1, -1),) * field.ndim] if border == "valid" else total


def _gradient(values: Any, points: Any) -> Any:
    """d values_n / d point_n for all n; zeros where the values depend on no point."""
    import torch

    if not values.requires_grad:
        return torch.zeros_like(points)
    gradient = torch.autograd.grad(values.sum(), points, create_graph=True, allow_unused=True)[0]
    return torch.zeros_like(points) if gradient is None else gradient


def _spacings(spacing: float | Sequence[float], axes: int) -> list[float]:
    given = floats(spacing, "spacing")
    if given.shape not in ((), (axes,)) or not (np.isfinite(given) & (given > 0)).all():
        raise UserValueError.must("spacing", f"be one positive number or {axes}, one per axis", spacing)
    return [float(h) for h in np.broadcast_to(given, axes)]
