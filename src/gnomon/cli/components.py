"""``gnomon components RUN``: what a model is made of, by column of the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gnomon.cli import completion, output
from gnomon.cli.write import PICTURES, TABLES, check_out, write_picture, write_table
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.runs.folder import RunFolder

if TYPE_CHECKING:
    from gnomon.tasks.components import Components

__all__ = ["command"]

SHOWN = 8
"""Names that a notice lists."""
WITH = "ppca, kmeans, gaussian-mixture, bernoulli-mixture, rbm, gaussian-classifier, linear models, networks"


@click.command("components")
@click.argument("run", shell_complete=completion.folders)
@click.option("--out", metavar="FILE", help="A new .csv, .parquet or .npy file; .png for a picture.")
@click.option(
    "--scale", type=click.Choice(["common", "each"]),
    help="Of a picture: one scale of gray for all, on which weak parts look weak, or one for each.  [default: common]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(run: str, out: str | None, scale: str | None, as_json: bool) -> None:
    """What the model in the folder RUN is made of, a row each, by the names of the columns of its data.

    Components, centers, means, coefficients, weights of hidden units, filters of images: whatever the system has. A
    model of images gives a picture of them with --out FILE.png; a mean or bias, which has another scale, is not in it.
    """
    check_out(out, (*TABLES, *PICTURES))
    drawn = out is not None and Path(out).suffix.lower() in PICTURES
    if scale is not None and not drawn:
        raise UserValueError("--scale is of a picture alone", "--scale", "add --out FILE.png, or leave it out")
    from gnomon.data.images import shape_of
    from gnomon.system.saving import load
    from gnomon.tasks.components import components

    system, recipe = load(run), RunFolder.open(run).config.get("data", {})
    known = getattr(system, "feature_names_in_", None)
    preparation = getattr(system, "preparation_", None)
    columns = recipe.get("features") or ([] if known is None else known.tolist())
    if preparation is not None:
        columns = list(preparation.names_out)
    shape = shape_of(columns) or getattr(system, "image_shape", None)
    found = components(system, columns, shape)
    if found is None:
        raise UserTypeError(f"{system.name} has no components by column", run, f"models that have: {WITH}")
    if drawn:
        _draw(str(out), found, scale or "common")
    elif out is not None:
        write_table(out, found.table(), found.values)
    n = len(found.alike) if drawn else len(found.names)
    if as_json:
        whole = {"n": n, "noun": found.noun} | ({"flat": found.flat} if drawn else {})
        output.dump(whole | ({"out": out} if out else {"components": found.table()}))
    elif out is not None:
        output.written(n, found.noun if drawn else "row", out)
    else:
        write_table(None, found.table())


def _draw(out: str, found: Components, scale: str) -> None:
    """Write the parts of a model as a picture, and say which of them cannot be seen on a scale for all."""
    from gnomon.evaluation.grids import FLAT, enlargement, filter_grid

    if found.shape is None:
        raise UserValueError("a table has no picture, only images have", "--out", "write .csv or .parquet")
    write_picture(out, filter_grid(found.alike.T, found.shape, scale=scale, factor=enlargement(found.shape)))
    if found.flat:
        named = ", ".join(found.flat[:SHOWN]) + (", ..." if len(found.flat) > SHOWN else "")
        what = f"{len(found.flat)} of {counted(len(found.alike), found.noun)} span less than {FLAT:.0%} of the range"
        output.note(f"notice: {what} of all, dead or nearly so: {named}")
