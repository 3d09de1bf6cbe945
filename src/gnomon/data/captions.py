"""Images with captions: a folder of images with a table of what they show, and texts checked against images."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from gnomon.data.dataset import Dataset
from gnomon.data.form import PLAIN, Form
from gnomon.data.image_tables import rows_by_image, table_of
from gnomon.data.images import image_names, read_images
from gnomon.data.sequences import encode
from gnomon.data.text import Unit, Vocabulary, listed, plural, sentences
from gnomon.errors import UserValueError
from gnomon.numeric.ragged import Ragged

__all__ = ["Captions", "holds_captions", "read_captioned"]

STEM = "captions"
"""Name of the table beside the folder images, before its ending."""


@dataclass(frozen=True)
class Captions:
    """One text for each image.

    Parameters
    ----------
    unit : {"word", "char", "byte", "jieba"}
        What strings are cut into.
    vocabulary : Vocabulary, optional
        Ids of the tokens; `learn` finds them.
    longest : int, optional
        Tokens that a caption may have; any number where left out.

    Examples
    --------
    >>> y = ["a red disc", "a disc"]
    >>> Captions().learn(y, 2).ingest(y, 2).lengths.tolist()
    [3, 2]
    """

    unit: Unit = "word"
    vocabulary: Vocabulary | None = field(default=None, compare=False)
    longest: int | None = field(default=None, compare=False)

    def check(self, y: Any, n: int, *, empty: bool = False) -> list[list[str]]:
        """The captions of n images, each a list of tokens; a caption may be empty, all only with `empty`.

        Raises
        ------
        UserError
            None, another number than images, something that is no text, with its place; one that is too long.
        """
        if y is None:
            what = "this system requires y to be passed, but the target y is None"
            raise UserValueError(what, "y", "give a caption for each image")
        texts = listed(y, "y", "a list of captions", "give one for each image")
        if len(texts) != n:
            raise UserValueError(f"y must have a caption for each of {n} images, got {len(texts)}", "y")
        texts = [str(one) if isinstance(one, str) else one for one in texts]
        if empty and not any(texts):
            return [[] for _ in texts]
        found = sentences(texts, self.unit)
        place = next((i for i, one in enumerate(found) if self.longest is not None and len(one) > self.longest), None)
        if place is not None:
            size = len(found[place])
            raise UserValueError(
                f"a caption must have at most {self.longest} {plural(self.unit)}, got {size}", f"image {place}",
                f"cut it, or allow longest={size}: time and memory grow with the longest caption",
            )  # fmt: skip
        return found

    def learn(self, y: Any, n: int, min_count: int = 1) -> Self:
        """The same with the vocabulary of captions."""
        return replace(self, vocabulary=Vocabulary.fit(self.check(y, n), min_count))

    def ingest(self, y: Any, n: int, *, empty: bool = False) -> Ragged:
        """Ids of the captions of n images."""
        if self.vocabulary is None:
            raise TypeError("ids need a vocabulary: use learn(y, n) first")
        return encode(self.check(y, n, empty=empty), self.vocabulary)


def holds_captions(path: Path) -> bool:
    """Whether a folder has the folder ``images`` and a table ``captions.csv`` (or .tsv, .jsonl, .parquet) in it."""
    return table_of(path, STEM) is not None


def read_captioned(
    path: Path, source: dict[str, Any], *, resize: tuple[int, int] | None = None, form: Form = PLAIN
) -> Dataset:
    """Images and what a table says of them: a column ``file``, a path in the folder images, and one ``caption``.

    Parameters
    ----------
    path : path
    source : dict
        What the data set says about where it comes from.
    resize : (int, int), optional
        Height and width to which images are brought.
    form : Form, optional
        See `gnomon.data.images.read_images`.

    Raises
    ------
    UserValueError
        An image without a caption or with two, a caption of an image that is not there, columns of other names; what
        `gnomon.data.images.read_images` refuses.
    """
    folder = path / "images"
    data = read_images(folder, source, resize=resize, form=form)
    table = rows_by_image(path, STEM, ("caption",), image_names(folder))
    texts = []
    for name in image_names(folder, data.source.get("left_out", ())):
        found = table.rows.get(name, [])
        if len(found) != 1:
            what = "the image has no caption" if not found else f"the image has {len(found)} captions"
            raise UserValueError(what, f"{path.name}/images/{name}", f"give it one line of {table.name}")
        texts.append(found[0].values[0])
    return replace(data, name=path.name, y=None, classes=None, text=tuple(texts))
