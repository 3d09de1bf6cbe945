"""Hidden units that all conditionals of a chain rule share, each of them given one column more than the last."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from gnomon.numeric.threads import in_threads, lanes
from gnomon.systems.autoregressive._nade_kernels import backward, forward

__all__ = ["shared_numbers"]


def shared_numbers(
    order: torch.Tensor, x: torch.Tensor, W: torch.Tensor, c: torch.Tensor, V: torch.Tensor, b: torch.Tensor,
    scale: torch.Tensor | None,
) -> torch.Tensor:  # fmt: skip
    r"""What the conditionals of all columns answer, from hidden units that are given the columns before them.

    .. math:: r_i = b_i + V_i \, \sigma(s_i a_i), \quad a_i = c + \sum_{j \text{ before } i} W_j^\top x_j

    Parameters
    ----------
    order : int64 tensor of shape (d,)
        The column at each place.
    x : tensor of shape (n, d * s)
        s numbers of each column.
    W : tensor of shape (d * s, h)
    c : tensor of shape (h,)
    V : tensor of shape (d, m, h)
    b : tensor of shape (d, m)
    scale : tensor of shape (d,), or None
        s_i, 1 where left out.

    Returns
    -------
    tensor of shape (n, m, d)

    Notes
    -----
    O(n d h (s + m)), and O(n d) memory: the way back finds the hidden units again. On a CPU a compiled loop leaves out
    numbers that are 0, with which neither fields nor hidden units change; elsewhere, and where the gradient by x is
    asked for, a loop over places computes the same.
    """
    given = x.new_empty(0) if scale is None else scale
    rows = x.to(W.dtype)
    compiled = x.device.type == "cpu" and not x.requires_grad
    found: torch.Tensor = (_Compiled if compiled else _Looped).apply(order, rows, W, c, V, b, given)  # type: ignore[no-untyped-call]
    return found


def _array(tensor: torch.Tensor) -> Any:
    return tensor.detach().contiguous().numpy()


class _Compiled(torch.autograd.Function):
    """The kernels of `_nade_kernels`."""

    @staticmethod
    def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*given)
        order, x, W, c, V, b, scale = map(_array, given)
        raw = given[1].new_empty((len(x), *b.T.shape))
        out = raw.numpy()

        def part(rows: slice) -> None:
            forward(order, x, W, c, V, b, scale, out, rows.start, rows.stop)

        in_threads(part, lanes(len(x)), size=x.size * len(c))
        return raw

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        order, x, W, c, V, b, scale = ctx.saved_tensors
        dW, dc, dV, db, dscale = slopes = [torch.zeros_like(one) for one in (W, c, V, b, scale)]
        backward(*map(_array, (order, x, W, c, V, scale, slope)), *(one.numpy() for one in slopes))
        return None, None, dW, dc, dV, db, dscale if len(scale) else None


class _Looped(torch.autograd.Function):
    """The same as a loop over places, on any device."""

    @staticmethod
    def forward(ctx: Any, *given: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*given)
        order, x, W, c, V, b, scale = given
        s = len(W) // len(V)
        field, raw = c.expand(len(x), -1), x.new_empty((len(x), *b.T.shape))
        for i in order.tolist():
            raw[:, :, i] = _gate(field, scale, i) @ V[i].T + b[i]
            field = field + x[:, i * s : i * s + s] @ W[i * s : i * s + s]
        return raw

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        order, x, W, c, V, _, scale = ctx.saved_tensors
        s = len(W) // len(V)
        dx, dW, dV, dscale = (torch.zeros_like(one) for one in (x, W, V, scale))
        field = c + x @ W
        later = torch.zeros_like(field)
        for i in order.flip(0).tolist():
            at = slice(i * s, i * s + s)
            dx[:, at], dW[at] = later @ W[at].T, x[:, at].T @ later
            field = field - x[:, at] @ W[at]
            gate = _gate(field, scale, i)
            dV[i] = slope[:, :, i].T @ gate
            inside = (slope[:, :, i] @ V[i]) * gate * (1 - gate)
            if len(scale):
                dscale[i] = (inside * field).sum()
            later = later + (inside * scale[i] if len(scale) else inside)
        return None, dx, dW, later.sum(0), dV, slope.sum(0).T, dscale if len(scale) else None


def _gate(field: torch.Tensor, scale: torch.Tensor, i: int) -> torch.Tensor:
    return torch.sigmoid(field * scale[i] if len(scale) else field)
