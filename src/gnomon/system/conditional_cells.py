"""Missing cells given the known ones of their row: normal densities, tables of states, or draws of all together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from gnomon.contracts import Array
from gnomon.distributions.table import Table
from gnomon.errors import UserValueError
from gnomon.inference.exact.cells import NormalCells, patterns
from gnomon.numeric.noise import Noise

__all__ = ["ConditionalCells", "NormalMixture", "conditional_cells", "states_of"]

STATES = 1 << 12
"""States of the missing cells of a row that a table holds."""
NUMBERS = 1 << 22
"""Numbers that the completed rows of one chunk may take: 32 MB."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class NormalMixture(NamedTuple):
    r"""The density :math:`\sum_k w_k N(x; m_k, C_k)` of the missing cells of a row.

    Attributes
    ----------
    weights, means, covariances : arrays of shape (K,), (K, m), (K, m, m)

    Examples
    --------
    >>> one = NormalMixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None])
    >>> one.log_prob([[0.0, 0.0]]).round(6).tolist()
    [-1.837877]
    """

    weights: Floats
    means: Floats
    covariances: Floats

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density in nats of rows (n, m), shape (n,)."""
        rows = np.asarray(x, np.float64)
        with np.errstate(divide="ignore"):
            cells = NormalCells(np.log(self.weights), self.means, self.covariances)
        found: Floats = cells.moments(rows, np.zeros(rows.shape, np.bool_)).log_prob
        return found


@dataclass(frozen=True)
class ConditionalCells:
    """p(missing cells | known cells) of rows; ``found[i]`` is the distribution of row i.

    ``found[i]`` is a `NormalMixture`, a `gnomon.distributions.table.Table` whose variable ``x3`` is the cell of column
    3, or draws, an array (draws, missing cells) in the order of the columns.

    Parameters
    ----------
    mean : array of shape (n, d)
        Known cells as they were.
    covariance : array of shape (n, d, d)
        0 where one of two cells is known.
    kind : str array of shape (n,)
        ``exact`` or ``estimate`` of each row.
    note : str
        How they were found.
    answers : sequence
        Of each pattern of missing cells what ``found[i]`` takes from it.
    pattern, place : int arrays of shape (n,)
        Which pattern a row has (-1: nothing is missing), and its place there.
    """

    mean: Floats
    covariance: Floats
    kind: NDArray[np.str_]
    note: str
    answers: tuple[Any, ...]
    pattern: NDArray[np.int64]
    place: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, row: int) -> Any:
        if self.pattern[row] < 0:
            raise UserValueError(f"nothing is missing in row {row}", "row", "ask for a row with NaN")
        return self.answers[self.pattern[row]].of(int(self.place[row]))


class _Normals(NamedTuple):
    """Of rows with one pattern: weights (n, K), means (K, n, m), covariances (K, m, m)."""

    share: Floats
    means: Floats
    covariances: Floats

    def moments(self) -> tuple[Floats, Floats]:
        mean = np.einsum("nk,knj->nj", self.share, self.means)
        away = self.means - mean
        spread = np.einsum("nk,knj,knl->njl", self.share, away, away)
        return mean, np.tensordot(self.share, self.covariances, 1) + spread

    def of(self, place: int) -> NormalMixture:
        return NormalMixture(self.share[place], self.means[:, place], self.covariances)


class _Tables(NamedTuple):
    """Of rows with one pattern: probabilities (n, S) of the states (S, m), each one of so many levels."""

    probabilities: Floats
    states: Floats
    levels: int
    columns: NDArray[np.int64]

    def moments(self) -> tuple[Floats, Floats]:
        mean = self.probabilities @ self.states
        square = np.einsum("ns,sj,sl->njl", self.probabilities, self.states, self.states, optimize=True)
        return mean, square - mean[:, :, None] * mean[:, None]

    def of(self, place: int) -> Table:
        shape = (self.levels,) * len(self.columns)
        return Table(self.probabilities[place].reshape(shape), [f"x{j}" for j in self.columns])


class _Draws(NamedTuple):
    """Of rows with one pattern: draws (n, S, m)."""

    draws: Floats

    def moments(self) -> tuple[Floats, Floats]:
        mean = self.draws.mean(1)
        away = self.draws - mean[:, None]
        return mean, np.einsum("nsj,nsl->njl", away, away) / max(self.draws.shape[1] - 1, 1)

    def of(self, place: int) -> Floats:
        return self.draws[place]


def conditional_cells(system: Any, rows: Array, missing: Mask, noise: Noise, n_draws: int) -> ConditionalCells:
    """The joint distribution of the missing cells of each row given the known ones.

    Parameters
    ----------
    system : FillsGaps
    rows : array of shape (n, d)
        In the units of the model, 0 for what is missing.
    missing : bool array of shape (n, d)
    noise : Noise
    n_draws : int, in [2, inf)
        Draws of each row that has no closed form and too many states.
    """
    own = np.array(system._in_units(rows), np.float64)
    mean, covariance = own.copy(), np.zeros((*own.shape, own.shape[1]))
    pattern, place = np.full(len(own), -1), np.zeros(len(own), np.int64)
    answers: list[_Normals | _Tables | _Draws] = []
    exact, notes = np.ones(len(own), np.bool_), []
    normals = system.normal_density()
    for gap, at in patterns(missing):
        if not gap.any():
            continue
        answer, note = _answer(system, normals, own, rows, gap, at, noise, n_draws)
        columns = np.flatnonzero(gap)
        mean[np.ix_(at, columns)], covariance[np.ix_(at, columns, columns)] = answer.moments()
        pattern[at], place[at], exact[at] = len(answers), np.arange(len(at)), not isinstance(answer, _Draws)
        answers.append(answer)
        notes.append(note)
    kind = np.where(exact, "exact", "estimate")
    return ConditionalCells(mean, covariance, kind, ", ".join(sorted(set(notes))), tuple(answers), pattern, place)


def _answer(
    system: Any, normals: NormalCells | None, own: Floats, rows: Array, gap: Mask, at: Any, noise: Noise, n_draws: int
) -> tuple[_Normals | _Tables | _Draws, str]:
    """What is known of the rows of one pattern, and how it was found."""
    if normals is not None:
        joint, means, covariances = normals.given(own[at], gap)
        return _Normals(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)), means, covariances), "closed form"
    states = states_of(system.column_states(), int(gap.sum()))
    log_p = None if states is None else _log_masses(system, rows[at], gap, states)
    if states is not None and log_p is not None:
        p = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))
        return _Tables(p, states, system.column_states(), np.flatnonzero(gap)), "enumeration"
    many, lacks = (np.repeat(one, n_draws, axis=0) for one in (rows[at], np.broadcast_to(gap, (len(at), len(gap)))))
    here = noise.child(np.packbits(gap).tobytes().hex())
    drawn = np.asarray(system.cells_drawn(many, lacks, here).values, np.float64)
    return _Draws(drawn[:, gap].reshape(len(at), n_draws, -1)), f"{n_draws} draws"


def states_of(levels: int | None, cells: int) -> Floats | None:
    """All states of so many cells, (levels^cells, cells), the last fastest; None where they are not few.

    Examples
    --------
    >>> states_of(2, 2).astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    if levels is None or levels**cells > STATES:
        return None
    return np.indices((levels,) * cells).reshape(cells, -1).T.astype(np.float64)


def _log_masses(system: Any, rows: Array, gap: Mask, states: Floats) -> Floats | None:
    """log p of each row with each state of its missing cells but for a constant, (n, S); None where it has none."""
    found, step = [], max(1, NUMBERS // (len(states) * rows.shape[1]))
    for start in range(0, len(rows), step):
        here = rows[start : start + step]
        filled = np.repeat(here, len(states), axis=0)
        filled[:, gap] = np.tile(states, (len(here), 1))
        log_p = system.complete_log_density(filled)
        if log_p is None:
            return None
        found.append(np.asarray(log_p, np.float64).reshape(len(here), len(states)))
    return np.concatenate(found)
