"""Recipes: what goes into a slot. A recipe is immutable, holds no tensors, is cloned and saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self, TypeVar, cast

from gnomon.errors import UserTypeError, UserValueError, nearest, shown
from gnomon.recipes.imports import load
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.slots import choices, spellings, where
from gnomon.recipes.synonyms import suggestions

__all__ = ["Factory", "Recipe", "Unsaved", "check_recipe", "inherited_slots", "named", "replace", "resolve", "shorts"]

R = TypeVar("R", bound="Recipe")


class Recipe:
    """Base of frozen dataclasses that fill a slot such as ``objective``, ``optimizer`` or ``smoothing``.

    A slot is declared by the base of its recipes: ``slots = {"objective": EnergyObjective}``; what fits are the
    subclasses with a short name: ``RBM(objective="pcd")`` is ``RBM(objective=PCD())``. The address of the field ``k``
    is ``objective__k``, on the command line ``--objective.k``. A recipe may have slots of its own.

    Attributes
    ----------
    short : str
        Name of the recipe within its slot; "" for a base.
    slots : mapping of str to type
        Base by slot, those of the bases included.
    factory : bool
        Whether a slot of this base also takes a callable that returns an nn.Module.
    """

    short: ClassVar[str] = ""
    slots: ClassVar[Mapping[str, type[Recipe]]] = {}
    factory: ClassVar[bool] = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.slots = inherited_slots(cls)
        taken = _defined(_root(cls)).get(vars(cls).get("short", ""), cls)
        if where(taken) != where(cls):
            raise TypeError(f"the recipe {cls.short!r} is {where(taken)} already")

    @classmethod
    def of_text(cls, text: str, slot: str = "") -> Self:
        """The recipe that a text in a slot of this base stands for: a short name, with the defaults of its fields."""
        return named(cls, text, slot)()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The fields, so that ``sklearn.base.clone`` copies the recipe; with `deep` those of inner recipes too."""
        found = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        inner = {name: found[name] for name in self.slots if deep and isinstance(found[name], Recipe)}
        return found | {f"{name}__{key}": v for name, one in inner.items() for key, v in one.get_params().items()}

    def recipe(self, slot: str) -> Any:
        """The recipe in a slot of this one, checked."""
        return check_recipe(resolve(getattr(self, slot), self.slots[slot], slot), slot)


def inherited_slots(cls: type) -> dict[str, type[Recipe]]:
    """Base by slot, of a class and its bases."""
    return {name: base for one in reversed(cls.__mro__) for name, base in dict(vars(one).get("slots") or {}).items()}


def _root(cls: type[Recipe]) -> type[Recipe]:
    """The topmost class below `Recipe`: within it a short name may be given once."""
    return [one for one in cls.__mro__ if issubclass(one, Recipe) and one is not Recipe][-1]


def _defined(base: type[Recipe]) -> dict[str, type[Recipe]]:
    """The recipes below a base that have been imported, by short name; of a class defined anew the latest."""
    found: dict[str, type[Recipe]] = {}
    for one in _below(base):
        short = vars(one).get("short")
        if short and where(found.get(short, one)) == where(one):
            found[short] = one
    return found


def _below(base: type[Recipe]) -> Iterator[type[Recipe]]:
    yield base
    for one in base.__subclasses__():
        yield from _below(one)


@dataclasses.dataclass(frozen=True)
class Factory(Recipe):
    """A callable in a slot that takes one.

    Parameters
    ----------
    make : callable
        Takes what the recipes of the slot take to build, and returns an nn.Module.
    """

    make: Callable[..., Any]

    def build(self, *sizes: Any, **options: Any) -> Any:
        """The module.

        Raises
        ------
        UserTypeError
            Something else.
        """
        module = self.make(*sizes, **options)
        if not hasattr(module, "state_dict"):
            name = getattr(self.make, "__qualname__", repr(self.make))
            raise UserTypeError(f"{name} must return an nn.Module, got {module!r:.60}", name, "return the network")
        return module


@dataclasses.dataclass(frozen=True)
class Unsaved:
    """What stands for a callable in what was saved: its name.

    Parameters
    ----------
    name : str
    """

    name: str


