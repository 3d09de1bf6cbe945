"""``gnomon resume RUN``: go on with a fit that was stopped."""

from __future__ import annotations

import time
from pathlib import Path

import click

from gnomon.cli import output
from gnomon.cli.fit import report
from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder

__all__ = ["command"]


@click.command("resume")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(run: str, as_json: bool) -> None:
    """Go on with the fit in the folder RUN; it ends as one that was never stopped, to the bit."""
    folder = RunFolder.open(run)
    if folder.config.get("kind") != "fit" or folder.config.get("data", {}).get("source") != "name or file":
        raise UserValueError(f"{run} was not begun by gnomon fit", "", "resume it in Python: gnomon.resume(folder, X)")
    if folder.finished:
        output.note(f"{run} has ended already")
    begun = time.monotonic()
    if not folder.finished:
        try:
            from gnomon.tasks.fitting import carry_out

            carry_out(run, verbose=True)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted; go on with: gnomon resume {run}") from None
    report(Path(run), time.monotonic() - begun, as_json)
