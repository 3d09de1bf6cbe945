"""Product of probabilistic PCA experts: a normal density whose precision is a sum of those of one-factor models."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.inference.exact.cells import CellMoments, NormalCells
from gnomon.recipes.fields import Doc
from gnomon.system.base import System
from gnomon.system.fields import Standardized
from gnomon.system.gaps import FillsExactly
from gnomon.training.em import ClosedForm
from gnomon.training.group import current as current_group

__all__ = ["ProductOfPPCA", "ProductOfPPCAModel"]

TURNS = (0.01, 0.3, 1.0)
"""Lengths of the random turns of the starts of a fit, beside the eigenvectors' 1; the best end is taken."""
EQUAL = 1e-9
"""Ends of starts that differ less, in nats per row, are alike: the first is taken, whatever rounding makes of them."""
FLOOR = 1e-9
"""Smallest noise variance of an expert, as a share of the mean variance of a column."""

STATE = ("loadings", "noise_variances", "mean", "pivot", "unit")
REACH = 100.0
"""Largest loading and standard deviation of an expert, beside those of the data times the root of n d."""

Floats = NDArray[np.float64]


class ProductOfPPCAModel:
    r"""x ~ N(mean, P^-1), :math:`P = \sum_i (\sigma_i^2 I + w_i w_i^T)^{-1}`.

    Parameters
    ----------
    loadings : array of shape (n, d)
        w_i.
    noise_variances : array of shape (n,), in (0, inf)
        :math:`\sigma_i^2`.
    mean : array of shape (d,), optional
        0 by default.
    max_iter : int, in [1, inf)
        Iterations of a fit at most.
    tol : float, in [0, inf)
        A fit ends when an iteration gains no more, in nats per row.
    standardize : bool
        Whether a fit divides columns by their standard deviations, which ``unit`` then holds, before all else.

    Raises
    ------
    UserValueError
        Noise variances that are not above 0.

    Examples
    --------
    >>> ProductOfPPCAModel([[1.0, 0.0], [1.0, 1.0]], [1.0, 1.0]).precision.round(6).tolist()
    [[1.166667, -0.333333], [-0.333333, 1.666667]]
    """

    def __init__(
        self,
        loadings: ArrayLike,
        noise_variances: ArrayLike,
        mean: ArrayLike | None = None,
        *,
        max_iter: int = 500,
        tol: float = 1e-9,
        standardize: bool = False,
    ) -> None:
        self.loadings = np.array(loadings, np.float64)
        self.noise_variances = np.array(noise_variances, np.float64)
        self.mean = np.zeros(self.loadings.shape[1]) if mean is None else np.array(mean, np.float64)
        self.pivot, self.unit = self.mean.copy(), np.ones(len(self.mean))
        self.max_iter, self.tol, self.standardize = max_iter, tol, standardize
        if not (np.isfinite(self.noise_variances) & (self.noise_variances > 0)).all():
            what = f"noise_variances must be finite and above 0, got {self.noise_variances.min():g}"
            raise UserValueError(what, "noise_variances")

    @property
    def n_parameters(self) -> int:
        """Loadings, noise variances and the mean."""
        return int(self.loadings.size + self.noise_variances.size + self.mean.size)

    def state(self) -> dict[str, Array]:
        """Loadings, noise variances, mean, units, and the point that sums are taken about."""
        return {name: getattr(self, name) for name in STATE}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take the arrays over."""
        for name in STATE:
            setattr(self, name, np.array(state[name], np.float64))

    @property
    def precision(self) -> Floats:
        """P, shape (d, d), of the rows in their own units."""
        return _precision(self.loadings, self.noise_variances) / np.outer(self.unit, self.unit)

    def covariance(self) -> Floats:
        """P^-1, shape (d, d)."""
        return np.asarray(np.linalg.inv(self.precision), np.float64)

    def log_prob(self, x: Array) -> Array:
        """Log density of each row in nats."""
        away, precision = np.asarray(x, np.float64) - self.mean, self.precision
        log_determinant = np.linalg.slogdet(precision)[1] - len(self.mean) * math.log(2 * math.pi)
        found: Array = 0.5 * (log_determinant - ((away @ precision) * away).sum(1))
        return found

    def sample(self, n: int, noise: Noise) -> Array:
        """n rows, by the Cholesky factor of the precision."""
        z = noise.child("rows").normal((n, len(self.mean)), like=self.mean)
        found: Array = self.mean + np.linalg.solve(np.linalg.cholesky(self.precision).T, z.T).T
        return found

    def cells(self, x: Array, missing: Array) -> CellMoments:
        """Log density of the known cells of each row, and mean and variance of the missing ones given them."""
        return self.normal_cells().moments(x, missing)

    def draw_cells(self, x: Array, missing: Array, noise: Noise) -> Array:
        """The rows with a joint draw of the missing cells of each, given the known ones."""
        return self.normal_cells().draw(x, missing, noise)

    def normal_cells(self) -> NormalCells:
        """The density as a normal one."""
        return NormalCells([0.0], [self.mean], [self.covariance()])

    # --- maximum likelihood -------------------------------------------------------------------------------------------

    def moments(self, x: Array, weight: Array) -> dict[str, Array]:
        """Sums about the pivot: weight, x, x x^T."""
        centered = np.asarray(x, np.float64) - self.pivot
        weighted = centered * np.asarray(weight, np.float64)[:, None]
        return {"weight": np.asarray(weight, np.float64).sum(), "sum": weighted.sum(0), "square": weighted.T @ centered}

    def solve(self, moments: Mapping[str, Array]) -> dict[str, float]:
        """Loadings and noise variances by L-BFGS on the exact likelihood, begun at the eigenvectors of the covariance.

        The experts begin with equal shares of the least variances, each stretched along an eigenvector, of the
        greatest eigenvalue first, and turned at random, by little and by much: the best of three ends is taken, the
        first of equal ones. The turns are the loadings from before.
        """
        shift = moments["sum"] / moments["weight"]
        covariance = moments["square"] / moments["weight"] - np.outer(shift, shift)
        variance = np.maximum(np.diag(covariance), 0.0)
        if self.standardize:
            self.unit = np.sqrt(np.where(variance > 0, variance, 1.0))
        scaled = covariance / np.outer(self.unit, self.unit)
        scale = float(np.trace(scaled)) / len(shift) or 1.0
        ends = [self._end(scaled / scale, turn) for turn in TURNS]
        lowest = min(end.fun for end in ends)
        best = next(end for end in ends if end.fun <= lowest + EQUAL)
        n, d = self.loadings.shape
        log_noise = best.x[n * d :]
        self.mean = self.pivot + shift
        self.loadings = math.sqrt(scale) * best.x[: n * d].reshape(n, d)
        self.noise_variances = scale * np.exp(log_noise)
        if (log_noise <= math.log(FLOOR)).any() and not current_group().rank:
            what = "the rows lie in a plane: noise variances are at their least; use fewer columns for a density"
            warnings.warn(what, UserWarning, stacklevel=4)
        log_volume = 0.5 * d * math.log(scale) + float(np.log(self.unit).sum())
        return {"log_likelihood": -float(best.fun) - log_volume, "iterations": float(best.nit)}

    def _end(self, target: Floats, turn: float) -> Any:
        """Where L-BFGS ends that begins so far from the eigenvectors, SciPy's answer."""
        n, d = self.loadings.shape
        values, vectors = np.linalg.eigh(target)
        values, vectors = np.maximum(values[::-1], FLOOR), vectors[:, ::-1]
        which = np.arange(n) % d
        rest = n * max(float(values[min(n, d - 1) :].mean()), 2 * FLOOR)
        first = np.sqrt(n * values[which])[:, None] * (vectors.T[which] + turn / math.sqrt(d) * self.loadings)
        begin = np.concatenate([first.ravel(), np.full(n, math.log(rest))])
        far = REACH * math.sqrt(n * d)  # a line search that tries more would overflow
        bounds = [(-far, far)] * (n * d) + [(math.log(FLOOR), 2 * math.log(far))] * n
        return minimize(
            _loss, begin, (target, n), "L-BFGS-B", jac=True, bounds=bounds,
            options={"maxiter": self.max_iter, "ftol": self.tol / max(d, 1), "gtol": 1e-9, "maxfun": 10**9},
        )  # fmt: skip


