"""Stationary distributions of finite Markov chains, whether and how fast they are reached, classes and spectra.

Matrices are column-stochastic, ``A[i, j] = P(next = i | now = j)``, as in `chains`.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from gnomon.errors import UserValueError
from gnomon.inference.mcmc.chains import FiniteChain

__all__ = [
    "closed_classes", "is_aperiodic", "is_irreducible", "mixing_time", "period", "relaxation_time", "second_eigenvalue",
    "spectral_gap", "stationary", "stationary_distributions", "total_variation_curve",
]  # fmt: skip

Floats = NDArray[np.float64]

_MAX_STATES = 4096
"""Spectra and powers of larger matrices take more than 134 MB a matrix and minutes."""


def closed_classes(matrix: ArrayLike) -> list[NDArray[np.int64]]:
    """The sets of states that the chain cannot leave and in which every state reaches every other.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Column-stochastic.

    Returns
    -------
    list of arrays
        Ascending states of each class, by smallest state; there is at least one.

    Examples
    --------
    >>> [c.tolist() for c in closed_classes([[1.0, 0.0, 0.2], [0.0, 1.0, 0.3], [0.0, 0.0, 0.5]])]
    [[0], [1]]
    """
    a = FiniteChain(matrix).matrix
    n, label = connected_components(a.T > 0, connection="strong")
    moves, leaves = label[:, None] != label[None, :], np.zeros(n, dtype=bool)
    leaves[label[((a > 0) & moves).any(axis=0)]] = True
    classes = [np.flatnonzero(label == c) for c in np.flatnonzero(~leaves)]
    return sorted(classes, key=lambda states: int(states[0]))


def is_irreducible(matrix: ArrayLike) -> bool:
    """Whether every state reaches every other in some number of steps; the stationary distribution is then unique."""
    a = FiniteChain(matrix).matrix
    return bool(connected_components(a.T > 0, connection="strong")[0] == 1)


def period(matrix: ArrayLike) -> int:
    """Largest d such that the chain, once settled, moves through d sets of states in turn; 1 is aperiodic.

    The greatest common divisor of the lengths of all cycles, over every closed class the least common multiple.
    """
    a = FiniteChain(matrix).matrix
    return math.lcm(*(_class_period(a[np.ix_(states, states)]) for states in closed_classes(a)))


def is_aperiodic(matrix: ArrayLike) -> bool:
    """Whether no closed class moves in cycles; an irreducible aperiodic chain forgets its start."""
    return period(matrix) == 1


def stationary_distributions(matrix: ArrayLike) -> Floats:
    """The stationary distribution of every closed class: every stationary distribution is a mixture of these.

    Each is found by the elimination of Grassmann, Taksar and Heyman (1985), which never subtracts and so keeps its
    digits where rates differ by many powers of ten.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Column-stochastic.

    Returns
    -------
    array of shape (classes, K)
        Rows sum to 1. Cost O(K^3).

    References
    ----------
    Grassmann, Taksar and Heyman (1985), "Regenerative analysis and steady state distributions for Markov chains".
    """
    a = FiniteChain(matrix).matrix
    classes = closed_classes(a)
    distributions = np.zeros((len(classes), len(a)))
    for distribution, states in zip(distributions, classes, strict=True):
        distribution[states] = _eliminate(a[np.ix_(states, states)].T.copy())
    return distributions


def stationary(matrix: ArrayLike) -> Floats:
    """The one distribution with ``A v = v``, ``sum v = 1``.

    Convergence to it from any start needs an aperiodic chain too: see `is_aperiodic`.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Column-stochastic.

    Returns
    -------
    array of shape (K,)

    Raises
    ------
    UserValueError
        When there are several closed classes, hence no single stationary distribution.

    Examples
    --------
    >>> stationary([[0.9, 0.3], [0.1, 0.7]]).round(6).tolist()
    [0.75, 0.25]
    """
    distributions = stationary_distributions(matrix)
    if len(distributions) > 1:
        first = [c[0] for c in closed_classes(matrix)][:4]
        around = ", ".join(map(str, first))
        what = f"the chain has {len(distributions)} closed classes (around states {around}), each with its distribution"
        raise UserValueError(what, "matrix", "use stationary_distributions")
    return cast(Floats, distributions[0])


def second_eigenvalue(matrix: ArrayLike) -> float:
    """The second-largest modulus of the eigenvalues, in [0, 1].

    For a reversible chain the distance to the stationary distribution falls as its powers; for others it holds in the
    limit of many steps only, and the early distance may be anything.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Column-stochastic, K at most 4096. Cost O(K^3).
    """
    a = _small(matrix)
    if len(a) == 1:
        return 0.0
    size = np.sort(np.abs(np.linalg.eigvals(a)))
    return float(min(size[-2], 1.0))


def spectral_gap(matrix: ArrayLike) -> float:
    """``1 - |lambda_2|``; 0 for a chain that is periodic or has several closed classes."""
    return 1.0 - second_eigenvalue(matrix)


def relaxation_time(matrix: ArrayLike) -> float:
    """``-1 / log |lambda_2|`` steps: in that many the slowest part shrinks by e. 0 if one step forgets, inf if none."""
    size = second_eigenvalue(matrix)
    if size >= 1.0:
        return math.inf
    return 0.0 if size == 0.0 else -1.0 / math.log(size)


def total_variation_curve(matrix: ArrayLike, steps: int) -> Floats:
    """Distance to the stationary distribution after t = 0, ..., steps steps from the worst start.

    ``d(t) = max_j (1/2) sum_i |A^t[i, j] - pi[i]|``, which never rises.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Column-stochastic with one closed class, K at most 4096.
    steps : int, in [0, inf)

    Returns
    -------
    array of shape (steps + 1,)
        Cost O(steps K^3).
    """
    if steps < 0:
        raise UserValueError.must("steps", "be at least 0", steps)
    a, distribution = _small(matrix), stationary(matrix)
    now, curve = np.eye(len(a)), np.empty(steps + 1)
    for t in range(steps + 1):
        curve[t] = _distance(now, distribution)
        now = np.matmul(a, now)
    return curve


def mixing_time(matrix: ArrayLike, eps: float = 0.25) -> int:
    """The exact mixing time: the first t at which every start is within `eps` of the stationary distribution.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Column-stochastic with one closed class, K at most 4096.
    eps : float, in (0, 1)
        Total variation distance.

    Returns
    -------
    int
        By doubling and bisection: O(K^3 log t).

    Raises
    ------
    UserValueError
        When the chain is periodic or has several closed classes: it never mixes.
    """
    if not 0 < eps < 1:
        raise UserValueError.must("eps", "be in (0, 1)", eps, remedy="0.25 is usual")
    a, distribution = _small(matrix), stationary(matrix)
    if not is_aperiodic(a):
        raise UserValueError(
            f"the chain has period {period(a)} and never mixes", "matrix", "add a probability of staying"
        )
    if _distance(np.eye(len(a)), distribution) <= eps:
        return 0
    powers = [a]  # A^(2^k)
    while _distance(powers[-1], distribution) > eps:
        powers.append(np.matmul(powers[-1], powers[-1]))
    now, t = np.eye(len(a)), 0  # the largest t that is still too far
    for k in reversed(range(len(powers) - 1)):
        further = np.matmul(powers[k], now)
        if _distance(further, distribution) > eps:
            now, t = further, t + 2**k
    return t + 1


def _distance(columns: Floats, distribution: Floats) -> float:
    return float(0.5 * np.abs(columns - distribution[:, None]).sum(axis=0).max())


def _small(matrix: ArrayLike) -> Floats:
    if (n := len(np.asarray(matrix))) > _MAX_STATES:
        raise UserValueError(f"matrix must have at most {_MAX_STATES} states here, got {n}", "matrix")
    return FiniteChain(matrix).matrix


def _class_period(a: Floats) -> int:
    """Period of an irreducible matrix: the common divisor of level[from] + 1 - level[to] over a breadth-first tree."""
    level = np.full(len(a), -1)
    level[0], front = 0, np.array([0])
    while front.size:
        reached = (a[:, front] > 0).any(axis=1) & (level < 0)
        level[reached] = level[front[0]] + 1
        front = np.flatnonzero(reached)
    to, start = np.nonzero(a)
    return int(np.gcd.reduce(np.abs(level[start] + 1 - level[to])))


def _eliminate(p: Any) -> Floats:
    """Stationary distribution of an irreducible row-stochastic matrix, overwritten: the last state goes first."""
    n = len(p)
    for k in range(n - 1, 0, -1):
        p[:k, k] /= p[k, :k].sum()
        p[:k, :k] += np.outer(p[:k, k], p[k, :k])
    distribution = np.zeros(n)
    distribution[0] = 1.0
    for k in range(1, n):
        distribution[k] = distribution[:k] @ p[:k, k]
    return distribution / distribution.sum()
