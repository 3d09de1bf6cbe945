"""Task regress: the number that belongs to rows that the fit has not seen."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.dummy import DummyRegressor

from gnomon.data.by_codes import IMAGES_AS_TARGET, images_by_codes
from gnomon.data.dataset import Dataset
from gnomon.data.loading import load as load_data
from gnomon.data.sources import RECORDS, TABLES, kind
from gnomon.distributions.domains import Real
from gnomon.evaluation.regression import regression_metrics, regression_scores
from gnomon.evaluation.score import Score
from gnomon.system.prediction import DensityRegressor
from gnomon.tasks import pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MeanTarget", "Regress"]


class MeanTarget:
    """Every row gets the mean of the target in training; scikit-learn's ``DummyRegressor``."""

    title = "mean"
    n_parameters = 1

    def fit(self, X: Any, y: Any = None) -> MeanTarget:
        """The mean."""
        self.dummy = DummyRegressor(strategy="mean").fit(X, y)
        self.spread = np.asarray(y, np.float64).std(0)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean, of every row; the target's standard deviation in training with it."""
        mean = self.dummy.predict(X)
        return (mean, np.broadcast_to(self.spread, mean.shape)) if return_std else mean

    def log_likelihood(self, y: Any) -> Score:
        """Mean log density of a normal target with the mean and the spread of training, in nats per row."""
        y = np.asarray(y, np.float64)
        mean, spread = self.predict(y, return_std=True)
        with np.errstate(divide="ignore", invalid="ignore"):  # of a target that did not vary
            values = -0.5 * ((y - mean) / spread) ** 2 - np.log(spread) - 0.5 * np.log(2 * np.pi)
        values = values.reshape(len(y), -1)
        return Score.from_pointwise(values.sum(1), data_space=Real().space(values.shape[1]))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Squared error, absolute error and R^2."""
        return regression_scores(np.asarray(y, np.float64), self.predict(X))


class Regress(Task):
    """Mean squared error on held-out rows."""

    name: ClassVar[str] = "regress"
    title: ClassVar[str] = "Regression"
    title_zh: ClassVar[str] = "回归"
    primary: ClassVar[str] = "squared_error"
    verbs: ClassVar[tuple[str, ...]] = ("predict",)
    example_data: ClassVar[str] = "diabetes"

    def read(
        self,
        name: str | os.PathLike[str],
        *,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> Dataset:
        """A table; images by their labels or codes, `images_by_codes`, where the target is ``images``."""
        table = kind(Path(name)) in (*TABLES, *RECORDS)
        if target == IMAGES_AS_TARGET and not table:
            found = load_data(name)
            if found.images is not None:
                return images_by_codes(found)
        return super().read(name, target=target, columns=columns, kinds=kinds)

    def view(self, domain: Any) -> str:
        """What the target is predicted from."""
        return str(domain.features)

    def adopt(self, data: Dataset) -> Dataset:
        """The target as floating numbers, so that a split does not take whole numbers for classes.

        Raises
        ------
        UserValueError
            A target that is text, with its row, or none at all.
        """
        return replace(data, y=data.view("target"))

    def examples(self, data: Dataset, system: Any, *, answers: bool = True) -> tuple[Any, Any]:
        """Rows and target."""
        return data.view(self.view(system.domain)), data.view("target") if answers else None

    def check(self, data: Dataset, system: Any) -> None:
        """Rows by the domain, and the target."""
        X, y = self.examples(data, system)
        system.domain.check(X, name=data.name)
        system.target.check(y, n=len(X), name=data.name, several=system.several)

    def obstacle(self, data: Dataset, domain: Any, result: Any) -> str | None:
        """No table, no target of numbers, values outside the domain."""
        return super().obstacle(data, domain, domain)

    def board(self, system: Any) -> str:
        """Everybody predicts the same numbers."""
        return "target"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The mean."""
        return MeanTarget.title, MeanTarget().fit(X, y)

    def metrics(
        self, system: Any, X: Any, y: Any, scores: Mapping[str, Score], data: Dataset | None = None
    ) -> dict[str, Score]:
        """What `regression_metrics` lists; coverage where predictions have a standard deviation."""
        if not isinstance(system, DensityRegressor | MeanTarget):
            return regression_metrics(y, system.predict(X))
        found, std = system.predict(X, return_std=True)
        more = regression_metrics(y, found, std=std)
        return more | {"log_likelihood": system.log_likelihood(y)} if isinstance(system, MeanTarget) else more

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Predicted against true numbers, and what is left of them."""
        y, found = np.asarray(y, np.float64), np.asarray(system.predict(X))
        drawn = getattr(system, "image_shape_", None)
        if drawn is not None:
            made = pictures.beside(found[: pictures.SHOWN], y, drawn, "drawn from codes")
            return {"drawn": made["samples"], "images": made["data"]}
        return {"predictions": pictures.predicted(y, found), "residuals": pictures.residuals(y, found)}

    def example_answers(self, X: Any, group: Any, random: np.random.Generator) -> Any:
        """A linear function of two columns, with noise."""
        return X[:, 0] - 2 * X[:, 1] + 0.3 * random.normal(size=len(X)) + 5
