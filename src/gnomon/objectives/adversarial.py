r"""Games of a generator and a critic: what each is given to lose.

A model is asked for ``judge(x, y)``, the critic's logits a of :math:`d = \sigma(a)`, for ``draw(n, noise, y)``, rows
that its generator makes of noise, and for ``scaled(x)``, data in the generator's units. With
:math:`v = E_{data} \log d(x) + E_{model} \log(1 - d(x))` the critic raises v; at its best it is
:math:`d = p_{data} / (p_{data} + p_{model})`, and v is :math:`2 JSD - \log 4`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch.nn import functional

from gnomon.contracts import Group, Noise
from gnomon.nn.context import predicting
from gnomon.objectives.base import Loss, Objective, Phase, Term
from gnomon.recipes.recipe import Recipe

__all__ = ["AdversarialObjective", "MaximumLikelihood", "Minimax", "NonSaturating", "game_value", "optimal_critic"]

Floats = NDArray[np.float64]


def optimal_critic(p_data: ArrayLike, p_model: ArrayLike) -> Floats:
    """The critic d = p_data / (p_data + p_model) that raises v the most, 1/2 where both are 0.

    Parameters
    ----------
    p_data, p_model : arrays of densities or masses at the same points

    Examples
    --------
    >>> optimal_critic([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]).round(6).tolist()
    [0.714286, 0.5, 0.285714]
    """
    p, q = np.asarray(p_data, np.float64), np.asarray(p_model, np.float64)
    total = p + q
    return np.divide(p, total, out=np.full(total.shape, 0.5), where=total > 0)


def game_value(p_data: ArrayLike, p_model: ArrayLike, critic: ArrayLike | None = None) -> float:
    """v = sum p_data log d + p_model log(1 - d) on a finite support, in nats.

    Parameters
    ----------
    p_data, p_model : arrays of shape (n,)
        Masses.
    critic : array of shape (n,), optional
        Probabilities d; those of `optimal_critic` where left out, and then it is 2 JSD - log 4.

    Examples
    --------
    >>> round(game_value([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]), 6)
    -1.253466
    """
    from scipy.special import xlog1py, xlogy

    p, q = np.asarray(p_data, np.float64), np.asarray(p_model, np.float64)
    d = optimal_critic(p, q) if critic is None else np.asarray(critic, np.float64)
    return float((xlogy(p, d) + xlog1py(q, -d)).sum())


class _Game(Objective):
    """The critic's updates, then one of the generator.

    Parameters
    ----------
    recipe : AdversarialObjective
    """

    default_phase = "generator"
    descends: ClassVar[bool] = False
    largest: ClassVar[float] = 1e6

    def __init__(self, recipe: AdversarialObjective) -> None:
        super().__init__()
        self.recipe = recipe

    def phases(self, model: Any) -> dict[str, Phase]:
        """Each player moves alone, the other held."""
        recipe = self.recipe
        critic = Phase(list(model.critic.parameters()), steps=recipe.critic_steps, rate=recipe.critic_rate)
        return {"critic": critic, "generator": Phase(list(model.generator.parameters()))}

    def forward(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of the player whose turn it is, on a batch with data ``X``, and ``y`` where it is conditional.

        As many rows are made as the batch has, of its classes (the classes' distribution in the data) and with its
        weights.
        """
        weight = torch.as_tensor(batch.weight)
        y = torch.as_tensor(batch.data["y"]) if model.conditional else None
        stream = noise.child("latent").rows(batch.positions)
        if phase == "generator":
            return self._generator(model, len(weight), stream, y, weight)
        return self._critic(model, torch.as_tensor(batch.data["X"]), stream, y, weight)

    def _critic(self, model: Any, x: torch.Tensor, stream: Noise, y: Any, weight: torch.Tensor) -> Loss:
        real, total = model.scaled(x), float(weight.sum())
        with torch.no_grad():
            fake = model.draw(len(real), stream, y)
        of_real, of_fake = model.judge(real, y), model.judge(fake, y)  # apart: batch statistics are not mixed
        losses = self.recipe.critic_loss(of_real, of_fake)
        terms = {"critic": Term((losses * weight).sum(), total)}
        if self.recipe.penalty:
            squares = self._steepness(model, real, y)
            terms["penalty"] = Term((squares * weight).sum(), total, 0.5 * self.recipe.penalty)
        right = 0.5 * ((of_real > 0).double() + (of_fake < 0).double())
        return Loss({**terms, "critic_accuracy": Term(float((right * weight).sum()), total)})

    @staticmethod
    def _steepness(model: Any, real: torch.Tensor, y: Any) -> torch.Tensor:
        """Squared slope of the critic's logits at each row, (n,), its layers at rest: each row's is its own."""
        rows = real.detach().requires_grad_()
        with predicting():
            (slope,) = torch.autograd.grad(model.judge(rows, y).sum(), rows, create_graph=True)
        return slope.square().flatten(1).sum(1)

    def _generator(self, model: Any, n: int, stream: Noise, y: Any, weight: torch.Tensor) -> Loss:
        fake = model.draw(n, stream, y)
        losses = self.recipe.generator_loss(model.judge(fake, y))
        return Loss({"generator": Term((losses * weight).sum(), float(weight.sum()))}, watch="generator")


