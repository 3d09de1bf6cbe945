"""``gnomon data [NAME|FILE]``: the built-in sets, or what a set or file holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gnomon.cli import output
from gnomon.cli.fit import column_name, column_names, data_options
from gnomon.data.names import names

if TYPE_CHECKING:
    from gnomon.data.dataset import Dataset

__all__ = ["command"]


@click.command("data")
@click.argument("data", required=False)
@data_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(data: str | None, target: str | None, columns: str | None, as_json: bool) -> None:
    """The built-in data sets; with DATA what that set or file holds: rows, columns, missing values, labels."""
    if data is None:
        if as_json:
            output.dump({"data": names()})
        else:
            output.write(output.table(["name", "what it is"], [[name, line] for name, line in names().items()]))
        return
    from gnomon.data.loading import load

    chosen = load(data, target=column_name(target), columns=column_names(columns))
    found = facts(chosen)
    if as_json:
        output.dump(found)
        return
    plain = {key: value for key, value in found.items() if key != "columns" and value is not None}
    output.write("\n".join(f"{key:<12} {_line(value)}" for key, value in plain.items()))
    if found["columns"]:
        cells = [
            [c["name"], *(output.number(c[k]) for k in ("min", "mean", "max")), str(c["missing"])]
            for c in found["columns"]
        ]
        output.write("\n" + output.table(["column", "min", "mean", "max", "missing"], cells, right=[1, 2, 3, 4]))


def facts(chosen: Dataset) -> dict[str, Any]:
    """What a data set holds, as JSON values."""
    found: dict[str, Any] = {"name": chosen.name, "rows": len(chosen), "fingerprint": chosen.fingerprint}
    found["images"] = list(chosen.images) if chosen.images else None
    found["sentences"] = len(chosen.text) if chosen.text is not None else None
    found["labels"] = labels(chosen)
    found["columns"] = (
        [] if chosen.X is None else [column(name, chosen.X[:, j]) for j, name in enumerate(chosen.columns)]
    )
    return found


def labels(chosen: Dataset) -> dict[str, int] | str | None:
    """Rows by label; a numeric target is named as one."""
    if chosen.y is None:
        return None
    if chosen.y.dtype.kind == "f":
        return "a numeric target"
    counts: dict[str, int] = {}
    for label in chosen.y.tolist():
        name = chosen.classes[label] if chosen.classes and isinstance(label, int) else str(label)
        counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


def column(name: str, values: Any) -> dict[str, Any]:
    """Range, mean and missing values of a column."""
    import numpy as np

    seen = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    low, mean, high = (float(f(seen)) if seen.size else float("nan") for f in (np.min, np.mean, np.max))
    return {"name": name, "min": low, "mean": mean, "max": high, "missing": int(values.size - seen.size)}


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {n}" for key, n in value.items())
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)
