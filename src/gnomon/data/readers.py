"""The user's files: tables, arrays, texts, folders of images. Nothing is executed (no pickle), nothing written."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data import arrays, sources
from gnomon.data.boundary import guarded
from gnomon.data.columns import Chunk, features, labels, place_of, places_of, with_label
from gnomon.data.dataset import Dataset, levels_of
from gnomon.data.delimited import Delimited
from gnomon.data.form import Form, form_of
from gnomon.data.frames import DATE, LEFT_OUT, LENIENT, NUMBER, joined, kind_of_series, typed_frame
from gnomon.data.opening import Table, open_table
from gnomon.data.records import JsonLines
from gnomon.data.text import lines, wrapped
from gnomon.errors import NoColumn, UserTypeError, UserValueError

__all__ = ["choose", "open_table", "read"]


def read(
    path: str | os.PathLike[str],
    *,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    resize: tuple[int, int] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Dataset:
    """Read a file, or a folder of images.

    ================  ==============================================================================================
    .csv, .tsv, .tab  a table, separated by comma, semicolon, bar, ``::`` or tab; a header is a first line without any
                      number; empty, ``NA``, ``N/A``, ``NaN``, ``nan`` and ``null`` are missing (NaN); features
                      are float64
    .dat, .data       the same; runs of blanks separate too where none of these marks is in the first line
    .xlsx             the first sheet of a workbook as a table, its first row the header
    .parquet          a table; null and NaN are missing, categories are texts, the index of pandas is no feature
    .jsonl, .ndjson   an object in every line; null and an absent key are missing; where texts are all there is besides
                      the target, they are sentences
    .json             the same in one array of objects
    .npy              an array (n, d), or images (n, height, width); target is a place of a column
    .npz              the array ``X`` (or the only one) and, if there, ``y``; target is the name of another array
    .txt              a text: every line that is not blank is a sentence
    folder            texts (.txt) or images, one sub-folder for each class, whose name is the label (see
                      `gnomon.data.images.read_images`); a single image file is one row; with the sub-folders images
                      and masks a label for each pixel (see `gnomon.data.masks.read_masked`); with the sub-folder
                      images and a table captions.csv a text for each (see `gnomon.data.captions.read_captioned`)
    ================  ==============================================================================================

    Text is UTF-8, or UTF-16 or UTF-32 with a byte-order mark; lines end with LF, CR LF or CR. It may be compressed
    (``.csv.gz``). What a file says is kept: a target is int64 where all of it are whole numbers, float64 where all are
    numbers, and else text, with its leading zeros; a whole number that a float64 would round is refused.

    Parameters
    ----------
    path : path or `gnomon.data.File`
        A `File` says what the file itself does not: encoding, separator, marks within numbers.
    target : str or int, optional
        The column of the labels, by name or by place from 0 (negative from the end).
    columns : sequence of str, optional
        The columns to take as features; all but the target where left out. ``a:f`` are those from a to f.
    resize : (int, int), optional
        Height and width to which images of several sizes are brought.
    kinds : mapping, optional
        Kinds of columns of a table by name, see `gnomon.data.load`; the others are decided by all of their cells.

    Returns
    -------
    Dataset
        With `X` where every feature is one of numbers, else with `frame`: a column of text, truth values or dates keeps
        its cells, to be prepared by `gnomon.data.Preparation`.

    Raises
    ------
    UserValueError
        What is wrong with the file, with line (or row) and column where there are such.

    Notes
    -----
    Delimited files of clean numbers are read at the speed of polars. Memory: the table, and one block of the file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "t.csv")
    ...     _ = file.write_text("height,kind\\n1.5,a\\n2.5,b\\n")
    ...     data = read(file, target="kind")
    >>> data.X.tolist(), data.y.tolist()
    ([[1.5], [2.5]], ['a', 'b'])
    """
    file = Path(path).expanduser()
    if columns is not None:
        check_columns(columns)
    if kinds is not None and not (isinstance(kinds, Mapping) and all(isinstance(one, str) for one in kinds.values())):
        raise UserTypeError.must("kinds", "be a mapping of columns to kinds", kinds)
    form = form_of(path)
    source: dict[str, Any] = {
        "path": os.path.abspath(file),
        "target": target,
        "columns": None if columns is None else list(columns),
    }
    if file.is_dir() or (file.suffix.lower() in sources.IMAGES and file.is_file()):
        with guarded(file):
            _check_form(form, file)
            return _read_images(file, source, size_of(resize), form)
    if resize is not None:
        raise UserValueError("only images have a size to be brought to", "resize", "leave it out, or give a folder")
    sources.check_file(file)
    ending = sources.kind(file)
    if form != Form():
        source["form"] = form.to_json()
        _check_form(form, file)
    with guarded(file):
        if ending == ".txt":
            return _read_text(file, source)
        if ending in (".npy", ".npz"):
            return _read_arrays(file, source)
        return _read_table(file, source, dict(kinds or {}))


def size_of(resize: Any) -> tuple[int, int] | None:
    """Height and width of images, checked.

    Raises
    ------
    UserValueError
        What is no pair of positive whole numbers.
    """
    if resize is None:
        return None
    pair = list(resize) if isinstance(resize, tuple | list) else []
    if len(pair) != 2 or not all(type(one) is int and 1 <= one <= 1 << 15 for one in pair):
        raise UserValueError(f"resize must be (height, width), whole numbers of at least 1, got {resize!r}", "resize")
    return pair[0], pair[1]


def _check_form(form: Form, file: Path) -> None:
    """Refuse what says nothing of a file of this kind."""
    takes = sources.facts(file)
    other = next((name for name in form.to_json() if name not in takes), None)
    if other is not None:
        kind = "folder of images" if file.is_dir() else f"{sources.kind(file)} file"
        what = f"a {kind} is read without {other}, got {form.to_json()[other]!r}"
        raise UserValueError(what, file.name, "leave it out")


def check_columns(columns: Sequence[str], where: str = "columns") -> None:
    """Refuse a string where a list of names is meant, and a name that stands twice.

    Raises
    ------
    UserError
        Either of the two.
    """
    if isinstance(columns, str):
        raise UserTypeError(
            f"columns must be a list of names, got the string {columns!r}", where, f"give a list: [{columns!r}]"
        )
    if not isinstance(columns, Iterable):
        raise UserTypeError.must("columns", "be a list of names", columns, where)
    twice = next((column for i, column in enumerate(columns) if column in columns[:i]), None)
    if twice is not None:
        raise UserValueError(f"column {twice!r} occurs twice", where, "name each column once")


# --- text and images ----------------------------------------------------------------------------------------------


def _read_text(file: Path, source: dict[str, Any]) -> Dataset:
    refuse_columns(source, file.name, "a text")
    found: list[str] = []
    for _, block in sources.blocks(file, encoding=source.get("form", {}).get("encoding")):
        found += lines(block.decode(), file.name)
    if not found:
        raise UserValueError("the file has no line with text", file.name, "give at least one sentence")
    if wrapped(found):
        what = "most lines end within a sentence, and each line is read as a sentence: join the lines of a paragraph"
        warnings.warn(f"{file.name}: {what}", UserWarning, stacklevel=2)
    return Dataset(file.name, text=tuple(found), source={k: source[k] for k in ("path", "form") if k in source})


def refuse_columns(source: dict[str, Any], name: str, what: str) -> None:
    """Refuse `target` and `columns` where there are no columns.

    Raises
    ------
    UserValueError
        Either of them is given.
    """
    if source["target"] is not None or source["columns"] is not None:
        raise NoColumn(f"{what} has no columns", name, "leave target and columns out")


def _read_images(path: Path, source: dict[str, Any], resize: tuple[int, int] | None, form: Form) -> Dataset:
    """The images; columns that are pixels, as a fit to images names them, must be all the pixels of these."""
    from gnomon.data.box_tables import holds_boxes, read_boxed
    from gnomon.data.captions import holds_captions, read_captioned
    from gnomon.data.images import are_pixels, read_images, shape_of
    from gnomon.data.masks import holds_masks, read_masked
    from gnomon.data.text_folders import holds_texts, read_texts

    if holds_masks(path):
        return read_masked(path, {"path": source["path"]}, resize=resize, form=form)
    if path.is_dir() and resize is None and holds_texts(path):
        refuse_columns(source, path.name, "a folder of texts")
        return read_texts(path, {"path": source["path"]})
    if holds_boxes(path):
        return read_boxed(path, {"path": source["path"]}, resize=resize, form=form)
    if holds_captions(path):
        return read_captioned(path, {"path": source["path"]}, resize=resize, form=form)
    columns, what = source["columns"], "a folder of images" if path.is_dir() else "an image"
    if source["target"] is not None or not are_pixels(columns):
        refuse_columns(source, path.name, what)
    shape = shape_of(columns or ())
    colors = shape is not None and len(shape) == 3
    data = read_images(path, {"path": source["path"]}, resize=resize, colors=colors, form=form)
    if columns is not None and tuple(columns) != data.columns:
        size = " x ".join(map(str, data.images or ()))
        needed = f"the {len(columns)} pixels that columns names" if shape is None else " x ".join(map(str, shape))
        words = f"images must have {needed}{' pixels' if shape else ''}, as the fit has them, got {size}"
        raise UserValueError(words, path.name, "give images of the size and the colors of the fit")
    return data


# --- tables -------------------------------------------------------------------------------------------------------


def choose(table: Table, source: dict[str, Any]) -> tuple[str | None, list[str]]:
    """The column of the target and those of the features.

    Raises
    ------
    UserValueError
        No such column, one that is both, or no feature.
    """
    names, name, target, columns = table.columns, table.name, source["target"], source["columns"]
    label = None if target is None else names[place_of(target, names, name, "target")]
    if columns is None:
        chosen = [column for column in names if column != label]
    else:
        chosen = [names[place] for place in places_of(columns, names, name)]
    if label in chosen:
        raise UserValueError(f"{label!r} is both target and feature", name, "leave it out of columns")
    if not chosen:
        raise UserValueError("no column is left as a feature", name, "give at least one besides the target")
    return label, chosen


def _read_table(file: Path, source: dict[str, Any], kinds: dict[str, str]) -> Dataset:
    """A table: an array where all features are numbers, else a frame, for which the file is read once more."""
    form = Form.from_json(source.get("form"))
    table = open_table(file, form=form)
    label, chosen = choose(table, source)
    chosen = _kept(table, chosen, source, kinds)
    labeled = () if label is None else (label,)
    if isinstance(table, JsonLines) and [table.kinds[column] for column in chosen] == ["text"]:
        return _read_sentences(table, label, chosen[0], source)
    found = None
    if all(kinds.get(column, NUMBER) == NUMBER for column in chosen):
        found = _read_numbers(table, chosen, labeled)
        table = open_table(file, form=form) if found is None else table
    if found is None:
        whole = joined(list(table.parts((*chosen, *labeled), [*chosen, *labeled])))
        _refuse_unseparated(whole, table)
        rows = None
        if label is not None:
            (whole,), rows = with_label([whole], label)
        decided = {column: kind_of_series(whole.frame.get_column(column), typed=whole.typed) for column in chosen}
        decided |= {column: kind for column, kind in kinds.items() if column in chosen}
        frame = typed_frame(whole, chosen, decided)
        dates = {column: kind.partition(":")[2] for column, kind in decided.items() if kind.startswith(f"{DATE}:")}
        if dates:
            source["dates"] = dates
        y = None if label is None else labels([whole], label)
        if all(kind == NUMBER for kind in decided.values()):
            X = frame.fill_null(float("nan")).to_numpy(order="c", writable=True)
            return Dataset(table.name, X=X, y=y, columns=tuple(chosen), source=source, rows=rows)
        return Dataset(table.name, y=y, columns=tuple(chosen), source=source, frame=frame, rows=rows)
    (X, kept), rows = found, None
    if label is not None:
        kept, rows = with_label(kept, label)
        X = X if rows is None else X[rows]
    y = None if label is None else labels(kept, label)
    return Dataset(table.name, X=X, y=y, columns=tuple(chosen), source=source, rows=rows)


def _refuse_unseparated(whole: Chunk, table: Table) -> None:
    """Refuse a file of one column each of whose lines has the same number of another separator."""
    if len(table.columns) > 1 or not isinstance(table, Delimited):
        return
    cells = whole.frame.get_column(table.columns[0])
    for separator in ",;\t|":
        counts = {table.columns[0].count(separator), *cells.str.count_matches(separator, literal=True).to_list()}
        if len(counts) == 1 and counts != {0}:
            what = f"value {cells[0]!r} looks like several fields set apart by {separator!r}"
            raise UserValueError(what, whole.where(0, table.columns[0]), "use commas, or tabs in a .tsv file")


def _kept(table: Table, chosen: list[str], source: dict[str, Any], kinds: Mapping[str, str]) -> list[str]:
    """The features without those that are left out; a kind of a column that is not there is refused."""
    for column in (name for name, kind in kinds.items() if kind in (LEFT_OUT, LENIENT)):
        place_of(column, table.columns, table.name, "drop" if kinds[column] == LEFT_OUT else "numeric")
    gone = [column for column in chosen if kinds.get(column) == LEFT_OUT]
    if gone:
        source["left_out"] = gone
    kept = [column for column in chosen if column not in gone]
    if not kept:
        raise UserValueError("no column is left as a feature", table.name, "give at least one besides the target")
    return kept


def _read_numbers(
    table: Table, chosen: list[str], labeled: tuple[str, ...]
) -> tuple[NDArray[np.float64], list[Chunk]] | None:
    """The features as one array, and the target's cells; None where a cell is no number."""
    pieces: list[NDArray[np.float64]] = []
    kept: list[Chunk] = []
    whole = table.whole() if isinstance(table, Delimited) and chosen == table.columns else None
    for part in table.parts(labeled, [*chosen, *labeled]) if whole is None else [whole]:
        try:
            pieces.append(features(part, chosen))
        except UserValueError:
            return None
        kept.append(Chunk(part.name, part.frame.select(labeled), part.word, part.first, part.numbers, typed=part.typed))
    return _joined(pieces), kept


