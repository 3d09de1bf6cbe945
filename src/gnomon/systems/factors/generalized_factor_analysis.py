"""Generalized factor analysis: normal factors behind columns of bits or of counts."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon import contracts
from gnomon.contracts import Array, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.arrays import is_empty, row_weights
from gnomon.distributions.domains import Binary, Real
from gnomon.distributions.posteriors import NormalVectors
from gnomon.distributions.whole import Counts
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise, seed_of
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.fields import Iterated
from gnomon.system.gaps import Cells, FillsGaps
from gnomon.system.latent_codes import LatentCodes
from gnomon.systems.factors._columns import COLUMNS
from gnomon.systems.factors._factor_integrals import FactorIntegrals
from gnomon.systems.factors._generalized import EXACT_FACTORS, GeneralizedFactorAnalysisModel
from gnomon.training.driver import FitResult
from gnomon.training.em import Restarts
from gnomon.training.em_forms import Online
from gnomon.training.expectations import ExpectationForm

__all__ = ["GeneralizedFactorAnalysis", "GeneralizedFactorAnalysisModel"]

CHUNK_NUMBERS = 1 << 22
"""Numbers that one chunk of rows may take: 32 MB in float64."""
BETWEEN_CHUNKS = ("expectation", "max_iter", "n_init", "random_state", "tol")
"""Hyper-parameters of the fit, which may change from chunk to chunk."""
POWER_ITERATIONS = 4


class GeneralizedFactorAnalysis(FillsGaps, LatentCodes, Iterated, System):
    r"""Normal factors behind bits or counts: logistic or Poisson PCA, a latent trait (item response) model.

    :math:`z \sim N(0, I_k)` and, independently given z, :math:`x_j \sim Bernoulli(\sigma(w_j^T z + b_j))` or
    :math:`x_j \sim Poisson(\exp(w_j^T z + b_j))`. The posterior p(z | x) has no closed form, since the normal prior is
    conjugate to neither: `expectation` says what stands for it in the E step. ``variational`` goes with any number of
    factors, ``quadrature`` is exact for few, ``monte-carlo`` takes draws of the prior.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Rows of W^T: orthogonal, longest first, largest entry positive.
    bias_ : array of shape (n_features,)
        b: log-odds, or logarithms of means, at z = 0.
    elbo_history_ : array of shape (n_iter_,)
        The evidence lower bound per row that each iteration began with; of nodes the log-likelihood over these.
    converged_ : bool
        Whether the fit ended before ``max_iter``.
    history_ : dict of lists
        By iteration ``log_likelihood``, the same, and ``objective``, with the prior of the parameters.

    Notes
    -----
    The M step maximizes :math:`E_q \log p(x, z)`, concave in every column's (w_j, b_j), by Newton steps that are halved
    where they go too far, so that no iteration lowers what it raises; a normal prior of the loadings, `penalty`, keeps
    them finite where a column has no ones. W is known up to a rotation of z: compare likelihoods and subspaces, not
    entries. With up to two factors ``log_prob`` is a sum over a grid about each row's posterior, to rounding; beyond
    that there is the bound (`elbo`), and in `evaluate` the tighter one of 64 draws. Parameters of variational fits are
    those of the bound, with loadings a little too small; fewer inner steps bias them more. Cost of a variational
    iteration O(n d k^2 + n k^3), with 20 nodes for the mean of each bit's normalizer; of nodes O(n d Q). A chunk of
    `partial_fit` is one step whose share of Newton's falls as :math:`(t + 2)^{-0.6}`, with posteriors of its rows that
    begin at their modes.

    Source: Bartholomew and Knott (1999), "Latent variable models and factor analysis"; Bock and Aitkin (1981),
    "Marginal maximum likelihood estimation of item parameters"; Tipping (1998), "Probabilistic visualisation of
    high-dimensional binary data"; Opper and Archambeau (2009).

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> ability, difficulty = random.normal(size=(300, 1)), np.linspace(-1, 1, 6)
    >>> X = (random.random((300, 6)) < 1 / (1 + np.exp(difficulty - 2 * ability))).astype(float)
    >>> traits = GeneralizedFactorAnalysis(n_components=1, random_state=0).fit(X)
    >>> traits.transform(X).shape, bool((traits.log_prob(X) >= traits.elbo(X)).all())
    ((300, 1), True)
    """

    name: ClassVar[str] = "generalized-factor-analysis"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = GeneralizedFactorAnalysisModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"expectation": ExpectationForm}

    n_components: Annotated[int, "[1, inf)", Doc("Factors k; there may be more of them than columns.")] = 5
    likelihood: Annotated[
        Literal["bernoulli", "poisson"], Doc("p(x | z) of each column: of zeros and ones, or of counts.")
    ] = "bernoulli"
    expectation: Annotated[
        str | Recipe,
        Doc("What stands for the posterior in the E step; see `gnomon.training.expectations`."),
    ] = "variational"
    penalty: Annotated[
        float,
        "(0, inf)",
        Doc("Precision of the normal prior of loadings about 0, and of b about the column's own."),
    ] = 0.1
    n_init: Annotated[
        int, "[1, inf)", Doc("Starts; the one that ends with the highest objective is kept. The first is the SVD's.")
    ] = 1

    @property
    def domain(self) -> Any:
        """Zeros and ones, or counts."""
        if self.likelihood == "poisson":
            return Counts()
        return Binary()

    # --- fit ----------------------------------------------------------------------------------------------------------

    def make(self, n_features: int, dtype: str) -> GeneralizedFactorAnalysisModel:
        updates = self.recipe("expectation").updates
        columns = COLUMNS[self.likelihood]
        return GeneralizedFactorAnalysisModel(n_features, self.n_components, columns, self.penalty, updates)

    def initialize(self, model: GeneralizedFactorAnalysisModel, examples: Examples, noise: contracts.Noise) -> None:
        rows, weight = np.asarray(examples.X, np.float64), np.asarray(examples.weight, np.float64)
        model.seen = float(weight.sum())
        total = model.seen or 1.0
        model.center = model.columns.start(weight @ rows, total)
        model.bias = model.center.copy()
        at = model.columns.at(model.bias)
        scaled = (rows - at.slope) / np.sqrt(at.curvature) * np.sqrt(weight / total)[:, None]
        stream = noise.child("components")
        model.components = _leading(scaled, self.n_components, stream) / np.sqrt(at.curvature)[:, None]
        model.nodes = self.recipe("expectation").nodes(self.n_components, noise)
        others = [
            0.5 * np.asarray(stream.child(f"{i}").normal(model.components.shape, like=rows))
            for i in range(1, self.n_init)
        ]
        model.starts = [model.state()] + [model.state() | {"components": one} for one in others]

    def procedure(self, examples: Any) -> Procedure:
        steps = self.recipe("expectation").build(self.max_iter, self.tol)
        return steps if self.n_init == 1 else Restarts(steps)

    def _batch_size(self) -> int | None:
        return max(1, CHUNK_NUMBERS // max(self.n_features_in_, (self.n_components + 1) ** 2))

    def finish(self, model: GeneralizedFactorAnalysisModel) -> None:
        model.canonicalize()

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Self:
        """Take in a chunk of rows by one step; the first chunk begins the fit.

        Parameters
        ----------
        X : array of shape (n, n_features)
            An empty chunk changes nothing.
        y : ignored
        sample_weight : array of shape (n,), optional

        Raises
        ------
        UserError
            Rows that cannot be used, a changed hyper-parameter of the model.
        """
        self.check_parameters()
        first = not hasattr(self, "model_")
        if not first and is_empty(X):
            return self
        if not first:
            self._refuse_changes(sorted(set(self.get_params(deep=False)) - set(BETWEEN_CHUNKS)))
        with self._all_or_nothing():
            rows = self._rows(X, reset=first)
            examples = Examples({"X": rows}, row_weights(sample_weight, len(rows), rows.dtype))
            return self._step(examples, self._begun(examples) if first else deepcopy(self.model_))

    def _begun(self, examples: Examples) -> Any:
        """The model of a first chunk before its first step."""
        self.arguments_, self.seed_ = self.arguments(examples), seed_of(self.random_state)
        model = self._allocate(**self.arguments_)
        self.initialize(model, examples, Noise(self.seed_, "fit").child("initial"))
        model.seen = 0.0
        return model

    def _step(self, examples: Examples, model: GeneralizedFactorAnalysisModel) -> Self:
        """One step by a chunk, which stands for all rows so far."""
        weight = np.asarray(examples.weight, np.float64)
        if not weight.sum() > 0:
            return self
        expectation, steps = self.recipe("expectation"), getattr(self, "n_steps_", 0)
        model.nodes = expectation.nodes(self.n_components, Noise(self.seed_, "fit").child("initial"))
        model.updates, model.seen = expectation.updates, model.seen + float(weight.sum())
        reached = model.take_in(examples.X, weight, Online().weight(steps - 1) if steps else 1.0)
        self._set_fitted(model, FitResult(steps + 1, [{"step": steps + 1, "log_likelihood": reached}]))
        return self

    # --- what it says of rows -----------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def latent_posterior(self, rows: Array) -> NormalVectors:
        """A normal in the place of p(z | x): with its mean and covariance, or of the highest bound beyond two factors.

        The former are integrals on a grid.
        """
        model = self.model_
        return NormalVectors(*(FactorIntegrals(model).latent_moments(rows) if model.exact else model.posterior(rows)))

    def latent_modes(self, rows: Array) -> Array:
        """z of the highest p(x, z), exact: the log joint is concave."""
        return self.model_.modes(rows).astype(rows.dtype)

    def inverse_transform(self, Z: Any) -> Array:
        """E[x | z], shape (n, n_features): chances of ones, or mean counts."""
        check_is_fitted(self)
        latent = Real().check(Z, name="Z", dtype="float64")
        if latent.shape[1] != self.n_components:
            what = f"Z must have {self.n_components} columns, one per component, got {latent.shape[1]}"
            raise UserValueError(what, "Z")
        return self.model_.reconstruct(latent)

    def elbo(self, X: Any) -> Array:
        """Evidence lower bound of each row in nats, at most log p(x), shape (n,)."""
        rows = self._rows(X)
        return self.model_.elbo(rows, *self.model_.posterior(rows))

    # --- rows with missing cells --------------------------------------------------------------------------------------

    def cells_given(self, rows: Array, missing: NDArray[np.bool_], noise: contracts.Noise) -> Cells:
        found = FactorIntegrals(self.model_, noise)
        return self._in_own_units(found.moments(rows, missing), self.model_.exact, found.note)

    def cells_drawn(self, rows: Array, missing: NDArray[np.bool_], noise: contracts.Noise) -> Cells:
        found = FactorIntegrals(self.model_, noise)
        return Cells(self._in_units(found.draw(rows, missing)), None, self.model_.exact, found.note)

    def observed_estimate(self, rows: Array, missing: NDArray[np.bool_]) -> tuple[Array, dict[str, Any]]:
        found = FactorIntegrals(self.model_, Noise(self.seed_, "evaluate/observed"))
        return found.log_prob(rows, ~missing), {"kind": "lower bound", "note": found.note}

    @available_if(lambda self: self.n_components <= EXACT_FACTORS)
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Log probability of the known cells of each row in nats, of up to two factors. See `impute`."""
        rows, missing = self._gaps(X, mask)
        return FactorIntegrals(self.model_).log_prob(rows, ~missing)

    # --- what was fitted ----------------------------------------------------------------------------------------------

    @property
    def components_(self) -> Array:
        """Rows of W^T."""
        return self.model_.components.T

    @property
    def bias_(self) -> Array:
        """b."""
        return self.model_.bias

    @property
    def elbo_history_(self) -> Array:
        """The bound per row, by iteration."""
        check_is_fitted(self)
        return np.array(self.history_["log_likelihood"])

    @property
    def converged_(self) -> bool:
        """Whether the fit, each of its starts, ended before ``max_iter``."""
        check_is_fitted(self)
        if "objective" not in self.history_:
            raise AttributeError("converged_ is of fits by passes over all rows, not of streams (partial_fit)")
        starts = self.history_.get("start", [0] * len(self.history_["objective"]))
        return all(starts.count(one) < self.max_iter for one in set(starts))


def _leading(rows: Array, k: int, noise: contracts.Noise) -> Array:
    """Leading directions of rows, (d, k), as long as what their variance is above that of noise, 1."""
    d = rows.shape[1]
    some = np.asarray(noise.normal((d, k), like=rows))
    for _ in range(POWER_ITERATIONS):
        some = np.linalg.qr(rows.T @ (rows @ some))[0]
    _, length, turned = np.linalg.svd(rows @ some, full_matrices=False)
    found = 0.1 * np.asarray(noise.child("rest").normal((d, k), like=rows))
    r = len(length)
    found[:, :r] += (some @ turned.T) * np.sqrt(np.maximum(length**2 - 1, 0.0))
    return found
