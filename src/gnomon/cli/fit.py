"""``gnomon fit SYSTEM DATA``: options from the system's card, a run folder, then the fit."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from gnomon.catalog import Entry, card, entries, entry
from gnomon.catalog.cards import REQUIRED, Card, Preset, RecipeCard
from gnomon.cli import output
from gnomon.cli.completion import data as complete_data
from gnomon.cli.form import FORM, form_options, taken
from gnomon.cli.initial import BEGINNING, beginning, initial_options
from gnomon.cli.options import default, flag, plain, resolve_values, values
from gnomon.cli.preparing import PREPARING, preparation, prepare_options
from gnomon.data.form import Form
from gnomon.errors import UserError, UserValueError, counted
from gnomon.runs.config import FIT, NAMED, USUAL, DataSpec, RunConfig
from gnomon.runs.folder import RunFolder, free_path

__all__ = [
    "RESIZE", "SPLIT", "SPLIT_SEED", "column_name", "column_names", "command", "data_options", "image_size", "report",
]  # fmt: skip

TARGET = "Column of the labels, by name or by place from 0."
SPLIT = (
    "How rows are kept out: random, stratified (of each class its proportion), group=COLUMN (whole groups), "
    "time=COLUMN (the latest); ratings: random, user or time, with time:3 the three latest of each user. "
    "[default: stratified where there are classes, else random]"
)
SPLIT_SEED = "Seed of the rows that are kept out."
RESIZE = "Height and width to which the images of a folder are brought, such as 32x32."
COLUMNS = "Columns to take as features, a:f for those from a to f; all but the target by default."
RESERVED = (
    "target", "columns", *FORM, *PREPARING, *BEGINNING, "resize", "holdout", "split", "split_seed", "out", "devices",
    "device", "precision", "micro_batch", "checkpoint_every", "monitor", "page", "as_json",
)  # fmt: skip
"""Options of the run; never names of hyper-parameters."""


class Systems(click.Group):
    """One command per system, made from its card when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the systems."""
        return [one.name for one in entries()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        """The command of a system; an unknown one raises UserValueError with the nearest name."""
        return system_command(entry(name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The systems with their titles, without reading their sources."""
        with formatter.section("Systems"):
            formatter.write_dl([(one.name, one.title) for one in entries()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept options before the system as well: the first word that names one is moved to the front."""
        if not args or not args[0].startswith("-"):
            return super().parse_args(ctx, args)
        names = self.list_commands(ctx)
        place = next((i for i, word in enumerate(args) if word in names), 0)
        return super().parse_args(ctx, [*args[place : place + 1], *args[:place], *args[place + 1 :]])


@click.group("fit", cls=Systems, subcommand_metavar="SYSTEM DATA [OPTIONS]", no_args_is_help=True)
def command() -> None:
    """Fit SYSTEM to DATA, a built-in set or a file. gnomon fit SYSTEM --help shows the parameters of a system."""


class SystemCommand(click.Command):
    """A command whose help has the parameters in one section and the options of the run in another."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The two sections."""
        sections: dict[str, list[tuple[str, str]]] = {"Parameters": [], "Run": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and isinstance(parameter, click.Option):
                sections["Run" if parameter.name in (*RESERVED, "help") else "Parameters"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def system_command(one: Entry) -> click.Command:
    """The command that fits a system."""
    about = card(one)

    def body(data: str, **options: Any) -> None:
        run_options = {name: options.pop(name) for name in RESERVED}
        given = {name.replace("__", "."): text for name, text in options.items() if text is not None}
        fit(one, about, data, given, **run_options)

    return SystemCommand(
        one.name, callback=body,
        params=[click.Argument(["data"], shell_complete=complete_data), *parameter_options(about), *run_options()],
        help=f"Fit to DATA: a built-in set (gnomon data) or a file.\n\n{plain(about.summary)}",
    )  # fmt: skip


def parameter_options(about: Card) -> list[click.Option]:
    """An option for each parameter, and for each field of the recipes of a slot."""
    options, help_texts = [], _field_texts(about)
    for p in about.parameters:
        first = "required" if p.default is REQUIRED else f"default {default(p)}"
        takes = " | ".join(about.recipes[p.name]) if p.slot else values(p)
        options.append(_option(flag(p.name), p.name, p.description, takes, first))
        for address in (one for one in help_texts if one.startswith(f"{p.name}.")):
            name = address.replace(".", "__")
            options.append(click.Option([flag(address), name], metavar="VALUE", help=" ".join(help_texts[address])))
    return options


def _field_texts(about: Card) -> dict[str, list[str]]:
    """What the fields of recipes mean, by address; recipes in which one means the same are named together."""
    found: dict[str, dict[str, list[str]]] = {}
    for address, recipe, p in about.fields():
        takes = " | ".join(recipe.recipes[p.name]) if p.slot else values(p)
        shorts = found.setdefault(address, {}).setdefault(f"{plain(p.description)} [{takes}; default {default(p)}]", [])
        shorts += [recipe.short] if recipe.short not in shorts else []
    return {
        address: [f"{', '.join(shorts)}: {text}" for text, shorts in texts.items()] for address, texts in found.items()
    }


def _option(name: str, destination: str, text: str, takes: str, first: str) -> click.Option:
    facts = "; ".join(part for part in (takes, first) if part)
    return click.Option([name, destination], metavar="VALUE", help=f"{plain(text)} [{facts}]")


def run_options() -> list[click.Option]:
    """The options that belong to the run and not to the system."""
    return [
        click.Option(["--target"], metavar="COLUMN", help=TARGET),
        click.Option(["--columns"], metavar="A,B,...", help=COLUMNS),
        *form_options(),
        *prepare_options(),
        *initial_options(),
        click.Option(["--resize"], metavar="HxW", help=RESIZE),
        click.Option(
            ["--holdout"], type=float, default=0.2, show_default=True, metavar="FRACTION",
            help="Fraction of the rows that is kept out of the fit, for gnomon evaluate; 0 fits to all rows.",
        ),
        click.Option(["--split"], metavar="HOW", help=SPLIT),
        click.Option(["--split-seed"], type=int, default=0, show_default=True, metavar="N", help=SPLIT_SEED),
        click.Option(["--out"], metavar="RUN", help="Folder of the run, new or empty. [default runs/SYSTEM-DATA]"),
        click.Option(["--devices"], type=click.IntRange(1), default=1, show_default=True, metavar="N",
                     help="Processes that fit together."),
        click.Option(["--device"], metavar="DEVICE",
                     help="Where networks compute: cpu, cuda, cuda:1, mps. [default cpu]"),
        click.Option(["--precision"], type=click.Choice(["float32", "bfloat16"]),
                     help="Of the products within a network while it trains. [default float32]"),
        click.Option(["--micro-batch"], type=click.IntRange(1), metavar="N",
                     help="Rows of a batch that are computed at once; their gradients are summed. [default all]"),
        click.Option(["--checkpoint-every"], type=click.IntRange(1), metavar="STEPS",
                     help="Steps between checkpoints; the result does not depend on it. [default about 10 seconds]"),
        click.Option(["--monitor"], is_flag=True,
                     help="Count activations, gradients and sizes of updates into monitor.jsonl, for gnomon report."),
        click.Option(["--report", "page"], is_flag=True, help="Write report.html into the run; see gnomon report."),
        click.Option(["--json", "as_json"], is_flag=True, help="One JSON object on standard output."),
    ]  # fmt: skip


def data_options(function: Any) -> Any:
    """The options of a verb that reads a table."""
    function = click.option("--columns", metavar="A,B,...", help=COLUMNS)(function)
    return click.option("--target", metavar="COLUMN", help=TARGET)(function)


def column_name(text: str | None) -> str | int | None:
    """A column by name, or by place where the text is a whole number."""
    return int(text) if text is not None and re.fullmatch(r"-?[0-9]{1,9}", text) else text


def column_names(text: str | None) -> list[str] | None:
    """Names separated by commas.

    Raises
    ------
    UserValueError
        Nothing between two commas.
    """
    names = [] if text is None else [column.strip() for column in text.split(",")]
    if not all(names):
        raise UserValueError(f"--columns must be names set apart by single commas, got {text!r}", "--columns", "")
    return names or None


def image_size(text: str | None) -> list[int] | None:
    """Height and width.

    Raises
    ------
    UserValueError
        A text of another form.

    Examples
    --------
    >>> image_size("32x48")
    [32, 48]
    """
    if text is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,4})[x×]([1-9][0-9]{0,4})", text.strip().lower())
    if found is None:
        raise UserValueError(f"--resize must be height x width, such as 32x32, got {text!r}", "--resize", "")
    return [int(found[1]), int(found[2])]


def fit(one: Entry, about: Card, data: str, given: Mapping[str, str], **options: Any) -> None:
    """Write config.json, then import what is heavy, fit, and show the scores on the rows that were held out."""
    params = resolve_values(about, given, one.name)
    if not 0 <= options["holdout"] < 1:
        raise UserValueError(f"--holdout must be in [0, 1), got {options['holdout']}", "--holdout")
    begun = time.monotonic()
    path = Path(options["out"] or free_path(Path("runs") / f"{one.name}-{Path(data).stem}"))
    path = together(lambda: RunFolder.create(path, config(one, about, data, params, options)).path)
    output.announce(f"fitting {one.name} to {data} into {path}")
    finish(path, begun, options["as_json"], new=True)
    if options["page"] and output.first_process():
        from gnomon.report.verb import report as write_report

        output.note(f"the report is {write_report(path)}")


def finish(path: Path, begun: float, as_json: bool, *, new: bool = False) -> None:
    """Carry the fit in a folder out, and show the scores on the rows that were held out."""
    try:
        from gnomon.tasks.fitting import carry_out  # takes a second or two, in which Ctrl-C is answered too

        system, held = carry_out(path, verbose=True, new=new)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; go on with: gnomon resume {path}") from None
    if output.first_process():
        report(path, system, held, time.monotonic() - begun, as_json)


def together(make: Callable[[], Path]) -> Path:
    """The path that the first process of the group makes; alone, this process makes it.

    ``torchrun -m gnomon fit ...`` starts this very command in every process.

    Raises
    ------
    SystemExit
        In the other processes, where the first one was refused, which says why.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return make()
    import numpy as np

    from gnomon.training.group import current

    group, name, failure = current(), b"", None
    if group.rank == 0:
        try:
            name = os.fsencode(make())
        except Exception as error:
            failure = error
    found = bytes(group.gather(np.frombuffer(name, np.uint8)))
    if failure is not None:
        raise failure
    if not found:
        raise SystemExit(2)
    return Path(os.fsdecode(found))


def config(one: Entry, about: Card, data: str, params: Mapping[str, Any], options: Mapping[str, Any]) -> RunConfig:
    """What config.json says: the system, its parameters, the data as a recipe, the seed, the processes."""
    import secrets

    from gnomon.runs.codecs import encode
    from gnomon.runs.versions import versions

    seed = params.get("random_state")
    name = os.path.abspath(data) if os.path.exists(data) else data
    target, columns = column_name(options["target"]), column_names(options["columns"])
    resize = image_size(options["resize"])
    spec = DataSpec(
        NAMED, name, target, columns, options["holdout"], split=options["split"] or USUAL,
        split_seed=options["split_seed"], resize=resize, prepare=preparation(options).to_json(),
        form=Form(**taken(dict(options))).to_json() or None,
    )  # fmt: skip
    parameters = encode(recipes_placed(about, params))
    return RunConfig(
        FIT, secrets.randbits(63) if seed is None else seed, versions(), one.name, one.where, parameters, spec,
        int(os.environ.get("WORLD_SIZE", options["devices"])), options["checkpoint_every"],
        options["device"], options["precision"], options["monitor"] or None, beginning(options),
        micro_batch=options["micro_batch"],
    )  # fmt: skip


def recipes_placed(about: Card | RecipeCard, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by name; a recipe with fields of its own, which have addresses in `params`, as one value."""
    from gnomon.runs.codecs import Placed

    found: dict[str, Any] = {}
    for p in about.parameters:
        fields = {key.partition("__")[2]: v for key, v in params.items() if key.startswith(f"{p.name}__")}
        if fields:
            chosen = Preset(params[p.name]) if p.name in params else p.preset
            recipe = about.recipes[p.name][chosen.short]
            found[p.name] = Placed(recipe.where, recipes_placed(recipe, {**chosen.fields, **fields}))
        elif p.name in params:
            found[p.name] = params[p.name]
    return found


def report(path: Path, system: Any, held: Any, seconds: float, as_json: bool) -> None:
    """Scores on the held-out rows, and where the run is."""
    run, found = RunFolder.open(path), _judged(path, system, held)
    if as_json:
        last = {name: series[-1] for name, series in system.history_.items() if series}
        facts = {"run": path, "system": run.config["system"], "seconds": round(seconds, 3), "steps": system.n_steps_}
        prepared = getattr(system, "preparation_", None)
        columns = {} if prepared is None else {"preparation": prepared.lines()}
        output.dump({**facts, "seed": run.config["seed"], **columns, "last": last, "held_out": found})
        return
    if found and held is not None:
        what = counted(len(held), "held-out sentence" if held.text else "held-out row")
        output.write(f"on {what}:\n{output.scores(found)}")
    output.write(f"{run.config['system']}: {counted(system.n_steps_, 'step')} in {seconds:.1f} s; the run is in {path}")


def _judged(path: Path, system: Any, held: Any) -> Any:
    """Scores on the held-out rows; where they cannot be had, the error says that the fit is kept."""
    from gnomon.tasks.fitting import task_of

    if held is None:
        return {}
    try:
        return system.evaluate(*task_of(system).examples(held, system))
    except UserError as error:
        remedy = f"{error.remedy}; " if error.remedy else ""
        raise type(error)(f"held-out rows: {error.what}", error.where, f"{remedy}the fit is kept in {path}") from None
