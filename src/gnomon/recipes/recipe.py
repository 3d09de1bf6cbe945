"""Recipes: what goes into a slot. A recipe is immutable, holds no tensors, is cloned and saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from gnomon.errors import UserTypeError, UserValueError, nearest

__all__ = ["Recipe", "named", "replace", "resolve", "shorts"]


class Recipe:
    """Base of frozen dataclasses that fill a slot such as ``objective``, ``optimizer`` or ``smoothing``.

    A subclass names its slot and its short name: ``RBM(objective="pcd")`` is ``RBM(objective=PCD())``; the address of
    its field ``k`` is ``objective__k``, on the command line ``--objective.k``.
    """

    slot: ClassVar[str] = ""
    short: ClassVar[str] = ""
    _registry: ClassVar[dict[tuple[str, str], type[Recipe]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not cls.short:
            return
        taken = Recipe._registry.setdefault((cls.slot, cls.short), cls)
        if taken.__qualname__ != cls.__qualname__ or taken.__module__ != cls.__module__:
            raise TypeError(f"the {cls.slot} {cls.short!r} is {taken.__module__}.{taken.__qualname__} already")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The fields of the recipe, so that ``sklearn.base.clone`` copies it and ``slot__field`` has an address."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


def shorts(slot: str) -> list[str]:
    """Short names of the recipes of a slot that have been imported."""
    return [short for of, short in Recipe._registry if of == slot]


def named(slot: str, short: str) -> type[Recipe]:
    """The recipe class with this short name.

    Raises
    ------
    UserValueError
        A short name that no recipe of the slot has.
    """
    if (slot, short) in Recipe._registry:
        return Recipe._registry[slot, short]
    known = shorts(slot)
    close = nearest(short, known)
    remedy = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"
    raise UserValueError(f"unknown {slot} {short!r}", slot, remedy)


def resolve(value: str | Recipe, slot: str) -> Recipe:
    """The recipe that a slot's value stands for.

    Raises
    ------
    UserValueError
        A short name that no recipe of the slot has.
    UserTypeError
        Something that is neither a name nor a recipe of the slot.
    """
    if isinstance(value, str):
        return named(slot, value)()
    if isinstance(value, Recipe) and value.slot == slot:
        return value
    raise UserTypeError(f"{value!r} is no recipe of this slot", slot, f"choose from {', '.join(shorts(slot))}")


def replace(value: str | Recipe, slot: str, fields: Mapping[str, Any]) -> Recipe:
    """The recipe with some fields changed."""
    recipe = resolve(value, slot)
    known = recipe.get_params()
    for name in fields:
        if name not in known:
            close = nearest(name, list(known)) or list(known)
            raise UserValueError(
                f"{type(recipe).__name__} has no parameter {name!r}", f"{slot}__{name}",
                f"known: {', '.join(f'{slot}__{name}' for name in close)}" if close else "it has none",
            )  # fmt: skip
    return dataclasses.replace(recipe, **fields)  # type: ignore[type-var]
