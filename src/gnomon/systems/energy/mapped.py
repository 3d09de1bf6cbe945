"""Machines whose parameters are not couplings and biases of layers, but what these are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gnomon.contracts import Array, Path, State
from gnomon.systems.energy.layered import LayeredMachine

__all__ = ["MappedMachine"]


class MappedMachine(LayeredMachine):
    """Base: a subclass says what couplings and biases it has, `_mapped`, and takes gradients back by these, `_pulled`.

    Energies, conditionals and gradients are those of the machine of layers that it is; what becomes of parameters
    where distributions are mixed is asked of `layered`, since it need not be of the subclass's own form.
    """

    def _mapped(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the machine of layers."""
        raise NotImplementedError

    def _arrays(self, state: State) -> Mapping[str, Any]:
        return self._mapped(super()._arrays(state))

    def layered(self, dtype: torch.dtype | None = None) -> LayeredMachine:
        """The same distribution with the couplings and biases as parameters, computed in this precision."""
        like = next(iter(self.parameters()))
        machine = LayeredMachine(self.units, self.links, observed=self.observed, dtype=dtype or like.dtype)
        machine.to(self.device).blocks = self.blocks
        with torch.no_grad():
            own = {name: value.to(dtype or like.dtype) for name, value in self.named_parameters()}
            mapped = self._mapped(own)
            for name, value in machine.named_parameters():
                value.copy_(mapped[name])
        return machine

    def log_partition(self) -> float:
        """Exact log Z by enumeration of the layers with the fewest states."""
        return self.layered(torch.float64).log_partition()

    def base(self, mean: Array | None = None) -> LayeredMachine:  # type: ignore[override]
        """The machine without coupling whose observed units have these means (None: fair), the others fair."""
        return self.layered().base(mean)

    def bridge(self, base: LayeredMachine, eta: float) -> LayeredMachine:  # type: ignore[override]
        """p_base**(1 - eta) * p**eta on all layers, a machine of layers."""
        return self.layered().bridge(base, eta)

    def path(self, base: LayeredMachine, etas: Array, keep: Sequence[str]) -> Path:
        """The bridge."""
        return self.layered().path(base, etas, keep)
