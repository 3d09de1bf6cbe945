"""Classifiers that also learn from rows of which no label is known."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from gnomon.data.examples import Examples
from gnomon.distributions.domains import Labels
from gnomon.errors import UserValueError, counted
from gnomon.recipes.fields import Doc
from gnomon.system.prediction import Labeled
from gnomon.training.group import current as current_group

__all__ = ["UNLABELED", "TakesUnlabeled"]

UNLABELED = -1
"""The label, and the code, of a row whose class is not known."""


class TakesUnlabeled(Labeled):
    """Base beside a `Classifier`: rows labeled -1, None or NaN have no label. ``Examples.y`` holds -1 for them."""

    unlabeled_weight: Annotated[
        float, "[0, inf)", Doc("Weight of a row whose label is -1; below 1 where the density is doubtful.")
    ] = 1.0

    def ingest(self, X: Any, y: Any = None, sample_weight: Any = None) -> Examples:
        examples = super(Labeled, self).ingest(X, None, sample_weight)
        given, lacks = _without_lacking(y)
        found, seen = Labels().encode(given, n=len(examples.X) - int(lacks.sum()))
        codes = np.zeros(len(examples.X), seen.dtype)
        codes[~lacks if len(lacks) else slice(None)] = seen
        if len(found) < 2:
            only = found.tolist()[0]
            got = "no label at all (-1 means not known)" if only == UNLABELED else f"only one class, {only!r}"
            raise UserValueError(f"y must hold at least 2 classes, got {got}", "y")
        # classes -1 and 1 are as common as a missing label, and one class alone is nothing to tell apart
        named = np.array([label != UNLABELED or len(found) == 2 for label in found.tolist()])
        self.classes_ = found[named]
        codes = np.where(named, np.cumsum(named) - 1, UNLABELED)[codes]
        if len(lacks):
            codes[lacks] = UNLABELED
        known = codes != UNLABELED
        if not named.all() and current_group().rank == 0:
            minus = int((~known).sum()) - int(lacks.sum())
            rows = f"{counted(minus, 'row')} labeled -1 taken as without a label"
            warnings.warn(f"{rows}; if -1 is a class, give it another name", UserWarning, stacklevel=4)
        weight = np.where(known, examples.weight, self.unlabeled_weight * examples.weight).astype(examples.weight.dtype)
        if not weight[known].any():
            raise UserValueError("no labeled row has a weight", "sample_weight", "give labeled rows some weight")
        return examples.replace(y=codes, weight=weight)


def _without_lacking(y: Any) -> tuple[Any, NDArray[np.bool_]]:
    """The labels that are neither None nor NaN, and which are; an empty mask where all are there."""
    none = np.zeros(0, np.bool_)
    kind = getattr(y, "dtype", np.dtype(object))
    if not isinstance(y, np.ndarray | list | tuple) or (isinstance(y, np.ndarray) and kind.kind not in "fO"):
        return y, none
    labels = list(y)
    lacks = np.array([one is None or (isinstance(one, float | np.floating) and one != one) for one in labels])
    if not lacks.any() or lacks.all():
        return y, none
    return [one for one, lack in zip(labels, lacks, strict=True) if not lack], lacks
