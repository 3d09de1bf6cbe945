"""``gnomon predict RUN DATA``: labels, numbers or clusters of rows."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import output
from gnomon.cli.fit import column_names
from gnomon.cli.write import write_rows
from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder

__all__ = ["command"]


@click.command("predict")
@click.argument("run")
@click.argument("data")
@click.option("--columns", metavar="A,B,...", help="Columns to take as features; those of the fit by default.")
@click.option("--proba", is_flag=True, help="Probabilities of all classes or components instead of the likeliest.")
@click.option("--out", metavar="FILE", help="A new .csv or .npy file; standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(run: str, data: str, columns: str | None, proba: bool, out: str | None, as_json: bool) -> None:
    """Predict the label, number or component of each row of DATA with the model in the folder RUN.

    Columns are found by their names; other columns of DATA, such as known labels, are left out.
    """
    recipe = RunFolder.open(run).config.get("data", {})
    from gnomon.system.saving import load
    from gnomon.tasks.fitting import other_data, task_of

    system = load(run)
    verb = "predict_proba" if proba else "predict"
    if not hasattr(system, verb):
        raise UserValueError(f"{system.name} does not predict", run, f"gnomon info {system.name} shows what it can do")
    chosen = other_data(recipe, data, task_of(system), target=None, columns=column_names(columns))
    found = getattr(system, verb)(task_of(system).examples(chosen, system, answers=False)[0])
    header = _header(system, found, proba)
    if out is not None:
        write_rows(out, found, header)
    _show(found, header, out, as_json)


def _header(system: Any, found: Any, proba: bool) -> list[str]:
    """Names of the columns of what was predicted."""
    if proba:
        return [str(name) for name in getattr(system, "classes_", range(found.shape[-1]))]
    return ["prediction"] if found.ndim == 1 else [f"prediction_{j}" for j in range(1, found.shape[1] + 1)]


def _show(found: Any, header: list[str], out: str | None, as_json: bool) -> None:
    if as_json:
        output.dump({"n": len(found), "out": out} if out else {"columns": header, "predictions": found})
    elif out:
        output.note(f"{len(found)} predictions are in {out}")
    else:
        write_rows(None, found, header)
