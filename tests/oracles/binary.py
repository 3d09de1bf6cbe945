"""A brute-force engine for small binary models: everything from a table of the joint distribution, by plain loops.

It knows energies alone, never a conditional or a marginal in closed form, and imports nothing of the library, so that
what it says is independent of what it judges. States are numbered lexicographically, the first unit most significant.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np


def all_states(n: int) -> np.ndarray:
    """Every state of n binary units, shape (2**n, n)."""
    return np.array(list(itertools.product([0.0, 1.0], repeat=n))).reshape(2**n, n)


def log_sum(values: Sequence[float]) -> float:
    """log sum exp by exact summation."""
    top = max(values)
    return top + math.log(math.fsum(math.exp(v - top) for v in values))


def rbm_energy(W, b, c) -> Callable[[np.ndarray, np.ndarray], float]:
    """E(v, h) = -b'v - c'h - v'W h, term by term."""

    def energy(v, h):
        total = -sum(b[i] * v[i] for i in range(len(b))) - sum(c[j] * h[j] for j in range(len(c)))
        return total - sum(v[i] * W[i][j] * h[j] for i in range(len(b)) for j in range(len(c)))

    return energy


def layers_energy(weights, biases) -> Callable[..., float]:
    """Energy of a chain of layers x_0, x_1, ...: -sum b_l'x_l - sum x_l' W_l x_(l+1), term by term."""

    def energy(*x):
        total = -sum(biases[k][i] * layer[i] for k, layer in enumerate(x) for i in range(len(layer)))
        for W, (left, right) in zip(weights, itertools.pairwise(x), strict=True):
            total -= sum(left[i] * W[i][j] * right[j] for i in range(len(left)) for j in range(len(right)))
        return total

    return energy


class Joint:
    """The table of a joint distribution over blocks of binary units.

    Parameters
    ----------
    energy : callable
        Takes one state per block and returns a number.
    sizes : sequence of int
        Units of each block.
    """

    def __init__(self, energy, sizes) -> None:
        self.sizes = tuple(sizes)
        self.states = all_states(sum(sizes))
        cuts = np.cumsum(self.sizes)[:-1]
        self.minus_energy = np.array([-energy(*np.split(s, cuts)) for s in self.states])
        self.log_z = log_sum(self.minus_energy)
        self.p = np.array([math.exp(e - self.log_z) for e in self.minus_energy])
        self.columns = np.split(np.arange(sum(sizes)), cuts)

    def log_marginal_mass(self, block: int) -> np.ndarray:
        """log sum over the other blocks of exp(-energy), for each state of the block."""
        groups: dict[tuple, list[float]] = {tuple(x): [] for x in all_states(self.sizes[block])}
        for s, e in zip(self.states, self.minus_energy, strict=True):
            groups[tuple(s[self.columns[block]])].append(e)
        return np.array([log_sum(group) for group in groups.values()])

    def marginal(self, block: int) -> np.ndarray:
        """Probability of each state of the block."""
        return np.exp(self.log_marginal_mass(block) - self.log_z)

    def expectation(self, f) -> np.ndarray:
        """E[f(state)] with f of the whole row of units."""
        return sum(p * np.asarray(f(s)) for p, s in zip(self.p, self.states, strict=True))

    def update_kernel(self, units) -> np.ndarray:
        """T[i, j] of redrawing the named units given the rest: mass of i over the mass of all that share j's rest."""
        rest = [u for u in range(self.states.shape[1]) if u not in set(units)]
        keys = [tuple(s[rest]) for s in self.states]
        mass: dict[tuple, list[float]] = {}
        for key, e in zip(keys, self.minus_energy, strict=True):
            mass.setdefault(key, []).append(e)
        log_mass = {key: log_sum(values) for key, values in mass.items()}
        kernel = np.zeros((len(keys), len(keys)))
        for i, j in itertools.product(range(len(keys)), repeat=2):
            if keys[i] == keys[j]:
                kernel[i, j] = math.exp(self.minus_energy[i] - log_mass[keys[i]])
        return kernel

    def clamped(self, units, values) -> np.ndarray:
        """Indices of the states in which the units have the values."""
        return np.flatnonzero((self.states[:, list(units)] == np.asarray(values)).all(axis=1))


def marginal_kernel(joint: Joint, block: int) -> np.ndarray:
    """Kernel on one block of two: the other drawn given it, then it given the other, from the joint table."""
    other = 1 - block
    x, y = all_states(joint.sizes[block]), all_states(joint.sizes[other])
    index = {tuple(s): k for k, s in enumerate(joint.states)}
    table = np.zeros((len(x), len(y)))
    for i, j in itertools.product(range(len(x)), range(len(y))):
        parts = (x[i], y[j]) if block == 0 else (y[j], x[i])
        table[i, j] = joint.p[index[tuple(np.concatenate(parts))]]
    given_y, given_x = table / table.sum(axis=0), table / table.sum(axis=1, keepdims=True)
    return np.einsum("ij,kj->ik", given_y, given_x)


def ais_moments(log_masses, kernels) -> tuple[float, float]:
    """Exact mean and relative variance of one annealed importance weight, by dynamic programming over the states.

    Parameters
    ----------
    log_masses : sequence of n + 1 arrays
        Unnormalized log densities f_0, ..., f_n on the states.
    kernels : sequence of n - 1 arrays
        T[i, j] = P(i | j) at levels 1, ..., n - 1.
    """
    p0 = np.exp(log_masses[0] - log_sum(log_masses[0]))
    first, second = p0.copy(), p0.copy()
    for j in range(len(log_masses) - 1):
        ratio = np.exp(log_masses[j + 1] - log_masses[j])
        first, second = first * ratio, second * ratio**2
        if j < len(kernels):
            first, second = kernels[j] @ first, kernels[j] @ second
    mean = first.sum()
    return float(mean), float(second.sum() / mean**2 - 1)


def numerical_gradient(f: Callable[[np.ndarray], float], x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences, entry by entry."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (f(up) - f(down)) / (2 * step)
    return gradient
