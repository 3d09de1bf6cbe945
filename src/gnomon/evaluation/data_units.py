"""In which units the rows of a density score are, and what it is in others: a density has the inverse unit of a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from gnomon.data.preprocessing import varies
from gnomon.data.steps import PreprocessingStep
from gnomon.errors import UserTypeError, UserValueError

if TYPE_CHECKING:
    from gnomon.evaluation.score import Score

__all__ = ["DataSignature", "discrete_bound", "in_original_units", "log_volume", "pipeline_scores", "sign"]

Floats = NDArray[np.float64]
PHASES = (0.0, 1.0, 2.0)
TOLERANCE = 1e-3
"""Relative difference, of a column, that rounding to float32 and centering leave far below."""
PROBES = 16
AFFINE = 1e-5
DENSITY = "density"


@dataclass(frozen=True)
class DataSignature:
    """What tells rows in one choice of units from the same rows in another.

    Parameters
    ----------
    log_scale : float
        Sum over the columns that vary of the log of their standard deviation.
    pattern : tuple of float
        Numbers that no change of the columns' units and origins alters.
    columns : int
        Columns that vary.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 0.0]])
    >>> one, other = DataSignature.of(rows), DataSignature.of(0.1 * rows + 7)
    >>> one.same_rows(other), round(one.log_scale - other.log_scale, 6)
    (True, 4.60517)
    """

    log_scale: float
    pattern: tuple[float, ...]
    columns: int

    @classmethod
    def of(cls, X: Any) -> DataSignature:
        """Of a table of numbers, NaN and columns of nothing else left out: cost O(n d)."""
        rows = np.asarray(X, dtype=np.float64).reshape(len(X), -1)
        rows = rows[:, ~np.isnan(rows).all(axis=0)]
        mean, deviation = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        chosen = varies(deviation, mean)
        z = np.nan_to_num((rows[:, chosen] - mean[chosen]) / deviation[chosen])
        waves = np.cos(np.arange(len(rows)) + np.array(PHASES)[:, None])
        pattern = np.abs(waves @ z).sum(1) / math.sqrt(len(rows))
        return cls(float(np.log(deviation[chosen]).sum()), tuple(pattern.tolist()), int(chosen.sum()))

    def same_rows(self, other: DataSignature) -> bool:
        """Whether the rows are the same up to units and origins of the columns."""
        if self.columns != other.columns:
            return False
        return all(math.isclose(a, b, rel_tol=TOLERANCE) for a, b in zip(self.pattern, other.pattern, strict=True))

    def apart(self, other: DataSignature) -> float:
        """By how many nats the other density is larger for its units alone; 0 for the same ones, and for other rows."""
        if not self.columns or not self.same_rows(other):
            return 0.0
        difference = self.log_scale - other.log_scale
        return difference if abs(difference) > TOLERANCE * self.columns else 0.0


def sign(scores: dict[str, Score], X: Any) -> dict[str, Score]:
    """The scores, those that are densities with the signature of their rows.

    Parameters
    ----------
    scores : dict of str to Score
    X : array of shape (n, ...)
        The rows, in the units that the scores are in.
    """
    if not any(score.data_space.startswith(DENSITY) for score in scores.values()):
        return scores
    found = DataSignature.of(X)
    return {
        name: replace(score, signature=found) if score.data_space.startswith(DENSITY) else score
        for name, score in scores.items()
    }


def log_volume(steps: Any, X: Any) -> float:
    r"""log abs det of preprocessing that is affine, in nats per row: :math:`\log p_x = \log p_y + \log |\det A|`.

    Parameters
    ----------
    steps : fitted step, scikit-learn transformer or Pipeline of these, or a list
        A step of gnomon says it itself; of others the map is measured, at d + 1 rows.
    X : array of shape (n, d)
        Rows before the steps.

    Raises
    ------
    UserValueError
        A step that is no affine map, loses columns, or cannot be undone: no density of the rows themselves follows.

    Examples
    --------
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> tenth = FunctionTransformer(lambda rows: 0.1 * rows)
    >>> round(log_volume(tenth, np.arange(12.0).reshape(4, 3)), 6)  # -3 ln 10
    -6.907755
    """
    rows, total = np.asarray(X, dtype=np.float64), 0.0
    for step in _each(steps):
        own = isinstance(step, PreprocessingStep) and step.n_outputs == step.n_inputs
        total += step.log_jacobian() if own else _measured(step, rows)
        rows = np.asarray(step.transform(rows), dtype=np.float64)
    return total


def in_original_units(score: Score, steps: Any, X: Any) -> Score:
    """A density score of preprocessed rows as that of the rows themselves.

    Parameters
    ----------
    score : Score
        Of ``steps.transform(X)``: a density in nats, or in bits per column.
    steps, X
        See `log_volume`.

    Returns
    -------
    Score
        Larger by `log_volume`; errors and kind stay.

    Raises
    ------
    UserValueError
        A score that is no density, steps that are not affine.
    """
    if not score.data_space.startswith(DENSITY) or score.unit not in ("nats", "bits per column"):
        what = f"score must be a log density of rows, got {score.name} in {score.unit} on {score.data_space or '?'}"
        raise UserValueError(what, "score", "give a log density, or compare in space='model'")
    rows = np.asarray(X, dtype=np.float64)
    more = log_volume(steps, rows)
    if score.unit == "bits per column":
        more /= -rows.shape[1] * math.log(2)
    signature = None if score.signature is None else DataSignature.of(rows)
    changed: Score = replace(
        score, value=score.value + more, pointwise=None if score.pointwise is None else score.pointwise + more,
        signature=signature,
    )  # fmt: skip
    return changed


def discrete_bound(score: Score, columns: int, width: float = 1.0) -> Score:
    r"""The log density of whole numbers filled by noise as a lower bound of the log probability of the numbers.

    With u uniform on (0, width) in each column :math:`E_u \log p(x + u) + d \log width \le \log P(x)`, the mass that
    the density has on the cell of x.

    Parameters
    ----------
    score : Score
        A log density in nats, of rows x + u.
    columns : int, in [1, inf)
    width : float, in (0, inf), default 1
        Distance of two levels.

    Returns
    -------
    Score
        One that may be compared with log probabilities of counts; an estimate where the density is one.

    References
    ----------
    Theis, van den Oord and Bethge (2016), "A note on the evaluation of generative models", section 3.1.

    Examples
    --------
    >>> from gnomon.evaluation.score import Score
    >>> print(discrete_bound(Score(-3.0, data_space="density on R^2"), 2))
    -3.0000 lower bound nats
    """
    if not score.data_space.startswith(DENSITY) or score.unit != "nats":
        what = f"score must be a log density in nats, got {score.name} in {score.unit} on {score.data_space or '?'}"
        raise UserValueError(what, "score", "give that of rows with uniform noise added")
    if not 0 < width < math.inf:
        raise UserValueError.must("width", "be in (0, inf)", width)
    more = columns * math.log(width)
    return replace(
        score, value=score.value + more, pointwise=None if score.pointwise is None else score.pointwise + more,
        kind="lower bound" if score.kind in ("exact", "lower bound") else "estimate", signature=None,
        data_space=f"pmf on {{0,1,2,...}}^{columns}",
        note="; ".join(filter(None, (score.note, "bound by uniform noise as wide as a level"))),
    )  # fmt: skip


def pipeline_scores(
    pipeline: Any, X: Any, y: Any = None, *, space: Literal["original", "model"] = "original"
) -> dict[str, Score]:
    """Scores of a scikit-learn Pipeline that ends in a System, with the preprocessing in them.

    ``pipeline.score(X)`` is a density of the preprocessed rows: ln 10 more for each column that is divided by 10.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Fitted; its last step is a System.
    X, y : arrays
        Before the first step.
    space : {"original", "model"}
        The units of X, or those that the steps leave: such scores have a data space of their own, so that none is
        compared with one of the rows themselves.

    Raises
    ------
    UserValueError
        Steps that are no affine map, where ``original`` is asked for.

    Examples
    --------
    >>> import gnomon
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * [10.0, 0.1]
    >>> pipe = make_pipeline(StandardScaler(), gnomon.GaussianMixture(n_components=1)).fit(X)
    >>> alone = gnomon.GaussianMixture(n_components=1).fit(X).evaluate(X)["log_likelihood"]
    >>> alone.against(pipeline_scores(pipe, X)["log_likelihood"])
    'undecided'
    """
    if space not in ("original", "model"):
        raise UserValueError.must("space", "be original or model", space)
    if not hasattr(pipeline, "steps") or not hasattr(pipeline[-1], "evaluate"):
        what = f"pipeline must end in a gnomon System, got a {type(pipeline).__name__}"
        raise UserTypeError(what, "pipeline", "give make_pipeline(StandardScaler(), gnomon.GaussianMixture()), fitted")
    steps, system = list(_each(pipeline[:-1])), pipeline[-1]
    rows = X
    for step in steps:
        rows = step.transform(rows)
    scores: dict[str, Score] = system.evaluate(rows, y)
    if not steps or "density" not in system.tasks:  # of a target given the row: no unit of the row is in it
        return scores
    if space == "original":
        return {name: in_original_units(score, steps, X) for name, score in scores.items()}
    words = ", then ".join(type(step).__name__ for step in steps)
    return {name: replace(one, data_space=f"{one.data_space} after {words}") for name, one in scores.items()}


def _each(steps: Any) -> Sequence[Any]:
    """Steps one after the other; those of a Pipeline without its last where that is no transformer."""
    if isinstance(steps, list | tuple):
        return [part for one in steps for part in _each(one)]
    if hasattr(steps, "steps"):
        return [part for _, one in steps.steps if one not in (None, "passthrough") for part in _each(one)]
    return [steps]


def _measured(step: Any, X: Floats) -> float:
    """log abs det of an affine map from its values at a row and a step along each column."""
    name, d = type(step).__name__, X.shape[1]
    spread = X.std(0)
    unit = np.where(spread > 0, spread, 1.0)
    probes = X[np.linspace(0, len(X) - 1, min(PROBES, len(X))).astype(np.int64)]
    found = np.asarray(step.transform(np.concatenate([X[:1], X[:1] + np.diag(unit), probes])), dtype=np.float64)
    if found.shape[1:] != (d,):
        what = f"{name} must keep all {d} columns for a density of the rows themselves, got {found.shape[1]}"
        raise UserValueError(what, "steps", "compare in space='model'")
    slopes = (found[1 : d + 1] - found[0]) / unit[:, None]
    expected = found[0] + (probes - X[0]) @ slopes
    if not np.allclose(found[d + 1 :], expected, rtol=AFFINE, atol=AFFINE * max(float(np.abs(found).max()), 1e-300)):
        what = f"{name} must be an affine map: what another adds to the log density differs from row to row"
        raise UserValueError(what, "steps", "compare in space='model'")
    side, value = np.linalg.slogdet(slopes)
    if side == 0 or not math.isfinite(value):
        raise UserValueError(
            f"{name} must keep rows apart that differ: it cannot be undone", "steps", "scale by other than 0"
        )
    return float(value)
