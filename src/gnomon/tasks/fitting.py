"""Fits on data by name or file: what ``gnomon fit``, ``gnomon resume`` and ``gnomon evaluate`` share.

A run's ``config.json`` holds the data as a recipe (name or file, target, columns, share held out), from which the same
data is read again; its fingerprint is taken by the fit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gnomon.catalog import entry
from gnomon.data.dataset import Dataset, split
from gnomon.data.loading import load as load_data
from gnomon.distributions.domains import Labels
from gnomon.distributions.images import Images
from gnomon.errors import Diverged, UserError, UserValueError
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.system.prediction import Regressor
from gnomon.system.saving import system_of
from gnomon.training.context import context
from gnomon.training.group import current as current_group
from gnomon.training.launch import launch

__all__ = [
    "carry_out",
    "dataset_of",
    "form",
    "other_data",
    "parts",
    "prepare",
    "refuse_by_row",
    "resume",
    "with_target",
]

NAMED = "name or file"
"""The source of data that can be read again; data given as arrays has the source ``arrays``."""


def form(system: System) -> str:
    """The form in which a system takes data.

    ``labels`` (a table with labels), ``images`` (images with labels), ``target`` (a table with a numeric target),
    ``text``, ``binary`` or ``density``.

    Examples
    --------
    >>> import gnomon
    >>> form(gnomon.RBM())
    'binary'
    """
    task = entry(system.name).tasks[0]
    if task == "classify":
        return "images" if isinstance(system.domain, Images) else "labels"
    if task == "regress":
        return "target"
    if task == "language":
        return "text"
    # a system may learn from probabilities and still be a distribution over zeros and ones
    outcomes = getattr(system, "outcomes", system.domain)
    return "binary" if outcomes.space(1).startswith("pmf") else "density"


def prepare(system: System, data: Dataset, *, labels: bool = True) -> tuple[Any, Any]:
    """X and y of a data set in the form that the system takes.

    Parameters
    ----------
    system : System
    data : Dataset
    labels : bool, default True
        Whether labels, or the target, are asked for where the system predicts them.

    Raises
    ------
    UserValueError
        Data without that form: a text for a table, no labels, text as a target, values other than 0 and 1.
    """
    kind = form(system)
    if kind == "images":
        return data.view("images"), data.view("labels") if labels else None
    if kind in ("labels", "target"):
        return data.view("table"), data.view(kind) if labels else None  # type: ignore[arg-type]
    return data.view(kind), None  # type: ignore[arg-type]


def dataset_of(recipe: Mapping[str, Any]) -> Dataset:
    """The whole data of a run, read again.

    Raises
    ------
    UserError
        Data that came as arrays, that is not there any more, or that has changed.
    """
    if recipe.get("source") != NAMED:
        raise UserValueError("the run was fitted to arrays", "data", "name the data, or use Python")
    missing = [name for name in ("name", "target", "columns", "holdout") if name not in recipe]
    if missing:
        raise UserValueError(
            "the data of the run cannot be read again", f"config.json names no {missing[0]}", "fit again"
        )
    data = load_data(recipe["name"], target=recipe["target"], columns=recipe["columns"])
    if recipe.get("whole", data.fingerprint) != data.fingerprint:
        raise UserValueError(
            "the data has changed since the fit began", recipe["name"], "restore it, or fit into a new folder"
        )
    return data


def other_data(
    recipe: Mapping[str, Any], name: str, *, target: str | int | None, columns: Sequence[str] | None
) -> Dataset:
    """Data that a fitted model is asked about: the columns it was fitted to, by name and in their order."""
    if columns is None:
        columns = recipe.get("features")
    return load_data(name, target=target, columns=columns)


def parts(recipe: Mapping[str, Any], system: System) -> tuple[Dataset, Dataset | None]:
    """Training part and held-out part (None when nothing was held out) of the data of a system's run."""
    return _parts(dataset_of(recipe), recipe, system)


def with_target(data: Dataset, system: System) -> Dataset:
    """The data with its target as floating numbers, where the system predicts numbers.

    A column of whole numbers is then no longer taken for classes of which a split may lose one.

    Raises
    ------
    UserValueError
        A target that is text, with its row, or none at all.
    """
    return replace(data, y=data.view("target")) if form(system) == "target" else data


def _parts(data: Dataset, recipe: Mapping[str, Any], system: System) -> tuple[Dataset, Dataset | None]:
    data = with_target(data, system)
    if not recipe["holdout"]:
        return data, None
    return split(data, test=recipe["holdout"], seed=0)


