"""What ``gnomon predict`` writes for a model that finds boxes: a line for each box on each image."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.cli import output
from gnomon.cli.write import check_out, write_table
from gnomon.errors import UserTypeError
from gnomon.runs.folder import RunFolder

__all__ = ["predict_boxes"]

ENDINGS = (".csv", ".parquet")
COLUMNS = ("x1", "y1", "x2", "y2", "label", "probability")


def predict_boxes(run: str, data: str, system: Any, *, out: str | None, as_json: bool, refused: dict[str, Any]) -> None:
    """Find boxes on images of any size, with the model of a run: a table in edges of pixels.

    Raises
    ------
    UserError
        Images that the model cannot take; options that are for rows of tables.
    """
    for option, value in refused.items():
        if value:
            raise UserTypeError(f"{system.name} finds boxes, which {option} does not go with", option, "leave it out")
    check_out(out, ENDINGS)
    from gnomon.tasks.any_images import images_by_name

    recipe = RunFolder.open(run).config.get("data", {})
    names, images = images_by_name(data, recipe, system.known_domain().channels)
    found = system.detect(images)
    every = np.concatenate(found)
    table: dict[str, Any] = {"file": np.repeat(np.array(names, object), [len(one) for one in found])}
    table |= dict(zip(COLUMNS, every.T, strict=True))
    table["label"] = table["label"].astype(np.int64)
    if out is not None or not as_json:
        write_table(out, table)
    if as_json:
        output.dump({"n": len(names), **({"out": out} if out else {}), "boxes": table})
    elif out is not None:
        output.written(len(every), "row", out)
