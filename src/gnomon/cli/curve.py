"""``gnomon curve SYSTEM DATA --over KEY=A,B,...``: scores against one hyper-parameter, or the number of rows."""

from __future__ import annotations

from typing import Any

import click

from gnomon.cli import completion, output
from gnomon.cli.fit import column_name, column_names
from gnomon.cli.form import file_of, form_options, taken
from gnomon.cli.options import parse_system
from gnomon.cli.preparing import preparation, prepare_options
from gnomon.cli.search import judged_on_training_rows, ranges_of
from gnomon.errors import UserValueError

__all__ = ["command"]

OPTIONS = ("validation", "folds", "metric", "task", "holdout", "split", "split_seed")


@click.command("curve")
@click.argument("system", metavar="SYSTEM[:KEY=VALUE,...]", shell_complete=completion.systems)
@click.argument("data", shell_complete=completion.data)
@click.option("--over", metavar="KEY[=RANGE]", help="As --space of gnomon search. [default: the number of rows]")
@click.option("--best-on", metavar="ROWS", help="With --over: validation or training rows say which value is best.")
@click.option("--sizes", metavar="N,N,...", help="Numbers of training rows. [default: 16, 32, 64 ... all]")
@judged_on_training_rows
@click.option("--out", metavar="FILE", help="Draw the curve into this file, .svg or .png.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(
    system: str, data: str, over: str | None, best_on: str | None, sizes: str | None, target: str | None,
    columns: str | None, out: str | None, as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Scores of SYSTEM on training and validation rows of DATA, against one hyper-parameter or the number of rows.

    Training rows that fare far better than validation rows say overfitting; both bad say too little capacity; a curve
    over rows that still falls says that more data would help, and how much. --over learning_rate --best-on training is
    the sweep of learning rates that tuning begins with.
    """
    preparing = {name: options.pop(name) for name in list(options) if name not in OPTIONS}
    form = taken(preparing)
    if over is not None and sizes is not None:
        raise UserValueError("--sizes must be left out with --over: a curve has one axis", "--sizes")
    if best_on is not None and over is None:
        raise UserValueError("--best-on must be left out without --over, whose values it judges", "--best-on")
    name, parameters = parse_system(system)
    key, values = _over(over)
    chosen = None if sizes is None else [_size(one) for one in sizes.split(",")]
    output.announce(f"a curve of {name} on {data}")
    from gnomon.catalog import make
    from gnomon.search.curves import learning_curve, validation_curve

    made = make(name, **{"random_state": 0, **parameters})
    options |= {"target": column_name(target), "columns": column_names(columns), "prepare": preparation(preparing)}
    given = file_of(data, form)
    if key is not None:
        found = validation_curve(made, given, over=key, values=values, best_on=best_on or "validation", **options)
    else:
        found = learning_curve(made, given, sizes=chosen, **options)
    if out is not None:
        from gnomon.inference.mcmc.pictures import write_figure

        write_figure(found.figure(), out)
    if as_json:
        output.dump({**found.to_json(), **({"out": out} if out else {})})
        return
    output.write(str(found))
    if out is not None:
        output.write(f"the picture is {out}")


def _over(text: str | None) -> tuple[str | None, str | None]:
    """The hyper-parameter, and its range where one is given."""
    if text is None:
        return None, None
    if "=" not in text:
        return text.strip().replace("-", "_"), None
    ((key, values),) = ranges_of((text,)).items()
    return key, values


def _size(text: str) -> int:
    if not text.strip().isdigit():
        raise UserValueError(f"--sizes must be whole numbers as in 50,100,200, got {text!r}", "--sizes")
    return int(text)


command.params[2:2] = [*form_options(), *prepare_options()]
