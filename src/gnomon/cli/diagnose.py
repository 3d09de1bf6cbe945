"""``gnomon diagnose RUN``: what is wrong with a run, and what to do."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder

__all__ = ["command"]


@click.command("diagnose")
@click.argument("run", shell_complete=completion.folders)
@click.option("--out", metavar="FILE", help="A picture of the chains: a .png, .svg or .pdf file.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="SEED", help="Of chains drawn from a model.")
@click.option("--goal", type=float, metavar="SCORE", help="What the first score is to reach: says what to do next.")
@click.option("--all", "everything", is_flag=True, help="Name the checks that do not apply too, and why.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(run: str, out: str | None, seed: int, goal: float | None, everything: bool, as_json: bool) -> None:
    """Look at the run in the folder RUN, a fit or chains, with every check that it supports."""
    RunFolder.open(run, any_kind=True)
    if out is not None:
        from gnomon.inference.mcmc.pictures import form_of

        form_of(out)
    from gnomon.tasks.diagnose import diagnose

    found = diagnose(run, seed=seed, goal=goal)
    if out is not None:
        _draw(found, run, out)
    if as_json:
        output.dump({"run": run, **found.to_json(), "out": out})
        return
    output.write(found.text(everything=everything))
    if out is not None:
        output.note(f"the picture is in {out}")


def _draw(found: Any, run: str, out: str) -> None:
    if found.plot is None:
        raise UserValueError(f"{run} has no picture", "--out", "leave it out: only chains of at least 8 draws have one")
    from gnomon.inference.mcmc.pictures import write_figure

    write_figure(found.plot(), out)
