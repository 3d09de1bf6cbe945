"""Scores of a machine of real observed and two-valued hidden units, with closed-form gradients by its parameters."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from gnomon.contracts import Array
from gnomon.distributions.units import (
    BernoulliUnits,
    CenteredGaussianUnits,
    CenteredScaledGaussianUnits,
    GaussianUnits,
    IsingUnits,
    ScaledGaussianUnits,
)  # fmt: skip
from gnomon.inference.blocks import smallest_keep
from gnomon.numeric.tensors import detached
from gnomon.systems.energy.links import Link

__all__ = ["Scores", "has_closed_form"]


NORMAL = (GaussianUnits, CenteredGaussianUnits, ScaledGaussianUnits, CenteredScaledGaussianUnits)
TWO_VALUED = (BernoulliUnits, IsingUnits)


def has_closed_form(machine: Any) -> bool:
    """Whether observed units are normal, and hidden ones have two values each and are independent given these."""
    data = machine.observed
    hidden = [type(kind) for block, kind in machine.units.items() if block != data]
    if type(machine.units[data]) not in NORMAL or any(kind not in TWO_VALUED for kind in hidden):
        return False
    return smallest_keep(machine, (data,)) == (data,)


class Scores:
    r"""The score of rows x, its derivatives, and how both move with the parameters (`HasScores`).

    With the couplings :math:`C` to a hidden layer, its fields :math:`f = x C` and the cumulants
    :math:`\mu, v, t` of its units, first to third derivative of their log normalizer,

    .. math:: \psi_j = w_j'(x_j) + \sum_k C_{jk} \mu_k, \qquad
              \frac{d \psi_j}{dx_j} = w_j''(x_j) + \sum_k C_{jk}^2 v_k,

    summed over the hidden layers. The gradient of :math:`\sum_j a_j \psi_j + b_j d\psi_j / dx_j` is then that of
    :math:`\mu a^T` and :math:`2 C \cdot b v^T` by C as it stands beside them, plus what
    :math:`(a C) v + (b C^2) t` is by f. Cost O(n d m), four products in all.

    Parameters
    ----------
    machine : LayeredMachine
        Of which `has_closed_form` holds.
    x : array or tensor of shape (n, d)
    """

    def __init__(self, machine: Any, x: Array) -> None:
        self.machine, self.x = machine, x
        self._state = {machine.observed: x}
        self._parameters = machine._arrays(self._state)
        self._own = machine._own(machine.observed, self._parameters)
        self._layers = [self._layer(link, block) for link, block in machine._neighbors[machine.observed]]

    def _layer(self, link: Link, block: str) -> tuple[Link, str, Array, tuple[Array, Array, Array]]:
        """A hidden layer: its link, its name, its couplings (d, m), the cumulants of its units."""
        machine = self.machine
        coupling = link.matrix(self._of(link))
        if link.ends[0] != machine.observed:
            coupling = coupling.T
        field = link.field(block, self.x, self._of(link))
        return link, block, coupling, machine.units[block].cumulants(field, machine._own(block, self._parameters))

    def _of(self, link: Link) -> dict[str, Any]:
        return {short: self._parameters[name] for short, name in link.names.items()}

    @cached_property
    def _slopes(self) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self.machine.units[self.machine.observed].slopes(self.x, self._own)
        return found

    @cached_property
    def value(self) -> Array:
        """d log p(x) / dx_j, shape (n, d)."""
        return sum((mean @ coupling.T for _, _, coupling, (mean, _, _) in self._layers), self._slopes[0])

    @cached_property
    def curvature(self) -> Array:
        """d^2 log p(x) / dx_j^2, shape (n, d)."""
        parts = (variance @ (coupling * coupling).T for _, _, coupling, (_, variance, _) in self._layers)
        return sum(parts, self._slopes[1] + 0 * self.x)

    def gradient(self, by_value: Array, by_curvature: Array | None = None) -> dict[str, Array]:
        """Sums of by_value * d value + by_curvature * d curvature by parameter; see `HasScores`."""
        machine, x = self.machine, self.x
        data, second = machine.observed, 0 * by_value if by_curvature is None else by_curvature
        own = machine.units[data].slope_statistics(x, by_value, second, self._own)
        found = {machine._own_names[data][name]: value for name, value in own.items()}
        for link, block, coupling, (mean, variance, third) in self._layers:
            by_coupling, by_field = by_value.T @ mean, (by_value @ coupling) * variance
            if by_curvature is not None:
                by_coupling = by_coupling + 2 * coupling * (by_curvature.T @ variance)
                by_field = by_field + (by_curvature @ (coupling * coupling)) * third
            slope = by_coupling + x.T @ by_field
            pulled = link.pull(slope if link.ends[0] == data else slope.T, self._of(link))
            found |= {link.names[name]: value for name, value in pulled.items()}
            found[machine._own_names[block]["bias"]] = by_field.sum(0)
        whole = {name: found[name] for name in machine._parameters}
        whole = {name: detached(value) for name, value in whole.items()}
        return dict(machine._pulled(whole, self._state))
