"""What ``gnomon info RUN`` says of a run: its data, the settings that are not the defaults, its seed, its columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from gnomon.catalog import card, entry
from gnomon.catalog.cards import REQUIRED, Card, Parameter, Preset, RecipeCard
from gnomon.cli.options import default
from gnomon.errors import UserValueError
from gnomon.runs.folder import RunFolder

__all__ = ["facts_of", "open_run", "text_of"]

OF_DATA = ("name", "target", "columns", "holdout", "split", "split_seed", "folds", "fold", "resize")
SEED = "random_state"
HIDDEN = ("source", "mark")
"""Of what a fit began from, what is said first and what is for programs."""


def open_run(path: str) -> RunFolder:
    """The run in a folder, refused where `gnomon.load` refuses it as another fit than its config.json says.

    Raises
    ------
    UserValueError
        No run, or files of two runs.
    """
    run = RunFolder.open(path)
    if not run.bound() and run.finished:
        from gnomon.recipes.recipe import Unsaved
        from gnomon.system.saving import load, system_of

        made = system_of(run.config).get_params()
        if not any(isinstance(value, Unsaved) for value in made.values()):  # those need their code to be loaded
            load(path)
    return run


def facts_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the config of a run says, with its settings and what was done to the columns in words."""
    facts = {
        name: config[name]
        for name in ("kind", "system", "where", "parameters", "seed", "data", "initial")
        if name in config
    }
    facts["settings"] = {name: {"value": value, "default": usual} for name, (value, usual) in settings(config).items()}
    learned = config.get("data", {}).get("preparation")
    if learned is not None:
        from gnomon.data.prepared import Prepared

        prepared = Prepared.from_json(learned)
        facts["columns"] = {"used": prepared.sources, "left_out": dict(prepared.left_out)}
        facts["preparation"] = prepared.lines()
    return facts


def text_of(path: str, facts: Mapping[str, Any]) -> str:
    """The same for reading."""
    data, changed = facts.get("data", {}), facts["settings"]
    shown = {name: data[name] for name in OF_DATA if data.get(name) is not None}
    for name, one in changed.items():
        shown[name] = f"{one['value']} (default {one['default']})" if one["default"] else one["value"]
    if "initial" in facts:
        begun = facts["initial"]
        shown["initial"] = "; ".join([begun["source"], *(f"{k} {v}" for k, v in begun.items() if k not in HIDDEN)])
    if not changed:
        shown["settings"] = "the defaults"
    if "seed" in facts:
        shown["seed"] = _seed(facts)
    lines = [f"{path}: {facts.get('kind', 'run')} of {facts['system']}"]
    width = max([12, *map(len, shown)])
    lines += [f"{name:<{width}} {value}" for name, value in shown.items()]
    lines += ["", "columns", *(f"  {line}" for line in facts["preparation"])] if facts.get("preparation") else []
    if "columns" in facts:
        names = ", ".join(facts["columns"]["used"])
        lines.append(textwrap.fill(f"  prepared: {names}", 100, subsequent_indent="    "))
    return "\n".join(lines)


def _seed(facts: Mapping[str, Any]) -> str:
    """The seed that was given; one that was drawn is shown to be drawn."""
    given = facts["parameters"].get(SEED)
    if isinstance(given, int):
        return str(given)
    return f"drawn; --random-state {facts['seed']} gives the same fit"


def settings(config: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Hyper-parameters that are not the defaults: value and default, as the command line takes them.

    Parameters
    ----------
    config : mapping
        Of config.json.

    Examples
    --------
    >>> settings({"system": "mlp", "parameters": {"hidden": {"__tuple__": [8, 4]}, "dropout": 0.0}})
    {'hidden': ('8x4', '128')}
    """
    given = {name: value for name, value in config["parameters"].items() if name != SEED}
    try:
        about = card(entry(config["system"]))
    except UserValueError:  # of a package that is not here
        return {name: (_text(value), "") for name, value in given.items()}
    return _changed(about, given, "")


def _changed(about: Card | RecipeCard, given: Mapping[str, Any], prefix: str) -> dict[str, tuple[str, str]]:
    known, found = {p.name: p for p in about.parameters}, {}
    for name, value in given.items():
        p = known.get(name)
        if p is None:
            found[prefix + name] = (_text(value), "")
        elif name in about.recipes and _short(about, name, value) is not None:
            found |= _slot(about, p, value, prefix)
        elif _text(value) != default(p) and _plain(value) != p.default:
            found[prefix + name] = (_text(value), _usual(p))
    return found


def _slot(about: Card | RecipeCard, p: Parameter, value: Any, prefix: str) -> dict[str, tuple[str, str]]:
    """The recipe of a slot where it is another one, and its fields that are not the defaults."""
    short = _short(about, p.name, value)
    assert short is not None
    found = {} if short == p.preset.short else {prefix + p.name: (short, _usual(p))}
    fields = value.get("fields", {}) if isinstance(value, dict) else {}
    held = p.preset.fields if short == p.preset.short else {}
    new = {name: one for name, one in fields.items() if name not in held or _plain(one) != held[name]}
    return found | _changed(about.recipes[p.name][short], new, f"{prefix}{p.name}.")


def _short(about: Card | RecipeCard, slot: str, value: Any) -> str | None:
    """The short name of the recipe that a value of config.json stands for; None where it is none that is here."""
    known = about.recipes[slot]
    if isinstance(value, str):
        return value if value in known else None
    address = value.get("__recipe__") if isinstance(value, dict) else None
    if isinstance(address, list):  # of early runs: slot and short name
        return address[1] if address[1:] and address[1] in known else None
    return next((short for short, recipe in known.items() if recipe.where == address), None)


def _usual(p: Parameter) -> str:
    return "" if p.default is REQUIRED else p.default.short if isinstance(p.default, Preset) else default(p)


def _plain(value: Any) -> Any:
    """A value of config.json without its marks."""
    if not isinstance(value, dict):
        return value
    if "__tuple__" in value:
        return tuple(map(_plain, value["__tuple__"]))
    if "__float__" in value:
        return float(value["__float__"])
    if isinstance(value.get("__system__"), dict):
        return value["__system__"].get("system")
    return value.get("__recipe__", value.get("__callable__", value))


def _text(value: Any) -> str:
    """A value of config.json as the command line takes it."""
    found = _plain(value)
    if isinstance(found, dict) and "__array__" in found:
        return f"an array of shape {tuple(found.get('shape', [len(found['__array__'])]))}"
    if isinstance(found, list | tuple):
        return "x".join(_text(one) for one in found)
    return "none" if found is None else str(found)
