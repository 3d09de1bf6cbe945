"""Fits on data by name or file: what ``gnomon fit``, ``gnomon resume`` and ``gnomon evaluate`` share.

A run's ``config.json`` holds the data as a recipe (name or file, target, columns, share held out), from which the same
data is read again; its fingerprint is taken by the fit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gnomon.catalog import make
from gnomon.data.dataset import Dataset
from gnomon.data.form import File, Form, form_of
from gnomon.data.loading import load as read
from gnomon.data.places import placed
from gnomon.data.preparation import Preparation
from gnomon.data.prepared import TEXT_COLUMN, Prepared
from gnomon.data.sources import facts
from gnomon.data.splitting import by_column
from gnomon.errors import Diverged, NoColumn, UserError, UserTypeError, UserValueError
from gnomon.numeric.noise import seed_of
from gnomon.runs.config import ARRAYS, FIT, NAMED, USUAL, DataSpec
from gnomon.runs.folder import RunFolder
from gnomon.runs.initial import FineTuning
from gnomon.system.base import System
from gnomon.system.saving import load, system_of
from gnomon.tasks.base import Task, task
from gnomon.tasks.budgets import given, prolonged
from gnomon.tasks.image_data import of_levels
from gnomon.tasks.instead import others_named
from gnomon.tasks.preparing import prepare as learn
from gnomon.tasks.preparing import prepared_whole, recipe_of
from gnomon.tasks.sequences import in_frames
from gnomon.training.context import context
from gnomon.training.group import current as current_group
from gnomon.training.launch import ProcessDied, launch

__all__ = [
    "carry_out", "dataset_of", "file_as", "fit", "other_data", "parts", "parts_of", "place_of", "read_apart", "resume",
    "spec_of", "task_of",
]  # fmt: skip

CIRCUMSTANCES = ("checkpoint_every", "device", "precision", "micro_batch", "monitor")
"""What a run says of how it is fitted, as `gnomon.context` takes it."""


def task_of(system: System) -> Task:
    """The task that data is prepared for.

    Raises
    ------
    UserValueError
        A System that names none.
    """
    if not system.tasks:
        where = f"{type(system).__name__}.tasks"
        raise UserValueError("a System must name its tasks, got ()", where, 'write tasks = ("density",), say')
    return task(system.tasks[0])


def dataset_of(spec: DataSpec, goal: Task) -> Dataset:
    """The whole data of a run, read again.

    Raises
    ------
    UserError
        Data that is not there any more, or that has changed.
    """
    place = place_of(spec)
    name = File(place, **Form.from_json(spec.form).to_json()) if spec.form else place
    if spec.resize is None:
        kinds = Preparation.from_json(spec.prepare).kinds
        data = read_apart(goal, name, spec.split, target=spec.target, columns=spec.columns, kinds=kinds)
    else:
        data = read(name, target=spec.target, columns=spec.columns, resize=(spec.resize[0], spec.resize[1]))
    if spec.whole is not None and spec.whole != data.fingerprint:
        raise UserValueError("the data has changed since the fit began", place, "restore it, or fit into a new folder")
    return data


def place_of(spec: DataSpec) -> str:
    """Where the data of a run is: where it was, or under its name in the current folder, since runs are moved.

    What is found there is the same data or refused, by the fingerprint.
    """
    assert spec.name is not None
    was, here = Path(spec.name), Path(Path(spec.name).name)
    if not was.is_absolute() or was.exists() or spec.whole is None:  # None: never read, the reader says what is wrong
        return spec.name
    if here.exists():
        return str(here)
    raise UserValueError(
        "the data of this run is not there any more", str(was), f"put it back, or {here} into the current folder"
    )


def file_as(name: str | os.PathLike[str], form: Mapping[str, Any] | None) -> str | os.PathLike[str]:
    """A file that is read as another one was, as far as that says anything of it, and nothing else was said of it."""
    if not form or isinstance(name, File):
        return name
    chosen = {one: form[one] for one in facts(Path(name)) if one in form}
    return File(name, **Form.from_json(chosen).to_json()) if chosen else name


def read_apart(
    goal: Task, name: str | os.PathLike[str], split: str | None, *, columns: Sequence[str] | None, **options: Any
) -> Dataset:
    """The data that a task reads, with the column that rows are held out by set apart from the features."""
    column = (split or "").partition("=")[2]
    if not column:
        return goal.read(name, columns=columns, **options)
    kinds = {one: kind for one, kind in options.pop("kinds", {}).items() if (one, kind) != (column, "left out")}
    if columns is not None and column not in columns:
        columns = [*columns, column]
    return by_column(goal.read(name, columns=columns, kinds=kinds, **options), str(split))


def parts_of(goal: Task, spec: DataSpec, data: Dataset) -> list[tuple[Dataset, Dataset]]:
    """Training part and held-out part of data that the task has adopted; of each fold, where there are folds."""
    if spec.folds:
        return goal.folds(data, spec.folds, seed=spec.split_seed, how=spec.how)
    return [goal.split(data, test=spec.holdout, seed=spec.split_seed, how=spec.how)]


def halves(goal: Task, spec: DataSpec, data: Dataset) -> tuple[Dataset, Dataset | None]:
    """Training part and held-out part (None when nothing is held out) of the data of a run."""
    if not spec.holdout:
        return data, None
    found = parts_of(goal, spec, data)
    if spec.fold >= len(found):
        raise UserValueError(f"fold must be below {len(found)}, got {spec.fold}", "config.json", "fit again")
    return found[spec.fold]


def other_data(
    recipe: Mapping[str, Any],
    name: str | os.PathLike[str],
    goal: Task,
    *,
    target: str | int | None,
    columns: Sequence[str] | None,
) -> Dataset:
    """Data that a fitted model is asked about: the columns of its fit, by name, prepared as they were for the fit."""
    name = file_as(name, recipe.get("form"))
    facts = recipe.get("preparation")
    prepared = None if facts is None else Prepared.from_json(facts)
    if columns is not None:
        found = goal.read(name, target=target, columns=columns, kinds={} if prepared is None else prepared.kinds)
        return found if prepared is None else prepared.apply(found)
    images = goal.other_images(recipe, name)
    if images is not None:
        return images
    fitted = recipe.get("features") if prepared is None else list(prepared.names_in)

    def read(columns: Sequence[str] | None) -> Dataset:
        if prepared is None:
            return of_levels(goal.read(name, target=target, columns=columns), recipe.get("levels"))
        return prepared.apply(goal.read(name, target=target, columns=columns, kinds=prepared.kinds))

    try:
        if fitted != [TEXT_COLUMN]:
            return read(fitted)
        try:  # a column of that name, or the texts of a set, which has no columns to choose
            return read(fitted)
        except NoColumn:
            return read(None)
    except NoColumn as error:
        listed = ", ".join(map(repr, (fitted or [])[:6])) + (", ..." if len(fitted or []) > 6 else "")
        needs = ([listed] if listed else []) + ([] if target is None else [f"the target {target!r}"])
        remedy = f"the fit needs {', and '.join(needs)}"
        raise NoColumn(error.what, error.where.removesuffix(", columns"), remedy) from None


def parts(spec: DataSpec, system: System) -> tuple[Dataset, Dataset | None]:
    """Training part and held-out part (None when nothing was held out) of the data of a system's run."""
    goal = task_of(system)
    data = goal.adopt(dataset_of(spec, goal))
    train, held = halves(goal, spec, data)
    found: Prepared | None = getattr(system, "preparation_", None)
    if found is None:
        return train, held
    return found.apply(train), None if held is None else found.apply(held)


