"""``gnomon impute RUN DATA``: what a model says of the missing cells of a table, given the known ones."""

from __future__ import annotations

import inspect
from typing import Any

import click
import numpy as np

from gnomon.cli import completion
from gnomon.cli.fitted import KEEP, ask, lacks, names_of, refuse_codes, tell, with_gaps
from gnomon.cli.form import with_form
from gnomon.cli.write import TABLES, as_columns, beside, check_out
from gnomon.distributions.table import Table
from gnomon.errors import UserTypeError, UserValueError

__all__ = ["command"]

JOINT = ("covariance", "table")
"""What is asked of the joint distribution of the missing cells of a row."""


@click.command("impute")
@click.argument("run", shell_complete=completion.folders)
@click.argument("data", shell_complete=completion.data)
@click.option("--columns", metavar="A,B,...", help="Columns to take as features; those of the fit by default.")
@click.option("--keep", metavar="A,B,...", help=KEEP)
@click.option(
    "--how", type=click.Choice(["mean", "mode", "sample", "deviation", "covariance", "table"]),
    help="Conditional mean, likelier bit, one draw, or standard deviation of each missing cell; covariances of all "
    "pairs of them; or each state of those of a row with its probability.  [default: mean]",
)  # fmt: skip
@click.option(
    "--n-draws", type=click.IntRange(1), metavar="N",
    help="N draws of the missing cells of each row, one table after the other under the column draw.",
)  # fmt: skip
@click.option(
    "--method", type=click.Choice(["auto", "exact", "mean_field", "gibbs"]),
    help="Enumeration, independent cells that come closest, or a chain; auto: exact where it can be.  [default: auto]",
)  # fmt: skip
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Sweeps of a chain.  [default: 500]")
@click.option("--seed", type=int, metavar="N", help="Of the chains.  [default: drawn]")
@click.option("--out", metavar="FILE", help="A new .csv, .parquet or .npy file; standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, data: str, columns: str | None, keep: str | None, how: str | None, n_draws: int | None,
    method: str | None, steps: int | None, seed: int | None, out: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Fill in the missing cells of DATA by the model in the folder RUN, from the known cells of their row.

    Known cells stay as they are. That cells are missing is taken to say nothing of what they hold. Models that can:
    mixtures, factor models, vae, autoregressive models, Boltzmann machines.
    """
    check_out(out, TABLES)
    from gnomon.system.saving import load

    system = load(run)
    if not hasattr(system, "impute"):
        raise lacks(system, "impute", "fill in missing cells", run)
    refuse_codes("impute", run, system)
    verb = system.conditional_distribution if how in JOINT else system.impute
    given = {"how": None if how in JOINT else how, "n_draws": n_draws, "method": method, "steps": steps}
    options = {name: value for name, value in (given | {"random_state": seed}).items() if value is not None}
    known = inspect.signature(verb).parameters
    for name in options:
        if name not in known:
            flag = "--seed" if name == "random_state" else f"--{name.replace('_', '-')}"
            if how in JOINT:
                raise UserTypeError(f"--how {how} takes no {flag}", flag, "leave it out")
            raise UserTypeError(f"{system.name} takes no {flag}: it fills in cells in one way", flag, "leave it out")
    query = with_gaps(run, data, system, columns) if "mask" in known else ask(run, data, system, columns=columns)
    mask = {"mask": np.isnan(query.data.X)} if "mask" in known else {}
    found, names = verb(query.X, **mask, **options), names_of(query)
    if how == "covariance":
        if not (found.covariance != 0).any():
            raise UserValueError("no cell is missing that could have a covariance", data, "leave gaps empty")
        tell(query, keep, _covariances(found, names), out, as_json)
    elif how == "table":
        table, source = _states(found, names, run)
        tell(query, keep, table, out, as_json, source=source)
    elif n_draws is not None:
        flat, n = found.reshape(-1, found.shape[2]), found.shape[1]
        table = beside({"draw": np.repeat(np.arange(1, n_draws + 1), n)}, as_columns(flat, names))
        tell(query, keep, table, out, as_json, rows=found, source=np.tile(np.arange(n), n_draws))
    else:
        tell(query, keep, as_columns(found, names), out, as_json, rows=found, noun="row")


def _covariances(found: Any, names: list[str]) -> dict[str, Any]:
    """A column for each pair of cells that are missing together in some row, in the order of the table."""
    pairs = np.argwhere(np.triu((found.covariance != 0).any(0)))
    return {f"cov({names[j]}:{names[k]})": found.covariance[:, j, k] for j, k in pairs}


def _states(found: Any, names: list[str], run: str) -> tuple[dict[str, Any], Any]:
    """A line for each state of the missing cells of a row: its number, the row filled in, and the probability."""
    rows, chances = [], []
    for i, known in enumerate(found.mean):
        if found.pattern[i] < 0:
            rows.append(known[None])
            chances.append(np.ones(1))
            continue
        table = found[i]
        if not isinstance(table, Table):
            what = f"the missing cells of row {i + 1} have no table of states"
            raise UserTypeError(what, run, "--how covariance, or --n-draws 100")
        filled = np.tile(known, (table.probabilities.size, 1))
        filled[:, [int(name[1:]) for name in table.names]] = np.argwhere(np.ones(table.probabilities.shape))
        rows.append(filled)
        chances.append(table.probabilities.ravel())
    source = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    columns = beside({"row": source + 1}, as_columns(np.concatenate(rows), names))
    return beside(columns, {"probability": np.concatenate(chances)}), source


with_form(command)
