"""Language model of long texts: windows of attention, some of them with gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.sequence.transformer_lm import TransformerLM

__all__ = ["LongformerLM"]


class LongformerLM(TransformerLM):
    r"""Language model of long texts: each head of a layer looks at a window of tokens, near ones or far ones with gaps.

    Head h lets the token at i look at :math:`i - k d_h`, :math:`0 \le k \le w_h`, so that a text of T tokens costs
    :math:`O(T w)` where `TransformerLM` costs :math:`O(T^2)`; stacked layers reach
    :math:`L \max_h w_h d_h + 1` tokens (``receptive_field_``). Heads without gaps beside those with gaps leave no token
    out. All else is as in `TransformerLM`.

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
    Text is a string (each line a sentence), a list of strings (sentences, or whole documents), or a list of lists of
    tokens. Memory grows with `window`, not with its square; generation keeps the keys and values that a window still
    reaches. Source: Beltagy, Peters and Cohan (2020), section 4.

    Examples
    --------
    >>> from gnomon.nn.spans import MixedSpan
    >>> text = ["the sun casts the shadow of the dial"] * 20
    >>> model = LongformerLM(n_embedding=16, n_hidden=32, n_heads=2, n_layers=2, window=9, batch_size=4, epochs=15,
    ...                      span=MixedSpan((2,), (1, 2)), learning_rate=0.02, early_stopping="off",
    ...                      random_state=0).fit(text)
    >>> model.generate("the sun", method="greedy"), model.receptive_field_
    (['the sun casts the shadow of the dial'], 9)
    """

    name: ClassVar[str] = "longformer-lm"
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {"span": {"window": 128}}

    span: Annotated[str | Recipe, Doc("How far back each head looks; see `gnomon.nn.spans`.")] = "mixed"
    window: Annotated[int, "[1, inf)", Doc("Tokens of a sentence that are read together, at a cost of so many.")] = 512
    batch_size: int | None = 4
