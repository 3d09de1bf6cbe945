"""Markov chains on finite state spaces as column-stochastic matrices, and checks of what a kernel claims to be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Noise
from gnomon.errors import UserValueError

__all__ = [
    "FiniteChain", "detailed_balance_error", "invariance_error", "reverse_kernel", "trajectory_log_weight",
]  # fmt: skip

_SUM_TOLERANCE = 1e-9


class FiniteChain:
    """A Markov chain on states 0, ..., K - 1.

    The matrix is column-stochastic, ``A[i, j] = P(next = i | now = j)``, so a distribution moves by ``v <- A v``.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Entries in [0, 1]; columns sum to 1 within 1e-9.

    Raises
    ------
    UserValueError
        When the matrix is not square or a column does not sum to 1 (row-stochastic matrices are recognized).

    Examples
    --------
    >>> chain = FiniteChain([[0.9, 0.3], [0.1, 0.7]])
    >>> chain.evolve([1.0, 0.0], 1).tolist()
    [0.9, 0.1]
    """

    def __init__(self, matrix: ArrayLike) -> None:
        self.matrix = _column_stochastic(matrix)
        total = np.cumsum(self.matrix, axis=0)
        self._cumulative = np.ascontiguousarray((total / total[-1]).T)  # ends at 1 exactly: no draw falls behind it

    def evolve(self, v: ArrayLike, t: int) -> NDArray[np.float64]:
        """The distribution after t steps from v, by repeated multiplication (right for defective matrices too).

        Parameters
        ----------
        v : array of shape (K,) or (K, m)
            One distribution, or one per column.
        t : int, in [0, inf)
            Steps.
        """
        now = np.array(v, dtype=np.float64)
        if now.ndim == 0 or len(now) != len(self.matrix):
            raise UserValueError.must("v", f"have {len(self.matrix)} entries, one per state", now)
        if t < 0:
            raise UserValueError.must("t", "be at least 0", t)
        for _ in range(t):
            now = np.matmul(self.matrix, now)
        return now

    def step(self, x: NDArray[np.int64], noise: Noise, draw: int = 0) -> NDArray[np.int64]:
        """The next state of each chain, by the inverse distribution function of one uniform number per chain."""
        u = np.asarray(noise.uniform((len(x),), draw), dtype=np.float64)
        return (u[:, None] > self._cumulative[x]).sum(axis=1)

    def simulate(self, start: ArrayLike, n_steps: int, noise: Noise) -> NDArray[np.int64]:
        """Paths of many chains.

        Parameters
        ----------
        start : array of shape (n_chains,)
            First states, in [0, K).
        n_steps : int, in [0, inf)
            Steps; step t uses draw t of `noise`.
        noise : Noise
            Chain i uses the numbers of position i.

        Returns
        -------
        array of shape (n_steps + 1, n_chains)
            The states, the first ones included.
        """
        x = np.array(start, dtype=np.int64).ravel()
        bad = np.flatnonzero((x < 0) | (x >= len(self.matrix)))
        if bad.size:
            raise UserValueError.must("a state", f"be in [0, {len(self.matrix)})", x[bad[0]], f"chain {bad[0]}")
        path = np.empty((n_steps + 1, x.size), dtype=np.int64)
        path[0] = x
        for t in range(n_steps):
            path[t + 1] = self.step(path[t], noise, t)
        return path


def reverse_kernel(matrix: ArrayLike, p: ArrayLike) -> NDArray[np.float64]:
    """The chain run backwards under p: ``R(x' | x) = p(x') T(x | x') / p(x)``.

    Its columns sum to 1 exactly when T leaves p invariant, and R = T exactly when T is reversible with respect to p.

    Parameters
    ----------
    matrix : array of shape (K, K)
        Column-stochastic transition matrix T.
    p : array of shape (K,)
        Nonnegative, not all 0; need not be normalized.

    Returns
    -------
    array of shape (K, K)
        A state with p = 0 that no state of positive p leads to is given a column that stays there (it is never
        visited under p); one that is led to gets infinite entries, since p is then not invariant.

    References
    ----------
    Neal (2001), "Annealed importance sampling".
    """
    t, p = _column_stochastic(matrix), _density(p, matrix)
    with np.errstate(divide="ignore", invalid="ignore"):
        reverse = p[:, None] * t.T / p[None, :]
    unvisited = (p == 0) & (np.matmul(t, p) == 0)
    reverse[:, unvisited] = np.eye(len(p))[:, unvisited]
    return np.where(np.isnan(reverse), 0.0, reverse)


def invariance_error(matrix: ArrayLike, p: ArrayLike) -> float:
    """Largest entry of |T p - p|, with p normalized: 0 when T leaves p invariant."""
    p = _density(p, matrix)
    return float(np.abs(np.matmul(_column_stochastic(matrix), p) - p).max())


def detailed_balance_error(matrix: ArrayLike, p: ArrayLike) -> float:
    """Largest entry of |T(x'|x) p(x) - T(x|x') p(x')|, with p normalized: 0 when T is reversible under p."""
    flow = _column_stochastic(matrix) * _density(p, matrix)[None, :]
    return float(np.abs(flow - flow.T).max())


def trajectory_log_weight(path: ArrayLike, log_p: ArrayLike, kernels: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Importance weights of whole annealing trajectories: the extended-space view of annealed importance sampling.

    Proposal ``p_0(x_1) prod_j T_j(x_{j+1} | x_j)``, target ``p_n(x_n) prod_j R_j(x_j | x_{j+1})`` with R_j the reversal
    of T_j under p_j, j = 1 ... n - 1. Where each T_j leaves p_j invariant the target is normalized up to Z_n, and the
    ratio equals the product of ``p_{j+1}(x_{j+1}) / p_j(x_{j+1})``.

    Parameters
    ----------
    path : array of shape (n,) or (paths, n)
        States x_1, ..., x_n, in [0, K).
    log_p : array of shape (n + 1, K)
        Unnormalized log densities p_0, ..., p_n.
    kernels : sequence of n - 1 arrays of shape (K, K)
        Column-stochastic T_1, ..., T_{n-1}.

    Returns
    -------
    array of shape () or (paths,)
        Log weights in nats; nan for a path that the proposal cannot take.

    References
    ----------
    Neal (2001), "Annealed importance sampling".
    """
    x, log_p = np.asarray(path, dtype=np.int64), np.asarray(log_p, dtype=np.float64)
    n = x.shape[-1]
    if len(log_p) != n + 1 or len(kernels) != n - 1:
        raise UserValueError(
            f"log_p and kernels must have {n + 1} and {n - 1} entries, got {len(log_p)} and {len(kernels)}",
            "log_p, kernels",
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        total = log_p[n][x[..., n - 1]] - log_p[0][x[..., 0]]
        for j, kernel in enumerate(kernels, 1):
            now, then = x[..., j - 1], x[..., j]
            reverse = reverse_kernel(kernel, np.exp(log_p[j] - log_p[j].max()))
            total = total + np.log(reverse[now, then]) - np.log(np.asarray(kernel)[then, now])
    return total


def _column_stochastic(matrix: ArrayLike) -> NDArray[np.float64]:
    a = np.array(matrix, dtype=np.float64)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or a.size == 0:
        raise UserValueError.must("matrix", "be square", a)
    if not (np.isfinite(a).all() and (a >= 0).all()):
        raise UserValueError("matrix must have entries in [0, 1]", "matrix")
    sums = a.sum(axis=0)
    j = int(np.abs(sums - 1).argmax())
    if abs(sums[j] - 1) > _SUM_TOLERANCE:
        rows = np.allclose(a.sum(axis=1), 1, rtol=0, atol=_SUM_TOLERANCE)
        remedy = "its rows do: pass the transpose" if rows else "entry (i, j) is the probability of going from j to i"
        raise UserValueError(f"a column must sum to 1, got {sums[j]:.6g}", f"matrix, column {j}", remedy)
    return a


def _density(p: ArrayLike, matrix: ArrayLike) -> NDArray[np.float64]:
    """p normalized, one entry per state."""
    p = np.array(p, dtype=np.float64).ravel()
    if p.size != len(np.asarray(matrix)):
        raise UserValueError(f"p must have {len(np.asarray(matrix))} entries, one per state, got {p.size}", "p")
    if not (np.isfinite(p).all() and (p >= 0).all() and p.sum() > 0):
        raise UserValueError("p must be finite and at least 0, and not all 0", "p")
    return p / p.sum()
