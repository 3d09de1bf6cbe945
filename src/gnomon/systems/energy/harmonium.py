"""Harmoniums: two layers of units of any exponential families, coupled by products of their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Domain, Real
from gnomon.distributions.harmonium_units import PoissonUnits, RateUnits
from gnomon.distributions.units import CategoricalUnits, GaussianUnits, IsingUnits, Units
from gnomon.errors import UserValueError
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._machine import DensityMachine, StandardizedMachine
from gnomon.systems.energy._updates import UpdatedByChains
from gnomon.systems.energy.grouped import BlockDiagonalLink, even_groups
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, Link
from gnomon.systems.energy.unit_kinds import UnitKind

__all__ = ["Harmonium", "HarmoniumModel"]

TAKEN = 0.95
"""Largest singular value of couplings between normal layers after an update."""
LEAST_RATE = 0.01
"""Least rate of a positive unit after an update, whatever the other layer is."""

Floats = NDArray[np.float64]


class HarmoniumModel(UpdatedByChains, LayeredMachine):
    r"""Layers v and h of exponential families, :math:`\log \tilde p(v, h) = w(v) + w(h) + f(v)^T W g(h)`.

    w holds base measures and the units' own natural parameters, f and g are the sufficient statistics that are coupled:
    the values, of categories a 1 in the place of the value.

    Parameters
    ----------
    visible, hidden : Units
    dtype : torch.dtype
    groups : int, in [1, number of units of either layer], default 1
        Runs of units of the visible layer, each coupled to a run of the hidden layer alone: W is block diagonal.

    Raises
    ------
    UserValueError
        More groups than units. Two kinds of units that have no density together unless all couplings are 0.
    """

    weight: torch.nn.Parameter
    visible_bias: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter

    def __init__(self, visible: Units, hidden: Units, dtype: torch.dtype = torch.float32, *, groups: int = 1) -> None:
        units = {"visible": visible, "hidden": hidden}
        super().__init__(units, [_link(visible, hidden, groups)], dtype=dtype)
        kinds = [isinstance(one, GaussianUnits) for one in (visible, hidden)]
        if any(kinds) and any(_is_unbounded(one) for one in (visible, hidden)):
            what = f"{type(visible).__name__} and {type(hidden).__name__} have no density together: the sums over one "
            raise UserValueError(
                what + "grow without bound in the other", "hidden", "couple normal units to bounded or normal ones"
            )

    @classmethod
    def of(
        cls, visible: Units, hidden: Units, weight: ArrayLike, visible_bias: ArrayLike, hidden_bias: ArrayLike
    ) -> HarmoniumModel:
        """The model with these parameters in float64.

        Raises
        ------
        UserValueError
            Parameters that cannot be normalized.
        """
        model = cls(visible, hidden, torch.float64)
        values = {"weight": weight, "visible_bias": visible_bias, "hidden_bias": hidden_bias}
        with torch.no_grad():
            for name, value in values.items():
                model.get_parameter(name).copy_(torch.as_tensor(np.asarray(value, np.float64)))
        model.check_normalizable()
        return model

    def initialize(self, noise: contracts.Noise, mean: ArrayLike | None = None, *, scale: float = 0.01) -> Any:
        """Small random weights, and biases with which the visible units have these means; then as `confine` says."""
        super().initialize(noise, mean, scale=scale)
        self.confine()
        return self

    def couplings(self) -> Floats:
        """W, in float64."""
        return np.asarray(self.links[0].matrix({"weight": self.weight.detach().double().cpu().numpy()}))

    # --- whether there is a density -----------------------------------------------------------------------------------

    def _double(self) -> tuple[Floats, dict[str, Floats]]:
        weight = self.couplings()
        biases = {block: self.get_parameter(f"{block}_bias").detach().double().cpu().numpy() for block in self.blocks}
        return weight, biases

    def check_normalizable(self) -> None:
        """Refuse parameters of which the sum over all states is infinite.

        Raises
        ------
        UserValueError
            Between normal layers a singular value of 1 or more; between layers of counts and positive numbers a
            coupling above 0; a positive unit whose rate is not above 0 for every state of the other layer.
        """
        W, biases = self._double()
        visible, hidden = self.units["visible"], self.units["hidden"]
        if isinstance(visible, GaussianUnits) and isinstance(hidden, GaussianUnits):
            largest = float(np.linalg.svd(W, compute_uv=False).max(initial=0))
            if largest >= 1:
                what = f"the largest singular value of the couplings of normal layers must be below 1, got {largest:g}"
                raise UserValueError(what, "weight", "the density cannot be normalized: scale the couplings down")
        if _is_unbounded(visible) and _is_unbounded(hidden) and (W > 0).any():
            what = f"couplings of layers without an upper end must be at most 0, got {W.max():g}"
            raise UserValueError(what, "weight", "the density cannot be normalized: let one layer be bounded")
        for block, pull in (("visible", _highest(hidden, W.T)), ("hidden", _highest(visible, W))):
            top = biases[block] + pull
            if isinstance(self.units[block], RateUnits) and (top >= 0).any():
                what = (
                    f"the rates of the {block} units must be above 0 for all states of the others, got {-top.max():g}"
                )
                raise UserValueError(what, f"{block}_bias", "the density cannot be normalized: lower the bias")

    def confine(self) -> None:
        """Parameters back to where the density exists, with something to spare."""
        visible, hidden = self.units["visible"], self.units["hidden"]
        with torch.no_grad():
            if isinstance(visible, GaussianUnits) and isinstance(hidden, GaussianUnits):
                link = self.links[0]
                for part in (
                    link.parts({"weight": self.weight}) if isinstance(link, BlockDiagonalLink) else [self.weight]
                ):
                    left, values, right = torch.linalg.svd(part, full_matrices=False)
                    if float(values[0]) > TAKEN:
                        part.copy_((left * values.clamp(max=TAKEN)) @ right)
            if _is_unbounded(visible) and _is_unbounded(hidden):
                self.weight.clamp_(max=0.0)
            W = self.couplings()
            for block, pull in (("visible", _highest(hidden, W.T)), ("hidden", _highest(visible, W))):
                if isinstance(self.units[block], RateUnits):
                    bias = self.get_parameter(f"{block}_bias")
                    bias.copy_(torch.minimum(bias, torch.as_tensor(-LEAST_RATE - pull).to(bias)))

    def log_partition(self) -> float:
        """Exact log Z by enumeration of a layer with few states; see `check_normalizable`."""
        self.check_normalizable()
        return super().log_partition()


def _link(visible: Units, hidden: Units, groups: int) -> Link:
    """What couples the layers; the values of a category stay in one group."""
    if groups == 1:
        return DenseLink("visible", "hidden", name="")
    widths = [getattr(kind, "levels", 1) for kind in (visible, hidden)]
    numbers = [kind.size // width for kind, width in zip((visible, hidden), widths, strict=True)]
    if groups > min(numbers):
        what = f"groups must be at most {min(numbers)}, the units of the smaller layer, got {groups}"
        raise UserValueError(what, "groups", "a group needs a column and a hidden unit")
    runs = [[n * width for n in even_groups(number, groups)] for number, width in zip(numbers, widths, strict=True)]
    return BlockDiagonalLink("visible", "hidden", *runs, name="")


def _is_unbounded(units: Units) -> bool:
    """Whether values have no upper end, and do not fall off as fast as those of normal units."""
    return isinstance(units, PoissonUnits | RateUnits)


def _highest(units: Units, W: Floats) -> Floats:
    """The most that units pull on each of the others, over their states: columns of W."""
    if isinstance(units, CategoricalUnits):
        return W.reshape(units.n, units.levels, -1).max(1).sum(0)
    if isinstance(units, IsingUnits):
        return np.abs(W).sum(0)
    if isinstance(units, GaussianUnits) or _is_unbounded(units):
        return np.zeros(W.shape[1])
    return getattr(units, "trials", 1) * np.maximum(W, 0).sum(0)


class Harmonium(StandardizedMachine, DensityMachine):
    r"""Exponential-family harmonium: a restricted Boltzmann machine whose units are of the kinds that are chosen.

    Bits, counts, real numbers or numbers from 0 to 1 in the table, and behind them bits, spins, categories, counts of
    trials, real or positive numbers. Given one layer the units of the other are independent members of their family,
    with natural parameters :math:`b + W^T f(v)`.

    Attributes
    ----------
    weights_ : array of shape (n_features, n_hidden), of categories a column for each of their values
        Couplings, in the model's units.
    history_ : dict of lists
        By epoch: ``energy_gap`` of the last batch (data minus chains, nats; not the likelihood) or
        ``negative_log_likelihood`` of the epoch's batches, and ``gradient_norm``.

    Notes
    -----
    Not all kinds have a density together. After each update parameters are put back to where there is one: between
    layers of real numbers singular values to at most 0.95, between layers of counts and positive numbers couplings to
    at most 0, and biases of positive units down to where every state of the table leaves them a rate. Real columns
    beside counts or positive numbers have none but without couplings, and are refused. The likelihood is exact while a
    layer has at most 2^20 states. Source: Welling, Rosen-Zvi and Hinton (2004), "Exponential family harmoniums with an
    application to information retrieval".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).poisson(np.repeat([[1.0, 9.0], [9.0, 1.0]], 100, axis=0))
    >>> machine = Harmonium(visible="poisson", n_hidden=2, learning_rate=0.02, random_state=0).fit(X)
    >>> machine.transform(X).shape, bool(machine.score(X) > -5)  # independent Poisson columns -8.7
    ((200, 2), True)
    """

    name: ClassVar[str] = "harmonium"
    tasks: ClassVar[tuple[str, ...]] = ("density", "represent")
    model_class: ClassVar[type] = HarmoniumModel
    resamples_rows: ClassVar[bool] = True  # the default objective draws chains beside each row
    slots: ClassVar[Mapping[str, type[Recipe]]] = {
        "objective": EnergyObjective, "visible": UnitKind, "hidden": UnitKind,
    }  # fmt: skip
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"standardize": {"visible": "gaussian"}}

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 16
    visible: Annotated[
        str | Recipe, Doc("What the columns are: bernoulli, poisson, gaussian or truncated-exponential (0 to 1).")
    ] = "gaussian"
    hidden: Annotated[str | Recipe, Doc("What the hidden units are.")] = "bernoulli"
    groups: Annotated[
        int,
        "[1, inf)",
        Doc("Runs of columns, and of hidden units, of which each sees its own alone: parts that do not interact."),
    ] = 1
    objective: str | Recipe = "cd"
    epochs: int = 50
    batch_size: int | None = 50
    learning_rate: float = 0.005
    optimizer: str | Recipe = "adam"

    @property
    def domain(self) -> Domain:
        """What a table may hold."""
        found: Domain | None = self.recipe("visible").domain
        if found is None:
            what = f"visible must be a kind of unit that a table can hold, got {self.recipe('visible').short!r}"
            raise UserValueError(what, "visible", "use bernoulli, poisson, gaussian or truncated-exponential")
        if isinstance(found, Real):  # that of the default, which is read from the source
            return Real(largest=1e100)
        return found

    @property
    def outcomes(self) -> Domain:
        """What has a probability."""
        return self.domain

    def make(self, n_features: int, dtype: str, mean: list[float], deviation: list[float]) -> HarmoniumModel:
        kinds = self.recipe("visible"), self.recipe("hidden")
        units = kinds[0].units(n_features), kinds[1].units(self.n_hidden)
        return HarmoniumModel(*units, getattr(torch, dtype), groups=self.groups)

    def initialize(self, model: HarmoniumModel, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean(), scale=0.1 if self._scales() else 0.01)

    def _scales(self) -> bool:
        return self.standardize and isinstance(self.recipe("visible").units(1), GaussianUnits)

    @property
    def weights_(self) -> Array:
        """W; 0 between groups."""
        return self.model_.couplings().astype(self.arguments_["dtype"])
