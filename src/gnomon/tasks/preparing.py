"""Tables as they are, made what a system takes: learned from the training rows, applied to all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.catalog import entries
from gnomon.data.dataset import Dataset
from gnomon.data.preparation import WITHIN, Preparation
from gnomon.data.prepared import Prepared, as_table
from gnomon.errors import UserTypeError, UserValueError
from gnomon.system.base import System

__all__ = ["are_numbers", "kept_within", "prepare", "prepared_whole", "recipe_of", "refuse_one_class", "refuse_unfit"]

MOST_NUMBERS, LARGEST_SHARE = 50, 0.2
"""A target of whole numbers is no label where it has more different ones than this, in more than this share of rows."""
TWINS = {
    "svm": "support-vector-regression", "decision-tree": "regression-tree", "adaboost": "gradient-boosting-regression",
    "gaussian-classifier": "bayesian-regression",
}  # fmt: skip
"""Regressions beside classifiers whose names do not say it."""


def are_numbers(y: Any) -> bool:
    """Whether a target holds numbers and no labels: fractions, or whole numbers of which there are many different ones.

    Examples
    --------
    >>> are_numbers(np.arange(200)), are_numbers(np.array([0.5, 1.0])), are_numbers(np.array([0, 1] * 50))
    (True, True, False)
    """
    if y.dtype.kind not in "iuf":
        return False
    values = np.unique(y)
    whole = y.dtype.kind != "f" or bool((values == np.rint(values)).all())
    return not whole or (len(values) > MOST_NUMBERS and len(values) > LARGEST_SHARE * len(y))


def refuse_unfit(data: Dataset, system: System) -> None:
    """Refuse a target of numbers, or of one class, where classes are predicted; columns where rows must be images.

    Raises
    ------
    UserValueError
        What the data is in place of that, and what to do.
    """
    _refuse_columns_as_images(data, system)
    _refuse_images_as_lines(data, system)
    if data.y is None or not system.labeled or "classify" not in system.tasks:
        return
    if are_numbers(data.y):
        _refuse_numbers_as_classes(data, system)
    refuse_one_class(data)


def refuse_one_class(data: Dataset) -> None:
    """Refuse labels that are all the same.

    Raises
    ------
    UserValueError
        The label, with the file and the column.
    """
    if data.y is None or not len(data.y) or (data.y != data.y[0]).any():
        return
    named = data.classes is not None and data.y.dtype.kind in "iu"
    label = data.classes[int(data.y[0])] if named and data.classes is not None else data.y[:1].tolist()[0]
    target = data.source.get("target")
    where = data.name if target is None else f"{data.name}, column {target!r}"
    what = f"y must hold at least 2 classes, got only one class, {label!r}"
    raise UserValueError(what, where, "give rows of another class too, or another column as target")


def _refuse_images_as_lines(data: Dataset, system: System) -> None:
    """Images that are no squares would be taken for one line of pixels, where nobody has said their shape."""
    if data.images is None or not system.ordered_columns or getattr(system, "image_shape", ()) is not None:
        return
    rows, columns, *channels = data.images
    if rows != columns or channels:
        size = "x".join(map(str, data.images))
        what = f"{system.name} takes rows for square images of one channel, got images of {size}"
        raise UserValueError(
            what, data.name, f"say the shape: --image-shape {size}, in Python image_shape={data.images}"
        )


def _refuse_columns_as_images(data: Dataset, system: System) -> None:
    """Columns of a table are no pixels, whatever their number, where nobody has said so."""
    shaped = data.images is not None or getattr(system, "image_shape", None) is not None
    if shaped or not getattr(system.domain, "is_table", False) or (data.X is None and data.frame is None):
        return
    own = next((one for one in entries() if one.name == system.name), None)
    if own is not None and own.needs.partition(", ")[0] == "images":
        remedy = "where rows are images give image_shape, (rows, columns) or (rows, columns, channels)"
        raise UserValueError(f"{system.name} takes images, got a table", data.name, remedy)


def _refuse_numbers_as_classes(data: Dataset, system: System) -> None:
    values = np.unique(np.asarray(data.y))
    known = {one.name for one in entries()}
    twin = next(
        name for name in (TWINS.get(system.name, ""), f"{system.name}-regression", "linear-regression") if name in known
    )
    target = data.source.get("target")
    called = "the target" if target is None else f"the target {target!r}"
    what = f"{called} has {len(values)} different numbers, from {values[0]:.6g} to {values[-1]:.6g}: no classes"
    raise UserValueError(what, data.name, f"predict it with a regression: {twin}")


def recipe_of(given: Preparation | None) -> Preparation:
    """The preparation that was asked for, or the usual one.

    Raises
    ------
    UserTypeError
        Something else.
    """
    if given is not None and not isinstance(given, Preparation):
        raise UserTypeError.must("prepare", "be a gnomon.data.Preparation", given)
    return given or Preparation()


def prepare(recipe: Preparation, train: Dataset, system: System) -> Prepared | None:
    """What makes of the columns of a table what a system takes; None where the data is no table, or of images.

    Parameters
    ----------
    recipe : Preparation
    train : Dataset
        The training rows, and no other.
    system : System

    Raises
    ------
    UserValueError
        Options for data that has no columns to prepare, scaling for a system that does not know of it.
    """
    refuse_unfit(train, system)
    tabular = getattr(system.domain, "is_table", False)
    if recipe.text != "none" and tabular:
        train = as_table(train)
    table = train.X is not None or train.frame is not None
    if not table and train.text is not None and not tabular:
        recipe = replace(recipe, text="none", words=Preparation.words, text_unit=Preparation.text_unit, lexicon=None)
    if not table or train.images is not None or not tabular:
        if recipe != Preparation():
            option = next(iter(recipe.to_json()))
            what = f"{system.name} takes {system.domain.noun}, whose columns are not prepared"
            what = what if train.images is None else "pixels of images are not prepared as columns of a table are"
            raise UserValueError(what if table else "this data has no columns to prepare", option, "leave it out")
        return None
    if train.preparation is not None:
        return train.preparation
    predicts = system.__sklearn_tags__().target_tags.required
    if recipe.scale == "yes" and not (predicts or system.scale_dependent):
        what = f"{system.name} models the columns in their own units"
        raise UserValueError(what, "scale", "leave scale out; what it has standardized itself it says in gnomon info")
    if recipe.encode == "none" and recipe.scale != "yes":
        return None if train.frame is None else recipe.fit(train)
    within = kept_within(system.domain, system.outcomes, predicts)
    return recipe.fit(
        train, y=train.y if system.scales_target else None, keep_missing=system.domain.allow_missing,
        scaled=system.scale_dependent, indicators=predicts, within=within, ordered=system.ordered_columns,
    )  # fmt: skip


def kept_within(domain: Any, outcomes: Any, predicts: bool) -> str:
    """Where the columns of a table are brought: by what rows are predicted from, else by what has a probability."""
    view = domain.features if predicts else getattr(outcomes, "view", "table")
    return WITHIN.get(view, "real")


def prepared_whole(recipe: Preparation, whole: Dataset, system: System) -> Dataset:
    """All rows in a form that can be checked before some are held out; nothing of it is kept."""
    refuse_unfit(whole, system)
    if whole.X is not None and (system.domain.allow_missing or not np.isnan(np.min(whole.X, initial=0.0))):
        predicts = system.__sklearn_tags__().target_tags.required
        if kept_within(system.domain, system.outcomes, predicts) == "real":
            return whole
    found = prepare(recipe, whole, system)
    return whole if found is None else found.apply(whole)
