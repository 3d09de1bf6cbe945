"""What a fit by gradient does inside: sizes of updates beside parameters, spread of activations and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from gnomon.contracts import Array
from gnomon.training.chain_watch import ChainWatch
from gnomon.training.partition_watch import PartitionWatch

__all__ = ["EDGES", "Monitor", "Tally", "update_ratio"]

_SIZES = 10.0 ** np.arange(-8, 4.5, 0.5)
EDGES = np.concatenate([-_SIZES[::-1], _SIZES])
"""Of every histogram: half decades on both sides of 0; larger numbers count in the outermost bins."""
NEAR = 0.01
"""A unit within this share of its range of one of its ends is saturated."""
BOUNDS = {nn.Tanh: (-1.0, 1.0), nn.Sigmoid: (0.0, 1.0), nn.Hardtanh: (-1.0, 1.0), nn.Hardsigmoid: (0.0, 1.0)}


class Tally:
    """Numbers counted as they come: moments, the share of zeros, a histogram; as if they had come at once.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.add(np.array([0.0, 1.0]))
    >>> tally.add(np.array([2.0, 5.0]))
    >>> tally.mean, round(tally.std, 4), tally.zero
    (2.0, 1.8708, 0.25)
    """

    def __init__(self) -> None:
        self.count, self.mean, self.zeros = 0, 0.0, 0
        self._spread = 0.0
        self.histogram = np.zeros(len(EDGES) - 1, np.int64)

    def add(self, values: Array) -> None:
        """Count these numbers too; what is not finite is left out, the driver ends such a fit."""
        values = np.asarray(values, np.float64).ravel()
        values = values[np.isfinite(values)]
        if not len(values):
            return
        mean, n = float(values.mean()), self.count + len(values)
        shift = mean - self.mean
        self._spread += float(((values - mean) ** 2).sum()) + shift**2 * self.count * len(values) / n
        self.mean += shift * len(values) / n
        self.count = n
        self.zeros += int((values == 0).sum())
        self.histogram += np.histogram(np.clip(values, EDGES[0], EDGES[-1]), EDGES)[0]

    @property
    def std(self) -> float:
        """Standard deviation, of the numbers as a population."""
        return math.sqrt(self._spread / self.count) if self.count else 0.0

    @property
    def zero(self) -> float:
        """Share of the numbers that are exactly 0."""
        return self.zeros / self.count if self.count else 0.0

    def to_json(self) -> dict[str, Any]:
        """The tally as a JSON object; the bins of `histogram` are those of `EDGES`."""
        return {"mean": self.mean, "std": self.std, "zero": self.zero, "histogram": self.histogram.tolist()}


def update_ratio(before: torch.Tensor, after: torch.Tensor) -> float | None:
    """Size of an update beside its parameters, ``||after - before|| / ||before||``.

    Rows of a matrix in which nothing moved are left out: of an embedding, those that no example of the batch has.

    Parameters
    ----------
    before, after : tensor
        The parameters around one step of an optimizer.

    Returns
    -------
    float or None
        None where the parameters were all 0, beside which nothing has a size.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.5, who quote Bottou (2015): about 1 %.

    Examples
    --------
    >>> update_ratio(torch.tensor([10.0]), torch.tensor([9.9]))  # doctest: +ELLIPSIS
    0.0100...
    """
    moved = after - before
    if before.ndim > 1:
        touched = (moved != 0).flatten(1).any(1)
        if not bool(touched.any()):
            touched[:] = True
        before, moved = before[touched], moved[touched]
    size = float(torch.linalg.vector_norm(before))
    return float(torch.linalg.vector_norm(moved)) / size if size else None


class _Layer:
    """One layer over the updates of an epoch."""

    def __init__(self, kind: type[nn.Module]) -> None:
        self.kind = kind
        self.outputs, self.gradients = Tally(), Tally()
        self.inputs, self.size, self.off, self.saturated = 0, 0.0, 0, 0
        self.on: Array | None = None

    def seen(self, given: torch.Tensor, found: torch.Tensor) -> None:
        """A forward pass through the layer."""
        outputs = _array(found)
        self.outputs.add(outputs)
        if self.kind is nn.ReLU or self.kind in BOUNDS:
            inputs = _array(given)
            self.inputs += inputs.size
            self.size += float(np.abs(inputs).sum())
        if self.kind is nn.ReLU:
            self.off += int((outputs <= 0).sum())
            axes = 1 if outputs.ndim == 4 else outputs.ndim - 1
            on = (outputs > 0).any(tuple(axis for axis in range(outputs.ndim) if axis != axes))
            self.on = on if self.on is None or self.on.shape != on.shape else self.on | on
        if self.kind in BOUNDS:
            low, high = BOUNDS[self.kind]
            margin = NEAR * (high - low)
            self.saturated += int(((outputs < low + margin) | (outputs > high - margin)).sum())

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind.__name__, **self.outputs.to_json()}
        if self.inputs:
            found["input_size"] = self.size / self.inputs
        if self.on is not None and self.inputs:
            found |= {"off": self.off / self.inputs, "units": len(self.on), "dead": int((~self.on).sum())}
        if self.kind in BOUNDS and self.inputs:
            found["saturated"] = self.saturated / self.inputs
        if self.gradients.count:
            found["gradient"] = self.gradients.to_json()
        return found


class _Moves:
    """The updates of one parameter over an epoch; `from_zero` counts those beside which it was all 0."""

    def __init__(self) -> None:
        self.ratios: list[float] = []
        self.gradients: list[float] = []
        self.size, self.from_zero = 0.0, 0

    def to_json(self) -> dict[str, Any]:
        norms = [one for one in self.gradients if math.isfinite(one)]
        return {
            "size": self.size,
            "ratio": float(np.mean(self.ratios)) if self.ratios else None,
            "largest_ratio": max(self.ratios, default=None),
            "from_zero": self.from_zero,
            "gradient_norm": math.sqrt(float(np.mean(np.square(norms)))) if norms else 0.0,
        }


class Monitor:
    """Counts what goes through the layers of a network, and how far each update moves its parameters.

    Nothing that is learned depends on it: it reads copies. In several processes it sees the rows of its own.

    Parameters
    ----------
    model : nn.Module
        Its layers without layers of their own are counted where they give one tensor of real numbers.
    objective : nn.Module, optional
        Whose persistent chains are followed, where it has some (`gnomon.training.chain_watch`), and log Z where these
        have temperatures (`gnomon.training.partition_watch`).

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> monitor = Monitor(net)
    >>> with monitor.watching():
    ...     net(torch.ones(4, 2)).sum().backward()
    >>> found = monitor.taken()
    >>> sum(found["layers"]["1"]["histogram"]), found["layers"]["1"]["units"]
    (12, 3)
    """

    def __init__(self, model: nn.Module, objective: nn.Module | None = None) -> None:
        self.model = model
        self.chains = None if objective is None else ChainWatch(objective)
        self.partition = None if objective is None else PartitionWatch(objective)
        self._layers: dict[str, _Layer] = {}
        self._moves: dict[str, _Moves] = {}
        self.updates = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the forward passes within the block, and the gradients that come back to them later."""
        handles = [
            layer.register_forward_hook(self._hook(name, type(layer)))
            for name, layer in self.model.named_modules()
            if not next(layer.children(), None)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str, kind: type[nn.Module]) -> Callable[..., None]:
        def forward(_: nn.Module, given: tuple[Any, ...], found: Any) -> None:
            if not isinstance(found, torch.Tensor) or not found.is_floating_point() or not found.ndim:
                return
            layer = self._layers.setdefault(name, _Layer(kind))
            layer.seen(given[0] if given else found, found)
            if found.requires_grad:
                register: Any = found.register_hook  # untyped in torch
                register(lambda gradient: layer.gradients.add(_array(gradient)))

        return forward

    @contextmanager
    def moving(self, parameters: Mapping[str, nn.Parameter]) -> Iterator[None]:
        """Measure the step that an optimizer takes within the block; one that fails is not counted."""
        before = {name: one.detach().clone() for name, one in parameters.items()}
        norms = {
            name: float(torch.linalg.vector_norm(one.grad)) for name, one in parameters.items() if one.grad is not None
        }
        followed = None if self.partition is None else self.partition.before(self.model)
        yield
        self.updates += 1
        if self.partition is not None and followed is not None:
            self.partition.after(self.model, followed)
        if self.chains is not None:
            self.chains.seen()
        for name, norm in norms.items():
            moves = self._moves.setdefault(name, _Moves())
            after = parameters[name].detach()
            ratio = update_ratio(before[name], after)
            if ratio is None:
                moves.from_zero += 1
            elif math.isfinite(ratio):
                moves.ratios.append(ratio)
            moves.gradients.append(norm)
            moves.size = float(torch.linalg.vector_norm(after))

    def taken(self, rows: Any = None) -> dict[str, Any]:
        """What was counted since the last call, as a JSON object; counting begins anew.

        Parameters
        ----------
        rows : array, optional
            Rows whose energies are set beside those of the chains.
        """
        found: dict[str, Any] = {
            "updates": self.updates,
            "parameters": {name: one.to_json() for name, one in self._moves.items()},
            "layers": {name: one.to_json() for name, one in self._layers.items()},
        }
        self._layers, self._moves, self.updates = {}, {}, 0
        chains = None if self.chains is None or rows is None else self.chains.taken(self.model, rows)
        log_z = None if self.partition is None else self.partition.taken()
        return found | ({} if chains is None else {"chains": chains}) | ({} if log_z is None else {"log_z": log_z})


def _array(values: torch.Tensor) -> Array:
    return values.detach().cpu().double().numpy()
