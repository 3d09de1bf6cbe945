"""What predicts a column from those before it: the slot ``conditionals`` of `FVBN`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, cast

import torch

from gnomon.contracts import Noise, Procedure
from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation
from gnomon.nn.initializers import Initializer
from gnomon.nn.likelihoods import Likelihood
from gnomon.nn.mixed import MixedLikelihood
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.recipes.recipe import Recipe
from gnomon.systems.autoregressive._base import ChainModel
from gnomon.systems.autoregressive._linear import LinearModel, Newton
from gnomon.systems.autoregressive._neural import LeftToRight
from gnomon.systems.autoregressive._tables import TableModel
from gnomon.systems.autoregressive.features import Features
from gnomon.training.em import ClosedForm

__all__ = ["ChainConditionals", "Linear", "Neural", "Tables"]

LARGEST = 1 << 22
"""Probabilities that the tables may hold."""


@dataclass(frozen=True)
class ChainConditionals(Recipe):
    """Base of the predictors."""

    by_gradient: ClassVar[bool] = False
    """Whether they are fitted by gradient steps, with the fields of the system that speak of these."""

    def build(self, n_features: int, likelihood: Likelihood, dtype: torch.dtype) -> ChainModel:
        """The model of so many columns."""
        raise NotImplementedError

    def begin(self, model: ChainModel, x: torch.Tensor, noise: Noise) -> None:
        """First values, once the model knows its order and its head the columns."""

    def procedure(self, model_is_normal: bool) -> Procedure:
        """How it is solved; of real columns or of others."""
        raise NotImplementedError


def _refuse_mixed(likelihood: Likelihood, given: str) -> None:
    if isinstance(likelihood, MixedLikelihood):
        what = f"conditionals must be neural for columns of several kinds, got {given}"
        raise UserValueError(what, "conditionals", "use neural; without hidden layers it is linear")


@dataclass(frozen=True)
class Tables(ChainConditionals):
    """A probability for each value of a column in each state of the columns before it: by counting.

    With ``smoothing`` s a probability is (count + s) / (sum of the counts + K s) of K values; without it the pmf is
    that of the training rows. The column behind t others has K^t rows: for few columns.

    Parameters
    ----------
    smoothing : float in [0, inf), default 0.5
        Added to every count. With 0 states of the columns before that were not seen have equal shares, and what was
        never counted the probability 1e-12.
    """

    short: ClassVar[str] = "tables"
    smoothing: Annotated[float, "[0, inf)"] = 0.5

    def build(self, n_features: int, likelihood: Likelihood, dtype: torch.dtype) -> ChainModel:
        """The tables.

        Raises
        ------
        UserValueError
            Real or mixed columns, or more than 2^22 probabilities.
        """
        _refuse_mixed(likelihood, self.short)
        head = likelihood.build(n_features, dtype)
        if head.values is None:
            what = "conditionals must be linear or neural for real columns, got tables"
            raise UserValueError(what, "conditionals", "use linear, or a likelihood of bits or categories")
        size = TableModel.size(n_features, head.values) if n_features < 64 else None
        if size is None or size > LARGEST:
            count = f"about {head.values}^{n_features}" if size is None else str(size)
            what = f"tables must have at most {LARGEST} probabilities, got {count} for {n_features} columns"
            raise UserValueError(what, "conditionals", "use linear, or fewer columns")
        return TableModel(n_features, head, self.smoothing, dtype)

    def begin(self, model: ChainModel, x: torch.Tensor, noise: Noise) -> None:
        """Numbers of the head are whole log odds, not those beside the columns' means."""
        cast(torch.Tensor, model.head.offset).zero_()

    def procedure(self, model_is_normal: bool) -> Procedure:
        """Counting, one step."""
        return ClosedForm()


