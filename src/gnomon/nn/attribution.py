"""What in an image a score rests on: gradients of pixels, and of feature maps (Grad-CAM)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["grad_cam", "input_gradient"]

Scores = Callable[[torch.Tensor], torch.Tensor]


def input_gradient(scores: Scores, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    r"""Derivatives of one score of each example by its input, :math:`\partial s_c / \partial x`.

    Parameters
    ----------
    scores : callable
        Of a batch (n, ...) to scores (n, n_classes); no example may act on another.
    x : tensor of shape (n, ...)
    classes : int64 tensor of shape (n,)
        Whose score is looked at.

    Returns
    -------
    tensor of the shape of x

    References
    ----------
    Simonyan, Vedaldi and Zisserman (2014).

    Examples
    --------
    >>> weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> input_gradient(lambda x: x @ weight.T, torch.zeros(1, 2), torch.tensor([1])).tolist()
    [[3.0, 4.0]]
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(_chosen(scores(x), classes), x)[0]


def grad_cam(
    scores: Scores, layer: nn.Module, x: torch.Tensor, classes: torch.Tensor, size: tuple[int, int] | None = None
) -> torch.Tensor:
    r"""Where a class is seen: feature maps weighed by what they are worth to its score.

    :math:`L=\max\bigl(0,\sum_k\alpha_k A_k\bigr)` with :math:`\alpha_k` the mean of :math:`\partial s_c/\partial A_k`
    over the places of map k.

    Parameters
    ----------
    scores : callable
        Of a batch to scores (n, n_classes); calls `layer` once.
    layer : nn.Module
        Whose output are the maps A, of shape (n, maps, rows, columns), or a pair that shares them, see `Halves`.
    x : tensor of shape (n, ...)
    classes : int64 tensor of shape (n,)
    size : (rows, columns), optional
        To which the result is brought by bilinear interpolation; that of the maps where left out.

    Returns
    -------
    tensor of shape (n, rows, columns)
        At least 0, in units of the score.

    References
    ----------
    Selvaraju et al. (2017), equations 1 and 2. Behind the last maps a mean over places and a dense layer make it the
    class activation map of Zhou et al. (2016), divided by the number of places and cut at 0.

    Examples
    --------
    >>> layer = nn.Identity()
    >>> scores = lambda x: layer(x).mean((2, 3))
    >>> grad_cam(scores, layer, torch.tensor([[[[4.0, -8.0]]]]), torch.tensor([0])).tolist()
    [[[2.0, 0.0]]]
    """
    seen: list[torch.Tensor] = []

    def keep(_: nn.Module, __: object, output: torch.Tensor | tuple[torch.Tensor, torch.Tensor]) -> Any:
        parts = output if isinstance(output, tuple) else (output,)
        seen[:] = [one.detach().requires_grad_() for one in parts]
        return tuple(seen) if len(seen) > 1 else seen[0]

    hook = layer.register_forward_hook(keep)
    try:
        with torch.enable_grad():
            total = _chosen(scores(x), classes)
            gradients = torch.autograd.grad(total, seen)
    finally:
        hook.remove()
    parts = [
        (gradient.mean((2, 3), keepdim=True) * maps.detach()).sum(1).to(x.device)
        for gradient, maps in zip(gradients, seen, strict=True)
    ]
    found = torch.stack(parts).sum(0).relu()
    if size is None or tuple(found.shape[1:]) == size:
        return found
    return functional.interpolate(found[:, None], size, mode="bilinear", align_corners=False)[:, 0]


def _chosen(scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """The sum of one score of each example."""
    return scores.gather(1, classes[:, None]).sum()
