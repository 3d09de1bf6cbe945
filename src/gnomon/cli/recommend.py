"""``gnomon recommend RUN --user 42 -k 10``: the items that a user would like best, or those most like an item."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.write import write_rows
from gnomon.errors import UserValueError

__all__ = ["command"]


@click.command("recommend")
@click.argument("run", shell_complete=completion.folders)
@click.option("--user", "users", multiple=True, metavar="ID", help="A user; several, each with --user.")
@click.option("--like", "items", multiple=True, metavar="ID", help="An item, of which the nearest are listed instead.")
@click.option("-k", "k", type=click.IntRange(1), default=10, show_default=True, metavar="K", help="Items on a list.")
@click.option("--seen", is_flag=True, help="List items that the user has rated too.")
@click.option("--out", metavar="FILE", help="A new .csv file; standard output by default.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    run: str, users: tuple[str, ...], items: tuple[str, ...], k: int, seen: bool, out: str | None, as_json: bool
) -> None:
    """List the K items with the highest expected rating for each user, with the model in the folder RUN.

    A user who was not in the fit gets what is best liked in general.
    """
    if bool(users) == bool(items):
        raise UserValueError("either users or items must be given", "recommend", "add --user ID, or --like ID")
    from gnomon.system.saving import load

    system = load(run)
    if not hasattr(system, "recommend"):
        remedy = "gnomon list --task recommend shows the systems that have them"
        raise UserValueError(f"{system.name} has no recommendations", run, remedy)
    if users:
        found = system.recommend(list(users), k, exclude_seen=not seen)
    else:
        found = system.similar_items(list(items), k)
    header, rows = ["user" if users else "like", "item", "score"], listed(users or items, found)
    if as_json and out is None:
        output.dump({"lists": [dict(zip(header, row, strict=True)) for row in rows]})
        return
    write_rows(out, rows, header)
    if as_json:
        output.dump({"n": len(rows), "out": out})
    elif out is not None:
        output.written(len(rows), "recommendation", out)


def listed(ids: tuple[str, ...], found: Any) -> Any:
    """A row per recommendation: who or what it is for, the item, the score."""
    import numpy as np

    there = np.isfinite(found.scores)
    given = np.repeat(np.array(ids, object), there.sum(1))
    return np.array([given, found.items[there], output.readable(found.scores[there])], dtype=object).T
