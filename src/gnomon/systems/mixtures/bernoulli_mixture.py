"""Mixture of products of Bernoulli distributions, fitted by expectation maximization."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import logsumexp, xlogy

from gnomon.contracts import Array, Noise
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Binary
from gnomon.errors import UserValueError
from gnomon.numeric.sparse import wide
from gnomon.recipes.fields import Doc
from gnomon.systems.mixtures._base import Mixture, MixtureModel, shares
from gnomon.training.group import current as current_group

__all__ = ["BernoulliMixture", "BernoulliMixtureModel"]

SMALLEST_MEAN = 1e-12
"""Means stay this far from 0 and 1, so that no row has probability 0."""

CHUNK_NUMBERS = 1 << 22
"""Numbers that one chunk of rows may take in the expectation step: 32 MB in float64."""


class BernoulliMixtureModel(MixtureModel):
    r"""p(x) = sum_k weights_k prod_j means_kj^x_j (1 - means_kj)^(1 - x_j).

    Parameters
    ----------
    weights : array of shape (K,)
        Fractions of the components, >= 0, summing to 1.
    means : array of shape (K, d)
        Probabilities of a 1, in [0, 1].
    smoothing : float in [0, inf), default 0
        Each mean has a Beta(1 + smoothing, 1 + smoothing) prior.

    Raises
    ------
    UserValueError
        Weights that do not sum to 1 within 1e-6, means outside [0, 1], or shapes that do not agree.
    """

    def __init__(self, weights: Array, means: Array, smoothing: float = 0.0) -> None:
        self.weights = shares(weights)
        given = np.array(means, dtype=np.float64)
        if not ((given >= 0) & (given <= 1)).all():
            raise UserValueError("means must be probabilities in [0, 1]", "means")
        self.means = np.clip(given, SMALLEST_MEAN, 1 - SMALLEST_MEAN)
        self.smoothing = smoothing
        self.starts: list[dict[str, Array]] = []
        if self.means.ndim != 2 or len(self.means) != len(self.weights):
            raise UserValueError(
                f"means must have {len(self.weights)} rows, one per weight, got shape {self.means.shape}", "means"
            )

    @property
    def n_parameters(self) -> int:
        """Free parameters: K - 1 shares and K d means."""
        return len(self.weights) - 1 + self.means.size

    def state(self) -> dict[str, Array]:
        """Weights and means."""
        return {"weights": self.weights, "means": self.means}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take weights and means over."""
        self.weights = np.array(state["weights"], dtype=np.float64)
        self.means = np.array(state["means"], dtype=np.float64)

    def log_joint(self, x: Array) -> Array:
        """log weights_k p(x | k), shape (n, K)."""
        off = np.log1p(-self.means)
        constant = self.log_weights() + off.sum(1)
        joint: Array = wide(x) @ (np.log(self.means) - off).T + constant
        return joint

    def expect(self, x: Array, weight: Array) -> dict[str, Array]:
        """Expected counts: rows per component, ones per component and column."""
        weight = np.asarray(weight, dtype=np.float64)
        joint = self.log_joint(x)
        total = logsumexp(joint, axis=1)
        part = np.exp(joint - total[:, None]) * weight[:, None]
        return self.collect(x, part) | {"log_likelihood": np.matmul(weight, total), "weight": weight.sum()}

    def collect(self, x: Array, part: Array) -> dict[str, Array]:
        """Rows per component, and ones per component and column."""
        return {"rows": part.sum(0), "ones": part.T @ wide(x)}

    def maximize(self, statistics: dict[str, Array]) -> None:
        """Shares and means from the counts; a component that no row belongs to keeps its means."""
        rows, a = statistics["rows"], self.smoothing
        self.weights = rows / rows.sum()
        counts = rows[:, None] + 2 * a
        means = np.divide(statistics["ones"] + a, counts, out=self.means.copy(), where=counts > 0)
        self.means = np.clip(means, SMALLEST_MEAN, 1 - SMALLEST_MEAN)

    def own(self, rows: float) -> dict[str, Array]:
        """The counts that give these shares and means."""
        counts = rows * self.weights
        return {"rows": counts, "ones": self.means * (counts[:, None] + 2 * self.smoothing) - self.smoothing}

    def expected_joint(self, statistics: Mapping[str, Array]) -> float:
        """Sum over rows of E log p(x, component)."""
        rows, ones = statistics["rows"], statistics["ones"]
        off = np.log1p(-self.means)
        bits = (ones * (np.log(self.means) - off)).sum() + np.matmul(rows, off.sum(1))
        return float(xlogy(rows, self.weights).sum() + bits)

    def log_prior(self) -> float:
        """Log of the Beta priors, up to their constant."""
        a = self.smoothing
        return float((xlogy(a, self.means) + a * np.log1p(-self.means)).sum()) if a else 0.0

    def sample(self, n: int, noise: Noise) -> Array:
        """n rows of 0 and 1: a component by its share, then each column by its mean."""
        return self.draw_rows(self.components(n, noise.child("component")), noise.child("row"))

    def draw_rows(self, component: Array, noise: Noise) -> Array:
        """A row of each of these components."""
        return noise.bernoulli(self.means[component])

    def log_joint_seen(self, x: Array, missing: Array) -> Array:
        """log weights_k p(known cells | k), shape (n, K)."""
        seen, off = (~missing).astype(np.float64), np.log1p(-self.means)
        joint: Array = (seen * x) @ (np.log(self.means) - off).T + seen @ off.T + self.log_weights()
        return joint

    def column_variances(self) -> Array:
        """Of each column in each component, shape (K, d)."""
        return self.means * (1 - self.means)


