"""The mathematics of language models that are networks: token ids alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import BOS, EOS, UNKNOWN
from gnomon.data.text import Vocabulary
from gnomon.data.tokenizers import restored
from gnomon.errors import UserTypeError
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import Embedding
from gnomon.nn.initializers import XavierUniform, initialize
from gnomon.nn.layers import dense
from gnomon.nn.module import Module
from gnomon.nn.recurrent import Recurrent
from gnomon.numeric.ragged import Ragged

__all__ = ["NetworkLanguageModel", "RecurrentLanguageModel", "WithVocabulary", "foretold", "outcome", "vocabulary_in"]

CELLS = 1 << 22
"""Scores that are held at once."""


def outcome(ids: torch.Tensor) -> torch.Tensor:
    """Number of an id among the outcomes: all ids but ``<s>``, which is never predicted."""
    return ids - (ids > BOS).to(ids.dtype)


def foretold(scores: torch.Tensor, size: int) -> torch.Tensor:
    """Log probabilities (n, size) of the next token from scores (n, size - 1) of its outcomes; -inf of ``<s>``."""
    known = torch.log_softmax(scores, 1)
    log_probs = known.new_full((len(known), size), -torch.inf)
    log_probs[:, UNKNOWN], log_probs[:, EOS:] = known[:, 0], known[:, 1:]
    return log_probs


class WithVocabulary(Module):
    """A network that is saved with the vocabulary of its tokens."""

    vocabulary: Vocabulary | None = None

    def state(self) -> dict[str, Any]:
        """Parameters, and the vocabulary."""
        names = {} if self.vocabulary is None else self.vocabulary.state()
        return super().state() | {f"token_{name}": value for name, value in names.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` described."""
        super().load({name: value for name, value in state.items() if not name.startswith("token_")})
        self.vocabulary = vocabulary_in(state) or self.vocabulary


def vocabulary_in(arrays: Mapping[str, Any]) -> Vocabulary | None:
    """The vocabulary that the state of a model holds; None where it has none."""
    names = {name.removeprefix("token_"): np.asarray(v) for name, v in arrays.items() if name.startswith("token_")}
    return restored(names) if names else None


