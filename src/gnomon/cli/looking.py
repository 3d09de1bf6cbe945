"""``gnomon explain RUN --how ...``: what a classifier of images looks at, as a table and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.cli import output
from gnomon.cli.write import PICTURES, check_out, write_picture, write_table
from gnomon.errors import UserTypeError, UserValueError, counted

__all__ = ["WAYS", "Wish", "tell"]

WAYS = ("grad-cam", "gradient", "occlusion", "features", "nearest")
NEAREST = 5
"""Training images beside each image."""


@dataclass(frozen=True)
class Wish:
    """The options: which way, how many images and which, the stage, the file."""

    how: str
    n: int
    seed: int
    mistakes: bool
    stage: int | None
    out: str | None


def tell(run: str, data: str | None, target: str | None, system: Any, wish: Wish, as_json: bool) -> None:
    """Write what the system of a run looks at, of rows of DATA or of those that the fit held out.

    Raises
    ------
    UserError
        A system or rows that cannot be looked at in this way.
    """
    from gnomon.cli.show import rows_of
    from gnomon.tasks.looking import image_shape, pick

    check_out(wish.out, (".npy", *PICTURES))
    if wish.stage is not None and wish.how not in ("features", "grad-cam"):
        raise UserValueError(f"--stage is of features and grad-cam, not of {wish.how}", "--stage", "leave it out")
    rows, X, y = rows_of(run, data, target, system, "explain")
    shape = image_shape(system, rows)
    if shape is None:
        raise UserTypeError(
            f"{wish.how} needs images, got a table, {rows.name}", "--how", "leave it out to explain columns"
        )
    places = pick(system, X, y, wish.n, seed=wish.seed, worst=wish.mistakes)
    make = {"features": _features, "nearest": _nearest}.get(wish.how, _maps)
    found = make(run, rows, np.asarray(X), y, system, places, shape, wish)
    if wish.out is not None:
        _write(wish.out, found)
    if as_json:
        whole = {"run": run, "data": rows.name, "held_out": data is None, "how": wish.how, "n": len(places)}
        output.dump(whole | found.facts | ({"out": wish.out} if wish.out else {}))
        return
    output.write(f"{found.title}\n{output.table(found.header, found.lines, right=found.right)}")
    if wish.out is not None:
        output.written(len(places), "image", wish.out)
    else:
        output.note("notice: --out FILE.png draws it")


@dataclass(frozen=True)
class Shown:
    """A table with its title, the facts of --json, a picture, and the numbers of a .npy file."""

    title: str
    header: list[str]
    lines: list[list[str]]
    right: tuple[int, ...]
    facts: dict[str, Any]
    picture: Any
    numbers: Any


def _write(out: str, found: Shown) -> None:
    if Path(out).suffix.lower() in PICTURES:
        write_picture(out, found.picture)
    else:
        write_table(out, {}, found.numbers)


def _texts(lines: Any) -> list[list[str]]:
    return [[str(cell) for cell in line] for line in lines]


def _maps(run: str, rows: Any, X: Any, y: Any, system: Any, places: Any, shape: Any, wish: Wish) -> Shown:
    """A map over the pixels of each image."""
    from gnomon.tasks.looking import look

    found = look(system, X, places, shape, wish.how, stage=wish.stage)
    header, lines = found.table(rows, y)
    title = f"{wish.how} of {_chosen(places, rows, wish)}, for the predicted class:"
    columns = {name: [line[j] for line in lines] for j, name in enumerate(header)}
    return Shown(title, header, _texts(lines), (), {"columns": columns}, found.picture(), found.maps)


def _chosen(places: Any, rows: Any, wish: Wish) -> str:
    if wish.mistakes:
        return f"the {counted(len(places), 'mistake')} in {rows.name} that the model is surest of"
    return f"{counted(len(places), 'image')} of {rows.name}, drawn at random"


def _features(run: str, rows: Any, X: Any, y: Any, system: Any, places: Any, shape: Any, wish: Wish) -> Shown:
    """The stages, and the maps of the first image at one of them."""
    from gnomon.tasks.looking import feature_grid

    if not hasattr(system, "features"):
        raise UserTypeError(f"{system.name} has no feature maps", run, "convolutional networks have")
    stage = wish.stage or 0
    (first,) = system.features(X[places[:1]], stages=[stage])  # says which stages there are
    every = system.features(X[places])
    facts: list[dict[str, Any]] = [
        {"stage": number, "shape": list(one.shape[1:]), "mean": float(one.mean()), "zero": float((one == 0).mean()),
         "off": int((one == 0).all((0, 1, 2)).sum())}
        for number, one in enumerate(every)
    ]  # fmt: skip
    lines = [
        [
            str(one["stage"]),
            "x".join(map(str, one["shape"])),
            f"{one['mean']:.3g}",
            f"{one['zero']:.0%}",
            str(one["off"]),
        ]
        for one in facts
    ]
    header = ["stage", "rows, columns, maps", "mean", "zeros", "maps that are off"]
    row = int(places[0] if rows.rows is None else rows.rows[places[0]])
    title = f"stages over {_chosen(places, rows, wish)}; a picture is that of row {row} at stage {stage}:"
    return Shown(title, header, lines, (2, 3, 4), {"stages": facts, "row": row}, feature_grid(first[0]), every[stage])


def _nearest(run: str, rows: Any, X: Any, y: Any, system: Any, places: Any, shape: Any, wish: Wish) -> Shown:
    """Training images that are nearest to each."""
    from gnomon.cli.fitted import training_rows
    from gnomon.tasks.looking import neighbor_grid

    if not hasattr(system, "nearest"):
        raise UserTypeError(
            f"{system.name} has no features that images could be near in", run, "networks of images have"
        )
    train, known, labels = training_rows(run, system)
    near, distances = system.nearest(X[places], known, NEAREST)
    numbers = near if train.rows is None else np.asarray(train.rows)[near]
    own = places if rows.rows is None else np.asarray(rows.rows)[places]
    predicted, labels = np.asarray(system.predict(X[places])), np.asarray(labels)
    lines, facts = [], []
    for i, place in enumerate(places):
        true = [] if y is None else [str(np.asarray(y)[place])]
        beside = [f"{label} (row {number}, {far:.3g})" for label, number, far in
                  zip(labels[near[i]], numbers[i], distances[i], strict=True)]  # fmt: skip
        lines.append([str(own[i]), *true, str(predicted[i]), "; ".join(beside)])
        facts.append({"row": int(own[i]), "nearest": numbers[i], "labels": labels[near[i]], "distances": distances[i]})
    header = ["row", *([] if y is None else ["true"]), "predicted", "nearest training images (row, distance)"]
    picture = neighbor_grid(X[places].reshape(-1, *shape), np.asarray(known).reshape(-1, *shape), near)
    title = f"{_chosen(places, rows, wish)}, and what the network holds to be alike:"
    return Shown(title, header, lines, (), {"images": facts}, picture, numbers)
