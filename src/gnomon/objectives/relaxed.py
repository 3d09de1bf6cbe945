"""Estimators that let a gradient pass discrete draws: of low variance, and biased."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch

from gnomon.contracts import Noise
from gnomon.distributions.latents import DiscreteCodes
from gnomon.errors import UserTypeError
from gnomon.objectives.baselines import LatentDraws
from gnomon.objectives.estimators import Control, GradientEstimator, Surrogate

__all__ = ["GumbelSoftmax", "StraightThrough"]


@dataclass(frozen=True)
class _Biased(GradientEstimator):
    biased: ClassVar[bool] = True

    def estimate(self, bound: Any, control: Control, draws: LatentDraws) -> Surrogate:
        """The bound itself, along the path that stands for a draw."""
        return Surrogate(bound.combine(draws.signal))


def _discrete(codes: Any) -> Any:
    if not isinstance(codes, DiscreteCodes):
        raise UserTypeError(f"draws of {type(codes).__name__} are not discrete", "estimator", "use pathwise")
    return codes


@dataclass(frozen=True)
class GumbelSoftmax(_Biased):
    """Through relaxed draws of discrete variables, softmax((log weights + Gumbel noise) / temperature). Biased.

    The bound that is trained on is that of relaxed draws; validation rows and the fit are judged by discrete ones. A
    low temperature has less bias and more variance.

    Parameters
    ----------
    temperature : float in (0, inf), default 0.5
        How soft draws are.
    hard : bool, default False
        The discrete draw forward, the gradient of the relaxed one backward (straight-through Gumbel-softmax).

    Notes
    -----
    Source: Jang, Gu and Poole (2017); Maddison, Mnih and Teh (2017).
    """

    short: ClassVar[str] = "gumbel-softmax"
    temperature: Annotated[float, "(0, inf)"] = 0.5
    hard: bool = False

    @property
    def exact_draws(self) -> bool:
        """Whether draws are those of q."""
        return self.hard

    def draw(self, codes: Any, noise: Noise, draws: int) -> torch.Tensor:
        """Relaxed draws."""
        z: torch.Tensor = _discrete(codes).relaxed(noise, self.temperature, draws=draws, hard=self.hard)
        return z


@dataclass(frozen=True)
class StraightThrough(_Biased):
    """A discrete draw forward, backward as if it were its mean: dz / dmean is taken to be 1. Biased.

    Source: Bengio, Leonard and Courville (2013).
    """

    short: ClassVar[str] = "straight-through"

    def draw(self, codes: Any, noise: Noise, draws: int) -> torch.Tensor:
        """Draws with the gradient of the means."""
        mean = _discrete(codes).mean.repeat_interleave(draws, 0)
        z: torch.Tensor = codes.sample(noise, draws=draws)
        return z + (mean - mean.detach())