def fit(
    system: str | System,
    data: str | os.PathLike[str] | Dataset,
    *,
    target: str | int | None = None,
    columns: Sequence[str] | None = None,
    prepare: Preparation | None = None,
    run: str | os.PathLike[str] | None = None,
    initial: Any = None,
) -> System:
    """Fit a system to data by name or file, prepared as its task says.

    Parameters
    ----------
    system : name or System
        A name stands for the system with its default parameters. A System of one's own says what it is for, in
        ``tasks``.
    data : name, file or Dataset
        All of its rows are fitted to; `compare` holds some out.
    target, columns
        As in `gnomon.data.load`.
    prepare : Preparation, optional
        How the columns of a table become numbers; by default categories are encoded, what is missing is filled, and
        columns are scaled where the system's answer depends on their units. It is kept with the model.
    run : path, optional
        A new folder for checkpoints, history and the fitted model; where the data has a name, `resume` reads it again.
    initial : FineTuning, path or fitted System, optional
        Whose weights a network begins from, `gnomon.FineTuning`.

    Returns
    -------
    System
        Fitted; the given one, where one was given.

    Raises
    ------
    UserError
        Data that the system cannot use, with its row.

    Examples
    --------
    >>> import gnomon
    >>> gnomon.fit(gnomon.PPCA(n_components=2), "iris").n_features_in_
    4
    """
    made: System = make(system) if isinstance(system, str) else system
    if not isinstance(made, System):
        raise UserTypeError.must("system", "be a name or a System", made, remedy="call the class: gnomon.RBM()")
    goal = task_of(made)
    recipe, start = recipe_of(prepare), beginning(initial, made)
    whole = data if isinstance(data, Dataset) else goal.read(data, target=target, columns=columns, kinds=recipe.kinds)
    with others_named(made, whole):
        whole = goal.adopt(whole)
        found = learn_or_keep(recipe, whole, made, start)
        ready = whole if found is None else found.apply(whole)
        with placed(ready):
            X, y = goal.examples(ready, made)
            X = in_frames(X, ready, made)
            if run is None:
                begun: dict[str, Any] = {} if start is None else {"initial": start}
                return made.fit(X, y, **kept(found), **begun)
    spec = DataSpec(ARRAYS)
    if not isinstance(data, Dataset):
        spec = spec_of(data, whole, target=target, columns=columns, holdout=0.0, prepare=recipe)
    begins = None if start is None else start.to_json()
    config = made._config(FIT, seed_of(made.random_state), data=spec, devices=1, initial=begins)
    folder = RunFolder.create(run, config)
    with others_named(made, whole):
        return _fit_into(made, X, y, folder, found)


