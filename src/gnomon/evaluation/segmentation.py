"""Scores of labels of pixels: the fraction that is right, and how far predicted regions and true ones overlap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.distributions.pixels import PixelLabels
from gnomon.errors import UserValueError
from gnomon.evaluation.score import Score

__all__ = ["pixel_counts", "segmentation_scores"]

Floats = NDArray[np.float64]


def pixel_counts(y: Any, predicted: Any, n_classes: int) -> Floats:
    """Pixels of every image by true and predicted class; those of the code -1 are left out.

    Parameters
    ----------
    y, predicted : int arrays of shape (n, rows, columns), or lists of n arrays (rows, columns)
        Codes 0, 1 ... n_classes - 1; in `y` also -1.
    n_classes : int

    Returns
    -------
    array of shape (n, n_classes, n_classes)
        True classes as rows.

    Raises
    ------
    UserValueError
        An image and labels of two sizes.

    Examples
    --------
    >>> pixel_counts([np.array([[0, 1], [1, -1]])], [np.array([[0, 1], [0, 1]])], 2).tolist()
    [[[1.0, 0.0], [1.0, 1.0]]]
    """
    cells = []
    for number, (true, found) in enumerate(zip(y, predicted, strict=True)):
        true, found = np.asarray(true), np.asarray(found)
        if true.shape != found.shape:
            what = f"y must have a label for each pixel, {found.shape}, got {true.shape}"
            raise UserValueError(what, f"image {number}", "give one label for each pixel")
        known = true >= 0
        cells.append((number * n_classes + true[known]) * n_classes + found[known])
    n = len(cells)
    flat = np.concatenate(cells) if cells else np.zeros(0, np.int64)
    return np.bincount(flat, minlength=n * n_classes**2).reshape(n, n_classes, n_classes).astype(np.float64)


def segmentation_scores(counts: Floats, names: Any, *, own: bool = False) -> dict[str, Score]:
    r"""Mean intersection over union, and pixel accuracy; on wish the intersection over union of each class.

    Of a class c it is :math:`IoU_c = N_{cc} / (\sum_j N_{cj} + \sum_i N_{ic} - N_{cc})`, N summed over all images: the
    pixels that truth and prediction share, as a fraction of those that either has. The mean is taken over the classes
    that truth or prediction have; of the others nothing is known. The accuracy is :math:`\sum_c N_{cc} / \sum N`.
    Errors are over images, by the delta method, since the pixels of an image are no independent examples.

    Parameters
    ----------
    counts : array of shape (n, k, k)
        Pixels of each image by true and predicted class, see `pixel_counts`.
    names : sequence of k labels
    own : bool, default False
        Whether ``iou[name]`` of each class is given too.

    Raises
    ------
    UserValueError
        No pixel with a label.

    Notes
    -----
    Cost O(n k). Source: Everingham et al. (2015), The Pascal visual object classes challenge.

    Examples
    --------
    >>> found = segmentation_scores(np.array([[[3.0, 1.0], [0.0, 4.0]]]), ["sky", "sea"])
    >>> round(found["mean_iou"].value, 3), found["pixel_accuracy"].value
    (0.775, 0.875)
    """
    k = counts.shape[1]
    both = np.diagonal(counts, axis1=1, axis2=2)
    either = counts.sum(2) + counts.sum(1) - both
    total = counts.sum((1, 2))
    if not total.sum() > 0:
        raise UserValueError("no pixel has a label", "y", "label some pixels: -1 stands for none")
    space = PixelLabels().space(k)
    whole = either.sum(0)
    there = np.flatnonzero(whole)
    iou = both.sum(0)[there] / whole[there]
    residuals = (both[:, there] - iou * either[:, there]) / whole[there]
    absent = k - len(there)
    note = f"{absent} of {k} classes neither occur nor are predicted" if absent else ""
    accuracy = float(both.sum() / total.sum())
    found = {
        "mean_iou": _score("mean_iou", float(iou.mean()), residuals.mean(1), space, note),
        "pixel_accuracy": _score(
            "pixel_accuracy", accuracy, (both.sum(1) - accuracy * total) / total.sum(), space
        ),
    }  # fmt: skip
    if own:
        for place, value, residual in zip(there.tolist(), iou.tolist(), residuals.T, strict=True):
            name = f"iou[{names[place]}]"
            found[name] = _score(name, value, residual, space)
    return found


def _score(name: str, value: float, residuals: Floats, space: str, note: str = "") -> Score:
    """A ratio of sums over images, its error from what each image adds to it."""
    n = len(residuals)
    stderr = math.sqrt(n / (n - 1) * float((residuals**2).sum())) if n > 1 else math.nan
    return Score(value, stderr, unit="fraction", data_space=space, name=name, n=n, note=note)
