"""Names of the weights of published encoders of texts, as the library transformers saves them, and ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["own_names"]

FAMILY = re.compile(r"^(bert|roberta|electra)\.")
"""What names begin with where the encoder is a part of a network with outputs."""
BESIDE = re.compile(r"position_ids$|token_type_ids$|predictions\.decoder\.|^lm_head\.decoder\.")
"""What is saved though it is no weight, or is another one's once more."""
RULES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"LayerNorm\.gamma$", "LayerNorm.weight"),
        (r"LayerNorm\.beta$", "LayerNorm.bias"),
        (r"^embeddings\.word_embeddings\.", "encoder.tokens."),
        (r"^embeddings\.position_embeddings\.", "encoder.places."),
        (r"^embeddings\.token_type_embeddings\.", "encoder.segments."),
        (r"^embeddings\.LayerNorm\.", "encoder.norm."),
        (r"^embeddings_project\.", "encoder.widen."),
        (r"^encoder\.layer\.(\d+)\.", r"encoder.layers.\1."),
        (r"\.attention\.self\.", ".attention."),
        (r"\.attention\.output\.dense\.", ".attention.out."),
        (r"\.attention\.output\.LayerNorm\.", ".norm_1."),
        (r"\.intermediate\.dense\.", ".feed_forward.first."),
        (r"(\.layers\.\d+)\.output\.dense\.", r"\1.feed_forward.second."),
        (r"(\.layers\.\d+)\.output\.LayerNorm\.", r"\1.norm_2."),
        (r"^pooler\.dense\.", "encoder.pooler."),
        (r"^cls\.predictions\.transform\.dense\.|^lm_head\.dense\.|^generator_predictions\.dense\.", "head.dense."),
        (
            r"^cls\.predictions\.transform\.LayerNorm\.|^lm_head\.layer_norm\.|^generator_predictions\.LayerNorm\.",
            "head.norm.",
        ),
        (r"^cls\.predictions\.bias$|^lm_head\.bias$|^generator_lm_head\.bias$", "head.bias"),
        (r"^cls\.seq_relationship\.", "follows."),
        (r"^discriminator_predictions\.dense\.", "replaced.dense."),
        (r"^discriminator_predictions\.dense_prediction\.", "replaced.out."),
    )
)


def own_names(arrays: Mapping[str, Any]) -> dict[str, str] | None:
    """What the source calls our arrays, by our names; None where nothing looks like an encoder of texts.

    Examples
    --------
    >>> own_names({"bert.encoder.layer.0.attention.self.query.weight": 0, "bert.embeddings.LayerNorm.gamma": 0})
    ... # doctest: +NORMALIZE_WHITESPACE
    {'encoder.layers.0.attention.query.weight': 'bert.encoder.layer.0.attention.self.query.weight',
     'encoder.norm.weight': 'bert.embeddings.LayerNorm.gamma'}
    """
    if not any("embeddings.word_embeddings." in name for name in arrays) and not any(
        "attention.self.query." in name for name in arrays
    ):
        return None
    return {_own(name): name for name in arrays if not BESIDE.search(name)}


def _own(name: str) -> str:
    name = FAMILY.sub("", name)
    for pattern, replacement in RULES:
        name = pattern.sub(replacement, name)
    return name
