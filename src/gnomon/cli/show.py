"""``gnomon show RUN [DATA]``: predictions of rows drawn at random, beside the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import TARGET, column_name
from gnomon.cli.fitted import ask, lacks
from gnomon.cli.form import with_form
from gnomon.cli.write import PICTURES, TABLES, check_out, write_picture, write_table
from gnomon.errors import UserError, UserTypeError, UserValueError, counted
from gnomon.runs.config import NAMED, DataSpec
from gnomon.runs.folder import RunFolder

__all__ = ["command"]


@click.command("show")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", required=False, shell_complete=completion.data)
@click.option("--target", metavar="COLUMN", help=f"{TARGET} That of the fit by default.")
@click.option("-n", "n", type=click.IntRange(1), default=12, show_default=True, metavar="N", help="How many rows.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="SEED", help="Another draws other rows.")
@click.option("--mistakes", is_flag=True, help="The worst mistakes, these first, in place of random rows.")
@click.option("--out", metavar="FILE", help="A new .csv or .parquet file; .png of images, wrong ones in a red frame.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, data: str | None, target: str | None, n: int, seed: int, mistakes: bool, out: str | None, as_json: bool
) -> None:  # fmt: skip
    """What the model in the folder RUN predicts of N rows drawn at random, or of its mistakes, beside what is true.

    Of DATA, or of the rows that the fit held out. The rows go the way that they go in gnomon evaluate, and are shown as
    they were read.
    """
    check_out(out, (*TABLES[:2], *PICTURES))
    from gnomon.system.saving import load
    from gnomon.tasks.fitting import task_of
    from gnomon.tasks.seen import show_rows

    system = load(run)
    if not hasattr(system, "predict") or "recommend" in system.tasks:
        raise lacks(system, "predict", "predict", run)
    if "segment" in system.tasks:
        remedy = f"gnomon evaluate {run} --figures FOLDER draws images with the labels of their pixels"
        raise UserTypeError(f"{system.name} predicts a label for each pixel, not for each row", run, remedy)
    if "detect" in system.tasks:
        remedy = f"gnomon evaluate {run} --figures FOLDER draws images with their boxes"
        raise UserTypeError(
            f"rows must have an answer each, got {system.name}, which finds boxes on images", run, remedy
        )
    rows, X, y = rows_of(run, data, target, system, "show")
    found = show_rows(system, task_of(system), rows, X, y, n, random_state=seed, worst=mistakes)
    columns = found.columns(rows)
    if out is not None and Path(out).suffix.lower() in PICTURES:
        if rows.images is None:
            raise UserValueError("a table has no picture, only images have", "--out", "write .csv or .parquet")
        write_picture(out, found.picture(rows.images))
    elif out is not None:
        write_table(out, columns)
    if as_json:
        whole = {"n": len(found.places), "data": rows.name, "held_out": data is None}
        output.dump(whole | ({"out": out} if out else {"columns": columns}))
        return
    if out is not None:
        output.written(len(found.places), "row", out)
    if out is None or rows.images is not None:
        header, lines = found.table(rows)
        which = "the model's worst mistakes" if mistakes else "drawn at random"
        what = f"{counted(len(lines), 'held-out row' if data is None else 'row')} of {rows.name}, {which}"
        output.write(f"{what}:\n{output.table(header, [[str(one) for one in line] for line in lines])}")


def rows_of(run: str, data: str | None, target: str | None, system: Any, verb: str) -> tuple[Any, Any, Any]:
    """The rows that a verb shows, with what the system is given and the truth: of DATA, or those that were held out.

    Raises
    ------
    UserError
        No such rows.
    """
    return _held(run, system, verb) if data is None else _given(run, data, target, system)


def _held(run: str, system: Any, verb: str) -> tuple[Any, Any, Any]:
    """The rows that the fit held out, with what they are asked by and the truth."""
    from gnomon.tasks.fitting import parts, task_of

    recipe = RunFolder.open(run).config.get("data", {})
    if not (recipe.get("source") == NAMED and recipe.get("holdout")):
        raise UserValueError(f"the fit in {run} held nothing out", "", f"name the data: gnomon {verb} {run} DATA")
    held = parts(DataSpec.from_json(recipe), system)[1]
    assert held is not None
    return held, *task_of(system).examples(held, system)


def _given(run: str, data: str, target: str | None, system: Any) -> tuple[Any, Any, Any]:
    """Rows of DATA; without the truth where DATA has none."""
    from gnomon.data.names import BUILTIN

    recipe = RunFolder.open(run).config.get("data", {})
    label = column_name(target) if target or data in BUILTIN else recipe.get("target")
    try:
        query = ask(run, data, system, target=label, answers=True)
    except UserError as error:
        if target is not None:
            raise
        query = ask(run, data, system)
        output.note(f"notice: the truth is not shown: {error}")
    return query.data, query.X, query.y


with_form(command)