def _precision(loadings: Floats, noise: Floats) -> Floats:
    """The sum of the experts' precisions: (I - w w^T / (s + |w|^2)) / s each."""
    shrunk = loadings / (noise * (noise + (loadings * loadings).sum(1)))[:, None]
    found: Floats = (1 / noise).sum() * np.eye(loadings.shape[1]) - shrunk.T @ loadings
    return found


def _loss(values: Floats, target: Floats, n: int) -> tuple[float, Floats]:
    r"""Minus the log-likelihood of a row with this covariance, in nats, and its gradient by w and log s.

    With the slope :math:`G = (S - P^{-1}) / 2` by P and :math:`Q_i = (s_i I + w_i w_i^T)^{-1}`, that by the covariance
    of an expert is :math:`-Q_i G Q_i`; :math:`Q_i w_i = w_i / (s_i + |w_i|^2)`.
    """
    d = len(target)
    w, s = values[: n * d].reshape(n, d), np.exp(values[n * d :])
    precision = _precision(w, s)
    loss = 0.5 * (float((precision * target).sum()) - np.linalg.slogdet(precision)[1] + d * math.log(2 * math.pi))
    slope = 0.5 * (target - np.linalg.inv(precision))
    length = (w * w).sum(1)
    whole = s + length
    seen = (w / whole[:, None]) @ slope  # G Q w, a row for each expert
    along = (seen * w).sum(1)
    by_w = -2 * (seen - w * (along / whole)[:, None]) / s[:, None]
    # Q^2 = (I - w w^T (whole + s) / whole^2) / s^2
    trace = (np.trace(slope) - along * (whole + s) / whole) / s**2
    return float(loss), np.concatenate([by_w.ravel(), -s * trace])


