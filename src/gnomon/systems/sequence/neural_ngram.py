"""Neural n-gram language model: a network on the embeddings of the last tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gnomon.contracts import Array, Noise, State
from gnomon.data.counting import BOS
from gnomon.data.examples import Examples
from gnomon.data.layouts import Layout, Rows
from gnomon.nn.dropout import Dropout
from gnomon.nn.embedding import Embedding
from gnomon.numeric.ragged import Ragged
from gnomon.systems.sequence._contexts import Beside, ContextFields, ContextNet, RowLoss, contexts
from gnomon.systems.sequence._lm import NetworkLM
from gnomon.systems.sequence._model import NetworkLanguageModel

__all__ = ["NeuralNGram", "NeuralNGramModel"]


class NeuralNGramModel(NetworkLanguageModel):
    r"""P(w_1 ... w_T) = prod_t P(w_t | w_{t-n+1} ... w_{t-1}), the softmax of scores of the embedded context.

    :math:`x = [C(w_{t-1}); \dots; C(w_{t-n+1})]`, :math:`y = b + W x + U \tanh(d + H x)`; before the first token of a
    sentence stands ``<s>``, as often as needed.

    Parameters
    ----------
    vocabulary_size : int, at least 3
        Ids 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    n : int, at least 2
    width : int, at least 1
        Of the embedding.
    units : int, at least 0
        Hidden units.
    direct : bool
        Whether there is W.
    dropout : float in [0, 1), default 0
        Probability to drop an element of the embedding or a hidden unit in training.
    dtype : torch.dtype
    """

    def __init__(
        self,
        vocabulary_size: int,
        n: int,
        width: int,
        units: int,
        direct: bool = True,
        dropout: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(vocabulary_size)
        self.context = n - 1
        self.embedding = Embedding(vocabulary_size, width, dtype=dtype)
        self.drop = Dropout(dropout)
        self.net = ContextNet(self.context * width, units, vocabulary_size - 1, direct, dropout, dtype)

    def initialize(self, noise: Noise) -> None:
        """First values of all parameters."""
        self.embedding.initialize(noise.child("embedding"))
        self.net.initialize(noise.child("net"))

    def row_scores(self, data: Mapping[str, Any]) -> torch.Tensor:
        """Scores (n, V - 1) of the `outcome` after each of the contexts ``X`` (n, n - 1)."""
        return self.of_contexts(torch.as_tensor(data["X"], device=self.device))

    def of_contexts(self, ids: torch.Tensor, beside: Beside | None = None) -> torch.Tensor:
        """Scores (..., V - 1) after contexts (..., n - 1), the oldest token first, and of what else is known."""
        scores: torch.Tensor = self.net(self.drop(self.embedding(ids.flip(-1))).flatten(-2), beside)
        return scores

    def scores(self, tokens: torch.Tensor, state: Any = None) -> tuple[torch.Tensor, Any]:
        """Scores (n, T, V - 1) of the `outcome` after each of the tokens (n, T), and None: nothing is carried over."""
        before = torch.nn.functional.pad(tokens, (self.context - 1, 0), value=BOS)
        return self.of_contexts(before.unfold(1, self.context, 1)), None

    # --- one token at a time ------------------------------------------------------------------------------------

    def start(self, contexts: Sequence[Sequence[int]]) -> State:
        """State after each context: its last tokens."""
        kept = self.context
        rows = [[*[BOS] * kept, *one][-kept:] for one in contexts]
        return {"context": torch.tensor(rows, dtype=torch.int64, device=self.device).reshape(len(rows), kept)}

    def step(self, tokens: Array, state: State) -> tuple[Array, State]:
        """Log probabilities of the next token in nats, (n, V), after `tokens`; and the new state."""
        ids = torch.as_tensor(tokens, device=self.device)
        after = torch.cat([state["context"][:, 1:], ids[:, None]], 1)
        with torch.no_grad():
            log_probs = self.foretold(self.of_contexts(after))
        return log_probs if isinstance(tokens, torch.Tensor) else log_probs.cpu().numpy(), {"context": after}


class NeuralNGram(ContextFields, NetworkLM):
    r"""Neural n-gram language model: the next token from the embeddings of the n - 1 tokens before it.

    :math:`x = [C(w_{t-1}); \dots; C(w_{t-n+1})]` are their embeddings, and the softmax of
    :math:`y = b + W x + U \tanh(d + H x)` is the distribution of the next. Contexts that were never seen are near
    others of like words, which n-grams by counting cannot know; `NGram` remembers the frequent ones better.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``, which no token of the text is.
    embeddings_ : array of shape (len(vocabulary_), n_embedding)
        The vectors C of the tokens, by id.
    history_ : dict of lists
        ``cross_entropy`` (nats per token), ``gradient_norm``, and with validation text ``validation_cross_entropy`` and
        ``best_epoch``, by epoch.

    Notes
    -----
    Text is a string (each line a sentence), a list of strings (sentences), or a list of lists of tokens. Every sentence
    begins after n - 1 symbols ``<s>``; rows of a batch are single contexts, in random order. A token that rarely stands
    in a context keeps nearly the vector that it began with, and ``</s>``, which stands in none, keeps it altogether.
    Scores are comparable with those of `NGram` and `GRULM` for the same unit and vocabulary.

    An update costs about 6 batch_size * ((n - 1) * n_embedding * (n_hidden + V) + n_hidden * V) multiplications, with
    ``direct="no"`` 6 batch_size * n_hidden * ((n - 1) * n_embedding + V).

    Source: Bengio, Ducharme, Vincent and Jauvin (2003).

    Examples
    --------
    >>> model = NeuralNGram(n=3, n_hidden=16, n_embedding=8, batch_size=16, epochs=25, learning_rate=0.03,
    ...                     early_stopping="off", random_state=0).fit(["a b c d"] * 20)
    >>> model.perplexity(["a b c d"]) < 1.1
    True
    """

    name: ClassVar[str] = "neural-ngram"
    model_class: ClassVar[type] = NeuralNGramModel

    batch_size: int | None = 256

    @property
    def embeddings_(self) -> NDArray[np.floating]:
        """Vectors of the tokens by id, (len(vocabulary_), n_embedding)."""
        check_is_fitted(self)
        return np.array(self.model_.embedding.weight.detach().cpu().numpy())

    # --- fit ----------------------------------------------------------------------------------------------------

    def make(self, *, vocabulary_size: int, dtype: str) -> NeuralNGramModel:
        return NeuralNGramModel(
            vocabulary_size, self.n, self.n_embedding, self.hidden_units, self.direct != "no", self.dropout,
            getattr(torch, dtype),
        )  # fmt: skip

    def _laid(self, examples: Examples, text: Ragged, size: int) -> Examples:
        """Every token as a row, with the tokens before it."""
        before, token = contexts(text, self.n - 1)
        return Examples({"X": before, "y": token}, np.repeat(examples.weight, text.lengths + 1), examples.shared)

    def make_objective(self) -> RowLoss:
        return RowLoss()

    def layout(self, examples: Any) -> Layout:
        return Rows(self.batch_size)
