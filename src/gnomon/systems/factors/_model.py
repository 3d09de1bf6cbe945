"""The model of probabilistic principal component analysis: a Gaussian of low rank plus a constant."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from gnomon.contracts import Array, Noise
from gnomon.distributions.posteriors import NormalVectors
from gnomon.inference.exact.cells import CellMoments, NormalCells

__all__ = ["FLOOR", "PPCAModel"]

FLOOR = 1e-12
"""Smallest noise variance, as a share of the largest eigenvalue or of the mean square."""


class PPCAModel:
    r"""x ~ N(mean, W W^T + noise_variance I); latent z ~ N(0, I), x = W z + mean + noise.

    Parameters
    ----------
    components : array of shape (d, k)
        W, k >= 1.
    mean : array of shape (d,)
    noise_variance : float in (0, inf)
    """

    def __init__(self, components: Array, mean: Array, noise_variance: float) -> None:
        self.components = np.array(components, dtype=np.float64)
        self.mean = np.array(mean, dtype=np.float64)
        self.noise_variance = float(noise_variance)
        self.pivot = self.mean.copy()
        self.held = False
        self.identified = False
        self.spread: float | None = None
        """Standard deviation of q about the most probable z in a fit by these; None in a fit by posteriors."""
        self.sums: dict[str, Array] | None = None
        self._turn = np.eye(self.components.shape[1] + 1)

    @property
    def n_parameters(self) -> int:
        """Free parameters: W up to rotation, mean, noise variance."""
        d, k = self.components.shape
        return d * k - k * (k - 1) // 2 + d + 1

    def state(self) -> dict[str, Array]:
        """W, mean, noise variance, and the point that sums are taken about."""
        noise = np.array(self.noise_variance)
        return {"components": self.components, "mean": self.mean, "noise_variance": noise, "pivot": self.pivot}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take the arrays over."""
        self.components, self.mean, self.pivot = (
            np.array(state[name], dtype=np.float64) for name in ("components", "mean", "pivot")
        )
        self.noise_variance = float(state["noise_variance"])

    def covariance(self) -> Array:
        """W W^T + noise_variance I, shape (d, d)."""
        return np.matmul(self.components, self.components.T) + self.noise_variance * np.eye(len(self.mean))

    def normal_cells(self) -> NormalCells:
        """The density as a normal one."""
        return NormalCells([0.0], [self.mean], [self.covariance()])

    # --- inference ----------------------------------------------------------------------------------------------

    def _posterior(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Posterior means (n, k), covariances (n or 1, k, k), log densities (n,), and x - mean with 0 where missing.

        A missing value is left out of every sum, which conditions the Gaussian on the observed ones exactly:
        M_i = W_o^T W_o + s I, log|C_o| = (|o| - k) log s + log|M_i|, and r^T C_o^-1 r = |r - W_o z|^2 / s + z^T z, a
        sum that keeps its digits where s is small, as r^T r - r^T W_o z does not.
        """
        W, s = self.components, self.noise_variance
        k = W.shape[1]
        residual = np.asarray(x, dtype=np.float64) - self.mean
        observed = ~np.isnan(residual)
        if observed.all():
            precision = (np.matmul(W.T, W) + s * np.eye(k))[None]
            counts = np.full(len(residual), residual.shape[1])
        else:
            residual = np.where(observed, residual, 0.0)
            squares = (W[:, :, None] * W[:, None, :]).reshape(len(W), k * k)
            precision = np.matmul(observed.astype(np.float64), squares).reshape(-1, k, k) + s * np.eye(k)
            counts = observed.sum(1)
        field = np.matmul(residual, W)
        inverse = np.linalg.inv(precision)
        z = np.matmul(inverse, field[:, :, None])[:, :, 0]
        rest = np.where(observed, residual - np.matmul(z, W.T), 0.0)
        quadratic = (rest * rest).sum(1) / s + (z * z).sum(1)
        determinant = np.linalg.slogdet(precision)[1] + (counts - k) * math.log(s)
        log_prob = -0.5 * (counts * math.log(2 * math.pi) + determinant + quadratic)
        return z, s * inverse, log_prob, residual

    def log_prob(self, x: Array) -> Array:
        """Log density in nats of the observed values of each row, shape (n,); 0 where nothing is observed."""
        return self._posterior(x)[2]

    def latent_mean(self, x: Array) -> Array:
        """E[z | observed values], shape (n, k)."""
        return self._posterior(x)[0]

    def posterior(self, x: Array) -> NormalVectors:
        """p(z | observed values), exact: with one covariance where all values are observed."""
        return NormalVectors(*self._posterior(x)[:2])

    def latent_covariance(self, x: Array) -> Array:
        """Cov[z | observed values], shape (n, k, k)."""
        z, covariance = self._posterior(x)[:2]
        return np.broadcast_to(covariance, (len(z), *covariance.shape[1:]))

    def reconstruct(self, z: Array) -> Array:
        """E[x | z], shape (n, d)."""
        return np.matmul(z, self.components.T) + self.mean

    def sample(self, n: int, noise: Noise) -> Array:
        """n rows."""
        d, k = self.components.shape
        z = noise.child("latent").normal((n, k), like=self.mean)
        return self.reconstruct(z) + math.sqrt(self.noise_variance) * noise.child("noise").normal(
            (n, d), like=self.mean
        )

    # --- rows with missing cells --------------------------------------------------------------------------------------

    def cells(self, x: Array, missing: Array) -> CellMoments:
        """Log density of the known cells of each row, and mean and variance of the missing ones given them."""
        rows = np.where(missing, np.nan, x)
        z, covariance, log_prob, _ = self._posterior(rows)
        W = self.components
        spread = np.einsum("jk,nkl,jl->nj", W, np.broadcast_to(covariance, (len(z), *covariance.shape[1:])), W)
        mean, variance = self.reconstruct(z), spread + self.noise_variance
        known = np.asarray(x, np.float64)
        return CellMoments(log_prob, np.where(missing, mean, known), np.where(missing, variance, 0.0))

    def draw_cells(self, x: Array, missing: Array, noise: Noise) -> Array:
        """The rows with a joint draw of the missing cells of each: z given the known ones, then x given z."""
        z, covariance = self._posterior(np.where(missing, np.nan, x))[:2]
        places = np.arange(len(z))
        lower = np.linalg.cholesky(covariance)
        away = noise.child("latent").rows(places).normal(z.shape, like=self.mean)
        rest = noise.child("noise").rows(places).normal(np.shape(x), like=self.mean)
        drawn = self.reconstruct(z + (lower @ away[:, :, None])[:, :, 0]) + math.sqrt(self.noise_variance) * rest
        return np.where(missing, drawn, x)

    def _set_noise(self, variance: float, scale: float) -> None:
        """Take the variance, or a small share of the scale where the rows lie in the subspace exactly."""
        floor = FLOOR * scale if scale > 0 else FLOOR
        self.held = not variance > floor
        self.noise_variance = floor if self.held else variance

    # --- closed form --------------------------------------------------------------------------------------------

    def moments(self, x: Array, weight: Array) -> dict[str, Array]:
        """Sums about the pivot: weight, x, x x^T."""
        weight = np.asarray(weight, dtype=np.float64)
        centered = np.asarray(x, dtype=np.float64) - self.pivot
        weighted = centered * weight[:, None]
        return {"weight": weight.sum(), "sum": weighted.sum(0), "square": np.matmul(weighted.T, centered)}

    def solve(self, moments: dict[str, Array]) -> dict[str, float]:
        """Maximum likelihood (Tipping and Bishop 1999, section 3.2): W = U (L - s I)^(1/2), s the mean of the rest."""
        self.sums = moments
        shift = moments["sum"] / moments["weight"]
        covariance = moments["square"] / moments["weight"] - np.outer(shift, shift)
        values, vectors = np.linalg.eigh(covariance)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        d, k = self.components.shape
        rest = values[k:] if k < d else values[-1:]
        self._set_noise(float(rest.mean()), float(values[0]))
        self.components = vectors[:, :k] * np.sqrt(np.maximum(values[:k] - self.noise_variance, 0.0))
        self.mean = self.pivot + shift
        self.canonicalize()
        fitted = np.concatenate([np.maximum(values[:k], self.noise_variance), np.full(d - k, self.noise_variance)])
        return {"log_likelihood": -0.5 * float((math.log(2 * math.pi) + np.log(fitted) + values / fitted).sum())}

    # --- EM -----------------------------------------------------------------------------------------------------

    def _with_known(self, x: Array, latents: Array) -> tuple[Array, Array, Array]:
        """Posterior means, covariances and log densities where z is known for the rows without NaN in `latents`.

        A known z is its own mean with covariance 0, and its density belongs to the likelihood: log p(x_o, z).
        """
        z, covariance, log_prob, residual = self._posterior(x)
        k = z.shape[1]
        covariance = np.broadcast_to(covariance, (len(z), k, k)).copy()
        known = ~np.isnan(latents).any(axis=1)
        given, observed = latents[known], ~np.isnan(x[known])
        rest = np.where(observed, residual[known] - np.matmul(given, self.components.T), 0.0)
        constants = observed.sum(1) * math.log(2 * math.pi * self.noise_variance) + k * math.log(2 * math.pi)
        z[known], covariance[known] = given, 0.0
        log_prob[known] = -0.5 * (constants + (rest**2).sum(1) / self.noise_variance + (given**2).sum(1))
        return z, covariance, log_prob

    def expect(self, x: Array, weight: Array, latents: Array | None = None) -> dict[str, Array]:
        """Sums for the regression of every column on (z, 1), over the rows in which the column is observed."""
        return self._sums(x, weight, *(self._posterior(x)[:3] if latents is None else self._with_known(x, latents)))

    def expect_mode(self, x: Array, weight: Array) -> dict[str, Array]:
        r"""As `expect`, with :math:`q(z) = N(z^*, s^2 I)` about the most probable z of each row in place of p(z | x).

        ``log_likelihood`` is then :math:`E_q[\log p(x, z)] + \tfrac k2 \log 2 \pi e s^2`, at most log p(x); of s = 0
        log p(x, z*), without the entropy, which bounds nothing.
        """
        W, s, spread = self.components, self.noise_variance, (self.spread or 0.0) ** 2
        z, _, _, residual = self._posterior(x)
        k, observed = z.shape[1], ~np.isnan(np.asarray(x, dtype=np.float64))
        rest = np.where(observed, residual - np.matmul(z, W.T), 0.0)
        wide = (rest * rest).sum(1) + spread * np.matmul(observed, (W * W).sum(1))
        prior = (z * z).sum(1) + k * (spread + math.log(2 * math.pi))
        value = -0.5 * (observed.sum(1) * math.log(2 * math.pi * s) + wide / s + prior)
        if spread > 0:
            value += 0.5 * k * (1 + math.log(2 * math.pi * spread))
        return self._sums(x, weight, z, spread * np.eye(k)[None], value)

    def _sums(self, x: Array, weight: Array, z: Array, covariance: Array, log_prob: Array) -> dict[str, Array]:
        """Sums under q(z) of these means and covariances, one for all rows or one for each."""
        weight = np.asarray(weight, dtype=np.float64)
        n, k = z.shape
        centered = np.asarray(x, dtype=np.float64) - self.pivot
        observed = ~np.isnan(centered)
        centered = np.where(observed, centered, 0.0)
        t = np.concatenate([z, np.ones((n, 1))], axis=1)
        weighted = t * weight[:, None]
        second = np.matmul(weighted.T, t)
        second[:k, :k] += weight.sum() * covariance[0] if len(covariance) == 1 else np.tensordot(weight, covariance, 1)
        if observed.all():
            design, counts = np.broadcast_to(second, (x.shape[1], k + 1, k + 1)), np.full(x.shape[1], weight.sum())
        else:
            outer = t[:, :, None] * t[:, None, :]
            outer[:, :k, :k] += covariance
            mask = observed * weight[:, None]
            design = np.matmul(mask.T, outer.reshape(n, -1)).reshape(-1, k + 1, k + 1)
            counts = mask.sum(0)
        return {
            "weight": weight.sum(),
            "log_likelihood": np.matmul(weight, log_prob),
            "latent": second,
            "design": design,
            "target": np.matmul(centered.T, weighted),
            "square": np.matmul(weight, centered * centered),
            "counts": counts,
        }

    def maximize(self, statistics: dict[str, Array]) -> None:
        """The regressions of `regress`, then the latent variables brought back to mean 0 and covariance I.

        Parameter-expanded EM (Liu, Rubin and Wu 1998): the model with z ~ N(m, L) has the same likelihood, its M step
        takes m and L from the posteriors, and W L^(1/2), mean + W m say the same with z ~ N(0, I). Without it the
        length of W hardly moves where the noise is small, and not at all where the rows lie in the subspace. Where z is
        known for some rows it has a scale already, and at modes another scale is another objective: the regressions are
        all.
        """
        self.regress(statistics)
        k = self.components.shape[1]
        self.sums, self._turn = statistics, np.eye(k + 1)
        if self.identified or self.spread is not None:
            return
        latent = statistics["latent"] / statistics["weight"]
        shift = latent[:k, k]
        spread = latent[:k, :k] - np.outer(shift, shift)
        self._turn[:k, :k], self._turn[:k, k] = np.linalg.cholesky((spread + spread.T) / 2), shift
        self.mean = self.mean + np.matmul(self.components, shift)
        self.components = np.matmul(self.components, self._turn[:k, :k])

    def settle(self) -> None:
        """Bring the sums of the last M step to the coordinates of z that the model has now: (z, 1) was turn (z', 1)."""
        if self.sums is None:
            return
        inverse = np.linalg.inv(self._turn)
        design = self.sums["design"]
        one = design[:1] if not design.strides[0] else design  # of complete rows one matrix, seen by every column
        self.sums = self.sums | {
            "latent": inverse @ self.sums["latent"] @ inverse.T,
            "design": np.broadcast_to(inverse @ one @ inverse.T, design.shape),
            "target": np.matmul(self.sums["target"], inverse.T),
        }
        self._turn = np.eye(len(inverse))

    def regress(self, statistics: dict[str, Array]) -> None:
        """Row-wise regressions, then the noise variance over the observed entries, with the new W and mean."""
        design, target = statistics["design"], statistics["target"]
        solution = _regressed(design, target[:, :, None])[:, :, 0]
        explained = np.einsum("jk,jk->j", solution, 2 * target - np.einsum("jkl,jl->jk", design, solution))
        total = float(statistics["counts"].sum())
        scale = float(statistics["square"].sum()) / total
        self._set_noise(float((statistics["square"] - explained).sum()) / total, scale)
        self.components, self.mean = solution[:, :-1].copy(), self.pivot + solution[:, -1]

    def log_prior(self) -> float:
        """There is no prior."""
        return 0.0

    def canonicalize(self) -> None:
        """Rotate W so that its columns are orthogonal, longest first, the largest entry of each positive."""
        if self.identified:
            return
        u, length, vt = np.linalg.svd(self.components, full_matrices=False)
        rotated = u * length
        k = rotated.shape[1]
        largest = rotated[np.abs(rotated).argmax(0), np.arange(k)]
        sign = np.where(largest < 0, -1.0, 1.0)
        self.components = rotated * sign
        self._turn[:, :k] = np.matmul(self._turn[:, :k], vt.T * sign)


def _regressed(design: Array, target: Array) -> Array:
    """Coefficients of regressions; the shortest where every z is at 0, as the modes of rows that are all alike are."""
    try:
        return np.linalg.solve(design, target)
    except np.linalg.LinAlgError:
        return np.asarray(np.matmul(np.linalg.pinv(design, hermitian=True), target))