def shorts(base: type[Recipe]) -> list[str]:
    """Short names of what fits a slot of this base, sorted: from its room, from plug-ins, and defined by the user."""
    return sorted({*choices(where(base)), *_defined(base)})


def named(base: type[R], short: str, slot: str = "") -> type[R]:
    """The recipe with this short name, be its words joined by ``-`` or ``_``; its module is imported only now.

    Raises
    ------
    UserValueError
        A short name that no recipe below the base has.
    """
    for spelling in spellings(short):
        found = _defined(base).get(spelling)
        if found is None and spelling in choices(where(base)):
            found = load(choices(where(base))[spelling])
        if found is not None:
            return cast("type[R]", found)
    known = shorts(base)
    close = nearest(short, known)
    remedy = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"
    raise UserValueError(f"unknown {slot or base.__name__} {short!r}", slot or base.__name__, remedy)


def resolve(value: Any, base: type[R], slot: str = "") -> R:
    """The recipe that a slot's value stands for.

    Parameters
    ----------
    value : str, recipe, or callable where the base takes one
    base : type
        Base of the slot's recipes.
    slot : str, optional
        Its name, for messages.

    Raises
    ------
    UserValueError
        A short name that no recipe of the slot has; a callable that was not saved.
    UserTypeError
        Something that is neither a name nor a recipe of the slot.
    """
    slot = slot or base.__name__
    if isinstance(value, str):
        return base.of_text(value, slot)
    if isinstance(value, base):
        return value
    if isinstance(value, Unsaved):
        remedy = f"give it again: gnomon.load(folder, {slot}=...)"
        raise UserValueError(f"{slot} was made by {value.name}, which is not saved", slot, remedy)
    if base.factory and _is_factory(value):
        return cast(R, value if isinstance(value, Factory) else Factory(value))
    also = ", or a function that returns an nn.Module" if base.factory else ""
    remedy = f"choose from {', '.join(shorts(base))}{also}"
    raise UserTypeError(f"{slot} must be a short name or a recipe{also}, got {shown(value)}", slot, remedy)


def _is_factory(value: Any) -> bool:
    """A callable that is no recipe and no module: a module in a slot would go on from what it has learned."""
    module = hasattr(value, "state_dict") and not isinstance(value, type)
    return isinstance(value, Factory) or (callable(value) and not isinstance(value, Recipe) and not module)


def check_recipe(recipe: R, slot: str) -> R:
    """The recipe, if its parameters and those of the recipes in it are allowed.

    Raises
    ------
    UserError
        Naming parameter, value and what is allowed.
    """
    check_parameters(recipe, recipe.get_params(deep=False))
    for name, base in recipe.slots.items():
        check_recipe(resolve(getattr(recipe, name), base, f"{slot}__{name}"), f"{slot}__{name}")
    return recipe


def replace(value: Any, base: type[R], fields: Mapping[str, Any], slot: str = "") -> R:
    """The recipe with some fields changed; ``slot__field`` changes a field of a recipe in it.

    Raises
    ------
    UserValueError
        A field that it does not have.
    """
    slot = slot or base.__name__
    recipe = resolve(value, base, slot)
    known = recipe.get_params(deep=False)
    changed: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = {}
    for address, new in fields.items():
        name, dashes, rest = address.partition("__")
        if name not in known or (dashes and name not in recipe.slots):
            raise _no_such_field(recipe, slot, address if name in known else name)
        if dashes:
            inner.setdefault(name, {})[rest] = new
        else:
            changed[name] = new
    for name, deeper in inner.items():
        now = changed.get(name, known[name])
        changed[name] = replace(now, recipe.slots[name], deeper, f"{slot}__{name}")
    return dataclasses.replace(recipe, **changed)  # type: ignore[type-var]


def _no_such_field(recipe: Recipe, slot: str, name: str) -> UserValueError:
    known = list(recipe.get_params(deep=False))
    close = suggestions(name, known) or known
    return UserValueError(
        f"{type(recipe).__name__} has no parameter {name!r}", f"{slot}__{name}",
        f"known: {', '.join(f'{slot}__{one}' for one in close)}" if close else "it has none",
    )  # fmt: skip
