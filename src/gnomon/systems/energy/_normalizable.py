"""Whether densities can be normalized: normal ones whose precisions depend on switches, products of Student-t ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from gnomon.inference.exact.enumeration import states

__all__ = [
    "ENUMERATED", "Normalizability", "Precisions", "lowest", "normalizability", "rank_of", "searched",
    "student_normalizable",
]  # fmt: skip

ENUMERATED = 12
"""Switches, or experts, of which every state or subset is looked at."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Normalizability:
    """What is known of the smallest eigenvalue among the precisions of p(x | h), h any state of the spikes.

    Parameters
    ----------
    minimum_eigenvalue : float
        The smallest that was found; the density can be normalized only if it is above 0.
    lower_bound : float
        No eigenvalue is below it; the same number where all states were visited.
    spikes : array of 0 and 1
        The state that has the smallest.
    """

    minimum_eigenvalue: float
    lower_bound: float
    spikes: Floats

    @property
    def normalizable(self) -> bool | None:
        """True or False where it is certain, None where neither bound decides."""
        if self.lower_bound > 0:
            return True
        return False if self.minimum_eigenvalue <= 0 else None

    def __str__(self) -> str:
        answer = {True: "normalizable", False: "cannot be normalized", None: "undecided"}[self.normalizable]
        on = int(self.spikes.sum())
        return f"{answer}: minimum eigenvalue {self.minimum_eigenvalue:.6g} with {on} of {len(self.spikes)} spikes on"


def normalizability(precision: Floats, each: Floats) -> Normalizability:
    r"""The smallest eigenvalue of :math:`\Lambda + \sum_i h_i M_i` over the states of h.

    Up to 12 matrices all states are visited. Beyond, a lower bound is :math:`\min \Lambda` plus the negative
    eigenvalues of each M (Weyl), and small ones are looked for by turns: the eigenvector of the smallest eigenvalue,
    then the h that is worst for it. The smallest eigenvalue falls with every turn.

    Parameters
    ----------
    precision : array of shape (d,)
        The diagonal of Lambda.
    each : array of shape (n, d, d)
        M_i, symmetric.

    Notes
    -----
    Cost: O(2^n d^3) up to n = 12, else O(n d^3).

    Examples
    --------
    >>> found = normalizability(np.ones(1), np.array([[[-9.0]]]))
    >>> found.normalizable, found.minimum_eigenvalue
    (False, -8.0)
    """
    precisions = Matrices(precision, each)
    if len(each) <= ENUMERATED:
        found = [(precisions.smallest(h)[0], h) for h in states(len(each))]
        value, spikes = min(found, key=lambda one: one[0])
        return Normalizability(value, value, spikes)
    own: Floats = np.asarray(np.linalg.eigvalsh(each)[:, 0], np.float64)
    return searched(precisions, _starts(own), float(precision.min() + np.minimum(own, 0).sum()))


class Precisions(Protocol):
    r"""Precisions :math:`\Lambda + \sum_i h_i M_i` of p(x | h), however they are kept."""

    def smallest(self, h: Floats) -> tuple[float, Floats]:
        """The smallest eigenvalue at a state of the spikes, and its eigenvector."""

    def changes(self, vector: Floats) -> Floats:
        """v^T M_i v of each spike."""


def searched(precisions: Precisions, starts: Iterable[Floats], bound: float) -> Normalizability:
    """What a search from these states of the spikes finds, by turns, beside a lower bound of all eigenvalues."""
    value, spikes = min((_descend(precisions, h) for h in starts), key=lambda one: one[0])
    return Normalizability(value, min(bound, value), spikes)


@dataclass(frozen=True)
class Matrices:
    """Precisions of a diagonal (d,) and matrices (n, d, d)."""

    precision: Floats
    each: Floats

    def smallest(self, h: Floats) -> tuple[float, Floats]:
        """The smallest eigenvalue, and its eigenvector."""
        return lowest(np.diag(self.precision) + np.tensordot(h, self.each, 1))

    def changes(self, vector: Floats) -> Floats:
        """v^T M_i v."""
        found: Floats = np.einsum("d,nde,e->n", vector, self.each, vector)
        return found


def lowest(matrix: Floats) -> tuple[float, Floats]:
    """The smallest eigenvalue of a symmetric matrix, and its eigenvector."""
    values, vectors = eigh(matrix, subset_by_index=(0, 0))
    return float(values[0]), vectors[:, 0]


def _starts(own: Floats) -> Iterator[Floats]:
    """None on, all that can lower an eigenvalue, and each of the four that lower it most."""
    yield np.zeros(len(own))
    yield (own < 0).astype(np.float64)
    for i in np.argsort(own)[:4]:
        yield np.eye(len(own))[i]


def _descend(precisions: Precisions, h: Floats) -> tuple[float, Floats]:
    value, vector = precisions.smallest(h)
    while True:
        worse = (precisions.changes(vector) < 0).astype(np.float64)
        lower, vector = precisions.smallest(worse)
        if not lower < value:
            return value, h
        value, h = lower, worse


def student_normalizable(R: Floats, gamma: Floats) -> bool | None:
    r"""Whether :math:`\prod_j (1 + (r_j^T x + b_j)^2 / 2)^{-\gamma_j}` has an integral, None where that is not decided.

    It has one if and only if for every set of experts whose filters span less than all d dimensions the others have
    :math:`2 \sum \gamma_j` above the dimensions that are left: of d independent filters every shape must be above 1/2,
    and d such filters suffice beside any others. Up to 12 experts all sets are visited.

    Parameters
    ----------
    R : array of shape (d, n)
        The filters.
    gamma : array of shape (n,)
        Above 0.

    Examples
    --------
    >>> student_normalizable(np.eye(2), np.array([0.6, 0.6])), student_normalizable(np.eye(2), np.array([2.0, 0.5]))
    (True, False)
    """
    d, n = R.shape
    if rank_of(R[:, gamma > 0.5]) == d:
        return True
    if rank_of(R) < d or 2 * gamma.sum() <= d:
        return False
    if n > ENUMERATED:
        return None
    sets = (np.array(bits) for bits in product([False, True], repeat=n))
    return all(2 * gamma[~inside].sum() > d - rank for inside in sets if (rank := rank_of(R[:, inside])) < d)


def rank_of(R: Floats) -> int:
    """The rank of a matrix, 0 of one without columns."""
    return int(np.linalg.matrix_rank(R)) if R.size else 0
