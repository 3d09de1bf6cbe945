"""The multilayer perceptron that classifies."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from gnomon.contracts import Array
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
from gnomon.numeric.ops import log_softmax
from gnomon.objectives.losses import CrossEntropyLoss
from gnomon.recipes.recipe import Recipe
from gnomon.system.partial_fit import OnlineClassifier
from gnomon.systems.neural._model import MLPModel
from gnomon.systems.neural._network import Fit, Network
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

__all__ = ["MLP"]


class MLP(OnlineClassifier, Network):
    r"""Multilayer perceptron: class probabilities from hidden layers of units that learn their own features.

    h_k = f(W_k h_{k-1} + b_k) layer by layer, the scores are affine in the last one, the probabilities their softmax,
    the loss the mean cross-entropy. Without hidden layers it is softmax regression.

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
        Factors of ``sum |W|`` and ``sum W^2 / 2`` over the weights of all layers, which add to the mean cross-entropy.
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
        Whether columns are brought to mean 0 and spread 1; the numbers are saved with the model.
    random_state : int, Generator, RandomState or None, default None
        Seed of first weights, order of rows, dropout, and rows held out.
    dtype : {"float32", "float64"} or None, default None
        None follows float32 and float64 input, else float32.

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
    slots: ClassVar[tuple[str, ...]] = ("activation", "optimizer", "schedule", "early_stopping", "initializer")
    primary: ClassVar[str] = "accuracy"

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

    def make_objective(self) -> Fit:
        return Fit(CrossEntropyLoss(), self.l1, self.l2)

    def class_log_proba(self, rows: np.ndarray[Any, Any]) -> Array:
        return log_softmax(self.model_.outputs(rows), 1)
