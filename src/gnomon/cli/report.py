"""``gnomon report RUN ...``: one page of HTML about runs."""

from __future__ import annotations

import click

from gnomon.cli import completion, output
from gnomon.recipes.imports import uncollected

__all__ = ["command"]


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN ...", shell_complete=completion.folders)
@click.option("--out", metavar="FILE.html", help="[default: report.html in the run, or beside the first of several]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(runs: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Write a page about the models in the folders RUN: scores, pictures, mistakes, what matters, diagnosis, data.

    One file that needs no network and no script; several runs are ranked first.
    """
    with uncollected():  # the process ends with the page: what pictures leave behind need not be looked for either
        from gnomon.report.verb import report

        file = report(list(runs), out)
    if as_json:
        output.dump({"report": str(file), "runs": list(runs)})
        return
    output.write(f"the report is {file}")
