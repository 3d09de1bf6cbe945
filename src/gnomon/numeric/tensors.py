"""Whether a value is a tensor, for functions that take arrays and tensors alike."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["is_tensor"]


def is_tensor(x: Any) -> bool:
    """Whether `x` is a torch tensor; torch is not imported to find out.

    Examples
    --------
    >>> is_tensor([1.0])
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)
