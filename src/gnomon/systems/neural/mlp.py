"""The multilayer perceptron that classifies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from gnomon.contracts import Array
from gnomon.nn.mlp import MLPModel
from gnomon.objectives.criterion import ClassificationLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.partial_fit import OnlineClassifier
from gnomon.systems.neural._network import Network

__all__ = ["MLP"]


class MLP(OnlineClassifier, Network):
    r"""Multilayer perceptron: class probabilities from hidden layers of units that learn their own features.

    :math:`h_k = f(W_k h_{k-1} + b_k)` layer by layer, :math:`P(y \mid x) = \mathrm{softmax}(W h_K + b)` from the last
    one; the loss is the mean cross-entropy or another of `gnomon.objectives.losses`. Without hidden layers it is
    softmax regression.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    best_epoch_ : int
        The epoch whose weights are kept.
    history_ : dict of lists
        ``cross_entropy`` (nats per row, with dropout and batch statistics on), ``l1``, ``l2``, ``gradient_norm``, and
        with validation rows ``validation_cross_entropy`` and ``best_epoch``, by epoch.

    Notes
    -----
    Cost O(n weights) per epoch. A process takes its part of every batch; dropout and batch statistics are those of the
    whole batch. A leftover batch of one row joins the one before when batch normalization is on.
    Source: Rumelhart, Hinton and Williams (1986); Goodfellow, Bengio and Courville (2016), chapter 6.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> MLP(hidden=(16,), epochs=30, learning_rate=0.01, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    name: ClassVar[str] = "mlp"
    model_class: ClassVar[type] = MLPModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"loss": ClassificationLoss}
    primary: ClassVar[str] = "accuracy"

    loss: Annotated[
        str | Recipe,
        Doc("Of the scores and the classes: class weights, smoothing; see `gnomon.objectives.losses`."),
    ] = "cross-entropy"

    def make_objective(self) -> Supervised:
        return Supervised(self.recipe("loss"), l1=self.l1, l2=self.l2)

    def class_log_proba(self, rows: np.ndarray[Any, Any]) -> Array:
        log_p: Array = self.recipe("loss").class_log_proba(self.model_.ask("outputs", rows))
        return log_p
