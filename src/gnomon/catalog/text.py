"""Language models by counts."""

from __future__ import annotations

from gnomon.catalog.line import Entry

__all__ = ["ENTRIES"]

ENTRIES = (
    Entry(
        "ngram", "n-gram language model", "n 元语法语言模型", "model",
        ("language",), "gnomon.systems.text.ngram:NGram", "Markov 1913; Shannon 1948; Chen and Goodman 1999",
        (
            "PRA-145", "PRA-146", "PRA-147", "PRA-148", "PRA-149", "PRA-150", "DLN-32", "DLN-174", "DLN-175", "DLN-180",
        ),
        {"n": 2},
    ),
)  # fmt: skip
