"""What every mixture has: shares, responsibilities, clusters, criteria, and the notice of too few distinct rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.batches import Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Layout, Rows
from gnomon.distributions.arrays import is_empty, row_weights
from gnomon.distributions.layers import OneHot
from gnomon.errors import UserValueError
from gnomon.inference.exact.cells import CellMoments, chosen_components, mixed_cells
from gnomon.numeric.noise import Noise, seed_of
from gnomon.numeric.ops import largest
from gnomon.numeric.sparse import is_sparse
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.fields import Iterated
from gnomon.system.gaps import FillsExactly
from gnomon.system.latent_codes import LatentCodes
from gnomon.training.driver import FitResult
from gnomon.training.em import Restarts, total
from gnomon.training.em_forms import EMForm, Online, toward
from gnomon.training.group import current as current_group

BETWEEN_CHUNKS = ("em", "max_iter", "n_init", "random_state", "tol")
"""Hyper-parameters of the fit, which may change from chunk to chunk."""
CHUNK = 1 << 14
"""Rows of a chunk whose expectations are taken at a time."""

__all__ = ["Mixture", "MixtureModel", "distinct_rows", "shares"]


def shares(weights: Array) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Probabilities of the components in float64, summing to 1 to the last bit that division leaves.

    Raises
    ------
    UserValueError
        Weights that are negative or do not sum to 1 within 1e-6.

    Examples
    --------
    >>> shares([0.1] * 10).sum()
    np.float64(1.0)
    """
    given = np.array(weights, dtype=np.float64)
    total = float(given.sum())
    if given.ndim != 1 or not (given >= 0).all() or not abs(total - 1) <= 1e-6:
        raise UserValueError(
            f"weights must be >= 0 and sum to 1 (got {total:.6g})", "weights", "divide them by their sum"
        )
    return given / total


