"""Language model on long short-term memory."""

from __future__ import annotations

from typing import ClassVar

import torch

from gnomon.nn.recurrent import LSTM
from gnomon.systems.sequence._lm import RecurrentLM

__all__ = ["LSTMLM"]


class LSTMLM(RecurrentLM):
    r"""Language model: the next token from the cells of a long short-term memory after all tokens so far.

    Gates decide what the cells forget, take in and show,
    :math:`c_t = f_t \odot c_{t-1} + i_t \odot g_t, h_t = o_t \odot \tanh c_t`; an affine layer turns h_t into scores
    of the next token. What a cell holds fades only where its gate says so, so that more of a sentence is learned from
    than in `RNNLM`; `GRULM` has fewer gates and no cell beside its state.

    Attributes
    ----------
    vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``, which no token of the text is.
    history_ : dict of lists
        ``cross_entropy`` (nats per token), ``gradient_norm``, and with validation text ``validation_cross_entropy`` and
        ``best_epoch``, by epoch.

    Notes
    -----
    Text is a string (each line a sentence), a list of strings (sentences), or a list of lists of tokens. In training
    sentences follow one another; scores and searches begin each in the state 0. Scores are comparable with those of
    `NGram` and `GRULM` for the same unit and vocabulary.

    An update costs about 6 batch_size * window * n_hidden * (4 n_embedding + 4 n_hidden + V) multiplications. Source:
    Hochreiter and Schmidhuber (1997); Sundermeyer, Schlüter and Ney (2012).

    Examples
    --------
    >>> model = LSTMLM(n_hidden=16, n_embedding=8, window=5, batch_size=2, epochs=25, learning_rate=0.03,
    ...                early_stopping="off", random_state=0).fit(["a b c d"] * 20)
    >>> model.perplexity(["a b c d"]) < 1.1
    True
    """

    name: ClassVar[str] = "lstm-lm"

    def make_layer(self, inputs: int, dtype: torch.dtype) -> LSTM:
        """`gnomon.nn.recurrent.LSTM`."""
        return LSTM(inputs, self.n_hidden, dtype=dtype)
