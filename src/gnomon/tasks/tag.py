"""Task tag: the tag of each word of texts that the fit has not seen."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.tagged import TaggedTexts, WordTags
from gnomon.errors import UserError
from gnomon.evaluation.confusion import confusion_matrix
from gnomon.evaluation.score import Score
from gnomon.evaluation.tagging import tagging_scores
from gnomon.tasks import pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CommonestTag", "Tag"]


class CommonestTag:
    """Every word gets the tag that it has most often in training; a word that is not there the most frequent one."""

    title = "each word's most frequent tag"

    def fit(self, X: Any, y: Any = None) -> CommonestTag:
        """Count the tags of each word; of equally frequent ones the first in order counts."""
        words = TaggedTexts().words(X)
        self.classes_, codes = WordTags().encode(y, np.array([len(one) for one in words]))
        flat = [word for text in words for word in text]
        known, place = np.unique(np.array(flat, np.str_), return_inverse=True)
        counts = np.zeros((len(known), len(self.classes_)), np.int64)
        np.add.at(counts, (place, codes), 1)
        self.answers = dict(zip(known.tolist(), self.classes_[counts.argmax(1)].tolist(), strict=True))
        self.commonest = str(self.classes_[counts.sum(0).argmax()])
        self.n_parameters = len(self.answers)
        return self

    def predict(self, X: Any) -> Any:
        """The tags, a string for each text."""
        found = [" ".join(self.answers.get(word, self.commonest) for word in text) for text in TaggedTexts().words(X)]
        return np.array(found, np.str_)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """As of a system."""
        counts = np.array([len(one) for one in TaggedTexts().words(X)])
        tags = WordTags()
        return tagging_scores(tags.check(y, counts), tags.check(self.predict(X), counts), counts, len(self.classes_))


class Tag(Task):
    """Fraction of words of held-out texts whose tag is right, and F1 of the spans that tags mark.

    Labels of the data are strings of tags, one for each word of the row's text.
    """

    name: ClassVar[str] = "tag"
    title: ClassVar[str] = "Tagging of words"
    title_zh: ClassVar[str] = "序列标注"
    primary: ClassVar[str] = "accuracy"
    verbs: ClassVar[tuple[str, ...]] = ("predict", "tag_proba", "spans")
    example_data: ClassVar[str] = "python-statements"
    splits: ClassVar[tuple[str, ...]] = ("random", "group=COLUMN", "time=COLUMN")
    answers_rows: ClassVar[bool] = False

    def examples(self, data: Dataset, system: Any, *, answers: bool = True) -> tuple[Any, Any]:
        """Texts, and their strings of tags."""
        return data.view(self.view(system.domain)), _tags(data) if answers else None

    def check(self, data: Dataset, system: Any) -> None:
        """Texts by the domain, and as many tags as words."""
        X, y = self.examples(data, system)
        words = system.domain.words(X, name=data.name)
        WordTags().check(y, np.array([len(one) for one in words]), data.name)

    def classes(self, data: Dataset) -> Any:
        """None: rows have no class of their own."""
        return None

    def split(self, data: Dataset, *, test: float, seed: int = 0, how: str | None = None) -> tuple[Dataset, Dataset]:
        """As of every task; that one part lacks the strings of tags of the other says nothing."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the .* part has no row of class")
            return super().split(data, test=test, seed=seed, how=how)

    def obstacle(self, data: Dataset, domain: Any, result: Any) -> str | None:
        """No texts, or labels that are no tags of their words."""
        try:
            words = [text.split() for text in TaggedTexts().check(data.view("documents"), name=data.name)[0]]
            WordTags().check(_tags(data), np.array([len(one) for one in words]), data.name)
        except UserError as error:
            return error.what
        return super().obstacle(data, domain, domain)

    def board(self, system: Any) -> str:
        """Everybody tags the same words."""
        return "tags of words"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """Each word's most frequent tag."""
        return CommonestTag.title, CommonestTag().fit(X, y)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Which tag was taken for which."""
        counts = np.array([len(one) for one in TaggedTexts().words(X)])
        true, predicted = (WordTags().check(one, counts) for one in (y, system.predict(X)))
        classes = np.unique(np.concatenate([true, predicted]))
        if not 0 < len(classes) <= pictures.MOST_CLASSES:
            return {}
        matrix = confusion_matrix(*(np.searchsorted(classes, one) for one in (true, predicted)))
        names = [str(classes[place]) for place in matrix.classes]
        return {"confused_tags": pictures.matrix(np.asarray(matrix.weight), names)}

    def example_answers(self, X: Any, group: Any, random: np.random.Generator) -> Any:
        """The topic of each word."""
        return WordTags().example(X)


def _tags(data: Dataset) -> Any:
    """The strings of tags of a data set."""
    y = data.view("labels")
    if data.classes is not None and y.dtype.kind in "iu":
        return np.array(data.classes, np.str_)[y]
    return np.array([str(one) for one in y.tolist()], np.str_)
