"""Units that torch lacks: absolute value, maxout, threshold."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from gnomon.errors import UserValueError

__all__ = ["AbsoluteValue", "Max", "StepUnit"]


class AbsoluteValue(nn.Module):
    """|x|, with derivative sign(x): 0 at 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The absolute value of every element."""
        return x.abs()


class Max(nn.Module):
    """Maxout: the largest of each k neighbors on an axis.

    Parameters
    ----------
    pieces : int >= 1
        k; features i * k to i * k + k - 1 are the pieces of output i.
    axis : int, default 1
        The axis of the features.

    Notes
    -----
    The gradient goes to the largest piece alone, among equal ones to the first; a NaN piece makes the output NaN.

    Examples
    --------
    >>> Max(2)(torch.tensor([[1.0, 3.0, -2.0, -5.0]]))
    tensor([[ 3., -2.]])
    """

    def __init__(self, pieces: int, axis: int = 1) -> None:
        super().__init__()
        self.pieces, self.axis = pieces, axis

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs; the axis becomes k times shorter.

        Raises
        ------
        UserValueError
            The axis does not divide into groups of k.
        """
        features = x.shape[self.axis]
        if features % self.pieces:
            raise UserValueError(f"maxout needs a multiple of {self.pieces} features, got {features}", "maxout")
        axis = self.axis % x.ndim
        return (
            x.reshape(*x.shape[:axis], features // self.pieces, self.pieces, *x.shape[axis + 1 :]).max(axis + 1).values
        )

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"pieces={self.pieces}, axis={self.axis}"


class StepUnit(nn.Module):
    """1 where x > 0, else 0.

    Parameters
    ----------
    straight_through : bool, default False
        Whether the gradient passes where \\|x\\| <= 1, as through hard tanh; else it is 0.
    """

    def __init__(self, straight_through: bool = False) -> None:
        super().__init__()
        self.straight_through = straight_through

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Zeros and ones; NaN stays NaN."""
        y: torch.Tensor = _Step.apply(x, self.straight_through)  # type: ignore[no-untyped-call]
        return y


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor, straight_through: bool) -> torch.Tensor:
        context.save_for_backward(x if straight_through else None)
        return torch.where(x.isnan(), x, (x > 0).to(x.dtype))

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = context.saved_tensors
        (gradient,) = gradients
        return (torch.zeros_like(gradient) if x is None else gradient * (x.abs() <= 1)), None
