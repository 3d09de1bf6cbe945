"""``gnomon info SYSTEM|RUN``: what a system is, its parameters, verbs and source; what a run was fitted to, and how."""

from __future__ import annotations

import os
import shutil
import textwrap
from typing import Any

import click

from gnomon.catalog import Entry, card, entry
from gnomon.catalog.cards import REQUIRED, Card, Parameter, Preset, RecipeCard
from gnomon.catalog.parts import find as find_parts
from gnomon.cli import completion, output, run_info
from gnomon.cli.list import facts
from gnomon.cli.options import default, flag, plain, values
from gnomon.errors import UserValueError

__all__ = ["command"]


@click.command("info")
@click.argument("system", metavar="SYSTEM|RUN", shell_complete=completion.systems)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def command(system: str, as_json: bool) -> None:
    """What SYSTEM is, its parameters with their ranges and defaults, its verbs, its source.

    Of the folder of a run: what was fitted to which data, and what was done to the columns.
    """
    if os.path.isdir(system):
        about_run = run_info.facts_of(run_info.open_run(system).config)
        if as_json:
            output.dump(about_run)
        else:
            output.write(run_info.text_of(system, about_run))
        return
    line = _system(system)
    about = card(line)
    if as_json:
        output.dump(as_facts(line, about))
        return
    output.write(as_text(line, about))


def _system(name: str) -> Entry:
    """The system of this name; a part that is mistaken for one is said to be a part."""
    try:
        return entry(name)
    except UserValueError:
        part = next((one for one in find_parts(name) if one.name.casefold() == name.casefold()), None)
        if part is None:
            raise
        module = part.where.partition(":")[0]
        raise UserValueError(
            f"{part.name} is a part, not a system: {module}.{part.name}",
            "",
            f"see gnomon list {name}, or its help in Python",
        ) from None


def as_facts(line: Entry, about: Card) -> dict[str, Any]:
    """Entry and card as JSON values."""
    recipes = {slot: [_recipe_facts(recipe) for recipe in found.values()] for slot, found in about.recipes.items()}
    parameters = [_parameter(p) for p in about.parameters]
    words = {"summary": plain(about.summary), "text": plain(about.text)}
    return {**facts(line), **words, "verbs": about.verbs, "parameters": parameters, "recipes": recipes}


def _recipe_facts(recipe: RecipeCard) -> dict[str, Any]:
    parameters = [_parameter(p) for p in recipe.parameters]
    inner = {slot: [_recipe_facts(one) for one in found.values()] for slot, found in recipe.recipes.items()}
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
    columns = max(60, min(100, shutil.get_terminal_size().columns))
    parts = [f"{line.title} / {line.title_zh}", "", plain(about.text)]
    parts += ["", f"tasks    {', '.join(line.tasks)}", f"verbs    {', '.join(about.verbs)}"]
    parts += [f"python   gnomon.{line.class_name}", f"source   {line.source}"]
    parts += [_wrap(f"rows     {', '.join(line.rows)}", columns, "         ")]
    parts += ["", "Parameters"]
    for p in about.parameters:
        parts += _lines(flag(p.name), p, columns, "  ")
        for recipe in about.recipes.get(p.name, {}).values():
            parts += _recipe(p.name, recipe, columns, "    ")
    return "\n".join(parts)


def _recipe(slot: str, recipe: RecipeCard, columns: int, indent: str) -> list[str]:
    lines = [_wrap(f"{indent}{recipe.short}: {plain(recipe.summary)}", columns, f"{indent}  ")]
    for p in recipe.parameters:
        lines += _lines(flag(f"{slot}.{p.name}"), p, columns, f"{indent}  ")
        for inner in recipe.recipes.get(p.name, {}).values():
            lines += _recipe(f"{slot}.{p.name}", inner, columns, f"{indent}    ")
    return lines


def _lines(name: str, p: Parameter, columns: int, indent: str) -> list[str]:
    first = "required" if p.default is REQUIRED else f"default {default(p)}"
    allowed = values(p)
    head = f"{indent}{name}  {allowed}, {first}" if allowed else f"{indent}{name}  {first}"
    return [head, *([_wrap(f"{indent}    {plain(p.description)}", columns, f"{indent}    ")] if p.description else [])]


def _wrap(text: str, columns: int, indent: str = "") -> str:
    return textwrap.fill(text, columns, subsequent_indent=indent)
