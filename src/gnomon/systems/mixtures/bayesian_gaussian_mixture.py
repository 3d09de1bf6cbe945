"""Mixture of Gaussians whose parameters have distributions too, fitted by variational Bayes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, digamma, gammaln, multigammaln
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.systems.mixtures._base import Mixture
from gnomon.systems.mixtures.gaussian_mixture import STARTING_ROWS, GaussianMixtureModel, usable
from gnomon.systems.mixtures.seeding import clusters, far_apart, representative

__all__ = ["BayesianGaussianMixture", "BayesianGaussianMixtureModel"]

Floats = NDArray[np.float64]

SINGULAR = 1e-6
"""Share of the columns' variances that the prior covariance has on its diagonal beside that of the rows."""


class BayesianGaussianMixtureModel(GaussianMixtureModel):
    r"""The factors ``q(weights) prod_k q(mean_k, precision_k)`` beside those of the components, and the prior.

    .. math:: q(\mu_k, \Lambda_k) = N(\mu_k; m_k, (\beta_k \Lambda_k)^{-1}) \, W(\Lambda_k; \nu_k, W_k), \qquad
              \pi \sim \text{Dir}(\alpha) \text{ or } \pi_k = v_k \prod_{j < k} (1 - v_j), \; v_k \sim \text{Beta}

    Of form "diag" the precisions are independent gamma variables of the columns, ``Gamma(nu_k / 2, C_kj / 2)``. As a
    density it is the mixture at the mean weights, means and precisions.

    Parameters
    ----------
    n_components, n_features : int, at least 1
    form : {"full", "diag"}
    sticks : bool
        Whether the weights are broken off a stick (a truncated Dirichlet process); else a Dirichlet distribution.
    """

    def __init__(self, n_components: int, n_features: int, form: str = "full", *, sticks: bool = True) -> None:
        k, d = n_components, n_features
        covariances = np.repeat(np.eye(d)[None], k, 0) if form == "full" else np.ones((k, d))
        super().__init__(np.full(k, 1 / k), np.zeros((k, d)), covariances, form)
        self.sticks = sticks
        self.shape = np.ones((2 if sticks else 1, k))
        """Of the weights' distribution: a and b of each stick, or alpha."""
        self.strength, self.df = np.ones(k), np.full(k, float(d))
        self.prior: dict[str, Array] = {
            "shape": np.float64(1.0), "strength": np.float64(1.0), "df": np.float64(d), "mean": np.zeros(d),
            "scatter": covariances[0].copy(),
        }  # fmt: skip

    def state(self) -> dict[str, Array]:
        """Parameters of the factors, and of the prior under names that begin with ``prior.``."""
        own = {"shape": self.shape, "strength": self.strength, "df": self.df}
        prior = {f"prior.{name}": value for name, value in self.prior.items()}
        return {"means": self.means, "covariances": self.normals.covariances} | own | prior

    def load(self, state: Mapping[str, Array]) -> None:
        """Take factors and prior over."""
        self.prior = {name: np.array(state[f"prior.{name}"], np.float64) for name in self.prior}
        self.shape, self.strength, self.df = (np.array(state[name], np.float64) for name in ("shape", "strength", "df"))
        self.normals = type(self.normals)(state["means"], state["covariances"])
        self.weights = self._mean_weights()

    # --- the two steps ------------------------------------------------------------------------------------------------

    def expect(self, x: Array, weight: Array) -> dict[str, Array]:
        """Sums over rows under the best factors of their components, and their part of the bound.

        ``log rho_k = E[log weight_k + log N(x; mean_k, precision_k)]`` is a log density at the mean precision and a
        constant for each component.
        """
        return self.normals.expect(x, self._offsets(), weight)

    def log_rho(self, x: Array) -> Array:
        """E[log p(x, component)], (n, K)."""
        return self.normals.log_prob(x) + self._offsets()

    def expected_joint(self, statistics: Mapping[str, Array]) -> float:
        """Sum over rows of E log p(x, component), parameters uncertain."""
        return float(statistics["rows"] @ self._offsets()) + self.normals.expected_log_prob(statistics)

    def own(self, rows: float) -> dict[str, Array]:
        """The sums, of so many rows, that the factors have learned from."""
        prior, held = self.prior, self.strength - self.prior["strength"]
        center = prior["mean"] + (self.strength / np.where(held > 0, held, 1.0))[:, None] * (self.means - prior["mean"])
        learned = self.normals.covariances * self._by_component(self.df) - prior["scatter"]
        scatter = learned - self._shrunk(held, center - prior["mean"])
        found = self.normals.sums_of(held, np.where(held[:, None] > 0, center, self.means), scatter)
        return {name: value * (rows / held.sum()) for name, value in found.items()}

    def maximize(self, statistics: dict[str, Array]) -> None:
        """The best factors of weights, means and precisions: the conjugate posterior of fractional rows."""
        rows, center, scatter = self.normals.scatters(statistics)
        self._learn(rows, center - self.prior["mean"], scatter)

    def begun(self, x: Floats, part: Floats, unit: Floats) -> dict[str, Array]:
        """The factors beside parts of rows, which are relative to the prior mean and have spreads like `unit`, (d,)."""
        k, d = self.means.shape
        spread = np.repeat(np.diag(unit * unit)[None], k, 0) if self.form == "full" else np.tile(unit * unit, (k, 1))
        normals = type(self.normals)(np.zeros((k, d)), spread)
        self._learn(*normals.scatters(normals.collect(x, part)))
        return {name: np.array(value) for name, value in self.state().items()}

    def _learn(self, rows: Floats, off: Floats, scatter: Floats) -> None:
        """The posterior of rows whose means are so far from the prior mean, and scatter so much about their own."""
        prior = self.prior
        self._weigh(rows)
        covariances = (prior["scatter"] + scatter + self._shrunk(rows, off)) / self._by_component(self.df)
        means = prior["mean"] + (rows / self.strength)[:, None] * off
        self.normals = type(self.normals)(means, covariances)

    def _shrunk(self, rows: Floats, off: Floats) -> Floats:
        """Scatter of so many rows so far from the prior mean, for that distance."""
        square = off[:, :, None] * off[:, None, :] if self.form == "full" else off * off
        return np.asarray(self._by_component(self.prior["strength"] * rows / self.strength) * square)

    def _by_component(self, values: Floats) -> Floats:
        """(K,) in as many axes as the covariances."""
        return values.reshape(-1, *(1,) * (self.normals.covariances.ndim - 1))

    def _weigh(self, rows: Floats) -> None:
        """What so many rows of each component say of weights, strengths and degrees of freedom."""
        prior, later = self.prior, np.append(np.cumsum(rows[::-1])[::-1][1:], 0.0)
        self.shape = np.stack([1 + rows, prior["shape"] + later]) if self.sticks else (prior["shape"] + rows)[None]
        self.strength, self.df = prior["strength"] + rows, prior["df"] + rows
        self.weights = self._mean_weights()

    def sort(self) -> None:
        """Put the components in the order of their rows, the most first: of sticks the order with the best bound.

        Two neighbors that change places move it by the log of the ratio of what is left after the first of them.
        """
        rows = self.strength - self.prior["strength"]
        order = np.argsort(-rows, kind="stable")
        self._weigh(rows[order])
        self.normals = type(self.normals)(self.means[order], self.normals.covariances[order])

    def log_prior(self) -> float:
        """Minus the divergence of the factors of weights, means and precisions from their prior, in nats."""
        return -(self._divergence_of_weights() + float(self._divergences().sum()))

    @property
    def form(self) -> str:
        """Of the covariances."""
        return self.normals.form

    # --- expectations under the factors -------------------------------------------------------------------------------

    def _offsets(self) -> Floats:
        """What a mean log density is above the log density at the means, with the weight of its component, (K,)."""
        d = self.means.shape[1]
        return np.asarray(self._mean_log_weights() + 0.5 * (self._mean_log_determinants() - d / self.strength))

    def _mean_log_determinants(self) -> Floats:
        """E[log |precision|] less the log determinant of the mean precision, (k,)."""
        d, nu = self.means.shape[1], self.df
        below = np.arange(d) if self.form == "full" else np.zeros(d)
        return np.asarray((digamma((nu[:, None] - below) / 2) - np.log(nu[:, None] / 2)).sum(1))

    def _mean_log_weights(self) -> Floats:
        if not self.sticks:
            return np.asarray(digamma(self.shape[0]) - digamma(self.shape[0].sum()))
        a, b = self.shape
        left = digamma(b) - digamma(a + b)
        return np.asarray(digamma(a) - digamma(a + b) + np.append(0.0, np.cumsum(left)[:-1]))

    def _mean_weights(self) -> Floats:
        """Mean weights; of sticks, whose rest has no component, made to sum to 1."""
        if not self.sticks:
            return np.asarray(self.shape[0] / self.shape[0].sum())
        a, b = self.shape
        found = a / (a + b) * np.append(1.0, np.cumprod(b / (a + b))[:-1])
        return np.asarray(found / found.sum())

    def _divergence_of_weights(self) -> float:
        """KL(q || prior) of the sticks, or of the Dirichlet distribution."""
        first = float(self.prior["shape"])
        if self.sticks:
            a, b = self.shape
            both = digamma(a + b)
            each = (a - 1) * (digamma(a) - both) + (b - first) * (digamma(b) - both)
            return float((each + betaln(1.0, first) - betaln(a, b)).sum())
        alpha = self.shape[0]
        total, k = alpha.sum(), len(alpha)
        normalizers = gammaln(total) - gammaln(alpha).sum() - gammaln(k * first) + k * gammaln(first)
        return float(normalizers + ((alpha - first) * (digamma(alpha) - digamma(total))).sum())

    def _divergences(self) -> Floats:
        """KL(q || prior) of each component's mean and precision."""
        d, prior, off = self.means.shape[1], self.prior, self.means - self.prior["mean"]
        ratio = prior["strength"] / self.strength
        moved = prior["strength"] * self._mean_square(off)
        of_means = 0.5 * (d * (ratio - 1 - np.log(ratio)) + moved)
        return np.asarray(of_means + self._divergences_of_precisions())

    def _mean_square(self, off: Floats) -> Floats:
        """Squares of rows (k, d) in units of the mean precision of each component."""
        if self.form == "diag":
            return np.asarray((off * off / self.normals.covariances).sum(1))
        return np.asarray((off * np.linalg.solve(self.normals.covariances, off[:, :, None])[:, :, 0]).sum(1))

    def _divergences_of_precisions(self) -> Floats:
        """Of Wishart distributions; of form "diag" of one for each column, that are gamma distributions."""
        d, nu, first = self.means.shape[1], self.df, float(self.prior["df"])
        covariances, scatter = self.normals.covariances, self.prior["scatter"]
        if self.form == "full":
            log_ratio = np.linalg.slogdet(covariances)[1] - np.linalg.slogdet(scatter)[1] + d * np.log(nu)
            trace = np.trace(np.linalg.solve(covariances, np.broadcast_to(scatter, covariances.shape)), 0, 1, 2)
            gammas = multigammaln_each(nu / 2, d) - multigammaln(first / 2, d)
        else:
            log_ratio = np.log(covariances * nu[:, None] / scatter).sum(1)
            trace = (scatter / covariances).sum(1)
            gammas = d * (gammaln(nu / 2) - gammaln(first / 2))
        mean_log = self._mean_log_determinants() + d * np.log(nu / 2)  # E log |W^-1 precision| - d log 2
        return np.asarray(0.5 * first * log_ratio - gammas + 0.5 * (nu - first) * mean_log + 0.5 * (trace - nu * d))


