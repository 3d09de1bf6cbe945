"""The processes that fit together: torch.distributed behind one door."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

__all__ = ["Group", "current"]


class Group:
    """Rank, size, sum and gather; with one process every operation is the identity.

    Parameters
    ----------
    rank, size : int
        Place of this process and number of processes, 0 <= rank < size.

    Examples
    --------
    >>> Group().sum({"n": 3.0})
    {'n': 3.0}
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size

    def sum(self, tree: Any) -> Any:
        """Numbers, arrays and tensors in dicts, lists and tuples, each summed over the processes; differentiable."""
        if self.size == 1:
            return tree
        if isinstance(tree, dict):
            return {key: self.sum(tree[key]) for key in tree}
        if isinstance(tree, list | tuple):
            return type(tree)(self.sum(item) for item in tree)
        return _from_tensor(_sum(_to_tensor(tree)), tree)

    def gather(self, x: Any) -> Any:
        """Arrays of all processes joined on axis 0 in order of rank; lengths may differ; differentiable."""
        if self.size == 1:
            return x
        import torch

        own = _to_tensor(x)
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(own)
        starts = [0, *np.cumsum(_sum(lengths).tolist()).tolist()]
        # a sum of disjoint parts is a join, with the gradient that a join has
        whole = torch.cat(
            [own.new_zeros((starts[self.rank], *own.shape[1:])), own,
             own.new_zeros((starts[-1] - starts[self.rank + 1], *own.shape[1:]))]
        )  # fmt: skip
        return _from_tensor(_sum(whole), x)


def current() -> Group:
    """The group this process belongs to; joins the one that ``torchrun`` describes in the environment."""
    launched = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if not launched and "torch" not in sys.modules:
        return Group()
    import torch.distributed as dist

    if not dist.is_available():
        return Group()
    if launched and not dist.is_initialized():
        dist.init_process_group("gloo")
    return Group(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else Group()


def _to_tensor(x: Any) -> Any:
    import torch

    if isinstance(x, torch.Tensor):
        return x
    array = np.asarray(x)
    if array.dtype == bool:
        array = array.astype(np.int64)
    elif array.dtype in (np.uint32, np.uint64):
        array = array.view(np.int32 if array.dtype == np.uint32 else np.int64)
    return torch.from_numpy(np.array(array))


def _from_tensor(tensor: Any, like: Any) -> Any:
    import torch

    if isinstance(like, torch.Tensor):
        return tensor
    if isinstance(like, bool | int | float):
        return type(like)(tensor.item())
    return tensor.numpy().astype(np.asarray(like).dtype, copy=False)


def _sum(tensor: Any) -> Any:
    import torch
    import torch.distributed as dist

    class SumOverProcesses(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            total = x.detach().clone()
            dist.all_reduce(total)
            return total

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            total = gradient.clone()
            dist.all_reduce(total)
            return total

    return SumOverProcesses.apply(tensor)  # type: ignore[no-untyped-call]
