"""Bayesian linear regression: a distribution of the weights and, of every prediction, its density."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import varies
from gnomon.distributions.domains import Real
from gnomon.distributions.positive import InverseGamma
from gnomon.distributions.real import Normal, StudentT
from gnomon.distributions.targets import Target
from gnomon.distributions.vectors import MultivariateNormal, MultivariateStudentT
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import DrawsNothing
from gnomon.system.prediction import DensityRegressor
from gnomon.systems.linear._chunks import InChunks
from gnomon.systems.linear._least_squares import LeastSquares, factor_of
from gnomon.systems.linear.weight_priors import Posterior, Products, WeightPrior

__all__ = ["BayesianRegression", "BayesianRegressionModel"]

Floats = np.ndarray[Any, np.dtype[np.float64]]


class BayesianRegressionModel:
    r"""y = phi^T theta + noise with phi = (x - origin, 1) and theta ~ N(mean, noise * root root^T).

    Parameters
    ----------
    n_features : int
    intercept : {"flat", "normal", "none"}
        What is believed of the intercept.
    """

    sums: Floats
    """The factor of all rows after a fit, about `origin`; neither saved nor learned."""
    origin: dict[str, Floats]

    def __init__(self, n_features: int, intercept: str = "flat") -> None:
        self.intercept = intercept
        d = n_features
        self._state: dict[str, Floats] = {
            "shift": np.zeros(d), "center": np.zeros(1), "point": np.zeros(d), "mean": np.zeros(d + 1),
            "root": np.zeros((d + 1, d + 1)), "noise": np.ones(1), "inverse_df": np.zeros(1), "ratio": np.ones(1),
            "log_evidence": np.zeros(1),
        }  # fmt: skip

    def __getattr__(self, name: str) -> Floats:
        """The arrays of the state, by name."""
        try:
            return self.__dict__["_state"][name]
        except KeyError:
            raise AttributeError(name) from None

    def state(self) -> dict[str, Array]:
        """Where the factor was taken about, the distribution of theta, that of the noise, and the evidence."""
        return self._state

    def load(self, state: Mapping[str, Array]) -> None:
        """Take the arrays over."""
        self._state = {name: np.array(state[name], dtype=np.float64) for name in self._state}

    def moments(self, x: Floats, y: Floats, weight: Floats) -> Floats:
        """Triangular factor of the weighted rows (1, x - shift, y - center)."""
        return factor_of(x, y, weight, self.shift, self.center).astype(np.float64, copy=False)

    def solve(self, whole: Floats, prior: WeightPrior, standardize: bool, n: int) -> dict[str, float]:
        """The posterior, from the factor of all n rows.

        In the right singular vectors V of the design A = U S V^T the weights are independent, with mean
        s u^T y / (s^2 + ratio) and variance noise / (s^2 + ratio).
        """
        self.sums = whole
        self.origin = {name: self._state[name].copy() for name in ("shift", "center")}
        d, total = len(self.shift), whole[0, 0] ** 2
        design, target, scale = self._design(whole, standardize)
        u, s, vt = np.linalg.svd(design, full_matrices=False)
        along = np.matmul(u.T, target)
        flat = self.intercept == "flat"
        products = Products(
            s**2, along, float(((target - np.matmul(u, along)) ** 2).sum()), total - flat,
            -0.5 * math.log(total) if flat else 0.0,
        )  # fmt: skip
        posterior = prior.posterior(products)
        mean, root, p = np.zeros(d + 1), np.zeros((d + 1, d + 1)), len(scale)
        mean[:p] = np.matmul(vt.T, s * along / (s**2 + posterior.ratio)) / scale
        root[:p, :p] = vt.T / np.sqrt(s**2 + posterior.ratio) / scale[:, None]
        point = np.zeros(d)
        if flat:
            point = self.shift + whole[0, 1 : d + 1] / whole[0, 0]
            mean[d] = self.center[0] + whole[0, d + 1] / whole[0, 0]
            root[d, d] = 1 / math.sqrt(total)
        self._take(mean, root, point, posterior)
        return {"log_evidence": posterior.log_evidence, "noise_variance": posterior.noise, "ratio": posterior.ratio}

    def _take(self, mean: Floats, root: Floats, point: Floats, found: Posterior) -> None:
        numbers = {
            "noise": found.noise,
            "inverse_df": 1 / found.df,
            "ratio": found.ratio,
            "log_evidence": found.log_evidence,
        }
        self._state.update(mean=mean, root=_triangular(root), point=point)
        for name, value in numbers.items():
            self._state[name] = np.array([value])

    def _design(self, whole: Floats, standardize: bool) -> tuple[Floats, Floats, Floats]:
        """Factors of the design and of the target, and the columns' units."""
        d = len(self.shift)
        rows = whole[1:, 1:]
        spread = np.sqrt((rows[:, :d] ** 2).sum(0)) / abs(whole[0, 0])
        scale = np.ones(d)
        if standardize:
            scale = np.where(varies(spread, self.shift + whole[0, 1 : d + 1] / whole[0, 0]), spread, 1.0)
        if self.intercept != "flat":
            # (1, x - shift, y - center) becomes (1, x, y) by adding multiples of the first column
            rows = whole[:, 1:] + whole[:, :1] * np.concatenate([self.shift, self.center])
        design = rows[:, :d] / scale
        if self.intercept == "normal":
            design, scale = np.concatenate([design, whole[:, :1]], axis=1), np.append(scale, 1.0)
        return design, rows[:, d], scale

    @property
    def df(self) -> float:
        """Degrees of freedom of the predictions' Student t; infinite where they are normal."""
        return 1 / float(self.inverse_df[0]) if self.inverse_df[0] else math.inf

    # --- what it says of rows -----------------------------------------------------------------------------------

    def features(self, x: Array) -> Floats:
        """(x - point, 1) of each row, shape (n, d + 1)."""
        return np.concatenate([x - self.point, np.ones((len(x), 1))], axis=1)

    def predict(self, x: Array) -> Floats:
        """Expected y, shape (n,)."""
        return np.matmul(x - self.point, self.mean[:-1]) + self.mean[-1]

    def predictive(self, x: Array) -> Normal | StudentT:
        """The distribution of y given each row, theta averaged out."""
        spread = (np.matmul(self.features(x), self.root) ** 2).sum(1)
        scale = np.sqrt(self.noise * (1 + spread))
        mean = self.predict(x)
        return Normal(mean, scale) if math.isinf(self.df) else StudentT(self.df, mean, scale)

    def noise_posterior(self) -> InverseGamma:
        """The distribution of the variance of the noise, where it has one."""
        return InverseGamma(self.df / 2, self.df / 2 * self.noise[0])

    def draw(self, x: Array, noise: Noise) -> Floats:
        """y for every row, of one theta and one variance drawn from the posterior."""
        known = math.isinf(self.df)
        variance = float(self.noise[0]) if known else float(self.noise_posterior().sample(noise.child("noise")))
        white = noise.child("weights").normal((1, len(self.mean)), like=self.mean)[0]
        theta = self.mean + math.sqrt(variance) * np.matmul(self.root, white)
        around = noise.child("target").normal((len(x), 1), like=self.mean)[:, 0]
        targets: Floats = np.matmul(self.features(x), theta) + math.sqrt(variance) * around
        return targets


