"""Gaussian classes: discriminant analysis and Gaussian naive Bayes, with or without all labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.system.fields import DrawsNothing, Iterated
from gnomon.system.gaps import FillsExactly
from gnomon.system.prediction import Classifier
from gnomon.system.unlabeled import UNLABELED, TakesUnlabeled
from gnomon.systems.mixtures._base import shares
from gnomon.systems.mixtures.covariances import Covariance
from gnomon.systems.mixtures.gaussian_mixture import GaussianMixtureModel, usable
from gnomon.training.em import EM, ClosedForm
from gnomon.training.group import current as current_group

__all__ = ["GaussianClassifier", "GaussianClassifierModel"]


class GaussianClassifierModel(GaussianMixtureModel):
    r"""p(x, c) = weights_c N(x; means_c, covariance_c): a Gaussian mixture some of whose components are known.

    Parameters
    ----------
    weights, means, covariances, form, floor
        Of `GaussianMixtureModel`, one component per class.
    fixed : bool, default False
        Whether the weights stay as they are.
    """

    def __init__(
        self, weights: Array, means: Array, covariances: Array, form: str = "full", floor: Array | float = 0.0,
        fixed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(weights, means, covariances, form, floor)
        self.fixed = fixed

    def scores(self, x: Array) -> Array:
        """log p(x, c), shape (n, n_classes): the softmax over classes is Bayes' rule."""
        return self.log_joint(x)

    def moments(self, x: Array, weight: Array, y: Array) -> dict[str, Array]:
        """Rows and moments of each class, of rows that all have one."""
        part = np.zeros((len(x), len(self.weights)))
        part[np.arange(len(x)), y] = weight
        return self.normals.collect(x, part)

    def solve(self, moments: dict[str, Array]) -> dict[str, float]:
        """Fit to the sums of all rows."""
        self.maximize(moments)
        return {"rows": float(moments["rows"].sum())}

    def expect(self, x: Array, weight: Array, y: Array | None = None) -> dict[str, Array]:
        """Expected rows and moments of each class: a labeled row belongs to its class alone."""
        if y is None:
            return super().expect(x, weight)
        known = np.asarray(y) != UNLABELED
        labeled, codes, weights = x[known], np.asarray(y)[known], np.asarray(weight, dtype=np.float64)[known]
        sums = super().expect(x[~known], np.asarray(weight)[~known])
        for name, value in self.moments(labeled, weights, codes).items():
            sums[name] = sums[name] + value
        own = self.log_joint(labeled)[np.arange(len(codes)), codes]
        sums["log_likelihood"] = sums["log_likelihood"] + np.matmul(weights, np.where(weights > 0, own, 0.0))
        sums["weight"] = sums["weight"] + weights.sum()
        return sums

    def maximize(self, statistics: dict[str, Array]) -> None:
        """Fractions of the classes (unless they are fixed), means and covariances."""
        weights = self.weights
        super().maximize(statistics)
        if self.fixed:
            self.weights = weights


