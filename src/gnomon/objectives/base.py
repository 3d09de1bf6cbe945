"""Terms, losses, phases, and the base of all objectives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from torch import nn

from gnomon.contracts import Array, Group, Noise
from gnomon.nn.context import training
from gnomon.nn.module import Module
from gnomon.numeric.descent import StepRule
from gnomon.recipes.recipe import Recipe

__all__ = ["Loss", "Objective", "Phase", "Stretch", "Term", "as_found", "shard"]


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
    add_slope : callable of one float, optional
        Adds that multiple of the gradient of ``sum()`` to the gradients of the parameters, in closed form: no automatic
        derivative is taken of the term in a fit.
    """

    sum: Array | float | Callable[[], Any]
    weight: float
    scale: float = 1.0
    add_slope: Callable[[float], None] | None = None

    def share(self, weight: float) -> float:
        """What the sum is multiplied by in a total where all processes' weight is `weight`; a term of none is 0."""
        return self.scale / weight if weight else 0.0


@dataclass(frozen=True, slots=True)
class Loss:
    """What an objective answers: total = sum_k scale_k * sum_k / W_k, with W_k summed over processes.

    Parameters
    ----------
    terms : dict of str to Term
        Without `gradients` the total is that of the tensors among them; numbers and callables are recorded only.
    gradients : dict of str to array, optional
        Closed-form gradients by parameter name, as sums over examples; then no backward pass runs. Parameters of the
        objective have names that begin with ``objective/``.
    per : str, optional
        The term whose weight divides the gradients.
    watch : str, optional
        The term that schedules and early stopping judge by, and that stands first in the history; the first where left
        out.
    """

    terms: dict[str, Term]
    gradients: dict[str, Array] | None = None
    per: str | None = None
    watch: str | None = None

    @property
    def watched(self) -> str:
        """Name of the term that is judged by."""
        return self.watch or next(iter(self.terms))

    def total(self, weights: Mapping[str, float] | None = None) -> Any:
        """sum_k scale_k * sum_k / W_k.

        Parameters
        ----------
        weights : mapping of str to float, optional
            W_k by term; those of the terms, as of one process, where left out. A term of weight 0 is 0.

        Examples
        --------
        >>> Loss({"a": Term(6.0, 3.0), "b": Term(1.0, 2.0, scale=4.0)}, gradients={}).total()
        4.0
        """
        found = self._automatic() if self.gradients is None else self.terms
        by_hand = {name: term for name, term in self.terms.items() if term.add_slope}
        return _total({**found, **by_hand}, weights)

    def backward(self, weights: Mapping[str, float], inputs: Sequence[Any] | None = None) -> None:
        """Add the gradient of the total to that of the parameters; see `derive` for what is given."""
        self.derive(weights, inputs)
        self.add_slopes(weights)

    def derive(self, weights: Mapping[str, float], inputs: Sequence[Any] | None = None) -> None:
        """Add the gradient of the `learned` terms to that of the parameters.

        Parameters
        ----------
        weights : mapping of str to float
            As of `total`.
        inputs : sequence of nn.Parameter, optional
            Those whose gradient is taken; all where left out.
        """
        sums: dict[str, Any] = {name: term.sum for name, term in self.learned.items()}
        shares = [torch.full_like(value, self.terms[name].share(weights[name])) for name, value in sums.items()]
        torch.autograd.backward(list(sums.values()), shares, inputs=inputs)

    def add_slopes(self, weights: Mapping[str, float]) -> None:
        """Add the gradient of the terms that have it in closed form to that of the parameters."""
        for name, term in self.terms.items():
            if term.add_slope:
                term.add_slope(term.share(weights[name]))

    def join(self, other: Loss) -> Loss:
        """What is recorded of these rows and others; no gradient goes through it."""
        return Loss({name: _joined(term, other.terms[name]) for name, term in self.terms.items()}, watch=self.watch)

    @property
    def learned(self) -> dict[str, Term]:
        """The terms that automatic derivatives are taken of."""
        found: dict[str, Any] = self._automatic()
        return {name: term for name, term in found.items() if term.sum.requires_grad} or found

    def _automatic(self) -> dict[str, Term]:
        return {name: term for name, term in self.terms.items() if isinstance(term.sum, torch.Tensor)}


def _joined(one: Term, other: Term) -> Term:
    """Of the rows of both; a term that is computed when it is logged says nothing of rows."""
    if callable(one.sum):
        return one
    first: Any
    second: Any
    first, second = (x.detach() if isinstance(x, torch.Tensor) else x for x in (one.sum, other.sum))
    return Term(first + second, one.weight + other.weight, one.scale, one.add_slope)


