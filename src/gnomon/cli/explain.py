"""``gnomon explain RUN [DATA]``: coefficients with standard errors, importances of the columns."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, looking, output
from gnomon.cli.fit import TARGET, column_name
from gnomon.cli.fitted import ask, examples_of, fitted_rows
from gnomon.cli.form import with_form
from gnomon.errors import UserTypeError, UserValueError, counted, number
from gnomon.runs.folder import RunFolder

__all__ = ["command"]

SHOWN = 30
"""Columns that a screen shows."""


@click.command("explain")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", required=False, shell_complete=completion.data)
@click.option("--target", metavar="COLUMN", help=f"{TARGET} That of the fit by default.")
@click.option(
    "--repeats",
    type=click.IntRange(2),
    default=10,
    show_default=True,
    metavar="N",
    help="How often each column is shuffled.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="SEED", help="Of the shuffles.")
@click.option("--score", metavar="NAME", help="The score that is watched; the first of gnomon evaluate by default.")
@click.option(
    "--how", type=click.Choice(looking.WAYS),
    help="Of images: where a class is seen (grad-cam), which pixels move its score (gradient), what it needs "
    "(occlusion), maps of a stage (features), nearest training images.  [default: grad-cam of convolutional networks]",
)  # fmt: skip
@click.option("-n", "n", type=click.IntRange(1), metavar="N", help="How many images, drawn at random.  [default: 6]")
@click.option("--mistakes", is_flag=True, help="The mistakes of which the model is surest, in place of random images.")
@click.option("--stage", type=int, metavar="K", help="Of features (0 by default) and grad-cam (-1, the last).")
@click.option("--out", metavar="FILE", help="A new .png file of what is seen, or .npy with the maps.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, with all columns.")
def command(
    run: str, data: str | None, target: str | None, repeats: int, seed: int, score: str | None, how: str | None,
    n: int | None, mistakes: bool, stage: int | None, out: str | None, as_json: bool,
) -> None:  # fmt: skip
    """What the predictions of the model in the folder RUN rest on.

    Coefficients with standard errors where the model is linear; the decrease of impurity where it is made of trees; and
    for every model how much worse it predicts when one column is shuffled, on DATA or on the rows that the fit held
    out. Of convolutional networks, and with --how of other classifiers of images, what they look at.
    """
    import numpy as np

    from gnomon.evaluation.importance import permutation
    from gnomon.system.saving import load
    from gnomon.tasks.explain import Explanation, coefficients, groups, impurity

    system = load(run)
    if not set(system.tasks) & {"classify", "regress"}:
        what = f"{system.name} predicts no target that could be explained"
        has_parts = set(system.tasks) & {"cluster", "density", "represent"}
        remedy = f"gnomon components {run} shows what it is made of" if has_parts else ""
        raise UserTypeError(what, run, remedy or f"gnomon info {system.name} shows what it can do")
    recipe = RunFolder.open(run).config.get("data", {})
    if how is not None or hasattr(system, "grad_cam"):
        if score is not None:
            raise UserValueError("--score is of columns that are shuffled", "--score", "leave it out")
        looking.tell(
            run, data, target, system, looking.Wish(how or "grad-cam", n or 6, seed, mistakes, stage, out), as_json
        )
        return
    if n is not None or mistakes or stage is not None or out is not None:
        raise UserValueError("-n, --mistakes, --stage and --out are of images", run, "add --how, or leave them out")
    train, held, notes = fitted_rows(recipe, system, run)
    columns = list(train.columns) if train is not None else list(recipe.get("features") or _names(system))
    found = Explanation(notes=notes)
    rows = examples_of(system, train)
    found.coefficients, why = coefficients(system, columns, *rows)
    found.impurity = impurity(system, columns)
    found.notes += [why] if why else []
    label = column_name(target) if target else recipe.get("target")
    judged, of = _judged(run, data, label, system, held)
    if judged is not None:
        X, y = judged
        if np.ndim(X) != 2:
            what = f"{system.name} predicts from {system.domain.noun}, which have no columns to shuffle"
            raise UserTypeError(what, run, "a system that takes a table can be explained")
        found.permutation = permutation(
            system, X, y, columns=groups(system, columns), repeats=repeats, seed=seed, score=score
        )
    elif not found.coefficients and not found.impurity:
        raise UserValueError(f"the fit in {run} held nothing out", "", f"name the data: gnomon explain {run} DATA")
    else:
        found.notes.append(f"no rows were held out for permutation importances: gnomon explain {run} DATA")
    _show(run, found, of, as_json)


def _names(system: Any) -> list[str]:
    known = getattr(system, "feature_names_in_", None)
    return [f"x{j}" for j in range(system.n_features_in_)] if known is None else [str(name) for name in known]


def _judged(run: str, data: str | None, target: Any, system: Any, held: Any) -> tuple[Any, str]:
    """The rows on which columns are shuffled, and what they are called; None where there are none."""
    if data is None:
        return (None, "") if held is None else (examples_of(system, held), f"{counted(len(held), 'held-out row')}")
    from gnomon.data.names import BUILTIN

    query = ask(run, data, system, target=None if data in BUILTIN else target, answers=True)
    return (query.X, query.y), f"{counted(len(query.data), 'row')} of {query.data.name}"


def _show(run: str, found: Any, of: str, as_json: bool) -> None:
    if as_json:
        tables = [{"output": one.output, "df": one.df, **one.table()} for one in found.coefficients]
        facts = {"run": run, "coefficients": tables, "impurity": found.impurity, "permutation": found.permutation}
        output.dump({**facts, "rows": of, "notes": found.notes})
        return
    parts = [_coefficients(one) for one in found.coefficients]
    if found.permutation:
        parts.append(_permutation(found.permutation, of))
    if found.impurity:
        rows = [[name, number(value)] for name, value in list(found.impurity.items())[:SHOWN]]
        table = output.table(["column", "impurity"], rows, right=[1])
        parts.append(f"decrease of impurity in the trees, shares of the whole\n{table}{_more(found.impurity)}")
    output.write("\n\n".join(parts))
    for note in found.notes:
        output.note(f"notice: {note}")


def _coefficients(one: Any) -> str:
    table = one.table()
    names = ["coefficient", "stderr", "statistic", "p_value", "low", "high"]
    lines = [
        [str(table["column"][i]), *(number(float(table[name][i])) for name in names)]
        for i in range(len(table["column"]))
    ]
    shown = [*lines[: SHOWN - 1], lines[-1]] if len(lines) > SHOWN else lines
    letter = "z" if one.df == float("inf") else "t"
    head = ["column", "coefficient", "± stderr", letter, "p", "95 % from", "to"]
    title = f"coefficients{f' for {one.output}' if one.output else ''}"
    more = f"\n... and {len(lines) - len(shown)} columns more (--json shows all)" if len(lines) > len(shown) else ""
    return f"{title}\n{output.table(head, shown, right=range(1, 7))}{more}"


def _permutation(found: Any, of: str) -> str:
    first = next(iter(found.values()))
    rows = [
        [name, *(number(value) for value in (one.value, one.stderr, one.error))]
        for name, one in list(found.items())[:SHOWN]
    ]
    table = output.table(["column", "worse by", "± rows", "± shuffles"], rows, right=[1, 2, 3])
    watched = first.name.removeprefix("importance for ")
    return f"{watched} with one column shuffled, on {of} ({first.unit})\n{table}{_more(found)}"


def _more(found: Any) -> str:
    return f"\n... and {len(found) - SHOWN} columns more (--json shows all)" if len(found) > SHOWN else ""


with_form(command)
