"""Task density: what a model of the data gives to rows that it has not seen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.evaluation.data_units import discrete_bound, sign
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise
from gnomon.tasks import pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EstimateDensity", "IndependentBaseline"]


class IndependentBaseline:
    """Independent columns of a domain as a baseline.

    Parameters
    ----------
    domain : Domain
        Gives the columns and the name of the space.
    X : array
        What they are fitted to.
    """

    def __init__(self, domain: Any, X: Any) -> None:
        self.domain, self.columns = domain, domain.baseline(X)

    @property
    def title(self) -> str:
        """What it is called on a board."""
        return str(self.columns.title)

    @property
    def n_parameters(self) -> int:
        """Numbers that were fitted."""
        return int(self.columns.n_parameters)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Mean log probability (or density) in nats per row."""
        space = self.domain.space(math.prod(np.shape(X)[1:]))
        return sign({"log_likelihood": Score.from_pointwise(self.columns.log_prob(X), data_space=space)}, X)

    def sample(self, n: int = 1, *, random_state: int = 0) -> Any:
        """n rows."""
        return self.columns.sample(n, Noise(random_state, "baseline"))


class EstimateDensity(Task):
    """Log-likelihood of held-out rows, in nats per row."""

    name: ClassVar[str] = "density"
    title: ClassVar[str] = "Density estimation"
    title_zh: ClassVar[str] = "密度估计"
    primary: ClassVar[str] = "log_likelihood"
    verbs: ClassVar[tuple[str, ...]] = ("log_prob", "sample", "anomaly_score", "bits_per_dim")
    example_data: ClassVar[str] = "digits"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Independent columns, as the domain of the scores has them: Gaussian, Bernoulli, Poisson ones, categories."""
        model = IndependentBaseline(system.outcomes, X)
        return model.title, model

    def metrics(
        self, system: Any, X: Any, y: Any, scores: Mapping[str, Score], data: Dataset | None = None
    ) -> dict[str, Score]:
        """Of grey levels that noise has filled: ``log_mass``, the lower bound of their log probability."""
        score = scores.get(self.primary)
        filled = data is not None and data.levels is not None and self.view(system.outcomes) == "density"
        if not filled or score is None or not score.data_space.startswith("density on R^"):
            return {}
        return {"log_mass": discrete_bound(score, math.prod(np.shape(X)[1:]))}

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Log probabilities of the rows, and rows that the model draws beside given ones."""
        found = {}
        if hasattr(system, "log_prob"):
            found["log_prob"] = pictures.histogram(system.log_prob(X), "log probability (nats)")
        if hasattr(system, "sample"):
            drawn = system.sample(pictures.SHOWN, random_state=0)
            found |= pictures.beside(drawn, X, shape, "drawn by the model")
        return found
