"""Declared hyper-parameters: constructor, documentation, inheritance, and what the card reads of them."""

from __future__ import annotations

import inspect
import pickle
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from gnomon.catalog import Entry
from gnomon.catalog.cards import read
from gnomon.errors import UserValueError
from gnomon.recipes.fields import Doc, Fields, declarations, type_words
from gnomon.recipes.parameters import check_parameters
from gnomon.recipes.recipe import Recipe
from gnomon.recipes.source import SourceModule
from gnomon.system.fields import HasDtype, Seeded, TrainedByGradient
from gnomon.training.optimizers import Adam, Optimizer
from gnomon.training.schedules import Schedule


class Machine(TrainedByGradient, HasDtype, Seeded, BaseEstimator):
    """A machine.

    It has units.

    Attributes
    ----------
    units_ : array
    """

    kind: ClassVar[str] = "machine"
    n_units: Annotated[int, "[1, inf)", Doc("How many units.")] = 3
    sizes: Annotated[tuple[Annotated[int, "[1, 9)"], ...], Doc("Sizes.")] = (2,)
    epochs: int = 7
    clip: Annotated[float | None, "(0, 1]"] = None
    fitted_: int = 0
    _hidden: int = 0


class Written(Fields):
    """Writes its constructor."""

    def __init__(self, *, width: int = 1) -> None:
        self.width = width


class Below(Written):
    """Has it from its base."""


def test_own_fields_come_first_and_then_those_of_the_bases_in_their_order():
    names = list(inspect.signature(Machine).parameters)
    inherited = [name for base in (TrainedByGradient, HasDtype, Seeded) for name in inspect.signature(base).parameters]
    own = ["n_units", "sizes", "epochs", "clip"]
    assert names == [*own, *(name for name in inherited if name not in own)]
    assert names[-2:] == ["dtype", "random_state"] and names.index("optimizer") < names.index("schedule")


def test_the_constructor_takes_keywords_and_stores_them_as_they_are():
    sizes = (np.int64(4),)
    machine = Machine(sizes=sizes)
    assert machine.sizes is sizes and machine.epochs == 7 and machine.n_units == 3
    with pytest.raises(TypeError, match="n_unit"):
        Machine(n_unit=3)
    with pytest.raises(TypeError):
        Machine(3)


def test_scikit_learn_sees_the_parameters():
    machine = Machine(n_units=5, optimizer="sgd")
    assert machine.get_params()["n_units"] == 5
    assert repr(machine) == "Machine(n_units=5, optimizer='sgd')"
    assert clone(machine).get_params() == machine.get_params()
    assert pickle.loads(pickle.dumps(machine)).get_params() == machine.get_params()
    assert machine.set_params(epochs=9).epochs == 9


def test_a_default_that_is_declared_anew_keeps_interval_and_sentence():
    found = {one.name: one for one in declarations(Machine)}
    assert found["epochs"].default == 7
    assert found["epochs"].doc == "Passes over the training rows at most."
    assert found["clip"].doc == "Gradients are shortened to this norm."  # a new interval, the old sentence
    with pytest.raises(UserValueError, match=r"epochs.*\[1, inf\)"):
        check_parameters(Machine(), {"epochs": 0})
    with pytest.raises(UserValueError, match=r"clip.*\(0, 1\]"):
        check_parameters(Machine(), {"clip": 2.0})


def test_an_interval_of_a_union_holds_for_its_numbers():
    for value in (None, 1, np.int64(3)):
        check_parameters(Machine(), {"batch_size": value})
    with pytest.raises(UserValueError, match=r"batch_size.*\[1, inf\)"):
        check_parameters(Machine(), {"batch_size": 0})


def test_the_section_parameters_stands_before_the_others():
    doc = Machine.__doc__
    assert doc is not None
    assert doc.index("It has units.") < doc.index("Parameters\n------") < doc.index("Attributes\n------")
    assert "n_units : int in [1, inf), default 3\n    How many units.\n" in doc
    assert 'dtype : {"float32", "float64"} or None, default None\n' in doc
    assert "random_state : int, Generator, RandomState or None, default None\n" in doc
    assert "fitted_" not in doc and "_hidden" not in doc and "kind" not in doc


def test_a_recipe_as_default_is_documented_by_what_is_not_at_its_own_defaults():
    class Game(Machine):
        """A game."""

        optimizer: str | Recipe = Adam(beta1=0.5)

    assert "optimizer : short name or recipe, default Adam(beta1=0.5)\n" in str(Game.__doc__)
    assert Game().get_params()["optimizer"] is Game().get_params()["optimizer"] == Adam(beta1=0.5)


def test_a_constructor_that_is_written_stays():
    assert Written(width=2).width == 2 and Below(width=3).width == 3
    assert Below.__doc__ == "Has it from its base."


class Said(Fields):
    """What a class says of its fields."""

    slots: ClassVar[Any] = {"part": Optimizer, "other": Optimizer}
    acts_with: ClassVar[Any] = {"a": {"b": 1}, "c": {"b": 2}}
    inert_fields: ClassVar[Any] = {"d": "for one reason"}


class SaidAgain(Said):
    """What it says anew."""

    slots: ClassVar[Any] = {"part": Schedule}
    acts_with: ClassVar[Any] = {"a": {"b": 3}}
    inert_fields: ClassVar[Any] = {"d": "for another"}


def test_what_a_class_says_again_replaces_what_its_bases_say(tmp_path):
    assert SaidAgain.slots == {"part": Schedule, "other": Optimizer}
    assert SaidAgain.acts_with == {"a": {"b": 3}, "c": {"b": 2}}
    assert SaidAgain.inert_fields == {"d": "for another"} and Said.inert_fields == {"d": "for one reason"}
    # and what is read of the source agrees
    head = "".join(f"from {one.__module__} import {one.__name__}\n" for one in (Fields, Optimizer, Schedule))
    (tmp_path / "said.py").write_text(head + inspect.getsource(Said) + inspect.getsource(SaidAgain))
    module = SourceModule("said", tmp_path / "said.py")
    places = {"part": "gnomon.training.schedules:Schedule", "other": "gnomon.training.optimizers:Optimizer"}
    assert module.mapping(module.own["SaidAgain"], "slots") == places


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (int, "int"),
        (Annotated[float, "(0, 1)"], "float in (0, 1)"),
        (Annotated[int | None, "[1, inf)"], "int in [1, inf) or None"),
        (Annotated[int, "[1, inf)"] | None, "int in [1, inf) or None"),
        (Literal["a", 2], '{"a", 2}'),
        (str | Recipe, "short name or recipe"),
        (tuple[int, float], "tuple (int, float)"),
        (Any, "Any"),
    ],
)
def test_words_of_types(hint, words):
    assert type_words(hint) == words


def test_the_card_reads_the_same_without_importing(tmp_path, monkeypatch):
    source = inspect.getsource(Machine)
    head = "from gnomon.system.fields import HasDtype, Seeded, TrainedByGradient\n\n\n"
    (tmp_path / "fieldplug.py").write_text(head + source)
    monkeypatch.syspath_prepend(tmp_path)
    about = read(Entry("machine", "", "", "model", (), "fieldplug:Machine", "", ()))
    found = [(p.name, p.default, p.description) for p in about.parameters]
    assert found == [(one.name, one.default, " ".join(one.doc.split())) for one in declarations(Machine)]
    kinds = {p.name: str(p) for p in about.parameters}
    assert kinds["sizes"] == "int in [1, 9)x..." and kinds["clip"] == "float in (0, 1] or none"
    assert kinds["random_state"] == "int or none" and kinds["batch_size"] == "int in [1, inf) or none"
