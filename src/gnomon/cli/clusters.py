"""``gnomon clusters SYSTEM DATA``: how many clusters there are, judged without labels."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import column_name, column_names
from gnomon.cli.options import parse_system
from gnomon.cli.preparing import preparation, prepare_options
from gnomon.errors import UserValueError, counted

__all__ = ["command"]


@click.command("clusters")
@click.argument("system", metavar="SYSTEM[:KEY=VALUE,...]", shell_complete=completion.systems)
@click.argument("data", shell_complete=completion.data)
@click.option("--target", metavar="COLUMN", help="Column of labels, which no fit is given.")
@click.option("--columns", metavar="A,B,...", help="Columns to take as features.")
@click.option("--least", type=int, default=1, show_default=True, metavar="K", help="Clusters to begin with.")
@click.option("--most", type=int, default=10, show_default=True, metavar="K", help="Clusters to end with.")
@click.option(
    "--repeats", type=int, default=3, show_default=True, metavar="R", help="Pairs of halves for the stability; 0: none."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="SEED", help="Of fits, halves and samples.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    system: str, data: str, target: str | None, columns: str | None, least: int, most: int, repeats: int, seed: int,
    as_json: bool, **preparing: Any,
) -> None:  # fmt: skip
    """Fit SYSTEM (kmeans or a mixture) to DATA with several numbers of clusters, and say which suits.

    By BIC where there is a likelihood, else by the silhouette; stability is the adjusted Rand index of fits to two
    halves of the rows.
    """
    if most < 1:
        raise UserValueError.must("--most", "be at least 1", most)
    if not 1 <= least <= most:
        raise UserValueError(f"--least must be from 1 to --most {most}, got {least}", "--least", "")
    if repeats == 1 or repeats < 0:
        raise UserValueError(f"repeats must be 0 or at least 2, got {repeats}", "--repeats", "")
    name, parameters = parse_system(system)
    from gnomon.catalog import make
    from gnomon.tasks.base import task
    from gnomon.tasks.clusters import choose_k, number_of
    from gnomon.tasks.fitting import tell
    from gnomon.tasks.preparing import prepare

    made, goal = make(name, **{"random_state": seed, **parameters}), task("cluster")
    number_of(made)
    recipe = preparation(preparing)
    whole = goal.read(data, target=column_name(target), columns=column_names(columns), kinds=recipe.kinds)
    found = prepare(recipe, whole, made)
    if found is not None:
        tell(found)
        whole = found.apply(whole)
    X = goal.examples(whole, made)[0]
    if found is not None:
        X = found.scaled(X)  # in the units that a fit compares: `choose_k` makes its fits from the rows alone
    numbers = range(least, min(most, len(X)) + 1)
    choice = choose_k(made, X, list(numbers), repeats=repeats, seed=seed)
    if as_json:
        output.dump({"system": name, "data": whole.name, "n": len(X), **choice.to_json()})
        return
    output.write(f"{name} on {counted(len(X), 'row')} of {whole.name}:")
    output.write(str(choice))


command.params[2:2] = prepare_options()