class ProductOfPPCA(FillsExactly, Standardized, System):
    r"""Product of probabilistic PCA experts: a normal density that each expert relaxes along one direction.

    An expert is the density of probabilistic principal component analysis with one factor, :math:`N(0, \sigma_i^2 I +
    w_i w_i^T)`; their product is normal with precision :math:`\sum_i (\sigma_i^2 I + w_i w_i^T)^{-1}`: each expert adds
    precision in all directions, least along its own, as a spike-and-slab machine does with its spikes on.

    Attributes
    ----------
    loadings_ : array of shape (n_components, n_features)
        w_i, of columns in units of their standard deviations unless ``standardize`` is off.
    noise_variances_ : array of shape (n_components,)
        sigma_i^2, likewise.
    mean_ : array of shape (n_features,)

    Notes
    -----
    Each expert adds precision, so that variances shrink with their number unless the experts' own variances grow; the
    fit sees to that. A direction that all but expert i leave alone keeps at least the share :math:`1 - p_i` of the
    greatest precision, with :math:`p_i` the expert's share of :math:`\sum_i \sigma_i^{-2}`: with many experts and few
    along each direction variances differ little. Of the likelihood's maxima the fit finds the best of three. It says
    what the density is, not what the experts are: with :math:`v_i = w_i / \sqrt{\sigma_i^2 (\sigma_i^2 + |w_i|^2)}`
    the precision is :math:`\sum_i \sigma_i^{-2} I - \sum_i v_i v_i^T`, which rotations of the v among each other leave
    as it is. Cost of an iteration O(n_components d^2 + d^3).
    Sources: Williams and Agakov (2002), "Products of Gaussians and probabilistic minor component analysis"; Courville,
    Bergstra and Bengio (2011), "A spike and slab restricted Boltzmann machine".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 1)) * [2.0, 2.0, 0.0] + np.random.default_rng(1).normal(
    ...     size=(500, 3)
    ... )
    >>> machine = ProductOfPPCA(n_components=2, standardize=False, random_state=0).fit(X)
    >>> bool(machine.get_covariance()[0, 1] > 3)
    True
    """

    name: ClassVar[str] = "product-of-ppca"
    tasks: ClassVar[tuple[str, ...]] = ("density",)
    model_class: ClassVar[type] = ProductOfPPCAModel
    domain = Real(largest=1e100)

    n_components: Annotated[int, "[1, inf)", Doc("Experts, one direction each.")] = 2
    max_iter: Annotated[int, "[1, inf)", Doc("Iterations of L-BFGS at most.")] = 500
    tol: Annotated[
        float, "[0, inf)", Doc("End when an iteration gained no more than this, in nats per row; 0 runs on.")
    ] = 1e-9

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        if len(examples.X) < 2:
            raise UserValueError("n_samples=1 has no variance", "X", "give at least 2 rows")
        return examples

    def make(self, n_features: int, dtype: str) -> ProductOfPPCAModel:
        shape = (self.n_components, n_features)
        return ProductOfPPCAModel(
            np.zeros(shape), np.ones(self.n_components), max_iter=self.max_iter, tol=self.tol,
            standardize=self.standardize,
        )  # fmt: skip

    def initialize(self, model: ProductOfPPCAModel, examples: Examples, noise: Noise) -> None:
        model.pivot = np.average(examples.X.astype(np.float64), axis=0, weights=examples.weight)
        model.loadings = noise.child("loadings").normal(model.loadings.shape, like=model.mean)

    def procedure(self, examples: Any) -> Procedure:
        return ClosedForm()

    # --- what was learned ---------------------------------------------------------------------------------------------

    @property
    def loadings_(self) -> Array:
        """w_i in rows."""
        return self.model_.state()["loadings"]

    @property
    def noise_variances_(self) -> Array:
        """sigma_i^2."""
        return self.model_.state()["noise_variances"]

    @property
    def mean_(self) -> Array:
        """Mean of the density."""
        return self.model_.state()["mean"]

    def get_covariance(self) -> Array:
        """Covariance of the density, shape (d, d)."""
        check_is_fitted(self)
        found: Array = self.model_.covariance()
        return found
