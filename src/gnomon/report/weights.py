"""The section about annealed importance sampling: the log weights that an estimate of log Z is the mean of."""

from __future__ import annotations

import numpy as np

from gnomon.errors import number
from gnomon.report.figures import picture, pictures
from gnomon.report.page import Section, facts, paragraph
from gnomon.report.subject import Subject
from gnomon.tasks import pictures as drawings

__all__ = ["weights_of"]


def weights_of(subject: Subject) -> Section | None:
    """The weights behind log Z, where it was estimated by some: their spread, and how many of them count."""
    if not hasattr(subject.system, "log_partition"):
        return None
    score = subject.system.log_partition()
    weights = getattr(score, "weights", None)
    if weights is None:
        return None
    found = {
        "log Z": f"{number(score.value)} ± {number(score.error)} nats",
        "weights": len(weights),
        "effective weights": number(weights.ess),
        "share of the largest weight": number(weights.max_share),
        "tail shape (khat)": number(weights.khat),
        "spread of the log weights": f"{number(float(np.std(weights.log_weights)))} nats",
    }
    body = facts(found) + (paragraph(weights.notice, "warning") if weights.notice else "")
    drawn = drawings.histogram(weights.log_weights, "log weight (nats)")
    reading = "A run of annealing each; log Z is the log of the mean of the weights, so that the largest count most."
    body += pictures([picture(drawn, "Log weights", reading)])
    return Section(
        "Weights behind log Z", "Few effective weights, or a tail shape above 0.7: log Z is not to be trusted.", body
    )
