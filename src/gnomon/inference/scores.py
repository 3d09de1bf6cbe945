"""Scores, the gradients of log p by the row, and their derivatives, of any energy that torch can differentiate."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch

from gnomon.contracts import Array, HasScores, supports
from gnomon.errors import UserTypeError, UserValueError
from gnomon.inference.arrays import convert
from gnomon.numeric.tensors import is_tensor

__all__ = ["AutomaticScores", "scores_of"]


def scores_of(model: Any, x: Array) -> Any:
    """The scores of rows: in closed form where the model has it (`gnomon.contracts.HasScores`), else by torch.

    Parameters
    ----------
    model : machine or torch module
        With ``scores``, or an energy of its own over real rows: ``energy(x)`` in nats for each row.
    x : array or tensor of shape (n, d)

    Returns
    -------
    object
        With ``value``, ``curvature`` and ``gradient``, see `gnomon.contracts.HasScores`.

    Raises
    ------
    UserTypeError, UserValueError
        A model without an energy, or one whose energy has no second derivative.

    Examples
    --------
    >>> class Bell(torch.nn.Module):
    ...     def energy(self, x):
    ...         return (x * x).sum(-1)
    >>> found = scores_of(Bell(), torch.tensor([[1.0, 2.0]]))
    >>> found.value.tolist(), found.curvature.tolist()
    ([[-2.0, -4.0]], [[-2.0, -2.0]])
    """
    return model.scores(x) if supports(model, HasScores) else AutomaticScores(model, x)


class AutomaticScores:
    """Scores by automatic differentiation: one backward pass for the value, one more for each column's curvature.

    The energy must be smooth: of one made of straight pieces, as with ReLU units, the curvature is 0 almost everywhere,
    which says nothing about the kinks.

    Parameters
    ----------
    model : torch module
        With ``energy``, or ``marginal_energy`` and the layer ``observed``.
    x : array or tensor of shape (n, d)

    Raises
    ------
    UserTypeError
        A model without an energy.
    UserValueError
        Where the curvature is asked for: an energy that has none at any of the rows.

    Notes
    -----
    Cost O(d) energies for the curvature, O(1) for the value. Answers are in the kind of x, without gradients.
    """

    def __init__(self, model: Any, x: Array) -> None:
        if not hasattr(model, "energy"):
            what = f"the score of {type(model).__name__} needs an energy in closed form"
            raise UserTypeError(what, "model", "use a model whose hidden layers are independent given the data")
        self.model, self.x = model, x
        self.names = [name for name, _ in model.named_parameters()]
        first = next(iter(model.parameters()), torch.zeros(0))
        self._at = torch.as_tensor(x, device=first.device).detach().clone().requires_grad_(True)

    @cached_property
    def _value(self) -> torch.Tensor:
        with torch.enable_grad():
            return self._derivative(-self.model.energy(self._at))

    @cached_property
    def _curvature(self) -> torch.Tensor:
        with torch.enable_grad():
            columns = [self._derivative(self._value[:, j])[:, j] for j in range(self._at.shape[1])]
            found = torch.stack(columns, 1)
        if not bool(found.any()):
            what = "scores need a curved energy, got one that is made of straight pieces"
            raise UserValueError(what, "model", "use smooth activations, such as softplus or tanh")
        return found

    def _derivative(self, values: torch.Tensor) -> torch.Tensor:
        """Of their sum by the rows; 0 where they do not depend on them."""
        if not values.requires_grad:
            return torch.zeros_like(self._at)
        return torch.autograd.grad(values.sum(), self._at, create_graph=True, materialize_grads=True)[0]

    @property
    def value(self) -> Array:
        """d log p(x) / dx_j, shape (n, d)."""
        return self._answer(self._value)

    @property
    def curvature(self) -> Array:
        """d^2 log p(x) / dx_j^2, shape (n, d)."""
        return self._answer(self._curvature)

    def gradient(self, by_value: Array, by_curvature: Array | None = None) -> dict[str, Array]:
        """Sums of by_value * d value + by_curvature * d curvature by parameter, one backward pass."""
        with torch.enable_grad():
            total = (torch.as_tensor(by_value) * self._value).sum()
            if by_curvature is not None:
                total = total + (torch.as_tensor(by_curvature) * self._curvature).sum()
            learned = [self.model.get_parameter(name) for name in self.names]
            wanted = [one for one in learned if one.requires_grad]
            slopes = iter(torch.autograd.grad(total, wanted, retain_graph=True, materialize_grads=True))
        found = [next(slopes) if one.requires_grad else torch.zeros_like(one) for one in learned]
        return {name: self._answer(value) for name, value in zip(self.names, found, strict=True)}

    def _answer(self, found: torch.Tensor) -> Array:
        found = found.detach()
        return found if is_tensor(self.x) else convert(found.cpu(), self.x)
