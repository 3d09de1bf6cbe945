"""``gnomon score --task TASK GOLD PREDICTIONS``: the metrics of GLUE and SuperGLUE on the user's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnomon.cli import output
from gnomon.errors import UserValueError

__all__ = ["score_suite"]


def score_suite(task: str, gold: str, predictions: str, human: str | None, as_json: bool) -> None:
    """Write the metrics of one task, or of every task of a suite, beside a reference that the user gives.

    Raises
    ------
    UserValueError
        Files that cannot be read or do not match, an unknown task.
    """
    from gnomon.evaluation.glue import SUITES, suite_score, task_means

    names = [name for name in SUITES.get(task.lower(), ()) if _file(gold, name) and _file(predictions, name)]
    if task.lower() in SUITES and not names:
        what = f"no task of {task.lower()} has a file in both folders"
        raise UserValueError(what, f"{gold}, {predictions}", "name files by task: CoLA.tsv, BoolQ.jsonl ...")
    if names:
        results = [_result(name, _file(gold, name), _file(predictions, name)) for name in names]
    else:
        results = [_result(task, Path(gold), Path(predictions))]
    levels = _levels(human)
    means = task_means(results)
    whole = suite_score(results, task.lower()) if len(names) == len(SUITES.get(task.lower(), ())) and names else None
    if as_json:
        output.dump(
            {
                "tasks": {one.task: {**one.metrics, "score": one.value, "n": one.n} for one in results},
                "means": means, "score": whole, "human": levels,
            }
        )  # fmt: skip
        return
    output.write(_table(results, levels))
    if names:
        left = [name for name in SUITES[task.lower()] if name not in names]
        output.write(f"score {whole:.4f}" if whole is not None else f"no score: {', '.join(left)} missing")


def _table(results: list[Any], levels: dict[str, float]) -> str:
    rows = [
        [one.task, f"{value:.4f}", metric, str(one.n), f"{levels[one.task]:g}" if one.task in levels else ""]
        for one in results
        for metric, value in one.metrics.items()
    ]
    return output.table(["task", "value", "metric", "examples", "human"], rows, right=(1, 3, 4))


def _result(task: str, gold: Path | None, predictions: Path | None) -> Any:
    from gnomon.data.glue_files import matched, questions, read_answers
    from gnomon.evaluation.glue import evaluate, task_name

    assert gold is not None and predictions is not None
    name = task_name(task)
    truth, answers = read_answers(gold, gold=True), read_answers(predictions, gold=False)
    return evaluate(matched(answers, truth), name, truth.values, questions(truth.keys))


def _file(folder: str, task: str) -> Path | None:
    """The file of a task in a folder, by its name without case and marks."""
    from gnomon.evaluation.glue import task_name

    if not Path(folder).is_dir():
        raise UserValueError(f"{folder} must be a folder with a file for each task", "", "or name one task by --task")
    for file in sorted(Path(folder).iterdir()):
        if file.suffix not in (".tsv", ".csv", ".jsonl"):
            continue
        try:
            if task_name(file.stem) == task:
                return file
        except UserValueError:
            continue
    return None


def _levels(human: str | None) -> dict[str, float]:
    """Human levels by task, from a JSON object."""
    from gnomon.evaluation.glue import task_name

    if human is None:
        return {}
    try:
        given = json.loads(Path(human).read_text("utf-8"))
        return {task_name(name): float(value) for name, value in given.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, UserValueError):
            raise
        what = "human levels must be a JSON object of numbers by task"
        raise UserValueError(what, human, 'write {"cola": 0.66, ...}') from None
