"""Affine layers some of whose weights are held at 0: what an output may not see, it does not see."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["MaskedLinear", "masked"]


class MaskedLinear(nn.Linear):
    """z = x (W * M)^T + b, M of zeros and ones: `masked` makes it without a draw from the global generator.

    The mask is applied in every pass, so that first values and decay of the weights behind it reach nothing, and their
    gradients are 0. `clear` puts them to 0 too.

    Parameters
    ----------
    inputs, outputs : int >= 1

    Examples
    --------
    >>> layer = masked(2, 1)
    >>> layer.allow(torch.tensor([[True, False]]))
    >>> _ = nn.init.ones_(layer.weight)
    >>> layer(torch.tensor([[1.0, 5.0]])).tolist()
    [[1.0]]
    """

    mask: torch.Tensor

    def __init__(self, inputs: int, outputs: int, **options: Any) -> None:
        super().__init__(inputs, outputs, **options)
        self.register_buffer("mask", torch.ones(outputs, inputs, dtype=torch.bool))

    def allow(self, mask: torch.Tensor) -> None:
        """Take a mask of shape (outputs, inputs), True where an output sees an input."""
        self.mask.copy_(mask)

    def clear(self) -> None:
        """Put the weights behind the mask to 0."""
        with torch.no_grad():
            self.weight *= self.mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs of rows."""
        return functional.linear(x, self.weight * self.mask, self.bias)


def masked(inputs: int, outputs: int, *, bias: bool = True, dtype: torch.dtype | None = None) -> MaskedLinear:
    """A `MaskedLinear` layer of zeros that sees everything."""
    layer = MaskedLinear(inputs, outputs, bias=bias, dtype=dtype, device="meta")
    for name, empty in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter(torch.zeros(empty.shape, dtype=empty.dtype)))
    layer.mask = torch.ones(outputs, inputs, dtype=torch.bool)
    return layer