@dataclass(frozen=True)
class AdversarialObjective(Recipe):
    """Base of the recipes of the slot ``objective`` of adversarial systems: what the generator has to lose.

    Parameters
    ----------
    critic_steps : int in [1, inf), default 1
        Updates of the critic, each on a batch of its own, before one of the generator.
    critic_rate : float in (0, inf), default 1
        Factor of the learning rate for the critic.
    penalty : float in [0, inf), default 0.1
        Factor of half the squared slope of the critic's logits (without dropout, with running batch statistics) at the
        data, which damps the players' circling
        (Mescheder, Geiger and Nowozin 2018); 0 is the plain game.
    """

    critic_steps: Annotated[int, "[1, inf)"] = 1
    critic_rate: Annotated[float, "(0, inf)"] = 1.0
    penalty: Annotated[float, "[0, inf)"] = 0.1

    def critic_loss(self, real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        """-log d(x) - log(1 - d(g(z))) from the logits of a real row and a made one, shape (n,)."""
        return functional.softplus(-real) + functional.softplus(fake)

    def generator_loss(self, fake: torch.Tensor) -> torch.Tensor:
        """What the generator loses by rows of these logits, shape (n,)."""
        raise NotImplementedError

    def build(self) -> Objective:
        """The objective."""
        return _Game(self)


@dataclass(frozen=True)
class Minimax(AdversarialObjective):
    r"""The zero-sum game: the generator loses :math:`E_z \log(1 - d(g(z)))`, with derivative -d by the logit.

    Where the critic is sure of itself the generator hardly learns.
    Source: Goodfellow et al. (2014), equation 1.
    """

    short: ClassVar[str] = "minimax"

    def generator_loss(self, fake: torch.Tensor) -> torch.Tensor:
        """log(1 - d)."""
        return -functional.softplus(fake)


@dataclass(frozen=True)
class NonSaturating(AdversarialObjective):
    r"""The generator loses :math:`-E_z \log d(g(z))`, with derivative d - 1 by the logit: no longer a zero-sum game.

    Source: Goodfellow et al. (2014), section 3.
    """

    short: ClassVar[str] = "non-saturating"

    def generator_loss(self, fake: torch.Tensor) -> torch.Tensor:
        """-log d."""
        return functional.softplus(-fake)


@dataclass(frozen=True)
class MaximumLikelihood(AdversarialObjective):
    r"""The generator loses :math:`-E_z \exp(\sigma^{-1}(d(g(z))))`.

    Its gradient at the best critic, held fixed, is that of :math:`KL(p_{data} \| p_{model})`.

    The weights explode where the critic is sure, so their variance is high; in practice it does not help.
    Source: Goodfellow (2015), "On distinguishability criteria for estimating generative models".

    Parameters
    ----------
    clip : float in (0, inf) or None, default None
        Logits beyond it count as it, without gradient; then the gradient is biased.
    """

    short: ClassVar[str] = "ml"
    clip: Annotated[float, "(0, inf)"] | None = None

    def generator_loss(self, fake: torch.Tensor) -> torch.Tensor:
        """Minus the density ratio exp(a)."""
        return -(fake if self.clip is None else fake.clamp_max(self.clip)).exp()
