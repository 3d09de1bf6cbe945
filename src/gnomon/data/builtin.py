"""The data sets that the dependencies ship."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.data.installed import locate
from gnomon.data.names import BUILTIN, PACKAGED
from gnomon.data.photographs import patches
from gnomon.errors import UserValueError
from gnomon.recipes.imports import random_kept

__all__ = ["builtin", "photo_patches", "python_reference"]

_LOADERS = {
    "breast-cancer": "load_breast_cancer", "diabetes": "load_diabetes", "iris": "load_iris",
    "linnerud": "load_linnerud", "wine": "load_wine",
}  # fmt: skip
_ABBREVIATIONS = ("e.g.", "i.e.", "etc.", "cf.", "vs.", "resp.")
_PART = re.compile(r"\w+(?:['\u2019.\-]\w+)*|[^\w\s]")


def builtin(name: str) -> Dataset:
    """A built-in data set by name (see ``gnomon.data.names``).

    Tables are float64 in their own units, except for the grey levels of ``digits``, which float32 holds exactly.
    Labels are the numbers of the classes, whose names are in ``classes``.

    Raises
    ------
    UserValueError
        A name that is not built in.

    Examples
    --------
    >>> digits = builtin("digits")
    >>> digits.X.shape, digits.images, digits.levels
    ((1797, 64), (8, 8), 17)
    """
    if name not in BUILTIN:
        raise UserValueError(f"no built-in data set {name!r}", "", f"choose from {', '.join(BUILTIN)}")
    if name in PACKAGED:
        from gnomon.data.packages import packaged

        return packaged(name)
    if name == "python-reference":
        return Dataset(name, text=python_reference(), source={"name": name})
    if name == "python-docstrings":
        from gnomon.data.docstrings import python_docstrings

        return python_docstrings()
    if name == "python-statements":
        from gnomon.data.statements import python_statements

        return python_statements()
    if name == "photo-patches":
        return photo_patches()
    if name == "bouncing-ball":
        from gnomon.data.movies import bouncing_ball

        return bouncing_ball()
    if name in ("dates", "reversed"):
        from gnomon.data.translations import dates, reversed_strings

        return Dataset(name, pairs=dates() if name == "dates" else reversed_strings(), source={"name": name})
    if name in ("digit-boxes", "digit-scenes"):
        from gnomon.data.scenes import digit_boxes, digit_scenes

        return digit_boxes(_digits()) if name == "digit-boxes" else digit_scenes(_digits())
    if name in ("colored-shapes", "digit-lines"):
        from gnomon.data.drawn_scenes import colored_shapes, digit_lines

        return colored_shapes() if name == "colored-shapes" else digit_lines(_digits())
    return _digits() if name == "digits" else _table(name)


def _digits() -> Dataset:
    """Read from its file: scikit-learn's module of data sets takes a quarter of a second to load."""
    cells = np.loadtxt(locate("digits", "sklearn/datasets/data/digits.csv.gz"), np.float32, delimiter=",")
    return Dataset(
        "digits",
        X=np.ascontiguousarray(cells[:, :-1]),
        y=cells[:, -1].astype(np.int64),
        columns=tuple(f"pixel_{row}_{column}" for row in range(8) for column in range(8)),
        images=(8, 8),
        levels=17,
        classes=tuple("0123456789"),
        source={"name": "digits"},
    )


def _table(name: str) -> Dataset:
    with random_kept():
        from sklearn import datasets

    bunch = getattr(datasets, _LOADERS[name])()
    numeric = name in ("diabetes", "linnerud")
    return Dataset(
        name,
        X=np.ascontiguousarray(bunch.data, np.float64),
        y=np.ascontiguousarray(bunch.target, np.float64 if numeric else np.int64),
        columns=tuple(map(str, bunch.feature_names)),
        classes=None if numeric else tuple(str(label) for label in bunch.target_names),
        source={"name": name},
    )


def photo_patches() -> Dataset:
    """Every second 8 x 8 patch, as on a chessboard, of scikit-learn's two photographs in grey; none share a pixel.

    Examples
    --------
    >>> photo_patches()
    Dataset('photo-patches', 4240 rows x 64 columns)
    """
    with random_kept():
        from sklearn.datasets import load_sample_images
    return patches("photo-patches", load_sample_images().images)


def python_reference() -> tuple[str, ...]:
    """The sentences of the Python language reference that every Python carries (module ``pydoc_data.topics``).

    The text belongs to the Python version; it has about 40,000 words and marks under the PSF license. The rule that
    makes sentences of it: topics in alphabetical order, cut into paragraphs at blank lines. A paragraph is left out
    when it came before, starts with four blanks (code), holds grammar, a table or a prompt, has fewer than four words,
    or does not end in one of ``.?!``. The marks ``*``, ``"``, ``|`` and backticks are dropped, words cut at a hyphen at
    the end of a line joined. A sentence ends after ``.?!`` before a blank and a capital or bracket; one without a
    letter is dropped. Words and punctuation marks are set apart by one blank. Case is kept.

    Raises
    ------
    UserValueError
        A Python that comes without it.

    Examples
    --------
    >>> sum(len(sentence.split()) for sentence in python_reference()) > 30_000
    True
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        remedy = "install a complete Python, or give a text file"
        raise UserValueError("this Python comes without its reference text", "pydoc_data.topics", remedy) from None
    seen: dict[str, None] = {}
    for topic in sorted(topics):
        for paragraph in _paragraphs(topics[topic]):
            seen.setdefault(paragraph)
    found = (sentence for paragraph in seen for sentence in _cut(paragraph) if re.search("[A-Za-z]", sentence))
    return tuple(" ".join(_PART.findall(sentence)) for sentence in found)


def _paragraphs(topic: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", topic):
        lines = paragraph.strip("\n").splitlines()
        if not lines or lines[0].startswith("    ") or "::=" in paragraph or "--+" in paragraph or ">>>" in paragraph:
            continue
        prose = re.sub(r"(\w)-\n\s*(\w)", r"\1-\2", "\n".join(lines))
        prose = " ".join(re.sub(r"[*\"|`]", "", prose).split())
        if prose.endswith((".", "?", "!")) and prose.count(" ") >= 3:
            yield prose


def _cut(paragraph: str) -> Iterator[str]:
    start = 0
    for match in re.finditer(r"[.?!]\)? (?=[A-Z(])", paragraph):
        sentence = paragraph[start : match.end()].strip()
        if sentence.endswith(_ABBREVIATIONS):
            continue
        yield sentence
        start = match.end()
    yield paragraph[start:].strip()
