"""Affine layers: torch's without a draw from the global generator, their rules, and the reduced-parameter one.

One storage order: weights are (outputs, inputs), as torch has them, so a layer is z = x W^T + b on rows x. Texts that
write z = x W store W transposed; `from_columns` converts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from gnomon.errors import UserValueError

__all__ = ["PHM", "affine_backward", "dense", "from_columns", "merge_affine", "quiet"]

M = TypeVar("M", bound=nn.Module)


def quiet(layer: Callable[..., M], *arguments: Any, **options: Any) -> M:
    """A torch layer with every parameter 0, made without touching the global random generator.

    torch's constructors draw their initial weights from the global generator; here `gnomon.nn.initializers.initialize`
    gives the values. Only for layers whose parameters are all weights and biases: linear, convolution.

    Parameters
    ----------
    layer : class of nn.Linear, nn.Conv2d ...
    arguments, options
        Of its constructor.

    Examples
    --------
    >>> quiet(nn.Conv2d, 1, 2, 3).weight.abs().sum().item()
    0.0
    """
    module = layer(*arguments, device="meta", **options)  # skip_init does the same, but loads a third of a second
    for part in module.modules():
        for name, empty in part.named_parameters(recurse=False):
            setattr(part, name, nn.Parameter(torch.zeros(empty.shape, dtype=empty.dtype)))
    return module


def dense(inputs: int, outputs: int, *, bias: bool = True, dtype: torch.dtype | None = None) -> nn.Linear:
    """A fully connected layer z = x W^T + b, W of shape (outputs, inputs), all zeros.

    Parameters
    ----------
    inputs, outputs : int >= 1
    bias : bool, default True
    dtype : torch.dtype, optional

    Notes
    -----
    outputs * (inputs + 1) parameters; as many multiplications per row.
    """
    return quiet(nn.Linear, inputs, outputs, bias=bias, dtype=dtype)


def from_columns(weight: torch.Tensor, bias: torch.Tensor | None = None) -> nn.Linear:
    """The layer of z = x W + b with W of shape (inputs, outputs), as many texts store it.

    Parameters
    ----------
    weight : tensor of shape (inputs, outputs)
    bias : tensor of shape (outputs,), optional
    """
    layer = dense(*weight.shape, bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight.T)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def affine_backward(
    x: torch.Tensor, weight: torch.Tensor, gradient: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of a loss through z = x W^T + b, given D = dL/dz.

    dL/dx = D W, dL/dW = D^T x, dL/db = sum of the rows of D: sums over rows; a mean over n rows is already in D.

    Parameters
    ----------
    x : tensor of shape (n, inputs)
    weight : tensor of shape (outputs, inputs)
    gradient : tensor of shape (n, outputs)

    Returns
    -------
    tensors of shapes (n, inputs), (outputs, inputs), (outputs,)
        New tensors: nothing is changed in place.

    Examples
    --------
    >>> x, w, d = torch.ones(2, 3), torch.ones(1, 3), torch.tensor([[1.0], [2.0]])
    >>> [g.tolist() for g in affine_backward(x, w, d)]
    [[[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]], [[3.0, 3.0, 3.0]], [3.0]]
    """
    return gradient @ weight, gradient.T @ x, gradient.sum(0)


def merge_affine(first: nn.Linear, second: nn.Linear) -> nn.Linear:
    """The one layer that two affine layers without an activation between them amount to.

    W = W2 W1 and b = W2 b1 + b2 in the order (outputs, inputs); with W stored (inputs, outputs) it reads W1 W2.

    Raises
    ------
    UserValueError
        The second does not take as many inputs as the first has outputs.
    """
    if first.out_features != second.in_features:
        raise UserValueError(
            f"the second layer must take {first.out_features} inputs, got {second.in_features}",
            "merge_affine",
            "give layers that follow each other",
        )
    biases: list[torch.Tensor | None] = [first.bias, second.bias]
    bias = any(one is not None for one in biases)
    merged = dense(first.in_features, second.out_features, bias=bias, dtype=first.weight.dtype)
    with torch.no_grad():
        merged.weight.copy_(second.weight @ first.weight)
        if biases[0] is not None:
            merged.bias.add_(second.weight @ biases[0])
        if biases[1] is not None:
            merged.bias.add_(biases[1])
    return merged


class PHM(nn.Module):
    r"""A dense layer of about 1/n of the parameters: W = sum_{i=1}^n A_i (x) S_i, Kronecker products.

    A_i is n x n, S_i is (outputs / n) x (inputs / n), so there are n^3 + inputs * outputs / n weights in place of
    inputs * outputs. With n = 4 and the matrices of the Hamilton product it is a quaternion layer.

    Parameters
    ----------
    inputs, outputs : int >= 1
        Multiples of n.
    n : int >= 1
    bias : bool, default True
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        n does not divide both sizes.

    Notes
    -----
    W is never formed: a row costs inputs * (outputs + n^2) multiplications and n * inputs numbers of memory.
    Source: Zhang et al. (2021), Beyond fully-connected layers with quaternions.

    Examples
    --------
    >>> sum(p.numel() for p in PHM(8, 8, 2, bias=False).parameters())
    40
    """

    def __init__(
        self, inputs: int, outputs: int, n: int, *, bias: bool = True, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        if n < 1:
            raise UserValueError.must("n", "be at least 1", n)
        for name, size in (("inputs", inputs), ("outputs", outputs)):
            if size % n:
                raise UserValueError(f"{name} must be a multiple of {n}, got {size}", name)
        self.rules = nn.Parameter(torch.zeros(n, n, n, dtype=dtype))
        self.parts = nn.Parameter(torch.zeros(n, outputs // n, inputs // n, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(outputs, dtype=dtype)) if bias else None

    def weight(self) -> torch.Tensor:
        """W, (outputs, inputs), formed: for looking at, not for use."""
        rows = torch.einsum("iab,ipq->apbq", self.rules, self.parts)
        return rows.reshape(rows.shape[0] * rows.shape[1], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x W^T + b for x of shape (..., inputs)."""
        n, _, width = self.parts.shape
        mixed = torch.einsum("iab,...bq->...aiq", self.rules, x.reshape(*x.shape[:-1], n, width))
        z = torch.einsum("ipq,...aiq->...ap", self.parts, mixed).flatten(-2)
        return z if self.bias is None else z + self.bias
