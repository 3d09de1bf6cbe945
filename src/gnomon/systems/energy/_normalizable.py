"""Whether normal densities whose precisions depend on switches can all be normalized: the smallest eigenvalue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gnomon.inference.exact.enumeration import states

__all__ = ["Normalizability", "normalizability"]

ENUMERATED = 12
"""Switches of which every state is looked at."""

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
    if len(each) <= ENUMERATED:
        found = [(_smallest(precision, each, h)[0], h) for h in states(len(each))]
        value, spikes = min(found, key=lambda one: one[0])
        return Normalizability(value, value, spikes)
    own: Floats = np.asarray(np.linalg.eigvalsh(each)[:, 0], np.float64)
    value, spikes = min((_descend(precision, each, h) for h in _starts(own)), key=lambda one: one[0])
    bound = float(precision.min() + np.minimum(own, 0).sum())
    return Normalizability(value, min(bound, value), spikes)


def _starts(own: Floats) -> Iterator[Floats]:
    """None on, all that can lower an eigenvalue, and each of the four that lower it most."""
    yield np.zeros(len(own))
    yield (own < 0).astype(np.float64)
    for i in np.argsort(own)[:4]:
        yield np.eye(len(own))[i]


def _descend(precision: Floats, each: Floats, h: Floats) -> tuple[float, Floats]:
    value, vector = _smallest(precision, each, h)
    while True:
        worse = (np.einsum("d,nde,e->n", vector, each, vector) < 0).astype(np.float64)
        lower, vector = _smallest(precision, each, worse)
        if not lower < value:
            return value, h
        value, h = lower, worse


def _smallest(precision: Floats, each: Floats, h: Floats) -> tuple[float, Floats]:
    values, vectors = np.linalg.eigh(np.diag(precision) + np.tensordot(h, each, 1))
    return float(values[0]), vectors[:, 0]
