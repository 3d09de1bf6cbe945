"""Sections about held-out rows that went through the codes: what is left of them, and how they are painted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import number
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, paragraph, table
from gnomon.report.subject import Subject
from gnomon.tasks import pictures as drawings

__all__ = ["canvas_of", "explained", "rebuilt_of", "reconstruction"]

MOST = 8
"""Rows that are shown."""
MOST_COLUMNS = 12
MOST_STEPS = 10
"""Of a canvas that are shown."""


def rebuilt_of(subject: Subject) -> Section | None:
    """Held-out rows beside their reconstructions; None of a system without any."""
    if subject.held is None or not hasattr(subject.system, "transform"):
        return None
    given: Any = np.asarray(subject.examples[0])
    found = reconstruction(subject.system, given)
    if found is None:
        return None
    rows, made = (np.asarray(one, np.float64).reshape(len(given), -1) for one in (given, found))
    if rows.shape != made.shape:
        return None
    train = rows if subject.seen is None else np.asarray(subject.seen[0])
    share = explained(rows, made, np.nanmean(train.reshape(len(train), -1), axis=0))
    body = paragraph(f"{number(100 * share)} % of the squares about the training means are accounted for.")
    reading = "What the codes keep of rows that the fit has not seen, and what they lose."
    chosen = drawings.some(len(rows), MOST)
    first, second = rows[chosen], made[chosen]
    shape = subject.held.images
    if shape is not None:
        both = drawings.rows(np.concatenate([first, second]), shape, "", across=len(first))
        title = "Held-out rows above, their reconstructions below"
        return Section("Reconstructions", reading, body + pictures([picture(both, title, "On one scale of gray.")]))
    names = list(subject.held.columns)[:MOST_COLUMNS]
    lines = []
    for one, other in zip(first, second, strict=True):
        error = float(np.sqrt(np.nanmean(np.square(one - other))))
        for name, row, end in (("row", one, ""), ("reconstruction", other, number(error))):
            lines.append([name, *(number(float(value)) for value in row[: len(names)]), end])
    header = ["", *names, "root mean square"]
    return Section(
        "Reconstructions", reading, body + table(header, lines, right=range(1, len(header)), caption="reconstructions")
    )


def canvas_of(subject: Subject) -> Section | None:
    """The canvas after each step, of rows that are drawn and of held-out rows; None of a system without one."""
    system: Any = subject.system
    if subject.held is None or subject.held.images is None or not hasattr(system, "canvases"):
        return None
    given: Any = np.asarray(subject.examples[0])
    given = given[drawings.some(len(given), MOST)].reshape(-1, given[0].size)
    drawn, painted = system.sample(MOST, return_canvas=True, random_state=0)
    found = []
    for title, canvas, rows in (
        ("Samples", painted, drawn), ("Held-out rows", system.canvases(given), given),
    ):  # fmt: skip
        steps = drawings.some(canvas.shape[1], MOST_STEPS)
        lines = np.concatenate([canvas[:, steps], np.asarray(rows).reshape(len(rows), 1, -1)], 1)
        images = lines.reshape(-1, lines.shape[2])
        figure = drawings.rows(images, subject.held.images, "", across=lines.shape[1])
        found.append(picture(figure, title, f"After steps {', '.join(str(step + 1) for step in steps)}, and the row."))
    reading = "A line for each row: the mean that the canvas says after each step, and at its end the row itself."
    return Section("Canvas", reading, pictures(found))


def reconstruction(system: Any, rows: Any) -> Any:
    """What a system gives back for rows: by ``reconstruct``, or through ``transform`` and back; None without either."""
    if hasattr(system, "reconstruct"):
        return system.reconstruct(rows)
    if hasattr(system, "inverse_transform") and hasattr(system, "transform"):
        return system.inverse_transform(system.transform(rows))
    return None


def explained(rows: NDArray[Any], made: NDArray[Any], mean: NDArray[Any]) -> float:
    """1 less the sum of squared errors over that of the distances from the mean; values that are missing play no part.

    Parameters
    ----------
    rows, made : arrays of shape (n, d)
    mean : array of shape (d,)

    Examples
    --------
    >>> explained(np.array([[1.0, 3.0]]), np.array([[1.0, 2.0]]), np.array([0.0, 1.0]))
    0.8
    """
    return float(1 - np.nansum(np.square(rows - made)) / np.nansum(np.square(rows - mean)))
