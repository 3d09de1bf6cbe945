"""Load what was saved: a model's folder or a finished run."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gnomon.data.prepared import Prepared
from gnomon.errors import UserError, UserTypeError, UserValueError, shown
from gnomon.recipes.imports import load as import_class
from gnomon.recipes.recipe import Unsaved
from gnomon.runs.codecs import DAMAGE, decode
from gnomon.runs.config import check_facts
from gnomon.runs.folder import RunFolder
from gnomon.system.base import System
from gnomon.system.trial import ask_once, unfit
from gnomon.training.driver import not_finite

__all__ = ["load", "system_of"]


def system_of(config: dict[str, Any]) -> System:
    """The unfitted system that a config describes.

    Raises
    ------
    UserValueError
        A system that is neither in the catalog nor installed.
    """
    return _unfitted(config, decode)


def _unfitted(config: dict[str, Any], read: Callable[[Any], Any]) -> System:
    try:
        cls = import_class(config["where"])
    except (ImportError, AttributeError, ValueError, TypeError):
        raise UserValueError(
            f"the system {config['system']!r} is not installed", config["where"], "install the package that has it"
        ) from None
    if not (isinstance(cls, type) and issubclass(cls, System)):
        raise UserValueError(f"{config['where']} is not a system", "config.json", "the run is foreign or damaged")
    if config["system"] != cls.name:
        what = f"system must be {cls.name!r}, the name of {config['where']}, got {shown(config['system'])}"
        raise UserValueError(what, "config.json", "put back what gnomon wrote, or fit again")
    try:
        system: System = cls(**{key: _revived(read(value)) for key, value in config["parameters"].items()})
    except UserValueError:
        raise
    except DAMAGE as error:  # a parameter that it has not, too
        raise UserValueError(
            f"{config['system']} cannot be made", f"config.json: {error}", "the run is foreign or damaged"
        ) from None
    return system


def _revived(value: Any) -> Any:
    """A decoded parameter, with the Systems in it."""
    if isinstance(value, dict) and value.keys() == {"__system__"}:
        inside = value["__system__"]
        return _unfitted(inside, lambda one: one)
    if isinstance(value, list | tuple):
        return type(value)(_revived(one) for one in value)
    return value


def load(folder: str | os.PathLike[str], *, unfinished: bool = False, **callables: Any) -> System:
    """The fitted system in a folder that ``System.save`` or ``gnomon fit`` wrote.

    Parameters
    ----------
    folder : path
    unfinished : bool, default False
        Take the last checkpoint of a fit that has not ended (or has diverged).
    **callables
        What was a callable in a slot, such as ``encoder=make_encoder``: a run keeps what it learned, not its code.

    Raises
    ------
    UserValueError
        No such folder, a foreign or damaged one, a newer format, a fit that has not ended.
    """
    run = RunFolder.open(folder)
    system = system_of(run.config)
    _give(system, callables)
    try:
        system.check_parameters()
    except UserError as error:
        where = f"config.json: {error.where}"
        raise UserValueError(error.what, where, "the run is foreign or damaged: fit again") from None
    found = run.read_model()
    if found is not None:
        members = {name: load(path) for name, path in run.members().items()}
        return _restore(system, *found, run, {"members": members} if members else {})
    checkpoint = run.read_checkpoint()
    if not unfinished or checkpoint is None or "system" not in checkpoint[1]:
        remedy = f"gnomon resume {folder}" + ("" if checkpoint is None else ", or load(..., unfinished=True)")
        raise UserValueError(f"{folder} holds no finished fit", "no model.safetensors", remedy)
    arrays, facts = checkpoint
    inside = {name.removeprefix("model/"): value for name, value in arrays.items() if name.startswith("model/")}
    _restore(system, inside or arrays, facts["system"], run)
    system.finish(system.model_)
    return system


def _give(system: System, callables: dict[str, Any]) -> None:
    """Put callables where the run has their names."""
    missing = [name for name, value in system.get_params().items() if isinstance(value, Unsaved)]
    for name in callables:
        if name not in missing:
            remedy = f"give {', '.join(missing)}" if missing else "leave it out"
            raise UserTypeError(f"load got an unexpected argument {name!r}", name, remedy)
    system.set_params(**callables)


def _restore(
    system: System, arrays: dict[str, Any], facts: dict[str, Any], run: RunFolder, inside: dict[str, Any] | None = None
) -> System:
    broken = not_finite(arrays)
    if broken is not None:
        raise UserValueError(f"{run.path} holds numbers that are not finite", broken, "the file is damaged: fit again")
    check_facts(facts, str(run.path))
    if facts["seed"] != run.config.get("seed", facts["seed"]):
        what, remedy = f"{run.path} has arrays of another fit than its config.json", "put back what gnomon wrote"
        raise UserValueError(what, "seed", f"{remedy}, or fit again")
    if "data" in run.config and "preparation" in run.config["data"]:
        Prepared.from_json(run.config["data"]["preparation"])
        if run.config["data"]["preparation"] != facts.get("preparation"):
            what = f"{run.path} has one preparation in config.json and another beside its arrays"
            raise UserValueError(what, "data.preparation", "put back what gnomon wrote, or fit again")
    try:
        system.restore(arrays, facts, **(inside or {}))
        if not run.sealed:
            ask_once(system)
        return system
    except UserError as error:
        if run.sealed:
            raise
        raise unfit(run, error) from None
    except DAMAGE as error:  # arrays of another model: names or shapes differ
        raise unfit(run, error) from None
