"""Encoder of texts: attention in both directions over tokens, with vectors of each token and of the whole text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gnomon.contracts import Noise
from gnomon.nn.attention_masks import Padding
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import Embedding
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.positions import Places
from gnomon.nn.spans import FullSpan, Span
from gnomon.nn.transformer import EncoderLayer, layer_norm, normed

__all__ = ["ReplacedHead", "TextEncoder", "TokenHead"]

SPREAD = 0.02
"""Standard deviation of the first vectors of tokens and segments (Devlin and others 2019)."""


class TextEncoder(nn.Module):
    r"""Layers of attention over embedded tokens, :math:`h^0_t = \mathrm{LN}(E_{w_t} + S_{s_t} + P_t)`.

    A token's embedding is the sum of a vector of its own, one of its segment (the first or the second of two texts) and
    what its place adds; every token looks at all others of its sequence, padding is not looked at. `pool` turns the
    first token, ``<cls>``, into a vector of the whole, :math:`\tanh(W h_1 + b)`.

    Parameters
    ----------
    n_ids : int >= 1
        Vocabulary, the special symbols among them; ``<pad>`` is 0.
    width : int >= 1
        Of the layers.
    layers : sequence of EncoderLayer
    places : Places
        That the layers share.
    embedding_width : int, optional
        Of the embedding, which is mapped to `width` where they differ (ELECTRA); `width` where left out.
    dropout : float in [0, 1], default 0
        Probability to drop an element of the embedding in training.
    final_norm : bool, default False
        Whether a norm stands behind the layers: where they have theirs before their parts.
    epsilon : float in (0, inf), default 1e-12
        Of the norm of the embedding.
    pooled : bool, default True
        Whether there is a `pool`.
    span : Span, optional
        How far tokens look; at all tokens where left out. Its first tokens, ``<cls>`` say, look at all and are looked
        at by all (Longformer).
    learned_segments : bool, default True
        Whether the vectors of segments are learned; else they are all 0 and all 1, and stay so.
    over_text : bool, default False
        Whether norms take mean and variance over all tokens of a text, in place of each token by itself; as the layers.
    dtype : torch.dtype, optional

    Notes
    -----
    With the same weights it is BERT's encoder (Devlin, Chang, Lee and Toutanova 2019), and ELECTRA's. O(T D (D + T))
    a layer for a sequence of T tokens.

    Examples
    --------
    >>> from gnomon.nn.positions import LearnedPlaces
    >>> encoder = TextEncoder(30, 8, [EncoderLayer(8, 2, 16, nn.GELU())], LearnedPlaces(16, 8))
    >>> tokens = encoder(torch.tensor([[2, 7, 3, 0]]), lengths=torch.tensor([3]))
    >>> tokens.shape, encoder.pool(tokens).shape
    (torch.Size([1, 4, 8]), torch.Size([1, 8]))
    """

    def __init__(
        self,
        n_ids: int,
        width: int,
        layers: Sequence[EncoderLayer],
        places: Places,
        *,
        embedding_width: int | None = None,
        dropout: float = 0.0,
        final_norm: bool = False,
        epsilon: float = 1e-12,
        pooled: bool = True,
        span: Span | None = None,
        learned_segments: bool = True,
        over_text: bool = False,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.width, narrow = width, embedding_width or width
        self.tokens = Embedding(n_ids, narrow, dtype=dtype)
        self.segments = Embedding(2, narrow, dtype=dtype).freeze(not learned_segments)
        self.places, self.span = places, span or FullSpan()
        self.norm, self.drop = layer_norm(narrow, epsilon, over_text, dtype), Dropout(dropout)
        self.widen: nn.Module = nn.Identity() if narrow == width else dense(narrow, width, dtype=dtype)
        self.layers = nn.ModuleList(layers)
        self.last: nn.Module = layer_norm(width, 1e-5, over_text, dtype) if final_norm else nn.Identity()
        self.pooler: nn.Module = dense(width, width, dtype=dtype) if pooled else nn.Identity()

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        with torch.no_grad():
            for name in ("tokens", "segments"):
                weight = getattr(self, name).weight
                weight.copy_(SPREAD * noise.child(name).normal(tuple(weight.shape), like=weight.detach()))
            if not self.segments.weight.requires_grad:
                self.segments.weight[0], self.segments.weight[1] = 0, 1
        self.places.initialize(noise.child("places"))
        for i, layer in enumerate(self.layers):
            layer.initialize(noise.child(f"layers.{i}"))  # type: ignore[operator]
        for name in ("widen", "pooler"):
            initialize(getattr(self, name), XavierUniform(), noise.child(name))

    def forward(
        self, ids: torch.Tensor, segments: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Vectors (n, T, width) of the tokens; those at padding mean nothing.

        Parameters
        ----------
        ids, segments : int64 tensors of shape (n, T)
            Segments of 0 or 1; all 0 where left out.
        lengths : int64 tensor of shape (n,), optional
            Tokens of each sequence; T where left out.
        """
        x, mask, valid = self._embedded(ids, segments, lengths)
        for layer in self.layers:
            x = layer(x, mask, valid=valid)
        return normed(self.last, x, valid)

    def looked(self, ids: torch.Tensor) -> torch.Tensor:
        """How much each head of each layer looks where, (layers, n, h, T, T), of sequences (n, T) without padding."""
        x, mask, valid = self._embedded(ids, None, None)
        found = []
        for layer in self.layers:
            found.append(layer.looked(x, mask, valid=valid))  # type: ignore[operator]
            x = layer(x, mask, valid=valid)
        return torch.stack(found)

    def _embedded(
        self, ids: torch.Tensor, segments: torch.Tensor | None, lengths: torch.Tensor | None
    ) -> tuple[torch.Tensor, Any, torch.Tensor | None]:
        """What the first layer reads, the mask, and which tokens are no padding."""
        mask = self.span.both(None if lengths is None else Padding(lengths))
        x = self.tokens(ids) + self.segments(torch.zeros_like(ids) if segments is None else segments)
        valid = None if lengths is None else torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        return self.widen(self.drop(normed(self.norm, self.places(x), valid))), mask, valid

    def pool(self, tokens: torch.Tensor) -> torch.Tensor:
        """A vector (n, width) of each sequence, from what `forward` gave."""
        return torch.tanh(self.pooler(tokens[:, 0]))


