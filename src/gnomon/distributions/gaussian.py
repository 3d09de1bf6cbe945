r"""K normal distributions on R^d whose covariances take one of four forms, and their weighted fits.

Every form answers the same questions: log densities, draws, and for mixtures and hidden Markov models the sums over
rows that a fit with fractional memberships needs. Rows are taken in blocks, so that memory does not grow with n.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array
from gnomon.distributions import gaussian_kernels as kernels
from gnomon.distributions.definite import cholesky, floored, precision_factor, smallest
from gnomon.distributions.gaussian_base import Buffers, Floats, Normals, constant, reused

__all__ = ["FORMS", "DiagNormals", "FullNormals", "Normals", "SphericalNormals", "TiedNormals", "steps"]

DENSE = 0.4
"""Fraction of the memberships above which all components' scatters are taken in one product."""

SAFE = 1e5
"""Scaled squares up to which their difference keeps its digits: an error of 1e-11 nats or so."""


class FullNormals(Normals):
    """Every component has a covariance matrix of its own.

    The sums are taken in each component's own coordinates y = U^T (x - mean), in which it is standard normal, so that
    no digits are lost however different the components are. Coordinates of all components are one matrix product; so
    is x^T (responsibility * y), from which a block's scatters y^T (responsibility * y) follow. Where most shares are
    negligible, each component's scatter is the product of its own few rows.
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

    def at_floor(self, floor: Array) -> NDArray[np.bool_]:
        """Which components have a direction at the floor."""
        return smallest(self.covariances, np.asarray(floor)) <= 1 + 1e-6

    def _numbers_per_row(self) -> int:
        return self.means.size

    def _prepare(self) -> None:
        k, d = self.means.shape
        self.lower, upper = precision_factor(self.covariances)
        self.upper = np.ascontiguousarray(upper.transpose(1, 0, 2)).reshape(d, k * d)
        self.shift = np.matmul((self.means - self.pivot)[:, None], upper)[:, 0]
        self.constant = constant(np.log(np.diagonal(self.lower, axis1=1, axis2=2)).sum(1), d)

    def _coordinates(self, rows: Floats, buffers: Buffers) -> tuple[Any, Floats]:
        k, d = self.means.shape
        y = reused(buffers, "y", len(rows), k * d)
        np.matmul(rows, self.upper, out=y)
        y = y.reshape(len(rows), k, d)
        out = reused(buffers, "squared", len(rows), k)
        kernels.squares(y, self.shift, out)
        return (rows, y), out

    def _sums(self) -> dict[str, Any]:
        k, d = self.means.shape
        sums = {"rows": np.zeros(k), "first": np.zeros((k, d)), "second": np.zeros((k, d, d))}
        return sums | {"cross": np.zeros((d, k * d)), "crossed": np.zeros((k, d))}

    def _collect(self, coordinates: Any, part: Floats, sums: dict[str, Any], buffers: Buffers) -> None:
        rows, y = coordinates
        n, k, d = y.shape
        if np.count_nonzero(part >= kernels.NEGLIGIBLE) > DENSE * part.size:
            kernels.scale(y, part, sums["crossed"])
            product = reused(buffers, "product", d, k * d)
            sums["cross"] += np.matmul(rows.T, y.reshape(n, k * d), out=product)
            return
        buffer = reused(buffers, "buffer", n, d)
        for c in range(k):
            near = buffer[: kernels.gather(y, c, part, buffer)]
            sums["second"][c] += np.matmul(near.T, near)
            kernels.add(y, c, part, sums["first"][c])

    def _close(self, sums: dict[str, Any]) -> dict[str, Any]:
        """With m = mean - pivot: U^T (sum of x y^T - m sum of y^T) is the sum of y y^T."""
        k, d = self.means.shape
        cross, crossed = sums.pop("cross"), sums.pop("crossed")
        upper, cross = (joined.reshape(d, k, d).transpose(1, 0, 2) for joined in (self.upper, cross))
        offset = (self.means - self.pivot)[:, :, None] * crossed[:, None, :]
        sums["second"] += np.matmul(np.swapaxes(upper, 1, 2), cross - offset)
        sums["first"] += crossed
        return sums

    def scatters(self, sums: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
        """Scatters (k, d, d)."""
        rows, step = steps(sums)
        inner = sums["second"] - rows[:, None, None] * step[:, :, None] * step[:, None, :]
        found = np.matmul(np.matmul(self.lower, inner), np.swapaxes(self.lower, 1, 2))
        return rows, self.means + np.matmul(self.lower, step[:, :, None])[:, :, 0], found

    def sums_of(self, rows: Floats, means: Floats, scatters: Floats) -> dict[str, Any]:
        """In the coordinates of each component."""
        step = np.linalg.solve(self.lower, (means - self.means)[:, :, None])[:, :, 0]
        half = np.linalg.solve(self.lower, scatters)
        inner = np.linalg.solve(self.lower, np.swapaxes(half, 1, 2))
        second = inner + rows[:, None, None] * step[:, :, None] * step[:, None, :]
        return {"rows": rows, "first": rows[:, None] * step, "second": second}

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive = self._alive(sums)
        rows, lower = sums["rows"][alive], self.lower[alive]
        step = sums["first"][alive] / rows[:, None]
        inner = sums["second"][alive] / rows[:, None, None] - step[:, :, None] * step[:, None, :]
        self.means[alive] += np.matmul(lower, step[:, :, None])[:, :, 0]
        covariances = np.matmul(np.matmul(lower, inner), np.swapaxes(lower, 1, 2))
        self.covariances[alive] = floored(covariances, floor)

    def own(self, rows: Floats) -> dict[str, Floats]:
        """The rows of each are standard normal in its coordinates."""
        k, d = self.means.shape
        return {"rows": rows, "first": np.zeros((k, d)), "second": rows[:, None, None] * np.eye(d)}

    def _squares(self, sums: Mapping[str, Array]) -> float:
        return float(np.trace(sums["second"], axis1=1, axis2=2).sum())

    def moved(self, sums: Mapping[str, Array], before: FullNormals) -> dict[str, Floats]:
        """y' = A y + b with A = U^T L of before and b = U^T (mean before - mean)."""
        U = self.upper.reshape(self.means.shape[1], *self.means.shape).transpose(1, 2, 0)  # U^T of each component
        A = np.matmul(U, before.lower)
        b = np.matmul(U, (before.means - self.means)[:, :, None])[:, :, 0]
        return _affine(sums, A, b, np.asarray(sums["rows"]))

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

    def at_floor(self, floor: Array) -> NDArray[np.bool_]:
        """All or none."""
        return np.repeat(smallest(self.covariances[None], np.asarray(floor)) <= 1 + 1e-6, len(self.means))

    def _prepare(self) -> None:
        k, d = self.means.shape
        lower, upper = precision_factor(self.covariances[None])
        self.lower, self.upper = lower[0], upper[0]
        self.center = np.matmul(self.means - self.pivot, self.upper)
        self.precision = np.ones((k, d))
        self.constant = constant(np.repeat(np.log(self.lower.diagonal()).sum(), k), d)

    def _coordinates(self, rows: Floats, buffers: Buffers) -> tuple[Any, Floats]:
        out = reused(buffers, "squared", len(rows), len(self.means))
        kernels.distances(np.matmul(rows, self.upper), self.center, self.precision, out)
        return rows, out

    def _sums(self) -> dict[str, Any]:
        k, d = self.means.shape
        return {"rows": np.zeros(k), "first": np.zeros((k, d)), "second": np.zeros((d, d))}

    def _collect(self, coordinates: Any, part: Floats, sums: dict[str, Any], buffers: Buffers) -> None:
        sums["first"] += np.matmul(part.T, coordinates)
        sums["second"] += np.matmul((coordinates * part.sum(1)[:, None]).T, coordinates)

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive, pivot = self._alive(sums), self.pivot
        rows = sums["rows"][alive]
        center = sums["first"][alive] / rows[:, None]
        within = sums["second"] - np.matmul((center * rows[:, None]).T, center)
        self.means[alive] = pivot + center
        self.covariances = floored(within[None] / sums["rows"].sum(), floor)[0]

    def own(self, rows: Floats) -> dict[str, Floats]:
        """Rows about their means with the one covariance."""
        away = self.means - self.pivot
        first = rows[:, None] * away
        return {"rows": rows, "first": first, "second": np.matmul(away.T, first) + rows.sum() * self.covariances}

    def _squares(self, sums: Mapping[str, Array]) -> float:
        away, rows = self.means - self.pivot, np.asarray(sums["rows"])
        cross = np.matmul(away.T, sums["first"])
        about = sums["second"] - cross - cross.T + np.matmul(away.T, rows[:, None] * away)
        return float((np.matmul(self.upper, self.upper.T) * about).sum())

    def moved(self, sums: Mapping[str, Array], before: TiedNormals) -> dict[str, Floats]:
        """About another pivot."""
        step, rows, first = before.pivot - self.pivot, np.asarray(sums["rows"]), np.asarray(sums["first"])
        pooled = {"first": first.sum(-2), "second": sums["second"]}
        second = _affine(pooled, np.eye(len(step)), step, rows.sum(-1))["second"]
        return {"first": first + rows[..., None] * step, "second": second}

    def _color(self, white: Floats, which: NDArray[np.int64]) -> Floats:
        return np.matmul(white, self.lower.T)


