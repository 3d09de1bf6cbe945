"""The path on which the spikes of a spike-and-slab machine are annealed, columns and slabs integrated out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon.contracts import Array, Noise, State
from gnomon.errors import UserValueError
from gnomon.inference.arrays import to_numpy
from gnomon.inference.mcmc.paths import check_rising
from gnomon.numeric import ops
from gnomon.numeric.ops import logsumexp

__all__ = ["SpikePath", "SpikeWeights"]

VISITED = 16
"""A move visits one spike in so many, and one at least."""
CORNER = 1e100
"""In the corner of a precision that is bordered by its linear coefficients: above any square of these."""

TURNS, MOST_ODDS = 50, 4.0
"""Of mean fields, and the log-odds up to which the base trusts them."""
LEAST_SHARES = 0.2
"""Of all parts of the base together."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SpikeWeights:
    r"""Log weights of states h of the spikes, with columns and slabs integrated out.

    .. math:: \log f(h) = c + \langle b, h \rangle + \tfrac12 l_h^T P_h^{-1} l_h - \tfrac12 \log |P_h|,
        \quad P_h = \Lambda + \textstyle\sum_i h_i C_i, \quad l_h = a + \sum_i h_i r_i

    Parameters
    ----------
    constant : float
        c, in nats.
    bias : array of shape (n,)
        b.
    bordered : tensor of shape (1 + n, d + 1, d + 1), float64
        Lambda and the C_i, the changes of the precision, each bordered by a or r_i as its last row.

    Notes
    -----
    A Cholesky factor of the bordered precision has :math:`L^{-1} l` as its last row, so that one factorization gives
    both terms. Cost: O(d^3) for each state.

    Examples
    --------
    >>> weights = SpikeWeights.of(0.0, np.zeros(1), np.ones(1), np.eye(1), np.zeros((1, 1)), np.array([[[3.0]]]))
    >>> weights.log_weight(np.array([[0.0], [1.0]])).round(4).tolist()
    [0.5, -0.5681]
    """

    constant: float
    bias: Floats
    bordered: torch.Tensor

    @classmethod
    def of(
        cls, constant: float, bias: Floats, linear: Floats, precision: Floats, pull: Floats, changes: Floats
    ) -> SpikeWeights:
        """The weights of c, b, a (d,), Lambda (d, d), r (n, d) and C (n, d, d)."""
        n, d = len(bias), len(linear)
        bordered = np.zeros((1 + n, d + 1, d + 1))
        bordered[0, :d, :d], bordered[0, d, :d], bordered[0, d, d] = precision, linear, CORNER
        bordered[1:, :d, :d], bordered[1:, d, :d] = changes, pull
        return cls(constant, bias, torch.from_numpy(bordered))

    def matrices(self, h: Floats) -> torch.Tensor:
        """Bordered precisions of states of the spikes, (rows, d + 1, d + 1)."""
        flat = torch.from_numpy(h) @ self.bordered[1:].flatten(1)
        return self.bordered[0] + flat.reshape(len(h), *self.bordered.shape[1:])

    def log_weight(self, h: Floats, matrices: torch.Tensor | None = None) -> Floats:
        """log f of each row, with the bordered precisions where they are known already."""
        L = factors(self.matrices(h) if matrices is None else matrices)
        log_root = torch.diagonal(L, dim1=1, dim2=2)[:, :-1].log().sum(1)
        normal = 0.5 * L[:, -1, :-1].square().sum(1) - log_root
        found: Floats = self.constant + h @ self.bias + normal.numpy()
        return found

    def slopes(self, h: Floats) -> Floats:
        """Derivatives of log f by each spike at rows of expectations h, shape (rows, n)."""
        bordered = self.matrices(h)
        spread = torch.linalg.inv(bordered[:, :-1, :-1])
        mean = (spread @ bordered[:, -1, :-1, None])[..., 0]
        changes, pull = self.bordered[1:, :-1, :-1], self.bordered[1:, -1, :-1]
        second = spread + mean[:, :, None] * mean[:, None, :]
        found: Floats = self.bias + (mean @ pull.T - 0.5 * (second.flatten(1) @ changes.flatten(1).T)).numpy()
        return found

    def columns(self, h: Floats, noise: Noise) -> Floats:
        """A draw of the columns for each row of spikes, of p(x | h)."""
        L = factors(self.matrices(h))
        given = L[:, -1, :-1] + torch.from_numpy(noise.normal((len(h), L.shape[1] - 1), like=h))
        root = L[:, :-1, :-1].mT
        drawn: Floats = torch.linalg.solve_triangular(root, given[..., None], upper=True)[..., 0].numpy()
        return drawn


def factors(matrices: torch.Tensor) -> torch.Tensor:
    """Cholesky factors of bordered precisions.

    Raises
    ------
    UserValueError
        A state whose precision has an eigenvalue of 0 or less: the density has no integral.
    """
    found, wrong = torch.linalg.cholesky_ex(matrices)
    if bool(wrong.any()):
        what = "log Z does not exist: a state of the spikes has a precision that is not positive"
        raise UserValueError(what, "parameters", "fit with safeguard='weights' or 'phi'")
    return found


