"""``gnomon sample RUN -n 64``: rows (with their labels, from a model of both) or sentences drawn from a model."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import output
from gnomon.cli.write import write_rows
from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder

__all__ = ["command"]


@click.command("sample")
@click.argument("run")
@click.option("-n", "n", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="How many.")
@click.option("--seed", type=int, metavar="SEED", help="The same seed draws the same; fresh entropy by default.")
@click.option("--out", metavar="FILE", help="A new .csv or .npy file (.txt for sentences); standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(run: str, n: int, seed: int | None, out: str | None, as_json: bool) -> None:
    """Draw N rows (or sentences) from the model in the folder RUN."""
    from gnomon.system.saving import load

    system = load(run)
    if not hasattr(system, "sample"):
        raise UserValueError(
            f"{system.name} cannot be drawn from", run, f"gnomon info {system.name} shows what it can do"
        )
    found = system.sample(n, random_state=seed)
    data = RunFolder.open(run).config.get("data", {})
    features = data.get("features")
    if isinstance(found, tuple):
        rows, labels = found
        found, features = labeled(rows, labels, features, data.get("target"))
    if out is not None:
        write_rows(out, found, header(found, features))
    if as_json:
        output.dump({"n": n, "out": out} if out else {"samples": found})
    elif out is not None:
        output.note(f"{n} samples are in {out}")
    else:
        write_rows(None, found, header(found, features))


def labeled(X: Any, y: Any, features: list[str] | None, target: Any) -> tuple[Any, list[str]]:
    """Rows and labels as one table, the label last, and the names of its columns."""
    import numpy as np

    name = target if isinstance(target, str) else "label"
    return np.column_stack([X.astype(object), y]), [*header(X, features), name]


def header(found: Any, features: list[str] | None) -> list[str]:
    """Names of the columns, those of the data where the fit had a name or file; none for sentences."""
    if not hasattr(found, "shape"):
        return []
    return features or [f"x{j}" for j in range(found.shape[-1])]
