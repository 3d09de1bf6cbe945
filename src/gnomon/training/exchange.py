"""The only place that touches gradients: from a Loss to ``p.grad``, reduced over the processes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numba
import numpy as np
import torch

from gnomon.contracts import Array, Group
from gnomon.objectives.base import Loss
from gnomon.training.clipping import clip_by_norm, clip_by_value, global_norm
from gnomon.training.context import current

__all__ = ["Exchange"]


class Exchange:
    """One bucket: the weights W_k and all gradients of a phase are summed over the processes at `finish`.

    Parameters
    ----------
    group : Group
    """

    def __init__(self, group: Group) -> None:
        self.group = group

    def prepare(self, model: torch.nn.Module, objective: torch.nn.Module) -> None:
        """Take note of the parameters: the model's by their names, the objective's with ``objective/`` before them."""
        self.named = dict(model.named_parameters())
        self.named |= {f"objective/{name}": parameter for name, parameter in objective.named_parameters()}
        self.learned = sum(parameter.requires_grad for parameter in self.named.values())
        self.arrays: list[Any] = []
        here = all(parameter.device.type == "cpu" for parameter in self.named.values())
        self.compiled = here and current().backend != "torch"

    def choose(self, parameters: Sequence[torch.nn.Parameter]) -> dict[str, torch.nn.Parameter]:
        """The parameters of a phase by name, without those that are not to be learned.

        Raises
        ------
        TypeError
            A parameter of neither the model nor the objective.
        """
        wanted = {id(parameter): parameter.requires_grad for parameter in parameters}
        chosen = {name: parameter for name, parameter in self.named.items() if id(parameter) in wanted}
        if len(chosen) < len(wanted):
            raise TypeError("a phase names parameters that are neither the model's nor the objective's")
        return {name: parameter for name, parameter in chosen.items() if parameter.requires_grad}

    def backward(self, loss: Loss, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        """Gradients of the total into these parameters, as this process's share; replaces what was there.

        Parameters
        ----------
        loss : Loss
        parameters : mapping of str to nn.Parameter
            What `choose` gave; no gradient of others is computed or changed.
        """
        weights = {name: term.weight for name, term in loss.terms.items()}
        if self.group.size > 1:
            weights = self.group.sum(weights)
        if loss.gradients is not None:
            self.divisor = weights[loss.per or next(iter(weights))]
            self._place(loss.gradients, parameters)
            return
        self.divisor = 1.0
        loss.backward(weights, self._cleared(parameters))
        self._take_up(parameters)

    def accumulate(self, pieces: Iterable[Loss], parameters: Mapping[str, torch.nn.Parameter]) -> Loss:
        """As `backward`, of a loss whose rows come piece by piece: of a piece nothing stays but its gradient.

        Parameters
        ----------
        pieces : iterable of Loss
            Of an objective that is ``additive``; each is computed when its turn comes.
        parameters : mapping of str to nn.Parameter
            As of `backward`.

        Returns
        -------
        Loss
            Of all rows, to be recorded.
        """
        inputs = self._cleared(parameters)
        whole: Loss | None = None
        for loss in pieces:
            loss.derive(dict.fromkeys(loss.terms, 1.0), inputs)  # sums: what divides them is known at the end
            whole = loss if whole is None else whole.join(loss)
            learned = next(iter(loss.learned))
        if whole is None:
            raise TypeError("there must be at least one piece")
        weights = self.group.sum({name: term.weight for name, term in whole.terms.items()})
        self.divisor = weights[learned] or 1.0
        whole.add_slopes({name: weight / self.divisor for name, weight in weights.items()})
        self._take_up(parameters)
        return whole

    def _cleared(self, parameters: Mapping[str, torch.nn.Parameter]) -> list[torch.nn.Parameter] | None:
        """The parameters without gradients; None where they are all that are learned."""
        for parameter in parameters.values():
            parameter.grad = None
        return None if len(parameters) == self.learned else list(parameters.values())

    def _take_up(self, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        self.arrays = []
        for parameter in parameters.values():
            if parameter.grad is not None:
                parameter.grad = parameter.grad.contiguous()
                self.arrays.append(parameter.grad.numpy() if self.compiled else parameter.grad)

    def _place(self, gradients: Mapping[str, Array], parameters: Mapping[str, torch.nn.Parameter]) -> None:
        self.arrays = []
        for name, parameter in parameters.items():
            if name not in gradients:
                parameter.grad = None
                continue
            if self.compiled:
                array = np.ascontiguousarray(gradients[name])
                parameter.grad = torch.from_numpy(array)
                self.arrays.append(array)
            else:
                parameter.grad = torch.as_tensor(gradients[name], dtype=parameter.dtype, device=parameter.device)
                self.arrays.append(parameter.grad)

    def finish(self, clip: float | None = None, clip_value: float | None = None) -> float:
        """Sum the gradients over the processes, divide closed forms by their weight; the norm of the result.

        Parameters
        ----------
        clip : float, optional
            Longer gradients are shortened to this norm (Pascanu, Mikolov and Bengio 2013); what is returned is the
            norm before.
        clip_value : float, optional
            Before that every component is limited to [-clip_value, clip_value].
        """
        if self.group.size > 1:
            for array in self.arrays:
                array[...] = self.group.sum(array)
        norm = self._scale(1.0 / self.divisor if self.divisor else 0.0)
        if not math.isfinite(norm):
            return norm  # the driver ends the fit
        if clip_value is not None:
            clip_by_value(self.arrays, -clip_value, clip_value)
        if clip is not None:
            clip_by_norm(self.arrays, clip, norm if clip_value is None else None)
        return norm

    def release(self, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        """Let go of the gradients, so that they take no room beside what the next pass forward keeps."""
        self.arrays = []
        for parameter in parameters.values():
            parameter.grad = None

    def _scale(self, scale: float) -> float:
        """Multiply by a factor and take the norm, in one pass where that is compiled."""
        if self.compiled:
            return math.sqrt(sum(_scale_and_square(array.reshape(-1), scale) for array in self.arrays))
        if scale != 1.0 and self.arrays:
            torch._foreach_mul_(self.arrays, scale)
        return global_norm(self.arrays)

    def state(self) -> Mapping[str, Array]:
        """Nothing is kept between updates."""
        return {}


@numba.njit(cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _scale_and_square(values: np.ndarray, scale: float) -> float:
    """Scale in place and return the sum of squares, in one pass whose sums may be reordered into vector registers."""
    factor = values.dtype.type(scale)
    total = values.dtype.type(0)
    for i in range(len(values)):
        values[i] *= factor
        total += values[i] * values[i]
    return total
