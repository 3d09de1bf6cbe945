"""``gnomon score RUN DATA``: the log density of each row, and which rows are outliers; with --task GLUE's metrics."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import TARGET, column_name
from gnomon.cli.fitted import KEEP, Query, ask, lacks, tell
from gnomon.cli.form import with_form
from gnomon.cli.score_suite import score_suite
from gnomon.cli.write import TABLES, check_out
from gnomon.errors import UserValueError, counted, number
from gnomon.runs.config import NAMED, DataSpec

__all__ = ["command"]

OUTLIERS = "Fraction of ordinary rows that may be called outliers by mistake; adds the column outlier."
TASK = "A task of GLUE or SuperGLUE (cola, multirc ...), or glue or superglue: RUN is gold then, DATA predictions."
HUMAN = "A JSON object of human levels by task, shown beside the metrics of --task."
SEEN = "the training part"
ORDINARY = "Ordinary rows from which the threshold is taken; those that the fit held out by default."


@click.command("score")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", shell_complete=completion.data)
@click.option("--columns", metavar="A,B,...", help="Columns to take as features; those of the fit by default.")
@click.option("--target", metavar="COLUMN", help=f"{TARGET} Only a density of it given the row needs it.")
@click.option("--keep", metavar="A,B,...", help=KEEP)
@click.option("--rate", type=float, metavar="FRACTION", help=OUTLIERS)
@click.option("--ordinary", metavar="DATA", help=ORDINARY)
@click.option("--task", metavar="NAME", help=TASK)
@click.option("--human", metavar="FILE", help=HUMAN)
@click.option("--out", metavar="FILE", help="A new .csv, .parquet or .npy file; standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, data: str, columns: str | None, target: str | None, keep: str | None, rate: float | None,
    ordinary: str | None, task: str | None, human: str | None, out: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Say how likely each row of DATA is under the model in the folder RUN: log density or probability, in nats.

    The lower, the odder. With --rate 0.01 rows are flagged as outliers that are odder than all but 1 % of the rows that
    the fit held out, which is the fraction of false alarms among ordinary rows.

    With --task cola the file DATA of predictions is judged by the file RUN of gold answers, as GLUE and SuperGLUE do;
    --task glue takes two folders with a file for each task, and gives the macro average.
    """
    if task is not None:
        return score_suite(task, run, data, human, as_json)
    if human is not None:
        raise UserValueError("--human needs --task", "--human", "add --task glue, say")
    check_out(out, TABLES)
    if rate is not None and not 0 < rate < 1:
        raise UserValueError.must("--rate", "be in (0, 1)", rate)
    if ordinary is not None and rate is None:
        raise UserValueError("--ordinary needs --rate", "--ordinary", "add --rate 0.01, say")
    from gnomon.runs.folder import RunFolder
    from gnomon.system.saving import load
    from gnomon.tasks.row_scores import is_conditional, row_scores

    system = load(run)
    given = is_conditional(system)
    if target is not None and not given:
        what = f"{system.name} has a density of rows, which needs no target"
        raise UserValueError(what, "--target", "leave it out")
    label = column_name(target) if target else RunFolder.open(run).config.get("data", {}).get("target")
    query = ask(run, data, system, columns=columns, target=label if given else None, answers=given)
    found = row_scores(system, query.X, query.y)
    if found is None:
        raise lacks(system, "anomaly_score", "give rows a density", run)
    name = found.quantity.replace(" ", "_")
    table: dict[str, Any] = {name: found.values}
    facts: dict[str, Any] = {"kind": found.kind, "unit": "nats", "data_space": found.data_space, "note": found.note}
    lines = [found.line]
    if rate is not None:
        limit, of = _limit(query, rate, ordinary)
        table["outlier"] = found.values < limit
        n = int(table["outlier"].sum())
        facts |= {"rate": rate, "threshold": limit, "threshold_from": of, "outliers": n}
        lines.append(f"{counted(n, 'outlier')}: {found.quantity} below {number(limit)}, by {of}")
        if of.endswith(SEEN):
            lines.append("notice: the fit has seen these rows, so that ordinary ones are flagged more often")
    for line in lines:
        output.note(line)
    tell(query, keep, table, out, as_json, rows=found.values if rate is None else None, noun="score", facts=facts)


def _limit(query: Query, rate: float, ordinary: str | None) -> tuple[float, str]:
    """The log density below which a row is an outlier, and the rows that say so."""
    import numpy as np

    from gnomon.evaluation.anomaly import threshold

    values, of = _ordinary(query, rate, ordinary)
    if np.isnan(values).any():
        raise UserValueError("scores of ordinary rows must be numbers, got NaN", "--rate", "name others by --ordinary")
    least = int(np.ceil(1 / rate - 1e-9)) - 1
    if len(values) < least:
        what = f"a rate of {rate:g} needs at least {least} ordinary rows, got {len(values)} of {of}"
        raise UserValueError(what, "--rate", "choose a larger rate, or name more rows by --ordinary")
    return -threshold(-values, rate), f"{counted(len(values), 'row')} of {of}"


def _ordinary(query: Query, rate: float, ordinary: str | None) -> tuple[Any, str]:
    """Scores of ordinary rows: named ones, those that were held out, or, where these are too few, all of the fit's."""
    from gnomon.tasks.fitting import parts, task_of
    from gnomon.tasks.row_scores import is_conditional, row_scores

    system = query.system

    def scored(X: Any, y: Any) -> Any:
        found = row_scores(system, X, y)
        assert found is not None
        return found.values

    if ordinary is not None:
        given = is_conditional(system)
        rows = ask(query.run, ordinary, system, target=query.recipe.get("target") if given else None, answers=given)
        return scored(rows.X, rows.y), ordinary
    if query.recipe.get("source") != NAMED:
        raise UserValueError("the run keeps no rows of its own", "--rate", "name ordinary rows: --ordinary DATA")
    train, held = parts(DataSpec.from_json(query.recipe), system)
    if held is not None and len(held) + 1 >= 1 / rate - 1e-9:
        return scored(*task_of(system).examples(held, system)), "the held-out part"
    return scored(*task_of(system).examples(train, system)), SEEN


with_form(command)
