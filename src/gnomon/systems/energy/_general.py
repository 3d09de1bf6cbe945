"""What the machines have in common whose binary units are coupled within a layer too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon import contracts
from gnomon.contracts import Array, Distribution
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Binary
from gnomon.distributions.units import BernoulliUnits
from gnomon.errors import UserValueError
from gnomon.evaluation.likelihood import pseudo_log_likelihood
from gnomon.evaluation.score import Score
from gnomon.inference.mcmc.gibbs import gibbs
from gnomon.numeric.noise import Noise, seed_of
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import how_many
from gnomon.recipes.recipe import Recipe
from gnomon.systems.energy._machine import EnergyMachine, RowMachine, coupled_start, posterior_means, posterior_of_bits
from gnomon.systems.energy.connections import Connections, checked_pattern
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import DenseLink, LateralLink, Link, MaskedLink

__all__ = ["CoupledRows", "GeneralHiddenMachine", "GeneralMachine", "GeneralModel"]


class GeneralModel(LayeredMachine):
    r"""E(v, h) = -b^T v - c^T h - v^T W h - v^T L v / 2 - h^T J h / 2 over bits; L and J symmetric, 0 on the diagonal.

    Parameters
    ----------
    n_visible : int
    n_hidden : int
        0: no hidden layer.
    within : sequence of {"visible", "hidden"}
        The layers whose units are coupled to each other.
    dtype : torch.dtype
    pattern : symmetric array of truth values of shape (units, units), optional
        The pairs that have a weight, of those that there are; all where left out.

    Raises
    ------
    UserValueError
        A hidden unit that is coupled to nothing.

    Notes
    -----
    ``weight`` is W, ``visible_weight`` and ``hidden_weight`` are the pairs of L and of J (`LateralLink`).
    """

    def __init__(
        self,
        n_visible: int,
        n_hidden: int,
        within: Sequence[str],
        dtype: torch.dtype = torch.float32,
        *,
        pattern: NDArray[np.bool_] | None = None,
    ) -> None:
        n = n_visible + n_hidden
        mask = np.ones((n, n), np.bool_) if pattern is None else pattern & ~np.eye(n, dtype=np.bool_)
        cuts = {"visible": slice(0, n_visible), "hidden": slice(n_visible, n)}
        for layer in {"visible", "hidden"} - set(within):
            mask = mask.copy()
            mask[cuts[layer], cuts[layer]] = False
        alone = np.flatnonzero(~mask[n_visible:].any(1))
        if len(alone):
            what = f"hidden unit {alone[0]} must be coupled to something"
            raise UserValueError(what, "connections", "give it a partner, or fewer hidden units")
        links = [_lateral(layer, mask[cuts[layer], cuts[layer]]) for layer in within]
        if n_hidden:
            links.append(_between(mask[:n_visible, n_visible:]))
        sizes = {"visible": n_visible} | ({"hidden": n_hidden} if n_hidden else {})
        units = {name: BernoulliUnits(size) for name, size in sizes.items()}
        super().__init__(units, [link for link in links if link is not None], dtype=dtype)

    @property
    def couplings(self) -> Array:
        """Symmetric matrix of all couplings, the visible units first: the energy is -x^T C x / 2 - bias^T x."""
        return self._coupling(tuple(self.units), tuple(self.units))

    @property
    def bias(self) -> Array:
        """Biases of all units, the visible ones first."""
        return np.asarray(self._biases(tuple(self.units)))

    def hidden_means(self, x: Array) -> Array:
        """P(h = 1 | v): exact where hidden units are independent, or 12 coupled ones at most; else by mean field."""
        return posterior_means(self, x)["hidden"]


def _lateral(layer: str, mask: NDArray[np.bool_]) -> Link | None:
    """The couplings within a layer; None where no two units are coupled."""
    pairs = mask[np.triu_indices(len(mask), 1)]
    if not pairs.any():
        return None
    return LateralLink(layer, None if pairs.all() else mask, name=layer)


def _between(mask: NDArray[np.bool_]) -> Link | None:
    """The couplings of the two layers; None where there are none."""
    if not mask.any():
        return None
    return DenseLink("visible", "hidden", name="") if mask.all() else MaskedLink("visible", "hidden", mask, name="")


class CoupledRows(RowMachine):
    """Base: a system of binary columns that are coupled to each other, as its connections say."""

    domain = Binary()
    outcomes = Binary()
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"objective": EnergyObjective, "connections": Connections}

    connections: Annotated[
        str | Recipe, Doc("Which units are coupled: all, neighbors in an image, layers of hidden units.")
    ] = "all"
    epochs: int = 100
    batch_size: int | None = 20
    learning_rate: float = 0.02
    optimizer: str | Recipe = "sgd"

    def arguments(self, examples: Examples) -> dict[str, Any]:
        mean = np.average(examples.X.astype(np.float64), axis=0, weights=examples.weight)
        return super().arguments(examples) | {"mean": mean.tolist()}

    def initialize(self, model: Any, examples: Examples, noise: contracts.Noise) -> None:
        model.initialize(noise, self._start_mean())

    def reconstruct(self, X: Any) -> Array:
        """P(v_j = 1 | all other columns, hidden units at their means) of each cell, shape (n, n_features)."""
        rows = self._rows(X)
        state = {"visible": rows} | self._beside(rows)
        return self.from_visible(self.model_.conditional("visible", state).mean)

    def _beside(self, rows: Array) -> dict[str, Array]:
        """Means of the hidden units given the rows."""
        return {}

    def pseudo_log_likelihood(self, X: Any, *, per_site: bool = False) -> Score:
        """Mean over rows of the sum over columns of log p(v_j | the others), exact; per column with `per_site`."""
        rows = self._outcomes(X)
        space = self.outcomes.space(rows.shape[1])
        return pseudo_log_likelihood(self.model_, rows, per_site=per_site, data_space=space)


class GeneralMachine(CoupledRows):
    """Base: a system around a `GeneralModel` of binary rows; a subclass says what is coupled."""

    model_class: ClassVar[type] = GeneralModel

    @property
    def _within(self) -> tuple[str, ...]:
        """The layers whose units are coupled to each other."""
        return ("visible", "hidden")

    def make(self, n_features: int, dtype: str, mean: list[float]) -> GeneralModel:
        n_hidden = getattr(self, "n_hidden", 0)
        pattern = checked_pattern(self.recipe("connections").pattern(n_features, n_hidden), n_features + n_hidden)
        within = self._within if n_hidden else ("visible",)
        return GeneralModel(n_features, n_hidden, within, getattr(torch, dtype), pattern=pattern)

    @property
    def couplings_(self) -> Array:
        """Couplings of all units, (units, units): symmetric, 0 on the diagonal, the columns of the data first."""
        return self.model_.couplings

    @property
    def bias_(self) -> Array:
        """Biases of all units, the columns of the data first."""
        return self.model_.bias


class GeneralHiddenMachine(GeneralMachine, EnergyMachine):
    """Base: the same with hidden units."""

    resamples_rows: ClassVar[bool] = True  # hidden units of a row are drawn, once for each time that it is there

    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units.")] = 64

    def _hidden_posterior(self, rows: Array) -> Distribution:
        return posterior_of_bits(self.model_, rows, "hidden")

    def _hidden_means(self, rows: Array) -> Array:
        return self.model_.hidden_means(rows)

    def _beside(self, rows: Array) -> dict[str, Array]:
        return {"hidden": self._hidden_means(rows)}

    def sample_hidden(self, X: Any, *, steps: int = 100, random_state: Any = None) -> Array:
        """Hidden states given the rows, shape (n, n_hidden): ends of Gibbs chains of `steps` sweeps, the rows held."""
        rows, noise = self._rows(X), Noise(seed_of(random_state), "sample-hidden")
        state = {"visible": rows} | coupled_start(self.model_, ("hidden",), len(rows), noise.child("start"))
        return gibbs(self.model_, state, noise, steps=how_many(steps, "steps"), order=("hidden",))["hidden"]
