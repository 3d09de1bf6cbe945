"""The multilayer perceptron that predicts numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array, Noise
from gnomon.data.preprocessing import standardization
from gnomon.nn.mlp import MLPModel
from gnomon.objectives.criterion import RegressionLoss
from gnomon.objectives.supervised import Supervised
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.partial_fit import OnlineRegressor
from gnomon.systems.neural._network import Network

__all__ = ["MLPRegression"]


class MLPRegression(OnlineRegressor, Network):
    r"""Multilayer perceptron that predicts one or several numbers by least squares.

    :math:`h_k = f(W_k h_{k-1} + b_k)` layer by layer, :math:`\hat y = W h_K + b` from the last one. The loss is half
    the mean squared error in units of the targets' spread, so that learning rate and penalties mean the same for
    targets of any size. Without hidden layers it is ridge regression.

    Attributes
    ----------
    best_epoch_ : int
        The epoch whose weights are kept.
    history_ : dict of lists
        ``squared_error`` (mean, in the targets' units), ``scaled_squared`` (the loss), ``l1``, ``l2``,
        ``gradient_norm``, and with validation rows ``validation_squared_error`` and ``best_epoch``, by epoch.

    Notes
    -----
    Cost O(n weights) per epoch. Dropout, batch normalization and several processes: as in `MLP`.
    Source: Rumelhart, Hinton and Williams (1986); Goodfellow, Bengio and Courville (2016), chapter 6.

    Examples
    --------
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = np.abs(X[:, 0])
    >>> MLPRegression(hidden=(16,), learning_rate=0.01, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    name: ClassVar[str] = "mlp-regression"
    model_class: ClassVar[type] = MLPModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"loss": RegressionLoss}

    loss: Annotated[str | Recipe, Doc("Of the scaled predictions and targets; see `gnomon.objectives.losses`.")] = (
        "squared"
    )
    standardize: Annotated[
        bool,
        Doc(
            "Whether columns and targets are brought to mean 0 and standard deviation 1; columns of zeros and ones, "
            "levels of categories, stay as they are. The numbers are saved with the model."
        ),
    ] = True

    several: ClassVar[bool] = True

    def initialize(self, model: MLPModel, table: Any, noise: Noise) -> None:
        super().initialize(model, table, noise)
        if not self.standardize:
            return
        shift, scale = standardization(table.y.reshape(len(table.y), -1), table.weight)
        model.out_shift.copy_(torch.from_numpy(shift))
        model.out_scale.copy_(torch.from_numpy(scale))

    def make_objective(self) -> Supervised:
        loss = self.recipe("loss")
        name = f"scaled_{loss.short.replace('-', '_')}"
        return Supervised(loss, targets="scaled", name=name, watch="squared_error", l1=self.l1, l2=self.l2)

    def predict_rows(self, rows: np.ndarray[Any, Any]) -> Array:
        out = self.model_.ask("outputs", rows)
        return out[:, 0] if self.arguments_["n_outputs"] is None else out
