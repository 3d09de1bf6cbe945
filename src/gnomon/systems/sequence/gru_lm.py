"""Language model on a gated recurrent unit."""

from __future__ import annotations

from typing import ClassVar

import torch

from gnomon.nn.recurrent import GRU
from gnomon.systems.sequence._fields import Gated
from gnomon.systems.sequence._lm import RecurrentLM

__all__ = ["GRULM"]


class GRULM(RecurrentLM, Gated):
    r"""Language model: the next token from the state of a gated recurrent unit after all tokens so far.

    The gates decide what of the state is kept, :math:`h_t = z_t \odot h_{t-1} + (1 - z_t) \odot \tilde h_t`, so that it
    may remember over more tokens than the state of `RNNLM`.

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

    An update costs about 6 batch_size * window * (3 n_hidden (n_embedding + n_hidden) + n_hidden * V) multiplications.
    Source: Cho et al. (2014); Mikolov et al. (2010) for the language model.

    Examples
    --------
    >>> text = ["the sun casts the shadow of the dial"] * 20
    >>> model = GRULM(n_hidden=16, n_embedding=8, window=9, batch_size=2, epochs=12, learning_rate=0.03,
    ...               early_stopping="off", random_state=0).fit(text)
    >>> model.generate("the sun", method="greedy")
    ['the sun casts the shadow of the dial']
    """

    name: ClassVar[str] = "gru-lm"

    def make_layer(self, inputs: int, dtype: torch.dtype) -> GRU:
        """`gnomon.nn.recurrent.GRU`."""
        return GRU(inputs, self.n_hidden, reset=self.reset, dtype=dtype)
