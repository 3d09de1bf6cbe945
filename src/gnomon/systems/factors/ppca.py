"""Probabilistic principal component analysis: closed form and EM, missing values marginalized exactly."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise, Procedure
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Real
from gnomon.distributions.posteriors import NormalVectors
from gnomon.errors import UserValueError
from gnomon.numeric.noise import seed_of
from gnomon.recipes.fields import Doc
from gnomon.system.fields import Iterated
from gnomon.system.from_sums import FromSums
from gnomon.system.gaps import FillsExactly, truths
from gnomon.system.latent_codes import LatentCodes
from gnomon.systems.factors._model import FLOOR, PPCAModel
from gnomon.training.em import EM, ClosedForm
from gnomon.training.em_forms import HardEM
from gnomon.training.group import current as current_group

__all__ = ["PPCA", "PPCAModel"]

CHUNK_NUMBERS = 1 << 22
"""Numbers that one chunk of rows may take: 32 MB in float64."""

CLOSED_COLUMNS = 4096
"""Columns up to which ``method="auto"`` takes the closed form, whose covariance then has at most 134 MB."""

FORGETTING = 0.6
"""Power of a chunk's share of the weight so far that its statistics count by, in (0.5, 1] (Cappe and Moulines 2009)."""


@dataclass(frozen=True)
class _Latents:
    """What stands in the place of y: values of z, where labels would be left out."""

    values: Any


def _tell(model: PPCAModel) -> None:
    """Say once of a fit that the noise is at its floor."""
    if not model.held or current_group().rank:
        return
    warnings.warn(
        f"the rows lie in the fitted subspace: noise variance set to {model.noise_variance:.3g}; use fewer components "
        "for a density",
        UserWarning, stacklevel=4,
    )  # fmt: skip