def _triangular(root: Floats) -> Floats:
    """The root of the same covariance that is lower triangular with no negative diagonal: there is only one."""
    r = np.asarray(np.linalg.qr(root.T, mode="r"))
    lower: Floats = np.ascontiguousarray((r * np.where(r.diagonal() < 0, -1.0, 1.0)[:, None]).T)
    return lower


class BayesianRegression(InChunks, DrawsNothing, DensityRegressor):
    r"""Linear regression with a prior on the weights: the posterior, and predictions averaged over it.

    :math:`y_i = w^T x_i + b + \epsilon_i` with noise :math:`\epsilon_i \sim N(0, \sigma^2)` and weights
    :math:`w_j \sim N(0, v)`, a prior that does not depend on x: the model is :math:`p(y, w \mid x) = p(y \mid x, w)
    p(w)`. The posterior is :math:`N(m, \sigma^2 S)` with :math:`S^{-1} = X^T X + (\sigma^2 / v) I` and
    :math:`m = S X^T y`, the predictive density :math:`N(x^T m, \sigma^2 (1 + x^T S x))`. It gives densities of y, none
    of x: it cannot draw rows.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Posterior mean of w.
    intercept_ : float
        Posterior mean of b.
    posterior_ : MultivariateNormal or MultivariateStudentT
        Law of (w, b), without b where there is none.
    covariance_ : array of shape (n_features + 1, n_features + 1)
        Posterior covariance of (w, b); infinite where Student's t has none.
    noise_variance_ : float
        The variance of the noise, or its posterior mean.
    noise_posterior_ : InverseGamma
        Law of the variance of the noise, of "normal-inverse-gamma" alone.
    log_evidence_ : float
        Log density of the targets given the rows, everything unknown averaged out (of "evidence": highest over the
        variances). With a flat intercept, densities of which only differences between models have a meaning.
    history_ : dict of lists
        ``log_evidence``, ``noise_variance``, ``ratio`` (of the noise's variance to a weight's).

    Notes
    -----
    A row of weight k is k rows. Cost O(n d^2), by a triangular factor of the rows, so that the condition number is not
    squared; memory d^2. Predictions take O(d^2) a row for their deviation. With a flat intercept "evidence" counts
    n - 1 rows, where scikit-learn's BayesianRidge, which takes the intercept as known, counts n and leaves its doubt
    out of the predictions' spread. Sources: MacKay (1992); Bishop (2006), sections 3.3 and 3.5.

    Examples
    --------
    >>> exact = BayesianRegression(weight_prior="normal", intercept="normal")
    >>> exact = exact.fit([[1.0], [2.0], [3.0]], [2.0, 3.0, 5.0])
    >>> mean, spread = exact.predict([[2.5]], return_std=True)
    >>> mean.round(4).tolist(), (spread**2).round(4).tolist()
    ([3.8333], [1.4167])
    """

    name: ClassVar[str] = "bayesian-regression"
    model_class: ClassVar[type] = BayesianRegressionModel
    domain = Real(largest=1e50)
    target: ClassVar[Target] = Target(largest=1e50)
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"weight_prior": WeightPrior}

    weight_prior: Annotated[
        str | Recipe,
        Doc(
            "Where the variances come from: chosen so that the target is most probable, given, or with a prior of "
            "their own."
        ),
    ] = "evidence"
    intercept: Annotated[
        Literal["flat", "normal", "none"],
        Doc("What is believed of b: nothing (uniform on the whole line), the same as of a weight, or that it is 0."),
    ] = "flat"
    standardize: Annotated[
        bool, Doc("Whether the prior is about the weights of columns divided by their spread (divisor n) instead.")
    ] = False
    dtype: Annotated[Literal["float32", "float64"] | None, Doc("Of the rows; the posterior is in float64.")] = None

    def make(self, n_features: int, dtype: str) -> BayesianRegressionModel:
        return BayesianRegressionModel(n_features, self.intercept)

    def initialize(self, model: BayesianRegressionModel, examples: Examples, noise: Noise) -> None:
        weight = examples.weight.astype(np.float64)
        model.state()["shift"][:] = np.matmul(weight, examples.X.astype(np.float64)) / weight.sum()
        model.state()["center"][:] = np.matmul(weight, np.asarray(examples.y)) / weight.sum()

    def procedure(self, examples: Any) -> LeastSquares:
        return LeastSquares(self.recipe("weight_prior"), self.standardize)

    def target_distribution(self, rows: np.ndarray[Any, Any]) -> Normal | StudentT:
        return self.model_.predictive(rows)

    def draw_targets(self, rows: np.ndarray[Any, Any], noise: Noise) -> Floats:
        """The rows' targets share the weights that are drawn: they hang together as the posterior says."""
        return self.model_.draw(rows, noise)

    def _root(self) -> tuple[Floats, Floats]:
        """Mean and root of the covariance of (w, b) for columns as they were given."""
        check_is_fitted(self)
        mean, root, point = self.model_.mean.copy(), self.model_.root.copy(), self.model_.point
        mean[-1] -= np.matmul(point, mean[:-1])
        root[-1] -= np.matmul(point, root[:-1])
        return mean, root

    @property
    def coef_(self) -> Array:
        """Posterior mean of the weights."""
        return self._root()[0][:-1]

    @property
    def intercept_(self) -> float:
        """Posterior mean of the intercept."""
        return float(self._root()[0][-1])

    @property
    def posterior_(self) -> MultivariateNormal | MultivariateStudentT:
        """Law of the weights and the intercept."""
        mean, root = self._root()
        kept = len(mean) - (self.model_.intercept == "none")
        scale = self.model_.noise[0] * np.matmul(root, root.T)[:kept, :kept]
        if math.isinf(self.model_.df):
            return MultivariateNormal(mean[:kept], scale)
        return MultivariateStudentT(self.model_.df, mean[:kept], scale)

    @property
    def covariance_(self) -> Array:
        """Posterior covariance of the weights and the intercept."""
        root, noise = self._root()[1], self.noise_variance_
        return np.full(root.shape, np.inf) if math.isinf(noise) else noise * np.matmul(root, root.T)

    @property
    def noise_variance_(self) -> float:
        """Variance of the noise, or its posterior mean: infinite for a shape up to 1."""
        check_is_fitted(self)
        noise, df = float(self.model_.noise[0]), self.model_.df
        if math.isinf(df):
            return noise
        return noise * df / (df - 2) if df > 2 else math.inf

    @property
    def noise_posterior_(self) -> InverseGamma:
        """Posterior of the variance of the noise."""
        check_is_fitted(self)
        if math.isinf(self.model_.df):
            raise AttributeError('noise_posterior_ belongs to weight_prior="normal-inverse-gamma"')
        return self.model_.noise_posterior()

    @property
    def log_evidence_(self) -> float:
        """Log density in nats of the training targets given their rows."""
        check_is_fitted(self)
        return float(self.model_.log_evidence[0])
