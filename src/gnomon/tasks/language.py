"""Task language: how well the next token of unseen sentences is foretold."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from gnomon.data.dataset import Dataset
from gnomon.data.loading import located
from gnomon.data.names import BUILTIN
from gnomon.data.sources import check_sentences
from gnomon.data.text import plural
from gnomon.data.tokenizers import LEARNED
from gnomon.tasks import pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Language"]


class Language(Task):
    """Log-likelihood per token of held-out sentences."""

    name: ClassVar[str] = "language"
    title: ClassVar[str] = "Language modeling"
    title_zh: ClassVar[str] = "语言建模"
    primary: ClassVar[str] = "log_likelihood"
    verbs: ClassVar[tuple[str, ...]] = ("log_prob", "perplexity", "bits_per_char", "generate", "sample")
    example_data: ClassVar[str] = "python-reference"

    def read(
        self,
        name: str | os.PathLike[str],
        *,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> Dataset:
        """A text by name, or from a .txt file or the texts of a .jsonl file."""
        if name not in BUILTIN:
            check_sentences(located(name), str(name))
        return super().read(name, target=target, columns=columns)

    def check(self, data: Dataset, system: Any) -> None:
        """That it is a text; the reader has said all that can be wrong with its lines."""
        self.examples(data, system)

    def obstacle(self, data: Dataset, domain: Any, result: Any) -> str | None:
        """No text."""
        return super().obstacle(data, domain, domain)

    def board(self, system: Any) -> str:
        """Scores per token of different units, or vocabularies, are not comparable."""
        domain = system.domain
        size = f", at most {domain.size}" if domain.unit in LEARNED else ""
        return f"text in {plural(domain.unit)}{size}" + _rarest(system)

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Tokens without context, in the system's unit and vocabulary, with ends if the system has them."""
        from gnomon.systems.text.ngram import NGram

        model = NGram(
            n=1, smoothing="additive", random_state=0, unit=system.domain.unit, vocabulary_size=system.domain.size,
            min_count=system.min_count, start="pad" if system.predicts_ends else "lower_order",
        )  # fmt: skip
        return "unigram", model.fit(X)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Log probabilities of at most `pictures.MOST_POINTS` sentences."""
        some = [X[i] for i in pictures.some(len(X))]
        return {"log_prob": pictures.histogram(system.log_prob(some), "log probability of a sentence (nats)")}


def _rarest(system: Any) -> str:
    """How often a token of the vocabulary occurs, and that ends are not predicted, where it is said."""
    rare = f", each at least {system.min_count} times" if system.min_count > 1 else ""
    return rare + ("" if getattr(system, "predicts_ends", True) else ", without ends")
