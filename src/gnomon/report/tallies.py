"""Pictures of classes as numbers: the confusion matrix and the calibration as tables, for those who cannot see them."""

from __future__ import annotations

import numpy as np

from gnomon.errors import number
from gnomon.evaluation.calibration import reliability
from gnomon.report.page import details, table
from gnomon.report.subject import Subject
from gnomon.tasks.pictures import MOST_CLASSES

__all__ = ["tallies_of"]


def tallies_of(subject: Subject) -> str:
    """Both tables as HTML, closed until they are asked for; nothing of a system that predicts no classes."""
    if "classify" not in subject.system.tasks:
        return ""
    (X, y), system = subject.examples, subject.system
    classes = system.classes_
    if not np.isin(y, classes).all():
        return ""
    body, names = "", [str(one) for one in classes]
    if len(classes) <= MOST_CLASSES:
        counts = np.asarray(system.confusion_matrix(X, y).weight)
        rows = [[name, *(f"{one:g}" for one in line)] for name, line in zip(names, counts, strict=True)]
        body += _closed("The confusion matrix as a table", ["true, across: predicted", *names], rows)
    if hasattr(system, "predict_proba"):
        bins = reliability(y, np.asarray(system.predict_proba(X), np.float64), classes=classes)
        full = np.flatnonzero(bins.weight > 0)
        rows = [[number(float(bins.stated[j])), number(float(bins.observed[j])), f"{bins.weight[j]:g}"] for j in full]
        body += _closed("The calibration as a table", ["stated probability", "share that came true", "rows"], rows)
    return body


def _closed(title: str, header: list[str], rows: list[list[str]]) -> str:
    return details(title, table(header, rows, right=range(1, len(header)), caption=title))
