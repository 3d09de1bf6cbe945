"""Score matching: the slope and curvature of log p at the data, in which log Z does not occur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.scores import scores_of
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.scored import ByScores

__all__ = ["ScoreMatching"]


@dataclass(frozen=True)
class ScoreMatching(EnergyObjective):
    r"""Score matching of real rows (Hyvärinen 2005), regularized by a small smoothing of the data where that is asked.

    With the score :math:`\psi(x) = \nabla_x \log p(x)` of the model, of which log Z is no part, a row's loss is
    :math:`\sum_j \partial_j \psi_j + \frac12 \psi_j^2`: up to a constant of the data its mean is half the mean squared
    distance of the model's score from that of the data's density. Normal densities are fitted as by maximum likelihood.
    With smoothing :math:`\sigma` there is :math:`\frac{\sigma^2}{2} \sum_j (\partial_j \psi_j)^2` besides: score
    matching of rows with normal noise of variance :math:`\sigma^2`, to second order and without drawing any. It is
    exact for normal densities of independent columns; of others the terms across columns and those of the third
    derivatives are left out.

    Real observed units; the hidden layers are independent given them. Two-valued hidden units have closed forms, at the
    cost of a few products; others are differentiated by torch, one pass for each column. Energies made of straight
    pieces (ReLU) have no curvature to match.

    Parameters
    ----------
    smoothing : float in [0, inf), default 0
        Standard deviation of the noise, in the units that the model computes in: of standardized columns where the
        system standardizes them. It keeps the density from narrowing onto values that occur again and again.

    References
    ----------
    Hyvärinen (2005), "Estimation of non-normalized statistical models by score matching"; Kingma and LeCun (2010),
    "Regularized estimation of image statistics by score matching", section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.systems.energy.gaussian_rbm import GaussianRBM
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + 4 * np.random.default_rng(1).integers(0, 2, (500, 1))
    >>> machine = GaussianRBM(n_hidden=2, objective=ScoreMatching(), epochs=60, random_state=0).fit(X)
    >>> machine.history_["score_matching"][-1] < machine.history_["score_matching"][0]
    True
    """

    short: ClassVar[str] = "score-matching"
    smoothing: Annotated[float, "[0, inf)"] = 0.0

    def build(self) -> Objective:
        """The objective."""
        return _Slopes(0.5 * self.smoothing**2)


class _Slopes(ByScores):
    principle: ClassVar[str] = "score matching"

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Sums of curvature and half the squared slope, of the squared curvature too where it is penalized."""
        scores = scores_of(model, X)
        value, curvature, share = scores.value, scores.curvature, weight[:, None]
        loss = share * (curvature + 0.5 * value * value + self.penalty * curvature * curvature)
        gradients = scores.gradient(share * value, share * (1 + 2 * self.penalty * curvature))
        return Loss({"score_matching": Term(float(loss.sum()), float(weight.sum()))}, gradients, "score_matching")
