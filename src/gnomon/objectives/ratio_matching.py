"""Ratio matching: the odds of a row against the same row with one bit flipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.arrays import convert, to_numpy
from gnomon.numeric.ops import sigmoid
from gnomon.numeric.sparse import is_sparse
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.flipped import AgainstFlips
from gnomon.objectives.positive import observed_block

__all__ = ["RatioMatching"]

Ints = NDArray[np.int64]
AT_ONCE = 1 << 18
"""Flipped copies that are held at a time."""


@dataclass(frozen=True)
class RatioMatching(EnergyObjective):
    r"""Ratio matching of binary rows (Hyvärinen 2007).

    :math:`\sum_j \sigma(\log \tilde p(f(x, j)) - \log \tilde p(x))^2` with f(x, j) the row with bit j flipped. With
    n_zeros a random subset of the terms, without bias (Dauphin and Bengio 2013): bits that are 1 always, of those that
    are 0 so many, each divided by the chance that it is taken. Binary observed units; the hidden layers are independent
    given them. Terms whose sigmoid is near 0 or 1 have no gradient: rows far from the model teach little. Cost per row
    and update: terms times hidden units.

    Parameters
    ----------
    n_zeros : int in [1, inf) or None, default None
        Terms of bits that are 0, for each row and update, drawn by chance, different ones. None: all. Sparse rows then
        stay sparse on the CPU: the loss costs by the ones and the chosen zeros, not by the columns.

    References
    ----------
    Hyvärinen (2007), "Some extensions of score matching"; Dauphin and Bengio (2013), "Stochastic ratio matching of
    RBMs for sparse high-dimensional inputs".
    """

    short: ClassVar[str] = "ratio_matching"
    n_zeros: Annotated[int, "[1, inf)"] | None = None

    def build(self) -> Objective:
        """The objective."""
        return _Ratios(self.n_zeros)


class _Ratios(AgainstFlips):
    principle: ClassVar[str] = "ratio matching"

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """Whether the terms of a row cost by what is not 0 in it."""
        return self.n_zeros is not None

    def __init__(self, n_zeros: int | None) -> None:
        super().__init__()
        self.n_zeros = n_zeros

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Sums of squared sigmoids, part by part."""
        total, gradients = 0.0, {name: 0 * model.place(value.detach()) for name, value in model.named_parameters()}
        rows, sites, share = self._terms(model, X, positions, noise)
        for start in range(0, len(rows), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            factor = convert(share[part], X) * weight[rows[part]]
            flips = model.flips(X, rows[part], sites[part, None])
            up = sigmoid(-flips.energies())
            total += float((factor * up * up).sum())
            for name, value in flips.gradient(-2 * factor * up * up * (1 - up)).items():
                gradients[name] = gradients.get(name, 0) + value
        return Loss({"ratio_matching": Term(total, float(weight.sum()))}, gradients, "ratio_matching")

    def _terms(self, model: Any, X: Array, positions: Array, noise: Noise) -> tuple[Ints, Ints, NDArray[np.float64]]:
        """Rows and sites of the terms, and one over the chance that each is taken."""
        n, d = X.shape
        if self.n_zeros is None:
            return np.repeat(np.arange(n), d), np.tile(np.arange(d), n), np.ones(n * d)
        rows, sites = _ones(X, max(model.units[observed_block(model)].values))
        zeros = d - np.bincount(rows, minlength=n)
        first = np.floor(noise.rows(positions).uniform((n, 1), like=np.zeros(0))[:, 0] * zeros).astype(np.int64)
        at, ranks = spread(first, zeros, self.n_zeros)
        share = zeros[at] / np.minimum(zeros, self.n_zeros)[at]
        found = sites_of_zeros(rows, sites, at, ranks)
        return np.append(rows, at), np.append(sites, found), np.append(np.ones(len(rows)), share)


def _ones(X: Array, on: float) -> tuple[Ints, Ints]:
    """Rows and columns of the bits that are set, in order."""
    if is_sparse(X):
        X.sort_indices()
        rows, sites = X.nonzero()
    else:
        rows, sites = np.nonzero(to_numpy(X) == on)
    return rows.astype(np.int64), sites.astype(np.int64)


def spread(first: Ints, number: Ints, wanted: int) -> tuple[Ints, Ints]:
    """So many different numbers below `number` for each row, evenly from `first` on, all where they are no more.

    With `first` uniform below `number`, each is taken with the chance min(wanted, number) / number.

    Examples
    --------
    >>> spread(np.array([3, 0]), np.array([5, 1]), 2)
    (array([0, 0, 1]), array([3, 0, 0]))
    """
    taken = np.minimum(number, wanted)
    rows = np.repeat(np.arange(len(number)), taken)
    step = np.arange(len(rows)) - np.repeat(np.cumsum(taken) - taken, taken)
    return rows, (first[rows] + step * (number[rows] // taken[rows])) % number[rows]


def sites_of_zeros(rows: Ints, sites: Ints, at: Ints, ranks: Ints) -> Ints:
    """The columns of the zeros number `ranks` in the rows `at`, from the places of what is not 0; no row is unfolded.

    Parameters
    ----------
    rows, sites : int arrays
        Places of what is not 0, by row and column.
    at, ranks : int arrays
        Rows, and the number of the zero within the row from 0.

    Examples
    --------
    >>> sites_of_zeros(np.array([0, 0]), np.array([0, 2]), np.array([0, 0]), np.array([0, 1])).tolist()
    [1, 3]
    """
    begins = np.searchsorted(rows, np.arange(rows.max(initial=-1) + 2))
    before = sites - (np.arange(len(rows)) - begins[rows])  # zeros to the left of each
    width = 1 + max(sites.max(initial=0), ranks.max(initial=0))
    passed = np.searchsorted(rows * width + before, at * width + ranks, side="right")
    starts = np.searchsorted(rows, at)
    return ranks + passed - starts
