"""What networks that classify and networks that regress have in common: the objective and the way to fit."""

from __future__ import annotations

import numbers
from typing import Annotated, Any, ClassVar

import numpy as np
import torch

from gnomon.contracts import Array, Group, Noise, Procedure
from gnomon.data.preprocessing import Standardizer
from gnomon.distributions.domains import Real
from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.initializers import initialize
from gnomon.objectives.base import Loss, Objective, Term
from gnomon.objectives.criterion import Criterion
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.base import System
from gnomon.system.fields import HasDtype, Standardized, TrainedByGradient
from gnomon.systems.neural._model import MLPModel
from gnomon.training.gradient import Budget, Gradient

__all__ = ["Fit", "Network", "standardization"]


class Fit(Objective):
    """A loss of the network's scores, plus l1 sum |W| + l2 / 2 sum W^2 over the weights of all layers.

    Parameters
    ----------
    loss : Criterion
        Of (scores, targets).
    l1, l2 : float, default 0
    name : str, optional
        Name of the loss in the targets' units, where the loss itself is in units of their spread.
    """

    def __init__(self, loss: Criterion, l1: float = 0.0, l2: float = 0.0, name: str = "") -> None:
        super().__init__()
        self.loss, self.l1, self.l2, self.name = loss, l1, l2, name

    def forward(self, model: MLPModel, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a batch; on validation rows as in prediction, without penalties."""
        X, weight = torch.as_tensor(batch.data["X"]), torch.as_tensor(batch.weight)
        y = self._targets(model, batch)
        if phase == "validation":
            return Loss(self._terms(model, model.scores(X), y, weight))
        drops = noise.child("dropout").rows(batch.positions) if model.dropout else None
        uneven = None if bool((batch.weight == 1).all()) else weight
        terms = self._terms(model, model.scores(X, noise=drops, weight=uneven, group=group), y, weight)
        if self.l2:
            terms["l2"] = Term(_total([0.5 * w.square().sum() for w in model.matrices]), 1.0, self.l2)
        if self.l1:
            terms["l1"] = Term(_total([w.abs().sum() for w in model.matrices]), 1.0, self.l1)
        return Loss(terms)

    def _targets(self, model: MLPModel, batch: Any) -> torch.Tensor:
        """Classes as they are; numbers in units of their spread."""
        y = torch.as_tensor(batch.data["y"])
        if not self.name:
            return y
        y = y if y.ndim == 2 else y[:, None]
        return ((y - model.out_shift) / model.out_scale).to(model.shift.dtype)

    def _terms(self, model: MLPModel, scores: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> dict[str, Term]:
        terms = self.loss.terms(scores, y, weight=weight)
        if not self.name:
            return terms
        # a number without a gradient comes first: what is watched and recorded is in the units of the targets
        with torch.no_grad():
            errors = ((scores - y).double() * model.out_scale).square().mean(1)
            seen = Term(float((errors * weight).sum()), float(weight.sum()))
        return {self.name: seen, **{f"scaled_{name}": term for name, term in terms.items()}}


def _total(parts: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack(parts).sum()


class Network(TrainedByGradient, Standardized, HasDtype, System):
    """Base of systems around an `MLPModel`; a subclass says its loss and how many outputs there are."""

    model_class: ClassVar[type] = MLPModel
    domain = Real(largest=1e100)
    slots: ClassVar[tuple[str, ...]] = ("activation", "optimizer", "schedule", "early_stopping", "initializer")

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

    def check_parameters(self) -> None:
        super().check_parameters()
        _check_hidden(self.hidden)
        if not self.recipe("activation").trainable:
            remedy = "choose activation__straight_through=True, or another activation"
            raise UserValueError("no gradient passes this activation", "activation", remedy)
        if self.batch_norm and self.batch_size == 1:
            raise UserValueError(
                "a batch of one row has no spread", "batch_size", "give 2 or more, or batch_norm=False"
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
            raise UserValueError("one row has no spread", "batch_norm", remedy)
        gain = self.recipe("activation").gain
        gains = {f"layers.{k}": gain for k in range(len(model.units))}
        initialize(model, self.recipe("initializer"), noise, gain=gains)
        if self.standardize:
            shift, scale = standardization(table.X, table.weight)
            model.shift.copy_(torch.from_numpy(shift))
            model.scale.copy_(torch.from_numpy(scale))

    def min_batch_size(self) -> int:
        return 2 if self.batch_norm else 1

    def procedure(self, examples: Any) -> Procedure:
        return Gradient(
            self.recipe("optimizer"), self.learning_rate, Budget(epochs=self.epochs), schedule=self.recipe("schedule"),
            stopping=self.recipe("early_stopping"), clip=self.clip,
        )  # fmt: skip

    @property
    def best_epoch_(self) -> int:
        """The epoch whose weights are kept, counted from 1: the last one where nothing was watched."""
        history = self.history_
        return int(history["best_epoch" if "best_epoch" in history else "epoch"][-1])

    def hidden_outputs(self, X: Any) -> list[Array]:
        """Outputs of the hidden layers for each row, in order, each of shape (n, units)."""
        rows = self._rows(X)
        return list(self.model_.hidden(rows))


def _check_hidden(hidden: Any) -> None:
    remedy = "give the units of the hidden layers, such as (64, 32)"
    if not isinstance(hidden, tuple | list):
        raise UserTypeError(f"{hidden!r} is not allowed", "hidden", remedy)
    for units in hidden:
        if isinstance(units, bool) or not isinstance(units, numbers.Integral):
            raise UserTypeError(f"{units!r} is no number of units", "hidden", remedy)
        if units < 1:
            raise UserValueError(f"{units} units", "hidden", "give 1 or more to every layer")


def standardization(X: np.ndarray[Any, Any], weight: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Mean and spread of the columns, float64; 1 in place of the spread of a constant column."""
    found = Standardizer().fit(X, weight).state()
    spread = np.sqrt(found["variance"])
    return found["mean"], np.where(spread > 1e-12 * np.abs(found["mean"]), spread, 1.0)
