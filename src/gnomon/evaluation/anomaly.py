"""From where on a surprise is too much: a threshold for ``anomaly_score`` with a known rate of false alarms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gnomon.errors import UserValueError

__all__ = ["threshold"]


def threshold(scores: Any, share: float) -> float:
    """The score above which at most this share of ordinary rows lie, judged by a sample of ordinary rows.

    It is the k-th smallest of the n scores, k = ceil((1 - share) (n + 1)). A further row of the same origin exceeds it
    with probability (n + 1 - k) / (n + 1) <= share, whatever the model, where scores do not tie (with ties, less). That
    holds for rows that the model was not fitted to; of its training rows the threshold is too low.

    Parameters
    ----------
    scores : array of shape (n,)
        Anomaly scores of ordinary rows, higher is odder.
    share : float in (0, 1)
        Fraction of false alarms that is allowed.

    Raises
    ------
    UserValueError
        Fewer than 1 / share - 1 scores, a score that is NaN, a share outside (0, 1).

    References
    ----------
    Vovk, Gammerman and Shafer (2005), chapter 2 (conformal prediction).

    Examples
    --------
    >>> threshold(np.arange(99.0), 0.05)
    94.0
    """
    values = np.asarray(scores, dtype=np.float64).ravel()
    if not 0 < share < 1:
        raise UserValueError.must("share", "be in (0, 1)", share)
    if np.isnan(values).any():
        raise UserValueError("scores must be numbers, got NaN", f"row {int(np.isnan(values).argmax())}")
    n = len(values)
    k = math.ceil((1 - share) * (n + 1) - 1e-9)  # (1 - share) (n + 1) may be a whole number but for rounding
    if k > n:
        raise UserValueError(
            f"scores must be at least {math.ceil(1 / share) - 1} for a share of {share:g}, got {n}", "scores"
        )
    return float(np.sort(values)[k - 1])
