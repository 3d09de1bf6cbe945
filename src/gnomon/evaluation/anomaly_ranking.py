"""Density models judged by a task: how well their scores rank anomalous rows before ordinary ones."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gnomon.errors import UserTypeError, UserValueError, number
from gnomon.evaluation.curves import PRCurve, average_precision, flags, pr_curve
from gnomon.evaluation.roc import roc_auc
from gnomon.evaluation.score import Score
from gnomon.numeric.sparse import in_full

__all__ = ["AnomalyRanking", "complexity", "needs_target", "rank_anomalies"]

Floats = NDArray[np.float64]
DEPTHS = (10, 50, 100)
CONFOUNDED = 0.7
"""Rank correlation of surprise and complexity from which on the one may stand for the other."""


@dataclass(frozen=True)
class AnomalyRanking:
    """Rows ranked by surprise, and how many of the anomalies are among the first.

    Attributes
    ----------
    average_precision, roc_auc : Score
        Over all thresholds; of a ranking without information the share of anomalous rows, and 0.5.
    at : mapping of int to (precision, recall)
        Among the k most surprising rows; rows that tie at the end of them count as their share.
    curve : PRCurve
    n, n_anomalous : int
        Rows, and how many of them are anomalous.
    by_complexity : Score
        Area under the ROC curve of the rows' complexity alone, the length of their compressed cells.
    correlation : float
        Rank correlation of surprise and complexity; nan where one of them is the same for all rows.
    """

    average_precision: Score
    roc_auc: Score
    at: dict[int, tuple[float, float]]
    curve: PRCurve = field(repr=False)
    n: int
    n_anomalous: int
    by_complexity: Score
    correlation: float

    @property
    def confounded(self) -> bool:
        """Whether surprise goes with complexity so closely that the model may have learned nothing else."""
        return self.correlation > CONFOUNDED

    @property
    def scores(self) -> dict[str, Score]:
        """As ``gnomon evaluate`` prints them."""
        note = f"rank correlation of surprise and complexity {number(self.correlation)}"
        facts: dict[str, Any] = {
            "unit": "fraction",
            "data_space": f"{self.n_anomalous} anomalies among {self.n} rows",
            "n": self.n,
        }
        found = {"anomaly_average_precision": self.average_precision, "anomaly_roc_auc": self.roc_auc}
        for k, (precision, recall) in self.at.items():
            found[f"anomaly_precision@{k}"] = Score(precision, float("nan"), name=f"precision@{k}", **facts)
            found[f"anomaly_recall@{k}"] = Score(recall, float("nan"), name=f"recall@{k}", **facts)
        return found | {"complexity_roc_auc": replace(self.by_complexity, note=note)}

    def __str__(self) -> str:
        text = f"average precision {self.average_precision.value:.4g} (by chance {self.n_anomalous / self.n:.4g}), "
        text += f"ROC area {self.roc_auc.value:.4g} (by complexity alone {self.by_complexity.value:.4g})"
        return text + ("; surprise goes with complexity" if self.confounded else "")


def rank_anomalies(
    model: Any, X: Any, y: ArrayLike, *, positive: Any = None, k: Sequence[int] = DEPTHS
) -> AnomalyRanking:
    """Precision and recall of a model's ranking of rows, the least probable first.

    Ranks are the same for log probabilities, densities, bounds and energies without log Z, so that models with scores
    of different kinds are compared fairly by them.

    Parameters
    ----------
    model : fitted System, or array of shape (n,)
        What `gnomon.tasks.row_scores` reads, high for ordinary rows; or such scores themselves.
    X : rows
        Of the model's domain.
    y : array of shape (n,)
        1 where a row is anomalous; any labels with `positive`.
    positive : label, optional
        That of anomalous rows.
    k : sequence of int, default (10, 50, 100)
        Depths of the ranking; those beyond the rows are left out.

    Returns
    -------
    AnomalyRanking

    Raises
    ------
    UserTypeError
        A model that says nothing of single rows.
    UserValueError
        Scores that are NaN, no anomalous row, no ordinary one, a depth below 1.

    Notes
    -----
    Likelihood is high for simple rows, such as flat images, whatever the data were: look at `by_complexity` and
    `correlation` beside the rest. Cost: the scores, a sort, and a compression of every row. Source: Goodfellow, Bengio
    and Courville (2016), section 20.14; Serra and others (2020) for complexity.

    Examples
    --------
    >>> ranking = rank_anomalies(np.array([-1.0, -9.0, -2.0, -3.0]), np.zeros((4, 1)), [0, 1, 0, 0], k=[1, 2])
    >>> ranking.at
    {1: (1.0, 1.0), 2: (0.5, 1.0)}
    """
    ordinary = _ordinary(model, X)
    anomalous = flags(y, positive)
    if len(anomalous) != len(ordinary):
        raise UserValueError(f"y must be one label for each of {len(ordinary)} rows, got {len(anomalous)}", "y")
    if np.isnan(ordinary).any():
        raise UserValueError("scores must be numbers, got NaN", f"row {int(np.isnan(ordinary).argmax())}")
    if anomalous.all() or not anomalous.any():
        raise UserValueError("y must have anomalous rows and ordinary ones", "y", "label both")
    if any(depth < 1 for depth in k):
        raise UserValueError.must("k", "be at least 1", min(k))
    surprise = -np.clip(ordinary, *np.array([-1, 1]) * np.finfo(np.float64).max)  # probability 0 surprises most
    length = complexity(X)
    return AnomalyRanking(
        average_precision(anomalous, surprise), roc_auc(anomalous, surprise),
        {int(depth): _at(anomalous, surprise, depth) for depth in k if depth <= len(anomalous)},
        pr_curve(anomalous, surprise), len(anomalous), int(anomalous.sum()), roc_auc(anomalous, length),
        _rank_correlation(surprise, length),
    )  # fmt: skip


def complexity(X: Any) -> Floats:
    """Bytes that each row takes when its cells, at 256 levels between the least and the largest of all, are compressed.

    Examples
    --------
    >>> flat, mixed = complexity(np.array([np.zeros(64), np.random.default_rng(0).random(64)]))
    >>> bool(flat < mixed)
    True
    """
    cells = np.asarray(in_full(X), np.float64)
    rows = np.nan_to_num(cells.reshape(len(cells), -1))
    low, high = rows.min(), rows.max()
    levels = (
        np.rint((rows - low) / (high - low) * 255).astype(np.uint8) if high > low else np.zeros(rows.shape, np.uint8)
    )
    return np.array([len(zlib.compress(one.tobytes(), 9)) for one in levels], np.float64)


def needs_target(system: Any, verb: str) -> bool:
    """Whether a method of a system takes the target beside the row: its values are of the target."""
    return "y" in inspect.signature(getattr(system, verb)).parameters


def _ordinary(model: Any, X: Any) -> Floats:
    """A number for each row, the higher, the more ordinary."""
    if isinstance(model, np.ndarray | list | tuple):
        return np.asarray(model, np.float64).reshape(-1)
    verbs = [verb for verb in ("anomaly_score", "log_prob", "energy") if hasattr(model, verb)]
    for verb in verbs:
        if not needs_target(model, verb):
            return (1.0 if verb == "log_prob" else -1.0) * np.asarray(getattr(model, verb)(X), np.float64)
    score = model.evaluate(X).get("log_likelihood") if hasattr(model, "evaluate") and not verbs else None
    if score is None or score.pointwise is None:
        raise UserTypeError("model must have a density or an energy of rows, got " + type(model).__name__, "model")
    return np.asarray(score.pointwise, np.float64)


def _at(anomalous: NDArray[np.bool_], surprise: Floats, k: int) -> tuple[float, float]:
    """Precision and recall among the k most surprising; rows that tie at the end count by their share."""
    last = np.sort(surprise)[-k]
    above, tied = surprise > last, surprise == last
    found = float(anomalous[above].sum()) + float(anomalous[tied].mean()) * (k - int(above.sum()))
    return found / k, found / int(anomalous.sum())


def _rank_correlation(a: Floats, b: Floats) -> float:
    from scipy.stats import rankdata

    x, y = rankdata(a), rankdata(b)
    if not (x.std() > 0 and y.std() > 0):
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
