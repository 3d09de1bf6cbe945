"""Generalized score matching of binary rows: ratios to the rows with one bit flipped, as they are."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gnomon.contracts import Array, Group, Noise
from gnomon.errors import Diverged
from gnomon.inference.arrays import convert, to_numpy
from gnomon.numeric.sparse import in_full
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.flipped import AgainstFlips
from gnomon.objectives.positive import observed_block

__all__ = ["GeneralizedScoreMatching", "missing_neighbors"]

AT_ONCE = 1 << 18
"""Flipped copies that are held at a time."""
CHECKED = 1 << 20
"""Neighbors of rows that are looked for in the data before a fit."""
LARGEST = 40.0
"""Nats of a ratio beyond which its square means nothing."""


@dataclass(frozen=True)
class GeneralizedScoreMatching(EnergyObjective):
    r"""Generalized score matching of binary rows (Lyu 2009): the discrete counterpart of score matching.

    With :math:`r_j(x) = \tilde p(f(x, j)) / \tilde p(x)`, f(x, j) the row with bit j flipped, the inverse conditionals
    :math:`1 / p(x_j | x_{-j}) = 1 + r_j` of the model are matched to those of the data. Up to a constant the mean
    squared difference is the mean of :math:`\sum_j r_j^2 - 2 / r_j` over the data. It is for data that holds every row
    beside those it holds, small tables above all: where a neighbor of a row never occurs its ratio falls towards 0 and
    the loss without end, in sparse or many columns always. A warning says so before such a fit, and a fit whose ratios
    run away ends with an error. Slopes differ by the square of the ratios: take Adam. `RatioMatching`
    squashes the same ratios to :math:`1 / (1 + 1 / r_j)`, and is bounded.

    Binary observed units; the hidden layers are independent given them. Cost per row and update: columns times hidden
    units.

    References
    ----------
    Lyu (2009), "Interpretation and generalization of score matching"; Marlin, Swersky, Chen and de Freitas (2010),
    "Inductive principles for restricted Boltzmann machine learning", for what becomes of it on images.

    Examples
    --------
    >>> import gnomon
    >>> X = (np.random.default_rng(0).random((400, 3)) < [0.3, 0.5, 0.6]).astype(float)
    >>> rbm = gnomon.RBM(n_hidden=2, objective=GeneralizedScoreMatching(), epochs=30, random_state=0).fit(X)
    >>> bool(rbm.score(X) > -2.06)  # independent columns have -1.98
    True
    """

    short: ClassVar[str] = "generalized-score-matching"

    def build(self) -> Objective:
        """The objective."""
        return _InverseConditionals()


class _InverseConditionals(AgainstFlips):
    principle: ClassVar[str] = "generalized score matching"

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """See `AgainstFlips`; and a warning where the data lacks neighbors of its rows."""
        super().begin(model, batches, noise, group)
        high = max(model.units[observed_block(model)].values)
        parts = [_rows(batch, high) for batch in batches.epoch(0)]
        rows = group.gather(np.concatenate(parts))
        missing, looked_for = missing_neighbors(rows)
        if missing and group.rank == 0:
            what = f"{missing} of {looked_for} rows that differ in one bit from a row of the data never occur in it"
            remedy = "generalized score matching then has no minimum: use ratio_matching or pseudolikelihood"
            warnings.warn(f"{what}; {remedy}", UserWarning, stacklevel=2)

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Sums of squared ratios less twice the inverse ones, part by part."""
        total, gradients = 0.0, {name: 0 * model.place(value.detach()) for name, value in model.named_parameters()}
        d, kept = X.shape[1], np.flatnonzero(to_numpy(weight) > 0)
        rows, sites = np.repeat(kept, d), np.tile(np.arange(d), len(kept))
        for start in range(0, len(rows), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            flips = model.flips(X, rows[part], sites[part, None])
            up, share = -to_numpy(flips.energies()), to_numpy(weight)[rows[part]]
            _check_ratios(up)
            squared, inverse = np.exp(2 * up), np.exp(-up)
            total += float(share @ (squared - 2 * inverse))
            for name, value in flips.gradient(convert(-2 * share * (squared + inverse), X)).items():
                gradients[name] = gradients.get(name, 0) + value
        name = "generalized_score_matching"
        return Loss({name: Term(total, float(weight.sum()))}, gradients, name)


def _rows(batch: Any, high: float) -> NDArray[np.bool_]:
    """The bits of the rows that have a weight."""
    found: NDArray[np.bool_] = to_numpy(in_full(batch.data["X"])) == high
    return found[to_numpy(batch.weight) > 0]


def _check_ratios(up: NDArray[np.float64]) -> None:
    """Ratios whose squares still mean something."""
    largest = float(np.abs(up).max(initial=0.0))
    if not largest <= LARGEST:
        what = f"a row of the data and one with a bit flipped have a ratio of exp({largest:.0f})"
        remedy = "lower the learning rate, or use ratio_matching where neighbors of rows never occur"
        raise Diverged(what, "generalized score matching", remedy)


def missing_neighbors(rows: NDArray[np.bool_]) -> tuple[int, int]:
    """How many rows that differ in one bit from one of these are not among them, and how many were looked for.

    Parameters
    ----------
    rows : bool array of shape (n, d)
        Repeated ones count once; of very many the neighbors of the first ones are looked for, a million in all.

    Examples
    --------
    >>> missing_neighbors(np.array([[0, 0], [0, 1], [0, 1]], dtype=bool))
    (2, 4)
    """
    d = rows.shape[1]
    packed = np.unique(np.packbits(rows, axis=1), axis=0)
    known = {row.tobytes() for row in packed}
    first = packed[: max(1, CHECKED // d)]
    missing = 0
    for j in range(d):
        other = first.copy()
        other[:, j // 8] ^= 128 >> j % 8
        missing += sum(row.tobytes() not in known for row in other)
    return missing, d * len(first)
