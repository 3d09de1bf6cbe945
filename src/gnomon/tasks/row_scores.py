"""What a model says of single rows: their log density or probability, exact, as a bound, or up to a constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.dataset import Dataset
from gnomon.errors import UserTypeError, UserValueError, nearest
from gnomon.evaluation.anomaly_ranking import AnomalyRanking, needs_target, rank_anomalies

__all__ = ["RowScores", "is_conditional", "ranked_by_surprise", "row_scores"]


@dataclass(frozen=True)
class RowScores:
    """A number for each row, the higher, the more ordinary.

    Parameters
    ----------
    values : array of shape (n,)
        In nats.
    quantity : str
        ``log density``, ``log probability`` or ``negative energy``.
    kind : str
        ``exact``, ``lower bound``, ``estimate``; ``up to a constant`` of an energy.
    data_space, note : str
        What it is a density or probability on; what else there is to say.
    error : float, in [0, inf)
        Error that the values have in common.
    """

    values: NDArray[np.float64]
    quantity: str
    kind: str
    data_space: str = ""
    note: str = ""
    error: float = 0.0

    @property
    def line(self) -> str:
        """What the number is, in a line."""
        more = ", ".join(part for part in (self.data_space, self.note) if part)
        return f"{self.quantity} in nats, {self.kind}" + (f" ({more})" if more else "")


def is_conditional(system: Any) -> bool:
    """Whether the density of a system is one of the target given the row, and none of the row."""
    if not hasattr(system, "log_prob"):
        return False
    return all(needs_target(system, name) for name in ("log_prob", "anomaly_score") if hasattr(system, name))


def row_scores(system: Any, X: Any, y: Any = None) -> RowScores | None:
    """What a fitted system says of each row; None where it has neither density nor energy.

    Parameters
    ----------
    system : System
    X : rows
    y : array of shape (n,), optional
        The target, which only a density of the target given the row needs.

    Examples
    --------
    >>> import gnomon
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> mixture = gnomon.GaussianMixture(n_components=1, random_state=0).fit(X)
    >>> row_scores(mixture, X).line
    'log density in nats, exact (density on R^1)'
    """
    if is_conditional(system):
        return _exact(system.log_prob(X, y), "density", "", "of the target given the row")
    if hasattr(system, "anomaly_score"):
        space = _space(system, X)
        return _exact(-np.asarray(system.anomaly_score(X)), space, space, "")
    if "density" in system.tasks:
        score = system.evaluate(X)["log_likelihood"]
        if score.pointwise is not None:
            found = np.asarray(score.pointwise, np.float64)
            facts = str(score.kind), score.data_space, _error(score), score.error
            return RowScores(found, _quantity(score.data_space), *facts)
    if hasattr(system, "energy") and not needs_target(system, "energy"):
        return RowScores(-np.asarray(system.energy(X), np.float64), "negative energy", "up to a constant")
    return None


def ranked_by_surprise(system: Any, X: Any, data: Dataset, anomalous: str) -> AnomalyRanking:
    """How early the rows of a label come where rows are ranked by how improbable they are.

    Parameters
    ----------
    system : System
        Fitted, with a density or an energy of rows.
    X : rows
    data : Dataset
        What X is of, with labels.
    anomalous : str
        The label of anomalies, by its name.

    Raises
    ------
    UserError
        A system that says nothing of rows, data without labels, a label that does not occur.
    """
    scores = None if is_conditional(system) else row_scores(system, X)
    if scores is None:
        raise UserTypeError(f"the system must have a density or an energy of rows, got {system.name}", "--anomalous")
    labels = data.view("labels")
    names = [str(label) for label in (labels.tolist() if data.classes is None else _named(labels, data.classes))]
    if anomalous not in names:
        close = nearest(anomalous, sorted(set(names))) or sorted(set(names))
        raise UserValueError(
            f"no row has the label {anomalous!r}", "--anomalous", f"choose from {', '.join(close[:8])}"
        )
    return rank_anomalies(scores.values, X, np.array(names) == anomalous)


def _named(labels: Any, classes: Any) -> list[Any]:
    """Labels by the names of their classes, where they are codes."""
    return [classes[int(one)] for one in labels] if labels.dtype.kind in "iu" else labels.tolist()


def _exact(values: Any, words: str, space: str, note: str) -> RowScores:
    return RowScores(np.asarray(values, np.float64), _quantity(words), "exact", space, note)


def _quantity(space: str) -> str:
    return "log density" if "density" in space else "log probability"


def _space(system: Any, X: Any) -> str:
    """What the density is on; nothing where rows are no arrays."""
    return str(system.outcomes.space(math.prod(X.shape[1:]))) if isinstance(X, np.ndarray) else ""


def _error(score: Any) -> str:
    """The error that the rows have in common, such as that of log Z."""
    error = f"± {score.error:.2g} in common" if score.error > 0 else ""
    return "; ".join(part for part in (error, score.note) if part)
