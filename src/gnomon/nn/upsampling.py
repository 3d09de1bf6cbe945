"""Layers that enlarge maps: transposed convolution, and the simplified inverse of max pooling."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserValueError
from gnomon.nn.layers import quiet

__all__ = ["Unpool2d", "transposed_convolution", "transposed_size"]


def transposed_size(n: int, k: int, s: int = 1, p: int = 0, extra: int = 0) -> int:
    """Places of an axis behind a transposed convolution: (n - 1) s - 2 p + k + extra.

    Parameters
    ----------
    n, k, s : int >= 1
        Size of the axis and of the kernel, stride.
    p : int >= 0
        Padding of the convolution that it is the adjoint of, cut off here on each side.
    extra : int in [0, s)
        Places added at the end: s sizes have one convolution's size in common, and this says which is meant.

    Raises
    ------
    UserValueError
        An argument outside its range, or nothing that is left.

    Examples
    --------
    >>> transposed_size(4, 4, 2, 1), transposed_size(4, 4, 2, 1, extra=1)
    (8, 9)
    """
    for name, value, least in (("n", n, 1), ("k", k, 1), ("s", s, 1), ("p", p, 0), ("extra", extra, 0)):
        if value < least:
            raise UserValueError(f"{name} must be at least {least}, got {value}", name)
    if extra >= s:
        raise UserValueError(f"extra must be below the stride {s}, got {extra}", "extra", "enlarge the kernel")
    size = (n - 1) * s - 2 * p + k + extra
    if size < 1:
        raise UserValueError(f"p must leave at least one place, got {p}", "p", "give less padding or a larger kernel")
    return size


def transposed_convolution(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    padding: int = 0,
    extra: int | tuple[int, int] = 0,
    bias: bool = True,
    dtype: torch.dtype | None = None,
) -> nn.ConvTranspose2d:
    r"""torch's layer, all zeros: the adjoint A^T of the convolution A with this kernel, stride and padding.

    It spreads every value of the input over a window of the output, :math:`\langle A x, y \rangle = \langle x, A^T y
    \rangle`. A kernel that is no multiple of the stride covers the places unevenly, which shows as a checkerboard.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Channels.
    kernel, stride, padding : int
    extra : int or (rows, columns), default 0
        Places added at the end of an axis; torch's ``output_padding``.
    bias : bool, default True
    dtype : torch.dtype, optional

    Notes
    -----
    inputs * outputs * kernel^2 weights, that many multiplications per input pixel.

    Examples
    --------
    >>> transposed_convolution(1, 2, 4, stride=2, padding=1)(torch.ones(1, 1, 4, 4)).shape
    torch.Size([1, 2, 8, 8])
    """
    made: nn.ConvTranspose2d = quiet(
        nn.ConvTranspose2d, inputs, outputs, kernel, stride=stride, padding=padding, output_padding=extra, bias=bias,
        dtype=dtype,
    )  # fmt: skip
    return made


class Unpool2d(nn.Module):
    """Every value at the top left of a k x k block of zeros: out[i k, j k] = x[i, j], channel by channel.

    Max pooling over k x k blocks gives x back, as far as x >= 0: a negative value is less than the zeros beside it. It
    undoes max pooling where the maxima stood at the top left and the rest was 0. Source: Dosovitskiy, Springenberg and
    Brox (2015).

    Parameters
    ----------
    k : int >= 1
        Rows and columns of a block.

    Raises
    ------
    UserValueError
        A k below 1.

    Examples
    --------
    >>> Unpool2d(2)(torch.tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]]
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        if k < 1:
            raise UserValueError(f"k must be at least 1, got {k}", "k")
        self.k = k

    def forward(self, x: torch.Tensor, size: tuple[int, int] | None = None) -> torch.Tensor:
        """Maps of k times as many rows and columns.

        Parameters
        ----------
        x : tensor of shape (n, channels, rows, columns)
        size : (rows, columns), optional
            Of the output, where pooling had cut off a rest of fewer than k places.

        Raises
        ------
        UserValueError
            A size that pooling by k does not bring to that of x.
        """
        rows, columns = x.shape[-2:]
        wanted = (rows * self.k, columns * self.k) if size is None else size
        if (wanted[0] // self.k, wanted[1] // self.k) != (rows, columns):
            raise UserValueError(f"size must pool to {rows} x {columns}, got {wanted[0]} x {wanted[1]}", "size")
        blocks = functional.pad(x[..., :, None, :, None], (0, self.k - 1, 0, 0, 0, self.k - 1))
        whole = blocks.reshape(*x.shape[:-2], rows * self.k, columns * self.k)
        return functional.pad(whole, (0, wanted[1] - columns * self.k, 0, wanted[0] - rows * self.k))

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"k={self.k}"
