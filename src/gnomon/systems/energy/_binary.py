"""What systems around machines of rows of 0 and 1 share: means of the columns, chains from these, stacks of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, cast

import numpy as np
import torch

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.batches import Batch, Batches
from gnomon.data.examples import Examples
from gnomon.data.layouts import Layout
from gnomon.distributions.domains import Binary, UnitInterval
from gnomon.distributions.grey import DrawnAfresh, DrawnOnce, Thresholded, drawn
from gnomon.errors import UserValueError
from gnomon.numeric.noise import Noise
from gnomon.numeric.sparse import in_full, is_sparse, units_of
from gnomon.recipes.fields import Doc
from gnomon.recipes.parameters import check_layer_sizes
from gnomon.systems.energy._machine import MachineSystem
from gnomon.training.context import current as current_context
from gnomon.training.gradient import Budget
from gnomon.training.procedure import Problem

__all__ = ["BinaryRows", "GreyRows", "check_layers", "dealt", "layer_problem", "lent", "on_its_device"]

GREY: Mapping[str, UnitInterval] = {
    "threshold": Thresholded(), "fixed": DrawnOnce(), "dynamic": DrawnAfresh(),
}  # fmt: skip
"""What becomes of grey levels, by scheme, but for means of bits."""
JUDGED = 10
"""Draws of grey rows that a likelihood is the mean of."""


class BinaryRows(MachineSystem):
    """Base of the machines whose visible layer has one unit of 0 and 1 for each column."""

    def arguments(self, examples: Examples) -> dict[str, Any]:
        X, weight = examples.X, examples.weight.astype(np.float64)
        mean = units_of(X, weight)[0] if is_sparse(X) else np.average(X.astype(np.float64), axis=0, weights=weight)
        return super().arguments(examples) | {"mean": mean.tolist()}

    def _start_mean(self) -> Array:
        """Means of the training data, kept away from 0 and 1."""
        return np.clip(np.array(self.arguments_["mean"]), 0.01, 0.99)

    def _start(self, n: int, noise: contracts.Noise) -> Array:
        return noise.bernoulli(self.model_.place(np.broadcast_to(self._start_mean(), (n, self.n_features_in_))))


class GreyRows(BinaryRows):
    """Base of those that say what a value between 0 and 1 is."""

    binarize: Annotated[
        Literal["means", "threshold", "fixed", "dynamic"],
        Doc(
            "What a value g between 0 and 1 is. ``means``: the mean of a bit, in the gradient; rows that are judged "
            "are 0 and 1. ``threshold``: 1 from 0.5 on. ``fixed``: a bit that is 1 with the chance g, drawn once by "
            "the row's number. ``dynamic``: drawn afresh at every update, and ten times for a judgment. Scores of the "
            "last two have spaces of their own."
        ),
    ] = "means"

    @property
    def domain(self) -> Any:
        """Numbers in [0, 1], and what becomes of them."""
        if self.binarize == "means":
            return UnitInterval()
        return GREY[self.binarize]

    @property
    def outcomes(self) -> Any:
        """Rows that are judged: 0 and 1, or what the scheme makes 0 and 1."""
        if self.binarize == "means":
            return Binary()
        return GREY[self.binarize]

    def problem(
        self, model: Any, examples: Any, noise: contracts.Noise, group: contracts.Group, validation: Any = None
    ) -> Problem:
        found = super().problem(model, examples, noise, group, validation)
        if self.binarize != "dynamic":
            return found
        batches = Batches(examples, self.layout(examples), noise=noise, transform=_presented).shard(group)
        return replace(found, batches=batches)

    def _presentations(self, X: Any) -> list[Array]:
        rows = self._outcomes(X)
        if self.binarize != "dynamic":
            return [rows]
        cells, stream = in_full(rows), Noise(0, "binarize/judged").rows(np.arange(len(rows)))
        return [drawn(cells, stream, draw) for draw in range(JUDGED)]


def _presented(batch: Batch, noise: contracts.Noise) -> Batch:
    """A batch with bits in place of its grey levels."""
    rows = drawn(in_full(batch.data["X"]), noise)
    return Batch({**batch.data, "X": rows}, batch.rows, batch.positions, batch.weight)


def check_layers(hidden: Sequence[int], instead: Sequence[int], name: str = "hidden") -> None:
    """Refuse a stack without layers, or a layer without units; `instead` is what is proposed for the field `name`.

    Raises
    ------
    UserTypeError, UserValueError
        See `gnomon.recipes.parameters.check_layer_sizes`.
    """
    check_layer_sizes(hidden, name)
    if not hidden:
        raise UserValueError(f"{name} must name at least one layer, got ()", name, f"use {tuple(instead)}")


def layer_problem(
    whole: Problem, number: int, pair: Any, lift: Callable[[Array, contracts.Noise], Array],
    layout: Callable[[Examples], Layout], objective: Any,
) -> Problem:  # fmt: skip
    """The problem of one machine of a stack: the rows of the whole fit, as the layers below make them.

    Parameters
    ----------
    whole : Problem
    number : int
        Of the layer, which names its noise.
    pair : LayeredMachine
        Whose parameters are the whole model's.
    lift : callable
        Rows as the model computes them, noise -> rows of the machine.
    layout : callable
        Examples -> the layout of their batches.
    objective : Objective
    """
    model, noise = whole.model, whole.noise.child(f"layer_{number}")

    def lifted(batch: Batch, noise: contracts.Noise) -> Batch:
        with torch.no_grad():
            rows = lift(model.place(in_full(batch.data["X"])), noise)
        return Batch({"X": rows}, batch.rows, batch.positions, batch.weight)

    examples = cast(Batches, whole.batches).examples
    batches = Batches(examples, layout(examples), noise=noise, transform=lifted).shard(whole.group)
    return Problem(pair, batches, noise, whole.group, objective)


def lent(machine: Any, whole: Any, held: str | None = None) -> Any:
    """The machine of a layer with the whole model's parameters of the same names; `held` is the one not learned."""
    for name in machine._parameters:
        machine._parameters[name] = whole._parameters[name]
    if held is not None:
        machine._parameters[held] = torch.nn.Parameter(whole._parameters[held].data, requires_grad=False)
    return machine


def on_its_device(model: Any) -> Any:
    """The model where the fit computes: moved before machines of its layers share its parameters."""
    if current_context().device is not None:
        model.to(current_context().device)
    return model


def dealt(epochs: Sequence[int], max_updates: int | None) -> list[Budget | None]:
    """The budget of each stage of a fit: its passes, or its part of the updates; None leaves it out.

    Updates are dealt evenly among the stages that have passes, and the last of these has what remains.

    Examples
    --------
    >>> dealt([3, 0, 5], None)
    [Budget(epochs=3, updates=None), None, Budget(epochs=5, updates=None)]
    >>> dealt([3, 0, 5], 7)
    [Budget(epochs=None, updates=3), None, Budget(epochs=None, updates=4)]
    """
    if max_updates is None:
        return [Budget(epochs=n) if n else None for n in epochs]
    taking = [number for number, n in enumerate(epochs) if n]
    each = max_updates // len(taking)
    found = [Budget(updates=each) if each and n else None for n in epochs]
    found[taking[-1]] = Budget(updates=max_updates - each * (len(taking) - 1))
    return found
