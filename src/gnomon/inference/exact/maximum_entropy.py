"""Densities of largest entropy under given means of features."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from gnomon.errors import UserValueError

__all__ = ["MaximumEntropy", "maximum_entropy"]

Floats = NDArray[np.float64]
Feature = Callable[[Floats], ArrayLike]


@dataclass(frozen=True, eq=False)
class MaximumEntropy:
    r"""The distribution :math:`p(x) = \exp(\sum_k \lambda_k t_k(x) - A)` on nodes, made by `maximum_entropy`.

    Parameters
    ----------
    nodes, weights : arrays of shape (m,)
        Points of the support and their weights in sums (1 each for a discrete one).
    multipliers : array of shape (k,)
        lambda, one per feature.
    log_normalizer : float
        A.
    features : sequence of callables
    """

    nodes: Floats
    weights: Floats
    multipliers: Floats
    log_normalizer: float
    features: tuple[Feature, ...]

    def log_prob(self, x: ArrayLike) -> Floats:
        """Log density (or probability) in nats."""
        values = np.asarray(x, np.float64)
        return np.tensordot(self.multipliers, _table(self.features, values), 1) - self.log_normalizer

    @property
    def entropy(self) -> float:
        """Entropy in nats: A - sum lambda_k E t_k."""
        log_p = self.log_prob(self.nodes)
        return float(-(self.weights * np.exp(log_p) * log_p).sum())

    @property
    def means(self) -> Floats:
        """Means of the features under the distribution: the targets."""
        return np.matmul(_table(self.features, self.nodes), self.weights * np.exp(self.log_prob(self.nodes)))


def maximum_entropy(
    features: Sequence[Feature],
    targets: ArrayLike,
    support: tuple[float, float] | Sequence[float],
    *,
    discrete: bool = False,
    n_nodes: int = 2000,
) -> MaximumEntropy:
    r"""The distribution of largest entropy among those whose features have given means.

    Its multipliers minimize the convex dual :math:`A(\lambda) - \sum_k \lambda_k m_k`, whose gradient is the difference
    of the means; Newton's steps find them.

    Parameters
    ----------
    features : sequence of k callables
        Each takes an array of points and answers its values there.
    targets : array of shape (k,)
        Their means m_k.
    support : pair of floats, or sequence of floats
        Ends of the interval (finite: choose them where nothing is left), or with `discrete` the points themselves.
    discrete : bool, default False
    n_nodes : int >= 20, default 2000
        Gauss-Legendre nodes on the interval.

    Raises
    ------
    UserValueError
        Means that no distribution on the support has, or features that depend on each other.

    References
    ----------
    Jaynes (1957); Boyd and Vandenberghe (2004), section 5.2.3.

    Examples
    --------
    >>> die = maximum_entropy([lambda x: x], [4.5], range(1, 7), discrete=True)
    >>> np.exp(die.log_prob([1, 6])).round(4).tolist()
    [0.0544, 0.3475]
    """
    nodes, weights = _nodes(support, discrete, n_nodes)
    table, goal = _table(features, nodes), np.atleast_1d(np.asarray(targets, np.float64))
    if goal.shape != (len(features),) or not np.isfinite(goal).all():
        raise UserValueError.must("targets", f"be {len(features)} numbers, one per feature", goal)
    low, high = table.min(1), table.max(1)
    outside = (goal <= low) | (goal >= high)
    if outside.any():
        k = int(outside.argmax())
        what = f"the mean of feature {k} must be between {low[k]:g} and {high[k]:g}, got {goal[k]:g}"
        raise UserValueError(what, f"targets[{k}]", "choose a mean between them, or another support")
    # standardized features: Newton's matrix is well conditioned and steps have a scale
    scale = np.maximum(high - low, 1e-300)
    centered = (table - goal[:, None]) / scale[:, None]

    def dual(multipliers: Floats) -> tuple[float, Floats]:
        exponent = np.matmul(multipliers, centered)
        top = float(exponent.max())
        mass = weights * np.exp(exponent - top)
        total = float(mass.sum())
        return top + math.log(total), np.matmul(centered, mass) / total

    def curvature(multipliers: Floats) -> Floats:
        exponent = np.matmul(multipliers, centered)
        mass = weights * np.exp(exponent - exponent.max())
        mass /= mass.sum()
        mean = np.matmul(centered, mass)
        return np.matmul(centered * mass, centered.T) - np.outer(mean, mean)

    result = optimize.minimize(dual, np.zeros(len(goal)), jac=True, hess=curvature, method="trust-exact",
                              options={"gtol": 1e-12, "maxiter": 2000})  # fmt: skip
    miss = np.abs(dual(result.x)[1]).max()
    if not miss < 1e-7:
        raise UserValueError(
            f"no distribution on the support has these means (off by {miss:.2g} of the features' ranges)", "targets",
            "choose attainable means, and features that do not determine each other",
        )  # fmt: skip
    multipliers = result.x / scale
    constant = float(dual(result.x)[0] + (multipliers * goal).sum())
    return MaximumEntropy(nodes, weights, multipliers, constant, tuple(features))


def _nodes(support: Any, discrete: bool, n_nodes: int) -> tuple[Floats, Floats]:
    points = np.asarray(list(support), np.float64)
    if not np.isfinite(points).all() or points.size < 2:
        raise UserValueError("support must be finite", "support", "choose ends beyond which the density is negligible")
    if discrete:
        return points, np.ones_like(points)
    if points.size != 2 or not points[0] < points[1]:
        raise UserValueError.must("support", "be (low, high)", points.tolist(), remedy="or set discrete=True")
    # panels: one polynomial of two thousand nodes costs seconds to make
    at, weight = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(points[0], points[1], max(1, n_nodes // 20) + 1)
    half, middle = np.diff(edges) / 2, (edges[:-1] + edges[1:]) / 2
    return (middle[:, None] + half[:, None] * at).ravel(), (half[:, None] * weight).ravel()


def _table(features: Sequence[Feature], x: Floats) -> Floats:
    return np.stack([np.broadcast_to(np.asarray(feature(x), np.float64), x.shape) for feature in features])
