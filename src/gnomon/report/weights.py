"""The section about annealed importance sampling: the log weights that an estimate of log Z is the mean of."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gnomon.errors import UserError, number
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, facts, paragraph, table
from gnomon.report.subject import Subject
from gnomon.tasks.pictures import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["weights_of"]


def weights_of(subject: Subject) -> Section | None:
    """The weights behind log Z, where it was estimated by some: their spread, and how many of them count."""
    if not hasattr(subject.system, "log_partition"):
        return None
    try:
        score = subject.system.log_partition()
    except UserError:
        return None  # of documents there is one for each length
    if getattr(score, "weights", None) is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told in the section
        found: Any = subject.system.log_partition("bracket", X=_rows(subject))
    weights = found.weights
    values = {
        "log Z": f"{number(found.value)} ± {number(found.error)} nats",
        "annealed downwards": f"{number(found.upper)} ± {number(found.gap_error)} nats"
        + ("" if found.exact_start else ", from chains that may not have mixed"),
        "weights": len(weights),
        "effective weights": number(weights.ess),
        "share of the largest weight": number(weights.max_share),
        "tail shape (khat)": number(weights.khat),
        "spread of the log weights": f"{number(float(np.std(weights.log_weights)))} nats",
    }
    words = [weights.notice, found.verdict]
    body = facts(values) + "".join(paragraph(one[0].upper() + one[1:] + ".", "warning") for one in words if one)
    rows = [(one.steps, number(one.shift), number(one.error)) for one in found.ladder]
    body += table(["temperatures", "log Z less that of all", "± estimator"], rows, right=[0, 1, 2], caption="ladders")
    reading = "A run of annealing each, upwards and downwards: log Z lies between where they overlap, or is not known."
    body += pictures([picture(_histograms(weights.log_weights, -found.reverse.log_weights), "Log weights", reading)])
    return Section(
        "Weights behind log Z",
        "Few effective weights, a tail shape above 0.7, or two ways that disagree: log Z is not to be trusted.",
        body,
    )


def _rows(subject: Subject) -> Any:
    """Where the diagnosis begins too, so that it is estimated once."""
    examples = subject.seen if subject.held is None else subject.examples
    return None if examples is None else examples[0]


def _histograms(up: np.ndarray[Any, Any], down: np.ndarray[Any, Any]) -> Figure:
    figure, axes = canvas(6.0, 3.0)
    both = [one[np.isfinite(one)] for one in (up, down)]
    edges = np.histogram_bin_edges(np.concatenate(both), 40)
    for values, name in zip(both, ("upwards", "downwards, negative"), strict=True):
        axes.hist(values, edges.tolist(), alpha=0.6, label=name)
    axes.set(xlabel="log weight (nats)", ylabel="count")
    axes.legend()
    return figure
