"""Denoising score matching: the slope of log p at a noisy row points back at the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gnomon.contracts import Array, Group, Noise
from gnomon.inference.scores import scores_of
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.contrastive import EnergyObjective
from gnomon.objectives.scored import ByScores

__all__ = ["DenoisingScoreMatching"]


@dataclass(frozen=True)
class DenoisingScoreMatching(EnergyObjective):
    r"""Denoising score matching of real rows (Vincent 2011).

    A row x gets noise, :math:`\tilde x = x + \sigma z` with z normal, and its loss is :math:`\frac12 |\psi(\tilde x) -
    (x - \tilde x) / \sigma^2|^2`, :math:`\psi` the gradient of log p by the row. Up to a constant its mean is half the
    mean squared distance of :math:`\psi` from the score of the density of noisy rows, :math:`\int p(x) N(\tilde x; x,
    \sigma^2) dx`: that density is learned, wider than the data's by the noise's variance, and never a peak at a row.
    It needs no curvature, and so no more than one derivative of the energy by the row. The loss and its noise grow as
    :math:`1 / \sigma^2`.

    Real observed units; the hidden layers are independent given them.

    Parameters
    ----------
    sigma : float in (0, inf), default 0.3
        Standard deviation of the noise, in the units that the model computes in: of standardized columns where the
        system standardizes them.

    References
    ----------
    Vincent (2011), "A connection between score matching and denoising autoencoders".

    Examples
    --------
    >>> import numpy as np
    >>> from gnomon.systems.energy.gaussian_rbm import GaussianRBM
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + 4 * np.random.default_rng(1).integers(0, 2, (500, 1))
    >>> machine = GaussianRBM(n_hidden=2, objective=DenoisingScoreMatching(), epochs=60, random_state=0).fit(X)
    >>> machine.history_["denoising_score_matching"][-1] < machine.history_["denoising_score_matching"][0]
    True
    """

    short: ClassVar[str] = "denoising-score-matching"
    sigma: Annotated[float, "(0, inf)"] = 0.3

    def build(self) -> Objective:
        """The objective."""
        return _Denoised(self.sigma)


class _Denoised(ByScores):
    principle: ClassVar[str] = "denoising score matching"

    def __init__(self, sigma: float) -> None:
        super().__init__()
        self.sigma = sigma

    def compare(self, model: Any, X: Array, weight: Array, positions: Array, noise: Noise, group: Group) -> Loss:
        """Half the squared distance of each noisy row's slope from the way back."""
        z = noise.rows(positions).normal(tuple(X.shape), like=X)
        scores, share = scores_of(model, X + self.sigma * z), weight[:, None]
        away = scores.value + z / self.sigma
        loss = Term(float((0.5 * share * away * away).sum()), float(weight.sum()))
        name = "denoising_score_matching"
        return Loss({name: loss}, scores.gradient(share * away), name)
