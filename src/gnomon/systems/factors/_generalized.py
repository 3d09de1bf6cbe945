"""Normal factors behind bits or counts: the bound of a normal posterior, sums over nodes, and steps of the loadings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Array, Noise
from gnomon.inference.exact.linear_gaussian import GaussianPosterior
from gnomon.systems.factors._columns import NaturalColumns, NormalizerMeans
from gnomon.training.variational_em import by_parts

__all__ = ["EXACT_FACTORS", "GeneralizedFactorAnalysisModel"]

EXACT_FACTORS = 2
"""Factors over which integrals are taken on a grid about each row's own posterior."""
SETTLED, MOST_UPDATES = 1e-9, 200
"""Gain of a row's bound, in nats, at which its posterior stands; updates at most."""
FIRST_UPDATES = 20
"""Steps to a row's mode, where its posterior begins, at most."""
LEAST = 1e-6
"""Share of a step below which a row stands."""
NEWTON_STEPS = 50
"""Steps of the parameters on a grid at most; they end where none gains."""

Floats = NDArray[np.float64]


class _Standing(NamedTuple):
    """Where normal posteriors of rows stand."""

    bound: Floats
    slope: Floats
    """By the means, (n, k)."""
    precision: Floats
    """The best one, (n, k, k)."""


class GeneralizedFactorAnalysisModel:
    r"""z ~ N(0, I_k) and, independently given z, :math:`p(x_j | z) = h(x_j) \exp(x_j \eta_j - A(\eta_j))`.

    :math:`\eta_j = w_j^T z + b_j`. w_j and b_j have normal priors about 0 and about the column's own natural parameter.

    Parameters
    ----------
    d, k : int
    columns : NaturalColumns
    penalty : float in (0, inf)
        Precision of the priors.
    updates : int, in [1, inf), default 2
        Updates of a posterior in an iteration of a fit.
    """

    starts: list[dict[str, Array]]

    def __init__(self, d: int, k: int, columns: NaturalColumns, penalty: float, updates: int = 2) -> None:
        self.components: Floats = np.zeros((d, k))
        self.bias: Floats = np.zeros(d)
        self.center: Floats = np.zeros(d)
        self.columns, self.penalty, self.updates = columns, penalty, updates
        self.seen = 0.0
        self.nodes: tuple[Array, Array] | None = None

    @property
    def n_parameters(self) -> int:
        """W up to rotation, and b."""
        d, k = self.components.shape
        return d * k - k * (k - 1) // 2 + d

    def state(self) -> dict[str, Array]:
        """W, b, what the prior of b is about, and the weight of the rows that were learned from."""
        seen = np.array(self.seen)
        return {"components": self.components, "bias": self.bias, "center": self.center, "seen": seen}

    def load(self, state: Mapping[str, Array]) -> None:
        """Take the arrays over."""
        self.components, self.bias, self.center = (
            np.array(state[name], np.float64) for name in ("components", "bias", "center")
        )
        self.seen = float(state["seen"])

    def canonicalize(self) -> None:
        """Turn W so that its columns are orthogonal, longest first, the largest entry of each positive."""
        u, length, _ = np.linalg.svd(self.components, full_matrices=False)
        turned = np.zeros_like(self.components)
        turned[:, : len(length)] = u * length
        largest = turned[np.abs(turned).argmax(0), np.arange(turned.shape[1])]
        self.components = turned * np.where(largest < 0, -1.0, 1.0)

    # --- the joint distribution ---------------------------------------------------------------------------------------

    def fields(self, z: Array) -> Floats:
        """Natural parameters of the cells given z, (..., d)."""
        return np.asarray(z @ self.components.T + self.bias)

    def log_cells(self, x: Array, z: Array) -> Floats:
        """log p(x_j | z) of each cell in nats."""
        eta = self.fields(z)
        return np.asarray(x * eta - self.columns.normalizer(eta) + self.columns.log_base(x))

    def log_prior_of(self, z: Array) -> Floats:
        """log p(z), (...)."""
        return np.asarray(-0.5 * (z * z).sum(-1) - 0.5 * z.shape[-1] * math.log(2 * math.pi))

    def log_joint(self, x: Array, z: Array) -> Floats:
        """log p(x, z) of each row in nats, z (n, k)."""
        return np.asarray(self.log_cells(np.asarray(x, np.float64), z).sum(-1) + self.log_prior_of(z))

    def sample_prior(self, n: int, noise: Noise) -> Floats:
        """n draws of z."""
        return np.asarray(noise.normal((n, self.components.shape[1]), like=self.bias))

    def sample(self, n: int, noise: Noise) -> Floats:
        """n rows."""
        return self.columns.draw(self.fields(self.sample_prior(n, noise.child("latent"))), noise.child("cells"))

    def reconstruct(self, z: Array) -> Floats:
        """E[x | z], shape (n, d)."""
        return self.columns.at(self.fields(z)).slope

    def modes(self, x: Array, known: Array | float = 1.0) -> Floats:
        """z at which p(x, z) is largest, (n, k): the log joint is concave, so that Newton steps find it."""
        return self._laplace(np.asarray(x, np.float64), known, MOST_UPDATES)[0]

    def _laplace(self, rows: Floats, known: Array | float, updates: int) -> tuple[Floats, Floats]:
        """z of each row after Newton steps that raise the log joint, and the inverse of its curvature there."""
        eye = np.eye(self.components.shape[1])
        z: Floats = np.zeros((len(rows), len(eye)))
        share = np.ones(len(rows))
        height, (slope, precision) = self._height(rows, known, z), self._turning(rows, known, z)
        for _ in range(updates):
            moved = z + share[:, None] * np.linalg.solve(precision, slope[:, :, None])[:, :, 0]
            new = self._height(rows, known, moved)
            better = new >= height
            gained = np.where(better, new - height, np.inf)
            z, height = _where(better, moved, z), np.where(better, new, height)
            share = np.where(better, 1.0, share / 2)
            slope, precision = self._turning(rows, known, z)
            if ((gained <= SETTLED**2) | (share < LEAST)).all():
                break
        return z, np.asarray(np.linalg.inv(precision), np.float64)

    def _height(self, rows: Floats, known: Array | float, z: Floats) -> Floats:
        return np.asarray((self.log_cells(rows, z) * known).sum(-1) + self.log_prior_of(z))

    def _turning(self, rows: Floats, known: Array | float, z: Floats) -> tuple[Floats, Floats]:
        """Slope of the log joint by z, (n, k), and minus its curvature, (n, k, k)."""
        k, found = z.shape[1], self.columns.at(self.fields(z))
        slope = ((rows - found.slope) * known) @ self.components - z
        return slope, ((found.curvature * known) @ self._squares).reshape(-1, k, k) + np.eye(k)

    # --- a normal posterior of each row -------------------------------------------------------------------------------

    @property
    def _squares(self) -> Floats:
        """w_j w_j^T of each column, (d, k^2)."""
        W = self.components
        return (W[:, :, None] * W[:, None, :]).reshape(len(W), -1)

    def _expected(self, mean: Array, covariance: Array) -> tuple[Floats, NormalizerMeans]:
        """Means of the fields and of their normalizers, (n, d) each."""
        at = self.fields(mean)
        variance = covariance.reshape(len(at), -1) @ self._squares.T
        return at, self.columns.expected(at, np.maximum(variance, 0.0))

    def _standing(self, x: Array, known: Array, mean: Array, covariance: Array) -> _Standing:
        k = mean.shape[1]
        at, found = self._expected(mean, covariance)
        cells = ((x * at - found.value + self.columns.log_base(x)) * known).sum(1)
        slope = ((x - found.slope) * known) @ self.components - mean
        precision = ((found.curvature * known) @ self._squares).reshape(-1, k, k) + np.eye(k)
        return _Standing(cells - _divergence(mean, covariance), slope, precision)

    def elbo(self, x: Array, mean: Array, covariance: Array, known: Array | float = 1.0) -> Floats:
        """E_q[log p(x, z)] + H(q) of each row in nats, for normal q: at most log p(x)."""
        return self._standing(np.asarray(x, np.float64), known, mean, covariance).bound

    def standing(self, x: Array, mean: Array, covariance: Array) -> tuple[Floats, Floats, Floats]:
        """The bound of normal q, its slope by their means, and the precision that would raise it most."""
        return self._standing(np.asarray(x, np.float64), 1.0, mean, covariance)

    def approximate(
        self, x: Array, start: Mapping[str, Array] | None = None, *, updates: int | None = None,
        known: Array | float = 1.0,
    ) -> dict[str, Array]:  # fmt: skip
        r"""``mean`` (n, k) and ``covariance`` (n, k, k) of the normal q of each row, from given ones or its mode on.

        An update is a natural gradient step, :math:`S^{-1} \leftarrow (1 - \rho) S^{-1} + \rho P`,
        :math:`m \leftarrow m + \rho S g` with :math:`P = I + W^T diag(E A'') W` and g the slope by m: at
        :math:`\rho = 1` the fixed point's own equations. :math:`\rho` is halved for a row whose bound would fall.

        Parameters
        ----------
        x : array of shape (n, d)
        start : mapping, optional
        updates : int, optional
            As many as this; those of a fit where it is left out.
        known : bool array of shape (n, d), or 1
            Cells that speak.
        """
        rows = np.asarray(x, np.float64)
        begun = (start["mean"], start["covariance"]) if start else self._laplace(rows, known, FIRST_UPDATES)
        mean, covariance = np.array(begun[0]), np.array(begun[1])
        stands, share = self._standing(rows, known, mean, covariance), np.ones(len(rows))
        for _ in range(self.updates if updates is None else updates):
            rho = share[:, None, None]
            spread = np.linalg.inv((1 - rho) * np.linalg.inv(covariance) + rho * stands.precision)
            moved = mean + share[:, None] * (spread @ stands.slope[:, :, None])[:, :, 0]
            new = self._standing(rows, known, moved, spread)
            better = new.bound >= stands.bound
            gained = np.where(better, new.bound - stands.bound, np.inf)
            mean, covariance = (
                np.where(better[:, None], moved, mean),
                np.where(better[:, None, None], spread, covariance),
            )
            stands = _Standing(*(_where(better, a, b) for a, b in zip(new, stands, strict=True)))
            share = np.where(better, np.minimum(1.0, 2 * share), share / 2)
            if ((gained <= SETTLED) | (share < LEAST)).all():
                break
        return {"mean": mean, "covariance": covariance}

    def posterior(self, x: Array, known: Array | float = 1.0) -> GaussianPosterior:
        """The normal q of each row of the highest bound: means (n, k), covariances (n, k, k)."""
        found = self.approximate(x, updates=MOST_UPDATES, known=known)
        return GaussianPosterior(found["mean"], found["covariance"])

    def infer(self, x: Array, noise: Noise) -> tuple[Array, Array]:
        """One draw of z of each row from its q, and log q; rows that are alike share a q."""
        distinct, which = np.unique(np.asarray(x, np.float64), axis=0, return_inverse=True)
        mean, covariance = self.posterior(distinct)
        lower, which = np.linalg.cholesky(covariance), which.ravel()
        u = np.asarray(noise.normal((len(which), mean.shape[1]), like=mean))
        z = mean[which] + (lower[which] @ u[:, :, None])[:, :, 0]
        return z, self.log_prior_of(u) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)[which]

    @property
    def exact(self) -> bool:
        """Whether integrals over z are taken on grids."""
        return self.components.shape[1] <= EXACT_FACTORS

    @available_if(lambda self: isinstance(self, type) or self.exact)
    def log_prob(self, x: Array) -> Floats:
        """Log probability of each row in nats, of up to two factors: see `FactorIntegrals`."""
        from gnomon.systems.factors._factor_integrals import FactorIntegrals

        return FactorIntegrals(self).log_prob(x, np.ones(np.shape(x), np.bool_))

    # --- EM -----------------------------------------------------------------------------------------------------------

    def expect(self, x: Array, weight: Array, posterior: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Sums for `ascent`, by normal posteriors; without these sums over nodes, for `maximize`."""
        rows, weight = np.asarray(x, np.float64), np.asarray(weight, np.float64)
        if posterior is None:
            return self._expect_at_nodes(rows, weight)
        mean, covariance = posterior["mean"], posterior["covariance"]
        at, found = self._expected(mean, covariance)
        n, k = mean.shape
        second = np.zeros((n, k + 1, k + 1))
        second[:, :k, :k] = covariance + mean[:, :, None] * mean[:, None, :]
        second[:, :k, k] = second[:, k, :k] = mean
        second[:, k, k] = 1.0
        curvature = (found.curvature * weight[:, None]).T @ second.reshape(n, -1)
        slope = ((rows - found.slope) * weight[:, None]).T @ second[:, k]
        spread = ((found.curvature * weight[:, None]).T @ covariance.reshape(n, -1)).reshape(-1, k, k)
        slope[:, :k] -= (spread @ self.components[:, :, None])[:, :, 0]
        parts, base = weight @ (rows * at - found.value), self.columns.log_base(rows).sum(1)
        return {
            "weight": weight.sum(),
            "log_likelihood": parts.sum() + weight @ (base - _divergence(mean, covariance)),
            "parts": parts,
            "slope": slope,
            "curvature": curvature.reshape(-1, k + 1, k + 1),
        }

    def worth(self, x: Array, weight: Array, posterior: Mapping[str, Array]) -> dict[str, Array]:
        """See `gnomon.training.variational_em.HasAscent`; a part is a column."""
        at, found = self._expected(posterior["mean"], posterior["covariance"])
        return {"parts": np.asarray(weight, np.float64) @ (np.asarray(x, np.float64) * at - found.value)}

    def ascent(self, statistics: Mapping[str, Array]) -> Floats:
        """Newton's direction of (w_j, b_j) for each column, (d, k + 1), the prior included."""
        k = self.components.shape[1]
        own = np.column_stack([self.components, self.bias - self.center])
        curvature = statistics["curvature"] + self.penalty * np.eye(k + 1)
        slope = statistics["slope"] - self.penalty * own
        return np.asarray(np.linalg.solve(curvature, slope[:, :, None])[:, :, 0])

    def move(self, direction: Array, shares: Array) -> None:
        """See `gnomon.training.variational_em.HasAscent`."""
        step = np.asarray(shares)[:, None] * direction
        self.components, self.bias = self.components + step[:, :-1], self.bias + step[:, -1]

    def log_prior_of_parts(self) -> Floats:
        """Of w_j and b_j, up to a constant."""
        away = self.bias - self.center
        return np.asarray(-0.5 * self.penalty * ((self.components**2).sum(1) + away * away))

    def log_prior(self) -> float:
        """Of all, up to a constant."""
        return float(self.log_prior_of_parts().sum())

    def take_in(self, x: Array, weight: Array, share: float) -> float:
        """A step by rows that stand for all that were seen; their bound (or likelihood on nodes) before it, per row."""
        rows, total = np.asarray(x, np.float64), float(np.sum(weight))
        held = None if self.nodes is not None else self.approximate(rows)
        sums, scale = self.expect(rows, weight, held), self.seen / total

        def scaled() -> dict[str, Array]:
            found = self.at_nodes(sums) if held is None else self.worth(rows, weight, held)
            return {name: scale * value for name, value in found.items()}

        begun = scaled() | {name: scale * sums[name] for name in ("slope", "curvature") if name in sums}
        before = begun["parts"] + self.log_prior_of_parts()
        by_parts(self, self.ascent(begun), before, lambda: scaled()["parts"] + self.log_prior_of_parts(), share)
        return float(sums["log_likelihood"]) / total

    # --- EM on nodes --------------------------------------------------------------------------------------------------

    def _expect_at_nodes(self, rows: Array, weight: Array) -> dict[str, Array]:
        """How much of the rows, and of their cells, is at each node."""
        assert self.nodes is not None
        z, log_share = self.nodes
        eta = self.fields(z)
        joint = rows @ eta.T - self.columns.at(eta).value.sum(1) + log_share
        log_p = logsumexp(joint, axis=1)
        part = np.exp(joint - log_p[:, None]) * weight[:, None]
        log_p = log_p + self.columns.log_base(rows).sum(1)
        return {"weight": weight.sum(), "log_likelihood": weight @ log_p, "seen": rows.T @ part, "mass": part.sum(0)}

    def at_nodes(self, statistics: Mapping[str, Array]) -> dict[str, Array]:
        """``parts``, ``slope`` and ``curvature`` of the expected log joint from sums over nodes."""
        assert self.nodes is not None
        design = np.column_stack([self.nodes[0], np.ones(len(self.nodes[0]))])
        eta, seen, mass = self.fields(self.nodes[0]).T, statistics["seen"], statistics["mass"]
        found = self.columns.at(eta)
        pairs = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
        return {
            "parts": (seen * eta - mass * found.value).sum(1),
            "slope": (seen - mass * found.slope) @ design,
            "curvature": ((mass * found.curvature) @ pairs).reshape(-1, design.shape[1], design.shape[1]),
        }

    def maximize(self, statistics: Mapping[str, Array]) -> None:
        """W and b of the highest expected log joint and prior, from sums over nodes."""

        def worth() -> Floats:
            return np.asarray(self.at_nodes(statistics)["parts"] + self.log_prior_of_parts())

        for _ in range(NEWTON_STEPS):
            found = self.at_nodes(statistics)
            before = found["parts"] + self.log_prior_of_parts()
            by_parts(self, self.ascent(found), before, worth)
            if (worth() - before <= SETTLED * (1 + np.abs(before)) * 1e-3).all():
                break


def _divergence(mean: Floats, covariance: Floats) -> Floats:
    """KL(N(mean, covariance) || N(0, I)) of each row in nats."""
    trace = np.trace(covariance, axis1=1, axis2=2)
    return np.asarray(0.5 * (trace + (mean * mean).sum(1) - mean.shape[1] - np.linalg.slogdet(covariance)[1]))


def _where(better: NDArray[np.bool_], one: Floats, other: Floats) -> Floats:
    return np.where(better.reshape(-1, *[1] * (one.ndim - 1)), one, other)
