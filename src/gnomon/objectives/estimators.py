r"""Estimators of the gradient of an expectation over draws, whatever the model: the slot ``estimator``.

An objective that is the mean of a signal over draws z of q(z | x) asks an estimator for the draws, and for a tensor
that has the value of its bound and the estimate as its gradient. What an estimator has to remember or to learn (the
level of its baseline, a running variance) is a module of the objective, saved with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch

from gnomon.contracts import Group, Noise
from gnomon.errors import UserTypeError
from gnomon.nn.module import Module
from gnomon.objectives.baselines import MEMORY, Baseline, LatentDraws
from gnomon.recipes.recipe import Recipe

__all__ = ["Control", "DoublyReparametrized", "Surrogate", "GradientEstimator", "Pathwise", "ScoreFunction"]


class Surrogate(NamedTuple):
    """What an estimator makes of the draws of a batch.

    Attributes
    ----------
    bound : tensor of shape (n,)
        The value of the bound of each row, whose gradient is the estimate.
    losses : dict of str to tensor of shape (n,)
        What is lowered beside it: errors of baselines that learn.
    """

    bound: torch.Tensor
    losses: Mapping[str, torch.Tensor] = {}


class Control(Module):
    """What an estimator remembers and learns within a fit; here nothing."""

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Make what needs sizes; called once before the first update."""


