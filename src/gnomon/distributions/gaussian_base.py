"""What K normal distributions of any form have in common: densities, expectations, fits, draws, in blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.distributions import gaussian_kernels as kernels
from gnomon.errors import UserValueError
from gnomon.numeric.threads import in_threads, lanes, one_thread_each

__all__ = ["Buffers", "Floats", "Normals", "constant", "reused"]

Floats = NDArray[np.float64]
Buffers = dict[str, Floats]
"""Arrays of a pass over blocks that every block uses again: fresh ones would cost more than what is done in them."""

BLOCK_NUMBERS = 1 << 18
"""Numbers that a block of rows takes in each of its arrays: 2 MB, which stay in the second-level cache."""

LANES, LANE_ROWS, LANE_NUMBERS = 8, 2048, 1 << 18
"""Parts of the rows whose sums are taken side by side at most, rows of each at least, and numbers of its sums at most.

They do not depend on the number of threads, so neither do the bits of a sum.
"""

ALIVE = 1e-12
"""A component that holds a smaller part of all rows keeps its parameters."""


class Normals:
    """K normal distributions; a subclass says what form the covariances take.

    Parameters
    ----------
    means : array of shape (k, d)
    covariances : array
        (k, d, d) full, (d, d) tied, (k, d) diag, (k,) spherical; positive definite.

    Raises
    ------
    UserValueError
        Shapes that do not agree, numbers that are not finite, a covariance that is not positive definite.

    Examples
    --------
    >>> from gnomon.distributions.gaussian import DiagNormals
    >>> two = DiagNormals([[0.0], [1.0]], [[1.0], [4.0]])
    >>> two.log_prob([[0.0]]).round(6)
    array([[-0.918939, -1.737086]])
    """

    form: ClassVar[str] = ""
    constant: Floats
    """Log densities at the means, shape (k,)."""

    def __init__(self, means: Array, covariances: Array) -> None:
        self.means = np.array(means, dtype=np.float64)
        if self.means.ndim != 2 or not np.isfinite(self.means).all():
            raise UserValueError.must("means", "be k rows of d finite numbers", self.means)
        self.covariances = np.array(covariances, dtype=np.float64)
        wanted = self.shape(*self.means.shape)
        if self.covariances.shape != wanted or not np.isfinite(self.covariances).all():
            raise UserValueError(
                f"{self.form} covariances must be finite numbers of shape {wanted}, got shape {self.covariances.shape}",
                "covariances",
            )
        self._prepare()

    # --- what a form says -----------------------------------------------------------------------------------------

    @staticmethod
    def shape(k: int, d: int) -> tuple[int, ...]:
        """Shape of the covariances."""
        raise NotImplementedError

    @property
    def n_parameters(self) -> int:
        """Free parameters of means and covariances."""
        raise NotImplementedError

    def dense(self) -> Floats:
        """The covariances as matrices, shape (k, d, d)."""
        raise NotImplementedError

    def at_floor(self, floor: Array) -> NDArray[np.bool_]:
        """Which components have a variance at the floor in some direction, shape (k,)."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """What the densities need, from means and covariances alone."""
        raise NotImplementedError

    def _coordinates(self, rows: Floats, buffers: Buffers) -> tuple[Any, Floats]:
        """Rows minus the pivot: their coordinates, and squared Mahalanobis distances (n, k), 0 up to rounding."""
        raise NotImplementedError

    def _sums(self) -> dict[str, Any]:
        """Zeros: the sums over no rows."""
        raise NotImplementedError

    def _collect(self, coordinates: Any, part: Floats, sums: dict[str, Any], buffers: Buffers) -> None:
        """Add a block's first and second moments in place."""
        raise NotImplementedError

    def _close(self, sums: dict[str, Any]) -> dict[str, Any]:
        """The sums in the form that `maximize` takes."""
        return sums

    def scatters(self, sums: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
        """What conjugate priors learn from: the rows of each distribution, their mean, and their scatter about it.

        Parameters
        ----------
        sums : dict
            Of `expect` or `collect`, taken with the very parameters that stand now.

        Returns
        -------
        rows, means, scatters
            (k,), (k, d), and sums of squares and products in the shape of the covariances, of forms that do not pool;
            a distribution without rows has its own mean and a scatter of 0.
        """
        raise NotImplementedError

    def sums_of(self, rows: Floats, means: Floats, scatters: Floats) -> dict[str, Any]:
        """The sums of which `scatters` would say this."""
        raise NotImplementedError

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        """Means and covariances from the sums of all rows."""
        raise NotImplementedError

    def _color(self, white: Floats, which: NDArray[np.int64]) -> Floats:
        """Standard normal rows to rows of covariance `which`."""
        raise NotImplementedError

    # --- what they all do -----------------------------------------------------------------------------------------

    def log_prob(self, x: Array) -> Floats:
        """Log density of each row under each distribution in nats, shape (n, k)."""
        x = np.asarray(x)
        out, buffers = np.empty((len(x), len(self.means))), Buffers()
        for start, rows in self._blocks(x, buffers):
            squared = np.maximum(self._coordinates(rows, buffers)[1], 0.0)
            out[start : start + len(rows)] = self.constant - 0.5 * squared
        return out

    def expect(self, x: Array, log_weights: Array, weight: Array) -> dict[str, Any]:
        """Sums for `maximize` over rows that belong to component c with probability p(c | x), and the log-likelihood.

        Parameters
        ----------
        x : array of shape (n, d)
        log_weights : array of shape (k,)
            Log of the components' probabilities.
        weight : array of shape (n,)
            Weights of the rows.
        """
        x, weight = np.asarray(x), np.asarray(weight, dtype=np.float64)
        constant = self.constant + log_weights

        def expected(lane: slice) -> dict[str, Any]:
            sums, likelihood, buffers = self._sums(), 0.0, Buffers()
            for start, rows in self._blocks(x[lane], buffers):
                coordinates, part = self._coordinates(rows, buffers)
                w, total = weight[lane][start : start + len(rows)], reused(buffers, "total", len(rows), 1)[:, 0]
                kernels.responsibilities(part, constant, w, total, sums["rows"])
                likelihood += float(np.matmul(w, total))
                self._collect(coordinates, part, sums, buffers)
            return sums | {"log_likelihood": np.float64(likelihood)}

        return self._close(self._over_lanes(expected, len(x))) | {"weight": weight.sum()}

    def collect(self, x: Array, part: Array) -> dict[str, Any]:
        """Sums for `maximize` over rows of which component c has the given part, shape (n, k)."""
        x, part = np.asarray(x), np.ascontiguousarray(part, dtype=np.float64)

        def collected(lane: slice) -> dict[str, Any]:
            sums, buffers = self._sums(), Buffers()
            for start, rows in self._blocks(x[lane], buffers):
                block = part[lane][start : start + len(rows)]
                sums["rows"] += block.sum(0)
                self._collect(self._coordinates(rows, buffers)[0], block, sums, buffers)
            return sums

        return self._close(self._over_lanes(collected, len(x)))

    def maximize(self, sums: dict[str, Any], floor: Array | float = 0.0) -> None:
        """The most likely means and covariances, among those with no variance below the floor.

        Parameters
        ----------
        sums : dict
            Of `expect` or `collect`, over all rows; taken with the very parameters that stand now.
        floor : float or array of shape (d,), default 0
            Smallest variances, all 0 or none: full and tied covariances C keep C - diag(floor) positive semi-definite,
            spherical ones keep the floor's mean. This is the constrained maximum, so that EM never falls.

        Raises
        ------
        UserValueError
            A covariance that is not positive definite; only with floor 0.
        """
        self._solve(sums, np.broadcast_to(np.asarray(floor, dtype=np.float64), self.means.shape[1:]))
        self._prepare()

    def own(self, rows: Floats) -> dict[str, Floats]:
        """The sums that these distributions expect of so many rows each, shape (k,): `maximize` changes nothing."""
        raise NotImplementedError

    def expected_log_prob(self, sums: Mapping[str, Array]) -> float:
        """Sum of the log densities, each row's by its parts, of the rows that `sums` were taken of."""
        return float(np.matmul(sums["rows"], self.constant) - 0.5 * self._squares(sums))

    def _squares(self, sums: Mapping[str, Array]) -> float:
        """Sum of the squared Mahalanobis distances."""
        raise NotImplementedError

    def moved(self, sums: Mapping[str, Array], before: Any) -> dict[str, Floats]:
        """``first`` and ``second``, with axes ahead or not, that were taken with `before`, as if with these ones."""
        raise NotImplementedError

    def sample(self, which: Array, noise: Noise) -> Floats:
        """One row from distribution ``which[i]`` each, shape (n, d)."""
        which = np.asarray(which)
        white = noise.normal((len(which), self.means.shape[1]), like=self.means)
        return self.means[which] + self._color(white, which)

    @property
    def pivot(self) -> Floats:
        """Rows are taken relative to this point, so that a common offset costs no digits."""
        center: Floats = self.means.mean(0)
        return center

    def _over_lanes(self, sums_of: Callable[[slice], dict[str, Any]], n: int) -> dict[str, Any]:
        """The sums over all rows, taken in lanes and added in their order."""
        small = sum(array.size for array in self._sums().values()) <= LANE_NUMBERS
        parts = lanes(n, max(1, min(LANES, n // LANE_ROWS)) if small else 1)
        with one_thread_each() if len(parts) > 1 else nullcontext():
            first, *others = in_threads(sums_of, parts)
        for other in others:
            for name, value in other.items():
                first[name] += value
        return first

    def _blocks(self, x: Array, buffers: Buffers) -> Iterator[tuple[int, Floats]]:
        size = min(max(BLOCK_NUMBERS // self._numbers_per_row(), 256), 4096)
        for start in range(0, len(x), size):
            yield start, self._shifted(x[start : start + size], buffers)

    def _shifted(self, rows: Array, buffers: Buffers) -> Floats:
        """Rows relative to the pivot."""
        return np.subtract(rows, self.pivot, out=reused(buffers, "rows", *rows.shape))

    def _numbers_per_row(self) -> int:
        """Length of a row of the largest array of a block."""
        return max(self.means.shape)

    def _alive(self, sums: dict[str, Any]) -> NDArray[np.bool_]:
        rows = sums["rows"]
        return np.asarray(rows > ALIVE * rows.sum())


def reused(buffers: Buffers, name: str, n: int, width: int) -> Floats:
    """n rows of the buffer of this name; no block is larger than the first."""
    if name not in buffers:
        buffers[name] = np.empty((n, width))
    return buffers[name][:n]


def constant(half_log_determinant: Floats, d: int) -> Floats:
    """Log densities at the means."""
    return -half_log_determinant - 0.5 * d * math.log(2 * math.pi)
