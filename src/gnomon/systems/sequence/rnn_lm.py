"""Language model on a simple recurrent network."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch

from gnomon.nn.recurrent import RNN
from gnomon.recipes.fields import Doc
from gnomon.systems.sequence._lm import RecurrentLM

__all__ = ["RNNLM"]


class RNNLM(RecurrentLM):
    r"""Language model: the next token from the state of a simple recurrent network after all tokens so far.

    :math:`h_t = f(W_x x_t + W_h h_{t-1} + b)` with the token's embedding x_t; an affine layer turns h_t into scores of
    the next token. What lies some ten tokens back is hardly learned: gradients fade on the way (`log_gradient_norms`
    shows it); `GRULM` has gates against that.

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
    `NGram` for the same unit and vocabulary.

    An update costs about 6 batch_size * window * n_hidden * (n_embedding + n_hidden + V) multiplications. ReLU may
    serve periodic texts better than tanh. Source: Elman (1990); Mikolov et al. (2010).

    Examples
    --------
    >>> model = RNNLM(n_hidden=16, n_embedding=8, window=5, batch_size=2, epochs=25, learning_rate=0.03,
    ...               early_stopping="off", random_state=0).fit(["a b c d"] * 20)
    >>> model.perplexity(["a b c d"]) < 1.1
    True
    """

    name: ClassVar[str] = "rnn-lm"

    activation: Annotated[Literal["tanh", "relu"], Doc("f.")] = "tanh"

    def make_layer(self, inputs: int, dtype: torch.dtype) -> RNN:
        """`gnomon.nn.recurrent.RNN`."""
        return RNN(inputs, self.n_hidden, torch.tanh if self.activation == "tanh" else torch.relu, dtype=dtype)
