"""Images as grids of vectors: what a decoder attends to, or a head of boxes reads place by place."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gnomon.contracts import Noise
from gnomon.nn.activations import Activation, ReLU
from gnomon.nn.initializers import HeNormal, XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.stages import conv_stages

__all__ = ["ImageGrid", "place_code"]

WAVES = 4
"""Frequencies of the code of a place, along each axis."""


def place_code(rows: int, columns: int) -> torch.Tensor:
    r"""Where the cells of a grid stand, (rows * columns, 2 + 4 * 4), float64, row by row.

    Of a cell's center (v, u), in fractions of the height and the width: v, u, and for k = 1, 2, 4, 8
    :math:`\sin(k \pi v), \cos(k \pi v), \sin(k \pi u), \cos(k \pi u)`: the same for the same place of images of any
    size.

    Examples
    --------
    >>> place_code(2, 1)[:, :2].tolist()
    [[0.25, 0.5], [0.75, 0.5]]
    """
    v, u = ((torch.arange(side, dtype=torch.float64) + 0.5) / side for side in (rows, columns))
    at = torch.stack(torch.meshgrid(v, u, indexing="ij"), -1).reshape(-1, 2)
    angles = at[:, :, None] * (torch.pi * 2.0 ** torch.arange(WAVES, dtype=torch.float64))
    return torch.cat([at, angles.sin().flatten(1), angles.cos().flatten(1)], 1)


class ImageGrid(nn.Module):
    r"""Stages of convolutions, and a vector of each cell of their last maps with the cell's place.

    :math:`h_j = \tanh(W [m_j, p_j] + b)` with the maps m of a cell j, `stride` x `stride` pixels, and its `place_code`;
    the whole is the mean of the h.

    Parameters
    ----------
    image_channels, units : int >= 1
    channels : tuple of int
        Maps of each stage, `gnomon.nn.stages.conv_stages`.
    convolutions : int, default 2
    window : int, default 3
    batch_norm : bool, default True
    activation : Activation, default ReLU()
    dtype : torch.dtype, optional

    Attributes
    ----------
    stride : int
        Rows and columns of pixels to a cell; sides that it does not divide are filled up at the bottom and the right
        with the mean color.

    Examples
    --------
    >>> vectors, whole = ImageGrid(1, 6, channels=(2, 4))(torch.zeros(3, 5, 8, 1))
    >>> vectors.shape, whole.shape
    (torch.Size([3, 12, 6]), torch.Size([3, 6]))
    """

    def __init__(
        self,
        image_channels: int,
        units: int,
        *,
        channels: tuple[int, ...] = (16, 32, 64),
        convolutions: int = 2,
        window: int = 3,
        batch_norm: bool = True,
        activation: Activation | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        unit = activation or ReLU()
        self.units, self.stride, self.gain = units, 2 ** (len(channels) - 1), unit.gain
        self.shift: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("shift", torch.zeros(image_channels, dtype=dtype))
        self.register_buffer("scale", torch.ones(image_channels, dtype=dtype))
        self.stages = conv_stages(
            image_channels, channels, convolutions=convolutions, window=window, unit=unit, norm=batch_norm, dtype=dtype
        )
        self.project = dense(channels[-1] + 2 + 4 * WAVES, units, dtype=dtype)

    def initialize(self, noise: Noise) -> None:
        """Convolutions by He's rule with the gain of their units, the affine map by Xavier's; biases 0."""
        gains = {name: self.gain for name, _ in self.stages.named_modules()}
        initialize(self.stages, HeNormal(), noise.child("stages"), gain=gains)
        initialize(self.project, XavierUniform(), noise.child("project"))

    def cells(self, rows: int, columns: int) -> tuple[int, int]:
        """Rows and columns of the grid of an image."""
        return -(-rows // self.stride), -(-columns // self.stride)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Vectors (n, cells, units), row by row, and (n, units) of the whole of images (n, rows, columns, channels)."""
        rows, columns = x.shape[1:3]
        maps = ((x - self.shift) / self.scale).contiguous().permute(0, 3, 1, 2)
        maps = functional.pad(maps, (0, -columns % self.stride, 0, -rows % self.stride))
        for stage in self.stages:
            maps = stage(maps)
        code = place_code(*maps.shape[2:]).to(maps)
        found = torch.cat([maps.flatten(2).transpose(1, 2), code.expand(len(x), -1, -1)], 2)
        vectors = torch.tanh(self.project(found))
        return vectors, vectors.mean(1)
