"""The model of a bidirectional Helmholtz machine: the geometric mean of what two nets say of rows and layers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.utils.metaestimators import available_if

from gnomon.contracts import Noise
from gnomon.distributions.posteriors import BitStates
from gnomon.inference.arrays import convert, to_numpy, where
from gnomon.inference.exact.enumeration import states
from gnomon.numeric.tensors import is_tensor
from gnomon.systems.variational._belief_net import BeliefNetModel
from gnomon.systems.variational._completing import Completing, Latent

__all__ = ["BidirectionalModel", "GeometricCells"]

BITS = 18
"""Columns and hidden units together, all states of which are visited."""
SWEEPS = 50
"""Of the chains that draw rows."""
DRAWS = 16
"""Draws of q for each estimate of a row's mass."""


class _Walk(NamedTuple):
    """Where chains stand: rows, hidden layers, log p(x, h), log q(h | x), and a log estimate of s(x)."""

    x: torch.Tensor
    z: torch.Tensor
    log_p: torch.Tensor
    log_q: torch.Tensor
    log_s: torch.Tensor

    @property
    def log_target(self) -> torch.Tensor:
        """Log of the density that is walked under, up to a constant."""
        return 0.5 * (self.log_p + self.log_q) + self.log_s

    def moved(self, other: _Walk, log_odds: torch.Tensor, noise: Noise) -> _Walk:
        """The other place where it is accepted."""
        u = noise.uniform((len(self.x), 1), like=self.x)[:, 0]
        taken = u.log() < log_odds
        return _Walk(*(where(taken.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in zip(self, other, strict=True)))


class BidirectionalModel(BeliefNetModel):
    r""":math:`p^*(x, h) = \sqrt{p(x, h) q(h | x) p^*(x)} / Z`, so that :math:`p^*(x) = s(x)^2 / Z^2`.

    Here :math:`s(x) = \sum_h \sqrt{p(x, h) q(h | x)}`, which is the mean of :math:`\sqrt{p(x, h) / q(h | x)}` under q,
    and :math:`Z^2 = \sum_x s(x)^2 \le 1`. Parameters as of `BeliefNetModel`.
    """

    @property
    def is_exact(self) -> bool:
        """Whether all states of rows and hidden layers are visited."""
        return sum(self.sizes) <= BITS

    @available_if(lambda self: isinstance(self, type) or self.is_exact)
    def log_prob(self, x: Any) -> Any:
        """Exact log p*(x) in nats, shape (n,); there only while all states can be visited."""
        if not is_tensor(x):
            return self.ask("log_prob", x)
        return self.log_mass(x) - self.log_total()

    def log_total(self) -> torch.Tensor:
        """2 log Z, at most 0."""
        return torch.logsumexp(self.log_mass(torch.as_tensor(states(self.sizes[0])).to(self.biases[0])), 0)

    def log_mass(self, x: torch.Tensor) -> torch.Tensor:
        """2 log s(x) of each row, a lower bound of log p*(x), by all states of the hidden layers."""
        return torch.cat([2 * torch.logsumexp(one, 1) for one in self._geometric(x)])

    def exact_mean(self, x: torch.Tensor) -> torch.Tensor:
        """E[h | x] under p*."""
        return torch.cat([one.softmax(1) @ self._states() for one in self._geometric(x)])

    def exact_posterior(self, x: torch.Tensor) -> BitStates:
        """p*(h | x) of all hidden layers side by side."""
        return BitStates(to_numpy(torch.cat(self._geometric(x))))

    def exact_mode(self, x: torch.Tensor) -> torch.Tensor:
        """The most probable state of all hidden layers given each row, under p*."""
        return torch.cat([self._states()[one.argmax(1)] for one in self._geometric(x)])

    def _states(self) -> torch.Tensor:
        return torch.as_tensor(states(sum(self.sizes[1:]))).to(self.biases[0])

    def _geometric(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Log sqrt(p(x, h) q(h | x)), (rows, states), of some rows at a time."""
        h, found = self._states(), []
        for some in torch.split(x, max(1, (1 << 18) // len(h))):
            z = h.repeat(len(some), 1)
            both = self.log_joint(some.repeat_interleave(len(h), 0), z) + self.encode(some).log_prob(z)
            found.append(0.5 * both.reshape(len(some), len(h)))
        return found

    def log_ratios(self, x: torch.Tensor, noise: Noise, draws: int) -> torch.Tensor:
        """Log sqrt(p(x, h) / q(h | x)) of draws of q for each row, (n, draws); the exponentials have mean s(x)."""
        codes = self.encode(x)
        z = codes.sample(noise, draws=draws)
        ratio = self.log_joint(x.repeat_interleave(draws, 0), z) - codes.log_prob(z)
        return 0.5 * ratio.reshape(len(x), draws)

    # --- draws --------------------------------------------------------------------------------------------------------

    def log_estimate(self, x: torch.Tensor, noise: Noise) -> torch.Tensor:
        """Log of an unbiased estimate of s(x)."""
        return torch.logsumexp(self.log_ratios(x, noise, DRAWS), 1) - math.log(DRAWS)

    def _at(self, x: torch.Tensor, z: torch.Tensor, log_s: torch.Tensor) -> _Walk:
        return _Walk(x, z, self.log_joint(x, z), self.encode(x).log_prob(z), log_s)

    def _drawn(self, n: int, noise: Noise) -> _Walk:
        """Draws of p."""
        x, z = self.dream(n, noise.child("dream"))
        return self._at(x, z, self.log_estimate(x, noise.child("mass")))

    def sample(self, n: int, noise: Noise, steps: int = SWEEPS) -> Any:
        """n rows of p*, a NumPy array: chains begun at draws of p.

        Each sweep proposes hidden layers of q, then a row of p given these, then both of p, and keeps or refuses each
        by p* (Metropolis and Hastings), with s(x) estimated by draws of q that stay with the row: its mean being right,
        the chains' law is p* all the same (Andrieu and Roberts 2009).
        """
        if not n:
            return np.empty((0, self.sizes[0]), np.dtype(str(self.biases[0].dtype).removeprefix("torch.")))
        with torch.no_grad():
            at = self._drawn(n, noise.child("begin"))
            for t in range(steps):
                at = self._swept(at, noise.child("sweep").at(t))
        return at.x.cpu().numpy()

    def _swept(self, at: _Walk, noise: Noise) -> _Walk:
        n = len(at.x)
        z, _ = self.infer(at.x, noise.child("up"))
        new = self._at(at.x, z, at.log_s)
        at = at.moved(new, new.log_target - new.log_q - at.log_target + at.log_q, noise.child("keep_up"))
        bits = self.rows_given(at.z)
        x = bits.sample(noise.child("down"))
        new = self._at(x, at.z, self.log_estimate(x, noise.child("mass")))
        odds = new.log_target - bits.log_prob(x) - at.log_target + bits.log_prob(at.x)
        at = at.moved(new, odds, noise.child("keep_down"))
        new = self._drawn(n, noise.child("anew"))
        return at.moved(new, new.log_target - new.log_p - at.log_target + at.log_p, noise.child("keep_anew"))


class GeometricCells(Completing):
    """Hidden layers and missing cells under p*; one set of chains.

    Parameters
    ----------
    model : BidirectionalModel
    """

    def __init__(self, model: BidirectionalModel) -> None:
        super().__init__(model)
        self.log_s: torch.Tensor | None = None
        """Estimates that stay with the rows of the chains."""

    def start(self, n: int, noise: Noise) -> Any:
        """n rows of p."""
        return self.model.dream(n, noise)[0].cpu().numpy()

    @torch.no_grad()
    def log_joint(self, x: torch.Tensor, z: Latent) -> torch.Tensor:
        """Of h given a row, up to a constant."""
        joint: torch.Tensor = 0.5 * (self.model.log_joint(x, z[0]) + self.model.encode(x).log_prob(z[0]))
        return joint

    @torch.no_grad()
    def refill(self, x: torch.Tensor, z: Latent, missing: Any, noise: Noise) -> torch.Tensor:
        """The row with its missing cells proposed by p given h, kept or refused by p*."""
        model, gap = self.model, convert(missing, x) > 0
        if self.log_s is None:
            self.log_s = model.log_estimate(x, noise.child("first"))
        bits = model.rows_given(z[0])
        drawn = bits.sample(noise.child("draw"), held=(x, ~gap))
        here, there = (model._at(one, z[0], s) for one, s in (
            (x, self.log_s), (drawn, model.log_estimate(drawn, noise.child("mass"))),
        ))  # fmt: skip
        odds = there.log_target - here.log_target
        odds = odds - ((bits.log_terms(drawn) - bits.log_terms(x)) * gap).sum(1)
        now = here.moved(there, odds, noise.child("keep"))
        self.log_s = now.log_s
        return now.x

    def expected(self, x: torch.Tensor, z: Latent) -> torch.Tensor:
        """The row as it is."""
        return x


def matching(log_p: Any, every: Any, rows: Any, missing: Any) -> Any:
    """Log probabilities of all rows that agree with the known cells of given ones, -inf of others, (n, all rows)."""
    seen = ~missing
    apart = (seen * rows) @ (1 - every).T + (seen * (1 - rows)) @ every.T
    return np.where(apart > 0.5, -np.inf, log_p)