@dataclass(frozen=True)
class Linear(ChainConditionals):
    """Linear in features of the columns before: logistic and softmax regressions, and least squares of real columns.

    All are convex and solved to their optimum, all columns at once: least squares in closed form, the others by
    Newton's method.

    Parameters
    ----------
    features : str or Features, default "columns"
        What is seen of the columns before: themselves, ``polynomial`` products of them, or ``rbf`` bumps.
    l2 : float in [0, inf), default 1e-3
        Factor of ``l2 / 2 ||W||^2`` beside the mean loss, of all weights and biases: it draws towards the columns'
        own means, with no dependence. Real columns are standardized first. With 0 the likelihood alone is fitted: then
        columns that others determine have no best weights.
    max_iter : int in [1, inf), default 100
        Iterations of Newton's method at most.
    tol : float in [0, inf), default 1e-7
        End when no component of the gradient of the mean loss is larger.
    """

    short: ClassVar[str] = "linear"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"features": Features}

    features: str | Features = "columns"
    l2: Annotated[float, "[0, inf)"] = 1e-3
    max_iter: Annotated[int, "[1, inf)"] = 100
    tol: Annotated[float, "[0, inf)"] = 1e-7

    def build(self, n_features: int, likelihood: Likelihood, dtype: torch.dtype) -> ChainModel:
        """The model.

        Raises
        ------
        UserValueError
            Variances that depend on the other columns, mixtures, or mixed columns, for which nothing is solved.
        """
        _refuse_mixed(likelihood, self.short)
        if likelihood.scales and getattr(likelihood, "variance", "network") == "network":
            what = "conditionals must be neural where all that a column's distribution has depends on those before it"
            raise UserValueError(what, "conditionals", "use neural, or a gaussian likelihood with variances of columns")
        head, features = likelihood.build(n_features, dtype), self.recipe("features")
        basis = features.build(n_features, head.seen, head.values is None)
        return LinearModel(n_features, head, likelihood.scales, basis, features.normal, self.l2, dtype)

    def begin(self, model: ChainModel, x: torch.Tensor, noise: Noise) -> None:
        """The features, which depend on the order."""
        one = cast(LinearModel, model)
        one.basis.begin(one.order, one.head.inputs(one.inside(x)), noise)

    def procedure(self, model_is_normal: bool) -> Procedure:
        """The closed form, or Newton's method."""
        return ClosedForm() if model_is_normal else Newton(self.max_iter, self.tol)


@dataclass(frozen=True)
class Neural(ChainConditionals):
    """A network from left to right: a group of hidden units per column that all later columns see.

    Without hidden layers it is ``linear``, found by gradient steps. (d - 1) units in a layer for each unit of a group,
    and weights of the square of that.

    Parameters
    ----------
    hidden : tuple of int, default (4,)
        Units of each group, by layer.
    activation : str or Activation, default "tanh"
        What follows each hidden layer.
    initializer : str or Initializer, default "he-uniform"
        First weights of the hidden layers; those of the outputs are 0, where columns are independent.
    """

    short: ClassVar[str] = "neural"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"activation": Activation, "initializer": Initializer}
    by_gradient: ClassVar[bool] = True

    hidden: tuple[Annotated[int, "[1, inf)"], ...] = (4,)
    activation: str | Activation = "tanh"
    initializer: str | Initializer = "he-uniform"

    def build(self, n_features: int, likelihood: Likelihood, dtype: torch.dtype) -> ChainModel:
        """The network.

        Raises
        ------
        UserTypeError, UserValueError
            Sizes that no layer has, or an activation that takes several numbers for each of its own.
        """
        check_layer_sizes(self.hidden, "conditionals__hidden")
        activation = self.recipe("activation")
        if activation.widening != 1:
            what = f"activation must take one number for each of its own, got {activation.short}"
            raise UserValueError(what, "conditionals__activation", "use tanh or relu")
        head = likelihood.build(n_features, dtype)
        return LeftToRight(n_features, head, likelihood.scales, self.hidden, activation, dtype)

    def begin(self, model: ChainModel, x: torch.Tensor, noise: Noise) -> None:
        """Masks by the order, and first weights."""
        cast(LeftToRight, model).start(self.recipe("initializer"), noise)
