"""``gnomon components RUN``: what a model is made of, by column of the data."""

from __future__ import annotations

from pathlib import Path

import click

from gnomon.cli import completion, output
from gnomon.cli.write import PICTURES, TABLES, check_out, write_picture, write_table
from gnomon.errors import UserTypeError, UserValueError
from gnomon.runs.folder import RunFolder

__all__ = ["command"]

WITH = "ppca, kmeans, gaussian-mixture, bernoulli-mixture, rbm, gaussian-classifier, linear models, networks"


@click.command("components")
@click.argument("run", shell_complete=completion.folders)
@click.option("--out", metavar="FILE", help="A new .csv, .parquet or .npy file; .png for a picture.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(run: str, out: str | None, as_json: bool) -> None:
    """What the model in the folder RUN is made of, a row each, by the names of the columns of its data.

    Components, centers, means, coefficients, weights of hidden units, filters of images: whatever the system has. A
    model of images gives a picture of them with --out FILE.png.
    """
    check_out(out, (*TABLES, *PICTURES))
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
    if out is not None and Path(out).suffix.lower() in PICTURES:
        if found.shape is None:
            raise UserValueError("a table has no picture, only images have", "--out", "write .csv or .parquet")
        from gnomon.tasks.pictures import grid

        write_picture(out, grid(found.values, found.shape))
    elif out is not None:
        write_table(out, found.table(), found.values)
    if as_json:
        whole = {"n": len(found.names), "noun": found.noun}
        output.dump(whole | ({"out": out} if out else {"components": found.table()}))
    elif out is not None:
        output.written(len(found.names), "row", out)
    else:
        write_table(None, found.table())
