"""Task caption: what systems write of images that the fit has not seen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gnomon.data.captions import Captions
from gnomon.data.dataset import Dataset
from gnomon.data.text import Unit, detokenize, plural
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score
from gnomon.evaluation.translation import translation_scores
from gnomon.tasks import pictures
from gnomon.tasks.of_images import OfImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Caption", "CommonestCaption"]

SHOWN = 4
"""Images that are drawn with what is written of them and where the decoder looked."""
MOST_TOKENS = 10
"""Tokens whose maps are drawn."""
SKY = ("sun is up at noon", "moon is out", "stars are out in the night")


class CommonestCaption:
    """Of every image the most frequent caption of training.

    Parameters
    ----------
    unit : {"word", "char", "byte", "jieba"}
        What BLEU counts as a token.
    """

    n_parameters = 0

    def __init__(self, unit: Unit = "word") -> None:
        self.unit = unit

    def fit(self, X: Any, y: Any) -> CommonestCaption:
        """The most frequent caption; of equally frequent ones the first."""
        self.answer = Counter(self._texts(y)).most_common(1)[0][0]
        return self

    def caption(self, X: Any) -> list[str]:
        """The answer, for every image."""
        return [self.answer] * len(X)

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Score]:
        """BLEU and exact matches."""
        return translation_scores(self.caption(X), self._texts(y), self.unit)

    def _texts(self, y: Any) -> list[str]:
        return [detokenize(one, self.unit) for one in Captions(self.unit).check(y, len(y))]


class Caption(OfImages):
    """BLEU and exact matches of the captions of held-out images, and their log probability per token."""

    name: ClassVar[str] = "caption"
    title: ClassVar[str] = "Captions of images"
    title_zh: ClassVar[str] = "图像描述"
    primary: ClassVar[str] = "bleu"
    verbs: ClassVar[tuple[str, ...]] = ("caption", "transcribe", "log_prob")
    example_data: ClassVar[str] = "colored-shapes"

    def marks(self, data: Dataset) -> Any:
        """A text for each."""
        return _captions(data)

    def check(self, data: Dataset, system: Any) -> None:
        """Images by the domain, and a text for each."""
        X, y = self.examples(data, system)
        system.domain.check(X, name=data.name)
        Captions(system.unit, longest=system.longest).check(y, len(X))

    def board(self, system: Any) -> str:
        """Systems on the same tokens are ranked together."""
        return f"captions of {plural(system.unit)}"

    def baseline(self, system: Any, X: Any, y: Any) -> tuple[str, Any]:
        """The most frequent caption."""
        return "most frequent caption", CommonestCaption(system.unit).fit(X, y)

    def figures(self, system: Any, X: Any, y: Any, shape: tuple[int, ...] | None = None) -> dict[str, Figure]:
        """Images with what is written of them and where the decoder looked; log probabilities of the captions."""
        found = {"log_prob": pictures.histogram(system.log_prob(X, y), "log probability of a caption (nats)")}
        return {"captions": looks(system, X[:SHOWN], y[:SHOWN])} | found

    def example_answers(self, X: Any, group: Any, random: np.random.Generator) -> Any:
        """A phrase of each group."""
        return np.array([f"the {SKY[one]}" for one in group])


def looks(system: Any, images: Any, truth: Any) -> Figure:
    """A line for each image: the image, then with attention the map of each token that was written."""
    written = system.caption(images)
    tokens = [one[:MOST_TOKENS] for one in Captions(system.unit).check(written, len(written), empty=True)]
    try:
        maps: list[Any] = system.alignment(images, written)
    except UserValueError:
        maps = [[]] * len(written)
    from matplotlib.figure import Figure as New

    across = 1 + max((min(len(one), len(words)) for one, words in zip(maps, tokens, strict=True)), default=0)
    figure = New(figsize=(max(5.0, 1.1 * across), 1.5 * len(written)), layout="constrained")
    grid = figure.subplots(len(written), across, squeeze=False)
    for axes in grid.ravel():
        axes.axis("off")
    images = np.clip(np.asarray(images, np.float64), 0, 1)
    for line, image, words, seen, true, text in zip(grid, images, tokens, maps, truth, written, strict=True):
        line[0].imshow(image.squeeze(), cmap="gray", vmin=0, vmax=1)
        right = text.split() == str(true).split()
        line[0].set_title(pictures.plain(text), fontsize=7, loc="left", color="black" if right else "tab:red")
        for axes, word, weights in zip(line[1:], words, seen, strict=False):
            axes.imshow(weights, cmap="viridis", vmin=0)
            axes.text(0.5, -0.02, pictures.plain(word), fontsize=7, ha="center", va="top", transform=axes.transAxes)
    return figure


def _captions(data: Dataset) -> Any:
    """The texts of captioned images."""
    if data.text is None or data.X is None or data.images is None:
        what = "these are not images with captions"
        raise UserValueError(what, data.name, "give a folder with the folder images and captions.csv in it")
    return np.array(data.text)
