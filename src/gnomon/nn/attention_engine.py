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
    O(T_q T_k d); with a mask that allows w keys within a bounded reach, and g global places, O(T (w + g) d) in time and
    memory, the way back included: of a dilated window w is the number of keys, not how far it reaches. Heads with masks
    of their own (`gnomon.nn.attention_masks.ByHead`) each cost what theirs does.

    Examples
    --------
    >>> q, k = torch.eye(2)[None, None], torch.tensor([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])
    >>> [[round(x, 5) for x in row] for row in attention(q, k, k)[0, 0].tolist()]
    [[0.80222, 0.59889], [0.59889, 0.80222]]
    """
    mask, i, j = _checked(q, k, v, mask, places)
    if drop is not None:
        return explicit_attention(q, k, v, mask, bias=bias, drop=drop, places=places)[0]
    if mask is not None and places is None:
        groups = _groups(mask, q.shape[1])
        if len(groups) > 1 and any(_is_narrow(one, len(i), len(j)) for one, _ in groups):
            return _by_groups(q, k, v, groups, bias)
        mask = groups[0][0] if len(groups) == 1 else mask
        if _is_narrow(mask, len(i), len(j)):
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
    if mask is not None:
        mask.by_head(q.shape[1])  # refuses masks of other heads
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
    """Whether blocks of queries see less than half of the keys, and the blocks are worth their number."""
    back, ahead = mask.reach
    if back is None or ahead is None or queries != keys:
        return False
    stride = max(1, mask.stride)
    return 2 * (BLOCK + (back + ahead) // stride + len(mask.anchors)) < keys and 8 * stride <= keys


def _groups(mask: Mask, heads: int) -> list[tuple[Mask, list[int]]]:
    """The heads that share a mask."""
    groups: list[tuple[Mask, list[int]]] = []
    for head, one in enumerate(mask.by_head(heads)):
        known = next((members for other, members in groups if other == one), None)
        if known is None:
            groups.append((one, [head]))
        else:
            known.append(head)
    return groups


def _by_groups(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    groups: list[tuple[Mask, list[int]]],
    bias: Bias | None,
) -> torch.Tensor:
    """Heads of one mask together, each group by the engine that it costs least with."""
    parts, order = [], []
    for mask, heads in groups:
        own = None if bias is None else _of_heads(bias, heads)
        parts.append(attention(q[:, heads], k[:, heads], v[:, heads], mask, bias=own))
        order += heads
    places = torch.argsort(torch.tensor(order, device=q.device))
    return torch.cat(parts, 1)[:, places]


def _of_heads(bias: Bias, heads: list[int]) -> Bias:
    return lambda i, j: bias(i, j)[..., heads, :, :]


def _banded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Mask, bias: Bias | None) -> torch.Tensor:
    """Strands of tokens that may see one another, each in blocks; tokens that look at all with all keys.

    Strands and blocks are cut once, so that what flows back is as long as the text too.
    """
    T, stride = k.shape[-2], max(1, mask.stride)
    anchors = [one for one in mask.anchors if one < T]
    everywhere = torch.tensor(anchors, dtype=torch.int64, device=q.device)
    far = (k[..., everywhere, :], v[..., everywhere, :])
    strands = zip(_strands(q, stride), _strands(k, stride), _strands(v, stride), strict=True)
    parts = [_band(strand, mask, bias, (first, stride), anchors, far) for first, strand in enumerate(strands)]
    found = _woven(parts, T)
    if not anchors:
        return found
    rows = _fused(q[..., everywhere, :], k, v, mask, bias, everywhere, torch.arange(T, device=q.device))
    return found.index_copy(-2, everywhere, rows)


def _strands(x: torch.Tensor, stride: int) -> list[torch.Tensor]:
    """Every stride-th token from each of the first on."""
    T = x.shape[-2]
    if stride == 1:
        return [x]
    longest = -(-T // stride)
    wide = torch.nn.functional.pad(x, (0, 0, 0, longest * stride - T))
    wide = wide.reshape(*x.shape[:-2], longest, stride, x.shape[-1])
    return [one[..., : -(-(T - first) // stride), :] for first, one in enumerate(wide.unbind(-2))]


def _woven(strands: list[torch.Tensor], T: int) -> torch.Tensor:
    """The tokens in their order again."""
    if len(strands) == 1:
        return strands[0]
    longest = strands[0].shape[-2]
    wide = [torch.nn.functional.pad(one, (0, 0, 0, longest - one.shape[-2])) for one in strands]
    return torch.stack(wide, -2).flatten(-3, -2)[..., :T, :]


def _band(
    strand: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    mask: Mask,
    bias: Bias | None,
    start: tuple[int, int],
    anchors: list[int],
    far: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Blocks of the queries of a strand with the keys within their reach and those that all look at.

    The strand has q, k and v of the tokens at first, first + stride, ...
    """
    (first, stride), T = start, strand[0].shape[-2]
    back, ahead = (0 if one is None else one // stride for one in mask.reach)
    at = first + stride * torch.arange(T, device=strand[0].device)
    q, k, v = (torch.split(one, BLOCK, -2) for one in strand)
    parts = []
    for block, queries in enumerate(q):
        begin = block * BLOCK
        low, high = max(0, begin - back), min(T, begin + BLOCK + ahead)
        inside = range(first + stride * low, first + stride * high, stride)
        beyond = [n for n, place in enumerate(anchors) if place not in inside]
        j = torch.cat([at[low:high], at.new_tensor([anchors[n] for n in beyond])])
        keys, values = (
            torch.cat([*_stretch(near, low, high), distant[..., beyond, :]], -2)
            for near, distant in zip((k, v), far, strict=True)
        )
        parts.append(_fused(queries, keys, values, mask, bias, at[begin : begin + BLOCK], j))
    return torch.cat(parts, -2)


def _stretch(blocks: tuple[torch.Tensor, ...], low: int, high: int) -> list[torch.Tensor]:
    """The tokens from low to high, in pieces."""
    numbers = range(low // BLOCK, -(-high // BLOCK))
    return [blocks[n][..., max(0, low - n * BLOCK) : high - n * BLOCK, :] for n in numbers]
