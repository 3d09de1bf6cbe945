"""ELMo: a language model in each direction, whose layers together say what a token means in its sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Group, Noise
from gnomon.data.counting import BOS, EOS
from gnomon.data.layouts import Batch, Layout
from gnomon.data.windows import Windows
from gnomon.errors import UserValueError
from gnomon.evaluation.perplexity import Perplexity
from gnomon.nn.recurrent import LSTM, reverse
from gnomon.nn.stacked import ScalarMix, Stacked
from gnomon.numeric.given import checked
from gnomon.numeric.ragged import Ragged
from gnomon.objectives.base import Loss, Term
from gnomon.recipes.fields import Doc
from gnomon.systems.sequence._lm import NetworkLM, NextTokenLoss
from gnomon.systems.sequence._model import RecurrentLanguageModel

__all__ = ["BidirectionalLanguageModel", "ELMo"]

Direction = Literal["forward", "backward"]
CELLS = 1 << 22
"""Numbers of a layer that are held at once."""


class BidirectionalLanguageModel(RecurrentLanguageModel):
    """Two recurrent language models that share embedding and scores, one of them of sentences read backward.

    What it says of probabilities and generation is what the forward one says; `back` is the other.

    Parameters
    ----------
    vocabulary_size, width : int
        See `RecurrentLanguageModel`.
    layer, backward_layer : Stacked
    dropout : float in [0, 1), default 0
    dtype : torch.dtype
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        layer: Stacked,
        backward_layer: Stacked,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(vocabulary_size, width, layer, dropout, dtype)
        self.backward_layer = backward_layer
        back = RecurrentLanguageModel(vocabulary_size, width, backward_layer, dropout, dtype)
        back.embedding, back.head, back.drop_in, back.drop_out = self.embedding, self.head, self.drop_in, self.drop_out
        self._back = (back,)  # in a tuple: what it has is this model's, once

    @property
    def back(self) -> RecurrentLanguageModel:
        """The language model of sentences read backward."""
        return self._back[0]

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        super().initialize(noise)
        self.backward_layer.initialize(noise.child("backward_layer"))

    def states(self, ids: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        """What every layer says of tokens (n, T) between their borders: the embedding twice, then both directions.

        Parameters
        ----------
        ids : int64 tensor of shape (n, T)
            ``<s> w_1 ... w_T </s>`` of each sentence, then padding.
        lengths : int64 tensor of shape (n,)
            With the borders.

        Returns
        -------
        list of tensors of shape (n, T, 2 units)
        """
        x = self.embedding(ids)
        stack: Any = self.layer
        ahead = stack.outputs(x, lengths)
        back = self.backward_layer.outputs(self.embedding(reverse(swapped(ids), lengths)), lengths)
        sides = zip(ahead, (reverse(one, lengths) for one in back), strict=True)
        return [torch.cat([x, x], 2), *(torch.cat(pair, 2) for pair in sides)]


def swapped(ids: torch.Tensor) -> torch.Tensor:
    """Sentences whose beginning is called their end and whose end their beginning, as a backward reader meets them."""
    return torch.where(ids == BOS, EOS, torch.where(ids == EOS, BOS, ids))


class BothDirections(NextTokenLoss):
    """Cross-entropy of the token after and of the token before each, as a mean over both."""

    def __init__(self) -> None:
        super().__init__(carry=False)

    def forward(self, model: BidirectionalLanguageModel, batch: Any, *, noise: Noise, phase: str, group: Group) -> Loss:
        """The loss of a window, and what each direction has of it."""
        one: Any
        two: Any
        one, two = (
            self._loss(part, some, None)[0].terms["cross_entropy"]
            for part, some in ((model, batch), (model.back, backward(batch)))
        )
        parts: dict[str, Term] = {
            name: Term(float(term.sum.detach()), term.weight)
            for name, term in (("forward_cross_entropy", one), ("backward_cross_entropy", two))
        }
        return Loss({"cross_entropy": Term(one.sum + two.sum, one.weight + two.weight), **parts})

    def validate(self, model: Any, batch: Any, *, noise: Noise, group: Group) -> Loss:
        """The loss of a window of text that does not train."""
        with torch.no_grad():
            return self.forward(model, batch, noise=noise, phase="validation", group=group)


def backward(batch: Batch) -> Batch:
    """A batch of windows as a reader from their ends to their beginnings meets it."""
    inside = np.concatenate([np.ones((len(batch), 1)), batch.weight > 0], 1)
    text = torch.from_numpy(np.concatenate([batch.data["X"], batch.data["y"][:, -1:]], 1))
    read = reverse(swapped(text), torch.from_numpy(inside.sum(1).astype(np.int64))).numpy()
    count = inside.sum(1, keepdims=True) - 1
    weight = (np.arange(read.shape[1] - 1) < count).astype(batch.weight.dtype)
    return Batch({"X": read[:, :-1], "y": read[:, 1:]}, batch.rows, batch.positions, weight)


class ELMo(NetworkLM):
    r"""Embeddings from a bidirectional language model: what a word means where it stands.

    Layers of long short-term memory learn the next token from those before it, others the token from those after it,

    .. math:: \max \sum_t \log p(w_t | w_1 \ldots w_{t-1}) + \log p(w_t | w_{t+1} \ldots w_T),

    with one embedding and one map to scores for both. The outputs of all layers, mixed, are vectors of the tokens: a
    word has another one in another sentence. The directions never meet below the mix, or each would see what the other
    foretells.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``, which no token of the text is.
    history_ : dict of lists
        ``cross_entropy`` (nats per token, the mean of both directions), ``forward_cross_entropy``,
        ``backward_cross_entropy``, ``gradient_norm``, and with validation text ``validation_cross_entropy`` and
        ``best_epoch``, by epoch.

    Notes
    -----
    Probabilities, scores and generation are those of the forward language model, comparable with those of `GRULM`.
    An update costs twice that of `LSTMLM` with as many layers. Source: Peters and others (2018), sections 3.1 and 3.2,
    with tokens in place of their convolutions over characters.

    Examples
    --------
    >>> text = ["the sun casts the shadow of the dial", "the dial has no shadow"] * 10
    >>> model = ELMo(n_hidden=8, window=9, batch_size=4, epochs=3, early_stopping="off", random_state=0).fit(text)
    >>> model.transform(["the sun", "the dial"]).shape, [one.shape for one in model.token_vectors(["the sun"])]
    ((2, 16), [(2, 16)])
    """

    name: ClassVar[str] = "elmo"
    model_class: ClassVar[type] = BidirectionalLanguageModel

    n_hidden: Annotated[int, "[1, inf)", Doc("Units of every layer in each direction, and width of the embedding.")] = (
        128
    )
    n_layers: Annotated[int, "[1, inf)", Doc("Recurrent layers in each direction.")] = 2
    window: Annotated[int, "[1, inf)", Doc("Tokens of the text that are read together in training.")] = 35

    def make(self, *, vocabulary_size: int, dtype: str) -> BidirectionalLanguageModel:
        kind, width = getattr(torch, dtype), self.n_hidden
        ahead, back = (
            Stacked([LSTM(width, width, dtype=kind) for _ in range(self.n_layers)], self.dropout) for _ in range(2)
        )
        return BidirectionalLanguageModel(vocabulary_size, width, ahead, back, self.dropout, kind)

    def make_objective(self) -> BothDirections:
        return BothDirections()

    def layout(self, examples: Any) -> Layout:
        rows = self.batch_size or -(-len(examples["X"].values) // self.window)  # windows, as many as read everything
        return Windows(rows, self.window)

    # --- verbs --------------------------------------------------------------------------------------------------

    @checked
    def direction_log_prob(self, X: Any, direction: Direction = "forward") -> NDArray[np.float64]:
        """Log probability of each sentence in nats by one of the two language models, (sentences,).

        Parameters
        ----------
        X : text
        direction : {"forward", "backward"}
            ``backward`` foretells each token from those after it, and then the sentence's beginning.
        """
        model, text = self._of_direction(X, direction)
        found: NDArray[np.float64] = model.log_prob(text)
        return found

    @checked
    def perplexity(
        self, X: Any, *, direction: Direction = "forward", unknown: Literal["count", "skip"] = "count"
    ) -> float:
        """exp of the mean negative log probability per token, sentence ends included, by one of the language models.

        Parameters
        ----------
        X : text
        direction : {"forward", "backward"}
            As in `direction_log_prob`.
        unknown : {"count", "skip"}
            Whether tokens outside the vocabulary are among those that are averaged; as context they always stay.
        """
        if direction == "forward":
            return super().perplexity(X, unknown=unknown)
        model, text = self._of_direction(X, direction)
        if unknown not in ("count", "skip"):
            raise UserValueError.must("unknown", "be 'count' or 'skip'", unknown, "perplexity")
        values, _ = model.token_log_prob(text)
        return Perplexity().update(values, None if unknown == "count" else self._known(text)).value

    def _of_direction(self, X: Any, direction: str) -> tuple[RecurrentLanguageModel, Ragged]:
        """The language model that reads in a direction, and the text as it meets it."""
        text = self._encoded(X)
        if direction == "forward":
            return self.model_, text
        if direction != "backward":
            raise UserValueError.must("direction", "be forward or backward", direction)
        return self.model_.back, Ragged.of([one[::-1] for one in text])

    @checked
    def token_vectors(
        self, X: Any, *, layer_weights: Sequence[float] | None = None, scale: float = 1.0, normalize: bool = False
    ) -> list[NDArray[np.float64]]:
        """Vectors of the tokens of each sentence, mixed from all layers.

        Parameters
        ----------
        X : text
        layer_weights : sequence of n_layers + 1 numbers, optional
            w of `gnomon.nn.stacked.ScalarMix`, of the embedding and of each layer; all the same where left out.
        scale : float, default 1
            gamma.
        normalize : bool, default False
            Whether each layer of a sentence is brought to mean 0 and variance 1 before they are mixed.

        Returns
        -------
        list of float64 arrays of shape (tokens, 2 n_hidden)
        """
        mix = ScalarMix(self.n_layers + 1, normalize=normalize, dtype=torch.float64)
        if layer_weights is not None:
            given = torch.as_tensor(np.asarray(layer_weights, np.float64))
            if given.shape != mix.weight.shape:
                what = f"layer_weights must be {len(mix.weight)} numbers, got {list(layer_weights)}"
                raise UserValueError(what, "layer_weights", "give one for the embedding and one for each layer")
            mix.weight.data.copy_(given)
        mix.gamma.data.fill_(scale)
        text = self._encoded(X)
        found: list[NDArray[np.float64]] = [np.zeros((0, 2 * self.n_hidden))] * len(text)
        for rows, layers, lengths in self._layers(text):
            inside = (torch.arange(layers[0].shape[1]) < (lengths - 1)[:, None]) & (
                torch.arange(layers[0].shape[1]) > 0
            )
            mixed = mix(layers, inside).detach().numpy()
            for i, row in enumerate(rows):
                found[row] = mixed[i][inside[i].numpy()]
        return found

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The mean of the tokens' vectors of each sentence, (sentences, 2 n_hidden); 0 for an empty one."""
        return np.stack([one.mean(0) if len(one) else np.zeros(one.shape[1]) for one in self.token_vectors(X)])

    @checked
    def encode(self, X: Any, *, both: bool = False) -> NDArray[np.float64]:
        """The backward state of the topmost layer at the token ``<s>``, which has read the whole sentence.

        Parameters
        ----------
        X : text
        both : bool, default False
            Whether the forward state at the end ``</s>`` stands beside it.

        Returns
        -------
        float64 array of shape (sentences, n_hidden), or (sentences, 2 n_hidden)
        """
        text, width = self._encoded(X), self.n_hidden
        found = np.zeros((len(text), 2 * width if both else width))
        for rows, layers, lengths in self._layers(text):
            top = layers[-1]
            found[rows, :width] = top[:, 0, width:]
            if both:
                found[rows, width:] = top[torch.arange(len(rows)), lengths - 1, :width]
        return found

    def _layers(self, text: Ragged) -> Iterator[tuple[NDArray[np.int64], list[torch.Tensor], torch.Tensor]]:
        """Rows of the text, what all layers say of them between their borders, in double precision, and lengths."""
        order = np.argsort(text.lengths, kind="stable")
        per = max(1, CELLS // ((int(text.lengths.max(initial=0)) + 2) * 2 * self.n_hidden))
        for begin in range(0, len(order), per):
            rows = order[begin : begin + per]
            some = Ragged.of([np.concatenate([[BOS], text[row], [EOS]]) for row in rows])
            ids, lengths = torch.from_numpy(some.padded()), torch.from_numpy(some.lengths)
            with torch.no_grad():
                layers = self.model_.states(ids.to(self.model_.device), lengths.to(self.model_.device))
            yield rows, [one.double().cpu() for one in layers], lengths
