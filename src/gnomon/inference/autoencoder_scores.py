"""The score that a denoising autoencoder has learned, and whether it belongs to an energy."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.numeric.derivatives import numeric_jacobian
from gnomon.numeric.tensors import is_tensor

__all__ = ["AutoencoderScore", "score_from_autoencoder"]


def score_from_autoencoder(autoencoder: Any, sigma: float) -> AutoencoderScore:
    r"""The score of the smoothed data that an autoencoder estimates: :math:`\psi(x) = (r(x) - x) / \sigma^2`.

    An autoencoder that is trained to bring rows with normal noise of deviation :math:`\sigma` back, by the squared
    error, has the least error where :math:`(r(x) - x) / \sigma^2` is the gradient of the log density of the noisy rows:
    it is denoising score matching. With tied weights and sigmoid hidden units, r(x) = c + W sigmoid(b + W^T x), the
    score is that of the energy :math:`(\frac12 |x|^2 - c^T x - \sum_k \text{softplus}(b + W^T x)_k) / \sigma^2`, and
    the two losses are in proportion, :math:`\frac12 |\psi(\tilde x) - (x - \tilde x) / \sigma^2|^2 = |r(\tilde x) -
    x|^2 / (2 \sigma^4)`.

    Parameters
    ----------
    autoencoder : fitted system or callable
        With ``reconstruct(X)``; or rows (n, d) to rows (n, d), arrays or tensors.
    sigma : float in (0, inf)
        Standard deviation of the noise that it was trained with.

    Returns
    -------
    AutoencoderScore

    Raises
    ------
    UserTypeError, UserValueError
        What does not reconstruct; a sigma that is not above 0.

    References
    ----------
    Vincent (2011), "A connection between score matching and denoising autoencoders"; Alain and Bengio (2014), "What
    regularized auto-encoders learn from the data-generating distribution".

    Examples
    --------
    >>> shrink = score_from_autoencoder(lambda x: 0.8 * x, sigma=0.5)  # the best one for rows N(0, 1) with this noise
    >>> shrink.value(np.array([[1.0, -2.0]])).round(6), shrink.asymmetry(np.array([[1.0, -2.0]])).round(6)
    (array([[-0.8,  1.6]]), array([0.]))
    """
    found = getattr(autoencoder, "reconstruct", autoencoder)
    if not callable(found):
        what = f"autoencoder must be a system with reconstruct, or a function of rows, got {autoencoder!r}"
        raise UserTypeError(what, "autoencoder")
    given: Any = sigma
    if not isinstance(given, Real) or not float(given) > 0:
        raise UserValueError.must("sigma", "be above 0", sigma)
    if math.isinf(given):
        raise UserValueError.must("sigma", "be finite", sigma)
    return AutoencoderScore(found, float(sigma))


class AutoencoderScore:
    """What `score_from_autoencoder` answers.

    Parameters
    ----------
    reconstruct : callable
    sigma : float
    """

    def __init__(self, reconstruct: Callable[[Any], Any], sigma: float) -> None:
        self.reconstruct, self.sigma = reconstruct, sigma

    def value(self, x: Array) -> Array:
        """(r(x) - x) / sigma^2, shape (n, d)."""
        x = x if is_tensor(x) else np.asarray(x)
        found = self.reconstruct(x)
        if tuple(found.shape) != tuple(x.shape):
            what = f"autoencoder must answer rows of the shape {tuple(x.shape)}, got {tuple(found.shape)}"
            raise UserValueError(what, "autoencoder", "give one that reconstructs")
        return (found - x) / self.sigma**2

    def asymmetry(self, x: Array, *, step: float = 1e-4) -> NDArray[np.float64]:
        """How far the score is from being the gradient of an energy: |J - J^T| / (2 |J|) of r's Jacobian at each row.

        Frobenius norms: 0 for a gradient field, 1 for a field that only turns; tied weights have 0, decoders of their
        own more. By central differences in both directions of every column, 2 n d reconstructions.

        Parameters
        ----------
        x : array or tensor of shape (n, d)
        step : float in (0, inf), default 1e-4
            Of the differences. An autoencoder that computes in single precision needs a longer one, such as 1e-2.

        Returns
        -------
        float64 array of shape (n,)
        """
        x, found = x if is_tensor(x) else np.asarray(x), []
        for row in to_numpy(x):
            J = numeric_jacobian(lambda v: self._one(v, x), row, step=step)
            found.append(np.linalg.norm(J - J.T) / max(2 * np.linalg.norm(J), np.finfo(float).tiny))
        return np.array(found)

    def _one(self, row: NDArray[np.float64], like: Array) -> NDArray[np.float64]:
        """r of one row."""
        if not is_tensor(like):
            kind = like.dtype if like.dtype.kind == "f" else np.float64  # a step would be cut off from whole numbers
            return to_numpy(self.reconstruct(row[None].astype(kind)))[0]
        import torch

        kind = like.dtype if like.dtype.is_floating_point else torch.get_default_dtype()
        given = torch.as_tensor(row[None], dtype=kind, device=like.device)
        return to_numpy(self.reconstruct(given))[0]
