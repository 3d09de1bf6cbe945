"""Covariance matrices: factors, inverse factors, and the nearest ones above a floor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserValueError

__all__ = ["cholesky", "precision_factor", "floored", "smallest"]

Floats = NDArray[np.float64]


def precision_factor(covariances: Array) -> tuple[Floats, Floats]:
    r"""L and U of covariances C = L L^T and their inverses C^-1 = U U^T, L lower and U = L^-T upper triangular.

    Parameters
    ----------
    covariances : array of shape (k, d, d)
        Symmetric, positive definite.

    Returns
    -------
    lower, upper : arrays of shape (k, d, d)

    Raises
    ------
    UserValueError
        The first covariance that is not positive definite.

    Notes
    -----
    Cost O(k d^3). ``|U^T (x - mean)|^2`` is the squared Mahalanobis distance. Source: Golub and Van Loan (2013),
    sections 4.2 and 3.1.

    Examples
    --------
    >>> lower, upper = precision_factor([[[4.0, 0.0], [0.0, 1.0]]])
    >>> lower[0].diagonal(), upper[0].diagonal()
    (array([2., 1.]), array([0.5, 1. ]))
    """
    covariances = np.asarray(covariances, dtype=np.float64)
    try:
        lower = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError:
        lower = np.stack([cholesky(c, matrix) for c, matrix in enumerate(covariances)])
    return lower, np.ascontiguousarray(np.swapaxes(_inverse_of_lower(lower), -1, -2))


def cholesky(c: int, matrix: Floats) -> Floats:
    """Lower factor of component c's covariance, or the refusal that names it."""
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise UserValueError(
            "a covariance is not positive definite: its rows coincide or lie in a plane", f"component {c}",
            "use a floor > 0 or fewer components",
        ) from None  # fmt: skip


def _inverse_of_lower(lower: Floats) -> Floats:
    """By halves, [A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1 C^-1].

    NumPy's products alone: SciPy brings a BLAS of its own, whose threads would spin against NumPy's.
    """
    d = lower.shape[-1]
    if d <= 16:
        return np.tril(np.linalg.inv(lower))
    half = d // 2
    inverse = np.zeros_like(lower)
    first, last = _inverse_of_lower(lower[..., :half, :half]), _inverse_of_lower(lower[..., half:, half:])
    inverse[..., :half, :half], inverse[..., half:, half:] = first, last
    inverse[..., half:, :half] = -np.matmul(np.matmul(last, lower[..., half:, :half]), first)
    return inverse


def floored(covariances: Floats, floor: Floats) -> Floats:
    """The nearest covariances in likelihood with C - diag(floor) positive semi-definite.

    In units of the floor the constraint is that no eigenvalue is below 1; the maximum of
    -log|C| - tr(C^-1 S) under it has the eigenvectors of S and its eigenvalues raised to 1.
    """
    covariances = 0.5 * (covariances + np.swapaxes(covariances, 1, 2))
    if not floor.any():
        return covariances
    unit = np.sqrt(floor)
    scaled = covariances / (unit[:, None] * unit)
    for c, matrix in enumerate(scaled):
        try:
            np.linalg.cholesky(matrix - np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            values, vectors = np.linalg.eigh(matrix)
            higher = np.matmul(vectors * np.maximum(values, 1.0), vectors.T)
            covariances[c] = 0.5 * (higher + higher.T) * (unit[:, None] * unit)
    return covariances


def smallest(covariances: Floats, floor: Floats) -> Floats:
    """Smallest eigenvalue in units of the floor; infinite without a floor."""
    if not floor.any():
        return np.full(len(covariances), np.inf)
    unit = np.sqrt(np.broadcast_to(floor, covariances.shape[-1:]))
    return np.linalg.eigvalsh(covariances / (unit[:, None] * unit))[:, 0]
