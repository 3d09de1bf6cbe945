"""Terms, losses, and the base of all objectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from gnomon.contracts import Array, Group, Noise
from gnomon.nn.module import Module

__all__ = ["Loss", "Objective", "Term", "shard"]


@dataclass(frozen=True, slots=True)
class Term:
    """One summand of a loss as a sum over examples, never a mean.

    Parameters
    ----------
    sum : array of one element, float, or callable returning a float
        Sum over this process's examples, each times its weight. A callable is evaluated only when the value is logged.
    weight : float
        Sum of the weights of those examples.
    scale : float, default 1
        Factor of the term in the total.
    """

    sum: Array | float | Callable[[], float]
    weight: float
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Loss:
    """What an objective answers: total = sum_k scale_k * sum_k / W_k, with W_k summed over processes.

    Parameters
    ----------
    terms : dict of str to Term
    gradients : dict of str to array, optional
        Closed-form gradients by parameter name, as sums over examples; then no backward pass runs.
    per : str, optional
        The term whose weight divides the gradients.
    """

    terms: dict[str, Term]
    gradients: dict[str, Array] | None = None
    per: str | None = None


class Objective(Module):
    """Base of objectives. Critics and baselines are parameters; persistent chains are buffers named in `sharded`."""

    sharded: tuple[str, ...] = ()
    default_phase = "fit"

    def phases(self, model: Any) -> dict[str, list[nn.Parameter]]:
        """Parameters by phase: one phase with everything."""
        return {self.default_phase: [*model.parameters(), *self.parameters()]}

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Make what needs the model's or the batch's size (chains); called once before the first update."""

    def collect(self, group: Group) -> dict[str, Array]:
        """`state` with the buffers of all processes joined on axis 0."""
        return {name: group.gather(value) if name in self.sharded else value for name, value in self.state().items()}

    def distribute(self, state: Mapping[str, Array], group: Group) -> None:
        """Take over what `collect` joined: every process its own part."""
        self.load({name: v[shard(len(v), group)] if name in self.sharded else v for name, v in state.items()})


def shard(n: int, group: Group) -> slice:
    """The places of this process among n, in order of rank; sizes differ by one at most."""
    return slice(group.rank * n // group.size, (group.rank + 1) * n // group.size)