class SpikePath:
    r"""From independent switches to the spikes of a machine: level l has the weights
    :math:`q(h)^{1 - \eta^2} f(h)^{\eta^2}` with :math:`\eta = \eta_l`.

    The normal density of columns and slabs is integrated out at every level with its full strength. The bridge of joint
    energies weakens it: at its first levels columns are independent and broad, which turns off all spikes that hold
    columns together, and its chains do not come back from there.

    The base q is a mixture of products of switches: the mean fields that are reached from no spike on, from half of
    each, from all on and from each alone, with log-odds cut to 4 either way, so that every state has a share in it.
    Each part counts by the weight of its most probable state, and no less than its part of a fifth.

    Parameters
    ----------
    weights : SpikeWeights
    etas : array of shape (n + 1,)
        Strictly increasing from 0 to 1; squared, since the first steps from the base are the long ones.

    Notes
    -----
    A state is the spikes, (chains, n). A move offers a flip to one in 16 of them, chosen for each chain at random and
    one after the other, which is its own reversal. Cost: a Cholesky factor of d + 1 columns for each flip that is
    offered; the weights of the last states that were moved are known.

    References
    ----------
    Neal (2001), "Annealed importance sampling", for the path; Courville, Bergstra and Bengio (2011), "A spike and slab
    restricted Boltzmann machine", for p(x | h).

    Examples
    --------
    >>> from gnomon.inference.importance.ais import anneal
    >>> from gnomon.numeric.noise import Noise
    >>> weights = SpikeWeights.of(0.0, np.zeros(1), np.ones(1), np.eye(1), np.zeros((1, 1)), np.array([[[3.0]]]))
    >>> found = anneal(SpikePath(weights, [0.0, 0.5, 1.0]), Noise(0, "spikes"), chains=1000)
    >>> bool(abs(found.log_mean_weight - np.log(np.exp(weights.log_weight(np.eye(2)[:, 1:])).sum())) < 0.05)
    True
    """

    def __init__(self, weights: SpikeWeights, etas: ArrayLike) -> None:
        self.weights, self.powers = weights, check_rising(etas, "etas") ** 2
        self.n = len(weights.bias)
        self.visited = -(-self.n // VISITED)
        self.odds = _mean_fields(weights)
        self.log_shares = _log_shares(weights, self.odds)
        self._known: tuple[Floats, torch.Tensor, Floats] | None = None

    def __len__(self) -> int:
        return len(self.powers)

    @property
    def log_z0(self) -> float:
        """0: the base is normalized."""
        return 0.0

    def log_prob(self, level: int, h: Array) -> Floats:
        """(1 - eta^2) log q(h) + eta^2 log f(h)."""
        return self._mixed(level, h, self._at(h)[1])

    def start(self, n: int, noise: Noise) -> Floats:
        """Draws of the base."""
        above = np.cumsum(np.exp(self.log_shares))[:-1]
        chosen = np.searchsorted(above, noise.child("part").uniform((n,), like=above))
        drawn: Floats = noise.bernoulli_logits(self.odds[chosen])
        return drawn

    def gather(self, state: State) -> Floats:
        """The spikes of a state of the machine, whose hidden layer is [s h, h]."""
        return np.asarray(to_numpy(state["hidden"])[:, -self.n :], np.float64)

    def observed(self, x: Array, noise: Noise) -> Floats:
        """A row for each state of the spikes, of p(x | h)."""
        return self.weights.columns(x, noise)

    def move(self, level: int, h: Array, noise: Noise) -> Floats:
        """Flips of some spikes, offered one after the other and taken by the rule of Metropolis."""
        matrices, log_f = self._at(h)
        h, matrices, log_f = h.copy(), matrices.clone(), log_f.copy()
        now, each = self._mixed(level, h, log_f), np.arange(len(h))
        sites = noise.child("spikes").integers(self.n, (len(h), self.visited))
        limits = np.log(noise.uniform((len(h), self.visited), like=log_f))
        for site, limit in zip(sites.T, limits.T, strict=True):
            other, sign = h.copy(), 1 - 2 * h[each, site]
            other[each, site] += sign
            changed = torch.addcmul(matrices, torch.from_numpy(sign)[:, None, None], self.weights.bordered[1 + site])
            log_g = self.weights.log_weight(other, changed)
            then = self._mixed(level, other, log_g)
            taken = limit < then - now
            h[taken], log_f[taken], now[taken] = other[taken], log_g[taken], then[taken]
            matrices[torch.from_numpy(taken)] = changed[torch.from_numpy(taken)]
        self._known = h, matrices, log_f
        return h

    def back(self, level: int, h: Array, noise: Noise) -> Floats:
        """A move."""
        return self.move(level, h, noise)

    def _mixed(self, level: int, h: Floats, log_f: Floats) -> Floats:
        power = self.powers[level]
        parts = h @ self.odds.T - ops.softplus(self.odds).sum(1) + self.log_shares
        mixed: Floats = (1 - power) * logsumexp(parts, 1) + power * log_f
        return mixed

    def _at(self, h: Array) -> tuple[torch.Tensor, Floats]:
        """Bordered precisions and log weights, those of the last move without another factorization."""
        if self._known is None or h is not self._known[0]:
            matrices = self.weights.matrices(h)
            self._known = h, matrices, self.weights.log_weight(h, matrices)
        return self._known[1:]


def _mean_fields(weights: SpikeWeights) -> Floats:
    """Log-odds of the spikes in the mean fields that are found, (parts, n)."""
    n = len(weights.bias)
    h = np.concatenate([np.zeros((1, n)), np.full((1, n), 0.5), np.ones((1, n)), np.eye(n)])
    for _ in range(TURNS):
        odds = weights.slopes(h)
        h = 0.5 * (h + ops.sigmoid(odds))
    return np.unique(np.clip(odds, -MOST_ODDS, MOST_ODDS).round(3), axis=0)


def _log_shares(weights: SpikeWeights, odds: Floats) -> Floats:
    """Log shares of the parts of the base, by the weights of their most probable states."""
    log_f = weights.log_weight((odds > 0).astype(np.float64))
    found: Floats = np.maximum(log_f - logsumexp(log_f, 0), np.log(LEAST_SHARES / len(odds)))
    return found - logsumexp(found, 0)
