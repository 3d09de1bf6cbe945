"""``gnomon predict RUN DATA``: labels, numbers or clusters of rows, with their probabilities or spread."""

from __future__ import annotations

import inspect
from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fitted import KEEP, Query, ask, having, kept, lacks
from gnomon.cli.form import with_form
from gnomon.cli.predict_boxes import predict_boxes
from gnomon.cli.predict_pixels import is_folder, predict_pixels
from gnomon.cli.predict_texts import predict_texts, text_options
from gnomon.cli.versions import answering, versions_options
from gnomon.cli.write import TABLES, as_columns, beside, check_out, write_table
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["command"]

OUT = "A new .csv, .parquet or .npy file; of labels of pixels also a folder. Standard output by default."


@click.command("predict")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", shell_complete=completion.data)
@click.option("--columns", metavar="A,B,...", help="Columns to take as features; those of the fit by default.")
@click.option("--keep", metavar="A,B,...", help=KEEP)
@click.option("--proba", is_flag=True, help="Probabilities of all classes or components beside the likeliest.")
@click.option("--std", is_flag=True, help="The standard deviation of each number too, noise included.")
@text_options
@versions_options
@click.option("--out", metavar="FILE", help=OUT)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, data: str, columns: str | None, keep: str | None, proba: bool, std: bool, versions: str | None,
    combine: str | None, out: str | None, as_json: bool, n_best: int | None, rescore: tuple[str, ...], tune: str | None,
    candidates: str | None,
) -> None:  # fmt: skip
    """Predict the label, number or component of each row of DATA with the model in the folder RUN.

    DATA is a built-in set, a file, a folder of images or a single image. Columns are found by their names; other
    columns of DATA, such as known labels, are left out. A model that labels pixels takes images of any size, writes a
    mask for each of them where --out is a folder, and else what fraction of each image its classes cover. A model that
    finds boxes writes a line for each. One that translates writes a target to each source, or several.
    """
    if not is_folder(out):
        check_out(out, TABLES)
    from gnomon.system.saving import load

    if proba and combine == "vote":
        raise UserTypeError("a vote has no probabilities", "--proba", "leave it out, or combine probabilities")
    system = answering(load(run), versions, combine)
    if "segment" in system.tasks:
        refused = {"--columns": columns, "--keep": keep, "--std": std}
        predict_pixels(run, data, system, out=out, proba=proba, as_json=as_json, refused=refused)
        return
    if "detect" in system.tasks:
        refused = {"--columns": columns, "--keep": keep, "--std": std, "--proba": proba}
        predict_boxes(run, data, system, out=out, as_json=as_json, refused=refused)
        return
    check_out(out, TABLES)
    if n_best or rescore or tune or candidates:
        refuse = {"--columns": columns, "--proba": proba, "--std": std}
        for option in (name for name, value in refuse.items() if value):
            raise UserTypeError(f"{option} does not go with targets to sources", option, "leave it out")
        wanted: dict[str, Any] = {"n_best": n_best, "rescore": rescore, "tune": tune, "candidates": candidates}
        predict_texts(run, data, system, **wanted, keep=keep, out=out, as_json=as_json)
        return
    _check(system, run, proba, std)
    query = ask(run, data, system, columns=columns)
    found, spread = _answers(query, std)
    shares = system.predict_proba(query.X) if proba else None
    header, rows = _header(found), found if shares is None else shares
    answers = as_columns(found, header)
    classes = [] if shares is None else _classes(system, shares)
    if shares is not None:
        answers |= as_columns(shares, classes)
    if spread is not None:
        names = ["std"] if spread.ndim == 1 else [f"std_{j}" for j in range(1, spread.shape[1] + 1)]
        answers |= as_columns(spread, names)
        rows = None
    first = kept(data, keep, len(found), query.recipe)
    table = beside(first, answers)
    if out is not None:
        write_table(out, table, None if first else rows)
    if as_json:
        shown: dict[str, Any] = {"columns": header, "predictions": found} | ({"std": spread} if std else {})
        if proba:
            shown |= {"columns": [*header, *classes], "probabilities": shares}
        output.dump({"n": len(found), "out": out} if out else shown | ({"kept": first} if first else {}))
    elif out:
        output.written(len(found), "prediction", out)
    else:
        write_table(None, table)


def _check(system: Any, run: str, proba: bool, std: bool) -> None:
    """Refuse what the system cannot say of a row.

    Raises
    ------
    UserError
        What it cannot say, with what it can, and who can.
    """
    if not hasattr(system, "predict"):
        other = f"gnomon transform {run} DATA gives its codes" if hasattr(system, "transform") else ""
        raise lacks(system, "predict", "predict", run, other)
    if proba and std:
        raise UserValueError("--proba and --std must not stand together", "--std", "leave one out")
    spreads = _has_std(system)
    if proba and not hasattr(system, "predict_proba"):
        if "regress" in system.tasks or "recommend" in system.tasks:
            remedy = "--std gives the standard deviation of each" if spreads else "leave --proba out"
            what = f"{system.name} predicts numbers, which have no probabilities of classes"
            raise UserTypeError(what, "--proba", remedy)
        raise lacks(system, "predict_proba", "give probabilities", "--proba")
    if std and not spreads:
        if "regress" not in system.tasks:
            raise UserTypeError(f"{system.name} predicts no numbers with a spread", "--std", "leave it out")
        names = [name for name in having("log_prob", system.tasks) if name != system.name]
        listed = f"systems that do: {', '.join(names)}"
        raise UserTypeError(f"{system.name} does not give a standard deviation", "--std", listed)


def _has_std(system: Any) -> bool:
    return "return_std" in inspect.signature(system.predict).parameters


def _answers(query: Query, std: bool) -> tuple[Any, Any]:
    """Predictions, and their standard deviations where these are asked for."""
    if std:
        found, spread = query.system.predict(query.X, return_std=True)
        return found, spread
    return query.system.predict(query.X), None


def _header(found: Any) -> list[str]:
    """Names of the columns of what was predicted."""
    return ["prediction"] if found.ndim == 1 else [f"prediction_{j}" for j in range(1, found.shape[1] + 1)]


def _classes(system: Any, shares: Any) -> list[str]:
    """Names of the columns of probabilities: the classes, apart from the column of predictions."""
    names = [str(name) for name in getattr(system, "classes_", range(shares.shape[-1]))]
    return [f"{name} (probability)" if name == "prediction" else name for name in names]


with_form(command)
