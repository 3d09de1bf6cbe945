"""``gnomon principles SYSTEM DATA``: one machine by several training principles, at equal processor time."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import column_name
from gnomon.cli.options import parse_system
from gnomon.errors import UserValueError

__all__ = ["command"]


@click.command("principles")
@click.argument("system", metavar="SYSTEM[:KEY=VALUE,...]", shell_complete=completion.systems)
@click.argument("data", shell_complete=completion.data)
@click.option("--objectives", metavar="A,B,...", help="Training principles. [default: five of binary rows]")
@click.option("--rates", metavar="R,R,...", help="Learning rates to choose from. [default: 0.01,0.03,0.1,0.3,1]")
@click.option("--seconds", type=float, default=1.0, show_default=True, metavar="S", help="Processor time of a fit.")
@click.option(
    "--updates", metavar="A=N,...", help="Updates by objective in place of measured ones, which repeat a board."
)
@click.option("--seeds", type=int, default=5, show_default=True, metavar="N", help="Fits at each rate.")
@click.option("--flip", type=float, default=0.1, show_default=True, metavar="SHARE", help="Bits that are flipped.")
@click.option(
    "--holdout", type=float, default=0.2, show_default=True, metavar="FRACTION", help="Fraction of the rows that judge."
)
@click.option(
    "--validation", type=float, default=0.25, show_default=True, metavar="FRACTION",
    help="Fraction of the other rows that choose the rate.",
)  # fmt: skip
@click.option(
    "--split-seed", type=int, default=0, show_default=True, metavar="N", help="Of the rows that are held out."
)
@click.option("--target", metavar="COLUMN", help="Column of the labels, by name or by place from 0.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    system: str, data: str, objectives: str | None, rates: str | None, seconds: float, updates: str | None, seeds: int,
    flip: float, holdout: float, validation: float, split_seed: int, target: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Fit SYSTEM to DATA by each training principle, for as long as the others, and set three scores side by side.

    The log-likelihood of test rows; how many of them a linear support vector machine puts in their class by the hidden
    means; how many bits are right after some were flipped and one pass through the machine. Each principle has the
    learning rate that is best on validation rows.
    """
    name, parameters = parse_system(system)
    chosen: dict[str, Any] = {}
    if objectives is not None:
        chosen["objectives"] = [one.strip() for one in objectives.split(",")]
    if rates is not None:
        chosen["rates"] = [_number(one, "--rates") for one in rates.split(",")]
    given = None if updates is None else _updates(updates)
    output.announce(f"training principles of {name} on {data}")
    from gnomon.catalog import make
    from gnomon.search.principles import compare_principles

    board = compare_principles(
        make(name, **{"random_state": 0, **parameters}), data, seconds=seconds, updates=given, seeds=seeds, flip=flip,
        holdout=holdout, validation=validation, split_seed=split_seed, target=column_name(target), **chosen,
    )  # fmt: skip
    if as_json:
        output.dump(board.to_json())
        return
    output.write(str(board))
    same = ",".join(f"{one.objective}={one.updates}" for one in board.principles)
    output.write(f"the same numbers again: --updates {same}")


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserValueError(f"{where} must be numbers as in 0.01,0.1, got {text!r}", where) from None


def _updates(text: str) -> dict[str, int]:
    found = {}
    for one in text.split(","):
        key, _, value = one.partition("=")
        if not value.strip().isdigit():
            raise UserValueError(f"--updates must be as in cd=500,pcd=500, got {one!r}", "--updates")
        found[key.strip()] = int(value)
    return found
