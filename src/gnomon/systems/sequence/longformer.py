"""Classifier of long texts: windows of attention, and first tokens that look at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch

from gnomon.nn.positions import Positions
from gnomon.nn.spans import Span
from gnomon.nn.text_encoder import TextEncoder
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import Recipe
from gnomon.systems.sequence.transformer_classifier import TransformerClassifier

__all__ = ["Longformer"]


class Longformer(TransformerClassifier):
    r"""Classifier of long texts: every token looks at a window around it, ``<cls>`` at all and all at ``<cls>``.

    The token at i looks at those at :math:`i + k d`, :math:`|k| d \le w`, and at the first ones, which look at all, so
    that a text of T tokens costs :math:`O(T w)` where `TransformerClassifier` costs :math:`O(T^2)`; all else is as
    there. ``span="mixed"`` gives each head a window and a dilation of its own.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels, sorted.
    vocabulary_ : Vocabulary
        Tokens by id; 0 ... 4 are ``<pad>``, ``<unk>``, ``<cls>``, ``<sep>``, ``<mask>``.
    history_ : dict of lists
        ``cross_entropy`` (nats per row), ``gradient_norm`` by epoch.

    Notes
    -----
    X is a list of strings, or of pairs of strings; rows of more than `window` tokens are cut. Queries, keys and values
    of the first tokens come from the same maps as those of the others. Source: Beltagy, Peters and Cohan (2020).

    Examples
    --------
    >>> texts = ["the sun casts a shadow", "shadow of the dial at noon", "salt of the sea", "tide and wave"] * 8
    >>> model = Longformer(n_embedding=16, n_hidden=32, n_layers=1, epochs=20, batch_size=8, learning_rate=0.01,
    ...                    random_state=0).fit(texts, [0, 0, 1, 1] * 8)
    >>> model.predict(["shadow at noon", "tide of the sea"]).tolist()
    [0, 1]
    """

    name: ClassVar[str] = "longformer"
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"positions": Positions, "span": Span}
    acts_with: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    span: Annotated[str | Recipe, Doc("How far tokens look to both sides; see `gnomon.nn.spans`.")] = "window"
    window: Annotated[
        int, "[5, inf)", Doc("Tokens that are read of a row, special ones among them; longer texts are cut.")
    ] = 512
    batch_size: int | None = 8

    def check_parameters(self) -> None:
        super().check_parameters()
        self.recipe("span").of(self.n_heads)

    def make_encoder(self, n_ids: int, dtype: torch.dtype, **options: Any) -> TextEncoder:
        """With windows."""
        encoder = super().make_encoder(n_ids, dtype, **options)
        encoder.span = self.recipe("span").of(self.n_heads)
        return encoder
