"""Convolutions whose kernel depends on the place: in tiles that repeat, or one for each place of the output."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.convolution import output_size
from gnomon.nn.pooling import Pair, Sides, sides_of

__all__ = ["LocallyConnected2d", "PlacedKernels", "TiledConv2d"]


class PlacedKernels(nn.Module):
    """Base of convolutions with a grid of kernels; a subclass says which place of the output takes which.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel : int >= 1 or (rows, columns)
    grid : int >= 1 or (rows, columns)
        Kernels along each axis.
    stride, dilation : int >= 1 or (rows, columns), default 1
    padding : int >= 0 or (rows, columns), default 0
        Zeros on each side.
    bias : bool, default True
        Whether each kernel has a bias for each output channel.
    dtype : torch.dtype, optional

    Attributes
    ----------
    weight : (grid rows, grid columns, outputs, inputs, kernel rows, kernel columns), zeros
    bias : (grid rows, grid columns, outputs), zeros, or None
    """

    reads_windows = True

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: Sides,
        grid: Sides,
        *,
        stride: Sides = 1,
        padding: Sides = 0,
        dilation: Sides = 1,
        bias: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = sides_of("kernel", kernel), sides_of("stride", stride)
        self.padding, self.dilation = sides_of("padding", padding, 0), sides_of("dilation", dilation)
        self.grid = self._grid(grid)
        self.weight = nn.Parameter(torch.zeros(*self.grid, outputs, inputs, *self.kernel_size, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(*self.grid, outputs, dtype=dtype)) if bias else None

    def _grid(self, grid: Sides) -> Pair:
        return sides_of("grid", grid)

    @property
    def kernels(self) -> list[torch.Tensor]:
        """Views of the weight, each (outputs, inputs, kernel rows, kernel columns): what initial weights look at."""
        return list(self.weight.detach().flatten(0, 1))

    def output_sizes(self, rows: int, columns: int) -> Pair:
        """Rows and columns of the output.

        Raises
        ------
        UserValueError
            A kernel that fits nowhere.
        """
        sizes = [
            output_size(n, k, s, p, d)
            for n, k, s, p, d in zip(
                (rows, columns), self.kernel_size, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        return sizes[0], sizes[1]

    def extra_repr(self) -> str:
        """Shown by repr."""
        outputs, inputs = self.weight.shape[2:4]
        return f"{inputs}, {outputs}, kernel={self.kernel_size}, grid={self.grid}, stride={self.stride}"


class TiledConv2d(PlacedKernels):
    r"""A convolution that cycles through t x t kernels over the places of its output.

    :math:`Z_{ijk}=b_{i, j \bmod t, k \bmod t}+\sum_{lmn} V_{l, js+m, ks+n} K_{ilmn, j \bmod t, k \bmod t}` with the
    places j, k of the OUTPUT from 0, counted after the stride. One tile is an ordinary convolution; as many as places
    are a locally connected layer. It moves with its input by multiples of t s pixels.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel : int >= 1 or (rows, columns)
    tiles : int >= 1 or (rows, columns)
        Kernels along each axis, t.
    stride, dilation : int >= 1 or (rows, columns), default 1
    padding : int >= 0 or (rows, columns), default 0
    bias : bool, default True
        Whether each tile has a bias for each output channel.
    dtype : torch.dtype, optional

    Attributes
    ----------
    weight : (tile rows, tile columns, outputs, inputs, kernel rows, kernel columns), zeros
    bias : (tile rows, tile columns, outputs), zeros, or None

    Notes
    -----
    t^2 times the parameters of a convolution and as many multiplications: a convolution with stride t s for each
    tile, on its share of the places. Where t does not divide the output's sides, up to t - 1 rows and columns beyond it
    are computed and left out.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), equation 9.12; Le et al. (2010), "Tiled convolutional neural networks".

    Examples
    --------
    >>> layer = TiledConv2d(1, 1, (1, 2), (1, 2), bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]).reshape(1, 2, 1, 1, 1, 2))
    >>> layer(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).reshape(1, 1, 1, 5)).flatten().tolist()
    [1.0, 3.0, 3.0, 5.0]
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: Sides,
        tiles: Sides,
        *,
        stride: Sides = 1,
        padding: Sides = 0,
        dilation: Sides = 1,
        bias: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            inputs, outputs, kernel, tiles, stride=stride, padding=padding, dilation=dilation, bias=bias, dtype=dtype
        )

    def _grid(self, grid: Sides) -> Pair:
        return sides_of("tiles", grid)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs (n, outputs, rows, columns) of maps (n, inputs, rows, columns)."""
        rows, columns = self.output_sizes(*x.shape[2:])
        (down, right), (p, q), (tall, wide) = self.stride, self.padding, self.grid
        step = (tall * down, wide * right)
        # as many places for every tile: zeros behind the last row and column
        more = (-rows % tall * down, -columns % wide * right)
        x = functional.pad(x, (q, q + more[1], p, p + more[0]))
        parts = []
        for i in range(tall):
            for j in range(wide):
                bias = None if self.bias is None else self.bias[i, j]
                begun = x[:, :, i * down :, j * right :]
                parts.append(functional.conv2d(begun, self.weight[i, j], bias, step, 0, self.dilation))
        high, broad = -(-rows // tall), -(-columns // wide)
        tiled = torch.stack([part[:, :, :high, :broad] for part in parts], 2)
        tiled = tiled.reshape(len(x), -1, tall, wide, high, broad).permute(0, 1, 4, 2, 5, 3)
        return tiled.reshape(len(x), -1, high * tall, broad * wide)[:, :, :rows, :columns]


class LocallyConnected2d(PlacedKernels):
    r"""A convolution without sharing: each place of the output has a kernel and a bias of its own.

    :math:`Z_{ijk}=b_{ijk}+\sum_{lmn} V_{l, js+m, ks+n} W_{ijklmn}`. It is for images whose parts stand at known places,
    as eyes and chin do in aligned faces, and takes maps of one size.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel : int >= 1 or (rows, columns)
    size : (rows, columns)
        Of the maps that come in.
    stride, dilation : int >= 1 or (rows, columns), default 1
    padding : int >= 0 or (rows, columns), default 0
    bias : bool, default True
        Whether each place has a bias for each output channel.
    dtype : torch.dtype, optional

    Attributes
    ----------
    weight : (output rows, output columns, outputs, inputs, kernel rows, kernel columns), zeros
    bias : (output rows, output columns, outputs), zeros, or None

    Raises
    ------
    UserValueError
        A kernel that does not fit; in the call maps of another size.

    Notes
    -----
    As many multiplications as a convolution, places times its parameters. The windows are copied: kernel area times the
    input's memory.

    References
    ----------
    Goodfellow, Bengio and Courville (2016), equation 9.9; Taigman et al. (2014).

    Examples
    --------
    >>> layer = LocallyConnected2d(1, 2, 3, (6, 8), stride=2)
    >>> tuple(layer.weight.shape[:2]), layer(torch.zeros(1, 1, 6, 8)).shape
    ((2, 3), torch.Size([1, 2, 2, 3]))
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: Sides,
        size: Pair,
        *,
        stride: Sides = 1,
        padding: Sides = 0,
        dilation: Sides = 1,
        bias: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            inputs, outputs, kernel, size, stride=stride, padding=padding, dilation=dilation, bias=bias, dtype=dtype
        )
        self.size = sides_of("size", size)

    def _grid(self, grid: Sides) -> Pair:
        return self.output_sizes(*sides_of("size", grid))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Outputs (n, outputs, rows, columns) of maps (n, inputs, rows, columns)."""
        if tuple(x.shape[2:]) != self.size:
            (rows, columns), (high, wide) = x.shape[2:], self.size
            what = f"maps of a locally connected layer must be {high} x {wide}, got {rows} x {columns}"
            raise UserValueError(what, type(self).__name__)
        windows = functional.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)
        kernels = self.weight.flatten(0, 1).flatten(2)  # (places, outputs, inputs of a window)
        found = windows.permute(2, 0, 1) @ kernels.transpose(1, 2)
        if self.bias is not None:
            found = found + self.bias.flatten(0, 1)[:, None]
        return found.permute(1, 2, 0).reshape(len(x), -1, *self.grid)
