"""Spike-and-slab sparse coding: real rows as sums of components that are there or not, with real amplitudes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.distributions.posteriors import FamilyRows
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc
from gnomon.system.base import System
from gnomon.system.fields import Iterated, Standardized
from gnomon.system.gaps import Cells, FillsGaps
from gnomon.system.latent_codes import LatentCodes
from gnomon.systems.factors._spike_and_slab import EXACT_SPIKES, SpikeAndSlabSparseCodingModel
from gnomon.systems.factors._spike_cells import SpikeCells
from gnomon.training.variational_em import VariationalEM

__all__ = ["SpikeAndSlabSparseCoding", "SpikeAndSlabSparseCodingModel"]


class SpikeAndSlabSparseCoding(FillsGaps, LatentCodes, Standardized, Iterated, System):
    r"""Spike-and-slab sparse coding (S3C): a row is a sum of components, each there or not, of real amplitudes.

    :math:`h_i \sim Bernoulli(\sigma(b_i))`, :math:`s_i | h_i \sim N(h_i \mu_i, \alpha_i^{-1})` and
    :math:`x | s, h \sim N(W (h \circ s), \beta^{-1})`: the directed relative of the spike-and-slab machine, whose
    energy lacks :math:`\tfrac12 (W (h \circ s))^T \beta W (h \circ s)`. It always has a normalizer; for that the
    components compete for a row, and what is hidden is no longer independent given it.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Columns of W, in units of the scaled columns, of length 1.
    spike_probabilities_ : array of shape (n_components,)
        sigmoid(b): how often a component is there.
    history_ : dict of lists
        By iteration ``log_likelihood``, the evidence lower bound in nats per row, and ``objective``, with the prior.

    Notes
    -----
    Fitted by variational EM: the posterior is approximated by :math:`\prod_i Q(h_i) Q(s_i | h_i)`, which knows that a
    slab is otherwise where its spike is off, and goes on from where it was, so that the bound never falls; for new rows
    it begins at the prior, and may settle at another of several optima. Components taken in turn never lower the bound;
    taken all at once they do where they overlap, so that a step goes part of the way, and half as far for a row whose
    bound would fall. With up to 10 components the density is a sum over 2^m normal densities and exact; beyond that
    there is the bound (`elbo`), and in `evaluate` the tighter one of 64 draws. With every h at 1 it is factor analysis
    of mean :math:`W \mu`. A row with and a row without each component are added to those that were seen, so that no b
    is infinite. Cost of a round O(n m^2), beside O(n d m) an iteration; memory of the fit O(n m).
    Source: Goodfellow, Courville and Bengio (2012), "Large-scale feature learning with spike-and-slab sparse coding".

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> spikes, slabs = random.random((500, 2)) < 0.3, random.normal(3, 0.5, size=(500, 2))
    >>> X = (spikes * slabs) @ np.eye(2, 4) + 0.3 * random.normal(size=(500, 4))
    >>> coding = SpikeAndSlabSparseCoding(n_components=2, standardize=False, random_state=0).fit(X)
    >>> bool((coding.log_prob(X) - coding.elbo(X)).min() > -1e-9), coding.transform(X).shape
    (True, (500, 2))
    """

    name: ClassVar[str] = "spike-and-slab-sparse-coding"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = SpikeAndSlabSparseCodingModel
    domain = Real(largest=1e100)
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"damping": {"updates": "parallel"}}

    n_components: Annotated[int, "[1, inf)", Doc("Components m; there may be more of them than columns.")] = 32
    updates: Annotated[
        Literal["sequential", "parallel"],
        Doc("Mean field takes components one after the other, or all at once by damped steps."),
    ] = "sequential"
    damping: Annotated[float, "[0, 1)", Doc("Share of the old means in a step of all components at once.")] = 0.5
    sweeps: Annotated[int, "[1, inf)", Doc("Rounds of mean field for a row at most.")] = 50
    floor: Annotated[
        float, "(0, inf)", Doc("Least standard deviation of the noise of a column, in units of the scaled columns.")
    ] = 0.1
    max_iter: int = 100
    tol: float = 1e-3

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        if len(examples.X) < 2:
            raise UserValueError("n_samples=1 has no variance", "X", "give at least 2 rows")
        return examples

    def make(self, n_features: int, dtype: str) -> SpikeAndSlabSparseCodingModel:
        return SpikeAndSlabSparseCodingModel(
            np.zeros((n_features, self.n_components)), updates=self.updates, damping=self.damping, sweeps=self.sweeps,
            floor=self.floor,
        )  # fmt: skip

    def initialize(self, model: SpikeAndSlabSparseCodingModel, examples: Examples, noise: Noise) -> None:
        if self.standardize:
            model.shift, model.unit = standardization(examples.X, examples.weight)
        rows = model.scaled(examples.X)
        variance = np.average(rows * rows, axis=0, weights=examples.weight)
        model.noise_precision = 1 / np.maximum(variance, self.floor**2)
        directions = noise.child("components").normal(model.components.shape, like=model.shift)
        model.components = directions / np.linalg.norm(directions, axis=0)
        scale = float(variance.sum()) or 1.0
        model.slab_precision = np.full(self.n_components, 1 / scale)

    def procedure(self, examples: Any) -> Procedure:
        return VariationalEM(self.max_iter, self.tol)

    # --- codes and evidence -------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """h s of each component: E_Q[h s | x] by structured mean field, or the most probable h and s together.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"
            ``map``: h and s at which p(x, h, s) is largest, exact up to 10 components, all of whose 2^m sets are
            visited, and refused beyond.

        Returns
        -------
        array of shape (n, n_components)
        """
        return super().transform(X, method=method)

    def latent_posterior(self, rows: Array) -> FamilyRows:
        return self.model_.posterior(rows)

    def latent_modes(self, rows: Array) -> Array:
        return self.model_.modes(rows).astype(rows.dtype)

    def inverse_transform(self, Z: Any) -> Array:
        """E[x | h s] of codes, shape (n, n_features)."""
        check_is_fitted(self)
        codes = Real().check(Z, name="Z", dtype="float64")
        if codes.shape[1] != self.n_components:
            what = f"Z must have {self.n_components} columns, one per component, got {codes.shape[1]}"
            raise UserValueError(what, "Z")
        return self._in_units(self.model_.decode(codes))

    def elbo(self, X: Any) -> Array:
        """Evidence lower bound of each row in nats, at most log p(x), shape (n,)."""
        rows = self._rows(X)
        return np.asarray(self.model_.codes(rows).elbo - self._log_units(rows))

    # --- rows with missing cells --------------------------------------------------------------------------------------

    @available_if(lambda self: self.n_components <= EXACT_SPIKES)
    def log_prob_observed(self, X: Any, mask: Any = None) -> Array:
        """Exact log density of the known cells of each row in nats, of up to 10 components. See `impute`."""
        rows, missing = self._gaps(X, mask)
        found = SpikeCells(self.model_).moments(rows, missing)
        return np.asarray(found.log_prob - self._log_units_seen(rows, missing))

    def cells_given(self, rows: Array, missing: NDArray[np.bool_], noise: Noise) -> Cells:
        cells = SpikeCells(self.model_, noise)
        return self._in_own_units(cells.moments(rows, missing), cells.exact, cells.note)

    def cells_drawn(self, rows: Array, missing: NDArray[np.bool_], noise: Noise) -> Cells:
        cells = SpikeCells(self.model_, noise)
        return Cells(self._in_units(cells.draw(rows, missing)), None, cells.exact, cells.note)

    @property
    def components_(self) -> Array:
        """Rows of W^T."""
        return np.asarray(self.model_.components.T)

    @property
    def spike_probabilities_(self) -> Array:
        """sigmoid(b)."""
        return np.asarray(1 / (1 + np.exp(-self.model_.bias)))