class DiagNormals(Normals):
    """Independent columns, each component with variances of its own.

    Squared distances are taken apart, x^2 p - 2 x m p + m^2 p, and so are the moments: one matrix product each with
    [x, x^2, 1], or with [x, |x|^2, 1] where one variance serves all columns. Where the summands are so large that their
    difference would lose digits, a loop subtracts first.
    """

    form: ClassVar[str] = "diag"
    _with_powers: ClassVar[Any] = staticmethod(kernels.with_squares)

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

    def at_floor(self, floor: Array) -> NDArray[np.bool_]:
        """Which components have a column at the floor."""
        return np.asarray((self.covariances <= np.asarray(floor) * (1 + 1e-6)).any(1))

    def scatters(self, sums: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
        """Scatters (k, d), of the columns."""
        rows, step = steps(sums)
        return rows, self.means + step, np.maximum(sums["second"] - rows[:, None] * step * step, 0.0)

    def sums_of(self, rows: Floats, means: Floats, scatters: Floats) -> dict[str, Any]:
        """Of the columns."""
        step = means - self.means
        return {"rows": rows, "first": rows[:, None] * step, "second": scatters + rows[:, None] * step * step}

    def _variances(self) -> Floats:
        return self.covariances

    def _width(self) -> int:
        """Squares kept of a row: of its columns, or one for all."""
        return self.means.shape[1]

    def _pooled(self, by_column: Floats) -> Floats:
        """Squares by column, shape (k, d), as they are kept, (k, width)."""
        return by_column

    def _numbers_per_row(self) -> int:
        return 4 * self.means.shape[1]  # blocks of a megabyte: they are gone over four times

    def _prepare(self) -> None:
        variances = self._variances()
        for c in np.flatnonzero(~(variances > 0).all(1))[:1]:
            cholesky(int(c), np.zeros((1, 1)))
        self.center = self.means - self.pivot
        self.precision = 1 / variances
        self.offset = (self.center**2 * self.precision).sum(1)
        self.scale = self.precision[:, : self._width()]
        self.factors = np.hstack([-2 * self.center * self.precision, self.scale, self.offset[:, None]]).T
        self.constant = constant(0.5 * np.log(variances).sum(1), self.means.shape[1])

    def _shifted(self, rows: Array, buffers: Buffers) -> Floats:
        n, d = rows.shape
        width = self._width()
        self._with_powers(
            rows, self.pivot, reused(buffers, "powers", n, d + width + 1), reused(buffers, "largest", 1, width)[0]
        )
        return buffers["powers"][:n, :d]

    def _coordinates(self, rows: Floats, buffers: Buffers) -> tuple[Any, Floats]:
        powers = buffers["powers"][: len(rows)]
        out = reused(buffers, "squared", len(rows), len(self.means))
        largest = np.matmul(self.scale, buffers["largest"][0])
        if max(largest.max(), self.offset.max()) > SAFE:
            kernels.distances(rows, self.center, self.precision, out)
            return (rows, None), out
        return (rows, powers), np.matmul(powers, self.factors, out=out)

    def _sums(self) -> dict[str, Any]:
        k, d = self.means.shape
        return {"rows": np.zeros(k), "first": np.zeros((k, d)), "second": np.zeros((k, self._width()))}

    def _collect(self, coordinates: Any, part: Floats, sums: dict[str, Any], buffers: Buffers) -> None:
        rows, powers = coordinates
        if powers is None:
            second = np.zeros_like(self.means)
            kernels.second_moments(rows, self.center, part, sums["first"], second)
            sums["second"] += self._pooled(second)
            return
        d = rows.shape[1]
        moments = np.matmul(part.T, powers, out=reused(buffers, "moments", *self.factors.T.shape))
        first, second, moved = moments[:, :d], moments[:, d:-1], moments[:, -1:] * self.center
        sums["first"] += first - moved
        sums["second"] += second - self._pooled(self.center * (2 * first - moved))

    def _moments(self, sums: dict[str, Any]) -> tuple[NDArray[np.bool_], Floats]:
        """Move the means; which components are alive, and their new variances, of the columns or pooled."""
        alive = self._alive(sums)
        rows = sums["rows"][alive, None]
        step = sums["first"][alive] / rows
        variances = sums["second"][alive] / rows - self._pooled(step * step)
        self.means[alive] += step
        return alive, variances

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive, variances = self._moments(sums)
        self.covariances[alive] = np.maximum(variances, floor)

    def own(self, rows: Floats) -> dict[str, Floats]:
        """Rows about their means with these variances."""
        second = self._pooled(rows[:, None] * self._variances())
        return {"rows": rows, "first": np.zeros_like(self.means), "second": second}

    def _squares(self, sums: Mapping[str, Array]) -> float:
        return float((np.asarray(sums["second"]) * self.scale).sum())

    def moved(self, sums: Mapping[str, Array], before: DiagNormals) -> dict[str, Floats]:
        """About other means."""
        step, first = before.means - self.means, np.asarray(sums["first"])
        added = np.asarray(sums["rows"])[..., None] * step
        return {"first": first + added, "second": sums["second"] + self._pooled(step * (2 * first + added))}

    def _color(self, white: Floats, which: NDArray[np.int64]) -> Floats:
        return white * np.sqrt(self._variances())[which]


class SphericalNormals(DiagNormals):
    """Every component has one variance in all directions."""

    form: ClassVar[str] = "spherical"
    _with_powers: ClassVar[Any] = staticmethod(kernels.with_norms)

    @staticmethod
    def shape(k: int, d: int) -> tuple[int, ...]:
        """(k,)."""
        return (k,)

    @property
    def n_parameters(self) -> int:
        """k d means and k variances."""
        return self.means.size + len(self.means)

    def at_floor(self, floor: Array) -> NDArray[np.bool_]:
        """Which components are at the floor."""
        return np.asarray(self.covariances <= np.mean(floor) * (1 + 1e-6))

    def _variances(self) -> Floats:
        return np.repeat(self.covariances[:, None], self.means.shape[1], axis=1)

    def _width(self) -> int:
        return 1

    def _pooled(self, by_column: Floats) -> Floats:
        return np.asarray(by_column.sum(-1, keepdims=True))

    def _solve(self, sums: dict[str, Any], floor: Floats) -> None:
        alive, pooled = self._moments(sums)
        self.covariances[alive] = np.maximum(pooled[:, 0] / self.means.shape[1], floor.mean())


def _affine(sums: Mapping[str, Array], A: Floats, b: Floats, rows: Floats) -> dict[str, Floats]:
    """First and second moments of A y + b from those of y."""
    turned = np.matmul(A, np.asarray(sums["first"])[..., None])[..., 0]
    shifted = turned[..., :, None] * b[..., None, :]
    second = np.matmul(np.matmul(A, sums["second"]), np.swapaxes(A, -1, -2))
    square = rows[..., None, None] * (b[..., :, None] * b[..., None, :])
    return {"first": turned + rows[..., None] * b, "second": second + shifted + np.swapaxes(shifted, -1, -2) + square}


def steps(sums: dict[str, Any]) -> tuple[Floats, Floats]:
    """Rows of each distribution, and how far their mean is from its own, 0 where there are none."""
    rows = sums["rows"]
    return rows, sums["first"] / np.where(rows > 0, rows, 1.0)[:, None]


FORMS: dict[str, type[Normals]] = {
    kind.form: kind for kind in (FullNormals, TiedNormals, DiagNormals, SphericalNormals)
}
"""The forms by name."""
