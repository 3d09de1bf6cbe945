"""``gnomon info SYSTEM|PART|RUN``: what a system or a part is and takes; what a run was fitted to, and how."""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import Any

import click

from gnomon.catalog import Entry, card, entry
from gnomon.catalog.cards import REQUIRED, Card, Parameter, Preset, RecipeCard
from gnomon.catalog.part_cards import read as read_part
from gnomon.catalog.parts import named
from gnomon.cli import completion, costs_info, output, part_info, run_info
from gnomon.cli.list import facts, known_names, needs_of
from gnomon.cli.options import default, flag, plain, values
from gnomon.errors import UserValueError, nearest

__all__ = ["command"]


@click.command("info")
@click.argument("name", metavar="SYSTEM|PART|RUN", shell_complete=completion.systems_or_parts)
@click.option(
    "--input", "shape", metavar="SIZE",
    help="Costs by layer of a network for inputs of this size, such as 3x224x224 (channels, rows, columns) or 64.",
)  # fmt: skip
@click.option("--classes", type=click.IntRange(1), metavar="N", help="With --input: how many.  [default: 10]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(name: str, shape: str | None, classes: int | None, as_json: bool) -> None:
    """What SYSTEM is, its parameters with their ranges and defaults, its verbs, its source.

    Of a PART (a layer, a loss, a sampler, a metric, a distribution ...) how it is called, its parameters, methods and
    example; where several rooms have one of the name, of each, or by its room: nn.softmax. Of the folder of a RUN what
    was fitted to which data, and what was done to the columns.

    With --input SIZE parameters, multiply-adds and memory of a network by layer, with other settings as in
    resnet:depths=2x2x2x2,channels=64x128x256x512,stem=large.
    """
    if shape is not None:
        costs_info.tell(name, shape, classes, as_json)
        return
    if classes is not None:
        raise UserValueError("--classes is of the costs by layer", "--classes", "add --input SIZE, or leave it out")
    if os.path.isdir(name):
        about_run = run_info.facts_of(run_info.open_run(name).config)
        text = None if as_json else run_info.text_of(name, about_run)
        _show(about_run, text)
        return
    try:
        line = entry(name)
    except UserValueError as error:
        parts = [read_part(part) for part in named(name)]
        if not parts:
            raise _unknown(name) from error
        _show(part_info.facts_of(parts), None if as_json else part_info.text_of(parts, _columns()))
        return
    about = card(line)
    _show(as_facts(line, about), None if as_json else as_text(line, about))


def _show(facts: dict[str, Any], text: str | None) -> None:
    """The text; where there is none the facts as JSON."""
    if text is None:
        output.dump(facts)
    else:
        output.write(text)


def _unknown(name: str) -> UserValueError:
    """The error of a name that neither a system nor a part has."""
    if ":" in name:
        return UserValueError("settings are those of the costs by layer", name, "add --input SIZE, such as 3x224x224")
    close = nearest(name.rpartition(".")[2], known_names())
    remedy = f"did you mean {close[0]}?" if close else "gnomon list shows the systems, gnomon list parts the parts"
    return UserValueError(f"unknown system or part {name!r}", "", remedy)


def _columns() -> int:
    return max(60, min(100, shutil.get_terminal_size().columns))


def as_facts(line: Entry, about: Card) -> dict[str, Any]:
    """Entry and card as JSON values."""
    recipes = {
        slot: [_recipe_facts(one, (about.slots[slot],)) for one in found] for slot, found in about.fitting().items()
    }
    parameters = [_parameter(p) for p in about.parameters]
    words = {"summary": plain(about.summary), "text": plain(about.text)}
    return {**facts(line), **words, "verbs": about.verbs, "parameters": parameters, "recipes": recipes}


def _recipe_facts(recipe: RecipeCard, inside: tuple[str, ...]) -> dict[str, Any]:
    parameters = [_parameter(p) for p in recipe.parameters]
    inner = {
        slot: [_recipe_facts(one, (*inside, recipe.slots[slot])) for one in found]
        for slot, found in recipe.fitting(inside).items()
    }
    facts = {"name": recipe.short, "summary": plain(recipe.summary), "parameters": parameters}
    return facts | ({"recipes": inner} if inner else {})


def _parameter(p: Parameter) -> dict[str, Any]:
    first = None if p.default is REQUIRED else p.default
    if isinstance(first, Preset):
        first = {"recipe": first.short, "fields": first.fields}
    return {
        "name": p.name,
        "values": values(p),
        "default": first,
        "required": p.default is REQUIRED,
        "help": plain(p.description),
    }


def as_text(line: Entry, about: Card) -> str:
    """Entry and card for reading."""
    columns = _columns()
    parts = [f"{line.title} / {line.title_zh}", "", plain(about.text)]
    parts += [
        "",
        f"tasks    {', '.join(line.tasks)}",
        f"needs    {needs_of(line)}",
        f"verbs    {', '.join(about.verbs)}",
    ]
    parts += [f"python   gnomon.{line.class_name}", f"source   {line.source}"]
    parts += [_wrap(f"rows     {', '.join(line.rows)}", columns, "         ")]
    parts += ["", "Parameters"]
    for p in about.parameters:
        parts += _lines(flag(p.name), p, columns, "  ")
        for recipe in about.fitting().get(p.name, ()):
            parts += _recipe(p.name, recipe, columns, "    ", (about.slots[p.name],))
    return "\n".join(parts)


def _recipe(slot: str, recipe: RecipeCard, columns: int, indent: str, inside: tuple[str, ...]) -> list[str]:
    lines = [_wrap(f"{indent}{recipe.short}: {plain(recipe.summary)}", columns, f"{indent}  ")]
    for p in recipe.parameters:
        lines += _lines(flag(f"{slot}.{p.name}"), p, columns, f"{indent}  ")
        for inner in recipe.fitting(inside).get(p.name, ()):
            lines += _recipe(f"{slot}.{p.name}", inner, columns, f"{indent}    ", (*inside, recipe.slots[p.name]))
    return lines


def _lines(name: str, p: Parameter, columns: int, indent: str) -> list[str]:
    first = "required" if p.default is REQUIRED else f"default {default(p)}"
    allowed = values(p)
    head = f"{indent}{name}  {allowed}, {first}" if allowed else f"{indent}{name}  {first}"
    return [head, *([_wrap(f"{indent}    {plain(p.description)}", columns, f"{indent}    ")] if p.description else [])]


def _wrap(text: str, columns: int, indent: str = "") -> str:
    return textwrap.fill(text, columns, subsequent_indent=indent)
