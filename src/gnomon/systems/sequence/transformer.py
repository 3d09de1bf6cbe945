"""Transformer: from a source to a target by attention alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import nn

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import BOS
from gnomon.errors import UserValueError
from gnomon.nn.attention_masks import Padding
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import Embedding, TiedHead
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.positions import sinusoidal_table
from gnomon.nn.transformer import Cache, DecoderLayer, EncoderLayer
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.systems.sequence._pairs import TokenByToken, TranslationModel
from gnomon.systems.sequence._translation import EncoderDecoder

__all__ = ["Transformer", "TransformerModel"]


@dataclass(frozen=True)
class Reading:
    """What the encoder has read of a batch of sources.

    Parameters
    ----------
    states : tensor of shape (n, T, width)
    lengths : int tensor of shape (n,)
    """

    states: torch.Tensor
    lengths: torch.Tensor


class TransformerModel(TranslationModel):
    r"""P(y | x) = prod_t P(y_t | y_1 ... y_{t-1}, x) by layers of attention.

    The encoder's layers let every token of the source look at all of them; those of the decoder let every token of the
    target look at the tokens before it and, in each layer, at the encoder's last outputs. Sinusoidal positions are
    added to the embeddings, so that no length is too long. Targets end with ``</s>``.

    Parameters
    ----------
    source_size, target_size : int, at least 3
        Ids of both vocabularies; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    width, heads, inner : int, at least 1
        Of every layer: see `gnomon.nn.transformer.EncoderLayer`.
    encoder_layers, decoder_layers : int, at least 1
    unit : type of nn.Module
        The activation.
    norm_first : bool
        Norms before the parts of a layer, and one more after the last layer of each side.
    scaled : bool
        Whether embeddings are multiplied by the root of their width.
    dropout : float in [0, 1), default 0
    dtype : torch.dtype
    tied : bool, default False
        Whether scores are products with the target's embedding.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        width: int,
        heads: int,
        inner: int,
        encoder_layers: int,
        decoder_layers: int,
        unit: type[nn.Module] = nn.ReLU,
        norm_first: bool = True,
        scaled: bool = True,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
        tied: bool = False,
    ) -> None:
        super().__init__(target_size)
        options: dict[str, Any] = {"norm_first": norm_first, "dropout": dropout, "dtype": dtype}
        self.source_embedding = Embedding(source_size, width, dtype=dtype)
        self.target_embedding = Embedding(target_size, width, dtype=dtype)
        self.factor = math.sqrt(width) if scaled else 1.0
        self.encoder = nn.ModuleList(
            EncoderLayer(width, heads, inner, unit(), **options) for _ in range(encoder_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(width, heads, inner, unit(), **options) for _ in range(decoder_layers)
        )
        norms = [nn.LayerNorm(width, dtype=dtype) if norm_first else nn.Identity() for _ in range(2)]
        self.encoder_norm, self.decoder_norm = norms
        self.drop_source, self.drop_target = Dropout(dropout), Dropout(dropout)
        self.head = TiedHead(self.target_embedding, BOS) if tied else dense(width, target_size - 1, dtype=dtype)
        self._table = torch.zeros(0, width, dtype=dtype)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        for side in ("source", "target"):
            getattr(self, f"{side}_embedding").initialize(noise.child(f"{side}_embedding"))
        for side in ("encoder", "decoder"):
            for i, layer in enumerate(getattr(self, side)):
                layer.initialize(noise.child(f"{side}.{i}"))
        if not isinstance(self.head, TiedHead):
            initialize(self.head, XavierUniform(), noise.child("head"))

    # --- the network --------------------------------------------------------------------------------------------

    def placed(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Embeddings with the waves of their places."""
        need = int(at.max()) + 1 if at.numel() else 0
        if len(self._table) < need or self._table.device != x.device:
            self._table = sinusoidal_table(2 * need, x.shape[-1]).to(x.device, x.dtype)
        return x * self.factor + self._table[at]

    def encode(self, source: torch.Tensor, lengths: torch.Tensor) -> Reading:
        """Read sources (n, T) of these lengths."""
        source = source if source.shape[1] else source.new_zeros(len(source), 1)  # something that no one looks at
        x = self.placed(self.source_embedding(source), torch.arange(source.shape[1], device=source.device))
        x = self.drop_source(x)
        for layer in self.encoder:
            x = layer(x, Padding(lengths))
        return Reading(self.encoder_norm(x), lengths)

    def hidden(self, memory: Reading, given: torch.Tensor) -> torch.Tensor:
        """What the decoder makes of given tokens (n, T), ``<s>`` and the true ones: (n, T, D)."""
        made: torch.Tensor = self.decoder_norm(self.decoded(memory, given, len(self.decoder)))
        return made

    def decoded(self, memory: Reading, given: torch.Tensor, layers: int) -> torch.Tensor:
        """What the first layers of the decoder make of given tokens (n, T), (n, T, D)."""
        x = self.placed(self.target_embedding(given), torch.arange(given.shape[1], device=given.device))
        x = self.drop_target(x)
        for layer in self.decoder[:layers]:
            x = layer(x, memory.states, memory_mask=Padding(memory.lengths))
        return x

    def attended(self, memory: Reading, given: torch.Tensor) -> torch.Tensor:
        """Weights of each source token at each given token in the last layer, (n, T, source tokens); mean of heads."""
        x = self.decoded(memory, given, len(self.decoder) - 1)
        last: Any = self.decoder[-1]
        return last.looked(x, memory.states, memory_mask=Padding(memory.lengths)).mean(1)

    def given(self, sources: Ragged) -> Writing:
        """The decoder with these sources before it: `gnomon.contracts.NextToken`, one context to a source."""
        return Writing(self, self.read(sources))

    def projected(self, memory: Reading) -> list[Cache]:
        """Keys and values of the sources in each layer."""
        return [layer.cross.project(memory.states, memory.states) for layer in self.decoder]  # type: ignore[operator,union-attr]


class Writing(TokenByToken):
    """The decoder of some sources by attention: keys and values of the tokens so far are kept.

    Parameters
    ----------
    model : TransformerModel
    memory : Reading
        Of as many sources as there are contexts.
    """

    moving: ClassVar[tuple[str, ...]] = ("length",)  # what stands beyond is written over

    def __init__(self, model: TransformerModel, memory: Reading) -> None:
        super().__init__(model, memory)
        with torch.no_grad():
            self.projected = model.projected(memory)

    def begin(self, n: int) -> State:
        """No keys and values."""
        device = self.model.device
        return {
            "source": torch.arange(n, device=device), "length": torch.zeros(n, dtype=torch.int64, device=device),
        } | {
            name: keys.new_zeros(n, keys.shape[1], 0, keys.shape[3])
            for i, (keys, _) in enumerate(self.projected) for name in (f"keys_{i}", f"values_{i}")
        }  # fmt: skip

    def step(self, tokens: Array, state: State) -> tuple[Array, dict[str, Any]]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        model, rows, length = self.model, state["source"], state["length"]
        with torch.no_grad():
            ids = torch.as_tensor(tokens, device=model.device)
            x = model.placed(model.target_embedding(ids)[:, None], length[:, None])
            mask, after = Padding(self.memory.lengths[rows]), {"source": rows, "length": length + 1}
            for i, (layer, (keys, values)) in enumerate(zip(model.decoder, self.projected, strict=True)):
                names = f"keys_{i}", f"values_{i}"
                cache = state[names[0]], state[names[1]]
                x, kept = layer.step(x, cache, length, (keys[rows], values[rows]), mask)
                after |= dict(zip(names, kept, strict=True))
            log_probs = model.foretold(model.head(model.decoder_norm(x[:, 0])))
        return log_probs if isinstance(tokens, torch.Tensor) else log_probs.cpu().numpy(), after


class Transformer(EncoderDecoder):
    r"""Transformer: an encoder and a decoder made of attention write a target to a source.

    :math:`P(y \mid x) = \prod_t P(y_t \mid y_1 \dots y_{t-1}, x)`. Every token of the source looks at all of them,
    every token of the target at those before it and at what the encoder made of the source; all of a target is learned
    at once, where `Seq2Seq` goes token by token.

    Attributes
    ----------
    source_vocabulary_, target_vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    history_ : dict of lists
        ``cross_entropy`` (nats per target token, ends included), ``gradient_norm``, and with validation pairs
        ``validation_cross_entropy`` and ``best_epoch``, by epoch.

    Notes
    -----
    Pairs are tuples of two strings or two lists of tokens. A batch has pairs of like length; padding is in no score.
    Decoding keeps keys and values of the tokens so far. With norms after the sums, as published, large steps at the
    beginning spoil the fit: take a smaller `learning_rate`. Source: Vaswani and others (2017); norms before the parts:
    Xiong and others (2020).

    Examples
    --------
    >>> pairs = [("one two", "two one"), ("two one", "one two"), ("one one", "one one"), ("two", "two")]
    >>> model = Transformer(unit="word", n_embedding=16, n_hidden=32, n_heads=2, n_layers=1, epochs=60,
    ...                     learning_rate=0.01, early_stopping="off", random_state=0).fit(pairs)
    >>> model.translate(["one two", "two"])
    ['two one', 'two']
    """

    name: ClassVar[str] = "transformer"
    model_class: ClassVar[type] = TransformerModel

    n_layers: Annotated[int, "[1, inf)", Doc("Layers of the encoder.")] = 2
    decoder_layers: Annotated[int | None, "[1, inf)", Doc("Layers of the decoder; None: as many as the encoder's.")] = (
        None
    )
    n_heads: Annotated[int, "[1, inf)", Doc("Heads of every attention; divides n_embedding.")] = 4
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of the embeddings and of every layer.")] = 64
    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units of the network at each position.")] = 256
    activation: Annotated[Literal["relu", "gelu"], Doc("Activation of the networks' hidden units.")] = "relu"
    norm: Annotated[
        Literal["before", "after"],
        Doc(
            "Where layer normalization stands: before each part, or after each sum, as published, which needs warm-up."
        ),
    ] = "before"
    scale_embedding: Annotated[bool, Doc("Whether embeddings are multiplied by the root of their width.")] = True
    tie_weights: Annotated[
        bool, Doc("Whether scores of target tokens are products with their embedding, learned once for both.")
    ] = False
    learning_rate: float = 1e-3

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.n_embedding % self.n_heads:
            raise UserValueError(
                f"n_heads must divide n_embedding {self.n_embedding}, got {self.n_heads}", "n_heads",
                "choose a divisor",
            )  # fmt: skip

    def make(self, *, source_size: int, target_size: int, dtype: str) -> TransformerModel:
        return TransformerModel(
            source_size, target_size, self.n_embedding, self.n_heads, self.n_hidden, self.n_layers,
            self.decoder_layers or self.n_layers, nn.ReLU if self.activation == "relu" else nn.GELU,
            self.norm == "before", self.scale_embedding, self.dropout, getattr(torch, dtype),
            self.tie_weights,
        )  # fmt: skip
