"""Sequence to sequence: from a source to a target of another length, with and without attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import torch

from gnomon.errors import UserValueError
from gnomon.nn.attention import AttentionRecipe
from gnomon.nn.readers import SequenceReader
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.sequence._fields import Gated
from gnomon.systems.sequence._target_loss import TargetLoss
from gnomon.systems.sequence._translation import EncoderDecoder
from gnomon.systems.sequence._translator import Seq2SeqModel

__all__ = ["Seq2Seq"]


class Seq2Seq(EncoderDecoder, Gated):
    r"""Sequence to sequence by gated recurrent units: an encoder reads the source, a decoder writes the target.

    :math:`P(y \mid x) = \prod_t P(y_t \mid y_1 \dots y_{t-1}, x)`. Without attention the decoder sees the encoder's
    last state alone; with attention, at every step, the mean of all its states, weighted by how well they fit. With
    ``encoder="convolution"`` the source is read by stacked convolution, whose pooled outputs stand for the last state.

    Attributes
    ----------
    source_vocabulary_, target_vocabulary_ : Vocabulary
        Tokens by id; 0, 1, 2 are ``<unk>``, ``<s>``, ``</s>``.
    history_ : dict of lists
        ``cross_entropy`` (nats per target token, ends included), ``gradient_norm``, and with validation pairs
        ``validation_cross_entropy`` and ``best_epoch``, by epoch.

    Notes
    -----
    Pairs are tuples of two strings or two lists of tokens. A batch has pairs of like length; padding is in no score.
    Training reads the true tokens before each (`teacher_forcing`); decoding its own. With attention a target is written
    token by token in training as well.

    Source: Cho et al. (2014); Sutskever, Vinyals and Le (2014); Bahdanau, Cho and Bengio (2015); Luong, Pham and
    Manning (2015) for the bilinear score; Kalchbrenner and Blunsom (2013) for convolution.

    Examples
    --------
    >>> pairs = [("one two", "two one"), ("two one", "one two"), ("one one", "one one"), ("two", "two")]
    >>> model = Seq2Seq(unit="word", n_hidden=16, n_embedding=8, epochs=60, learning_rate=0.02,
    ...                 early_stopping="off", random_state=0).fit(pairs)
    >>> model.translate(["one two", "two"])
    ['two one', 'two']
    """

    name: ClassVar[str] = "seq2seq"
    model_class: ClassVar[type] = Seq2SeqModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"encoder": SequenceReader, "attention": AttentionRecipe}

    encoder: Annotated[str | Recipe, Doc("What reads the source: recurrent layers, or stacked convolution.")] = (
        "recurrent"
    )
    attention: Annotated[str | Recipe, Doc("What the decoder sees of the source; see `gnomon.nn.attention`.")] = (
        "additive"
    )
    bidirectional: Annotated[bool, Doc("Whether recurrent layers read the source from both ends.")] = True
    n_hidden: Annotated[int, "[1, inf)", Doc("Units of each recurrent layer.")] = 128
    n_embedding: Annotated[int, "[1, inf)", Doc("Width of the tokens' embeddings.")] = 64
    teacher_forcing: Annotated[
        float,
        "[0, 1]",
        Doc("Fraction of the decoder's inputs in training that are the true tokens; the others are its own guesses."),
    ] = 1.0
    learning_rate: float = 3e-3

    # --- fit ----------------------------------------------------------------------------------------------------

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.vocab_partition is not None and self.teacher_forcing < 1:
            raise UserValueError(
                f"teacher_forcing must be 1 with vocab_partition, got {self.teacher_forcing:g}", "teacher_forcing",
                "guesses need the scores of all tokens: leave one of both out",
            )  # fmt: skip

    def make(self, *, source_size: int, target_size: int, dtype: str) -> Seq2SeqModel:
        return Seq2SeqModel(
            source_size, target_size, self.n_embedding, self.n_hidden, self.recipe("attention"), self.bidirectional,
            self.reset, self.dropout, getattr(torch, dtype), self.recipe("encoder"),
        )  # fmt: skip

    def make_objective(self) -> TargetLoss:
        return TargetLoss(self.teacher_forcing, self.vocab_partition)
