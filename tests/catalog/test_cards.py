"""Cards and the source reader under them."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from typing import get_args, get_type_hints

import pytest

from gnomon.catalog import ENTRIES, Entry, card, load_class
from gnomon.catalog.cards import REQUIRED, Kind, Preset, _kinds, documented, read
from gnomon.catalog.verbs import HOOKS, VERBS, allows
from gnomon.recipes.fields import Doc
from gnomon.recipes.recipe import named
from gnomon.recipes.slots import choices, where
from gnomon.recipes.source import SourceModule, locate
from gnomon.system.base import System

MINE = '''
"""A plug-in's module."""

import dataclasses
from typing import Annotated, Any, ClassVar, Literal, Optional, Union

from .parts import Base, Engine
from gnomon.training.optimizers import Optimizer


class MineModel:
    def log_prob(self, x):
        """There."""


class Mine(Base):
    """One line.

    More text,
    on two lines.

    Parameters
    ----------
    width : int in [2, 9)
        How wide,
        in cells.
    a, b : float, default 1 and 2
        Both.
    seed : int, str or None, default None
        Where it starts.

    Notes
    -----
    n : not a parameter
    """

    model_class: ClassVar[type] = MineModel
    slots: ClassVar[Mapping[str, type[Recipe]]] = {"engine": Engine, "optimizer": Optimizer}

    def __init__(
        self,
        width: Annotated[int, "[2, 9)"],
        *,
        a: float = 1.0,
        b: "Optional[float]" = 2.0,
        seed: Any = None,
        how: Literal["up", "down"] | None = "up",
        shape: tuple[int, int] = (8, 8),
        sizes: Union[Annotated[float, "(0, 1]"], tuple[float, ...]] = (0.5,),
        engine: str | Any = "fast",
        optimizer: str | Any = "adam",
        strict: bool = False,
        weird: float = float("inf"),
    ) -> None:
        """Nothing."""

    def predict(self, X):
        """There."""

    @property
    def size_(self):
        """Not a verb."""
