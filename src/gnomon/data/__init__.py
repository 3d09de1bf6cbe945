"""Data: built-in sets, the user's files, tokens, splits and batches. Importing it loads no array library."""

from __future__ import annotations

from typing import Any

from gnomon.data.names import names
from gnomon.recipes.imports import load as load_place

_WHERE = {
    "Batch": "batches", "Binarizer": "binarizing", "Batches": "batches", "Dataset": "dataset", "Vocabulary": "text",
    "Indicators": "encoding", "Lexicon": "lexicon", "from_one_hot": "class_vectors", "one_hot": "class_vectors",
    "Preparation": "preparation", "Prepared": "prepared", "Ratings": "relations", "Rescaler": "preprocessing",
    "Standardizer": "preprocessing", "Triples": "relations", "File": "form", "Interactions": "interactions",
    "fingerprint": "dataset", "images_by_codes": "by_codes", "load": "loading", "open": "streams", "ratings": "pairs",
    "read": "readers", "GCN": "image_contrast", "LCN": "image_contrast", "contrast": "image_contrast",
    "CenterCrop": "framing", "Resize": "framing", "ResizeCrop": "framing", "PixelMean": "image_steps",
    "Whitening": "sphering",
    "check_range": "pixel_range", "from_symmetric": "pixel_range", "from_unit": "pixel_range",
    "to_symmetric": "pixel_range", "to_unit": "pixel_range",
    "sentences": "text", "split": "splitting", "split_ratings": "rating_splits", "tokenize": "text", "triples": "pairs",
}  # fmt: skip

__all__ = [
    "Batch", "Batches", "Binarizer", "CenterCrop", "Dataset", "File", "GCN", "Indicators", "Interactions", "LCN",
    "Lexicon", "PixelMean", "Preparation", "Prepared", "Ratings", "Rescaler", "Resize", "ResizeCrop",
    "Standardizer", "Triples", "Vocabulary", "Whitening", "check_range", "contrast", "fingerprint", "from_one_hot",
    "from_symmetric", "from_unit", "images_by_codes", "load", "names", "one_hot", "open", "ratings", "read",
    "sentences", "split", "split_ratings", "to_symmetric", "to_unit", "tokenize", "triples",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load_place(f"gnomon.data.{_WHERE[name]}:{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
