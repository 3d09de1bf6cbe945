"""Suites of language understanding: the metrics of each task of GLUE and SuperGLUE, and their macro average."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

from gnomon.errors import UserValueError, nearest

__all__ = [
    "SUITES",
    "TASKS",
    "GlueTask",
    "TaskResult",
    "evaluate",
    "glue_score",
    "suite_score",
    "task_means",
    "task_name",
]

_NO_YES = ("0", "1")
_TRUTH = ("false", "true")
_TWO = ("entailment", "not_entailment")


@dataclass(frozen=True)
class GlueTask:
    """One task of a suite.

    Parameters
    ----------
    labels : tuple of str
        Names of the classes in the order of their numbers; empty where answers are numbers or texts.
    metrics : tuple of str
        What is measured; the task counts by their mean.
    part_of : str
        The task that this one is a half of, such as the mismatched genres of MNLI.
    """

    labels: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    part_of: str = ""


TASKS = {
    "cola": GlueTask(_NO_YES, ("matthews",)), "sst-2": GlueTask(_NO_YES), "mrpc": GlueTask(_NO_YES, ("accuracy", "f1")),
    "qqp": GlueTask(_NO_YES, ("accuracy", "f1")), "sts-b": GlueTask((), ("pearson", "spearman")),
    "mnli": GlueTask(("entailment", "neutral", "contradiction")),
    "mnli-mm": GlueTask(("entailment", "neutral", "contradiction"), part_of="mnli"),
    "qnli": GlueTask(_TWO), "rte": GlueTask(_TWO), "wnli": GlueTask(_NO_YES),
    "boolq": GlueTask(_TRUTH), "cb": GlueTask(("entailment", "contradiction", "neutral"), ("accuracy", "macro_f1")),
    "copa": GlueTask(_NO_YES), "multirc": GlueTask(_TRUTH, ("f1a", "exact_match")),
    "record": GlueTask((), ("token_f1", "exact_match")), "wic": GlueTask(_TRUTH), "wsc": GlueTask(_TRUTH),
}  # fmt: skip
"""The tasks of both suites; classes in the order of the numbers that their data sets give them."""
SUITES = {
    "glue": ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "mnli-mm", "qnli", "rte", "wnli"),
    "superglue": ("boolq", "cb", "copa", "multirc", "record", "rte", "wic", "wsc"),
}
RANGE = (0.0, 5.0)
"""What similarities of STS-B lie in."""


@dataclass(frozen=True)
class TaskResult:
    """The metrics of a task, as fractions (correlations: in [-1, 1]).

    Parameters
    ----------
    task : str
    metrics : mapping
    n : int
        Examples; of MultiRC answers.

    Examples
    --------
    >>> TaskResult("mrpc", {"accuracy": 0.5, "f1": 0.75}, 4).value
    0.625
    """

    task: str
    metrics: Mapping[str, float]
    n: int

    @property
    def value(self) -> float:
        """The mean of the metrics, by which the task counts."""
        return float(np.mean(list(self.metrics.values())))


def evaluate(
    predictions: Sequence[Any], task: str, gold: Sequence[Any], groups: Sequence[Any] | None = None
) -> TaskResult:
    r"""The metrics of one task of GLUE or SuperGLUE.

    Accuracy, F1 of class 1 (MRPC, QQP), the mean F1 of classes (CB), Matthews' correlation (CoLA; 0 of a constant
    prediction), Pearson's and Spearman's (STS-B; 0 of one), F1 over all answers and the fraction of questions all of
    whose answers are right (MultiRC), and of texts the token F1 and the exact match with the nearest of several gold
    answers (ReCoRD), without case, punctuation and articles.

    Parameters
    ----------
    predictions, gold : sequences of length n
        Classes by name or number, in the order of ``TASKS[task].labels``; for STS-B numbers in [0, 5]; for ReCoRD texts
        and of gold a list of texts for each.
    task : str
        A name of `TASKS`; case, hyphens and underscores make no difference.
    groups : sequence of length n, optional
        The question of each answer, which MultiRC needs.

    Raises
    ------
    UserValueError
        An unknown task or class, a number outside the range, lengths that differ, no examples.

    Notes
    -----
    Sources: Wang and others (2019), GLUE; Wang and others (2019), SuperGLUE.

    Examples
    --------
    >>> evaluate([1, 1, 1], "CoLA", [1, 0, 1]).metrics
    {'matthews': 0.0}
    >>> evaluate(["the Cat!"], "record", [["a dog", "cat"]]).metrics
    {'token_f1': 1.0, 'exact_match': 1.0}
    """
    name = task_name(task)
    if len(predictions) != len(gold):
        raise UserValueError(f"there must be one prediction per example, got {len(predictions)} of {len(gold)}", name)
    if not len(gold):
        raise UserValueError("there must be at least one example, got none", name)
    about = TASKS[name]
    if name == "record":
        found = _answers(predictions, gold)
    elif name == "sts-b":
        found = _correlations(_numbers(predictions, "predictions"), _numbers(gold, "gold"))
    else:
        y, answered = classes(gold, name, "gold"), classes(predictions, name, "predictions")
        found = (
            _questions(y, answered, groups)
            if name == "multirc"
            else {m: _METRICS[m](y, answered) for m in about.metrics}
        )
    return TaskResult(name, {metric: float(found[metric]) for metric in about.metrics}, len(gold))


def glue_score(results: Iterable[TaskResult] | Mapping[str, TaskResult]) -> float:
    """The macro average over the tasks of GLUE: of each task the mean of its metrics first, MNLI's halves as one task.

    Raises
    ------
    UserValueError
        Tasks that are missing, foreign or there twice.

    Examples
    --------
    >>> results = [TaskResult(task, {"metric": 0.5}, 1) for task in SUITES["glue"]]
    >>> glue_score(results)
    0.5
    """
    return suite_score(results, "glue")


def suite_score(results: Iterable[TaskResult] | Mapping[str, TaskResult], suite: str = "superglue") -> float:
    """The macro average over the tasks of a suite, "glue" or "superglue"; see `glue_score`.

    Raises
    ------
    UserValueError
        Tasks that are missing, foreign or there twice; an unknown suite.

    Examples
    --------
    >>> suite_score([TaskResult(task, {"a": 0.25, "b": 0.5}, 1) for task in SUITES["superglue"]])
    0.375
    """
    if suite not in SUITES:
        raise UserValueError.must("suite", f"be one of {', '.join(SUITES)}", suite)
    listed = list(results.values() if isinstance(results, Mapping) else results)
    names = Counter(one.task for one in listed)
    wrong = [name for name in names if name not in SUITES[suite] or names[name] > 1]
    missing = [name for name in SUITES[suite] if name not in names]
    if wrong or missing:
        what = f"each task of {suite} must be there once"
        got = f"{wrong[0]} is {'there twice' if names[wrong[0]] > 1 else 'none of them'}" if wrong else ""
        raise UserValueError(f"{what}, {got or f'{missing[0]} is missing'}", "results", "evaluate every task of it")
    return float(np.mean(list(task_means(listed).values())))


def task_means(results: Iterable[TaskResult]) -> dict[str, float]:
    """How each task counts: the mean of its metrics, and of its halves."""
    parts: dict[str, list[float]] = {}
    for one in results:
        parts.setdefault(TASKS[one.task].part_of or one.task, []).append(one.value)
    return {name: float(np.mean(values)) for name, values in parts.items()}


def task_name(task: str) -> str:
    """The name of a task as `TASKS` has it.

    Raises
    ------
    UserValueError
        An unknown one.

    Examples
    --------
    >>> task_name("STS-B"), task_name("sts_b"), task_name("SST2"), task_name("MNLI-mismatched")
    ('sts-b', 'sts-b', 'sst-2', 'mnli-mm')
    """
    plain = re.sub("[^a-z0-9]", "", task.lower())
    known = {re.sub("[^a-z0-9]", "", name): name for name in TASKS}
    known |= {"mnlimismatched": "mnli-mm", "mnlim": "mnli", "mnlimatched": "mnli"}
    if plain not in known:
        close = nearest(task.lower(), list(TASKS)) or list(TASKS)
        raise UserValueError(f"unknown task {task!r}", "task", f"choose from {', '.join(close)}")
    return known[plain]


def classes(values: Sequence[Any], task: str, where: str) -> np.ndarray[Any, Any]:
    """Numbers of classes given by name, number or truth value.

    Raises
    ------
    UserValueError
        One that the task does not have, with its place.
    """
    labels = TASKS[task].labels
    known = {label: i for i, label in enumerate(labels)} | {str(i): i for i in range(len(labels))}
    texts = [_label(value) for value in values]
    place = next((i for i, text in enumerate(texts) if text not in known), None)
    if place is not None:
        listed = ", ".join(labels)
        what = f"classes of {task} must be {listed}, or 0 to {len(labels) - 1} in this order, got {values[place]!r}"
        raise UserValueError(what, f"{where}, example {place}")
    return np.array([known[text] for text in texts], np.int64)


def _label(value: Any) -> str:
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if whole else value).strip().lower()


def _numbers(values: Sequence[Any], where: str) -> np.ndarray[Any, Any]:
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise UserValueError("similarities of sts-b must be numbers", where, "") from None
    wrong = ~((found >= RANGE[0]) & (found <= RANGE[1]))
    if wrong.any():
        place = int(wrong.argmax())
        what = f"similarities of sts-b must be in [0, 5], got {found[place]:g}"
        raise UserValueError(what, f"{where}, example {place}", "clip them, or undo their scaling")
    return found


def _correlations(found: np.ndarray[Any, Any], gold: np.ndarray[Any, Any]) -> dict[str, float]:
    if np.ptp(found) == 0 or np.ptp(gold) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    return {"pearson": stats.pearsonr(found, gold)[0], "spearman": stats.spearmanr(found, gold)[0]}


def _questions(
    y: np.ndarray[Any, Any], answered: np.ndarray[Any, Any], groups: Sequence[Any] | None
) -> dict[str, float]:
    if groups is None or len(groups) != len(y):
        raise UserValueError("multirc needs the question of each answer", "groups", "give one for each answer")
    number = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    wrong = np.bincount([number[group] for group in groups], y != answered)
    return {"f1a": _f1(y, answered), "exact_match": float(np.mean(wrong == 0))}


def _answers(predictions: Sequence[Any], gold: Sequence[Any]) -> dict[str, float]:
    for place, (text, golds) in enumerate(zip(predictions, gold, strict=True)):
        if isinstance(golds, str) or not len(golds) or not isinstance(text, str):
            what = "each answer of record must be a text, and gold a list of at least one"
            raise UserValueError(what, f"example {place}")
    pairs = [(_words(text), [_words(one) for one in golds]) for text, golds in zip(predictions, gold, strict=True)]
    return {
        "token_f1": float(np.mean([max(_overlap(text, one) for one in golds) for text, golds in pairs])),
        "exact_match": float(np.mean([text in golds for text, golds in pairs])),
    }


def _words(text: str) -> list[str]:
    plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def _overlap(found: list[str], gold: list[str]) -> float:
    """F1 of the words of two answers, each as often as it is there."""
    common = (Counter(found) & Counter(gold)).total()
    return 2 * common / (len(found) + len(gold)) if common else float(found == gold)


def _f1(y: Any, answered: Any) -> float:
    return float(f1_score(y, answered, pos_label=1, zero_division=0.0))


_METRICS: dict[str, Callable[[Any, Any], float]] = {
    "accuracy": lambda y, answered: float(np.mean(y == answered)),
    "f1": _f1,
    "macro_f1": lambda y, answered: float(f1_score(y, answered, average="macro", zero_division=0.0)),
    "matthews": lambda y, answered: float(matthews_corrcoef(y, answered)),
}
