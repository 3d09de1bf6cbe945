"""Real units of a layer whose neighbors move how they vary together, not only where they lie."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Distribution, Noise
from gnomon.distributions.layers import LOG_2_PI
from gnomon.distributions.units import GaussianUnits, Own, mean_of
from gnomon.numeric import ops
from gnomon.numeric.tensors import detached

__all__ = ["CorrelatedGaussianUnits", "CorrelatedGaussians", "UnheldGaussianUnits"]


class CorrelatedGaussianUnits(GaussianUnits):
    """Real units of which links see x and -x x^T / 2: under a field (f, G) their precision is P = I + G.

    The mean is P^-1 (bias + f). The units depend on each other given their neighbors: a draw costs O(d^3) for each row.

    Examples
    --------
    >>> units = CorrelatedGaussianUnits(2)
    >>> found = units.conditional(np.array([[1.0, 0.0, 1.0, 0.0, 0.0, 0.0]]), {"bias": np.zeros(2)})
    >>> found.mean.tolist(), found.variance.tolist()
    ([[0.5, 0.0]], [[0.5, 1.0]])
    """

    @property
    def n_features(self) -> int:
        """Those of x, and of its square."""
        return self.n + self.n * self.n

    def features(self, x: Array | Distribution) -> Array:
        """x beside -x x^T / 2, row by row."""
        mean: Any = mean_of(x)
        square = getattr(x, "second", None) if hasattr(x, "log_prob") else mean[:, :, None] * mean[:, None, :]
        assert square is not None, "a distribution of correlated units has second moments"
        return ops.concatenate([mean, -0.5 * square.reshape(len(mean), self.n * self.n)], axis=1)

    def conditional(self, field: Array, own: Own) -> CorrelatedGaussians:  # type: ignore[override]
        """The normal density of each row."""
        return CorrelatedGaussians(*self._under(field, own))

    def log_normalizer(self, field: Array, own: Own) -> Array:
        """``(v' C v + log |2 pi C|) / 2`` with v = bias + f."""
        return CorrelatedGaussians(*self._under(field, own)).log_mass

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """x."""
        return {"bias": mean[:, : self.n]}

    def _under(self, field: Array, own: Own) -> tuple[Array, Array]:
        """The linear coefficients and the precision of each row."""
        precision = field[:, self.n :].reshape(len(field), self.n, self.n)
        diagonal = np.arange(self.n)
        precision[:, diagonal, diagonal] += 1.0
        return field[:, : self.n] + own["bias"], precision


class UnheldGaussianUnits(CorrelatedGaussianUnits):
    """The same without the identity and without a bias: all that holds them is the field, w(x) = 0.

    Under a field (f, G) their precision is G and their mean G^-1 f. Without a field there is no distribution; chains
    begin at standard normal numbers.

    Examples
    --------
    >>> UnheldGaussianUnits(1).conditional(np.array([[1.0, 4.0]]), {}).mean.tolist()
    [[0.25]]
    """

    parameters: ClassVar[tuple[str, ...]] = ()

    def start(self, noise: Noise, rows: int, like: Array, draw: int = 0) -> Array:
        """Standard normal rows."""
        return noise.normal((rows, self.n), draw, like=like)

    def log_weight(self, x: Array | Distribution, own: Own) -> Array:
        """0."""
        return 0 * mean_of(x).sum(-1)

    def statistics(self, x: Array | Distribution, mean: Array, own: Own) -> dict[str, Array]:
        """None."""
        return {}

    def base(self, mean: NDArray[np.float64] | None, own: Own) -> dict[str, NDArray[np.float64]]:
        """None."""
        return {}

    def _under(self, field: Array, own: Own) -> tuple[Array, Array]:
        """The field, whose precisions may differ by many orders of magnitude: in double precision."""
        return field[:, : self.n], _double(field[:, self.n :]).reshape(len(field), self.n, self.n)


class CorrelatedGaussians:
    """A normal density for each row, by its precision P and the linear coefficients P m.

    Parameters
    ----------
    linear : array or tensor, shape (rows, d)
        Answers are of its type.
    precision : array or tensor, shape (rows, d, d)
        Positive definite. It is factored in its own type.

    Examples
    --------
    >>> CorrelatedGaussians(np.zeros((1, 2)), np.eye(2)[None]).log_prob(np.zeros((1, 2))).round(4)
    array([-1.8379])
    """

    __slots__ = ("linear", "mean", "precision")

    def __init__(self, linear: Any, precision: Any) -> None:
        self.linear, self.precision = linear, precision
        self.mean = self._solved(precision, linear)

    @property
    def _linalg(self) -> Any:
        if isinstance(self.linear, np.ndarray):
            return np.linalg
        import torch

        return torch.linalg

    def _solved(self, matrices: Any, rows: Any) -> Any:
        """matrix^-1 row, for each of them."""
        found = self._linalg.solve(matrices, _as(rows, matrices)[:, :, None])[:, :, 0]
        return _as(found, rows)

    @property
    def covariance(self) -> Any:
        """C, (rows, d, d)."""
        return _as(self._linalg.inv(self.precision), self.linear)

    @property
    def variance(self) -> Any:
        """Of each unit."""
        diagonal = np.arange(self.mean.shape[1])
        return self.covariance[:, diagonal, diagonal]

    @property
    def second(self) -> Any:
        """E[x x^T]."""
        return self.covariance + self.mean[:, :, None] * self.mean[:, None, :]

    @property
    def _log_determinant(self) -> Any:
        return _as(self._linalg.slogdet(self.precision)[1], self.linear)

    @property
    def log_mass(self) -> Any:
        """Log of the integral of exp(-x' P x / 2 + linear . x), row by row."""
        d = self.mean.shape[1]
        return 0.5 * ((self.linear * self.mean).sum(-1) + d * LOG_2_PI - self._log_determinant)

    def given(self, value: Any, held: Any) -> CorrelatedGaussians:
        """The density of the units that are not held given those that are, which lie about their values by themselves.

        With the held units o and the others m: :math:`P_{mm}` and :math:`P_{mm} m = l_m - P_{mo} x_o`.

        Parameters
        ----------
        value, held : arrays of shape (rows, d)
            Values, and 1 where a unit is held.

        Examples
        --------
        >>> both = CorrelatedGaussians(np.zeros((1, 2)), np.array([[[1.0, 0.5], [0.5, 1.0]]]))
        >>> both.given(np.array([[2.0, 0.0]]), np.array([[True, False]])).mean.tolist()
        [[2.0, -1.0]]
        """
        kept, free = _beside(held, self.linear), _beside(held, self.precision) == 0
        fixed = _as(value, self.linear) * kept
        pull = (self.precision @ _as(fixed, self.precision)[:, :, None])[:, :, 0]
        both = _as(free[:, :, None] & free[:, None, :], self.precision)
        precision = self.precision * both
        diagonal = np.arange(self.linear.shape[1])
        precision[:, diagonal, diagonal] += 1.0 * ~free
        return CorrelatedGaussians((self.linear - _as(pull, self.linear)) * (1 - kept) + fixed, precision)

    def sample(self, noise: Any, draw: int = 0) -> Any:
        """One draw of each row by the Cholesky factor of its precision; carries no gradient."""
        z = noise.normal(tuple(self.mean.shape), draw, like=self.mean)
        lower = self._linalg.cholesky(self.precision)
        return detached(self.mean + self._solved(lower.swapaxes(1, 2), z))

    def log_prob(self, x: Any) -> Any:
        """Log density of each row in nats."""
        away = x - self.mean
        square = (away * (_as(self.precision, away) @ away[:, :, None])[:, :, 0]).sum(-1)
        return 0.5 * (self._log_determinant - away.shape[1] * LOG_2_PI - square)

    def entropy(self) -> Any:
        """Differential entropy of each row in nats."""
        return 0.5 * (self.mean.shape[1] * (1 + LOG_2_PI) - self._log_determinant)


def _as(x: Any, like: Any) -> Any:
    """x in the type of another array of its kind."""
    return x.astype(like.dtype, copy=False) if isinstance(x, np.ndarray) else x.to(like.dtype)


def _beside(mask: Any, like: Any) -> Any:
    """A mask as numbers 0 and 1 in the kind and type of an array."""
    if isinstance(like, np.ndarray):
        return np.asarray(mask, like.dtype)
    import torch

    return torch.as_tensor(np.asarray(mask) if isinstance(mask, np.ndarray) else mask).to(like)


def _double(x: Any) -> Any:
    return x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()
