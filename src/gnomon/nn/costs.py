"""What each layer of a network costs: parameters, multiply-adds, numbers that it puts out; nothing is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

__all__ = ["LayerCost", "NetworkCost", "network_cost"]

WHOLE = "(network)"
"""Stands for what a network does outside its layers."""


@dataclass
class LayerCost:
    """A layer, and what one example costs there.

    Parameters
    ----------
    name : str
        Its path in the network.
    kind : str
        Its class.
    shape : tuple of int
        Of what it puts out, without the axis of the examples; () of a layer that was not called.
    parameters : int
        Numbers that are learned, without those of the layers within it and those that an earlier layer shares.
    multiply_adds : int
        Of its matrix products and convolutions.
    activations : int
        Numbers that it puts out and that are kept nowhere else.
    """

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    parameters: int = 0
    multiply_adds: int = 0
    activations: int = 0

    @property
    def counts(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.parameters or self.multiply_adds or self.activations)


@dataclass(frozen=True)
class NetworkCost:
    """The layers of a network in the order in which they act.

    Parameters
    ----------
    layers : tuple of LayerCost
        Those that learn, multiply or put out numbers of their own: no views, no layer that does nothing in prediction.
    input_shape : tuple of int
        Of an example.
    itemsize : int
        Bytes of a number.
    """

    layers: tuple[LayerCost, ...]
    input_shape: tuple[int, ...]
    itemsize: int

    @property
    def parameters(self) -> int:
        """Numbers that are learned."""
        return sum(one.parameters for one in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Of one example, in prediction; with the way back about three times as many."""
        return sum(one.multiply_adds for one in self.layers)

    @property
    def activations(self) -> int:
        """Numbers that all layers put out for one example: what training keeps, about."""
        return sum(one.activations for one in self.layers)

    def grouped(self, most: int) -> list[LayerCost]:
        """The layers, those of one block together where there are more than `most`, in deeper blocks first.

        Parameters
        ----------
        most : int in [1, inf)
        """
        deepest = max((one.name.count(".") + 1 for one in self.layers), default=1)
        found: dict[str, list[LayerCost]] = {}
        for depth in range(deepest, 0, -1):
            found = {}
            for one in self.layers:
                found.setdefault(".".join(one.name.split(".")[:depth]), []).append(one)
            if len(found) <= most:
                break
        return [_together(name, layers) for name, layers in found.items()]

    @property
    def parameter_bytes(self) -> int:
        """Memory of the parameters."""
        return self.parameters * self.itemsize

    @property
    def activation_bytes(self) -> int:
        """Memory of the activations of one example."""
        return self.activations * self.itemsize


def _together(name: str, layers: list[LayerCost]) -> LayerCost:
    if len(layers) == 1:
        return layers[0]
    shape = next((one.shape for one in reversed(layers) if one.shape), ())
    sums = {part: sum(getattr(one, part) for one in layers) for part in ("parameters", "multiply_adds", "activations")}
    return LayerCost(name, f"{len(layers)} layers", shape, **sums)


def network_cost(model: nn.Module, function: Callable[[torch.Tensor], Any], shape: tuple[int, ...]) -> NetworkCost:
    r"""What one example costs in each layer, from shapes alone.

    A convolution of C channels to O with windows of K places takes :math:`K\,C\,O\,P/G` multiply-adds for P places and
    G groups; a dense layer as many as it has weights. Sums, norms, units and poolings are not counted, as in published
    figures.

    Parameters
    ----------
    model : nn.Module
        With its parameters and buffers on torch's ``meta`` device, which has shapes and no numbers.
    function : callable
        Of a batch to what the network answers: ``model.scores``, say.
    shape : tuple of int
        Of an example, as the function takes it.

    Returns
    -------
    NetworkCost

    Notes
    -----
    An output is counted at the layer that made it; reshaped, or handed on by the layer about it, it is counted once.
    Temporary numbers within a layer are not. Cost: one call without arithmetic, some milliseconds.

    Examples
    --------
    >>> with torch.device("meta"):
    ...     model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Flatten(), nn.Linear(64, 10))
    >>> found = network_cost(model, model, (1, 4, 4))
    >>> [(one.kind, one.parameters, one.multiply_adds, one.activations) for one in found.layers]
    [('Conv2d', 40, 576, 64), ('Linear', 650, 640, 10)]
    """
    dtype = next((one.dtype for one in model.parameters() if one.is_floating_point()), torch.float32)
    x = torch.zeros((1, *shape), dtype=dtype, device="meta")
    counter = _Counter(model, x)
    try:
        with torch.no_grad(), counter:
            function(x)
    finally:
        counter.remove()
    called = list(counter.costs.values())
    return NetworkCost(tuple(one for one in called if one.counts), shape, dtype.itemsize)


class _Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches a call: which layer is at work, what is multiplied, what is put out."""

    def __init__(self, model: nn.Module, x: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.costs = {WHOLE: LayerCost(WHOLE, type(model).__name__)}
        self.stack = [WHOLE]
        first = x.untyped_storage()
        self.kept = {first._cdata: first}  # held, so that no other takes the place of one
        self.shared: set[int] = set()
        self.uncalled: dict[str, LayerCost] = {}
        self.hooks: list[Any] = []
        for name, module in model.named_modules():
            own = [one for one in module.parameters(recurse=False) if id(one) not in self.shared]
            self.shared |= {id(one) for one in own}
            learned = sum(one.numel() for one in own)
            if not name:
                self.costs[WHOLE].parameters = learned
                continue
            self.uncalled[name] = LayerCost(name, type(module).__name__, parameters=learned)
            self.hooks.append(module.register_forward_pre_hook(self._begin(name)))
            self.hooks.append(module.register_forward_hook(self._end(name)))

    def _begin(self, name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self.stack.append(name)
            if name in self.uncalled:
                self.costs[name] = self.uncalled.pop(name)

        return hook

    def _end(self, name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            self.stack.pop()
            outputs = output if isinstance(output, tuple | list) else (output,)
            for one in (one for one in outputs if isinstance(one, torch.Tensor)):
                self.costs[name].shape = tuple(one.shape[1:])
                storage = one.untyped_storage()
                if storage._cdata not in self.kept:
                    self.kept[storage._cdata] = storage
                    self.costs[name].activations += one.numel()

        return hook

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:  # two operations, a product and a sum
            self.costs[self.stack[-1]].multiply_adds += formula(*args, **(kwargs or {}), out_val=output) // 2
        return output

    def remove(self) -> None:
        """Take the hooks away; layers that were not called come last."""
        for hook in self.hooks:
            hook.remove()
        self.costs |= self.uncalled
