"""Machines whose observed layer is real: means that the layers above move, and precisions that are learned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from gnomon import contracts
from gnomon.contracts import Array, State
from gnomon.distributions.layers import exp
from gnomon.distributions.units import Units
from gnomon.numeric.tensors import detached
from gnomon.systems.energy.layered import LayeredMachine
from gnomon.systems.energy.links import Link
from gnomon.systems.energy.mapped import MappedMachine

__all__ = ["FIRST_WEIGHTS", "RealRowsMachine"]

FIRST_WEIGHTS = 0.1
"""Standard deviation of the first weights: at the precisions of the data weights near 0 grow with their third power."""


class RealRowsMachine(MappedMachine):
    r"""A machine of layers with p(v | h) = N(a + W h, diag(1 / beta)) of its real rows v, beta learned with all else.

    Its energy has :math:`\sum_i \beta_i (v_i - a_i)^2 / 2 - (\beta v)^T W h` for the rows and the layer h that they are
    linked to: as a machine of layers it has the couplings beta W. W is by how much a unit of h moves the mean of each
    column, whatever beta is.

    Parameters
    ----------
    units : mapping of str to Units
        The layers; the first holds the rows and is one of `CenteredScaledGaussianUnits`, with its ``log_precision``.
    links : iterable of pairs of str or links
        One of them has the rows at its first end.
    dtype : torch.dtype
    variance : {"diagonal", "scalar", "fixed"}
        Of the learned log beta: one for each column, one for all; or beta stays as it is.
    spread : array of shape (columns,), optional
        Standard deviations of the data's columns, of which first values and the base of annealing have their
        precisions; 1 by default.
    floor : float in (0, inf), optional
        Least standard deviation of p(v | h), in units of `spread`; none by default.

    Examples
    --------
    >>> from gnomon.distributions.units import BernoulliUnits, CenteredScaledGaussianUnits
    >>> layers = {"rows": CenteredScaledGaussianUnits(2), "low": BernoulliUnits(3), "high": BernoulliUnits(2)}
    >>> machine = RealRowsMachine(layers, [("rows", "low"), ("low", "high")], spread=[1.0, 4.0])
    >>> machine.precision_name, machine.coupling_name
    ('rows_log_precision', 'rows_low_weight')
    """

    def __init__(
        self,
        units: Mapping[str, Units],
        links: Iterable[Sequence[str] | Link],
        *,
        dtype: torch.dtype = torch.float32,
        variance: Literal["diagonal", "scalar", "fixed"] = "diagonal",
        spread: ArrayLike | None = None,
        floor: float = 0.0,
    ) -> None:
        super().__init__(units, links, dtype=dtype)
        n = self.sizes[self.observed]
        self.floor = floor
        self.spread = np.ones(n) if spread is None else np.asarray(spread, np.float64)
        value = torch.zeros(1 if variance == "scalar" else n, dtype=dtype)
        self.register_parameter(self.precision_name, torch.nn.Parameter(value, requires_grad=variance != "fixed"))

    @property
    def precision_name(self) -> str:
        """Of the parameter log beta."""
        return f"{self.observed}_log_precision"

    @property
    def coupling_name(self) -> str:
        """Of the parameter W of the rows."""
        return next(link.names["weight"] for link in self.links if link.ends[0] == self.observed)

    def initialize(
        self, noise: contracts.Noise, mean: ArrayLike | None = None, *, scale: float = FIRST_WEIGHTS
    ) -> Self:
        """Random weights, those of the rows in units of their spread, and rows of these means and the spread."""
        super().initialize(noise, mean, scale=scale)
        coupling, own = self.get_parameter(self.coupling_name), self.get_parameter(self.precision_name)
        log_precision = torch.from_numpy(-2 * np.log(self.spread))
        with torch.no_grad():
            coupling.mul_(torch.from_numpy(self.spread)[:, None].to(coupling))
            own.copy_(log_precision.min() if len(own) < len(log_precision) else log_precision)
        return self

    # --- as a machine of layers ---------------------------------------------------------------------------------------

    def _mapped(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the machine of layers."""
        log_precision = own[self.precision_name] + 0 * own[f"{self.observed}_bias"]
        coupling = exp(log_precision)[:, None] * own[self.coupling_name]
        return {**own, self.precision_name: log_precision, self.coupling_name: coupling}

    def _pulled(self, found: dict[str, Array], state: State) -> dict[str, Array]:
        own = self._unmapped(state)
        weight, name = own[self.coupling_name], self.precision_name
        by_weight = exp(own[name])[:, None] * found[self.coupling_name]
        by_log = found[name] + (by_weight * weight).sum(1)
        if len(own[name]) < len(weight):
            by_log = by_log.sum(0).reshape(1)
        return found | {self.coupling_name: by_weight, name: by_log}

    def _unmapped(self, state: State) -> dict[str, Any]:
        """The machine's own parameters in the kind of the state's arrays, without gradients."""
        return {name: detached(value) for name, value in LayeredMachine._arrays(self, state).items()}

    def base(self, mean: Array | None = None) -> LayeredMachine:  # type: ignore[override]
        """The machine without coupling whose rows have these means and the spread of the data."""
        found = self.layered().base(mean)
        with torch.no_grad():
            found.get_parameter(self.precision_name).copy_(torch.from_numpy(-2 * np.log(self.spread)))
        return found

    def confine(self) -> None:
        """Precisions back to where p(v | h) is no narrower than the floor."""
        if not self.floor:
            return
        own = self.get_parameter(self.precision_name)
        with torch.no_grad():
            own.clamp_(max=torch.from_numpy(self.ceiling()).to(own))

    def ceiling(self) -> NDArray[np.float64]:
        """Log precisions at which p(v | h) has the least standard deviation; of shape (0,) where there is no limit."""
        if not self.floor:
            return np.empty(0)
        limit: NDArray[np.float64] = -2 * np.log(self.floor * self.spread)
        return limit if len(self.get_parameter(self.precision_name)) > 1 else limit.min(keepdims=True)
