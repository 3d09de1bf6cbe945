"""Whether a value is a tensor, and the same without its gradient, for functions of arrays and tensors alike."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["detached", "is_tensor"]


def is_tensor(x: Any) -> bool:
    """Whether `x` is a torch tensor; torch is not imported to find out.

    Examples
    --------
    >>> is_tensor([1.0])
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def detached(x: Any) -> Any:
    """A tensor apart from what it was computed of; everything else as it is.

    Examples
    --------
    >>> detached([1.0])
    [1.0]
    """
    return x.detach() if is_tensor(x) else x
