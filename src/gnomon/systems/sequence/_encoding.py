"""What systems on an encoder of texts have in common: its fields, its vocabulary, weights that were published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon.contracts import Noise
from gnomon.data.examples import Examples
from gnomon.data.packing import CLS, SEP, SPECIALS, pack, room
from gnomon.data.sequences import Tokens
from gnomon.data.text import Vocabulary
from gnomon.errors import UserValueError
from gnomon.nn.positions import Positions, RotaryPositions
from gnomon.nn.text_encoder import TextEncoder
from gnomon.nn.transformer import EncoderLayer
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.system.by_gradient import ByGradient
from gnomon.systems.sequence._looking import AttentionMaps, attention_maps
from gnomon.systems.sequence._published import by_our_names

__all__ = ["OnTextEncoder"]


class OnTextEncoder(ByGradient):
    """Base of systems whose model has an ``encoder`` (`TextEncoder`) and a ``vocabulary``."""

    slots: ClassVar[Mapping[str, type[Recipe]]] = {"positions": Positions}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vocabulary_size": {"unit": "bpe"}}

    unit: Annotated[
        Literal["word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"],
        Doc("What a string is cut into; the last four are pieces that are learned from the text."),
    ] = "word"
    vocabulary_size: Annotated[
        int, "[256, inf)", Doc("Pieces that ``bpe``, ``byte-bpe``, ``marked-bpe`` and ``wordpiece`` may learn.")
    ] = 4000
    min_count: Annotated[int, "[1, inf)", Doc("Tokens rarer than this in the training text are read as ``<unk>``.")] = 1
    n_layers: Annotated[int, "[1, inf)", Doc("Layers of attention, each with a network behind it.")] = 3
    n_heads: Annotated[
        int, "[1, inf)", Doc("Heads of each layer's attention, which look each in its own way; divides n_embedding.")
    ] = 4
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of every layer, and of the vectors of texts.")] = 128
    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units of the network at each position.")] = 512
    positions: Annotated[str | Recipe, Doc("How layers know where a token stands; see `gnomon.nn.positions`.")] = (
        "learned"
    )
    activation: Annotated[Literal["gelu", "relu"], Doc("Activation of the networks' hidden units.")] = "gelu"
    norm: Annotated[
        Literal["after", "before"],
        Doc("Where layer normalization stands: after each sum, as published, or before each part."),
    ] = "after"
    statistics: Annotated[
        Literal["token", "text"],
        Doc(
            "Over what layer normalization takes mean and variance: the features of each token, as published, or those "
            "of all tokens of a text, padding left out."
        ),
    ] = "token"
    window: Annotated[int, "[5, inf)", Doc("Tokens that are read together, the special ones among them.")] = 64
    dropout: Annotated[
        float, "[0, 1)", Doc("Probability to drop an element of the embedding or of a layer's output in training.")
    ] = 0.1
    batch_size: int | None = 32
    learning_rate: float = 1e-3
    schedule: str | Recipe = "warmup-linear"
    clip: float | None = 1.0

    @property
    def vocabulary_(self) -> Vocabulary:
        """Tokens by id; 0 ... 4 are ``<pad>``, ``<unk>``, ``<cls>``, ``<sep>``, ``<mask>``."""
        vocabulary: Vocabulary = self.model_.vocabulary
        return vocabulary

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.n_embedding % self.n_heads:
            raise UserValueError(
                f"n_heads must divide n_embedding {self.n_embedding}, got {self.n_heads}", "n_heads",
                "choose a divisor",
            )  # fmt: skip

    def initialize(self, model: Any, examples: Examples, noise: Noise) -> None:
        model.vocabulary = examples.shared["vocabulary"]
        model.initialize(noise)

    def foreign_weights(
        self, model: Any, arrays: Mapping[str, Any], source: str
    ) -> tuple[dict[str, Any], dict[str, str]] | None:
        published = None if self._start is None else self._start[1].published
        return None if published is None else by_our_names(model, arrays, published, self.window)

    def attention(self, text: str | Sequence[str]) -> AttentionMaps:
        """Where each head of each layer looks from every token of a text, ``<cls>`` and ``<sep>`` among them.

        Parameters
        ----------
        text : str or list of tokens
            What is beyond ``window - 2`` tokens is left out.

        Returns
        -------
        AttentionMaps
            Rows sum to 1. O(n_layers n_heads T^2) numbers.
        """
        check_is_fitted(self)
        known = Tokens(self.unit, self.vocabulary_).tokens(text, "text")[: room(self.window, pair=False)]
        packed = pack(Ragged.of([self.vocabulary_.encode(known)]))
        return attention_maps(self.model_.encoder, [SPECIALS[CLS], *known, SPECIALS[SEP]], packed.ids[0])

    def make_encoder(
        self, n_ids: int, dtype: torch.dtype, *, share: float = 1.0, pooled: bool = True,
        embedding_width: int | None = None, learned_segments: bool = True, epsilon: float = 1e-12,
    ) -> TextEncoder:  # fmt: skip
        """The encoder, or one of a share of the width, before any fit."""
        heads = max(1, round(self.n_heads * share))
        width, inner = self.n_embedding // self.n_heads * heads, max(1, round(self.n_hidden * share))
        narrow = embedding_width or width
        positions: Positions = self.recipe("positions")
        turned = width if isinstance(positions, RotaryPositions) else narrow
        places = positions.build(self.window, turned, heads, dtype)
        unit, first = nn.GELU if self.activation == "gelu" else nn.ReLU, self.norm == "before"
        over_text = self.statistics == "text"
        layers = [
            EncoderLayer(
                width, heads, inner, unit(), norm_first=first, dropout=self.dropout, places=places, epsilon=epsilon,
                over_text=over_text, dtype=dtype,
            )
            for _ in range(self.n_layers)
        ]  # fmt: skip
        return TextEncoder(
            n_ids, width, layers, places, embedding_width=narrow, dropout=self.dropout, final_norm=first,
            epsilon=epsilon, pooled=pooled, learned_segments=learned_segments, over_text=over_text,
            dtype=dtype,
        )  # fmt: skip
