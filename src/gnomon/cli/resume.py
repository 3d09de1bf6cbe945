"""``gnomon resume RUN``: go on with a fit that was stopped."""

from __future__ import annotations

import time
from pathlib import Path

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import finish, report
from gnomon.errors import UserValueError
from gnomon.runs.config import FIT, NAMED, DataSpec
from gnomon.runs.folder import RunFolder

__all__ = ["command"]


@click.command("resume")
@click.argument("run", shell_complete=completion.folders)
@click.option("--epochs", type=int, metavar="N", help="Epochs of the whole fit from now on, also after its end.")
@click.option("--max-updates", type=int, metavar="N", help="The same of a fit whose budget is updates.")
@click.option("--max-iter", type=int, metavar="N", help="The same of a fit in iterations.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(run: str, epochs: int | None, max_updates: int | None, max_iter: int | None, as_json: bool) -> None:
    """Go on with the fit in the folder RUN; it ends as one that was never stopped, to the bit.

    With more --epochs (--max-updates, --max-iter) it goes on after its end too, as if they had been asked for from the
    start.
    """
    folder = RunFolder.open(run)
    if folder.config.get("kind") != FIT or folder.config.get("data", {}).get("source") != NAMED:
        raise UserValueError(f"{run} was not begun by gnomon fit", "", "resume it in Python: gnomon.resume(folder, X)")
    begun = time.monotonic()
    output.announce(f"going on with {run}")
    if (epochs, max_updates, max_iter) != (None, None, None):
        from gnomon.tasks.budgets import given, prolonged

        with prolonged(folder, given(epochs=epochs, max_updates=max_updates, max_iter=max_iter)):
            finish(Path(run), begun, as_json)
        return
    if not folder.finished:
        finish(Path(run), begun, as_json)
        return
    output.note(f"{run} has ended already")
    from gnomon.system.saving import load
    from gnomon.tasks.fitting import parts

    system = load(run)
    report(Path(run), system, parts(DataSpec.from_json(folder.config["data"]), system)[1], 0.0, as_json)
