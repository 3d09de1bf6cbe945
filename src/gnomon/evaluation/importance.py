"""What a fitted system's score loses when a column is shuffled: permutation importance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.errors import UserTypeError, UserValueError
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise

__all__ = ["permutation"]


def permutation(
    system: Any,
    X: Any,
    y: Any,
    *,
    columns: Mapping[str, Sequence[int]] | Sequence[str] | None = None,
    repeats: int = 10,
    seed: int = 0,
    score: str | None = None,
) -> dict[str, Score]:
    """How much worse a score of a fitted system is on rows in which one column is shuffled, by column.

    Parameters
    ----------
    system : System
        Fitted; its ``evaluate(X, y)`` gives the score with its rows.
    X : array of shape (n, d)
        Rows that the fit has not seen: of training rows an overfitted column looks important.
    y : array of shape (n,)
    columns : mapping of str to places, or sequence of str, optional
        Names of the columns; places that belong together, such as the codes of one category, are shuffled together.
    repeats : int in [2, inf), default 10
        Shuffles of each column.
    seed : int, default 0
    score : str, optional
        The primary score of the system by default: accuracy, squared error.

    Returns
    -------
    dict of str to Score
        By column, the largest first: positive where the column helps, in the unit of the score. ``stderr`` is over
        rows, ``error`` over the shuffles.

    Raises
    ------
    UserError
        A score without rows, fewer than 2 repeats, rows that are no table.

    Notes
    -----
    Source: Breiman (2001); Fisher, Rudin and Dominici (2019). Columns that say the same share their importance, and
    each alone may have none.

    Examples
    --------
    >>> import gnomon
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = 3 * X[:, 0] + X[:, 2]
    >>> fitted = gnomon.LinearRegression().fit(X[:100, :2], y[:100])
    >>> found = permutation(fitted, X[100:, :2], y[100:], columns=["a", "b"])
    >>> list(found), found["a"].value > 10, abs(found["b"].value) < 1
    (['a', 'b'], True, True)
    """
    if repeats < 2:
        raise UserValueError.must("repeats", "be at least 2", repeats)
    X = np.asarray(X)
    if X.ndim != 2:
        raise UserTypeError(f"X must be a table of rows and columns, got shape {X.shape}", "X", "give flat rows")
    groups = _groups(columns, X.shape[1])
    name = score or system.primary
    before = _scored(system, X, y, name)
    sign = 1.0 if before.higher_is_better else -1.0
    noise = Noise(seed, "importance")
    found = {}
    for group, places in groups.items():
        drops = np.empty((repeats, len(X)))
        chosen = list(places)
        for k in range(repeats):
            shuffled = X.copy()
            shuffled[:, chosen] = X[noise.child(f"{group}/{k}").order(len(X))][:, chosen]
            drops[k] = sign * (before.pointwise - _scored(system, shuffled, y, name).pointwise)
        error = float(drops.mean(1).std(ddof=1) / np.sqrt(repeats))
        facts = {"unit": before.unit, "data_space": before.data_space, "error": error, "kind": "estimate"}
        one = Score.from_pointwise(drops.mean(0), name=f"importance for {name}", **facts)
        found[group] = replace(one, note=f"{repeats} shuffles")
    return dict(sorted(found.items(), key=lambda item: -item[1].value))


def _groups(columns: Mapping[str, Sequence[int]] | Sequence[str] | None, d: int) -> dict[str, list[int]]:
    if isinstance(columns, Mapping):
        return {name: list(places) for name, places in columns.items()}
    names = [f"x{j}" for j in range(d)] if columns is None else list(columns)
    if len(names) != d:
        raise UserValueError(f"columns must be {d} names, got {len(names)}", "columns")
    return {name: [j] for j, name in enumerate(names)}


def _scored(system: Any, X: Any, y: Any, name: str) -> Any:
    """A score with its rows; the usual ones straight from the predictions, which is all that they need."""
    if name == "accuracy" and hasattr(system, "classes_"):
        return Score.from_pointwise(system.predict(X) == np.asarray(y), name=name, unit="fraction")
    scores = system.evaluate(X, y)
    if name not in scores:
        raise UserValueError(f"{system.name} has no score {name!r}", "score", f"choose from {', '.join(scores)}")
    if scores[name].pointwise is None:
        raise UserValueError(f"{name} has no value by row", "score", f"choose {system.primary}")
    return scores[name]
