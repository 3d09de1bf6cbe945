"""``gnomon demo``: systems of five tasks on built-in real data, against their baselines."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from gnomon.cli import output
from gnomon.cli.compare import report_of
from gnomon.cli.write import new_folder
from gnomon.runs.folder import free_path

__all__ = ["command"]

GROUPS: tuple[tuple[str, str, tuple[tuple[str, dict[str, Any]], ...]], ...] = (
    ("density", "digits", (("bernoulli-mixture", {"n_components": 30}), ("rbm", {}), ("ppca", {"n_components": 40}))),
    ("cluster", "digits", (("bernoulli-mixture", {}),)),
    ("classify", "wine", (("softmax-regression", {}),)),
    ("regress", "diabetes", (("linear-regression", {}),)),
    ("language", "python-reference", (("ngram", {}),)),
)
"""Task, data, and systems with the parameters that the demonstration changes."""


@click.command("demo")
@click.option("--out", metavar="FOLDER", help="Where the runs are saved, new or empty. [default gnomon-demo]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(out: str | None, as_json: bool) -> None:
    """Fit systems of five tasks to built-in data, print a leaderboard per task and data space, save runs and report."""
    folder = new_folder(out, "--out") if out else free_path(Path("gnomon-demo"))
    from gnomon.catalog import make
    from gnomon.tasks.compare import compare
    from gnomon.training.context import context

    begun = time.monotonic()
    boards = []
    for task, data, systems in GROUPS:
        output.note(f"{task} on {data}: {', '.join(name for name, _ in systems)}")
        made = [make(name, random_state=0, **parameters) for name, parameters in systems]
        with context(verbose=True):
            boards += compare(made, data, task=task, out=folder / task)
    page = report_of(boards, str(folder))
    if as_json:
        output.dump({"leaderboards": [board.to_json() for board in boards], "runs": str(folder), "report": page})
        return
    output.write("\n\n".join(str(board) for board in boards))
    output.write(f"\n{time.monotonic() - begun:.0f} s; the runs are in {folder}: gnomon evaluate {folder}/density/rbm")
    output.write(f"the report, for the browser: {page}")