def multigammaln_each(a: Floats, d: int) -> Floats:
    """log Gamma_d at each a; SciPy's takes one number."""
    constant = 0.25 * d * (d - 1) * math.log(math.pi)
    return np.asarray(constant + gammaln(a[:, None] - 0.5 * np.arange(d)).sum(1))


class BayesianGaussianMixture(Mixture):
    r"""Density and clusters of real rows: a mixture of normal distributions that leaves components empty.

    Weights, means and precisions are uncertain too, with a conjugate prior, and are fitted by coordinate ascent on the
    evidence lower bound (variational Bayes): ``q(labels) q(weights) prod_k q(mean_k, precision_k)``. Components that
    the rows do not need lose their weight, so that `n_components` is how many there may be; the prior keeps covariances
    from collapsing. The bound never falls. At the end the components are put in the order of their weights.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
        Mean weights.
    means_ : array of shape (n_components, n_features)
    covariances_ : array
        Inverses of the mean precisions: (n_components, d, d) full, (n_components, d) diag.
    strength_, df_ : arrays of shape (n_components,)
        Rows that the mean and the precision of each component are worth, prior included.
    labels_ : array of shape (n,)
        Component of each training row.
    history_ : dict of lists
        ``objective``, the bound in nats per row, by iteration; ``log_likelihood`` is the part of it that the rows have,
        without the divergence of weights, means and precisions from their prior.

    Notes
    -----
    The prior: means about the rows' mean, worth `mean_strength` rows; mean precision the inverse of the rows'
    covariance / `df`. The density and all that is said of rows is that of the mixture at the mean weights, means and
    precisions. A start is k-means, as of `gaussian-mixture`. Cost per iteration O(n K d^2) full, O(n K d) diag. With
    the same prior and start the iterations are those of scikit-learn's class of the same name, of form full; of form
    diag its expected log determinants are those of full matrices. Sources: Attias (2000); Bishop (2006), section 10.2;
    sticks: Blei and Jordan (2006), "Variational inference for Dirichlet process mixtures".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 50, axis=0) + np.random.default_rng(0).normal(size=(100, 2))
    >>> mixture = BayesianGaussianMixture(n_components=5, max_iter=500, tol=1e-8, random_state=0).fit(X)
    >>> int((mixture.weights_ > 0.02).sum()), sorted(np.bincount(mixture.labels_)[np.unique(mixture.labels_)].tolist())
    (2, [50, 50])
    """

    name: ClassVar[str] = "bayesian-gaussian-mixture"
    model_class: ClassVar[type] = BayesianGaussianMixtureModel
    domain = Real(largest=1e100)
    numpy_products: ClassVar[bool] = True

    covariance: Annotated[
        Literal["full", "diag"], Doc("Form of the covariances: a matrix each, or variances each.")
    ] = "full"
    mixing_prior: Annotated[
        Literal["dirichlet-process", "dirichlet"],
        Doc("Prior of the weights: broken off a stick, which prefers few components, or even-handed."),
    ] = "dirichlet-process"
    concentration: Annotated[
        float | None,
        "(0, inf)",
        Doc("Of the weights' prior: the smaller, the fewer components; None is 1 / n_components."),
    ] = None
    mean_strength: Annotated[float, "(0, inf)", Doc("Rows that the prior of a mean is worth.")] = 1.0
    df: Annotated[
        float | None,
        "(0, inf)",
        Doc("Rows that the prior of a precision is worth, above n_features - 1 if full; None is n_features."),
    ] = None

    def _too_few(self, distinct: int) -> str:
        return f"{self.n_components} components, {distinct} distinct rows: some components stay empty; use fewer"

    def make(self, n_features: int, dtype: str) -> BayesianGaussianMixtureModel:
        sticks = self.mixing_prior == "dirichlet-process"
        return BayesianGaussianMixtureModel(self.n_components, n_features, self.covariance, sticks=sticks)

    def initialize(self, model: BayesianGaussianMixtureModel, examples: Examples, noise: Noise) -> None:
        chosen = representative(examples.weight, STARTING_ROWS, noise.child("rows"))
        X = (examples.X if chosen is None else examples.X[chosen]).astype(np.float64)
        weight = examples.weight.astype(np.float64) if chosen is None else np.ones(len(X))
        X, weight = X[weight > 0], weight[weight > 0]
        first = X[0].copy()
        X -= first
        center = np.matmul(weight, X) / weight.sum()
        X -= center
        self._set_prior(model, X, weight, first + center)
        unit = np.sqrt(usable(np.matmul(weight, X * X) / weight.sum(), first))
        model.starts = [self._start_of(model, X, weight, unit, noise.child("seeds").at(i)) for i in range(self.n_init)]
        model.load(model.starts[0])

    def _set_prior(self, model: BayesianGaussianMixtureModel, x: Floats, weight: Floats, mean: Floats) -> None:
        """The prior of centered rows, whose mean this was."""
        d, total = x.shape[1], weight.sum()
        if self.df is not None and self.covariance == "full" and self.df <= d - 1:
            raise UserValueError.must("df", f"be above {d - 1}, one less than the columns", self.df)
        variance = np.matmul(weight, x * x) / total
        ridge = SINGULAR * usable(variance, mean)
        share = 1 / (total - 1) if total > 1 else 1 / total
        full = self.covariance == "full"
        scatter = np.matmul((x * weight[:, None]).T, x) * share if full else variance * total * share
        model.prior = {
            "shape": np.float64(self.concentration or 1 / self.n_components),
            "strength": np.float64(self.mean_strength),
            "df": np.float64(self.df or d),
            "mean": mean,
            "scatter": scatter + (np.diag(ridge) if full else ridge),
        }

    def _start_of(
        self, model: BayesianGaussianMixtureModel, x: Floats, weight: Floats, unit: Floats, noise: Noise
    ) -> dict[str, Array]:
        """The factors of weights, means and precisions beside clusters of centered rows, the largest first.

        A stick-breaking prior prefers that order.
        """
        z, k = x / unit, self.n_components
        labels = clusters(z, weight, z[far_apart(z, weight, k, noise)])
        part = np.zeros((len(x), k))
        part[np.arange(len(x)), labels] = weight
        part = part[:, np.argsort(-part.sum(0), kind="stable")]
        return model.begun(x, part, unit)

    def finish(self, model: BayesianGaussianMixtureModel) -> None:
        model.sort()

    @property
    def covariances_(self) -> Array:
        """Inverses of the mean precisions, in their form."""
        check_is_fitted(self)
        return self.model_.normals.covariances

    @property
    def strength_(self) -> Array:
        """Rows that each mean is worth."""
        check_is_fitted(self)
        return self.model_.strength

    @property
    def df_(self) -> Array:
        """Rows that each precision is worth."""
        check_is_fitted(self)
        return self.model_.df
