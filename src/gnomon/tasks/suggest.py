"""`gnomon.suggest_baseline`: the first end-to-end system for data, with its reasons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from gnomon.catalog import make, tasks
from gnomon.data.dataset import Dataset
from gnomon.data.given import dataset_of, is_data
from gnomon.data.loading import load
from gnomon.data.names import BUILTIN
from gnomon.data.preparation import Preparation
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.runs.config import ARRAYS, USUAL, DataSpec
from gnomon.tasks.base import Task, task
from gnomon.tasks.baselines import STRUCTURES, Description, Rule, matching
from gnomon.tasks.preparing import are_numbers, refuse_one_class
from gnomon.tasks.rooms import Room
from gnomon.tasks.suggestions import Suggestion
from gnomon.tasks.suits import suits

__all__ = ["describe", "suggest_baseline"]

READ_AS = {"ratings": "recommend", "interactions": "rank", "pairs": "translate"}
"""Tasks whose files are read in a way of their own."""
JUDGED = 0.2
"""Fraction of the rows that `gnomon.compare` judges by, where nothing is said."""
ALSO = {"grid": ("grid", "vectors"), "ratings": ("ratings", "interactions")}
"""What data of a structure can also be taken as."""


def suggest_baseline(
    data: Any, y: Any = None, *, target: str | int | None = None, columns: Sequence[str] | None = None,
    structure: str | None = None, metric: str | None = None,
) -> Suggestion:  # fmt: skip
    """Propose the first end-to-end system for data, with settings and reasons; nothing is fitted.

    Linear models for few rows; fully connected networks for fixed vectors; convolutional ones for images; recurrent
    ones for sentences and pairs of them; factors for ratings; densities where nothing is to be predicted. Rectified
    linear units, Adam, early stopping and dropout from the start, unless there are tens of millions of rows.

    Parameters
    ----------
    data : name, file, Dataset, array, pandas or polars frame, list of sentences, or Ratings
    y : array of shape (n,), optional
        Labels or a numeric target, where `data` is an array or a frame.
    target, columns
        As in `gnomon.data.load`.
    structure : {"vectors", "grid", "sequence", "ratings", "interactions", "pairs"}, optional
        What the data is taken as, where it could be more than one thing: images as vectors, a file as pairs.
    metric : str, optional
        The score to judge by, one that `gnomon.compare` ranks by. It is never chosen for you: where it is left out the
        proposal says so.

    Returns
    -------
    Suggestion
        ``print`` shows it; ``system`` is the system, not fitted, ``fit`` and ``judge`` are commands.

    Raises
    ------
    UserError
        Data that cannot be read, or that no system suits.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.2. Advice of this kind ages: the reasons say what it
    rests on. Cost: reading the data, and one pass for each form that systems take.

    Examples
    --------
    >>> import gnomon
    >>> found = gnomon.suggest_baseline("iris")
    >>> found.rule.family, found.fit
    ('linear', 'gnomon fit softmax-regression iris')
    >>> gnomon.suggest_baseline("digits").rule.system
    'lenet'
    """
    if structure is not None and structure not in STRUCTURES:
        raise UserValueError(f"structure must be one of {', '.join(STRUCTURES)}, got {structure!r}", "structure")
    if metric is not None and not isinstance(metric, str):
        raise UserTypeError.must("metric", "be the name of a score", metric)
    found = _read(data, y, target, columns, structure)
    description = describe(found, structure)
    candidates = matching(description)
    known, why = suits(found)
    passed: list[str] = []
    for rule in candidates:
        if rule.system in known.get(rule.task, ()):
            chosen = None if metric is None else _score(metric, rule, found)
            return Suggestion(description, rule, tuple(passed), chosen, _words(data, target, columns))
        passed.append(f"{rule.system}: {why.get(rule.task, 'its form of data is another one')}")
    reason = why.get(candidates[0].task, "") if candidates else "no rule speaks of it"
    what = f"no system of gnomon suits {found.name} ({description.structure}, predicting {description.answer})"
    raise UserValueError(what, "data", reason or "gnomon data DATA says what suits it")


def _score(metric: str, rule: Rule, data: Dataset) -> str:
    """The score of that name, of those that `gnomon.compare` can rank by: the trivial answer to the data has them all.

    Raises
    ------
    UserValueError
        A score that the task does not have, with the nearest that it has.
    """
    goal, system = task(rule.task).suited(data), make(rule.system)
    if metric == goal.primary:
        return metric
    room = Room(data, DataSpec(ARRAYS, split=USUAL, holdout=JUDGED), Preparation())
    train = room.parts(system, 0)[0]
    return room.metric(goal, goal.baseline(system, train.X, train.y)[1], system, metric)


def describe(data: Dataset, structure: str | None = None) -> Description:
    """What a data set is, as the rules ask for it.

    Parameters
    ----------
    data : Dataset
    structure : str, optional
        What it is taken as in place of what it is.

    Raises
    ------
    UserError
        A structure that the data does not have; texts with labels, which no system predicts; triples.

    Examples
    --------
    >>> from gnomon.data import load
    >>> found = describe(load("breast-cancer"))
    >>> found.rows, found.columns, found.answer, found.classes
    (569, 30, 'labels', 2)
    """
    own = _structure(data)
    if structure is not None and structure not in ALSO.get(own, (own,)):
        what = f"structure must be {' or '.join(ALSO.get(own, (own,)))} for {data.name}, got {structure!r}"
        raise UserValueError(what, "structure")
    if own == "sequence" and data.y is not None and structure is None:
        what = f"the data must be numbers for labels to be predicted, got sentences with labels in {data.name}"
        raise UserValueError(what, "data", "structure='sequence' proposes a language model, which leaves labels alone")
    chosen = structure or own
    if chosen not in ("vectors", "grid"):
        return Description(chosen, len(data))
    numbers = data.X if data.frame is None else None
    answer, classes, commonest = _answer(data)
    binary = numbers is not None and bool(((numbers == 0) | (numbers == 1)).all())
    return Description(chosen, len(data), answer, len(data.columns), classes, commonest, binary)


def _structure(data: Dataset) -> str:
    if data.ratings is not None:
        return "interactions" if data.ratings.values is None else "ratings"
    if data.triples is not None:
        what = f"the data must be rows, sentences, ratings or pairs, got triples in {data.name}"
        raise UserValueError(what, "data", "no system of gnomon learns from triples")
    if data.pairs is not None:
        return "pairs"
    if data.text is not None:
        return "sequence"
    return "vectors" if data.images is None else "grid"


def _answer(data: Dataset) -> tuple[str, int, float]:
    """What is to be predicted; how many labels there are, and the share of the most frequent one."""
    if data.y is None:
        return "none", 0, 0.0
    if data.y.dtype.kind == "f" or are_numbers(data.view("labels")):
        return "numbers", 0, 0.0
    refuse_one_class(data)
    counts = np.unique(data.view("labels"), return_counts=True)[1]
    return "labels", len(counts), float(counts.max() / counts.sum())


def _read(data: Any, y: Any, target: str | int | None, columns: Sequence[str] | None, structure: str | None) -> Dataset:
    """The data set; a file in the way of a task that reads it in its own, where nothing else is said."""
    if isinstance(data, Dataset):
        return data
    if is_data(data):
        return dataset_of(data, y, target=target, columns=columns)
    if not isinstance(data, str | os.PathLike):
        raise UserTypeError.must("data", "be a name, a file, an array, a frame or sentences", data)
    if y is not None:
        raise UserTypeError(f"y must be left out where the data is a name or file, got {type(y).__name__}", "y")
    if str(data) not in BUILTIN:
        own = [READ_AS[structure]] if structure in READ_AS else [] if structure or columns else _own_readers()
        for name in own:
            try:
                found = task(name).read(data, target=target, columns=columns)
            except UserError:
                if structure is not None:
                    raise
                continue
            if structure is not None or name in suits(found)[0]:
                return found
    return load(data, target=target, columns=columns)


def _own_readers() -> list[str]:
    return [name for name in tasks() if type(task(name)).read is not Task.read]


def _words(data: Any, target: str | int | None, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Data and options as a command line takes them; () where the data is in memory."""
    if not isinstance(data, str | os.PathLike):
        return ()
    words = [os.fspath(data)]
    words += [] if target is None else ["--target", str(target)]
    words += [] if columns is None else ["--columns", ",".join(columns)]
    form = getattr(data, "form", None)
    for name, value in ({} if form is None else form.to_json()).items():
        words += [f"--{name}", str(value)]
    return tuple(words)
