"""The section about columns that matter: coefficients with their errors, impurity and permutation importances."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gnomon.errors import number
from gnomon.evaluation.coefficients import Coefficients
from gnomon.evaluation.importance import permutation
from gnomon.evaluation.score import Score
from gnomon.report.figures import picture, pictures
from gnomon.report.legends import LEGENDS
from gnomon.report.page import Section, details, paragraph, table
from gnomon.report.subject import Subject
from gnomon.tasks import pictures as drawings
from gnomon.tasks.explain import coefficients, groups, impurity

__all__ = ["explanation_of"]

MOST_COLUMNS = 200
"""Coefficients that are listed, those furthest from 0 in standard errors first."""
MOST_ROWS = 40
"""Of these, without a click."""
MOST_BARS = 25
SHUFFLE_SECONDS = 1.5
"""Of processor time that permutation importances may take."""
SHUFFLES = 5
ROWS = 2000
"""Held-out rows whose columns are shuffled."""


def explanation_of(subject: Subject) -> Section | None:
    """Coefficients, impurity and permutation importances."""
    if subject.held is None or not set(subject.system.tasks) & {"classify", "regress"}:
        return None
    X, y = subject.examples
    if np.ndim(X) != 2:
        return None
    names = list(subject.held.columns)
    body = "" if subject.held.images is not None else _coefficients(subject, names)  # of pixels they are an image
    found: list[str] = []
    gains = impurity(subject.system, names)
    if gains:
        found.append(_bars(gains, {}, "impurity"))
    shuffled = _shuffled(subject, names, X, y)
    if shuffled:
        worth = {name: one.value for name, one in shuffled.items()}
        found.append(_bars(worth, {name: one.stderr for name, one in shuffled.items()}, "permutation"))
    body += pictures(found) if found else ""
    if shuffled:
        rows = [(name, number(one.value), number(one.stderr)) for name, one in list(shuffled.items())[:MOST_COLUMNS]]
        title = "Permutation importances as a table"
        body += details(title, table(["column", "importance", "standard error"], rows, right=[1, 2], caption=title))
    reading = "What predictions rest on; columns that say the same share what they are worth."
    return Section("Columns that matter", reading, body) if body else None


def _coefficients(subject: Subject, names: Sequence[str]) -> str:
    tables, note = coefficients(subject.system, names, *(subject.seen or (None, None)))
    body = ""
    for one in tables[:MOST_BARS]:
        found = _coefficient_table(one)
        body += found if len(tables) == 1 else details(f"for {one.output}", found)
    return (f"{body}{paragraph(note)}" if note else body) if body else ""


def _coefficient_table(one: Coefficients) -> str:
    """The coefficients that are furthest from 0 in standard errors, and the others where they are asked for."""
    low, high = one.interval().T
    order = np.argsort(-np.abs(np.nan_to_num(one.statistic, nan=0.0)), kind="stable")[:MOST_COLUMNS]
    rows = [(one.names[j], *map(number, (one.value[j], one.stderr[j], low[j], high[j], one.p_value[j]))) for j in order]
    header = ["coefficient", "value", "standard error", "95 % from", "to", "p"]
    head = f"for {one.output}" if one.output else "coefficients"
    first = table(header, rows[:MOST_ROWS], right=range(1, 6), caption=head)
    rest = rows[MOST_ROWS:]
    if not rest:
        return first
    return first + details(f"{len(rest)} more", table(header, rest, right=range(1, 6), caption=f"{head}, the others"))


def _bars(values: Mapping[str, float], errors: Mapping[str, float], name: str) -> str:
    top = sorted(values, key=lambda column: -values[column])[:MOST_BARS]
    figure = drawings.importances(top, [values[one] for one in top], [errors.get(one, 0.0) for one in top])
    return picture(figure, *LEGENDS[name])


def _shuffled(subject: Subject, names: Sequence[str], X: Any, y: Any) -> dict[str, Score]:
    """Permutation importances, where they do not take long."""
    rows = np.arange(len(X)) if len(X) <= ROWS else np.random.default_rng(0).choice(len(X), ROWS, replace=False)
    X, y = np.asarray(X)[rows], np.asarray(y)[rows]
    begun = time.process_time()
    subject.system.evaluate(X, y)
    columns = groups(subject.system, names)
    if (time.process_time() - begun) * len(columns) * SHUFFLES > SHUFFLE_SECONDS:
        return {}
    return permutation(subject.system, X, y, columns=columns, repeats=SHUFFLES, seed=0)