'''
PARTS = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar

from gnomon.recipes.fields import Doc
from gnomon.system.base import System
from gnomon.recipes.recipe import named
from gnomon.recipes.slots import choices, where

raise ImportError("cards never import")


class Engine(Recipe):
    turns: Annotated[int, "[1, inf)"] = 3


@dataclass(frozen=True)
class Fast(Engine):
    """Quick.

    Parameters
    ----------
    speed : float in (0, inf)
        How quick.
    """

    short: ClassVar[str] = "fast"
    speed: Annotated[float, "(0, inf)"] = 1.5


class Base:
    def fit(self, X):
        """There."""

    @verb
    def log_prob(self, X):
        """There: the model has it."""

    @verb
    def anomaly_score(self, X):
        """There, by the same ability."""

    @verb
    def energy(self, X):
        """Not there."""
'''


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """The card of a plug-in's system whose package cannot be imported."""
    package = tmp_path / "cardplug"
    package.mkdir()
    (package / "__init__.py").write_text('raise ImportError("cards never import")')
    (package / "models.py").write_text(MINE)
    (package / "parts.py").write_text(PARTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(SourceModule, "of", staticmethod(SourceModule.of.__wrapped__))
    return read(Entry("mine", "", "", "model", ("density",), "cardplug.models:Mine", "", ()))


def test_parameters_of_a_plugin_that_cannot_be_imported(mine):
    found = {p.name: (str(p), p.default) for p in mine.parameters}
    assert found == {
        "width": ("int in [2, 9)", REQUIRED),
        "a": ("float", 1.0),
        "b": ("float or none", 2.0),
        "seed": ("int or str or none", None),
        "how": ("{up, down} or none", "up"),
        "shape": ("intxint", (8, 8)),
        "sizes": ("float in (0, 1] or floatx...", (0.5,)),
        "engine": ("recipe", "fast"),
        "optimizer": ("recipe", "adam"),
        "strict": ("bool", False),
        "weird": ("float", "float('inf')"),
    }


def test_descriptions_come_from_the_section_parameters_alone(mine):
    described = {p.name: p.description for p in mine.parameters if p.description}
    assert described == {"width": "How wide, in cells.", "a": "Both.", "b": "Both.", "seed": "Where it starts."}
    assert (mine.summary, mine.text) == ("One line.", "One line.\n\nMore text,\non two lines.")


def test_recipes_are_those_of_the_room_of_the_base_with_inherited_slot_and_fields(mine):
    assert mine.slots == {"engine": "cardplug.parts:Engine", "optimizer": "gnomon.training.optimizers:Optimizer"}
    fast = mine.recipes["engine"]["fast"]
    assert (fast.name, fast.summary) == ("Fast", "Quick.")
    assert [(p.name, str(p), p.default, p.description) for p in fast.parameters] == [
        ("turns", "int in [1, inf)", 3, ""),
        ("speed", "float in (0, inf)", 1.5, "How quick."),
    ]
    assert {"adam", "sgd", "adagrad"} < set(mine.recipes["optimizer"])


def test_verbs_are_those_that_the_model_can(mine):
    assert mine.verbs == ("anomaly_score", "fit", "log_prob", "predict")


@pytest.mark.parametrize(
    ("annotation", "kinds"),
    [
        ("int", [Kind("int")]),
        ("builtins.int", [Kind("int")]),
        ("int | None", [Kind("int"), Kind("none")]),
        ('Annotated[int, "[1, 2]"] | None', [Kind("int", "[1, 2]"), Kind("none")]),
        ("Annotated[int, 5, '(0, 1)']", [Kind("int", "(0, 1)")]),
        ("typing.Literal['a', 2]", [Kind("choice", choices=("a", "2"))]),
        ("dict[str, int]", [Kind("object")]),
        ("None", [Kind("none")]),
    ],
)
def test_kinds_of_annotations(annotation, kinds):
    assert _kinds(ast.parse(annotation, mode="eval").body) == kinds


def test_a_docstring_without_parameters_describes_none():
    assert documented("One line.\n\nNotes\n-----\nx : y\n    z") == {}


# --- our own systems ------------------------------------------------------------------------------------------------


def metadata(hint):
    """What stands beside the types in ``Annotated``, at any depth."""
    yield from getattr(hint, "__metadata__", ())
    for part in get_args(hint):
        yield from metadata(part)


def _made(p, one):
    """The default that a parameter of a card stands for."""
    if not isinstance(p.default, Preset):
        return p.default
    return named(load_class(one).slots[p.name], p.default.short)(**p.default.fields)


def test_a_recipe_as_default_is_read_as_what_it_makes():
    (optimizer,) = (p for p in card("gan").parameters if p.name == "optimizer")
    assert optimizer.default == Preset("adam", {"beta1": 0.5}) and str(optimizer.default) == "adam with beta1 0.5"
    assert optimizer.preset is optimizer.default and optimizer.slot
    (plain,) = (p for p in card("rbm").parameters if p.name == "optimizer")
    assert plain.default == plain.preset.short and not plain.preset.fields


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: one.name)
class TestEverySystem:
    def test_the_card_agrees_with_the_imported_class(self, one):
        signature = inspect.signature(load_class(one)).parameters
        found = [(p.name, _made(p, one)) for p in card(one).parameters]
        assert found == [(name, p.default) for name, p in signature.items()]

    def test_every_parameter_is_described_and_takes_something(self, one):
        for p in card(one).parameters:
            assert p.description, p.name
            assert p.kinds or p.optional, p.name

    def test_intervals_are_those_of_the_annotations(self, one):
        hints = get_type_hints(load_class(one).__init__, include_extras=True)
        for p in card(one).parameters:
            texts = {one.interval for kind in p.kinds for one in (kind, *kind.items) if one.interval}
            assert texts == {text for text in metadata(hints[p.name]) if not isinstance(text, Doc)}

    def test_every_slot_has_its_recipes(self, one):
        cls, about = load_class(one), card(one)
        assert set(about.slots) == set(cls.slots)
        for slot in about.slots:
            base = cls.slots[slot]
            assert list(about.recipes[slot]) == list(choices(where(base)))
            assert next(p.preset.short for p in about.parameters if p.name == slot) in about.recipes[slot]
            for short, recipe in about.recipes[slot].items():
                known = named(base, short)
                assert where(known) == recipe.where and set(known.slots) == set(recipe.slots)
                assert {p.name: p.default for p in recipe.parameters} == known().get_params(deep=False)

    def test_verbs_speak_to_people(self, one):
        """What takes rows in a model's own form is called by other verbs: a hook."""
        cls = load_class(one)
        for verb in card(one).verbs:
            face = inspect.signature(getattr(cls(**one.tiny), verb)).parameters
            assert not {"rows", "missing", "examples"} & set(face), verb

    def test_verbs_are_methods(self, one):
        cls = load_class(one)
        assert {"fit", "evaluate", "score", "save"} <= set(card(one).verbs)
        system = cls(**one.tiny)
        assert [verb for verb in card(one).verbs if not callable(getattr(system, verb, None))] == []
        assert {verb for verb in VERBS if hasattr(system, verb)} == set(VERBS) & set(card(one).verbs)