class BernoulliMixture(Mixture):
    r"""Density and clusters of binary rows: a mixture whose components have independent columns.

    :math:`p(x) = \sum_k \pi_k \prod_j \mu_{kj}^{x_j} (1 - \mu_{kj})^{1 - x_j}`, fitted by EM. With ``smoothing`` s the
    fit is the mode under Beta(1 + s, 1 + s) priors on the means, so that a column that was constant in training keeps a
    small probability of the other value; 0 gives maximum likelihood.

    Attributes
    ----------
    weights_, means_ : arrays of shape (n_components,), (n_components, n_features)
        Fractions of the components; probabilities of a 1.
    labels_ : array of shape (n,)
        Component of each training row.
    history_ : dict of lists
        ``log_likelihood`` (nats per row) and ``objective`` (with the prior) by iteration; with several starts also
        ``start``.

    Notes
    -----
    Cost O(n K d) per iteration, of sparse tables O(K entries + n K). Initial means lie half-way between the columns'
    means and uniform noise, and do not depend on the order of rows. Source: Bishop (2006), section 9.3.3.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 20, axis=0)
    >>> mixture = BernoulliMixture(n_components=2, random_state=0).fit(X)
    >>> sorted(np.bincount(mixture.labels_).tolist())
    [20, 20]
    """

    name: ClassVar[str] = "bernoulli-mixture"
    model_class: ClassVar[type] = BernoulliMixtureModel
    domain = Binary()
    takes_sparse: ClassVar[bool] = True

    smoothing: Annotated[
        float,
        "[0, inf)",
        Doc(
            "Pseudo-count of ones, and of zeros, in every component and column; with 0 a probability still stays 1e-12 "
            "from 0 and 1, of which a notice tells."
        ),
    ] = 0.1

    def make(self, n_features: int, dtype: str) -> BernoulliMixtureModel:
        k = self.n_components
        return BernoulliMixtureModel(np.full(k, 1 / k), np.full((k, n_features), 0.5), self.smoothing)

    def initialize(self, model: BernoulliMixtureModel, examples: Examples, noise: Noise) -> None:
        weight = examples.weight.astype(np.float64)
        column = (weight @ wide(examples.X)) / weight.sum()
        streams = [noise, *(noise.child(f"start/{i}") for i in range(1, self.n_init))]
        shape, weights = model.means.shape, model.weights
        means = [0.5 * column + 0.25 + 0.5 * (one.uniform(shape, like=model.means) - 0.5) for one in streams]
        model.starts = [{"weights": weights, "means": each} for each in means]
        model.load(model.starts[0])

    def bits_by_state(self) -> tuple[Array, Array]:
        return self.model_.log_weights(), self.model_.means

    def finish(self, model: BernoulliMixtureModel) -> None:
        held = (model.means <= SMALLEST_MEAN) | (model.means >= 1 - SMALLEST_MEAN)
        if not held.any() or current_group().rank:
            return
        column = int(held.any(axis=0).argmax())
        warnings.warn(
            f"a component has one value only in {held.any(axis=0).sum()} columns (column {column}): the other's "
            f"probability is set to {SMALLEST_MEAN:g}, where maximum likelihood has 0; set smoothing above 0",
            UserWarning, stacklevel=4,
        )  # fmt: skip

    def _batch_size(self) -> int | None:
        return max(1, CHUNK_NUMBERS // max(self.n_components, self.n_features_in_))
