r"""K normal distributions on R^d whose covariances take one of four forms, and their weighted fits.

Every form answers the same questions: log densities, draws, and for mixtures and hidden Markov models the sums over
rows that a fit with fractional memberships needs. Rows are taken in blocks, so that memory does not grow with n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise
from gnomon.distributions import gaussian_kernels as kernels
from gnomon.errors import UserValueError

__all__ = ["FORMS", "DiagNormals", "FullNormals", "Normals", "SphericalNormals", "TiedNormals", "precision_factor"]

Floats = NDArray[np.float64]

BLOCK_NUMBERS = 1 << 18
"""Numbers that a block of rows takes in each of its arrays: 2 MB, which stay in the second-level cache."""

ALIVE = 1e-12
"""A component that holds a smaller part of all rows keeps its parameters."""


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
        lower = np.stack([_cholesky(c, matrix) for c, matrix in enumerate(covariances)])
    return lower, np.ascontiguousarray(np.swapaxes(_inverse_of_lower(lower), -1, -2))


def _cholesky(c: int, matrix: Floats) -> Floats:
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
            raise UserValueError(f"means of shape {self.means.shape}", "means", "give k rows of d finite numbers")
        self.covariances = np.array(covariances, dtype=np.float64)
        wanted = self.shape(*self.means.shape)
        if self.covariances.shape != wanted or not np.isfinite(self.covariances).all():
            found = f"{self.form} covariances of shape {self.covariances.shape}"
            raise UserValueError(found, "covariances", f"give finite numbers of shape {wanted}")
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

    def held(self, floor: Array) -> NDArray[np.bool_]:
        """Which components have a variance at the floor in some direction, shape (k,)."""
        raise NotImplementedError

    def _prepare(self) -> None:
        """What the densities need, from means and covariances alone."""
        raise NotImplementedError

    def _place(self, rows: Floats) -> tuple[Any, Floats]:
        """Rows minus the pivot: their coordinates, and squared Mahalanobis distances (n, k)."""
        raise NotImplementedError

    def _sums(self) -> dict[str, Any]:
        """Zeros: the sums over no rows."""
        raise NotImplementedError

    def _collect(self, place: Any, part: Floats, sums: dict[str, Any]) -> None:
        """Add a block's first and second moments in place."""
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
        out = np.empty((len(x), len(self.means)))
        for start, rows in self._blocks(x):
            out[start : start + len(rows)] = self.constant - 0.5 * self._place(rows)[1]
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
        sums, likelihood = self._sums(), 0.0
        x, weight = np.asarray(x), np.asarray(weight, dtype=np.float64)
        constant = self.constant + log_weights
        for start, rows in self._blocks(x):
            place, part = self._place(rows)
            part *= -0.5
            part += constant
            w, total = weight[start : start + len(rows)], np.empty(len(rows))
            kernels.shares(part, w, total)
            sums["rows"] += part.sum(0)
            likelihood += float(np.matmul(w, total))
            self._collect(place, part, sums)
        return sums | {"log_likelihood": np.float64(likelihood), "weight": weight.sum()}

    def collect(self, x: Array, part: Array) -> dict[str, Any]:
        """Sums for `maximize` over rows of which component c has the given part, shape (n, k)."""
        sums = self._sums()
        part = np.ascontiguousarray(part, dtype=np.float64)
        for start, rows in self._blocks(np.asarray(x)):
            own = part[start : start + len(rows)]
            sums["rows"] += own.sum(0)
            self._collect(self._place(rows)[0], own, sums)
        return sums

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

    def sample(self, which: Array, noise: Noise) -> Floats:
        """One row from distribution ``which[i]`` each, shape (n, d)."""
        which = np.asarray(which)
        white = noise.normal((len(which), self.means.shape[1]), like=self.means)
        return self.means[which] + self._color(white, which)

    @property
    def pivot(self) -> Floats:
        """Rows are taken relative to this point, so that a common offset costs no digits."""
        return self.means.mean(0)

    def _blocks(self, x: Array) -> Iterator[tuple[int, Floats]]:
        k, d = self.means.shape
        size = min(max(BLOCK_NUMBERS // (k * d), 256), 4096)
        pivot = self.pivot
        for start in range(0, len(x), size):
            yield start, np.asarray(x[start : start + size], dtype=np.float64) - pivot

    def _alive(self, sums: dict[str, Any]) -> NDArray[np.bool_]:
        rows = sums["rows"]
        return np.asarray(rows > ALIVE * rows.sum())


class FullNormals(Normals):
    """Every component has a covariance matrix of its own.

    The sums are taken in each component's own coordinates y = U^T (x - mean), in which it is standard normal: all
    rows' coordinates are one matrix product, and no digits are lost however different the components are.
    """

    form: ClassVar[str] = "full"

    @staticmethod
    def shape(k: int, d: int) -> tuple[int, ...]:
        """(k, d, d)."""
        return (k, d, d)

    @property
    def n_parameters(self) -> int:
        """k d means and k d (d + 1) / 2 covariances."""
        k, d = self.means.shape
        return k * d + k * d * (d + 1) // 2

    def dense(self) -> Floats:
        """The covariances themselves."""
        return self.covariances

    def held(self, floor: Array) -> NDArray[np.bool_]:
        """Which components have a direction at the floor."""
        return _smallest(self.covariances, np.asarray(floor)) <= 1 + 1e-6

    def _prepare(self) -> None:
        k, d = self.means.shape
        self.lower, upper = precision_factor(self.covariances)
        self.upper = np.ascontiguousarray(upper.transpose(1, 0, 2)).reshape(d, k * d)
        self.shift = np.matmul((self.means - self.pivot)[:, None], upper)[:, 0]
        self.constant = _constant(np.log(np.diagonal(self.lower, axis1=1, axis2=2)).sum(1), d)

    def _place(self, rows: Floats) -> tuple[Any, Floats]:
        k, d = self.means.shape
        y = np.matmul(rows, self.upper).reshape(len(rows), k, d)
        out = np.empty((len(rows), k))
        kernels.squares(y, self.shift, out)
        return y, out

    def _sums(self) -> dict[str, Any]:
        k, d = self.means.shape
        return {"rows": np.zeros(k), "first": np.zeros((k, d)), "second": np.zeros((k, d, d))}

    def _collect(self, place: Any, part: Floats, sums: dict[str, Any]) -> None:
        n, k, d = place.shape
        buffer = np.empty((n, d))
        for c in range(k):
            near = buffer[: kernels.gather(place, c, part, buffer)]
            sums["second"][c] += np.matmul(near.T, near)
            sums["first"][c] += np.matmul(part[:, c], place[:, c])

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive = self._alive(sums)
        rows, lower = sums["rows"][alive], self.lower[alive]
        step = sums["first"][alive] / rows[:, None]
        inner = sums["second"][alive] / rows[:, None, None] - step[:, :, None] * step[:, None, :]
        self.means[alive] += np.matmul(lower, step[:, :, None])[:, :, 0]
        covariances = np.matmul(np.matmul(lower, inner), np.swapaxes(lower, 1, 2))
        self.covariances[alive] = _raised(covariances, floor)

    def _color(self, white: Floats, which: NDArray[np.int64]) -> Floats:
        out = np.empty_like(white)
        for c in np.unique(which):
            mine = which == c
            out[mine] = np.matmul(white[mine], self.lower[c].T)
        return out


class TiedNormals(Normals):
    """All components share one covariance matrix."""

    form: ClassVar[str] = "tied"

    @staticmethod
    def shape(k: int, d: int) -> tuple[int, ...]:
        """(d, d)."""
        return (d, d)

    @property
    def n_parameters(self) -> int:
        """k d means and d (d + 1) / 2 covariances."""
        k, d = self.means.shape
        return k * d + d * (d + 1) // 2

    def dense(self) -> Floats:
        """The one covariance k times."""
        return np.repeat(self.covariances[None], len(self.means), axis=0)

    def held(self, floor: Array) -> NDArray[np.bool_]:
        """All or none."""
        return np.repeat(_smallest(self.covariances[None], np.asarray(floor)) <= 1 + 1e-6, len(self.means))

    def _prepare(self) -> None:
        k, d = self.means.shape
        lower, upper = precision_factor(self.covariances[None])
        self.lower, self.upper = lower[0], upper[0]
        self.center = np.ascontiguousarray(np.matmul(self.means - self.pivot, self.upper).T)
        self.precision = np.ones((d, k))
        self.constant = _constant(np.repeat(np.log(self.lower.diagonal()).sum(), k), d)

    def _place(self, rows: Floats) -> tuple[Any, Floats]:
        out = np.empty((len(rows), len(self.means)))
        kernels.distances(np.matmul(rows, self.upper), self.center, self.precision, out)
        return rows, out

    def _sums(self) -> dict[str, Any]:
        k, d = self.means.shape
        return {"rows": np.zeros(k), "first": np.zeros((k, d)), "second": np.zeros((d, d))}

    def _collect(self, place: Any, part: Floats, sums: dict[str, Any]) -> None:
        sums["first"] += np.matmul(part.T, place)
        sums["second"] += np.matmul((place * part.sum(1)[:, None]).T, place)

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive, pivot = self._alive(sums), self.pivot
        rows = sums["rows"][alive]
        center = sums["first"][alive] / rows[:, None]
        within = sums["second"] - np.matmul((center * rows[:, None]).T, center)
        self.means[alive] = pivot + center
        self.covariances = _raised(within[None] / sums["rows"].sum(), floor)[0]

    def _color(self, white: Floats, which: NDArray[np.int64]) -> Floats:
        return np.matmul(white, self.lower.T)


class DiagNormals(Normals):
    """Independent columns, each component with variances of its own."""

    form: ClassVar[str] = "diag"

    @staticmethod
    def shape(k: int, d: int) -> tuple[int, ...]:
        """(k, d)."""
        return (k, d)

    @property
    def n_parameters(self) -> int:
        """k d means and k d variances."""
        return 2 * self.means.size

    def dense(self) -> Floats:
        """The variances on the diagonals."""
        return self._variances()[:, :, None] * np.eye(self.means.shape[1])

    def held(self, floor: Array) -> NDArray[np.bool_]:
        """Which components have a column at the floor."""
        return np.asarray((self.covariances <= np.asarray(floor) * (1 + 1e-6)).any(1))

    def _variances(self) -> Floats:
        return self.covariances

    def _prepare(self) -> None:
        variances = self._variances()
        for c in np.flatnonzero(~(variances > 0).all(1))[:1]:
            _cholesky(int(c), np.zeros((1, 1)))
        self.center = np.ascontiguousarray((self.means - self.pivot).T)
        self.precision = np.ascontiguousarray(1 / variances.T)
        self.constant = _constant(0.5 * np.log(variances).sum(1), self.means.shape[1])

    def _place(self, rows: Floats) -> tuple[Any, Floats]:
        out = np.empty((len(rows), len(self.means)))
        kernels.distances(rows, self.center, self.precision, out)
        return rows, out

    def _sums(self) -> dict[str, Any]:
        k, d = self.means.shape
        return {"rows": np.zeros(k), "first": np.zeros((d, k)), "second": np.zeros((d, k))}

    def _collect(self, place: Any, part: Floats, sums: dict[str, Any]) -> None:
        kernels.spread(place, self.center, part, sums["first"], sums["second"])

    def _moments(self, sums: dict[str, Any]) -> tuple[NDArray[np.bool_], Floats]:
        """Move the means; which components are alive, and their new variances."""
        alive = self._alive(sums)
        rows = sums["rows"][alive, None]
        step = sums["first"].T[alive] / rows
        variances = sums["second"].T[alive] / rows - step * step
        self.means[alive] += step
        return alive, variances

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive, variances = self._moments(sums)
        self.covariances[alive] = np.maximum(variances, floor)

    def _color(self, white: Floats, which: NDArray[np.int64]) -> Floats:
        return white * np.sqrt(self._variances())[which]


class SphericalNormals(DiagNormals):
    """Every component has one variance in all directions."""

    form: ClassVar[str] = "spherical"

    @staticmethod
    def shape(k: int, d: int) -> tuple[int, ...]:
        """(k,)."""
        return (k,)

    @property
    def n_parameters(self) -> int:
        """k d means and k variances."""
        return self.means.size + len(self.means)

    def held(self, floor: Array) -> NDArray[np.bool_]:
        """Which components are at the floor."""
        return np.asarray(self.covariances <= np.mean(floor) * (1 + 1e-6))

    def _variances(self) -> Floats:
        return np.repeat(self.covariances[:, None], self.means.shape[1], axis=1)

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive, variances = self._moments(sums)
        self.covariances[alive] = np.maximum(variances.mean(1), floor.mean())


FORMS: dict[str, type[Normals]] = {
    kind.form: kind for kind in (FullNormals, TiedNormals, DiagNormals, SphericalNormals)
}
"""The forms by name."""


def _constant(half_log_determinant: Floats, d: int) -> Floats:
    return -half_log_determinant - 0.5 * d * math.log(2 * math.pi)


def _raised(covariances: Floats, floor: Floats) -> Floats:
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
            raised = np.matmul(vectors * np.maximum(values, 1.0), vectors.T)
            covariances[c] = 0.5 * (raised + raised.T) * (unit[:, None] * unit)
    return covariances


def _smallest(covariances: Floats, floor: Floats) -> Floats:
    """Smallest eigenvalue in units of the floor; infinite without a floor."""
    if not floor.any():
        return np.full(len(covariances), np.inf)
    unit = np.sqrt(np.broadcast_to(floor, covariances.shape[-1:]))
    return np.linalg.eigvalsh(covariances / (unit[:, None] * unit))[:, 0]
