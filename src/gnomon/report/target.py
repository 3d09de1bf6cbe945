"""What is predicted, as the data has it: classes with their shares, or how a number is distributed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gnomon.data.dataset import Dataset
from gnomon.errors import UserError, counted, number
from gnomon.report.figures import picture, pictures
from gnomon.report.page import paragraph, table
from gnomon.report.subject import Subject
from gnomon.tasks import pictures as drawings

__all__ = ["target_of"]

MOST_CLASSES = 25
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def target_of(subject: Subject, found: Mapping[str, Any], data: Dataset | None) -> str:
    """The target of a fit as a part of the page; "" of data without one.

    Parameters
    ----------
    subject : Subject
    found : mapping
        What `gnomon.data.overview.overview` says of the whole data.
    data : Dataset or None
        The whole data.
    """
    if "regress" in subject.system.tasks:
        return "" if data is None else _number(found, data)
    if not isinstance(found["labels"], dict):
        return ""
    counts = sorted(found["labels"].items(), key=lambda pair: -pair[1])
    known = sum(n for _, n in counts)
    assert subject.train is not None
    labels = {name: str(i) for i, name in enumerate(subject.train.classes or ()) if name != str(i)}
    rows = [(name, labels.get(name, ""), n, f"{n / known:.1%}") for name, n in counts[:MOST_CLASSES]]
    more = f" (the {MOST_CLASSES} commonest of {len(counts)})" if len(counts) > MOST_CLASSES else ""
    missing = _missing(found)
    more += f"; {counted(missing, 'row')} without a label, which {'has' if missing == 1 else 'have'} no share" * (
        missing > 0
    )
    return paragraph(f"Classes{more}") + table(
        ["class", "label", "rows", "share"], rows, right=[2, 3], caption="classes"
    )


def _number(found: Mapping[str, Any], data: Dataset) -> str:
    """Quantiles, mean and histogram of a numeric target."""
    try:
        y = np.asarray(data.view("target"), np.float64)
    except UserError:
        return ""
    values = y[np.isfinite(y)]
    if not len(values) or y.ndim > 1:
        return ""
    missing = _missing(found) + len(y) - len(values)
    names = [{0.0: "min", 0.5: "median", 1.0: "max"}.get(q, f"{q:.0%}") for q in QUANTILES]
    numbers = [number(one) for one in np.quantile(values, QUANTILES)]
    header = ["rows", "missing", "mean", "deviation", *names]
    row = (str(len(values)), str(missing), number(values.mean()), number(values.std()), *numbers)
    drawn = drawings.histogram(values, str(data.source.get("target") or "target"))
    body = paragraph("Target, with its quantiles") + table(header, [row], right=range(len(row)), caption="target")
    return body + pictures([picture(drawn, "Target", "How often its values occur in the whole data.")])


def _missing(found: Mapping[str, Any]) -> int:
    """Cells without a value in the column of the target."""
    return sum(int(one["missing"]) for one in found["columns"] or () if one["role"] == "target")
