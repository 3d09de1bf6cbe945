"""What the verbs of a fitted model share: the model of a run, rows as its fit took them, refusals of what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gnomon.cli import output
from gnomon.cli.fit import column_names
from gnomon.cli.write import beside, write_table
from gnomon.errors import UserError, UserTypeError, UserValueError
from gnomon.runs.config import NAMED, DataSpec
from gnomon.runs.folder import RunFolder

__all__ = [
    "KEEP", "Query", "ask", "examples_of", "fitted_rows", "having", "kept", "lacks", "names_of", "refuse_codes", "tell",
    "training_rows", "with_gaps",
]  # fmt: skip

KEEP = "Columns of DATA that stand before the answers, such as an id; of images there is: file."
SOME = 6
"""Systems that a refusal names at most."""


@dataclass(frozen=True)
class Query:
    """A fitted model and the rows that it is asked about.

    Parameters
    ----------
    run, name : str
        The folder, and the data as it was named.
    system : System
    recipe : mapping
        The data of the run.
    data : Dataset
    X, y : what the system's verbs take
        y is None where answers are not asked for.
    """

    run: str
    name: str
    system: Any
    recipe: Mapping[str, Any]
    data: Any
    X: Any
    y: Any


def ask(
    run: str, data: str, system: Any, *, columns: str | None = None, target: str | int | None = None,
    answers: bool = False,
) -> Query:  # fmt: skip
    """Rows of DATA as the system of a run takes them.

    Raises
    ------
    UserError
        Data that lacks a column of the fit, or suits the model in another way not.
    """
    from gnomon.tasks.fitting import other_data, task_of

    recipe, goal = RunFolder.open(run).config.get("data", {}), task_of(system)
    chosen = other_data(recipe, data, goal, target=target, columns=column_names(columns))
    X, y = goal.examples(chosen, system, answers=answers)
    return Query(run, data, system, recipe, chosen, X, y)


def fitted_rows(recipe: Any, system: Any, run: str) -> tuple[Any, Any, list[str]]:
    """Training and held-out rows of the run; none, and why, where they cannot be read again."""
    from gnomon.tasks.fitting import parts

    if recipe.get("source") != NAMED:
        return None, None, ["the run was fitted to arrays, which it does not keep"]
    try:
        return *parts(DataSpec.from_json(recipe), system), []
    except UserError as error:
        return None, None, [f"the data of the fit cannot be read again: {error}"]


def training_rows(run: str, system: Any) -> tuple[Any, Any, Any]:
    """The rows that a run was fitted to, with what the system takes of them and their labels.

    Raises
    ------
    UserValueError
        Rows that cannot be read again.
    """
    train, _, notes = fitted_rows(RunFolder.open(run).config.get("data", {}), system, run)
    if train is None:
        raise UserValueError(notes[0], run, "fit to a file, or look in Python: net.nearest(X, train)")
    return train, *examples_of(system, train)


def examples_of(system: Any, data: Any) -> tuple[Any, Any]:
    """What the system takes of rows, with their answers; None of none."""
    from gnomon.tasks.fitting import task_of

    return (None, None) if data is None else task_of(system).examples(data, system)


def refuse_codes(verb: str, run: str, system: Any) -> None:
    """Refuse a fit whose columns are not those of the file: codes are no cells that a verb could answer with."""
    found = getattr(system, "preparation_", None)
    steps = () if found is None else found.steps
    coded = [one.name for one in steps if tuple(one.names) != (one.name,) or getattr(one, "codes", False)]
    if coded:
        what = f"{verb} needs a fit to columns of numbers, and {', '.join(map(repr, coded[:3]))} was coded"
        raise UserTypeError(what, run, f"fit without it: --drop {coded[0]}")


def with_gaps(run: str, data: str, system: Any, columns: str | None) -> Query:
    """The rows of DATA with 0 in empty cells, for a model that is told where these are; `data` is as it was read."""
    from gnomon.tasks.fitting import other_data, task_of

    recipe, goal = RunFolder.open(run).config.get("data", {}), task_of(system)
    found = getattr(system, "preparation_", None)
    fitted = recipe.get("features") if found is None else list(found.names_in)
    as_read = {"form": recipe.get("form"), "features": fitted}
    raw = other_data(as_read, data, goal, target=None, columns=column_names(columns))
    X = np.array(raw.frame if raw.X is None else raw.X, np.float64)
    raw = replace(raw, X=X, frame=None)
    whole = replace(raw, X=np.nan_to_num(X, nan=0.0))
    rows, _ = goal.examples(whole if found is None else found.apply(whole), system, answers=False)
    return Query(run, data, system, recipe, raw, rows, None)


def kept(data: str, text: str | None, n: int, recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of DATA, read as the fit's was, that stand beside the answers to its n rows."""
    names = column_names(text)
    if names is None:
        return {}
    from gnomon.data.cells import cells
    from gnomon.tasks.fitting import file_as

    found = cells(file_as(data, recipe.get("form")), names)
    assert all(len(column) == n for column in found.values())
    return found


