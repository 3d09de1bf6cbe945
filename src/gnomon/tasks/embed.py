"""Task embed: vectors of words, judged by which words of unseen text stand together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.sequences import Tokens
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.evaluation.word_pairs import neighbor_auc
from gnomon.numeric.noise import Noise
from gnomon.tasks import maps, pictures
from gnomon.tasks.language import Language

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Commonness", "Embed"]

UNKNOWN = ("<unk>",)


class Commonness:
    """Words are the more similar to any other the more frequent they are in training.

    Parameters
    ----------
    domain : Tokens
        What strings are cut into.
    min_count : int
        Tokens rarer than this in training are unknown.
    """

    def __init__(self, domain: Tokens, min_count: int = 1) -> None:
        self.domain, self.min_count = domain, min_count

    def fit(self, X: Any, y: Any = None) -> Commonness:
        """Count words."""
        self.domain, text = self.domain.read_first(X, self.min_count, UNKNOWN)
        self.counts = np.bincount(text.values, minlength=len(self.domain.vocabulary or ()))
        self.n_parameters = len(self.counts) - 1
        return self

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """How often a word of the same sentence is more frequent than one of another place: about 1/2."""
        text = self.domain.ingest(X)
        space = self.domain.space(len(self.counts) - 1)
        counts = self.counts.astype(np.float64)
        found = neighbor_auc(text, lambda a, b: counts[b], Noise(0, "evaluate"), data_space=space)
        return {found.name: found}


class Embed(Language):
    """How often a word is closer to another word of its held-out sentence than to a random word of the text.

    The baseline is the frequency of words in training, which is about chance.
    """

    name: ClassVar[str] = "embed"
    title: ClassVar[str] = "Word vectors"
    title_zh: ClassVar[str] = "词向量"
    primary: ClassVar[str] = "neighbor_auc"
    verbs: ClassVar[tuple[str, ...]] = ("similarity", "nearest", "transform")
    example_data: ClassVar[str] = "python-reference"

    def read(self, name: str | os.PathLike[str], **options: Any) -> Dataset:
        """A text, as of a language model; nothing is learned of labels."""
        target = options.get("target")
        if target is None:
            return super().read(name, **options)
        what = f"target must be left out where word vectors are learned, got {target!r}"
        raise UserValueError(what, "--target", "fit without it")

    def board(self, system: Any) -> str:
        """Scores of different units, or vocabularies, are not comparable."""
        return f"word pairs of {super().board(system)}"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Frequencies of words, in the system's unit and vocabulary."""
        return "word frequencies", Commonness(system.domain, system.min_count).fit(X)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """The vectors of at most `pictures.MOST_POINTS` sentences as points."""
        some = [X[i] for i in pictures.some(len(X))]
        return {"map": maps.grouped(maps.map_of(np.asarray(system.transform(some), np.float64), "latent"), None)}
