"""Sections about what a model is made of and what it makes: filters, centers, samples beside their nearest rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.evaluation.grids import FLAT
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, table
from gnomon.report.subject import Subject
from gnomon.tasks import pictures as drawings
from gnomon.tasks.components import components

__all__ = ["components_of", "nearest_rows", "samples_of"]

MOST = 36
"""Vectors that are drawn, or listed."""
MOST_COLUMNS = 12
SAMPLES = 8
TRAINING_ROWS = 5000
"""Among which the nearest is looked for."""


def components_of(subject: Subject) -> Section | None:
    """Components, centers, means or filters: as images where the rows are images, else as a table."""
    data = subject.train if subject.train is not None else subject.held
    if data is None or (hasattr(subject.system, "coef_") and data.images is None):
        return None  # coefficients of columns have a section of their own
    found = components(subject.system, list(data.columns), data.images)
    if found is None:
        return None
    values = (found.values if found.shape is None else found.alike)[:MOST]
    whole = len(found.values) if found.shape is None else len(found.alike)
    many = f"The first {MOST} of {whole}" if whole > MOST else f"{whole}"
    if found.shape is not None:
        figure = drawings.rows(values, found.shape, "")
        reading = "All share one scale of gray, so that a dead one is flat and a weak one pale."
        if found.flat:
            reading += f" {len(found.flat)} of all span less than {FLAT:.0%} of it."
        body = pictures([picture(figure, f"{many} {found.noun}s".replace("_", " "), reading)])
        return Section("What it is made of", "What each part looks for, as an image.", body)
    columns = found.columns[:MOST_COLUMNS]
    header = [found.noun, *found.extra, *columns]
    rows = []
    for i, name in enumerate(found.names[:MOST]):
        numbers = [*(extra[i] for extra in found.extra.values()), *values[i][:MOST_COLUMNS]]
        rows.append([name, *(f"{one:.4g}" for one in numbers)])
    shown = f", {MOST_COLUMNS} of {len(found.columns)} columns" if len(found.columns) > MOST_COLUMNS else ""
    return Section("What it is made of", f"{many}{shown}.", table(header, rows, right=range(1, len(header))))


def samples_of(subject: Subject) -> Section | None:
    """Samples, each beside the training row that is nearest to it."""
    if subject.train is None or subject.seen is None or not set(subject.system.tasks) & {"density", "generate"}:
        return None
    if not hasattr(subject.system, "sample") or subject.train.text is not None:
        return None
    known = np.asarray(subject.seen[0], np.float64)
    drawn: Any = subject.system.sample(SAMPLES, random_state=0)
    samples = np.asarray(drawn[0] if isinstance(drawn, tuple) else drawn, np.float64)
    flat = samples.reshape(len(samples), -1)
    known = known.reshape(len(known), -1)[:TRAINING_ROWS]
    if known.shape[1] != flat.shape[1]:
        return None
    places, distances = nearest_rows(flat, known)
    reading = (
        "Drawn without choosing. A sample that equals its nearest training row was learned by heart; good samples "
        "alone do not make a good density."
    )
    shape = subject.train.images
    if shape is not None:
        both = drawings.rows(np.concatenate([flat, known[places]]), shape, "", across=SAMPLES)
        return Section("Samples", reading, pictures([picture(both, "Samples above, nearest training rows below", "")]))
    names = list(subject.train.columns)[:MOST_COLUMNS]
    header = ["", *names, "distance"]
    rows = []
    for i, place in enumerate(places):
        for name, row, end in (("sample", flat[i], ""), ("nearest", known[place], f"{distances[i]:.4g}")):
            rows.append([name, *(f"{value:.4g}" for value in row[: len(names)]), end])
    return Section("Samples", reading, table(header, rows, right=range(1, len(header)), caption="samples"))


def nearest_rows(samples: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Any]:
    """Of each sample the place of the nearest known row, and how far away that is, in columns of spread 1.

    Parameters
    ----------
    samples : array of shape (m, d)
    known : array of shape (n, d)

    Returns
    -------
    places, distances : arrays of shape (m,)

    Examples
    --------
    >>> places, distances = nearest_rows(np.array([[0.0, 1.0]]), np.array([[5.0, 5.0], [0.0, 1.0]]))
    >>> places.tolist(), distances.tolist()
    ([1], [0.0])
    """
    spread = np.nanstd(known, axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    distances = np.array([np.square((known - one) / unit).sum(axis=1) for one in samples])
    places = distances.argmin(axis=1)
    return places, np.sqrt(distances[np.arange(len(samples)), places])
