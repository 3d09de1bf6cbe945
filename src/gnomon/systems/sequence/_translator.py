"""The mathematics of sequence to sequence: an encoder, a decoder that may attend to it; token ids alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import EOS
from gnomon.errors import UserValueError
from gnomon.nn.attention import AttentionRecipe, weights
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import Embedding
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.readers import RecurrentReader, SequenceReader
from gnomon.nn.recurrent import GRU
from gnomon.systems.sequence._pairs import TokenByToken, TranslationModel, WritingModel

__all__ = ["AttentiveModel", "Memory", "Seq2SeqModel", "Translation"]


@dataclass(frozen=True)
class Memory:
    """What the encoder has read of a batch of sources.

    Parameters
    ----------
    states : tensor of shape (n, T, units)
        0 at padding.
    mask : bool tensor of shape (n, T)
    context : tensor of shape (n, units)
        The last state; of two directions both; of convolution what is pooled of the states.
    prepared : tensor of shape (n, T, ...)
        The states as the attention scores them; the states themselves without attention.
    """

    states: torch.Tensor
    mask: torch.Tensor
    context: torch.Tensor
    prepared: torch.Tensor

    def take(self, rows: torch.Tensor) -> Memory:
        """What was read of some sources."""
        return Memory(self.states[rows], self.mask[rows], self.context[rows], self.prepared[rows])


class AttentiveModel(WritingModel):
    r"""A recurrent decoder that may attend to what an encoder has read; a subclass gives `encode`.

    The decoder begins in :math:`s_0 = \tanh(W c)`, c the encoder's vector of the whole, and
    :math:`s_t = \mathrm{GRU}([y_{t-1}, c_t], s_{t-1})`, where c_t is c or, with attention, the mean of the encoder's
    vectors h weighted by their scores against s_{t-1}. An affine layer of [s_t, c_t] scores the next token.

    Parameters
    ----------
    target_size : int, at least 3
        Ids of the target's vocabulary.
    """

    target_embedding: Embedding

    def build_decoder(
        self,
        width: int,
        units: int,
        inputs: int,
        attention: AttentionRecipe,
        reset: Literal["after", "before"],
        dropout: float,
        dtype: torch.dtype,
    ) -> None:
        """Put the decoder behind an encoder of vectors of width `inputs`; the others as of `Seq2SeqModel`."""
        self.units = units
        self.bridge = dense(inputs, units, dtype=dtype)
        self.decoder = GRU(width + inputs, units, reset=reset, dtype=dtype)
        self.attention = attention.build(units, inputs, dtype)
        self.head = dense(units + inputs, self.target_size - 1, dtype=dtype)
        self.drop_target, self.drop_out = Dropout(dropout), Dropout(dropout)

    def initialize(self, noise: Noise) -> None:
        """First values of the decoder."""
        for name in ("target_embedding", "decoder", "attention"):
            part: Any = getattr(self, name)
            if part is not None:
                part.initialize(noise.child(name))
        for name in ("bridge", "head"):
            initialize(getattr(self, name), XavierUniform(), noise.child(name))

    # --- the network --------------------------------------------------------------------------------------------

    def remembered(self, states: torch.Tensor, mask: torch.Tensor, context: torch.Tensor) -> Memory:
        """The encoder's vectors as the attention reads them."""
        prepared = states if self.attention is None else self.attention.prepare(states)
        return Memory(states, mask, context, prepared)

    def first(self, memory: Memory) -> torch.Tensor:
        """s_0, (n, units)."""
        return torch.tanh(self.bridge(memory.context))

    def alignment(self, s: torch.Tensor, memory: Memory) -> torch.Tensor:
        """Weights (n, T) of the encoder's states for the step after s."""
        assert self.attention is not None
        return weights(self.attention.scores(s[:, None], memory.prepared)[:, 0], memory.mask)

    def context(self, s: torch.Tensor, memory: Memory) -> torch.Tensor:
        """c_t for the step after s."""
        if self.attention is None:
            return memory.context
        return (self.alignment(s, memory)[:, None] @ memory.states)[:, 0]

    def advance(self, y: torch.Tensor, s: torch.Tensor, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        """s_t and [s_t, c_t] from embedded y_{t-1} (n, width) and s_{t-1}."""
        c = self.context(s, memory)
        s = self.decoder.step(torch.cat([y, c], 1), s)
        return s, torch.cat([s, c], 1)

    def scores(self, memory: Memory, given: torch.Tensor, forced: torch.Tensor | None = None) -> torch.Tensor:
        """Scores (n, T, V - 1) of the `outcome` after each of the given tokens (n, T).

        Parameters
        ----------
        memory : Memory
        given : int64 tensor of shape (n, T)
            ``<s>`` and the true tokens: teacher forcing.
        forced : bool tensor of shape (n, T), optional
            Where False the decoder reads the token that it would have predicted instead; all True where left out.
        """
        if forced is not None:
            return self._guided(memory, given, forced, self.first(memory))
        return super().scores(memory, given)

    def hidden(self, memory: Memory, given: torch.Tensor) -> torch.Tensor:
        """[s_t, c_t] after each of the given tokens (n, T), as they are scored."""
        s, y = self.first(memory), self.drop_target(self.target_embedding(given))
        if self.attention is None:
            c = memory.context[:, None].expand(-1, given.shape[1], -1)
            outputs, _ = self.decoder(torch.cat([y, c], 2), s)
            return self.drop_out(torch.cat([outputs, c], 2))
        rows = []
        for t in range(given.shape[1]):
            s, row = self.advance(y[:, t], s, memory)
            rows.append(row)
        return self.drop_out(torch.stack(rows, 1))

    def _guided(self, memory: Memory, given: torch.Tensor, forced: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        outputs: list[torch.Tensor] = []
        token = given[:, 0]
        for t in range(given.shape[1]):
            if t:
                predicted = outputs[-1].detach().argmax(1)
                own = predicted + (predicted > 0).to(predicted.dtype) * (EOS - 1)
                token = torch.where(forced[:, t], given[:, t], own)
            s, row = self.advance(self.drop_target(self.target_embedding(token)), s, memory)
            outputs.append(self.head(self.drop_out(row)))
        return torch.stack(outputs, 1)

    # --- probabilities ------------------------------------------------------------------------------------------

    def given(self, sources: Any) -> Translation:
        """The decoder with these sources before it: `gnomon.contracts.NextToken`, one context to a source."""
        return Translation(self, self.read(sources))

    def attended(self, memory: Memory, given: torch.Tensor) -> torch.Tensor:
        """Weights of each source token at each of the given tokens (n, T), (n, T, source tokens)."""
        if self.attention is None:
            raise UserValueError("attention must not be 'none'", "alignment", "fit with attention='additive'")
        s, found = self.first(memory), []
        for t in range(given.shape[1]):
            found.append(self.alignment(s, memory))
            s, _ = self.advance(self.target_embedding(given[:, t]), s, memory)
        return torch.stack(found, 1)


class Seq2SeqModel(AttentiveModel, TranslationModel):
    r"""P(y | x) = prod_t P(y_t | y_1 ... y_{t-1}, x): an encoder reads x, a decoder writes y.

    The encoder is a `GRU`, or one in each direction, or stacked convolution, with states h_1 ... h_T. The decoder
    begins in :math:`s_0 = \tanh(W c)`, c the encoder's last state, or what is pooled of the states, and
    :math:`s_t = \mathrm{GRU}([y_{t-1}, c_t], s_{t-1})`, where c_t is c or, with attention, the mean of the h weighted
    by their scores against s_{t-1}. An affine layer of [s_t, c_t] scores the next token. Targets end with ``</s>``.

    Parameters
    ----------
    source_size, target_size : int, at least 3
        Ids of both vocabularies; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    width, units : int, at least 1
        Of the embeddings, and of each recurrent layer.
    attention : AttentionRecipe
    bidirectional : bool
        Whether the source is read from both ends.
    reset : {"after", "before"}
        See `GRU`.
    dropout : float in [0, 1), default 0
        Probability to drop an element of the embeddings or of what is scored, in training.
    dtype : torch.dtype
    reader : SequenceReader
        What the encoder is made of; the recurrent one where left out.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        width: int,
        units: int,
        attention: AttentionRecipe,
        bidirectional: bool = True,
        reset: Literal["after", "before"] = "after",
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
        reader: SequenceReader = RecurrentReader(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(target_size)
        self.source_embedding = Embedding(source_size, width, dtype=dtype)
        self.target_embedding = Embedding(target_size, width, dtype=dtype)
        self.encoder = reader.build(width, units, bidirectional=bidirectional, reset=reset, dtype=dtype)
        self.build_decoder(width, units, self.encoder.units, attention, reset, dropout, dtype)
        self.drop_source = Dropout(dropout)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        for name in ("source_embedding", "encoder"):
            part: Any = getattr(self, name)
            part.initialize(noise.child(name))
        super().initialize(noise)

    def encode(self, source: torch.Tensor, lengths: torch.Tensor) -> Memory:
        """Read sources (n, T) of these lengths."""
        states, context = self.encoder(self.drop_source(self.source_embedding(source)), None, lengths)
        mask = torch.arange(source.shape[1], device=source.device) < lengths[:, None]
        return self.remembered(states, mask, context)


class Translation(TokenByToken):
    """The recurrent decoder of some sources: its state is s."""

    moving: ClassVar[tuple[str, ...]] = ("s",)

    def begin(self, n: int) -> State:
        """s_0 of each source."""
        s = self.model.first(self.memory)
        return {"s": s, "source": torch.arange(n, device=s.device)}

    def step(self, tokens: Array, state: State) -> tuple[Array, dict[str, Any]]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        model = self.model
        with torch.no_grad():
            y = model.target_embedding(torch.as_tensor(tokens, device=model.device))
            s, row = model.advance(y, state["s"], self.memory.take(state["source"]))
            log_probs = model.foretold(model.head(row))
        answer = log_probs if isinstance(tokens, torch.Tensor) else log_probs.cpu().numpy()
        return answer, {"s": s, "source": state["source"]}