def carry_out(folder: str | os.PathLike[str], *, verbose: bool = False, new: bool = False) -> None:
    """Fit what the folder's config describes, from its checkpoint if it has one, on as many processes as it says.

    Parameters
    ----------
    folder : path
    verbose : bool, default False
        Progress on standard error.
    new : bool, default False
        Whether the folder was made for this call: it is removed then if the data is refused before the first step.

    Raises
    ------
    UserError
        Data or parameters that cannot be used.
    Diverged
        A number stopped being finite; the last finite checkpoint stays.
    """
    run = RunFolder.open(folder)
    try:
        launch(_fit, str(run.path), verbose, devices=run.config.get("devices", 1))
    except Diverged:
        raise
    except UserError:
        if new and not run.begun:
            run.discard()
        raise


def _fit(folder: str, verbose: bool) -> None:
    """The body of each process."""
    run = RunFolder.open(folder)
    missing = [name for name in ("seed", "data") if name not in run.config]
    if missing:
        raise UserValueError(f"{folder} is damaged", f"its config.json names no {missing[0]}", "fit again")
    system = system_of(run.config)
    whole = dataset_of(run.config["data"])
    if run.config["data"]["holdout"]:
        refuse_by_row(system, whole)
    train, _ = _parts(whole, run.config["data"], system)
    X, y = prepare(system, train)
    if current_group().rank == 0 and "whole" not in run.config["data"]:
        run.update(data={**run.config["data"], "features": list(train.columns) or None, "whole": whole.fingerprint})
    circumstances = {
        "verbose": verbose and current_group().rank == 0,
        "checkpoint_every": run.config.get("checkpoint_every"),
    }
    try:
        with context(**circumstances):
            system.fit(X, y, run=run)
    except UserError:
        raise
    except ValueError as error:  # scikit-learn's checks of arrays
        raise UserValueError(" ".join(str(error).split())) from error


def refuse_by_row(
    system: System, data: Dataset, *, remedy: str = "correct it, drop the row, or keep none out (--holdout 0)"
) -> None:
    """Check the whole table, so that an error names the row as the file has it and not as the training part has it.

    Parameters
    ----------
    system : System
    data : Dataset
        All rows, before some are kept out.
    remedy : str
        What to do about a label that stands in one row only.

    Raises
    ------
    UserError
        A value or a label that the system cannot use, by its row.
    """
    if form(system) == "text":
        return
    X, y = prepare(system, data)
    system.domain.check(X, name=data.name)
    if isinstance(system, Regressor):
        system.target.check(y, n=len(X), name=data.name)
    elif y is not None:
        Labels().encode(y, n=len(X), name=data.name)
        _refuse_single(data, remedy)


def _refuse_single(data: Dataset, remedy: str) -> None:
    """A label of one row cannot be on both sides of a split, and is often a slip of the pen."""
    labels, rows, counts = np.unique(data.view("labels"), return_index=True, return_counts=True)
    if (counts > 1).all():
        return
    single = int((counts == 1).argmax())
    label = labels[single].item()
    name = data.classes[label] if data.classes and isinstance(label, int) else label
    raise UserValueError(f"label {name!r} stands in one row only", f"{data.name}, row {rows[single]}", remedy)


def resume(
    folder: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    validation: tuple[Any, Any] | None = None,
    verbose: bool = False,
) -> System:
    """Go on with a fit that was stopped, from its last checkpoint; it ends as one that was not stopped, to the bit.

    Parameters
    ----------
    folder : path
        A run folder of ``gnomon fit`` or ``System.fit(run=...)``.
    X, y, sample_weight, validation
        The same data once more, where the fit was given arrays; left out where it was given a name or file.
    verbose : bool, default False
        Progress on standard error.

    Returns
    -------
    System
        Fitted. A run that has ended is loaded as it is.

    Raises
    ------
    UserError
        A folder that is no run, data that has changed or is missing.
    """
    from gnomon.system.saving import load

    run = RunFolder.open(folder)
    if run.config.get("kind") != "fit":
        raise UserValueError(f"{folder} holds a saved model, not a fit", "", "gnomon.load reads it")
    if run.finished:
        return load(folder)
    if run.config["data"].get("source") == NAMED:
        carry_out(folder, verbose=verbose)
        return load(folder)
    if X is None:
        raise UserValueError(
            f"{folder} was fitted to arrays", "X", "give the same arrays again: gnomon.resume(folder, X)"
        )
    system = system_of(run.config)
    with context(verbose=verbose):
        given = {"sample_weight": sample_weight, "validation": validation}
        return system.fit(X, y, run=run, **{name: value for name, value in given.items() if value is not None})
