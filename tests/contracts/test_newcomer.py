"""A system of somebody new, on whole numbers: it keeps every contract and meets a baseline of its own domain."""

from typing import Annotated, Any, ClassVar

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import gnomon
from gnomon.data.dataset import Dataset
from gnomon.distributions.whole import Categories, Counts
from gnomon.recipes.fields import Doc
from gnomon.systems.mixtures._base import Mixture, MixtureModel
from gnomon.testing import check_system
from gnomon.training.em import EM


class Products(MixtureModel):
    """Components whose log probability is linear in `features` of a row; a subclass says what these are."""

    def __init__(self, k: int, d: int) -> None:
        self.weights, self.means = np.full(k, 1 / k), np.ones((k, d))

    def state(self) -> dict[str, Any]:
        return {"weights": self.weights, "means": self.means}

    def load(self, state: Any) -> None:
        self.weights, self.means = (np.array(state[name], np.float64) for name in ("weights", "means"))

    def expect(self, x: Any, weight: Any) -> dict[str, Any]:
        joint, weight = self.log_joint(x), np.asarray(weight, np.float64)
        total = logsumexp(joint, axis=1)
        shares = np.exp(joint - total[:, None]) * weight[:, None]
        sums = np.matmul(shares.T, self.features(x))
        return {"rows": shares.sum(0), "sums": sums, "log_likelihood": weight @ total, "weight": weight.sum()}

    def maximize(self, statistics: dict[str, Any]) -> None:
        rows = statistics["rows"]
        self.weights = rows / rows.sum()
        self.means = (statistics["sums"] + self.SMOOTHING) / (rows[:, None] + self.MASS)

    def log_prior(self) -> float:
        return float(self.SMOOTHING * np.log(self.means).sum() - (self.SMOOTHING * self.means).sum())

    n_parameters = property(lambda self: len(self.weights) - 1 + self.means.size)
    SMOOTHING, MASS = 0.1, 0.1


class PoissonModel(Products):
    def features(self, x: Any) -> Any:
        return np.asarray(x, np.float64)

    def log_joint(self, x: Any) -> Any:
        x = np.asarray(x, np.float64)
        return x @ np.log(self.means).T - self.means.sum(1) - gammaln(x + 1).sum(1)[:, None] + self.log_weights()


class CategoricalModel(Products):
    def __init__(self, k: int, d: int, m: int) -> None:
        super().__init__(k, d * m)
        self.m, self.MASS = m, 0.1 * m

    def features(self, x: Any) -> Any:
        return np.eye(self.m)[np.asarray(x, np.int64)].reshape(len(x), -1)

    def log_joint(self, x: Any) -> Any:
        return self.features(x) @ np.log(self.means).T + self.log_weights()


class PoissonMixture(Mixture):
    """Clusters of counts."""

    name: ClassVar[str] = "poisson-mixture"
    model_class: ClassVar[type] = PoissonModel
    domain = Counts()

    def make(self, n_features: int, dtype: str) -> PoissonModel:
        return PoissonModel(self.n_components, n_features)

    def initialize(self, model: Any, examples: Any, noise: Any) -> None:
        column = (examples.weight[:, None] * examples.X).sum(0) / examples.weight.sum()
        model.means = (column + 0.1) * (0.5 + noise.uniform(model.means.shape, like=model.means))

    def procedure(self, examples: Any) -> Any:
        return EM(self.max_iter, self.tol)


class CategoricalMixture(PoissonMixture):
    """Clusters of rows of categories."""

    name: ClassVar[str] = "categorical-mixture"
    model_class: ClassVar[type] = CategoricalModel
    n_categories: Annotated[int, "[2, inf)", Doc("Categories of every column.")] = 4

    @property
    def domain(self) -> Any:
        return Categories(self.n_categories)

    def make(self, n_features: int, dtype: str) -> CategoricalModel:
        return CategoricalModel(self.n_components, n_features, self.n_categories)

    def initialize(self, model: Any, examples: Any, noise: Any) -> None:
        u = 0.5 + noise.uniform((len(model.means), model.means.shape[1] // model.m, model.m), like=model.means)
        model.means = (u / u.sum(2, keepdims=True)).reshape(model.means.shape)


@pytest.mark.parametrize("cls", [PoissonMixture, CategoricalMixture])
def test_it_keeps_every_contract(cls):
    passed = check_system(cls, n_components=2, max_iter=30, processes=False)
    assert {"improves", "resumes", "refuses", "saves"} <= set(passed)


@pytest.mark.parametrize(
    ("cls", "title", "space"),
    [
        (PoissonMixture, "independent Poisson", "pmf on {0,1,2,...}^6"),
        (CategoricalMixture, "independent categories", "pmf on {0..3}^6"),
    ],
)
def test_it_meets_the_baseline_of_its_domain(cls, title, space):
    random = np.random.default_rng(0)
    X = cls().domain.example(random, 400, random.integers(0, 3, size=400))
    X = np.concatenate([X, X[:, :1]], axis=1)
    (board,) = gnomon.compare([cls(n_components=4, random_state=0)], Dataset("rows", X))
    assert board.data_space == space
    assert {line.name: line.against_baseline for line in board.lines} == {cls.name: "better", title: "baseline"}
