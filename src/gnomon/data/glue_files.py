"""Answers and gold of tasks of GLUE and SuperGLUE in files: tables of GLUE, JSON Lines of SuperGLUE."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from gnomon.errors import UserValueError, counted

__all__ = ["SuiteAnswers", "matched", "questions", "read_answers"]

_GOLD = ("label", "gold_label", "score", "quality", "is_duplicate")
_PREDICTED = ("prediction", "label", "score")
_PLACES = ("index", "idx", "id")


@dataclass(frozen=True)
class SuiteAnswers:
    """The answers of a file, in its order.

    Parameters
    ----------
    name : str
        The file.
    values : list
        Classes, numbers or texts; of ReCoRD's gold the texts of each query.
    keys : list, optional
        What an answer is to: its number, or that of passage, question and answer.

    Examples
    --------
    >>> SuiteAnswers("dev.tsv", ["1", "0"]).keys is None
    True
    """

    name: str
    values: list[Any]
    keys: list[Any] | None = None


def read_answers(path: str | Path, *, gold: bool) -> SuiteAnswers:
    """Gold answers or predictions of a task.

    Parameters
    ----------
    path : path
        A ``.tsv`` or ``.csv`` table with a header (CoLA's has none): gold is its column ``label``, ``gold_label``,
        ``score``, ``Quality`` or ``is_duplicate``, predictions are ``prediction``, ``label`` or ``score``, with or
        without an ``index`` that counts gold from 0. Or ``.jsonl`` with ``idx`` and ``label``, nested as in MultiRC and
        ReCoRD.
    gold : bool

    Raises
    ------
    UserValueError
        A file that cannot be read, without answers.
    """
    file = Path(path)
    if not file.is_file():
        raise UserValueError.must("answers", "be in a file", str(path), remedy="check the path")
    try:
        found = _of_lines(file) if file.suffix in (".jsonl", ".json") else _of_table(file, gold=gold)
    except (UnicodeDecodeError, json.JSONDecodeError, pl.exceptions.PolarsError, KeyError, TypeError) as error:
        reason = " ".join(str(error).split())[:80]
        raise UserValueError(f"the answers cannot be read: {reason}", file.name, "check the form of the file") from None
    if not found.values:
        raise UserValueError("there must be at least one answer, got none", file.name)
    return found


def matched(predictions: SuiteAnswers, gold: SuiteAnswers) -> list[Any]:
    """The values of predictions in the order of gold: by their keys, else by place.

    Raises
    ------
    UserValueError
        An answer that is missing, foreign or there twice.

    Examples
    --------
    >>> matched(SuiteAnswers("a", ["x", "y"], [1, 0]), SuiteAnswers("b", ["0", "0"]))
    ['y', 'x']
    """
    if len(predictions.values) != len(gold.values):
        what = f"there must be one prediction for each of {counted(len(gold.values), 'example')}"
        raise UserValueError(f"{what}, got {len(predictions.values)}", predictions.name)
    if predictions.keys is None:
        return predictions.values
    known = dict(zip(predictions.keys, predictions.values, strict=True))
    wanted = list(range(len(gold.values))) if gold.keys is None else gold.keys
    missing = next((key for key in wanted if key not in known), None)
    if missing is not None or len(known) < len(wanted):
        what = f"there must be one prediction for each example, got none for {missing}"
        raise UserValueError(what, predictions.name, f"the index is that of {gold.name}")
    return [known[key] for key in wanted]


def _of_table(file: Path, *, gold: bool) -> SuiteAnswers:
    plain = file.suffix == ".csv"
    options: dict[str, Any] = {"infer_schema": False, "truncate_ragged_lines": True}
    options |= {"separator": ","} if plain else {"separator": "\t", "quote_char": None}
    frame = pl.read_csv(file, **options)
    names = {name.strip().lower(): name for name in frame.columns}
    column = next((names[name] for name in (_GOLD if gold else _PREDICTED) if name in names), None)
    if column is None and frame.width == 4 and frame.columns[1] in ("0", "1"):  # CoLA: source, label, mark, sentence
        return SuiteAnswers(file.name, pl.read_csv(file, has_header=False, **options).to_series(1).to_list())
    if column is None:
        listed = ", ".join(_GOLD if gold else _PREDICTED)
        raise UserValueError(f"there must be a column {listed}, got {', '.join(frame.columns)}"[:200], file.name)
    missing = frame[column].is_null()
    if missing.any():
        raise UserValueError("an answer is missing", f"{file.name}, line {int(missing.arg_max() or 0) + 2}")
    place = None if gold else next((names[name] for name in _PLACES if name in names), None)
    keys = None if place is None else frame[place].cast(pl.Int64).to_list()
    return SuiteAnswers(file.name, frame[column].to_list(), keys)


def _of_lines(file: Path) -> SuiteAnswers:
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]
    pairs = [pair for row in rows for pair in _answers(row)]
    numbered = all(key is not None for key, _ in pairs)
    return SuiteAnswers(file.name, [value for _, value in pairs], [key for key, _ in pairs] if numbered else None)


def _answers(row: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of one line: one answer, or those of a passage."""
    if "qas" in row:
        yield from ((query["idx"], [one["text"] for one in query["answers"]]) for query in row["qas"])
    elif "questions" in row.get("passage", ()):
        for question in row["passage"]["questions"]:
            for answer in question["answers"]:
                yield (row["idx"], question["idx"], answer["idx"]), answer["label"]
    else:
        yield row.get("idx"), row["label"]


def questions(keys: Sequence[Any] | None) -> list[Any] | None:
    """Passage and question of each answer, where keys have three parts.

    Examples
    --------
    >>> questions([(0, 0, 0), (0, 1, 1)]), questions([3])
    ([(0, 0), (0, 1)], None)
    """
    if not keys or not isinstance(keys[0], tuple):
        return None
    return [key[:2] for key in keys]