class TokenHead(nn.Module):
    r"""Scores of all ids at a token, :math:`E\, \mathrm{LN}(\phi(W x + b)) + c`, with E the vectors of the embedding.

    Parameters
    ----------
    width : int >= 1
        Of what comes in.
    embedding : Embedding
        Its vectors belong to the network that holds it.
    unit : nn.Module
        The activation.
    epsilon : float in (0, inf), default 1e-12
        Of the norm.
    dtype : torch.dtype, optional

    Notes
    -----
    Source: Devlin, Chang, Lee and Toutanova (2019).
    """

    def __init__(
        self,
        width: int,
        embedding: Embedding,
        unit: nn.Module,
        *,
        epsilon: float = 1e-12,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        n_ids, narrow = embedding.weight.shape
        self._embedding = (embedding,)  # in a tuple: its vectors are parameters of the network, once
        self.dense, self.unit = dense(width, narrow, dtype=dtype), unit
        self.norm = nn.LayerNorm(narrow, epsilon, dtype=dtype)
        self.bias = nn.Parameter(torch.zeros(n_ids, dtype=dtype))

    def initialize(self, noise: Noise) -> None:
        """Xavier's uniform weights; biases of 0."""
        initialize(self.dense, XavierUniform(), noise)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (..., V) of vectors (..., width)."""
        return nn.functional.linear(self.norm(self.unit(self.dense(x))), self._embedding[0].weight, self.bias)


class ReplacedHead(nn.Module):
    r"""A score of each token, :math:`w^T \phi(W h + b) + c`: the log odds that it was replaced.

    Parameters
    ----------
    width : int >= 1
    unit : nn.Module
        The activation.
    dtype : torch.dtype, optional

    Notes
    -----
    Source: Clark, Luong, Le and Manning (2020).
    """

    def __init__(self, width: int, unit: nn.Module, *, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.dense, self.unit, self.out = dense(width, width, dtype=dtype), unit, dense(width, 1, dtype=dtype)

    def initialize(self, noise: Noise) -> None:
        """Xavier's uniform weights of the first layer, 0 of the second: at the start all is even."""
        initialize(self.dense, XavierUniform(), noise)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores (...) of vectors (..., width)."""
        scores: torch.Tensor = self.out(self.unit(self.dense(x)))[..., 0]
        return scores
