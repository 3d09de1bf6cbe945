"""What stacks of layers share whose columns may be bits, real numbers or another exponential family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from gnomon import contracts
from gnomon.contracts import Array
from gnomon.data.examples import Examples
from gnomon.distributions.domains import Binary, Domain, UnitInterval
from gnomon.recipes.fields import Doc
from gnomon.systems.energy._binary import BinaryRows
from gnomon.systems.energy._machine import StandardizedMachine

__all__ = ["ChosenColumns"]


class ChosenColumns(StandardizedMachine, BinaryRows):
    """Base: a field ``visible`` says what the columns are, ``domains`` what a table then holds, bits apart.

    A subclass gives `_bottom`, the machine whose observed layer holds the rows.
    """

    domains: ClassVar[Mapping[str, Domain]]
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "standardize": {"visible": "gaussian"}, "floor": {"visible": "gaussian"},
    }  # fmt: skip

    if TYPE_CHECKING:  # without a value it would read as a field
        visible: str

    floor: Annotated[
        float,
        "(0, inf)",
        Doc("Least standard deviation of a column given the layer above, in units of that of the training data."),
    ] = 0.1

    @property
    def domain(self) -> Any:
        """What a table may hold."""
        if self.visible == "bernoulli":
            return UnitInterval()
        return self.domains[self.visible]

    @property
    def outcomes(self) -> Any:
        """What has a probability."""
        if self.visible == "bernoulli":
            return Binary()
        return self.domains[self.visible]

    def _bottom(self) -> Any:
        """The machine whose observed layer holds the rows."""
        raise NotImplementedError

    @property
    def precision_(self) -> Array:
        """1 / variance of each real column given the layer above."""
        if self.visible != "gaussian":
            raise AttributeError("precision_ is of real columns alone: visible='gaussian'")
        machine = self._bottom()
        return np.exp(machine.state()[machine.precision_name]) / self._unit() ** 2

    # --- units of the columns -----------------------------------------------------------------------------------------

    def _scales(self) -> bool:
        return self.standardize and self.visible == "gaussian"

    def arguments(self, examples: Examples) -> dict[str, Any]:
        if self.visible == "gaussian":
            return super().arguments(examples)
        return BinaryRows.arguments(self, examples)

    def _spread(self, deviation: list[float] | None) -> Array | None:
        """Standard deviations of real columns, in the model's units."""
        return None if deviation is None or self._scales() else np.array(deviation)

    def _unit(self) -> Array:
        return super()._unit() if self._scales() else np.ones(self.n_features_in_)

    def _scaled(self, rows: Array) -> Array:
        return super()._scaled(rows) if self._scales() else rows

    def _unscaled(self, rows: Array) -> Array:
        return super()._unscaled(rows) if self._scales() else rows

    def _start_mean(self) -> Array:
        return BinaryRows._start_mean(self) if self.visible == "bernoulli" else super()._start_mean()

    def _start(self, n: int, noise: contracts.Noise) -> Array:
        if self.visible == "bernoulli":
            return BinaryRows._start(self, n, noise)
        machine = self._bottom()
        base, sizes = machine.base(self._start_mean()), machine.sizes
        blank = {block: machine.place(np.zeros((n, size))) for block, size in sizes.items()}
        return base.conditional(machine.observed, blank).sample(noise, 0)