@dataclass(frozen=True)
class GradientEstimator(Recipe):
    """Base of the recipes of the slot ``estimator``: how the gradient with respect to q's parameters is estimated."""

    sees_codes: ClassVar[bool] = True
    """Whether log q(z | x) takes a gradient by its parameters as well as by z."""
    biased: ClassVar[bool] = False
    """Whether the mean of the estimate is another than the gradient."""

    @property
    def exact_draws(self) -> bool:
        """Whether its draws are those of q, so that their weights p / q mean something."""
        return True

    def usable(self, draws: int) -> None:
        """Refuse a number of draws per row that it cannot do with."""

    def build(self) -> Control:
        """What it remembers in a fit."""
        return Control()

    def draw(self, codes: Any, noise: Noise, draws: int) -> torch.Tensor:
        """z of each row, shape (n * draws, d)."""
        if not codes.reparametrized:
            raise UserTypeError(
                f"draws of {type(codes).__name__} are discrete and have no gradient",
                "estimator",
                "use score, or the biased gumbel-softmax",
            )
        z: torch.Tensor = codes.rsample(noise, draws=draws)
        return z

    def estimate(self, bound: Any, control: Control, draws: LatentDraws) -> Surrogate:
        """The bound of each row, with the estimate as its gradient.

        Parameters
        ----------
        bound : Objective
            With ``combine(signal)``, the bound of each row; ``path_factor(signal)``, what multiplies the gradient of
            each draw once more; ``returns(signal)`` and ``others(signal)``, (n, k) each, and the number ``share``: the
            mean of share * (returns - b) * score is the gradient by q.
        control : Control
            What `build` gave.
        draws : LatentDraws
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Pathwise(GradientEstimator):
    """Through the draw: z = g(e, x), and the chain rule (the reparametrization trick).

    Source: Kingma and Welling (2014); Rezende, Mohamed and Wierstra (2014).
    """

    short: ClassVar[str] = "pathwise"

    def estimate(self, bound: Any, control: Control, draws: LatentDraws) -> Surrogate:
        """The bound itself."""
        return Surrogate(bound.combine(draws.signal))


@dataclass(frozen=True)
class DoublyReparametrized(GradientEstimator):
    r"""Through the draw alone: the term :math:`\nabla_\phi \log q(z)` at held z, of mean 0, is left out or rewritten.

    For the ELBO it is "sticking the landing": no variance where q is the posterior (Roeder, Wu and Duvenaud 2017). For
    k weighted draws the gradient along the path is multiplied by the normalized weight once more, which is unbiased and
    keeps its signal as k grows (Tucker, Lawson, Gu and Maddison 2019).
    """

    short: ClassVar[str] = "dreg"
    sees_codes: ClassVar[bool] = False

    def estimate(self, bound: Any, control: Control, draws: LatentDraws) -> Surrogate:
        """The bound; gradients that come back to z are multiplied by its weight."""
        factor = bound.path_factor(draws.signal.detach())
        if factor is not None and draws.z.requires_grad:
            draws.z.register_hook(lambda gradient: gradient * factor.reshape(-1, 1))  # type: ignore[no-untyped-call]
        return Surrogate(bound.combine(draws.signal))


@dataclass(frozen=True)
class ScoreFunction(GradientEstimator):
    r"""By :math:`E_q[(J(z) - b) \nabla_\phi \log q(z)]`: no gradient of J by z is asked for, so z may be discrete.

    Parameters
    ----------
    baseline : str or recipe, default "running"
        b, which never depends on the draw that it is subtracted from: see `gnomon.objectives.baselines`.
    normalize_signal : bool, default False
        Divide J - b by its running standard deviation where that is above 1 (Mnih and Gregor 2014): steps of one size
        whatever the scale of J, which is another learning rate for q than for the rest.

    Notes
    -----
    The deviation is that of the batches so far, this one among them, of each of which the next keeps nine tenths: one
    factor for all rows, which leaves the direction of the gradient by q as it is. Source: Williams (1992); Mnih and
    Rezende (2016) for the baselines of importance-weighted draws; Goodfellow, Bengio and Courville (2016), section
    20.9.1.
    """

    short: ClassVar[str] = "score"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"baseline": Baseline}
    baseline: str | Recipe = "running"
    normalize_signal: bool = False

    def usable(self, draws: int) -> None:
        """As the baseline says."""
        self.recipe("baseline").usable(draws)

    def build(self) -> Control:
        """The baseline and the deviation."""
        return _ScoreControl(self)

    def draw(self, codes: Any, noise: Noise, draws: int) -> torch.Tensor:
        """Draws that no gradient passes."""
        z: torch.Tensor = codes.sample(noise, draws=draws)
        return z

    def estimate(self, bound: Any, control: Control, draws: LatentDraws) -> Surrogate:
        """The bound, plus 0 with the gradient of the score function."""
        assert isinstance(control, _ScoreControl)
        held = draws._replace(signal=draws.signal.detach())
        score, losses = control.surrogate(bound, held)
        return Surrogate(bound.combine(draws.signal) + (score - score.detach()), losses)


class _ScoreControl(Control):
    """The baseline, and the running moments of what is left of the returns.

    Parameters
    ----------
    recipe : ScoreFunction
    """

    moments: torch.Tensor

    def __init__(self, recipe: ScoreFunction) -> None:
        super().__init__()
        self.baseline = recipe.recipe("baseline").build()
        self.normalizes = recipe.normalize_signal
        if self.normalizes:
            self.register_buffer("moments", torch.zeros(3, dtype=torch.float64))

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Begin the baseline."""
        self.baseline.begin(model, batches, noise, group)

    def surrogate(self, bound: Any, draws: LatentDraws) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Of each row, a number whose gradient is the score function's; and what the baseline has to lose."""
        returns = bound.returns(draws.signal)
        parameters, scores = draws.codes.scores(draws.z) if self.baseline.by_parameter else (None, None)
        level, loss = self.baseline(bound, draws, returns, scores)
        wide = level.ndim > returns.ndim
        left = (returns[..., None] if wide else returns) - level
        credit = left * bound.share
        if self.normalizes:
            credit = credit / self._deviation(left, draws)
        if wide:
            score = (credit * scores * parameters).sum((1, 2))
        else:
            score = (credit * draws.codes.log_prob(draws.z).reshape(returns.shape)).sum(1)
        self.baseline.remember(draws, returns, scores)
        return score, {} if loss is None else {"baseline": loss}

    @torch.no_grad()
    def _deviation(self, left: torch.Tensor, draws: LatentDraws) -> torch.Tensor:
        """The running standard deviation of the batches so far, this one included, or 1 where that is more."""
        each = left.double().reshape(len(left), -1)
        sums = [float((part.mean(1) * draws.weight).sum()) for part in (each, each.square())]
        first, second, count = draws.group.sum((*sums, float(draws.weight.sum())))
        if count > 0:
            now = self.moments.new_tensor([first / count, second / count, 1.0])
            self.moments.mul_(MEMORY).add_((1 - MEMORY) * now)
        mean, square, share = self.moments  # the past that is missing is left out: share is 1 - 0.9^t
        variance = square / share - (mean / share).square() if share > 0 else share
        return variance.clamp_min(1.0).sqrt().to(left.dtype)
