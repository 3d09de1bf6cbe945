"""``gnomon search SYSTEM DATA``: hyper-parameters chosen by trials on the training rows."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.compare import images
from gnomon.cli.fit import RESIZE, SPLIT, SPLIT_SEED, column_name, column_names, image_size
from gnomon.cli.form import file_of, form_options, taken
from gnomon.cli.options import parse_system
from gnomon.cli.preparing import preparation, prepare_options
from gnomon.errors import UserValueError

__all__ = ["command", "judged_on_training_rows", "ranges_of"]


def judged_on_training_rows(function: Any) -> Any:
    """The options of verbs that part the training rows once more and leave the rows that are held out alone."""
    for option in reversed([
        click.option(
            "--validation", type=float, default=0.25, show_default=True, metavar="FRACTION",
            help="Fraction of the training rows that fits are judged on.",
        ),
        click.option("--folds", type=int, metavar="K", help="Judge by cross-validation on the training rows."),
        click.option("--metric", metavar="NAME", help="Score to judge by. [default: the task's]"),
        click.option("--task", metavar="TASK", help="What the system is judged at. [default: its first]"),
        click.option("--target", metavar="COLUMN", help="Column of the labels, by name or by place from 0."),
        click.option("--columns", metavar="A,B,...", help="Columns to take as features."),
        click.option(
            "--holdout", type=float, default=0.2, show_default=True, metavar="FRACTION",
            help="Fraction of the rows that no such fit sees.",
        ),
        click.option("--split", metavar="HOW", help=SPLIT),
        click.option("--split-seed", type=int, default=0, show_default=True, metavar="N", help=SPLIT_SEED),
    ]):  # fmt: skip
        function = option(function)
    return function


@click.command("search")
@click.argument("system", metavar="SYSTEM[:KEY=VALUE,...]", shell_complete=completion.systems)
@click.argument("data", shell_complete=completion.data)
@click.option("--trials", type=int, default=50, show_default=True, metavar="N", help="Trials in all.")
@click.option(
    "--space", multiple=True, metavar="KEY=RANGE",
    help="LOW..HIGH, LOW..HIGH:log or A,B,..., then perhaps 'if OTHER=A,B'; may be repeated. "
    "[default: around the system's defaults]",
)  # fmt: skip
@click.option(
    "--strategy", default="tpe", show_default=True, metavar="NAME", help="tpe, random, sobol, narrow, grid or refine."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="SEED", help="Of the search.")
@click.option("--seconds", type=float, metavar="S", help="No trial begins after this long.")
@click.option(
    "--limit", multiple=True, metavar="NAME=NUMBER",
    help="Most fit_seconds, predict_milliseconds (of a row) or megabytes (of the model) of a trial; may be repeated.",
)  # fmt: skip
@judged_on_training_rows
@click.option("--resize", metavar="HxW", help=RESIZE)
@click.option("--store", metavar="FILE|URL", help="Where trials are kept. [default: search.db in --out]")
@click.option("--out", metavar="FOLDER", help="For the store, and the runs of the best and of its rival.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    system: str,
    data: str,
    space: tuple[str, ...],
    limit: tuple[str, ...],
    target: str | None,
    columns: str | None,
    resize: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Try hyper-parameters of SYSTEM on training rows of DATA; fit the best, and score it on rows that no trial saw.

    The same command with the same --out (--store) goes on where it was stopped, and several of them at once, on
    machines that reach the store, share the trials.
    """
    preparing = {name: options.pop(name) for name in list(options) if name not in SEARCH}
    form, size = taken(preparing), image_size(resize)
    name, parameters = parse_system(system)
    ranges, limits = ranges_of(space), _limits_of(limit)
    output.announce(f"searching {name} on {data}")
    from gnomon.catalog import make
    from gnomon.search.verb import search
    from gnomon.training.context import context

    made = make(name, **{"random_state": 0, **parameters})
    given = file_of(data, form) if size is None else images(file_of(data, form), size)
    try:
        with context(verbose=True):
            found = search(
                made, given, space=ranges or None, limits=limits, target=column_name(target),
                columns=column_names(columns), prepare=preparation(preparing), **options,
            )  # fmt: skip
    except KeyboardInterrupt:
        place = options["store"] or options["out"]
        if place is None:
            raise
        raise KeyboardInterrupt(f"interrupted; the same command goes on with the trials in {place}") from None
    if as_json:
        output.dump(found.to_json())
        return
    output.write(str(found))
    if options["out"] is not None:
        output.write(f"trials and runs are in {options['out']}")


SEARCH = (
    "trials", "strategy", "seed", "validation", "folds", "seconds", "metric", "task", "holdout", "split", "split_seed",
    "store", "out",
)  # fmt: skip
"""Options that the verb takes as they are; the others say how a table is prepared."""


def ranges_of(space: tuple[str, ...]) -> dict[str, str]:
    """The ranges by address of the hyper-parameter.

    Raises
    ------
    UserValueError
        Something that is not KEY=RANGE, or a key that stands twice.

    Examples
    --------
    >>> ranges_of(("n_hidden=16..512:log", "objective.k=1,5"))
    {'n_hidden': '16..512:log', 'objective.k': '1,5'}
    """
    found: dict[str, str] = {}
    for one in space:
        key, _, text = one.partition("=")
        key = key.strip().replace("-", "_")
        if not key or not text.strip():
            raise UserValueError(f"--space must be KEY=RANGE, got {one!r}", "--space", "such as n_hidden=16..512:log")
        if key in found:
            raise UserValueError(f"{key} is given twice", "--space", "give each hyper-parameter once")
        found[key] = text
    return found


def _limits_of(limit: tuple[str, ...]) -> dict[str, float]:
    """The limits by name."""
    found: dict[str, float] = {}
    for one in limit:
        name, _, text = (part.strip() for part in one.partition("="))
        try:
            found[name.replace("-", "_")] = float(text)
        except ValueError:
            raise UserValueError(
                f"--limit must be NAME=NUMBER, got {one!r}", "--limit", "such as fit_seconds=10"
            ) from None
    return found


command.params[3:3] = [*form_options(), *prepare_options()]
