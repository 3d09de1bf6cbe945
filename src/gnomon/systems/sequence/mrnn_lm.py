"""Language model of characters on a multiplicative recurrent network."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch

from gnomon.nn.multiplicative import MultiplicativeRNN
from gnomon.recipes.fields import Doc
from gnomon.systems.sequence._lm import RecurrentLM

__all__ = ["MRNNLM"]


class MRNNLM(RecurrentLM):
    r"""Language model of characters: each one chooses how the state of a recurrent network is mapped.

    :math:`f_t = (W_{fx} x_t) \odot (W_{fh} h_{t-1}), h_t = \tanh(W_{hf} f_t + W_{hx} x_t + b)` with the character's
    embedding x_t; an affine layer turns h_t into scores of the next character. Where `RNNLM` adds what a character says
    to one map of the state, here the characters' maps differ and share their factors: after ``ing`` other things follow
    ``t`` than after ``th``.

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
    sentences follow one another; scores and searches begin each in the state 0. ``unit="byte"`` reads any script with
    at most 256 tokens; what it writes is always UTF-8. Models of unlike units are compared by `bits_per_char` and
    `bits_per_byte`.

    An update costs about 6 batch_size * window * ((n_hidden + n_factors) * n_embedding + 2 n_hidden * n_factors +
    n_hidden * V) multiplications, place by place. Source: Sutskever, Martens and Hinton (2011), who fitted it by
    Hessian-free optimization.

    Examples
    --------
    >>> model = MRNNLM(n_hidden=16, n_factors=16, n_embedding=8, window=5, batch_size=2, epochs=25, learning_rate=0.03,
    ...                early_stopping="off", random_state=0).fit(["abcd"] * 20)
    >>> model.generate("ab", method="greedy"), model.bits_per_char(["abcd"]).value < 0.1
    (['abcd'], True)
    """

    name: ClassVar[str] = "mrnn-lm"

    unit: Literal["word", "char", "byte", "jieba", "bpe", "byte-bpe", "marked-bpe", "wordpiece"] = "char"
    n_factors: Annotated[int, "[1, inf)", Doc("Factors through which a token chooses the map of the state.")] = 256

    def make_layer(self, inputs: int, dtype: torch.dtype) -> MultiplicativeRNN:
        """`gnomon.nn.multiplicative.MultiplicativeRNN`."""
        return MultiplicativeRNN(inputs, self.n_hidden, self.n_factors, dtype=dtype)