class GaussianClassifier(FillsExactly, Iterated, DrawsNothing, TakesUnlabeled, Classifier):
    r"""Classifier that knows how rows come about: a share of each class, and a normal density within it.

    :math:`p(x, c) = \pi_c N(x; \mu_c, \Sigma_c)`, fitted by maximum likelihood (divisor n), and :math:`p(c \mid x) =
    p(x, c) / p(x)` by Bayes' rule. With one covariance for all classes ("tied") this is linear discriminant analysis,
    whose probabilities are those of a softmax of affine scores; with "full" quadratic discriminant analysis; with
    "diag" Gaussian naive Bayes. Being a joint density it also draws rows with labels, tells odd rows, and learns from
    rows without a label.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted; -1 is none of them, unless there is only one other.
    priors_ : array of shape (n_classes,)
    means_ : array of shape (n_classes, n_features)
    covariances_ : array
        (n_classes, d, d) full, (d, d) tied, (n_classes, d) diag, (n_classes,) spherical.
    coef_ : array of shape (n_classes, n_features)
        Of the affine scores, "tied" alone.
    intercept_ : array of shape (n_classes,)
    history_ : dict of lists
        ``log_likelihood`` (nats per row, of labels too where there are some) by iteration; or ``rows``.

    Notes
    -----
    The label -1 means: not known (a warning says how many are), unless the labels are -1 and one other. Such rows
    count by EM, the others held to
    their classes; where the densities are not normal they can do harm. Cost O(n d^2) per pass full and tied, O(n d)
    else, times classes. scikit-learn's LinearDiscriminantAnalysis weighs the classes' covariances by given priors, this
    one by their rows. Sources: Fisher 1936; Rao 1948; rows without labels: Nigam, McCallum, Thrun and Mitchell (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = GaussianClassifier(covariance="tied").fit(X, y)
    >>> round(classifier.score(X, y), 2)
    0.98
    >>> rows, labels = classifier.sample(3, random_state=0)
    >>> rows.shape, labels.shape
    ((3, 4), (3,))
    """

    name: ClassVar[str] = "gaussian-classifier"
    model_class: ClassVar[type] = GaussianClassifierModel
    domain = Real(largest=1e100)
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"covariance": Covariance}
    numpy_products: ClassVar[bool] = True

    covariance: Annotated[
        str | Recipe,
        Doc(
            "Form of the covariances: a matrix per class, one matrix for all, variances each, one variance each. The "
            "recipe's floor bounds them where a class has few rows. Columns of 0 and 1, as categories become, leave a "
            "matrix per class singular where a class lacks a level: one for all is the better beginning."
        ),
    ] = "tied"
    priors: Annotated[
        tuple[float, ...] | None,
        Doc("Fractions of the classes in the order of ``classes_``, summing to 1; None counts them."),
    ] = None
    max_iter: Annotated[
        int,
        "[1, inf)",
        Doc("EM iterations at most; like `tol` only where labels are missing, else one pass gives the maximum."),
    ] = 200
    tol: float = 1e-6

    def _form(self) -> Covariance:
        form = self.recipe("covariance")
        assert isinstance(form, Covariance)
        return form

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, y, sample_weight)
        class_shares(self.priors, len(self.classes_))
        return examples

    def make(self, n_features: int, n_classes: int, dtype: str) -> GaussianClassifierModel:
        normals = self._form().build(np.zeros((n_classes, n_features)), np.ones(n_features))
        return GaussianClassifierModel(
            class_shares(self.priors, n_classes),
            normals.means,
            normals.covariances,
            normals.form,
            fixed=self.priors is not None,
        )

    def initialize(self, model: GaussianClassifierModel, examples: Examples, noise: contracts.Noise) -> None:
        """Means of the labeled rows; where labels are missing, the covariance of all rows about the nearest mean."""
        assert examples.y is not None
        form, k = self._form(), len(model.weights)
        kept = examples.weight > 0
        X, codes = examples.X[kept].astype(np.float64), examples.y[kept]
        weight = examples.weight[kept].astype(np.float64)
        first = X[0].copy()
        X -= first  # a constant column becomes 0 to the last bit
        center = np.matmul(weight, X) / weight.sum()
        X -= center
        variance = usable(np.matmul(weight, X * X) / weight.sum(), first)
        model.floor = form.floor * variance
        part = np.zeros((len(X), k))
        known = codes != UNLABELED
        part[known, codes[known]] = weight[known]
        rows = part.sum(0)
        means = np.matmul(part.T, X) / np.where(rows > 0, rows, 1.0)[:, None]
        covariances = form.build(means, variance).covariances
        if (examples.y == UNLABELED).any():
            codes = np.where(known, codes, _nearest(X, means, variance))
            one = form.build(np.zeros((1, X.shape[1])), variance)
            one.maximize(one.collect(X - means[codes], weight[:, None]), form.floor * variance)
            covariances = form.repeated(one, k)
        weights = model.weights if model.fixed else rows / rows.sum()
        model.load({"weights": weights, "means": means + first + center, "covariances": covariances})

    def procedure(self, examples: Any) -> Procedure:
        return ClosedForm() if (examples.y != UNLABELED).all() else EM(self.max_iter, self.tol)

    def finish(self, model: GaussianClassifierModel) -> None:
        held = int(model.normals.at_floor(model.floor).sum()) if model.floor.any() else 0
        if held and current_group().rank == 0 and not _all_in_plane(model):
            warnings.warn(
                f"covariance floor used in {held} of {len(model.weights)} classes: their rows coincide or lie in a "
                'plane; use fewer columns, more rows, or covariance="tied" or "diag"',
                UserWarning, stacklevel=4,
            )  # fmt: skip

    # --- verbs --------------------------------------------------------------------------------------------------

    def log_prob(self, X: Any, y: Any = None) -> Array:
        """Log of the joint density of each row and its label in nats, shape (n,).

        Raises
        ------
        UserValueError
            No labels, or one that the fit has not seen.
        """
        if y is None:
            raise UserValueError("the joint density is of rows and labels", "y", "marginal_log_prob(X) is that of rows")
        rows = self._rows(X)
        return self.model_.log_joint(rows)[np.arange(len(rows)), self.encode_target(y, rows)]

    def marginal_log_prob(self, X: Any) -> Array:
        """Log density of each row in nats, the class summed out, shape (n,)."""
        return logsumexp(self.model_.log_joint(self._rows(X)), axis=1)

    def anomaly_score(self, X: Any) -> Array:
        """Surprise -log p(x) of each row in nats, shape (n,), whatever its class: the higher, the odder."""
        return -self.marginal_log_prob(X)

    def score_samples(self, X: Any) -> Array:
        """`marginal_log_prob` by scikit-learn's name: log density of each row in nats, shape (n,), of any class."""
        return self.marginal_log_prob(X)

    def bits_per_dim(self, X: Any) -> Score:
        """Mean of -log2 p(x) per column, lower is better; it depends on the columns' units."""
        values = self.anomaly_score(X) / (np.log(2) * self.n_features_in_)
        facts: dict[str, Any] = {"unit": "bits per column", "kind": "exact", "higher_is_better": False}
        return Score.from_pointwise(
            values, name="bits_per_dim", data_space=self.domain.space(self.n_features_in_), **facts
        )

    def sample(self, n: int = 1, *, random_state: Any = None) -> tuple[Array, Array]:
        """Draw n rows and their labels; two calls differ unless `random_state` is given.

        Returns
        -------
        X : array of shape (n, n_features)
        y : array of shape (n,), in the dtype of the labels
        """
        check_is_fitted(self)
        noise = Noise(seed_of(random_state), "sample")
        codes = self.model_.components(how_many(n), noise.child("component"))
        return self.model_.normals.sample(codes, noise.child("row")), self.classes_[codes]

    # --- what was fitted ----------------------------------------------------------------------------------------

    @property
    def priors_(self) -> Array:
        """Fractions of the classes."""
        check_is_fitted(self)
        return self.model_.weights

    @property
    def means_(self) -> Array:
        """Mean of each class."""
        check_is_fitted(self)
        return self.model_.means

    @property
    def covariances_(self) -> Array:
        """Covariances in their form."""
        check_is_fitted(self)
        return self.model_.normals.covariances

    @property
    def coef_(self) -> Array:
        """Weights of the affine scores whose softmax are the probabilities, shape (n_classes, n_features)."""
        check_is_fitted(self)
        if self.model_.normals.form != "tied":
            raise AttributeError('coef_ belongs to covariance="tied": other scores are quadratic')
        return np.linalg.solve(self.covariances_, self.means_.T).T

    @property
    def intercept_(self) -> Array:
        """Constants of the affine scores, shape (n_classes,)."""
        return self.model_.log_weights() - 0.5 * (self.coef_ * self.means_).sum(1)


