"""Task fill: how well hidden tokens of unseen sentences are foretold from what stands around them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.passages import Corpus
from gnomon.data.sequences import Tokens
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.tasks import maps, pictures
from gnomon.tasks.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fill", "Frequencies"]


class Frequencies:
    """Hidden tokens by their frequencies in training, whatever stands around them.

    Parameters
    ----------
    domain : Tokens
        What strings are cut into, and which tokens the vocabulary has; by default the words of a `Corpus`.
    min_count : int
        Tokens rarer than this in training are unknown.
    """

    def __init__(self, domain: Tokens | None = None, min_count: int = 1) -> None:
        self.domain, self.min_count = domain or Corpus("word"), min_count

    def fit(self, X: Any, y: Any = None) -> Frequencies:
        """Count tokens; what was never seen has the probability of a token seen once."""
        self.domain = self.domain.learn(X, self.min_count)
        text, size = self.domain.ingest(X), self._size()
        counts = np.bincount(text.values, minlength=size) + 1.0
        self.log_p, self.best = np.log(counts / counts.sum()), int(counts.argmax())
        self.n_parameters = size
        return self

    def _size(self) -> int:
        return len(self.domain.vocabulary or ())

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """Log likelihood of hidden tokens, and how many are the most frequent one."""
        text = self.domain.ingest(X)
        sentence = np.repeat(np.arange(len(text)), text.lengths)
        space = self.domain.space(self._size())
        found = {}
        for name, unit, values in (
            ("masked_log_likelihood", "nats per token", self.log_p[text.values]),
            ("masked_accuracy", "fraction", (text.values == self.best).astype(float)),
        ):
            total = np.bincount(sentence, values, len(text))
            means = np.divide(total, text.lengths, out=np.zeros(len(text)), where=text.lengths > 0)
            found[name] = Score.from_pointwise(means, weight=text.lengths, name=name, unit=unit, data_space=space)
        return found


class Fill(Language):
    """Log likelihood of the hidden tokens of held-out sentences.

    Of every sentence all tokens are hidden in turn, a seventh of them at a time. The baseline is the frequency of
    tokens in training.
    """

    name: ClassVar[str] = "fill"
    title: ClassVar[str] = "Filling in hidden tokens"
    title_zh: ClassVar[str] = "完形填空 (遮蔽语言建模)"
    primary: ClassVar[str] = "masked_log_likelihood"
    verbs: ClassVar[tuple[str, ...]] = ("fill_mask", "pseudo_log_likelihood", "transform", "encode")
    example_data: ClassVar[str] = "python-reference"

    def read(self, name: str | os.PathLike[str], **options: Any) -> Dataset:
        """A text, as of a language model; nothing is learned of labels."""
        target = options.get("target")
        if target is None:
            return super().read(name, **options)
        what = f"target must be left out where text is learned without labels, got {target!r}"
        remedy = "fit without it, then transformer-classifier with --target and --initial RUN"
        raise UserValueError(what, "--target", remedy)

    def board(self, system: Any) -> str:
        """Scores per token of different units, or vocabularies, are not comparable."""
        return f"hidden tokens of {super().board(system)}"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Frequencies of tokens, in the system's unit and vocabulary."""
        return "token frequencies", Frequencies(system.domain, system.min_count).fit(X)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """The vectors of at most `pictures.MOST_POINTS` sentences as points."""
        some = [X[i] for i in pictures.some(len(X))]
        return {"map": maps.grouped(maps.map_of(np.asarray(system.transform(some), np.float64), "latent"), None)}
