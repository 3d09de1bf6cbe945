"""What ``gnomon predict`` writes for a model that labels pixels: a mask for each image, or what its images hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gnomon.cli import output
from gnomon.cli.write import check_out, new_folder, write_table
from gnomon.errors import UserTypeError, UserValueError, counted
from gnomon.runs.folder import RunFolder, write_atomically

__all__ = ["is_folder", "predict_pixels"]

ENDINGS = (".csv", ".parquet", ".npy")
MOST_LEVELS = 255
"""Labels up to which a mask holds the labels themselves; the last level says that there is none."""


def is_folder(out: str | None) -> bool:
    """Whether answers go into a folder: a name without an ending."""
    return out is not None and not Path(out).suffix


def predict_pixels(
    run: str, data: str, system: Any, *, out: str | None, proba: bool, as_json: bool, refused: dict[str, Any]
) -> None:
    """Label the pixels of images of any size, with the model of a run.

    Without a file, a table of the fraction of each image that each class covers. Into a folder: a mask for each image,
    a palette image whose levels are the labels. Into a .npy file: the labels, or their probabilities, as an array,
    where all images have one size.

    Raises
    ------
    UserError
        Images that the model cannot take; options that are for rows of tables.
    """
    for option, value in refused.items():
        if value:
            raise UserTypeError(f"{system.name} labels pixels, which {option} does not go with", option, "leave it out")
    array = out is not None and Path(out).suffix.lower() == ".npy"
    if proba and not array:
        raise UserValueError("probabilities of pixels are an array", "--proba", "write them: --out FILE.npy")
    if is_folder(out):
        new_folder(str(out), "--out")
    else:
        check_out(out, ENDINGS)
    from gnomon.tasks.any_images import images_by_name

    recipe = RunFolder.open(run).config.get("data", {})
    names, images = images_by_name(data, recipe, system.known_domain().channels)
    found = system.predict_proba(images) if proba else system.predict(images)
    shares = _shares(names, found, system.classes_) if not proba else {}
    if array:
        write_table(out, {}, _stacked(found, str(out)))
    elif is_folder(out):
        _write_masks(Path(str(out)), names, found, system.classes_)
    elif out is not None or not as_json:
        write_table(out, shares)
    if as_json:
        output.dump({"n": len(names), **({"out": out} if out else {}), **({} if proba else {"images": shares})})
    elif is_folder(out):
        output.write(f"{counted(len(names), 'mask')} written to {out}")
    elif out is not None:
        output.written(len(names), "image", out)


def _shares(names: list[str], found: Any, classes: Any) -> dict[str, Any]:
    """Name and size of each image, and the fraction of it that each class covers."""
    columns: dict[str, Any] = {"image": np.array(names, object)}
    columns["rows"], columns["columns"] = (np.array([np.shape(one)[axis] for one in found]) for axis in (0, 1))
    for label in classes.tolist():
        columns[f"{label}"] = np.array([np.mean(one == label) for one in found])
    return columns


def _stacked(found: Any, out: str) -> Any:
    if len({np.shape(one) for one in found}) > 1:
        raise UserValueError(
            "images must have one size for an array, got several sizes", "--out", f"name a folder: {Path(out).stem}"
        )
    return np.stack(list(found))


def _write_masks(folder: Path, names: list[str], found: Any, classes: Any) -> None:
    """Palette images: their levels are the labels where these are levels, else the places of the classes."""
    from gnomon.evaluation.overlays import label_colors
    from gnomon.tasks.pictures import palette_png

    levels = classes if classes.dtype.kind in "iu" and classes[0] >= 0 and classes[-1] < MOST_LEVELS else None
    colors = np.zeros((256, 3))
    codes = np.arange(len(classes))
    places = codes if levels is None else levels
    colors[places] = label_colors(codes)
    for name, labels in zip(names, found, strict=True):
        file = folder / Path(name).with_suffix(".png")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, palette_png(places[np.searchsorted(classes, labels)], colors))
