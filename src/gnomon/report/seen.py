"""The section of rows drawn at random: whether the model does what its scores say."""

from __future__ import annotations

from gnomon.errors import counted
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, numeric, table
from gnomon.report.subject import Subject
from gnomon.tasks import pictures as drawings
from gnomon.tasks.seen import show_rows

__all__ = ["seen_of"]

ROWS = 12
PREDICTED = {"classify", "regress"}
"""Tasks whose predictions have a truth beside them."""


def seen_of(subject: Subject) -> Section | None:
    """A few held-out rows with predictions and truth, none of them chosen."""
    if subject.held is None or not set(subject.system.tasks) & PREDICTED or not hasattr(subject.system, "predict"):
        return None
    found = show_rows(subject.system, subject.task, subject.held, *subject.examples, ROWS, random_state=0)
    header, rows = found.table(subject.held)
    body = table(header, rows, right=numeric(rows), caption="seen at random")
    if subject.held.images is not None:
        drawn = drawings.framed(found.picture(subject.held.images))
        body += pictures([picture(drawn, "The same rows", "In their order; wrong ones have a red frame.")])
    reading = (
        f"{counted(len(rows), 'held-out row')} drawn at random, not chosen: look whether inputs, truth and predictions "
        "belong together."
    )
    return Section("Seen at random", reading, body)
