r"""Wake-sleep and its kin: each net is taught by what the other one draws.

A model is asked for ``encode(x)`` and ``log_joint(x, z)`` as of `gnomon.objectives.variational`, for ``dream(n, noise)
-> (x, z)``, and for the two sets of its parameters, ``generative()`` and ``recognition()``. No gradient passes a draw,
so that z may be discrete. With k draws :math:`z_i` of q(z | x) and normalized weights :math:`\tilde w_i \propto
p(x, z_i) / q(z_i | x)`, the generative net ascends :math:`\sum_i \tilde w_i \log p(x, z_i)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch

from gnomon.contracts import Group, Noise
from gnomon.nn.context import predicting
from gnomon.objectives.base import Loss, Objective, Phase, Term
from gnomon.objectives.variational import VariationalObjective

__all__ = ["Bidirectional", "ReweightedWakeSleep", "WakeSleep"]

Moves = Literal["both", "generative", "recognition"]
Taught = Literal["sleep", "wake", "wake+sleep"]


@dataclass(frozen=True)
class WakeSleep(VariationalObjective):
    r"""Wake: rows are explained by q, and p learns to draw them; sleep: p dreams, and q learns to explain the dreams.

    The generative net ascends :math:`E_{q(z | x)} \nabla_\theta \log p(x, z)`, which is the gradient of the evidence
    lower bound. The recognition net ascends :math:`E_{p(x, z)} \nabla_\phi \log q(z | x)`, which lowers
    :math:`KL(p(z | x) \| q(z | x))` on dreamt rows and not the bound's :math:`KL(q \| p)` on given ones: early on
    dreams are nothing like the rows, and no one function descends.

    Parameters
    ----------
    block : int in [0, inf), default 0
        Updates of the generative net alone, then as many of the recognition net alone, each on a batch of its own; 0
        moves both in every update. While q stands still, the gap of the bound may grow; it stays a bound.
    moves : {"both", "generative", "recognition"}, default "both"
        Which net learns: one alone is a wake step or a sleep step, of ``partial_fit`` say.

    Notes
    -----
    One draw for each row and one dream for each row. Source: Hinton, Dayan, Frey and Neal (1995); Goodfellow, Bengio
    and Courville (2016), sections 19.5.1 and 20.10.1.
    """

    short: ClassVar[str] = "wake-sleep"
    block: Annotated[int, "[0, inf)"] = 0
    moves: Moves = "both"

    def build(self) -> Objective:
        """The objective."""
        return _Taught(1, "sleep", self.block, self.moves)


@dataclass(frozen=True)
class ReweightedWakeSleep(VariationalObjective):
    r"""Wake-sleep with k draws for each row, weighted by :math:`p(x, z) / q(z | x)`.

    The weights are biased by O(1 / k), and the gradient of p tends to that of log p(x) as k grows; one draw is plain
    wake-sleep. The recognition net learns from the same draws (wake), :math:`\sum_i \tilde w_i \nabla_\phi \log q(z_i |
    x)`, from dreams (sleep), or from the mean of both.

    Parameters
    ----------
    k : int in [1, inf), default 5
        Draws for each row.
    phi : {"sleep", "wake", "wake+sleep"}, default "wake+sleep"
        What the recognition net learns from.
    block, moves
        As of `WakeSleep`.

    Notes
    -----
    k times the cost of wake-sleep. ``effective_draws`` of the history is the mean of 1 / sum of squared weights: near 1
    a single draw speaks for the row. Source: Bornschein and Bengio (2015).
    """

    short: ClassVar[str] = "reweighted-wake-sleep"
    k: Annotated[int, "[1, inf)"] = 5
    phi: Taught = "wake+sleep"
    block: Annotated[int, "[0, inf)"] = 0
    moves: Moves = "both"

    def build(self) -> Objective:
        """The objective."""
        return _Taught(self.k, self.phi, self.block, self.moves)


@dataclass(frozen=True)
class Bidirectional(VariationalObjective):
    r"""The lower bound of a bidirectional Helmholtz machine, :math:`2 \log E_q \sqrt{p(x, z) / q(z | x)}`.

    Both nets learn from k draws of q with normalized weights :math:`\tilde w_i \propto \sqrt{p(x, z_i) / q(z_i | x)}`,
    along :math:`\sum_i \tilde w_i (\nabla \log p(x, z_i) + \nabla \log q(z_i | x))`: the square root keeps weights
    nearer to each other than those of `ReweightedWakeSleep`, and q near p.

    Parameters
    ----------
    k : int in [1, inf), default 10
        Draws for each row. The weights are biased by O(1 / k).

    Notes
    -----
    ``negative_bound`` of the history is minus this bound, of p* and not of p. Source: Bornschein, Shabanian, Fischer
    and Bengio (2016).
    """

    short: ClassVar[str] = "bihm"
    k: Annotated[int, "[1, inf)"] = 10

    def build(self) -> Objective:
        """The objective."""
        return _Geometric(self.k, "wake", 0, "both")


class _Taught(Objective):
    """Two nets that teach each other.

    Parameters
    ----------
    k : int
        Draws for each row.
    phi : {"sleep", "wake", "wake+sleep"}
    block : int
    moves : {"both", "generative", "recognition"}
    """

    descends: ClassVar[bool] = False

    def __init__(self, k: int, phi: Taught, block: int, moves: Moves) -> None:
        super().__init__()
        self.k, self.block, self.moves = k, block, moves
        self.taught = phi.split("+")

    def phases(self, model: Any) -> dict[str, Phase]:
        """One with both nets, one for each, or one of a single net."""
        p, q = model.generative(), model.recognition()
        alone = {"generative": Phase(p, self.block or 1), "recognition": Phase(q, self.block or 1)}
        if self.moves != "both":
            return {self.moves: alone[self.moves]}
        return alone if self.block else {self.default_phase: Phase([*p, *q])}

    def log_shares(self, log_w: torch.Tensor) -> torch.Tensor:
        """Logs, but for a constant, of what each draw counts, (n, k)."""
        return log_w

    def bound(self, log_w: torch.Tensor) -> torch.Tensor:
        """What is recorded of each row, from (n, k)."""
        return torch.logsumexp(log_w, 1) - math.log(self.k)

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """Minus the log probabilities that the two nets give to what the other one drew."""
        x, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        p, q = phase != "recognition", phase != "generative"
        rows, total = noise.rows(batch.positions), float(weight.sum())
        terms: dict[str, Term] = {}
        if p or "wake" in self.taught:
            log_p, log_q = self._of_rows(model, x, rows, p, q and "wake" in self.taught)
            log_w = (log_p - log_q).detach()
            share = self.log_shares(log_w).softmax(1)
            terms["negative_bound"] = Term(-float((weight * self.bound(log_w)).sum()), total)
            if self.k > 1:
                terms["effective_draws"] = Term(float((weight / share.square().sum(1)).sum()), total)
            if p:
                terms["wake"] = Term(-(weight * (share * log_p).sum(1)).sum(), total)
            if q and "wake" in self.taught:
                terms["recognized"] = Term(-(weight * (share * log_q).sum(1)).sum(), total, 1 / len(self.taught))
        if q and "sleep" in self.taught:
            log_q = self._of_dreams(model, len(x), rows.child("dream"))
            terms["sleep"] = Term(-(weight * log_q).sum(), total, 1 / len(self.taught))
        return Loss(terms)

    def _of_rows(self, model: Any, x: torch.Tensor, rows: Noise, p: bool, q: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Log p(x, z) and log q(z | x) of k draws for each row, (n, k); with gradients where these are asked for."""
        with torch.set_grad_enabled(q and torch.is_grad_enabled()):
            codes = model.encode(x)
            z = codes.sample(rows.child("latent"), draws=self.k)
            log_q = codes.log_prob(z).reshape(len(x), self.k)
        with torch.set_grad_enabled(p and torch.is_grad_enabled()):
            many = x if self.k == 1 else x.repeat_interleave(self.k, 0)
            return model.log_joint(many, z).reshape(len(x), self.k), log_q

    @staticmethod
    def _of_dreams(model: Any, n: int, noise: Noise) -> torch.Tensor:
        """Log q(z | x) of n dreams, (n,); layers predict, so that what they keep of the rows is that of rows alone."""
        with torch.no_grad():
            x, z = model.dream(n, noise)
        with predicting():
            log_q: torch.Tensor = model.encode(x).log_prob(z)
        return log_q

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """Minus the bound."""
        x, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        with torch.no_grad():
            log_p, log_q = self._of_rows(model, x, noise.rows(batch.positions), False, False)
            value = self.bound(log_p - log_q)
        return Loss({"negative_bound": Term(-float((weight * value).sum()), float(weight.sum()))})


class _Geometric(_Taught):
    """Weights of square roots."""

    def log_shares(self, log_w: torch.Tensor) -> torch.Tensor:
        return 0.5 * log_w

    def bound(self, log_w: torch.Tensor) -> torch.Tensor:
        return 2 * super().bound(0.5 * log_w)
