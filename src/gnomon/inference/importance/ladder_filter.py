"""A Kalman filter over log Z at several temperatures: ratios of neighbors, and changes from one update to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserValueError
from gnomon.numeric.given import floats

__all__ = ["LadderFilter"]

Floats = NDArray[np.float64]


class LadderFilter:
    r"""What is known of :math:`z_l = \log Z_l - \log Z_0`, l = 1 ... L, level 0 being the anchor whose log Z is known.

    A prediction adds observed changes, :math:`z \leftarrow z + d,\ P \leftarrow P + Q`. An observation has the ratios
    of neighbors, :math:`y_l = z_l - z_{l-1} + e_l` with :math:`z_0 = 0`: :math:`K = P H^T (H P H^T + R)^+`, :math:`z
    \leftarrow z + K (y - H z)`, :math:`P \leftarrow (I - K H) P`. Before the first observation nothing is known.

    Parameters
    ----------
    levels : int in [1, inf)
        L.

    Attributes
    ----------
    mean, covariance : arrays of shape (L,) and (L, L), or None
        None where nothing is known.

    Notes
    -----
    Cost O(L^3). Without errors (R = 0) it is exact after one observation, and stays so while Q = 0.
    Source: Kalman (1960).

    Examples
    --------
    >>> track = LadderFilter(2)
    >>> for ratios in ([1.0, 2.0], [3.0, 2.0]):
    ...     track.observe(ratios, np.eye(2))
    >>> track.mean.round(9).tolist(), track.covariance.diagonal().round(9).tolist()
    ([2.0, 4.0], [0.5, 1.0])
    """

    def __init__(self, levels: int) -> None:
        if levels < 1:
            raise UserValueError.must("levels", "be at least 1", levels)
        self.differences = np.eye(levels) - np.eye(levels, k=-1)
        self.sums = np.tril(np.ones((levels, levels)))
        self.mean: Floats | None = None
        self.covariance: Floats | None = None

    def forget(self) -> None:
        """Know nothing again."""
        self.mean = self.covariance = None

    def predict(self, change: ArrayLike, covariance: ArrayLike) -> None:
        """Take changes of every level with the covariance of their errors over; nothing happens where none is known."""
        if self.mean is None or self.covariance is None:
            return
        self.mean = self.mean + self._vector(change, "change")
        self.covariance = self.covariance + self._matrix(covariance)

    def disagreement(self, ratios: ArrayLike, covariance: ArrayLike) -> float:
        """Squared length of ``y - H z`` in units of its errors: chi-squared with L degrees where both are right."""
        if self.mean is None or self.covariance is None:
            return 0.0
        away = self._vector(ratios, "ratios") - self.differences @ self.mean
        return float(away @ np.linalg.pinv(self._spread(self._matrix(covariance)), hermitian=True) @ away)

    def observe(self, ratios: ArrayLike, covariance: ArrayLike) -> None:
        """Take the ratios of neighbors over.

        Parameters
        ----------
        ratios : array of shape (L,)
            Of log Z at level l to that at l - 1, nats.
        covariance : array of shape (L, L)
            Of their errors.
        """
        y, R = self._vector(ratios, "ratios"), self._matrix(covariance)
        if self.mean is None or self.covariance is None:
            self.mean, self.covariance = self.sums @ y, self.sums @ R @ self.sums.T
            return
        H, P = self.differences, self.covariance
        gain: Floats = P @ H.T @ np.linalg.pinv(self._spread(R), hermitian=True)
        self.mean = self.mean + gain @ (y - H @ self.mean)
        after = P - gain @ H @ P
        self.covariance = (after + after.T) / 2

    def _spread(self, R: Floats) -> Floats:
        assert self.covariance is not None
        return self.differences @ self.covariance @ self.differences.T + R

    def _vector(self, values: ArrayLike, name: str) -> Floats:
        found = floats(values, name)
        if found.shape != (len(self.sums),) or not np.isfinite(found).all():
            raise UserValueError.must(name, f"be {len(self.sums)} finite numbers, one per level", found)
        return found

    def _matrix(self, values: ArrayLike) -> Floats:
        found = floats(values, "covariance")
        if found.shape != self.sums.shape or not np.isfinite(found).all():
            raise UserValueError.must("covariance", f"be finite, of shape {self.sums.shape}", found)
        return found
