"""Models of texts by counts."""

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
    Entry(
        "co-occurrence", "Co-occurrence vectors of words", "共现矩阵词向量", "model",
        ("embed",), "gnomon.systems.text.co_occurrence:CoOccurrence", "Church and Hanks 1990; Bullinaria and Levy 2007",
        ("DLN-193",),
        {"n_components": 2},
    ),
)  # fmt: skip
