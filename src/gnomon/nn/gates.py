"""Channel attention: each channel times a factor that the means of all channels decide."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from gnomon.errors import UserValueError
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.layers import dense

__all__ = ["SqueezeExcitation"]


class SqueezeExcitation(nn.Module):
    r"""y = s x by channel, s = sigmoid(W2 unit(W1 z)), z the mean of each channel over its places.

    Parameters
    ----------
    channels : int >= 1
    reduction : int >= 1, default 16
        W1 leads to channels / reduction units, one at least.
    gate : {"sigmoid", "softmax"}, default "sigmoid"
        Factors between 0 and 1 each, or such that sum to 1, as in some texts.
    unit : Activation, default ReLU()
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        A gate that is neither, or a reduction below 1.

    Notes
    -----
    2 channels^2 / reduction weights and few multiplications: it reads means alone.

    References
    ----------
    Hu, Shen and Sun (2018), equations 2 to 4.

    Examples
    --------
    >>> gate = SqueezeExcitation(4, 2)
    >>> _ = nn.init.zeros_(gate.excite.weight), nn.init.zeros_(gate.excite.bias)
    >>> gate(torch.ones(1, 4, 2, 2)).unique().tolist()
    [0.5]
    """

    def __init__(
        self,
        channels: int,
        reduction: int = 16,
        *,
        gate: Literal["sigmoid", "softmax"] = "sigmoid",
        unit: Activation | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if gate not in ("sigmoid", "softmax"):
            raise UserValueError.must("gate", "be sigmoid or softmax", gate)
        if reduction < 1:
            raise UserValueError.must("reduction", "be at least 1", reduction)
        unit, few = unit or ReLU(), max(1, channels // reduction)
        self.gate = gate
        self.squeeze = dense(channels, few * unit.widening, dtype=dtype)
        self.unit = unit.build(few, dtype)
        self.excite = dense(few, channels, dtype=dtype)

    def factors(self, x: torch.Tensor) -> torch.Tensor:
        """Factors of the channels, shape (n, channels)."""
        scores = self.excite(self.unit(self.squeeze(x.flatten(2).mean(2))))
        return scores.sigmoid() if self.gate == "sigmoid" else scores.softmax(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x of shape (n, channels, ...) with every channel times its factor."""
        factors = self.factors(x)
        return x * factors.reshape(*factors.shape, *(1,) * (x.ndim - 2))

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"gate={self.gate!r}"