def _total(terms: Mapping[str, Term], weights: Mapping[str, float] | None) -> Any:
    total: Any = None
    for name, term in terms.items():
        value = term.sum() if callable(term.sum) else term.sum
        part = term.share(term.weight if weights is None else weights[name]) * value
        total = part if total is None else total + part
    return total


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of every step that moves some of the parameters.

    Parameters
    ----------
    parameters : sequence of nn.Parameter
        Of the model or of the objective.
    steps : int, default 1
        Updates in a step, each on a batch of its own.
    optimizer : Recipe, optional
        How a gradient becomes an update; the system's where left out.
    rate : float, default 1
        Factor of the system's learning rate.
    data : {"train", "validation"}, default "train"
        Which rows the batches are made of.
    """

    parameters: Sequence[nn.Parameter]
    steps: int = 1
    optimizer: Recipe | None = None
    rate: float = 1.0
    data: Literal["train", "validation"] = "train"


class Stretch(NamedTuple):
    """Updates that an objective makes many at a time, in the numbers of single ones.

    Attributes
    ----------
    go : callable
        ``go(model, rows, size, noise, descent)`` makes an update for each `size` rows, from that of the noise on, and
        answers how many and the norm of the last gradient; fewer only where that is not finite.
    row : int
        Bytes of a row.
    products : int
        Multiplications for a row.
    """

    go: Callable[[Any, Any, int, Noise, StepRule], tuple[int, float]]
    row: int
    products: int


class Objective(Module):
    """Base of objectives. Critics and baselines are parameters; persistent chains are buffers named in `sharded`.

    Attributes
    ----------
    sharded : tuple of str
        Buffers of which every process holds its own part.
    by_row : bool
        Whether every state of an energy machine that it looks at stands beside a row of the batch, so that the machine
        may be another one for each row: one given a condition.
    additive : bool
        Whether the terms that gradients are taken of are sums over rows of what each row gives by itself, all of one
        weight, so that a batch may be computed piece by piece (``Context.micro_batch``).
    default_phase : str
        Name of the one phase, where there is one.
    descends : bool
        Whether training lowers the watched term, so that a history can be judged by it. What two sides of a game or
        of a contrast pull at has no direction.
    largest : float
        A mean of a term beyond this means nothing, whatever the data: the fit has diverged.
    """

    sharded: tuple[str, ...] = ()
    by_row: bool = False
    additive: bool = False
    descends: ClassVar[bool] = True
    largest: ClassVar[float] = math.inf
    default_phase = "fit"

    def phases(self, model: Any) -> dict[str, Phase]:
        """What a step consists of, in turn: here one phase with everything."""
        return {self.default_phase: Phase([*model.parameters(), *self.parameters()])}

    def begin(self, model: Any, batches: Any, noise: Noise, group: Group) -> None:
        """Make what needs the model's or the batch's size (chains); called once before the first update."""

    def settle(self, model: Any, noise: Noise, steps: int) -> None:
        """Walk persistent chains by so many sweeps under the model as it is, where there are some."""

    def stretch(self, model: Any) -> Stretch | None:
        """How it makes many updates of this model at a time, where it can: here it cannot."""
        return None

    def in_training(self, model: Any, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """`forward` with the layers of model and objective in training.

        They draw from ``layers/<path>`` of the noise by the rows' positions; a forward pass over other rows than the
        batch's opens a `gnomon.nn.context.training` of its own.
        """
        even = bool((batch.weight == 1).all())
        weight = None if even else torch.as_tensor(batch.weight, device=getattr(model, "device", None))
        with training(noise.child("layers").rows(batch.positions), weight, group):
            loss: Loss = self(model, batch, noise=noise, phase=phase, group=group)
        return loss

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """The loss of rows that do not train; its watched term is looked at. Nothing is changed by it.

        Here it is `forward` in the phase ``validation``, without gradients and with the buffers put back.
        """
        with torch.no_grad(), as_found(self):
            loss: Loss = self(model, batch, noise=noise, phase="validation", group=group)
        return loss

    def collect(self, group: Group) -> dict[str, Array]:
        """`state` with the buffers of all processes joined on axis 0."""
        return {name: group.gather(value) if name in self.sharded else value for name, value in self.state().items()}

    def distribute(self, state: Mapping[str, Array], group: Group) -> None:
        """Take over what `collect` joined: every process its own part."""
        self.load({name: v[shard(len(v), group)] if name in self.sharded else v for name, v in state.items()})


@contextmanager
def as_found(*modules: nn.Module) -> Iterator[None]:
    """Put the buffers of modules back, be they changed in place or replaced."""
    owners = [part for module in modules for part in module.modules() if part._buffers]
    before = [(part, name, b, b.clone()) for part in owners for name, b in part._buffers.items() if b is not None]
    try:
        yield
    finally:
        with torch.no_grad():
            for part, name, buffer, values in before:
                buffer.copy_(values)
                if part._buffers[name] is not buffer:
                    setattr(part, name, buffer)


def shard(n: int, group: Group) -> slice:
    """The places of this process among n, in order of rank; sizes differ by one at most."""
    return slice(group.rank * n // group.size, (group.rank + 1) * n // group.size)
