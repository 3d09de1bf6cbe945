"""Mixture of Gaussians with full, tied, diagonal or spherical covariances, fitted by expectation maximization."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import xlogy
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Group, Noise
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.distributions.gaussian import FORMS
from gnomon.errors import UserValueError, nearest
from gnomon.inference.exact.cells import CellMoments, NormalCells
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.mixtures._base import Mixture, MixtureModel, shares
from gnomon.systems.mixtures.covariances import Covariance
from gnomon.systems.mixtures.seeding import clusters, far_apart, representative
from gnomon.training.group import current as current_group
from gnomon.training.procedure import Problem

__all__ = ["GaussianMixture", "GaussianMixtureModel"]

STARTING_ROWS = 1 << 17
"""Rows, drawn by weight, that the starting values are taken from where there are more."""


class GaussianMixtureModel(MixtureModel):
    r"""p(x) = sum_k weights_k N(x; means_k, covariance_k).

    Parameters
    ----------
    weights : array of shape (K,)
        Fractions of the components, >= 0, summing to 1.
    means : array of shape (K, d)
    covariances : array
        (K, d, d) full, (d, d) tied, (K, d) diag, (K,) spherical; positive definite.
    form : {"full", "tied", "diag", "spherical"}, default "full"
    floor : float or array of shape (d,), default 0
        Smallest variances that a fit may give a component.

    Raises
    ------
    UserValueError
        Weights that do not sum to 1 within 1e-6, a covariance that is not positive definite, shapes that do not agree.

    Examples
    --------
    >>> model = GaussianMixtureModel([0.5, 0.5], [[-1.0], [1.0]], [1.0, 1.0], "spherical")
    >>> model.log_prob([[-2.0], [-1.0], [1.0], [2.0]]).sum().round(6)
    np.float64(-7.158187)
    """

    def __init__(
        self, weights: Array, means: Array, covariances: Array, form: str = "full", floor: Array | float = 0.0
    ) -> None:
        if form not in FORMS:
            close = nearest(form, list(FORMS)) or list(FORMS)
            raise UserValueError(f"unknown form {form!r}", "form", f"did you mean {', '.join(close)}?")
        self.weights = shares(weights)
        self.normals = FORMS[form](means, covariances)
        self.floor = np.array(floor, dtype=np.float64)
        self.starts: list[dict[str, Array]] = []
        if len(self.means) != len(self.weights):
            raise UserValueError(
                f"means must have {len(self.weights)} rows, one per weight, got shape {self.means.shape}", "means"
            )

    @property
    def means(self) -> Array:
        """Means, shape (K, d)."""
        return self.normals.means

    @property
    def n_parameters(self) -> int:
        """Free parameters: K - 1 shares, K d means, and those of the covariances."""
        return len(self.weights) - 1 + self.normals.n_parameters

    def state(self) -> dict[str, Array]:
        """Weights, means and covariances."""
        return {"weights": self.weights, "means": self.means, "covariances": self.normals.covariances}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take weights, means and covariances over."""
        self.weights = np.array(state["weights"], dtype=np.float64)
        self.normals = type(self.normals)(state["means"], state["covariances"])

    def log_joint(self, x: Array) -> Array:
        """log weights_k p(x | k), shape (n, K)."""
        return self.normals.log_prob(x) + self.log_weights()

    def expect(self, x: Array, weight: Array) -> dict[str, Array]:
        """Expected rows and moments of each component."""
        return self.normals.expect(x, self.log_weights(), weight)

    def maximize(self, statistics: dict[str, Array]) -> None:
        """Shares, means and covariances from the sums; a component that no row belongs to keeps mean and covariance."""
        self.weights = statistics["rows"] / statistics["rows"].sum()
        self.normals.maximize(statistics, self.floor)

    def collect(self, x: Array, part: Array) -> dict[str, Array]:
        """Moments of each component."""
        return self.normals.collect(x, part)

    def own(self, rows: float) -> dict[str, Array]:
        """The moments that give these shares, means and covariances."""
        return self.normals.own(rows * self.weights)

    def expected_joint(self, statistics: Mapping[str, Array]) -> float:
        """Sum over rows of E log p(x, component)."""
        shares_of = float(xlogy(statistics["rows"], self.weights).sum())
        return shares_of + self.normals.expected_log_prob(statistics)

    def moved(self, statistics: Mapping[str, Array], before: Mapping[str, Array]) -> dict[str, Array]:
        """Moments about earlier means, in the coordinates of earlier covariances, about those of now."""
        then = type(self.normals)(before["means"], before["covariances"])
        return {**statistics, **self.normals.moved(statistics, then)}

    def log_prior(self) -> float:
        """There is no prior; the floor bounds the covariances."""
        return 0.0

    def sample(self, n: int, noise: Noise) -> Array:
        """n rows: a component by its share, then a row of it."""
        return self.normals.sample(self.components(n, noise.child("component")), noise.child("row"))

    # --- rows with missing cells --------------------------------------------------------------------------------------

    def cells(self, x: Array, missing: Array) -> CellMoments:
        """Log density of the known cells of each row, and mean and variance of the missing ones given them."""
        return self.normal_cells().moments(x, missing) if self._is_correlated else super().cells(x, missing)

    def draw_cells(self, x: Array, missing: Array, noise: Noise) -> Array:
        """The rows with a joint draw of the missing cells of each, given the known ones."""
        if self._is_correlated:
            return self.normal_cells().draw(x, missing, noise)
        return super().draw_cells(x, missing, noise)

    @property
    def _is_correlated(self) -> bool:
        """Whether columns depend on each other within a component."""
        return self.normals.form in ("full", "tied")

    def normal_cells(self) -> NormalCells:
        """The density as a mixture of normal ones."""
        return NormalCells(self.log_weights(), self.means, self.normals.dense())

    def log_joint_seen(self, x: Array, missing: Array) -> Array:
        """log weights_k p(known cells | k), shape (n, K), of independent columns."""
        seen, variances = ~missing, self.column_variances()
        found = np.empty((len(x), len(self.weights)))
        for k, (mean, variance) in enumerate(zip(self.means, variances, strict=True)):
            each = (x - mean) ** 2 / variance + np.log(2 * np.pi * variance)
            found[:, k] = -0.5 * np.where(seen, each, 0.0).sum(1)
        return found + self.log_weights()

    def column_variances(self) -> Array:
        """Of each column in each component, shape (K, d), where these are independent."""
        return np.broadcast_to(self.normals.covariances.reshape(len(self.weights), -1), self.means.shape)

    def draw_rows(self, component: Array, noise: Noise) -> Array:
        """A row of each of these components."""
        return self.normals.sample(component, noise)


