"""Where the heads of layers of attention look in one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["AttentionMaps", "attention_maps"]


class AttentionMaps(NamedTuple):
    """How much each token looks at each.

    Attributes
    ----------
    tokens : list of str
        T tokens, special ones among them.
    weights : array of shape (layers, heads, T, T)
        From rows to columns.
    """

    tokens: list[str]
    weights: NDArray[np.floating]


def attention_maps(network: Any, tokens: Sequence[str], ids: NDArray[np.int64]) -> AttentionMaps:
    """What ``network.looked`` says of one sequence of ids (T,)."""
    device = next(network.parameters()).device
    with torch.no_grad():
        found = network.looked(torch.as_tensor(ids, device=device)[None])
    return AttentionMaps(list(tokens), found[:, 0].cpu().numpy())
