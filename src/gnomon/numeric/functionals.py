r"""Derivatives of functionals :math:`J[f]` by the function: the calculus of variations on a grid.

The function that makes an integral of :math:`g(f, f')` stationary solves the Euler-Lagrange equation,
`gnomon.numeric.variations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.given import checked, floats, function

__all__ = ["cell_widths", "functional_derivative"]

Floats = NDArray[np.float64]


def cell_widths(grid: ArrayLike) -> Floats:
    """Weights of the trapezoid rule on ascending points: the length that each stands for.

    Examples
    --------
    >>> cell_widths([0.0, 1.0, 3.0]).tolist()
    [0.5, 1.5, 1.0]
    """
    x = floats(grid, "grid")
    if x.ndim != 1 or len(x) < 2 or not (np.isfinite(x).all() and (np.diff(x) > 0).all()):
        raise UserValueError.must("grid", "hold two or more finite, ascending points", x)
    half = np.diff(x) / 2
    return np.append(half, 0.0) + np.append(0.0, half)


@checked
def functional_derivative(
    J: Callable[[Any], Any], f: ArrayLike, grid: ArrayLike, *, weights: ArrayLike | None = None
) -> Floats:
    r"""The function :math:`\delta J / \delta f`, whose integral with a direction is the change of J along it.

    :math:`dJ[f + \epsilon \phi] / d\epsilon = \int \phi\, \delta J / \delta f` at 0. Of
    :math:`J = \int g(f(x), x)\, dx` it is :math:`\partial g / \partial f` at f(x). On a grid J is a sum with the
    weights w of a quadrature, so the gradient by the value at a point carries the weight of the point, which is divided
    out: :math:`(dJ / df_i) / w_i`. Without that it would vanish as the grid is refined. A functional of derivatives of
    f has boundary terms, which end up at the outermost points.

    Parameters
    ----------
    J : callable
        Of torch operations, the values (n,) to one number, integrals taken with the same weights.
    f : array of shape (n,)
        The function's values; where J has a logarithm of f they must be positive.
    grid : array of shape (n,)
        Ascending points.
    weights : array of shape (n,), optional
        Of J's quadrature, positive; those of the trapezoid rule (`cell_widths`) by default.

    Returns
    -------
    float64 array of shape (n,)

    Raises
    ------
    UserValueError
        Shapes that do not fit, a value of J or a slope that is not finite.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), section 19.4.2.

    Examples
    --------
    >>> import torch
    >>> x = np.linspace(0.1, 1.0, 5)
    >>> w = torch.from_numpy(cell_widths(x))
    >>> functional_derivative(lambda f: -(w * f * f.log()).sum(), x, x).round(6)  # of an entropy: -1 - log f
    array([ 1.302585,  0.12393 , -0.402163, -0.745108, -1.      ])
    """
    import torch

    x, values = floats(grid, "grid"), floats(f, "f")
    widths = cell_widths(x) if weights is None else floats(weights, "weights")
    if values.shape != x.shape or widths.shape != x.shape:
        raise UserValueError(f"f and weights must have a number for each of {len(x)} points", "f, weights")
    if not (widths > 0).all():
        raise UserValueError.must("weights", "be positive", widths.min())
    at = torch.tensor(values, requires_grad=True)
    value = function(J, "J")(at)
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not bool(value.isfinite()):
        raise UserValueError("J must return one finite number that torch can differentiate", "J")
    (slope,) = torch.autograd.grad(value.reshape(()), at)
    found = slope.numpy() / widths
    if not np.isfinite(found).all():
        index = int(np.argmax(~np.isfinite(found)))
        raise UserValueError(f"the derivative at point {index} is not finite", "f", "is f positive where J has a log?")
    return np.asarray(found)
