"""Data: built-in sets, the user's files, tokens, splits and batches. Importing it loads no array library."""

from __future__ import annotations

import importlib
from typing import Any

from gnomon.data.names import names

_WHERE = {
    "Batch": "batches", "Batches": "batches", "Dataset": "dataset", "Vocabulary": "text", "Indicators": "encoding",
    "Rescaler": "preprocessing", "Standardizer": "preprocessing", "fingerprint": "dataset",
    "load": "loading", "read": "readers", "sentences": "text", "split": "dataset", "tokenize": "text",
}  # fmt: skip

__all__ = [
    "Batch", "Batches", "Dataset", "Indicators", "Rescaler", "Standardizer", "Vocabulary", "fingerprint",
    "load", "names", "read", "sentences", "split", "tokenize",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"gnomon.data.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
