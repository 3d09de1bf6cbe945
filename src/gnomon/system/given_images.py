"""What is said of images where a fit begins."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gnomon.distributions.images import is_bytes
from gnomon.errors import UserValueError
from gnomon.training.group import current as current_group

__all__ = ["tell_of_bytes"]


def tell_of_bytes(X: Any) -> None:
    """Bytes are 0..255: say so where a fit begins, and refuse those that can only be 0 and 1."""
    given = X.to_numpy() if hasattr(X, "to_numpy") else X
    if not is_bytes(given):
        return
    top = int(np.asarray(given).max())
    if top == 1:
        raise UserValueError("no byte in X is above 1, and bytes mean 0..255", "X", "give 0 and 1 as bool or float")
    if current_group().rank == 0:
        warnings.warn(f"X holds bytes 0..{top}: taken as grey levels and divided by 255", UserWarning, stacklevel=5)
