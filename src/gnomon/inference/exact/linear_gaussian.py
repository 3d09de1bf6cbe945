r"""The linear-Gaussian latent model, whose posterior has a closed form: factor analysis, probabilistic PCA."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert, to_numpy
from gnomon.numeric.tensors import is_tensor

__all__ = ["GaussianPosterior", "LinearGaussian"]

Floats = NDArray[np.float64]


class GaussianPosterior(NamedTuple):
    """Means (..., k) and the covariance (k, k), which is the same whatever is observed."""

    mean: Array
    covariance: Array


class LinearGaussian:
    r"""h ~ N(0, I_k), v | h ~ N(W h + b, Psi); so v ~ N(b, W W^T + Psi).

    The posterior is :math:`N(\Sigma W^T \Psi^{-1} (v - b), \Sigma)` with
    :math:`\Sigma = (I + W^T \Psi^{-1} W)^{-1}`; its covariance is diagonal where the columns of W are orthogonal and
    the noise is isotropic. With fewer observed than hidden variables the d x d form is computed,
    :math:`\Sigma = I - W^T C^{-1} W` with :math:`C = W W^T + \Psi` (Woodbury): either way one Cholesky factor of the
    smaller size, of a matrix whose eigenvalues are at least 1, since the noise is made white first.

    Parameters
    ----------
    W : array of shape (d, k)
    b : array of shape (d,), or number, default 0
    noise : float, array of shape (d,) or array of shape (d, d), default 1
        Psi: one variance for all, one for each variable, or a covariance; positive (definite).

    Raises
    ------
    UserValueError
        Shapes that do not agree, numbers that are not finite, noise that is not positive.

    Notes
    -----
    Computed in float64. Cost: d k min(d, k) once (d^3 with a full covariance), d k a row (d^2 with a full covariance).
    Source: Tipping and Bishop (1999), "Probabilistic principal component analysis".

    Examples
    --------
    >>> model = LinearGaussian([[1.0, 2.0]])
    >>> mean, covariance = model.posterior([[3.0]])
    >>> mean.round(6).tolist(), covariance.round(6).tolist()
    ([[0.5, 1.0]], [[0.833333, -0.333333], [-0.333333, 0.333333]])
    >>> model.log_prob([[3.0]]).round(6).tolist()
    [-2.564818]
    """

    def __init__(self, W: Array, b: Array | float = 0.0, noise: Array | float = 1.0) -> None:
        self.W = _checked(W, "W", (2,))
        d = len(self.W)
        b = _checked(b, "b", (0, 1))
        if b.shape not in ((), (d,)):
            raise UserValueError.must("b", f"be {d} numbers, one per row of W", b)
        self.b = np.broadcast_to(b, d).copy()
        self.noise = _checked(noise, "noise", (0, 1, 2))
        self._unwhite = _root(self.noise, d)
        white = self._whitened(self.W)
        self._gain, self._covariance, log_determinant = _solved(white)
        self._white = white
        diagonal = self._unwhite if self._unwhite.ndim < 2 else self._unwhite.diagonal()
        log_noise = float(np.log(np.broadcast_to(diagonal, d)).sum())
        self._constant = -0.5 * (d * math.log(2 * math.pi) + log_determinant) - log_noise

    def posterior(self, v: Array) -> GaussianPosterior:
        """Mean and covariance of h given v, in the kind of v.

        Parameters
        ----------
        v : array or tensor of shape (..., d)

        Raises
        ------
        UserValueError
            Rows of another length, values that are not finite.
        """
        mean = self._rows(v) @ self._gain
        return GaussianPosterior(_like(mean, v), _like(self._covariance.copy(), v))

    def transform(self, v: Array) -> Array:
        """Posterior means, shape (..., k)."""
        return _like(self._rows(v) @ self._gain, v)

    def log_prob(self, v: Array) -> Array:
        """Log density of each row in nats, shape (...).

        The quadratic form is |r - W m|^2 + |m|^2 of the whitened residual r and the posterior mean m: a sum of squares,
        which loses no digits to cancellation.
        """
        residual = self._rows(v)
        mean = residual @ self._gain
        error = residual - mean @ self._white.T
        return _like(self._constant - 0.5 * ((error * error).sum(-1) + (mean * mean).sum(-1)), v)

    def covariance(self) -> Floats:
        """W W^T + Psi, shape (d, d)."""
        noise = self.noise if self.noise.ndim == 2 else np.diag(np.broadcast_to(self.noise, len(self.b)))
        return self.W @ self.W.T + noise

    def _rows(self, v: Array) -> Floats:
        """Residuals v - b in units of the noise."""
        rows = to_numpy(v, "v")
        d = len(self.b)
        if not rows.ndim or rows.shape[-1] != d:
            raise UserValueError.must("v", f"be rows of {d} numbers", rows)
        bad = np.argwhere(~np.isfinite(rows))
        if len(bad):
            index = ", ".join(map(str, bad[0]))
            raise UserValueError.must("v", "be finite", rows[tuple(bad[0])], f"v[{index}]")
        return np.asarray(self._whitened((rows - self.b).reshape(-1, d).T).T).reshape(rows.shape)

    def _whitened(self, columns: Floats) -> Floats:
        """L^-1 x of columns x, Psi = L L^T."""
        root = self._unwhite
        if root.ndim == 2:
            return np.asarray(np.linalg.solve(root, columns), dtype=np.float64)
        return columns / (root if root.ndim == 0 else root[:, None])


def _solved(white: Floats) -> tuple[Floats, Floats, float]:
    """Gain (d, k) of the rows, posterior covariance and log |I + W W^T| for white noise, by the smaller dimension."""
    d, k = white.shape
    if k <= d:
        inverse, log_determinant = _inverse(np.eye(k) + white.T @ white)
        return white @ inverse, inverse, log_determinant
    inverse, log_determinant = _inverse(np.eye(d) + white @ white.T)
    gain = inverse @ white
    covariance = np.eye(k) - white.T @ gain
    return gain, 0.5 * (covariance + covariance.T), log_determinant


def _inverse(matrix: Floats) -> tuple[Floats, float]:
    """Inverse and log determinant of a positive definite matrix."""
    lower = np.linalg.cholesky(matrix)
    half = np.linalg.inv(lower)
    return half.T @ half, 2 * float(np.log(lower.diagonal()).sum())


def _root(noise: Floats, d: int) -> Floats:
    """Standard deviations, or the lower Cholesky factor of a covariance."""
    if noise.shape not in ((), (d,), (d, d)):
        raise UserValueError.must("noise", f"be a number, {d} numbers or {d} x {d}", noise)
    if noise.ndim < 2:
        if (noise <= 0).any():
            raise UserValueError.must("noise", "be positive", float(noise.min()))
        return np.asarray(np.sqrt(noise))
    if not np.allclose(noise, noise.T, rtol=1e-10, atol=0):
        raise UserValueError("noise must be a symmetric covariance", "noise", "give (Psi + Psi^T) / 2")
    try:
        return np.asarray(np.linalg.cholesky(noise), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise UserValueError("noise must be positive definite", "noise", "add variance to its diagonal") from None


def _checked(x: Array | float, name: str, axes: tuple[int, ...]) -> Floats:
    array = np.array(to_numpy(x, name))
    if array.ndim not in axes or not array.size or not np.isfinite(array).all():
        raise UserValueError.must(name, "be finite numbers of the documented shape", array)
    return array


def _like(x: Floats, v: Array) -> Array:
    """x in the kind, and the floating type, of v; float64 for lists and whole numbers."""
    if is_tensor(v):
        return convert(x, v if v.is_floating_point() else v.double())
    dtype = getattr(v, "dtype", x.dtype)
    return x.astype(dtype) if np.issubdtype(dtype, np.floating) else x
