"""Log densities that neither overflow nor lose digits where a square would."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["log1p_square", "log1p_square_of_arrays", "log_normal_density"]


def log_normal_density(x: Any, loc: Any, scale: Any) -> Any:
    """Log density of a normal number; the scale is not squared, which would overflow or vanish before the density does.

    Examples
    --------
    >>> import torch
    >>> x = torch.tensor(1e200, dtype=torch.float64)
    >>> round(float(log_normal_density(x, 0 * x, x)) + float(x.log()), 6)
    -1.418939
    """
    z = (x - loc) / scale
    return -0.5 * z * z - scale.log() - 0.5 * math.log(2 * math.pi)


def log1p_square(gap: Any, width: Any) -> Any:
    """log(1 + (gap / width)^2) for any finite gap and positive width, the quotient beyond float64 too.

    Examples
    --------
    >>> import torch
    >>> gap = torch.tensor([0.0, 1.0, 1e200], dtype=torch.float64)
    >>> [round(one, 6) for one in log1p_square(gap, torch.ones_like(gap)).tolist()]
    [0.0, 0.693147, 921.034037]
    """
    import torch

    near = gap.abs() < width
    # each branch gets numbers that it can take, so that neither spoils the gradient of the other
    z = torch.where(near, gap, 0.0) / width
    far = torch.where(near, 1.0, gap.abs())
    inverse = torch.where(near, 0.0, width) / far
    return torch.where(near, torch.log1p(z * z), 2 * (far.log() - width.log()) + torch.log1p(inverse * inverse))


def log1p_square_of_arrays(gap: NDArray[np.float64], width: NDArray[np.float64]) -> NDArray[np.float64]:
    """`log1p_square` of arrays.

    Examples
    --------
    >>> log1p_square_of_arrays(np.array([0.0, 1.0, 1e200]), np.ones(3)).round(3).tolist()
    [0.0, 0.693, 921.034]
    """
    far = np.maximum(np.abs(gap), width)
    ratio = np.minimum(np.abs(gap), width) / far
    found: NDArray[np.float64] = 2 * (np.log(far) - np.log(width)) + np.log1p(ratio * ratio)
    return found
