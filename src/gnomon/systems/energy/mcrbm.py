"""The restricted Boltzmann machine whose hidden units move means and covariances of real columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from gnomon import contracts
from gnomon.contracts import Array, Path
from gnomon.data.examples import Examples
from gnomon.distributions.correlated_units import CorrelatedGaussianUnits
from gnomon.distributions.domains import Real
from gnomon.distributions.units import BernoulliUnits
from gnomon.inference.exact.cells import NormalCells
from gnomon.inference.exact.enumeration import states
from gnomon.inference.mcmc.paths import BridgePath
from gnomon.numeric.ops import concatenate
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._machine import DensityMachine, StandardizedMachine
from gnomon.systems.energy.covariance_links import FilterLink, MeanLink
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import Link, Own

__all__ = ["MCRBM", "MCRBMModel", "MeanCovarianceLink"]

EXACT_BITS = 10
"""Hidden units of which all states are visited for missing columns, each a matrix of its own."""
FIRST_WEIGHTS = 0.1
"""Standard deviation of the first weights and filters, in units of those of the columns."""


class MeanCovarianceLink(Link):
    """x W h for the first hidden units, -(x R)^2 h / 2 for the others: a `MeanLink` and a `FilterLink` in one layer.

    Parameters
    ----------
    a, b : str
        Layers of `CorrelatedGaussianUnits` and of `BernoulliUnits`.
    d, n_mean : int
        Columns; hidden units that move means.
    name : str, optional
        As in `Link`.
    """

    def __init__(self, a: str, b: str, d: int, n_mean: int, *, name: str | None = None) -> None:
        self.n_mean, self.parts = n_mean, (MeanLink(a, b, d), FilterLink(a, b, d))
        super().__init__(a, b, name=name)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """W (d, n_mean), R (d, the other units)."""
        a, b = self.ends
        shares = (self.n_mean, max(sizes[b] - self.n_mean, 0))
        return {
            name: shape
            for part, n in zip(self.parts, shares, strict=True)
            for name, shape in part.shapes({a: sizes[a], b: n}).items()
        }

    def field(self, block: str, x: Array, own: Own) -> Array:
        """[x W, -(x R)^2 / 2], or [W h, R diag(h) R^T]."""
        mean, filters = self.parts
        if block == self.ends[1]:
            return concatenate([part.field(block, x, own) for part in self.parts], axis=1)
        return mean.field(block, x[:, : self.n_mean], own) + filters.field(block, x[:, self.n_mean :], own)

    def statistics(self, left: Array, right: Array, weight: Array, own: Own) -> dict[str, Array]:
        """Weighted outer products of x and h, and of -(x x^T) R and h."""
        shares = (right[:, : self.n_mean], right[:, self.n_mean :])
        mean, filters = (part.statistics(left, h, weight, own) for part, h in zip(self.parts, shares, strict=True))
        return mean | filters


class MCRBMModel(LayeredMachine):
    r"""Real x, bits :math:`h^m` that move its mean and bits :math:`h^c` that shape its covariance, with the energy

    .. math:: E = \tfrac12 x^T x - a^T x - x^T W h^m - b^T h + \tfrac12 \textstyle\sum_j h^c_j (r_j^T x)^2 .

    :math:`x | h` is normal with precision :math:`I + \sum_j h^c_j r_j r_j^T`: it can always be normalized.

    Parameters
    ----------
    n_visible, n_mean, n_covariance : int
        Columns; hidden units of each kind, the first ones of the hidden layer those of the mean.
    dtype : torch.dtype
    floor : float in [0, inf)
        1 / floor is the greatest length of a filter r_j; none where it is 0.
    """

    weight: torch.nn.Parameter
    filters: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter

    def __init__(
        self, n_visible: int, n_mean: int, n_covariance: int, dtype: torch.dtype = torch.float32, *, floor: float = 0.0
    ) -> None:
        units = {"visible": CorrelatedGaussianUnits(n_visible), "hidden": BernoulliUnits(n_mean + n_covariance)}
        super().__init__(units, [MeanCovarianceLink("visible", "hidden", n_visible, n_mean, name="")], dtype=dtype)
        self.floor = floor

    @classmethod
    def of(cls, weight: ArrayLike, filters: ArrayLike, bias: ArrayLike, visible_bias: ArrayLike = 0.0) -> MCRBMModel:
        """The model of W (d, n_mean), R (d, n_covariance), b of both kinds of units and a, in float64."""
        W, R = np.asarray(weight, np.float64), np.asarray(filters, np.float64)
        model = cls(W.shape[0], W.shape[1], R.shape[1], torch.float64)
        with torch.no_grad():
            for name, value in (("weight", W), ("filters", R), ("hidden_bias", bias), ("visible_bias", visible_bias)):
                model.get_parameter(name).copy_(torch.as_tensor(np.asarray(value, np.float64)))
        return model

    def normal_cells(self) -> NormalCells | None:
        """The density as a mixture over the states of up to 10 hidden units, which says what missing columns are."""
        bits = self.units["hidden"].size
        if bits > EXACT_BITS:
            return None
        own = {name: value.detach().double().cpu().numpy() for name, value in self.named_parameters()}
        h, n_mean, R = states(bits), own["weight"].shape[1], own["filters"]
        linear = own["visible_bias"] + h[:, :n_mean] @ own["weight"].T
        precisions = np.eye(len(R)) + (R * h[:, None, n_mean:]) @ R.T
        return NormalCells.of_precisions(h @ own["hidden_bias"], linear, precisions)

    def initialize(self, noise: contracts.Noise, mean: ArrayLike | None = None, *, scale: float = 0.01) -> Self:
        """Small random weights and filters, columns of these means; covariance units are on for half of the rows."""
        found = super().initialize(noise, mean, scale=scale)
        with torch.no_grad():
            half = 0.5 * (self.filters**2).sum(0)
            self.hidden_bias[self.weight.shape[1] :] = half
        return found

    def bridge(self, base: LayeredMachine, eta: float) -> Self:
        """p_base**(1 - eta) * p**eta on both layers, from a base without filters: squares of R mix linearly."""
        found = super().bridge(base, eta)
        with torch.no_grad():
            found.get_parameter("filters").copy_(self.filters * eta**0.5)
        return found

    def path(self, base: LayeredMachine, etas: Array, keep: Sequence[str]) -> Path:
        """The bridge."""
        return BridgePath(self, base, etas, keep)

    def confine(self) -> None:
        """Filters back to the greatest length."""
        if self.floor:
            with torch.no_grad():
                length = self.filters.norm(dim=0).clamp(min=1 / self.floor)
                self.filters.div_(length * self.floor)


class MCRBM(StandardizedMachine, DensityMachine):
    r"""Mean and covariance restricted Boltzmann machine: hidden bits of two kinds behind real columns.

    Given the hidden units a row is normal: units of the mean move where it lies, each unit of the covariance that is on
    holds the row near the plane at right angles to its filter r_j, as precision :math:`r_j r_j^T`. A unit of the
    covariance turns off where the row has a large part along its filter: edges in an image switch off smoothness.

    Attributes
    ----------
    weights_ : array of shape (n_features, n_mean)
    filters_ : array of shape (n_features, n_covariance)
        r_j, in the model's units.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood) or
        ``negative_log_likelihood`` of the epoch's batches, and ``gradient_norm``.

    Notes
    -----
    With ``n_mean=0`` it is the covariance machine (cRBM) with the identity term that makes it proper. Columns depend on
    each other given the hidden units, so a Gibbs step costs O(d^3) for each row, for the Cholesky factor of its
    precision: meant for tens of columns. The density is exact up to 20 hidden units. Sources: Ranzato, Krizhevsky and
    Hinton (2010), "Factored 3-way restricted Boltzmann machines for modeling natural images"; Ranzato and Hinton
    (2010), "Modeling pixel means and covariances using factorized third-order Boltzmann machines"; Goodfellow, Bengio
    and Courville (2016), section 20.5.2.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(300, 1)) * [1.0, 1.0, -1.0] + 0.3 * random.normal(size=(300, 3))
    >>> machine = MCRBM(n_mean=2, n_covariance=3, epochs=20, learning_rate=0.02, random_state=0).fit(X)
    >>> machine.transform(X).shape, machine.score(X) > -4.3
    ((300, 5), True)
    """

    name: ClassVar[str] = "mcrbm"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = MCRBMModel
    domain = Real(largest=1e100)

    n_mean: Annotated[int, "[0, inf)", Doc("Hidden units that move means; 0 for the covariance machine.")] = 32
    n_covariance: Annotated[int, "[1, inf)", Doc("Hidden units that shape the covariance.")] = 64
    floor: Annotated[
        float,
        "(0, inf)",
        Doc("Least standard deviation that one covariance unit leaves along its filter, as 1 / the filter's length."),
    ] = 0.1
    objective: str | Recipe = "cd"
    epochs: int = 10
    batch_size: int | None = 50
    learning_rate: float = 0.003
    optimizer: str | Recipe = "adam"

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> MCRBMModel:
        return MCRBMModel(n_features, self.n_mean, self.n_covariance, getattr(torch, dtype), floor=self.floor)

    def initialize(self, model: MCRBMModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean(), scale=FIRST_WEIGHTS)

    @property
    def weights_(self) -> Array:
        """W."""
        return self.model_.state()["weight"]

    @property
    def filters_(self) -> Array:
        """R."""
        return self.model_.state()["filters"]