class GaussianMixture(Mixture):
    r"""Density and clusters of real rows: a mixture of normal distributions.

    :math:`p(x) = \sum_k \pi_k N(x; \mu_k, \Sigma_k)`, fitted by EM under the constraint that no component's variance
    falls below ``covariance__floor`` times the data's, without which the likelihood has no maximum (a component may
    shrink onto one row). The log-likelihood never falls from one iteration to the next. The fit does not depend on the
    columns' offsets, nor (but for "spherical") on their units.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
    means_ : array of shape (n_components, n_features)
    covariances_ : array
        (n_components, d, d) full, (d, d) tied, (n_components, d) diag, (n_components,) spherical.
    labels_ : array of shape (n,)
        Component of each training row.
    history_ : dict of lists
        ``log_likelihood`` (nats per row) by iteration; with several starts also ``start``.

    Notes
    -----
    A start is k-means from rows far apart (k-means++), of columns brought to spread 1 but for "spherical". Cost per
    iteration O(n K d^2) full and tied, O(n K d) else; memory n d + K d^2, since rows are taken in blocks. With one
    shared covariance e I and e to 0 the iterations are those of k-means. Sources: Dempster, Laird and Rubin (1977);
    Bishop (2006), section 9.2; floor: Hathaway (1985).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + np.random.default_rng(0).normal(size=(40, 2))
    >>> mixture = GaussianMixture(n_components=2, covariance="diag", random_state=0).fit(X)
    >>> sorted(np.bincount(mixture.labels_).tolist())
    [20, 20]
    """

    name: ClassVar[str] = "gaussian-mixture"
    model_class: ClassVar[type] = GaussianMixtureModel
    domain = Real(largest=1e100)
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"covariance": Covariance}
    numpy_products: ClassVar[bool] = True

    covariance: Annotated[
        str | Recipe,
        Doc("Form of the covariances: a matrix each, one matrix for all, variances each, one variance each."),
    ] = "full"

    def _too_few(self, distinct: int) -> str:
        return f"{self.n_components} components, {distinct} distinct rows; covariance floor used; use fewer components"

    def _form(self) -> Covariance:
        form = self.recipe("covariance")
        assert isinstance(form, Covariance)
        return form

    def problem(
        self, model: GaussianMixtureModel, examples: Examples, noise: Noise, group: Group, validation: Any = None
    ) -> Problem:
        rows = int((examples.weight > 0).sum())
        if model.n_parameters > rows >= self.n_components and current_group().rank == 0:
            what = f"{self.n_components} components take {model.n_parameters:,} parameters for {rows:,} rows"
            remedy = "fewer of them (n_components; gnomon clusters says how many) or covariance='diag'"
            warnings.warn(f"{what}, which are learned by heart: choose {remedy}", UserWarning, stacklevel=3)
        return super().problem(model, examples, noise, group, validation)

    def make(self, n_features: int, dtype: str) -> GaussianMixtureModel:
        k, form = self.n_components, self._form()
        normals = form.build(np.zeros((k, n_features)), np.ones(n_features))
        return GaussianMixtureModel(np.full(k, 1 / k), normals.means, normals.covariances, normals.form)

    def initialize(self, model: GaussianMixtureModel, examples: Examples, noise: Noise) -> None:
        form = self._form()
        chosen = representative(examples.weight, STARTING_ROWS, noise.child("rows"))
        X = (examples.X if chosen is None else examples.X[chosen]).astype(np.float64)
        weight = examples.weight.astype(np.float64) if chosen is None else np.ones(len(X))
        X, weight = X[weight > 0], weight[weight > 0]
        first = X[0].copy()
        X -= first  # a constant column becomes 0 to the last bit
        center = np.matmul(weight, X) / weight.sum()
        X -= center
        variance = usable(np.matmul(weight, X * X) / weight.sum(), first)
        model.floor = form.floor * variance
        unit = np.sqrt(variance if form.by_column else np.full_like(variance, variance.mean()))
        model.starts = [
            _begin(form, X, weight, variance, unit, self.n_components, noise.child("seeds").at(i))
            for i in range(self.n_init)
        ]
        for start in model.starts:
            start["means"] += first + center
        model.load(model.starts[0])

    def finish(self, model: GaussianMixtureModel) -> None:
        held = int(model.normals.at_floor(model.floor).sum()) if model.floor.any() else 0
        if held and current_group().rank == 0:
            warnings.warn(
                f"covariance floor used in {held} of {self.n_components} components: their rows coincide or lie in a "
                "plane; use fewer components or columns for a density",
                UserWarning, stacklevel=4,
            )  # fmt: skip

    @property
    def covariances_(self) -> Array:
        """Covariances in their form."""
        check_is_fitted(self)
        return self.model_.normals.covariances


def usable(variance: Array, value: Array) -> Array:
    """Variances to measure the floor by: of a constant column its square, or 1 where that is 0 too."""
    least = 1e-290
    square = np.where(value * value > least, value * value, 1.0)
    return np.where(variance > least, variance, square)


def _begin(
    form: Covariance, x: Array, weight: Array, variance: Array, unit: Array, k: int, noise: Noise
) -> dict[str, Array]:
    """Shares and means of clusters, and for every component the covariance of all rows about their cluster's mean.

    A covariance of the cluster alone would be singular where it has few rows, and EM would stay there.
    """
    z = x / unit
    seeds = far_apart(z, weight, k, noise)
    labels = clusters(z, weight, z[seeds])
    part = np.zeros((len(x), k))
    part[np.arange(len(x)), labels] = weight
    rows = part.sum(0)
    means = np.where(rows[:, None] > 0, np.matmul(part.T, x) / np.where(rows > 0, rows, 1.0)[:, None], x[seeds])
    one = form.build(np.zeros((1, x.shape[1])), variance)
    one.maximize(one.collect(x - means[labels], weight[:, None]), form.floor * variance)
    return {"weights": rows / rows.sum(), "means": means, "covariances": form.repeated(one, k)}
