"""Weights of published encoders of texts, as the library transformers saves them, by our names and in our order."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import torch

from gnomon.errors import UserValueError
from gnomon.nn.positions import LearnedPositions
from gnomon.system.published import Published

__all__ = ["by_our_names", "check_settings", "own_names", "widths"]

FAMILY = re.compile(r"^(bert|roberta|electra)\.")
"""What names begin with where the encoder is a part of a network with outputs."""
BESIDE = re.compile(r"position_ids$|token_type_ids$|predictions\.decoder\.|^lm_head\.decoder\.")
"""What is saved though it is no weight, or is another one's once more."""
USUAL = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
"""What a config.json says of an encoder as ours is, or leaves out."""
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


def check_settings(system: Any, published: Published, families: Collection[str]) -> None:
    """Refuse settings of a system that are not those of a published encoder, all of them in one line.

    Parameters
    ----------
    system : TextPretraining or ReadsTexts
    published : Published
    families : collection of str
        That the system can begin from.
    """
    config, name = published.config, str(published.folder)
    if published.family not in families:
        what = f"{name} must be of {' or '.join(families)}, got {published.family}"
        raise UserValueError(what, "initial", "give another folder, or fit transformer-classifier")
    usual = USUAL | ({"tie_word_embeddings": True} if hasattr(system, "masking") else {})
    strange = [one for one, value in usual.items() if config.get(one, value) != value]
    strange += [] if config["hidden_act"] in ("gelu", "relu") else ["hidden_act"]
    if strange:
        what = f"{name} has {strange[0]} {config[strange[0]]!r}, which no encoder has here"
        raise UserValueError(what, "initial", "give another folder")
    wanted = {
        "unit": published.unit, "n_layers": config["num_hidden_layers"], "n_heads": config["num_attention_heads"],
        "n_embedding": published.width, "n_hidden": config["intermediate_size"], "activation": config["hidden_act"],
        "positions": LearnedPositions.short, "norm": "after", "statistics": "token",
    }  # fmt: skip
    given = {one: getattr(system, one) for one in wanted}
    given["positions"] = type(system.recipe("positions")).short
    if hasattr(system, "embedding_width"):
        wanted["embedding_width"] = published.embedding_width
        given["embedding_width"] = system.embedding_width or system.n_embedding
    if hasattr(system, "segments"):
        wanted["segments"], given["segments"] = "learned", system.segments
    if system.window > published.longest:
        wanted["window"], given["window"] = published.longest, system.window
    others = [one for one, value in wanted.items() if given[one] != value]
    if others:
        what = f"the settings must be those of {name}, got {', '.join(f'{one}={given[one]}' for one in others)}"
        raise UserValueError(what, "initial", f"give {', '.join(f'{one}={wanted[one]}' for one in others)}")


def widths(start: Any) -> dict[str, Any]:
    """What the source of a fit says of its encoder beside the settings: the term of the norms, the embedding's width.

    Parameters
    ----------
    start : (FineTuning, Source) or None
        What a fit begins from.
    """
    source = None if start is None else start[1]
    if source is None or (source.published is None and source.system is None):
        return {}
    if source.published is not None:
        return {"epsilon": source.published.epsilon, "embedding_width": source.published.embedding_width}
    known = {"embedding_width": getattr(source.system, "embedding_width", None), **source.system.arguments_}
    return {name: known[name] for name in ("epsilon", "embedding_width") if known.get(name) is not None}


def by_our_names(
    model: Any, arrays: Mapping[str, Any], published: Published, window: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """The arrays by the names of a network, in the order of its ids, and what they are called in the file.

    What the network has no part for, a head say, is left out. Tokens come into the order of our ids, places begin with
    the first one that is used and end with the window, a single segment becomes both, and of what follows what the
    first number is that of the pairs that do not.

    Parameters
    ----------
    model : EncodedTexts, BERTModel or ELECTRAModel
    arrays : mapping of str to tensor
    published : Published
    window : int
        Tokens of a row.

    Raises
    ------
    UserValueError
        No encoder among the arrays.
    """
    names, own = own_names(arrays), model.state_dict()
    if names is None:
        what = f"{published.weights} has no weights of an encoder of texts"
        raise UserValueError(what, "initial", "give another folder")
    if any(name.startswith("generator_") for name in arrays) and "replaced.out.weight" in own:
        what = f"{published.folder} is the generator of an ELECTRA"
        raise UserValueError(what, "initial", "give its discriminator")
    if "head.dense.weight" not in own:  # the head is one of classes
        names = {name: called for name, called in names.items() if not name.startswith("head.")}
    called = {name: theirs for name, theirs in names.items() if name in own or name.startswith("encoder.layers.")}
    found = {name: arrays[theirs] for name, theirs in called.items()}
    ids = torch.from_numpy(published.ids)
    for name in ("encoder.tokens.weight", "head.bias"):
        if name in found:
            found[name] = found[name][ids]
    places, segments = found["encoder.places.weight"], found["encoder.segments.weight"]
    found["encoder.places.weight"] = places[published.skipped : published.skipped + window]
    found["encoder.segments.weight"] = segments.expand(2, -1) if len(segments) == 1 else segments
    for name in ("follows.weight", "follows.bias"):
        if name in found:
            found[name] = found[name].flip(0)
    return found | _shared(own, found), called


def _shared(own: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of which a network has two names, by the names that are not there yet."""
    there = {own[name].data_ptr(): value for name, value in found.items() if name in own}
    return {name: there[one.data_ptr()] for name, one in own.items() if name not in found and one.data_ptr() in there}
