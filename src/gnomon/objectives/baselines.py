r"""Baselines of the score function: what is subtracted from a draw's return before it multiplies the draw's score.

The score :math:`s = \nabla_\phi \log q(z)` has mean 0, so a b that does not depend on the draw leaves the mean of
:math:`(J - b) s` as it is, and changes its variance alone. A baseline may be one number for a draw, or one for each of
q's parameters (its logits, say: what the encoder answers, before the chain rule through the encoder).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from gnomon.contracts import Group, Noise
from gnomon.errors import UserValueError
from gnomon.nn.activations import Tanh
from gnomon.nn.initializers import XavierNormal, initialize
from gnomon.nn.mlp import MLPModel
from gnomon.nn.module import Module
from gnomon.objectives.moments import column_moments
from gnomon.recipes.recipe import Recipe

__all__ = ["Baseline", "ConstantBaseline", "LatentDraws", "LearnedBaseline", "LeaveOneOut", "Level", "NoBaseline",
           "OptimalBaseline", "ParameterBaseline", "RunningBaseline", "Subtracted"]  # fmt: skip

MEMORY = 0.9
"""Fraction of a running mean that an update keeps."""

SMALLEST = 1e-3
"""Below it, an expected squared score that a head answers is taken to be this."""


class LatentDraws(NamedTuple):
    """The draws of a batch, and what they are worth.

    Attributes
    ----------
    x : tensor of shape (n, ...)
        Rows.
    weight : tensor of shape (n,)
    z : tensor of shape (n * k, d)
        The draws of a row beside each other.
    codes : distribution q(z | x) of the n rows
    signal : tensor of shape (n, k)
        Of each draw, log p(x, z) - log q(z | x) say.
    group : Group
    """

    x: torch.Tensor
    weight: torch.Tensor
    z: torch.Tensor
    codes: Any
    signal: torch.Tensor
    group: Group


class Level(NamedTuple):
    """What is subtracted.

    Attributes
    ----------
    value : tensor of shape (n, k), or (n, k, p) with one number for each of q's p parameters, or that broadcasts
        Without gradient.
    loss : tensor of shape (n,), optional
        What a learned baseline has to lose: it passes no gradient to the model.
    """

    value: torch.Tensor
    loss: torch.Tensor | None = None


class Subtracted(Module):
    """A baseline within a fit: what it remembers are buffers, what it learns parameters of the objective."""

    by_parameter: ClassVar[bool] = False
    """Whether the scores of the draws are asked for."""

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Make what needs sizes; called once before the first update."""

    def forward(self, bound: Any, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> Level:
        """What is subtracted from the returns of a batch.

        Parameters
        ----------
        bound : Objective
            With ``others(signal)``, the return that the other draws of a row stand for.
        draws : LatentDraws
            Its signal without gradient.
        returns : tensor of shape (n, k)
            J of each draw.
        scores : tensor of shape (n, k, p) or None
            Derivatives of log q(z) by q's parameters, where the baseline is `by_parameter`.
        """
        raise NotImplementedError

    def remember(self, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> None:
        """Take a batch into account, after its gradient has been estimated."""


@dataclass(frozen=True)
class Baseline(Recipe):
    """Base of the recipes of the slot ``baseline`` of the score function."""

    def usable(self, draws: int) -> None:
        """Refuse a number of draws per row that it cannot do with."""

    def build(self) -> Subtracted:
        """The baseline of a fit."""
        raise NotImplementedError


# --- constants and means --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoBaseline(Baseline):
    """b = 0: the plain score function."""

    short: ClassVar[str] = "none"

    def build(self) -> Subtracted:
        """The constant 0."""
        return _Constant(0.0)


@dataclass(frozen=True)
class ConstantBaseline(Baseline):
    """b is one number that is given.

    Parameters
    ----------
    value : float, default 0
        In the unit of the bound: nats per row.
    """

    short: ClassVar[str] = "constant"
    value: float = 0.0

    def build(self) -> Subtracted:
        """The constant."""
        return _Constant(self.value)


class _Constant(Subtracted):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, bound: Any, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> Level:
        return Level(returns.new_full((1, 1), self.value))


@dataclass(frozen=True)
class RunningBaseline(Baseline):
    """b is the mean return of earlier batches, of each of which the next keeps nine tenths (Williams 1992)."""

    short: ClassVar[str] = "running"

    def build(self) -> Subtracted:
        """The running mean."""
        return _Running()


class _Running(Subtracted):
    level: torch.Tensor
    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("level", torch.zeros((), dtype=torch.float64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))

    def mean(self, like: torch.Tensor) -> torch.Tensor:
        """Mean return of earlier batches, a number in the dtype of another; 0 before there are any."""
        if not self.seen > 0:
            return like.new_zeros(())
        return (self.level / (1 - MEMORY**self.seen)).to(like.dtype)

    def forward(self, bound: Any, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> Level:
        return Level(self.mean(returns).reshape(1, 1))

    @torch.no_grad()
    def remember(self, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> None:
        value = returns.double().mean(1) * draws.weight
        total, count = draws.group.sum((float(value.sum()), float(draws.weight.sum())))
        if count > 0:
            self.level.mul_(MEMORY).add_((1 - MEMORY) * total / count)
            self.seen.add_(1)


@dataclass(frozen=True)
class LeaveOneOut(Baseline):
    """b is what the other draws of the row give: their mean return; two draws or more.

    Of the importance-weighted bound it is the bound with the draw's log weight replaced by the mean log weight of the
    others. Source: Mnih and Rezende (2016).
    """

    short: ClassVar[str] = "leave-one-out"

    def usable(self, draws: int) -> None:
        """Two or more."""
        if draws < 2:
            raise UserValueError(
                f"a leave-one-out baseline needs 2 or more draws per row, got {draws}", "estimator__baseline",
                "raise the number of draws, or choose running",
            )  # fmt: skip

    def build(self) -> Subtracted:
        """The others."""
        return _Others()


class _Others(Subtracted):
    def forward(self, bound: Any, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> Level:
        return Level(bound.others(draws.signal))


# --- one number for each parameter ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptimalBaseline(Baseline):
    r"""One number for each of q's parameters, which has the least variance: :math:`b_i = E[J s_i^2] / E[s_i^2]`.

    Both means run over earlier batches, their rows and draws, so that b does not depend on the draw that it is
    subtracted from. s is the score by what the encoder answers (logits, means), not by its weights. Source: Weaver and
    Tao (2001); Goodfellow, Bengio and Courville (2016), section 20.9.1.
    """

    short: ClassVar[str] = "optimal"

    def build(self) -> Subtracted:
        """Two running means per parameter."""
        return _Optimal()


class _Optimal(_Running):
    by_parameter: ClassVar[bool] = True
    numerator: torch.Tensor
    denominator: torch.Tensor

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        width = _widths(model, batches, noise)[1]
        for name in ("numerator", "denominator"):
            self.register_buffer(name, torch.zeros(width, dtype=torch.float64, device=self.level.device))

    def forward(self, bound: Any, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> Level:
        mean = self.mean(returns)
        known = self.denominator > torch.finfo(torch.float64).tiny  # else there was no score at all
        found = torch.where(known, self.numerator / torch.where(known, self.denominator, 1.0), mean.double())
        return Level(found.to(returns.dtype).reshape(1, 1, -1))

    @torch.no_grad()
    def remember(self, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> None:
        super().remember(draws, returns, scores)
        if scores is None:
            return
        squares = scores.double().square() * draws.weight[:, None, None]
        sums = (returns.double()[..., None] * squares).sum((0, 1)), squares.sum((0, 1)), float(draws.weight.sum())
        above, below, count = draws.group.sum(sums)
        if count > 0:
            self.numerator.mul_(MEMORY).add_((1 - MEMORY) / count * above)
            self.denominator.mul_(MEMORY).add_((1 - MEMORY) / count * below)


# --- learned ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnedBaseline(Baseline):
    """b(x) is a network's guess of E[J | x], which learns from the returns by squared error (NVIL).

    A running mean goes before it, so that the network has what is left to learn. It sees x alone, and what it learns
    passes no gradient to the model. It lags where J drifts fast. Source: Mnih and Gregor (2014).

    Parameters
    ----------
    n_hidden : int in [1, inf), default 100
        Units of its one hidden layer.
    """

    short: ClassVar[str] = "learned"
    n_hidden: Annotated[int, "[1, inf)"] = 100

    def build(self) -> Subtracted:
        """The network, once its sizes are known."""
        return _Shared(self.n_hidden)


@dataclass(frozen=True)
class ParameterBaseline(Baseline):
    r"""One number for each row and each of q's parameters: two heads guess :math:`E[J s_i^2 | x]` and :math:`E[s_i^2 |
    x]`, and b is their quotient.

    The heads share a hidden layer and learn by squared error; what they learn passes no gradient to the model. Source:
    Goodfellow, Bengio and Courville (2016), section 20.9.1.

    Parameters
    ----------
    n_hidden : int in [1, inf), default 100
        Units of the hidden layer.
    """

    short: ClassVar[str] = "learned-optimal"
    n_hidden: Annotated[int, "[1, inf)"] = 100

    def build(self) -> Subtracted:
        """The network, once its sizes are known."""
        return _Heads(self.n_hidden)


class _Learned(_Running):
    """A network of x beside the running mean."""

    network: MLPModel

    def __init__(self, n_hidden: int) -> None:
        super().__init__()
        self.n_hidden = n_hidden

    def width(self, parameters: int) -> int:
        """Numbers that the network answers, of how many parameters q has."""
        raise NotImplementedError

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        columns, parameters = _widths(model, batches, noise)
        dtype = next(model.parameters()).dtype
        network = MLPModel(columns, self.width(parameters), (self.n_hidden,), Tanh(), 0.0, False, dtype)
        initialize(network, XavierNormal(), noise.child("baseline"))
        mean, variance = column_moments(batches, group)
        network.shift.copy_(torch.as_tensor(np.nan_to_num(mean)))  # NaN behind the ends of sequences
        network.scale.copy_(torch.as_tensor(np.where(variance > 0, np.sqrt(variance), 1.0)))
        self.network = network.to(self.level.device)

    def answers(self, draws: LatentDraws) -> torch.Tensor:
        """What the network answers to the rows, (n, outputs); it sees 0 behind the end of a sequence."""
        rows = draws.x.nan_to_num().flatten(1)
        return self.network.scores(rows.to(self.network.shift.dtype))


class _Shared(_Learned):
    def width(self, parameters: int) -> int:
        return 1

    def forward(self, bound: Any, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> Level:
        guess = self.mean(returns) + self.answers(draws).to(returns.dtype)
        return Level(guess.detach(), (returns - guess).square().mean(1))


class _Heads(_Learned):
    by_parameter: ClassVar[bool] = True

    def width(self, parameters: int) -> int:
        return 2 * parameters

    def forward(self, bound: Any, draws: LatentDraws, returns: torch.Tensor, scores: torch.Tensor | None) -> Level:
        assert scores is not None
        mean = self.mean(returns)
        above, raw = self.answers(draws).to(returns.dtype)[:, None].chunk(2, 2)
        below, squares = functional.softplus(raw), scores.square()
        errors = ((returns - mean)[..., None] * squares - above).square() + (squares - below).square()
        return Level((mean + above / below.clamp_min(SMALLEST)).detach(), errors.sum(2).mean(1))


def _widths(model: Any, batches: Any, noise: Noise) -> tuple[int, int]:
    """Numbers of a row, and of the parameters of its q."""
    rows = torch.as_tensor(batches.step(0, 0).data["X"])
    x = rows.new_zeros((1, *rows.shape[1:]))  # a process may have no row of the batch
    with torch.no_grad():
        codes = model.encode(x)
        z = codes.sample(noise.child("probe"))
    return x[0].numel(), codes.scores(z)[1].shape[2]
