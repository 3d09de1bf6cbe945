"""Pseudolikelihood: every site, or set of sites, predicted from all the others; no log Z is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from gnomon.contracts import Array, Group, Noise
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.numeric.ops import concatenate, logsumexp
from gnomon.numeric.tensors import is_tensor
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.flipped import AgainstFlips
from gnomon.objectives.positive import observed_block
from gnomon.objectives.site_sets import SiteSets
from gnomon.recipes.recipe import Recipe

__all__ = ["Pseudolikelihood"]

LARGEST = 1 << 12
"""States of a set at most: as many energies for each of its terms."""
AT_ONCE = 1 << 18
"""Flipped copies that are held at a time: a few numbers for each, beside the fields of the hidden units."""


@dataclass(frozen=True)
class Pseudolikelihood(EnergyObjective):
    r"""Conditionals of the sites given all others (Besag 1975), or of sets of sites (Lindsay 1988).

    :math:`-\sum_S \log p(x_S \mid x_{-S}) = \sum_S \log \sum_y \exp(F(x) - F(x \text{ with } y \text{ at } S))`, exact
    from energies alone: consistent, and good where conditionals are wanted, but weaker than the likelihood as a
    density. Sites in several sets count several times. Observed units of k values (two, or one-hot columns); the hidden
    layers are independent given them. Cost per row and update: sum over sets of (k^size - 1) times the hidden units.

    Parameters
    ----------
    sets : {"singletons", "pairs", "blocks", "windows"} or recipe, default "singletons"
        Which sites are predicted together. The closer to one set of all sites, the closer to maximum likelihood.
    n_conditionals : int in [1, inf) or None, default None
        Sets for each row and update, drawn by chance, different ones; the sum is scaled to that of all, without bias.
        None: all sets.

    References
    ----------
    Besag (1975), "Statistical analysis of non-lattice data"; Lindsay (1988), "Composite likelihood methods";
    Goodfellow et al. (2013), "Multi-prediction deep Boltzmann machines", for one conditional per row.
    """

    short: ClassVar[str] = "pseudolikelihood"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"sets": SiteSets}
    sets: str | Recipe = "singletons"
    n_conditionals: Annotated[int, "[1, inf)"] | None = None

    def build(self) -> Objective:
        """The objective."""
        return _Conditionals(self.recipe("sets"), self.n_conditionals)


class _Group(NamedTuple):
    """Sets of one size, (number, size), and all ways to change such a set of k-valued sites, (k^size - 1, size).

    A way says for each site by how many values it moves on, modulo k; of sites with two values, whether it changes.
    """

    sites: Any
    patterns: Any

    @classmethod
    def of(cls, sites: Any, levels: int) -> _Group:
        size = sites.shape[1]
        if levels**size > LARGEST:
            what = f"a set of {size} sites with {levels} values each has more than {LARGEST} states"
            raise UserValueError(what, "sets", "choose smaller sets")
        return cls(sites, np.arange(1, levels**size)[:, None] // levels ** np.arange(size) % levels)

    def moves(self, X: Array, rows: Array, chosen: Array, levels: int | None) -> tuple[Any, Any, Any]:
        """Rows, columns that are flipped, and which of these are, for all ways to change each row's sets."""
        count, size = chosen.size * len(self.patterns), self.sites.shape[1]
        at = np.repeat(rows, count // len(rows))
        sites = np.repeat(self.sites[chosen].reshape(-1, size), len(self.patterns), axis=0)
        steps = np.tile(self.patterns, (chosen.size, 1))
        if levels is None:
            return at, sites, steps if size > 1 else None
        standing = to_numpy(X).reshape(len(X), -1, levels).argmax(-1)[at[:, None], sites]
        columns = [levels * sites + standing, levels * sites + (standing + steps) % levels]
        return at, np.concatenate(columns, 1), np.tile(steps != 0, 2)


class _Conditionals(AgainstFlips):
    principle: ClassVar[str] = "pseudolikelihood"
    takes_levels: ClassVar[bool] = True

    def __init__(self, sets: SiteSets, n_conditionals: int | None) -> None:
        super().__init__()
        self.sets, self.n_conditionals = sets, n_conditionals
        self.known: tuple[int, list[_Group]] = (0, [])

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Minus the log conditionals, part by part."""
        total, gradients = 0.0, {name: 0 * model.place(value.detach()) for name, value in model.named_parameters()}
        units = model.units[observed_block(model)]
        for kind, rows, chosen, scale in self._terms(units, positions, noise):
            flips = model.flips(X, *kind.moves(X, rows, chosen, getattr(units, "levels", None)))
            up = -flips.energies().reshape(chosen.size, len(kind.patterns))
            log_odds = logsumexp(concatenate([0 * up[:, :1], up], 1))
            share = scale * weight[rows][:, None] * (0 * log_odds.reshape(chosen.shape) + 1)
            total += float((share.reshape(-1) * log_odds).sum())
            slope = -share.reshape(-1, 1) * _exp(up - log_odds[:, None])
            for name, value in flips.gradient(slope.reshape(-1)).items():
                gradients[name] = gradients.get(name, 0) + value
        name = "negative_pseudo_log_likelihood"
        return Loss({name: Term(total, float(weight.sum()))}, gradients, name)

    def _terms(self, units: Any, positions: Array, noise: Noise) -> Iterator[tuple[_Group, Array, Array, float]]:
        """Sets of one size, rows, the sets' numbers for each of these rows, and what their sum is multiplied by."""
        groups = self._groups(units.n, getattr(units, "levels", 2))
        for kind, chosen, scale in self._chosen(groups, positions, noise):
            step = max(1, AT_ONCE // (chosen.shape[1] * len(kind.patterns)))
            for start in range(0, len(positions), step):
                rows = np.arange(start, min(start + step, len(positions)))
                yield kind, rows, chosen[rows], scale

    def _chosen(self, groups: list[_Group], positions: Array, noise: Noise) -> Iterator[tuple[_Group, Array, float]]:
        if self.n_conditionals is None:
            for kind in groups:
                everything = np.arange(len(kind.sites))
                yield kind, np.broadcast_to(everything, (len(positions), len(everything))), 1.0
            return
        (kind,) = groups
        number, wanted = len(kind.sites), self.n_conditionals
        first = noise.rows(positions).integers(number, (len(positions), 1))
        yield kind, (first + np.arange(wanted) * (number // wanted)) % number, number / wanted

    def _groups(self, d: int, levels: int) -> list[_Group]:
        """Made once for rows of this length."""
        if self.known[0] == d:
            return self.known[1]
        groups = [_Group.of(sites, levels) for sites in self.sets.sets(d)]
        if self.n_conditionals is not None:
            if len(groups) > 1:
                what = f"n_conditionals needs sets of one size, got {len(groups)} sizes"
                raise UserValueError(what, "sets", "choose a size that divides the number of columns")
            if self.n_conditionals > len(groups[0].sites):
                what = f"n_conditionals must be at most the {len(groups[0].sites)} sets, got {self.n_conditionals}"
                raise UserValueError(what, "n_conditionals", "leave it out for all")
        self.known = (d, groups)
        return groups


def _exp(x: Array) -> Array:
    return x.exp() if is_tensor(x) else np.exp(x)
