"""The network that learns distances from labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import Tags

from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Labels
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.objectives.criterion import PairLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.neural._network import Network

__all__ = ["MetricNetwork"]


class MetricNetwork(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Network):
    r"""Multilayer perceptron whose outputs lie near each other for rows of one class, and apart for others.

    The loss compares each row of a batch with other rows of it: by default with the farthest of its class and the
    nearest of the other classes, :math:`\max(0, m + d(a, p) - d(a, n))` with a margin m. Batches must be large enough
    to hold several rows of each class.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    history_ : dict of lists
        The loss, ``l1``, ``l2``, ``gradient_norm`` by epoch.

    Notes
    -----
    A batch of m rows costs O(m^2 d) beside the network; processes compare their rows with those of all. Sources:
    Schroff, Kalenichenko and Philbin (2015); Hermans, Beyer and Leibe (2017).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> net = MetricNetwork(n_components=2, hidden=(16,), epochs=20, random_state=0).fit(X, y)
    >>> net.transform(X).shape, net.score(X, y) > 0.9
    ((150, 2), True)
    """

    name: ClassVar[str] = "metric-network"
    tasks: ClassVar[tuple[str, ...]] = ("represent",)
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"loss": PairLoss}
    primary: ClassVar[str] = "neighbor_accuracy"

    n_components: Annotated[int, "[1, inf)", Doc("Coordinates of a row.")] = 16
    loss: Annotated[str | Recipe, Doc("Of the rows of a batch; see `gnomon.objectives.pairs`.")] = "triplet"
    batch_size: int | None = 128
    learning_rate: float = 5e-3

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super().ingest(X, None, sample_weight)
        self.classes_, codes = Labels().encode(y, n=len(examples))
        if len(self.classes_) < 2:
            raise UserValueError(
                "y must hold at least 2 classes, got 1 class", "y", "distances are learned from at least 2 classes"
            )
        examples = examples.replace(y=codes)
        return examples.take(examples.weight > 0)  # a row of weight 0 is nobody's neighbor

    def encode_target(self, y: Any, rows: Array) -> Array:
        known, codes = Labels().locate(y, self.classes_, n=len(rows))
        return np.where(known, codes, len(self.classes_))

    def arguments(self, examples: Any) -> dict[str, Any]:
        # distances do not change with a bias of the last layer
        return super().arguments(examples) | {"n_outputs": self.n_components, "last_bias": False}

    def make_objective(self) -> Supervised:
        return Supervised(self.recipe("loss"), l1=self.l1, l2=self.l2)

    def transform(self, X: Any) -> Array:
        """Coordinates of each row, shape (n, n_components)."""
        rows = self._rows(X)
        return self.model_.ask("scores", rows)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Fraction of the rows whose nearest other row has their label."""
        places, codes = np.asarray(self.transform(X)), Labels().encode(y, n=len(X))[1]
        nearest = NearestNeighbors(n_neighbors=2).fit(places).kneighbors(places, return_distance=False)
        other = np.where(nearest[:, 0] == np.arange(len(codes)), nearest[:, 1], nearest[:, 0])
        space = Labels().space(len(self.classes_))
        right = (codes[other] == codes).astype(np.float64)
        return {self.primary: Score.from_pointwise(right, name=self.primary, unit="fraction", data_space=space)}

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
