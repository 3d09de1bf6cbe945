"""``gnomon transform RUN DATA``: codes of rows: components, hidden units, distances to centers."""

from __future__ import annotations

from inspect import signature
from typing import Any

import click

from gnomon.cli import completion
from gnomon.cli.fitted import KEEP, ask, lacks, tell
from gnomon.cli.form import with_form
from gnomon.cli.write import TABLES, as_columns, check_out
from gnomon.errors import UserValueError

__all__ = ["command"]


@click.command("transform")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", shell_complete=completion.data)
@click.option("--columns", metavar="A,B,...", help="Columns to take as features; those of the fit by default.")
@click.option(
    "--method",
    type=click.Choice(["mean", "map"]),
    help="Means of latent variables, or their most probable values.",
)
@click.option("--keep", metavar="A,B,...", help=KEEP)
@click.option("--out", metavar="FILE", help="A new .csv, .parquet or .npy file; standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, data: str, columns: str | None, method: str | None, keep: str | None, out: str | None, as_json: bool
) -> None:
    """Turn each row of DATA into its code under the model in the folder RUN: one named column for each number.

    The code is what transform gives in Python: coordinates (ppca, vae), probabilities of hidden units (rbm), distances
    to the centers (kmeans). Of latent variables it is the mean of their posterior; --method map gives the most probable
    values in place of the means.
    """
    check_out(out, TABLES)
    from gnomon.system.saving import load

    system = load(run)
    if not hasattr(system, "transform"):
        raise lacks(system, "transform", "transform rows", run)
    options = {} if method is None else {"method": method}
    if method is not None and "method" not in signature(system.transform).parameters:
        what = f"{system.name} has no latent variables with a distribution"
        raise UserValueError(what, "--method", "leave it out")
    query = ask(run, data, system, columns=columns)
    codes = system.transform(query.X, **options)
    flat = codes.reshape(len(codes), -1)
    tell(query, keep, as_columns(flat, _names(system, flat.shape[1])), out, as_json, rows=codes, noun="code")


def _names(system: Any, width: int) -> list[str]:
    """Names of the columns of a code, those of scikit-learn's convention where the system has them."""
    if hasattr(system, "get_feature_names_out"):
        names = [str(name) for name in system.get_feature_names_out()]
        if len(names) == width:
            return names
    return [f"{type(system).__name__.lower()}{j}" for j in range(width)]


with_form(command)
