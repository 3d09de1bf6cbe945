"""Can it learn a handful of rows by heart? The first thing to ask of a new model; otherwise what is wrong."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.errors import Diverged, UserTypeError, UserValueError
from gnomon.evaluation.diagnosis.histories import History

__all__ = ["OverfitReport", "overfit_tiny"]

UNPENALIZED = {"l1": 0.0, "l2": 0.0, "weight_decay": 0.0, "dropout": 0.0, "smoothing": 0.0, "tol": 0.0}
"""What keeps a model from learning rows by heart, and its value without."""


@dataclass(frozen=True)
class OverfitReport:
    """What came of learning a few rows by heart.

    Parameters
    ----------
    passed : bool
    loss : float
        Cross-entropy in nats per row, or mean squared error as a share of the variance of y, after the fit.
    start : float
        The same of the best constant answer: entropy of the labels, or 1.
    target : float
        What `loss` had to reach.
    reason : str
        What is probably wrong; "" after a success.
    history : dict of lists
        The fit's.
    """

    passed: bool
    loss: float
    start: float
    target: float
    reason: str
    history: dict[str, list[float]]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        head = f"loss {self.loss:.4g} (a constant answer has {self.start:.4g}, asked for {self.target:.4g})"
        return f"learned by heart: {head}" if self.passed else f"not learned: {head}; {self.reason}"


def overfit_tiny(
    system: Any, X: Any, y: Any, *, rows: int = 8, target: float = 0.05, epochs: int = 2000, **params: Any
) -> OverfitReport:
    """Fit a system to a few rows until it knows them by heart.

    A copy of the system is fitted, without penalties, dropout, early stopping and batches. A failure means an error in
    the model, its gradient or the data's path, or a learning rate or capacity that will not do on all rows either.

    Parameters
    ----------
    system : System that predicts y
        Never changed.
    X, y : arrays
        Data in its form, of which `rows` are taken, from all classes in turn.
    rows : int in [2, inf), default 8
    target : float in (0, 1), default 0.05
        Loss that is near enough to zero.
    epochs : int in [1, inf), default 2000
        Passes at most, where the system has them.
    **params
        Further hyper-parameters of the copy.

    Raises
    ------
    UserTypeError
        A system that predicts nothing.
    UserValueError
        Too few rows, y of one value, or equal rows with unlike y, which no model can learn.

    Notes
    -----
    Source: Goodfellow, Bengio and Courville (2016), section 11.5.

    Examples
    --------
    >>> import gnomon
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> print(str(overfit_tiny(gnomon.SoftmaxRegression(), X, y, rows=6, epochs=500)).partition(":")[0])
    learned by heart
    """
    from sklearn.base import clone

    if not hasattr(system, "predict"):
        raise UserTypeError(f"system must be a classifier or a regressor, got a {type(system).__name__}", "system")
    X, y = np.asarray(X), np.asarray(y)
    if len(X) != len(y):
        raise UserValueError(f"y must have {len(X)} values, one per row, got {len(y)}", "y")
    classifies = hasattr(system, "predict_proba")
    chosen = _choose(y, rows, classifies)
    X, y = X[chosen], y[chosen]
    _refuse_contradictions(X, y, chosen)
    copy = clone(system)
    known = copy.get_params(deep=False)
    defaults = {**UNPENALIZED, "batch_size": None, "early_stopping": None, "epochs": epochs, "random_state": 0}
    copy.set_params(**{**{name: value for name, value in defaults.items() if name in known}, **params})
    start = _start(y, classifies)
    try:
        with warnings.catch_warnings():  # that nothing is penalized is what is tried
            warnings.filterwarnings("ignore", "a plane separates the classes|a component has one value only")
            copy.fit(X, y)
    except Diverged as error:
        return OverfitReport(False, math.inf, start, target, f"it diverged: {error}", {})
    loss = _loss(copy, X, y, classifies)
    history = dict(getattr(copy, "history_", {}))
    passed = loss <= target
    trace = History.of(copy).loss[1].tolist()
    reason = "" if passed else _reason(trace, loss, start, _constant(copy, X, classifies))
    return OverfitReport(passed, loss, start, target, reason, history)


def _choose(y: Any, rows: int, classifies: bool) -> Any:
    """Rows of all classes in turn, each in order of the data; the first rows of a numeric target."""
    if not 2 <= rows <= len(y):
        raise UserValueError.must("rows", f"be from 2 to {len(y)}", rows)
    if np.ndim(y) > 2:
        raise UserValueError(f"y must hold one label for each row, got shape {np.shape(y)}", "y")
    if not classifies:
        return np.arange(rows)
    _, codes = np.unique(y, return_inverse=True)
    turn = np.empty(len(y), np.int64)
    for code in range(codes.max() + 1):
        turn[codes == code] = np.arange((codes == code).sum())
    return np.sort(np.lexsort((codes, turn))[:rows])


def _refuse_contradictions(X: Any, y: Any, chosen: Any) -> None:
    if len(np.unique(y, axis=0)) < 2:
        raise UserValueError("y must differ between rows", "y", "give data with something to learn")
    flat = X.reshape(len(X), -1)
    for i in range(len(X)):
        for j in range(i):
            if np.array_equal(flat[i], flat[j]) and not np.array_equal(y[i], y[j]):
                raise UserValueError(
                    f"rows {chosen[j]} and {chosen[i]} are equal but have different y", "X", "no model can learn both"
                )


def _start(y: Any, classifies: bool) -> float:
    if not classifies:
        return 1.0
    frequencies = np.unique(y, return_counts=True)[1] / len(y)
    return float(-(frequencies * np.log(frequencies)).sum())


def _loss(system: Any, X: Any, y: Any, classifies: bool) -> float:
    if not classifies:
        gap = np.asarray(system.predict(X), np.float64) - y
        return float((gap**2).mean() / np.var(y, axis=0).mean())
    proba = np.asarray(system.predict_proba(X), np.float64)
    own = proba[np.arange(len(y)), np.searchsorted(system.classes_, y)]
    return float(-np.log(np.maximum(own, np.finfo(np.float64).tiny)).mean())


def _constant(system: Any, X: Any, classifies: bool) -> bool:
    """Whether the answers are the same for every row."""
    answers = np.asarray(system.predict_proba(X) if classifies else system.predict(X), np.float64)
    return bool(np.ptp(answers, axis=0).max() <= 1e-6 * max(1.0, float(np.abs(answers).max())))


def _reason(trace: list[float], loss: float, start: float, constant: bool) -> str:
    if not math.isfinite(loss):
        return "the answers are not finite: check the inputs and the last layer"
    if len(trace) > 1 and all(value == trace[0] for value in trace):
        return "the loss never moved: no gradient reaches the parameters, or the learning rate is 0"
    if constant:
        return "the answers are the same for every row: the inputs do not reach the output (dead or saturated units)"
    if len(trace) > 1 and trace[-1] > trace[0]:
        return "the loss rose: lower the learning rate, or the gradient has the wrong sign (gradient_check)"
    if len(trace) > 10 and trace[-1] < 0.99 * trace[-max(2, len(trace) // 10)]:
        return "the loss is still falling: more epochs, or a higher learning rate"
    if loss > 0.9 * start:
        return "hardly better than a constant answer: check the gradient (gradient_check) and the scale of the inputs"
    return "the loss stands still above zero: too few parameters for these rows, or a penalty is left"
