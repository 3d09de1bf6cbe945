"""The multilayer perceptron that predicts numbers."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch

from gnomon.contracts import Array, Noise
from gnomon.nn.activations import (  # noqa: F401  (the recipes of the slots)
    CELU,
    ELU,
    GELU,
    SELU,
    Abs,
    Identity,
    LeakyReLU,
    LogSigmoid,
    Maxout,
    PReLU,
    ReLU,
    Sigmoid,
    Softplus,
    Tanh,
    Threshold,
)  # fmt: skip
from gnomon.nn.initializers import (  # noqa: F401
    HeNormal,
    HeUniform,
    LeCunNormal,
    LeCunUniform,
    Normal,
    Orthogonal,
    Uniform,
    XavierNormal,
    XavierUniform,
)  # fmt: skip
from gnomon.objectives.losses import SquaredError
from gnomon.recipes.recipe import Recipe
from gnomon.system.partial_fit import OnlineRegressor
from gnomon.system.prediction import Regressor
from gnomon.systems.neural._model import MLPModel
from gnomon.systems.neural._network import Fit, Network, standardization
from gnomon.training.optimizers import SGD, Adadelta, Adagrad, Adam, AdamW, RMSprop  # noqa: F401
from gnomon.training.schedules import (  # noqa: F401
    Constant,
    Cosine,
    Exponential,
    InverseTime,
    Linear,
    Plateau,
    Polynomial,
    Step,
)  # fmt: skip
from gnomon.training.stopping import EarlyStopping, Off  # noqa: F401

__all__ = ["MLPRegression"]


class MLPRegression(OnlineRegressor, Regressor, Network):
    r"""Multilayer perceptron that predicts one or several numbers by least squares.

    h_k = f(W_k h_{k-1} + b_k) layer by layer, the prediction is affine in the last one. The loss is half the mean
    squared error in units of the targets' spread, so that learning rate and penalties mean the same for targets of any
    size. Without hidden layers it is ridge regression.

    Parameters
    ----------
    hidden : tuple of int in [1, inf), default (128,)
        Units of the hidden layers, ``256x128`` on the command line; () is a linear model.
    activation : str or recipe, default "relu"
        Between the layers; see `gnomon.nn.activations`.
    dropout : float in [0, 1), default 0
        Probability to drop an output of a hidden layer during training.
    batch_norm : bool, default False
        Whether every hidden layer is normalized over the batch before its activation.
    l1, l2 : float in [0, inf), default 0 and 1e-4
        Factors of ``sum |W|`` and ``sum W^2 / 2`` over the weights of all layers, which add to the loss.
    optimizer : str or recipe, default "adam"
        How a gradient becomes a step; see `gnomon.training.optimizers`.
    learning_rate : float in (0, inf), default 1e-3
        Step size.
    schedule : str or recipe, default "constant"
        What the step size is multiplied by in the course of the fit; see `gnomon.training.schedules`.
    epochs : int in [1, inf), default 100
        Passes over the training rows at most.
    batch_size : int in [1, inf) or None, default 32
        Rows per update; None takes all rows.
    early_stopping : str or recipe, default "off"
        ``patience``: end when the loss on validation rows (given to ``fit``, or a share of the rows) has stopped
        falling, and keep the weights of its best epoch.
    clip : float in (0, inf) or None, default None
        Gradients are shortened to this norm.
    initializer : str or recipe, default "he-uniform"
        First weights; see `gnomon.nn.initializers`. Biases begin at 0.
    standardize : bool, default True
        Whether columns and targets are brought to mean 0 and spread 1; the numbers are saved with the model.
    random_state : int, Generator, RandomState or None, default None
        Seed of first weights, order of rows, dropout, and rows held out.
    dtype : {"float32", "float64"} or None, default None
        None follows float32 and float64 input, else float32.

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
    slots: ClassVar[tuple[str, ...]] = ("activation", "optimizer", "schedule", "early_stopping", "initializer")

    def __init__(
        self,
        *,
        hidden: tuple[Annotated[int, "[1, inf)"], ...] = (128,),
        activation: str | Recipe = "relu",
        dropout: Annotated[float, "[0, 1)"] = 0.0,
        batch_norm: bool = False,
        l1: Annotated[float, "[0, inf)"] = 0.0,
        l2: Annotated[float, "[0, inf)"] = 1e-4,
        optimizer: str | Recipe = "adam",
        learning_rate: Annotated[float, "(0, inf)"] = 1e-3,
        schedule: str | Recipe = "constant",
        epochs: Annotated[int, "[1, inf)"] = 100,
        batch_size: Annotated[int, "[1, inf)"] | None = 32,
        early_stopping: str | Recipe = "off",
        clip: Annotated[float, "(0, inf)"] | None = None,
        initializer: str | Recipe = "he-uniform",
        standardize: bool = True,
        random_state: Any = None,
        dtype: Literal["float32", "float64"] | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.l1 = l1
        self.l2 = l2
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.epochs = epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.clip = clip
        self.initializer = initializer
        self.standardize = standardize
        self.random_state = random_state
        self.dtype = dtype

    several: ClassVar[bool] = True

    def initialize(self, model: MLPModel, table: Any, noise: Noise) -> None:
        super().initialize(model, table, noise)
        if not self.standardize:
            return
        shift, scale = standardization(table.y.reshape(len(table.y), -1), table.weight)
        model.out_shift.copy_(torch.from_numpy(shift))
        model.out_scale.copy_(torch.from_numpy(scale))

    def make_objective(self) -> Fit:
        return Fit(SquaredError(), self.l1, self.l2, name="squared_error")

    def predict_rows(self, rows: np.ndarray[Any, Any]) -> Array:
        out = self.model_.outputs(rows)
        return out[:, 0] if self.arguments_["n_outputs"] is None else out
