"""Probabilistic principal component analysis: closed form and EM, missing values marginalized exactly."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.system.fields import Iterated
from gnomon.system.from_sums import FromSums
from gnomon.training.em import EM, ClosedForm
from gnomon.training.group import current as current_group

__all__ = ["PPCA", "PPCAModel"]

CHUNK_NUMBERS = 1 << 22
"""Numbers that one chunk of rows may take: 32 MB in float64."""

CLOSED_COLUMNS = 4096
"""Columns up to which ``method="auto"`` takes the closed form, whose covariance then has at most 134 MB."""

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
        self.sums: dict[str, Array] | None = None

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

    def expect(self, x: Array, weight: Array) -> dict[str, Array]:
        """Sums for the regression of every column on (z, 1), over the rows in which the column is observed."""
        weight = np.asarray(weight, dtype=np.float64)
        z, covariance, log_prob, _ = self._posterior(x)
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
        length of W hardly moves where the noise is small, and not at all where the rows lie in the subspace.
        """
        self.regress(statistics)
        latent, k = statistics["latent"] / statistics["weight"], self.components.shape[1]
        shift = latent[:k, k]
        spread = latent[:k, :k] - np.outer(shift, shift)
        self.mean = self.mean + np.matmul(self.components, shift)
        self.components = np.matmul(self.components, np.linalg.cholesky((spread + spread.T) / 2))

    def regress(self, statistics: dict[str, Array]) -> None:
        """Row-wise regressions, then the noise variance over the observed entries, with the new W and mean."""
        design, target = statistics["design"], statistics["target"]
        solution = np.linalg.solve(design, target[:, :, None])[:, :, 0]
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
        u, length, _ = np.linalg.svd(self.components, full_matrices=False)
        rotated = u * length
        largest = rotated[np.abs(rotated).argmax(0), np.arange(rotated.shape[1])]
        self.components = rotated * np.where(largest < 0, -1.0, 1.0)


def _tell(model: PPCAModel) -> None:
    """Say once of a fit that the noise is at its floor."""
    if not model.held or current_group().rank:
        return
    warnings.warn(
        f"the rows lie in the fitted subspace: noise variance set to {model.noise_variance:.3g}; use fewer components "
        "for a density",
        UserWarning, stacklevel=4,
    )  # fmt: skip


class PPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Iterated, FromSums):
    r"""Gaussian density whose covariance is low rank plus a constant: the density version of PCA.

    :math:`x = W z + \mu + \epsilon`, :math:`z \sim N(0, I_k)`, :math:`\epsilon \sim N(0, \sigma^2 I_d)`. The maximum
    likelihood fit uses the covariance with divisor n: :math:`\sigma^2` is the MEAN of the discarded eigenvalues. NaN
    means missing: the fit (then by EM), the density and the transform use exactly the observed values.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Rows of W^T: orthogonal, longest first, largest entry positive.
    mean_ : array of shape (n_features,)
    noise_variance_ : float

    Notes
    -----
    Source: Tipping and Bishop (1999), sections 3.1 to 3.3; missing values: Ilin and Raiko (2010), section 3; EM
    with expanded parameters: Liu, Rubin and Wu (1998).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[3, 0, 0], [-3, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]], float)
    >>> round(PPCA(n_components=1).fit(X).noise_variance_, 6)
    0.833333
    """

    name: ClassVar[str] = "ppca"
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        field: {"method": "em"} for field in ("max_iter", "tol", "random_state")
    }
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = PPCAModel
    domain = Real(allow_missing=True, largest=1e100)
    scale_dependent: ClassVar[bool] = True

    n_components: Annotated[
        int | None,
        "[1, inf)",
        Doc(
            "Latent dimensions k, at most the number of columns d; k = d gives the full Gaussian, as k = d - 1. None: "
            "half as many as columns."
        ),
    ] = None
    method: Annotated[
        Literal["auto", "closed", "em"],
        Doc(
            '"closed" takes eigenvalues of the covariance, O(n d^2 + d^3), memory d^2; "em" never forms it, O(n d '
            'k) per iteration (O(n d k^2) with missing values); "auto" is closed without missing values and with at '
            "most 4,096 columns."
        ),
    ] = "auto"
    max_iter: int = 500
    tol: float = 1e-7

    def chunk(self, rows: Array, y: Any, sample_weight: Any) -> Examples:
        n, k = len(rows), self._latents(rows.shape[1])
        if self.method == "em":
            raise UserValueError("chunks need the closed form", "method", 'use method="closed" or "auto"')
        if not hasattr(self, "model_") and n <= k:
            raise UserValueError(
                f"the first chunk must have at least {k + 1} rows for {k} components, got {n}", "X", "join chunks"
            )
        if np.isnan(rows).any():
            raise UserValueError("the closed form needs complete rows, got NaN", "X", "fit all rows at once by EM")
        return super().chunk(rows, y, sample_weight)

    def sums_of(self, model: PPCAModel, examples: Examples, earlier: PPCAModel | None) -> dict[str, Array]:
        if earlier is not None:
            model.pivot = earlier.pivot
        return model.moments(examples.X, examples.weight)

    def _latents(self, n_features: int) -> int:
        return max(1, n_features // 2) if self.n_components is None else self.n_components

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        n, d = examples.X.shape
        if self._latents(d) > d:
            raise UserValueError(
                f"n_components must be at most n_features={d}, got n_components={self.n_components}", "n_components"
            )
        if n < 2:
            raise UserValueError("n_samples=1 has no variance", "X", "give at least 2 rows")
        self.n_samples_seen_ = n
        missing = np.isnan(examples.X)
        if missing.all(0).any():
            raise UserValueError(
                "no value is observed", f"column {int(missing.all(0).argmax())}", "leave the column out"
            )
        if missing.any() and self.method == "closed":
            raise UserValueError("the closed form needs complete rows, got NaN", "method", 'use method="em" or "auto"')
        return examples

    def arguments(self, examples: Examples) -> dict[str, Any]:
        closed = self.method == "closed" or (
            self.method == "auto" and examples.X.shape[1] <= CLOSED_COLUMNS and not np.isnan(examples.X).any()
        )
        return super().arguments(examples) | {"closed": bool(closed)}

    def make(self, n_features: int, dtype: str, closed: bool) -> PPCAModel:
        return PPCAModel(np.zeros((n_features, self._latents(n_features))), np.zeros(n_features), 1.0)

    def initialize(self, model: PPCAModel, examples: Examples, noise: Noise) -> None:
        X, weight = examples.X.astype(np.float64), examples.weight.astype(np.float64)[:, None]
        observed = ~np.isnan(X)
        counts = np.maximum((observed * weight).sum(0), np.finfo(float).tiny)
        model.pivot = (np.where(observed, X, 0.0) * weight).sum(0) / counts
        model.mean = model.pivot.copy()
        spread = (np.where(observed, X - model.pivot, 0.0) ** 2 * weight).sum(0) / counts
        model.noise_variance = float(spread.mean()) or FLOOR * (float(np.abs(model.pivot).max()) or 1.0)
        if not self.arguments_["closed"]:
            scale = math.sqrt(model.noise_variance)
            model.components = scale * noise.normal(model.components.shape, like=model.mean)

    def procedure(self, examples: Any) -> Procedure:
        return ClosedForm() if self.arguments_["closed"] else EM(self.max_iter, self.tol)

    def _batch_size(self) -> int | None:
        return max(1, CHUNK_NUMBERS // max(self.n_features_in_, (self._latents(self.n_features_in_) + 1) ** 2))

    def finish(self, model: PPCAModel) -> None:
        model.canonicalize()
        _tell(model)

    def solve(self, model: PPCAModel, sums: Any, examples: Examples, n: int) -> dict[str, float]:
        record = super().solve(model, sums, examples, n)
        _tell(model)
        return record

    @property
    def components_(self) -> Array:
        """Rows of W^T, in the units of the columns as they were given."""
        return self.model_.components.T * self._units()

    def _units(self) -> Array:
        """By what the columns were divided before the fit."""
        preparation = getattr(self, "preparation_", None)
        unit = None if preparation is None else preparation.unit
        return np.ones(len(self.model_.mean)) if unit is None else np.asarray(unit)

    @property
    def mean_(self) -> Array:
        """Mean of the density, in the units of the columns as they were given."""
        return self._in_units(self.model_.mean)

    @property
    def noise_variance_(self) -> float:
        """Variance of the noise in every column; of the scaled ones where a preparation scales them."""
        return float(self.model_.noise_variance)

    @property
    def _n_features_out(self) -> int:
        return self.model_.components.shape[1]

    def get_covariance(self) -> Array:
        """Covariance of the density, shape (d, d), in the units of the columns as they were given."""
        check_is_fitted(self)
        return self.model_.covariance() * np.outer(self._units(), self._units())

    def transform(self, X: Any) -> Array:
        """Posterior mean of z given the observed values, shape (n, n_components)."""
        rows = self._rows(X)
        return self.model_.latent_mean(rows).astype(rows.dtype)

    def inverse_transform(self, Z: Any) -> Array:
        """E[x | z], shape (n, d)."""
        check_is_fitted(self)
        latent = Real().check(Z, name="Z", dtype="float64")
        if latent.shape[1] != self._n_features_out:
            raise UserValueError(
                f"Z must have {self._n_features_out} columns, one per component, got {latent.shape[1]}", "Z"
            )
        return self._in_units(self.model_.reconstruct(latent))

    def impute(self, X: Any) -> Array:
        """X with each missing value replaced by its conditional mean given the observed ones of its row."""
        rows = self._rows(X)
        filled = self.model_.reconstruct(self.model_.latent_mean(rows))
        return self._in_units(np.where(np.isnan(rows), filled, rows).astype(rows.dtype))
