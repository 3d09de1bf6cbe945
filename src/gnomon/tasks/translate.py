"""Task translate: how well unseen sources are turned into their targets."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gnomon.data import sources
from gnomon.data.dataset import Dataset
from gnomon.data.loading import load, located
from gnomon.data.names import BUILTIN
from gnomon.data.text import Unit, detokenize, plural
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.evaluation.translation import translation_scores
from gnomon.tasks import pictures
from gnomon.tasks.base import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Commonest", "Translate"]

HEADERS = {
    ("source", "target"), ("src", "tgt"), ("src", "trg"), ("source_text", "target_text"), ("input", "output"),
    ("input", "target"), ("source", "translation"), ("original", "translation"), ("question", "answer"),
}  # fmt: skip
"""First lines that name the columns of a file of pairs, in lower case."""


class Commonest:
    """Whatever the source, the most frequent target of training.

    Parameters
    ----------
    unit : {"word", "char", "byte", "jieba"}
        What BLEU counts as a token.
    """

    n_parameters = 0

    def __init__(self, unit: Unit = "word") -> None:
        self.unit = unit

    def fit(self, X: Sequence[tuple[Any, Any]], y: Any = None) -> Commonest:
        """The most frequent target; of equally frequent ones the first."""
        targets = [one if isinstance(one, str) else detokenize(one, self.unit) for _, one in X]
        self.answer = Counter(targets).most_common(1)[0][0]
        return self

    def translate(self, X: Any) -> list[str]:
        """The answer, for every source."""
        return [self.answer] * len(X)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """BLEU and exact matches."""
        wanted = [one if isinstance(one, str) else detokenize(one, self.unit) for _, one in X]
        return translation_scores(self.translate(X), wanted, self.unit)


class Translate(Task):
    """BLEU and exact matches of held-out pairs; of systems with a probability its logarithm per token as well.

    BLEU is on the system's own tokens, set apart by blanks. The baseline gives every source the most frequent target
    of training.
    """

    name: ClassVar[str] = "translate"
    title: ClassVar[str] = "Translation"
    title_zh: ClassVar[str] = "翻译"
    primary: ClassVar[str] = "bleu"
    verbs: ClassVar[tuple[str, ...]] = ("translate", "log_prob")
    example_data: ClassVar[str] = "dates"

    def read(
        self,
        name: str | os.PathLike[str],
        *,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> Dataset:
        """Pairs by name, or from a file with two columns set apart by a tab: source and target.

        A first line that names the columns (source and target, src and tgt, input and output ...) is no pair.

        Parameters
        ----------
        name : name or file
        target, columns : None
            The first column is the source, the second the target.
        """
        if name in BUILTIN:
            return load(name, target=target, columns=columns)
        if target is not None or columns is not None:
            raise UserValueError("pairs have no target column to name", str(name), "give two columns: source, target")
        file = located(name)
        return Dataset(file.name, pairs=_pairs(file), source={"name": str(name)})

    def check(self, data: Dataset, system: Any) -> None:
        """Pairs of texts."""
        system.domain.check(self.examples(data, system)[0], name=data.name)

    def board(self, system: Any) -> str:
        """Systems on the same tokens are ranked together."""
        return f"pairs of {plural(system.domain.unit)}"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The most frequent target."""
        return "most frequent target", Commonest(system.domain.unit).fit(X)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Log probabilities of the targets."""
        return {"log_prob": pictures.histogram(system.log_prob(X), "log probability of a target (nats)")}


def _pairs(file: Path) -> tuple[tuple[str, str], ...]:
    """The pairs of a file; every line that is not blank is one, but for a header."""
    sources.check_file(file)
    rows: list[tuple[str, str]] = []
    for first, block in sources.blocks(file):
        for number, line in enumerate(block.decode().split("\n"), first):
            if not line.strip():
                continue
            parts = line.split("\t")
            if len(parts) != 2:
                where = f"{file.name}, line {number}"
                what = f"a line must have 2 columns, got {len(parts)}"
                raise UserValueError(what, where, "set them apart by one tab")
            if rows or not _is_header(*parts):
                rows.append((parts[0], parts[1]))
    if not rows:
        raise UserValueError("there must be at least 1 pair, got 0", file.name, "give a source, a tab and its target")
    return tuple(rows)


def _is_header(left: str, right: str) -> bool:
    return (left.strip().casefold(), right.strip().casefold()) in HEADERS
