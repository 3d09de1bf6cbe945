"""Scores of boxes that were found on images."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import UserValueError
from gnomon.evaluation.boxes import detection_precision, match_boxes
from gnomon.evaluation.score import Score
from gnomon.numeric.noise import Noise

__all__ = ["detection_scores"]

Floats = NDArray[np.float64]

SAMPLES = 200
"""Samples of the images that the error of an average precision is taken from."""
SPACE = "boxes on images"


def detection_scores(truth: Floats, found: Floats, *, iou: float = 0.5, own: bool = False) -> dict[str, Score]:
    """Mean average precision of the classes, and mean overlap of the boxes that are matched.

    Parameters
    ----------
    truth : array of shape (n, m, 5)
        x1, y1, x2, y2 and label; see `gnomon.evaluation.boxes.match_boxes`.
    found : array of shape (n, k, 6)
        The same, and a score.
    iou : float in [0, 1], default 0.5
        Overlap from which on a box is found.
    own : bool, default False
        Whether ``ap50[label]`` of each class is given too.

    Returns
    -------
    dict of str to Score
        ``ap50`` (named by `iou`) and ``matched_iou``: NaN where nothing is matched.

    Raises
    ------
    UserValueError
        No true box with a label.

    Notes
    -----
    The mean is over the classes of the true boxes. Errors are over images: of the precision by 200 samples of them
    with replacement, of the overlap by the delta method. Source: Everingham et al. (2010), The Pascal visual object
    classes challenge.

    Examples
    --------
    >>> truth = np.array([[[0.0, 0.0, 4.0, 4.0, 1.0]]])
    >>> found = np.array([[[0.0, 0.0, 4.0, 3.0, 1.0, 0.9]]])
    >>> {name: one.value for name, one in detection_scores(truth, found).items()}
    {'ap50': 1.0, 'matched_iou': 0.75}
    """
    labels = np.unique(truth[..., 4][truth[..., 4] >= 0])
    if not len(labels):
        raise UserValueError("no box has a label", "y", "label some boxes: -1 stands for one to be ignored")
    matches, n, name = match_boxes(truth, found, iou=iou), len(truth), f"ap{round(100 * iou)}"
    times = np.ones((1 + SAMPLES, n))  # the images themselves first
    drawn = np.asarray(Noise(0, "detection-scores").integers(n, (SAMPLES, n)))
    times[1:] = np.bincount((drawn + n * np.arange(SAMPLES)[:, None]).ravel(), minlength=SAMPLES * n).reshape(-1, n)
    each = np.empty((len(labels), 1 + SAMPLES))
    for row, label in zip(each, labels, strict=True):
        image, place = np.nonzero(matches.counted & (found[..., 4] == label))
        n_true = times @ (truth[..., 4] == label).sum(1)
        row[:] = detection_precision(found[image, place, 5], matches.right[image, place], n_true, times[:, image])
    scores = {name: _score(name, each.T[0].mean(), _spread(_mean(each)), n)}
    hits, overlap = matches.right.sum(1), matches.iou.sum(1)
    value = float(overlap.sum() / hits.sum()) if hits.any() else math.nan
    residuals = (overlap - value * hits) / max(1, hits.sum())
    spread = math.sqrt(n / (n - 1) * float((residuals**2).sum())) if n > 1 and hits.any() else math.nan
    scores["matched_iou"] = _score("matched_iou", value, spread, n)
    if own:
        one_by_one = zip(labels.astype(int).tolist(), each, strict=True)
        scores |= {f"{name}[{label}]": _score(f"{name}[{label}]", row[0], _spread(row), n) for label, row in one_by_one}
    return scores


def _mean(each: Floats) -> Floats:
    """Of the classes that a sample has."""
    there = ~np.isnan(each)
    total: Floats = np.where(there, each, 0.0).sum(0) / np.maximum(1, there.sum(0))
    return total


def _spread(values: Floats) -> float:
    """Of the samples behind the first value."""
    drawn = values[1:][~np.isnan(values[1:])]
    return float(drawn.std(ddof=1)) if len(drawn) > 1 else math.nan


def _score(name: str, value: float, spread: float, n: int) -> Score:
    return Score(float(value), spread, unit="fraction", data_space=SPACE, name=name, n=n)
