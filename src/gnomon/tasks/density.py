"""Task density: what a model of the data gives to rows that it has not seen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.distributions.domains import Real
from gnomon.evaluation.score import Score
from gnomon.tasks import pictures
from gnomon.tasks.base import Task, outcomes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Density", "DiagonalGaussian"]


class DiagonalGaussian:
    """Independent Gaussian columns with the data's means and variances (divisor n); NaN is left out."""

    title = "diagonal Gaussian"

    def fit(self, X: Any, y: Any = None) -> DiagonalGaussian:
        """Means and variances of the columns."""
        X = np.asarray(X, dtype=np.float64)
        X = X.reshape(len(X), -1)
        self.mean, self.variance = np.nanmean(X, axis=0), np.nanvar(X, axis=0)
        self.variance = np.maximum(self.variance, 1e-12 * max(float(self.variance.max()), 1e-300))
        self.n_parameters = 2 * X.shape[1]
        return self

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Mean log density in nats per row."""
        X = np.asarray(X, dtype=np.float64)
        X = X.reshape(len(X), -1)
        columns = -0.5 * (math.log(2 * math.pi) + np.log(self.variance) + (X - self.mean) ** 2 / self.variance)
        space = Real().space(X.shape[1])
        return {"log_likelihood": Score.from_pointwise(np.nansum(columns, axis=1), data_space=space)}


class Density(Task):
    """Log-likelihood of held-out rows, in nats per row."""

    name: ClassVar[str] = "density"
    title: ClassVar[str] = "Density estimation"
    title_zh: ClassVar[str] = "密度估计"
    primary: ClassVar[str] = "log_likelihood"
    verbs: ClassVar[tuple[str, ...]] = ("log_prob", "sample", "anomaly_score", "bits_per_dim")
    example_data: ClassVar[str] = "digits"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Independent columns: Bernoulli ones of a probability mass, Gaussian ones of a density."""
        if not outcomes(system).space(1).startswith("pmf"):
            return DiagonalGaussian.title, DiagonalGaussian().fit(X)
        from gnomon.systems.mixtures.bernoulli_mixture import BernoulliMixture

        return "independent Bernoulli", BernoulliMixture(n_components=1, random_state=0).fit(X)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Log probabilities of the rows, and rows that the model draws beside given ones."""
        found = {}
        if hasattr(system, "log_prob"):
            found["log_prob"] = pictures.histogram(system.log_prob(X), "log probability (nats)")
        if hasattr(system, "sample"):
            drawn = np.asarray(system.sample(pictures.SHOWN, random_state=0))
            found["samples"] = pictures.rows(drawn, shape, "drawn by the model")
            found["data"] = pictures.rows(np.asarray(X)[: pictures.SHOWN], shape, "data")
        return found