class MixtureModel:
    """p(x) = sum_k weights_k p(x | k); a subclass gives `log_joint`.

    Parameters
    ----------
    weights : array of shape (K,)
        Fractions of the components, >= 0, summing to 1.
    """

    weights: Array
    means: Any

    def log_joint(self, x: Array) -> Array:
        """log weights_k p(x | k), shape (n, K)."""
        raise NotImplementedError

    def log_prob(self, x: Array) -> Array:
        """Log probability (or density) of each row in nats, shape (n,)."""
        return logsumexp(self.log_joint(x), axis=1)

    def posterior(self, x: Array) -> Array:
        """Probability of each component given each row, shape (n, K)."""
        joint = self.log_joint(x)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def log_weights(self) -> Array:
        """Log of the shares, -inf for a component that no row belongs to."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    # --- partial expectations -----------------------------------------------------------------------------------------

    def log_rho(self, x: Array) -> Array:
        """What an expectation weighs components by, (n, K): `log_joint`, or its mean where parameters are uncertain."""
        return self.log_joint(x)

    def collect(self, x: Array, part: Array) -> dict[str, Array]:
        """Sums for `maximize` over rows of which component c has the given part, shape (n, K)."""
        raise NotImplementedError

    def expect_mode(self, x: Array, weight: Array) -> dict[str, Array]:
        """See `gnomon.contracts.HasMeanParameters`."""
        joint = self.log_rho(x)
        part = np.where(largest(joint) > 0, np.asarray(weight, np.float64)[:, None], 0.0)
        likelihood = np.matmul(np.asarray(weight, np.float64), joint.max(1, initial=-np.inf))
        return self.collect(x, part) | {"log_likelihood": likelihood, "weight": part.sum()}

    def moved(self, statistics: Mapping[str, Array], before: Mapping[str, Array]) -> dict[str, Array]:
        """See `gnomon.contracts.HasMeanParameters`: sums that no parameters enter stay as they are."""
        return dict(statistics)

    # --- rows with missing cells --------------------------------------------------------------------------------------

    def log_joint_seen(self, x: Array, missing: Array) -> Array:
        """log weights_k p(known cells | k), shape (n, K), of components with independent columns."""
        raise NotImplementedError

    def column_variances(self) -> Array:
        """Of each column in each component, shape (K, d)."""
        raise NotImplementedError

    def draw_rows(self, component: Array, noise: contracts.Noise) -> Array:
        """A row of each of these components."""
        raise NotImplementedError

    def cells(self, x: Array, missing: Array) -> CellMoments:
        """Log probability of the known cells of each row, and mean and variance of the missing ones given them."""
        return mixed_cells(x, missing, self.log_joint_seen(x, missing), self.means, self.column_variances())

    def draw_cells(self, x: Array, missing: Array, noise: contracts.Noise) -> Array:
        """The rows with a joint draw of the missing cells of each, given the known ones."""
        places = np.arange(len(x))
        chosen = chosen_components(self.log_joint_seen(x, missing), noise.child("component").rows(places))
        return np.where(missing, self.draw_rows(chosen, noise.child("row").rows(places)), x)

    def components(self, n: int, noise: contracts.Noise) -> np.ndarray[Any, np.dtype[np.int64]]:
        """A component by its share for each of n rows: exactly n, their counts multinomial."""
        edges = np.cumsum(self.weights)
        u = noise.uniform((n, 1), like=edges)[:, 0] * edges[-1]
        return np.minimum(np.searchsorted(edges, u, side="right"), len(edges) - 1)


def distinct_rows(X: Any, most: int, block: int = 256) -> int:
    """How many different rows there are, counted up to `most`; ends early where rows differ.

    Examples
    --------
    >>> distinct_rows(np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0]]), 9)
    2
    """
    if is_sparse(X):  # rows that differ have, but by chance, different sums under weights without a pattern
        patternless = np.sin(np.arange(1.0, X.shape[1] + 1) ** 2)
        return min(most, len(np.unique(X @ patternless)))
    seen: set[bytes] = set()
    for start in range(0, len(X), block):
        rows = np.ascontiguousarray(X[start : start + block] + X.dtype.type(0))  # -0 becomes 0
        seen.update(row.tobytes() for row in np.unique(rows.view(np.dtype((np.void, rows[0].nbytes)))))
        if len(seen) >= most:
            return most
    return len(seen)


class Mixture(FillsExactly, LatentCodes, ClusterMixin, Iterated, System):
    """Base of the mixtures: clusters are the components that rows most probably come from."""

    tasks: ClassVar[tuple[str, ...]] = ("density", "cluster")
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"em": EMForm}
    n_components: Annotated[int, "[1, inf)", Doc("Components, at most the number of rows.")] = 10
    n_init: Annotated[
        int, "[1, inf)", Doc("Starts; the one that ends with the highest likelihood (and prior) is kept.")
    ] = 1
    em: Annotated[
        str | Recipe,
        Doc("How expectations and parameters take turns: all rows, hard, by batches; see `gnomon.training.em_forms`."),
    ] = "full"

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, y, sample_weight)
        n, k = len(examples.X), self.n_components
        if n < k:
            what = f"n_components must be at most n_samples={n}, got n_components={k}"
            raise UserValueError(what, "n_components", "use fewer")
        distinct = distinct_rows(examples.X[examples.weight > 0], self.n_components)
        if distinct < self.n_components and current_group().rank == 0:
            warnings.warn(self._too_few(distinct), UserWarning, stacklevel=3)
        return examples

    def _too_few(self, distinct: int) -> str:
        return (
            f"{self.n_components} components, {distinct} distinct rows: some components stay alike or empty; use fewer"
        )

    def fit(self, X: Any, y: Any = None, **options: Any) -> Self:
        """Fit to rows; see `System.fit`."""
        super().fit(X, None, **options)
        self.labels_ = self.predict(X)
        return self

    def procedure(self, examples: Any) -> Procedure:
        steps = self.recipe("em").build(self.max_iter, self.tol)
        return steps if self.n_init == 1 else Restarts(steps)

    def layout(self, examples: Examples) -> Layout:
        form = self.recipe("em")
        return super().layout(examples) if form.rows is None else Rows(form.rows, shuffle=form.shuffles)

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Take in a chunk of rows by one update of online EM; the first chunk begins the fit and must show its form.

        The mixture and the chunk are weighed by ``power`` and ``delay`` of ``em="online"``, also where `em` is another
        form; the passes of `fit` count as updates. Attributes are those of `fit`, ``labels_`` of the chunk. An empty
        chunk changes nothing.

        Parameters
        ----------
        X : array of shape (n, n_features)
        y : ignored
        sample_weight : array of shape (n,), optional

        Raises
        ------
        UserError
            Rows that cannot be used, fewer than ``n_components`` in the first chunk, a changed hyper-parameter of the
            model.
        """
        self.check_parameters()
        first = not hasattr(self, "model_")
        if not first and is_empty(X):
            return self
        if not first:
            self._refuse_changes(sorted(set(self.get_params(deep=False)) - set(BETWEEN_CHUNKS)))
        with self._all_or_nothing():
            if first:
                return self._take_in(self.ingest(X, None, sample_weight), 1.0, self._begun)
            rows = self._rows(X)
            examples = Examples({"X": rows}, row_weights(sample_weight, len(rows), rows.dtype))
            form = self.recipe("em")
            share = (form if isinstance(form, Online) else Online()).weight(self.n_steps_ - 1)
            return self._take_in(examples, share, lambda _: deepcopy(self.model_))

    def _begun(self, examples: Examples) -> Any:
        """The model of a first chunk before its first update."""
        self.arguments_, self.seed_ = self.arguments(examples), seed_of(self.random_state)
        model = self._allocate(**self.arguments_)
        self.initialize(model, examples, Noise(self.seed_, "fit").child("initial"))
        return model

    def _take_in(self, examples: Examples, share: float, model_of: Callable[[Examples], Any]) -> Self:
        """One update by the rows of a chunk."""
        weight = float(examples.weight.sum(dtype=np.float64))
        if weight <= 0:
            return self
        model = model_of(examples)
        statistics = total(model.expect, Batches(examples, self.layout(examples).in_order(CHUNK)))
        toward(model, statistics, share, weight / share)
        steps = getattr(self, "n_steps_", 0) + 1
        record = {"step": steps, "log_likelihood": float(statistics["log_likelihood"]) / weight}
        self._set_fitted(model, FitResult(steps, [record]))
        self.labels_ = np.argmax(model.log_joint(examples.X), axis=1)
        return self

    @property
    def converged_(self) -> bool:
        """Whether the start that was kept ended before ``max_iter``."""
        self._check_passes("converged_")
        starts = self.history_.get("start", [0] * len(self.history_["objective"]))
        kept = starts[self.history_["objective"].index(self.history_["objective"][-1])]
        return starts.count(kept) < self.max_iter

    @property
    def lower_bound_(self) -> float:
        """What the fit has raised, at its last expectations: the log-likelihood (and prior, or the bound) per row."""
        self._check_passes("lower_bound_")
        return float(self.history_["objective"][-1])

    def _check_passes(self, name: str) -> None:
        check_is_fitted(self)
        if "objective" not in self.history_:
            raise AttributeError(f"{name} is of fits by passes over all rows, not of streams (partial_fit)")

    @property
    def weights_(self) -> Array:
        """Fractions of the components."""
        return self.model_.weights

    @property
    def means_(self) -> Array:
        """Mean of each component."""
        return self.model_.means

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component given each row, shape (n, n_components)."""
        rows = self._rows(X)
        return self.model_.posterior(rows)

    @property
    def _n_features_out(self) -> int:
        return len(self.model_.weights)

    def latent_posterior(self, rows: Array) -> OneHot:
        """p(h | x), exact, of the indicators of the hidden component."""
        return OneHot(self.model_.log_joint(rows), self._n_features_out)

    def latent_means(self, rows: Array) -> Array:
        """E[h | x] of the indicators of the hidden component: those of `predict_proba`."""
        return self.model_.posterior(rows)

    def latent_modes(self, rows: Array) -> Array:
        """1 for the component of `predict`, 0 for the others."""
        found: Array = largest(self.model_.log_joint(rows)).astype(rows.dtype)
        return found

    def predict(self, X: Any) -> Array:
        """The most probable component of each row."""
        rows = self._rows(X)
        return np.argmax(self.model_.log_joint(rows), axis=1)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion, lower is better: parameters * log n - 2 * log-likelihood."""
        values = self.log_prob(X)
        return float(self.model_.n_parameters * np.log(len(values)) - 2 * values.sum())

    def aic(self, X: Any) -> float:
        """Akaike's information criterion, lower is better: 2 * parameters - 2 * log-likelihood."""
        return float(2 * self.model_.n_parameters - 2 * self.log_prob(X).sum())
