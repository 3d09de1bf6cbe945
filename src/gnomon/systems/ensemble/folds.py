"""Predictions of rows by members that have not seen them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from gnomon.contracts import Array, Noise
from gnomon.errors import UserValueError
from gnomon.system.base import System
from gnomon.systems.ensemble.composite import outputs

__all__ = ["assign", "out_of_fold"]


def assign(n: int, folds: int, noise: Noise, *, codes: Array | None = None) -> Array:
    """A fold for each row: sizes differ by one at most, and so do a class's rows in the folds.

    Parameters
    ----------
    n : int
        Rows.
    folds : int in [2, n]
    noise : Noise
        Where the order of the rows is drawn.
    codes : int array of shape (n,), optional
        Classes; every fold gets its share of each.

    Returns
    -------
    int64 array of shape (n,), values in [0, folds)

    Raises
    ------
    UserValueError
        More folds than rows.

    Examples
    --------
    >>> from gnomon.numeric.noise import Noise
    >>> np.bincount(assign(7, 3, Noise(0, "folds"))).tolist()
    [3, 2, 2]
    """
    if folds > n:
        raise UserValueError(
            f"folds must be at most the number of rows, got {folds} folds of n_samples = {n}",
            "folds",
            "choose fewer folds, or give more rows",
        )
    order = noise.order(n)
    if codes is not None:
        order = order[np.argsort(np.asarray(codes)[order], kind="stable")]
    fold_of = np.empty(n, np.int64)
    fold_of[order] = np.arange(n) % folds
    return fold_of


def out_of_fold(system: System, X: Any, y: Any, folds: Any, *, sample_weight: Any = None) -> Array:
    """What a system says of each row when it is fitted to the other folds.

    Parameters
    ----------
    system : System
        Not fitted, and left so; every fold fits a clone.
    X : array of shape (n, d)
    y : array of shape (n,)
    folds : int array of shape (n,)
        The fold of each row.
    sample_weight : array of shape (n,), optional

    Returns
    -------
    array of shape (n, k) or (n, t)
        Probabilities by class, sorted; a regression's prediction.

    Examples
    --------
    >>> import gnomon
    >>> X, y = np.arange(6.0)[:, None], np.array(list("aaabbb"))
    >>> out_of_fold(gnomon.make("decision-tree"), X, y, [0, 1, 0, 1, 0, 1]).shape
    (6, 2)
    """
    from sklearn.base import is_classifier

    X, y, folds = np.asarray(X), np.asarray(y), np.asarray(folds)
    classes = np.unique(y) if is_classifier(system) else None
    answers: Array = None
    for fold in np.unique(folds):
        inside = folds == fold
        options = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[~inside]}
        predictions = outputs(clone(system).fit(X[~inside], y[~inside], **options), X[inside], classes)
        if answers is None:
            answers = np.empty((len(X), predictions.shape[1]))
        answers[inside] = predictions
    return answers
