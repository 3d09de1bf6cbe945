"""``gnomon denoise RUN DATA``: what a model says that damaged rows were, under a corruption that is named."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from gnomon.cli import completion, output
from gnomon.cli.fitted import KEEP, Query, lacks, names_of, refuse_codes, tell, with_gaps
from gnomon.cli.form import with_form
from gnomon.cli.write import TABLES, as_columns, check_out
from gnomon.errors import UserValueError

__all__ = ["command"]


@click.command("denoise")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", shell_complete=completion.data)
@click.option("--columns", metavar="A,B,...", help="Columns to take as features; those of the fit by default.")
@click.option("--keep", metavar="A,B,...", help=KEEP)
@click.option("--noise", type=float, metavar="S", help="Normal noise was added to every number, of this deviation.")
@click.option("--flips", type=float, metavar="P", help="Every bit was flipped with this probability.")
@click.option(
    "--method", type=click.Choice(["mean", "map"]), default="mean", show_default=True,
    help="Mean of what a row may have been, or the most probable one row.",
)  # fmt: skip
@click.option("--steps", type=click.IntRange(2), metavar="N", help="Sweeps of a chain.  [default: 500]")
@click.option("--seed", type=int, metavar="N", help="Of the chains.  [default: drawn]")
@click.option("--truth", metavar="DATA", help="The rows as they were: tells the signal-to-noise ratios.")
@click.option("--out", metavar="FILE", help="A new .csv, .parquet or .npy file; standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, data: str, columns: str | None, keep: str | None, noise: float | None, flips: float | None, method: str,
    steps: int | None, seed: int | None, truth: str | None, out: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Clean the rows of DATA, which noise or flips have damaged, by the model in the folder RUN.

    The corruption must be known: the answer is as good as what is assumed of it, which is said with the answer. Models
    that can: those that fill in missing cells.
    """
    check_out(out, TABLES)
    if (noise is None) == (flips is None):
        raise UserValueError("the corruption must be named once", "--noise, --flips", "--noise 0.1, or --flips 0.1")
    from gnomon.system.saving import load

    system = load(run)
    if not hasattr(system, "denoise"):
        raise lacks(system, "denoise", "clean damaged rows", run)
    from gnomon.distributions.corruption import BitFlips, GaussianNoise

    corruption = GaussianNoise(noise) if noise is not None else BitFlips(flips)
    refuse_codes("denoise", run, system)
    query = _complete(run, data, system, columns)
    given = {"steps": steps, "random_state": seed}
    options = {name: value for name, value in given.items() if value is not None}
    found = system.denoised(query.X, corruption, method=method, **options)
    facts = {"kind": found.kind, "note": found.note} | _ratios(query, found.values, truth, columns)
    output.note(f"{found.kind}, {found.note}")
    for name in ("psnr_before", "psnr"):
        if name in facts:
            output.note(f"{name} {facts[name]:.4g} dB")
    tell(query, keep, as_columns(found.values, names_of(query)), out, as_json, rows=found.values, facts=facts)


def _complete(run: str, data: str, system: Any, columns: str | None) -> Query:
    """The rows of DATA, of which none lacks a cell: a fit's rule for gaps would make up what is then cleaned."""
    query = with_gaps(run, data, system, columns)
    gaps = np.isnan(query.data.X).any(1)
    if gaps.any():
        what = f"row {int(gaps.argmax()) + 1} has a missing cell, and denoise needs complete rows"
        raise UserValueError(what, data, "fill them in first: gnomon impute")
    return query


def _ratios(query: Query, found: Any, truth: str | None, columns: str | None) -> dict[str, float]:
    """Signal-to-noise ratios of the damaged and the cleaned rows."""
    if truth is None:
        return {}
    from gnomon.evaluation.regression import psnr

    whole = _complete(query.run, truth, query.system, columns)
    if len(whole.data) != len(query.data):
        what = f"the truth must have {len(query.data)} rows, one for each of DATA, got {len(whole.data)}"
        raise UserValueError(what, "--truth")
    x, damaged = (query.system.own_rows(one.X) for one in (whole, query))
    return {"psnr_before": psnr(x, damaged), "psnr": psnr(x, found)}


with_form(command)
