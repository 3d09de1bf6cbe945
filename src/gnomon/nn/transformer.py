"""Transformer layers: attention of several heads, a network at each position, and both around a residual path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.errors import UserValueError
from gnomon.nn.attention_engine import Bias, attention, explicit_attention
from gnomon.nn.attention_masks import Causal, Mask, as_mask
from gnomon.nn.context import current
from gnomon.nn.dropout import Dropout
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.norms import LayerNorm
from gnomon.nn.positions import Places

__all__ = [
    "Cache",
    "DecoderLayer",
    "EncoderLayer",
    "FeedForward",
    "MultiHeadAttention",
    "layer_norm",
    "normed",
    "trimmed",
]

Cache = tuple[torch.Tensor, torch.Tensor]
"""Keys and values (n, h, T, d) of the tokens so far."""


class MultiHeadAttention(nn.Module):
    r"""Attention of several heads, each on maps of its own; their answers side by side are mapped again.

    :math:`Z_h = \mathrm{softmax}(X W^Q_h (Y W^K_h)^T / \sqrt{D / H})\, Y W^V_h`, output :math:`[Z_1 \dots Z_H]\, W^O`.
    The four maps have D x D weights each and biases, as in ``torch.nn.MultiheadAttention``.

    Parameters
    ----------
    width : int >= 1
        D.
    heads : int >= 1
        H, a divisor of D.
    dropout : float in [0, 1], default 0
        Probability to drop a weight in training; the weights are then written out.
    places : Places, optional
        Turns queries and keys, or adds to the scores; see `gnomon.nn.positions`. Layers share it: what it learns are
        parameters of the network that holds it, not of the layer.
    dtype : torch.dtype, optional

    Notes
    -----
    Masks say where a query may look: True is "may look", the opposite of torch's class. O(T D (D + T)) for a sequence
    of T tokens. Source: Vaswani and others (2017).

    Examples
    --------
    >>> layer = MultiHeadAttention(8, 2)
    >>> layer(torch.ones(3, 5, 8)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([3, 5, 8]), 288)
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        dropout: float = 0.0,
        places: Places | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise UserValueError(f"heads must divide the width {width}, got {heads}", "heads")
        self.heads = heads
        self.query, self.key, self.value, self.out = (dense(width, width, dtype=dtype) for _ in range(4))
        self.drop = Dropout(dropout)
        self._places = (places or Places(),)  # in a tuple: its parameters are the network's, once for all layers

    @property
    def places(self) -> Places:
        """What is known of places."""
        return self._places[0]

    def project(self, keys: torch.Tensor, values: torch.Tensor, at: torch.Tensor | None = None) -> Cache:
        """Keys and values of each head, (n, h, T, D / h), of tokens at places `at`; 0, 1, 2 ... where left out."""
        return self._turned(self.key(keys), at), self._split(self.value(values))

    def appended(self, token: torch.Tensor, cache: Cache, length: torch.Tensor, held: torch.Tensor | None) -> Cache:
        """The cache with one token (n, 1, D) more, at the place `length` (n,), behind the `held` ones of each row.

        None: behind all that there are.
        """
        new = self.project(token, token, length[:, None])
        if held is None:
            return torch.cat([cache[0], new[0]], 2), torch.cat([cache[1], new[1]], 2)
        return _placed(cache[0], new[0], held), _placed(cache[1], new[1], held)

    def look(
        self,
        query: torch.Tensor,
        cache: Cache,
        mask: Any = None,
        *,
        at: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Answers (n, T_q, D) to queries, of keys and values that were projected before.

        Parameters
        ----------
        query : tensor of shape (n, T_q, D)
        cache : Cache
        mask : Mask or bool tensor, optional
        at : int tensor of shape (T_q,) or (n, T_q), optional
            Places of the queries in their text; 0, 1, 2 ... where left out.
        places : int tensor of shape (T_q,) or (n, 1, T_q), optional
            Their places among the keys; 0, 1, 2 ... where left out.
        """
        drop = self.drop if self.drop.p > 0 and current() is not None else None
        q = self._turned(self.query(query), at)
        found = attention(q, *cache, mask, bias=self._bias(), drop=drop, places=places)
        return self.out(found.transpose(1, 2).flatten(2))

    def forward(
        self, query: torch.Tensor, key: torch.Tensor | None = None, value: torch.Tensor | None = None, mask: Any = None
    ) -> torch.Tensor:
        """Answers (n, T_q, D) to queries (n, T_q, D), of keys and values (n, T_k, D); of itself where left out."""
        key = query if key is None else key
        return self.look(query, self.project(key, key if value is None else value), mask)

    def weights(self, query: torch.Tensor, key: torch.Tensor | None = None, mask: Any = None) -> torch.Tensor:
        """How much each head looks where, (n, h, T_q, T_k); rows sum to 1, to 0 where nothing may be looked at."""
        key = query if key is None else key
        q, (k, v) = self._turned(self.query(query), None), self.project(key, key)
        return explicit_attention(q, k, v, mask, bias=self._bias())[1]

    def _bias(self) -> Bias | None:
        return self.places.bias if self.places.biased else None

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)

    def _turned(self, x: torch.Tensor, at: torch.Tensor | None) -> torch.Tensor:
        at = torch.arange(x.shape[1], device=x.device) if at is None else at
        return self.places.turn(self._split(x), at)


class FeedForward(nn.Module):
    r"""Two affine layers at each position, the same everywhere: :math:`\phi(x W_1 + b_1) W_2 + b_2`.

    Parameters
    ----------
    width, inner : int >= 1
        Widths D and F of what comes in and out, and of the hidden layer.
    unit : nn.Module
        The activation.
    dropout : float in [0, 1], default 0
        Probability to drop a hidden unit in training.
    dtype : torch.dtype, optional

    Notes
    -----
    2 D F + D + F parameters; as a convolution of one position it costs 2 D F multiplications per token.
    """

    def __init__(
        self, width: int, inner: int, unit: nn.Module, *, dropout: float = 0.0, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.first, self.second = dense(width, inner, dtype=dtype), dense(inner, width, dtype=dtype)
        self.unit, self.drop = unit, Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape (n, T, D)."""
        return self.second(self.drop(self.unit(self.first(x))))


def layer_norm(width: int, epsilon: float, over_text: bool, dtype: torch.dtype | None) -> nn.Module:
    """Of each token by itself, or of all valid tokens of a row together."""
    if over_text:
        return LayerNorm(width, epsilon, steps=True, dtype=dtype)
    return nn.LayerNorm(width, epsilon, dtype=dtype)


def normed(norm: nn.Module, x: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    """What a norm gives, which looks at the valid tokens alone where it is over all of a row."""
    found: torch.Tensor = norm(x, valid) if isinstance(norm, LayerNorm) else norm(x)
    return found


class _Layer(nn.Module):
    """Parts around a residual path, with the norm before each part or after the sum; see `EncoderLayer`."""

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        unit: nn.Module,
        *,
        norm_first: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        places: Places | None = None,
        epsilon: float = 1e-5,
        over_text: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.norm_first = norm_first
        self.attention = MultiHeadAttention(width, heads, dropout=attention_dropout, places=places, dtype=dtype)
        self.feed_forward = FeedForward(width, inner, unit, dropout=dropout, dtype=dtype)
        self.norm_1, self.norm_2 = (layer_norm(width, epsilon, over_text, dtype) for _ in range(2))
        self.drop_1, self.drop_2 = Dropout(dropout), Dropout(dropout)

    def around(
        self, x: torch.Tensor, norm: nn.Module, drop: nn.Module, part: Callable[[torch.Tensor], torch.Tensor],
        valid: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """x + part(norm(x)), or norm(x + part(x))."""
        if self.norm_first:
            return x + drop(part(normed(norm, x, valid)))
        return normed(norm, x + drop(part(x)), valid)

    def _stepped(
        self, x: torch.Tensor, cache: Cache, length: torch.Tensor, mask: Any = None, held: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, Cache]:
        """The part of self-attention for one more token (n, 1, D) of each row, and the cache with it."""
        kept: list[Cache] = []
        held = length if held is None else held
        even = bool((held == cache[0].shape[2]).all())  # every row looks at all that is there

        def look(z: torch.Tensor) -> torch.Tensor:
            kept.append(self.attention.appended(z, cache, length, None if even else held))
            seen: Mask | None = Causal() if mask is None else Causal() & as_mask(mask)  # type: ignore[operator]
            if even and (mask is None or isinstance(mask, Causal)):
                seen = None
            return self.attention.look(z, kept[0], seen, at=length[:, None], places=held[:, None, None])

        return self.around(x, self.norm_1, self.drop_1, look), kept[0]

    def initialize(self, noise: Noise) -> None:
        """Xavier's uniform weights, biases of 0; norms keep 1 and 0."""
        initialize(self, XavierUniform(), noise)


class EncoderLayer(_Layer):
    r"""Self-attention and a network at each position, each around a residual path with layer normalization.

    After each sum, as published: :math:`x \leftarrow \mathrm{LN}(x + \mathrm{MHA}(x))`,
    :math:`x \leftarrow \mathrm{LN}(x + \mathrm{FF}(x))`; or before each part (`norm_first`), which trains without a
    warm-up: :math:`x \leftarrow x + \mathrm{MHA}(\mathrm{LN}(x))`. With a causal mask it is the layer of a language
    model.

    Parameters
    ----------
    width, heads, inner : int >= 1
        See `MultiHeadAttention` and `FeedForward`.
    unit : nn.Module
        The activation.
    norm_first : bool, default False
    dropout : float in [0, 1], default 0
        Probability to drop an element of what each part adds, or a hidden unit.
    attention_dropout : float in [0, 1], default 0
        Probability to drop a weight of the attention.
    places : Places, optional
    epsilon : float in (0, inf), default 1e-5
        Of the norms.
    over_text : bool, default False
        Whether norms take mean and variance over all valid tokens of a row, in place of each token by itself. Then a
        token's output depends on all others, so that there is no `step`.
    dtype : torch.dtype, optional
    """

    def forward(
        self, x: torch.Tensor, mask: Any = None, *, at: torch.Tensor | None = None, valid: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same shape (n, T, D), of tokens at places `at`, of which the `valid` ones (n, T) count in norms."""
        return self.read(x, mask, at=at, valid=valid)[0]

    def read(
        self, x: torch.Tensor, mask: Any = None, *, at: torch.Tensor | None = None, valid: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, Cache]:
        """As `forward`, and keys and values for `step`."""
        kept: list[Cache] = []

        def look(z: torch.Tensor) -> torch.Tensor:
            kept.append(self.attention.project(z, z, at))
            return self.attention.look(z, kept[0], mask, at=at)

        x = self.around(x, self.norm_1, self.drop_1, look, valid)
        return self.around(x, self.norm_2, self.drop_2, self.feed_forward, valid), kept[0]

    def looked(self, x: torch.Tensor, mask: Any = None, *, valid: torch.Tensor | None = None) -> torch.Tensor:
        """How much each head looks where, (n, h, T, T), when the layer is given what `forward` is."""
        return self.attention.weights(normed(self.norm_1, x, valid) if self.norm_first else x, mask=mask)

    def step(
        self, x: torch.Tensor, cache: Cache, length: torch.Tensor, mask: Any = None, held: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, Cache]:
        """One more token (n, 1, D) of sequences of `length` (n,) tokens so far, and the new cache.

        The cache has all of them, or `held` (n,) where `trimmed` has dropped some; the mask is one of distances then,
        and of the first tokens.
        """
        x, after = self._stepped(x, cache, length, mask, held)
        return self.around(x, self.norm_2, self.drop_2, self.feed_forward), after


def trimmed(cache: torch.Tensor, surplus: torch.Tensor, first: int, last: int) -> torch.Tensor:
    """Keys or values (n, h, first + last, d) that a window still reaches.

    Parameters
    ----------
    cache : tensor of shape (n, h, T, d)
    surplus : int tensor of shape (n,)
        Tokens to drop of each row, behind the first ones.
    first, last : int >= 0
        Tokens that stay in front, and behind what is dropped.
    """
    at = torch.arange(first + last, device=cache.device)
    columns = (at + torch.where(at < first, 0, surplus[:, None])).clamp(max=cache.shape[2] - 1)
    return cache.gather(2, columns[:, None, :, None].expand(-1, cache.shape[1], -1, cache.shape[3]))


def _placed(past: torch.Tensor, new: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """The cache (n, h, T, d) with what is new at each row's length, as wide as the longest row needs."""
    need = int(length.max()) + 1 if len(length) else past.shape[2]
    wide = nn.functional.pad(past[:, :, :need], (0, 0, 0, max(0, need - past.shape[2])))
    if wide.data_ptr() == past.data_ptr():
        wide = wide.clone()
    wide[torch.arange(len(wide), device=wide.device), :, length] = new[:, :, 0]
    return wide


class DecoderLayer(_Layer):
    """Causal self-attention, attention to a memory, and a network at each position, each around a residual path.

    Parameters
    ----------
    width, heads, inner : int >= 1
    unit : nn.Module
        The activation.
    norm_first, dropout, attention_dropout, places, dtype
        See `EncoderLayer`. Places are known in self-attention alone.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        unit: nn.Module,
        *,
        norm_first: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        places: Places | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            width, heads, inner, unit, norm_first=norm_first, dropout=dropout, attention_dropout=attention_dropout,
            places=places, dtype=dtype,
        )  # fmt: skip
        self.cross = MultiHeadAttention(width, heads, dropout=attention_dropout, dtype=dtype)
        self.norm_3, self.drop_3 = nn.LayerNorm(width, dtype=dtype), Dropout(dropout)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, mask: Any = None, memory_mask: Any = None) -> torch.Tensor:
        """The same shape (n, T, D); `mask` of its own tokens (causal where left out), `memory_mask` of the memory's."""
        return self.over(x, self.cross.project(memory, memory), mask, memory_mask)

    def over(self, x: torch.Tensor, memory: Cache, mask: Any = None, memory_mask: Any = None) -> torch.Tensor:
        """As `forward`, of a memory that ``cross.project`` has read once for all steps."""
        return self._across(self._among(x, mask), memory, memory_mask)

    def step(
        self, x: torch.Tensor, cache: Cache, length: torch.Tensor, memory: Cache, memory_mask: Any = None
    ) -> tuple[torch.Tensor, Cache]:
        """One more token (n, 1, D) of targets of which `length` (n,) tokens are in the cache, and the new cache."""
        x, after = self._stepped(x, cache, length)
        return self._across(x, memory, memory_mask), after

    def looked(self, x: torch.Tensor, memory: torch.Tensor, mask: Any = None, memory_mask: Any = None) -> torch.Tensor:
        """How much each head looks where in the memory, (n, h, T, T_m), when the layer is given what `forward` is."""
        x = self._among(x, mask)
        return self.cross.weights(self.norm_2(x) if self.norm_first else x, memory, memory_mask)

    def _among(self, x: torch.Tensor, mask: Any) -> torch.Tensor:
        mask = Causal() if mask is None else mask
        return self.around(x, self.norm_1, self.drop_1, lambda z: self.attention(z, mask=mask))

    def _across(self, x: torch.Tensor, memory: Cache, mask: Any) -> torch.Tensor:
        x = self.around(x, self.norm_2, self.drop_2, lambda z: self.cross.look(z, memory, mask))
        return self.around(x, self.norm_3, self.drop_3, self.feed_forward)