def class_shares(priors: tuple[float, ...] | None, k: int) -> Array:
    """The classes' probabilities as they were given, or equal ones.

    Raises
    ------
    UserValueError
        Another number of them, or no probabilities.
    """
    if priors is None:
        return np.full(k, 1 / k)
    if np.shape(priors) != (k,):
        what = f"priors must hold one number per class, got shape {np.shape(priors)} for {k} classes"
        raise UserValueError(what, "priors")
    try:
        return shares(priors)
    except (TypeError, ValueError):
        what = f"priors must be probabilities, got {priors!r}"
        raise UserValueError(what, "priors", "give numbers >= 0 that sum to 1") from None


def _all_in_plane(model: GaussianClassifierModel) -> bool:
    """Whether one covariance is at the floor only where the classes' means agree: along it no class is preferred.

    So it is with the levels of a category, each a column of 0 and 1, whose sum is 1 in every row.
    """
    if model.normals.form != "tied":
        return False
    unit = np.sqrt(model.floor)
    means = (model.normals.means - np.matmul(model.weights, model.normals.means)) / unit
    within = model.normals.covariances / unit[:, None] / unit
    values, directions = np.linalg.eigh(within)
    flat = directions[:, values <= 1 + 1e-6]
    return bool((np.matmul(means, flat) ** 2 <= 1).all())


def _nearest(x: Array, means: Array, variance: Array) -> Array:
    """The mean that each row is nearest to, in units of the columns' spread."""
    unit = np.sqrt(variance)
    z, centers = x / unit, means / unit
    return np.argmin((centers**2).sum(1) - 2 * np.matmul(z, centers.T), axis=1)