class PPCA(FillsExactly, LatentCodes, Iterated, FromSums):
    r"""Gaussian density whose covariance is low rank plus a constant: the density version of PCA.

    :math:`x = W z + \mu + \epsilon`, :math:`z \sim N(0, I_k)`, :math:`\epsilon \sim N(0, \sigma^2 I_d)`. The maximum
    likelihood fit uses the covariance with divisor n: :math:`\sigma^2` is the MEAN of the discarded eigenvalues. NaN
    means missing: the fit (then by EM), the density and the transform use exactly the observed values. Where z is
    known for some rows, ``fit(X, latents=Z)`` takes it as it is.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Rows of W^T: orthogonal, longest first, largest entry positive; as the known z say where there are some.
    mean_ : array of shape (n_features,)
    noise_variance_ : float

    Notes
    -----
    `partial_fit` of the closed form is one fit to all rows so far. By EM a chunk is one step, on means of statistics
    that count it by its share of the weight so far to the power 0.6: go over the chunks until ``log_likelihood``, that
    of the chunk before its step, stands. A model fitted by EM keeps d (k + 1)^2 such numbers in memory.

    ``method="map"`` puts :math:`N(z^*, s^2 I)` about the most probable z in the place of the posterior, s = `noise`,
    and raises :math:`E \log p(x, z^* + s e) + \tfrac k2 \log 2 \pi e s^2`, a lower bound of log p(x), tight where
    :math:`\sigma^2 (W^T W + \sigma^2 I)^{-1} = s^2 I`. With s = 0 the objective is log p(x, z*), which bounds nothing:
    z shrinks and W grows from iteration to iteration, since that costs no likelihood, and the density spreads beyond
    the rows. Noise makes W pay for its length.

    Source: Tipping and Bishop (1999), sections 3.1 to 3.3; missing values: Ilin and Raiko (2010), section 3; EM
    with expanded parameters: Liu, Rubin and Wu (1998); in chunks: Cappe and Moulines (2009); at the most probable z:
    Goodfellow, Bengio and Courville (2016), section 19.3.

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
    } | {"noise": {"method": "map"}}
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
        Literal["auto", "closed", "em", "map"],
        Doc(
            '"closed" takes eigenvalues of the covariance, O(n d^2 + d^3), memory d^2; "em" never forms it, O(n d '
            'k) per iteration (O(n d k^2) with missing values); "auto" is closed without missing values and with at '
            'most 4,096 columns; "map" is hard EM, with each z at its most probable value.'
        ),
    ] = "auto"
    noise: Annotated[
        float,
        "[0, inf)",
        Doc(
            'With method="map" the standard deviation s of normal noise about each z, which makes the objective a '
            "bound of log p(x); 0 leaves a point, and no bound."
        ),
    ] = 0.0
    max_iter: int = 500
    tol: float = 1e-7

    fixed_by_sums: ClassVar[tuple[str, ...]] = ("n_components", "method", "noise")

    def chunk(self, rows: Array, y: Any, sample_weight: Any) -> Examples:
        n, k = len(rows), self._checked_latents(rows.shape[1])
        first, missing = not hasattr(self, "model_"), np.isnan(rows)
        if first and n <= k:
            raise UserValueError(
                f"the first chunk must have at least {k + 1} rows for {k} components, got {n}", "X", "join chunks"
            )
        if missing.any() and (self.method == "closed" if first else self.arguments_["closed"]):
            raise UserValueError("the closed form needs complete rows, got NaN", "X", 'begin again with method="em"')
        if first and missing.all(0).any():
            column = f"column {int(missing.all(0).argmax())}"
            raise UserValueError("the first chunk must have a value in every column", column, "join chunks")
        return super().chunk(rows, y, sample_weight)

    def first_seed(self) -> int:
        return 0 if self.arguments_["closed"] else seed_of(self.random_state)

    def sums_of(self, model: PPCAModel, examples: Examples, earlier: PPCAModel | None) -> dict[str, Array]:
        if earlier is not None:
            model.load(earlier.state())
        if self.arguments_["closed"]:
            return model.moments(examples.X, examples.weight)
        return (model.expect_mode if self.method == "map" else model.expect)(examples.X, examples.weight)

    def pooled(self, one: dict[str, Array], other: dict[str, Array]) -> dict[str, Array]:
        """Of the closed form the sum; of EM means per row, the new ones by a share that grows smaller."""
        if self.arguments_["closed"]:
            return dict(super().pooled(one, other))
        before, now = float(one["weight"]), float(other["weight"])
        if not now:
            return one
        total = before + now
        share = (now / total) ** FORGETTING
        mixed = {
            name: total * ((1 - share) * one[name] / before + share * value / now) for name, value in other.items()
        }
        return mixed | {"log_likelihood": total / now * other["log_likelihood"]}

    def _latents(self, n_features: int) -> int:
        return max(1, n_features // 2) if self.n_components is None else self.n_components

    def _checked_latents(self, n_features: int) -> int:
        latents = self._latents(n_features)
        if latents > n_features:
            what = f"n_components must be at most n_features={n_features}, got n_components={self.n_components}"
            raise UserValueError(what, "n_components")
        return latents

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        n, d = examples.X.shape
        latents = self._known(y.values, n, d) if isinstance(y, _Latents) else None
        if latents is not None and not np.isnan(latents).all():
            examples = Examples({"X": examples.X, "y": latents}, examples.weight)
        self._checked_latents(d)
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
        if "y" in examples.fields and self.method in ("closed", "map"):
            raise UserValueError.must("method", "be em or auto where latents are known", self.method)
        return examples

    def _known(self, latents: Any, n: int, d: int) -> Array:
        """Known values of z, NaN in the rows where they are unknown."""
        given, k = Real(allow_missing=True).check(latents, name="latents", dtype="float64"), self._latents(d)
        if given.shape != (n, k):
            raise UserValueError(
                f"latents must have {n} rows and {k} columns, one per component, got an array of shape {given.shape}",
                "latents",
            )
        missing = np.isnan(given)
        part = missing.any(1) & ~missing.all(1)
        if part.any():
            row = f"latents, row {int(part.argmax())}"
            raise UserValueError("a row of latents must be known whole or not at all (all NaN)", row)
        return given

    def fit(self, X: Any, y: Any = None, *, latents: Any = None, **options: Any) -> Self:
        """Fit to rows; see `System.fit`. `y` is left out.

        Parameters
        ----------
        latents : array of shape (n_samples, n_components), optional
            Known values of z, a row of NaN where they are not known. The fit is then by EM: known values enter with
            posterior covariance 0, the likelihood is that of the observed x and the known z, and W is not rotated. A
            run that was interrupted does not go on with them: fit again.
        """
        return super().fit(X, None if latents is None else _Latents(latents), **options)

    def arguments(self, examples: Examples) -> dict[str, Any]:
        closed = self.method == "closed" or (
            self.method == "auto" and examples.X.shape[1] <= CLOSED_COLUMNS and not np.isnan(examples.X).any()
        )
        facts = {"closed": bool(closed), "known": False}
        if "y" in examples.fields:
            facts = {"closed": False, "known": True}
        return super().arguments(examples) | facts

    def make(self, n_features: int, dtype: str, closed: bool, known: bool = False) -> PPCAModel:
        model = PPCAModel(np.zeros((n_features, self._latents(n_features))), np.zeros(n_features), 1.0)
        model.identified = known
        model.spread = self.noise if self.method == "map" else None
        return model

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
        if self.arguments_["closed"]:
            return ClosedForm()
        if self.method == "map":
            return HardEM(self.max_iter, self.tol, self._quantity())
        return EM(self.max_iter, self.tol)

    def _quantity(self) -> str:
        """What an iteration says of the rows."""
        if self.method != "map":
            return "log_likelihood"
        return "bound" if self.noise else "log_joint"

    def _batch_size(self) -> int | None:
        return max(1, CHUNK_NUMBERS // max(self.n_features_in_, (self._latents(self.n_features_in_) + 1) ** 2))

    def finish(self, model: PPCAModel) -> None:
        model.canonicalize()
        if not self.arguments_["closed"]:
            model.settle()
        _tell(model)

    def solve(self, model: PPCAModel, sums: Any, examples: Examples, n: int) -> dict[str, float]:
        if self.arguments_["closed"]:
            record = super().solve(model, sums, examples, n)
        else:
            record = {self._quantity(): float(sums["log_likelihood"] / sums["weight"])}
            model.maximize(sums)
            model.canonicalize()
            model.settle()
        _tell(model)
        return record

    @property
    def objective_(self) -> float:
        """What an iterated fit has raised, per row in nats, at its last expectations.

        The log-likelihood; with ``method="map"`` log p(x, z) at the most probable z, or with noise the bound. Values
        of unlike `noise` are no measure of models: `log_prob` is.
        """
        check_is_fitted(self)
        if "objective" not in self.history_:
            raise AttributeError("objective_ is of iterated fits (method='em' or 'map'), not of chunks")
        return float(self.history_["objective"][-1])

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

    def latent_posterior(self, rows: Array) -> NormalVectors:
        """p(z | observed values), exact."""
        return self.model_.posterior(rows)

    def latent_means(self, rows: Array) -> Array:
        """E[z | observed values], shape (n, n_components)."""
        return self.model_.latent_mean(rows).astype(rows.dtype)

    def latent_modes(self, rows: Array) -> Array:
        """The same: the posterior is normal."""
        return self.latent_means(rows)

    def inverse_transform(self, Z: Any) -> Array:
        """E[x | z], shape (n, d)."""
        check_is_fitted(self)
        latent = Real().check(Z, name="Z", dtype="float64")
        if latent.shape[1] != self._n_features_out:
            raise UserValueError(
                f"Z must have {self._n_features_out} columns, one per component, got {latent.shape[1]}", "Z"
            )
        return self._in_units(self.model_.reconstruct(latent))

    def _gaps(self, X: Any, mask: Any) -> tuple[Array, NDArray[np.bool_]]:
        """Rows with 0 for what is missing, and where that is; NaN passes through what prepares the columns."""
        rows = self._rows(X)
        missing = np.isnan(rows) if mask is None else np.isnan(rows) | truths(mask, rows.shape)
        return np.where(missing, 0, rows).astype(rows.dtype), missing
