"""Language model on a transformer: attention to the tokens before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import BOS
from gnomon.data.layouts import Layout
from gnomon.data.windows import Windows
from gnomon.errors import UserValueError
from gnomon.nn.attention_masks import Mask, receptive_field
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import Embedding, TiedHead
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.positions import Places, Positions
from gnomon.nn.spans import Span
from gnomon.nn.transformer import EncoderLayer, trimmed
from gnomon.numeric.ragged import Ragged
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.sequence._lm import NetworkLM, NextTokenLoss
from gnomon.systems.sequence._looking import AttentionMaps, attention_maps
from gnomon.systems.sequence._model import NetworkLanguageModel

__all__ = ["TransformerLM", "TransformerLanguageModel"]


CACHED = ("keys_", "values_")

SLACK = 64
"""Tokens beyond a window that may be kept before they are dropped together."""


class TransformerLanguageModel(NetworkLanguageModel):
    r"""P(w_1 ... w_T) by layers of attention to the tokens so far and networks at each position.

    A sentence of more than `window` tokens is read in pieces of so many: a piece begins with the last window // 2
    tokens of the one before it, which are read anew and not predicted again, so that a token is predicted from at least
    window // 2 and at most `window` tokens before it, as in training.

    Parameters
    ----------
    vocabulary_size : int, at least 3
        Ids 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    width : int, at least 1
        Of the embedding and of every layer.
    layers : list of EncoderLayer
    places : Places
        That the layers share.
    span : Span
        How far back a token looks.
    window : int, at least 1
        Tokens that are read together.
    dropout : float in [0, 1), default 0
        Probability to drop an element of the embedding in training.
    final_norm : bool
        Whether a norm stands before the scores: with norms before the parts of layers.
    dtype : torch.dtype
    tied : bool, default False
        Whether scores are products with the embedding.
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        layers: Sequence[EncoderLayer],
        places: Places,
        span: Span,
        window: int,
        dropout: float = 0.0,
        final_norm: bool = True,
        dtype: torch.dtype = torch.float32,
        tied: bool = False,
    ) -> None:
        super().__init__(vocabulary_size)
        self.span, self.window = span, window
        self.embedding = Embedding(vocabulary_size, width, dtype=dtype)
        self.places, self.drop = places, Dropout(dropout)
        self.layers = nn.ModuleList(layers)
        self.norm: nn.Module = nn.LayerNorm(width, dtype=dtype) if final_norm else nn.Identity()
        self.head = TiedHead(self.embedding, BOS) if tied else dense(width, vocabulary_size - 1, dtype=dtype)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        self.embedding.initialize(noise.child("embedding"))
        self.places.initialize(noise.child("places"))
        for i, layer in enumerate(self.layers):
            layer.initialize(noise.child(f"layers.{i}"))  # type: ignore[operator]
        if not isinstance(self.head, TiedHead):
            initialize(self.head, XavierUniform(), noise.child("head"))

    # --- the network --------------------------------------------------------------------------------------------

    def scores(self, tokens: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        """Scores (n, T, V - 1) of the `outcome` after each of the tokens (n, T), and None: nothing is carried over.

        Where several sentences follow one another, each is read by itself.
        """
        if tokens.shape[1] <= self.window:
            return self.head(self._read(tokens)[0]), None
        kept = self.window // 2
        parts = [self._read(tokens[:, : self.window])[0]]
        for begin in range(self.window - kept, tokens.shape[1] - kept, self.window - kept):
            parts.append(self._read(tokens[:, begin : begin + self.window])[0][:, kept:])
        return self.head(torch.cat(parts, 1)), None

    def _read(self, tokens: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Outputs (n, T, width) at each token, and keys and values of every layer."""
        mask, at = self._sentences(tokens)
        x = self.drop(self.places.add(self.embedding(tokens), at))
        cache = {}
        for i, layer in enumerate(self.layers):
            x, (cache[f"keys_{i}"], cache[f"values_{i}"]) = layer.read(x, mask, at=at)  # type: ignore[operator]
        return self.norm(x), cache

    def looked(self, tokens: torch.Tensor) -> torch.Tensor:
        """How much each head of each layer looks where, (layers, n, h, T, T), of beginnings of at most `window`."""
        mask, at = self._sentences(tokens)
        x, found = self.places.add(self.embedding(tokens), at), []
        for layer in self.layers:
            found.append(layer.looked(x, mask))  # type: ignore[operator]
            x = layer(x, mask, at=at)
        return torch.stack(found)

    def _sentences(self, tokens: torch.Tensor) -> tuple[Mask, torch.Tensor]:
        """The mask, and the places of tokens in their sentences, (T,) or (n, T)."""
        index = torch.arange(tokens.shape[1], device=tokens.device)
        begins = tokens == BOS
        if not bool(begins[:, 1:].any()):
            return self.span.causal(), index
        first = torch.where(begins, index, 0).cummax(1).values
        return self.span.causal(first), index - first

    # --- one token at a time ------------------------------------------------------------------------------------

    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """State after each context: its tokens, and keys and values of every layer."""
        return self._trimmed(self._state(Ragged.of([self._seen(list(one)) for one in contexts])))

    def _seen(self, context: list[int]) -> list[int]:
        """The tokens of the piece that the last one stands in."""
        moved = self.window - self.window // 2
        beyond = len(context) - self.window
        return context[-(-beyond // moved) * moved :] if beyond > 0 else context

    def _state(self, text: Ragged) -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return self._begun(*(torch.from_numpy(one).to(self.device) for one in (text.padded(), text.lengths)))

    def _begun(self, ids: torch.Tensor, length: torch.Tensor) -> dict[str, torch.Tensor]:
        """The state after tokens (n, T), of each row the first `length`."""
        ids = ids if ids.shape[1] else ids.new_zeros(len(ids), 1)  # something to look at, which no one will
        return {"tokens": ids, "length": length, "dropped": torch.zeros_like(length)} | self._read(ids)[1]

    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        with torch.no_grad():
            ids = torch.as_tensor(tokens, device=self.device)
            state = self._with_room(state)
            length, dropped = state["length"], state["dropped"]
            x = self.places.add(self.embedding(ids)[:, None], length[:, None])
            after = {"tokens": _appended(state["tokens"], ids, length), "length": length + 1, "dropped": dropped}
            for i, layer in enumerate(self.layers):
                names = f"keys_{i}", f"values_{i}"
                cache = tuple(state[name] for name in names)
                x, kept = layer.step(x, cache, length, self.span.causal(), length - dropped)  # type: ignore[operator]
                after |= dict(zip(names, kept, strict=True))
            log_probs = self.foretold(self.head(self.norm(x[:, 0])))
        return log_probs if isinstance(tokens, torch.Tensor) else log_probs.cpu().numpy(), self._trimmed(after)

    def _trimmed(self, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The state without keys and values that no token to come looks at: memory that the window bounds."""
        mask = self.span.causal()
        back, first = mask.reach[0], len(mask.anchors)
        if back is None or (first and self.places.biased):  # distances from the first tokens would be others
            return state
        if state["keys_0"].shape[2] <= first + back + SLACK:
            return state
        surplus = (state["length"] - state["dropped"] - first - back).clamp(min=0)
        short = {name: trimmed(state[name], surplus, first, back) for name in state if name.startswith(CACHED)}
        return state | short | {"dropped": state["dropped"] + surplus}

    def _with_room(self, state: State) -> State:
        """The state with room for one token more: full pieces begin anew with their last tokens."""
        full = state["length"] >= self.window
        if not bool(full.any()):
            return state
        kept, rows = self.window // 2, torch.nonzero(full)[:, 0]
        ids = state["tokens"][rows, self.window - kept : self.window]
        fresh = self._begun(ids, torch.full_like(rows, kept))
        return {name: _replaced(value, rows, fresh[name]) for name, value in state.items()}


def _appended(ids: torch.Tensor, new: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
    """Tokens (n, T) with one more at each row's length."""
    wide = nn.functional.pad(ids, (0, max(0, int(length.max()) + 1 - ids.shape[1]) if len(length) else 0))
    return wide.scatter(1, length[:, None], new[:, None])


def _replaced(value: torch.Tensor, rows: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """An array with other rows, whose time axis may be shorter or longer."""
    if value.ndim == 1:
        return value.index_copy(0, rows, new)
    time = -1 if value.ndim == 2 else -2
    longest, after = max(value.shape[time], new.shape[time]), (0, 0) if time == -2 else ()
    value, new = (nn.functional.pad(one, (*after, 0, longest - one.shape[time])) for one in (value, new))
    return value.index_copy(0, rows, new)


class TransformerLM(NetworkLM):
    r"""Language model: the next token from layers of attention to all tokens so far.

    A layer lets every token look at itself and at those before it,
    :math:`x \leftarrow x + \mathrm{MHA}(\mathrm{LN}(x))`, and changes each by the same network,
    :math:`x \leftarrow x + \mathrm{FF}(\mathrm{LN}(x))`; an affine layer turns what comes out into scores of the next
    token. Nothing has to be remembered in a state as in `GRULM`: a token far back is looked at like the one before.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``, which no token of the text is.
    history_ : dict of lists
        ``cross_entropy`` (nats per token), ``gradient_norm``, and with validation text ``validation_cross_entropy`` and
        ``best_epoch``, by epoch.
    receptive_field_ : int
        Tokens that the prediction of the next one may depend on.

    Notes
    -----
    Text is a string (each line a sentence), a list of strings (sentences), or a list of lists of tokens. In training
    windows of the text come in random order, and sentences that follow one another in a window do not see each other.
    Sentences of more than `window` tokens are read in pieces that overlap by half. Scores are comparable with those of
    `NGram` and `GRULM` for the same unit and vocabulary. Generation keeps keys and values of the tokens so far, so that
    a token costs one pass of one token.

    An update costs about 6 batch_size * window * (n_layers * (4 n_embedding^2 + 2 n_embedding * n_hidden + window *
    n_embedding) + n_embedding * V) multiplications. Source: Vaswani et al. (2017); Radford et al. (2018) for the
    language model.

    Examples
    --------
    >>> text = ["the sun casts the shadow of the dial"] * 20
    >>> model = TransformerLM(n_embedding=16, n_hidden=32, n_heads=2, n_layers=1, window=9, batch_size=4, epochs=15,
    ...                       learning_rate=0.02, early_stopping="off", random_state=0).fit(text)
    >>> model.generate("the sun", method="greedy")
    ['the sun casts the shadow of the dial']
    """

    name: ClassVar[str] = "transformer-lm"
    model_class: ClassVar[type] = TransformerLanguageModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"positions": Positions, "span": Span}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"span": {"window": 128}}  # longer than a span of 32

    n_layers: Annotated[int, "[1, inf)", Doc("Layers of attention, each with a network behind it.")] = 3
    n_heads: Annotated[
        int, "[1, inf)", Doc("Heads of each layer's attention, which look each in its own way; divides n_embedding.")
    ] = 4
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of the tokens' embedding and of every layer.")] = 128
    n_hidden: Annotated[int, "[1, inf)", Doc("Hidden units of the network at each position.")] = 512
    positions: Annotated[str | Recipe, Doc("How layers know where a token stands; see `gnomon.nn.positions`.")] = (
        "rotary"
    )
    span: Annotated[str | Recipe, Doc("How far back a token looks; see `gnomon.nn.spans`.")] = "full"
    activation: Annotated[Literal["gelu", "relu"], Doc("Activation of the networks' hidden units.")] = "gelu"
    norm: Annotated[
        Literal["before", "after"],
        Doc(
            "Where layer normalization stands: before each part, or after each sum, as published, which needs warm-up."
        ),
    ] = "before"
    tie_weights: Annotated[
        bool, Doc("Whether scores of tokens are products with their embedding, learned once for both.")
    ] = False
    window: Annotated[int, "[1, inf)", Doc("Tokens of a sentence that are read together.")] = 64
    attention_dropout: Annotated[
        float, "[0, 1)", Doc("Probability to drop a weight of the attention in training, which then costs more.")
    ] = 0.0
    dropout: float = 0.1
    learning_rate: float = 1e-3

    @property
    def receptive_field_(self) -> int:
        """Tokens that the prediction of the next one may depend on: those that the layers reach, within `window`."""
        check_is_fitted(self)
        back = self.model_.span.causal().reach[0]
        return self.window if back is None else min(self.window, receptive_field(self.n_layers, back, causal=True))

    def attention(self, text: str | Sequence[str]) -> AttentionMaps:
        """Where each head of each layer looks from every token of a text, its beginning ``<s>`` among them.

        Parameters
        ----------
        text : str or list of tokens
            What is beyond ``window - 1`` tokens is left out.

        Returns
        -------
        AttentionMaps
            Rows sum to 1, and are 0 behind the token that looks. O(n_layers n_heads T^2) numbers.
        """
        check_is_fitted(self)
        tokens = self.known_domain().tokens(text, "text")[: self.window - 1]
        ids = np.concatenate([[BOS], self.vocabulary_.encode(tokens)]).astype(np.int64)
        return attention_maps(self.model_, ["<s>", *tokens], ids)

    def check_parameters(self) -> None:
        super().check_parameters()
        self.recipe("span").of(self.n_heads)
        if self.n_embedding % self.n_heads:
            raise UserValueError(
                f"n_heads must divide n_embedding {self.n_embedding}, got {self.n_heads}", "n_heads",
                "choose a divisor",
            )  # fmt: skip

    def make(self, *, vocabulary_size: int, dtype: str) -> TransformerLanguageModel:
        kind = getattr(torch, dtype)
        width, heads, first = self.n_embedding, self.n_heads, self.norm == "before"
        positions: Positions = self.recipe("positions")
        span: Span = self.recipe("span").of(heads)
        unit = nn.GELU if self.activation == "gelu" else nn.ReLU
        places = positions.build(self.window, width, heads, kind)
        layers = [
            EncoderLayer(
                width, heads, self.n_hidden, unit(), norm_first=first, dropout=self.dropout,
                attention_dropout=self.attention_dropout, places=places, dtype=kind,
            )
            for _ in range(self.n_layers)
        ]  # fmt: skip
        return TransformerLanguageModel(
            vocabulary_size, width, layers, places, span, self.window, self.dropout, first, kind,
            self.tie_weights,
        )  # fmt: skip

    def make_objective(self) -> NextTokenLoss:
        return NextTokenLoss(carry=False)

    def layout(self, examples: Any) -> Layout:
        rows = self.batch_size or -(-len(examples["X"].values) // self.window)  # windows, as many as read everything
        return Windows(rows, self.window)
