"""``gnomon compare SYSTEM[:key=value,...] ... DATA``: one leaderboard per task and data space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from gnomon.catalog import card, tasks
from gnomon.cli import output
from gnomon.cli.completion import systems_or_data
from gnomon.cli.fit import RESIZE, SPLIT, SPLIT_SEED, column_name, column_names, image_size
from gnomon.cli.form import file_of, form_options, taken
from gnomon.cli.options import apart, option_names, parse_system
from gnomon.cli.preparing import preparation, prepare_options
from gnomon.errors import UserError, UserValueError

__all__ = ["command"]


@click.command("compare", context_settings={"ignore_unknown_options": True})
@click.argument(
    "systems", nargs=-1, required=True, metavar="SYSTEM[:KEY=VALUE,...] ... DATA", shell_complete=systems_or_data
)
@click.option(
    "--task",
    metavar="TASK",
    help=f"{', '.join(tasks())}. [default: each system's first]",
)
@click.option("--target", metavar="COLUMN", help="Column of the labels, by name or by place from 0.")
@click.option("--columns", metavar="A,B,...", help="Columns to take as features.")
@click.option(
    "--holdout", type=float, default=0.2, show_default=True, metavar="FRACTION", help="Fraction of the rows held out."
)
@click.option("--split", metavar="HOW", help=SPLIT)
@click.option("--split-seed", type=int, default=0, show_default=True, metavar="N", help=SPLIT_SEED)
@click.option("--folds", type=click.IntRange(2), metavar="K", help="Cross-validation: every row is held out once.")
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Fits of each system, with seeds 0 to N - 1: the mean is shown, and the spread.",
)
@click.option(
    "--vary", multiple=True, metavar="KEY=A,B,...", help="Each system once with each of these values; may be repeated."
)
@click.option("--resize", metavar="HxW", help=RESIZE)
@click.option("--metric", metavar="NAME", help="Score to rank by. [default: the task's]")
@click.option("--out", metavar="FOLDER", help="Save the runs below this folder; those that are there are taken.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    systems: tuple[str, ...],
    task: str | None,
    target: str | None,
    columns: str | None,
    holdout: float,
    split: str | None,
    split_seed: int,
    folds: int | None,
    seeds: int,
    vary: tuple[str, ...],
    resize: str | None,
    metric: str | None,
    out: str | None,
    as_json: bool,
    **preparing: Any,
) -> None:
    """Fit systems on the same rows of DATA and score them on the rows held out, beside the task's baseline.

    A system's parameters follow its name: rbm:n_hidden=32,objective.k=5 . Those of all systems may be options:
    --n-hidden 32 . The same command with the same --out takes the runs that are there and goes on with those that were
    interrupted.
    """
    words, shared = words_and_options(systems)
    *names, data = words or [""]
    if not names:
        raise UserValueError("no system to compare", "gnomon compare", "name at least one system before the data")
    unknown = next((one for one in shared if not known_to_all(one, names)), None)
    if unknown is not None:
        raise click.NoSuchOption(unknown, ctx=click.get_current_context())
    vary = (*(f"{option[2:]}={value}" for option, value in shared.items()), *vary)
    form, size = taken(preparing), image_size(resize)
    parsed = [parse_system(name) for name in varied(names, vary)]
    output.announce(f"comparing {', '.join(name for name, _ in parsed)} on {data}")
    from gnomon.catalog import make
    from gnomon.tasks.compare import Stopped, compare
    from gnomon.training.context import context

    made = [make(name, **{"random_state": 0, **parameters}) for name, parameters in parsed]
    given = file_of(data, form) if size is None else images(file_of(data, form), size)
    try:
        with context(verbose=True):
            boards = compare(
                made, given, task=task, holdout=holdout, split=split, split_seed=split_seed, folds=folds,
                seeds=seeds, metric=metric, target=column_name(target), columns=column_names(columns),
                prepare=preparation(preparing), out=out,
            )  # fmt: skip
    except Stopped as stop:
        if stop.boards and not as_json:
            _write(stop.boards)
        if out is not None:
            stop.args = (f"{stop}; the same command goes on with what is in {out}",)
        raise
    if not as_json:
        _write(boards)
    page = None if out is None else report_of(boards, out)
    if as_json:
        output.dump({"leaderboards": [board.to_json() for board in boards], **({"report": page} if page else {})})
    elif page is not None:
        output.write(f"the runs are in {out}, the report is {page}")


def _write(boards: Sequence[Any]) -> None:
    output.write("\n\n".join(str(board) for board in boards))


def words_and_options(words: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Systems and data, and options that the command has not, with their values.

    Raises
    ------
    UserValueError
        An option without a value, or given twice.

    Examples
    --------
    >>> words_and_options(["rbm", "digits", "--n-hidden", "12", "--epochs=3"])
    (['rbm', 'digits'], {'--n-hidden': '12', '--epochs': '3'})
    """
    names: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            names.append(word)
            continue
        option, equals, value = word.partition("=")
        value = value if equals else next(rest, "")
        if not value:
            raise UserValueError(f"{option} needs a value", "gnomon compare", f"such as {option} 10")
        if option in options:
            remedy = f"give it once; --vary {option[2:]}=A,B compares values"
            raise UserValueError(f"{option} is given twice", "gnomon compare", remedy)
        options[option] = value
    return names, options


def known_to_all(option: str, names: Sequence[str]) -> bool:
    """Whether an option is a parameter of each system, or a field of one of its recipes."""
    spelled = option.removeprefix("--").replace("-", "_")
    return option.startswith("--") and all(spelled in option_names(card(name.partition(":")[0])) for name in names)


def report_of(boards: Any, out: str) -> str | None:
    """The page that was written; None where it could not be, which ends no comparison."""
    from gnomon.report.verb import of_comparison

    try:
        return str(of_comparison(boards, out))
    except UserError as error:
        output.note(f"notice: there is no report: {error}")
        return None


def varied(names: list[str], vary: tuple[str, ...]) -> list[str]:
    """Each ``SYSTEM:key=value,...`` once with every choice of the values that are varied.

    Raises
    ------
    UserValueError
        Something that is not KEY=A,B,..., or a value or a system that stands twice.

    Examples
    --------
    >>> varied(["rbm", "rbm:epochs=5"], ("n_hidden=8,16",))
    ['rbm:n_hidden=8', 'rbm:n_hidden=16', 'rbm:epochs=5,n_hidden=8', 'rbm:epochs=5,n_hidden=16']
    """
    for one in vary:
        key, _, values = one.partition("=")
        choices = [value.strip() for value in apart(values)]
        if not key.strip() or not all(choices):
            raise UserValueError(
                f"--vary must be KEY=A,B,..., got {one!r}", "--vary", "such as --vary objective=cd,pcd"
            )
        twice = _twice(choices)
        if twice is not None:
            raise UserValueError(f"{twice} is given twice among the values of {key}", "--vary", "name it once")
        names = [f"{name}{',' if ':' in name else ':'}{key}={value}" for name in names for value in choices]
    twice = _twice(names)
    if twice is not None:
        remedy = "name it once; --seeds fits each system several times"
        raise UserValueError(f"{twice} is given twice among the systems", "", remedy)
    return names


def _twice(words: list[str]) -> str | None:
    """The first word that has come before; None where all differ."""
    return next((word for i, word in enumerate(words) if word in words[:i]), None)


def images(data: Any, size: list[int]) -> Any:
    """The images of a folder, brought to one size."""
    from gnomon.data.loading import load

    return load(data, resize=(size[0], size[1]))


command.params[3:3] = [*form_options(), *prepare_options()]
