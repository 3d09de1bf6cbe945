"""Networks that read a sequence: the slot ``encoder`` of systems that read a source token by token.

A reader maps (n, T, inputs) and lengths to a list of vectors (n, T, units), one for each place, and one vector
(n, units) of the whole. Places from a length on are padding: they change neither, and their vectors are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar, Literal

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.nn.convolution import Conv1d
from gnomon.nn.initializers import XavierUniform
from gnomon.nn.positions import sinusoidal_table
from gnomon.nn.recurrent import GRU, Bidirectional
from gnomon.recipes.recipe import Recipe

__all__ = ["ConvolutionReader", "RecurrentReader", "SequenceConvolution", "SequenceReader"]

Pool = Literal["mean", "sum", "max"]


class SequenceConvolution(nn.Module):
    r"""Stacked convolution over a sequence, and pooling of all places.

    :math:`h^0_t = x_t + p_t`, :math:`h^l_t = \tanh(b^l + \sum_j W^l_j h^{l-1}_{t + j})` for j around 0, with zeros
    beyond both ends, so that any length has as many outputs as inputs, shorter ones than the kernel included. The
    whole is the mean, the sum or the largest of :math:`h^L_t` over t; of no place it is 0.

    Parameters
    ----------
    inputs, units : int >= 1
    layers, kernel : int >= 1
        L, and the places that an output looks at.
    pool : {"mean", "sum", "max"}
    places : bool
        Whether sinusoidal positions p are added to the inputs; without them and with a kernel of 1 the sum does not
        know the order.
    dtype : torch.dtype, optional

    Notes
    -----
    O(T kernel units^2) multiplications to a layer, all places at once.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        layers: int,
        kernel: int,
        pool: Pool = "mean",
        places: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        widths = [inputs, *[units] * layers]
        self.units, self.pool, self.places = units, pool, places
        self.layers = nn.ModuleList(Conv1d(a, b, kernel, padding="same", dtype=dtype) for a, b in pairwise(widths))

    def initialize(self, noise: Noise) -> None:
        """Weights uniform by Xavier's rule of a window's inputs and outputs; biases 0."""
        for i, layer in enumerate(self.layers):
            weight: torch.Tensor = layer.weight  # type: ignore[assignment]
            window = weight.new_zeros(weight.shape[2], weight.shape[0] * weight.shape[1])
            XavierUniform().fill(window, noise.child(str(i)))
            with torch.no_grad():
                weight.copy_(window.T.reshape(*weight.shape))
                layer.bias.zero_()  # type: ignore[operator]

    def forward(
        self, x: torch.Tensor, state: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors (n, T, units) of the places and (n, units) of the whole; there is no `state` to begin in."""
        n, t = x.shape[:2]
        if not t:
            return x.new_zeros(n, 0, self.units), x.new_zeros(n, self.units)
        at = torch.arange(t, device=x.device)
        mask = (at < (at.new_full((n,), t) if lengths is None else lengths)[:, None])[..., None]
        x = x + sinusoidal_table(t, x.shape[2]).to(x) if self.places else x
        for layer in self.layers:
            x = torch.tanh(layer(x.masked_fill(~mask, 0.0)))
        x = x.masked_fill(~mask, 0.0)
        return x, self._pooled(x, mask)

    def _pooled(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.pool == "max":
            largest = x.masked_fill(~mask, -torch.inf).amax(1)
            return largest.masked_fill(~mask.any(1), 0.0)
        total = x.sum(1)
        return total if self.pool == "sum" else total / mask.sum(1).clamp(min=1)


@dataclass(frozen=True)
class SequenceReader(Recipe):
    """Base of the recipes of networks that read a sequence."""

    def build(
        self,
        inputs: int,
        units: int,
        *,
        bidirectional: bool = True,
        reset: Literal["after", "before"] = "after",
        dtype: torch.dtype | None = None,
    ) -> GRU | Bidirectional | SequenceConvolution:
        """The network for inputs of this width; the options are those of recurrent layers."""
        raise NotImplementedError


@dataclass(frozen=True)
class RecurrentReader(SequenceReader):
    """A `GRU`, or one in each direction: the whole is its last state."""

    short: ClassVar[str] = "recurrent"

    def build(
        self,
        inputs: int,
        units: int,
        *,
        bidirectional: bool = True,
        reset: Literal["after", "before"] = "after",
        dtype: torch.dtype | None = None,
    ) -> GRU | Bidirectional:
        """`GRU` or `Bidirectional`."""
        ahead, back = (GRU(inputs, units, reset=reset, dtype=dtype) for _ in range(2))
        return Bidirectional(ahead, back) if bidirectional else ahead


@dataclass(frozen=True)
class ConvolutionReader(SequenceReader):
    """Stacked convolution, whose outputs are pooled into one vector of the whole.

    Parameters
    ----------
    layers : int in [1, inf), default 3
        Convolutions; with more of them an output sees farther.
    kernel : int in [1, inf), default 3
        Tokens that an output looks at.
    pool : {"mean", "sum", "max"}, default "mean"
        What of all places the whole is.
    places : bool, default True
        Whether sinusoidal positions are added to the tokens' embeddings.

    References
    ----------
    Kalchbrenner and Blunsom (2013), "Recurrent continuous translation models"; Gehring et al. (2017).
    """

    short: ClassVar[str] = "convolution"
    layers: Annotated[int, "[1, inf)"] = 3
    kernel: Annotated[int, "[1, inf)"] = 3
    pool: Literal["mean", "sum", "max"] = "mean"
    places: bool = True

    def build(
        self,
        inputs: int,
        units: int,
        *,
        bidirectional: bool = True,
        reset: Literal["after", "before"] = "after",
        dtype: torch.dtype | None = None,
    ) -> SequenceConvolution:
        """`SequenceConvolution`."""
        return SequenceConvolution(inputs, units, self.layers, self.kernel, self.pool, self.places, dtype)
