"""Batch normalization over all processes: the statistics are those of the global batch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from gnomon.errors import UserTypeError, UserValueError
from gnomon.nn.context import ContextLayer, current, training

__all__ = ["BatchNorm", "fold"]


class BatchNorm(ContextLayer):
    r"""(x - mean) / sqrt(variance + epsilon) * gain + shift, for every feature.

    In training mean and variance (divisor n) are those of the global batch, weighted as the rows are, and the running
    ones move towards them: running <- (1 - momentum) * running + momentum * new, the new variance with divisor n - 1,
    as in torch. In prediction the running ones are used, so that a row's output does not depend on the others. Whether
    it is training is said by `gnomon.nn.context.training` and by nothing else; weights and processes are those of it.
    A norm that is ``frozen`` uses the running ones in training too, and keeps them. Positions that a mask leaves out,
    such as the ends of shorter sequences, have no part in the statistics.

    Parameters
    ----------
    features : int >= 1
        On axis 1; further axes (places in an image) count as rows.
    momentum : float in (0, 1], default 0.1
        Weight of the NEW value, as in torch; texts that give the weight eta of the old one mean 1 - eta.
    epsilon : float in (0, inf), default 1e-5
    dtype : torch.dtype, optional

    Raises
    ------
    UserValueError
        In training, where the batch of all processes has one value per feature; a mask of another shape.

    Notes
    -----
    With weights w the divisor n - 1 is W - sum(w^2) / W with W = sum(w): n - 1 for equal weights of any size. Where all
    weight is on one of several values there is no spread: the output is the shift, and the running variance stays. Fits
    add a last batch of one row to the batch before it. Two sums over the processes per call, of features numbers each.

    References
    ----------
    Ioffe and Szegedy (2015), "Batch normalization", algorithm 1.

    Examples
    --------
    >>> from gnomon.nn.context import training
    >>> from gnomon.numeric.noise import Noise
    >>> with training(Noise(0, "fit")):
    ...     BatchNorm(1)(torch.tensor([[1.0], [3.0]])).tolist()
    [[-0.9999949932098389], [0.9999949932098389]]
    """

    def __init__(
        self, features: int, momentum: float = 0.1, epsilon: float = 1e-5, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.gain = nn.Parameter(torch.ones(features, dtype=dtype))
        self.shift = nn.Parameter(torch.zeros(features, dtype=dtype))
        self.running_mean: torch.Tensor
        self.running_var: torch.Tensor
        self.register_buffer("running_mean", torch.zeros(features, dtype=dtype))
        self.register_buffer("running_var", torch.ones(features, dtype=dtype))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Normalized values, of the shape of x: this process's part of the global batch, which may be empty.

        Parameters
        ----------
        x : tensor of shape (n, features, ...)
        mask : tensor of bool of shape (n, ...), optional
            True where a value counts: one for all features of a row or place. What is left out comes out as 0.
        """
        if mask is not None and mask.shape != (len(x), *x.shape[2:]):
            wanted = (len(x), *x.shape[2:])
            raise UserValueError.must("mask", f"have shape {wanted}", tuple(mask.shape))
        now = current()
        if now is None or self.frozen:
            y = functional.batch_norm(
                x, self.running_mean, self.running_var, self.gain, self.shift, False, 0.0, self.epsilon
            )
            return y if mask is None else torch.where(mask.unsqueeze(1), y, y.new_zeros(()))
        alone = now.group is None or now.group.size == 1
        if alone and now.weight is None and mask is None and x.numel() > x.shape[1]:
            mean, variance = self.running_mean, self.running_var
            if now.again:  # copies: both passes must save as many tensors
                mean, variance = mean.clone(), variance.clone()
            return functional.batch_norm(x, mean, variance, self.gain, self.shift, True, self.momentum, self.epsilon)
        return self._over_processes(x, mask, now)

    def _over_processes(self, x: torch.Tensor, mask: torch.Tensor | None, now: training) -> torch.Tensor:
        weight, group = now.weight, now.group
        total_of: Callable[[Any], Any] = group.sum if group is not None else lambda tree: tree
        rows = x.movedim(1, -1)
        kept = None if mask is None else mask.reshape(-1, 1)
        flat = rows.reshape(-1, x.shape[1])
        if kept is not None:  # what is left out may hold anything, NaN among it
            flat = torch.where(kept, flat, flat.new_zeros(()))
        each = x.new_ones(len(x)) if weight is None else weight.to(x.dtype)
        each = each.repeat_interleave(flat.shape[0] // max(1, len(x)))[:, None]
        each = each if kept is None else each * kept
        count = x.new_full((), len(flat)) if kept is None else kept.sum()
        total, squares, first, count = total_of((each.sum(), each.square().sum(), (each * flat).sum(0), count))
        if count == 1:
            what = "batch normalization must have at least 2 values per feature in training, got 1"
            raise UserValueError(what, "batch_norm", "give 2 or more rows, or another norm")
        reciprocal = 1 / total if total > 0 else torch.zeros_like(total)
        mean = first * reciprocal
        centered = flat - mean
        variance = total_of((each * centered.square()).sum(0)) * reciprocal
        if not now.again:
            self._remember(mean.detach(), variance.detach(), total, squares)
        out = centered * (variance + self.epsilon).rsqrt() * self.gain + self.shift
        out = out if kept is None else torch.where(kept, out, out.new_zeros(()))
        return out.reshape(rows.shape).movedim(-1, 1)

    @torch.no_grad()
    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, total: torch.Tensor, squares: torch.Tensor) -> None:
        if not total > 0:
            return
        freedom = 1 - squares / total**2  # the share (n - 1) / n
        self.running_mean.lerp_(mean, self.momentum)
        if freedom > 1e-9:
            self.running_var.lerp_(variance / freedom, self.momentum)

    def extra_repr(self) -> str:
        """Shown by repr."""
        return f"{len(self.gain)}, momentum={self.momentum}, epsilon={self.epsilon}"


@torch.no_grad()
def fold(layer: nn.Module, norm: BatchNorm) -> nn.Module:
    """The layer that does what a dense or convolutional layer and the norm behind it do in prediction.

    Weights of an output times gain / sqrt(running variance + epsilon), and the bias that follows.

    Parameters
    ----------
    layer : nn.Linear, nn.Conv1d, nn.Conv2d or nn.Conv3d
    norm : BatchNorm
        Of as many features as the layer has outputs.

    Returns
    -------
    nn.Module
        A copy with a bias; both arguments stay as they are.

    Raises
    ------
    UserValueError
        A layer of another kind, or a norm of another number of features.

    Examples
    --------
    >>> layer, norm = nn.Linear(3, 2), BatchNorm(2)
    >>> _ = norm.running_var.fill_(4.0)
    >>> x = torch.ones(1, 3)
    >>> bool(torch.allclose(fold(layer, norm)(x), norm(layer(x)), atol=1e-6))
    True
    """
    if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
        raise UserTypeError.must("layer", "be a dense or a convolutional layer", type(layer).__name__)
    if len(layer.weight) != len(norm.gain):
        what = f"the norm must have {len(layer.weight)} features, one for each output, got {len(norm.gain)}"
        raise UserValueError(what, "norm")
    factor = norm.gain / (norm.running_var + norm.epsilon).sqrt()
    bias = torch.zeros_like(factor) if layer.bias is None else layer.bias
    folded = copy.deepcopy(layer)
    folded.weight.mul_(factor.reshape(-1, *(1,) * (layer.weight.ndim - 1)))
    folded.bias = nn.Parameter((bias - norm.running_mean) * factor + norm.shift)
    return folded
