"""Products of Student-t experts: heavy-tailed responses of filters, with hidden units that move means or without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr
from scipy.special import gammaln
from sklearn.utils.metaestimators import available_if

from gnomon import contracts
from gnomon.contracts import Array, Path
from gnomon.data.examples import Examples
from gnomon.distributions.correlated_units import CorrelatedGaussianUnits, UnheldGaussianUnits
from gnomon.distributions.domains import Real
from gnomon.distributions.gamma_units import GammaUnits, standard_gamma
from gnomon.distributions.joined import Joined
from gnomon.distributions.layers import LOG_2_PI
from gnomon.distributions.units import BernoulliUnits, Units
from gnomon.errors import UserValueError
from gnomon.inference.arrays import convert, prototype
from gnomon.inference.blocks import join, part
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.numeric.sparse import by_rows
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._machine import DensityMachine, StandardizedMachine, posterior_modes
from gnomon.systems.energy._normalizable import rank_of, student_normalizable
from gnomon.systems.energy.covariance_links import FilterLink, MeanLink
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import Link

__all__ = ["ProductOfT", "ProductOfTModel"]

FIRST_WEIGHTS = 0.1
"""Standard deviation of the first weights, and of filters beside them, in units of those of the columns."""
SHAPES = {False: (1.0, 1e3), True: (1e-2, 1e3)}
"""Limits of learned shapes without units of the mean, whose density has no heavier tails than Cauchy's, and with."""

Floats = NDArray[np.float64]