class NetworkLanguageModel(WithVocabulary):
    """P(w_1 ... w_T) = prod_t P(w_t | w_1 ... w_{t-1}) by a network that scores the next token after each.

    Sentences are ``<s> w_1 ... w_T </s>``; the end is predicted, ``<s>`` is not, so that the probabilities of all
    sentences of any length sum to 1. A subclass gives `scores`, ``start`` and ``step``.

    Parameters
    ----------
    vocabulary_size : int, at least 3
        Ids 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    """

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.vocabulary_size = vocabulary_size

    def scores(self, tokens: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        """Scores (n, T, V - 1) of the `outcome` after each of the tokens (n, T), and the state after the last."""
        raise NotImplementedError

    def foretold(self, scores: torch.Tensor) -> torch.Tensor:
        """Log probabilities (n, V) of the next token from scores (n, V - 1) of its outcomes."""
        return foretold(scores, self.vocabulary_size)

    def select(self, state: State, index: Array) -> State:
        """The state of the sequences in `index`."""
        rows = torch.as_tensor(index, device=self.device)
        return {name: value[rows] for name, value in state.items()}

    # --- probabilities ------------------------------------------------------------------------------------------

    def token_log_prob(self, text: Ragged) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Log probability in nats of every token and every end, sentence by sentence, and the sentence of each."""
        lengths = text.lengths + 1
        starts = np.cumsum(lengths) - lengths
        values = np.zeros(int(lengths.sum()))
        for rows in self._chunks(lengths):
            some = text.take(rows)
            for_row = lengths[rows]
            width = int(for_row.max())
            inputs, targets = np.full((len(rows), width), EOS), np.full((len(rows), width), EOS)
            inside = np.arange(width - 1) < some.lengths[:, None]
            inputs[:, 0] = BOS
            inputs[:, 1:][inside], targets[:, :-1][inside] = some.values, some.values
            scores = self._of_targets(torch.from_numpy(inputs), torch.from_numpy(targets))
            kept = np.arange(width) < for_row[:, None]
            values[(starts[rows][:, None] + np.arange(width))[kept]] = scores[kept]
        return values, np.repeat(np.arange(len(text)), lengths)

    def _chunks(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Sentences of like length together, as many as memory allows."""
        order, begin = np.argsort(lengths, kind="stable"), 0
        while begin < len(order):
            end = len(order)
            while end > begin + 1 and (end - begin) * int(lengths[order[end - 1]]) * self.vocabulary_size > CELLS:
                end = begin + max(1, (end - begin) // 2)
            yield order[begin:end]
            begin = end

    def _of_targets(self, inputs: torch.Tensor, targets: torch.Tensor) -> NDArray[np.float64]:
        with torch.no_grad():
            device = self.device
            scores, _ = self.scores(inputs.to(device))
            wanted = outcome(targets.to(device))[..., None]
            log_p = scores.gather(2, wanted)[..., 0] - scores.logsumexp(2)
            return log_p.double().cpu().numpy()

    def log_prob(self, text: Ragged) -> NDArray[np.float64]:
        """Log probability of each sentence in nats, its end included."""
        values, sentence = self.token_log_prob(text)
        return np.bincount(sentence, weights=values, minlength=len(text)).astype(np.float64, copy=False)


class RecurrentLanguageModel(NetworkLanguageModel):
    r"""P(w_1 ... w_T) = prod_t P(w_t | w_1 ... w_{t-1}), from the state of a recurrent layer after the tokens so far.

    A token's embedding drives the layer, whose output an affine layer turns into scores of the next token.
    Parameters
    ----------
    vocabulary_size : int, at least 3
        Ids 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    width : int, at least 1
        Of the embedding.
    layer : Recurrent
        Of inputs of this width.
    dropout : float in [0, 1), default 0
        Probability to drop an element of the embedding or of the layer's output in training; what goes from token to
        token in the state is never dropped (Zaremba, Sutskever and Vinyals 2014).
    dtype : torch.dtype
    """

    def __init__(
        self,
        vocabulary_size: int,
        width: int,
        layer: torch.nn.Module,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(vocabulary_size)
        if not isinstance(layer, Recurrent):
            what = f"layer must be one that reads forward, got {type(layer).__name__}"
            raise UserTypeError(what, "layer", "a layer that reads backward too sees the tokens that it foretells")
        self.embedding = Embedding(vocabulary_size, width, dtype=dtype)
        self.layer: Recurrent = layer
        self.drop_in, self.drop_out = Dropout(dropout), Dropout(dropout)
        self.head = dense(layer.units, vocabulary_size - 1, dtype=dtype)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        self.embedding.initialize(noise.child("embedding"))
        self.layer.initialize(noise.child("layer"))
        initialize(self.head, XavierUniform(), noise.child("head"))

    def scores(
        self, tokens: torch.Tensor, state: torch.Tensor | None = None, lengths: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores (n, T, V - 1) of the `outcome` after each of the tokens (n, T), and the state after the last."""
        outputs, state = self.layer(self.drop_in(self.embedding(tokens)), state, lengths)
        return self.head(self.drop_out(outputs)), state

    # --- one token at a time ------------------------------------------------------------------------------------

    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """State after each context; before the first token it is 0."""
        text = Ragged.of(list(contexts))
        device = self.device
        with torch.no_grad():
            ids, lengths = torch.from_numpy(text.padded()).to(device), torch.from_numpy(text.lengths).to(device)
            _, state = self.layer(self.embedding(ids), None, lengths)
        return {"h": state}

    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        with torch.no_grad():
            ids = torch.as_tensor(tokens, device=self.device)
            after = self.layer.step(self.embedding(ids), state["h"])
            log_probs = self.foretold(self.head(after[:, : self.layer.units]))
        return log_probs if isinstance(tokens, torch.Tensor) else log_probs.cpu().numpy(), {"h": after}
