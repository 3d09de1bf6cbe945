"""What networks that classify, that regress and that embed have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array, Noise
from gnomon.data.preprocessing import standardization
from gnomon.distributions.domains import Real
from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.initializers import Initializer, initialize
from gnomon.nn.mlp import MLPModel
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.system.fields import HasDtype, Standardized

__all__ = ["Network"]


class Network(ByGradient, Standardized, HasDtype):
    """Base of systems around an `MLPModel`; a subclass says its loss and how many outputs there are."""

    model_class: ClassVar[type] = MLPModel
    domain = Real(largest=1e100)
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"activation": Activation, "initializer": Initializer}

    hidden: Annotated[
        tuple[Annotated[int, "[1, inf)"], ...],
        Doc("Units of the hidden layers, ``256x128`` on the command line; () is a linear model."),
    ] = (128,)
    activation: Annotated[str | Recipe, Doc("Between the layers; see `gnomon.nn.activations`.")] = "relu"
    dropout: Annotated[float, "[0, 1)", Doc("Probability to drop an output of a hidden layer during training.")] = 0.0
    batch_norm: Annotated[
        bool, Doc("Whether every hidden layer is normalized over the batch before its activation.")
    ] = False
    l1: Annotated[
        float, "[0, inf)", Doc("Factor of ``sum |W|`` over the weights of all layers, which adds to the mean loss.")
    ] = 0.0
    l2: Annotated[float, "[0, inf)", Doc("Factor of ``sum W^2 / 2`` over the same weights.")] = 1e-4
    initializer: Annotated[str | Recipe, Doc("First weights; see `gnomon.nn.initializers`. Biases begin at 0.")] = (
        "he-uniform"
    )
    batch_size: int | None = 32
    standardize: Annotated[
        bool,
        Doc(
            "Whether columns are brought to mean 0 and standard deviation 1; those of zeros and ones, levels of "
            "categories, stay as they are. The numbers are saved with the model."
        ),
    ] = True

    def check_parameters(self) -> None:
        super().check_parameters()
        check_layer_sizes(self.hidden)
        if not self.recipe("activation").trainable:
            remedy = "choose activation__straight_through=True, or another activation"
            raise UserValueError("no gradient passes this activation", "activation", remedy)
        if self.batch_norm and self.batch_size == 1:
            raise UserValueError(
                "batch_size must be at least 2 for batch normalization, got 1",
                "batch_size",
                "give 2 or more, or batch_norm=False",
            )

    def arguments(self, table: Any) -> dict[str, Any]:
        return super().arguments(table) | {
            "hidden": tuple(int(units) for units in self.hidden), "activation": self.recipe("activation"),
            "dropout": float(self.dropout), "batch_norm": self.batch_norm,
        }  # fmt: skip

    def make(
        self, *, dtype: str, n_classes: int | None = None, n_outputs: int | None = None, **arguments: Any
    ) -> MLPModel:
        return MLPModel(n_outputs=n_classes or n_outputs or 1, dtype=getattr(torch, dtype), **arguments)

    def initialize(self, model: MLPModel, table: Any, noise: Noise) -> None:
        if self.batch_norm and len(table.X) < 2:
            remedy = "give 2 or more training rows, or batch_norm=False"
            raise UserValueError("batch_norm needs at least 2 rows, got 1", "batch_norm", remedy)
        gain = self.recipe("activation").gain
        gains = {f"layers.{k}": gain for k in range(len(model.units))}
        initialize(model, self.recipe("initializer"), noise, gain=gains)
        if self.standardize:
            shift, scale = units(table.X, table.weight)
            model.shift.copy_(torch.from_numpy(shift))
            model.scale.copy_(torch.from_numpy(scale))

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1

    def hidden_outputs(self, X: Any) -> list[Array]:
        """Outputs of the hidden layers for each row, in order, each of shape (n, units)."""
        rows = self._rows(X)
        return list(self.model_.ask("hidden", rows))


def units(X: Array, weight: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column; 0 and 1 of one that holds zeros and ones.

    That is a level of a category, say. Brought to spread 1, a level of one row in a hundred would be 10 in the few rows
    that have it, and the network would learn these by heart.

    Examples
    --------
    >>> units(np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 1.0]]), np.array([1.0, 1.0, 0.0]))
    (array([2., 0.]), array([1., 1.]))
    >>> units(np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([1.0, 1.0]))
    (array([2., 0.]), array([1., 1.]))
    """
    shift, scale = standardization(X, weight)
    there = X if weight.all() else X[weight > 0]
    levels = ((there == 0) | (there == 1)).all(0)
    return np.where(levels, 0.0, shift), np.where(levels, 1.0, scale)