def tell(found: Prepared, known_lines: list[str] | None = None, title: str = "columns:") -> None:
    """What was done to which column, on standard error, without what was told before."""
    known = [] if known_lines is None else known_lines
    lines = [line for line in found.lines() if line not in known]
    known += lines
    if lines:
        print("\n  ".join([title, *lines]), file=sys.stderr)


def beginning(initial: Any, system: System) -> FineTuning | None:
    """What the fit of a system begins from, where something was named.

    Raises
    ------
    UserTypeError
        A system that does not learn by gradient.
    """
    if initial is None:
        return None
    from gnomon.system.by_gradient import ByGradient  # imports torch

    if not isinstance(system, ByGradient):
        what = f"initial must be left out of systems that are not networks learning by gradient, got {system.name}"
        raise UserTypeError(what, "initial", "fit mlp or resnet, say, or leave it out")
    return FineTuning.of(initial)


def learn_or_keep(recipe: Preparation, train: Dataset, system: System, start: FineTuning | None) -> Prepared | None:
    """What makes numbers of the columns: learned of the training rows, or that of the source of the first weights."""
    if start is None:
        return learn(recipe, train, system)
    from gnomon.system.initial import preparation_of  # imports torch

    known = preparation_of(start)
    if known is None:
        return learn(recipe, train, system)
    if recipe != Preparation():
        option = next(iter(recipe.to_json()))
        raise UserValueError(f"columns are prepared as in {start and start.place}", option, "leave it out")
    return known


def kept(found: Prepared | None) -> dict[str, Any]:
    """What a fit is told of the preparation of its rows."""
    return {} if found is None else {"preparation": found}


def spec_of(
    data: str | os.PathLike[str], whole: Dataset, *, target: str | int | None, columns: Sequence[str] | None,
    holdout: float, split: str = "random", split_seed: int = 0, prepare: Preparation | None = None,
) -> DataSpec:  # fmt: skip
    """What a run keeps of data that it can read again."""
    name = str(Path(data).resolve()) if Path(data).exists() else str(data)
    chosen = None if columns is None else list(columns)
    return DataSpec(
        NAMED, name, target, chosen, holdout, list(whole.columns) or None, whole.fingerprint, split=split,
        split_seed=split_seed, levels=whole.levels, resize=whole.source.get("resize"),
        form=form_of(data).to_json() or None,
        prepare=None if prepare is None else prepare.to_json(),
    )  # fmt: skip


def _fit_into(system: System, X: Any, y: Any, run: RunFolder, found: Prepared | None) -> System:
    """A fit into a new folder, which is removed where the data is refused before the first step."""
    try:
        return system.fit(X, y, run=run, **kept(found))
    except Diverged:
        raise
    except UserError:
        if not run.begun:
            run.discard()
        raise


def carry_out(
    folder: str | os.PathLike[str], *, verbose: bool = False, new: bool = False
) -> tuple[System, Dataset | None]:
    """Fit what the folder's config describes, from its checkpoint if it has one, on as many processes as it says.

    Parameters
    ----------
    folder : path
    verbose : bool, default False
        Progress on standard error.
    new : bool, default False
        Whether the folder was made for this call: it is removed then if the data is refused before the first step.

    Returns
    -------
    System
        Fitted.
    Dataset or None
        The rows that were held out, if any.

    Raises
    ------
    UserError
        Data or parameters that cannot be used.
    Diverged
        A number stopped being finite; the last finite checkpoint stays.
    """
    run = RunFolder.open(folder)
    joined = current_group()
    devices = 1 if joined.size > 1 else run.config.get("devices", 1)  # torchrun has started them already
    try:
        if devices == 1:
            return _fit(str(run.path), verbose)
        launch(_fit_apart, str(run.path), verbose, devices=devices)
    except Diverged:
        raise
    except ProcessDied as error:
        raise ProcessDied(error.what, error.where, f"go on with: gnomon resume {run.path}") from None
    except UserError:
        if new and not run.begun and joined.rank == 0:
            run.discard()
        raise
    system = load(folder)
    return system, parts(DataSpec.from_json(run.config["data"]), system)[1]