def names_of(query: Query) -> list[str]:
    """Names of the columns, as the fit had them."""
    names = query.recipe.get("features") or getattr(query.system, "feature_names_in_", None)
    return [str(name) for name in names] if names is not None else [f"x{j}" for j in range(query.system.n_features_in_)]


def lacks(
    system: Any, verb: str, words: str, run: str, remedy: str = "", tasks: tuple[str, ...] = ()
) -> UserTypeError:  # fmt: skip
    """The refusal of a verb that a system has not, with some that have it.

    Parameters
    ----------
    system : System
    verb : str
        Name of the method.
    words : str
        What the system cannot be asked, after "does not": "predict".
    run : str
    remedy : str
        What is said before the names.
    tasks : tuple of str
        Of the systems that are named; those of the system where left out.
    """
    names = having(verb, tasks or system.tasks)
    listed = f"systems that do: {', '.join(names[:SOME])}{', ...' if len(names) > SOME else ''}" if names else ""
    return UserTypeError(f"{system.name} does not {words}", run, "; ".join(part for part in (remedy, listed) if part))


def having(verb: str, tasks: tuple[str, ...]) -> list[str]:
    """Names of the systems that have a verb; those of the same tasks where there are such."""
    from gnomon.catalog import card, entries

    found = [one for one in entries() if verb in card(one).verbs]
    near = [one.name for one in found if set(one.tasks) & set(tasks)]
    return near or [one.name for one in found]


def tell(
    query: Query, keep: str | None, found: Mapping[str, Any], out: str | None, as_json: bool, *,
    rows: Any = None, noun: str = "row", facts: Mapping[str, Any] | None = None, source: Any = None,
) -> None:  # fmt: skip
    """Write what was found of each row, beside the columns that are kept: a file, JSON or CSV on standard output.

    Parameters
    ----------
    query : Query
    keep : str, optional
        The option.
    found : mapping of str to array of shape (n,)
    out : str, optional
    as_json : bool
    rows : array, optional
        What a .npy file holds, where no column is kept.
    noun : str
        What was found: "score".
    facts : mapping, optional
        What else the JSON says.
    source : int array of shape (n,), optional
        The row of DATA that each answer is of, where they are not one for one.
    """
    n = len(next(iter(found.values()))) if found else len(query.data)
    first = kept(query.name, keep, n if source is None else len(query.data), query.recipe)
    if source is not None:
        first = {name: column[source] for name, column in first.items()}
    columns = beside(first, found)
    if out is not None:
        write_table(out, columns, None if first else rows)
    if as_json:
        whole: dict[str, Any] = {"n": n, **(facts or {})}
        whole |= {"out": out} if out else {"columns": columns}
        output.dump(whole)
    elif out is not None:
        output.written(n, noun, out)
    else:
        write_table(None, columns)