def _joined(pieces: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """One array; each piece is freed as soon as it is copied, so that memory holds the table once."""
    if len(pieces) == 1:
        return pieces[0]
    X = np.empty((sum(map(len, pieces)), pieces[0].shape[1]))
    row = 0
    pieces.reverse()
    while pieces:
        piece = pieces.pop()
        X[row : row + len(piece)] = piece
        row += len(piece)
    return X


def _read_sentences(table: JsonLines, label: str | None, column: str, source: dict[str, Any]) -> Dataset:
    """A text, a sentence in every line, perhaps with labels."""
    labeled = () if label is None else (label,)
    parts = list(table.parts(labeled, [column, *labeled]))
    text = labels(parts, column)
    y = None if label is None else labels(parts, label)
    return Dataset(table.name, text=tuple(text.tolist()), y=y, source=source)


# --- arrays -------------------------------------------------------------------------------------------------------


def _read_arrays(file: Path, source: dict[str, Any]) -> Dataset:
    found = arrays.npz(file) if file.suffix.lower() == ".npz" else {"X": arrays.npy(file)}
    target, columns = source["target"], source["columns"]
    name = "X" if "X" in found or len(found) != 1 else next(iter(found))
    if name not in found:
        raise UserValueError(
            "the archive has no array X", f"{file.name}: {', '.join(found)}", "save it with X=..., y=..."
        )
    X, y = found[name], found.get("y")
    images, levels = None, None
    if X.ndim == 3:
        images, levels = (X.shape[1], X.shape[2]), levels_of(X)
        X = X.reshape(len(X), -1)
    X = arrays.numbers(X, file.name)
    names = tuple(f"column_{i}" for i in range(1, X.shape[1] + 1))
    if isinstance(target, str) and target in found:
        y = found[target]
    elif target is not None:
        X, names, y = _split_column(X, names, target, file.name)
        images = None
    if columns is not None:
        indices = places_of(columns, names, file.name)
        X, names, images = X[:, indices], tuple(names[i] for i in indices), None
    if y is not None and y.shape[:1] != (len(X),):
        raise UserValueError(
            f"y must hold a label per row, got shape {y.shape} for {len(X)} rows", file.name, "save as many"
        )
    return Dataset(file.name, X=X, y=y, columns=names, images=images, levels=levels, source=source)


def _split_column(X: NDArray[Any], names: tuple[str, ...], target: str | int, name: str) -> tuple[Any, Any, Any]:
    """The features, their names, and the column of the target."""
    index = place_of(target, names, name, "target")
    y = X[:, index]
    if np.isnan(y).any():
        where = f"{name}, row {int(np.isnan(y).argmax())}, column {names[index]!r}"
        raise UserValueError("the label is missing", where, "fill it in or drop the row")
    rest = [i for i in range(X.shape[1]) if i != index]
    if not rest:
        raise UserValueError("no column is left as a feature", name, "give at least one besides the target")
    whole = (y == np.rint(y)).all() and np.abs(y).max() < 2**53
    return X[:, rest], tuple(names[i] for i in rest), y.astype(np.int64) if whole else y.copy()