def _fit_apart(folder: str, verbose: bool) -> None:
    """The body of each of several processes, whose first one writes the fitted model."""
    _fit(folder, verbose)


def _fit(folder: str, verbose: bool) -> tuple[System, Dataset | None]:
    """The fit in this process; the fitted System, and the rows that were held out, if any."""
    run = RunFolder.open(folder)
    missing = [name for name in ("seed", "data") if name not in run.config]
    if missing:
        raise UserValueError(f"{folder} is damaged", f"its config.json names no {missing[0]}", "fit again")
    system = system_of(run.config)
    spec = DataSpec.from_json(run.config["data"])
    whole = dataset_of(spec, task_of(system))
    with others_named(system, whole):
        return _fit_to(whole, system, run, spec, verbose)


def _fit_to(
    whole: Dataset, system: System, run: RunFolder, spec: DataSpec, verbose: bool
) -> tuple[System, Dataset | None]:
    goal, group, recipe = task_of(system), current_group(), Preparation.from_json(spec.prepare)
    if spec.holdout:
        ready = prepared_whole(recipe, whole, system)
        with placed(ready):
            goal.check(ready, system)
    adopted = goal.adopt(whole)
    spec = replace(spec, split=goal.usual_split(adopted)) if spec.split == USUAL else spec
    train, held = halves(goal, spec, adopted)
    start = beginning(FineTuning.from_json(run.config["initial"]) if "initial" in run.config else None, system)
    found = learn_or_keep(recipe, train, system, start)
    raw = train.columns
    if found is not None:
        train, held = found.apply(train), None if held is None else found.apply(held)
    with placed(train):
        X, y = goal.examples(train, system)
        X = in_frames(X, train, system)
    if group.rank == 0 and spec.whole is None:
        known = replace(spec, features=list(raw) or None, whole=whole.fingerprint, levels=train.levels)
        run.update(data=known.to_json())
    options = {"verbose": verbose and group.rank == 0}
    options |= {n: run.config[n] for n in CIRCUMSTANCES if n in run.config}
    try:
        with context(**options), placed(train):
            system.fit(X, y, run=run, **kept(found))
    except UserError:
        raise
    except ValueError as error:  # scikit-learn's checks of arrays
        raise UserValueError(" ".join(str(error).split())) from error
    if verbose and group.rank == 0:  # not before: a refusal is one line
        if found is not None:
            tell(found)
        if start is not None:
            print("\n  ".join(["initial weights:", *system.initial_.lines()]), file=sys.stderr)
    return system, held


def resume(
    folder: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    validation: tuple[Any, Any] | None = None,
    epochs: int | None = None,
    max_updates: int | None = None,
    max_iter: int | None = None,
    verbose: bool = False,
) -> System:
    """Go on with a fit that was stopped, from its last checkpoint; it ends as one that was not stopped, to the bit.

    With a larger budget it goes on after its end too, as if that had been asked for from the start.

    Parameters
    ----------
    folder : path
        A run folder of ``gnomon fit`` or ``System.fit(run=...)``.
    X, y, sample_weight, validation
        The same data once more, where the fit was given arrays; left out where it was given a name or file.
    epochs, max_updates, max_iter : int, optional
        The budget of the whole fit from now on; one of them, the one that the fit has.
    verbose : bool, default False
        Progress on standard error.

    Returns
    -------
    System
        Fitted. A run that has ended is loaded as it is.

    Raises
    ------
    UserError
        A folder that is no run, data that has changed or is missing; a budget smaller than what is done, or one that
        a fit from the start would have used in another way.
    """
    budget = given(epochs=epochs, max_updates=max_updates, max_iter=max_iter)
    run = RunFolder.open(folder)
    if run.config.get("kind") != "fit":
        raise UserValueError(f"{folder} holds a saved model, not a fit", "", "gnomon.load reads it")
    if run.finished and not budget:
        return load(folder)
    named = run.config["data"].get("source") == NAMED
    if not named and X is None:
        raise UserValueError(
            f"{folder} was fitted to arrays", "X", "give the same arrays again: gnomon.resume(folder, X)"
        )
    with prolonged(run, budget):
        if named:
            return carry_out(folder, verbose=verbose)[0]
        system = system_of(run.config)
        with context(verbose=verbose):
            more = {"sample_weight": sample_weight, "validation": validation}
            return system.fit(X, y, run=run, **{name: value for name, value in more.items() if value is not None})
