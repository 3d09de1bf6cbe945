r"""Scaled dot-product attention by the engine that costs least: torch's fused one, a banded one, an explicit one.

:math:`Z = \mathrm{softmax}(Q K^T / \sqrt d + B)\, V` over the keys that a mask allows; a query that may look nowhere
gets 0. All engines compute the same numbers up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gnomon.errors import UserValueError
from gnomon.nn.attention import check_widths, weights
from gnomon.nn.attention_masks import Causal, GivenMask, Mask, as_mask

__all__ = ["attention", "explicit_attention"]

BLOCK = 128
"""Queries that a narrow mask lets through together."""

Bias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""What is added to the scores of queries at places i (q,) and keys at places j (k,): (h, q, k)."""


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Any = None,
    *,
    bias: Bias | None = None,
    drop: Callable[[torch.Tensor], torch.Tensor] | None = None,
    places: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of each head.

    Parameters
    ----------
    q : tensor of shape (n, h, T_q, d)
    k : tensor of shape (n, h, T_k, d)
    v : tensor of shape (n, h, T_k, d_v)
    mask : Mask or bool tensor, optional
        See `gnomon.nn.attention_masks`; True is "may look".
    bias : callable, optional
        Of places of queries (T_q,) and keys (T_k,), what is added to the scores, (h, T_q, T_k).
    drop : callable, optional
        What becomes of the weights: a `gnomon.nn.dropout.Dropout`. They are then written out.
    places : int tensor of shape (T_q,) or (n, 1, T_q), optional
        Places of the queries among the keys; 0, 1, 2 ... where left out.

    Returns
    -------
    tensor of shape (n, h, T_q, d_v)

    Raises
    ------
    UserValueError
        No keys, queries and keys of different widths, a number of values that is not that of the keys, or a mask that
        is written out for other numbers of queries and keys.

    Notes
    -----
    O(T_q T_k d); with a mask of bounded reach w and g global places O((T_q + T_k) (w + g) d) in time and memory.

    Examples
    --------
    >>> q, k = torch.eye(2)[None, None], torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])
    >>> [[round(x, 5) for x in row] for row in attention(q, k, k)[0, 0].tolist()]
    [[0.80222, 0.59889], [0.59889, 0.80222]]
    """
    mask, i, j = _checked(q, k, v, mask, places)
    if drop is not None:
        return explicit_attention(q, k, v, mask, bias=bias, drop=drop, places=places)[0]
    if mask is not None and places is None and _is_narrow(mask, len(i), len(j)):
        return _banded(q, k, v, mask, bias)
    return _fused(q, k, v, mask, bias, i, j)


def explicit_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Any = None,
    *,
    bias: Bias | None = None,
    drop: Callable[[torch.Tensor], torch.Tensor] | None = None,
    places: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `attention`, and the weights (n, h, T_q, T_k), all of which are written out."""
    mask, i, j = _checked(q, k, v, mask, places)
    scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-1, -2)  # scaled before: half precision would overflow after
    if bias is not None:
        scores = scores + bias(i, j)
    alpha = weights(scores, None if mask is None else mask.allowed(i, j))
    return (alpha if drop is None else drop(alpha)) @ v, alpha


def _checked(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, places: torch.Tensor | None
) -> tuple[Mask | None, torch.Tensor, torch.Tensor]:
    """The mask, and the places of queries and keys, of what fits together."""
    queries, keys = q.shape[-2], k.shape[-2]
    if keys == 0:
        raise UserValueError("attention needs at least one key, got none", "keys", "leave empty sequences out")
    check_widths(q.shape[-1], k.shape[-1], "dot attention")
    if v.shape[-2] != keys:
        raise UserValueError(f"values must be as many as the keys, {keys}, got {v.shape[-2]}", "values")
    mask = as_mask(mask)
    if isinstance(mask, GivenMask):
        *_, rows, columns = mask.table.shape
        if columns != keys or (places is None and rows not in (1, queries)):
            raise UserValueError(
                f"mask must be of {queries} queries, or of 1 for all, and {keys} keys, got {rows} and {columns}", "mask"
            )
    i = torch.arange(queries, device=q.device) if places is None else places
    return mask, i, torch.arange(keys, device=k.device)


def _fused(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: Mask | None,
    bias: Bias | None,
    i: torch.Tensor,
    j: torch.Tensor,
) -> torch.Tensor:
    """torch's own, which writes no weights out where it need not."""
    fused = torch.nn.functional.scaled_dot_product_attention
    if mask is None:
        return fused(q, k, v, attn_mask=None if bias is None else bias(i, j).to(q.dtype))
    if isinstance(mask, Causal) and bias is None and len(i) == len(j) and i.ndim == 1:
        return fused(q, k, v, is_causal=True)
    allowed = mask.allowed(i, j)
    somewhere = allowed.any(-1, keepdim=True)
    allowed = allowed | ~somewhere  # a row that looks nowhere: whatever it sees is taken away again, no NaN on the way
    if bias is None:
        found = fused(q, k, v, attn_mask=allowed)
    else:
        found = fused(q, k, v, attn_mask=bias(i, j).to(q.dtype).masked_fill(~allowed, -torch.inf))
    return found * somewhere


def _is_narrow(mask: Mask, queries: int, keys: int) -> bool:
    """Whether blocks of queries see less than half of the keys."""
    back, ahead = mask.reach
    if back is None or ahead is None or queries != keys:
        return False
    return 2 * (BLOCK + back + ahead + len(mask.anchors)) < keys


def _banded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Mask, bias: Bias | None) -> torch.Tensor:
    """Blocks of queries with the keys within their reach and the global ones; global queries with all keys."""
    back, ahead = mask.reach
    assert back is not None and ahead is not None
    T = k.shape[-2]
    everywhere = torch.tensor([one for one in mask.anchors if one < T], dtype=torch.int64, device=q.device)
    parts = []
    for begin in range(0, T, BLOCK):
        i = torch.arange(begin, min(T, begin + BLOCK), device=q.device)
        low, high = max(0, begin - back), min(T, begin + BLOCK + ahead)
        far = everywhere[(everywhere < low) | (everywhere >= high)]
        j = torch.cat([torch.arange(low, high, device=q.device), far])
        parts.append(_fused(q[..., begin : begin + BLOCK, :], k[..., j, :], v[..., j, :], mask, bias, i, j))
    found = torch.cat(parts, -2)
    if not len(everywhere):
        return found
    rows = _fused(q[..., everywhere, :], k, v, mask, bias, everywhere, torch.arange(T, device=q.device))
    return found.index_copy(-2, everywhere, rows)
