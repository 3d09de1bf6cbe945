"""The page of a system, made from its card: facts, picture, docstring, parameters, recipes, rows."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator
from typing import Any

from gnomon import catalog
from gnomon.catalog.cards import REQUIRED, Card, Parameter, RecipeCard
from gnomon.catalog.line import Entry
from gnomon.catalog.words import OF_FAMILIES, OF_SYSTEMS, OF_TASKS
from pages.evidence import Evidence, Place, evidence, place_of
from pages.pictures import captions
from pages.rst import escaped, heading, keywords, source_link, table, toctree
from pages.specification import named, reference


def shown(default: Any) -> str:
    """The default of a parameter."""
    if default is REQUIRED:
        return "required"
    return f"``{default}``" if str(default) else '``""``'


def cells(p: Parameter) -> tuple[str, str, str]:
    """What a parameter takes, its default, and what it means."""
    return escaped(str(p)) or "object", shown(p.default), escaped(p.description)


def synonyms(one: Entry) -> list[str]:
    """Words by which the search finds a system beside those on its page, as `gnomon list` does."""
    family = one.where.split(".")[2]
    lines = [OF_SYSTEMS.get(one.name, ""), OF_FAMILIES.get(family, ""), *(OF_TASKS.get(task, "") for task in one.tasks)]
    return [word for line in lines for word in line.split()]


def indexed(one: Entry) -> list[str]:
    """Entries of the index: what they name as the main one (!) stands first among the results of the search."""
    words = dict.fromkeys((one.title_zh, *OF_SYSTEMS.get(one.name, "").split()))
    return [".. index::", *(f"   ! single: {word}" for word in words if not set(word) & set(",;!")), ""]


def recipes(card: Card) -> Iterator[str]:
    """What fits each slot, and the parameters of all that fits."""
    fields: dict[str, list[tuple[str, RecipeCard, Parameter]]] = {}
    for address, recipe, p in card.fields():
        fields.setdefault(address.partition(".")[0], []).append((address, recipe, p))
    for slot, found in card.recipes.items():
        yield from heading(f"Recipes for ``{slot}``", "-")
        yield from (f"- ``{short}``: {escaped(recipe.summary)}" for short, recipe in found.items())
        yield ""
        rows = [(f"``{address}``", f"``{recipe.short}``", *cells(p)) for address, recipe, p in fields.get(slot, ())]
        if rows:
            head = ("parameter", "of", "takes", "default", "meaning")
            yield from table(head, (26, 10, 16, 10, 38), dict.fromkeys(rows))


def source(one: Entry) -> str:
    """A link to the class of a system."""
    place = place_of(one.where.replace(":", "."))
    assert place is not None, one.where
    return source_link(place.file, place.line, one.where)


def rows(one: Entry) -> Iterator[str]:
    """The rows of the specification that a system makes work, each with the first of the tests that hold it."""
    if not one.rows:
        return
    yield from heading("Rows of the specification", "-")
    for row in one.rows:
        tests: list[Place] = evidence().get(row, Evidence()).tests
        by = f" ({source_link(tests[0].file, tests[0].line, tests[0].name)})" if tests else ""
        yield f"- {reference(row)}: {named(row)}{by}"


def page(card: Card, drawn: Collection[str]) -> str:
    """The page of a system: what its card knows, and its docstring for the directive of docs/conf.py.

    Parameters
    ----------
    card : Card
    drawn : collection of str
        Names of the systems that have a picture.
    """
    one = card.entry
    lines = [*keywords(synonyms(one)), *indexed(one), *heading(f"{escaped(one.title)} · {one.title_zh}", "=")]
    facts = {
        "Name": f"``{one.name}``, in Python ``gnomon.{one.class_name}``",
        "Tasks": ", ".join(one.tasks),
        "Verbs": ", ".join(f"``{verb}``" for verb in card.verbs),
        "Source": escaped(one.source),
        "Also called": escaped(OF_SYSTEMS.get(one.name, "")),
        "Code": source(one),
    }
    lines += [*(f":{name}: {value}" for name, value in facts.items() if value), ""]
    if one.name in drawn:
        caption = captions()[one.name]
        lines += [f".. figure:: ../pictures/{one.name}.png", f"   :alt: {caption}", "", f"   {caption}", ""]
    lines += [".. numpydoc::", "", *(f"   {line}".rstrip() for line in card.doc.splitlines()), ""]
    lines += heading("Parameters", "-")
    head = ("parameter", "takes", "default", "meaning")
    lines += table(head, (18, 20, 12, 50), ((f"``{p.name}``", *cells(p)) for p in card.parameters))
    lines += [*recipes(card), *rows(one)]
    return "\n".join(lines) + "\n"


def families() -> Iterator[tuple[str, tuple[Entry, ...]]]:
    """Title and systems of every family."""
    for family in catalog.FAMILIES:
        module = importlib.import_module(f"gnomon.catalog.{family}")
        yield module.__doc__.strip().rstrip("."), module.ENTRIES


def index() -> str:
    """All systems, by family."""
    lines = heading("Systems", "=")
    for title, found in families():
        lines += heading(title, "-")
        rows = ((f":doc:`{one.name}`", one.title_zh, ", ".join(one.tasks)) for one in found)
        lines += table(("system", "名称", "tasks"), (50, 25, 25), rows)
    lines += toctree(one.name for one in catalog.ENTRIES)
    return "\n".join(lines)
