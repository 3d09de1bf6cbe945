"""``gnomon suggest DATA``: the first system to fit, its settings and reasons, and the commands that fit and judge."""

from __future__ import annotations

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import column_name, column_names, data_options
from gnomon.cli.form import with_form

__all__ = ["command"]


@click.command("suggest")
@click.argument("data", shell_complete=completion.data)
@data_options
@click.option(
    "--structure",
    metavar="KIND",
    help="What DATA is taken as: vectors, grid, sequence, ratings, interactions or pairs. [default: what it is]",
)
@click.option("--metric", metavar="SCORE", help="What the system is to be judged by; nobody else chooses it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    data: str, target: str | None, columns: str | None, structure: str | None, metric: str | None, as_json: bool
) -> None:  # fmt: skip
    """Propose the first end-to-end system for DATA, with its settings and reasons; nothing is fitted."""
    output.announce(f"a first system for {data}")
    from gnomon.tasks.suggest import suggest_baseline

    found = suggest_baseline(
        data, target=column_name(target), columns=column_names(columns), structure=structure, metric=metric
    )
    if as_json:
        output.dump(found.to_json())
        return
    output.write(str(found))


with_form(command)