def test_what_a_system_has_in_public_is_a_verb_or_a_hook():
    """So that no hook is offered to people and no verb is left out."""
    face = {"fit", "score", "evaluate", "save"}
    functions = {name for name, value in vars(System).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert functions - face <= set(HOOKS)
    assert [hook for hook in HOOKS if not any(hasattr(load_class(one), hook) for one in ENTRIES)] == []


@pytest.mark.parametrize(
    ("need", "there", "answer"),
    [
        ("A", {"A"}, True), ("A", set(), False), ("not A", {"A"}, False), ("not A", set(), True),
        ("A and not B", {"A"}, True), ("A and not B", {"A", "B"}, False), ("A and B", {"A"}, False),
    ],
)  # fmt: skip
def test_needs_of_verbs(need, there, answer):
    assert allows(need, there.__contains__) is answer


def test_every_choice_says_what_there_is_to_choose():
    cards = [card(one.name) for one in ENTRIES]
    recipes = [recipe for one in cards for slot in one.recipes.values() for recipe in slot.values()]
    kinds = [(p.name, kind) for one in [*cards, *recipes] for p in one.parameters for kind in p.kinds]
    assert len(kinds) > 500
    assert [name for name, kind in kinds if kind.name == "choice" and not kind.choices] == []


def test_every_card_is_read_without_numpy_or_torch():
    code = (
        "import sys; from gnomon.catalog import entries, card\n"
        "for one in entries(): card(one).recipes\n"
        "assert not {'numpy', 'torch', 'sklearn', 'numba'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- source ---------------------------------------------------------------------------------------------------------


def test_locate_modules_and_packages():
    assert locate("gnomon.catalog.cards").name == "cards.py"
    assert locate("gnomon.systems").name == "__init__.py"
    assert locate("gnomon").parent.name == "gnomon"
    assert locate("json.decoder").name == "decoder.py"
    assert locate("gnomon.nothing") is None
    assert locate("no_such_package_at_all.x") is None


def test_a_missing_class_is_named():
    with pytest.raises(ValueError, match=r"__init__\.py defines no class Nothing"):
        read(Entry("x", "", "", "model", (), "gnomon.catalog:Nothing", "", ()))


def test_a_missing_module_is_named():
    with pytest.raises(ValueError, match=r"no source of module gnomon\.nothing"):
        read(Entry("x", "", "", "model", (), "gnomon.nothing:Nothing", "", ()))