class ProductOfTModel(LayeredMachine):
    r"""Real x, positive :math:`h_j`, and where wanted bits :math:`m_k` that move means, with the energy

    .. math:: E = \textstyle\sum_j \big[h_j (1 + \tfrac12 (r_j^T x)^2) + (1 - \gamma_j) \log h_j\big]
        + \big[\tfrac12 x^T x - a^T x - x^T W m - b^T m\big] .

    The second bracket is there with units of the mean alone. With h summed out an expert is
    :math:`\Gamma(\gamma_j) (1 + \frac12 (r_j^T x)^2)^{-\gamma_j}`, the density of Student's t with
    :math:`2 \gamma_j - 1` degrees of freedom up to a constant.

    Parameters
    ----------
    n_visible, n_experts : int
        Columns, filters.
    n_mean : int
        Units of the mean.
    dtype : torch.dtype
    spread : array of shape (n_visible,), optional
        Standard deviations of the data's columns; 1 by default.
    floor : float in [0, inf)
        1 / floor is the greatest length of a filter in units of `spread`; none where it is 0.
    """

    filters: torch.nn.Parameter
    hidden_log_shape: torch.nn.Parameter

    def __init__(
        self,
        n_visible: int,
        n_experts: int,
        n_mean: int = 0,
        dtype: torch.dtype = torch.float32,
        *,
        spread: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> None:
        visible = CorrelatedGaussianUnits(n_visible) if n_mean else UnheldGaussianUnits(n_visible)
        units: dict[str, Units] = {"visible": visible, "hidden": GammaUnits(n_experts)}
        links: list[Link] = [FilterLink("visible", "hidden", n_visible, name="")]
        if n_mean:
            units["mean"] = BernoulliUnits(n_mean)
            links.append(MeanLink("visible", "mean", n_visible, name=""))
        super().__init__(units, links, dtype=dtype)
        self.has_means, self.floor = bool(n_mean), floor
        self.spread = np.ones(n_visible) if spread is None else np.asarray(spread, np.float64)

    @classmethod
    def of(
        cls,
        filters: ArrayLike,
        shape: ArrayLike,
        weight: ArrayLike | None = None,
        bias: ArrayLike = 0.0,
        visible_bias: ArrayLike = 0.0,
    ) -> ProductOfTModel:
        """The model of R (d, n), gamma (n,), and with units of the mean W (d, n_mean), b and a, in float64.

        Raises
        ------
        UserValueError
            A gamma that is not above 0, experts whose product cannot be normalized.
        """
        R, gamma = np.asarray(filters, np.float64), np.asarray(shape, np.float64)
        if not (np.isfinite(gamma) & (gamma > 0)).all():
            raise UserValueError(f"shape must be finite and above 0, got {gamma.min():g}", "shape")
        W = None if weight is None else np.asarray(weight, np.float64)
        model = cls(R.shape[0], R.shape[1], 0 if W is None else W.shape[1], torch.float64)
        with np.errstate(divide="ignore"):
            values: dict[str, Any] = {"filters": R, "hidden_log_shape": np.log(gamma)}
        if W is not None:
            values |= {"weight": W, "mean_bias": bias, "visible_bias": visible_bias}
        with torch.no_grad():
            for name, value in values.items():
                model.get_parameter(name).copy_(torch.as_tensor(np.asarray(value, np.float64)))
        if model.normalizable() is False:
            model._refuse()
        return model

    def initialize(
        self,
        noise: contracts.Noise,
        mean: ArrayLike | None = None,
        *,
        scale: float = FIRST_WEIGHTS,
        shape: float = 2.0,
    ) -> Self:
        """Experts of one shape; beside units of the mean small random filters, else frames of about the data's spread.

        A frame is d filters at right angles to each other, of such a length that all experts together give columns the
        spread that they have in the data while responses are small.
        """
        super().initialize(noise, mean, scale=scale)
        d, n = self.filters.shape
        filters = scale * noise.child("filters").normal((d, n), like=self.spread)
        if not self.has_means:
            turns = np.linalg.qr(noise.child("frames").normal((-(-n // d), d, d), like=self.spread))[0]
            filters = np.concatenate(list(turns), axis=1)[:, :n] * np.sqrt(d / (shape * n))
        with torch.no_grad():
            self.filters.copy_(torch.from_numpy(filters / self.spread[:, None]))
            self.hidden_log_shape.fill_(float(np.log(shape)))
        return self

    # --- whether there is a density, and where in closed form ---------------------------------------------------------

    def _double(self) -> tuple[Floats, Floats]:
        """R and gamma in float64."""
        filters, log_shape = (one.detach().double().cpu().numpy() for one in (self.filters, self.hidden_log_shape))
        return filters, np.exp(log_shape)

    def normalizable(self) -> bool | None:
        """Whether the density can be normalized, None where that is not decided: with units of the mean always.

        Without them see `gnomon.systems.energy._normalizable.student_normalizable`.
        """
        return True if self.has_means else student_normalizable(*self._double())

    def _refuse(self) -> None:
        R, gamma = self._double()
        what = (
            f"the experts cannot be normalized: filters of the rank {rank_of(R)} for {len(R)} columns, shapes from "
            f"{gamma.min():g}"
        )
        raise UserValueError(what, "parameters", f"give {len(R)} independent filters with shapes above 1/2")

    def _alone(self) -> NDArray[np.int64] | None:
        """The experts whose filters are not 0, where they are as many as columns and nothing else acts on these."""
        found = np.flatnonzero(self._double()[0].any(0))
        return found if not self.has_means and len(found) == len(self.spread) else None

    def log_partition(self) -> float:
        r"""Exact log Z, of experts without units of the mean that are as many as columns.

        A product of independent Student-t densities of the responses: :math:`\log Z = \sum_j [\frac12 \log 2 \pi +
        \log \Gamma(\gamma_j - \frac12)] - \log |\det R|`. An expert with a filter of 0 has the factor
        :math:`\Gamma(\gamma_j)` besides.

        Raises
        ------
        UserValueError
            More experts, units of the mean, or no density at all.
        """
        if self.normalizable() is False:
            self._refuse()
        R, gamma = self._double()
        if self.has_means and not (R.any() or self.get_parameter("weight").any()):
            return super().log_partition()
        alone = self._alone()
        if alone is None:
            what = "log Z has a closed form for as many experts as columns without units of the mean alone"
            raise UserValueError(what, "parameters", "estimate it by annealed importance sampling")
        idle = np.delete(gamma, alone)
        each = 0.5 * LOG_2_PI + gammaln(gamma[alone] - 0.5)
        return float(each.sum() + gammaln(idle).sum() - np.linalg.slogdet(R[:, alone])[1])

    @available_if(lambda self: isinstance(self, type) or self._alone() is not None)
    def log_prob(self, x: Array) -> Array:
        """Exact log p(x) in nats, of as many experts as columns without units of the mean."""
        return -self.energy(x) - self.log_partition()

    # --- paths from a base --------------------------------------------------------------------------------------------

    def base(self, mean: Array | None = None) -> Self:
        """Without units of the mean d independent ones of the experts, else independent normal columns."""
        if self.has_means:
            return super().base(mean)
        if not self.normalizable():
            self._refuse()
        R, gamma = self._double()
        heavy = np.flatnonzero(gamma > 0.5)
        chosen = heavy[qr(R[:, heavy] * np.sqrt(gamma[heavy]), pivoting=True)[2][: len(R)]]
        filters = np.zeros_like(R)
        filters[:, chosen] = R[:, chosen]
        return self._with({"filters": filters, "hidden_log_shape": np.log(gamma)})

    def bridge(self, base: LayeredMachine, eta: float) -> Self:
        """p_base**(1 - eta) * p**eta on all layers, from a base of some of the experts: squares of the others scale."""
        found = super().bridge(base, eta)
        with torch.no_grad():
            held = base.get_parameter("filters").any(0)
            found.filters.copy_(torch.where(held, self.filters, self.filters * eta**0.5))
        return found

    def path(self, base: LayeredMachine, etas: Array, keep: Sequence[str]) -> Path:
        """The bridge; its weights are at most 1 where it begins at some of the experts."""
        return BridgePath(self, base, etas, keep) if self.has_means else _ExpertsPath(self, base, etas, keep)

    def draws(self, n: int, noise: contracts.Noise) -> dict[str, Array]:
        """n independent draws of all layers, of as many experts with a filter as columns."""
        alone, like = self._alone(), prototype(self)
        assert alone is not None, "draws are of a base"
        R, gamma = self._double()
        shape = gamma.copy()
        shape[alone] -= 0.5  # with x summed out, of which each response is normal of the variance 1 / h
        h = standard_gamma(shape, (n, len(shape)), noise.child("hidden"), like=R)
        responses = noise.child("response").normal((n, len(alone)), like=R) / np.sqrt(h[:, alone])
        x = np.linalg.solve(R[:, alone].T, responses.T).T
        return {"visible": convert(x, like), "hidden": convert(h, like)}

    def confine(self) -> None:
        """Filters back to the greatest length, shapes between their limits."""
        low, high = np.log(SHAPES[self.has_means])
        with torch.no_grad():
            self.hidden_log_shape.clamp_(low, high)
            if self.floor:
                spread = torch.from_numpy(self.spread).to(self.filters)
                length = (self.filters * spread[:, None]).norm(dim=0).clamp(min=1 / self.floor)
                self.filters.div_(length * self.floor)


class _ExpertsPath(BridgePath):
    """The bridge from experts that are drawn from exactly."""

    def start(self, n: int, noise: contracts.Noise) -> Array:
        """n draws of the base's kept blocks."""
        self._needs_base()
        return join(self.base.draws(n, noise), self.keep)


class ProductOfT(StandardizedMachine, DensityMachine):
    r"""Product of Student-t experts (PoT): a density of real columns made of heavy-tailed responses of filters.

    Each expert looks at a row through its filter r_j and finds it the likelier the smaller the response:
    :math:`p(x) \propto \prod_j (1 + \frac12 (r_j^T x)^2)^{-\gamma_j}`. Its hidden unit, a gamma number, is the
    precision along the filter: given all of them a row is normal with precision :math:`\sum_j h_j r_j r_j^T`. With
    ``n_mean`` bits that move means besides, and the identity in the precision, it is the mean product of Student-t
    (mPoT).

    Attributes
    ----------
    filters_ : array of shape (n_features, n_experts)
        r_j, in the model's units.
    shapes_ : array of shape (n_experts,)
        gamma_j; responses of an expert alone have Student's t with 2 gamma_j - 1 degrees of freedom.
    weights_ : array of shape (n_features, n_mean)
        By how much units of the mean pull the columns, in the model's units.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood), and ``gradient_norm``.

    Notes
    -----
    As many experts as columns are independent component analysis with Student-t sources, and their density is exact;
    log Z of more experts, or beside units of the mean, is estimated by annealing, from as many of the experts as there
    are columns with weights that are bounded. Without units of the mean the density is symmetric about the mean of the
    training data, which is subtracted with ``standardize=False`` too. Filters have a greatest length, 1 / ``floor``,
    and shapes are kept from 1 to 1000 (from 0.01 beside units of the mean), so that a density always exists. Columns
    depend on each other given the hidden units: a Gibbs step costs O(d^3 + n_experts d^2) for each row.
    Sources: Welling, Hinton and Osindero (2003), "Learning sparse topographic representations with products of
    Student-t distributions"; Ranzato, Mnih and Hinton (2010), "Generating more realistic images using gated MRF's";
    Goodfellow, Bengio and Courville (2016), section 20.5.2.

    Examples
    --------
    >>> import numpy as np
    >>> sources = np.random.default_rng(0).standard_t(3, size=(500, 2))
    >>> X = sources @ [[1.0, 1.0], [0.0, 0.5]]
    >>> machine = ProductOfT(epochs=40, learning_rate=0.02, random_state=0).fit(X)
    >>> machine.transform(X).shape, bool(machine.score(X) > -3.6)  # -4.0 as a normal density
    ((500, 2), True)
    """

    name: ClassVar[str] = "product-of-t"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = ProductOfTModel
    domain = Real(largest=1e100)
    resamples_rows: ClassVar[bool] = True  # the default objective draws chains beside each row

    n_experts: Annotated[
        int | None, "[1, inf)", Doc("Experts; None: as many as columns, of which the likelihood is exact.")
    ] = None
    n_mean: Annotated[int, "[0, inf)", Doc("Hidden bits that move means; 0 for experts alone.")] = 0
    shape: Annotated[
        float, "[1, 1000]", Doc("First shape of the hidden units: 2 shape - 1 degrees of freedom of an expert alone.")
    ] = 2.0
    floor: Annotated[
        float,
        "(0, inf)",
        Doc("1 / the greatest length of a filter, in units of the columns' standard deviations."),
    ] = 0.1
    objective: str | Recipe = "cd"
    epochs: int = 30
    batch_size: int | None = 50
    learning_rate: float = 0.005
    optimizer: str | Recipe = "adam"

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> ProductOfTModel:
        n_experts = n_features if self.n_experts is None else self.n_experts
        if n_experts < n_features and not self.n_mean:
            what = f"n_experts must be at least the number of columns, {n_features}, got {n_experts}"
            raise UserValueError(what, "n_experts", "leave it out, or give n_mean, with which any number will do")
        return ProductOfTModel(
            n_features, n_experts, self.n_mean, getattr(torch, dtype),
            spread=np.ones(n_features) if self._scales() else np.array(deviation), floor=self.floor,
        )  # fmt: skip

    def initialize(self, model: ProductOfTModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean(), shape=self.shape)

    def _shift(self) -> Array:
        return np.array(self.arguments_["mean"]) if self._scales() or not self.n_mean else super()._shift()

    def _start(self, n: int, noise: contracts.Noise) -> Array:
        if self.model_.has_means:
            return super()._start(n, noise)
        return self.model_.place(self.model_.base().draws(n, noise)["visible"])

    # --- codes --------------------------------------------------------------------------------------------------------

    @property
    def _hidden_blocks(self) -> tuple[str, ...]:
        """Those of the mean first."""
        return ("mean", "hidden") if self.model_.has_means else ("hidden",)

    @property
    def _n_features_out(self) -> int:
        return sum(self.model_.sizes[block] for block in self._hidden_blocks)

    def transform(self, X: Any, *, method: Literal["mean", "map"] = "mean") -> Array:
        """Means or most probable values of the hidden units given the rows, those of the mean first.

        Parameters
        ----------
        X : array of shape (n, n_features)
        method : {"mean", "map"}, default "mean"

        Returns
        -------
        array of shape (n, n_mean + n_experts)
        """
        return super().transform(X, method=method)

    def _hidden_modes(self, rows: Array) -> Array:
        return join(posterior_modes(self.model_, rows), self._hidden_blocks)

    def _hidden_posterior(self, rows: Array) -> Joined:
        given = self.model_.rest({"visible": rows})
        return Joined.of([given[block] for block in self._hidden_blocks])

    def _hidden_means(self, rows: Array) -> Array:
        blocks = self._hidden_blocks

        def means(rows: Array) -> Array:
            given = self.model_.rest({"visible": rows})
            return join({block: given[block].mean for block in blocks}, blocks)

        found: Array = by_rows(means, rows)
        return found

    @available_if(lambda self: self.n_mean > 0)
    def reconstruct(self, X: Any) -> Array:
        """E[v | hidden means] given X, shape (n, n_features); there with units of the mean."""
        hidden = part(self._hidden_means(self._scaled(self._rows(X))), self.model_, self._hidden_blocks)
        return self.from_visible(self.model_.conditional("visible", hidden).mean)

    # --- what was learned ---------------------------------------------------------------------------------------------

    def _state(self) -> Mapping[str, Array]:
        state: Mapping[str, Array] = self.model_.state()
        return state

    @property
    def filters_(self) -> Array:
        """R."""
        return self._state()["filters"]

    @property
    def shapes_(self) -> Array:
        """gamma."""
        return np.exp(self._state()["hidden_log_shape"])

    @property
    def weights_(self) -> Array:
        """W, without columns where there are no units of the mean."""
        state = self._state()
        return state.get("weight", np.zeros((len(state["filters"]), 0), state["filters"].dtype))
