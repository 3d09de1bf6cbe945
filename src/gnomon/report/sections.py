"""The sections of a report: each asks a subject for one thing, and is left out where there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gnomon.data.overview import overview
from gnomon.errors import UserError, counted, number
from gnomon.report.attended import attended_of
from gnomon.report.figures import picture, pictures
from gnomon.report.inside import inside_of
from gnomon.report.legends import LEGENDS
from gnomon.report.looked import looked_of
from gnomon.report.machines import chains_of_fit, chains_of_model, depths_of, landscape_of, modes_of
from gnomon.report.matters import explanation_of
from gnomon.report.page import Section, details, facts, numeric, paragraph, table
from gnomon.report.parts import components_of, samples_of
from gnomon.report.rebuilt import canvas_of, rebuilt_of
from gnomon.report.seen import seen_of
from gnomon.report.subject import Subject
from gnomon.report.tallies import tallies_of
from gnomon.report.target import target_of
from gnomon.report.texts import texts_of, translations_of
from gnomon.report.weights import weights_of
from gnomon.runs.config import DataSpec
from gnomon.tasks import pictures as drawings
from gnomon.tasks.base import task
from gnomon.tasks.diagnose import of_scored
from gnomon.tasks.fitting import file_as, place_of
from gnomon.tasks.mistakes import mistakes

__all__ = ["of_run", "scores_of"]

MOST_COLUMNS = 200
"""Columns of the data that are listed."""
MOST_OWN = 8
"""Scores of single classes that stand among the others."""
MOST_MISTAKES = 12
PARTS_OF_LOSS = 6
CURVE = "A panel for each number; each has a scale of its own."


def scores_of(subject: Subject) -> Section | None:
    """Every score of the held-out rows with its errors."""
    if subject.held is None:
        return None
    header = ["score", "value", "± examples", "95 % interval", "kind", "unit", "note"]
    rows = [
        (name, number(one.value), number(one.stderr), one.interval_text, one.kind, one.unit, one.note)
        for name, one in subject.scores.items()
    ]
    own = [row for row in rows if "[" in row[0]]
    few = len(own) <= MOST_OWN
    body = table(header, rows if few else [row for row in rows if row not in own], right=[1, 2], caption="scores")
    if not few:
        body += details("The scores of each class", table(header, own, right=[1, 2], caption="scores of each class"))
    reading = (
        f"On {counted(len(subject.held), 'row')} that the fit has not seen; ± is what another test set of this size "
        "would change (one standard error)."
    )
    return Section("Scores", reading, body)


def system_of(subject: Subject) -> Section:
    """What was fitted, with which settings, on what."""
    config, data = subject.config, subject.config.get("data", {})
    found: dict[str, Any] = {"system": subject.system.name}
    found |= {name: value for name, value in config.get("parameters", {}).items() if name != "random_state"}
    found |= {
        "seed": config.get("seed"), "data": data.get("name"), "target": data.get("target"),
        "held out": f"{data['holdout']:g}, {data.get('split') or 'random'}" if data.get("holdout") else None,
        "rows of the fit": None if subject.train is None else len(subject.train), "run": subject.path,
        **{name: version for name, version in config.get("versions", {}).items() if name in ("gnomon", "python")},
    }  # fmt: skip
    prepared = getattr(subject.system, "preparation_", None)
    lines = [] if prepared is None else prepared.lines()
    body = facts({name: value for name, value in found.items() if value is not None})
    if lines:
        body += details("what was done to the columns", "".join(paragraph(line) for line in lines))
    return Section("What was fitted", "Settings that are not named have their defaults.", body)


def data_of(subject: Subject) -> Section | None:
    """The target, and the columns of the data: kinds, ranges, missing cells."""
    recipe = subject.config.get("data", {})
    if subject.train is None or recipe.get("resize"):
        return None
    try:
        spec = DataSpec.from_json(recipe)
        found, whole = overview(file_as(place_of(spec), spec.form), target=spec.target)
    except UserError:
        return None  # a form of text of which no overview is made
    body = target_of(subject, found, whole)
    columns = found["columns"] or []
    if columns and not found["images"]:
        header = ["column", "kind", "min", "mean", "max", "missing", "different", "taken as"]
        rows = [
            (one["name"], one["kind"], *(number(one[key]) for key in ("min", "mean", "max")), one["missing"],
             number(one["different"]), one["taken"] or one["role"] or "")
            for one in columns[:MOST_COLUMNS]
        ]  # fmt: skip
        body += table(header, rows, right=[2, 3, 4, 5, 6], caption="columns")
    more = f"; the first {MOST_COLUMNS} of {len(columns)} columns" if len(columns) > MOST_COLUMNS else ""
    reading = f"{found['name']}: {counted(found['rows'] or len(subject.train), 'row')} as they were read{more}."
    return Section("Data", reading, body) if body else None


def history_of(subject: Subject) -> Section | None:
    """The learning curve."""
    history = dict(subject.system.history_)
    axis = next((name for name in ("epoch", "iteration", "step") if len(set(history.get(name, ()))) > 1), None)
    losses = [name for name in history if name not in ("step", "epoch", "iteration", "gradient_norm")][:PARTS_OF_LOSS]
    if axis is None or not losses:
        return None
    chosen = getattr(subject.system, "best_epoch_", None)
    found = drawings.learning(history[axis], {name: history[name] for name in losses}, axis, chosen)
    reading = "What the fit recorded as it went on: it has come to rest where the line is level."
    if chosen is not None:
        reading += " The dashed line is the epoch whose weights were kept."
    return Section("Learning curve", reading, pictures([picture(found, "Learning curve", CURVE)]))


def figures_of(subject: Subject) -> Section | None:
    """The pictures of each of its tasks, a sentence each."""
    if subject.held is None:
        return None
    drawn: dict[str, Any] = {}
    for name in subject.system.tasks:
        drawn |= task(name).figures(subject.system, *subject.rows_for(task(name)), subject.held.images)
    found = [picture(one, *LEGENDS.get(name, (name.replace("_", " "), ""))) for name, one in drawn.items()]
    if not found:
        return None
    return Section("Pictures", "Of the rows that the fit has not seen.", pictures(found) + tallies_of(subject))


def mistakes_of(subject: Subject) -> Section | None:
    """The rows that the system is furthest off on."""
    if subject.held is None:
        return None
    found = mistakes(subject.system, *subject.examples, most=MOST_MISTAKES)
    if found is None or not len(found.places):
        return None
    header, rows = found.table(subject.held)
    body = table(header, rows, right=numeric(rows), caption="worst mistakes")
    if subject.held.images is not None:
        images = np.asarray(subject.held.X)[found.places]
        body += pictures(
            [picture(drawings.rows(images, subject.held.images, "", across=4), "The same rows", "In their order.")]
        )
    return Section("Worst mistakes", found.reading, body)


def diagnosis_of(subject: Subject) -> Section | None:
    """What `gnomon.diagnose` finds."""
    try:
        X, y = (None, None) if subject.held is None else subject.examples
        found = of_scored(subject.path, subject.system, X, y, subject.seen, subject.scores)
    except UserError:
        return None
    rows = [(one.level, one.what, one.evidence, one.remedy) for one in found.findings]
    if not rows:
        return None
    body = table(["level", "finding", "numbers", "what to do"], rows, caption="diagnosis")
    if found.level == "warning":
        body = paragraph("There is something to mend.", "warning") + body
    return Section("Diagnosis", "What the checks of a fit found, the gravest first.", body)


SECTIONS: tuple[Callable[[Subject], Section | None], ...] = (
    scores_of, figures_of, texts_of, translations_of, attended_of, rebuilt_of, samples_of, canvas_of, landscape_of,
    modes_of, chains_of_model, depths_of, seen_of, mistakes_of, looked_of, explanation_of, components_of, history_of,
    inside_of, chains_of_fit, weights_of, diagnosis_of, data_of, system_of,
)  # fmt: skip


def of_run(subject: Subject) -> list[Section]:
    """The sections of one run, those that have something to show."""
    found = [make(subject) for make in SECTIONS]
    return [one for one in found if one is not None]
